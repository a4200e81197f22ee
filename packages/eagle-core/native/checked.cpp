// SPDX-License-Identifier: Apache-2.0
#include "checked.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "bindings.h"
#include "block.h"
#include "guarded.h"

namespace eagle::core {

namespace {

std::string unreadable;  // $EAGLE_CHECK, where it says neither yes nor no

/// A copy of the boxes of a launch, and the planes they point at.
struct Boxes {
    Boxes(const KernelObject* kernel, const void* const* given, int64_t n)
        : storage(kernel->slots->size()), params(kernel->slots->size()) {
        for (std::size_t i = 0; i < storage.size(); ++i) {
            const Slot& slot = (*kernel->slots)[i];
            params[i] = &storage[i];
            storage[i] = *static_cast<const BoxStorage*>(given[i]);
            if (slot.is_uniform() || slot.box == Box::SampleCount) continue;
            const bool rows = slot.box == Box::Rows;
            const auto cell = static_cast<std::size_t>(rows ? slot.cell : slot.bytes / slot.width);
            const auto bytes =
                static_cast<std::size_t>(slot.is_plane()                                          ? slot.bytes * n
                                         : slot.is_buffer() || rows || slot.box == Box::Companion ? storage[i].cell
                                                                                                  : slot.bytes);
            planes.push_back({&storage[i].handle.data, bytes, cell, slot.writes || slot.box == Box::Cell});
            slots.push_back(&slot);
        }
    }

    std::vector<BoxStorage> storage;
    std::vector<void*> params;
    std::vector<GuardedPlane> planes;
    std::vector<const Slot*> slots;  ///< of each plane
};

/// New reference: the door as messages name it.
PyObject* door_of(const KernelObject* kernel, const Caller& caller) {
    if (caller.method) return PyUnicode_FromFormat("%U.%s", caller.door, caller.method);
    return caller.door ? Py_NewRef(caller.door) : PyUnicode_FromFormat("%U()", kernel->name);
}

void raise_out_of_bounds(const KernelObject* kernel, const Boxes& boxes, const GuardedCall& call, const Fault& fault,
                         PyObject* door) {
    static constexpr const char* kAccess[] = {"an access", "a read", "a write"};
    const GuardedPlane& plane = boxes.planes[fault.plane];
    const Slot& slot = *boxes.slots[fault.plane];
    const auto cell = static_cast<int64_t>(plane.cell);
    const int64_t element = (fault.offset - (fault.offset < 0 ? cell - 1 : 0)) / cell;
    // The samples that cannot be told apart: one, those of a row, or those of a thread.
    const auto [lanes, stride] = kernel->box;
    const int64_t first =
        lanes == 1 || fault.first < 0 ? fault.first : fault.first / stride * lanes * stride + fault.first % stride;
    const int64_t alike = std::min(std::max(lanes, call.row), (call.part.nSamples - first - 1) / stride + 1);
    PyObject* errors = PyImport_ImportModule("eagle.errors");
    const int64_t rows = slot.box == Box::Mirror || slot.box == Box::Matrix ? slot.width : 1;
    PyObject* error = errors ? PyObject_CallMethod(errors, "out_of_bounds", "OOOOsLnLLLL(LLL)", door, kernel->name,
                                                   slot.role, slot.name, kAccess[static_cast<int>(fault.access)],
                                                   element, plane.bytes / plane.cell, rows, first, alike, stride,
                                                   call.part.base, call.part.count, call.part.nSamples)
                             : nullptr;
    if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
    Py_XDECREF(error);
    Py_XDECREF(errors);
}

using Text = std::shared_ptr<PyObject>;

Failure launch_checked(KernelObject* kernel, const void* const* params, int64_t n, const Cut& cut, const Text& door) {
    if (!unreadable.empty()) {
        return [door] {
            PyErr_Format(PyExc_ValueError,
                         "%U: EAGLE_CHECK: found '%s', wanted '1' or '0'; set it before eagle is imported", door.get(),
                         unreadable.c_str());
        };
    }
    const char* utf8 = PyUnicode_AsUTF8(door.get());
    if (!utf8) return [] {};  // the exception is set
    const auto copies = std::make_shared<Boxes>(kernel, params, n);
    Boxes& boxes = *copies;
    std::vector<GuardedCall> calls;
    const int64_t row = kernel->reductions->empty() ? 1 : kRow;
    const int64_t threads = threads_of(kernel, params, n);
    for (int64_t i = 0; i < cut.filled(threads); ++i)
        if (const plugin::Partition part = cut.at(i, threads); part.count > 0)
            calls.push_back({reinterpret_cast<plugin::HostEntry>(kernel->entry),
                             boxes.params.data(),
                             {part.base, part.count, n},
                             row});
    std::optional<Fault> fault;
    std::optional<Error> failure;
    Py_BEGIN_ALLOW_THREADS;
    try {
        fault = run_guarded(boxes.planes, calls, [&](plugin::HostEntry entry, void* const* own, const auto& part) {
            kernel->seam->check(launch_entry(kernel, reinterpret_cast<uint64_t>(entry), own, part));
        });
    } catch (const CannotGuard& error) {
        failure.emplace(error.raises, std::string(utf8) + ": " + error.what());
    } catch (const Error& error) {
        failure.emplace(error);
    } catch (const std::exception& error) {
        failure.emplace(Raises::kMemoryError, error.what());
    }
    Py_END_ALLOW_THREADS;
    if (failure) return [failure = *failure] { raise(failure); };
    if (!fault) return nullptr;
    return [=, call = calls[fault->call], fault = *fault] {
        raise_out_of_bounds(kernel, *copies, call, fault, door.get());
    };
}

/// ask_checks(by): so many more ask for checks.
PyObject* ask_checks(PyObject*, PyObject* by) {
    const long more = PyLong_AsLong(by);
    if (more == -1 && PyErr_Occurred()) return nullptr;
    checks_asked.fetch_add(static_cast<int>(more), std::memory_order_relaxed);
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"ask_checks", ask_checks, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

Failure launch_checked(KernelObject* kernel, const void* const* params, int64_t n, const Cut& cut,
                       const Caller& caller) {
    PyObject* door = door_of(kernel, caller);
    if (!door) return [] {};
    return launch_checked(kernel, params, n, cut, Text(door, Py_DecRef));
}

bool add_checks(PyObject* module) {
    const char* text = std::getenv("EAGLE_CHECK");
    const std::string_view said = text ? text : "";
    if (said != "1" && said != "0" && !said.empty()) unreadable = said;
    checks_asked = said != "0" && !said.empty();
    return PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace eagle::core
