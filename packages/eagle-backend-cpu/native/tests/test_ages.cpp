// At which ages a batch is looked at: multiples of a launch, never so late that the cap cannot be met.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "check.h"
#include "eagle/stepping/Ages.h"

using eagle::stepping::Ages;

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kHalf = std::int64_t{1} << 62, kQuarter = std::int64_t{1} << 61;

void testCut() {
    const Ages fused(20, 0, 9);  // any number of steps but 1
    CHECK(fused.cut(0, 1) == 2 && fused.cut(0, 2) == 2 && fused.cut(5, 5) == 7);
    CHECK(fused.cut(0, 18) == 18 && fused.cut(0, 19) == 20 && fused.cut(0, 20) == 20 && fused.cut(0, 99) == 20);
    CHECK(fused.cut(16, 17) == 18 && fused.cut(17, 18) == 20 && fused.cut(18, 19) == 20);
    const Ages single(5, 1, 9);
    CHECK(single.cut(0, 0) == 1 && single.cut(0, 1) == 1 && single.cut(3, 4) == 4 && single.cut(4, 4) == 5);
    const Ages sevens(21, 7, 9);
    CHECK(sevens.cut(0, 1) == 7 && sevens.cut(0, 14) == 14 && sevens.cut(0, 15) == 21);
    CHECK(sevens.cut(7, 8) == 14 && sevens.cut(14, 15) == 21);

    const Ages longest(kMost, 0, 9);
    CHECK(longest.cut(0, kMost) == kMost && longest.cut(0, kMost - 1) == kMost);
    CHECK(longest.cut(0, kMost - 2) == kMost - 2 && longest.cut(kMost - 4, kMost - 3) == kMost - 2);
    CHECK(longest.cut(kMost - 3, kMost - 2) == kMost && longest.cut(kMost - 2, kMost - 1) == kMost);
    const Ages quarters(kHalf + kQuarter, kQuarter, 9);
    CHECK(quarters.cut(0, 1) == kQuarter && quarters.cut(kQuarter, kQuarter + 1) == kHalf);
    CHECK(quarters.cut(0, kHalf + 1) == kHalf + kQuarter && quarters.cut(kHalf, kHalf) == kHalf + kQuarter);
    CHECK(Ages(kMost, kMost, 9).cut(0, 1) == kMost);
}

void testReaches() {
    const Ages fused(20, 0, 9);
    CHECK(fused.reaches(0, 2) && fused.reaches(0, 3) && fused.reaches(0, 18) && fused.reaches(0, 20));
    CHECK(fused.reaches(18, 20) && fused.reaches(16, 18));
    CHECK(!fused.reaches(0, 19) && !fused.reaches(17, 19) && !fused.reaches(0, 21) && !fused.reaches(0, 22));
    CHECK(!fused.reaches(0, 1) && !fused.reaches(5, 5) && !fused.reaches(6, 4) && !fused.reaches(19, 20));
    const Ages sevens(21, 7, 9);
    CHECK(sevens.reaches(0, 7) && sevens.reaches(0, 14) && sevens.reaches(7, 21) && sevens.reaches(14, 21));
    CHECK(!sevens.reaches(0, 8) && !sevens.reaches(7, 13) && !sevens.reaches(7, 7) && !sevens.reaches(14, 28));
    CHECK(Ages(5, 1, 9).reaches(3, 4) && !Ages(5, 1, 9).reaches(4, 4));
    const Ages longest(kMost, 0, 9);
    CHECK(longest.reaches(0, kMost) && longest.reaches(0, kMost - 2) && longest.reaches(kMost - 2, kMost));
    CHECK(!longest.reaches(0, kMost - 1) && !longest.reaches(kMost - 3, kMost - 1));
}

/// Where nothing was learned a step finishes one sample of 2 age + 16: age + sqrt(overhead * (2 age + 16)), rounded to
/// eighths of its octave, to a multiple of the unit, and no coarser than the steps.
void testRounding() {
    constexpr std::int64_t kFar = std::int64_t{1} << 40;
    CHECK(Ages(kFar, 0, 9).next(0) == 12);       // sqrt(9 * 16) = 12
    CHECK(Ages(kFar, 0, 1e9).next(0) == 32);     // the most at first
    CHECK(Ages(kFar, 0, 1e-9).next(0) == 8);     // the fewest
    CHECK(Ages(kFar, 0, 1).next(100) == 112);    // 114 in eights
    CHECK(Ages(kFar, 0, 1).next(1000) == 1056);  // 1044 in steps of 32, for 44 steps
    CHECK(Ages(kFar, 8, 3.125).next(8) == 16);   // 18 in eights
    CHECK(Ages(kFar, 64, 49).next(64) == 128);   // 148 in 64s
    CHECK(Ages(kFar, 64, 100).next(64) == 192);  // 184 in 64s
    CHECK(Ages(kFar, 48, 1).next(0) == 48);      // one launch at least
    CHECK(Ages(100, 0, 1e9).next(32) == 100);    // 128
    CHECK(Ages(129, 0, 1e9).next(32) == 129);    // 128 would leave one step
    CHECK(Ages(130, 0, 1e9).next(32) == 128);
}

/// Whatever was learned: from age to age, until the cap.
void testWalks() {
    std::mt19937_64 random(11);
    const auto between = [&](std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    for (const std::int64_t unit : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7},
                                    std::int64_t{64}, std::int64_t{1} << 31, kQuarter, kMost}) {
        const std::int64_t step = std::max<std::int64_t>(unit, 1), least = unit == 0 ? 2 : unit;
        for (int round = 0; round < 400; ++round) {
            const std::int64_t most = kMost / step;
            const std::int64_t wanted = round % 4 == 0 ? most - between(0, 5) : std::int64_t{1} << between(0, 62);
            const std::int64_t cap = std::clamp(wanted, least / step, most) * step;
            Ages ages(cap, unit, std::exp2(static_cast<double>(between(-4, 12))));
            std::int64_t age = 0;
            for (int k = 0; k < 40 && age < cap; ++k) {
                const std::int64_t next = ages.next(age);
                CHECK(next <= cap && next - age >= least && (next - age) % step == 0);
                CHECK(next == cap || cap - next >= least);
                CHECK(ages.reaches(age, next));
                const std::int64_t live = between(1, 1000);
                ages.learn(age, next - age, live, between(0, live));
                // On from there, or from an age far away.
                age = k % 5 || (cap - next) / 2 < least ? next : between(next / step, (cap - least) / step) * step;
            }
        }
    }
}

}  // namespace

int main() {
    testCut();
    testReaches();
    testRounding();
    testWalks();
}
