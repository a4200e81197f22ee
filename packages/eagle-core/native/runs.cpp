// run and the call form.
//
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstddef>

#include "calls.h"

#include <structmember.h>

namespace eagle::core {

namespace {

PyObject *str_run, *str_call, *str_returned;

/// How many threads record calls instead of running them: then each call asks _call() whether its own does.
std::atomic<int> recorders{0};

/// The slot positions of one call site, found by the identity of its keyword tuple.
struct Site {
    PyObject* names = nullptr;  // owned, so its address stays its own
    Py_ssize_t given = 0;       // positional arguments
    std::vector<int16_t> position;
};

constexpr std::size_t kSites = 4;
constexpr int kRunResult = -1, kReturnTree = -2;

struct RunsObject {
    PyObject ob_base;
    vectorcallfunc call;
    KernelObject* kernel;
    Cut* cut;
    std::vector<int16_t>* order;  // call form: the slot of each positional argument
    int returns;                  // call form: a slot, kRunResult or kReturnTree
    Site* sites;
    std::size_t oldest;
};

/// Fills `position` for one call; false when some name fits no slot or comes twice.
bool resolve(const RunsObject* self, Py_ssize_t given, PyObject* names, std::vector<int16_t>& position) {
    const std::vector<Slot>& slots = *self->kernel->slots;
    position.assign(slots.size(), -1);
    if (given > static_cast<Py_ssize_t>(self->order->size())) return false;
    for (Py_ssize_t i = 0; i < given; ++i)
        position[static_cast<std::size_t>((*self->order)[i])] = static_cast<int16_t>(i);
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t k = 0; k < named; ++k) {
        PyObject* name = PyTuple_GET_ITEM(names, k);
        std::size_t at = 0;
        while (at < slots.size() && slots[at].name != name) ++at;
        if (at == slots.size())  // not interned: compare text
            for (at = 0; at < slots.size() && PyUnicode_Compare(slots[at].name, name) != 0;) ++at;
        if (at == slots.size() || position[at] >= 0) return false;
        position[at] = static_cast<int16_t>(given + k);
    }
    return true;
}

/// Null for names that fit no slot, and for names that are not plain text: dropping those could run anybody's code.
const int16_t* site_of(RunsObject* self, Py_ssize_t given, PyObject* names) {
    for (std::size_t i = 0; i < kSites; ++i) {
        const Site& site = self->sites[i];
        if (site.names == names && site.given == given && !site.position.empty()) return site.position.data();
    }
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
        if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(names, i))) return nullptr;
    std::vector<int16_t> position;
    if (!resolve(self, given, names, position)) return nullptr;
    Site& site = self->sites[self->oldest++ % kSites];
    PyObject* old = site.names;
    Py_XINCREF(site.names = names);
    site.given = given;
    site.position = std::move(position);
    Py_XDECREF(old);
    return site.position.data();
}

/// The exact case of run and of the call form. Null without an exception: the careful path must take over.
PyObject* run_exact(RunsObject* self, PyObject* const* args, Py_ssize_t given, PyObject* names, Door door) {
    if (!self->kernel) return nullptr;
    const int16_t* position = site_of(self, given, names);
    if (!position) return nullptr;
    Block block(self->kernel);
    if (block.pack(args, position, door, *self->cut) != Block::Packed::Yes) return nullptr;
    const Caller caller = door == Door::Run ? Caller{self->kernel->name, "run"} : Caller{nullptr, nullptr};
    if (!launch(block, *self->cut, caller) || !block.deliver()) return nullptr;
    if (door == Door::Run || self->returns == kRunResult) return block.results(true);
    if (self->returns >= 0) return Py_NewRef(block.shown(static_cast<std::size_t>(self->returns)));
    PyObject* all = block.results(false);
    if (!all) return nullptr;
    PyObject* tree = PyObject_CallMethodOneArg(reinterpret_cast<PyObject*>(self), str_returned, all);
    Py_DECREF(all);
    return tree;
}

PyObject* runs_run(PyObject* self, PyObject* const* args, Py_ssize_t given, PyObject* names) {
    return guarded([&]() -> PyObject* {
        if (given == 0) {
            PyObject* result = run_exact(reinterpret_cast<RunsObject*>(self), args, 0, names, Door::Run);
            if (result || PyErr_Occurred()) return result;
        }
        return careful(self, str_run, args, given, names);
    });
}

