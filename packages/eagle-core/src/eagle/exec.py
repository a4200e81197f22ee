# SPDX-License-Identifier: Apache-2.0
"""Where a plan runs: structures, partitions, and the threads of the host."""

from __future__ import annotations

import ctypes
import math
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

from eagle import _core, backends
from eagle.abi import ABI_TAG_V1, ABI_TAG_V2, LAYOUT_FIELDS, LAYOUT_SIZES, LAYOUT_SYMBOL
from eagle.dtypes import INT64_MAX
from eagle.errors import BackendUnavailable, refusal, shown
from eagle.integers import index_of

__all__ = ["ABI_TAG_V1", "ABI_TAG_V2", "ACCESS_CLASSES", "DeviceGroup", "DeviceKernel", "HostTeam", "LAYOUT_SYMBOL",
           "Partition", "RankPartition", "Structure", "check_layout_sizes", "check_placement", "checking",
           "fold", "layout_sizes", "num_threads", "set_num_threads"]


def __dir__() -> list[str]:
    return sorted(__all__)


MOST_THREADS = 1024
MOST_BLOCK = 2**32 - 1

LINE = 8  # float64 values of a cache line: a tile is a multiple
TILES = (64, 256, 4096)  # least, where bytes are not told, most samples of a tile
USUAL_L2 = 2**20


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


# ---- structures ------------------------------------------------------------------------------------------------------


class Structure:
    """What a plan runs on. The instances of this module are all there are; compare them by identity or name."""

    __slots__ = ("name",)

    name: str

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "name", name)

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(refusal("eagle.exec.Structure", attribute, "an assignment", "no change",
                                     "use another structure"))

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _structure, (type(self), self.name)


