// Steps: a model over bound planes, stepped until every sample is finished.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "bound.h"
#include "released.h"

namespace eagle::core {
namespace {

using Clock = std::chrono::steady_clock;

/// What a run came to.
struct Outcome {
    int64_t launches = 0, steps = 0, visits = 0, offered = 0;  // offered: to all samples together
    bool exact = true, stopped = false;
};

struct StepsObject {
    PyObject ob_base;
    PyObject* bounds;  ///< a tuple of Bound
    std::vector<eagle_step_plane>* planes;
    eagle_step_desc desc;  ///< of the backend's own engine
    int64_t k;             ///< steps of one launch
    bool native;           ///< whether the backend steps the batch
    const char* mask;      ///< of the samples, null: none
    uint32_t* counter;
    int64_t* word;  ///< null: none
    std::atomic<bool>* stop;

    BoundObject* bound(Py_ssize_t i) const { return reinterpret_cast<BoundObject*>(PyTuple_GET_ITEM(bounds, i)); }
    const Stage& first() const { return *bound(0)->stages->front(); }
    int64_t samples() const { return first().block.n(); }
};

std::string_view text(PyObject* string) {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(string, &size);
    return data ? std::string_view(data, static_cast<std::size_t>(size)) : std::string_view();
}

/// Slots of a kernel that have a meaning for stepping.
struct Slots {
    int32_t counter = -1, word = -1, map = -1, live = -1;

    explicit Slots(const KernelObject* kernel) {
        for (std::size_t i = 0; i < kernel->slots->size(); ++i) {
            const std::string_view name = text((*kernel->slots)[i].name);
            const auto slot = static_cast<int32_t>(i);
            if (name == "finished_count") counter = slot;
            if (name == "fused_steps") word = slot;
            if (name == "active_map") map = slot;
            if (name == "active_count") live = slot;
        }
    }
};

/// The cell of a slot's box.
template <class T>
T* cell(const Stage& stage, int32_t slot) {
    if (slot < 0) return nullptr;
    return static_cast<T*>(static_cast<const plugin::ScalarHandle*>(stage.block.params()[slot])->data);
}

/// Where a stage has its mask.
const char* mask_of(const Stage& stage, std::string_view mask) {
    for (std::size_t i = 0; i < stage.kernel->slots->size(); ++i)
        if (text((*stage.kernel->slots)[i].name) == mask) return cell<const char>(stage, static_cast<int32_t>(i));
    return nullptr;
}

/// Whether one launch over any range is all there is to a step.
bool is_plain(const StepsObject* self) {
    const BoundObject* bound = self->bound(0);
    const KernelObject* kernel = bound->kernel();
    return PyTuple_GET_SIZE(self->bounds) == 1 && bound->stages->size() == 1 && bound->stages->front()->plain() &&
           bound->copies->empty() && !kernel->serial && kernel->box.lanes == 1;
}

/// Fills in what the backend's engine is told of the kernel; false where it cannot step it.
bool describe(StepsObject* self, const Slots& slots, std::string_view mask, bool fused, uint32_t flags, int ops) {
    const Stage& stage = self->first();
    const KernelObject* kernel = stage.kernel;
    if (!kernel->seam->fn.step_run || !is_plain(self) || slots.counter < 0) return false;
    eagle_step_desc& desc = self->desc;
    desc.struct_size = sizeof desc;
    desc.flags = flags;
    desc.device = -1;
    desc.function = kernel->entry;
    desc.params = reinterpret_cast<const uint64_t*>(stage.block.params());
    desc.nparams = static_cast<int64_t>(kernel->slots->size());
    desc.n_samples = self->samples();
    desc.steps_per_launch = fused ? 0 : self->k;
    desc.mask_slot = -1;
    desc.counter_slot = slots.counter;
    desc.word_slot = slots.word;
    desc.map_slot = slots.map;
    desc.live_slot = slots.live;
    desc.step_ops = ops;
    for (std::size_t i = 0; i < kernel->slots->size(); ++i) {
        const Slot& slot = (*kernel->slots)[i];
        const auto element = static_cast<uint32_t>(slot.bytes / slot.width), width = static_cast<uint32_t>(slot.width);
        if (slot.box == Box::Table && slot.writes)
            self->planes->push_back({static_cast<uint32_t>(i), element, width, EAGLE_STEP_COUNTS});
        if (!slot.is_plane()) continue;
        if (text(slot.name) == mask) {
            desc.mask_slot = static_cast<int32_t>(i);
            continue;
        }
        const bool mirror = slot.box == Box::Mirror, guards = text(slot.role) == "Terminated";
        self->planes->push_back({static_cast<uint32_t>(i), element, width,
                                 (mirror ? EAGLE_STEP_MIRROR : 0) | (slot.writes ? EAGLE_STEP_WRITES : 0) |
                                     (guards ? EAGLE_STEP_GUARD : 0)});
    }
    desc.planes = self->planes->data();
    desc.n_planes = static_cast<uint32_t>(self->planes->size());
    return desc.mask_slot >= 0;
}

/// Steps(bounds, mask, k, fused, local, movable, unaligned, ops): `k` steps a launch; `fused`: launches take as many as
/// they are told, 2 or more. `local`: samples are independent of each other; `movable`: and of where they are;
/// `unaligned`: and of where planes begin in their cache lines. `ops`: operations of one step, 0 for unknown.
PyObject* steps_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *bounds, *mask;
    long long k;
    int fused, local, movable, unaligned, ops;
    if (!PyArg_ParseTuple(args, "O!ULppppi:Steps", &PyTuple_Type, &bounds, &mask, &k, &fused, &local, &movable,
                          &unaligned, &ops))
        return nullptr;
    if (k < 1 || PyTuple_GET_SIZE(bounds) == 0)
        return PyErr_Format(PyExc_ValueError, "_core.Steps: %lld steps of %zd kernels", k, PyTuple_GET_SIZE(bounds));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bounds); ++i)
        if (!Py_IS_TYPE(PyTuple_GET_ITEM(bounds, i), BoundType))
            return PyErr_Format(PyExc_TypeError, "_core.Steps: wanted a tuple of Bound");
    PyObject* object = type->tp_alloc(type, 0);
    if (!object) return nullptr;
    auto* self = reinterpret_cast<StepsObject*>(object);
    PyObject* made = guarded([&]() -> PyObject* {
        self->bounds = Py_NewRef(bounds);
        self->planes = new std::vector<eagle_step_plane>;
        self->stop = new std::atomic<bool>(false);
        self->k = k;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bounds); ++i) {
            const Stage& stage = *self->bound(i)->stages->front();
            if (!self->counter) self->counter = cell<uint32_t>(stage, Slots(stage.kernel).counter);
            if (!self->mask) self->mask = mask_of(stage, text(mask));
        }
        if (!self->counter || !self->mask)
            return PyErr_Format(PyExc_ValueError, "_core.Steps: no kernel counts its samples");
        const Slots slots(self->first().kernel);
        self->word = PyTuple_GET_SIZE(bounds) == 1 ? cell<int64_t>(self->first(), slots.word) : nullptr;
        const uint32_t flags = (movable ? EAGLE_STEP_MOVABLE : 0) | (unaligned ? EAGLE_STEP_UNALIGNED : 0);
        self->native = local && describe(self, slots, text(mask), fused, flags, ops);
        return object;
    });
    if (!made) Py_DECREF(object);
    return made;
}

