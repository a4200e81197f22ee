// _core.Program: recorded steps with the planes they touch. _core.Replays: what launch() of a graph needs.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "bindings.h"
#include "calls.h"
#include "checked.h"
#include "eagle/util/Busy.h"
#include "recording.h"
#include "released.h"

namespace eagle::core {
namespace {

using Clock = std::chrono::steady_clock;

PyTypeObject* ProgramType = nullptr;
PyObject *str_careful, *str_launch, *str_moved, *str_checked, *str_busy;

/// An array of numpy that some step touches, and where it was when that was recorded.
struct Place {
    PyArrayObject* array;  // borrowed: the program holds it
    void* data;
    npy_intp size;
    bool writes;

    bool moved() const {
        const npy_intp now = PyArray_NDIM(array) == 1 ? PyArray_DIM(array, 0) : PyArray_SIZE(array);  // a call of numpy
        return PyArray_DATA(array) != data || now != size || (writes && !PyArray_ISWRITEABLE(array));
    }
};

/// What a replay costs, in ns. Below kBrief the GIL is kept.
struct Cost {
    static constexpr double kBrief = 1000;
    static constexpr std::chrono::milliseconds kLook{20};  ///< between two looks at signals
    static constexpr double kClock = 1e6;                  ///< between two looks at the clock
    static constexpr double kStride = 16;                  ///< the most replays between those: one may turn out slow

    double ns = 1e9;
    uint32_t tick = 0;

    bool brief(int64_t n) const { return ns * static_cast<double>(n) < kBrief; }
    /// Brief ones are timed now and then: they may have become long.
    bool due() { return (++tick & 15) == 0; }
    void learn(Clock::duration took, int64_t replays) {
        ns = std::chrono::duration<double, std::nano>(took).count() / static_cast<double>(replays);
    }
    int64_t stride() const { return static_cast<int64_t>(std::clamp(kClock / std::max(ns, 1.0), 1.0, kStride)); }
};

/// While it lives numpy resizes none of the arrays of a tuple: it does not where somebody refers to one weakly. False
/// where that failed, with an exception.
class Unresized {
public:
    explicit Unresized(PyObject* arrays) {
        if (!arrays) return;
        references_.reserve(static_cast<std::size_t>(PyTuple_GET_SIZE(arrays)));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arrays); ++i) {
            PyObject* reference = PyWeakref_NewRef(PyTuple_GET_ITEM(arrays, i), nullptr);
            if (!reference) {
                complete_ = false;
                return;
            }
            references_.push_back(reference);
        }
    }
    ~Unresized() {
        for (PyObject* reference : references_) Py_DECREF(reference);
    }
    Unresized(const Unresized&) = delete;
    explicit operator bool() const { return complete_; }

private:
    bool complete_ = true;
    std::vector<PyObject*> references_;
};

struct ProgramObject {
    PyObject ob_base;
    PyObject* steps;
    PyObject* arrays;
    PyObject* checks;
    Recording* recording;
    std::vector<Place>* places;
    std::vector<Watched>* watched;  // what other libraries have; some are of Bounds, which `steps` holds
    PyObject* owners;               // of the memory of the places: arrays that code which runs meanwhile might resize
    Cost cost;
};

struct ReplaysObject {
    PyObject ob_base;
    ProgramObject* program;
    util::InUse busy;
};

bool read_arrays(ProgramObject* self) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->arrays); ++i) {
        PyObject* object;
        int writes;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(self->arrays, i), "Op", &object, &writes)) return false;
        if (PyArray_Check(object)) {
            auto* array = reinterpret_cast<PyArrayObject*>(object);
            self->places->push_back({array, PyArray_DATA(array), PyArray_SIZE(array), writes != 0});
        } else if (Py_IS_TYPE(object, ViewType)) {
            self->watched->emplace_back(nullptr, object, false);  // what its own code does to a tensor is not ours
        } else {
            PyErr_SetString(PyExc_TypeError, "_core.Program: wanted arrays of numpy and views");
            return false;
        }
    }
    return true;
}

