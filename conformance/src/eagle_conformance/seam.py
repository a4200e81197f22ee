# SPDX-License-Identifier: Apache-2.0
"""The seam eagle-backend/1 in ctypes: constants, structs, symbols, and a library opened through them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from ctypes import POINTER, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any

PREFIX = "eagle_backend_"
MAJOR, MINOR = 1, 6
NO_STREAM = -(2**63)
STREAM_NON_BLOCKING = 1
HOST_TYPES = (1, 3)  # DLPack: host memory, page-locked host memory


class Status(IntEnum):
    """What a call answers."""

    OK = 0
    ERROR = 1
    INVALID_ARGUMENT = 2
    INDEX = 3
    INTEROP = 4
    UNAVAILABLE = 5
    CALLBACK_FAILED = 6
    BAD_HANDLE = 7
    UNSUPPORTED = 8


MASK_IS_DROP, WITHIN_LIVE = 1, 2
MAX_CLASSES = 255
STEP_MIRROR, STEP_WRITES, STEP_GUARD, STEP_COUNTS = 1, 2, 4, 8
STEP_MOVABLE = 1
STEP_UNALIGNED = 2
STEP_ABANDON = 2
STEP_EXACT, STEP_STOPPED = 1, 2


class Residency(IntEnum):
    """Where pointer_residency says that memory is."""

    HOST = 0
    DEVICE = 1
    MANAGED = 2
    MAPPED_HOST = 3
    PAGEABLE = 4
    OTHER_DEVICE = 5


class Copy(IntEnum):
    """Directions of memcpy."""

    H2D = 0
    D2H = 1
    D2D = 2
    H2H = 3


# ---- structs ---------------------------------------------------------------------------------------------------------


class Struct(ctypes.Structure):
    """A struct whose first member is its size."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**({"struct_size": ctypes.sizeof(self)} | fields))


class BuildInfo(Struct):
    """eagle_build_info, output."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("abi_version", c_uint32),
        ("cudart_version", c_int32),
        ("reserved", c_int32),
        ("eagle_version", c_char * 32),
        ("archs", c_char * 128),
        ("backend_kind", c_char * 16),
    ]


class DeviceProps(Struct):
    """eagle_device_props, output."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("device", c_int32),
        ("name", c_char * 256),
        ("cc_major", c_int32),
        ("cc_minor", c_int32),
        ("sm_count", c_int32),
        ("clock_rate_khz", c_int32),
        ("memory_clock_rate_khz", c_int32),
        ("memory_bus_width_bits", c_int32),
        ("regs_per_block", c_int32),
        ("regs_per_sm", c_int32),
        ("warp_size", c_int32),
        ("reserved", c_int32),
        ("shared_mem_per_block", c_int64),
        ("shared_mem_per_sm", c_int64),
        ("peak_bytes_per_s", c_double),
        ("peak_flops_sp", c_double),
        ("peak_flops_dp", c_double),
        ("fp64_ratio", c_double),
        ("ridge_flops_per_byte_sp", c_double),
        ("ridge_flops_per_byte_dp", c_double),
    ]


class StreamDesc(Struct):
    """eagle_stream_desc."""

    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("device", c_int32), ("reserved", c_int32)]


class LaunchDesc(Struct):
    """eagle_launch_desc."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("device", c_int32),
        ("block", c_uint32),
        ("function", c_uint64),
        ("params", POINTER(c_uint64)),
        ("param_sizes", POINTER(c_uint64)),
        ("nparams", c_int64),
        ("base", c_int64),
        ("count", c_int64),
        ("n_samples", c_int64),
        ("stream", c_uint64),
    ]


class ModuleDesc(Struct):
    """eagle_module_desc."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("device", c_int32),
        ("reserved", c_int32),
        ("image", c_void_p),
        ("image_bytes", c_uint64),
    ]


class CompactDesc(Struct):
    """eagle_compact_desc, in and out."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("device", c_int32),
        ("reserved", c_uint32),
        ("mask", c_uint64),
        ("index_map", c_uint64),
        ("count", c_uint64),
        ("scratch", c_uint64),
        ("n", c_int64),
        ("stream", c_uint64),
        ("scratch_bytes", c_int64),
        ("live32", c_uint64),
        ("span", c_uint64),
        ("fire", c_uint64),
        ("theta", c_float),
        ("reserved2", c_uint32),
    ]


class ReorderPlane(ctypes.Structure):
    """eagle_reorder_plane, an array element without a size."""

    _fields_ = [("data", c_uint64), ("elem_bytes", c_uint32), ("reserved", c_uint32)]


class ReorderDesc(Struct):
    """eagle_reorder_desc, in and out."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("device", c_int32),
        ("n_planes", c_uint32),
        ("planes", c_uint64),
        ("mask", c_uint64),
        ("perm", c_uint64),
        ("inv", c_uint64),
        ("index_map", c_uint64),
        ("count", c_uint64),
        ("span", c_uint64),
        ("fire", c_uint64),
        ("scratch", c_uint64),
        ("n", c_int64),
        ("stream", c_uint64),
        ("scratch_bytes", c_int64),
    ]


