// A packed block, and launch.
//
// SPDX-License-Identifier: Apache-2.0
#include "calls.h"

namespace eagle::core {

namespace {

PyObject *str_launch, *str_moved;

/// A packed block that several launches may use at once: rebinding swaps it, and each launch holds its own.
struct BoundObject {
    PyObject ob_base;
    KernelObject* kernel;
    Block* block;
    Cut* cut;
};

struct LaunchesObject {
    PyObject ob_base;
    BoundObject* bound;
};

PyTypeObject* BoundType = nullptr;

/// _core.Bound(kernel, values, parts, given): `values` has one item a slot, None where the block makes its own.
PyObject* bound_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *kernel, *values, *given;
    long long parts;
    if (!PyArg_ParseTuple(args, "O!O!LO!:Bound", KernelType, &kernel, &PyTuple_Type, &values, &parts, &PyTuple_Type,
                          &given))
        return nullptr;
    return guarded([&]() -> PyObject* {
        Cut cut;
        std::vector<int16_t> position;
        if (!read_cut(parts, given, cut) || !read_values(reinterpret_cast<KernelObject*>(kernel), values, position))
            return nullptr;
        PyObject* object = type->tp_alloc(type, 0);
        if (!object) return nullptr;
        auto* self = reinterpret_cast<BoundObject*>(object);
        Py_INCREF(kernel);
        self->kernel = reinterpret_cast<KernelObject*>(kernel);
        self->cut = new (std::nothrow) Cut(std::move(cut));
        self->block = self->cut ? new (std::nothrow) Block(self->kernel) : nullptr;
        if (!self->block) {
            Py_DECREF(object);
            return PyErr_NoMemory();
        }
        if (!pack_exactly(*self->block, values, position, *self->cut)) Py_CLEAR(object);
        return object;
    });
}

int bound_traverse(PyObject* object, visitproc visit, void* arg) {
    auto* self = reinterpret_cast<BoundObject*>(object);
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->kernel);
    if (self->block)
        for (std::size_t i = 0; i < self->kernel->slots->size(); ++i) Py_VISIT(self->block->plane(i));
    return 0;
}

void bound_dealloc(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    auto* self = reinterpret_cast<BoundObject*>(object);
    PyObject_GC_UnTrack(object);
    delete self->block;
    delete self->cut;
    Py_XDECREF(self->kernel);
    type->tp_free(object);
    Py_DECREF(type);
}

PyType_Slot bound_slots[] = {
    {Py_tp_doc, const_cast<char*>("A packed argument block with the planes it points at.")},
    {Py_tp_new, reinterpret_cast<void*>(bound_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(bound_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(bound_traverse)},
    {0, nullptr},
};
PyType_Spec bound_spec = {"eagle._core.Bound", sizeof(BoundObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, bound_slots};

PyObject* launches_launch(PyObject* object, PyObject* const* args, Py_ssize_t given, PyObject* names) {
    auto* self = reinterpret_cast<LaunchesObject*>(object);
    if (!self->bound) {
        PyErr_SetString(PyExc_RuntimeError, "BoundPlan.launch: found nothing bound, wanted what Plan.bind returns");
        return nullptr;
    }
    if (given || names) return guarded([&] { return careful(object, str_launch, args, given, names); });
    BoundObject* bound = self->bound;
    std::size_t moved = 0;
    if (!bound->block->intact(&moved)) {
        PyObject* index = PyLong_FromSize_t(moved);
        if (!index) return nullptr;
        PyObject* result = PyObject_CallMethodOneArg(object, str_moved, index);
        Py_DECREF(index);
        return result;
    }
    Py_INCREF(bound);  // another thread may rebind while the GIL is released
    const bool ok = launch(bound->kernel, bound->block->params(), bound->block->n(), *bound->cut);
    Py_DECREF(bound);
    if (!ok) return nullptr;
    Py_RETURN_NONE;
}

PyObject* launches_set(PyObject* object, PyObject* bound) {
    if (!PyObject_TypeCheck(bound, BoundType)) {
        PyErr_SetString(PyExc_TypeError, "_set: wanted a _core.Bound");
        return nullptr;
    }
    auto* self = reinterpret_cast<LaunchesObject*>(object);
    Py_INCREF(bound);
    Py_XSETREF(self->bound, reinterpret_cast<BoundObject*>(bound));
    Py_RETURN_NONE;
}

int launches_traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(reinterpret_cast<LaunchesObject*>(object)->bound);
    return 0;
}

int launches_clear(PyObject* object) {
    Py_CLEAR(reinterpret_cast<LaunchesObject*>(object)->bound);
    return 0;
}

void launches_dealloc(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    launches_clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

PyMethodDef launches_methods[] = {
    {"launch", method(launches_launch), METH_FASTCALL | METH_KEYWORDS,
     "launch(stream=None, *, grid=None, block=None)\n--\n\n"
     "Run the kernel once over the bound planes; the answers are in them. Host plans take no stream and no grid\n"
     "(ValueError); `block` is not used. Raises BufferRefused when a bound plane has moved, changed its shape or\n"
     "become read-only since."},
    {"_set", method(launches_set), METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot launches_slots[] = {
    {Py_tp_doc, const_cast<char*>("What launch() needs: a block, replaced as a whole by rebinding.")},
    {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
    {Py_tp_dealloc, reinterpret_cast<void*>(launches_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(launches_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(launches_clear)},
    {Py_tp_methods, launches_methods},
    {0, nullptr},
};
PyType_Spec launches_spec = {"eagle._core.Launches", sizeof(LaunchesObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
                             launches_slots};

}  // namespace

bool add_launches(PyObject* module) {
    str_launch = PyUnicode_InternFromString("_launch");
    str_moved = PyUnicode_InternFromString("_moved");
    return str_launch && str_moved && add_type(module, bound_spec, "Bound", nullptr, &BoundType) &&
           add_type(module, launches_spec, "Launches");
}

}  // namespace eagle::core