/// The arrays that own the memory of places, as a tuple; null with an exception.
PyObject* owners_of(const std::vector<Place>& places) {
    std::vector<PyObject*> owners;
    for (const Place& place : places) {
        auto* owner = reinterpret_cast<PyObject*>(place.array);
        while (PyObject* base = PyArray_BASE(reinterpret_cast<PyArrayObject*>(owner))) {
            if (!PyArray_Check(base)) break;
            owner = base;
        }
        owners.push_back(owner);
    }
    std::sort(owners.begin(), owners.end());
    owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
    PyObject* made = PyTuple_New(static_cast<Py_ssize_t>(owners.size()));
    for (std::size_t i = 0; made && i < owners.size(); ++i)
        PyTuple_SET_ITEM(made, static_cast<Py_ssize_t>(i), Py_NewRef(owners[i]));
    return made;
}

/// Program(backend, device, steps, arrays, checks, attribute, stream): recorded at once. `arrays` are pairs of an array
/// of numpy, or a view of another library's, and whether a step writes it; `checks` are called ahead of each launch,
/// and may raise; `attribute`: timed(), enable() or reached() will be asked; `stream`: the caller's, who keeps it, or
/// 0.
PyObject* program_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *backend, *steps, *arrays, *checks;
    int device, attribute;
    unsigned long long stream;
    if (!PyArg_ParseTuple(args, "OiO!O!O!pK:Program", &backend, &device, &PyTuple_Type, &steps, &PyTuple_Type, &arrays,
                          &PyTuple_Type, &checks, &attribute, &stream))
        return nullptr;
    const Backend* seam = backend_from(backend);
    if (!seam) return nullptr;
    PyObject* object = type->tp_alloc(type, 0);
    if (!object) return nullptr;
    auto* self = reinterpret_cast<ProgramObject*>(object);
    new (&self->cost) Cost;
    PyObject* made = guarded([&]() -> PyObject* {
        try {
            self->steps = Py_NewRef(steps);
            self->arrays = Py_NewRef(arrays);
            self->checks = Py_NewRef(checks);
            self->places = new std::vector<Place>;
            self->watched = new std::vector<Watched>;
            if (!read_arrays(self)) return nullptr;
            self->recording = new Recording(seam->shared_from_this(), device, steps, attribute, stream);
            for (const BoundObject* bound : self->recording->bounds())
                for (const Watched& plane : *bound->watched) self->watched->push_back(plane);
            self->owners = owners_of(*self->places);
            return self->owners ? object : nullptr;
        } catch (const PythonError&) {
            return nullptr;
        } catch (const Error& error) {
            raise(error);
            return nullptr;
        }
    });
    if (!made) Py_DECREF(object);
    return made;
}

int program_traverse(PyObject* object, visitproc visit, void* arg) {
    auto* self = reinterpret_cast<ProgramObject*>(object);
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->steps);
    Py_VISIT(self->arrays);
    Py_VISIT(self->checks);
    Py_VISIT(self->owners);
    return 0;
}

void program_dealloc(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    auto* self = reinterpret_cast<ProgramObject*>(object);
    PyObject_GC_UnTrack(object);
    delete self->recording;
    delete self->places;
    delete self->watched;
    Py_XDECREF(self->steps);
    Py_XDECREF(self->arrays);
    Py_XDECREF(self->checks);
    Py_XDECREF(self->owners);
    type->tp_free(object);
    Py_DECREF(type);
}

/// Whether an array is no longer where it was recorded, or must no longer be written: 1 yes, 0 no, -1 exception. Code
/// of producers, which may move others, runs first.
int has_moved(const ProgramObject* self) {
    for (const Watched& plane : *self->watched)
        if (const int moved = plane.moved_says_producer()) return moved;
    for (const Watched& plane : *self->watched)
        if (plane.moved()) return 1;
    for (const Place& place : *self->places)
        if (place.moved()) return 1;
    return 0;
}