// ---- runs

/// What is looked at between rounds, every few milliseconds: signals, stop(), the function that is told of progress.
class Watch {
public:
    Watch(StepsObject* self, PyObject* progress)
        : self_(self), progress_(progress == Py_None ? nullptr : progress), signals_(is_main_thread()) {}

    /// 0 to go on, EAGLE_STEP_ABANDON where a plane moved, else 1: to end the run; with an exception set where one is
    /// why. GIL held.
    int32_t look(int64_t finished, int64_t offered) {
        if (PyErr_CheckSignals() < 0) return 1;
        if (!progress_) return stopped();
        const bool told = tell(finished, offered);
        if (has_moved()) return EAGLE_STEP_ABANDON;
        return !told || stopped();
    }
    /// Tells of progress where somebody wants it. false with an exception set. GIL held.
    bool tell(int64_t finished, int64_t offered) {
        if (!progress_) return true;
        PyObject* told =
            PyObject_CallFunction(progress_, "LL", static_cast<long long>(finished), static_cast<long long>(offered));
        Py_XDECREF(told);
        return told != nullptr;
    }
    /// look() from a thread without the GIL, which is taken only where there is something to be done with it: when the
    /// interpreter ends, it does not come back to a thread that waits for it.
    int32_t look_released(int64_t finished, int64_t offered) {
        if (_Py_IsFinalizing()) return 1;
        if (!progress_ && !signals_) return stopped();
        return outliving([&] {
            const PyGILState_STATE state = PyGILState_Ensure();
            const int32_t end = look(finished, offered);
            PyGILState_Release(state);
            return end;
        });
    }
    bool stopped() const { return self_->stop->load(std::memory_order_relaxed); }

