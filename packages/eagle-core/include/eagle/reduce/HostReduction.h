// Canonical reductions as host entries, so that whatever launches kernels runs them too, over any cut of the range.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "eagle/plugin.h"
#include "eagle/reduce/Canonical.h"

namespace eagle::reduce {

enum class Element { F32, F64, I32, I64, Bool };
enum class Fold { Sum, Max, All, Min };  ///< Max and Min are NaN where a sample is

/// A reduction of (n,) samples into one, launched over them, or of each of `columns` columns of `rows` into its own,
/// launched over the columns. The arguments of `entry`: the samples; their companions, or null; what is written; the
/// number of rows, a std::int64_t; and memory of its own, zero before the first launch, in one launch at a time.
struct HostReduction {
    plugin::HostEntry entry;
    std::int64_t memory;  ///< bytes, aligned as a std::int64_t
    std::int64_t grain;   ///< the least samples, or columns, worth a thread
};

namespace detail {

inline constexpr std::int64_t kGrain = 4 * kLeaf;
inline constexpr std::int64_t kCells = 8 * kSlots;  ///< slots of some columns, which stay in the nearest cache

/// The memory of a reduction of several leaves: how many are done, of all runs, and their partials.
struct Leaves {
    static constexpr std::int64_t kHead = 64;

    static std::int64_t of(std::int64_t samples) { return (samples - 1) / kLeaf + 1; }

    explicit Leaves(void* memory)
        : done(*static_cast<std::int64_t*>(memory)), partials(static_cast<char*>(memory) + kHead) {}

    std::atomic_ref<std::int64_t> done;
    void* partials;
};

/// A piece has the leaves that begin in it; whoever completes them all joins them.
template <class Rule, class T, std::same_as<const T*>... Comp>
void reduceLine(std::int64_t base, std::int64_t count, std::int64_t n, T* out, void* memory, const T* x, Comp... comp) {
    const auto one = [&](std::int64_t i) {
        return leaf<Rule>(std::min(n - i * kLeaf, kLeaf), x + i * kLeaf, (comp + i * kLeaf)...);
    };
    const std::int64_t all = Leaves::of(n), begin = base > 0 ? Leaves::of(base) : 0;
    const std::int64_t end = count > 0 ? Leaves::of(base + count) : begin;
    if (begin >= end) return;
    if (all == 1) {
        *out = Rule::value(one(0));
        return;
    }
    const Leaves leaves(memory);
    auto* const partials = static_cast<Partial<T>*>(leaves.partials);
    for (std::int64_t i = begin; i < end; ++i) partials[i] = one(i);
    const std::int64_t before = leaves.done.fetch_add(end - begin, std::memory_order_acq_rel);
    if (before % all + (end - begin) < all) return;
    Pairing<Rule, T> pairs;
    for (std::int64_t i = 0; i < all; ++i) pairs.push(partials[i]);
    *out = Rule::value(pairs.root());
}

template <class Rule, class T, std::same_as<const T*>... Comp>
void reduceColumns(std::int64_t base, std::int64_t count, std::int64_t columns, T* out, std::int64_t rows, const T* x,
                   Comp... comp) {
    T h[kCells], c[kCells];
    Pairing<Rule, T> pairs[kCells / kSlots];
    const std::int64_t wide = kCells / std::min(rows, kSlots);
    for (std::int64_t column = base; column < base + count; column += wide) {
        const std::int64_t width = std::min(base + count - column, wide);
        const auto fold = [&](std::int64_t row) {
            const std::int64_t from = row * columns + column;
            foldLeaf<Rule>(std::min(rows - row, kLeaf), width, columns, h, c, x + from, (comp + from)...);
        };
        const auto at = [&](std::int64_t i) { return Partial<T>{h[i], Rule::kCompensated ? c[i] : T(0)}; };
        if (rows <= kLeaf) {
            fold(0);
            for (std::int64_t i = 0; i < width; ++i) out[column + i] = Rule::value(at(i));
            continue;
        }
        std::fill_n(pairs, width, Pairing<Rule, T>());
        for (std::int64_t row = 0; row < rows; row += kLeaf) {
            fold(row);
            for (std::int64_t i = 0; i < width; ++i) pairs[i].push(at(i));
        }
        for (std::int64_t i = 0; i < width; ++i) out[column + i] = Rule::value(pairs[i].root());
    }
}

template <class Rule, class T, bool kLine>
void entry(void* const* arguments, std::int64_t base, std::int64_t count, std::int64_t n) {
    const auto* const x = static_cast<const T*>(arguments[0]);
    const auto run = [&](auto... comp) {
        auto* const out = static_cast<T*>(arguments[2]);
        if constexpr (kLine) {
            reduceLine<Rule>(base, count, n, out, arguments[4], x, comp...);
        } else {
            reduceColumns<Rule>(base, count, n, out, *static_cast<const std::int64_t*>(arguments[3]), x, comp...);
        }
    };
    if constexpr (Rule::kCompensated) {
        if (arguments[1]) return run(static_cast<const T*>(arguments[1]));
    }
    run();
}

template <class T, bool kLine>
plugin::HostEntry entryOf(Fold fold) {
    if constexpr (std::is_same_v<T, std::uint8_t>) {
        return fold == Fold::All ? entry<All, T, kLine> : nullptr;
    } else {
        using Total = std::conditional_t<std::is_integral_v<T>, WrappingSum, Sum>;
        switch (fold) {
            case Fold::Sum:
                return entry<Total, T, kLine>;
            case Fold::Max:
                return entry<Maximum, T, kLine>;
            case Fold::Min:
                return entry<Minimum, T, kLine>;
            case Fold::All:
                break;
        }
        return nullptr;
    }
}

template <class T>
HostReduction reductionOf(Fold fold, std::int64_t rows, std::int64_t columns) {
    if (columns == 1) {
        const std::int64_t memory = Leaves::kHead + Leaves::of(rows) * static_cast<std::int64_t>(sizeof(Partial<T>));
        return {entryOf<T, true>(fold), memory, kGrain};
    }
    return {entryOf<T, false>(fold), Leaves::kHead, std::max<std::int64_t>(kGrain / rows, 1)};
}

}  // namespace detail

/// The reduction of rows >= 1 samples of columns >= 1; one column is (n,) samples. Its entry is null for elements that
/// have no such fold: all is of Bool, the others of numbers.
inline HostReduction hostReduction(Fold fold, Element element, std::int64_t rows, std::int64_t columns) {
    switch (element) {
        case Element::F32:
            return detail::reductionOf<float>(fold, rows, columns);
        case Element::F64:
            return detail::reductionOf<double>(fold, rows, columns);
        case Element::I32:
            return detail::reductionOf<std::int32_t>(fold, rows, columns);
        case Element::I64:
            return detail::reductionOf<std::int64_t>(fold, rows, columns);
        case Element::Bool:
            return detail::reductionOf<std::uint8_t>(fold, rows, columns);
    }
    return {};
}

}  // namespace eagle::reduce
