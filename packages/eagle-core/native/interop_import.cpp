// import_buffer. Arrays of numpy, views and objects with DLPack's C functions are read here; every other object, and
// every refusal of one, goes to eagle.interop.reading.read.
//
// SPDX-License-Identifier: Apache-2.0
#include "eagle/interop/Import.h"

#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "bindings.h"
#include "calls.h"
#include "interop.h"
#include "numpy_api.h"

namespace eagle::core {

namespace {

using namespace interop;

constexpr const char* kDoor = "eagle.interop.import_buffer";
constexpr int64_t kDefaultStream = 1;

PyObject *str_exchange, *str_is_neg, *str_module, *str_requires_grad, *str_dlpack, *str_marker, *str_cuda;
PyObject* str_keywords[3];

/// Clears an exception that a closer look will raise again; not MemoryError, nor what stops a program.
void forget_refusal() {
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_MemoryError))
        PyErr_Clear();
}

/// The view that looks at the producer itself, where this one looks at a view.
const ViewObject* first_view(const ViewObject* view) {
    while (Py_IS_TYPE(view->origin, ViewType)) view = reinterpret_cast<const ViewObject*>(view->origin);
    return view;
}

/// numpy's letter for an element type.
char letter_of(const Element& element) { return element.letter ? element.letter : 'V'; }

/// Arrays of jax are shared between computations, so nobody may write them.
bool is_immutable(PyObject* object) {
    PyObject* module = PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(object)), str_module);
    if (!module) PyErr_Clear();
    const char* name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
    const std::string_view top = name ? std::string_view(name).substr(0, std::strcspn(name, ".")) : "";
    const bool immutable = top == "jax" || top == "jaxlib";
    Py_XDECREF(module);
    return immutable;
}

// ---- numpy ----------------------------------------------------------------------------------------------------------

/// The element type of an array; throws Refused.
const Element* element_of(PyArrayObject* array) {
    PyArray_Descr* descr = PyArray_DESCR(array);
    const Element* element = nullptr;
    if (PyArray_ISNBO(descr->byteorder)) element = elementOf(descr->kind, PyArray_ITEMSIZE(array));
    if (!element && PyTypeNum_ISUSERDEF(descr->type_num) && PyArray_ITEMSIZE(array) == 2) {
        const char* dot = std::strrchr(descr->typeobj->tp_name, '.');
        if (!std::strcmp(dot ? dot + 1 : descr->typeobj->tp_name, "bfloat16")) element = elementNamed("bfloat16");
    }
    if (element) return element;
    PyObject* typestr = PyObject_GetAttrString(reinterpret_cast<PyObject*>(descr), "str");
    const char* utf8 = typestr && PyUnicode_Check(typestr) ? PyUnicode_AsUTF8(typestr) : nullptr;
    PyErr_Clear();
    const std::string found = utf8 ? "'" + std::string(utf8) + "'" : "an unknown type";
    Py_XDECREF(typestr);
    throw Refused("dtype", found, "a float, bfloat16, integer or bool in native byte order",
                  "convert it with .astype(...)");
}

/// What numpy's struct says; throws Refused.
Buffer read_numpy(PyObject* object) {
    auto* array = reinterpret_cast<PyArrayObject*>(object);
    if (!PyArray_CheckExact(object) && PyObject_HasAttrString(object, "mask"))
        throw Refused("mask", "a masked array", "an array without a mask", "pass .filled(...) or .data");
    int64_t shape[kMaxRank + 1], bytes[kMaxRank + 1];
    const int rank = std::min(PyArray_NDIM(array), kMaxRank + 1);
    for (int axis = 0; axis < rank; ++axis) {
        shape[axis] = PyArray_DIM(array, axis);
        bytes[axis] = PyArray_STRIDE(array, axis);
    }
    const auto many = static_cast<std::size_t>(rank);
    if (PyArray_NDIM(array) > kMaxRank)
        throw Refused("rank", std::to_string(PyArray_NDIM(array)) + " axes", "at most " + std::to_string(kMaxRank),
                      "join some");
    return importArray({.data = PyArray_DATA(array),
                        .element = element_of(array),
                        .shape = {shape, many},
                        .byteStrides = std::span<const int64_t>(bytes, many),
                        .readOnly = !PyArray_ISWRITEABLE(array)},
                       nullptr);
}

