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
#include <limits>
#include <type_traits>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "a canonical reduction needs IEEE arithmetic"
#endif

namespace eagle::reduce {

static_assert(FLT_EVAL_METHOD == 0, "every operation rounds to its own type");

inline constexpr std::int64_t kLeaf = 4096;
inline constexpr std::int64_t kSlots = 256;

enum class Op { Sum, Max, Min };

/// What some samples reduce to: a value and, of a compensated sum, what its rounding lost.
template <class T>
struct Partial {
    T h, c;
};

/// A compensated sum. One that is not finite has no compensation: Inf and NaN follow IEEE through h.
struct Sum {
    static constexpr bool kCompensated = true;
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
        if (p.h != p.h) return std::numeric_limits<T>::quiet_NaN();  // a compiler may swap terms, and their payloads
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

/// What the rules without compensation share; theirs is `T pick(T left, T right)`.
template <class Rule>
struct Exact {
    static constexpr bool kCompensated = false;
    template <class T>
    static Partial<T> first(T x) {
        return {x, T(0)};
    }
    template <class T>
    static Partial<T> add(Partial<T> p, T x) {
        return {Rule::pick(p.h, x), T(0)};
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

/// The larger, or smaller, of the samples that are no NaN; NaN when all are. Of equals, as -0.0 and 0.0, the left one.
template <bool kLargest>
struct Extreme : Exact<Extreme<kLargest>> {
    template <class T>
    static T pick(T left, T right) {
        const bool better = kLargest ? right > left : right < left;
        return (left != left) | better ? right : left;
    }
};
using Max = Extreme<true>;
using Min = Extreme<false>;

/// The largest, or smallest, of all samples: NaN when one is. Of equals the right one.
template <bool kLargest>
struct Bound : Exact<Bound<kLargest>> {
    template <class T>
    static T pick(T left, T right) {
        const bool better = kLargest ? left > right : left < right;
        return (left != left) | better ? left : right;
    }
};
using Maximum = Bound<true>;
using Minimum = Bound<false>;

/// The sum of integers, which wraps.
struct WrappingSum : Exact<WrappingSum> {
    template <class T>
    static T pick(T left, T right) {
        using Bits = std::make_unsigned_t<T>;
        return static_cast<T>(static_cast<Bits>(left) + static_cast<Bits>(right));
    }
};

/// 1 when every sample is nonzero, else 0.
struct All : Exact<All> {
    template <class T>
    static Partial<T> first(T x) {
        return {x != T(0), T(0)};
    }
    template <class T>
    static T pick(T left, T right) {
        return left & (right != T(0));
    }
};

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

namespace detail {

/// Asks for the memory from `ahead` elements after x on, which may be past an array's end: processors that fetch ahead
/// by themselves stop where a page does.
template <class T>
inline void fetch([[maybe_unused]] const T* x, [[maybe_unused]] std::int64_t ahead,
                  [[maybe_unused]] std::int64_t length) {
#if defined(__GNUC__)
    constexpr std::uintptr_t kLine = 64;
    const auto size = static_cast<std::uintptr_t>(sizeof(T));
    std::uintptr_t at = reinterpret_cast<std::uintptr_t>(x) + static_cast<std::uintptr_t>(ahead) * size;
    for (const std::uintptr_t end = at + static_cast<std::uintptr_t>(length) * size; at < end; at += kLine) {
        __builtin_prefetch(reinterpret_cast<const void*>(at));
    }
#endif
}

template <class Rule, class T, std::same_as<const T*>... Comp>
[[gnu::always_inline]] inline void fold(std::int64_t rows, std::int64_t width, std::int64_t stride, T* __restrict h,
                                        T* __restrict c, const T* x, Comp... comp) {
    const auto set = [=](std::int64_t i, Partial<T> p) {
        h[i] = p.h;
        if constexpr (Rule::kCompensated) c[i] = p.c;
    };
    const auto at = [=](std::int64_t i) { return Partial<T>{h[i], Rule::kCompensated ? c[i] : T(0)}; };
    constexpr std::int64_t kAhead = 4;
    const bool dense = width == stride;
    const std::int64_t live = std::min(rows, kSlots), full = kSlots * width;
    for (std::int64_t row = 0; row < rows; row += kSlots) {
        const std::int64_t slots = std::min(rows - row, kSlots);
        const std::int64_t lines = dense ? 1 : slots, length = dense ? slots * width : width;
        for (std::int64_t line = 0; line < lines; ++line) {
            const std::int64_t from = (row + line) * stride, to = line * width;
            if (length == full) {
                fetch(x + from, kAhead * full, full);
                (fetch(comp + from, kAhead * full, full), ...);
            }
            if (row == 0) {
                for (std::int64_t i = 0; i < length; ++i) set(to + i, Rule::first(x[from + i], comp[from + i]...));
            } else {
                for (std::int64_t i = 0; i < length; ++i) {
                    set(to + i, Rule::add(at(to + i), x[from + i], comp[from + i]...));
                }
            }
        }
    }
    for (std::int64_t off = kSlots / 2; off > 0; off /= 2) {
        const std::int64_t length = std::min(off, live - off) * width;
        for (std::int64_t i = 0; i < length; ++i) set(i, Rule::join(at(i), at(i + off * width)));
    }
}

#if defined(__GNUC__) && defined(__x86_64__)
inline const bool kWide = __builtin_cpu_supports("avx2");

template <class Rule, class T, class... Comp>
[[gnu::noinline, gnu::target("avx2")]] void foldWide(std::int64_t rows, std::int64_t width, std::int64_t stride, T* h,
                                                     T* c, const T* x, Comp... comp) {
    fold<Rule>(rows, width, stride, h, c, x, comp...);
}
#endif

}  // namespace detail

/// One leaf of 1 to kLeaf rows, `stride` apart, of `width` columns each: slot t of column j is h, c[t * width + j], and
/// slot 0 has the partials in the end. With comp, each sample and its companion are one term of a sum.
template <class Rule, class T, std::same_as<const T*>... Comp>
inline void foldLeaf(std::int64_t rows, std::int64_t width, std::int64_t stride, T* h, T* c, const T* x, Comp... comp) {
#if defined(__GNUC__) && defined(__x86_64__)
    if (detail::kWide) return detail::foldWide<Rule>(rows, width, stride, h, c, x, comp...);
#endif
    detail::fold<Rule>(rows, width, stride, h, c, x, comp...);
}

/// One leaf of 1 to kLeaf samples.
template <class Rule, class T, std::same_as<const T*>... Comp>
inline Partial<T> leaf(std::int64_t n, const T* x, Comp... comp) {
    T h[kSlots], c[kSlots];  // apart, for vector registers
    foldLeaf<Rule>(n, 1, 1, h, c, x, comp...);
    return {h[0], Rule::kCompensated ? c[0] : T(0)};
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
