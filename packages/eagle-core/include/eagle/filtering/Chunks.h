// What compaction and reordering share: masks, chunks of samples, and the caller's scratch memory.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "eagle/exec/ForEach.h"

namespace eagle::filtering {

/// Samples a thread takes at a time. Results never depend on it.
inline constexpr std::int64_t kChunk = 1 << 14;

inline constexpr std::int64_t chunksOf(std::int64_t n) { return (n + kChunk - 1) / kChunk; }

/// Calls body(chunk, first, last) for each chunk of [0, n), shared by the team.
template <class Body>
void forEachChunk(std::int64_t n, const Body& body) {
    exec::forEach(chunksOf(n),
                  [&](std::int64_t chunk) noexcept { body(chunk, chunk * kChunk, std::min(n, (chunk + 1) * kChunk)); });
}

/// target[i] = i for i in [0, n).
inline void writeIdentity(std::int32_t* target, std::int64_t n) {
    forEachChunk(n, [=](std::int64_t, std::int64_t first, std::int64_t last) noexcept {
        for (std::int64_t i = first; i < last; ++i) target[i] = static_cast<std::int32_t>(i);
    });
}

/// Hands out parts of the caller's block. With no block, at address 0, it only finds out how many bytes there must be.
class Scratch {
public:
    explicit Scratch(std::uint64_t address) : base_((address + kAlignment - 1) / kAlignment * kAlignment) {}

    template <class T>
    T* take(std::int64_t count) {
        const std::uint64_t here = used_;
        used_ += (static_cast<std::uint64_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
        return reinterpret_cast<T*>(static_cast<std::uintptr_t>(base_ + here));
    }

    /// Bytes of a block at any address; never 0, which would be no block.
    std::int64_t bytes() const { return static_cast<std::int64_t>(used_ + kAlignment); }

private:
    static constexpr std::uint64_t kAlignment = 64;

    std::uint64_t base_, used_ = 0;
};

/// Which samples are kept: one byte each, any value but 0 counts as set.
struct Mask {
    const std::uint8_t* bytes;
    bool isDrop;  ///< a set byte drops its sample, else it keeps it

    bool keeps(std::int64_t i) const { return (bytes[i] != 0) != isDrop; }

    /// Bit k: whether sample first + k is kept, for `count` samples, at most 64.
    std::uint64_t bits(std::int64_t first, std::int64_t count) const {
        static_assert(std::endian::native == std::endian::little, "byte k of a word is bit k");
        std::uint64_t set = 0;
        std::int64_t k = 0;
        for (; k + 8 <= count; k += 8) {
            std::uint64_t word;
            std::memcpy(&word, bytes + first + k, sizeof word);
            constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
            word = ((((word & kLow) + kLow) | word) & ~kLow) >> 7;  // 1 in each byte that is set
            set |= word * 0x0102040810204080 >> 56 << k;            // byte i to bit i
        }
        for (; k < count; ++k) set |= static_cast<std::uint64_t>(bytes[first + k] != 0) << k;
        if (isDrop) set = ~set;
        return count == 64 ? set : set & ~(~std::uint64_t{0} << count);
    }
};

}  // namespace eagle::filtering