// ---- DLPack's C functions -------------------------------------------------------------------------------------------

const dlpack::ExchangeApi* exchange_of(PyTypeObject* type) {
    PyObject* capsule = PyObject_GetAttr(reinterpret_cast<PyObject*>(type), str_exchange);
    void* pointer = capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : nullptr;
    if (!pointer) PyErr_Clear();
    Py_XDECREF(capsule);
    const auto* api = static_cast<const dlpack::ExchangeApi*>(pointer);
    while (api && api->version.major > dlpack::kVersion.major) api = api->older;
    return api && api->version.major == dlpack::kVersion.major && api->fromObject ? api : nullptr;
}

/// The bit torch sets on a tensor whose elements are to be negated when read.
bool is_negated(PyObject* object) {
    PyObject* arguments[] = {object};
    PyObject* answer = PyObject_VectorcallMethod(str_is_neg, arguments, 1, nullptr);
    if (!answer) forget_refusal();
    Py_XDECREF(answer);
    return answer == Py_True;
}

/// A CPU tensor that its type's C functions tell of; empty for anything that needs a closer look.
std::optional<Buffer> read_exchange(PyObject* object) {
    const dlpack::ExchangeApi* api = exchange_of(Py_TYPE(object));
    dlpack::Versioned* managed = nullptr;
    if (!api) return std::nullopt;
    if (api->fromObject(object, &managed) != 0 || !managed) {
        forget_refusal();
        return std::nullopt;
    }
    try {
        Buffer buffer = importManaged(managed);
        if (!on_host(buffer) || is_negated(object)) return std::nullopt;
        return buffer;
    } catch (const Refused&) {
        return std::nullopt;
    }
}

// ---- views ----------------------------------------------------------------------------------------------------------

/// What a view of host memory hands on: the same memory, as writable as its versioned export.
Buffer read_view(const ViewObject* view) {
    Buffer buffer = view->buffer;
    buffer.access = buffer.writable() ? Access::ReadWrite : Access::ReadOnly;
    buffer.immutable = false;
    return buffer;
}

// ---- everything else ------------------------------------------------------------------------------------------------

/// An attribute of a module, new reference; null with an exception set.
PyObject* attribute_of(const char* name, const char* attribute) {
    PyObject* module = PyImport_ImportModule(name);
    PyObject* found = module ? PyObject_GetAttrString(module, attribute) : nullptr;
    Py_XDECREF(module);
    return found;
}

/// eagle.interop.reading.read(object, stream, assume_writable)
PyObject* read_closely(PyObject* object, PyObject* stream, bool assume) {
    static PyObject* read = nullptr;
    if (!read && !(read = attribute_of("eagle.interop.reading", "read"))) return nullptr;
    PyObject* arguments[] = {object, stream, assume ? Py_True : Py_False};
    PyObject* view = PyObject_Vectorcall(read, arguments, 3, nullptr);
    if (!view || Py_IS_TYPE(view, ViewType)) return view;
    Py_DECREF(view);
    PyErr_SetString(PyExc_TypeError, "eagle.interop.reading.read: wanted a BufferView");
    return nullptr;
}

/// Makes the view of a buffer `make` returns; what it throws becomes BufferRefused.
template <class Make>
PyObject* view_from(PyObject* object, int64_t stream, bool assume, Make make) {
    try {
        Buffer buffer = make();
        buffer.assumedWritable = assume;
        return make_view(object, std::move(buffer), stream);
    } catch (const Refused& refused) {
        refuse(kDoor, object, refused.what());
        return nullptr;
    }
}

PyObject* read_any(PyObject* object, PyObject* stream, bool assume) {
    if (stream == Py_None) {
        try {
            if (std::optional<Buffer> buffer = read_quickly(object))
                return view_from(object, 0, assume, [&] { return std::move(*buffer); });
        } catch (const Refused& refused) {
            refuse(kDoor, object, refused.what());
            return nullptr;
        }
    } else if (PyArray_Check(object)) {
        refuse_stream(kDoor, object, stream);
        return nullptr;
    }
    return read_closely(object, stream, assume);
}

