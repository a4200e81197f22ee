# SPDX-License-Identifier: Apache-2.0
"""Whether the source a kernel was built from shows that its samples give the same results wherever they lie.

Of a source only what is recognised counts; anything else proves nothing. Two kinds of text are told apart. The *frame*
unpacks the planes and counts positions: it may not write a plane. A *body*, the block behind the declaration of a
sample's index ``i``, computes: what it may read of its sample are planes at ``[i]``, buffers that are bound whole at an
index of the sample's own values, and numbers. No word for a position may stand in it, and no address can be made
there, whoever wrote the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

__all__ = ["is_anywhere", "is_scalar", "words"]

LONGEST = 4 * 2**20


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


_TOKEN = re.compile(r"""\s+|//[^\n]*|/\*.*?\*/                       # nothing
    | (?P<token> [A-Za-z_]\w*(?:::[A-Za-z_]\w*)*                     # a name
    | \d(?:[eEpP][+-]|[\w.])*                                        # a number
    | && | \|\| | [|+*/%-]= | [<>=!]= | \+\+ | -- | /(?!\*) | [-+*%<>=!?:;,.(){}[\]&^] )""", re.X | re.S)
#: Spellings by which text is not what it looks like.
_DISGUISED = re.compile(r"\\|\?\?|%:|<:|<%|:>|%>|\b(?:u8|[uUL])?R\"")
#: Text between the directives of a function that computes nothing: hints for compilers, notes for devices, checks.
_NOTES = re.compile(
    r"^\#if\ defined\(__clang__\)\n\#pragma\ clang\ loop\ vectorize\(assume_safety\)\n"
    r"\#elif\ defined\(__GNUC__\)\n\#pragma\ GCC\ ivdep\n\#endif\n"
    r"|^\#if\ defined\(__CUDA_ARCH__\)\n\s*asm\ volatile\(\"[^\"\n]*\"\);\n\#endif\n"
    r"|^\s*static_assert\([^;\"#]*,\s*\"[^\"\n]*\"\);\n", re.M | re.X)
#: What decides between texts of a function.
_SWITCHES = ("HAWK_HOST_LANE_GUARDS", "HAWK_HOST_INTERCHANGE")
#: The directives before a function.
_HEAD = re.compile(r"""\#(?: include\ (?:<[\w/.]+>|"plugin/gref_layout\.h")
    | define\ (?:HAWK_HOST_LANE_GUARDS|HAWK_HOST_INTERCHANGE)\ [01]
    | (?:if|ifdef|ifndef|elif)\ [\w ()!&|<>=]+ | else | endif )\s*""", re.X)

_VIEW = r"(?:aether::View<[\w:, <>]*>|hawk_abi::HostMask)"
#: A plane of the function, and where it comes from.
_PLANE = re.compile(rf"(?:const )?{_VIEW} (\w+) = hawk_abi::\w+(?:<[\w:, ]*>)?"
                    r"\(\*static_cast<const eagle::plugin::\w+\*>\(params\[\d+\]\)\);")
_NUMBER = re.compile(r"const (?:Real|Int|float|double|EAGLE_ABI_INDEX_T) ((?:uni|nsm)_\w+) ="
                     r" \*static_cast<const (?:Real|Int|float|double|EAGLE_ABI_INDEX_T)\*>\(params\[\d+\]\);")
_VALUES = ("mut_", "out_", "psc_", "vin_", "mtx_")
_OWN = (*_VALUES, "trm_")
_WHOLE = ("lut_", "win_")

_INDEX = ["const", "aether::SampleIndex", "i", "=", "aether::SampleIndex::make", "(", "static_cast", "<", "std::size_t",
          ">", "("]
_SAMPLE = "const aether::SampleIndex i ="
_POSITIONS = (["hawk_i"], ["hawk_j"], ["hawk_tlo", "+", "hawk_t"])

_PAIRS = {"(": ")", "[": "]", "{": "}"}
_SIGNS = words("&& || |= += -= *= /= <= >= == != ++ -- + - * / % < > = ! ? : ; , . ( ) { } [ ]")
_WORDS = words(
    "const auto void int bool float double Real Int if else for switch case default break true false "
    "static_cast std::size_t std::int32_t std::uint32_t std::int64_t aether::offset_t aether::Item "
    "aether::extents aether::constant aether::select aether::outer hawk_clamp_count hawk_abi::spacing "
    "hawk_abi::int_from_real hawk_abi::mix_count hawk_abi::finish_count hawk_abi::lane_put hawk_abi::lane_get "
    "hawk_abi::lane_keep NAN INFINITY hawk_tile hawk_w hawk_trip hawk_lane_on hawk_more hawk_go hawk_lk")
_CALLS = re.compile(r"aether::(?:math|linalg|rt)::\w+|aether::cwise[A-Z]\w*|hawk_abi::int_[a-z]+")
_MEMBERS = words(
    "get eval at sum norm dot cross cwiseMul matDot transpose quatConj quatReciprocal quatMul quatRotate "
    "asPureQuaternion asBack3DVector info l w v")
#: What a body names of its own.
_LOCAL = re.compile(r"(?:t|tb|hz)\d+|hawk_(?:v|n|k|x|c|it|la|lf|dispb?)\d\w*")
#: Rows that hold something of each sample of a tile.
_LANES = re.compile(r"hawk_(?:lc|li|rc|ri|b|e)\d+|hawk_r_\w+|hawk_cnt|hawk_on|hawk_ron|hawk_rcnt")
_LANE = ("hawk_t", "hawk_l")

_FRAME = words(
    "params base count nSamples const constexpr auto void alignas bool int double float unsigned char Real Int "
    "if else for break continue static_cast reinterpret_cast true false i std::size_t std::int32_t "
    "std::uint32_t std::int64_t aether::offset_t aether::View aether::extents aether::dyn aether::layout_right "
    "aether::SampleIndex::make aether::SampleIndex eagle::plugin::ScalarHandle eagle::plugin::GRefMirror "
    "EAGLE_ABI_INDEX_T __attribute__ always_inline hawk_abi::HostMask hawk_abi::HostLaneMask "
    "hawk_abi::HostLaneFinish hawk_abi::HostLaneTally hawk_abi::host_mask hawk_abi::scalar_view "
    "hawk_abi::vec_view hawk_abi::mat_view hawk_abi::kHostLaneBlock hawk_abi::kHostChunk "
    "hawk_abi::kHostLoopTile hawk_abi::lane_block_end hawk_abi::finish_lanes data lanes eval hawk_lo hawk_hi "
    "hawk_blo hawk_bhi hawk_tlo hawk_thi hawk_tn hawk_tile hawk_w hawk_cb hawk_c hawk_l hawk_t hawk_j hawk_i "
    "hawk_in hawk_any hawk_trip hawk_live hawk_end hawk_stop hawk_sample hawk_identity hawk_strays "
    "hawk_finish_mask hawk_finish_count hawk_finished")
_FRAME_LANES = re.compile(r"hawk_(?:lanes|lane|tg|tlane)\d+")


class _UnrecognisedError(Exception):
    """A text of which nothing is known."""


def is_anywhere(source: str) -> bool:
    """Whether `source`, of one kernel's host object, shows that a sample's results do not depend on its position."""
    try:
        for text in _texts(source):
            _check(text)
    except _UnrecognisedError:
        return False
    return True


def is_scalar(source: str) -> bool:
    """Whether each loop over samples counts by an atomic addition of its own: no compiler makes vectors of such a loop,
    whose bits would depend on where planes begin in their cache lines."""
    try:
        texts = _texts(source)
    except _UnrecognisedError:
        return False
    return all("finish_lanes" not in text and 0 < text.count(_SAMPLE) == text.count("hawk_abi::finish_count(")
               for text in texts)


def _texts(source: str) -> set[str]:
    """The function of one launch, as each choice of the switches compiles it. What stands before it are helpers of
    the writer's; no name of a body may be a macro there."""
    if len(source) > LONGEST or _DISGUISED.search(source):
        raise _UnrecognisedError
    parts = re.split(r'^extern "C" void \w+_host\(void\* const\* params,\s+std::int64_t base,\s+std::int64_t count,\s+'
                     r"std::int64_t nSamples\)\n(?=\{)", source, flags=re.M)
    if len(parts) != 2:
        raise _UnrecognisedError
    head, function = parts
    if "/*" in head or not all(_HEAD.fullmatch(line) for line in re.findall(r"^\s*(#.*)$", head, re.M)):
        raise _UnrecognisedError
    function = _NOTES.sub("", function)
    choices = product((False, True), repeat=len(_SWITCHES))
    return {_chosen(function, dict(zip(_SWITCHES, values, strict=True))) for values in choices}


