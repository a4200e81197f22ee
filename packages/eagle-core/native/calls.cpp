// SPDX-License-Identifier: Apache-2.0
#define EAGLE_IMPORTS_NUMPY
#include "calls.h"

#include <algorithm>

#include "bindings.h"
#include "checked.h"
#include "numpy_api.h"

namespace eagle::core {

PyObject* careful(PyObject* self, PyObject* method, PyObject* const* args, Py_ssize_t given, PyObject* names) {
    const Py_ssize_t total = given + (names ? PyTuple_GET_SIZE(names) : 0);
    std::vector<PyObject*> all(static_cast<std::size_t>(total) + 1);
    all[0] = self;
    std::copy(args, args + total, all.begin() + 1);
    return PyObject_VectorcallMethod(method, all.data(), static_cast<std::size_t>(given) + 1, names);
}

bool add_type(PyObject* module, PyType_Spec& spec, const char* name, PyObject* base, PyTypeObject** out) {
    PyObject* type = PyType_FromSpecWithBases(&spec, base);
    if (!type || PyModule_AddObjectRef(module, name, type) < 0) return false;
    if (out) *out = reinterpret_cast<PyTypeObject*>(type);
    return true;
}

bool read_cut(long long parts, PyObject* given, Cut& cut) {
    cut.parts = parts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
        long long base, count, n;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(given, i), "LLL", &base, &count, &n)) return false;
        cut.given.push_back({base, count, n});
    }
    if (parts < 1) {
        PyErr_SetString(PyExc_ValueError, "_core: a cut needs at least one part");
        return false;
    }
    return true;
}

bool read_values(const KernelObject* kernel, PyObject* values, std::vector<int16_t>& position) {
    const std::size_t slots = kernel->slots->size();
    if (static_cast<std::size_t>(PyTuple_GET_SIZE(values)) != slots) {
        PyErr_Format(PyExc_ValueError, "_core: %zd values for %zu slots", PyTuple_GET_SIZE(values), slots);
        return false;
    }
    position.resize(slots);
    for (std::size_t i = 0; i < slots; ++i)
        position[i] = PyTuple_GET_ITEM(values, static_cast<Py_ssize_t>(i)) == Py_None ? -1 : static_cast<int16_t>(i);
    return true;
}

bool pack_exactly(Block& block, PyObject* values, PyObject* bytes, const std::vector<int16_t>& position,
                  const Cut& cut) {
    PyObject* const* items = reinterpret_cast<PyTupleObject*>(values)->ob_item;
    Block::Packed packed = block.pack(items, position.data(), Door::Bind, cut);
    for (std::size_t i = 0; packed == Block::Packed::Yes && i < position.size(); ++i) {
        const Py_ssize_t at = static_cast<Py_ssize_t>(i);
        const long long checked = at < PyTuple_GET_SIZE(bytes) ? PyLong_AsLongLong(PyTuple_GET_ITEM(bytes, at)) : -1;
        if (checked == -1 && PyErr_Occurred()) return false;
        if (checked >= 0 &&
            (!block.plane(i) || PyArray_NBYTES(reinterpret_cast<PyArrayObject*>(block.plane(i))) != checked))
            packed = Block::Packed::Unfit;
    }
    if (packed == Block::Packed::Unfit)
        PyErr_SetString(PyExc_ValueError,
                        "eagle: found a plane that changed while it was checked, wanted one that stays as it was");
    return packed == Block::Packed::Yes;
}

bool launch(const Block& block, const Cut& cut, const Caller& caller) {
    KernelObject* kernel = block.kernel();
    if (launch_is_all(kernel)) return launch(kernel, block.params(), block.n(), cut, caller);
    if (checking()) {
        block.begin();
        const Failure failed = launch_checked(kernel, block.params(), block.n(), cut, caller);
        if (failed) failed();
        return !failed && passed(kernel, block.finish());
    }
    eagle_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = block.run(cut);
    Py_END_ALLOW_THREADS;
    return passed(kernel, status);
}

namespace {

/// cut(parts, given, n): the partitions of n samples as (base, count, n) triples.
PyObject* cut_samples(PyObject*, PyObject* args) {
    long long parts, n;
    PyObject* given;
    if (!PyArg_ParseTuple(args, "LO!L:cut", &parts, &PyTuple_Type, &given, &n)) return nullptr;
    return guarded([&]() -> PyObject* {
        Cut cut;
        if (!read_cut(parts, given, cut)) return nullptr;
        PyObject* triples = PyTuple_New(static_cast<Py_ssize_t>(cut.size()));
        for (int64_t i = 0; triples && i < cut.size(); ++i) {
            const plugin::Partition part = cut.at(i, n);
            PyObject* triple = Py_BuildValue("LLL", static_cast<long long>(part.base),
                                             static_cast<long long>(part.count), static_cast<long long>(part.nSamples));
            if (!triple)
                Py_CLEAR(triples);
            else
                PyTuple_SET_ITEM(triples, static_cast<Py_ssize_t>(i), triple);
        }
        return triples;
    });
}

/// address(array, /): where an array of numpy begins.
PyObject* address(PyObject*, PyObject* object) {
    if (!PyArray_Check(object)) return PyErr_Format(PyExc_TypeError, "_core.address: wanted an array of numpy");
    return PyLong_FromVoidPtr(PyArray_DATA(reinterpret_cast<PyArrayObject*>(object)));
}

PyMethodDef functions[] = {
    {"address", address, METH_O, nullptr},
    {"cut", cut_samples, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_calls(PyObject* module) {
    return _import_array() >= 0 && add_kernel_type(module) && add_runs(module) && add_launches(module) &&
           add_steps(module) && add_programs(module) && add_checks(module) &&
           PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace eagle::core
