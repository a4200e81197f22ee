// A program of steps, recorded through the capture groups of the seam.
//
// SPDX-License-Identifier: Apache-2.0
#include "recording.h"

#include <algorithm>
#include <string_view>

#include "released.h"

namespace eagle::core {
namespace {

/// The items of a tuple.
struct Items {
    PyObject* tuple;

    explicit Items(PyObject* object) : tuple(object) {
        if (PyTuple_Check(object)) return;
        PyErr_Format(PyExc_TypeError, "_core.Program: wanted a tuple, found %s", Py_TYPE(object)->tp_name);
        throw PythonError{};
    }
    Py_ssize_t size() const { return PyTuple_GET_SIZE(tuple); }
    PyObject* operator[](Py_ssize_t i) const { return PyTuple_GET_ITEM(tuple, i); }
};

std::string_view name_of(PyObject* item) {
    const Items items(item);
    Py_ssize_t size = 0;
    const char* name = items.size() ? PyUnicode_AsUTF8AndSize(items[0], &size) : nullptr;
    if (name) return {name, static_cast<std::size_t>(size)};
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "_core.Program: wanted a step with a name");
    throw PythonError{};
}

/// Kernels that may run together are cut where the first is, whether they do or not.
std::optional<int64_t> shared_peel(const std::vector<BoundObject*>& bounds) {
    if (bounds.size() == 1) return {};
    const Stage& first = *bounds.front()->stages->front();
    return peel_of(first.kernel, first.block.params(), {0, first.block.n(), first.block.n()});
}

template <class... Out>
void parse(PyObject* item, const char* format, Out... out) {
    if (!PyArg_ParseTuple(item, format, out...)) throw PythonError{};
}

}  // namespace

/// A step whose handles of the seam exist: those of forks and conditionals must before anything is captured.
struct Recording::Step {
    enum class Kind { Launch, Entry, Call, Copy, Fork, Conditional };

    Kind kind;
    std::vector<BoundObject*> bounds;
    bool fuse = false;
    Callback* callback = nullptr;
    eagle_launch_desc launch{};
    std::vector<plugin::Partition> parts;
    uint64_t dst = 0, src = 0, bytes = 0;
    int32_t direction = 0;
    eagle_fork fork = nullptr;
    eagle_conditional conditional = nullptr;
    bool repeats = false;
    std::vector<Steps> arms;
    std::vector<uint64_t> streams;  ///< of the arms

    /// Whether anything is captured of it: nothing is of kernels over no samples.
    bool works() const {
        if (kind == Kind::Launch)
            return std::ranges::any_of(bounds, [](const BoundObject* bound) {
                return std::ranges::any_of(*bound->stages, [](const auto& stage) {
                    return stage->block.n() > 0 || !launch_is_all(stage->kernel) ||
                           std::ranges::any_of(stage->clears, [](const Kept& plane) { return plane.bytes() > 0; });
                });
            });
        return kind != Kind::Entry || std::ranges::any_of(parts, [](const auto& part) { return part.count > 0; });
    }
};

Recording::Recording(std::shared_ptr<const Backend> backend, int device, PyObject* steps, bool attribute,
                     uint64_t stream)
    : backend_(std::move(backend)),
      device_(device),
      stream_(*backend_, &Symbols::stream_release),
      graph_(*backend_, &Symbols::graph_release),
      launcher_(*backend_, &Symbols::launcher_release),
      attribute_(attribute) {
    const Backend& seam = *backend_;
    if (!stream) {
        eagle_stream_desc desc{};
        desc.struct_size = sizeof desc;
        desc.device = device_;
        seam.call(&Symbols::stream_create, &desc, stream_.out());
        seam.call(&Symbols::stream_ptr, stream_.get(), &stream);
    }
    const Steps prepared = prepare(steps, stream);

    Owned<eagle_capturer> capturer(seam, &Symbols::capturer_release);
    eagle_capturer_desc desc{};
    desc.struct_size = sizeof desc;
    desc.device = device_;
    desc.stream = stream;
    seam.call(&Symbols::capturer_create, &desc, capturer.out());
    seam.call(&Symbols::capturer_begin, capturer.get());
    record_work(prepared, stream);
    Owned<eagle_captured> captured(seam, &Symbols::captured_release);
    seam.call(&Symbols::capturer_end, capturer.get(), captured.out());
    seam.call(&Symbols::graph_from_captured, captured.take(), graph_.out());
    seam.call(&Symbols::graph_stream, graph_.get(), stream);
    seam.call(&Symbols::graph_launcher, graph_.get(), launcher_.out());
}

