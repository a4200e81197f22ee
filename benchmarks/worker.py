"""One tool's process: reads a request a line on stdin, answers a line on stdout, both JSON.

`open` sets a job up, by a name, and calibrates it, `round` measures once, `close` lets the arrays of all jobs go,
`versions` says what is here.
"""

import json
import os
import sys
from importlib import metadata
from typing import Any

PACKAGES = ["eagle", "eagle-core", "eagle-backend-cpu", "raptor-eagle", "raptor-hawk", "raptor-core", "numpy",
            "torch", "jax", "numba"]


class Worker:
    """Holds the jobs of one cell."""

    def __init__(self) -> None:
        self.jobs: dict[str, Any] = {}

    def open(self, name: str, job: str, params: dict[str, Any], target: float) -> dict[str, Any]:
        from graph_jobs import GRAPH_JOBS
        from jobs import JOBS
        from steppers.jobs import STEPPING_JOBS

        self.jobs[name] = opened = (JOBS | STEPPING_JOBS | GRAPH_JOBS)[job](**params)
        calls = opened.prepare(target)
        return {"calls": calls, "digest": opened.digest(), "summary": opened.summary, "only": opened.only,
                "steps": opened.steps}

    def round(self, name: str) -> dict[str, Any]:
        return {"value": self.jobs[name].round()}

    def close(self) -> dict[str, Any]:
        self.jobs.clear()
        return {}

    def versions(self) -> dict[str, Any]:
        found = {"python": sys.version.split()[0]}
        for name in PACKAGES:
            try:
                found[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                continue
        return found


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a tool prints is no answer
    worker = Worker()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(worker, request.pop("do"))(**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
