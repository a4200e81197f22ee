// SPDX-License-Identifier: Apache-2.0
#include "kernel.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <utility>

#include "bindings.h"
#include "calls.h"
#include "checked.h"
#include "numpy_api.h"

namespace eagle::core {

PyTypeObject* KernelType = nullptr;

namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr double kPieceNs = 4000;            // work that is worth handing to another thread
constexpr int64_t kPieceBytes = 128 * 1024;  // the same for kernels that only move memory
constexpr double kLaunchNs = 60;             // what an empty launch measures
constexpr int64_t kWorthAligning = 512;      // samples of a launch that gains by an aligned start
constexpr uint32_t kOnePiece = std::numeric_limits<uint32_t>::max();

}  // namespace

int64_t peel_of(const KernelObject* kernel, const void* const* params, const plugin::Partition& part) {
    constexpr std::uintptr_t kLine = 64;
    if (kernel->aligned_slot < 0 || part.count < kWorthAligning) return 0;
    const auto slot = static_cast<std::size_t>(kernel->aligned_slot);
    const auto size = static_cast<std::uintptr_t>((*kernel->slots)[slot].bytes / (*kernel->slots)[slot].width);
    const std::uintptr_t data = *static_cast<const std::uintptr_t*>(params[slot]);  // a box begins with the address
    const std::uintptr_t before = (data + static_cast<std::uintptr_t>(part.base) * size) % kLine;
    return before == 0 || before % size != 0 ? 0 : static_cast<int64_t>((kLine - before) / size);
}

