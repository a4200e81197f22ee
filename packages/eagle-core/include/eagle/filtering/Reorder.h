// Moves the slots of a batch, all planes alike: the samples that are kept to the front, or sorted by class.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <utility>

#include "eagle/filtering/Chunks.h"

namespace eagle::filtering {

/// n elements of 1, 2, 4, 8 or 16 bytes.
struct Plane {
    char* data;
    std::uint32_t elementBytes;
};

/// Buckets of a stable partition: 0 the kept slots, 1 the others.
struct ByLiveness {
    Mask mask;

    static constexpr std::int64_t buckets() { return 2; }

    bool count(std::int64_t first, std::int64_t last, std::uint32_t* counts) const {
        std::uint32_t kept = 0;
        for (std::int64_t i = first; i < last; ++i) kept += mask.keeps(i);
        counts[0] = kept;
        counts[1] = static_cast<std::uint32_t>(last - first) - kept;
        return true;
    }

    void place(std::int64_t first, std::int64_t last, const std::uint32_t* begins, std::int32_t* order) const {
        std::uint32_t kept = begins[0], other = begins[1];
        for (std::int64_t i = first; i < last; ++i) {
            const bool keeps = mask.keeps(i);
            order[keeps ? kept : other] = static_cast<std::int32_t>(i);
            kept += keeps;
            other += !keeps;
        }
    }
};

/// Buckets of a stable sort: a class each, and behind them the slots that are not kept.
struct ByClass {
    const std::uint8_t* classOf;
    std::uint32_t classes;
    Mask mask;
    bool allKept;  ///< the mask does not matter

    std::int64_t buckets() const { return std::int64_t{classes} + 1; }

    /// false where a class is out of range.
    bool count(std::int64_t first, std::int64_t last, std::uint32_t* counts) const {
        std::fill_n(counts, buckets(), 0u);
        for (std::int64_t i = first; i < last; ++i) {
            if (isKept(i) && classOf[i] >= classes) return false;
            ++counts[bucket(i)];
        }
        return true;
    }

    void place(std::int64_t first, std::int64_t last, std::uint32_t* begins, std::int32_t* order) const {
        for (std::int64_t i = first; i < last; ++i) order[begins[bucket(i)]++] = static_cast<std::int32_t>(i);
    }

private:
    bool isKept(std::int64_t i) const { return allKept || mask.keeps(i); }
    std::uint32_t bucket(std::int64_t i) const { return isKept(i) ? classOf[i] : classes; }
};

/// A permutation of the first slots: found, then carried out plane by plane.
class Reordering {
public:
    /// `elementBytes`: the most an element of a plane has.
    Reordering(Scratch& scratch, std::int64_t n, std::int64_t buckets, std::uint32_t elementBytes)
        : order_(scratch.take<std::int32_t>(n)),
          cells_(scratch.take<std::uint32_t>(chunksOf(n) * buckets)),
          copy_(scratch.take<char>(n * elementBytes)) {}

    /// Orders slots [0, span) by bucket, ties in slot order, and writes where each bucket begins. false, and nothing
    /// written, where a slot has no bucket.
    template <class Buckets>
    bool find(const Buckets& by, std::int64_t span, std::uint32_t* begins) {
        const std::int64_t buckets = by.buckets();
        std::atomic<bool> allHaveOne{true};
        forEachChunk(span, [&](std::int64_t chunk, std::int64_t first, std::int64_t last) noexcept {
            if (!by.count(first, last, cells_ + chunk * buckets)) allHaveOne.store(false, std::memory_order_relaxed);
        });
        if (!allHaveOne.load(std::memory_order_relaxed)) return false;
        std::uint32_t begin = 0;
        for (std::int64_t bucket = 0; bucket < buckets; ++bucket) {
            begins[bucket] = begin;
            for (std::int64_t chunk = 0; chunk < chunksOf(span); ++chunk) {
                begin += std::exchange(cells_[chunk * buckets + bucket], begin);
            }
        }
        forEachChunk(span, [&](std::int64_t chunk, std::int64_t first, std::int64_t last) noexcept {
            by.place(first, last, cells_ + chunk * buckets, order_);
        });
        span_ = span;
        return true;
    }

    void move(const Plane& plane) const {
        switch (plane.elementBytes) {
            case 1:
                return moveElements<std::uint8_t>(plane.data);
            case 2:
                return moveElements<std::uint16_t>(plane.data);
            case 4:
                return moveElements<std::uint32_t>(plane.data);
            case 8:
                return moveElements<std::uint64_t>(plane.data);
            default:
                return moveElements<Pair>(plane.data);
        }
    }

    /// inverse[perm[slot]] = slot, for the slots that were moved.
    void invert(const std::int32_t* perm, std::int32_t* inverse) const {
        forEachChunk(span_, [=](std::int64_t, std::int64_t first, std::int64_t last) noexcept {
            for (std::int64_t i = first; i < last; ++i) inverse[perm[i]] = static_cast<std::int32_t>(i);
        });
    }

private:
    struct Pair {
        std::uint64_t first, second;
    };

    /// Elements need not be aligned.
    template <class Element>
    void moveElements(char* data) const {
        constexpr std::size_t kSize = sizeof(Element);
        forEachChunk(span_, [=, this](std::int64_t, std::int64_t first, std::int64_t last) noexcept {
            for (std::int64_t i = first; i < last; ++i) {
                std::memcpy(copy_ + i * kSize, data + order_[i] * kSize, kSize);
            }
        });
        forEachChunk(span_, [=, this](std::int64_t, std::int64_t first, std::int64_t last) noexcept {
            std::memcpy(data + first * kSize, copy_ + first * kSize, static_cast<std::size_t>(last - first) * kSize);
        });
    }

    std::int32_t* order_;   ///< slot of the new order to slot of the old one
    std::uint32_t* cells_;  ///< a chunk and bucket each: how many slots, then where they go
    char* copy_;
    std::int64_t span_ = 0;
};

}  // namespace eagle::filtering