PyObject* calls_call(PyObject* self, PyObject* const* args, std::size_t flagged, PyObject* names) {
    return guarded([&]() -> PyObject* {
        const Py_ssize_t given = PyVectorcall_NARGS(flagged);
        if (recorders.load(std::memory_order_relaxed)) [[unlikely]]
            return careful(self, str_call, args, given, names);
        PyObject* result = run_exact(reinterpret_cast<RunsObject*>(self), args, given, names, Door::Call);
        if (result || PyErr_Occurred()) return result;
        return careful(self, str_call, args, given, names);
    });
}

/// _arm(kernel, parts, given, order, returns): from now on the exact case runs in C.
PyObject* runs_arm(PyObject* object, PyObject* args) {
    auto* self = reinterpret_cast<RunsObject*>(object);
    PyObject *kernel, *given, *order;
    long long parts;
    int returns;
    if (!PyArg_ParseTuple(args, "O!LO!O!i:_arm", KernelType, &kernel, &parts, &PyTuple_Type, &given, &PyTuple_Type,
                          &order, &returns))
        return nullptr;
    return guarded([&]() -> PyObject* {
        if (self->kernel) Py_RETURN_NONE;  // a run in another thread may be using it
        Cut cut;
        if (!read_cut(parts, given, cut)) return nullptr;
        std::vector<int16_t> slots;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(order); ++i) {
            const long slot = PyLong_AsLong(PyTuple_GET_ITEM(order, i));
            if (slot < 0 || slot >= static_cast<long>(reinterpret_cast<KernelObject*>(kernel)->slots->size())) {
                if (!PyErr_Occurred()) PyErr_SetString(PyExc_IndexError, "_arm: order names no slot");
                return nullptr;
            }
            slots.push_back(static_cast<int16_t>(slot));
        }
        if (returns < kReturnTree ||
            returns >= static_cast<int>(reinterpret_cast<KernelObject*>(kernel)->slots->size())) {
            PyErr_SetString(PyExc_IndexError, "_arm: returns names no slot");
            return nullptr;
        }
        *self->cut = std::move(cut);
        *self->order = std::move(slots);
        self->returns = returns;
        Py_INCREF(kernel);
        Py_XSETREF(self->kernel, reinterpret_cast<KernelObject*>(kernel));
        Py_RETURN_NONE;
    });
}

PyObject* runs_new(PyTypeObject* type, PyObject*, PyObject*) {
    PyObject* object = type->tp_alloc(type, 0);
    if (!object) return nullptr;
    auto* self = reinterpret_cast<RunsObject*>(object);
    self->call = calls_call;
    self->returns = kRunResult;
    self->cut = new (std::nothrow) Cut;
    self->order = new (std::nothrow) std::vector<int16_t>;
    self->sites = new (std::nothrow) Site[kSites];
    if (!self->cut || !self->order || !self->sites) {
        Py_DECREF(object);
        return PyErr_NoMemory();
    }
    return object;
}

int runs_traverse(PyObject* object, visitproc visit, void* arg) {
    auto* self = reinterpret_cast<RunsObject*>(object);
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->kernel);
    return 0;
}

int runs_clear(PyObject* object) {
    Py_CLEAR(reinterpret_cast<RunsObject*>(object)->kernel);
    return 0;
}

void runs_dealloc(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    auto* self = reinterpret_cast<RunsObject*>(object);
    PyObject_GC_UnTrack(object);
    runs_clear(object);
    if (self->sites)
        for (std::size_t i = 0; i < kSites; ++i) Py_XDECREF(self->sites[i].names);
    delete[] self->sites;
    delete self->order;
    delete self->cut;
    type->tp_free(object);
    Py_DECREF(type);
}

