// The team: many jobs, several callers, changes of size, exceptions, idleness.
//
// SPDX-License-Identifier: Apache-2.0
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#if __has_include(<sys/resource.h>)
#include <sys/resource.h>
#endif

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
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
    testLeaseIsExclusive();
    CHECK(Team::tryLease());
    launchMany(100, 1 << 19, 4096);  // and the process ends while workers spin
}
