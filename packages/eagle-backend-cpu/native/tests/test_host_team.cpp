// eagle/exec/HostTeam.h, Partition.h: the doors of the team, by their formulas.
//
// SPDX-License-Identifier: Apache-2.0
#include "eagle/exec/HostTeam.h"

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "check.h"
#include "eagle/exec/Partition.h"

using eagle::exec::HostEntryV2;
using eagle::exec::HostTeam;
using eagle::exec::Partition;

namespace {

static_assert(Partition::whole(7).is_whole() && Partition{}.is_whole() && !Partition{1, 6, 7}.is_whole() &&
              !Partition{0, 6, 7}.is_whole());

template <class Fn>
bool refuses(Fn fn) {
    try {
        fn();
    } catch (const std::invalid_argument&) {
        return true;
    }
    return false;
}

/// Adds one to the samples of its range.
void increment(void* const* params, std::int64_t base, std::int64_t count, std::int64_t nSamples) {
    std::vector<int>& hits = *static_cast<std::vector<int>*>(params[0]);
    CHECK(nSamples == static_cast<std::int64_t>(hits.size()));
    for (std::int64_t i = base; i < base + count; ++i) ++hits[static_cast<std::size_t>(i)];
}

void calls(void* const* params, std::int64_t, std::int64_t, std::int64_t) { ++*static_cast<int*>(params[0]); }

void tiles() {
    const std::pair<std::int64_t, std::int64_t> sizes[] = {{0, 256},    {1, 4096},   {256, 4096},
                                                           {333, 3144}, {512, 2048}, {1000, 1048},
                                                           {4096, 256}, {16384, 64}, {100000, 64}};
    for (const auto& [bytes, samples] : sizes) CHECK(HostTeam::tile_size(bytes, 1 << 21) == samples);
    const std::int64_t here = HostTeam::tile_size(512);
    CHECK(here >= 64 && here <= 4096 && here % 8 == 0);
    CHECK(HostTeam::tile_count(Partition::whole(0), 512) == 0 && HostTeam::tile_count({5, -3, 9}, 512) == 0);
    CHECK(HostTeam::tile_count(Partition::whole(1), 512) == 1);
    CHECK(HostTeam::tile_count(Partition::whole(here), 512) == 1);
    CHECK(HostTeam::tile_count({3, here + 1, 2 * here}, 512) == 2);
    CHECK(HostTeam::tile_count(Partition::whole(257)) == 2);
    CHECK(HostTeam::tile_count(Partition::whole(INT64_MAX)) == INT64_MAX / 256 + 1);
    CHECK(refuses([] { HostTeam::tile_size(-1); }));
}

void runs() {
    std::vector<int> hits(100003);
    void* params[] = {&hits};
    const Partition part{1000, 90000, 100003};
    CHECK(HostTeam::run(increment, params, part) == HostTeam::tile_count(part));
    CHECK(HostTeam::run(increment, params, part, 64) == HostTeam::tile_count(part, 64));
    HostTeam::run_serial(increment, params, part);
    for (std::size_t i = 0; i < hits.size(); ++i) CHECK(hits[i] == (i >= 1000 && i < 91000 ? 3 : 0));
    int called = 0;
    void* counting[] = {&called};
    HostTeam::run_serial(calls, counting, Partition::whole(100000));
    CHECK(called == 1);
    CHECK(HostTeam::run(calls, counting, Partition{3, 0, 9}) == 0);
    HostTeam::run_serial(calls, counting, Partition{3, 0, 9});
    CHECK(called == 1);
    CHECK(refuses([&] { HostTeam::run(nullptr, counting, Partition::whole(1)); }));
    CHECK(refuses([&] { HostTeam::run_serial(nullptr, counting, Partition::whole(1)); }));
    CHECK(refuses([&] { HostTeam::run(calls, counting, Partition::whole(1), -8); }));
}

/// What an entry throws comes out, and a run inside a run stays on its thread.
void nested() {
    const HostEntryV2 fails = [](void* const*, std::int64_t, std::int64_t, std::int64_t) { throw 7; };
    void* none[] = {nullptr};
    int thrown = 0;
    try {
        HostTeam::run(fails, none, Partition::whole(100000));
    } catch (int value) {
        thrown = value;
    }
    CHECK(thrown == 7);
    const HostEntryV2 outer = [](void* const* params, std::int64_t base, std::int64_t count, std::int64_t n) {
        HostTeam::run(increment, params, {base, count, n});
    };
    std::vector<int> hits(100000);
    void* params[] = {&hits};
    HostTeam::run(outer, params, Partition::whole(100000));
    for (const int hit : hits) CHECK(hit == 1);
}

}  // namespace

int main() {
    tiles();
    runs();
    nested();
}