namespace {

eagle_launch_desc describe(const KernelObject* kernel, uint64_t entry, const void* const* params, int64_t n) {
    eagle_launch_desc desc{};
    desc.struct_size = sizeof desc;
    desc.device = -1;
    desc.block = kOnePiece;
    desc.function = entry;
    desc.params = reinterpret_cast<const uint64_t*>(params);
    desc.nparams = static_cast<int64_t>(kernel->slots->size());
    desc.n_samples = n;
    return desc;
}

/// One seam launch for each partition of so many threads, after one that peels it: `peel` samples, or up to a cache
/// line of its own plane. A serial kernel's range ascends in pieces that each count as one.
inline eagle_status run(const KernelObject* kernel, eagle_launch_desc& desc, const void* const* params, int64_t threads,
                        const Cut& cut, std::optional<int64_t> peel) {
    if (!kernel->serial) desc.block = kernel->pace->grain(kernel->bytes_per_sample * kernel->box.lanes);
    const auto run_device = kernel->seam->fn.run_device;
    for (int64_t i = 0, parts = cut.filled(threads); i < parts; ++i) {
        const plugin::Partition part = cut.at(i, threads);
        const int64_t most = kernel->serial ? int64_t{kOnePiece} : part.count;
        const int64_t first = peel ? *peel : peel_of(kernel, params, part);
        for (int64_t done = 0; done < part.count; done += desc.count) {
            desc.base = part.base + done;
            desc.count = std::min(part.count - done, done == 0 && first > 0 ? first : most);
            int32_t launched = 0;
            if (const eagle_status status = run_device(&desc, &launched)) return status;
        }
    }
    return EAGLE_OK;
}

eagle_status run(const KernelObject* kernel, const void* const* params, int64_t n, const Cut& cut) {
    eagle_launch_desc desc = describe(kernel, kernel->entry, params, n);
    return run(kernel, desc, params, threads_of(kernel, params, n), cut, {});
}

using Clock = std::chrono::steady_clock;

double ns_since(Clock::time_point start) {
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

}  // namespace

uint64_t Slot::box_bytes() const {
    switch (box) {
        case Box::Mirror:
        case Box::Matrix:
            return sizeof(plugin::GRefMirror);
        case Box::Float64:
            return sizeof(double);
        case Box::Float32:
            return sizeof(float);
        case Box::Int64:
            return sizeof(int64_t);
        case Box::SampleCount:
            return sizeof(plugin::Index);
        default:
            return sizeof(plugin::ScalarHandle);
    }
}

int64_t threads_of(const KernelObject* kernel, const void* const* params, int64_t n) {
    if (kernel->live < 0) return kernel->box.threads(n);
    const auto* count = static_cast<const plugin::ScalarHandle*>(params[kernel->live]);
    return std::min<int64_t>(n, *static_cast<const uint32_t*>(count->data));
}

void Pace::learn(int64_t n, double ns) {
    // The last launch tells: one that was interrupted is corrected by the next, which is then timed too.
    if (n <= 0) return;
    const auto samples = static_cast<uint32_t>(std::min<int64_t>(n, std::numeric_limits<uint32_t>::max()));
    last_.store({samples, static_cast<float>(std::max(ns - kLaunchNs, 0.0) / static_cast<double>(n))}, relaxed);
}

uint32_t Pace::grain(int64_t bytes_per_sample) const {
    double samples = static_cast<double>(kPieceBytes) / static_cast<double>(std::max<int64_t>(bytes_per_sample, 1));
    const float cost = last_.load(relaxed).cost;
    if (cost > 0) samples = std::min(samples, kPieceNs / static_cast<double>(cost));
    return static_cast<uint32_t>(std::max(samples, 64.0));
}

plugin::Partition Cut::at(int64_t i, int64_t n) const {
    if (!given.empty()) return given[static_cast<std::size_t>(i)];
    const int64_t each = n / parts, longer = n % parts;
    return {i * each + std::min(i, longer), each + (i < longer), n};
}

eagle_status launch_released(KernelObject* kernel, const void* const* params, int64_t n, const Cut& cut) {
    if (n <= 0) return EAGLE_OK;
    const auto start = Clock::now();
    const eagle_status status = run(kernel, params, n, cut);
    kernel->pace->learn(n, ns_since(start));
    return status;
}

eagle_status launch_on(const KernelObject* kernel, const void* const* params, int64_t n, const Cut& cut,
                       uint64_t stream, std::optional<int64_t> peel) {
    eagle_launch_desc desc = describe(kernel, kernel->entry, params, n);
    desc.stream = stream;
    std::vector<uint64_t> sizes;
    for (const Slot& slot : *kernel->slots) sizes.push_back(slot.box_bytes());
    desc.param_sizes = sizes.data();
    return run(kernel, desc, params, kernel->box.threads(n), cut, peel);
}

eagle_status launch_entry(const KernelObject* kernel, uint64_t entry, const void* const* params,
                          const plugin::Partition& part) {
    eagle_launch_desc desc = describe(kernel, entry, params, part.nSamples);
    desc.base = part.base;
    desc.count = part.count;
    int32_t launched = 0;
    return kernel->seam->fn.run_device(&desc, &launched);
}

bool passed(const KernelObject* kernel, eagle_status status) {
    if (status == EAGLE_OK) return true;
    try {
        kernel->seam->check(status);
    } catch (const Error& error) {
        raise(error);
    }
    return false;
}

bool launch(KernelObject* kernel, const void* const* params, int64_t n, const Cut& cut, const Caller& caller) {
    if (n <= 0) return true;
    if (checking()) [[unlikely]] {
        const Failure failed = launch_checked(kernel, params, n, cut, caller);
        if (failed) failed();
        return !failed;
    }
    Pace& pace = *kernel->pace;
    eagle_status status;
    if (!pace.brief(n)) {
        Py_BEGIN_ALLOW_THREADS;
        status = launch_released(kernel, params, n, cut);
        Py_END_ALLOW_THREADS;
    } else if (pace.due()) {
        status = launch_released(kernel, params, n, cut);
    } else {
        status = run(kernel, params, n, cut);
    }
    return passed(kernel, status);
}

// ---- _core.Kernel ------------------------------------------------------------------------------------------------

namespace {

/// (name, role, box, typenum, width, cell, writes, result, zero, run_omits, call_omits, dims)
bool read_slot(PyObject* item, Slot& slot) {
    int box, writes, result, zero, run_omits, call_omits;
    long long width, cell;
    PyObject *name, *role, *dims;
    if (!PyArg_ParseTuple(item, "UUiiLLpppppO!", &name, &role, &box, &slot.typenum, &width, &cell, &writes, &result,
                          &zero, &run_omits, &call_omits, &PyTuple_Type, &dims))
        return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dims); ++i) {
        slot.dims.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(dims, i)));
        if (PyErr_Occurred()) return false;
    }
    if (box < 0 || box > static_cast<int>(Box::Companion) || width < (box == static_cast<int>(Box::Rows) ? 0 : 1)) {
        PyErr_Format(PyExc_ValueError, "_core.Kernel: slot %R: box %d of width %lld is none", name, box, width);
        return false;
    }
    slot.box = static_cast<Box>(box);
    slot.width = width;
    slot.cell = cell;
    slot.bytes = 0;
    if (!slot.is_uniform() && slot.box != Box::SampleCount) {
        PyArray_Descr* descr = PyArray_DescrFromType(slot.typenum);
        if (!descr) return false;
        slot.bytes = static_cast<int64_t>(PyDataType_ELSIZE(descr)) * width;
        if (slot.box == Box::Rows) slot.cell = PyDataType_ELSIZE(descr);
        Py_DECREF(descr);
    }
    slot.writes = writes;
    slot.result = result;
    slot.zero = zero;
    slot.run_omits = run_omits;
    slot.call_omits = call_omits;
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    slot.name = name;
    slot.role = Py_NewRef(role);
    return true;
}

