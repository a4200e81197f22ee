"""Draws the speeds of a suite's results against n: `python -m bench.plot FOLDER` draws those of a folder again."""

import json
import sys
from pathlib import Path
from typing import Any

SUITE = "stepping"
MODELS = {"osc": "RK4 oscillator", "table": "RK4 oscillator that reads a table", "orbit": "Dormand-Prince orbit"}
MIXES = {
    "spread": "spread: 1 to 1000 steps",
    "uniform": "uniform: all alike",
    "once": "once: one step each",
    "straggler": "straggler: one long, all else short",
    "bimodal": "bimodal: half short, half long",
}
LINES = {  # colours that people who see few of them can tell apart, and markers beside
    "ours": ("eagle, simulate", "#0072b2", "o", "-"),
    "ours run": ("eagle, run()", "#0072b2", "o", ":"),
    "peer": ("raptor-eagle, simulate", "#d55e00", "s", "-"),
    "peer run": ("raptor-eagle, run()", "#d55e00", "s", ":"),
    "numba": ("Numba prange", "#009e73", "^", "-"),
    "jax": ("JAX vmap(while_loop)", "#cc79a7", "D", "-"),
    "torch": ("PyTorch masked", "#7f7f7f", "v", "-"),
}
THREADS = "2 threads"


def draw(folder: Path) -> None:
    """`stepping-<model>.svg` in the folder of `stepping.json`: a panel for each mix, a line for each tool."""
    cells = json.loads((folder / f"{SUITE}.json").read_text())["cells"]
    for model in MODELS:
        found = {mix: _series(cells, f"{model}, {mix}, {THREADS}") for mix in MIXES}
        if any(found.values()):
            _figure(folder / f"{SUITE}-{model}.svg", model, found)


def shown() -> str:
    """The pictures in Markdown."""
    return "\n\n".join(f"![{title}: steps a second against samples, a panel for each mix]({SUITE}-{model}.svg)"
                       for model, title in MODELS.items())


def _series(cells: list[dict[str, Any]], name: str) -> dict[str, list[tuple[int, float]]]:
    """Steps a second against n for each contender; what was not run is left out."""
    series: dict[str, list[tuple[int, float]]] = {}
    for cell in cells:
        if cell["name"] == name and not cell["skipped"]:
            for who, figures in cell["contenders"].items():
                if who in LINES and "median" in figures:
                    series.setdefault(who, []).append((cell["n"], 1 / figures["median"]))
    return series


def _figure(file: Path, model: str, found: dict[str, dict[str, list[tuple[int, float]]]]) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter, LogLocator

    settings = {"svg.hashsalt": model, "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    with pyplot.rc_context(settings):
        figure, grid = pyplot.subplots(2, 3, figsize=(12, 7.4), sharex=True, sharey=True, layout="constrained")
        *panels, corner = grid.flat
        for panel, (mix, series) in zip(panels, found.items(), strict=True):
            for who in [who for who in LINES if who in series]:
                label, colour, marker, style = LINES[who]
                width, order = (2.2 if who == "ours" else 1.4), (3 if "ours" in who else 2)
                panel.plot(*zip(*series[who], strict=True), style, color=colour, marker=marker, markersize=4.5,
                           linewidth=width, label=label, zorder=order)
            panel.set_title(MIXES[mix], loc="left", fontsize=10.5)
            panel.set(xscale="log", yscale="log")
            panel.grid(alpha=0.3, linewidth=0.6)
            panel.yaxis.set_major_locator(LogLocator(10, numticks=12))
            panel.yaxis.set_major_formatter(FuncFormatter(_short))
            panel.xaxis.set_major_formatter(FuncFormatter(_short))
            panel.minorticks_off()
            panel.tick_params(labelbottom=True, labelleft=True)
        for panel in grid[:, 0]:
            panel.set_ylabel("steps taken per second")
        for panel in panels[2:]:
            panel.set_xlabel("samples")
        corner.axis("off")
        handles = {label: handle for panel in panels
                   for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)}
        order = [label for label, *_ in LINES.values() if label in handles]
        corner.legend([handles[label] for label in order], order, loc="center", frameon=False, fontsize=10.5,
                      handlelength=3)
        figure.suptitle(f"{MODELS[model]}, {THREADS}, float64", x=0.01, ha="left", fontsize=12)
        figure.savefig(file, metadata={"Date": None})
        pyplot.close(figure)


def _short(value: float, _: object = None) -> str:
    for scale, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= scale:
            return f"{value / scale:g}{name}"
    return f"{value:g}"


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
