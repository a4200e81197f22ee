// BufferView: a buffer of another library as a Python object.
//
// SPDX-License-Identifier: Apache-2.0
#include <Python.h>

#include <structmember.h>

#include <new>
#include <utility>

#include "bindings.h"
#include "calls.h"
#include "eagle/interop/Export.h"
#include "interop.h"
#include "numpy_api.h"

namespace eagle::core {

PyTypeObject* ViewType = nullptr;

namespace {

using namespace interop;

PyObject* buffer_refused = nullptr;
PyObject* str_keywords[4];  // of __dlpack__

constexpr const char* kLegacyName = "dltensor";
constexpr const char* kVersionedName = "dltensor_versioned";

ViewObject* as_view(PyObject* object) { return reinterpret_cast<ViewObject*>(object); }
const Buffer& buffer_of(PyObject* object) { return as_view(object)->buffer; }

PyObject* tuple_of(std::span<const int64_t> values) {
    PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(values.size()));
    for (std::size_t i = 0; tuple && i < values.size(); ++i) {
        PyObject* value = PyLong_FromLongLong(values[i]);
        if (!value)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), value);
    }
    return tuple;
}

PyObject* text(const std::string& value) {
    return PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace");
}

/// The exception that is on its way while a deleter runs, which may be any code.
class KeptError {
public:
    KeptError() { PyErr_Fetch(&type_, &value_, &traceback_); }
    ~KeptError() { PyErr_Restore(type_, value_, traceback_); }
    KeptError(const KeptError&) = delete;
    KeptError& operator=(const KeptError&) = delete;

private:
    PyObject *type_, *value_, *traceback_;
};

void view_dealloc(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    ViewObject* self = as_view(object);
    PyObject_GC_UnTrack(object);
    Py_TRASHCAN_BEGIN(object, view_dealloc);  // views of views of views
    if (self->weak_references) PyObject_ClearWeakRefs(object);
    {
        const KeptError kept;
        self->buffer.~Buffer();
        Py_XDECREF(self->origin);
    }
    type->tp_free(object);
    Py_DECREF(type);
    Py_TRASHCAN_END;
}

int view_traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(as_view(object)->origin);
    return 0;
}

PyObject* view_repr(PyObject* object) {
    return guarded([&] {
        const Buffer& buffer = buffer_of(object);
        return text("<BufferView of " + producer_name(as_view(object)->origin) + ": " + buffer.element->name + " " +
                    tupleText(buffer.extents()) + ", " + accessName(buffer.access) + ", " +
                    deviceText(buffer.device.type) + ":" + std::to_string(buffer.device.id) + ">");
    });
}

PyObject* get_access(PyObject* object, void*) { return PyUnicode_FromString(accessName(buffer_of(object).access)); }
PyObject* get_owner(PyObject*, void*) { return PyUnicode_FromString("external"); }
PyObject* get_producer(PyObject* object, void*) {
    return guarded([&] { return text(producer_name(as_view(object)->origin)); });
}
PyObject* get_stream(PyObject* object, void*) {
    return on_host(buffer_of(object)) ? Py_NewRef(Py_None) : PyLong_FromLongLong(as_view(object)->stream);
}
PyObject* get_assumed(PyObject* object, void*) { return PyBool_FromLong(buffer_of(object).assumedWritable); }
PyObject* get_writable(PyObject* object, void*) { return PyBool_FromLong(buffer_of(object).writable()); }
PyObject* get_ptr(PyObject* object, void*) { return PyLong_FromVoidPtr(buffer_of(object).data); }
PyObject* get_shape(PyObject* object, void*) { return tuple_of(buffer_of(object).extents()); }
PyObject* get_strides(PyObject* object, void*) { return tuple_of(buffer_of(object).steps()); }
PyObject* get_dtype(PyObject* object, void*) { return PyUnicode_FromString(buffer_of(object).element->name); }
PyObject* get_nbytes(PyObject* object, void*) {
    const Buffer& buffer = buffer_of(object);
    return PyLong_FromLongLong(buffer.count * buffer.element->bytes());
}
PyObject* get_device(PyObject* object, void*) {
    const Device& device = buffer_of(object).device;
    return Py_BuildValue("ii", static_cast<int>(device.type), static_cast<int>(device.id));
}

