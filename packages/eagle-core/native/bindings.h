// What each source file with Python bindings adds to eagle._core.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include "loader.h"

namespace eagle::core {

/// Backend, Module, the exceptions and the translation of core::Error; comes first.
void register_loader(nanobind::module_& m);

/// memcpy, host_alloc, host_free: those of the seam, for host memory without any backend.
void register_memory(nanobind::module_& m);

/// Filter, and what of Backend makes one: the group filtering.
void register_filtering(nanobind::module_& m);

/// Turns: one call at a time on an object.
void register_busy(nanobind::module_& m);

/// overlap, derive_edges, sibling_conflicts, Edges, Drawing: edges of graphs and their pictures.
void register_graph(nanobind::module_& m);

/// Kernel, Runs, Calls, Bound, Launches and cut: the calls that cost nanoseconds. False with an exception set.
bool register_calls(PyObject* module);

/// canonical; comes after the calls, which import numpy. False with an exception set.
bool register_reduce(PyObject* module);

/// BufferView, Requirements, import_buffer; comes after the calls. False with an exception set.
bool register_interop(PyObject* module);

/// The backend inside a _core.Backend; null with TypeError set for any other object.
const Backend* backend_from(PyObject* object);

/// Sets the Python exception of `error`.
void raise(const Error& error);

}  // namespace eagle::core
