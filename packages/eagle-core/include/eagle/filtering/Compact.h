// The map of the samples that are kept, and when it is time to move them together.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "eagle/filtering/Chunks.h"

namespace eagle::filtering {

/// Groups are 32 neighbouring slots, from a multiple of 32 on.
struct Counts {
    std::uint32_t kept = 0;
    std::uint32_t live32 = 0;   ///< groups with a sample that is kept
    std::uint32_t mixed32 = 0;  ///< groups that keep samples of two classes or more

    Counts& operator+=(const Counts& other) {
        kept += other.kept;
        live32 += other.live32;
        mixed32 += other.mixed32;
        return *this;
    }
};

class Compaction {
public:
    Compaction(Scratch& scratch, std::int64_t n)
        : n_(n), words_(scratch.take<std::uint64_t>((n + 63) / 64)), chunks_(scratch.take<Counts>(chunksOf(n))) {}

    /// Writes the kept indices, ascending, to map[0..kept) and nothing behind them. `classes`: one byte a sample, or
    /// null.
    Counts run(const Mask& mask, const std::uint8_t* classes, std::int32_t* map) const {
        forEachChunk(n_, [&](std::int64_t chunk, std::int64_t first, std::int64_t last) noexcept {
            chunks_[chunk] = count(mask, classes, first, last);
        });
        Counts all;
        for (std::int64_t chunk = 0; chunk < chunksOf(n_); ++chunk) {
            const Counts own = chunks_[chunk];
            chunks_[chunk].kept = all.kept;  // where its indices begin
            all += own;
        }
        forEachChunk(n_, [&](std::int64_t chunk, std::int64_t first, std::int64_t last) noexcept {
            std::int32_t* out = map + chunks_[chunk].kept;
            for (std::int64_t i = first; i < last; i += 64) out = writeIndices(words_[i / 64], i, out);
        });
        return all;
    }

private:
    Counts count(const Mask& mask, const std::uint8_t* classes, std::int64_t first, std::int64_t last) const {
        Counts counts;
        for (std::int64_t i = first; i < last; i += 64) {
            const std::uint64_t word = words_[i / 64] = mask.bits(i, std::min<std::int64_t>(last - i, 64));
            counts.kept += static_cast<std::uint32_t>(std::popcount(word));
            for (const std::int64_t half : {0, 32}) {
                const auto group = static_cast<std::uint32_t>(word >> half);
                counts.live32 += group != 0;
                if (classes) counts.mixed32 += isMixed(group, classes + i + half);
            }
        }
        return counts;
    }

    static bool isMixed(std::uint32_t group, const std::uint8_t* classes) {
        if (group == 0) return false;
        const std::uint8_t one = classes[std::countr_zero(group)];
        for (; group != 0; group &= group - 1) {
            if (classes[std::countr_zero(group)] != one) return true;
        }
        return false;
    }

    static std::int32_t* writeIndices(std::uint64_t word, std::int64_t first, std::int32_t* out) {
        const auto base = static_cast<std::int32_t>(first);
        if (word == ~std::uint64_t{0}) {
            for (std::int32_t k = 0; k < 64; ++k) out[k] = base + k;
            return out + 64;
        }
        for (; word != 0; word &= word - 1) *out++ = base + std::countr_zero(word);
        return out;
    }

    std::int64_t n_;
    std::uint64_t* words_;  ///< which samples are kept, a bit each
    Counts* chunks_;
};

/// Batches whose slots in play are fewer are never worth moving.
inline constexpr std::uint32_t kSmallestSpan = 4096;

/// Whether to move the kept samples together. Exact: theta has 24 significant bits and 32 * live32 at most 31.
inline bool firesReorder(const Counts& counts, float theta, std::uint32_t span) {
    return counts.kept < static_cast<double>(theta) * 32 * counts.live32 && counts.kept < span && span >= kSmallestSpan;
}

/// Whether to sort by class, beside a reorder that is due. `stale`: samples whose class has changed since.
inline bool firesClassSort(const Counts& counts, float theta, std::uint32_t span, std::uint32_t stale) {
    const bool isMixed = counts.mixed32 > 0 && counts.mixed32 >= static_cast<double>(theta) * counts.live32;
    return (isMixed && span >= kSmallestSpan) || std::uint64_t{stale} * 20 > counts.kept;  // more than 5 %
}

}  // namespace eagle::filtering