PyGetSetDef view_fields[] = {
    {"access", get_access, nullptr, "What the producer declared: \"read-write\", \"read-only\" or \"unknown\".",
     nullptr},
    {"owner", get_owner, nullptr, "\"external\": the memory belongs to the producer.", nullptr},
    {"producer", get_producer, nullptr, "The producer's type, as in \"numpy.ndarray\".", nullptr},
    {"stream", get_stream, nullptr, "The stream the contents are ordered on, an int; None on the host.", nullptr},
    {"assumed_writable", get_assumed, nullptr, "Whether the caller asserted at import that it may be written.",
     nullptr},
    {"writable", get_writable, nullptr,
     "Declared read-write, or unknown with an assertion; never for arrays of jax, nor where elements share memory.",
     nullptr},
    {"ptr", get_ptr, nullptr, "The address of the first element.", nullptr},
    {"shape", get_shape, nullptr, nullptr, nullptr},
    {"strides", get_strides, nullptr, "In elements.", nullptr},
    {"dtype", get_dtype, nullptr, "The name of the element type, as in \"float64\".", nullptr},
    {"nbytes", get_nbytes, nullptr, "The bytes of all elements.", nullptr},
    {"device", get_device, nullptr, "(device type, device id) as DLPack counts them.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

/// Ends a capsule nobody took.
template <class Managed>
void drop_capsule(PyObject* capsule, const char* name) {
    if (!PyCapsule_IsValid(capsule, name)) return;
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
    const KeptError kept;
    managed->deleter(managed);
}
void drop_legacy(PyObject* capsule) { drop_capsule<dlpack::Legacy>(capsule, kLegacyName); }
void drop_versioned(PyObject* capsule) { drop_capsule<dlpack::Versioned>(capsule, kVersionedName); }

template <class Managed>
PyObject* capsule_of(Managed* managed, const char* name, PyCapsule_Destructor drop) {
    PyObject* capsule = PyCapsule_New(managed, name, drop);
    if (!capsule) managed->deleter(managed);
    return capsule;
}

constexpr const char* kExport = "BufferView.__dlpack__";

/// Whether the consumer gets what it asks for. false with an exception set.
bool exportable(ViewObject* self, PyObject* stream, PyObject* device, PyObject* copy) {
    if (copy != Py_None) {
        const int wanted = PyObject_IsTrue(copy);
        if (wanted < 0) return false;
        if (wanted) {
            refuse(kExport, self->origin, "copy: found True, wanted None or False; a view is never a copy",
                   PyExc_BufferError);
            return false;
        }
    }
    const Device& own = self->buffer.device;
    if (device != Py_None) {
        PyObject* here = get_device(reinterpret_cast<PyObject*>(self), nullptr);
        if (!here) return false;
        const int same = PyObject_RichCompareBool(here, device, Py_EQ);
        Py_DECREF(here);
        if (same < 0) return false;
        if (!same) {
            refuse(kExport, self->origin,
                   "dl_device: found another device, wanted (" + std::to_string(own.type) + ", " +
                       std::to_string(own.id) + "), where it is; copy it there with its own library",
                   PyExc_BufferError);
            return false;
        }
    }
    if (!on_host(self->buffer)) return order_streams(kExport, self, stream);
    if (stream == Py_None) return true;
    refuse_stream(kExport, self->origin, stream, PyExc_BufferError);
    return false;
}

PyObject* view_dlpack(PyObject* object, PyObject* const* args, Py_ssize_t given, PyObject* names) {
    PyObject* values[] = {Py_None, Py_None, Py_None, Py_None};
    if (given != 0) return PyErr_Format(PyExc_TypeError, "%s: found positional arguments, wanted none", kExport);
    if (!read_keywords(kExport, args, names, str_keywords, values)) return nullptr;
    const auto [stream, version, device, copy] = values;
    int major = 0, minor = 0;
    if (version != Py_None && (!PyTuple_Check(version) || !PyArg_ParseTuple(version, "ii", &major, &minor)))
        return PyErr_Format(PyExc_TypeError, "%s: max_version: found %R, wanted None or (major, minor)", kExport,
                            version);
    ViewObject* self = as_view(object);
    return guarded([&]() -> PyObject* {
        if (!exportable(self, stream, device, copy) || !check_held(self->buffer, kExport, self->origin)) return nullptr;
        Share share = self->buffer.share ? self->buffer.share : share_in(self->origin);
        try {
            if (major >= 1)
                return capsule_of(exportVersioned(self->buffer, std::move(share)), kVersionedName, drop_versioned);
            return capsule_of(exportLegacy(self->buffer, std::move(share)), kLegacyName, drop_legacy);
        } catch (const Refused& refused) {
            refuse(kExport, self->origin, refused.what(), PyExc_BufferError);
            return nullptr;
        }
    });
}

PyObject* view_dlpack_device(PyObject* object, PyObject*) { return get_device(object, nullptr); }

/// numpy's number for an element type; NPY_NOTYPE where numpy has none.
int typenum_of(const Element& element) {
    switch (element.letter) {
        case 'b':
            return NPY_BOOL;
        case 'f':
            return element.bits == 64 ? NPY_DOUBLE : element.bits == 32 ? NPY_FLOAT : NPY_HALF;
        case 'i':
            return element.bits == 64   ? NPY_INT64
                   : element.bits == 32 ? NPY_INT32
                   : element.bits == 16 ? NPY_INT16
                                        : NPY_INT8;
        case 'u':
            return element.bits == 64   ? NPY_UINT64
                   : element.bits == 32 ? NPY_UINT32
                   : element.bits == 16 ? NPY_UINT16
                                        : NPY_UINT8;
        default:
            return NPY_NOTYPE;
    }
}

PyObject* view_array(PyObject* object, PyObject* args, PyObject* names) {
    static const char* keywords[] = {"dtype", "copy", nullptr};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|OO:__array__", const_cast<char**>(keywords), &dtype, &copy))
        return nullptr;
    return guarded([&]() -> PyObject* {
        PyObject* array = alias(object);
        if (!array || (dtype == Py_None && copy != Py_True)) return array;
        PyArray_Descr* wanted = nullptr;
        if (dtype != Py_None && !PyArray_DescrConverter(dtype, &wanted)) {
            Py_DECREF(array);
            return nullptr;
        }
        auto* own = reinterpret_cast<PyArrayObject*>(array);
        if (copy == Py_False && wanted && !PyArray_EquivTypes(wanted, PyArray_DESCR(own))) {
            Py_DECREF(wanted);
            Py_DECREF(array);
            PyErr_SetString(PyExc_ValueError,
                            "BufferView.__array__: copy: found False, wanted None or True for a cast");
            return nullptr;
        }
        PyObject* made =
            PyArray_FromArray(own, wanted, NPY_ARRAY_FORCECAST | (copy == Py_True ? NPY_ARRAY_ENSURECOPY : 0));
        Py_DECREF(array);
        return made;
    });
}

PyObject* view_refusals(PyObject* object, PyObject* require) {
    return guarded([&]() -> PyObject* {
        const Requirements* wanted = requirements_from(require, "BufferView.refusals");
        if (!wanted) return nullptr;
        PyObject* list = PyList_New(0);
        for (const std::string& clause : interop::refusals(*wanted, buffer_of(object))) {
            PyObject* item = list ? text(clause) : nullptr;
            if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
            Py_XDECREF(item);
        }
        return list;
    });
}

PyObject* view_check(PyObject* object, PyObject* require) {
    return guarded([&]() -> PyObject* {
        const Requirements* wanted = requirements_from(require, "BufferView.check");
        if (!wanted || !check_view(as_view(object), *wanted, "BufferView.check")) return nullptr;
        Py_RETURN_NONE;
    });
}

PyObject* view_refence(PyObject* object, PyObject* stream) {
    return guarded([&]() -> PyObject* {
        ViewObject* self = as_view(object);
        if (on_host(self->buffer)) {
            if (stream == Py_None) Py_RETURN_NONE;
            refuse_stream("BufferView.refence", self->origin, stream);
            return nullptr;
        }
        if (!order_streams("BufferView.refence", self, stream)) return nullptr;
        Py_RETURN_NONE;
    });
}

PyObject* view_moved(PyObject* object, PyObject*) {
    return guarded([&]() -> PyObject* {
        const int moved = has_moved(as_view(object));
        return moved < 0 ? nullptr : PyBool_FromLong(moved);
    });
}

PyMethodDef view_methods[] = {
    {"refusals", view_refusals, METH_O,
     "refusals(require, /)\n--\n\nA clause for each check of `require` that fails; an empty list when it serves."},
    {"check", view_check, METH_O, "check(require, /)\n--\n\nRaises BufferRefused with every check that fails."},
    {"refence", view_refence, METH_O,
     "refence(stream, /)\n--\n\nOrders this view's stream before `stream` again, for a producer that keeps writing.\n"
     "Never blocks. A CPU view takes None only (BufferRefused)."},
    {"moved", view_moved, METH_NOARGS,
     "moved()\n--\n\nWhether the producer keeps its elements elsewhere by now, or as another array: it was resized, "
     "or\n"
     "given other storage."},
    {"__dlpack__", method(view_dlpack), METH_FASTCALL | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA DLPack capsule, versioned when "
     "max_version is 1.0 or more. Raises BufferError."},
    {"__dlpack_device__", view_dlpack_device, METH_NOARGS, nullptr},
    {"__array__", method(view_array), METH_VARARGS | METH_KEYWORDS,
     "__array__(dtype=None, copy=None)\n--\n\nA numpy array of the same memory. TypeError for memory of a device."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef view_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ViewObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot view_slots[] = {
    {Py_tp_doc, const_cast<char*>("A zero-copy view of another library's buffer; import_buffer makes it. It keeps the "
                                  "producer, and hands the memory on.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(view_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(view_traverse)},
    {Py_tp_repr, reinterpret_cast<void*>(view_repr)},
    {Py_tp_getset, view_fields},
    {Py_tp_members, view_members},
    {Py_tp_methods, view_methods},
    {0, nullptr},
};
PyType_Spec view_spec = {
    "eagle._core.BufferView", sizeof(ViewObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, view_slots};

}  // namespace

PyObject* alias(PyObject* object) {
    const Buffer& buffer = buffer_of(object);
    if (!check_held(buffer, "BufferView.__array__", as_view(object)->origin)) return nullptr;
    const int typenum = typenum_of(*buffer.element);
    if (typenum == NPY_NOTYPE || !(on_host(buffer) || buffer.device.type == dlpack::kCudaHost)) {
        refuse("BufferView.__array__", as_view(object)->origin,
               std::string("found ") + buffer.element->name + " on " + deviceText(buffer.device.type) +
                   ", wanted an element type of numpy in host memory; convert it with its own library",
               PyExc_TypeError);
        return nullptr;
    }
    npy_intp shape[kMaxRank], steps[kMaxRank];
    for (int axis = 0; axis < buffer.rank; ++axis) {
        shape[axis] = static_cast<npy_intp>(buffer.shape[axis]);
        steps[axis] = static_cast<npy_intp>(buffer.strides[axis] * buffer.element->bytes());
    }
    PyObject* array = PyArray_New(&PyArray_Type, buffer.rank, shape, typenum, steps, buffer.data, 0,
                                  buffer.writable() ? NPY_ARRAY_WRITEABLE : 0, nullptr);
    if (!array) return nullptr;
    if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array), Py_NewRef(object)) < 0) Py_CLEAR(array);
    return array;
}

Share share_in(PyObject* object) {
    return Share(Py_NewRef(object), [](PyObject* gone) {
        if (!Py_IsInitialized()) return;  // the object went with the interpreter
        const PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(gone);
        PyGILState_Release(state);
    });
}

PyObject* make_view(PyObject* origin, Buffer&& buffer, int64_t stream) {
    PyObject* object = ViewType->tp_alloc(ViewType, 0);
    if (!object) return nullptr;
    ViewObject* self = as_view(object);
    new (&self->buffer) Buffer(std::move(buffer));
    self->origin = Py_NewRef(origin);
    self->stream = stream;
    return object;
}

std::string producer_name(PyObject* object) {
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
    std::string name;
    for (const char* attribute : {"__module__", "__name__"}) {
        PyObject* value = PyObject_GetAttrString(type, attribute);
        const char* utf8 = value && PyUnicode_Check(value) ? PyUnicode_AsUTF8(value) : nullptr;
        PyErr_Clear();
        std::string part = utf8 ? utf8 : "?";
        Py_XDECREF(value);
        if (name.empty()) {
            part.resize(std::min(part.find('.'), part.size()));
            name = part + ".";
        } else {
            name += part;
        }
    }
    return name;
}

void refuse(const char* door, PyObject* producer, const std::string& what, PyObject* exception) {
    PyObject* message = text(std::string(door) + ": " + producer_name(producer) + ": " + what);
    if (!message) return;
    PyErr_SetObject(exception ? exception : buffer_refused, message);
    Py_DECREF(message);
}

void refuse_stream(const char* door, PyObject* producer, PyObject* stream, PyObject* exception) {
    int overflow = 0;
    const long long code = PyLong_Check(stream) ? PyLong_AsLongLongAndOverflow(stream, &overflow) : 0;
    const std::string found =
        PyLong_Check(stream) && !overflow ? std::to_string(code) : std::string("a ") + Py_TYPE(stream)->tp_name;
    refuse(door, producer, "stream: found " + found + ", wanted None; a CPU buffer takes no stream", exception);
}

bool check_view(ViewObject* view, const Requirements& wanted, const char* door) {
    const std::vector<std::string> clauses = interop::refusals(wanted, view->buffer);
    if (clauses.empty()) return true;
    std::string all;
    for (const std::string& clause : clauses) all += (all.empty() ? "" : "; ") + clause;
    refuse(door, view->origin, all);
    return false;
}

bool order_streams(const char* door, const ViewObject* view, PyObject* consumer) {
    PyObject* streams = PyImport_ImportModule("eagle.interop.streams");
    if (!streams) return false;
    const Device& device = view->buffer.device;
    PyObject* done = PyObject_CallMethod(streams, "order", "siiLO", door, static_cast<int>(device.type),
                                         static_cast<int>(device.id), static_cast<long long>(view->stream), consumer);
    Py_DECREF(streams);
    Py_XDECREF(done);
    return done != nullptr;
}

bool add_view(PyObject* module) {
    constexpr const char* keywords[] = {"stream", "max_version", "dl_device", "copy"};
    for (std::size_t i = 0; i < std::size(keywords); ++i)
        if (!(str_keywords[i] = PyUnicode_InternFromString(keywords[i]))) return false;
    PyObject* errors = PyImport_ImportModule("eagle.errors");
    if (errors) buffer_refused = PyObject_GetAttrString(errors, "BufferRefused");
    Py_XDECREF(errors);
    return buffer_refused && add_type(module, view_spec, "BufferView", nullptr, &ViewType);
}

bool register_interop(PyObject* module) {
    return add_held(module) && add_view(module) && add_requirements(module) && add_imports(module);
}

}  // namespace eagle::core
