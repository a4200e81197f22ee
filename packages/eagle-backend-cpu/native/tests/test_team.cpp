// The team: many jobs, several callers, changes of size, exceptions, idleness.
//
// SPDX-License-Identifier: Apache-2.0
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#if __has_include(<sys/resource.h>)
#include <sys/resource.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"
#include "eagle/exec/HostTeam.h"

using namespace eagle;
using exec::Team;

namespace {

using Clock = std::chrono::steady_clock;

void addOne(void* const* params, std::int64_t base, std::int64_t count, std::int64_t) {
    auto* values = static_cast<std::int64_t*>(params[0]);
    for (std::int64_t i = base; i < base + count; ++i) ++values[i];
}

void launchMany(int launches, std::int64_t samples, std::int64_t grain) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(samples));
    void* params[] = {values.data()};
    for (int k = 0; k < launches; ++k) exec::run(addOne, params, {0, samples, samples}, grain);
    for (std::int64_t value : values) CHECK(value == launches);
}

void testManyJobs() {
    for (int threads : {1, 2, 3, 8}) {
        Team::setSize(threads);
        launchMany(3000, 1024, 64);
        launchMany(20, 1 << 19, 4096);
        CHECK(Team::tryLease()->participants() == threads);
    }
}

void testSeveralCallers() {
    Team::setSize(3);
    std::vector<std::thread> callers;
    for (int t = 0; t < 4; ++t) callers.emplace_back([] { launchMany(1500, 4096, 64); });
    for (std::thread& caller : callers) caller.join();
}

void testResizeWhileRunning() {
    std::atomic<bool> stop{false};
    std::thread resizer([&] {
        for (int n = 1; !stop; n = n % 7 + 1) {
            Team::setSize(n);
            std::this_thread::yield();
        }
    });
    std::thread other([] { launchMany(1000, 4096, 64); });
    launchMany(1000, 4096, 64);
    other.join();
    stop = true;
    resizer.join();
    CHECK(Team::setSize(-5) >= 1);
    CHECK(Team::setSize(1 << 30) == 1);
    CHECK(Team::setSize(2) == exec::kMaxTeamSize);
}

void throwAtEnd(void* const* params, std::int64_t base, std::int64_t count, std::int64_t samples) {
    if (base + count == samples) throw std::runtime_error("at the end");
    addOne(params, base, count, samples);
}

void throwOnWorkers(void* const* params, std::int64_t, std::int64_t, std::int64_t) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (std::this_thread::get_id() != *static_cast<const std::thread::id*>(params[0])) throw 42;
}

void testExceptions() {
    Team::setSize(3);
    std::vector<std::int64_t> values(8192);
    void* params[] = {values.data()};
    for (int k = 0; k < 200; ++k) {
        bool caught = false;
        try {
            exec::run(throwAtEnd, params, {0, 8192, 8192}, k % 2 ? 64 : 8192);
        } catch (const std::runtime_error& error) {
            caught = std::string(error.what()) == "at the end";
        }
        CHECK(caught);
    }
    auto self = std::this_thread::get_id();
    params[0] = &self;
    bool fromWorker = false;
    for (int k = 0; k < 100 && !fromWorker; ++k) {
        try {
            exec::run(throwOnWorkers, params, {0, 1 << 20, 1 << 20}, 64);
        } catch (int value) {
            fromWorker = value == 42;
        }
    }
    CHECK(fromWorker);
    launchMany(500, 4096, 64);
}

void launchInside(void* const* params, std::int64_t base, std::int64_t count, std::int64_t samples) {
    CHECK(!Team::tryLease());
    exec::run(addOne, params, {base, count, samples}, 1);
}

void testNestedLaunch() {
    Team::setSize(3);
    std::vector<std::int64_t> values(8192);
    void* params[] = {values.data()};
    for (int k = 1; k <= 200; ++k) {
        exec::run(launchInside, params, {0, 8192, 8192}, 64);
        CHECK(std::accumulate(values.begin(), values.end(), std::int64_t{0}) == 8192ll * k);
    }
}

