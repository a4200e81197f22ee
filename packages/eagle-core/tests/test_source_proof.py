# SPDX-License-Identifier: Apache-2.0
"""What a source proves, against texts that authors and forgers may have put into it."""

from __future__ import annotations

import functools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stepping_forms import MODELS

from eagle.registry.origin import emitted_source
from eagle.stepping.source_proof import is_anywhere, is_scalar

READ = "psc_rate[i].eval()"

#: How lines begin that may name a sample's index.
PROLOGUE = ("(void)hawk_i;", "const std::int64_t hawk_i = static_cast<std::int64_t>(",
            "aether::SampleIndex::make(static_cast<std::size_t>(hawk_i));",
            "for (std::int64_t hawk_i = base; hawk_i < hawk_end; ++hawk_i) {",
            "auto hawk_sample = [&](const std::int64_t hawk_i, ")


@functools.cache
def source(form: str = "decay") -> str:
    text = emitted_source(MODELS[form].plan.host.plugin.origin)
    assert text is not None
    return text


def spliced(text: str) -> str:
    """The source of a kernel that reads `text` for one of its planes."""
    assert source().count(READ) == 3
    return source().replace(READ, f"({text})")


@pytest.mark.parametrize("text", [
    READ, "1.0 + 2.0", f"aether::math::sin({READ})", f"{READ} /* hawk_i */", f"{READ} // hawk_j\n",
    "-(1.5e-3 * uni_floor)", "mut_y[i].get()()", f"hawk_abi::int_from_real<std::int32_t>({READ})"])
def test_what_looks_at_nothing_but_its_sample(text: str) -> None:
    assert is_anywhere(spliced(text))


@pytest.mark.parametrize("text", [
    # positions
    "hawk_i", "hawk_j", "hawk_t", "hawk_l", "hawk_lo", "hawk_tlo", "hawk_blo", "base", "count", "nSamples", "i",
    "i.global()", "static_cast<Real>(hawk_i)", "static_cast<Real>(i.global())", "params[0] == nullptr",
    "static_cast<Int>(reinterpret_cast<std::intptr_t>(params))", "hawk_j == 3 ? 1.0 : 2.0",
    # other samples
    "psc_rate[aether::SampleIndex::make(0)].eval()", "mut_y[aether::SampleIndex::make(static_cast<std::size_t>(0))]",
    "psc_rate[hawk_j + 1].eval()", "psc_rate[i + 1].eval()", "psc_rate.data()[0]", "trm_terminated[i - 1].eval()",
    "psc_rate(i)", "psc_rate", "(psc_rate)[i]", "psc_rate [ i, hawk_j ]", "lut_finished_count.data()[0]",
    "lut_finished_count[i].eval()", "lut_finished_count", "hawk_lc0[0]", "hawk_lc0[hawk_t + 1]", "hawk_ri0",
    "*hawk_lc0",
    "hawk_on[hawk_t - 1]", "hawk_lanes0[0]", "hawk_lane0", "hawk_finished", "hawk_tg0[0]",
    # addresses
    "(&psc_rate[i])[1]", "*(&mut_y[i] + 1)", f"[]{{ return {READ}; }}()", f"[&]{{ return {READ}; }}()",
    f"({READ})[0]", "psc_rate[i].ptr", "psc_rate[i]->x", "this->x", "mut_y[i].data()[1]", "mut_y[i].get().data()",
    # what others know
    "aether::random::detail::uniform01<Real>(7, 0, 3)", "std::rand()", "rand()", "__builtin_ia32_rdtsc()", "errno",
    "std::chrono::steady_clock::now()", "hawk_abi::accum_add(mut_y, i, 1.0)", "hawk_raw_arg0", "::hawk_q", "q",
    "aether::accum::run::add<4>(mut_y, 1.0)", "sizeof(hawk_i)", "new Real", "__COUNTER__", "__LINE__",
    # statements
    "({ static int q = 0; ++q; })", "({ goto out; 1.0; })", "({ return; 1.0; })", "({ for (;;) {} })[0]",
    "1.0); hawk_lo = 3; (1.0", "1.0); mut_y[hawk_j] = (2.0", "1.0); } } { { (1.0", "1.0)); } (1.0", "1.0); }",
    "1.0); const aether::SampleIndex i = aether::SampleIndex::make(static_cast<std::size_t>(hawk_j)); (1.0",
    "1.0); auto i = aether::SampleIndex::make(0); (1.0", "1.0); auto psc_rate = hawk_lc0; (1.0",
    "1.0); const auto psc_rate_q = hawk_lc0; (psc_rate_q[1]", "1.0); asm volatile(\"\"); (1.0",
    # texts that are not what they look like
    '"hawk"[0]', "'h'", 'R"(1)"', '"\\x01"[0]', "1.0 // \\\n", "1.0 /\\\n/ 2.0", "mut_y<:0:>", "1.0 ??! 2.0",
    "%:define x", "\n#define t2 hawk_i\n", "\n#if 1\n1.0\n#endif\n", "\n#pragma once\n1.0",
    "\n#if HAWK_HOST_LANE_GUARDS\n1.0", "\n#else\n1.0", "\n#endif\n1.0", "\n#include <aether/device.h>\n1.0",
    "1.0 /*", "µ", "\u00a0hawk_i", "1.0 @ 2.0",
    "1.0 $ 2.0", "x\0", "1.0 ^ hawk_j", "~1", "1 & hawk_j", "a::b", "aether::View<Real>{}",
    "aether::SampleIndex::make(1)",
])
def test_what_may_look_at_its_place_proves_nothing(text: str) -> None:
    assert not is_anywhere(spliced(text))


