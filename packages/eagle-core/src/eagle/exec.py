# SPDX-License-Identifier: Apache-2.0
"""Where a plan runs: structures, partitions, and the threads of the host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from eagle import _core, backends
from eagle.errors import refusal, shown

__all__ = ["ACCESS_CLASSES", "HostTeam", "Partition", "Structure", "check_placement", "checking",
           "num_threads", "set_num_threads"]

MOST_THREADS = 1024


class Partition(NamedTuple):
    """The range of one launch: samples ``[base, base + count)`` of `n_samples`."""

    base: int = 0
    count: int = 0  # type: ignore[assignment]  # instead of tuple.count
    n_samples: int = 0

    @classmethod
    def whole(cls, n: int) -> Partition:
        """All of `n` samples."""
        return cls(0, n, n)

    def is_whole(self) -> bool:
        return self.base == 0 and self.count == self.n_samples


class Structure:
    """What a plan runs on. The instances of this module are all there are; compare them by identity or name."""

    __slots__ = ("name",)

    name: str

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "name", name)

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(refusal("eagle.exec.Structure", attribute, "an assignment", "no change"))

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[type[Structure], tuple[str]]:
        return Structure, (self.name,)


#: The thread team of the host backend.
HostTeam = Structure("host_team")

ACCESS_CLASSES = ("sample_local", "cross_sample_read", "cross_sample_write", "mapreduce")


def check_placement(access: str, structure: Structure | str, npartitions: int = 1) -> None:
    """Raise ValueError when a kernel of this access class cannot run on `structure` in so many partitions."""
    door = "eagle.exec.check_placement"
    name = structure.name if isinstance(structure, Structure) else structure
    if name != HostTeam.name:
        raise ValueError(refusal(door, "structure", shown(structure), repr(HostTeam.name)))
    if access not in ACCESS_CLASSES:
        raise ValueError(refusal(door, "access", shown(access), f"one of {ACCESS_CLASSES}"))
    if npartitions < 1:
        raise ValueError(refusal(door, "npartitions", str(npartitions), "at least 1"))
    if access == "cross_sample_write" and npartitions > 1:
        raise ValueError(refusal(door, "npartitions", f"{npartitions} for a {access} kernel on {name}", "1",
                                 "samples that write each other's cells have no combine of partial targets"))


def num_threads() -> int:
    """The threads a host launch may use, the calling one included.

    It starts as ``$EAGLE_NUM_THREADS``, else ``$OMP_NUM_THREADS``, else what the process's CPU affinity and cgroup
    quota allow. Raises BackendUnavailable without a backend for host memory.
    """
    return backends.host().team_size(0)


def set_num_threads(n: int) -> int:
    """Let host launches use `n` threads from now on, and return how many it was before. Results never depend on it.

    Raises TypeError for what is no integer, ValueError outside 1 to 1024, BackendUnavailable without a backend for
    host memory.
    """
    door = "eagle.set_num_threads"
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(refusal(door, "n", shown(n), "an integer"))
    if not 1 <= n <= MOST_THREADS:
        raise ValueError(refusal(door, "n", str(n), f"1 to {MOST_THREADS}"))
    return backends.host().team_size(n)


@contextmanager
def checking() -> Iterator[None]:
    """While it is open, every launch of the process is checked: an index outside its plane raises OutOfBounds.

    A checked launch runs on one thread over copies of its planes, and copies back what it wrote; it gives the bits of
    an unchecked one, and changes no plane when it raises. May be nested, and open in several threads.
    ``EAGLE_CHECK=1``, read when eagle is imported, has the same effect for the whole process. POSIX only: elsewhere a
    checked launch raises RuntimeError.
    """
    _core.ask_checks(1)
    try:
        yield
    finally:
        _core.ask_checks(-1)