Recording::~Recording() {
    Py_XDECREF(type_);
    Py_XDECREF(error_);
    Py_XDECREF(trace_);
}

// ---- what is there before the capture begins

Recording::Steps Recording::prepare(PyObject* steps, uint64_t stream) {
    const Items items(steps);
    Steps prepared;
    for (Py_ssize_t i = 0; i < items.size(); ++i) prepared.push_back(prepare_step(items[i], stream));
    return prepared;
}

Recording::Step Recording::prepare_step(PyObject* item, uint64_t stream) {
    const std::string_view name = name_of(item);
    if (name == "fork") return prepare_fork(item, stream);
    if (name == "conditional") return prepare_conditional(item, stream);
    Step step{};
    const char* kind;
    if (name == "launch") {
        step.kind = Step::Kind::Launch;
        PyObject* bounds;
        int fuse;
        parse(item, "sO!p", &kind, &PyTuple_Type, &bounds, &fuse);
        step.fuse = fuse;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bounds); ++i) {
            PyObject* bound = PyTuple_GET_ITEM(bounds, i);
            if (!Py_IS_TYPE(bound, BoundType)) {
                PyErr_SetString(PyExc_TypeError, "_core.Program: wanted what was bound");
                throw PythonError{};
            }
            step.bounds.push_back(reinterpret_cast<BoundObject*>(bound));
            bounds_.push_back(step.bounds.back());
        }
    } else if (name == "entry") {
        step.kind = Step::Kind::Entry;
        prepare_entry(item, stream, step);
    } else if (name == "call") {
        step.kind = Step::Kind::Call;
        PyObject* function;
        parse(item, "sO", &kind, &function);
        callbacks_.push_back(std::make_unique<Callback>(Callback{function, this}));
        step.callback = callbacks_.back().get();
    } else if (name == "copy") {
        step.kind = Step::Kind::Copy;
        unsigned long long dst, src, bytes;
        parse(item, "sKKKi", &kind, &dst, &src, &bytes, &step.direction);
        step.dst = dst, step.src = src, step.bytes = bytes;
    } else {
        PyErr_Format(PyExc_ValueError, "_core.Program: no step is called %R", Items(item)[0]);
        throw PythonError{};
    }
    return step;
}

void Recording::prepare_entry(PyObject* item, uint64_t stream, Step& step) {
    const char* kind;
    unsigned long long address;
    PyObject *arguments, *parts;
    unsigned grain;
    parse(item, "sKO!O!I", &kind, &address, &PyTuple_Type, &arguments, &PyTuple_Type, &parts, &grain);
    auto& params = *arguments_.emplace_back(std::make_unique<std::vector<uint64_t>>());
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i)
        params.push_back(PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(arguments, i)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); ++i) {
        long long base, count, n;
        parse(PyTuple_GET_ITEM(parts, i), "LLL", &base, &count, &n);
        step.parts.push_back({base, count, n});
    }
    if (PyErr_Occurred()) throw PythonError{};
    step.launch.struct_size = sizeof step.launch;
    step.launch.device = device_;
    step.launch.block = grain;
    step.launch.function = address;
    step.launch.params = params.data();
    step.launch.nparams = static_cast<int64_t>(params.size());
    step.launch.stream = stream;
}