def _chosen(text: str, switches: dict[str, bool]) -> str:
    """`text` with its directives carried out."""
    kept: list[str] = []
    states: list[bool] = []
    for line in text.splitlines():
        word, *rest = line.split() or [""]
        if not word.startswith("#"):
            if all(states):
                kept.append(line)
        elif word == "#if" and len(rest) == 1 and rest[0] in switches:
            states.append(switches[rest[0]])
        elif line in ("#else", "#endif") and states:
            last = states.pop()
            if line == "#else":
                states.append(not last)
        else:
            raise _UnrecognisedError
    if states:
        raise _UnrecognisedError
    return "\n".join(kept)


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _UnrecognisedError
        at = found.end()
        if found["token"]:
            tokens.append(found["token"])
    return tokens


def _check(text: str) -> None:
    """Go through a function word by word, telling frame and bodies apart by their blocks."""
    flat = " ".join(text.split())
    planes, numbers = set(_PLANE.findall(flat)), set(_NUMBER.findall(flat))
    if not all(name.startswith((*_OWN, *_WHOLE)) for name in planes):
        raise _UnrecognisedError
    tokens = _tokens(text)
    said = _Words(["", "", "", "", *tokens, "", "", "", "", ""], planes, numbers)
    blocks: list[tuple[str, bool]] = []  # the open brackets, and whether a body is in each
    k = 0
    while k < len(tokens):
        token = tokens[k]
        inside = bool(blocks) and blocks[-1][1]
        if token == "const" and tokens[k:k + len(_INDEX)] == _INDEX:
            if inside or not blocks or blocks[-1][0] != "{":
                raise _UnrecognisedError
            blocks[-1] = "{", True
            k = _behind_index(tokens, k + len(_INDEX))
            continue
        if token != "{" and not (blocks and (said.in_body(k + 4) if inside else said.in_frame(k + 4))):
            raise _UnrecognisedError
        if token in _PAIRS:
            blocks.append((token, inside))
        elif token in _PAIRS.values() and _PAIRS[blocks.pop()[0]] != token:
            raise _UnrecognisedError
        k += 1
    if blocks:
        raise _UnrecognisedError


