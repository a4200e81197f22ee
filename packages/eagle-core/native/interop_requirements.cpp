// Requirements as a Python object. A Python subclass takes keywords, checks them and says what they mean in numbers.
//
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "calls.h"
#include "interop.h"

namespace eagle::core {

namespace {

using interop::Requirements;

struct RequirementsObject {
    PyObject ob_base;
    Requirements* wanted;
};

PyTypeObject* RequirementsType = nullptr;

const Requirements& wanted_of(PyObject* object) { return *reinterpret_cast<RequirementsObject*>(object)->wanted; }

/// Requirements(dtype, count, shape, contiguous, alignment, device, device_types, device_id, writable): None, -1 and 0
/// are what is not checked; bit t of device_types says that device type t will do.
PyObject* requirements_new(PyTypeObject* type, PyObject* args, PyObject*) {
    const char *dtype, *device;
    long long count, alignment;
    unsigned long long types;
    int contiguous, id, writable;
    PyObject* shape;
    if (!PyArg_ParseTuple(args, "zLOpLzKip:Requirements", &dtype, &count, &shape, &contiguous, &alignment, &device,
                          &types, &id, &writable))
        return nullptr;
    return guarded([&]() -> PyObject* {
        auto wanted = std::make_unique<Requirements>();
        if (dtype && !(wanted->element = interop::elementNamed(dtype)))
            return PyErr_Format(PyExc_ValueError, "_core.Requirements: dtype: found %s", dtype);
        if (PyTuple_Check(shape)) {
            wanted->shape.emplace();
            for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i) {
                const long long extent = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
                if (extent == -1 && PyErr_Occurred()) return nullptr;
                wanted->shape->push_back(extent);
            }
        }
        wanted->count = count;
        wanted->contiguous = contiguous;
        wanted->alignment = alignment;
        wanted->deviceTypes = types;
        wanted->device = device ? device : "";
        wanted->deviceId = id;
        wanted->writable = writable;
        PyObject* object = type->tp_alloc(type, 0);
        if (object) reinterpret_cast<RequirementsObject*>(object)->wanted = wanted.release();
        return object;
    });
}

void requirements_dealloc(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    delete reinterpret_cast<RequirementsObject*>(object)->wanted;
    type->tp_free(object);
    Py_DECREF(type);
}

PyType_Slot requirements_slots[] = {
    {Py_tp_doc, const_cast<char*>("What a consumer needs of a buffer, as numbers.")},
    {Py_tp_new, reinterpret_cast<void*>(requirements_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(requirements_dealloc)},
    {0, nullptr},
};
PyType_Spec requirements_spec = {"eagle._core.Requirements", sizeof(RequirementsObject), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
                                 requirements_slots};

}  // namespace

const Requirements* requirements_from(PyObject* object, const char* door) {
    if (PyObject_TypeCheck(object, RequirementsType)) return &wanted_of(object);
    PyErr_Format(PyExc_TypeError, "%s: require: found %s, wanted eagle.interop.Requirements", door,
                 Py_TYPE(object)->tp_name);
    return nullptr;
}

bool add_requirements(PyObject* module) {
    return add_type(module, requirements_spec, "Requirements", nullptr, &RequirementsType);
}

}  // namespace eagle::core
