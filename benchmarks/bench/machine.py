"""Facts about the machine, as far as the results depend on them."""

import os
import platform
from pathlib import Path
from typing import Any


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


def load() -> float | None:
    """Runnable processes, averaged over the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def facts() -> dict[str, Any]:
    return {
        "cpu": cpu_model(),
        "cpus": cpus(),
        "system": f"{platform.system()} {platform.machine()}",
        "load": load(),
    }


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
