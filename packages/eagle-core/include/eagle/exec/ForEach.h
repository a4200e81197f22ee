// A loop whose turns the thread team shares.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

#include "eagle/exec/Team.h"

namespace eagle::exec {

/// Turns [0, turns) of a job, dealt to the participants of a team in runs of neighbours, so that the next job finds
/// them in the same caches. Who is done with its own run helps the others.
class Runs {
public:
    /// `wakes`: sleepers are woken at once, elsewise when it takes long.
    Runs(Team& team, std::int64_t turns, bool wakes)
        : team_(&team),
          counters_(team.counters()),
          job_(team.newJob()),
          turns_(turns),
          runs_(std::min<std::int64_t>(team.participants(), turns)),
          wakes_(wakes) {}

    /// Calls turn(i) for those that nobody took, while it answers true.
    template <class Turn>
    void take(int self, const Turn& turn) const {
        if (self == 0 && wakes_) team_->wake();
        for (std::int64_t help = 0; help < runs_; ++help) {
            const std::int64_t run = (self + help) % runs_, end = begin(run + 1);
            for (std::int64_t i; (i = counters_[run].next(job_, begin(run), end)) < end;) {
                if (!turn(i)) return;
                if (self == 0) team_->wakeIfLong();
            }
        }
    }

private:
    std::int64_t begin(std::int64_t run) const { return turns_ * run / runs_; }

    Team* team_;
    Team::Counter* counters_;
    std::uint64_t job_;
    std::int64_t turns_, runs_;
    bool wakes_;
};

/// Calls body(i) once for each i in [0, turns), in any order and on any thread of the team, which the caller holds;
/// returns when all are done. The first exception comes out here, after the turns that were begun. `wakes` as for Runs.
///
/// What a worker reads of a job comes from the caller's caches, one line after the other. So the job is one object with
/// a copy of the body: capture by value.
template <class Body>
void forEach(Team& team, std::int64_t turns, bool wakes, const Body& body) {
    struct alignas(64) Job {
        Body body;
        Runs runs;
        std::atomic<bool> failed{false};
        std::exception_ptr error{};

        void work(int self) noexcept {
            try {
                runs.take(self, [this](std::int64_t i) {
                    if (!failed.load(std::memory_order_relaxed)) body(i);
                    return !failed.load(std::memory_order_relaxed);
                });
            } catch (...) {
                if (!failed.exchange(true, std::memory_order_relaxed)) error = std::current_exception();
            }
        }
    } job{body, Runs(team, turns, wakes)};
    team.run([](void* it, int self) noexcept { static_cast<Job*>(it)->work(self); }, &job);
    if (job.error) std::rethrow_exception(job.error);
}

/// The same on a team that the caller may hold, else in place. A turn is worth handing out: some microseconds of work.
template <class Body>
void forEach(Team* team, std::int64_t turns, const Body& body) {
    constexpr std::int64_t kWorthWaking = 16;
    if (team) return forEach(*team, turns, turns >= kWorthWaking, body);
    for (std::int64_t i = 0; i < turns; ++i) body(i);
}

/// The same with the team while nobody else has it.
template <class Body>
void forEach(std::int64_t turns, const Body& body) {
    const Team::Lease team = turns > 1 && Team::size() > 1 ? Team::tryLease() : Team::Lease();
    forEach(team ? &*team : nullptr, turns, body);
}

}  // namespace eagle::exec
