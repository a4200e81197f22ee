# SPDX-License-Identifier: Apache-2.0
"""``GraphPipeline``: launches recorded once and replayed."""

from __future__ import annotations

from typing import Any, NoReturn, SupportsIndex

from eagle import backends
from eagle.backends.props import device_ordinal
from eagle.errors import BackendUnavailable, refusal

__all__ = ["GraphPipeline", "refuse_recording"]

GROUP = "capturer"  # of the seam: what records a stream


class GraphPipeline:
    """Launches recorded once and replayed. No backend of this release records: making one raises BackendUnavailable,
    which says what each installed kind lacks."""

    def __init__(self, device: SupportsIndex = -1) -> None:
        device_ordinal("eagle.GraphPipeline", device)
        refuse_recording("eagle.GraphPipeline", "device", "call the launches in their order, or use "
                         "eagle.GraphComposer(mode='sequenced')")


def refuse_recording(door: str, argument: str, instead: str) -> NoReturn:
    """Raises BackendUnavailable: nothing records launches. It names the group, and what each installed kind says."""
    lacking = []
    for kind in backends.kinds():
        told: Any = backends.info(kind)
        reason = told["groups"][GROUP]
        lacking.append(reason or f"backend {kind!r} ({told['path']}) provides {GROUP}, which this eagle-core does not "
                       "use yet: upgrade it")
    raise BackendUnavailable("\n".join((refusal(
        door, argument, "no backend that records launches", f"one that provides the group {GROUP}",
        f"install or upgrade one, such as eagle-backend-cuda for NVIDIA GPUs; without it, {instead}"), *lacking)))