PyMethodDef runs_methods[] = {
    {"run", method(runs_run), METH_FASTCALL | METH_KEYWORDS,
     "run(*, device=None, layout=None, **planes)\n--\n\n"
     "Run the kernel once over a batch and return its output plane, or {name: plane} when it has several.\n\n"
     "Planes are arrays of the kernel's dtype in host memory, of NumPy or any library that speaks DLPack: (n,) for a\n"
     "Scalar, (w, n) for a Vector of w, (R*C, n) or (R, C, n) for a Matrix; or with the samples first, (n, w), then\n"
     "through a copy with a LayoutWarning where the memory is not component-major; of a Grid also in the lane shape,\n"
     "(rows, columns), and inputs broadcast to it. Planes without an axis of samples, a number or (), (w,), (R, C) or\n"
     "(R*C,), are one sample; outputs then have none either. A Table has the shape the kernel declares, or any "
     "length.\n"
     "A Param is a number. The extent of an open axis is given by its label, bin=4, where no plane tells it.\n\n"
     "Inputs are converted where no value changes by it: lists, integers, narrower floats and arrays that are not\n"
     "C-contiguous, the last two with a PerformanceWarning.\n"
     "Outputs that are given are written in place and returned; those left out are allocated, as arrays of the\n"
     "framework the other planes are of, and state that is left out starts at zero. A reduction over samples is a new\n"
     "array of one number, or of one for each component. A mask must be given; samples where it is True are skipped,\n"
     "and the kernel sets it.\n\n"
     "layout=\"samples_first\" or \"samples_last\" says how a square plane, (w, w), is read; without it, or a marker\n"
     "(eagle.samples_first(x)), such a plane is refused. device= must be None: the planes are in host memory.\n\n"
     "Raises ArgumentError for unknown and missing names, LayoutError for a wrong shape and for one sample beside a\n"
     "batch, BufferRefused for another dtype and for an array that may not be written, overlaps or requires grad,\n"
     "ValueError for a value the dtype cannot hold, TypeError for what is no array and for arrays of two frameworks,\n"
     "BackendUnavailable when nothing installed can run it. Nothing was written then."},
    {"_arm", method(runs_arm), METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef calls_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(RunsObject, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot runs_slots[] = {
    {Py_tp_doc, const_cast<char*>("What run() needs: the exact case in C, the rest in _run().")},
    {Py_tp_new, reinterpret_cast<void*>(runs_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(runs_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(runs_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(runs_clear)},
    {Py_tp_methods, runs_methods},
    {0, nullptr},
};
PyType_Spec runs_spec = {"eagle._core.Runs", sizeof(RunsObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
                         runs_slots};

PyType_Slot calls_slots[] = {
    {Py_tp_doc, const_cast<char*>("Runs that can be called like the kernel; the rest is in _call().")},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(runs_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(runs_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(runs_clear)},
    {Py_tp_members, calls_members},
    {0, nullptr},
};
PyType_Spec calls_spec = {"eagle._core.Calls", sizeof(RunsObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE |
                              Py_TPFLAGS_HAVE_VECTORCALL,
                          calls_slots};

/// Lets a Python class keep the C call of its base; CPython gives that up for classes made in Python before 3.12.
PyObject* keep_call(PyObject*, PyObject* cls) {
    if (!PyType_Check(cls) || reinterpret_cast<PyTypeObject*>(cls)->tp_call != PyVectorcall_Call) {
        PyErr_SetString(PyExc_TypeError, "keep_call: wanted a class derived from _core.Calls without a __call__");
        return nullptr;
    }
    reinterpret_cast<PyTypeObject*>(cls)->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    return Py_NewRef(cls);
}

/// ask_records(change): so many more, or fewer, record.
PyObject* ask_records(PyObject*, PyObject* change) {
    const long by = PyLong_AsLong(change);
    if (by == -1 && PyErr_Occurred()) return nullptr;
    recorders.fetch_add(static_cast<int>(by), std::memory_order_relaxed);
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"keep_call", keep_call, METH_O, nullptr},
    {"ask_records", ask_records, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_runs(PyObject* module) {
    str_run = PyUnicode_InternFromString("_run");
    str_call = PyUnicode_InternFromString("_call");
    str_returned = PyUnicode_InternFromString("returned");
    PyTypeObject* runs = nullptr;
    return str_run && str_call && str_returned && add_type(module, runs_spec, "Runs", nullptr, &runs) &&
           add_type(module, calls_spec, "Calls", reinterpret_cast<PyObject*>(runs)) &&
           PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace eagle::core
