// What the sources of the buffer layer share: BufferView and Requirements as Python objects.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <optional>
#include <string>

#include "eagle/interop/Buffer.h"
#include "eagle/interop/Requirements.h"

namespace eagle::core {

struct ViewObject {
    PyObject ob_base;
    PyObject* origin;  ///< the object that was imported
    PyObject* weak_references;
    int64_t stream;  ///< the contents are ordered on it; of no meaning on the host
    interop::Buffer buffer;
};

extern PyTypeObject* ViewType;

/// Puts the keyword arguments of a call into `values`, one for each of the interned `keywords`. false with TypeError
/// set.
template <std::size_t many>
bool read_keywords(const char* door, PyObject* const* arguments, PyObject* names, PyObject* const (&keywords)[many],
                   PyObject* (&values)[many]) {
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i) {
        PyObject* name = PyTuple_GET_ITEM(names, i);
        std::size_t at = 0;
        while (at < many && name != keywords[at] && PyUnicode_Compare(name, keywords[at]) != 0) ++at;
        if (at == many) {
            PyErr_Format(PyExc_TypeError, "%s: found the unknown keyword %R", door, name);
            return false;
        }
        values[at] = arguments[i];
    }
    return true;
}

/// A view of `buffer`, which came from `origin`. Null with an exception set.
PyObject* make_view(PyObject* origin, interop::Buffer&& buffer, int64_t stream);

/// A share in a Python object, which may go on any thread.
interop::Share share_in(PyObject* object);

/// The buffer of an array in host memory that costs nanoseconds to read: numpy's, a view, a tensor of a type with
/// DLPack's C functions. Where its share is empty, `object` is to be held instead. Empty, with no exception set, for an
/// object that needs a closer look; throws interop::Refused for arrays of numpy that cannot serve.
std::optional<interop::Buffer> read_quickly(PyObject* object);

/// An array of numpy over the memory of another library's array in host memory, which it keeps. Null, with no exception
/// set, for what needs a closer look: arrays of numpy, tensors that autograd follows, and all that is refused.
PyObject* quick_alias(PyObject* object);

/// An array of numpy over the memory of a view, which it keeps; null with TypeError set.
PyObject* alias(PyObject* view);

/// Whether autograd follows a tensor: its attribute requires_grad is True.
bool is_followed(PyObject* object);

/// eagle.interop.frameworks.host_adapter(type of the object), new reference; null with an exception set.
PyObject* host_adapter(PyObject* object);

/// Whether the memory of `buffer` is the host's alone, so that it has no stream.
inline bool on_host(const interop::Buffer& buffer) { return buffer.device.type == interop::dlpack::kCpu; }

/// `numpy.ndarray`, `torch.Parameter`: the top module and the name of the object's type.
std::string producer_name(PyObject* object);

/// Sets BufferRefused (or another class): `<door>: <producer>: <what>`.
void refuse(const char* door, PyObject* producer, const std::string& what, PyObject* exception = nullptr);

/// Refuses a stream for host memory, named as a number or by its type.
void refuse_stream(const char* door, PyObject* producer, PyObject* stream, PyObject* exception = nullptr);

/// The requirements in `object`; null with TypeError set for another one.
const interop::Requirements* requirements_from(PyObject* object, const char* door);

/// Raises BufferRefused with every clause that fails. false with an exception set.
bool check_view(ViewObject* view, const interop::Requirements& wanted, const char* door);

/// Whether the producer of a view has its elements elsewhere by now, or as another array: 1 yes, 0 no, -1 exception.
int has_moved(const ViewObject* view);

/// Whether moved_quietly() can tell: the producer is an array of numpy, or has DLPack's C functions.
bool is_read_quickly(const ViewObject* view);

/// has_moved() for these, which runs no code of Python.
bool moved_quietly(const ViewObject* view);

/// eagle.interop.streams.order(door, device type, device id, producer, consumer). false with an exception set.
bool order_streams(const char* door, const ViewObject* view, PyObject* consumer);

/// Whether any plane is held permuted: what there is to look at while there is none.
extern bool any_held;

/// Whether memory of `buffer` is of such a plane; for when any_held.
bool is_held(const interop::Buffer& buffer);

/// Sets BufferRefused with the two ways out; false.
bool refuse_held(const char* door, PyObject* producer);

/// Refuses the memory of a plane that is held permuted. false with an exception set.
inline bool check_held(const interop::Buffer& buffer, const char* door, PyObject* producer) {
    return !any_held || !is_held(buffer) || refuse_held(door, producer);
}

bool add_held(PyObject* module);          ///< hold, holds_any
bool add_view(PyObject* module);          ///< BufferView
bool add_requirements(PyObject* module);  ///< Requirements
bool add_imports(PyObject* module);       ///< import_buffer, view_of_capsule, view_of_array

}  // namespace eagle::core
