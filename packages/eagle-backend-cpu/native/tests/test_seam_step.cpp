// The door step_run: how it reads the most steps of a sample.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <vector>

#include "check.h"
#include "eagle/eagle_backend.h"
#include "stepping_problem.h"

namespace {

template <class T>
std::uint64_t address(T* p) {
    return reinterpret_cast<std::uintptr_t>(p);
}

/// Steps a problem through the door, for as many steps as `most` says.
eagle_step_report stepRun(Problem& problem, std::int64_t most) {
    const Batch batch = problem.batch();
    std::vector<std::uint64_t> params;
    for (void* param : problem.params) params.push_back(address(param));
    std::vector<eagle_step_plane> planes;
    for (const stepping::Plane& plane : batch.planes) {
        eagle_step_plane told{};
        told.slot = static_cast<std::uint32_t>(plane.slot);
        told.elem_bytes = static_cast<std::uint32_t>(plane.bytes);
        told.components = static_cast<std::uint32_t>(plane.components);
        told.flags = plane.writes ? EAGLE_STEP_WRITES : 0u;
        planes.push_back(told);
    }
    eagle_step_plane totals{};
    totals.slot = Problem::kTotals, totals.elem_bytes = 8, totals.components = 2, totals.flags = EAGLE_STEP_COUNTS;
    planes.push_back(totals);
    eagle_step_desc desc{};
    desc.struct_size = sizeof desc;
    desc.flags = EAGLE_STEP_MOVABLE;
    desc.device = -1;
    desc.n_planes = static_cast<std::uint32_t>(planes.size());
    desc.function = reinterpret_cast<std::uintptr_t>(batch.entry);
    desc.params = params.data();
    desc.nparams = static_cast<std::int64_t>(params.size());
    desc.planes = planes.data();
    desc.n_samples = problem.n;
    desc.max_steps = most;
    desc.steps_per_launch = problem.unit;
    desc.mask_slot = Problem::kMask, desc.counter_slot = Problem::kCounter, desc.word_slot = Problem::kWord;
    desc.map_slot = desc.live_slot = -1;
    if (problem.unit != 0) desc.word_slot = -1;
    desc.threads = 1;
    eagle_step_report report{};
    report.struct_size = sizeof report;
    const Check check(problem);
    CHECK(eagle_backend_step_run(&desc, &report) == EAGLE_OK);
    check.samples(true);
    return report;
}

/// The most steps are rounded up to whole launches, and down where 64 bits hold no more.
void testCaps() {
    const struct {
        std::int64_t unit, most, cap;
    } expected[] = {
        {0, 1, 1},
        {0, 2, 2},
        {0, 17, 17},
        {1, 1, 1},
        {1, 17, 17},
        {4, 1, 4},
        {4, 4, 4},
        {4, 5, 8},
        {4, 12, 12},
        {std::int64_t{1} << 60, kNever, std::int64_t{7} << 60},
        {std::int64_t{1} << 62, kNever, std::int64_t{1} << 62},
        {std::int64_t{1} << 62, std::int64_t{1} << 62, std::int64_t{1} << 62},
        {kNever, kNever, kNever},
        {kNever, 1, kNever},
    };
    for (const auto& [unit, most, cap] : expected) {
        Problem problem;  // all go on until the cap, which they check
        problem.n = 40;
        problem.unit = unit;
        problem.cap = cap;
        problem.leaping = true;
        problem.allocate();
        if (cap == kNever) std::fill(problem.stop.begin(), problem.stop.end(), kNever - 1);
        const eagle_step_report report = stepRun(problem, most);
        CHECK(report.steps == cap || cap == kNever);
        CHECK(report.finished == (cap == kNever ? 40 : 0));
    }
    for (const std::int64_t unit : {0, 4}) {  // all finish, long before the most steps there are
        Problem problem;
        problem.n = 40;
        problem.unit = unit;
        problem.cap = unit ? kNever - 3 : kNever;
        problem.allocate();
        for (std::size_t i = 0; i < 40; ++i) problem.stop[i] = static_cast<std::int64_t>(i) + 1;
        const eagle_step_report report = stepRun(problem, kNever);
        CHECK(report.steps == 40 && report.finished == 40);
        CHECK(report.flags == (unit ? 0 : EAGLE_STEP_EXACT));
    }
}

/// Of one step at most: launches of one step of those that are not finished, known for certain.
void testOneStep() {
    Problem problem;
    problem.n = 64;
    problem.allocate();
    for (const std::size_t i : {3u, 31u, 40u, 63u}) problem.mask[i] = 1;
    problem.stop[7] = 1;
    const eagle_step_report report = stepRun(problem, 1);
    CHECK(report.steps == 1 && report.flags == EAGLE_STEP_EXACT && report.finished == 5);
    CHECK(report.visits == 60 && problem.alive == 60);
}

}  // namespace

int main() {
    testCaps();
    testOneStep();
}
