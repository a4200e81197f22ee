"""Facts about the machine, as far as the results depend on them."""

import os
import platform
import time
from pathlib import Path
from typing import Any

QUIET = 0.1  # share of the CPUs' time that others may use


def cpus() -> int:
    """CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_model() -> str:
    """The processor's name, as the system tells it."""
    return _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()


def free_memory() -> int | None:
    """Bytes that can be allocated without swapping, or None where the system does not say."""
    available = _field("/proc/meminfo", "MemAvailable")
    if available is None:
        return None
    free = int(available.split()[0]) * 1024
    limit, used = _number("/sys/fs/cgroup/memory.max"), _number("/sys/fs/cgroup/memory.current")
    return free if limit is None or used is None else min(free, limit - used)


def busy(seconds: float = 1.0) -> float | None:
    """The share of all CPUs' time that others use while this process sleeps; None where the system does not say."""
    before = _ticks()
    time.sleep(seconds)
    after = _ticks()
    if before is None or after is None or after[1] <= before[1]:
        return None
    return round((after[0] - before[0]) / (after[1] - before[1]), 2)


def await_quiet(patience: float) -> None:
    """Waits until others leave the CPUs alone, at most `patience` seconds."""
    end = time.monotonic() + patience
    while time.monotonic() < end and (busy(0.3) or 0.0) > QUIET:
        continue


def facts() -> dict[str, Any]:
    return {
        "cpu": cpu_model(),
        "cpus": cpus(),
        "system": f"{platform.system()} {platform.machine()}",
        "busy_before": busy(),
    }


def _ticks() -> tuple[int, int] | None:
    """Clock ticks of all CPUs since the start: those in use, and all."""
    if not Path("/proc/stat").exists():
        return None
    ticks = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def _field(file: str, name: str) -> str | None:
    if not Path(file).exists():
        return None
    for line in Path(file).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _number(file: str) -> int | None:
    text = Path(file).read_text().strip() if Path(file).exists() else ""
    return int(text) if text.isdigit() else None