PyObject* import_buffer(PyObject*, PyObject* const* args, Py_ssize_t given, PyObject* names) {
    if (given != 1) return PyErr_Format(PyExc_TypeError, "%s: found %zd positional arguments, wanted 1", kDoor, given);
    PyObject* values[] = {Py_None, Py_None, Py_False};
    if (!read_keywords(kDoor, args + given, names, str_keywords, values)) return nullptr;
    const auto [stream, require, assume] = values;
    if (!PyBool_Check(assume))
        return PyErr_Format(PyExc_TypeError, "%s: assume_writable: found %.200s, wanted a bool", kDoor,
                            Py_TYPE(assume)->tp_name);
    return guarded([&]() -> PyObject* {
        const Requirements* wanted = require == Py_None ? nullptr : requirements_from(require, kDoor);
        if (!wanted && require != Py_None) return nullptr;
        PyObject* view = read_any(args[0], stream, assume == Py_True);
        auto* made = reinterpret_cast<ViewObject*>(view);
        if (view && (!check_held(made->buffer, kDoor, args[0]) || (wanted && !check_view(made, *wanted, kDoor))))
            Py_CLEAR(view);
        return view;
    });
}

/// Renames the capsule, and is its tensor from then on.
template <class Managed>
Managed* take(PyObject* capsule, const char* name, const char* used) {
    void* managed = PyCapsule_GetPointer(capsule, name);
    return managed && PyCapsule_SetName(capsule, used) == 0 ? static_cast<Managed*>(managed) : nullptr;
}

/// view_of_capsule(object, capsule, stream, assume_writable): of what object.__dlpack__ returned; stream a code or
/// None.
PyObject* view_of_capsule(PyObject*, PyObject* args) {
    PyObject *object, *capsule, *stream;
    int assume;
    if (!PyArg_ParseTuple(args, "OOOp:view_of_capsule", &object, &capsule, &stream, &assume)) return nullptr;
    const long long code = stream == Py_None ? kDefaultStream : PyLong_AsLongLong(stream);
    if (code == -1 && PyErr_Occurred()) return nullptr;
    return guarded([&]() -> PyObject* {
        if (!PyCapsule_CheckExact(capsule)) {
            refuse(kDoor, object,
                   std::string("__dlpack__ returned ") + Py_TYPE(capsule)->tp_name + ", wanted a capsule",
                   PyExc_TypeError);
            return nullptr;
        }
        const bool versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");
        return view_from(object, code, assume, [&] {
            if (!versioned && !PyCapsule_IsValid(capsule, "dltensor")) {
                const char* name = PyCapsule_GetName(capsule);
                PyErr_Clear();
                throw Refused("capsule", name ? "'" + std::string(name) + "'" : "one without a name",
                              "'dltensor' or 'dltensor_versioned'", "a capsule serves once");
            }
            Buffer buffer =
                versioned
                    ? importManaged(take<dlpack::Versioned>(capsule, "dltensor_versioned", "used_dltensor_versioned"))
                    : importManaged(take<dlpack::Legacy>(capsule, "dltensor", "used_dltensor"));
            if (on_host(buffer) && stream != Py_None)
                throw Refused("stream", std::to_string(code), "None", "a CPU buffer takes no stream");
            buffer.immutable = is_immutable(object);
            return buffer;
        });
    });
}

/// is_legacy(object): whether it is a DLPack capsule that cannot say that it is read-only.
PyObject* is_legacy(PyObject*, PyObject* object) { return PyBool_FromLong(PyCapsule_IsValid(object, "dltensor")); }

bool read_integers(PyObject* tuple, std::vector<int64_t>& out) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
        out.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)));
        if (out.back() == -1 && PyErr_Occurred()) return false;
    }
    return true;
}

