// A loop whose turns the thread team shares.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "eagle/exec/Team.h"

namespace eagle::exec {

/// Turns [0, turns) of a job, dealt to the participants of a team in runs of neighbours, so that the next job finds
/// them in the same caches. Who is done with its own run helps the others.
class Runs {
public:
    Runs(Team& team, std::int64_t turns)
        : team_(team), turns_(turns), runs_(std::min<std::int64_t>(team.participants(), turns)) {
        for (std::int64_t run = 0; run < runs_; ++run)
            team_.counters()[run].value.store(begin(run), std::memory_order_relaxed);
    }

    /// Calls turn(i) for those that nobody took, while it answers true.
    template <class Turn>
    void take(int self, const Turn& turn) const {
        for (std::int64_t help = 0; help < runs_; ++help) {
            const std::int64_t run = (self + help) % runs_, end = begin(run + 1);
            std::atomic<std::int64_t>& next = team_.counters()[run].value;
            while (next.load(std::memory_order_relaxed) < end) {
                const std::int64_t i = next.fetch_add(1, std::memory_order_relaxed);
                if (i >= end) break;
                if (!turn(i)) return;
                if (self == 0) team_.wakeIfLong();
            }
        }
    }

private:
    std::int64_t begin(std::int64_t run) const { return turns_ * run / runs_; }

    Team& team_;
    const std::int64_t turns_, runs_;
};

/// Calls body(i) once for each i in [0, turns), in any order and on any thread of the team, which the caller holds;
/// returns when all are done. From `worthWaking` turns on sleepers are woken at once, elsewise when it takes long.
template <class Body>
void forEach(Team& team, std::int64_t turns, std::int64_t worthWaking, const Body& body) {
    static_assert(noexcept(body(turns)), "a turn has nobody to throw to");
    struct Loop {
        Team& team;
        const Body& body;
        const bool wakes;
        const Runs runs;
    } loop{team, body, turns >= worthWaking, Runs(team, turns)};
    team.run(
        [](void* job, int self) noexcept {
            Loop& loop = *static_cast<Loop*>(job);
            if (self == 0 && loop.wakes) loop.team.wake();
            loop.runs.take(self, [&](std::int64_t i) { return loop.body(i), true; });
        },
        &loop);
}

/// The same with the team while nobody else has it, and in place elsewise. A turn is worth handing out: some
/// microseconds of work.
template <class Body>
void forEach(std::int64_t turns, const Body& body) {
    constexpr std::int64_t kWorthWaking = 16;
    if (turns > 1 && Team::size() > 1) {
        if (const Team::Lease team = Team::tryLease()) return forEach(*team, turns, kWorthWaking, body);
    }
    for (std::int64_t i = 0; i < turns; ++i) body(i);
}

}  // namespace eagle::exec
