// The canonical sum as a team would share it, compiled by the test with flags that invite a compiler to change bits.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "eagle/reduce/Canonical.h"

using namespace eagle::reduce;

extern "C" {

/// Chunks of kLeaf * 2^q samples, the last reduced first.
double sum_in_chunks(const double* x, const double* comp, std::int64_t n, int q) {
    const std::int64_t chunk = kLeaf << q;
    std::vector<Partial<double>> partials(static_cast<std::size_t>((n - 1) / chunk + 1));
    for (std::size_t i = partials.size(); i-- > 0;) {
        const std::int64_t begin = static_cast<std::int64_t>(i) * chunk;
        partials[i] = partial<Sum>(std::min(n - begin, chunk), x + begin, comp + begin);
    }
    Pairing<Sum, double> chunks;
    for (const Partial<double>& p : partials) chunks.push(p);
    return Sum::value(chunks.root());
}

/// Products that a compiler would like to fuse into the sum.
double sum_of_products(const double* a, const double* b) {
    double x[kSlots * 2], none[kSlots * 2] = {};
    for (int i = 0; i < kSlots * 2; ++i) x[i] = a[i] * b[i];
    return canonical(Op::Sum, x, none, kSlots * 2);
}

/// Whether a leaf of rows of columns has the same bits in the vectors of this processor and of any.
int vectors_agree(const double* x, const double* comp, std::int64_t rows, std::int64_t columns) {
    const std::size_t slots = static_cast<std::size_t>(std::min(rows, kSlots) * columns);
    std::vector<double> h(slots), c(slots), h2(slots), c2(slots);
    foldLeaf<Sum>(rows, columns, columns, h.data(), c.data(), x, comp);
    detail::fold<Sum>(rows, columns, columns, h2.data(), c2.data(), x, comp);
    const std::size_t bytes = slots * sizeof(double);
    return std::memcmp(h.data(), h2.data(), bytes) == 0 && std::memcmp(c.data(), c2.data(), bytes) == 0;
}

}  // extern "C"
