# SPDX-License-Identifier: Apache-2.0
"""Looks at one kind, step by step: ``python -m eagle.backends.probe KIND`` prints a line of JSON after each step.

The process may die or hang in a plug-in or a library; what it printed until then stands.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TypedDict

from eagle.backends import discovery, loading
from eagle.errors import BackendUnavailable

__all__ = ["NEXT_STEP", "Row", "blank_row", "main"]

# What is going on after a state was reached, in the order of the states.
NEXT_STEP = {
    "found": "importing its plug-in",
    "importable": "loading its library",
    "compatible": "probing for a device",
    "has-device": "naming its devices",
}


class Row(TypedDict):
    """What is known of a kind; `state` is the furthest it reached."""

    kind: str
    state: str
    distribution: str
    file: str
    seam: str
    groups: list[str]
    device_types: list[int]
    devices: list[str]
    error: str


def blank_row(kind: str) -> Row:
    """The row of a kind that was found, from metadata alone."""
    claims = discovery.claims().get(kind, ())
    return Row(kind=kind, state="found", distribution=", ".join(claim.distribution for claim in claims),
               file=discovery.named_file(kind), seam="", groups=[], device_types=[], devices=[], error="")


def main(kind: str) -> None:
    # Results go to the standard output as it was; what a plug-in or a library prints goes to the standard error.
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    row = blank_row(kind)

    def tell(finished: bool = False) -> None:
        print(json.dumps({"finished": finished, "row": row}), file=results, flush=True)

    tell()
    plugin = discovery.plugin(kind)
    if plugin.spec is not None:
        row["device_types"] = list(plugin.spec.device_types)
    if plugin.spec is not None or discovery.named_file(kind) or not plugin.claims:
        row["state"] = "importable"
        tell()
    outcome = loading.attempt(kind)
    backend = outcome.backend
    row["file"], row["error"] = outcome.path, outcome.error
    if backend is not None:
        row["state"] = "compatible"
        row["seam"] = backend.version
        row["groups"] = [group for group, reason in backend.groups.items() if not reason]
        row["device_types"] = row["device_types"] or list(backend.device_types)
        tell()
        try:
            backend.probe()
            row["state"] = "has-device"
            tell()
            row["devices"] = backend.devices()
        except (BackendUnavailable, RuntimeError, ValueError, IndexError) as no_device:
            row["error"] = str(no_device)
    tell(finished=True)


if __name__ == "__main__":
    main(sys.argv[1])
