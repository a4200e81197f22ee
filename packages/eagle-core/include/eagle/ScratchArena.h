// Memory that the nodes of a graph use while they run, shared by those that cannot run at the same time.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "eagle/plugin.h"

namespace eagle {

/// What a reservation is resolved by. One made by hand is of none.
struct ScratchHandle {
    std::uint32_t number = std::numeric_limits<std::uint32_t>::max();
};

/// First reserved, then committed, then resolved. A slot is used again only by a node that comes after the one that had
/// it last, and only after the whole of that node. logic_error for a call out of this order.
class ScratchArena {
public:
    static constexpr std::size_t kAlign = 256;

    ScratchArena() = default;
    ScratchArena(ScratchArena&&) = default;
    ScratchArena& operator=(ScratchArena&&) = default;

    /// Reservations up to endNode() are the node's. `ancestors` are those it comes after, however indirectly.
    void beginNode(idx_t id, std::span<const idx_t> ancestors) {
        require(!committed_, "ScratchArena::beginNode: found a committed arena, wanted an open one");
        require(!node_, "ScratchArena::beginNode: found a node under way, wanted endNode() first");
        ancestors_.assign(ancestors.begin(), ancestors.end());
        std::sort(ancestors_.begin(), ancestors_.end());
        node_ = id;
    }
    void beginNode(idx_t id, std::initializer_list<idx_t> ancestors) {
        beginNode(id, std::span<const idx_t>(ancestors.begin(), ancestors.size()));
    }
    void endNode() {
        require(node_.has_value(), "ScratchArena::endNode: found no node under way, wanted beginNode() first");
        node_.reset();
    }

    /// Uninitialised memory of at least that many bytes, on a multiple of 256. Outside a node it is shared with none.
    /// length_error for more than there can be.
    ScratchHandle reserve(std::size_t bytes) {
        require(!committed_, "ScratchArena::reserve: found a committed arena, wanted an open one");
        const std::size_t size = rounded(std::max<std::size_t>(bytes, 1));
        const std::optional<std::size_t> free = node_ ? freeSlot(size) : std::nullopt;
        const std::size_t before = free ? slots_[*free].bytes : 0;
        if (size > before && size - before > kMost - peakBytes_) tooLarge();
        reservations_.reserve(reservations_.size() + 1);
        if (!free) slots_.emplace_back();
        Slot& slot = free ? slots_[*free] : slots_.back();
        slot.bytes = std::max(size, before);
        slot.user = node_;
        peakBytes_ += slot.bytes - before;
        reservations_.push_back(static_cast<std::uint32_t>(&slot - slots_.data()));
        return {static_cast<std::uint32_t>(reservations_.size() - 1)};
    }

    /// Takes the memory. A second time it does nothing.
    void commit() {
        require(!node_, "ScratchArena::commit: found a node under way, wanted endNode() first");
        if (committed_) return;
        if (peakBytes_ > 0)
            memory_.reset(static_cast<std::byte*>(::operator new(peakBytes_, std::align_val_t{kAlign})));
        std::size_t offset = 0;
        for (Slot& slot : slots_) slot.offset = std::exchange(offset, offset + slot.bytes);
        committed_ = true;
    }

    /// Where the memory is, for as long as the arena lives, also moved. invalid_argument for a handle of another arena.
    void* resolve(ScratchHandle handle) const {
        require(committed_, "ScratchArena::resolve: found an open arena, wanted commit() first");
        if (handle.number >= reservations_.size())
            throw std::invalid_argument("ScratchArena::resolve: found a handle that reserve() did not give");
        return memory_.get() + slots_[reservations_[handle.number]].offset;
    }

    /// Bytes of all slots together.
    std::size_t peakBytes() const { return peakBytes_; }
    std::size_t slotCount() const { return slots_.size(); }

private:
    struct Slot {
        std::size_t bytes = 0, offset = 0;
        std::optional<idx_t> user;  ///< the last; none for what belongs to no node
    };
    struct Free {
        void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{kAlign}); }
    };
    static constexpr std::size_t kMost = std::numeric_limits<std::ptrdiff_t>::max();

    static void require(bool holds, const char* text) {
        if (!holds) throw std::logic_error(text);
    }
    [[noreturn]] static void tooLarge() {
        throw std::length_error("ScratchArena::reserve: found more bytes than memory can hold");
    }
    static std::size_t rounded(std::size_t bytes) {
        if (bytes > kMost) tooLarge();
        return (bytes + kAlign - 1) / kAlign * kAlign;
    }

    /// The smallest that is large enough, else the largest, of those whose last user the node comes after.
    std::optional<std::size_t> freeSlot(std::size_t size) const {
        std::optional<std::size_t> best;
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            const Slot& slot = slots_[i];
            if (!slot.user || !std::binary_search(ancestors_.begin(), ancestors_.end(), *slot.user)) continue;
            if (!best || (slots_[*best].bytes < size ? slot.bytes > slots_[*best].bytes
                                                     : slot.bytes >= size && slot.bytes < slots_[*best].bytes))
                best = i;
        }
        return best;
    }

    std::vector<Slot> slots_;
    std::vector<std::uint32_t> reservations_;  ///< the slot of each
    std::optional<idx_t> node_;                ///< under way
    std::vector<idx_t> ancestors_;             ///< its, sorted
    std::size_t peakBytes_ = 0;
    bool committed_ = false;
    std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace eagle