Recording::Step Recording::prepare_fork(PyObject* item, uint64_t stream) {
    Step step{};
    step.kind = Step::Kind::Fork;
    const char* kind;
    PyObject* branches;
    parse(item, "sO!", &kind, &PyTuple_Type, &branches);
    eagle_fork_desc desc{};
    desc.struct_size = sizeof desc;
    desc.device = device_;
    desc.origin = stream;
    desc.branch_count = static_cast<uint64_t>(PyTuple_GET_SIZE(branches));
    forks_.push_back(std::make_unique<Owned<eagle_fork>>(*backend_, &Symbols::fork_release));
    backend_->call(&Symbols::fork_create, &desc, forks_.back()->out());
    step.fork = forks_.back()->get();
    for (uint64_t i = 0; i < desc.branch_count; ++i) {
        uint64_t branch = 0;
        backend_->call(&Symbols::fork_branch, step.fork, i, &branch);
        step.streams.push_back(branch);
        step.arms.push_back(prepare(PyTuple_GET_ITEM(branches, static_cast<Py_ssize_t>(i)), branch));
    }
    return step;
}

Recording::Step Recording::prepare_conditional(PyObject* item, uint64_t stream) {
    Step step{};
    step.kind = Step::Kind::Conditional;
    const char* name;
    PyObject* arms;
    unsigned kind, cap;
    int negate;
    unsigned long long count, baseline, counter, limit, brk;
    parse(item, "sIO!KKpKIKK", &name, &kind, &PyTuple_Type, &arms, &count, &baseline, &negate, &counter, &cap, &limit,
          &brk);
    eagle_conditional_desc desc{};
    desc.struct_size = sizeof desc;
    desc.device = device_;
    desc.loop_cap = cap;
    desc.origin = stream;
    desc.count_ptr = count;
    desc.baseline_ptr = baseline;
    desc.counter_ptr = counter;
    desc.kind = kind;
    step.repeats = kind == EAGLE_COND_WHILE;
    desc.arms = static_cast<uint32_t>(PyTuple_GET_SIZE(arms));
    desc.negate = static_cast<uint32_t>(negate);
    desc.brk_ptr = brk;
    desc.limit_ptr = limit;
    conditionals_.push_back(std::make_unique<Owned<eagle_conditional>>(*backend_, &Symbols::conditional_release));
    backend_->call(&Symbols::conditional_create, &desc, conditionals_.back()->out());
    step.conditional = conditionals_.back()->get();
    for (uint32_t i = 0; i < desc.arms; ++i) {
        uint64_t arm = 0;
        if (i == 0)
            backend_->call(&Symbols::conditional_body_stream, step.conditional, &arm);
        else
            backend_->call(&Symbols::conditional_arm_stream, step.conditional, uint64_t{i}, &arm);
        step.streams.push_back(arm);
        step.arms.push_back(prepare(PyTuple_GET_ITEM(arms, static_cast<Py_ssize_t>(i)), arm));
    }
    return step;
}

// ---- the capture

