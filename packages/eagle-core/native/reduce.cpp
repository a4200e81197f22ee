// SPDX-License-Identifier: Apache-2.0
#include "eagle/reduce/Canonical.h"

#include "bindings.h"
#include "eagle/reduce/HostReduction.h"
#include "numpy_api.h"

namespace eagle::core {

namespace {

constexpr npy_intp kBrief = 1024;  // samples that take less than the GIL costs

/// The array inside `object` when it is one canonical() reads: 1-D, C-contiguous, aligned, float32 or float64.
PyArrayObject* samples_from(PyObject* object, const char* argument) {
    if (!PyArray_Check(object)) {
        PyErr_Format(PyExc_TypeError, "_core.canonical: %s: found %s, wanted a numpy array", argument,
                     Py_TYPE(object)->tp_name);
        return nullptr;
    }
    auto* array = reinterpret_cast<PyArrayObject*>(object);
    const int type = PyArray_TYPE(array);
    if ((type != NPY_FLOAT && type != NPY_DOUBLE) || !PyArray_ISNOTSWAPPED(array)) {
        PyErr_Format(PyExc_TypeError, "_core.canonical: %s: found %S, wanted float32 or float64", argument,
                     reinterpret_cast<PyObject*>(PyArray_DESCR(array)));
        return nullptr;
    }
    if (PyArray_NDIM(array) != 1 || !PyArray_IS_C_CONTIGUOUS(array) || !PyArray_ISALIGNED(array)) {
        PyErr_Format(PyExc_ValueError, "_core.canonical: %s: found %d axes, wanted 1 of contiguous, aligned samples",
                     argument, PyArray_NDIM(array));
        return nullptr;
    }
    return array;
}

template <class T>
PyObject* reduced(reduce::Op op, PyArrayObject* x, PyArrayObject* comp) {
    const npy_intp n = PyArray_DIM(x, 0);
    const auto* samples = static_cast<const T*>(PyArray_DATA(x));
    const auto* companions = comp ? static_cast<const T*>(PyArray_DATA(comp)) : nullptr;
    PyThreadState* released = n > kBrief ? PyEval_SaveThread() : nullptr;
    const T value = reduce::canonical(op, samples, companions, n);
    if (released) PyEval_RestoreThread(released);
    return PyFloat_FromDouble(static_cast<double>(value));
}

PyObject* canonical(PyObject*, PyObject* args) {
    int op;
    PyObject *given, *companions;
    if (!PyArg_ParseTuple(args, "iOO:canonical", &op, &given, &companions)) return nullptr;
    if (op < 0 || op > static_cast<int>(reduce::Op::Min))
        return PyErr_Format(PyExc_ValueError, "_core.canonical: op: found %d, wanted 0 sum, 1 max, 2 min", op);
    PyArrayObject* x = samples_from(given, "x");
    if (!x) return nullptr;
    if (PyArray_DIM(x, 0) == 0)
        return PyErr_Format(PyExc_ValueError, "_core.canonical: x: found no samples, wanted one or more");
    PyArrayObject* comp = nullptr;
    if (companions != Py_None) {
        if (op != static_cast<int>(reduce::Op::Sum))
            return PyErr_Format(PyExc_ValueError, "_core.canonical: comp: found op %d, wanted companions of a sum", op);
        comp = samples_from(companions, "comp");
        if (!comp) return nullptr;
        if (PyArray_TYPE(comp) != PyArray_TYPE(x))
            return PyErr_Format(PyExc_TypeError, "_core.canonical: comp: found %S, wanted %S as x has",
                                reinterpret_cast<PyObject*>(PyArray_DESCR(comp)),
                                reinterpret_cast<PyObject*>(PyArray_DESCR(x)));
        if (PyArray_DIM(comp, 0) != PyArray_DIM(x, 0))
            return PyErr_Format(PyExc_ValueError, "_core.canonical: comp: found %zd samples, wanted %zd as x has",
                                PyArray_DIM(comp, 0), PyArray_DIM(x, 0));
    }
    const auto known = static_cast<reduce::Op>(op);
    return PyArray_TYPE(x) == NPY_FLOAT ? reduced<float>(known, x, comp) : reduced<double>(known, x, comp);
}

PyObject* reduction(PyObject*, PyObject* args) {
    int fold, element;
    long long rows, columns;
    if (!PyArg_ParseTuple(args, "iiLL:reduction", &fold, &element, &rows, &columns)) return nullptr;
    const auto within = [](int value, auto last) { return value >= 0 && value <= static_cast<int>(last); };
    reduce::HostReduction made{};
    if (within(fold, reduce::Fold::Min) && within(element, reduce::Element::Bool) && rows > 0 && columns > 0)
        made = reduce::hostReduction(static_cast<reduce::Fold>(fold), static_cast<reduce::Element>(element), rows,
                                     columns);
    if (!made.entry)
        return PyErr_Format(PyExc_ValueError, "_core.reduction: found fold %d of element %d, %lld rows of %lld columns",
                            fold, element, rows, columns);
    return Py_BuildValue("KLL", static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(made.entry)),
                         static_cast<long long>(made.memory), static_cast<long long>(made.grain));
}

PyMethodDef functions[] = {
    {"canonical", canonical, METH_VARARGS, "The canonical sum, max or min (op 0, 1, 2) of a float array of (n,)."},
    {"reduction", reduction, METH_VARARGS,
     "(host entry, bytes of its memory, grain) of a fold (sum, max, all, min) of an element (float32, float64, int32, "
     "int64, bool): 0, 1, ..., and rows and columns; HostReduction.h says more."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_reduce(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace eagle::core