    /// Whether it is time to look().
    bool is_due() const { return Clock::now() - last_ >= kInterval; }
    /// look() where it is.
    int32_t due(int64_t finished, int64_t offered) {
        if (!is_due()) return stopped();
        const int32_t end = look(finished, offered);
        last_ = Clock::now();
        return end;
    }

private:
    static constexpr std::chrono::milliseconds kInterval{20};

    static bool is_main_thread() {
        PyObject* threading = PyImport_ImportModule("threading");
        PyObject* main = threading ? PyObject_CallMethod(threading, "main_thread", nullptr) : nullptr;
        PyObject* ident = main ? PyObject_GetAttrString(main, "ident") : nullptr;
        const bool is = ident && PyLong_AsUnsignedLong(ident) == PyThread_get_thread_ident();
        Py_XDECREF(ident);
        Py_XDECREF(main);
        Py_XDECREF(threading);
        PyErr_Clear();
        return is;
    }

    /// Whether a plane is no longer where it was; then BufferRefused is set.
    bool has_moved() const {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self_->bounds); ++i) {
            PyObject* moved = moved_plane(self_->bound(i));
            if (!moved) continue;
            PyErr_Clear();
            PyObject* errors = PyImport_ImportModule("eagle.errors");
            PyObject* error = errors ? PyObject_CallMethod(errors, "moved_midway", "O", moved) : nullptr;
            if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
            Py_XDECREF(error);
            Py_XDECREF(errors);
            return true;
        }
        return false;
    }

    StepsObject* self_;
    PyObject* progress_;
    const bool signals_;
    Clock::time_point last_ = Clock::now();
};

/// For the backend, which asks on the thread that called it.
int32_t poll(void* context, int64_t finished, int64_t offered) {
    return static_cast<Watch*>(context)->look_released(finished, offered);
}

/// The number of threads of the process while runs that want their own number go on: the last to end puts back what was
/// there before the first, unless somebody set another meanwhile. GIL held.
class TeamSize {
public:
    TeamSize(const Backend& seam, int32_t threads) : set_(threads > 0 ? seam.fn.team_size : nullptr) {
        int32_t before;
        if (!set_ || set_(threads, &before) != EAGLE_OK) {
            set_ = nullptr;
            return;
        }
        if (users_++ == 0) first_ = before;
        ours_ = threads;
    }
    ~TeamSize() {
        int32_t now;
        if (set_ && --users_ == 0 && set_(0, &now) == EAGLE_OK && now == ours_) set_(first_, &now);
    }
    TeamSize(const TeamSize&) = delete;
    TeamSize& operator=(const TeamSize&) = delete;

private:
    decltype(&eagle_backend_team_size) set_;
    inline static int users_ = 0;
    inline static int32_t first_ = 0, ours_ = 0;
};

/// The whole batch by the backend's engine. false with an exception set.
bool run_native(StepsObject* self, int64_t max_steps, int32_t threads, Watch& watch, Outcome& outcome) {
    eagle_step_desc desc = self->desc;
    desc.max_steps = max_steps;
    desc.threads = threads;
    desc.poll = poll;
    desc.poll_ctx = &watch;
    eagle_step_report report{};
    report.struct_size = sizeof report;
    eagle_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = self->first().kernel->seam->fn.step_run(&desc, &report);
    Py_END_ALLOW_THREADS;
    if (PyErr_Occurred() || !passed(self->first().kernel, status)) return false;
    *self->counter = static_cast<uint32_t>(report.finished);
    outcome.steps = report.steps;
    outcome.launches = report.steps > 0;
    outcome.visits = report.visits;
    outcome.offered = report.offered;
    outcome.exact = report.flags & EAGLE_STEP_EXACT;
    outcome.stopped = report.flags & EAGLE_STEP_STOPPED;
    return !PyErr_Occurred();
}

/// One launch of each kernel after the other. Without the GIL.
eagle_status round(const StepsObject* self, const KernelObject** failed) {
    eagle_status status = EAGLE_OK;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->bounds) && status == EAGLE_OK; ++i) {
        BoundObject* bound = self->bound(i);
        bound->turn->take();
        status = bound->run(failed);
        bound->turn->give();
    }
    return status;
}

/// The same with every launch checked, the GIL held. false with an exception set.
bool checked_round(const StepsObject* self) {
    const Caller caller{self->first().kernel->name, "step"};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->bounds); ++i)
        if (!launch_bound(self->bound(i), caller)) return false;
    return true;
}

