// Packed argument blocks with the planes they point at.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "calls.h"
#include "checked.h"
#include "eagle/exec/Fork.h"
#include "interop.h"
#include "numpy_api.h"
#include "relayout.h"

namespace eagle::core {

/// Whose turn it is to use the scratch of a Bound. A child of fork() finds it free, whoever had it before.
class Turn {
public:
    void take() {
        const uint64_t mine = forks_.load(std::memory_order_relaxed) + 1;
        uint64_t holder = 0;
        while (!holder_.compare_exchange_strong(holder, mine, std::memory_order_acquire)) {
            if (holder != 0 && holder != mine) continue;  // left behind by a fork: taken over
            holder_.wait(holder, std::memory_order_relaxed);
            holder = 0;
        }
    }
    void give() {
        holder_.store(0, std::memory_order_release);
        holder_.notify_one();
    }

private:
    std::atomic<uint64_t> holder_{0};  // 0: nobody, else one more than the forks its holder has seen
    inline static std::atomic<uint64_t> forks_{0};
    inline static const bool counted_ =
        exec::atFork(nullptr, nullptr, [] { forks_.fetch_add(1, std::memory_order_relaxed); });
};

/// An array a stage clears, reduces or writes, and where it was when it was bound.
struct Kept {
    PyArrayObject* array;  // borrowed: the Bound holds it
    char* data;

    explicit Kept(PyObject* object)
        : array(reinterpret_cast<PyArrayObject*>(object)), data(static_cast<char*>(PyArray_DATA(array))) {}
    std::size_t bytes() const { return static_cast<std::size_t>(PyArray_NBYTES(array)); }
};

/// The caller's own array, of which another array of the same memory was packed: one of numpy, or a BufferView of any.
class Watched {
public:
    PyObject* const name;  // borrowed, as the array

    Watched(PyObject* name, PyObject* object, bool writes) : name(name), object_(object), writes_(writes) {
        if (PyArray_Check(object)) is_ = Place(array());
    }
    /// By code of its producer, which may do anything: whether it moved or must no longer be written. 1 yes, 0 no, -1
    /// with an exception set that is no refusal, such as KeyboardInterrupt.
    int moved_says_producer() const {
        if (!Py_IS_TYPE(object_, ViewType)) return 0;
        if (writes_ && is_followed(view()->origin)) return 1;
        if (is_read_quickly(view())) return 0;
        const int moved = has_moved(view());
        if (moved >= 0 || !PyErr_ExceptionMatches(PyExc_Exception)) return moved;
        PyErr_Clear();  // it hands out nothing any more
        return 1;
    }
    /// The same where no code but numpy's and a library's own need tell.
    bool moved() const {
        if (Py_IS_TYPE(object_, ViewType)) return is_read_quickly(view()) && moved_quietly(view());
        return Place(array()) != is_ || (writes_ && !PyArray_ISWRITEABLE(array()));
    }

private:
    struct Place {
        void* data = nullptr;
        std::vector<npy_intp> axes;

        Place() = default;
        explicit Place(PyArrayObject* array) : data(PyArray_DATA(array)) {
            axes.assign(PyArray_DIMS(array), PyArray_DIMS(array) + PyArray_NDIM(array));
            axes.insert(axes.end(), PyArray_STRIDES(array), PyArray_STRIDES(array) + PyArray_NDIM(array));
        }
        bool operator==(const Place&) const = default;
    };

    ViewObject* view() const { return reinterpret_cast<ViewObject*>(object_); }
    PyArrayObject* array() const { return reinterpret_cast<PyArrayObject*>(object_); }

    PyObject* object_;
    Place is_;
    bool writes_;
};

/// One kernel of a program, and what is zeroed before it.
struct Stage {
    KernelObject* kernel;  // borrowed: the block holds it
    Block block;
    std::vector<Kept> clears;

    Stage(KernelObject* kernel, int64_t n) : kernel(kernel), block(kernel, n) {}

    bool plain() const { return clears.empty() && launch_is_all(kernel); }
    eagle_status run(const Cut& cut) const {
        clear();
        return block.run(cut);
    }
    /// run() with its launch checked, the GIL held.
    Failure run_checked(const Cut& cut, const Caller& caller) const {
        clear();
        block.begin();
        if (Failure failed = launch_checked(kernel, block.params(), block.n(), cut, caller)) return failed;
        const eagle_status status = block.finish();
        if (status == EAGLE_OK) return nullptr;
        return [kernel = kernel, status] { passed(kernel, status); };
    }

    /// Whether it writes to memory that the other has under another name.
    bool writes_into(const Stage& other) const {
        const std::vector<Slot>&slots = *kernel->slots, &others = *other.kernel->slots;
        for (std::size_t i = 0; i < slots.size(); ++i) {
            if (!slots[i].writes || !block.plane(i)) continue;
            const Kept mine(block.plane(i));
            for (std::size_t j = 0; j < others.size(); ++j) {
                if (!other.block.plane(j) || others[j].name == slots[i].name) continue;
                const Kept theirs(other.block.plane(j));
                if (mine.data < theirs.data + theirs.bytes() && theirs.data < mine.data + mine.bytes()) return true;
            }
        }
        return false;
    }

private:
    void clear() const {
        for (const Kept& plane : clears) std::memset(plane.data, 0, plane.bytes());
    }
};

/// What several launches may use at once: rebinding swaps it, and each launch holds its own.
struct BoundObject {
    PyObject ob_base;
    PyObject* given;  // the arguments it was made of: keeps every array alive
    std::vector<std::unique_ptr<Stage>>* stages;
    std::vector<Watched>* watched;
    std::vector<Relayout>* copies;
    Cut* cut;
    Turn* turn;

    const KernelObject* kernel() const { return stages->front()->kernel; }
    /// Every stage of a launch, with what is copied before and behind it. Without the GIL.
    eagle_status run(const KernelObject** failed) const;
    eagle_status copy_in() const {
        eagle_status status = EAGLE_OK;
        for (std::size_t i = 0; i < copies->size() && status == EAGLE_OK; ++i)
            status = (*copies)[i].before(*kernel()->seam);
        return status;
    }
    eagle_status copy_out() const {
        eagle_status status = EAGLE_OK;
        for (std::size_t i = 0; i < copies->size() && status == EAGLE_OK; ++i)
            status = (*copies)[i].behind(*kernel()->seam);
        return status;
    }
};

extern PyTypeObject* BoundType;

/// Runs every stage. GIL held on entry and exit. false with an exception set.
bool launch_bound(BoundObject* bound, const Caller& caller);

/// The name of a plane that is no longer what was packed, told without running anybody's code; null when all are.
PyObject* moved_plane(const BoundObject* bound);

}  // namespace eagle::core