void kernel_dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    auto* kernel = reinterpret_cast<KernelObject*>(self);
    PyObject_GC_UnTrack(self);
    if (kernel->slots)
        for (Slot& slot : *kernel->slots) {
            Py_DECREF(slot.name);
            Py_DECREF(slot.role);
        }
    delete kernel->slots;
    delete kernel->reductions;
    delete kernel->folds;
    delete kernel->pace;
    Py_CLEAR(kernel->name);
    Py_CLEAR(kernel->backend);
    Py_CLEAR(kernel->keepalive);
    type->tp_free(self);
    Py_DECREF(type);
}

int kernel_traverse(PyObject* self, visitproc visit, void* arg) {
    auto* kernel = reinterpret_cast<KernelObject*>(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(kernel->backend);
    Py_VISIT(kernel->keepalive);
    return 0;
}

/// ((companion, sink, entry), ...)
bool read_folds(KernelObject* kernel, PyObject* folds) {
    const std::vector<Slot>& slots = *kernel->slots;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(folds); ++i) {
        unsigned long long companion, sink, entry;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(folds, i), "KKK", &companion, &sink, &entry)) return false;
        if (companion >= slots.size() || slots[companion].box != Box::Companion || sink >= slots.size() ||
            slots[sink].box != Box::Sink) {
            PyErr_SetString(PyExc_ValueError, "_core.Kernel: a fold without its companion and sink");
            return false;
        }
        kernel->folds->push_back({companion, sink, entry});
    }
    return true;
}

/// The indices of slots that hold rows.
bool read_rows(const KernelObject* kernel, PyObject* tuple, std::vector<std::size_t>& rows) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
        const std::size_t slot = PyLong_AsSize_t(PyTuple_GET_ITEM(tuple, i));
        if (PyErr_Occurred()) return false;
        if (slot >= kernel->slots->size() || (*kernel->slots)[slot].box != Box::Rows) return false;
        rows.push_back(slot);
    }
    return true;
}

/// ((op, rows, lost), ...)
bool read_reductions(KernelObject* kernel, PyObject* reductions) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(reductions); ++i) {
        int op;
        PyObject *rows, *lost;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(reductions, i), "iO!O!", &op, &PyTuple_Type, &rows, &PyTuple_Type,
                              &lost))
            return false;
        Reduction made{static_cast<reduce::Op>(op), {}, {}};
        if (op < 0 || op > static_cast<int>(reduce::Op::Min) || !read_rows(kernel, rows, made.rows) ||
            !read_rows(kernel, lost, made.lost) || made.rows.empty() ||
            (!made.lost.empty() && made.lost.size() != made.rows.size())) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "_core.Kernel: a reduction without its rows");
            return false;
        }
        kernel->reductions->push_back(std::move(made));
    }
    return true;
}

