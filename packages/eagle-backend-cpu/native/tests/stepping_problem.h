// Batches of a kernel that notices what a run does wrong, and what a serial loop says of them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"
#include "eagle/stepping/stepRun.h"

using namespace eagle;
using stepping::Batch;
using stepping::Report;

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

struct Thrown {};

/// A column of numbers of some size, in components `pitch` elements apart.
struct Column {
    std::size_t bytes, components;
    bool mirror, writes;
    std::uint64_t pitch = 0;
    std::vector<char> data;
    plugin::GRefMirror box{};
};

inline std::uint64_t loadNumber(const char* from, std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, from, bytes);
    return value;
}
inline std::uint64_t mix(std::uint64_t value, std::uint64_t more) {
    return (value ^ more) * 0x9e3779b97f4a7c15u + (value >> 29);
}

/// What is stepped, and what the entry finds wrong. Slots: what the entry reads first, then mask, counter, word, map,
/// live, then guards and columns.
struct Problem {
    enum Slot { kSelf, kId, kStop, kTaken, kMarks, kMask, kCounter, kWord, kMap, kLive, kGuard, kTotals, kColumns };

    std::int64_t n = 0, cap = 1, unit = 0;
    bool movable = true, unaligned = false, mapped = false, guarded = false, marking = false, leaping = false,
         lingers = false;
    std::int64_t marksFrom = 0;        ///< number of the first sample that `marking` is about
    std::int64_t throwAfter = kNever;  ///< samples visited
    std::vector<std::int64_t> id, stop, taken, marks;
    std::vector<std::uint8_t> mask, guard;
    std::vector<Column> columns;
    std::uint64_t totals[2] = {0, 0};  ///< steps, of samples with even and odd numbers

    mutable std::atomic<std::int64_t> visits{0}, alive{0}, worked{0};
    mutable std::atomic<unsigned char> touched{0};
    mutable std::atomic<bool> overrun{false}, shared{false}, misplaced{false}, idleStepped{false};
    std::unique_ptr<std::atomic<std::uint8_t>[]> busy;

    // What the caller's cells hold: nobody may change it.
    std::uint32_t counter = 77, live = 78;
    std::int64_t word = 79;
    std::vector<std::int32_t> map;

    Problem* self = this;
    plugin::ScalarHandle boxes[kColumns];
    std::vector<void*> params;

    void allocate() {
        const auto size = static_cast<std::size_t>(n);
        id.resize(size), stop.resize(size, kNever), taken.resize(size), marks.resize(size), map.assign(size, -5);
        mask.resize(size), guard.resize(size);
        for (std::size_t i = 0; i < size; ++i) id[i] = static_cast<std::int64_t>(i);
        busy = std::make_unique<std::atomic<std::uint8_t>[]>(size);
        for (Column& column : columns) {
            column.pitch = size + 3;
            column.data.resize((column.pitch * column.components + 1) * column.bytes);
            for (std::size_t k = 0; k < column.data.size(); ++k) column.data[k] = static_cast<char>(k * 31 + 7);
        }
    }

    /// Counts from here on.
    void rebase() {
        for (std::size_t i = 0; i < stop.size(); ++i) {
            if (stop[i] != kNever) stop[i] -= taken[i];
            taken[i] = 0;
        }
        totals[0] = totals[1] = 0;
        visits = 0;
        alive = 0;
    }

    Batch batch() {
        const auto box = [&](Slot slot, void* data) { boxes[slot] = {data, static_cast<std::uint64_t>(n), 1, 1, 0}; };
        box(kId, id.data()), box(kStop, stop.data()), box(kTaken, taken.data()), box(kMarks, marks.data());
        box(kMask, mask.data()), box(kCounter, &counter), box(kWord, &word), box(kMap, map.data());
        box(kLive, &live), box(kGuard, guard.data()), box(kTotals, totals);
        params = {&self};
        for (int slot = kId; slot < kColumns; ++slot) params.push_back(&boxes[slot]);
        for (Column& column : columns) {
            column.box = {column.data.data(), static_cast<std::uint64_t>(n), column.pitch, 1, 1, 0};
            if (!column.mirror) column.box.compStride = 1;  // a handle's stride
            params.push_back(&column.box);
        }
        Batch batch{};
        batch.entry = entry;
        batch.params = params.data();
        batch.nparams = params.size();
        batch.samples = n;
        batch.unit = cap == 1 && unit == 0 ? 1 : unit;
        batch.cap = cap;
        batch.movable = movable;
        batch.unaligned = unaligned;
        batch.overhead = 9;
        batch.planes = {{kId, 8, 1, false, false, false},
                        {kStop, 8, 1, false, false, false},
                        {kTaken, 8, 1, false, true, false},
                        {kMarks, 8, 1, false, true, false}};
        if (guarded) batch.planes.push_back({kGuard, 1, 1, false, false, true});
        for (std::size_t k = 0; k < columns.size(); ++k) {
            const Column& column = columns[k];
            batch.planes.push_back(
                {kColumns + k, column.bytes, column.components, column.mirror, column.writes, false});
        }
        batch.counts = {{kTotals, sizeof totals}};
        batch.mask = kMask;
        batch.counter = kCounter;
        if (unit == 0) batch.word = kWord;
        if (mapped) batch.map = kMap, batch.live = kLive;
        batch.findRows();
        return batch;
    }

