// The canonical reduction: one fixed tree over samples, so that a result has the same bits whoever computes it.
//
// SPDX-License-Identifier: Apache-2.0
//
// Leaves are kLeaf consecutive samples; a leaf folds its samples into kSlots slots and halves those; neighbouring
// leaves pair up level by level, an odd last one moves up. So chunks of kLeaf * 2^q samples are subtrees: threads may
// reduce them apart, and Pairing joins their partials to the same bits.
//
// No flag but -ffast-math changes bits: contraction finds no product here, and none of the caller's, since `canonical`
// is never inlined. GCC vectorises the sum with -fno-trapping-math.
#pragma once

#include <algorithm>
#include <cfloat>
#include <concepts>
#include <cstdint>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "a canonical reduction needs IEEE arithmetic"
#endif

namespace eagle::reduce {

static_assert(FLT_EVAL_METHOD == 0, "every operation rounds to its own type");

inline constexpr std::int64_t kLeaf = 4096;
inline constexpr std::int64_t kSlots = 256;

enum class Op { Sum, Max, Min };

/// What some samples reduce to: a value and, of a sum, its compensation.
template <class T>
struct Partial {
    T h, c;
};

/// A compensated sum. One that is not finite has no compensation: Inf and NaN follow IEEE through h.
struct Sum {
    template <class T>
    static Partial<T> first(T x) {
        return {x, T(0)};
    }
    template <class T>
    static Partial<T> first(T x, T y) {
        return {x, finite(x) ? y : T(0)};
    }
    template <class T>
    static Partial<T> add(Partial<T> p, T x) {
        const T s = p.h + x, c = p.c + error(p.h, x, s);
        return {s, finite(s) ? c : T(0)};
    }
    template <class T>
    static Partial<T> add(Partial<T> p, T x, T y) {
        const Partial<T> sum = add(p, x);
        const T c = sum.c + y;
        return {sum.h, finite(sum.h) ? c : T(0)};
    }
    template <class T>
    static Partial<T> join(Partial<T> a, Partial<T> b) {
        const T s = a.h + b.h, c = (a.c + b.c) + error(a.h, b.h, s);
        return {s, finite(s) ? c : T(0)};
    }
    template <class T>
    static T value(Partial<T> p) {
        return finite(p.h) ? p.h + p.c : p.h;
    }

private:
    template <class T>
    static bool finite(T s) {
        return s - s == T(0);
    }
    /// What rounding a + b to s lost.
    template <class T>
    static T error(T a, T b, T s) {
        const T t = s - a;
        return (a - (s - t)) + (b - t);
    }
};

/// The larger, or smaller, of the samples that are no NaN; NaN when all are. Of equals, as -0.0 and 0.0, the left one.
template <bool kLargest>
struct Extreme {
    template <class T>
    static Partial<T> first(T x) {
        return {x, T(0)};
    }
    template <class T>
    static Partial<T> add(Partial<T> p, T x) {
        const bool better = kLargest ? x > p.h : x < p.h;
        return {(p.h != p.h) | better ? x : p.h, T(0)};
    }
    template <class T>
    static Partial<T> join(Partial<T> a, Partial<T> b) {
        return add(a, b.h);
    }
    template <class T>
    static T value(Partial<T> p) {
        return p.h;
    }
};
using Max = Extreme<true>;
using Min = Extreme<false>;

/// Joins the partials of neighbouring subtrees of one size, pushed from the first to the last; that one may be smaller.
template <class Rule, class T>
class Pairing {
public:
    void push(Partial<T> p) {
        for (std::uint64_t n = pushed_++; n & 1; n >>= 1) p = Rule::join(waiting_[--top_], p);
        waiting_[top_++] = p;
    }
    /// The whole tree's; something has been pushed.
    Partial<T> root() const {
        Partial<T> p = waiting_[top_ - 1];
        for (int i = top_ - 2; i >= 0; --i) p = Rule::join(waiting_[i], p);
        return p;
    }

private:
    std::uint64_t pushed_ = 0;
    int top_ = 0;
    Partial<T> waiting_[64];  ///< one a bit of pushed_, the largest subtree first
};

/// One leaf of 1 to kLeaf samples; with comp, each sample and its companion are one term of a sum.
template <class Rule, class T, std::same_as<const T*>... Comp>
inline Partial<T> leaf(std::int64_t n, const T* x, Comp... comp) {
    T h[kSlots], c[kSlots];  // apart, for vector registers
    const auto set = [&](std::int64_t t, Partial<T> p) { h[t] = p.h, c[t] = p.c; };
    const auto at = [&](std::int64_t t) { return Partial<T>{h[t], c[t]}; };
    const std::int64_t live = std::min(n, kSlots);
    for (std::int64_t t = 0; t < live; ++t) set(t, Rule::first(x[t], comp[t]...));
    for (std::int64_t row = kSlots; row < n; row += kSlots) {
        const std::int64_t width = std::min(n - row, kSlots);
        for (std::int64_t t = 0; t < width; ++t) set(t, Rule::add(at(t), x[row + t], comp[row + t]...));
    }
    for (std::int64_t off = kSlots / 2; off > 0; off /= 2) {
        const std::int64_t width = std::min(off, live - off);
        for (std::int64_t t = 0; t < width; ++t) set(t, Rule::join(at(t), at(t + off)));
    }
    return at(0);
}

/// The partial of n >= 1 samples.
template <class Rule, class T, std::same_as<const T*>... Comp>
inline Partial<T> partial(std::int64_t n, const T* x, Comp... comp) {
    Pairing<Rule, T> leaves;
    for (std::int64_t i = 0; i < n; i += kLeaf) leaves.push(leaf<Rule>(std::min(n - i, kLeaf), x + i, (comp + i)...));
    return leaves.root();
}

/// What n >= 1 samples reduce to; comp, of a sum, holds their companions or is null.
template <class T>
[[gnu::noinline]] T canonical(Op op, const T* x, const T* comp, std::int64_t n) {
    if (op == Op::Max) return Max::value(partial<Max>(n, x));
    if (op == Op::Min) return Min::value(partial<Min>(n, x));
    return Sum::value(comp ? partial<Sum>(n, x, comp) : partial<Sum>(n, x));
}

}  // namespace eagle::reduce
