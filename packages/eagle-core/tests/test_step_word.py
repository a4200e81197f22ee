# SPDX-License-Identifier: Apache-2.0
"""How many steps an automatic entry is given a launch: a rule of the artifact, since it decides last bits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import relocation_kernels as rk
from stepping_forms import MODELS

import eagle
from eagle.stepping.model import read_model


def fused(plan: Any) -> bool:
    return read_model("test", plan).fused


@pytest.mark.want("2.5")
@pytest.mark.parametrize(("tile", "ops", "several"), [
    (512, 2, True), (512, 100, True), (64, None, True), (0, 2, True), (0, 4, True), (0, 5, False), (0, 8, False),
    (0, 100, False), (0, None, True), (None, 5, False), (None, None, True)])
def test_the_rule(tile: int | None, ops: int | None, several: bool) -> None:
    plugin = vars(MODELS["decay"].plan.host.plugin) | {"host_tile": tile or 0, "step_ops": ops}
    if tile is None:
        del plugin["host_tile"]
    assert fused(eagle.deploy(SimpleNamespace(**plugin))) is several


@pytest.mark.want("2.5")
@pytest.mark.parametrize("form", [form for form, model in MODELS.items() if model.single and model.k == "auto"])
def test_the_tile_is_read_from_the_object(form: str) -> None:
    """Reading a table, compacting or looping inside makes an entry whose loop of steps is scalar."""
    plugin = MODELS[form].plan.host.plugin
    has = not (MODELS[form].compacts or plugin.exec_access != "sample_local" or form == "inner loop")
    assert (plugin.host_tile > 0) is has
    assert fused(MODELS[form].plan) is (has or form == "inner loop" or plugin.step_ops <= 4)
    assert (plugin.step_ops is None) is (form == "inner loop")


@pytest.mark.want("2.5")
@pytest.mark.parametrize("kernel", [rk.looping_table, rk.looping_live], ids=lambda kernel: kernel.name)
def test_a_loop_within_a_scalar_loop_takes_one_step(kernel: Any) -> None:
    plan = eagle.deploy(kernel)
    assert plan.host.plugin.step_ops is None and plan.host.plugin.host_tile == 0 and not fused(plan)


@pytest.mark.want("2.5")
def test_a_kernel_loaded_from_its_files_has_the_same_side() -> None:
    for form in ("decay", "Table", "compacting", "RK4 with a Table"):
        plugin = MODELS[form].plan.host.plugin
        alone = eagle.load_bundle(plugin.origin.sidecar.parent)[plugin.kernel]
        assert (alone.host_tile, alone.step_ops) == (plugin.host_tile, plugin.step_ops)
        assert fused(eagle.deploy(alone)) is fused(MODELS[form].plan)