    // ---- the entry

    template <class T>
    static T* plane(void* const* params, int slot) {
        return static_cast<T*>(static_cast<const plugin::ScalarHandle*>(params[slot])->data);
    }

    static void entry(void* const* params, std::int64_t base, std::int64_t count, std::int64_t samples) {
        const Problem& problem = **static_cast<Problem* const*>(params[kSelf]);
        std::int64_t end = base + count;
        if (base < 0 || count < 0) problem.misplaced = true;
        if (problem.mapped) end = std::min<std::int64_t>(end, *plane<std::uint32_t>(params, kLive));
        const std::int64_t word = problem.unit ? problem.unit : *plane<std::int64_t>(params, kWord);
        problem.touch(params, base, count);
        std::uint32_t finished = 0;
        for (std::int64_t at = base; at < end; ++at) {
            const std::int64_t i = problem.mapped ? plane<std::int32_t>(params, kMap)[at] : at;
            if (problem.worked.fetch_add(1, std::memory_order_relaxed) >= problem.throwAfter) throw Thrown();
            if (at >= samples && !problem.idle(params, i)) problem.misplaced = true;
            finished += problem.launch(params, i, word);
        }
        if (problem.lingers && finished > 0) std::this_thread::sleep_for(std::chrono::milliseconds(60));
        problem.visits.fetch_add(count, std::memory_order_relaxed);
        std::atomic_ref(*plane<std::uint32_t>(params, kCounter)).fetch_add(finished, std::memory_order_relaxed);
    }

    /// Reads all positions of a launch, as code with vectors does before it looks who is alive.
    void touch(void* const* params, std::int64_t base, std::int64_t count) const {
        unsigned char seen = 0;
        for (std::int64_t at = base; at < base + count; ++at) {
            const std::int64_t i = mapped ? plane<std::int32_t>(params, kMap)[at] : at;
            for (const int slot : {kId, kStop, kTaken, kMarks})
                seen ^= static_cast<unsigned char>(plane<std::int64_t>(params, slot)[i]);
            seen ^= plane<std::uint8_t>(params, kMask)[i];
            if (guarded) seen ^= plane<std::uint8_t>(params, kGuard)[i];
            visitColumns(params, i, [&](const Column& column, char* cell) {
                seen ^= static_cast<unsigned char>(loadNumber(cell, column.bytes));
            });
        }
        touched.fetch_xor(seen, std::memory_order_relaxed);
    }

    bool idle(void* const* params, std::int64_t i) const {
        return plane<std::uint8_t>(params, kMask)[i] || (guarded && plane<std::uint8_t>(params, kGuard)[i]);
    }

    /// One sample of a launch; whether it finished.
    bool launch(void* const* params, std::int64_t i, std::int64_t word) const {
        if (idle(params, i)) return false;
        const std::int64_t self = plane<std::int64_t>(params, kId)[i], last = plane<std::int64_t>(params, kStop)[i];
        if (self < 0 || self >= n || (!movable && self != i)) {
            misplaced = true;
            return false;
        }
        std::int64_t& taken = plane<std::int64_t>(params, kTaken)[i];
        if (word > cap - taken) overrun = true;
        if (word == 1 && unit == 0 && cap != 1 && marking && self >= marksFrom)
            ++plane<std::int64_t>(params, kMarks)[i];
        if (busy[static_cast<std::size_t>(self)].exchange(1, std::memory_order_relaxed)) shared = true;
        alive.fetch_add(1, std::memory_order_relaxed);
        const std::int64_t steps = std::min(word, last - taken);
        if (steps < 1) idleStepped = true;
        std::uint64_t input = static_cast<std::uint64_t>(self);
        visitColumns(params, i, [&](const Column& column, char* cell) {
            if (!column.writes) input = mix(input, loadNumber(cell, column.bytes));
        });
        visitColumns(params, i, [&](const Column& column, char* cell) {
            if (!column.writes) return;
            std::uint64_t value = loadNumber(cell, column.bytes);
            for (std::int64_t s = leaping ? steps : 0; s < steps; ++s) value = stepped(value, input);
            std::memcpy(cell, &value, column.bytes);
        });
        taken += steps;
        std::atomic_ref(plane<std::uint64_t>(params, kTotals)[self % 2])
            .fetch_add(static_cast<std::uint64_t>(steps), std::memory_order_relaxed);
        busy[static_cast<std::size_t>(self)].store(0, std::memory_order_relaxed);
        if (taken < last) return false;
        plane<std::uint8_t>(params, kMask)[i] = 1;
        return true;
    }

