// The module eagle._core: one register function a source file.
//
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>

#include "bindings.h"

NB_MODULE(_core, m) {
    if (PyInterpreterState_Get() != PyInterpreterState_Main())
        throw nanobind::import_error("eagle: found a second interpreter, wanted the main one of the process");
    nanobind::set_leak_warnings(false);  // loaded backends are kept until the process ends, on purpose
    eagle::core::register_loader(m);
    eagle::core::register_memory(m);
    eagle::core::register_filtering(m);
    eagle::core::register_busy(m);
    eagle::core::register_graph(m);
    if (!eagle::core::register_calls(m.ptr()) || !eagle::core::register_reduce(m.ptr()) ||
        !eagle::core::register_interop(m.ptr()))
        throw nanobind::python_error();
}