/// view_of_array(object, keep, address, typestr, shape, byte strides or None, read-only, device type, device id,
/// stream, assume_writable): of an array interface; `keep` is held beside the object.
PyObject* view_of_array(PyObject*, PyObject* args) {
    PyObject *object, *keep, *shape, *strides;
    unsigned long long address;
    const char* typestr;
    int read_only, type, id, assume;
    long long stream;
    if (!PyArg_ParseTuple(args, "OOKsO!OpiiLp:view_of_array", &object, &keep, &address, &typestr, &PyTuple_Type, &shape,
                          &strides, &read_only, &type, &id, &stream, &assume))
        return nullptr;
    return guarded([&]() -> PyObject* {
        std::vector<int64_t> extents, steps;
        if (!read_integers(shape, extents) || (strides != Py_None && !read_integers(strides, steps))) return nullptr;
        const Element* element = elementOfTypestr(typestr);
        return view_from(object, stream, assume, [&] {
            if (!element)
                throw Refused("typestr", "'" + std::string(typestr) + "'",
                              "a float, integer or bool in native byte order", "convert it");
            ArrayFacts facts{.data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)),
                             .element = element,
                             .shape = extents,
                             .byteStrides = std::nullopt,
                             .readOnly = read_only != 0,
                             .device = {type, id}};
            if (strides != Py_None) facts.byteStrides = steps;
            Buffer buffer = importArray(facts, share_in(keep));
            buffer.immutable = is_immutable(object);
            return buffer;
        });
    });
}

