// The thread team of a process.
//
// SPDX-License-Identifier: Apache-2.0
//
// A job is open while the caller works on it. Workers that are awake join it, sleepers are woken only when asked for,
// and the caller waits for nobody but those who joined: so a launch never pays for a worker that is late.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "eagle/exec/Fork.h"
#include "eagle/exec/OpenMp.h"
#include "eagle/exec/Processor.h"
#include "eagle/exec/TeamSize.h"

#if __has_include(<signal.h>) && __has_include(<pthread.h>)
#include <pthread.h>
#include <signal.h>
#endif

namespace eagle::exec {

/// While it lives, threads are born with asynchronous signals blocked: those belong to the host program's threads.
class SignalsBlocked {
#if __has_include(<signal.h>) && __has_include(<pthread.h>)
public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&all, fault);
        pthread_sigmask(SIG_BLOCK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
    sigset_t before_;
#endif
};

class Team {
public:
    /// One participant's share of a job: 0 is the caller, others are workers. A job may be left unattended by any
    /// worker, so participant 0 has to finish whatever nobody took.
    using Work = void (*)(void* job, int participant) noexcept;

    /// Exclusive use of the team by the calling thread; empty when the launch has to run in place.
    class Lease {
    public:
        Lease() = default;
        Lease(Lease&& other) noexcept : team_(std::exchange(other.team_, nullptr)) {}
        Lease& operator=(Lease&&) = delete;
        ~Lease() {
            if (!team_) return;
            inside_ = false;
            team_->busy_.clear(std::memory_order_release);
        }
        explicit operator bool() const { return team_ != nullptr; }
        Team& operator*() const { return *team_; }
        Team* operator->() const { return team_; }

    private:
        friend class Team;
        explicit Lease(Team& team) : team_(&team) { inside_ = true; }

        Team* team_ = nullptr;
    };

    /// On a cache line of its own, tagged with the number of the job: a stale value means that nothing was taken, so no
    /// job has to reset it, and its line stays with the thread it serves.
    class alignas(64) Counter {
    public:
        /// The next in [first, end) that nobody took; `end` where there is none.
        std::int64_t next(std::uint64_t job, std::int64_t first, std::int64_t end) {
            std::uint64_t seen = last_.load(std::memory_order_relaxed);
            for (;;) {
                const auto i = (seen & kLastJob) == job ? static_cast<std::int64_t>(seen >> kJobBits) : first;
                if (i >= end) return end;
                if (last_.compare_exchange_weak(seen, static_cast<std::uint64_t>(i + 1) << kJobBits | job,
                                                std::memory_order_relaxed))
                    return i;
            }
        }

    private:
        friend class Team;
        static constexpr int kJobBits = 16;
        static constexpr std::uint64_t kLastJob = (std::uint64_t{1} << kJobBits) - 1;

        std::atomic<std::uint64_t> last_{0};  ///< what comes next, and the number of the job: from 1
    };

    /// Threads a launch uses from now on, the caller included.
    static int size() {
        const int n = size_.load(std::memory_order_relaxed);
        return n ? n : decideSize();
    }

    /// Sets the size for the next launches, within 1..kMaxTeamSize; returns the old one. From any thread, at any time.
    static int setSize(int n) {
        size();
        return size_.exchange(std::clamp(n, 1, kMaxTeamSize), std::memory_order_relaxed);
    }

    /// Empty when another thread has the team, and inside a parallel region, ours or an OpenMP runtime's.
    static Lease tryLease() {
        if (inside_) return {};
        Team& team = instance();
        if (team.busy_.test_and_set(std::memory_order_acquire)) return {};
        Lease lease(team);
        if (insideOpenMpRegion()) return {};
        team.resize(size());
        return lease;
    }

    /// Threads that may take part: fewer than size() when the system gave no more.
    int participants() const { return static_cast<int>(workers_.size()) + 1; }

    /// Forks that led to this process: a child does not have the workers its parent had.
    static std::uint32_t forks() { return forks_.load(std::memory_order_relaxed); }

    /// One per participant, for the jobs' own use.
    Counter* counters() { return counters_.get(); }

    /// The number of a new job, which its counters are tagged with.
    std::uint64_t newJob() {
        if (counted_ == Counter::kLastJob) {
            for (int i = 0; i < participants(); ++i) counters_[i].last_.store(0, std::memory_order_relaxed);
            counted_ = 0;
        }
        return ++counted_;
    }

