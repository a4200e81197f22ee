// The headers of eagle/filtering against loops that do one sample after another, with teams of several sizes.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "check.h"
#include "eagle/filtering/Compact.h"
#include "eagle/filtering/Reorder.h"

using namespace eagle::filtering;

namespace {

using Bytes = std::vector<std::uint8_t>;
using Indices = std::vector<std::int32_t>;

Bytes randomBytes(std::int64_t n, int below, std::uint32_t seed) {
    std::mt19937 random(seed);
    Bytes bytes(static_cast<std::size_t>(n));
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random() % static_cast<unsigned>(below));
    return bytes;
}

/// Memory for what `make(scratch)` takes, at an odd address.
template <class Make>
std::vector<char> scratchFor(Make make) {
    Scratch sizes(0);
    make(sizes);
    return std::vector<char>(static_cast<std::size_t>(sizes.bytes()) + 1);
}

std::uint64_t inside(std::vector<char>& block) { return reinterpret_cast<std::uintptr_t>(block.data() + 1); }

void testBits() {
    for (std::int64_t n = 0; n <= 64; ++n) {
        const Bytes bytes = randomBytes(n + 3, 3, static_cast<std::uint32_t>(n));
        for (const bool drop : {false, true}) {
            const Mask mask{bytes.data(), drop};
            std::uint64_t expected = 0;
            for (std::int64_t k = 0; k < n; ++k) {
                expected |= std::uint64_t{(bytes[static_cast<std::size_t>(3 + k)] != 0) != drop} << k;
            }
            CHECK(mask.bits(3, n) == expected);
        }
    }
}

void testCompaction(std::int64_t n) {
    const Bytes bytes = randomBytes(n, 2, 1), classes = randomBytes(n, 3, 2);
    Indices expected, map(static_cast<std::size_t>(n), -1);
    for (std::int64_t i = 0; i < n; ++i) {
        if (bytes[static_cast<std::size_t>(i)] == 0) expected.push_back(static_cast<std::int32_t>(i));
    }
    std::vector<char> block = scratchFor([&](Scratch& sizes) { Compaction(sizes, n); });
    Scratch scratch(inside(block));
    const Counts counts = Compaction(scratch, n).run({bytes.data(), true}, classes.data(), map.data());
    CHECK(counts.kept == expected.size());
    CHECK(std::equal(expected.begin(), expected.end(), map.begin()));
    CHECK(std::all_of(map.begin() + counts.kept, map.end(), [](std::int32_t index) { return index == -1; }));
    CHECK(counts.live32 <= (n + 31) / 32 && counts.mixed32 <= counts.live32);
}

void testReorder(std::int64_t n, std::int64_t span) {
    const Bytes mask = randomBytes(n, 2, 3), classes = randomBytes(n, 7, 4);
    Indices order(static_cast<std::size_t>(span));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        const auto bucket = [&](std::int32_t i) {
            return mask[static_cast<std::size_t>(i)] ? 7 : classes[static_cast<std::size_t>(i)];
        };
        return bucket(a) < bucket(b);
    });
    Indices perm(static_cast<std::size_t>(n)), inverse(static_cast<std::size_t>(n));
    std::iota(perm.begin(), perm.end(), 0);
    std::vector<char> block = scratchFor([&](Scratch& sizes) { Reordering(sizes, n, 8, 4); });
    Scratch scratch(inside(block));
    Reordering reordering(scratch, n, 8, 4);
    std::uint32_t begins[8];
    CHECK(reordering.find(ByClass{classes.data(), 7, {mask.data(), true}, false}, span, begins));
    reordering.move({reinterpret_cast<char*>(perm.data()), 4});
    reordering.invert(perm.data(), inverse.data());
    CHECK(std::equal(order.begin(), order.end(), perm.begin()));
    for (std::int64_t i = 0; i < n; ++i) {
        const auto slot = static_cast<std::size_t>(i);
        if (i < span) {
            CHECK(inverse[static_cast<std::size_t>(perm[slot])] == i);
        } else {
            CHECK(perm[slot] == i);
        }
    }
    CHECK(begins[7] == std::count(mask.begin(), mask.begin() + span, 0));
    if (span == 0) return;
    Bytes wrong = classes;
    wrong[static_cast<std::size_t>(span / 2)] = 7;
    CHECK(!reordering.find(ByClass{wrong.data(), 7, {mask.data(), true}, true}, span, begins));
}

}  // namespace

int main() {
    testBits();
    for (const int team : {1, 2, 4}) {
        eagle::exec::Team::setSize(team);
        for (const std::int64_t n : {0, 1, 31, 32, 33, 4097, 16'384, 16'385, 300'000}) {
            testCompaction(n);
            testReorder(n, n);
            testReorder(n, n / 2);
        }
    }
}
