# SPDX-License-Identifier: Apache-2.0
"""How a kernel uses each slot of its argument block: the words of ``arg_spec``, and what an artifact's schema allows.

What the schema itself decides (versions, patterns, formats) is raptor's, looked up when first asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from eagle.errors import REBUILD, refusal, shown

if TYPE_CHECKING:
    SCHEMA_VERSION: int
    MAX_SCHEMA_VERSION: int
    RECOGNIZED_PATTERNS: frozenset[str]
    LAUNCH_CERTIFIED_PATTERNS: frozenset[str]
    EXEC_REF_KINDS: frozenset[str]
    SCATTER_POLICIES: frozenset[str]
    NEURAL_REQUIRED_FIELDS: frozenset[str]
    NEURAL_EXEC_REF_FIELDS: frozenset[str]
    NEURAL_FORBIDDEN_FIELDS: frozenset[str]
    BUFFER_KINDS: frozenset[str]
    MANIFEST_FORMATS: frozenset[str]

__all__ = ["ACTIVE_COUNT", "ACTIVE_MAP", "ARG_TAGS", "BUFFER_KINDS", "EXEC_REF_KINDS", "FINISHED_COUNT", "FUSED_STEPS",
           "INPUTS", "INPUT_ROLES", "JUMP_SEED",
           "LAUNCH_CERTIFIED_PATTERNS", "MANIFEST_FORMATS", "MASK", "MAX_SCHEMA_VERSION",
           "NEURAL_EXEC_REF_FIELDS", "NEURAL_FORBIDDEN_FIELDS", "NEURAL_REQUIRED_FIELDS", "OUTPUTS", "OUTPUT_ROLES",
           "PARAMS_SCHEMA", "PARAM_DTYPES", "PER_SAMPLE_ROLES", "RECOGNIZED_PATTERNS", "RESERVED_DTYPES",
           "ROLES", "SCATTER_POLICIES", "SCHEMA_VERSION", "STATE_ROLES", "UNIFORM", "WIDEST", "WORDS", "cell_plane",
           "check_execution_axis", "check_launch_certified_pattern", "check_schema_version", "classify_arg",
           "companion_plane", "in_our_words", "param_decls", "param_names", "parse_derivative", "validate_roles"]

# ---- roles -----------------------------------------------------------------------------------------------------------

#: Planes the kernel only reads, one cell or one component group a sample.
INPUTS = ("per_sample", "vec_in", "mat_in")
#: Planes the kernel writes, a row a component.
OUTPUTS = ("mutable", "out")
#: The mask of samples that are done.
MASK = "terminated"
#: A number passed by value.
UNIFORM = "uniform"

#: What the caller supplies by name.
INPUT_ROLES = frozenset({*INPUTS, MASK, "lookup", "wide_in"})
#: What a run makes when the caller supplies none, and returns.
OUTPUT_ROLES = frozenset({*OUTPUTS, "wide_out", "accum_out"})
#: Planes with one element, or one column, for each sample.
PER_SAMPLE_ROLES = frozenset({*INPUTS, *OUTPUTS, MASK})
#: Planes a stepping model updates.
STATE_ROLES = frozenset({"mutable", "wide_out", "accum_out"})
#: Every role of the vocabulary.
ROLES = INPUT_ROLES | OUTPUT_ROLES | {UNIFORM, "nsamples"}

FINISHED_COUNT = "finished_count"
FUSED_STEPS = "fused_steps"
ACTIVE_MAP = "active_map"
ACTIVE_COUNT = "active_count"
#: The uniform of a derivative that may be left out.
JUMP_SEED = "jump_seed"
#: The dtype of each plane whose name is reserved.
RESERVED_DTYPES = {FINISHED_COUNT: "uint32", FUSED_STEPS: "int64", ACTIVE_MAP: "int32", ACTIVE_COUNT: "uint32"}
#: One-cell lookup planes that belong to eagle, with their dtype and the value a single launch starts from. A launch
#: outside the steppers takes one step.
WORDS = {name: (RESERVED_DTYPES[name], start) for name, start in ((FINISHED_COUNT, 0), (FUSED_STEPS, 1))}

#: How a slot rides in the argument block: what :func:`classify_arg` answers.
ARG_TAGS = frozenset({"GREF_VEC", "GREF_MAT", "HANDLE", "WIDE_IN", "WIDE_OUT", "ACCUM_OUT", "NSAMPLES", "UNIFORM"})
_TAG_OF = {"out": "GREF_VEC", "vec_in": "GREF_VEC", "mat_in": "GREF_MAT", "per_sample": "HANDLE", "lookup": "HANDLE",
           MASK: "HANDLE", "wide_in": "WIDE_IN", "wide_out": "WIDE_OUT", "accum_out": "ACCUM_OUT",
           "nsamples": "NSAMPLES", UNIFORM: "UNIFORM"}

LONGEST = 500  # of another's message
MOST_SLOTS = 2**13
#: The most components a plane has.
WIDEST = 2**20


def validate_roles(arg_spec: Any, *, name: str, door: str = "eagle.roles.validate_roles") -> None:
    """Refuse an ``arg_spec`` that is no list of (role, name) pairs of known roles, each name once.

    `name` is the artifact's, `door` the call a refusal names. Raises ValueError.
    """
    where = f"{name}, key 'arg_spec'"
    if not isinstance(arg_spec, list | tuple):
        raise ValueError(refusal(door, where, shown(arg_spec), "a list of (role, name) pairs", REBUILD))
    if len(arg_spec) > MOST_SLOTS:
        raise ValueError(refusal(door, where, f"{len(arg_spec)} slots", f"at most {MOST_SLOTS}", REBUILD))
    seen = set()
    for pair in arg_spec:
        if not (isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(word, str) for word in pair)):
            raise ValueError(refusal(door, where, shown(pair), "pairs of texts, [role, name]", REBUILD))
        role, slot = pair
        if role not in ROLES:
            raise ValueError(refusal(door, where, f"the role {shown(role)} of slot {shown(slot)}",
                                     f"one of {sorted(ROLES)}", "upgrade eagle-core, or rebuild the artifact"))
        if not slot or not slot.isprintable():
            raise ValueError(refusal(door, where, f"the name {shown(slot)}", "a printable name", REBUILD))
        if slot in seen:
            raise ValueError(refusal(door, where, f"{shown(slot)} twice", "each name once", REBUILD))
        seen.add(slot)


def classify_arg(role: str, name: str, *, vec_mutables: frozenset[str] = frozenset(),
                 mat_mutables: frozenset[str] = frozenset()) -> str:
    """The :data:`ARG_TAGS` of a slot: which box it takes in the argument block.

    A ``mutable`` is a vector or a matrix where its name is in the sets (a matrix, when in both), else a handle. Raises
    ValueError naming the role and the slot for any other role.
    """
    if role == "mutable":
        return "GREF_MAT" if name in mat_mutables else "GREF_VEC" if name in vec_mutables else "HANDLE"
    tag = _TAG_OF.get(role) if isinstance(role, str) else None
    if tag is None:
        raise ValueError(refusal("eagle.roles.classify_arg", f"slot {shown(name)}", f"the role {shown(role)}",
                                 f"one of {sorted(ROLES)}", "upgrade eagle-core, or rebuild the artifact"))
    return tag


def cell_plane(cell: str, column: int, columns: int) -> str:
    """The slot of a column of a reduction over samples."""
    return cell if columns == 1 else f"{cell}_{column}"


def companion_plane(plane: str) -> str:
    """The slot of what the rows of a sum have lost."""
    return f"{plane}_comp"


# ---- params ----------------------------------------------------------------------------------------------------------

#: The newest form of a sidecar's ``params``: 1 is bare names, 2 is ``{name, dtype}``.
PARAMS_SCHEMA = 2
#: What a uniform can be: a Real of the artifact, or an int of 64 bits.
PARAM_DTYPES = ("float", "int")


def param_decls(params: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    """``(name, dtype)`` of each uniform in `params`: names (then float), pairs, ``{name, dtype}``, or objects with
    `name` and `dtype`. Raises ValueError for anything else.
    """
    door = "eagle.roles.param_decls"
    if isinstance(params, str | bytes) or not isinstance(params, Iterable):
        raise ValueError(refusal(door, "params", shown(params), "a list of parameters", "pass the params of a sidecar"))
    decls = []
    for entry in params:
        name: Any
        dtype: Any
        if isinstance(entry, str):
            name, dtype = entry, "float"
        elif isinstance(entry, Mapping):
            name, dtype = entry.get("name"), entry.get("dtype")
        elif isinstance(entry, list | tuple) and len(entry) == 2:
            name, dtype = entry
        else:
            name, dtype = getattr(entry, "name", None), getattr(entry, "dtype", None)
        if not isinstance(name, str) or not name or not isinstance(dtype, str) or dtype not in PARAM_DTYPES:
            raise ValueError(refusal(door, "params", shown(entry), f"a name, or a name with one of {PARAM_DTYPES}",
                                     "declare the type of each uniform"))
        decls.append((name, dtype))
    return tuple(decls)


def param_names(params: Iterable[Any]) -> tuple[str, ...]:
    """The names of `params`, in any form that :func:`param_decls` takes."""
    return tuple(name for name, _ in param_decls(params))


# ---- what the schema allows ------------------------------------------------------------------------------------------

_FROM_RAPTOR = {
    "SCHEMA_VERSION": ("manifest", "SCHEMA_VERSION"),
    "MAX_SCHEMA_VERSION": ("manifest", "MAX_SCHEMA_VERSION"),
    "RECOGNIZED_PATTERNS": ("blocks", "ALL_PATTERNS"),
    "LAUNCH_CERTIFIED_PATTERNS": ("manifest", "BASE_PATTERNS"),
    "EXEC_REF_KINDS": ("manifest", "EXEC_REF_KINDS"),
    "SCATTER_POLICIES": ("blocks", "SCATTER_POLICIES"),
    "NEURAL_REQUIRED_FIELDS": ("blocks", "NEURAL_REQUIRED_FIELDS"),
    "NEURAL_EXEC_REF_FIELDS": ("blocks", "NEURAL_EXEC_REF_FIELDS"),
    "NEURAL_FORBIDDEN_FIELDS": ("blocks", "NEURAL_FORBIDDEN_FIELDS"),
    "BUFFER_KINDS": ("blocks", "BUFFER_KINDS"),
    "MANIFEST_FORMATS": ("manifest", "MANIFEST_FORMATS"),
}


def __getattr__(name: str) -> Any:
    if name not in _FROM_RAPTOR:
        raise AttributeError(f"module 'eagle.roles' has no attribute {name!r}")
    module, attribute = _FROM_RAPTOR[name]
    value = getattr(_schema(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def _schema(module: str) -> ModuleType:
    from importlib import import_module

    return import_module(f"raptor.schema.{module}")


def check_schema_version(meta: Mapping[str, Any], *, name: str = "<document>", allow_legacy_version_key: bool = False,
                         door: str = "eagle.roles.check_schema_version") -> int:
    """The schema version of a document, 1 where it says none; with `allow_legacy_version_key` (manifests) its key may
    be called ``version``. Raises ValueError for what is no version, and for one newer than this build reads.
    """
    newest = _schema("manifest").MAX_SCHEMA_VERSION
    legacy = meta.get("version", 1) if allow_legacy_version_key else 1
    version = meta.get("schema_version", legacy)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(refusal(door, f"{name}, key 'schema_version'", f"schema version {shown(version)}",
                                 f"1 to {newest}", REBUILD))
    if version > newest:
        raise ValueError(refusal(door, f"{name}, key 'schema_version'", f"schema v{shown(version)}",
                                 f"at most v{newest}", "upgrade eagle-core to load it"))
    return version


def check_execution_axis(meta: Mapping[str, Any], version: int, *, name: str = "<document>",
                         door: str = "eagle.roles.check_execution_axis") -> None:
    """Refuse a document whose ``exec_targets``, ``exec_access`` and ``exec_op`` are not what its schema version asks
    for. Raises ValueError.
    """
    targets = meta.get("exec_targets", [])
    if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
        raise ValueError(refusal(door, f"{name}, key 'exec_targets'", shown(targets), "a list of texts", REBUILD))
    for key in ("exec_access", "exec_op"):
        if not isinstance(meta.get(key, ""), str):
            raise ValueError(refusal(door, f"{name}, key {key!r}", shown(meta[key]), "a text", REBUILD))
    try:
        _schema("manifest").check_execution_axis(meta, version, name=name)
    except ValueError as error:
        raise ValueError(in_our_words(door, error)) from None


def in_our_words(door: str, error: Exception) -> str:
    """The text of a refusal for what raptor refused: it says what was found and wanted, at any length."""
    text = str(error)
    return f"{door}: {text if len(text) <= LONGEST else text[:LONGEST] + '...'}; {REBUILD}"


def check_launch_certified_pattern(pattern: str | None, *, subject: str,
                                   door: str = "eagle.roles.check_launch_certified_pattern") -> None:
    """Refuse a pattern this build never heard of, and one it knows and does not launch; none at all passes.

    `subject` is the artifact's name. Raises ValueError.
    """
    if not pattern and (pattern is None or isinstance(pattern, str)):
        return
    blocks = _schema("blocks")
    certified, recognized = sorted(blocks.manifest.BASE_PATTERNS), blocks.ALL_PATTERNS
    if not isinstance(pattern, str) or pattern not in recognized:
        raise ValueError(refusal(door, f"{subject} pattern {shown(pattern)}", "a pattern this build does not know",
                                 f"one of {sorted(recognized)}", "upgrade eagle-core"))
    if pattern not in certified:
        raise ValueError(refusal(door, f"{subject} pattern {shown(pattern)}", "a pattern that is not launched",
                                 f"one of {certified}", "load the kernels it refers to"))


def parse_derivative(meta: Mapping[str, Any], *, name: str,
                     door: str = "eagle.roles.parse_derivative") -> dict[str, Any] | None:
    """The ``derivative`` block of a sidecar, None for a primal: ``{kind, wrt, primal, primal_unit, jump}``, the last
    three where given. Raises ValueError for a kind other than vjp and jvp, recorded residuals, and anything malformed.
    """
    block = meta.get("derivative")
    if block is None:
        return None

    def bad(key: str, found: str, wanted: str) -> ValueError:
        return ValueError(refusal(door, f"{name}, key 'derivative{key}'", found, wanted, REBUILD))

    if not isinstance(block, Mapping):
        raise bad("", shown(block), "an object")
    kind = block.get("kind")
    if not isinstance(kind, str) or kind not in ("vjp", "jvp"):
        raise bad(".kind", shown(kind), "'vjp' or 'jvp'")
    if block.get("residuals"):
        raise bad(".residuals", shown(block["residuals"]), "none: a derivative computes its primal again")
    wrt = block.get("wrt", [])
    if not isinstance(wrt, list | tuple) or not all(isinstance(one, str) for one in wrt):
        raise bad(".wrt", shown(wrt), "a list of names")
    for key in ("primal", "primal_unit"):
        if not isinstance(block.get(key), str | None):
            raise bad(f".{key}", shown(block[key]), "a text or null")
    if not isinstance(block.get("jump"), Mapping | None):
        raise bad(".jump", shown(block["jump"]), "an object")
    return dict(block)
