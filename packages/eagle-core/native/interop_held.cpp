// The planes somebody holds permuted: their samples are not where a reader looks for them, so no door hands them out.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "calls.h"
#include "interop.h"

namespace eagle::core {

bool any_held = false;

namespace {

struct Held {
    std::uint64_t owner, begin, end;
    interop::Device device;
};

std::vector<Held> held;  // under the interpreter's lock

/// hold(owner, ((address, bytes, device type, device id), ...)): what this owner holds from now on.
PyObject* hold(PyObject*, PyObject* args) {
    unsigned long long owner;
    PyObject* ranges;
    if (!PyArg_ParseTuple(args, "KO!:hold", &owner, &PyTuple_Type, &ranges)) return nullptr;
    return guarded([&]() -> PyObject* {
        std::vector<Held> next;
        std::copy_if(held.begin(), held.end(), std::back_inserter(next),
                     [&](const Held& one) { return one.owner != owner; });
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(ranges); ++i) {
            unsigned long long address, bytes;
            int type, id;
            if (!PyArg_ParseTuple(PyTuple_GET_ITEM(ranges, i), "KKii", &address, &bytes, &type, &id)) return nullptr;
            if (bytes) next.push_back({owner, address, address + bytes, {type, id}});
        }
        held.swap(next);
        any_held = !held.empty();
        Py_RETURN_NONE;
    });
}

PyObject* holds_any(PyObject*, PyObject*) { return PyBool_FromLong(any_held); }

PyMethodDef functions[] = {
    {"hold", hold, METH_VARARGS, nullptr},
    {"holds_any", holds_any, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

/// Page-locked memory of the host is the host's.
bool same_memory(const interop::Device& one, const interop::Device& other) {
    const auto on_host = [](const interop::Device& device) {
        return device.type == interop::dlpack::kCpu || device.type == interop::dlpack::kCudaHost;
    };
    return on_host(one) ? on_host(other) : one == other;
}

}  // namespace

bool is_held(const interop::Buffer& buffer) {
    if (buffer.count == 0) return false;
    std::uint64_t last = 0;
    for (int axis = 0; axis < buffer.rank; ++axis)
        last += static_cast<std::uint64_t>(buffer.strides[axis] * (buffer.shape[axis] - 1));
    const auto size = static_cast<std::uint64_t>(buffer.element->bytes());
    const auto begin = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(buffer.data));
    return std::any_of(held.begin(), held.end(), [&](const Held& one) {
        return begin < one.end && one.begin < begin + (last + 1) * size && same_memory(one.device, buffer.device);
    });
}

bool refuse_held(const char* door, PyObject* producer) {
    refuse(door, producer,
           "found a plane that an eagle.ActiveSet holds permuted (sample i is at plane[..., inv[i]]), wanted one in "
           "sample order; call ActiveSet.restore() first, or pass ActiveSet.in_sample_order(plane), a copy");
    return false;
}

bool add_held(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace eagle::core
