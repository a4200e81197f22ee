# SPDX-License-Identifier: Apache-2.0
"""A user's program as a type checker sees it: read by the session `types`, run by nothing."""

from types import SimpleNamespace
from typing import assert_type

import numpy as np

import eagle


def lines(kernel: SimpleNamespace) -> eagle.BoundPlan:
    plan = eagle.deploy(kernel, npartitions=2)
    assert_type(plan, eagle.AutoPlan)
    assert_type(eagle.deploy([kernel, kernel]), tuple[eagle.AutoPlan, ...])
    assert_type(plan.host, eagle.Plan)
    bound = plan.bind(x=np.ones(3), a=2.0, out=np.empty(3))
    bound.rebind(a=3.0).launch()
    assert_type(bound.partitions, tuple[eagle.exec.Partition, ...])
    return bound


def loaded(folder: str) -> None:
    for name, plugin in eagle.load_bundle(folder).items():
        assert_type(name, str)
        made = eagle.plan.plan(plugin, structure=eagle.exec.HostTeam)
        assert_type(made, eagle.Plan)
    try:
        with eagle.exec.checking():
            assert_type(eagle.set_num_threads(eagle.num_threads()), int)
    except eagle.OutOfBounds as error:
        assert_type(error.plane, str)


def shared(x: object) -> eagle.interop.BufferView:
    wanted = eagle.interop.Requirements(dtype=np.float64, shape=(3,), writable=True)
    view = eagle.interop.import_buffer(x, require=wanted)
    assert_type(view.shape, tuple[int, ...])
    assert_type(view.stream, int | None)
    assert_type(eagle.detect(x), eagle.interop.Adapter | None)
    assert_type(eagle.interop.host_ptr(x, writable=True), int)
    node: eagle.nodes.Node = eagle.copy(view, into=eagle.pinned((3,), np.float32), name="down")
    assert_type(node.label, str)
    assert_type(eagle.device_props().ridge_flops_per_byte("float64"), float)
    return view