class LongerDesc(ctypes.Structure):
    """A desc that begins with another one, which holds the size of the whole; fields of both go by name."""

    def __init__(self, **fields: Any) -> None:
        head, kind = self._fields_[0][:2]
        assert issubclass(kind, Struct)
        own = {name for name, *_ in self._fields_}
        of_head = {name: value for name, value in fields.items() if name not in own}
        rest = {name: value for name, value in fields.items() if name in own}
        super().__init__(**{head: kind(**({"struct_size": ctypes.sizeof(self)} | of_head))}, **rest)


class CompactClassesDesc(LongerDesc):
    """eagle_compact_classes_desc, in and out."""

    _fields_ = [
        ("compact", CompactDesc),
        ("class_plane", c_uint64),
        ("classes", c_uint32),
        ("class_theta", c_float),
        ("offsets", c_uint64),
        ("mixed32", c_uint64),
        ("stale_count", c_uint64),
        ("class_fire", c_uint64),
        ("reserved", c_uint64),
    ]


class ReorderClassesDesc(LongerDesc):
    """eagle_reorder_classes_desc, in and out."""

    _fields_ = [
        ("reorder", ReorderDesc),
        ("class_plane", c_uint64),
        ("classes", c_uint32),
        ("reserved", c_uint32),
        ("offsets", c_uint64),
        ("class_sorts", c_uint64),
    ]


StepPoll: Any = ctypes.CFUNCTYPE(c_int32, c_void_p, c_int64, c_int64)


class StepPlane(ctypes.Structure):
    """eagle_step_plane, an array element without a size."""

    _fields_ = [("slot", c_uint32), ("elem_bytes", c_uint32), ("components", c_uint32), ("flags", c_uint32)]


class StepDesc(Struct):
    """eagle_step_desc."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("device", c_int32),
        ("n_planes", c_uint32),
        ("function", c_uint64),
        ("params", POINTER(c_uint64)),
        ("nparams", c_int64),
        ("planes", POINTER(StepPlane)),
        ("n_samples", c_int64),
        ("max_steps", c_int64),
        ("steps_per_launch", c_int64),
        ("mask_slot", c_int32),
        ("counter_slot", c_int32),
        ("word_slot", c_int32),
        ("map_slot", c_int32),
        ("live_slot", c_int32),
        ("step_ops", c_int32),
        ("threads", c_int32),
        ("reserved", c_int32),
        ("poll", StepPoll),
        ("poll_ctx", c_void_p),
    ]


class StepReport(Struct):
    """eagle_step_report, output."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("steps", c_int64),
        ("visits", c_int64),
        ("finished", c_int64),
        ("offered", c_int64),
    ]


STRUCTS: dict[str, type[ctypes.Structure]] = {
    "eagle_build_info": BuildInfo,
    "eagle_device_props": DeviceProps,
    "eagle_stream_desc": StreamDesc,
    "eagle_launch_desc": LaunchDesc,
    "eagle_module_desc": ModuleDesc,
    "eagle_compact_desc": CompactDesc,
    "eagle_compact_classes_desc": CompactClassesDesc,
    "eagle_reorder_plane": ReorderPlane,
    "eagle_reorder_desc": ReorderDesc,
    "eagle_reorder_classes_desc": ReorderClassesDesc,
    "eagle_step_plane": StepPlane,
    "eagle_step_desc": StepDesc,
    "eagle_step_report": StepReport,
}

HostFunction: Callable[..., Any] = ctypes.CFUNCTYPE(None, c_void_p)


# ---- symbols ---------------------------------------------------------------------------------------------------------

REQUIRED = ("version", "last_error", "build_info", "probe", "free", "capabilities", "device_types")
FIRST_CALLS = ("version", "capabilities", "device_types", "build_info", "probe")  # what a core calls at load


@dataclass(frozen=True)
class Group:
    """A family of symbols behind one capability bit."""

    bit: int
    promised: tuple[str, ...]
    later: tuple[str, ...] = ()


def _names(prefix: str, names: str) -> tuple[str, ...]:
    return tuple(prefix + name for name in names.split())


