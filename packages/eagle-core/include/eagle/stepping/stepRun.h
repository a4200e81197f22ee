// Steps a batch until every sample is finished, on the thread team.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "eagle/stepping/Stepper.h"

namespace eagle::stepping {
namespace detail {

struct Job {
    Run run;

    void work(int self) noexcept {
        if (self >= run.participants()) return;
        if (self > 0) run.workers.fetch_add(1, std::memory_order_relaxed);
        participate(self);
        if (self > 0) run.workers.fetch_sub(1, std::memory_order_release);
        if (self == 0) attend();
    }

    void participate(int self) noexcept {
        try {
            Stepper stepper(run, self);
            try {
                stepper.work();
            } catch (...) {
                run.fail();
            }
            stepper.flush();
        } catch (...) {
            run.fail();
        }
    }

    /// The caller goes on asking whether to stop while others are at work. It sleeps for a small part of what it has
    /// waited: one late sample is not to be later by a nap.
    void attend() noexcept {
        const auto begin = Clock::now();
        for (int turn = 1; run.workers.load(std::memory_order_acquire) > 0 && !run.forked(); ++turn) {
            exec::pause();
            if (turn % kPauses != 0) continue;
            const auto waited = Clock::now() - begin;
            if (waited < kWatch) {
                std::this_thread::yield();
                continue;
            }
            std::this_thread::sleep_for(std::min<Clock::duration>(waited / kPart, kLongest));
            try {
                run.ask(Clock::now());
            } catch (...) {
                run.fail();
            }
        }
    }

    using Clock = std::chrono::steady_clock;
    static constexpr int kPauses = 64, kPart = 16;
    static constexpr std::chrono::milliseconds kWatch{1}, kLongest{2};
};

}  // namespace detail

/// Steps every sample that is not finished until it is, or took `batch.cap` steps. `threads` is the most that take
/// part. Where the run is stopped every sample is at a step's end. Throws what the entry throws, the samples of its
/// call as it left them.
inline Report stepRun(const Batch& batch, int threads, Poll poll, void* context) {
    constexpr std::int64_t kWorthThreads = 128, kWorthWaking = 2048;
    const exec::Team::Lease team =
        threads != 1 && batch.samples > kWorthThreads ? exec::Team::tryLease() : exec::Team::Lease();
    const int participants = team ? std::clamp(threads, 1, team->participants()) : 1;
    std::vector<Tally> tallies(static_cast<std::size_t>(participants));
    detail::Job job{Run(batch, participants, tallies.data(), poll, context)};
    if (participants > 1) {
        job.run.wakes(*team, batch.samples >= kWorthWaking);
        team->run([](void* context, int self) noexcept { static_cast<detail::Job*>(context)->work(self); }, &job);
    } else {
        job.work(0);
    }
    job.run.rethrow();
    Report report;
    report.steps = job.run.most();
    report.exact = job.run.exact();
    report.stopped = job.run.stop.load(std::memory_order_relaxed);
    job.run.sum(report);
    for (const Tally& tally : tallies) report.visits += tally.visits;
    return report;
}

}  // namespace eagle::stepping