def _behind_index(tokens: Sequence[str], k: int) -> int:
    """Behind the declaration of a sample's index."""
    for position in _POSITIONS:
        end = k + len(position)
        if tokens[k:end] == position and tokens[end:end + 3] == [")", ")", ";"]:
            return end + 3
    raise _UnrecognisedError


def _is_name(token: str) -> bool:
    return token[:1].isalpha() or token[:1] == "_"


class _Words:
    """What may stand in a function."""

    def __init__(self, tokens: list[str], planes: set[str], numbers: set[str]) -> None:
        self.tokens, self.planes, self.numbers = tokens, planes, numbers
        named = {name for before, name, behind in zip(tokens, tokens[1:], tokens[2:], strict=False)
                 if before == "auto" and behind == "="}
        self.own = {name for name in named if name.startswith(_OWN)} - planes  # a plane's value, under its name

    def in_frame(self, k: int) -> bool:
        """Whether a word may stand where positions are counted: no plane is written there, and of samples only what
        is bound whole, masks and counters are handed on."""
        token, behind = self.tokens[k], self.tokens[k + 1]
        if not _is_name(token):
            return True
        if token not in self.planes or self._is_void(k):
            return token in _FRAME or token in self.planes or token in self.numbers or bool(
                _LANES.fullmatch(token) or _FRAME_LANES.fullmatch(token))
        if behind == "[":
            return token.startswith(_WHOLE) and self.tokens[k + 2] == "aether::SampleIndex::make"
        return not token.startswith(_VALUES) or self.tokens[k - 1] == ">" and behind == "="

    def in_body(self, k: int) -> bool:
        """Whether a word may stand where a sample is computed."""
        token, before, behind = self.tokens[k], self.tokens[k - 1], self.tokens[k + 1]
        if before == ".":
            return token in _MEMBERS
        if not _is_name(token):
            return token[0].isdigit() or token in _SIGNS and (token != "[" or _is_name(before))
        if self._is_void(k):
            return True
        if token == "i":
            return before == "[" and self.tokens[k - 2] in self.planes and behind == "]" or self._is_component(k)
        if token in self.planes:
            return self._is_read(k)
        if token == "aether::SampleIndex::make":
            return before == "[" and self.tokens[k - 2] in self.planes
        if token in _LANE:
            return (before == "[" and behind == "]" or before == "," and self.tokens[k - 3] == "(") and bool(
                _LANES.fullmatch(self.tokens[k - 2]))
        if _LANES.fullmatch(token):
            return self._is_lane(k)
        if token == "hawk_live":
            return behind == "|="
        return (token in _WORDS or token in self.numbers or token in self.own or bool(_LOCAL.fullmatch(token))
                or bool(_CALLS.fullmatch(token)))

    def _is_void(self, k: int) -> bool:
        return self.tokens[k - 3:k] == ["(", "void", ")"] and self.tokens[k + 1] == ";"

    def _is_read(self, k: int) -> bool:
        """Whether a plane is used as one may be: that of a sample at the sample, one that is bound whole at values."""
        token, behind = self.tokens[k], self.tokens[k + 1:k + 4]
        if token.startswith(_OWN):
            return behind == ["[", "i", "]"]
        counted = self.tokens[k - 1] == "(" and self.tokens[k - 2] in ("hawk_abi::mix_count", "hawk_abi::finish_count")
        return counted and behind[0] in (",", ")") or behind[:2] == ["[", "aether::SampleIndex::make"]

    def _is_component(self, k: int) -> bool:
        """Whether ``i`` asks a value for one of its components: ``x.eval<0, 1>(i)``."""
        if self.tokens[k - 2:k] != [">", "("] or self.tokens[k + 1] != ")":
            return False
        at = k - 3
        while self.tokens[at].isdigit() or self.tokens[at] == ",":
            at -= 1
        return self.tokens[at - 2:at + 1] == [".", "eval", "<"]

    def _is_lane(self, k: int) -> bool:
        """Whether a row is used at the sample's own lane."""
        behind = self.tokens[k + 1:k + 4]
        if behind[0] == "[":
            return behind[1] in _LANE and behind[2] == "]"
        return self.tokens[k - 2:k] == [">", "("] and behind[0] == "," and behind[1] in _LANE
