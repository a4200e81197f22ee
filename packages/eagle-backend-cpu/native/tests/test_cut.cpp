// The cut tiles the partition exactly, at rows of 64, and a launch visits every sample once.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "check.h"
#include "eagle/exec/HostTeam.h"

using namespace eagle;
using exec::Cut;
using exec::Team;

namespace {

std::mt19937_64 random(20240607);

std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

void checkCut(std::int64_t base, std::int64_t count, std::int64_t grain, std::int64_t most) {
    const Cut cut(base, count, grain, most);
    const std::int64_t pieces = cut.pieces();
    CHECK(pieces >= 1 && pieces <= std::max<std::int64_t>(most, 1));
    CHECK(cut.begin(0) == base && cut.begin(pieces) == base + count);
    for (std::int64_t i = 0; i < pieces; ++i) {
        const std::int64_t size = cut.begin(i + 1) - cut.begin(i);
        CHECK(size > 0);
        CHECK(pieces == 1 || size >= grain);
        CHECK((cut.begin(i) - base) % 64 == 0);
    }
}

void testCuts() {
    for (int round = 0; round < 20000; ++round) {
        checkCut(between(0, 1000), between(1, 5000), between(1, 700), between(1, 70));
        checkCut(between(0, 1ll << 40), between(1, 1ll << 40), between(1, 1ll << between(0, 40)), between(1, 2000));
    }
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    checkCut(0, most, 1, 16384);
    checkCut(most - 10, 10, 1, 16384);
    checkCut(most - 1000, 1000, 1, 16);
    checkCut(1ll << 62, 1ll << 61, 4096, 16384);
    checkCut(1, most - 1, most, 16384);
    CHECK(Cut(0, 64 * 16, 64, 8).pieces() == 8);
    CHECK(Cut(0, 100, 64, 8).pieces() == 1);
}

void mark(void* const* params, std::int64_t base, std::int64_t count, std::int64_t samples) {
    auto* visits = static_cast<std::uint8_t*>(params[0]);
    CHECK(samples == *static_cast<const std::int64_t*>(params[1]));
    for (std::int64_t i = base; i < base + count; ++i) ++visits[i];
}

/// As reduction entries do: whole rows of 32 samples, the range rounded outward.
void markRows(void* const* params, std::int64_t base, std::int64_t count, std::int64_t) {
    auto* rows = static_cast<std::uint32_t*>(params[0]);
    for (std::int64_t row = base / 32; row < (base + count + 31) / 32; ++row) ++rows[row];
}

void testLaunches() {
    for (int round = 0; round < 1500; ++round) {
        Team::setSize(static_cast<int>(between(1, 6)));
        std::int64_t samples = between(1, 1 << between(1, 16)), base = between(0, samples - 1),
                     count = between(1, samples - base);
        std::vector<std::uint8_t> visits(static_cast<std::size_t>(samples));
        void* params[] = {visits.data(), &samples};
        exec::run(mark, params, {base, count, samples}, between(1, 2000));
        for (std::int64_t i = 0; i < samples; ++i) {
            CHECK(visits[static_cast<std::size_t>(i)] == (i >= base && i < base + count));
        }
        std::vector<std::uint32_t> rows(static_cast<std::size_t>(samples / 32 + 2));
        params[0] = rows.data();
        exec::run(markRows, params, {0, samples, samples}, 64);
        for (std::int64_t row = 0; row < (samples + 31) / 32; ++row) CHECK(rows[static_cast<std::size_t>(row)] == 1);
    }
}

}  // namespace

int main() {
    testCuts();
    testLaunches();
}