/// Rounds until the counter has all samples. The GIL is given up for many of them at once: another thread that has it
/// does not hand it over for a launch. false with an exception set.
bool run_rounds(StepsObject* self, int64_t max_steps, Watch& watch, Outcome& outcome) {
    const auto samples = static_cast<uint32_t>(self->samples());
    if (self->word) *self->word = self->k;
    *self->counter = static_cast<uint32_t>(samples - std::count(self->mask, self->mask + samples, '\0'));
    int64_t left = samples - *self->counter;
    const auto goes_on = [&] { return outcome.steps < max_steps && *self->counter < samples && !watch.stopped(); };
    const auto count = [&] {
        ++outcome.launches;
        outcome.steps += self->k;
        outcome.visits += samples;
        outcome.offered += self->k * left;
        left = samples - *self->counter;
        outcome.exact = self->k == 1 || *self->counter < samples;
    };
    while (goes_on()) {
        if (checking()) {
            if (!checked_round(self)) return false;
            count();
        } else {
            const KernelObject* failed = nullptr;
            eagle_status status = EAGLE_OK;
            Py_BEGIN_ALLOW_THREADS;
            do {
                status = round(self, &failed);
                if (status == EAGLE_OK) count();
            } while (status == EAGLE_OK && !watch.is_due() && goes_on());
            Py_END_ALLOW_THREADS;
            if (!passed(failed, status)) return false;
        }
        watch.due(*self->counter, outcome.offered);
        if (PyErr_Occurred()) return false;
    }
    outcome.stopped = watch.stopped();
    return true;
}

/// run(max_steps, threads, progress): (launches, steps, exact, visits, stopped). The counter then has the finished
/// samples, those that were before included. `progress` is told of samples finished and steps offered now and then, and
/// at the end.
PyObject* steps_run(PyObject* object, PyObject* args) {
    long long max_steps;
    int threads;
    PyObject* progress;
    if (!PyArg_ParseTuple(args, "LiO:run", &max_steps, &threads, &progress)) return nullptr;
    auto* self = reinterpret_cast<StepsObject*>(object);
    return guarded([&]() -> PyObject* {
        Outcome outcome;
        Watch watch(self, progress);
        const Backend& seam = *self->first().kernel->seam;
        int32_t size = 0;
        const bool more = threads > 0 && seam.fn.team_size && seam.fn.team_size(0, &size) == EAGLE_OK && threads > size;
        const bool native = self->native && !checking();
        const TeamSize team(seam, more || !native ? threads : 0);
        const bool ran =
            native ? run_native(self, max_steps, threads, watch, outcome) : run_rounds(self, max_steps, watch, outcome);
        if (!ran || !watch.tell(*self->counter, outcome.offered)) return nullptr;
        return Py_BuildValue("LLNLN", static_cast<long long>(outcome.launches), static_cast<long long>(outcome.steps),
                             PyBool_FromLong(outcome.exact), static_cast<long long>(outcome.visits),
                             PyBool_FromLong(outcome.stopped));
    });
}

/// arm(): a run is about to begin; stop() counts from now on.
PyObject* steps_arm(PyObject* object, PyObject*) {
    reinterpret_cast<StepsObject*>(object)->stop->store(false, std::memory_order_relaxed);
    Py_RETURN_NONE;
}

/// stop(): from any thread.
PyObject* steps_stop(PyObject* object, PyObject*) {
    reinterpret_cast<StepsObject*>(object)->stop->store(true, std::memory_order_relaxed);
    Py_RETURN_NONE;
}

PyObject* steps_native(PyObject* object, void*) {
    return PyBool_FromLong(reinterpret_cast<StepsObject*>(object)->native && !checking());
}

int steps_traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(reinterpret_cast<StepsObject*>(object)->bounds);
    return 0;
}

void steps_dealloc(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    auto* self = reinterpret_cast<StepsObject*>(object);
    PyObject_GC_UnTrack(object);
    delete self->planes;
    delete self->stop;
    Py_XDECREF(self->bounds);
    type->tp_free(object);
    Py_DECREF(type);
}

PyMethodDef steps_methods[] = {
    {"run", steps_run, METH_VARARGS, nullptr},
    {"arm", steps_arm, METH_NOARGS, nullptr},
    {"stop", steps_stop, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef steps_attributes[] = {
    {"native", steps_native, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot steps_slots[] = {
    {Py_tp_doc, const_cast<char*>("Kernels over bound planes, stepped until every sample is finished.")},
    {Py_tp_new, reinterpret_cast<void*>(steps_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(steps_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(steps_traverse)},
    {Py_tp_methods, steps_methods},
    {Py_tp_getset, steps_attributes},
    {0, nullptr},
};
PyType_Spec steps_spec = {"eagle._core.Steps", sizeof(StepsObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, steps_slots};

}  // namespace

bool add_steps(PyObject* module) { return add_type(module, steps_spec, "Steps"); }

}  // namespace eagle::core