class _HostTeam(Structure):
    """The thread team of the host backend. `entry` is the address of an aether-abi/2 host entry, `params` the address
    of an array of addresses, one an argument, or a sequence of these. They are not checked: wrong ones crash.
    """

    __slots__ = ()

    def run(self, entry: int, params: int | Sequence[int], partition: Partition, *, bytes_per_sample: int = 0) -> int:
        """Run a range on the team and return its number of tiles, 0 for an empty one. Which thread runs what is the
        backend's choice; it never shows in results of kernels that touch only their own sample.

        Raises TypeError and ValueError for arguments that cannot be, BackendUnavailable without a host backend.
        """
        door = "HostTeam.run"
        part = _partition(door, partition)
        tile = self.tile_size(bytes_per_sample)
        _launch(door, entry, params, part, tile)
        return self.tile_count(part, bytes_per_sample)

    def run_serial(self, entry: int, params: int | Sequence[int], partition: Partition) -> None:
        """Run a range by one call on this thread. Raises what :meth:`run` raises."""
        door = "HostTeam.run_serial"
        part = _partition(door, partition)
        if part.count > MOST_BLOCK:
            raise ValueError(refusal(door, "partition", shown(part), f"at most {MOST_BLOCK} samples in one call",
                                     "cut it"))
        _launch(door, entry, params, part, max(part.count, 1))

    def tile_size(self, bytes_per_sample: int = 0) -> int:
        """The samples of a tile that half a core's L2 cache holds, 64 to 4096; 256 when the bytes are not told (0)."""
        least, usual, most = TILES
        size = _integer("HostTeam.tile_size", "bytes_per_sample", bytes_per_sample)
        return usual if size == 0 else min(max(_l2_bytes() // 2 // size // LINE * LINE, least), most)

    def tile_count(self, partition: Partition, bytes_per_sample: int = 0) -> int:
        """The tiles of a range."""
        part = _partition("HostTeam.tile_count", partition)
        return -(-max(part.count, 0) // self.tile_size(bytes_per_sample))


class _DeviceKernel(Structure):
    """A kernel launch on a device."""

    __slots__ = ()

    def run(self, function: int, params: int | Sequence[int], partition: Partition, *, stream: int = 0,
            block: int = 256, device: int = -1) -> NoReturn:
        """Raises BackendUnavailable: this version launches nothing on a device."""
        door = "DeviceKernel.run"
        self.grid(_partition(door, partition).count, block)
        kind = backends.resolve("gpu")
        raise BackendUnavailable(refusal(door, "device", f"backend {kind!r}", "a version that launches on devices",
                                         "run the kernel on HostTeam"))

    def grid(self, count: int, block: int = 256) -> int:
        """The blocks of `block` threads that `count` lanes take, 0 for none. ValueError for a block below 1."""
        door = "DeviceKernel.grid"
        threads = _integer(door, "block", block, least=1, most=MOST_BLOCK)
        return -(-max(_integer(door, "count", count, least=-INT64_MAX), 0) // threads)


class _RankPartition(Structure):
    """A range cut over the ranks of an MPI run. Plans of it can be made; this version runs none."""

    __slots__ = ()

    #: Whether ranks can run.
    available = False

    def world(self) -> tuple[int, int]:
        """This rank and the number of ranks. Raises RuntimeError without MPI."""
        self._refuse("world")

    def local(self, partition: Partition) -> Partition:
        """This rank's share of a range. Raises RuntimeError without MPI."""
        self._refuse("local")

    def run(self, entry: int, params: int | Sequence[int], partition: Partition, *, inner: Structure | None = None,
            bytes_per_sample: int = 0, stream: int = 0, block: int = 256) -> int:
        """Run this rank's share on `inner`. Raises RuntimeError without MPI."""
        self._refuse("run")

    def allgather_plane(self, address: int, partition: Partition, elems_per_sample: int = 1) -> None:
        """Gather a float64 plane in place. Raises RuntimeError without MPI."""
        self._refuse("allgather_plane")

    def allgather_fold(self, op: str, partial: float) -> float:
        """:func:`fold` one value a rank, in rank order. Raises RuntimeError without MPI."""
        self._refuse("allgather_fold")

    def _refuse(self, method: str) -> NoReturn:
        raise RuntimeError(refusal(f"RankPartition.{method}", "structure", "no MPI runtime in this version",
                                   "the extra 'mpi'", "pip install 'eagle[mpi]' of a release that has it"))


class _DeviceGroup(Structure):
    """Several devices as one. Nothing runs on it."""

    __slots__ = ()

    def run(self, *args: Any, **kw: Any) -> NoReturn:
        """Raises RuntimeError: NCCL is not implemented."""
        raise RuntimeError(refusal("DeviceGroup.run", "structure", "NCCL not implemented", "one device or the host",
                                   "use DeviceKernel or HostTeam"))


DeviceKernel = _DeviceKernel("device_kernel")
#: The thread team of the host backend.
HostTeam = _HostTeam("host_team")
RankPartition = _RankPartition("rank_partition")
DeviceGroup = _DeviceGroup("device_group")

ACCESS_CLASSES = ("sample_local", "cross_sample_read", "cross_sample_write", "mapreduce")
_STRUCTURES = {structure.name: structure for structure in (DeviceKernel, HostTeam, RankPartition, DeviceGroup)}


def _structure(kind: type[Structure], name: str) -> Structure:
    """What a copy or a pickle of a structure gives: the one of this module, where it has that name."""
    return _STRUCTURES.get(name) or kind(name)


def check_placement(access: str, structure: Structure | str, npartitions: int = 1, *,
                    door: str = "eagle.exec.check_placement") -> None:
    """Raise ValueError, for the door named `door`, when a kernel of this access class cannot run on `structure` in so
    many partitions.

    Kernels that write cells of other samples run as one partition, on no ranks: targets that hold a part of the sums
    have no combine. Nothing runs on a group of devices. Everything else runs in any number of partitions.
    """
    name = structure.name if isinstance(structure, Structure) else structure
    if not isinstance(name, str) or name not in _STRUCTURES:
        raise ValueError(refusal(door, "structure", shown(structure), f"one of {tuple(_STRUCTURES)}",
                                 "pass a structure of eagle.exec"))
    if not isinstance(access, str) or access not in ACCESS_CLASSES:
        raise ValueError(refusal(door, "access", shown(access), f"one of {ACCESS_CLASSES}",
                                 "pass the exec_access of a plugin"))
    count = _integer(door, "npartitions", npartitions, least=1)
    what = f"{count} for a {access} kernel on {name}"
    if name == DeviceGroup.name:
        raise ValueError(refusal(door, "npartitions", what, "another structure: NCCL not implemented",
                                 "use device_kernel or host_team"))
    if access == "cross_sample_write" and name == RankPartition.name:
        raise ValueError(refusal(door, "npartitions", what, "no ranks: partial targets have no combine",
                                 "use device_kernel or host_team"))
    if access == "cross_sample_write" and count > 1:
        raise ValueError(refusal(door, "npartitions", what, "1: it writes cells of other samples and runs as one range",
                                 "leave npartitions and partitions out"))


# ---- folds and layouts -----------------------------------------------------------------------------------------------

_FOLDS = {"sum": (0.0, operator.add), "times": (1.0, operator.mul),
          "max": (-math.inf, lambda a, b: b if b > a or b != b else a),  # a NaN on the left stays: nothing is greater
          "land": (1.0, lambda a, b: 1.0 if a != 0 and b != 0 else 0.0)}


def fold(op: str, values: Iterable[Any]) -> float:
    """`values` combined from left to right, from the identity: ``"sum"`` from 0, ``"times"`` from 1, ``"max"`` from
    minus infinity, ``"land"`` (1.0 when no value is 0, else 0.0) from 1.

    One NaN makes sum, times and max NaN; land counts it as true, since it is not 0. max keeps the left one of equals.
    Raises ValueError for an unknown op and a number float64 cannot hold, TypeError for what is no number.
    """
    door = "eagle.exec.fold"
    if not isinstance(op, str) or op not in _FOLDS:
        raise ValueError(refusal(door, "op", shown(op), f"one of {tuple(_FOLDS)}", "pass the exec_op of a plugin"))
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(refusal(door, "values", shown(values), "an iterable of numbers", "pass a list"))
    total, combine = _FOLDS[op]
    for value in values:
        if isinstance(value, str | bytes) or not hasattr(type(value), "__float__"):
            raise TypeError(refusal(door, "values", shown(value), "a number", "convert it first"))
        try:
            number = float(value)
        except OverflowError:
            raise ValueError(refusal(door, "values", shown(value), "a number float64 holds", "scale it")) from None
        total = combine(total, number)
    return total


def layout_sizes() -> list[int]:
    """The bytes of each box, in the order of an artifact's :data:`LAYOUT_SYMBOL`."""
    return list(LAYOUT_SIZES)


def check_layout_sizes(sizes: Mapping[str, int] | Sequence[int]) -> None:
    """Refuse box sizes that are not this build's: some by field name, or all in order.

    Raises ValueError naming the field and both sizes, an unknown field, or a wrong length.
    """
    door = "eagle.exec.check_layout_sizes"
    if isinstance(sizes, Mapping):
        named = dict(sizes)
    elif isinstance(sizes, Iterable) and not isinstance(sizes, str | bytes):
        listed = list(sizes)
        if len(listed) != len(LAYOUT_FIELDS):
            raise ValueError(refusal(door, "sizes", f"{len(listed)} sizes", f"{len(LAYOUT_FIELDS)}: {LAYOUT_FIELDS}",
                                     "pass all that the artifact exports"))
        named = dict(zip(LAYOUT_FIELDS, listed, strict=True))
    else:
        raise TypeError(refusal(door, "sizes", shown(sizes), "a dict or a sequence", "pass layout_sizes()"))
    wanted = dict(zip(LAYOUT_FIELDS, LAYOUT_SIZES, strict=True))
    for field, size in named.items():
        if field not in wanted:
            raise ValueError(refusal(door, "sizes", f"the field {shown(field)}", f"one of {LAYOUT_FIELDS}",
                                     "leave it out"))
        if size != wanted[field]:
            raise ValueError(refusal(door, field, f"{shown(size)} bytes", f"{wanted[field]} bytes",
                                     "rebuild the artifact with headers of this ABI"))


# ---- threads ---------------------------------------------------------------------------------------------------------


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
    return backends.host().team_size(_integer("eagle.set_num_threads", "n", n, least=1, most=MOST_THREADS))


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


# ---- arguments -------------------------------------------------------------------------------------------------------


def _integer(door: str, argument: str, value: Any, least: int = 0, most: int = INT64_MAX) -> int:
    if (number := index_of(value)) is None:
        raise TypeError(refusal(door, argument, shown(value), "an integer", "convert it first"))
    if not least <= number <= most:
        raise ValueError(refusal(door, argument, shown(number), f"{least} to {most}", "pass one within"))
    return number


def _partition(door: str, value: Any) -> Partition:
    """A range within its samples; one of no samples, or fewer, is empty."""
    if not isinstance(value, tuple) or len(value) != 3:
        raise TypeError(refusal(door, "partition", shown(value), "a Partition", "pass Partition(base, count, n)"))
    part = Partition(*(_integer(door, "partition", number, least=-INT64_MAX) for number in value))
    if part.count > 0 and not 0 <= part.base <= part.n_samples - part.count:
        raise ValueError(refusal(door, "partition", shown(part), "a range within its samples",
                                 "pass Partition(base, count, n) with base + count <= n"))
    return part


def _launch(door: str, entry: Any, params: Any, part: Partition, block: int) -> None:
    address = _integer(door, "entry", entry, least=1, most=2**64 - 1)
    if isinstance(params, Sequence) and not isinstance(params, str | bytes):
        boxes = (ctypes.c_uint64 * len(params))(
            *(_integer(door, f"params[{i}]", box, least=1, most=2**64 - 1) for i, box in enumerate(params)))
        table, count = ctypes.addressof(boxes), len(params)
    else:
        table, count = _integer(door, "params", params, least=1, most=2**64 - 1), 0
    if part.count > 0:
        backends.host().run_device(address, table, count, *part, block)


def _l2_bytes() -> int:
    """The L2 cache of one core, where the system tells, else a usual one."""
    try:
        found = os.sysconf("SC_LEVEL2_CACHE_SIZE")
    except (AttributeError, OSError, ValueError):
        found = 0
    if found <= 0:
        try:
            with open("/sys/devices/system/cpu/cpu0/cache/index2/size", encoding="ascii") as file:
                text = file.read().strip()
            found = int(text.rstrip("KM")) * {"K": 2**10, "M": 2**20}.get(text[-1:], 1)
        except (OSError, ValueError):
            found = 0
    return found if found > 0 else USUAL_L2
