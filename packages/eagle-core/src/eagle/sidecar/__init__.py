# SPDX-License-Identifier: Apache-2.0
"""What a producer wrote beside a kernel: its sidecar, and the manifest of a bundle. Readers check what they read.

``name`` is the artifact's name, ``door`` the call that a refusal names. Every reader raises ValueError naming the
artifact and the key. What loads artifacts takes files, whole documents and declarations from the modules of this room.
"""

from eagle.roles import PARAM_DTYPES
from eagle.sidecar.declaration import derived_tag, refuse_derived, refuse_prior_read
from eagle.sidecar.keys import (
    FINISH_AUTO,
    FINISH_COUNTER,
    FINISH_KEY,
    PARAMS_SCHEMA_KEY,
    TERMINATED_READONLY_KEY,
    UNDECLARED_LANE_SPACE,
    LaneSpace,
    LaunchDecl,
    ParamSpec,
    read_block,
    read_box,
    read_finish,
    read_lane_space,
    read_launch,
    read_params,
    read_plane_axes,
    read_terminated_readonly,
)
from eagle.sidecar.validate import validate_sidecar

__all__ = ["FINISH_AUTO", "FINISH_COUNTER", "FINISH_KEY", "PARAMS_SCHEMA_KEY", "PARAM_DTYPES",
           "TERMINATED_READONLY_KEY", "UNDECLARED_LANE_SPACE", "LaneSpace", "LaunchDecl", "ParamSpec", "derived_tag",
           "read_block", "read_box", "read_finish", "read_lane_space", "read_launch", "read_params", "read_plane_axes",
           "read_terminated_readonly", "refuse_derived", "refuse_prior_read", "validate_sidecar"]


def __dir__() -> list[str]:
    return sorted(__all__)