/// Whether every check lets the program run; else an exception is set.
bool is_fit(const ProgramObject* self) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->checks); ++i) {
        PyObject* done = PyObject_CallNoArgs(PyTuple_GET_ITEM(self->checks, i));
        Py_XDECREF(done);
        if (!done) return false;
    }
    return true;
}

/// false with an exception set.
bool failed(ProgramObject* self, eagle_status status) {
    try {
        self->recording->raise(status);
    } catch (const Error& error) {
        raise(error);
    }
    return false;
}

bool replay(ProgramObject* self, int64_t n) {
    const Recording& recording = *self->recording;
    if (!recording.has_calls() && self->cost.brief(n)) {
        const bool due = n > 0 && self->cost.due();
        const auto start = due ? Clock::now() : Clock::time_point();
        eagle_status status = EAGLE_OK;
        int64_t left = n;
        for (; left > 0 && status == EAGLE_OK; --left) status = recording.replay();
        if (due) self->cost.learn(Clock::now() - start, n - left);
        return status == EAGLE_OK || failed(self, status);
    }
    const Unresized unresized(recording.has_calls() ? self->owners : nullptr);
    if (!unresized) return false;
    while (n > 0) {
        eagle_status status = EAGLE_OK;
        {
            const Released released;
            const auto start = Clock::now();
            for (auto now = start; n > 0 && status == EAGLE_OK && now - start < Cost::kLook;) {
                const int64_t stride = std::min(n, self->cost.stride());
                int64_t done = 0;
                while (done < stride && status == EAGLE_OK) {
                    status = recording.replay();
                    ++done;
                }
                n -= done;
                const auto began = std::exchange(now, Clock::now());
                self->cost.learn(now - began, done);
            }
        }
        if (status != EAGLE_OK) return failed(self, status);
        const Unresized meanwhile(n > 0 ? self->owners : nullptr);
        if (!meanwhile || PyErr_CheckSignals() < 0) return false;
    }
    return true;
}

/// timed(): the seconds of each step in one replay, () where the backend cannot tell; None where an array moved, and
/// nothing ran.
PyObject* program_timed(PyObject* object, PyObject*) {
    auto* self = reinterpret_cast<ProgramObject*>(object);
    return guarded([&]() -> PyObject* {
        if (!is_fit(self)) return nullptr;
        if (const int moved = has_moved(self)) return moved < 0 ? nullptr : Py_NewRef(Py_None);
        std::vector<double> seconds;
        eagle_status status;
        const Unresized unresized(self->owners);
        if (!unresized) return nullptr;
        {
            const Released released;
            status = self->recording->timed(seconds);
        }
        if (status != EAGLE_OK) return failed(self, status), nullptr;
        PyObject* result = PyTuple_New(static_cast<Py_ssize_t>(seconds.size()));
        for (std::size_t i = 0; result && i < seconds.size(); ++i) {
            PyObject* each = PyFloat_FromDouble(seconds[i]);
            if (!each)
                Py_CLEAR(result);
            else
                PyTuple_SET_ITEM(result, static_cast<Py_ssize_t>(i), each);
        }
        return result;
    });
}

/// enable(unit, on): a step, as timed() counts them, runs in the replays to come, or does not.
PyObject* program_enable(PyObject* object, PyObject* args) {
    long long unit;
    int on;
    if (!PyArg_ParseTuple(args, "Lp:enable", &unit, &on)) return nullptr;
    return guarded([&]() -> PyObject* {
        try {
            if (reinterpret_cast<ProgramObject*>(object)->recording->enable(unit, on != 0)) Py_RETURN_NONE;
        } catch (const Error& error) {
            raise(error);
            return nullptr;
        }
        return PyErr_Format(PyExc_IndexError, "_core.Program.enable: found %lld, wanted a step", unit);
    });
}

