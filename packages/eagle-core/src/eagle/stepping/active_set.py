# SPDX-License-Identifier: Apache-2.0
"""``ActiveSet``: which samples of a batch are not finished, and the moves that bring them together in memory."""

from __future__ import annotations

import numbers
from typing import Any, SupportsIndex, cast

import numpy as np

from eagle import _core, backends
from eagle.backends.choosing import HOST_MEMORY
from eagle.errors import BufferRefused, LayoutError, refusal, shown
from eagle.integers import index_of
from eagle.interop.held import Holder, Memory
from eagle.nodes import SkipGuard, Skippable, skippable
from eagle.stepping.arrays import (
    THETAS,
    Array,
    address_of,
    check_plane,
    memory_of,
    module_of,
    require_contiguous,
    require_side,
    rows_of,
)
from eagle.stepping.interrupts import Hold, Interrupts

__all__ = ["ActiveSet"]

DOOR = "eagle.ActiveSet"
MOST_SAMPLES = 2**31 - 1  # indices have 31 bits
CLASSES = (2, 255)
PART = 1 << 16  # samples put back at a time: what is allocated for them stays small


class ActiveSet:
    """The live samples of a batch, by its mask: a byte a sample, set where it is finished.

    mask: bool or uint8 (n,), of NumPy or CuPy. reorder: theta in [0.25, 0.75], or True for 0.5: the set can move live
    samples together once they fill less than theta of their groups of 32 slots; it then owns the mask and the planes
    given to :meth:`own`. classes, class_plane (uint8 (n,)), class_theta: the set can sort live samples by class.
    epochs: keep a copy of perm for each move. group: samples that live and die together.

    It begins as "all live" and reads the mask in :meth:`compact` alone. Its arrays may be read at any time, and those
    that say where samples are may not be written; used from one thread at a time.

    Raises TypeError for what is no array or number, ValueError for arrays and values that do not fit,
    BackendUnavailable where no backend can.
    """

    mask: Array
    n: int
    group: int
    n_groups: int
    map: Array  #: int32 (n,): the live positions, ascending, in the first `live` entries; of a group set, live groups
    count: Array  #: uint32 (1,): how many are live; of a group set, live groups times group
    theta: float | None
    # Of a set that reorders, else None.
    perm: Any  #: int32 (n,): slot s holds sample perm[s]
    inv: Any  #: int32 (n,): sample i is in slot inv[i]
    span: Any  #: uint32 (1,): slots in play
    fire: Any  #: uint32 (1,): a reorder is due
    live32: Any  #: uint32 (1,): groups of 32 slots with a live sample
    reorders: Any  #: uint32 (1,): since the last reset
    # Of a set with classes, else None.
    classes: int | None
    class_theta: float | None
    class_plane: Any
    offsets: Any  #: uint32 (classes + 1,): where the live samples of each class begin, as of the last sort
    class_sorts: Any  #: uint32 (1,): since the last reset
    mixed32: Any  #: uint32 (1,): groups of 32 slots with live samples of two classes or more
    class_fire: Any  #: uint32 (1,): a class sort is due
    stale_count: Any  #: uint32 (1,): input, the samples whose class has changed since the last sort

    def __init__(self, mask: Any, *, reorder: float | bool | None = None, classes: SupportsIndex | None = None,
                 class_plane: Any = None, class_theta: float | None = None, epochs: bool = False,
                 group: SupportsIndex = 1) -> None:
        self._memory = memory_of(DOOR, "mask", mask)
        _check_mask(mask)
        self.mask, self.n, self.theta = mask, mask.size, _reorder_theta(reorder)
        self.group = _whole("group", group, 1, MOST_SAMPLES)
        self.n_groups = -(-self.n // self.group)
        if self.group > 1 and self.theta is not None:
            raise ValueError(refusal(DOOR, "group", f"{self.group}, with reorder=", "1 where samples are moved",
                                     "leave one of them out: a reorder would split the groups"))
        self.classes = _number_of_classes(classes, self.theta, class_plane, class_theta)
        self.class_plane, self.class_theta = class_plane, None
        if self.classes is not None:
            _check_class_plane(class_plane, self.n, self._memory)
            self.class_theta = _theta("class_theta", 0.5 if class_theta is None else class_theta)
        self._backend = backends.load(backends.for_device_type(self._memory.device_type))
        self._xp = module_of(DOOR, mask)
        self._make_arrays()
        self._epochs: tuple[Array, ...] | None = () if epochs else None
        self._seen: list[Array] = []  # what the counters of when_finished were when they last ran
        self._owned: list[Any] = []
        self._indirect: list[Any] = []
        self._fixed = False
        self._seat = Holder(memory_of(DOOR, "map", self.map), self.group, self.theta is not None)
        self._holder = None if self.theta is None else self._seat
        self._moves: dict[str, _core.Filter] = {}  # calls, by what they do
        self._scratch: tuple[Any, int] = (self._xp.empty(0, self._xp.uint8), 0)  # for all calls, and its address
        if self._holder is not None:
            self._claim(self._holder, DOOR, {"mask": mask} | ({} if class_plane is None else
                                                             {"class_plane": class_plane}))
        self._compaction = self._ready(self._make_compaction())
        self._begin()
        self._made = True

    def _make_arrays(self) -> None:
        xp, moves, sorts = self._xp, self.theta is not None, self.classes is not None
        cells = iter(xp.zeros(16, xp.uint32).reshape(16, 1))
        self._map, self._count = xp.arange(self.n, dtype=xp.int32), next(cells)
        self.map, self.count = _shown(self._map), _shown(self._count)
        self.perm, self.inv = (_shown(xp.arange(self.n, dtype=xp.int32)) if moves else None for _ in range(2))
        self.span, self.fire, self.live32, self.reorders = (next(cells) if moves else None for _ in range(4))
        self.class_sorts, self.mixed32, self.class_fire, self.stale_count = (
            next(cells) if sorts else None for _ in range(4))
        self.offsets = None if self.classes is None else xp.zeros(self.classes + 1, xp.uint32)

    def __setattr__(self, name: str, value: object) -> None:
        if "_made" in self.__dict__ and not name.startswith("_"):
            raise AttributeError(refusal(f"{DOOR}.{name}", "assignment", shown(value), "none",
                                         "its calls change it; stale_count takes elements"))
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        facts = [f"n={self.n}", "host" if self._on_host else f"device {self._memory.device_id}"]
        facts += [f"{name}={value}" for name, value, usual in (
            ("group", self.group, 1), ("reorder", self.theta, None), ("classes", self.classes, None)) if value != usual]
        return f"ActiveSet({', '.join(facts)})"

    # ---- what is live ------------------------------------------------------------------------------------------------

    @property
    def live(self) -> int:
        """How many samples are live, as of the last compaction; a device is waited for."""
        return int(self.count[0])

    @property
    def permuted(self) -> bool:
        """Whether samples were moved since the last :meth:`restore` or :meth:`reset`."""
        return self._holder is not None and self._holder.permuted

    @property
    def epochs(self) -> tuple[Array, ...]:
        """Copies of perm, one for each move since the last reset; empty without ``epochs=True``."""
        return self._epochs or ()

    def compact(self) -> None:
        """Rebuild map and count from the mask, and decide what is due: fire, class_fire and what they come from."""
        if self.group > 1:
            self._compact_groups()
        self._compaction.run(self._scratch[1])
        if self.group > 1:
            self._count[:] = self._count * self.group

    def active(self) -> None:
        """The same as :meth:`compact`."""
        self.compact()

    def rebuild(self) -> None:
        """:meth:`compact` for a mask that somebody edited: a sample that is live again is in play wherever it lies."""
        if self.span is not None:
            self.span[0] = self.n
        self.compact()

    def reset(self) -> None:
        """All live, samples in their own order, counts 0. The mask keeps its values, and moves back as planes do."""
        if self.permuted:
            self._put_back()
        self._begin()

    def planes(self) -> dict[str, Array]:
        """The map and its count under the names a compacting kernel has for them, for ``bind``."""
        return {"active_map": self.map, "active_count": self.count}

    def when_finished(self, finished: Any) -> Skippable:
        """A compaction that runs when the counter `finished`, uint32 (1,), moved since it last ran. Raises ValueError
        for another array."""
        door = f"{DOOR}.when_finished"
        if type(finished) is not type(self.count) or finished.dtype != np.uint32 or finished.shape != (1,):
            raise ValueError(refusal(door, "finished", shown(finished),
                                     f"a uint32 array of one element, a {type(self.count).__module__} one",
                                     "pass the counter bound as finished_count"))
        seen = self._xp.zeros(1, self._xp.uint32)  # none has finished while all are live
        self._seen.append(seen)

        def compact() -> None:
            seen[:] = finished
            self.compact()

        return skippable(compact, SkipGuard(finished, 0, seen, 0))

    def prepare_compaction(self) -> None:
        """Allocate all scratch memory now, ahead of a capture or a run."""
        for what in self._kinds_of_moves():
            self._move_of(what)

    # ---- what moves --------------------------------------------------------------------------------------------------

    def own(self, *planes: Any) -> ActiveSet:
        """Hand planes over, (n,) or (D, n), to move with every reorder; the set itself is returned.

        All of them are taken, or none. Raises TypeError for planes of another library or side, ValueError for those
        that do not fit, may not be written, share memory with an owned one, or come when the planes are fixed.
        """
        door = f"{DOOR}.own"
        holder = self._reordering(door)
        if self._fixed or holder.bound or self.permuted:
            raise ValueError(refusal(door, "planes", "a set whose planes are fixed", "planes before the first reorder",
                                     "own every plane before it is bound and before reorder_if_degraded()"
                                     if self._fixed or holder.bound else "restore() the set, or own every plane first"))
        self._claim(holder, door, {f"plane {i}": plane for i, plane in enumerate(planes)})
        return self

    def indirect(self, *planes: Any) -> ActiveSet:
        """Declare planes that stay in sample order; the set itself is returned. Raises as :meth:`own`."""
        door = f"{DOOR}.indirect"
        holder = self._reordering(door)
        places = [memory_of(door, f"plane {i}", plane) for i, plane in enumerate(planes)]
        for i, place in enumerate(places):
            require_side(door, f"plane {i}", place, self._memory)
        self._indirect.extend(planes)
        holder.staying += places
        return self

    def moves(self, plane: Any) -> bool:
        """Whether the set owns this very array: the mask and the class plane of a reordering set are among them."""
        return any(own is plane for own in self._owned)

    def keeps(self, plane: Any) -> bool:
        """Whether this very array was declared :meth:`indirect`."""
        return any(one is plane for one in self._indirect)

    def bytes_per_sample(self) -> int:
        """What a move carries for each sample, without perm; 0 for a set that does not reorder."""
        return sum(rows * size for rows, size in map(rows_of, self._owned))

    def reorder(self) -> None:
        """If it is due, by fire (a class set: by class_fire): a stable partition of the slots in play, live first.

        Every owned plane, the mask, perm and inv move; map is the identity, span the count. Raises ValueError for a set
        that does not reorder.
        """
        self._reordering(f"{DOOR}.reorder")
        if self._due[0]:
            self._move()

    def reorder_if_degraded(self) -> Skippable:
        """:meth:`reorder` as a Skippable on its trigger. From now on the owned planes are fixed.

        Raises ValueError for a set that does not reorder.
        """
        self._reordering(f"{DOOR}.reorder_if_degraded")
        self._fixed = True
        return skippable(self._move, SkipGuard(self._due))

    def class_sort(self, within_live: bool = False, if_fired: bool = False) -> bool:
        """Order the slots in play: live ones by class, ties as they lay, then finished ones. Whether it ran.

        within_live: sort the first `count` slots alone, which hold live samples. if_fired: only where class_fire is
        set. Raises ValueError for a set without classes and where the class plane holds no class.
        """
        door = f"{DOOR}.class_sort"
        if self.classes is None:
            raise ValueError(refusal(door, "set", "one without classes", "one with them",
                                     "make it ActiveSet(mask, reorder=0.5, classes=K, class_plane=...)"))
        if if_fired and not self.class_fire[0]:
            return False
        slots = int(self.count[0] if within_live else self.span[0])
        if slots and (highest := int(self.class_plane[:slots].max())) >= self.classes:
            raise ValueError(refusal(door, "class_plane", f"class {highest}", f"classes 0 to {self.classes - 1}",
                                     "correct the plane, or make the set with more classes"))
        self._carry_out("within_live" if within_live else "class_sort")
        return True

    def restore(self) -> None:
        """Put owned planes back in sample order and rebuild the map; nothing for a set that does not reorder."""
        if self._holder is None:
            return
        if self.permuted:
            self._put_back()
        self.compact()

    def in_sample_order(self, plane: Any) -> Any:
        """A copy of an owned plane with its samples in their own order. Raises ValueError for another array."""
        door = f"{DOOR}.in_sample_order"
        self._reordering(door)
        if not self.moves(plane):
            raise ValueError(refusal(door, "plane", f"a {type(plane).__name__} the set does not own", "an owned plane",
                                     "pass the very array; an indirect plane is in sample order as it is"))
        return plane[..., self.inv]

    # ---- inside ------------------------------------------------------------------------------------------------------

    @property
    def _on_host(self) -> bool:
        return self._memory.device_type == HOST_MEMORY

    @property
    def _due(self) -> Any:
        return self.fire if self.classes is None else self.class_fire

    def _reordering(self, door: str) -> Holder:
        if self._holder is None:
            raise ValueError(refusal(door, "set", "one that does not reorder", "one that does",
                                     "make it ActiveSet(mask, reorder=0.5)"))
        return self._holder

    def _begin(self) -> None:
        """All live, in sample order; nothing is moved."""
        if self._holder is None:
            self._map[:] = self._xp.arange(self.n, dtype=self._xp.int32)
        else:
            self._backend.reset(**self._slots())
        self._count[0] = self.n if self.group == 1 else self.n_groups * self.group
        for cell in (self.fire, self.live32, self.reorders, self.class_sorts, self.mixed32, self.class_fire,
                     self.offsets, *self._seen):
            if cell is not None:
                cell[:] = 0
        if self._epochs is not None:
            self._epochs = ()

    def _addresses(self, *names: str) -> dict[str, Any]:
        return {name: address_of(getattr(self, name)) for name in names}

    def _slots(self) -> dict[str, Any]:
        return {"device": self._memory.device_id, "n": self.n, "index_map": address_of(self.map),
                **self._addresses("perm", "inv", "count", "span")}

    def _make_compaction(self) -> _core.Filter:
        own = {"device": self._memory.device_id, "n": self.n, "index_map": address_of(self.map),
               "theta": self.theta or 0.0, **self._addresses("mask", "count", "live32", "span", "fire")}
        if self.classes is not None:
            return self._backend.class_compaction(
                **own, classes=self.classes, class_theta=self.class_theta or 0.0,
                **self._addresses("class_plane", "offsets", "mixed32", "stale_count", "class_fire"))
        if self.group > 1:
            self._group_mask = self._xp.empty(self.n_groups, self._xp.bool_)
            own |= {"n": self.n_groups, "mask": address_of(self._group_mask)}
        return self._backend.compaction(**own)

    def _compact_groups(self) -> None:
        """A group is finished when each of its samples is."""
        whole = self.n // self.group
        mask, out, xp = self.mask.view(self._xp.bool_), self._group_mask, self._xp
        xp.all(mask[:whole * self.group].reshape(whole, self.group), axis=1, out=out[:whole])
        if whole < self.n_groups:
            out[whole:] = mask[whole * self.group:].all()

    def _kinds_of_moves(self) -> tuple[str, ...]:
        return () if self._holder is None else ("reorder",) if self.classes is None else ("class_sort", "within_live")

    def _move_of(self, what: str) -> _core.Filter:
        """The call of a move, made when first asked for."""
        if what not in self._moves:
            planes = [(address_of(plane) + row * self.n * size, size) for plane in self._owned
                      for rows, size in (rows_of(plane),) for row in range(rows)]
            own = {**self._slots(), "planes": planes, "mask": address_of(self.mask)}
            self._moves[what] = self._ready(
                self._backend.reordering(**own) if self.classes is None else self._backend.class_reordering(
                    **own, classes=self.classes, within_live=what == "within_live",
                    **self._addresses("class_plane", "offsets", "class_sorts")))
        return self._moves[what]

    def _ready(self, call: _core.Filter) -> _core.Filter:
        """The call itself, once there is scratch memory for it."""
        self._make_room(call.scratch_bytes())
        return call

    def _make_room(self, need: int) -> None:
        if need > self._scratch[0].size:
            scratch = self._xp.empty(need, self._xp.uint8)
            self._scratch = scratch, address_of(scratch)  # at once: a signal may come in between

    def _move(self) -> None:
        if self.classes is not None:
            self.class_sort()
        else:
            self._carry_out("reorder")
            self.reorders[0] += 1

    def _carry_out(self, what: str) -> None:
        move = self._move_of(what)
        with Interrupts(Hold.ALL):
            self._reordering(DOOR).permuted = True
            move.run(self._scratch[1])
            for cell in (self.fire, self.class_fire):
                if cell is not None:
                    cell[0] = 0
        if self._epochs is not None:
            self._epochs = (*self._epochs, self.perm.copy())

    def _put_back(self) -> None:
        """Sample i of each owned plane from slot inv[i] to slot i."""
        self._make_room(self.n * max(plane.dtype.itemsize for plane in self._owned))
        part = PART if self._on_host else self.n
        with Interrupts(Hold.ALL):
            for plane in self._owned:
                for row in plane.reshape(rows_of(plane)[0], self.n):
                    room = self._scratch[0][:row.nbytes].view(row.dtype)
                    for begin in range(0, self.n, part):
                        some = slice(begin, begin + part)
                        self._xp.take(row, self.inv[some], out=room[some], mode="clip")
                    row[:] = room
            self._backend.reset(**self._slots())
            if self.offsets is not None:
                self.offsets[:] = 0
            self._reordering(DOOR).permuted = False

    def _claim(self, holder: Holder, door: str, planes: dict[str, Any]) -> None:
        """Own planes, all or none."""
        claims = []
        for argument, plane in planes.items():
            claims.append(memory_of(door, argument, plane))
            require_side(door, argument, claims[-1], self._memory)
            check_plane(door, argument, plane, self.n)
        if (taken := holder.claim(claims)) is not None:
            index, other = taken
            whose = "this set" if other is holder else "another ActiveSet"
            raise BufferRefused(refusal(door, list(planes)[index], f"memory of a plane that {whose} owns already",
                                        "a plane that is moved by one set, once",
                                        "pass a copy of it, or let the other set go first"))
        self._owned.extend(planes.values())
        self._moves.clear()


# ---- checks ----------------------------------------------------------------------------------------------------------


def _shown(array: Any) -> Any:
    """A view that may not be written, of what launches and moves trust; CuPy has none."""
    view = array.view()
    if isinstance(view, np.ndarray):
        view.flags.writeable = False
    return view


def _check_mask(mask: Any) -> None:
    if mask.ndim != 1:
        raise LayoutError(refusal(DOOR, "mask", f"shape {mask.shape}", "(n,), a byte a sample", "reshape it"))
    if mask.dtype not in (np.bool_, np.uint8):
        raise BufferRefused(refusal(DOOR, "mask", str(mask.dtype), "bool or uint8", "convert it first"))
    require_contiguous(DOOR, "mask", mask)
    if mask.size > MOST_SAMPLES:
        raise ValueError(refusal(DOOR, "mask", f"{mask.size} samples", f"at most {MOST_SAMPLES}", "split the batch"))


def _whole(argument: str, value: Any, least: int, most: int) -> int:
    number = index_of(value)
    if number is None or not least <= number <= most:
        raise ValueError(refusal(DOOR, argument, shown(value), f"an integer of {least} to {most}", "pass one"))
    return number


def _reorder_theta(reorder: Any) -> float | None:
    if isinstance(reorder, bool | np.bool_):
        return 0.5 if reorder else None
    return None if reorder is None else _theta("reorder", reorder)


def _theta(argument: str, value: Any) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(refusal(DOOR, argument, f"{shown(value)}, a {type(value).__name__}", "a number",
                                "pass a share of 32 slots, such as 0.5"))
    (least, most), share = THETAS, cast("Any", value)
    if not least <= share <= most:  # before it is a float: an integer may be too large for one
        raise ValueError(refusal(DOOR, argument, shown(value), f"{least} to {most}", "0.5 suits most batches"))
    return float(share)


def _number_of_classes(classes: Any, theta: float | None, plane: Any, class_theta: Any) -> int | None:
    if classes is None:
        for argument, value in (("class_plane", plane), ("class_theta", class_theta)):
            if value is not None:
                raise ValueError(refusal(DOOR, argument, "it without classes=", "both", "pass classes= as well"))
        return None
    number = _whole("classes", classes, *CLASSES)
    if theta is None:
        raise ValueError(refusal(DOOR, "classes", f"{number}, without reorder=", "a set that moves samples",
                                 "pass reorder=0.5 as well"))
    return number


def _check_class_plane(plane: Any, n: int, mask: Memory) -> None:
    if plane is None:
        raise ValueError(refusal(DOOR, "class_plane", "nothing", f"a uint8 ({n},) array, the class of each sample",
                                 "pass it beside classes="))
    require_side(DOOR, "class_plane", memory_of(DOOR, "class_plane", plane), mask)
    if plane.dtype != np.uint8 or plane.shape != (n,):
        raise BufferRefused(refusal(DOOR, "class_plane", f"{plane.dtype} {plane.shape}", f"uint8 ({n},)",
                                    "convert it first"))
    require_contiguous(DOOR, "class_plane", plane)