    /// Runs work(job, 0) here and work(job, k) on every worker that comes before this one is done.
    void run(Work work, void* job) {
        work_.store(work, std::memory_order_relaxed);
        job_.store(job, std::memory_order_relaxed);
        const bool watch = someoneSleeps();
        if (watch) noteStart();
        const std::uint32_t generation = (state_.load(std::memory_order_relaxed) + kGeneration) & ~(kGeneration - 1);
        state_.store(generation | kOpen, std::memory_order_seq_cst);
        const std::uint32_t born = forks();
        work(job, 0);
        if (forks() != born) return;  // a child: whoever joined is in the parent
        close();
        if (watch) lastEnd_ = Clock::now();
    }

    /// Called by participant 0 at work: asks sleepers to join. Costs it one system call at most, and perhaps its place.
    void wake() {
        if (!someoneSleeps()) return;
        callersProcessor_.store(currentProcessor(), std::memory_order_relaxed);
        wakes_.fetch_add(1, std::memory_order_seq_cst);
        wakes_.notify_one();
    }

    /// The same once it has worked for as long as waking takes, be it in many launches: a job that goes on like this is
    /// worth it, and one that ends soon has lost nothing.
    void wakeIfLong() {
        if (!someoneSleeps()) return;
        const Clock::time_point now = Clock::now();
        if (now - busySince_ < kWakeTakes) return;
        busySince_ = now;
        wake();
    }

    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

private:
    using Clock = std::chrono::steady_clock;

    /// How long a thread spins before it sleeps.
    static constexpr std::chrono::microseconds kSpin{50};
    static constexpr int kPausesPerClockRead = 16;
    static constexpr std::chrono::microseconds kWakeTakes{50};

    // The job's state in one word, so that joining is one compare-and-swap: what a worker read of a job that is closed
    // by now, or replaced, makes the swap fail. Generations may wrap: at worst a worker sits one job out.
    static constexpr std::uint32_t kActive = 0x0fff;        ///< workers that joined and have not left
    static constexpr std::uint32_t kCallerSleeps = 0x1000;  ///< whoever leaves last wakes the caller
    static constexpr std::uint32_t kOpen = 0x2000;
    static constexpr std::uint32_t kGeneration = 0x4000;  ///< lowest bit of the job's number
    static constexpr std::uint32_t kNoJob = kGeneration - 1;
    static_assert(kMaxTeamSize <= static_cast<int>(kActive));

    Team() = default;
    ~Team() = default;  // only of a team without workers: others live as long as the process

    bool someoneSleeps() const { return sleepers_.load(std::memory_order_seq_cst) > 0; }

    /// Launches that follow each other closely count as one stretch of work.
    void noteStart() {
        const Clock::time_point now = Clock::now();
        if (now - lastEnd_ > kSpin) busySince_ = now;
    }

