// Whether two strided views of memory have a byte in common.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

namespace eagle::graph {

/// Steps after which the search for a common byte gives up, and says that there is one.
inline constexpr std::int64_t kOverlapMaxWork = 100000;

/// The bytes of an array: extents and strides (in bytes, of any sign) of its axes, from the address of its first
/// element.
struct Bytes {
    std::uint64_t base = 0;
    std::vector<std::int64_t> shape, strides;
    std::int64_t itemsize = 1;

    friend bool operator==(const Bytes&, const Bytes&) = default;
};

/// The addresses from the first byte to behind the last one; both 0 where there is none.
struct Range {
    std::uint64_t begin = 0, end = 0;

    bool empty() const { return begin == end; }
    bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
};

namespace detail {

/// Distances this long belong to no array; those below can be added up without overflow.
inline constexpr std::int64_t kTooFar = std::int64_t{1} << 60;

inline bool empty(const Bytes& b) {
    return b.itemsize <= 0 || std::any_of(b.shape.begin(), b.shape.end(), [](std::int64_t n) { return n <= 0; });
}

/// How far an axis reaches from its first element, either way; kTooFar where that is further.
inline std::int64_t reach(std::int64_t extent, std::int64_t stride) {
    if (extent <= 1 || stride == 0) return 0;
    const std::uint64_t step = stride < 0 ? 0 - static_cast<std::uint64_t>(stride) : static_cast<std::uint64_t>(stride);
    const auto steps = static_cast<std::uint64_t>(extent - 1);
    return step > static_cast<std::uint64_t>(kTooFar) / steps ? kTooFar : static_cast<std::int64_t>(step * steps);
}

/// a * b mod m, for m up to 2^62.
inline std::int64_t times(std::int64_t a, std::int64_t b, std::int64_t m) {
    if ((a | b) < std::int64_t{1} << 31) return a * b % m;
    std::int64_t product = 0;
    for (; b != 0; b >>= 1, a = a + a < m ? a + a : a + a - m)
        if (b & 1) product = product + a < m ? product + a : product + a - m;
    return product;
}

/// The inverse of a mod m, for a in [0, m) without a common divisor with m.
inline std::int64_t inverse(std::int64_t a, std::int64_t m) {
    std::int64_t r = m, next = a, t = 0, u = 1;
    while (next != 0) {
        const std::int64_t q = r / next;
        r = std::exchange(next, r - q * next);
        t = std::exchange(u, t - q * u);
    }
    return t < 0 ? t + m : t;
}

/// Is there a choice of 0 <= x[k] <= most[k] with sum(step[k] * x[k]) == target? A search that takes the byte inside an
/// element first, then the longest step: what the others reach bounds it, and their common divisor says which residues
/// can work at all.
class Search {
public:
    explicit Search(std::int64_t bytes) : byte_{1, bytes, 0, 0, 0, 0} {}

    /// Adds an unknown; those of equal step are one.
    void add(std::int64_t step, std::int64_t most) {
        if (step == 0 || most == 0) return;
        const auto same = std::find_if(terms_.begin(), terms_.end(), [&](const Term& t) { return t.step == step; });
        if (same == terms_.end())
            terms_.push_back({step, most, 0, 0, 0, 0});
        else
            same->most += most;
    }

    /// True also where `work` steps did not tell.
    bool solvable(std::int64_t target, std::int64_t work) {
        std::sort(terms_.begin(), terms_.end(), [](const Term& a, const Term& b) { return a.step > b.step; });
        terms_.insert(terms_.begin(), byte_);
        std::int64_t rest = 0, divisor = 0;
        for (auto term = terms_.rbegin(); term != terms_.rend(); ++term) {
            term->rest = rest;
            const std::int64_t common = std::gcd(term->step, divisor);
            term->divisor = common;
            term->modulus = divisor == 0 ? 1 : divisor / common;
            term->inverse = term->modulus == 1 ? 0 : inverse(term->step / common % term->modulus, term->modulus);
            rest += term->step * term->most;
            divisor = common;
        }
        work_ = work;
        return from(0, target);
    }

private:
    struct Term {
        std::int64_t step, most;
        std::int64_t rest;              // what the shorter steps reach together
        std::int64_t divisor;           // common to this step and all shorter ones
        std::int64_t modulus, inverse;  // x step / divisor is to be left / divisor, by this modulus
    };

    bool from(std::size_t k, std::int64_t left) {
        if (k == terms_.size()) return left == 0;
        const Term& t = terms_[k];
        if (left < 0 || left % t.divisor != 0) return false;
        const std::int64_t high = std::min(t.most, left / t.step);
        const std::int64_t low = left > t.rest ? (left - t.rest + t.step - 1) / t.step : 0;
        std::int64_t x = low;
        if (t.modulus > 1) {
            const std::int64_t wanted = times(left / t.divisor % t.modulus, t.inverse, t.modulus);
            x += ((wanted - low) % t.modulus + t.modulus) % t.modulus;
        }
        for (; x <= high; x += t.modulus) {
            if (--work_ < 0 || from(k + 1, left - x * t.step)) return true;
            if (k + 2 >= terms_.size()) return false;  // this residue is the only one, so the bounds decided
        }
        return false;
    }

    Term byte_;
    std::vector<Term> terms_;
    std::int64_t work_ = 0;
};

}  // namespace detail

/// Where the bytes of an array are.
inline Range range(const Bytes& b) {
    if (detail::empty(b)) return {};
    Range r{b.base, b.base};
    r.end += std::min(static_cast<std::uint64_t>(b.itemsize), UINT64_MAX - r.end);
    for (std::size_t k = 0; k < b.shape.size(); ++k) {
        const auto far = static_cast<std::uint64_t>(detail::reach(b.shape[k], b.strides[k]));
        if (b.strides[k] < 0)
            r.begin -= std::min(far, r.begin);
        else
            r.end += std::min(far, UINT64_MAX - r.end);
    }
    return r;
}

/// Whether two arrays share a byte: exact, unless the search takes more than `work` steps; then true. An array without
/// elements shares none.
inline bool overlap(const Bytes& a, const Bytes& b, std::int64_t work = kOverlapMaxWork) {
    if (detail::empty(a) || detail::empty(b)) return false;
    if (a.itemsize >= detail::kTooFar || b.itemsize >= detail::kTooFar) return true;
    std::int64_t reach = 0;
    for (const Bytes* side : {&a, &b})
        for (std::size_t k = 0; k < side->shape.size(); ++k)
            if ((reach += detail::reach(side->shape[k], side->strides[k])) >= detail::kTooFar) return true;
    const Range first = range(a), second = range(b);
    if (!first.meets(second)) return false;
    if (a == b) return true;
    // first.begin + (steps of a) + (a byte) == second.begin + (steps of b) + (a byte); what is subtracted is counted
    // down from its highest value, so that every step is forward.
    detail::Search search(a.itemsize + b.itemsize - 2);
    std::int64_t target = static_cast<std::int64_t>(second.begin - first.begin) + b.itemsize - 1;
    for (const Bytes* side : {&a, &b})
        for (std::size_t k = 0; k < side->shape.size(); ++k)
            if (side->shape[k] > 1) search.add(std::abs(side->strides[k]), side->shape[k] - 1);
    for (std::size_t k = 0; k < b.shape.size(); ++k) target += detail::reach(b.shape[k], b.strides[k]);
    return search.solvable(target, work);
}

}  // namespace eagle::graph
