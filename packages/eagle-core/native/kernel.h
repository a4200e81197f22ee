// A prepared kernel: where its entry is, what its argument block looks like, and how it is launched.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "eagle/plugin.h"
#include "eagle/reduce/Canonical.h"
#include "loader.h"

namespace eagle::core {

/// How a slot rides in the argument block.
enum class Box : int {
    Handle,   ///< one cell per sample
    Mirror,   ///< `width` components per sample, component-major
    Float64,  ///< a uniform by value
    Float32,  ///< a uniform by value
    Int64,    ///< a uniform by value
    SampleCount,
    Cell,       ///< a one-cell buffer the block itself owns
    Table,      ///< a buffer with a length of its own
    Matrix,     ///< `width` components with a number of columns of their own
    Sink,       ///< a buffer with a length of its own that says it has the samples'
    Rows,       ///< a reduction's partials, one for kRow samples; the block owns them
    Companion,  ///< what the additions to a Sink have lost; the block's own where none is given
};

constexpr int64_t kRow = 32;  ///< samples that one row of a reduction covers

/// Tables whose values say where the kernel writes: the sample of each lane, where each branch begins.
constexpr int64_t kMap = 1, kOffsets = 2;

struct Slot {
    PyObject* name;  ///< interned, owned by the kernel, as the role
    PyObject* role;
    Box box;
    int typenum;    ///< numpy type number of a plane
    int64_t width;  ///< components per sample of a plane; of the first Rows of a reduction those of its result, else 0
    int64_t cell;   ///< start value of a Cell; bytes of one of the Rows; least cells a sample of a Sink; kMap, kOffsets
                    ///< of a Table
    int64_t bytes;  ///< plane bytes per sample, or of a cell's own
    bool writes;    ///< the kernel writes the plane
    bool result;    ///< run() returns the plane
    bool zero;      ///< an omitted plane starts at zero (else it is wholly written)
    bool run_omits;   ///< run() may leave it out
    bool call_omits;  ///< the call form may leave it out
    std::vector<int64_t>
        dims;  ///< the shape of a Sink, -1 where any extent serves, empty: any shape; of a matrix (R, C)

    bool is_plane() const { return box == Box::Handle || box == Box::Mirror; }
    /// Whether it can be made from the samples alone: of a Sink only where the shape is known.
    bool allocates() const {
        return is_plane() || (box == Box::Rows && width > 0) ||
               (box == Box::Sink && (cell > 0 || (!dims.empty() && *std::ranges::min_element(dims) >= 0)));
    }
    bool is_buffer() const { return box == Box::Table || box == Box::Matrix || box == Box::Sink; }
    /// Bytes of the box itself.
    uint64_t box_bytes() const;
    bool is_uniform() const { return box == Box::Float64 || box == Box::Float32 || box == Box::Int64; }
};

/// A reduction over samples: the slots of its rows, and of what they lost, column by column. The slot of the first rows
/// stands for the result, an array of the columns.
struct Reduction {
    reduce::Op op;
    std::vector<std::size_t> rows;
    std::vector<std::size_t> lost;  ///< empty: nothing is lost
};

/// An entry that puts what a companion holds into its sink.
struct Fold {
    std::size_t companion, sink;
    uint64_t entry;
};

/// What one launch costs, learned while launching. It decides who keeps the GIL and how small a piece may be, never a
/// bit of a result.
class Pace {
public:
    /// Below this a launch keeps the GIL: giving it up costs more than it frees.
    static constexpr float kBriefNs = 1000;

    bool brief(int64_t n) const {
        const Timed last = last_.load(std::memory_order_relaxed);
        return last.cost >= 0 && last.cost * static_cast<float>(n) < kBriefNs && n <= kLikeIt * int64_t{last.samples};
    }
    /// A brief launch is timed now and then, a long one always.
    bool due() { return (tick_.fetch_add(1, std::memory_order_relaxed) & 15) == 0; }
    void learn(int64_t n, double ns);
    /// The smallest piece worth a thread, in samples.
    uint32_t grain(int64_t bytes_per_sample) const;

private:
    static constexpr int64_t kLikeIt = 16;  ///< a launch of so many times the samples is no longer like the one timed