    static Team& instance() {
        if (Team* team = instance_.load(std::memory_order_acquire)) return *team;
        std::unique_ptr<Team, void (*)(Team*)> fresh(new Team, [](Team* team) { delete team; });
        Team* present = nullptr;
        if (instance_.compare_exchange_strong(present, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
        return *present;
    }

    static int decideSize() {
        int undecided = 0;
        const int fresh = defaultTeamSize();
        return size_.compare_exchange_strong(undecided, fresh, std::memory_order_relaxed) ? fresh : undecided;
    }

    void resize(int wanted) noexcept {
        if (wanted == sizedFor_) return;
        sizedFor_ = wanted;
        if (wanted < participants()) return retireFrom(wanted);
        members_.store(wanted, std::memory_order_relaxed);
        try {
            counters_ = std::make_unique<Counter[]>(static_cast<std::size_t>(wanted));
            workers_.reserve(static_cast<std::size_t>(wanted) - 1);
            const SignalsBlocked blocked;
            while (participants() < wanted) workers_.emplace_back(&Team::serve, this, participants());
        } catch (const std::exception&) {
            members_.store(participants(), std::memory_order_relaxed);  // no more threads to be had: work with these
        }
    }

    void retireFrom(int wanted) noexcept {
        members_.store(wanted, std::memory_order_seq_cst);
        wakes_.fetch_add(1, std::memory_order_seq_cst);
        wakes_.notify_all();
        for (; participants() > wanted; workers_.pop_back()) workers_.back().join();
    }

    void close() {
        std::uint32_t state = state_.fetch_and(~kOpen, std::memory_order_acq_rel);
        if (!(state & kActive)) return;
        const Clock::time_point start = Clock::now();
        for (int turn = 1; (state = state_.load(std::memory_order_acquire)) & kActive; ++turn) {
            pause();
            if (turn % kPausesPerClockRead == 0 && Clock::now() - start > kSpin) break;
        }
        if (!(state & kActive)) return;
        state = state_.fetch_or(kCallerSleeps, std::memory_order_acq_rel) | kCallerSleeps;
        while (state & kActive) {
            state_.wait(state, std::memory_order_acquire);
            state = state_.load(std::memory_order_acquire);
        }
    }

    void serve(int self) noexcept {
        inside_ = true;
        askForShortTurns();
        std::uint32_t last = kNoJob;
        while (join(self, last)) {
            work_.load(std::memory_order_relaxed)(job_.load(std::memory_order_relaxed), self);
            const std::uint32_t before = state_.fetch_sub(1, std::memory_order_acq_rel);
            if ((before & (kCallerSleeps | kActive)) == (kCallerSleeps | 1)) state_.notify_one();
        }
    }

    static bool isOpen(std::uint32_t state, std::uint32_t last) {
        return (state & kOpen) && (state & ~(kGeneration - 1)) != last;
    }

    /// Waits for a job newer than `last` and joins it; false when this worker is to retire.
    bool join(int self, std::uint32_t& last) {
        Clock::time_point start = Clock::now();
        for (int turn = 1;; ++turn) {
            std::uint32_t state = state_.load(std::memory_order_acquire);
            if (isOpen(state, last)) {
                prefetch(job_.load(std::memory_order_relaxed));
                if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) continue;
                last = state & ~(kGeneration - 1);
                return true;
            }
            if (self >= members_.load(std::memory_order_relaxed)) return false;
            pause();
            if (turn % kPausesPerClockRead == 0 && Clock::now() - start > kSpin) {
                sleep(self, last);
                start = Clock::now();
            }
        }
    }

    /// A scheduler likes to wake a thread where it went to sleep, or where its waker is: stepping aside, before and
    /// after, leaves the caller its processor.
    void sleep(int self, std::uint32_t last) {
        stepAside(callersProcessor_.load(std::memory_order_relaxed));
        const std::uint32_t seen = wakes_.load(std::memory_order_seq_cst);
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        const bool wanted =
            isOpen(state_.load(std::memory_order_seq_cst), last) || self >= members_.load(std::memory_order_seq_cst);
        if (!wanted) wakes_.wait(seen, std::memory_order_seq_cst);
        sleepers_.fetch_sub(1, std::memory_order_seq_cst);
        if (wanted) return;
        stepAside(callersProcessor_.load(std::memory_order_relaxed));
        if (state_.load(std::memory_order_relaxed) & kOpen) passWakeOn();
    }

    /// Each sleeper that comes back to an open job wakes two more: the caller pays for one.
    void passWakeOn() {
        for (int more = 0; more < 2 && someoneSleeps(); ++more) wakes_.notify_one();
    }

    // Changes with every job. The work is written while no job is open and used by those who joined one.
    alignas(64) std::atomic<std::uint32_t> state_{0};
    std::atomic<Work> work_{nullptr};
    std::atomic<void*> job_{nullptr};
    // Seldom changes.
    alignas(64) std::atomic<std::uint32_t> wakes_{0};
    std::atomic<int> sleepers_{0};
    std::atomic<int> members_{1};  ///< workers numbered from here on retire
    std::atomic<int> callersProcessor_{kUnknownProcessor};
    // The lease holder's.
    alignas(64) std::atomic_flag busy_;
    int sizedFor_ = 1;
    std::uint64_t counted_ = 0;  ///< the last job's number
    Clock::time_point busySince_, lastEnd_;
    std::unique_ptr<Counter[]> counters_ = std::make_unique<Counter[]>(1);
    std::vector<std::thread> workers_;

    inline static thread_local bool inside_ = false;
    inline static std::atomic<int> size_{0};  ///< 0: not decided yet
    inline static std::atomic<Team*> instance_{nullptr};
    inline static std::atomic<std::uint32_t> forks_{0};
    /// A child has no workers, and perhaps a lease nobody will end: it leaves the old team alone and makes its own.
    inline static const bool forkSafe_ = atFork(nullptr, nullptr, [] {
        instance_.store(nullptr, std::memory_order_relaxed);
        forks_.fetch_add(1, std::memory_order_relaxed);
    });
};

}  // namespace eagle::exec
