// What each source file with Python bindings adds to eagle._core.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace eagle::core {

/// Backend, Module, the exceptions and the translation of core::Error; comes first.
void register_loader(nanobind::module_& m);

}  // namespace eagle::core