/// reached(): how many steps the last replay began; 0 when that was asked before, or nothing ran.
PyObject* program_reached(PyObject* object, PyObject*) {
    return PyLong_FromLongLong(reinterpret_cast<ProgramObject*>(object)->recording->reached());
}

// ---- Replays

/// The object is in use while this lives.
class Use {
public:
    explicit Use(util::InUse& busy) : busy_(busy), taken_(busy.enter()) {}
    ~Use() {
        if (taken_) busy_.leave();
    }
    Use(const Use&) = delete;
    explicit operator bool() const { return taken_; }

private:
    util::InUse& busy_;
    const bool taken_;
};

/// `ahead`, where there is one, is called first. `method` is the one that messages name.
PyObject* launched(ReplaysObject* self, int64_t n, PyObject* method, PyObject* ahead = nullptr) {
    auto* object = reinterpret_cast<PyObject*>(self);
    const Use use(self->busy);
    if (!use) return PyObject_CallMethodOneArg(object, str_busy, method);
    if (ahead) {
        PyObject* done = PyObject_CallNoArgs(ahead);
        Py_XDECREF(done);
        if (!done) return nullptr;
    }
    ProgramObject* program = self->program;
    program->recording->reached();  // forgotten: this launch may be refused
    if (!is_fit(program)) return nullptr;
    const int moved = has_moved(program);
    if (moved < 0) return nullptr;
    if (moved) [[unlikely]]
        return PyObject_CallMethodOneArg(object, str_moved, method);
    if (checking()) [[unlikely]] {
        PyObject* count = PyLong_FromLongLong(n);
        PyObject* done = count ? PyObject_CallMethodOneArg(object, str_checked, count) : nullptr;
        Py_XDECREF(count);
        if (!done) return nullptr;
        Py_DECREF(done);
        return Py_NewRef(object);
    }
    return replay(program, n) ? Py_NewRef(object) : nullptr;
}

PyObject* replays_launch(PyObject* object, PyObject* const* args, Py_ssize_t given, PyObject* names) {
    auto* self = reinterpret_cast<ReplaysObject*>(object);
    int64_t n = 1;
    if (given == 1 && PyLong_CheckExact(args[0])) {
        n = PyLong_AsLongLong(args[0]);
        if (n == -1 && PyErr_Occurred()) PyErr_Clear();
    }
    if (!self->program || names || given > 1 || (given == 1 && !PyLong_CheckExact(args[0])) || n < 0)
        return guarded([&] { return careful(object, str_careful, args, given, names); });
    return guarded([&] { return launched(self, n, str_launch); });
}

/// Whether there is something to launch; else an exception is set.
bool has_program(PyObject* object) {
    if (reinterpret_cast<ReplaysObject*>(object)->program) return true;
    PyErr_SetString(PyExc_RuntimeError, "_core.Replays: wanted one with a program");
    return false;
}

/// _after(ahead, n, method): launch(n) behind a call of `ahead`, unless it is None, both in one turn.
PyObject* replays_after(PyObject* object, PyObject* args) {
    PyObject *ahead, *method;
    long long n;
    if (!PyArg_ParseTuple(args, "OLU:_after", &ahead, &n, &method)) return nullptr;
    if (!has_program(object)) return nullptr;
    if (ahead == Py_None) ahead = nullptr;
    return guarded([&] { return launched(reinterpret_cast<ReplaysObject*>(object), n, method, ahead); });
}

/// _has_moved(): whether some plane is no longer what was recorded.
PyObject* replays_has_moved(PyObject* object, PyObject*) {
    if (!has_program(object)) return nullptr;
    const int moved = has_moved(reinterpret_cast<ReplaysObject*>(object)->program);
    return moved < 0 ? nullptr : PyBool_FromLong(moved);
}

