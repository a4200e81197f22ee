# SPDX-License-Identifier: Apache-2.0
"""Which kernels' samples may be moved: what is claimed, against moving them by hand at every launch."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import relocation_kernels as rk
from hypothesis import given, settings
from hypothesis import strategies as st
from stepping_forms import MODELS, SINGLE, Model, Planes, bits, copied
from stepping_oracle import batch

import eagle
from eagle.plan.deploy import HawkSource
from eagle.plan.signature import Signature, Use
from eagle.stepping.relocation import Reach, reach, unaligned

MOVABLE = [form for form, model in SINGLE.items() if model.moves]
#: Forms whose results change when their samples are moved.
PLACED = ["sample_index", "a draw", "Table at the own index", "another sample", "Grid, column read", "random walk",
          "compacting, sample_index"]
TOGETHER = ["WideOut", "bins", "keyed sum", "sum over samples"]
DEFAULT_PROFILE = ["RK4 oscillator", "sin, exp, log", "branches", "orbit", "RK4 with a Table", "inner loop",
                   "vectors and matrices", "compacting", "dispatch, auto", "RK4 oscillator, float32"]
#: Forms whose launches no compiler makes vectors of: tables keep hawk from writing loops over lanes.
SCALAR = {"Table", "Table at the own index", "another sample", "Staged", "Wide", "RK4 with a Table", "steps=4, Table",
          "Table at the state", "bins", "compacting, Table"}
MOST_LAUNCHES = 400


@functools.cache
def signature(form: str) -> Signature:
    return MODELS[form].plan.host.signature


def loaded(plan: Any) -> Any:
    """The kernel of a plan, as it comes from the files of its bundle alone."""
    folder = plan.host.plugin.origin.sidecar.parent
    return eagle.deploy(eagle.load_bundle(folder)[plan.host.signature.kernel]).host


class Batch:
    """A batch of a model whose launches take `word` steps, where the kernel is told."""

    def __init__(self, model: Model, plan: Any, planes: Planes, word: int) -> None:
        self.plan, self.planes = plan, copied(planes)
        self.slots = {slot.name: slot for slot in plan.host.signature.arguments}
        self.n = batch(planes)
        self.mask = self.planes["terminated"] = np.zeros(self.n, bool)
        self.planes |= {name: np.zeros(length, np.uint32) for name, length in model.owned.items()}
        if "fused_steps" in self.slots:
            self.planes["fused_steps"] = np.array([word])

    def bind(self, planes: Planes, n: int) -> Any:
        if "active_map" in self.slots:
            planes = {**planes, "active_map": np.arange(n, dtype=np.int32), "active_count": np.array([n], np.uint32)}
        mine = {name: value for name, value in planes.items() if name in self.slots}
        return self.plan.bind(layout="samples_last", **mine)

    def run(self) -> None:
        """In place."""
        bound = self.bind(self.planes, self.n)
        for _ in range(MOST_LAUNCHES):
            if self.mask.all():
                return
            bound.launch()

    def run_moved(self, rng: np.random.Generator) -> None:
        """Every launch is over copies of the samples in another order: of those that are live alone, where the kernel
        does not ask how many there are."""
        mine = {name: self.planes[name] for name, slot in self.slots.items()
                if slot.use is Use.SAMPLES and name in self.planes}
        counts = any(slot.use is Use.COUNT for slot in self.plan.host.signature.stages[0].slots)
        for _ in range(MOST_LAUNCHES):
            if self.mask.all():
                return
            order = rng.permutation(np.flatnonzero(~self.mask))
            rest = -len(order) % self.plan.host.signature.lanes.row
            if counts or rest:
                order = np.concatenate([order, rng.permutation(np.flatnonzero(self.mask))[:rest or self.n]])
            scratch = {name: np.ascontiguousarray(plane[..., order]) for name, plane in mine.items()}
            self.bind({**self.planes, **scratch}, len(order)).launch()
            for name, plane in mine.items():
                if self.slots[name].writes:
                    plane[..., order] = scratch[name]


def differing(form: str, plan: Any, n: int, seed: int, word: int, dist: str) -> set[str]:
    """The planes of `form` whose bits depend on moving samples."""
    model = MODELS[form]
    planes = model.planes(n, seed, dist)
    one, other = (Batch(model, plan, planes, word) for _ in range(2))
    one.run()
    other.run_moved(np.random.default_rng(seed + 1))
    return {name for name, plane in one.planes.items() if bits(plane) != bits(other.planes[name])}


# ---- what is claimed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", SINGLE)
def test_reach_of_every_form(form: str) -> None:
    want = Reach.BATCH if form in (*TOGETHER, "another sample") else Reach.MOVABLE if form in MOVABLE else Reach.LOCAL
    assert reach(signature(form)) is want


def test_whose_planes_may_begin_anywhere() -> None:
    assert {form for form in SINGLE if unaligned(signature(form))} == SCALAR


def test_the_forms_are_told_apart() -> None:
    assert set(SINGLE) == {*MOVABLE, *PLACED, *TOGETHER, "Grid"}


@settings(max_examples=6, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("form", MOVABLE)
def test_moving_changes_no_bit_where_it_is_claimed(form: str, data: st.DataObject) -> None:
    n, seed = data.draw(st.sampled_from([1, 2, 7, 65, 333])), data.draw(st.integers(0, 99))
    word = data.draw(st.sampled_from([1, 2, 5, 64]))
    assert differing(form, MODELS[form].plan, n, seed, word, "spread") == set()


@pytest.mark.parametrize("form", PLACED)
def test_moving_does_change_bits_elsewhere(form: str) -> None:
    assert differing(form, MODELS[form].plan, 333, 5, 2, "spread")


@pytest.mark.parametrize("form", DEFAULT_PROFILE)
def test_moving_changes_no_bit_of_the_fused_side_in_the_default_profile(form: str,
                                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    model, exact = MODELS[form], signature(form)
    monkeypatch.delenv("HAWK_HOST_PROFILE")
    plan = eagle.deploy(model.kernels[0], scalar_type=model.scalar_type)
    assert plan.host.plugin.origin != exact.stages[0].plugin.origin
    assert reach(plan.host.signature) is Reach.MOVABLE
    assert all(differing(form, plan, 333, 8, word, "spread") == set() for word in (5, 64))


KERNELS = {name: kernel for name, kernel in vars(rk).items() if hasattr(kernel, "walk")}
MOVED = ("table_in_a_loop", "turns", "solves", "looping_table", "looping_live")


@pytest.mark.parametrize("name", KERNELS)
def test_reach_of_what_is_easy_to_overlook(name: str) -> None:
    plan = eagle.deploy(KERNELS[name])
    together = name in ("raw_of_others", "row_of_another")
    want = Reach.BATCH if together else Reach.MOVABLE if name in MOVED else Reach.LOCAL
    assert reach(plan.host.signature) is want
    alone = reach(loaded(plan).signature)
    assert alone <= want and (alone is Reach.MOVABLE) == (want is Reach.MOVABLE)


# ---- both proofs ---------------------------------------------------------------------------------------------------


def test_both_proofs_agree() -> None:
    known = {form: reach(signature(form)) for form in SINGLE}
    alone = {form: reach(loaded(MODELS[form].plan).signature) for form in SINGLE}
    movable = {form for form, one in known.items() if one is Reach.MOVABLE}
    assert {form for form, one in alone.items() if one is Reach.MOVABLE} == movable and len(movable) >= 24
    assert all(alone[form] <= known[form] for form in SINGLE)


# ---- the body as hawk knows it -------------------------------------------------------------------------------------


class Node:
    """A node of a body as hawk makes them, which holds others by any name."""

    __slots__ = ("body", "kind", "operands", "role")

    def __init__(self, kind: str, *operands: Node, role: str | None = None, body: tuple[Node, ...] = ()) -> None:
        self.kind, self.operands, self.role, self.body = kind, operands, role, body


def reach_of(order: Sequence[Node], access: str = "sample_local", **more: Any) -> Reach:
    """The reach of a plain kernel whose body is `order`."""
    one = signature("plain arithmetic")
    kernel = SimpleNamespace(step=None, walk=SimpleNamespace(order=order))
    plugin = SimpleNamespace(**{**vars(one.stages[0].plugin), "exec_access": access, **more,
                                "_hawk_source": HawkSource(kernel, "", None)})
    return reach(replace(one, stages=(replace(one.stages[0], plugin=plugin),)))


X = Node("prior_read", role="mutable")
T = Node("table_read", role="lookup")


@pytest.mark.parametrize("placed", ["sample_index", "random_uniform", "random_normal", "random_of_tomorrow", "shuffle",
                                    "raw_device", "reduce", "sample_sum", "wide_write", "accum_write", "tape_write",
                                    "box_store", ""])
def test_a_kind_that_is_not_known_proves_nothing(placed: str) -> None:
    assert reach_of([Node("assign", Node("add", X, X))]) is Reach.MOVABLE
    assert reach_of([Node("assign", Node("add", X, Node(placed)))]) is Reach.LOCAL
    assert reach_of([Node("assign", Node("loop_value", Node("loop", X, body=(Node("add", Node(placed)),))))]) \
        is Reach.LOCAL


@pytest.mark.parametrize("name", ["body", "body_sinks", "guard", "of_tomorrow"])
def test_what_hangs_on_a_node_is_seen_by_whatever_name(name: str) -> None:
    for kind, want in (("constant", Reach.MOVABLE), ("sample_index", Reach.LOCAL)):
        for held in (Node(kind), (X, Node(kind)), [Node("add", X, Node(kind))]):
            loop = SimpleNamespace(**{"kind": "loop", "operands": (), "role": None, name: held})
            assert reach_of([Node("assign", Node("loop_value", loop))]) is want


def test_what_is_bound_whole_is_read_at_an_index() -> None:
    local = "cross_sample_read"
    at = Node("at", T, Node("constant"))
    assert reach_of([Node("assign", at)], local) is Reach.MOVABLE
    assert reach_of([Node("assign", Node("loop_value", Node("loop", T, body=(at,))))], local) is Reach.MOVABLE
    assert reach_of([Node("assign", Node("at", Node("prior_read", role="wide_in"), X))], local) is Reach.MOVABLE
    assert reach_of([Node("assign", T)], local) is Reach.LOCAL
    assert reach_of([Node("assign", Node("at", T, T))], local) is Reach.LOCAL
    for role in ("per_sample", "vec_in", "mat_in"):
        assert reach_of([Node("assign", Node("at", Node("vocab_read", role=role), X))], local) is Reach.BATCH


@pytest.mark.parametrize("node", [Node("raw_device"), Node("shuffle"), Node("at", X, X)])
def test_what_may_read_what_others_write_goes_together(node: Node) -> None:
    assert reach_of([Node("assign", node)], "cross_sample_read") is Reach.BATCH


@pytest.mark.parametrize("kind", ["sample_index", "random_uniform", "random_normal"])
def test_what_lies_in_its_own_place_may_read_what_nobody_writes(kind: str) -> None:
    at = Node("at", T, Node("constant"))
    assert reach_of([Node("assign", Node("add", at, Node(kind)))], "cross_sample_read") is Reach.LOCAL


@pytest.mark.parametrize("access", [None, "cross_sample_write", "mapreduce", "tomorrow"])
def test_an_access_that_is_not_known_goes_together(access: Any) -> None:
    assert reach_of([Node("assign", X)], access) is Reach.BATCH


@pytest.mark.parametrize(("what", "want"), [
    ({"exec_op": "sum"}, Reach.BATCH), ({"box": {"T": 1, "stride": 1}}, Reach.BATCH),
    ({"sorted_inputs": ["i"]}, Reach.LOCAL), ({"gather_mats": ["m"]}, Reach.LOCAL),
    ({"plane_axes": {"a": 1}}, Reach.LOCAL), ({"adjoint_like": {"a": "b"}}, Reach.LOCAL),
    ({"derivative": {"kind": "vjp"}}, Reach.LOCAL),
    ({"lane_space": {"axes": [{"label": None, "extent": None}], "group": 32}}, Reach.LOCAL),
    ({"lane_space": SimpleNamespace(axes=((None, None),), group=32)}, Reach.LOCAL),
    ({"lane_space": ((None, None),)}, Reach.MOVABLE)])
def test_what_the_declaration_forbids(what: dict[str, Any], want: Reach) -> None:
    assert reach_of([Node("assign", X)], **what) is want


# ---- a loaded kernel and its source --------------------------------------------------------------------------------


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """The files of the decaying kernel, in a folder of their own."""
    return Path(shutil.copytree(signature("decay").stages[0].plugin.origin.sidecar.parent, tmp_path / "bundle"))


def reach_in(folder: Path) -> Reach:
    return reach(eagle.deploy(eagle.load_bundle(folder)["decay"]).host.signature)


def _edited(folder: Path) -> None:
    with (folder / "decay.cpp").open("a") as file:
        file.write("\n")


def _of_another_build(folder: Path) -> None:
    other = signature("plain arithmetic").stages[0].plugin.origin.sidecar.parent
    shutil.copy(other / "linear.cpp", folder / "decay.cpp")
    shutil.copy(other / ".hawk_unit", folder / ".hawk_unit")


BREAKS = {
    "no source": lambda folder: (folder / "decay.cpp").unlink(),
    "no stamp": lambda folder: (folder / ".hawk_unit").unlink(),
    "an edited source": _edited,
    "a source of another build, with its stamp": _of_another_build,
    "a stamp that is no JSON": lambda folder: (folder / ".hawk_unit").write_text("{"),
    "a stamp that is a list": lambda folder: (folder / ".hawk_unit").write_text("[]"),
    "a stamp without files": lambda folder: (folder / ".hawk_unit").write_text('{"files": 7}'),
    "a stamp that is a folder": lambda folder: ((folder / ".hawk_unit").unlink(), (folder / ".hawk_unit").mkdir()),
    "a source that is a folder": lambda folder: ((folder / "decay.cpp").unlink(), (folder / "decay.cpp").mkdir()),
    "a sidecar that was edited": lambda folder: (folder / "decay.json").write_text(
        (folder / "decay.json").read_text() + " "),
}


def test_a_source_that_was_written_with_the_object_proves(bundle: Path) -> None:
    assert reach_in(bundle) is Reach.MOVABLE


@pytest.mark.parametrize("what", BREAKS)
def test_a_source_that_may_be_of_another_object_proves_nothing(bundle: Path, what: str) -> None:
    BREAKS[what](bundle)
    assert reach_in(bundle) is Reach.LOCAL


def test_a_source_that_was_replaced_behind_the_load_proves_nothing(bundle: Path) -> None:
    plan = eagle.deploy(eagle.load_bundle(bundle)["decay"]).host
    _of_another_build(bundle)
    assert reach(plan.signature) is Reach.LOCAL


def test_a_plugin_that_is_completed_has_its_source(bundle: Path) -> None:
    plugin = eagle.load_bundle(bundle)["decay"]
    known = {name: value for name, value in vars(plugin).items()
             if name not in ("cells", "origin", "stages", "keyed", "stage_plugins", "fold_entries")}
    assert reach(eagle.deploy(SimpleNamespace(**known)).host.signature) is Reach.MOVABLE


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = eagle.num_threads()
    eagle.set_num_threads(1)
    yield
    eagle.set_num_threads(before)
