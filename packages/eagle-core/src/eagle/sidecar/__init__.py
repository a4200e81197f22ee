# SPDX-License-Identifier: Apache-2.0
"""What a producer wrote beside a kernel: its sidecar, and the manifest of a bundle. Readers check what they read.

``name`` is the artifact's name, ``door`` the call that a refusal names. Every reader raises ValueError naming the
artifact and the key.
"""

from eagle.roles import PARAM_DTYPES
from eagle.sidecar.declaration import declaration
from eagle.sidecar.derived import derived_tag, refuse_derived, refuse_prior_read
from eagle.sidecar.files import MOST_JSON_BYTES, as_path, inside, read_bytes, read_json
from eagle.sidecar.launch import (
    UNDECLARED_LANE_SPACE,
    LaneSpace,
    LaunchDecl,
    read_block,
    read_box,
    read_lane_space,
    read_launch,
    read_plane_axes,
)
from eagle.sidecar.manifest import MANIFEST_NAME, Entry, check_blocks, manifest_entries, manifest_of, read_manifest
from eagle.sidecar.planes import PARAMS_SCHEMA_KEY, ParamSpec, read_params
from eagle.sidecar.stepping import (
    FINISH_AUTO,
    FINISH_COUNTER,
    FINISH_KEY,
    TERMINATED_READONLY_KEY,
    read_finish,
    read_terminated_readonly,
)
from eagle.sidecar.validate import check_head, parse_sidecar, read_sidecar, validate_sidecar

__all__ = ["FINISH_AUTO", "FINISH_COUNTER", "FINISH_KEY", "MANIFEST_NAME", "MOST_JSON_BYTES", "PARAMS_SCHEMA_KEY",
           "PARAM_DTYPES", "TERMINATED_READONLY_KEY", "UNDECLARED_LANE_SPACE", "Entry", "LaneSpace", "LaunchDecl",
           "ParamSpec", "as_path", "check_blocks", "check_head", "declaration", "derived_tag", "inside",
           "manifest_entries", "manifest_of", "parse_sidecar", "read_block", "read_box", "read_bytes", "read_finish",
           "read_json", "read_lane_space", "read_launch", "read_manifest", "read_params", "read_plane_axes",
           "read_sidecar", "read_terminated_readonly", "refuse_derived", "refuse_prior_read", "validate_sidecar"]


def __dir__() -> list[str]:
    return sorted(__all__)