PyObject* replays_set(PyObject* object, PyObject* program) {
    if (!Py_IS_TYPE(program, ProgramType)) {
        PyErr_SetString(PyExc_TypeError, "_set: wanted a _core.Program");
        return nullptr;
    }
    auto* self = reinterpret_cast<ReplaysObject*>(object);
    Py_INCREF(program);
    Py_XSETREF(self->program, reinterpret_cast<ProgramObject*>(program));
    Py_RETURN_NONE;
}

/// enter(): whether the object was free; it is in use until leave().
PyObject* replays_enter(PyObject* object, PyObject*) {
    return PyBool_FromLong(reinterpret_cast<ReplaysObject*>(object)->busy.enter());
}

PyObject* replays_leave(PyObject* object, PyObject*) {
    reinterpret_cast<ReplaysObject*>(object)->busy.leave();
    Py_RETURN_NONE;
}

PyObject* replays_new(PyTypeObject* type, PyObject*, PyObject*) {
    PyObject* object = type->tp_alloc(type, 0);
    if (object) new (&reinterpret_cast<ReplaysObject*>(object)->busy) util::InUse;
    return object;
}

int replays_traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(reinterpret_cast<ReplaysObject*>(object)->program);
    return 0;
}

int replays_clear(PyObject* object) {
    Py_CLEAR(reinterpret_cast<ReplaysObject*>(object)->program);
    return 0;
}

void replays_dealloc(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    replays_clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

PyMethodDef program_methods[] = {
    {"timed", program_timed, METH_NOARGS, nullptr},
    {"enable", program_enable, METH_VARARGS, nullptr},
    {"reached", program_reached, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot program_slots[] = {
    {Py_tp_doc, const_cast<char*>("Steps that were recorded.")},
    {Py_tp_new, reinterpret_cast<void*>(program_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(program_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(program_traverse)},
    {Py_tp_methods, program_methods},
    {0, nullptr},
};
PyType_Spec program_spec = {"eagle._core.Program", sizeof(ProgramObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, program_slots};

PyMethodDef replays_methods[] = {
    {"launch", method(replays_launch), METH_FASTCALL | METH_KEYWORDS,
     "launch(n=1)\n--\n\n"
     "Run the nodes n times. Returns this graph. An exception of a node leaves by here, and later nodes do not run.\n"
     "Raises RuntimeError before build(), TypeError for an n that is no integer, ValueError for a negative one, Busy\n"
     "while another call runs, BufferRefused when a plane has moved, changed its size or become read-only since."},
    {"_after", replays_after, METH_VARARGS, nullptr},
    {"_has_moved", replays_has_moved, METH_NOARGS, nullptr},
    {"_set", replays_set, METH_O, nullptr},
    {"_enter", replays_enter, METH_NOARGS, nullptr},
    {"_leave", replays_leave, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot replays_slots[] = {
    {Py_tp_doc, const_cast<char*>("What launch() of a graph needs: a program, and whose turn it is.")},
    {Py_tp_new, reinterpret_cast<void*>(replays_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(replays_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(replays_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(replays_clear)},
    {Py_tp_methods, replays_methods},
    {0, nullptr},
};
PyType_Spec replays_spec = {"eagle._core.Replays", sizeof(ReplaysObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
                            replays_slots};

}  // namespace

bool add_programs(PyObject* module) {
    str_careful = PyUnicode_InternFromString("_launch");
    str_launch = PyUnicode_InternFromString("launch");
    str_moved = PyUnicode_InternFromString("_moved");
    str_checked = PyUnicode_InternFromString("_checked");
    str_busy = PyUnicode_InternFromString("_busy");
    return str_careful && str_launch && str_moved && str_checked && str_busy &&
           add_type(module, program_spec, "Program", nullptr, &ProgramType) &&
           add_type(module, replays_spec, "Replays");
}

}  // namespace eagle::core
