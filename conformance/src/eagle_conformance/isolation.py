# SPDX-License-Identifier: Apache-2.0
"""Calls that may crash, made in a process of their own: a crash is one failed test and not the end of the run."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eagle_conformance.seam import FIRST_CALLS, Library

TIMEOUT_S = 60
ANSWER = "eagle-conformance-answer "  # before each answer on stdout, where a library may print as well


def child(*arguments: str) -> tuple[list[Any], str]:
    """The answers a fresh process of this module printed, and how it ended where that was wrong."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", __name__, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, env=environment, check=False)
    except subprocess.TimeoutExpired as expired:
        return answers_in(expired.stdout or b""), f"does not return within {TIMEOUT_S} s"
    found = answers_in(done.stdout)
    if done.returncode < 0:
        return found, f"dies of {signal.Signals(-done.returncode).name}"
    if done.returncode != 0:
        text = done.stderr.decode(errors="replace").strip()
        return found, f"fails: {text}" if text else f"ends with exit status {done.returncode}"
    return found, ""


def answers_in(output: bytes) -> list[Any]:
    """The answers among whatever else was printed."""
    lines = output.decode(errors="replace").splitlines()
    return [json.loads(line.removeprefix(ANSWER)) for line in lines if line.startswith(ANSWER)]


def answer(value: Any) -> None:
    """Tells the parent, at once: the next call may be the last. It begins a line of its own."""
    print(f"\n{ANSWER}{json.dumps(value)}", flush=True)


def isolated(library: Library, function: Callable[..., Any], *arguments: Any) -> Any:
    """``function(library, *arguments)`` of a fresh process; arguments and result are JSON. Fails the test it fails."""
    name = f"{function.__module__}:{function.__qualname__}"
    found, problem = child("call", str(library.path), name, json.dumps(arguments))
    if problem:
        pytest.fail(f"{name}({', '.join(map(repr, arguments))}) {problem}", pytrace=False)
    return found[-1]


def survey(path: Path) -> dict[str, Any]:
    """What a library answers to its first calls, by name: the constructor argument ``known`` of Library.

    A call that does not return has no answer; ``crashed`` says what became of it. Raises OSError for a file that
    cannot be opened.
    """
    known: dict[str, Any] = {"crashed": {}}
    names = list(FIRST_CALLS)
    while names:
        found, problem = child("survey", str(path), json.dumps(names), json.dumps(known))
        if not found:
            raise OSError(problem.removeprefix("fails: ") or "the library ends the process that opens it")
        answered = dict(found[1:])
        known |= answered
        names = names[len(answered) :]
        if names:
            known["crashed"][names.pop(0)] = problem or "ends the process"
    return known


def call_main(path: str, name: str, arguments: str) -> None:
    """The child's side of isolated: a failed assertion becomes the only line of stderr."""
    module, _, function = name.partition(":")
    try:
        value = getattr(importlib.import_module(module), function)(Library(path), *json.loads(arguments))
    except AssertionError as error:
        sys.exit(str(error))
    answer(value)


def survey_main(path: str, names: str, known: str) -> None:
    """The child's side of survey: says that the library is open, then one (name, answer) after the other."""
    try:
        library = Library(path, known=json.loads(known))
    except OSError as error:
        sys.exit(str(error))
    answer("open")
    for name in json.loads(names):
        answer((name, getattr(library, name)))


if __name__ == "__main__":
    {"call": call_main, "survey": survey_main}[sys.argv[1]](*sys.argv[2:])