    static std::uint64_t stepped(std::uint64_t value, std::uint64_t input) { return value * 5 + input; }

    /// visit(column, where component c of sample i is).
    template <class Visit>
    void visitColumns(void* const* params, std::int64_t i, Visit visit) const {
        for (std::size_t k = 0; k < columns.size(); ++k) {
            const auto& box = *static_cast<const plugin::GRefMirror*>(params[kColumns + k]);
            for (std::size_t c = 0; c < columns[k].components; ++c) {
                const std::uint64_t cell = c * (columns[k].mirror ? box.compStride : 0) + static_cast<std::uint64_t>(i);
                visit(columns[k], static_cast<char*>(box.data) + cell * columns[k].bytes);
            }
        }
    }
};

/// A problem before and after runs.
class Check {
public:
    explicit Check(Problem& problem)
        : problem_(problem),
          mask_(problem.mask),
          guard_(problem.guard),
          stop_(problem.stop),
          columns_(problem.columns) {}

    /// Samples took the steps they say; all they could where the run was not cut short.
    void samples(bool all) const {
        const Problem& p = problem_;
        CHECK(!p.overrun && !p.shared && !p.misplaced && !p.idleStepped);
        CHECK(p.counter == 77 && p.live == 78 && p.word == 79);
        CHECK(std::count(p.map.begin(), p.map.end(), -5) == p.n);
        CHECK(p.guard == guard_ && p.stop == stop_);
        for (std::size_t i = 0; i < mask_.size(); ++i) {
            const std::int64_t most = std::min(p.stop[i], p.cap);
            CHECK(p.id[i] == static_cast<std::int64_t>(i) && p.marks[i] == 0);
            if (idle(i)) {
                CHECK(p.taken[i] == 0 && p.mask[i] == mask_[i]);
            } else {
                CHECK(all ? p.taken[i] == most : p.taken[i] <= most);
                CHECK(p.mask[i] == (p.taken[i] == p.stop[i]));
            }
        }
        std::uint64_t totals[2] = {0, 0};  // wraps where samples leap
        for (std::size_t i = 0; i < mask_.size(); ++i) totals[i % 2] += static_cast<std::uint64_t>(p.taken[i]);
        CHECK(p.totals[0] == totals[0] && p.totals[1] == totals[1]);
        if (p.leaping) {
            for (std::size_t k = 0; k < columns_.size(); ++k) CHECK(p.columns[k].data == columns_[k].data);
        } else {
            columns();
        }
    }

    void report(const Report& report) const {
        const Problem& p = problem_;
        std::int64_t most = 0;
        for (std::size_t i = 0; i < mask_.size(); ++i) most = std::max(most, p.taken[i]);
        CHECK(report.finished == p.n - std::count(p.mask.begin(), p.mask.end(), 0));
        CHECK(p.alive <= report.visits && report.visits <= p.visits);
        CHECK(report.exact ? report.steps == most : report.steps >= most);
        CHECK(report.exact || p.unit > 1 || p.marking);
    }

private:
    bool idle(std::size_t i) const { return mask_[i] || (problem_.guarded && guard_[i]); }

    void columns() const {
        std::vector<Column> expected = columns_;
        for (std::size_t i = 0; i < mask_.size(); ++i) {
            const auto cell = [&](Column& column, std::size_t c) {
                return column.data.data() + (c * column.pitch + i) * column.bytes;
            };
            std::uint64_t input = i;
            for (Column& column : expected)
                for (std::size_t c = 0; !column.writes && c < column.components; ++c)
                    input = mix(input, loadNumber(cell(column, c), column.bytes));
            for (Column& column : expected) {
                for (std::size_t c = 0; column.writes && c < column.components; ++c) {
                    std::uint64_t value = loadNumber(cell(column, c), column.bytes);
                    for (std::int64_t s = 0; s < problem_.taken[i]; ++s) value = Problem::stepped(value, input);
                    std::memcpy(cell(column, c), &value, column.bytes);
                }
            }
        }
        for (std::size_t k = 0; k < expected.size(); ++k) CHECK(problem_.columns[k].data == expected[k].data);
    }

    const Problem& problem_;
    const std::vector<std::uint8_t> mask_, guard_;
    const std::vector<std::int64_t> stop_;
    const std::vector<Column> columns_;
};
