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
from typing import Any

import pytest

from eagle_conformance.seam import Library

TIMEOUT_S = 60


def isolated(library: Library, function: Callable[..., Any], *arguments: Any) -> Any:
    """``function(library, *arguments)`` of a fresh process; arguments and result are JSON. Fails the test it fails."""
    name = f"{function.__module__}:{function.__qualname__}"
    command = [sys.executable, "-m", __name__, str(library.path), name, json.dumps(arguments)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment, check=False)
    except subprocess.TimeoutExpired:
        pytest.fail(f"{name} does not return within {TIMEOUT_S} s", pytrace=False)
    if done.returncode < 0:
        pytest.fail(f"{name}{arguments} dies of {signal.Signals(-done.returncode).name}", pytrace=False)
    if done.returncode != 0:
        pytest.fail(f"{name}{arguments}: {done.stderr.strip() or f'exit status {done.returncode}'}", pytrace=False)
    return json.loads(done.stdout.splitlines()[-1])


def main(path: str, name: str, arguments: str) -> None:
    """The child's side: prints the result; a failed assertion becomes the only line of stderr."""
    module, _, function = name.partition(":")
    try:
        value = getattr(importlib.import_module(module), function)(Library(path), *json.loads(arguments))
    except AssertionError as error:
        sys.exit(str(error))
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