void Recording::record(const Steps& steps, uint64_t stream) {
    const Backend& seam = *backend_;
    for (const Step& step : steps) {
        switch (step.kind) {
            case Step::Kind::Launch: {
                const bool fuse = step.fuse && step.bounds.size() > 1 && seam.fn.capture_fuse;
                const std::optional<int64_t> peel = shared_peel(step.bounds);
                if (fuse) seam.call(&Symbols::capture_fuse, stream, int32_t{1});
                for (const BoundObject* bound : step.bounds) {
                    const int64_t n = bound->stages->front()->block.n();
                    if (is_due(n, fuse ? kUnseenTogether : kUnseen)) {
                        if (fuse) seam.call(&Symbols::capture_fuse, stream, int32_t{0});
                        record_look(stream);
                        if (fuse) seam.call(&Symbols::capture_fuse, stream, int32_t{1});
                    }
                    attributed(stream, [&] { record(bound, stream, peel); });
                }
                if (fuse) seam.call(&Symbols::capture_fuse, stream, int32_t{0});
                break;
            }
            case Step::Kind::Entry:
                if (is_due(step.parts.empty() ? 0 : step.parts.front().nSamples, kUnseen)) record_look(stream);
                attributed(stream, [&] {
                    for (const plugin::Partition& part : step.parts) {
                        eagle_launch_desc desc = step.launch;
                        desc.base = part.base, desc.count = part.count, desc.n_samples = part.nSamples;
                        int32_t launched = 0;
                        seam.call(&Symbols::run_device, &desc, &launched);
                    }
                });
                break;
            case Step::Kind::Call:
                attributed(stream, [&] {
                    const auto run = [](void* callback) -> int32_t {
                        auto* self = static_cast<Callback*>(callback);
                        return self->recording->run(*self);
                    };
                    record(run, step.callback, stream);
                });
                break;
            case Step::Kind::Copy:  // in a fork a look would keep branches from running side by side
                if (!forks_open_ && is_due(static_cast<int64_t>(step.bytes / sizeof(double)), kUnseen))
                    record_look(stream);
                attributed(stream, [&] {
                    seam.call(&Symbols::memcpy, step.dst, step.src, step.bytes, step.direction, stream);
                });
                break;
            case Step::Kind::Fork:
                seam.call(&Symbols::fork_fork, step.fork);
                ++forks_open_;
                for (std::size_t i = 0; i < step.arms.size(); ++i) record(step.arms[i], step.streams[i]);
                --forks_open_;
                seam.call(&Symbols::fork_join, step.fork);
                break;
            case Step::Kind::Conditional: {
                uint64_t body = 0;
                seam.call(&Symbols::conditional_begin, step.conditional, &body);
                for (std::size_t i = 0; i < step.arms.size(); ++i) record_work(step.arms[i], step.streams[i]);
                if (step.repeats) record_look(step.streams[0]);
                seam.call(&Symbols::conditional_end, step.conditional);
                break;
            }
        }
    }
}

void Recording::record(const BoundObject* bound, uint64_t stream, std::optional<int64_t> peel) {
    for (const auto& stage : *bound->stages) {
        for (const Kept& plane : stage->clears)
            backend_->call(&Symbols::memset_device, reinterpret_cast<uint64_t>(plane.data), plane.bytes(), stream);
        const bool whole = launch_is_all(stage->kernel);
        const auto begin = [](void* stage) -> int32_t { return static_cast<Stage*>(stage)->block.begin(), 0; };
        const auto finish = [](void* stage) -> int32_t { return static_cast<Stage*>(stage)->block.finish(); };
        if (!whole) record(begin, stage.get(), stream);
        backend_->check(launch_on(stage->kernel, stage->block.params(), stage->block.n(), *bound->cut, stream, peel));
        if (!whole) record(finish, stage.get(), stream);
    }
}

void Recording::record(eagle_void_callback function, void* argument, uint64_t stream) {
    const auto unit = static_cast<int64_t>(units_.size());
    HostCall* call = calls_.emplace_back(new HostCall{function, argument, this, unit}).get();
    const auto run = [](void* call) -> int32_t {
        auto* self = static_cast<HostCall*>(call);
        if (!self->on) return 0;
        const int32_t ended = self->function(self->argument);
        if (ended) self->recording->reached_ = self->unit;
        return ended;
    };
    backend_->call(&Symbols::host_call, stream, static_cast<eagle_void_callback>(run), static_cast<void*>(call));
}

/// For a capture, and an arm of a conditional, which must not be empty.
void Recording::record_work(const Steps& steps, uint64_t stream) {
    record(steps, stream);
    if (std::ranges::any_of(steps, &Step::works)) return;
    const auto nothing = [](void*) -> int32_t { return 0; };
    backend_->call(&Symbols::host_call, stream, static_cast<eagle_void_callback>(nothing), static_cast<void*>(nullptr));
}

/// Whether a look comes ahead of work of n samples: launches of few have none, since branches that are run side by side
/// may hold none.
bool Recording::is_due(int64_t n, int64_t most) {
    if (n <= kSmall) return false;
    const bool due = unseen_ >= most;
    unseen_ = (due ? 0 : unseen_) + n;
    return due;
}

/// At the end of a loop's body, and between launches of many samples: what goes on for long can be interrupted.
void Recording::record_look(uint64_t stream) {
    has_looks_ = true;
    record([](void* recording) -> int32_t { return static_cast<Recording*>(recording)->look(); }, this, stream);
}

