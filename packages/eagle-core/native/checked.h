// Launches that report an index outside its plane instead of following it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <atomic>
#include <functional>

#include "kernel.h"

namespace eagle::core {

/// How many ask for checks: $EAGLE_CHECK and every eagle.exec.checking() that is open.
inline std::atomic<int> checks_asked{0};

inline bool checking() { return checks_asked.load(std::memory_order_relaxed) != 0; }

/// Sets the Python exception of a launch that failed; empty where none did. It may run anybody's code.
using Failure = std::function<void()>;

/// What launch() does while somebody asks for checks: the same, on the calling thread and over copies of the planes.
Failure launch_checked(KernelObject* kernel, const void* const* params, int64_t n, const Cut& cut,
                       const Caller& caller);

/// Reads $EAGLE_CHECK; registers ask_checks.
bool add_checks(PyObject* module);

}  // namespace eagle::core
