// A loop whose turns the thread team shares.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "eagle/exec/Team.h"

namespace eagle::exec {

/// Calls body(i) once for each i in [0, turns), in any order and on any thread of the team, which the caller holds;
/// returns when all are done. From `worthWaking` turns on sleepers are woken at once, elsewise when it takes long.
template <class Body>
void forEach(Team& team, std::int64_t turns, std::int64_t worthWaking, const Body& body) {
    static_assert(noexcept(body(turns)), "a turn has nobody to throw to");
    struct Loop {
        Team& team;
        const Body& body;
        const std::int64_t turns;
        const std::int64_t worthWaking;
        std::atomic<std::int64_t>& next;
    } loop{team, body, turns, worthWaking, team.counters()[0].value};
    loop.next.store(0, std::memory_order_relaxed);
    team.run(
        [](void* job, int self) noexcept {
            Loop& loop = *static_cast<Loop*>(job);
            if (self == 0 && loop.turns >= loop.worthWaking) loop.team.wake();
            for (std::int64_t i; (i = loop.next.fetch_add(1, std::memory_order_relaxed)) < loop.turns;) {
                loop.body(i);
                if (self == 0) loop.team.wakeIfLong();
            }
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
