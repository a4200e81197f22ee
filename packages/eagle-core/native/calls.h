// What the doors share: the C entry points that cost nanoseconds.
//
// SPDX-License-Identifier: Apache-2.0
//
// Each door tries the exact case in C: numpy arrays of the declared dtype, C order and shape, numbers for uniforms.
// Anything else, and every refusal, goes to the Python method of the same name with an underscore, before anything was
// written. Python subclasses provide those: `_run(**planes)`, `_call(*args, **planes)`, `_launch(...)`,
// `_moved(index)`.
#pragma once

#include <Python.h>

#include <cstdint>
#include <exception>
#include <new>
#include <vector>

#include "block.h"

namespace eagle::core {

bool read_cut(long long parts, PyObject* given, Cut& cut);
bool read_values(const KernelObject* kernel, PyObject* values, std::vector<int16_t>& position);
/// Packs what was checked. false with an exception set, also where a buffer no longer has its `bytes`.
bool pack_exactly(Block& block, PyObject* values, PyObject* bytes, const std::vector<int16_t>& position,
                  const Cut& cut);

/// Launches what is packed and finishes its reductions. false with an exception set.
bool launch(const Block& block, const Cut& cut, const Caller& caller);

/// self.<method>(*args, **names)
PyObject* careful(PyObject* self, PyObject* method, PyObject* const* args, Py_ssize_t given, PyObject* names);

/// Adds a type made of `spec` to _core. false with a Python exception set.
bool add_type(PyObject* module, PyType_Spec& spec, const char* name, PyObject* base = nullptr,
              PyTypeObject** out = nullptr);

bool add_runs(PyObject* module);      ///< Runs, Calls, keep_call
bool add_launches(PyObject* module);  ///< Bound, Launches
bool add_steps(PyObject* module);     ///< Steps, behind the launches
bool add_programs(PyObject* module);  ///< Program, Replays, behind the launches

/// No C++ exception leaves a C entry point.
template <class Body>
PyObject* guarded(Body body) {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
        return nullptr;
    }
}

template <class Function>
PyCFunction method(Function function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

}  // namespace eagle::core