template <class Work>
void Recording::attributed(uint64_t stream, Work work) {
    if (!attribute_) return work();
    units_.emplace_back();
    const std::size_t before = nodes_of(stream).size(), called = calls_.size();
    work();
    for (std::size_t i = called; i < calls_.size(); ++i) units_.back().calls.push_back(calls_[i].get());
    const std::vector<uint64_t> nodes = nodes_of(stream);
    units_.back().nodes.assign(nodes.begin() + static_cast<std::ptrdiff_t>(before), nodes.end());
}

std::vector<uint64_t> Recording::nodes_of(uint64_t stream) const {
    if (!backend_->fn.capture_snapshot_nodes) return {};
    uint64_t* nodes = nullptr;
    int64_t count = 0;
    backend_->call(&Symbols::capture_snapshot_nodes, stream, &nodes, &count);
    const std::unique_ptr<void, decltype(backend_->fn.free)> owned(nodes, backend_->fn.free);
    return {nodes, nodes + count};
}

// ---- replays

eagle_status Recording::timed(std::vector<double>& seconds) const {
    if (!attribute_ || !backend_->fn.launcher_launch_timed || !backend_->fn.capture_snapshot_nodes) return EAGLE_OK;
    std::vector<uint64_t> nodes;
    for (const Unit& unit : units_) nodes.insert(nodes.end(), unit.nodes.begin(), unit.nodes.end());
    std::vector<double> each(nodes.size());
    const eagle_status status = backend_->fn.launcher_launch_timed(launcher_.get(), nodes.data(),
                                                                   static_cast<int64_t>(nodes.size()), each.data());
    auto next = each.begin();
    for (const Unit& unit : units_) {
        double sum = 0;
        for (std::size_t i = 0; i < unit.nodes.size(); ++i) sum += *next++;
        seconds.push_back(sum);
    }
    return status;
}

int32_t Recording::run(Callback& callback) {
    return outliving([&]() -> int32_t {
        const PyGILState_STATE state = PyGILState_Ensure();
        PyObject* result = PyObject_CallNoArgs(callback.function);
        Py_XDECREF(result);
        if (!result) PyErr_Fetch(&type_, &error_, &trace_);
        PyGILState_Release(state);
        return result ? 0 : 1;
    });
}

int32_t Recording::look() {
    if (++looks_ % stride_ != 0) return 0;
    const auto now = std::chrono::steady_clock::now();
    const bool brief = now - std::exchange(clocked_, now) < kLook / 16;
    stride_ = brief ? std::min(2 * stride_, kStride) : std::max(stride_ / 2, 1u);
    if (now - looked_ < kLook) return 0;
    looked_ = now;
    return outliving([&]() -> int32_t {
        const PyGILState_STATE state = PyGILState_Ensure();
        const bool interrupted = PyErr_CheckSignals() < 0;
        if (interrupted) PyErr_Fetch(&type_, &error_, &trace_);
        PyGILState_Release(state);
        return interrupted ? 1 : 0;
    });
}

bool Recording::enable(int64_t unit, bool on) {
    if (unit < 0 || static_cast<std::size_t>(unit) >= units_.size()) return false;
    const Unit& found = units_[static_cast<std::size_t>(unit)];
    for (const uint64_t node : found.nodes) {
        int32_t toggleable = 0;
        backend_->call(&Symbols::is_node_toggleable, node, &toggleable);
        if (toggleable) backend_->call(&Symbols::launcher_set_node_enabled, launcher_.get(), node, int32_t{on});
    }
    for (HostCall* call : found.calls) call->on = on;
    return true;
}

eagle_status Recording::replay() const {
    reached_ = static_cast<int64_t>(units_.size());
    const eagle_status status = backend_->fn.launcher_launch(launcher_.get());
    return status == EAGLE_OK ? backend_->fn.launcher_synchronize(launcher_.get()) : status;
}

void Recording::raise(eagle_status status) {
    if (type_) {
        PyErr_Restore(std::exchange(type_, nullptr), std::exchange(error_, nullptr), std::exchange(trace_, nullptr));
        return;
    }
    backend_->check(status);
}

}  // namespace eagle::core
