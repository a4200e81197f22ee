// What the participants of one run share, and what comes of it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <stdexcept>

#include "eagle/exec/Team.h"
#include "eagle/stepping/Batch.h"

namespace eagle::stepping {

/// Asked now and then, on the thread that called, with samples finished and steps offered so far: 0 goes on, kAbandon
/// ends the run without another look at the planes, anything else ends it.
using Poll = std::int32_t (*)(void* context, std::int64_t finished, std::int64_t offered);

inline constexpr std::int32_t kAbandon = 2;

struct Report {
    std::int64_t steps = 0;  ///< the most a sample took
    bool exact = true;       ///< whether that is known; else it is a bound
    bool stopped = false;
    std::int64_t visits = 0;    ///< samples that calls were given, each call's added up
    std::int64_t finished = 0;  ///< samples that are finished, those that were before included
    std::int64_t offered = 0;   ///< steps of calls to samples that were not finished; at most 2^62
};

/// A participant's part of the report, on lines of its own.
struct alignas(128) Tally {
    std::atomic<std::int64_t> finished{0};
    std::atomic<double> offered{0};  ///< steps of all samples: more than 64 bits hold
    std::int64_t visits = 0;

    void add(std::int64_t more, double steps) {
        finished.store(finished.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
        offered.store(offered.load(std::memory_order_relaxed) + steps, std::memory_order_relaxed);
    }
};

class Run {
public:
    Run(const Batch& batch, int participants, Tally* tallies, Poll poll, void* context)
        : batch(batch),
          block(blockOf(batch, participants)),
          participants_(participants),
          tallies_(tallies),
          poll_(poll),
          context_(context) {}

    const Batch& batch;
    const std::int64_t block;  ///< samples taken at once
    std::atomic<bool> stop{false}, abandoned{false};
    std::atomic<int> workers{0};  ///< at work now, beside the caller

    int participants() const { return participants_; }
    Tally& tally(int self) { return tallies_[self]; }

    /// The next samples [first, first + n): the first of a participant are few. 0 when there are no more.
    std::int64_t take(bool scout, std::int64_t& first) {
        const std::int64_t wanted = scout && batch.samples > kLargest ? batch.vector : block;
        if (next_.load(std::memory_order_relaxed) >= batch.samples) return 0;
        first = next_.fetch_add(wanted, std::memory_order_relaxed);
        return std::max<std::int64_t>(std::min(wanted, batch.samples - first), 0);
    }

    /// At least as many steps as any sample took until now.
    std::int64_t most() const { return most_.load(std::memory_order_relaxed); }
    /// Whether a sample took so many.
    bool exact() const { return most() == known_.load(std::memory_order_relaxed); }
    /// A sample took so many steps.
    void raise(std::int64_t steps) {
        raise(known_, steps);
        raise(most_, steps);
    }
    /// A sample took so many steps or fewer.
    void bound(std::int64_t steps) { raise(most_, steps); }

    /// Workers asleep are woken once the caller has been at it for a while, or at once.
    void wakes(exec::Team& team, bool atOnce) {
        team_ = &team;
        if (atOnce) team.wake();
    }

    /// On the caller's thread: asks whether to go on, where it is time to.
    void ask(std::chrono::steady_clock::time_point now) {
        if (team_) team_->wakeIfLong();
        if (!poll_ || stop.load(std::memory_order_relaxed) || now - asked_ < kInterval) return;
        Report told;
        sum(told);
        const std::int32_t answer = poll_(context_, told.finished, told.offered);
        if (forked())
            throw std::runtime_error("the process was forked in the middle of a run, which goes on in the parent");
        if (answer == kAbandon) abandoned.store(true, std::memory_order_relaxed);
        if (answer != 0) stop.store(true, std::memory_order_relaxed);
        asked_ = Clock::now();
    }

    /// Fills in what the tallies tell at any time.
    void sum(Report& report) const {
        double offered = 0;
        for (int i = 0; i < participants_; ++i) {
            report.finished += tallies_[i].finished.load(std::memory_order_relaxed);
            offered += tallies_[i].offered.load(std::memory_order_relaxed);
        }
        report.offered = static_cast<std::int64_t>(std::min(offered, kMostTold));
    }

    /// Whether this is a child of the process the run began in, without its workers.
    bool forked() const { return exec::Team::forks() != born_; }

    void fail() noexcept {
        if (!failed_.exchange(true, std::memory_order_relaxed)) error_ = std::current_exception();
        stop.store(true, std::memory_order_relaxed);
    }
    void rethrow() const {
        if (error_) std::rethrow_exception(error_);
    }

private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::int64_t kSmallest = 64, kLargest = 256;
    static constexpr std::size_t kMostBytes = std::size_t{4} << 20;  ///< of a block, unless it is the smallest
    static constexpr double kMostTold = 0x1p62;
    static constexpr std::chrono::milliseconds kInterval{50};

    static std::int64_t blockOf(const Batch& batch, int participants) {
        const auto most = static_cast<std::int64_t>(kMostBytes / batch.bytes()) / 64 * 64;
        return std::clamp(std::min(batch.samples / (8 * participants) / 64 * 64, most), kSmallest, kLargest);
    }

    static void raise(std::atomic<std::int64_t>& known, std::int64_t steps) {
        std::int64_t now = known.load(std::memory_order_relaxed);
        while (now < steps && !known.compare_exchange_weak(now, steps, std::memory_order_relaxed)) {
        }
    }

    const int participants_;
    Tally* const tallies_;
    const Poll poll_;
    void* const context_;
    exec::Team* team_ = nullptr;
    Clock::time_point asked_ = Clock::now();
    std::atomic<bool> failed_{false};
    std::exception_ptr error_;
    const std::uint32_t born_ = exec::Team::forks();
    std::atomic<std::int64_t> known_{0}, most_{0};
    alignas(64) std::atomic<std::int64_t> next_{0};
};

}  // namespace eagle::stepping
