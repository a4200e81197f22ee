# SPDX-License-Identifier: Apache-2.0
"""Where a plan runs and how its samples are cut: structures and partitions."""

from __future__ import annotations

from typing import NamedTuple

from .errors import refusal

__all__ = ["ACCESS_CLASSES", "HostTeam", "Partition", "Structure", "check_placement"]


class Partition(NamedTuple):
    """The range of one launch: samples ``[base, base + count)`` of `n_samples`."""

    base: int = 0
    count: int = 0
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
        raise ValueError(refusal(door, "structure", repr(structure), repr(HostTeam.name)))
    if access not in ACCESS_CLASSES:
        raise ValueError(refusal(door, "access", repr(access), f"one of {ACCESS_CLASSES}"))
    if npartitions < 1:
        raise ValueError(refusal(door, "npartitions", str(npartitions), "at least 1"))
    if access == "cross_sample_write" and npartitions > 1:
        raise ValueError(refusal(door, "npartitions", f"{npartitions} for a {access} kernel on {name}", "1",
                                 "samples that write each other's cells have no combine of partial targets"))
