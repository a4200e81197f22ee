// What a capture records: leaves in order, with forks and conditionals as blocks around them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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

/// The arguments of a launch: addresses of boxes. Where the size of one is known its value lies behind them, in the
/// same memory; elsewise the box stays the caller's.
class Arguments {
public:
    static constexpr std::uint64_t kLargest = 1 << 16;

    struct alignas(16) Unit {
        std::byte bytes[16];
    };

    /// Without `sizes`, or where one is 0, a box stays the caller's.
    Arguments(const std::uint64_t* addresses, const std::uint64_t* sizes, std::size_t n) {
        std::vector<Slot> slots(n);
        std::size_t end = n * sizeof(void*);
        for (std::size_t i = 0; i < n; ++i) {
            const std::uint64_t size = sizes ? sizes[i] : 0;
            if (size > kLargest) throw std::length_error("an argument of a launch is larger than 65536 bytes");
            slots[i] = {aligned(end, size), static_cast<std::size_t>(size)};
            if (size > 0) end = slots[i].offset + slots[i].size;
        }
        own_.resize((end + sizeof(Unit) - 1) / sizeof(Unit));
        units_ = own_.size();
        slots_ = std::make_shared<const std::vector<Slot>>(std::move(slots));
        lay(own_.data());
        for (std::size_t i = 0; i < n; ++i) set(i, reinterpret_cast<void*>(static_cast<std::uintptr_t>(addresses[i])));
    }
    /// A copy in other memory, units() of it, which outlives the copy.
    Arguments(const Arguments& other, Unit* memory) : slots_(other.slots_), units_(other.units_) {
        std::copy_n(reinterpret_cast<const Unit*>(other.addresses_), units_, memory);
        lay(memory);
    }
    Arguments(Arguments&&) = default;
    Arguments& operator=(Arguments&&) = default;

    std::size_t size() const { return slots_->size(); }
    std::size_t units() const { return units_; }
    void* const* data() const { return addresses_; }

    /// The value at `box`, or `box` itself where the size is not known.
    void set(std::size_t i, void* box) {
        if ((*slots_)[i].size > 0)
            std::memcpy(addresses_[i], box, (*slots_)[i].size);
        else
            addresses_[i] = box;
    }

private:
    struct Slot {
        std::size_t offset, size;
    };

    /// Where an object of `size` bytes may lie: a size is a multiple of the alignment.
    static std::size_t aligned(std::size_t offset, std::uint64_t size) {
        const std::size_t alignment = std::min<std::uint64_t>(size & (~size + 1), alignof(Unit));
        return size == 0 ? offset : (offset + alignment - 1) / alignment * alignment;
    }

    void lay(Unit* memory) {
        addresses_ = reinterpret_cast<void**>(memory);
        for (std::size_t i = 0; i < slots_->size(); ++i)
            if ((*slots_)[i].size > 0) addresses_[i] = reinterpret_cast<std::byte*>(memory) + (*slots_)[i].offset;
    }

    std::shared_ptr<const std::vector<Slot>> slots_;
    std::size_t units_ = 0;
    std::vector<Unit> own_;
    void** addresses_ = nullptr;
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
