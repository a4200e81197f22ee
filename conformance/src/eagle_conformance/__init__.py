# SPDX-License-Identifier: Apache-2.0
"""The conformance suite of eagle-backend/1: a pytest plug-in that tests a backend library as a black box."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagle_conformance.quirks import HostQuirks, Quirks

__all__ = ["HostQuirks", "Quirks", "__version__"]
__version__ = "0.8.0"


def __getattr__(name: str) -> Any:  # every pytest run of an environment imports this package: nothing is read early
    if name in ("HostQuirks", "Quirks"):
        from eagle_conformance import quirks

        return getattr(quirks, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