PyMethodDef functions[] = {
    {"import_buffer", method(import_buffer), METH_FASTCALL | METH_KEYWORDS,
     "import_buffer(obj, *, stream=None, require=None, assume_writable=False)\n--\n\n"
     "A zero-copy view of an array of any library: numpy, torch, jax, Warp, and whatever has __dlpack__,\n"
     "__cuda_array_interface__ or __array_interface__. `stream`: the stream (DLPack code) the caller will use it on, "
     "None\n"
     "for host memory. `assume_writable`: the caller's word where the producer says nothing.\n\n"
     "Raises BufferRefused for content that cannot serve or fails a check of `require` (eagle.interop.Requirements),\n"
     "TypeError for objects that are no arrays, and what the producer raises."},
    {"is_legacy", is_legacy, METH_O, nullptr},
    {"view_of_capsule", view_of_capsule, METH_VARARGS, nullptr},
    {"view_of_array", view_of_array, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

/// DEVICE_NAMES and ELEMENT_NAMES: what a requirement can name.
bool add_names(PyObject* module) {
    PyObject* devices = PyDict_New();
    for (int type = 0; devices && type <= dlpack::kLastDeviceType; ++type) {
        if (!dlpack::deviceName(type)) continue;
        PyObject* number = PyLong_FromLong(type);
        if (!number || PyDict_SetItemString(devices, dlpack::deviceName(type), number) < 0) Py_CLEAR(devices);
        Py_XDECREF(number);
    }
    PyObject* elements = PyTuple_New(std::size(kElements));
    for (std::size_t i = 0; elements && i < std::size(kElements); ++i)
        PyTuple_SET_ITEM(elements, static_cast<Py_ssize_t>(i), PyUnicode_FromString(kElements[i].name));
    const bool added = devices && elements && PyModule_AddObjectRef(module, "DEVICE_TYPES", devices) == 0 &&
                       PyModule_AddObjectRef(module, "ELEMENT_NAMES", elements) == 0;
    Py_XDECREF(devices);
    Py_XDECREF(elements);
    return added;
}

}  // namespace

std::optional<Buffer> read_quickly(PyObject* object) {
    if (PyArray_Check(object)) return read_numpy(object);
    if (!Py_IS_TYPE(object, ViewType)) return read_exchange(object);
    const auto* view = reinterpret_cast<const ViewObject*>(object);
    return on_host(view->buffer) ? std::optional(read_view(view)) : std::nullopt;
}

bool is_followed(PyObject* object) {
    PyObject* value = PyObject_GetAttr(object, str_requires_grad);
    if (!value) forget_refusal();
    Py_XDECREF(value);
    return value == Py_True;
}

PyObject* quick_alias(PyObject* object) {
    PyObject* view = nullptr;
    if (Py_IS_TYPE(object, ViewType)) {
        view = Py_NewRef(object);
    } else if (!PyArray_Check(object) && PyObject_HasAttr(reinterpret_cast<PyObject*>(Py_TYPE(object)), str_dlpack) &&
               !is_followed(object)) {
        if (std::optional<Buffer> buffer = read_exchange(object))
            view = make_view(object, std::move(*buffer), 0);
        else if (!PyErr_Occurred() && !PyObject_HasAttr(object, str_marker) && !PyObject_HasAttr(object, str_cuda))
            view = read_closely(object, Py_None, false);
    }
    PyObject* array = view ? alias(view) : nullptr;
    Py_XDECREF(view);
    forget_refusal();
    return array;
}

PyObject* host_adapter(PyObject* object) {
    static PyObject* adapter = nullptr;
    if (!adapter && !(adapter = attribute_of("eagle.interop.frameworks", "host_adapter"))) return nullptr;
    return PyObject_CallOneArg(adapter, reinterpret_cast<PyObject*>(Py_TYPE(object)));
}

bool is_read_quickly(const ViewObject* view) {
    PyObject* origin = first_view(view)->origin;
    return PyArray_Check(origin) || exchange_of(Py_TYPE(origin));
}

bool moved_quietly(const ViewObject* view) {
    view = first_view(view);
    const Buffer& then = view->buffer;
    const auto rank = static_cast<std::size_t>(then.rank);
    const int64_t size = then.element->bytes();
    const auto same = [&](const void* data, int axes, const auto* shape, const auto* strides, int64_t unit) {
        if (data != then.data || axes != then.rank) return false;
        for (std::size_t axis = 0; axis < rank; ++axis)
            if (shape[axis] != then.shape[axis] ||
                (strides && then.count > 0 && shape[axis] > 1 && strides[axis] * unit != then.strides[axis] * size))
                return false;
        return true;
    };
    if (PyArray_Check(view->origin)) {
        auto* array = reinterpret_cast<PyArrayObject*>(view->origin);
        return PyArray_ITEMSIZE(array) != size || PyArray_DESCR(array)->kind != letter_of(*then.element) ||
               !same(PyArray_DATA(array), PyArray_NDIM(array), PyArray_DIMS(array), PyArray_STRIDES(array), 1);
    }
    const dlpack::ExchangeApi* api = exchange_of(Py_TYPE(view->origin));
    dlpack::Tensor now{};
    if (!api->borrow || api->borrow(view->origin, &now) != 0) {
        PyErr_Clear();
        return true;  // it hands out nothing any more
    }
    const char* data = static_cast<const char*>(now.data);
    return elementOf(now.dtype) != then.element || now.device != then.device ||
           !same(data ? data + now.byteOffset : data, now.rank, now.shape, now.strides, size);
}

int has_moved(const ViewObject* view) {
    if (is_read_quickly(view)) return moved_quietly(view);
    view = first_view(view);
    PyObject* unordered = on_host(view->buffer) ? Py_NewRef(Py_None) : PyLong_FromLong(-1);
    PyObject* read = unordered ? read_closely(view->origin, unordered, false) : nullptr;
    Py_XDECREF(unordered);
    if (!read) return -1;
    const Buffer &then = view->buffer, &now = reinterpret_cast<ViewObject*>(read)->buffer;
    const int moved = now.data != then.data || now.element != then.element || now.rank != then.rank ||
                      now.shape != then.shape || now.strides != then.strides || now.device != then.device;
    Py_DECREF(read);
    return moved;
}

bool add_imports(PyObject* module) {
    constexpr const char* keywords[] = {"stream", "require", "assume_writable"};
    for (std::size_t i = 0; i < std::size(keywords); ++i)
        if (!(str_keywords[i] = PyUnicode_InternFromString(keywords[i]))) return false;
    str_exchange = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
    str_is_neg = PyUnicode_InternFromString("is_neg");
    str_module = PyUnicode_InternFromString("__module__");
    str_requires_grad = PyUnicode_InternFromString("requires_grad");
    str_dlpack = PyUnicode_InternFromString("__dlpack__");
    str_marker = PyUnicode_InternFromString("__raptor_samples_axis__");
    str_cuda = PyUnicode_InternFromString("__cuda_array_interface__");
    return str_exchange && str_is_neg && str_module && str_requires_grad && str_dlpack && str_marker && str_cuda &&
           add_names(module) && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace eagle::core
