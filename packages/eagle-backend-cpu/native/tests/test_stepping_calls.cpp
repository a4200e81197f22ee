// The calls a run of the stepping engine makes, one by one: how many steps, of whom, on which thread, and until when.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "check.h"
#include "eagle/stepping/stepRun.h"
#include "stepping_problem.h"

using exec::Team;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

/// Samples that never finish. Slots: self, steps taken, mask, counter, word.
struct Endless {
    std::function<void(std::int64_t word, std::int64_t count)> call;  ///< at the start of each launch
    std::vector<std::int64_t> taken;
    std::vector<std::uint8_t> mask;
    std::uint32_t counter = 0;
    std::int64_t word = 0;
    Endless* self = this;
    plugin::ScalarHandle boxes[4]{};
    void* params[5] = {&self, &boxes[0], &boxes[1], &boxes[2], &boxes[3]};
    Batch batch{};

    Endless(std::size_t n, std::int64_t unit, std::int64_t cap, double overhead) : taken(n), mask(n) {
        void* const data[] = {taken.data(), mask.data(), &counter, &word};
        for (int i = 0; i < 4; ++i) boxes[i].data = data[i];
        batch.entry = entry;
        batch.params = params;
        batch.nparams = std::size(params);
        batch.samples = static_cast<std::int64_t>(n);
        batch.unit = unit;
        batch.cap = cap;
        batch.movable = true;
        batch.overhead = overhead;
        batch.planes = {{1, 8, 1, false, true, false}};
        batch.mask = 2;
        batch.counter = 3;
        if (unit == 0) batch.word = 4;
        batch.findRows();
        CHECK(batch.vector == 16);
    }

    template <class T>
    static T* cells(void* const* params, int slot) {
        return static_cast<T*>(static_cast<const plugin::ScalarHandle*>(params[slot])->data);
    }

    static void entry(void* const* params, std::int64_t base, std::int64_t count, std::int64_t) {
        const Endless& kernel = **static_cast<Endless* const*>(params[0]);
        const std::int64_t word = kernel.batch.unit ? kernel.batch.unit : *cells<std::int64_t>(params, 4);
        kernel.call(word, count);
        for (std::int64_t i = base; i < base + count; ++i)
            if (!cells<std::uint8_t>(params, 2)[i]) cells<std::int64_t>(params, 1)[i] += word;
    }
};

/// Answers when asked, and says who asked.
struct Poll {
    std::function<std::int32_t(int times)> answer;
    int times = 0;
    std::set<std::thread::id> threads{};
    std::mutex mutex{};

    static std::int32_t ask(void* context, std::int64_t, std::int64_t) {
        auto& poll = *static_cast<Poll*>(context);
        const std::lock_guard lock(poll.mutex);
        poll.threads.insert(std::this_thread::get_id());
        return poll.answer(++poll.times);
    }
};

// ---- how many steps

/// A call that takes long is cut, but never so that one step is left of an entry that takes several, nor down to one.
void testLongCalls() {
    Endless kernel(2048, 0, 13, 1e-6);  // ages 8 and 13
    std::vector<std::int64_t> words, expected;
    kernel.call = [&](std::int64_t word, std::int64_t count) {
        CHECK(count % 16 == 0);
        words.push_back(word);
        std::this_thread::sleep_for(milliseconds(6 * word));
    };
    const Report report = stepping::stepRun(kernel.batch, 1, nullptr, nullptr);
    CHECK(report.steps == 13 && report.exact && !report.stopped && report.finished == 0);
    // 16 samples and two blocks of 256 before the clock is looked at; then five blocks, and one of 240.
    for (int k = 0; k < 3; ++k) expected.insert(expected.end(), {8, 5});
    for (int k = 0; k < 6; ++k) expected.insert(expected.end(), {2, 2, 2, 2, 2, 3});
    CHECK(words == expected);
    CHECK(std::count(kernel.taken.begin(), kernel.taken.end(), 13) == 2048);
}

/// Lists name whom a launch steps, and some that take no step where that makes a vector whole.
void testWholeVectors() {
    Team::setSize(1);
    Problem problem;  // by lists, where they must keep their places: 40, 30, 20, 10 of them for 16 steps each
    problem.n = 40;
    problem.unit = 16;
    problem.cap = 80;
    problem.movable = false;
    problem.mapped = true;
    problem.allocate();
    for (std::size_t i = 0; i < 40; ++i) problem.stop[i] = static_cast<std::int64_t>(16 * (3 - i % 4) + 1 + i % 16);
    const Check check(problem);
    Batch batch = problem.batch();
    batch.overhead = 1e-6;
    CHECK(batch.vector == 16);
    const Report report = stepping::stepRun(batch, 1, nullptr, nullptr);
    check.samples(true);
    CHECK(report.visits == 40 + 30 + 20 + 10 && problem.alive == report.visits);
    CHECK(problem.visits == 48 + 32 + 32 + 16);  // whole vectors
    CHECK(report.finished == 40 && report.steps == 64 && !report.exact);
}

