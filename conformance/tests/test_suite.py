# SPDX-License-Identifier: Apache-2.0
"""The suite is tested by fakes: good ones pass, and each wrong one fails the test that is there for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eagle_conformance.seam import FIRST_CALLS

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parent.parent / "packages/eagle-core/include"


def build(folder: Path, *defines: str) -> Path:
    """A fake with these defines."""
    library = folder / "libeagle_fake.so"
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", f"-I{INCLUDE}"]
    command += [*(f"-D{name}" for name in defines), str(HERE / "fake.c"), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


def run(folder: Path, library: Path, *options: str, tests: Sequence[str] = ()) -> tuple[int, dict[str, Any], str]:
    """Exit status, report and output of the suite over a library, or of these tests of it in this order."""
    report = folder / "report.json"
    chosen = [f"eagle_conformance.suite.{test.replace('.py::', '::')}" for test in tests] or ["eagle_conformance"]
    command = [sys.executable, "-m", "pytest", "--pyargs", *chosen, "--eagle-library", str(library)]
    command += ["--eagle-report", str(report), "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-q", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    found = json.loads(report.read_text()) if report.exists() else {}
    return done.returncode, found, done.stdout + done.stderr


# ---- good ones -------------------------------------------------------------------------------------------------------


def test_the_smallest_backend_passes_and_the_rest_is_refused(tmp_path: Path) -> None:
    status, report, output = run(tmp_path, build(tmp_path))
    assert status == 0, output
    assert report["aborted"] is None
    assert report["suite"] == "0.8.0"
    assert report["seam"] == "1.6"
    assert report["backend"] == {
        "kind": "fake",
        "file": str(tmp_path / "libeagle_fake.so"),
        "version": "1.6",
        "device_types": [1],
        "groups": [],
    }
    assert report["failed"] == report["skips"] == []
    assert report["by_group"]["refusals"] == {"passed": 12}
    rows = ("stream", "exec", "device", "interop", "filtering", "extensions", "stepping")
    for group in (*rows, "capture", "conditional", "launcher"):
        assert list(report["by_group"][group]) == ["not_applicable"]
    assert list(report["by_group"]["required"]) == ["passed"]


@pytest.mark.parametrize("define", ["NEWER_MINOR", "OLDER_MINOR", "FULL"])
def test_other_good_backends_pass(tmp_path: Path, define: str) -> None:
    status, report, output = run(tmp_path, build(tmp_path, define))
    assert status == 0, output
    assert set(report["counts"]) == {"passed", "not_applicable"}


# ---- wrong ones ------------------------------------------------------------------------------------------------------

WRONG = {
    "MAJOR": "test_required.py::test_version_packs_major_one",
    "EXPORT": "test_required.py::test_only_symbols_of_the_seam_are_exported",
    "KIND": "test_required.py::test_the_kind_is_the_one_of_the_file",
    "KIND_TEXT": "test_required.py::test_the_kind_is_the_one_of_the_file",
    "MISSING": "test_required.py::test_every_required_symbol_is_exported[probe]",
    "LYING_BIT": "test_required.py::test_a_set_bit_promises_its_symbols[device]",
    "RESERVED_BIT": "test_required.py::test_only_known_bits_are_set",
    "CLEAR_BIT": "test_refusals.py::test_a_group_left_out_does_nothing[graph]",
    "SHARED_ERROR": "test_required.py::test_the_error_message_belongs_to_its_thread",
    "OVERRUN": "test_required.py::test_build_info_keeps_to_the_smaller_size[48]",
    "NULL": "test_required.py::test_a_null_out_pointer_is_refused[build_info-arguments0]",
    "TYPES_CAP": "test_required.py::test_device_types_writes_at_most_cap[0]",
    "FLAGS": "test_stream.py::test_an_unknown_flag_is_unsupported[31]",
    "RELEASE": "test_stream.py::test_release_takes_null",
    "STALE_HANDLE": "test_stream.py::test_a_released_handle_is_a_bad_handle[stream_ptr]",
    "TAIL": "test_exec.py::test_a_launch_runs_each_sample_of_its_range_once[77-100003-256]",
    "TWICE": "test_exec.py::test_a_launch_runs_each_sample_of_its_range_once[0-1-1]",
    "DIRECTION": "test_interop.py::test_an_unknown_direction_is_refused_even_for_no_bytes[0-4]",
    "STREAM_COPY": "test_interop.py::test_a_copy_is_there_after_its_stream_was_waited_for[D2H]",
    "MEMSET": "test_interop.py::test_memset_zeroes_exactly[7]",
    "COPY": "test_interop.py::test_memcpy_device_copies_exactly[7]",
    "ALIGNMENT": "test_interop.py::test_host_memory_is_aligned_and_ours[64]",
    "TWO_CALLS": "test_interop.py::test_host_functions_run_once_each_in_stream_order",
    "MASK_VALUE": "test_filtering.py::test_the_map_holds_what_is_kept_in_ascending_order[33-drop-0.5]",
    "COMPACT_TAIL": "test_filtering.py::test_the_map_holds_what_is_kept_in_ascending_order[4097-keep-0.5]",
    "MAP_TAIL": "test_filtering.py::test_the_map_holds_what_is_kept_in_ascending_order[4096-drop-0.5]",
    "FIRE_EQUAL": "test_filtering.py::test_fire_is_decided_by_density_span_and_size[8192-16-0.5-8192-0]",
    "FIRE_DECIMAL": "test_filtering.py::test_theta_is_the_float32_and_the_product_is_exact",
    "FIRE_SMALL": "test_filtering.py::test_fire_is_decided_by_density_span_and_size[4096-8-0.5-4095-0]",
    "QUERY": "test_filtering.py::test_a_query_tells_the_scratch_and_does_nothing[1-compact_device]",
    "SHORT_CLASSES": "test_filtering.py::test_a_desc_of_its_own_faults_is_refused"
    "[compact_classes_device-{'struct_size': 104}]",
    "STALE": "test_filtering.py::test_exactly_five_percent_is_not_stale",
    "INVERSE": "test_filtering.py::test_a_reorder_moves_the_kept_to_the_front[4096-0.7]",
    "ELEMENT_SIZE": "test_filtering.py::test_other_element_sizes_are_refused[32-reorder_device]",
    "FIRE_STAYS": "test_filtering.py::test_a_reorder_waits_for_fire_and_clears_it",
    "BEYOND_SPAN": "test_filtering.py::test_slots_beyond_the_span_stay[reorder_device]",
    "UNSTABLE": "test_filtering.py::test_a_reorder_moves_the_kept_to_the_front[33-0.7]",
    "OFFSETS": "test_filtering.py::test_a_class_sort_orders_the_kept_by_class[4095-3-0.3]",
    "WITHIN_LIVE": "test_filtering.py::test_within_live_sorts_the_first_count_slots[4095]",
    "SORTS": "test_filtering.py::test_a_class_sort_waits_for_fire_and_clears_it",
    "RESET_MAP": "test_filtering.py::test_reset_is_the_identity[33-True]",
    "RESIDENCY": "test_filtering.py::test_residency_tells_where_memory_is",
    "STEP_CAP": "test_stepping.py::test_no_sample_takes_more_than_max_steps[word-3]",
    "STEP_WORD": "test_stepping.py::test_nothing_a_word_of_one_made_is_kept[2-word]",
    "STEP_FINISHED": "test_stepping.py::test_what_is_finished_is_left_alone[word]",
    "STEP_EXACT": "test_stepping.py::test_every_sample_takes_its_own_steps[seven-63-any]",
    "STEP_OFFERED": "test_stepping.py::test_every_sample_takes_its_own_steps[one, mapped-63-any]",
    "STEP_VISITS": "test_stepping.py::test_every_sample_takes_its_own_steps[one, mapped-63-any]",
    "STEP_POLL": "test_stepping.py::test_poll_ends_a_run_at_the_end_of_a_step[word-3]",
    "STEP_ABANDON": "test_stepping.py::test_an_abandoned_run_leaves_the_planes_alone[word]",
    "STEP_TOTALS": "test_stepping.py::test_every_sample_takes_its_own_steps[word-63-any]",
    "STEP_COUNTER": "test_stepping.py::test_every_sample_takes_its_own_steps[one-1-any]",
    "STEP_LOST": "test_stepping.py::test_every_sample_takes_its_own_steps[word-3001-any]",
    "TEAM": "test_extensions.py::test_zero_asks_and_a_number_sets",
    "CAPTURE_RUNS": "test_capture.py::test_a_captured_launch_runs_at_each_replay_and_not_before",
    "REPLAY_ONCE": "test_capture.py::test_the_work_of_a_replay_is_in_order",
    "CAPTURE_BOX": "test_capture.py::test_arguments_with_a_size_are_copied_at_the_capture",
    "CAPTURE_COPY": "test_capture.py::test_copies_and_memsets_are_captured",
    "CAPTURE_EMPTY": "test_capture.py::test_an_empty_capture_is_not_valid_and_makes_no_graph",
    "FORK_LAST": "test_capture.py::test_every_branch_of_a_fork_runs[2-100]",
    "FORK_UNJOINED": "test_capture.py::test_an_unjoined_fork_spoils_the_capture",
    "TOGGLEABLE": "test_capture.py::test_every_node_is_told_with_what_it_is",
    "CONSUMED": "test_capture.py::test_a_graph_runs_its_captures_in_order",
    "GRAPH_ORDER": "test_capture.py::test_a_graph_runs_its_captures_in_order",
    "GUARD_ONCE": "test_conditional.py::test_if_reads_its_guard_at_each_replay[0]",
    "IF_ELSE": "test_conditional.py::test_if_else_runs_one_of_two",
    "SWITCH_RANGE": "test_conditional.py::test_switch_runs_the_arm_of_its_cell_or_none",
    "LOOP_PAIR": "test_conditional.py::test_a_counted_loop[2]",
    "LOOP_LIMIT": "test_conditional.py::test_a_loop_ends_at_its_limit[9-4-4]",
    "LOOP_BRK": "test_conditional.py::test_a_loop_clears_its_brk_first",
    "EMPTY_ARM": "test_conditional.py::test_an_arm_without_work_is_refused[True]",
    "COUNT": "test_launcher.py::test_the_kernels_of_a_launcher_are_counted",
    "LOGICAL": "test_launcher.py::test_a_logical_size_bounds_the_launches",
    "ENABLED": "test_launcher.py::test_a_node_is_switched_off_and_on",
    "PARAMS_LATE": "test_launcher.py::test_arguments_are_replaced",
    "SOURCE": "test_launcher.py::test_the_source_of_a_copy_is_replaced",
    "UPDATE": "test_launcher.py::test_a_capture_of_the_same_shape_takes_its_place",
    "CALL_GOES_ON": "test_launcher.py::test_a_host_call_ends_a_replay",
}
GOOD = "test_required.py::test_a_first_call_returns[version]"  # of every fake here
FULL_MODULES = ("test_filtering", "test_stepping", "test_capture", "test_conditional", "test_launcher")
NEEDS_FULL = {
    *("FLAGS", "RELEASE", "STALE_HANDLE", "TAIL", "TWICE", "DIRECTION", "STREAM_COPY", "MEMSET", "COPY", "ALIGNMENT"),
    *("TWO_CALLS", "TEAM"),
    *(wrong for wrong, test in WRONG.items() if test.startswith(FULL_MODULES)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_backend_fails_the_test_made_for_it(tmp_path: Path, wrong: str) -> None:
    defines = [f"WRONG_{wrong}", *(["FULL"] if wrong in NEEDS_FULL else [])]
    status, report, output = run(tmp_path, build(tmp_path, *defines), tests=[WRONG[wrong], GOOD])
    assert (status, report["failed"]) == (1, [WRONG[wrong]]), output
    assert report["counts"]["passed"] == 1, "the run goes on after the failure"


def test_a_crash_is_one_failed_test_that_names_the_signal(tmp_path: Path) -> None:
    status, report, output = run(tmp_path, build(tmp_path, "FULL", "WRONG_RELEASE"), "-k", "test_stream")
    assert (status, report["failed"]) == (1, ["test_stream.py::test_release_takes_null"])
    assert "eagle_conformance.suite.test_stream:release_null() dies of SIGABRT" in output


@pytest.mark.parametrize("name", FIRST_CALLS)
def test_a_crash_in_a_first_call_is_one_failed_test(tmp_path: Path, name: str) -> None:
    status, report, output = run(tmp_path, build(tmp_path, f"WRONG_CRASH_{name.upper()}"))
    assert status == 1, output
    assert report["failed"] == [f"test_required.py::test_a_first_call_returns[{name}]"], output
    assert f"{name} dies of SIGABRT" in output
    assert report["counts"]["passed"] > 0
    assert report["aborted"] is None


def test_a_library_that_dies_while_it_is_opened_has_a_report(tmp_path: Path) -> None:
    library = build(tmp_path, "WRONG_OPENING")
    status, report, output = run(tmp_path, library)
    assert (status, report["aborted"]) == (4, f"cannot open {library}: dies of SIGABRT"), output
    assert report["backend"] == {"kind": None, "file": str(library)}


def test_a_crash_that_ends_the_run_leaves_a_report(tmp_path: Path) -> None:
    library = build(tmp_path, "FULL", "WRONG_CRASH_MIDWAY")
    status, report, output = run(tmp_path, library, "-k", "test_exec or test_interop")
    assert status < 0, output
    assert report["aborted"].startswith("the run ended in ")
    assert "test_interop.py::test_a_fence_takes_no_stream_and_no_ordering" in report["aborted"]
    assert report["counts"]["passed"] > 0


def test_the_asked_kind_is_the_one_the_library_must_tell(tmp_path: Path) -> None:
    status, report, output = run(tmp_path, build(tmp_path), "--eagle-backend", "acme", "-k", "kind")
    assert (status, report["backend"]["kind"]) == (1, "acme"), output
    assert report["failed"] == ["test_required.py::test_the_kind_is_the_one_of_the_file"]


# ---- skips, options --------------------------------------------------------------------------------------------------


def test_without_a_device_the_skips_are_counted_with_their_reason(tmp_path: Path) -> None:
    status, report, output = run(tmp_path, build(tmp_path, "FULL", "NO_DEVICE"))
    assert status == 0, output
    assert report["counts"]["skipped"] == len(report["skips"]) > 100
    assert {(skip["kind"], skip["reason"]) for skip in report["skips"]} == {("no-device", "the fake has no device")}


def test_without_nm_the_exports_are_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = build(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    status, report, output = run(tmp_path, library, "-k", "exported")
    assert status == 0, output
    assert [(skip["kind"], skip["reason"]) for skip in report["skips"]] == [
        ("needs-toolkit", "no nm to read the exported symbols")
    ]


def test_require_device_makes_them_failures(tmp_path: Path) -> None:
    status, report, output = run(tmp_path, build(tmp_path, "FULL", "NO_DEVICE"), "--require=device", "-k", "stream")
    assert status == 1, output
    assert report["skips"] == []
    assert "test_stream.py::test_a_desc_may_be_as_short_as_twelve_bytes" in report["failed"]
    assert "--require=device, and Skipped: no-device: the fake has no device" in output


def test_what_cannot_be_opened_is_an_error_of_use(tmp_path: Path) -> None:
    (tmp_path / "libeagle_text.so").write_text("no library")
    status, report, output = run(tmp_path, tmp_path / "libeagle_text.so")
    assert (status, report["aborted"].partition(": ")[0]) == (4, f"cannot open {tmp_path}/libeagle_text.so")
    assert f"ERROR: cannot open {tmp_path}/libeagle_text.so: " in output


def test_without_a_library_the_suite_says_what_it_needs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--pyargs", "eagle_conformance", "-p", "no:cacheprovider", "-q", "-x"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "ERROR: the conformance suite needs --eagle-backend KIND or --eagle-library PATH" in done.stderr
