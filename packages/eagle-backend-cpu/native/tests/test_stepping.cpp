// The stepping engine against a loop that steps one sample after another: random batches, and all that can go wrong.
//
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "check.h"
#include "eagle/stepping/stepRun.h"
#include "stepping_problem.h"

using exec::Team;

namespace {

std::atomic<std::int64_t> allocationsLeft{kNever};  ///< 0: the next one fails

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
    if (allocationsLeft.load() != kNever && allocationsLeft.fetch_sub(1) <= 0) throw std::bad_alloc();
    if (void* block = std::malloc(bytes ? bytes : 1)) return block;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept { std::free(block); }

namespace {

using Random = std::mt19937_64;

std::int64_t between(Random& random, std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}
bool chance(Random& random, double share) { return std::uniform_real_distribution<>(0, 1)(random) < share; }

// ---- random batches

std::int64_t randomStop(Random& random, int kind, std::int64_t longest) {
    switch (kind) {
        case 0:
            return longest;
        case 1:
            return between(random, 1, longest);
        case 2:
            return std::max<std::int64_t>(
                1,
                static_cast<std::int64_t>(std::exp2(std::uniform_real_distribution<>(0, std::log2(longest))(random))));
        case 3:
            return chance(random, 0.98) ? between(random, 1, 2) : longest;
        case 4:
            return chance(random, 0.5) ? std::max<std::int64_t>(1, longest / 16) : longest;
        default:
            return chance(random, 0.1) ? kNever : between(random, 1, longest);
    }
}

void fill(Problem& problem, Random& random) {
    constexpr std::int64_t kEdges[] = {0, 1, 2, 63, 64, 65, 127, 128, 129, 255, 256, 257, 300, 511, 1025, 2600};
    constexpr std::int64_t kUnits[] = {0, 0, 0, 0, 1, 1, 2, 3, 7, 64};
    problem.n = kEdges[random() % std::size(kEdges)];
    problem.unit = kUnits[random() % std::size(kUnits)];
    problem.movable = chance(random, 0.7);
    problem.unaligned = chance(random, 0.5);
    problem.mapped = chance(random, 0.3);
    problem.guarded = chance(random, 0.3);
    problem.marking = problem.unit == 0 && chance(random, 0.2);
    for (std::int64_t k = between(random, 0, 4); k > 0; --k) {
        Column column{std::size_t{1} << between(random, 0, 3), 1, chance(random, 0.5), chance(random, 0.6), 0, {}, {}};
        if (column.mirror) column.components = static_cast<std::size_t>(between(random, 1, 5));
        problem.columns.push_back(column);
    }
    problem.allocate();
    const std::int64_t longest = std::int64_t{1} << between(random, 0, 8),
                       unit = std::max<std::int64_t>(problem.unit, 1);
    const int kind = static_cast<int>(between(random, 0, 5));
    for (std::int64_t& stop : problem.stop) stop = randomStop(random, kind, longest);
    const std::int64_t caps[] = {1, 2, 3, 4, 5, longest - 1, longest, longest + 1, 2 * longest, 1000};
    problem.cap = (std::max<std::int64_t>(caps[random() % std::size(caps)], 1) + unit - 1) / unit * unit;
    const double set = chance(random, 0.3) ? 0.5 : 0;
    for (std::uint8_t& done : problem.mask) done = chance(random, set);
    for (std::uint8_t& idle : problem.guard) idle = chance(random, 0.2) ? 3 : 0;
}

void runOne(std::uint64_t seed, int threads) {
    Random random(seed);
    Problem problem;
    fill(problem, random);
    const Check check(problem);
    const Batch batch = problem.batch();
    check.report(stepping::stepRun(batch, threads, nullptr, nullptr));
    check.samples(true);
    problem.rebase();  // goes on where the cap ended it
    const Check again(problem);
    again.report(stepping::stepRun(batch, threads, nullptr, nullptr));
    again.samples(true);
}

void testRandom(int runs) {
    for (int k = 0; k < runs; ++k) {
        const int threads = k % 8 + 1;
        Team::setSize(threads);
        runOne(static_cast<std::uint64_t>(k), threads);
    }
}

void testSeveralCallers(int runs) {
    Team::setSize(3);
    std::vector<std::thread> callers;
    for (int t = 0; t < 4; ++t) {
        callers.emplace_back([t, runs] {
            for (int k = 0; k < runs; ++k) runOne(static_cast<std::uint64_t>(100'000 * (t + 1) + k), 8);
        });
    }
    for (std::thread& caller : callers) caller.join();
}

// ---- edges

/// Every cap and every stop of a few steps.
void testSmallNumbers() {
    Team::setSize(1);
    for (const bool movable : {false, true}) {
        for (std::int64_t unit = 0; unit < 4; ++unit) {
            for (std::int64_t cap = 1; cap < 14; ++cap) {
                for (std::int64_t first = 1; first < 14; ++first) {
                    Problem problem;
                    problem.n = 3;
                    problem.unit = unit;
                    problem.cap = unit ? (cap + unit - 1) / unit * unit : cap;
                    problem.movable = movable;
                    problem.allocate();
                    problem.stop = {first, 14 - first, std::max<std::int64_t>(first - 1, 1)};
                    const Check check(problem);
                    check.report(stepping::stepRun(problem.batch(), 1, nullptr, nullptr));
                    check.samples(true);
                }
            }
        }
    }
}

/// Numbers of steps at the end of what 64 bits hold: an entry that leaps takes no time for them.
void testHugeNumbers() {
    Team::setSize(2);
    Random random(5);
    for (const std::int64_t unit :
         {std::int64_t{0}, std::int64_t{1} << 31, std::int64_t{1} << 61, (kNever >> 1) + 1, kNever}) {
        for (const std::int64_t less : {0, 1, 2, 3, 63}) {
            Problem problem;
            problem.n = 600;
            problem.unit = unit;
            problem.cap = unit ? kNever / unit * unit : kNever - less;
            problem.leaping = true;
            problem.movable = less % 2 == 0;
            problem.allocate();
            for (std::size_t i = 0; i < problem.stop.size(); ++i) {
                const std::int64_t early = between(random, 1, 1000);
                problem.stop[i] = unit < kNever / 8 ? early * early
                                  : i % 3 == 0      ? kNever - early
                                  : i % 3 == 1      ? early
                                                    : kNever;
            }
            const Check check(problem);
            check.report(stepping::stepRun(problem.batch(), 2, nullptr, nullptr));
            check.samples(true);
        }
    }
}

/// Samples of so many bytes that lanes of them would fill the memory.
void testLargeSamples() {
    Team::setSize(2);
    for (int k = 0; k < 16; ++k) {
        const std::size_t bytes = k % 2 ? 8 : 2;
        Problem problem;
        problem.n = 203;
        problem.cap = 20;
        problem.movable = k / 2 % 2;
        problem.mapped = k / 4 % 2;
        problem.unit = k / 8 % 2;
        problem.columns = {{8, std::size_t(k % 3 ? 700 : 5000), true, true, 0, {}, {}},
                           {bytes, 600, true, false, 0, {}, {}}};
        problem.allocate();
        for (std::size_t i = 0; i < problem.stop.size(); ++i) problem.stop[i] = 1 + static_cast<std::int64_t>(i) % 9;
        const Check check(problem);
        check.report(stepping::stepRun(problem.batch(), 2, nullptr, nullptr));
        check.samples(true);
    }
}

// ---- runs that end early

struct Stopper {
    std::thread::id caller;
    int left;
    std::int64_t finished = 0, steps = 0;
};

std::int32_t stopSoon(void* context, std::int64_t finished, std::int64_t steps) {
    auto& stopper = *static_cast<Stopper*>(context);
    CHECK(std::this_thread::get_id() == stopper.caller);
    CHECK(finished >= stopper.finished && steps >= stopper.steps);
    stopper.finished = finished, stopper.steps = steps;
    return --stopper.left == 0;
}

void testPoll() {
    for (int k = 0; k < 6; ++k) {
        Team::setSize(k % 3 + 1);
        Problem problem;
        problem.n = 4000;
        problem.unit = k < 3 ? 0 : k;
        problem.cap = kNever / 8 / 60 * 60;
        problem.columns = {{8, 1, false, true, 0, {}, {}}};
        problem.allocate();
        Random random(static_cast<std::uint64_t>(k));
        for (std::int64_t& stop : problem.stop) stop = randomStop(random, 5, 5000);
        const Check check(problem);
        Stopper stopper{std::this_thread::get_id(), 2};
        const Report report = stepping::stepRun(problem.batch(), 3, stopSoon, &stopper);
        CHECK(report.stopped && stopper.left == 0);
        check.report(report);
        check.samples(false);
    }
}

/// Takes the planes away and says so.
std::int32_t robPlanes(void* context, std::int64_t, std::int64_t) {
    auto& problem = *static_cast<Problem*>(context);
    for (auto* plane : {&problem.id, &problem.stop, &problem.taken, &problem.marks})
        std::vector<std::int64_t>().swap(*plane);
    for (auto* plane : {&problem.mask, &problem.guard}) std::vector<std::uint8_t>().swap(*plane);
    problem.columns.front().data = std::vector<char>();
    return stepping::kAbandon;
}

void testAbandoned() {
    Team::setSize(1);
    for (int k = 0; k < 24; ++k) {
        Problem problem;
        problem.n = 200;
        problem.lingers = k >= 12;  // the poll comes right behind a launch in which all finish
        problem.cap = kNever / 2 / 3 * 3;
        problem.unit = k % 3 == 2 ? 3 : k % 3;
        problem.movable = k / 3 % 2;
        problem.mapped = k / 6 % 2;
        problem.columns = {{8, 2, true, true, 0, {}, {}}};
        problem.allocate();
        if (problem.lingers) std::fill(problem.stop.begin(), problem.stop.end(), 20'000);
        const Report report = stepping::stepRun(problem.batch(), 1, robPlanes, &problem);
        CHECK(report.stopped == problem.mask.empty() && (report.stopped || problem.lingers));
    }
}

/// The entry throws in the middle of a launch: whatever it had stepped till then is kept.
void testThrow(int runs) {
    int thrown = 0;
    for (int k = 0; k < runs; ++k) {
        const int threads = k % 4 + 1;
        Team::setSize(threads);
        Random random(static_cast<std::uint64_t>(k) + 7000);
        Problem problem;
        fill(problem, random);
        problem.throwAfter = between(random, 0, 4 * problem.n);
        const Check check(problem);
        try {
            check.report(stepping::stepRun(problem.batch(), threads, nullptr, nullptr));
        } catch (const Thrown&) {
            ++thrown;
        }
        check.samples(false);
    }
    CHECK(thrown > runs / 4);
}

/// Memory runs out, anywhere.
void testNoMemory() {
    for (int threads = 1; threads < 4; ++threads) {
        Team::setSize(threads);
        runOne(1, threads);  // brings the team up
        int failed = 0;
        for (std::int64_t left = 0; left < 120; ++left) {
            Problem problem;
            problem.n = 3000;
            problem.cap = 500;
            problem.columns = {{8, 2, true, true, 0, {}, {}}};
            problem.allocate();
            Random random(static_cast<std::uint64_t>(left));
            for (std::int64_t& stop : problem.stop) stop = randomStop(random, 2, 400);
            const Check check(problem);
            const Batch batch = problem.batch();
            std::optional<Report> report;
            allocationsLeft = left;
            try {
                report = stepping::stepRun(batch, threads, nullptr, nullptr);
            } catch (const std::bad_alloc&) {
                ++failed;
            }
            allocationsLeft = kNever;
            check.samples(report.has_value());
            if (report) check.report(*report);
        }
        CHECK(failed > 5 && failed < 120);
    }
}

void testFork() {
    Team::setSize(3);
    for (int k = 0; k < 20; ++k) {
        runOne(static_cast<std::uint64_t>(k), 3);
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(60);
            for (int more = 0; more < 5; ++more) runOne(static_cast<std::uint64_t>(50 + more), 3);
            _exit(0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const int runs = argc > 1 ? std::atoi(argv[1]) : 300;
    testFork();
    testSmallNumbers();
    testRandom(runs);
    testSeveralCallers(runs / 8);
    testHugeNumbers();
    testLargeSamples();
    testThrow(runs / 4);
    testPoll();
    testAbandoned();
    testNoMemory();
}
