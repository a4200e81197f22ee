// A program of steps, recorded through the capture groups of the seam.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bound.h"
#include "eagle/exec/HostSchedule.h"
#include "loader.h"

namespace eagle::core {

/// Something of the seam that is released with its owner.
template <class Handle>
class Owned {
public:
    using Release = void (*Symbols::*)(Handle);

    Owned(const Backend& seam, Release release) : seam_(seam), release_(release) {}
    ~Owned() { reset(); }
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;

    Handle* out() {
        reset();
        return &handle_;
    }
    Handle get() const { return handle_; }
    /// For a call that consumes it.
    Handle take() { return std::exchange(handle_, nullptr); }

private:
    void reset() {
        if (Handle handle = take()) (seam_.fn.*release_)(handle);
    }

    const Backend& seam_;
    const Release release_;
    Handle handle_ = nullptr;
};

/// A function of Python as a step. What it raises ends the replay, and is raised by who asked for that.
struct Callback {
    PyObject* function;  // borrowed: the program holds it
    class Recording* recording;
};

/// What a replay calls on the host, while it is on; another answer than 0 ends the replay.
struct HostCall {
    eagle_void_callback function;
    void* argument;
    class Recording* recording;
    int64_t unit;
    bool on = true;
};

/// Steps of a program, as tuples of Python; recorded once, replayed as a whole.
///
///     ("launch", (bound, ...), fuse)          one kernel, or some that each touch nothing but the cells of their own
///                                             sample; `fuse`: to be run tile by tile
///     ("call", function)
///     ("copy", dst, src, bytes, direction)
///     ("entry", address, (argument, ...), ((base, count, n), ...), grain)
///     ("fork", (steps, ...))
///     ("conditional", kind, (steps, ...), count, baseline, negate, counter, cap, limit, brk)     addresses, 0: none
class Recording {
public:
    /// Throws Error; where an exception of Python is set, PythonError. `attribute`: timed(), enable() or reached() will
    /// be asked. `stream` is the caller's, 0: one of its own.
    Recording(std::shared_ptr<const Backend> backend, int device, PyObject* steps, bool attribute, uint64_t stream);
    ~Recording();
    Recording(const Recording&) = delete;

    /// One replay. Without the GIL where `has_calls()`, elsewise either way. false: an exception is set, or will be by
    /// raise().
    eagle_status replay() const;
    /// What a failed replay() raises. GIL held.
    void raise(eagle_status status);
    /// Whether a replay may ask for the GIL.
    bool has_calls() const { return !callbacks_.empty() || has_looks_; }
    const std::vector<BoundObject*>& bounds() const { return bounds_; }
    int32_t run(Callback& callback);
    /// Switch a unit, as timed() counts them, for the replays to come. false: there is no such unit.
    bool enable(int64_t unit, bool on);
    /// How many units the last replay began, to be asked once: the last of them is the one that ended
    /// it, or that came before the look which did. 0: none.
    int64_t reached() { return std::exchange(reached_, 0); }
    /// One replay: the seconds that each step took, those of forks and conditionals in their place, a step for each
    /// kernel. Empty where the backend cannot tell.
    eagle_status timed(std::vector<double>& seconds) const;

private:
    struct Step;
    using Steps = std::vector<Step>;

    Steps prepare(PyObject* steps, uint64_t stream);
    Step prepare_step(PyObject* item, uint64_t stream);
    void prepare_entry(PyObject* item, uint64_t stream, Step& step);
    Step prepare_fork(PyObject* item, uint64_t stream);
    Step prepare_conditional(PyObject* item, uint64_t stream);
    void record(const Steps& steps, uint64_t stream);
    void record(const BoundObject* bound, uint64_t stream, std::optional<int64_t> peel);
    void record(eagle_void_callback function, void* argument, uint64_t stream);
    void record_work(const Steps& steps, uint64_t stream);
    bool is_due(int64_t n, int64_t most);
    void record_look(uint64_t stream);
    int32_t look();
    template <class Work>
    void attributed(uint64_t stream, Work work);
    std::vector<uint64_t> nodes_of(uint64_t stream) const;

    const std::shared_ptr<const Backend> backend_;
    const int32_t device_;
    Owned<eagle_stream> stream_;
    std::vector<std::unique_ptr<Owned<eagle_fork>>> forks_;
    std::vector<std::unique_ptr<Owned<eagle_conditional>>> conditionals_;
    Owned<eagle_graph> graph_;
    Owned<eagle_launcher> launcher_;
    std::vector<BoundObject*> bounds_;  // borrowed: the program holds them
    std::vector<std::unique_ptr<Callback>> callbacks_;
    std::vector<std::unique_ptr<HostCall>> calls_;
    std::vector<std::unique_ptr<std::vector<uint64_t>>> arguments_;
    const bool attribute_;
    struct Unit {
        std::vector<uint64_t> nodes;
        std::vector<HostCall*> calls;
    };
    std::vector<Unit> units_;  // what each step recorded
    mutable int64_t reached_ = 0;
    bool has_looks_ = false;
    static constexpr int64_t kSmall = exec::BRANCH_TASKS_MAX_SAMPLES;  // launches of fewer take no time
    static constexpr int64_t kUnseen = int64_t{1} << 17;               // samples of launches without a look at signals
    static constexpr int64_t kUnseenTogether = int64_t{1} << 25;  // the same, where a look ends what runs tile by tile
    int64_t unseen_ = 0;
    int forks_open_ = 0;
    static constexpr std::chrono::milliseconds kLook{20};  // between two looks at signals
    static constexpr uint32_t kStride = 16;                // the most looks between two at the clock
    std::chrono::steady_clock::time_point looked_{}, clocked_{};
    uint32_t looks_ = 0, stride_ = 1;
    PyObject *type_ = nullptr, *error_ = nullptr, *trace_ = nullptr;  // what a callback raised
};

/// An exception of Python is set.
struct PythonError {};

}  // namespace eagle::core