@pytest.mark.parametrize(("old", "new"), [
    ("using Real = double;", "using Real = double;\n#define mut_y_i (mut_y_i + hawk_j)"),
    ("using Real = double;", "using Real = double;\n#undef Real"),
    ("#include <atomic>", "#include <atomic>\n#include \"mine.h\""),
    ("#include <atomic>", "#include <atomic>\n%:define hz0 hawk_i"),
    ("#include <atomic>", "# define t2 hawk_i\n#include <atomic>"),
    ("#pragma GCC ivdep", "#pragma GCC push_macro(\"t2\")"),
    ('extern "C" void decay_host(', 'extern "C" void decay_hast('),
    ("std::int64_t nSamples)\n{", "std::int64_t nSamples) {"),
    ("const aether::SampleIndex i =", "const aether::SampleIndex j ="),
    ("make(static_cast<std::size_t>(hawk_j))", "make(static_cast<std::size_t>(hawk_j + 1))"),
    ("(void)hawk_i;", "(void)hawk_i; hawk_i += 1;"),
    ("(void)mut_y;", "(void)mut_y; mut_y[hawk_lo] = 1.0;"),
    ("(void)mut_y;", "(void)mut_y; mut_y.data()[base] = 1.0;"),
    ("(void)mut_y;", "(void)mut_y; auto q = mut_y;"),
    (">(params[0])", ">(params[base])"),
    ("#if HAWK_HOST_INTERCHANGE\n", "#if HAWK_HOST_INTERCHANGE && 1\n"),
])
def test_a_function_of_another_form_proves_nothing(old: str, new: str) -> None:
    assert old in source() and is_anywhere(source())
    assert not is_anywhere(source().replace(old, new))


def test_more_or_less_than_one_function_proves_nothing() -> None:
    text = source()
    at = text.index('extern "C" void decay_host(void* const* params,\n', text.index("_run_rounds"))
    for other in ("", text + text[at:], text[:at], text + "int q;", text + "}", text.rstrip()[:-1], text + " " * 2**22,
                  text[:at] + "/*" + text[at:]):
        assert not is_anywhere(other)


@given(st.integers(0, 10**6), st.sampled_from("hawk_i hawk_j base ( ) { } & # \" q i".split()))  # noqa: SIM905
def test_a_word_more_proves_nothing(where: int, word: str) -> None:
    """A word for a position or of no meaning, a bracket or a sign, anywhere in a body."""
    text = source()
    begin = text.rindex("if (!trm_terminated[i].eval()) {") + 32
    end = text.index("hawk_abi::finish_count(lut_finished_count); }", begin)
    at = begin + where % (end - begin)
    assert is_anywhere(text)
    assert not is_anywhere(f"{text[:at]} {word} {text[at:]}")


@pytest.mark.parametrize("name", ["hawk_i", "aether::random"])
@pytest.mark.parametrize("form", [form for form, model in MODELS.items() if model.single and model.moves])
def test_no_proven_source_says(form: str, name: str) -> None:
    """What the specification asks of a source at the least: its index is declared and let go, never used."""
    assert is_anywhere(source(form))
    function = source(form).split("std::int64_t nSamples)\n{")[-1]
    uses = {line.strip() for line in function.splitlines() if re.search(rf"\b{name}\b", line)}
    assert all(any(use.startswith(known) for known in PROLOGUE) for use in uses), uses


def test_loops_that_no_compiler_makes_vectors_of() -> None:
    """Each of them adds to the count by an atomic of its own."""
    text, count = source("Table"), "hawk_abi::finish_count("
    at = text.rindex(count)
    assert is_scalar(text) and not is_scalar(source("decay"))
    assert not is_scalar(text[:at] + "hawk_abi::finish_lanes(" + text[at + len(count):])
    assert not is_scalar(text.replace(count, "(void)("))
    assert not is_scalar(text.replace("std::int64_t nSamples)\n{", "std::int64_t nSamples)\n\\\n{"))