PyObject* kernel_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"name", "backend", "entry", "slots",  "keepalive",  "serial", "aliasable",
                                  "lone", "live",    "lanes", "stride", "reductions", "folds",  nullptr};
    PyObject *name, *backend, *slots, *keepalive, *reductions = nullptr, *folds = nullptr;
    unsigned long long entry;
    int serial, aliasable, lone = 0;
    long long live = -1, lanes = 1, stride = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UOKO!Opp|pLLLO!O!:Kernel", const_cast<char**>(names), &name,
                                     &backend, &entry, &PyTuple_Type, &slots, &keepalive, &serial, &aliasable, &lone,
                                     &live, &lanes, &stride, &PyTuple_Type, &reductions, &PyTuple_Type, &folds))
        return nullptr;
    if (live < -1 || live >= PyTuple_GET_SIZE(slots) || lanes < 1 || stride < 1) {
        PyErr_Format(PyExc_ValueError, "_core.Kernel: live %lld, lanes %lld, stride %lld", live, lanes, stride);
        return nullptr;
    }
    const Backend* seam = backend_from(backend);
    if (!seam) return nullptr;
    try {
        seam->require(&Symbols::run_device);
    } catch (const Error& error) {
        raise(error);
        return nullptr;
    }
    PyObject* self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    auto* kernel = reinterpret_cast<KernelObject*>(self);
    kernel->seam = seam;
    kernel->entry = entry;
    kernel->serial = serial;
    kernel->aligned_slot = -1;
    kernel->live = live;
    kernel->box = {lanes, stride};
    kernel->aliasable = aliasable;
    kernel->lone = lone;
    Py_INCREF(kernel->name = name);
    Py_INCREF(kernel->backend = backend);
    Py_INCREF(kernel->keepalive = keepalive);
    try {
        kernel->pace = new Pace;
        kernel->reductions = new std::vector<Reduction>;
        kernel->folds = new std::vector<Fold>;
        kernel->slots = new std::vector<Slot>;
        kernel->slots->reserve(static_cast<std::size_t>(PyTuple_GET_SIZE(slots)));
    } catch (const std::bad_alloc&) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    const bool reduces = reductions && PyTuple_GET_SIZE(reductions) > 0;
    PyObject* made = guarded([&]() -> PyObject* {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(slots); ++i) {
            Slot slot{};
            if (!read_slot(PyTuple_GET_ITEM(slots, i), slot)) return nullptr;
            if (slot.is_plane()) kernel->bytes_per_sample += slot.bytes;
            if (slot.is_plane() && slot.writes && kernel->aligned_slot < 0 && !serial && lanes == 1 && !reduces)
                kernel->aligned_slot = i;
            kernel->slots->push_back(std::move(slot));
        }
        const bool read = (!reductions || read_reductions(kernel, reductions)) && (!folds || read_folds(kernel, folds));
        return read ? self : nullptr;
    });
    if (!made) Py_DECREF(self);
    return made;
}

PyType_Slot kernel_slots[] = {
    {Py_tp_doc, const_cast<char*>("A kernel entry with its argument block's layout, ready to launch.")},
    {Py_tp_new, reinterpret_cast<void*>(kernel_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(kernel_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(kernel_traverse)},
    {0, nullptr},
};
PyType_Spec kernel_spec = {"eagle._core.Kernel", sizeof(KernelObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, kernel_slots};

}  // namespace

bool add_kernel_type(PyObject* module) {
    KernelType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kernel_spec));
    return KernelType && PyModule_AddObjectRef(module, "Kernel", reinterpret_cast<PyObject*>(KernelType)) == 0;
}

}  // namespace eagle::core