GROUPS = {
    "stream": Group(0, _names("stream_", "create ptr synchronize release")),
    "capturer": Group(1, _names("capturer_", "create begin end release"), ("capturer_graph",)),
    "captured": Group(2, _names("captured_", "is_valid release")),
    "fork": Group(
        3, _names("fork_", "create fork join branch origin forked size release"), _names("fork_", "mark wait")
    ),
    "conditional": Group(
        4,
        _names("conditional_", "create begin body_stream is_loop end release"),
        _names("conditional_", "arm_stream nodes"),
    ),
    "attribution": Group(5, ("capture_snapshot_nodes", "is_node_toggleable"), ("capture_add_child",)),
    "graph": Group(6, _names("graph_", "create from_captured stream add_node launcher last_node release")),
    "launcher": Group(
        7,
        _names("launcher_", "launch synchronize stream set_logical_size kernel_node_count set_node_enabled release"),
        _names("launcher_", "set_kernel_params set_memcpy_source exec_update"),
    ),
    "exec": Group(9, ("run_device",)),
    "device": Group(10, ("device_props",)),
    "interop": Group(
        11,
        ("fence", "event_pool_created"),
        ("memset_device", "memcpy_device", "memcpy", "host_alloc", "host_free", "host_func"),
    ),
    "filtering": Group(
        12,
        ("compact_device",),
        (
            *("reorder_device", "compact_classes_device", "reorder_classes_device"),
            *("reset_device", "pointer_residency"),
        ),
    ),
}
EXPERIMENTAL = (
    *_names(
        "x_",
        "captured_debug_dot capture_guard_depth capture_guard_pending_count restore_device reduce_canonical "
        "time_launch diff_columns event_columns",
    ),
    *_names(
        "x_composer_",
        "create register_launcher register_callable register_nested build reset_fired_history set_routing "
        "launch fired_history mode num_members member_name release",
    ),
)
EXTENSIONS = (
    *("module_load", "module_function", "module_global", "module_release", "team_size", "step_run"),
    *("host_call", "capture_fuse", "launcher_launch_timed"),
)
SYMBOLS = {
    *(PREFIX + name for name in (*REQUIRED, *EXPERIMENTAL, *EXTENSIONS)),
    *(PREFIX + name for group in GROUPS.values() for name in (*group.promised, *group.later)),
}
KNOWN_BITS = sum(1 << group.bit for group in GROUPS.values()) | 1 << 13 | 1 << 14

# One letter per argument, after the result's: u u32, i i32, U u64, I i64, s char*, p any other pointer or handle,
# - nothing. A result is a status where it is i.
SIGNATURES = {
    "version": "u",
    "last_error": "s",
    "build_info": "ip",
    "probe": "i",
    "free": "-p",
    "capabilities": "ip",
    "device_types": "ipip",
    "stream_create": "ipp",
    "stream_ptr": "ipp",
    "stream_synchronize": "ip",
    "stream_release": "-p",
    "capturer_create": "ipp",
    "capturer_begin": "ip",
    "capturer_end": "ipp",
    "capturer_release": "-p",
    "capturer_graph": "ipp",
    "captured_is_valid": "ipp",
    "captured_release": "-p",
    "fork_create": "ipp",
    "fork_fork": "ip",
    "fork_join": "ip",
    "fork_branch": "ipUp",
    "fork_origin": "ipp",
    "fork_forked": "ipp",
    "fork_size": "ipp",
    "fork_release": "-p",
    "fork_mark": "ipUp",
    "fork_wait": "ipUU",
    "conditional_create": "ipp",
    "conditional_begin": "ipp",
    "conditional_body_stream": "ipp",
    "conditional_is_loop": "ipp",
    "conditional_end": "ip",
    "conditional_release": "-p",
    "conditional_arm_stream": "ipUp",
    "conditional_nodes": "ipIpp",
    "capture_snapshot_nodes": "iUpp",
    "is_node_toggleable": "iUp",
    "capture_add_child": "iUUi",
    "graph_create": "ipp",
    "graph_from_captured": "ipp",
    "graph_stream": "ipU",
    "graph_add_node": "ipp",
    "graph_launcher": "ipp",
    "graph_last_node": "ipp",
    "graph_release": "-p",
    "launcher_launch": "ip",
    "launcher_synchronize": "ip",
    "launcher_stream": "ipU",
    "launcher_set_logical_size": "ipI",
    "launcher_kernel_node_count": "ipp",
    "launcher_set_node_enabled": "ipUi",
    "launcher_release": "-p",
    "launcher_set_kernel_params": "ipUpI",
    "launcher_set_memcpy_source": "ipUU",
    "launcher_exec_update": "ippp",
    "run_device": "ipp",
    "device_props": "iip",
    "fence": "iiiII",
    "event_pool_created": "ip",
    "memset_device": "iUUU",
    "memcpy_device": "iUUUU",
    "memcpy": "iUUUiU",
    "host_alloc": "iUp",
    "host_free": "iU",
    "host_func": "iUpp",
    "compact_device": "ip",
    "reorder_device": "ip",
    "compact_classes_device": "ip",
    "reorder_classes_device": "ip",
    "reset_device": "ip",
    "pointer_residency": "iiUp",
    "module_load": "ipp",
    "module_function": "ipsp",
    "module_global": "ipspp",
    "module_release": "-p",
    "team_size": "iip",
    "step_run": "ipp",
    "host_call": "iUpp",
    "capture_fuse": "iUi",
    "launcher_launch_timed": "ippIp",
}
_CTYPES: dict[str, Any] = {
    "u": c_uint32,
    "i": c_int32,
    "U": c_uint64,
    "I": c_int64,
    "s": c_char_p,
    "p": c_void_p,
    "-": None,
}


