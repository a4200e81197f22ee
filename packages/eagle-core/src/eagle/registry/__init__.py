# SPDX-License-Identifier: Apache-2.0
"""Loading artifacts: bundles become plugins that plans take, manifests become registries of kernels."""

from eagle.registry.bundle import complete, load_bundle
from eagle.registry.kernels import (
    KernelRegistry,
    PatternLoader,
    UnknownPatternError,
    load_manifest,
    register_pattern_loader,
)

__all__ = ["KernelRegistry", "PatternLoader", "UnknownPatternError", "complete", "load_bundle", "load_manifest",
           "register_pattern_loader"]


def __dir__() -> list[str]:
    return sorted(__all__)
