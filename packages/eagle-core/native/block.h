// The argument block of one launch: a box per slot, packed from Python values.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "kernel.h"

namespace eagle::core {

/// A box and, behind a handle, the cell it may own or the bytes of what it points at.
struct alignas(8) BoxStorage {
    union {
        plugin::GRefMirror mirror;
        plugin::ScalarHandle handle;
        double f64;
        float f32;
        int64_t i64;
        uint32_t u32;
    };
    int64_t cell;
};

/// Which names may be left out. Step: a plane that is left out starts at zero, whatever it is; its caller knows which
/// may.
enum class Door { Run, Call, Bind, Step };

/// Boxes, their addresses and the arrays made for omitted outputs. Small kernels pack on the stack.
class Block {
public:
    /// For n samples; -1 where the planes say how many.
    explicit Block(KernelObject* kernel, int64_t n = -1);
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    enum class Packed { Yes, Unfit, Error };

    /// Packs values[position[i]] into slot i; position < 0 is an omitted slot. Unfit: some value is not exactly what
    /// the slot takes (nothing is raised); Error: a Python exception is set. Omitted planes are allocated. The values
    /// are borrowed until the results are taken.
    Packed pack(PyObject* const* values, const int16_t* position, Door door, const Cut& cut);

    KernelObject* kernel() const { return kernel_; }
    const void* const* params() const { return params_; }
    int64_t n() const { return n_; }
    /// The plane of slot i, or the result of a reduction, borrowed; null for anything else.
    PyObject* plane(std::size_t i) const { return planes_[i]; }
    /// The same as the caller knows it: his own object where he gave one.
    PyObject* shown(std::size_t i) const { return position_[i] >= 0 ? values_[position_[i]] : planes_[i]; }
    /// Launches, with what comes before and behind it: companions start at zero and are folded, rows are reduced.
    /// Without the GIL.
    eagle_status run(const Cut& cut) const;
    /// What run() does before and behind the launch.
    void begin() const;
    eagle_status finish() const;
    /// Makes arrays of the caller's framework of the results that were left out, of one number numpy's scalar. false
    /// with an exception set.
    bool deliver();
    /// New reference: {name: plane} of the results; the plane itself where `alone` and it is the only one.
    PyObject* results(bool alone) const;
    /// Whether every plane is still what was packed; else the slot that is not.
    bool intact(std::size_t* moved) const;
    int traverse(visitproc visit, void* arg) const;

private:
    static constexpr std::size_t kInline = 16;

    template <class T>
    void finish(const Reduction& reduction, T* out) const;
    bool unfit_overlap(bool aliasable) const;
    /// Whether no plane of another library's, or of numpy, moved since it was read. It runs no code of Python.
    bool unmoved() const;
    bool take(std::size_t i, PyObject* value, bool exact);
    bool take_plane(std::size_t i, PyObject* value, Door door);
    bool allocate(std::size_t i, bool zero);
    bool allocate_scratch();
    /// Whether slot i is a companion of the block's own.
    bool owns(std::size_t i) const { return (*kernel_->slots)[i].box == Box::Companion && !planes_[i]; }

    KernelObject* kernel_;
    int64_t n_;
    PyObject* const* values_ = nullptr;
    PyObject* foreign_ = nullptr;  ///< borrowed: one of the values that are no arrays of numpy
    bool one_ = false;             ///< one sample, given without an axis for it
    BoxStorage inline_boxes_[kInline];
    const void* inline_params_[kInline];
    PyObject* inline_planes_[kInline];
    int16_t inline_position_[kInline];
    std::unique_ptr<char[]> heap_;
    std::unique_ptr<void, void (*)(void*)> scratch_{nullptr, std::free};  ///< rows, companions
    std::vector<void*> outs_;                                             ///< where each reduction goes
    BoxStorage* boxes_ = inline_boxes_;
    const void** params_ = inline_params_;
    PyObject** planes_ = inline_planes_;
    int16_t* position_ = inline_position_;
};

}  // namespace eagle::core