class Library:
    """A backend library, opened as the core opens it: local binding, never unloaded.

    `known` are answers to FIRST_CALLS another process has got; they are not asked for again. Its ``crashed`` says what
    became of a call that did not return, by name.
    """

    def __init__(self, path: str | Path, known: Mapping[str, Any] | None = None) -> None:
        self.path = Path(path).resolve()
        self.crashed: dict[str, str] = {}
        self.__dict__.update(known or {})  # cached_property looks there first
        self._dll = ctypes.CDLL(str(self.path), mode=ctypes.RTLD_LOCAL)

    def has(self, name: str) -> bool:
        """Whether the library exports a symbol of the seam."""
        return hasattr(self._dll, PREFIX + name)

    def call(self, name: str, *arguments: Any) -> Any:
        """The plain result of one call."""
        function = getattr(self._dll, PREFIX + name)
        result, parameters = SIGNATURES[name][0], SIGNATURES[name][1:]
        function.restype, function.argtypes = _CTYPES[result], [_CTYPES[p] for p in parameters]
        return function(*arguments)

    def ok(self, name: str, *arguments: Any) -> None:
        """A call that must succeed."""
        status = self.call(name, *arguments)
        assert status == Status.OK, f"{name} answers {status}, want 0: {self.error()}"

    def refuses(self, status: int | None, name: str, *arguments: Any) -> None:
        """A call that must fail with this status (None: any but OK) and leave a message."""
        found = self.call(name, *arguments)
        assert found != Status.OK, f"{name} answers OK, want {status if status is not None else 'a refusal'}"
        assert status in (None, found), f"{name} answers {found}, want {status}: {self.error()}"
        assert self.error() != "", f"{name} answers {found} and leaves no message"

    def error(self) -> str:
        """The message of this thread's last failed call."""
        return (self.call("last_error") or b"").decode()

    @cached_property
    def version(self) -> int:
        """Major times 65536 plus minor; 0 without the symbol, or where it crashes."""
        return int(self.call("version")) if self._answers("version") else 0

    @cached_property
    def loads(self) -> bool:
        """Whether a core would go on after the handshake. A call of it that crashes leaves nothing to test."""
        return self.version >> 16 == MAJOR and not self.crashed and all(self.has(name) for name in REQUIRED)

    def _answers(self, name: str) -> bool:
        return self.has(name) and name not in self.crashed

    @cached_property
    def capabilities(self) -> int:
        """The capability bits; 0 where the library would not load."""
        mask = c_uint64(0)
        return mask.value if self.loads and self.call("capabilities", ctypes.byref(mask)) == Status.OK else 0

    @cached_property
    def device_types(self) -> list[int]:
        """The DLPack device types it serves."""
        types, count = (c_int32 * 64)(), c_int32(0)
        if not self.loads or self.call("device_types", types, 64, ctypes.byref(count)) != Status.OK:
            return []
        return types[: max(0, min(count.value, 64))]

    @cached_property
    def build_info(self) -> dict[str, Any]:
        """The fields of build_info as numbers and text; none where the library would not load."""
        info = BuildInfo()
        if not self.loads or self.call("build_info", ctypes.byref(info)) != Status.OK:
            return {}
        fields = {field[0]: getattr(info, field[0]) for field in BuildInfo._fields_}
        return {k: v.decode(errors="replace") if isinstance(v, bytes) else v for k, v in fields.items()}

    @cached_property
    def probe(self) -> int | None:
        """The status of probe; None where the library would not load."""
        return int(self.call("probe")) if self.loads else None

    @property
    def kind(self) -> str | None:
        """The kind build_info tells; None where it tells none: the field is absent in the first backends."""
        return self.build_info.get("backend_kind") or None

    @property
    def on_host(self) -> bool:
        """Whether its kernels are host functions over host memory."""
        return 1 in self.device_types

    def promises(self, group: str) -> bool:
        """Whether the bit of a group is set."""
        return bool(self.capabilities >> GROUPS[group].bit & 1)

    def provides(self, group: str) -> bool:
        """Whether the bit of a group is set and its symbols are there."""
        return self.promises(group) and all(self.has(name) for name in GROUPS[group].promised)