    struct Timed {
        uint32_t samples;  ///< of the launch, or the most there can be
        float cost;        ///< ns a sample; below 0: not known yet
    };
    static_assert(std::atomic<Timed>::is_always_lock_free);  // one word: the two belong together

    std::atomic<Timed> last_{Timed{0, -1}};
    std::atomic<uint32_t> tick_{0};
};

/// How many samples a thread of the entry computes: `lanes` of them, `stride` apart (1 and 1: a thread is a sample).
struct ThreadBox {
    int64_t lanes = 1, stride = 1;

    /// The threads that cover n samples; the ranges of a launch count them.
    int64_t threads(int64_t n) const { return lanes == 1 ? n : (n + lanes * stride - 1) / (lanes * stride) * stride; }
};

/// The partitions of a plan: an even cut, or triples the user gave.
struct Cut {
    int64_t parts = 1;
    std::vector<plugin::Partition> given;

    int64_t size() const { return given.empty() ? parts : static_cast<int64_t>(given.size()); }
    /// How many of them, from the first, may hold any of n samples.
    int64_t filled(int64_t n) const { return given.empty() ? std::min(parts, n) : size(); }
    /// Partition i of n samples: larger parts first, trailing ones possibly empty.
    plugin::Partition at(int64_t i, int64_t n) const;
    /// Whether these partitions can cut n samples.
    bool fits(int64_t n) const { return given.empty() || given.front().nSamples == n; }
};

struct KernelObject {
    PyObject ob_base;
    PyObject* name;
    PyObject* backend;    ///< _core.Backend
    PyObject* keepalive;  ///< whatever the entry points into
    const Backend* seam;
    uint64_t entry;
    int64_t bytes_per_sample;
    int64_t aligned_slot;  ///< the slot whose plane a launch aligns to cache lines; -1: none
    int64_t live;          ///< the slot whose cell says how many samples, from the first, a launch covers; -1: none
    ThreadBox box;
    bool serial;     ///< one ascending range on one thread
    bool aliasable;  ///< an input may be the very array of the output
    bool lone;       ///< run() and the call form take one sample without an axis for it
    std::vector<Slot>* slots;
    std::vector<Reduction>* reductions;
    std::vector<Fold>* folds;
    Pace* pace;
};

extern PyTypeObject* KernelType;

/// Who asked for a launch, for messages: the name of a kernel and the method, or the text of a door and null.
struct Caller {
    PyObject* door;
    const char* method;
};

/// Launches over every partition of n samples. GIL held on entry and exit, released in between unless the launch is
/// brief. false with a Python exception set on failure.
bool launch(KernelObject* kernel, const void* const* params, int64_t n, const Cut& cut, const Caller& caller);

/// The same without the GIL.
eagle_status launch_released(KernelObject* kernel, const void* const* params, int64_t n, const Cut& cut);

/// How many samples of a partition a launch does ahead of the rest, which then begins on a cache line of what it
/// writes. 0 where they are too few to gain, or must not be cut.
int64_t peel_of(const KernelObject* kernel, const void* const* params, const plugin::Partition& part);

/// Launches over every partition on a stream that captures: over all samples, also where fewer are live by now. `peel`:
/// where launches that may run together are cut.
eagle_status launch_on(const KernelObject* kernel, const void* const* params, int64_t n, const Cut& cut,
                       uint64_t stream, std::optional<int64_t> peel);

/// Any entry over one partition, in one piece on the calling thread.
eagle_status launch_entry(const KernelObject* kernel, uint64_t entry, const void* const* params,
                          const plugin::Partition& part);

/// The threads of a launch: those that cover the samples, or the first of them that are live.
int64_t threads_of(const KernelObject* kernel, const void* const* params, int64_t n);

/// Whether a launch is all there is: nothing is reduced or folded behind it.
inline bool launch_is_all(const KernelObject* kernel) { return kernel->reductions->empty() && kernel->folds->empty(); }

/// true for OK, else false with the exception of the kernel's backend set.
bool passed(const KernelObject* kernel, eagle_status status);

/// Registers _core.Kernel.
bool add_kernel_type(PyObject* module);

}  // namespace eagle::core
