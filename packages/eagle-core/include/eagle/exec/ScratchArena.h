// Scratch memory of the nodes of a graph: nodes that cannot run at the same time share it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

namespace eagle {

/// The index type of graphs.
using idx_t = std::uint32_t;

/// Names a reservation; what it resolves to is there from commit() on.
struct ScratchHandle {
    std::size_t slot = ~std::size_t{0};
};

/// Slots of memory. A node gets one that only its ancestors have had, elsewise a new one.
class ScratchArena {
public:
    static constexpr std::size_t kAlignment = 256;

    /// What is reserved until endNode() is the node's. `ancestors`: every node that ends before it begins.
    void beginNode(idx_t id, const std::vector<idx_t>& ancestors) {
        if (open_) throw std::logic_error("ScratchArena::beginNode: the node before has not ended");
        open_ = true;
        node_ = id;
        ancestors_ = ancestors;
    }

    void endNode() {
        if (!open_) throw std::logic_error("ScratchArena::endNode: no node has begun");
        open_ = false;
    }

    ScratchHandle reserve(std::size_t bytes) {
        if (!open_) throw std::logic_error("ScratchArena::reserve: no node has begun");
        if (bytes > SIZE_MAX - kAlignment) throw std::bad_alloc();
        const std::size_t size = std::max<std::size_t>((bytes + kAlignment - 1) / kAlignment, 1) * kAlignment;
        const std::size_t slot = bestSlot(size);
        if (slot == slots_.size()) slots_.push_back({0, {}});
        slots_[slot].bytes = std::max(slots_[slot].bytes, size);
        slots_[slot].users.push_back(node_);
        return {slot};
    }

    /// Makes the memory; again after more was reserved, which moves it.
    void commit() {
        memory_.reset(static_cast<std::byte*>(::operator new(std::max(peakBytes(), kAlignment), kAlign)));
        std::size_t offset = 0;
        for (Slot& slot : slots_) {
            slot.offset = offset;
            offset += slot.bytes;
        }
        committed_ = slots_.size();
    }

    void* resolve(ScratchHandle handle) const {
        if (!memory_ || handle.slot >= committed_) throw std::logic_error("ScratchArena::resolve: not committed");
        return memory_.get() + slots_[handle.slot].offset;
    }

    std::size_t peakBytes() const {
        std::size_t sum = 0;
        for (const Slot& slot : slots_) sum += slot.bytes;
        return sum;
    }
    std::size_t slotCount() const { return slots_.size(); }

private:
    static constexpr std::align_val_t kAlign{kAlignment};
    struct Slot {
        std::size_t bytes;
        std::vector<idx_t> users;
        std::size_t offset = 0;
    };
    struct Free {
        void operator()(std::byte* memory) const { ::operator delete(memory, kAlign); }
    };

    bool isFree(const Slot& slot) const {
        return std::all_of(slot.users.begin(), slot.users.end(), [this](idx_t user) {
            return user != node_ && std::find(ancestors_.begin(), ancestors_.end(), user) != ancestors_.end();
        });
    }

    /// The free slot that has to grow least, and of those the smallest.
    std::size_t bestSlot(std::size_t size) const {
        std::size_t best = slots_.size();
        const auto cost = [size](const Slot& slot) {
            return std::pair(std::max(slot.bytes, size) - slot.bytes, slot.bytes);
        };
        for (std::size_t i = 0; i < slots_.size(); ++i)
            if (isFree(slots_[i]) && (best == slots_.size() || cost(slots_[i]) < cost(slots_[best]))) best = i;
        return best;
    }

    bool open_ = false;
    idx_t node_ = 0;
    std::vector<idx_t> ancestors_;
    std::vector<Slot> slots_;
    std::size_t committed_ = 0;
    std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace eagle
