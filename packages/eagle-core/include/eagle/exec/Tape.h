// What a capture records: leaves in order, with forks and conditionals as blocks around them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "eagle/plugin.h"

namespace eagle::exec {

/// The arguments of a launch: addresses of boxes. Where the size of one is known its value is kept here, elsewise the
/// box stays the caller's.
class Arguments {
public:
    static constexpr std::uint64_t kLargest = 1 << 16;

    /// Without `sizes`, or where one is 0, a box stays the caller's.
    Arguments(const std::uint64_t* addresses, const std::uint64_t* sizes, std::size_t n) : slots_(n) {
        std::size_t end = 0;
        for (std::size_t i = 0; i < n; ++i) {
            const std::uint64_t size = sizes ? sizes[i] : 0;
            if (size > kLargest) throw std::length_error("an argument of a launch is larger than 65536 bytes");
            slots_[i] = {end, static_cast<std::size_t>(size)};
            end += (static_cast<std::size_t>(size) + kAlign - 1) / kAlign * kAlign;
        }
        values_.resize(end / kAlign);
        addresses_.resize(n);
        for (std::size_t i = 0; i < n; ++i) {
            addresses_[i] = own(i);
            set(i, reinterpret_cast<void*>(static_cast<std::uintptr_t>(addresses[i])));
        }
    }
    Arguments(const Arguments& other) : slots_(other.slots_), values_(other.values_), addresses_(other.addresses_) {
        for (std::size_t i = 0; i < slots_.size(); ++i)
            if (slots_[i].size > 0) addresses_[i] = own(i);
    }
    Arguments(Arguments&&) = default;
    Arguments& operator=(Arguments&&) = default;
    Arguments& operator=(const Arguments&) = delete;

    std::size_t size() const { return slots_.size(); }
    void* const* data() const { return addresses_.data(); }

    /// The value at `box`, or `box` itself where the size is not known.
    void set(std::size_t i, void* box) {
        if (slots_[i].size > 0)
            std::memcpy(addresses_[i], box, slots_[i].size);
        else
            addresses_[i] = box;
    }

private:
    static constexpr std::size_t kAlign = 16;
    struct Slot {
        std::size_t offset, size;
    };
    struct alignas(kAlign) Unit {
        std::byte bytes[kAlign];
    };

    void* own(std::size_t i) { return values_.empty() ? nullptr : values_.data() + slots_[i].offset / kAlign; }

    std::vector<Slot> slots_;
    std::vector<Unit> values_;
    std::vector<void*> addresses_;
};

struct Launch {
    plugin::HostEntry entry;
    plugin::Partition part;
    std::int64_t grain;    ///< the least samples of a piece for a thread
    std::uint32_t fusion;  ///< launches in a row with the same number, but for 0, may be run sample by sample
    Arguments arguments;
};

struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
};

struct Zero {
    void* to;
    std::size_t bytes;
};

/// On the calling thread, without the team.
struct HostFunction {
    void (*fn)(void*);
    void* arg;
};

/// The same, and anything else than 0 ends the replay.
struct HostCall {
    std::int32_t (*fn)(void*);
    void* arg;
};

/// What a backend does itself.
using Native = std::function<void()>;

struct Leaf {
    using Work = std::variant<Launch, Copy, Zero, HostFunction, HostCall, Native>;

    template <class Kind>
    Leaf(std::uint64_t id, Kind work) : id(id), work(std::in_place_type<Kind>, std::move(work)) {}

    const std::uint64_t id;
    const Work work;
};

/// Whether `*count` differs from `*baseline`, or 0 without one; the other way round with negate. Cells are uint32.
struct Guard {
    std::uint64_t count, baseline;
    std::uint32_t negate;
};

struct LoopCells {
    std::uint32_t cap, zero;
    std::uint64_t counter, limit, brk;
};

enum class Condition : std::uint32_t { If = 1, IfElse = 2, While = 3, Switch = 4 };

struct Fork;
struct Conditional;
struct Recording;

using Item = std::variant<std::unique_ptr<Leaf>, std::unique_ptr<Fork>, std::unique_ptr<Conditional>,
                          std::shared_ptr<const Recording>>;

/// Items in the order they were recorded, which is an order they may run in. The branch tells them apart in a fork.
struct Sequence {
    struct Entry {
        std::uint64_t branch;
        Item item;
    };
    std::vector<Entry> entries;

    bool empty() const { return entries.empty(); }
};

struct Fork {
    Sequence sequence;
    bool waits = false;  ///< a branch waits for something of another
};

struct Conditional {
    Condition kind;
    Guard guard;
    LoopCells loop;
    std::uint64_t id, head, tail;  ///< of the node and of what sets it
    std::vector<Sequence> arms;
};

struct Recording {
    Sequence root;
};

}  // namespace eagle::exec