void sleepABit(void* const* params, std::int64_t, std::int64_t, std::int64_t) {
    static_cast<std::atomic<int>*>(params[0])->fetch_add(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

/// Sleepers are woken for a launch that proves long, though its count is small; 16 sleeping pieces overlap then.
void testSleepersAreWoken() {
    Team::setSize(4);
    launchMany(1, 4096, 64);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::atomic<int> pieces{0};
    void* params[] = {&pieces};
    const auto start = Clock::now();
    exec::run(sleepABit, params, {0, 64 * 64, 64 * 64}, 64);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    CHECK(pieces == 64);
    CHECK(seconds < 0.9 * 64 * 2e-3);
}

void testIdleTeamBurnsNothing() {
    Team::setSize(4);
    launchMany(10, 1 << 19, 4096);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::clock_t before = std::clock();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    CHECK(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC < 0.05);
}

#if __has_include(<sys/resource.h>) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// Where the system gives no more threads, launches do with those there are.
void testThreadsRunOut() {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        const rlimit tight{1ull << 29, 1ull << 29};
        CHECK(setrlimit(RLIMIT_AS, &tight) == 0);
        Team::setSize(exec::kMaxTeamSize);
        launchMany(100, 4096, 64);
        const int got = Team::tryLease()->participants();
        CHECK(got >= 1 && got < exec::kMaxTeamSize);
        Team::setSize(2);
        launchMany(100, 4096, 64);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#else
void testThreadsRunOut() {}
#endif

/// Launches come at every distance from the moment workers fall asleep.
void testLaunchesAroundSleep() {
    Team::setSize(3);
    for (int k = 0; k < 400; ++k) {
        launchMany(1, k % 2 ? 1 << 18 : 4096, 64);
        const auto start = Clock::now();
        while (Clock::now() - start < std::chrono::microseconds(k % 100)) exec::pause();
    }
}

/// Each participant begins with the same turns of every job, wherever the others are: their planes are in its caches.
void testTurnsKeepTheirThreads() {
    constexpr std::int64_t kTurns = 8;
    for (const int size : {2, 3, 4}) {
        Team::setSize(size);
        const Team::Lease team = Team::tryLease();
        CHECK(team && team->participants() == size);
        std::vector<std::thread::id> owners;
        for (int job = 0; job < 50; ++job) {
            std::mutex mutex;
            std::vector<std::pair<std::thread::id, std::int64_t>> began;
            eagle::exec::forEach(*team, kTurns, true, [&](std::int64_t turn) {
                const auto here = std::this_thread::get_id();
                const auto isIn = [&](const auto& one) { return one.first == here; };
                std::unique_lock lock(mutex);
                if (std::none_of(began.begin(), began.end(), isIn)) began.emplace_back(here, turn);
                while (static_cast<int>(began.size()) < size) {  // nobody helps before all have come
                    lock.unlock();
                    team->wake();
                    std::this_thread::yield();
                    lock.lock();
                }
            });
            std::sort(began.begin(), began.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
            for (int k = 0; k < size; ++k) CHECK(began[static_cast<std::size_t>(k)].second == kTurns * k / size);
            if (owners.empty())
                for (const auto& [thread, turn] : began) owners.push_back(thread);
            for (int k = 0; k < size; ++k) {
                const auto at = static_cast<std::size_t>(k);
                CHECK(began[at].first == owners[at]);
            }
        }
    }
}

/// A job that bears the number of an old one, whose counters nobody has touched since.
void testNumbersOfJobsComeAgain() {
    constexpr int kNumbers = (1 << 16) - 1;
    Team::setSize(4);
    const Team::Lease team = Team::tryLease();
    CHECK(team);
    for (int round = 0; round < 3; ++round) {
        std::atomic<int> taken[40] = {};
        eagle::exec::forEach(*team, 40, false, [&](std::int64_t turn) { ++taken[turn]; });
        for (const auto& each : taken) CHECK(each == 1);
        for (int job = 1; job < kNumbers; ++job)
            eagle::exec::forEach(*team, 1, false, [&](std::int64_t turn) { ++taken[turn]; });
        CHECK(taken[0] == kNumbers);
    }
}

void testLeaseIsExclusive() {
    const Team::Lease lease = Team::tryLease();
    CHECK(lease);
    CHECK(!Team::tryLease());
    std::thread([] {
        CHECK(!Team::tryLease());
        launchMany(3, 4096, 64);
    }).join();
}

}  // namespace

int main() {
    testManyJobs();
    testSeveralCallers();
    testResizeWhileRunning();
    testExceptions();
    testNestedLaunch();
    testSleepersAreWoken();
    testIdleTeamBurnsNothing();
    testThreadsRunOut();
    testLaunchesAroundSleep();
    testTurnsKeepTheirThreads();
    testNumbersOfJobsComeAgain();
    testLeaseIsExclusive();
    CHECK(Team::tryLease());
    launchMany(100, 1 << 19, 4096);  // and the process ends while workers spin
}