/// In lanes samples are no more than there are, though vectors are whole.
void testVisits() {
    Problem problem;
    problem.n = 100;
    problem.unit = 1;
    problem.cap = 3;
    problem.allocate();
    std::fill(problem.mask.begin() + 10, problem.mask.begin() + 90, std::uint8_t{1});
    const Check check(problem);
    const Report report = stepping::stepRun(problem.batch(), 1, nullptr, nullptr);
    check.samples(true);
    CHECK(report.visits == 20 * 3 && problem.visits == 32 * 3 && problem.alive == 20 * 3);
    CHECK(report.finished == 80 && report.steps == 3 && report.exact);
}

// ---- until when

/// No call follows an answer to stop, be the next look far away; and the answer is asked for every 50 ms.
void testStop() {
    for (int k = 0; k < 4; ++k) {
        Endless kernel(64, k % 2, kNever, 1e12);
        kernel.batch.movable = k < 2;
        std::int64_t calls = 0, atStop = 0;
        kernel.call = [&](std::int64_t word, std::int64_t) {
            ++calls;
            std::this_thread::sleep_for(std::chrono::microseconds(200 * word));
        };
        const Clock::time_point begin = Clock::now();
        Clock::duration asked{};
        Poll poll{[&](int) {
            atStop = calls;
            asked = Clock::now() - begin;
            return 1;
        }};
        const Report report = stepping::stepRun(kernel.batch, 1, Poll::ask, &poll);
        CHECK(report.stopped && poll.times == 1 && calls == atStop);
        CHECK(asked >= milliseconds(50) && asked < milliseconds(4000));
        CHECK(report.steps == kernel.taken[0] && report.exact);
        CHECK(std::count(kernel.taken.begin(), kernel.taken.end(), report.steps) == 64);
    }
}

constexpr int kTooLong = 200;  ///< times asked, of 50 ms at least

/// Workers step samples, and the caller alone asks.
void testCallerAsks() {
    Team::setSize(2);
    for (const bool movable : {true, false}) {
        const std::thread::id caller = std::this_thread::get_id();
        Endless kernel(4096, 1, kNever, 9);
        kernel.batch.movable = movable;
        std::atomic<int> callsElsewhere{0};
        kernel.call = [&](std::int64_t, std::int64_t) {
            const bool here = std::this_thread::get_id() == caller;
            if (!here) ++callsElsewhere;
            std::this_thread::sleep_for(std::chrono::microseconds(here ? 1000 : 200));
        };
        Poll poll{[&](int times) { return (times >= 6 && callsElsewhere > 400) || times >= kTooLong; }};
        const Report report = stepping::stepRun(kernel.batch, 2, Poll::ask, &poll);
        CHECK(report.stopped && callsElsewhere > 400 && poll.times < kTooLong);
        CHECK(poll.threads == std::set{caller});
    }
    Team::setSize(1);
}

/// What a worker throws ends the run for all.
void testThrowElsewhere() {
    Team::setSize(2);
    const std::thread::id caller = std::this_thread::get_id();
    Endless kernel(4096, 1, kNever, 9);
    kernel.call = [&](std::int64_t, std::int64_t) {
        if (std::this_thread::get_id() != caller) throw Thrown();
        std::this_thread::sleep_for(milliseconds(1));
    };
    Poll poll{[&](int times) { return times >= kTooLong; }};
    bool thrown = false;
    try {
        stepping::stepRun(kernel.batch, 2, Poll::ask, &poll);
    } catch (const Thrown&) {
        thrown = true;
    }
    CHECK(thrown && poll.times < kTooLong);
    Team::setSize(1);
}

/// The entry throws in its 11th call, of 64 samples in lanes, with five of them stepped.
void testThrowInLanes() {
    Problem problem;
    problem.n = 64;
    problem.unit = 1;
    problem.cap = 1000;
    problem.columns = {{8, 2, true, true, 0, {}, {}}};
    problem.allocate();
    problem.throwAfter = 10 * 64 + 5;
    const Check check(problem);
    bool thrown = false;
    try {
        stepping::stepRun(problem.batch(), 1, nullptr, nullptr);
    } catch (const Thrown&) {
        thrown = true;
    }
    CHECK(thrown);
    check.samples(false);
    for (std::size_t i = 0; i < 64; ++i) CHECK(problem.taken[i] == (i < 5 ? 11 : 10));
}

/// The entry throws in a block where it lies, while the rest of another is in lanes: that comes back as it was.
void testThrowBesideLanes() {
    Problem problem;
    problem.n = 128;
    problem.cap = 1000;
    problem.allocate();
    std::fill(problem.stop.begin(), problem.stop.begin() + 60, 2);
    problem.throwAfter = 64 + 7;
    const Check check(problem);
    bool thrown = false;
    try {
        stepping::stepRun(problem.batch(), 1, nullptr, nullptr);
    } catch (const Thrown&) {
        thrown = true;
    }
    CHECK(thrown);
    check.samples(false);
    const std::int64_t first = problem.taken[63];
    CHECK(first >= 8 && std::count(problem.taken.begin() + 60, problem.taken.begin() + 64, first) == 4);
    const std::int64_t then = problem.taken[64];
    CHECK(then >= 2 && std::count(problem.taken.begin() + 64, problem.taken.begin() + 71, then) == 7);
    CHECK(std::count(problem.taken.begin() + 71, problem.taken.end(), 0) == 57);
}

}  // namespace

int main() {
    testLongCalls();
    testWholeVectors();
    testVisits();
    testStop();
    testCallerAsks();
    testThrowElsewhere();
    testThrowInLanes();
    testThrowBesideLanes();
}
