// Samples in lanes, and what a batch says of itself, against loops over one sample after another.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "check.h"
#include "eagle/stepping/Lanes.h"

using namespace eagle;
using stepping::Batch;
using stepping::Lanes;
using stepping::Layout;

namespace {

using Indices = std::vector<std::int32_t>;
using Bytes = std::vector<std::uint8_t>;

std::mt19937_64 random64(3);

std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random64);
}

/// Eight by eight all the same or not: set bytes are any but 0, be their low or high bits the ones.
Bytes randomMask(std::int64_t n) {
    constexpr std::uint8_t kSet[] = {1, 0x80, 0xff, 3};
    Bytes mask(static_cast<std::size_t>(n));
    for (std::size_t i = 0, kind = 0; i < mask.size(); ++i) {
        if (i % 8 == 0) kind = random64() % 6;
        mask[i] = kind < 4 ? kSet[kind] : kind == 4 ? 0 : random64() % 2 ? kSet[random64() % 4] : 0;
    }
    return mask;
}

Indices where(const Bytes& mask, bool set) {
    Indices found;
    for (std::size_t i = 0; i < mask.size(); ++i)
        if ((mask[i] != 0) == set) found.push_back(static_cast<std::int32_t>(i));
    return found;
}

void testPositions() {
    for (std::int64_t n = 0; n <= 130; ++n) {
        for (int round = 0; round < 60; ++round) {
            const Bytes mask = randomMask(n);
            Indices found(static_cast<std::size_t>(n) + 1, -1);
            const auto checkFound = [&](const Indices& expected, std::int64_t count) {
                CHECK(count == static_cast<std::int64_t>(expected.size()) && found[expected.size()] == -1);
                CHECK(std::equal(expected.begin(), expected.end(), found.begin()));
                std::fill(found.begin(), found.end(), -1);
            };
            checkFound(where(mask, true), stepping::positions<true>(mask.data(), n, found.data()));
            checkFound(where(mask, false), stepping::positions<false>(mask.data(), n, found.data()));
        }
    }
}

// ---- lanes

/// Planes of every size, read and written, one of two components.
struct Planes {
    static constexpr std::int64_t kSamples = 400;

    struct Kind {
        std::size_t bytes, components;
        bool writes;
    };
    static constexpr Kind kKinds[] = {{1, 1, true}, {2, 1, false}, {4, 2, true}, {8, 1, false}, {8, 1, true}};

    std::vector<std::vector<char>> data;
    Bytes mask = Bytes(kSamples);
    plugin::GRefMirror boxes[std::size(kKinds) + 1];
    std::vector<void*> params;
    Batch batch{};

    Planes() {
        for (std::size_t i = 0; i < std::size(kKinds); ++i) {
            const Kind& kind = kKinds[i];
            data.emplace_back((kSamples + 5) * kind.components * kind.bytes);
            for (char& byte : data.back()) byte = static_cast<char>(random64());
            boxes[i] = {data.back().data(), kSamples, kind.components > 1 ? kSamples + 5ul : 1, 1, 1, 0};
            batch.planes.push_back({i, kind.bytes, kind.components, kind.components > 1, kind.writes, false});
        }
        boxes[std::size(kKinds)].data = mask.data();
        for (auto& box : boxes) params.push_back(&box);
        batch.params = params.data();
        batch.nparams = params.size();
        batch.samples = kSamples;
        batch.mask = std::size(kKinds);
        batch.findRows();
        CHECK(batch.rows.size() == 6 && batch.finished == mask.data() && batch.vector == 64);
    }
};

std::uint64_t number(const char* row, std::size_t bytes, std::int64_t i) {
    std::uint64_t value = 0;
    std::memcpy(&value, row + i * static_cast<std::int64_t>(bytes), bytes);
    return value;
}

struct Lane {
    std::int64_t sample;
    std::vector<std::uint64_t> values;
    std::uint8_t done;
};

void checkLanes(const Batch& batch, const Lanes& lanes, const std::vector<Lane>& expected) {
    CHECK(lanes.count == static_cast<std::int64_t>(expected.size()));
    for (std::int64_t j = 0; j < lanes.count; ++j) {
        const Lane& lane = expected[static_cast<std::size_t>(j)];
        CHECK(lanes.mask()[j] == lane.done);
        for (std::size_t r = 0; r < batch.rows.size(); ++r)
            CHECK(number(lanes.row(r), batch.rows[r].bytes, j) == lane.values[r]);
    }
}

/// Samples first + picked[..], as lanes take them.
std::vector<Lane> lanesOf(const Batch& batch, std::int64_t first, const Indices& picked) {
    std::vector<Lane> lanes;
    for (const std::int32_t i : picked) {
        lanes.push_back({first + i, {}, 0});
        for (const stepping::Row& row : batch.rows)
            lanes.back().values.push_back(number(row.data, row.bytes, first + i));
    }
    return lanes;
}

/// Other numbers in all rows, those a kernel only reads too.
void change(const Batch& batch, Lanes& lanes, std::vector<Lane>& expected) {
    const Bytes mask = randomMask(lanes.count);
    for (std::int64_t j = 0; j < lanes.count; ++j) {
        Lane& lane = expected[static_cast<std::size_t>(j)];
        for (std::size_t r = 0; r < batch.rows.size(); ++r) {
            const std::size_t bytes = batch.rows[r].bytes;
            lane.values[r] = random64() >> (64 - 8 * bytes);
            std::memcpy(lanes.row(r) + j * static_cast<std::int64_t>(bytes), &lane.values[r], bytes);
        }
        lanes.mask()[j] = lane.done = mask[static_cast<std::size_t>(j)];
    }
}

Indices allOf(std::int64_t n) { return where(Bytes(static_cast<std::size_t>(n)), false); }

std::vector<Lane> allSamples(const Planes& planes) {
    std::vector<Lane> samples = lanesOf(planes.batch, 0, allOf(Planes::kSamples));
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i].done = planes.mask[i];
    return samples;
}

/// The planes hold what they did, but for what `lanes` say of the samples of `picked`.
void checkScatter(const Planes& planes, std::vector<Lane> expected, const std::vector<Lane>& lanes,
                  const Indices& picked) {
    for (const std::int32_t j : picked) {
        const Lane& lane = lanes[static_cast<std::size_t>(j)];
        Lane& sample = expected[static_cast<std::size_t>(lane.sample)];
        sample.done = lane.done;
        for (std::size_t r = 0; r < lane.values.size(); ++r)
            if (planes.batch.rows[r].writes) sample.values[r] = lane.values[r];
    }
    const std::vector<Lane> found = allSamples(planes);
    for (std::size_t i = 0; i < expected.size(); ++i)
        CHECK(found[i].values == expected[i].values && found[i].done == expected[i].done);
}

void checkPad(const Batch& batch, Lanes& lanes, const std::vector<Lane>& expected) {
    const std::int64_t padded = (lanes.count + 63) / 64 * 64;
    CHECK(lanes.pad() == padded);
    checkLanes(batch, lanes, expected);
    for (std::int64_t j = lanes.count; j < padded; ++j) {
        CHECK(lanes.mask()[j] == 1);
        for (std::size_t r = 0; r < batch.rows.size(); ++r)
            CHECK(number(lanes.row(r), batch.rows[r].bytes, j) == expected[0].values[r]);
    }
}

/// From the first hole on, the last lane that stays fills it.
std::vector<Lane> dropped(std::vector<Lane> lanes, const Indices& picked, std::size_t& moves) {
    const std::size_t left = lanes.size() - picked.size();
    std::vector<bool> gone(lanes.size(), false);
    for (const std::int32_t j : picked) gone[static_cast<std::size_t>(j)] = true;
    moves = 0;
    for (std::size_t j = 0, end = lanes.size(); j < left; ++j) {
        if (!gone[j]) continue;
        do --end;
        while (gone[end]);
        lanes[j] = lanes[end];
        lanes[j].done = 0;
        ++moves;
    }
    lanes.resize(left);
    return lanes;
}

void checkDrop(const Batch& batch, Lanes& lanes, std::vector<Lane>& expected, const Indices& picked) {
    std::size_t moves = 0;
    expected = dropped(expected, picked, moves);
    Indices scratch(picked.size() + 1, -7);
    lanes.drop(picked.data(), static_cast<std::int64_t>(picked.size()), scratch.data());
    checkLanes(batch, lanes, expected);
    CHECK(std::count(scratch.begin(), scratch.end(), -7) == static_cast<std::int64_t>(scratch.size() - moves));
}

Indices randomPick(std::int64_t n) { return where(randomMask(n), random64() % 2); }

void testLanes() {
    for (std::int64_t n = 0; n <= 130; ++n) {
        for (int round = 0; round < 8; ++round) {
            Planes planes;
            const Batch& batch = planes.batch;
            const Layout layout(batch, 320);
            Lanes lanes(batch, layout), more(batch, layout);
            for (std::uint8_t& byte : planes.mask) byte = 9;  // nobody looks
            Indices picked(static_cast<std::size_t>(Planes::kSamples / 2));
            std::iota(picked.begin(), picked.end(), 0);
            std::shuffle(picked.begin(), picked.end(), random64);
            picked.resize(static_cast<std::size_t>(n));
            const std::int64_t first = between(0, 60);
            lanes.gather(first, picked.data(), n);
            std::vector<Lane> expected = lanesOf(batch, first, picked);
            CHECK(lanes.room() == 320 - n);
            checkLanes(batch, lanes, expected);
            checkPad(batch, lanes, expected);

            change(batch, lanes, expected);
            const std::vector<Lane> before = allSamples(planes);
            const Indices finished = where(Bytes(lanes.mask(), lanes.mask() + n), true);
            lanes.scatter(finished.data(), static_cast<std::int64_t>(finished.size()));
            checkScatter(planes, before, expected, finished);
            checkDrop(batch, lanes, expected, finished);
            checkPad(batch, lanes, expected);

            // Others join them, which came to the same age.
            Indices others = allOf(between(0, 130));
            more.gather(260, others.data(), static_cast<std::int64_t>(others.size()));
            std::vector<Lane> joined = lanesOf(batch, 260, others);
            change(batch, more, joined);
            std::memset(more.mask(), 0, others.size());  // who is absorbed is alive
            for (Lane& lane : joined) lane.done = 0;
            lanes.absorb(more);
            expected.insert(expected.end(), joined.begin(), joined.end());
            checkLanes(batch, lanes, expected);
            CHECK(more.count == 0 && more.room() == 320);

            checkDrop(batch, lanes, expected, randomPick(lanes.count));
            checkDrop(batch, lanes, expected, allOf(lanes.count));
            CHECK(lanes.count == 0);
        }
    }
}

// ---- memory

/// A thread keeps 8 MiB for its next run.
void testScratch() {
    constexpr std::size_t kPiece = std::size_t{3} << 20;
    stepping::Scratch scratch;
    for (int round = 0; round < 3; ++round) {
        std::vector<stepping::Scratch::Piece> pieces;
        for (int k = 0; k < 4; ++k) pieces.push_back(scratch.take(kPiece));
        for (auto& piece : pieces) {
            CHECK(piece.bytes == kPiece && reinterpret_cast<std::uintptr_t>(piece.memory.get()) % 4096 == 0);
            scratch.give(std::move(piece));
        }
        for (const std::size_t bytes : {kPiece, kPiece, std::size_t{4096}}) CHECK(scratch.take(1).bytes == bytes);
        scratch.give({});
        CHECK(scratch.take(4097).bytes == 8192);
    }
}

// ---- batches

/// Columns of some bytes, and guards.
struct Columns {
    std::vector<std::vector<char>> data;
    std::vector<plugin::ScalarHandle> boxes;
    std::vector<void*> params;
    std::uint8_t mask[1] = {};
    Batch batch{};

    Columns(const std::vector<std::size_t>& sizes, int guards = 0) : boxes(sizes.size() + 1) {
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            data.emplace_back(300 * sizes[i]);
            boxes[i].data = data.back().data();
            batch.planes.push_back({i, sizes[i], 1, false, false, static_cast<int>(i) < guards});
        }
        boxes.back().data = mask;
        for (auto& box : boxes) params.push_back(&box);
        batch.params = params.data();
        batch.mask = sizes.size();
        batch.findRows();
    }
};

/// Vectors of 16 to 64 samples, 128 bytes of the narrowest row if there are as few.
void testVectors() {
    const std::pair<std::vector<std::size_t>, std::int64_t> expected[] = {
        {{}, 16}, {{8}, 16}, {{4}, 32}, {{2}, 64}, {{1}, 64}, {{8, 4, 8}, 32}, {{4, 8, 2}, 64}, {{8, 1}, 64}};
    for (const auto& [sizes, vector] : expected) {
        const Columns columns(sizes);
        const Batch& batch = columns.batch;
        CHECK(batch.vector == vector);
        CHECK(batch.bytes() == std::accumulate(sizes.begin(), sizes.end(), std::size_t{1}));
        for (std::int64_t n = 0; n <= 4 * vector; ++n) {
            std::int64_t padded = 0;
            while (padded < n) padded += vector;
            CHECK(batch.padded(n) == padded);
        }
        Columns again(sizes);
        again.batch.planes.assign(1, {0, 8, 1, false, false, false});
        again.batch.findRows();  // anew
        CHECK(again.batch.vector == 16 && again.batch.rows.size() == 1);
    }
}

void testIdle() {
    for (int guards = 0; guards < 3; ++guards) {
        Columns columns({1, 1, 8}, guards);
        for (int round = 0; round < 300; ++round) {
            const std::int64_t first = between(0, 150), n = between(0, 130);
            for (int g = 0; g < 2; ++g) {
                const Bytes guard = randomMask(300);
                std::memcpy(columns.data[static_cast<std::size_t>(g)].data(), guard.data(), guard.size());
            }
            const Bytes mask = randomMask(n + 1);
            Bytes room(static_cast<std::size_t>(n) + 1, 77);
            const std::uint8_t* idle = columns.batch.idle(mask.data(), first, n, room.data());
            CHECK(guards == 0 ? idle == mask.data() : idle == room.data());
            CHECK(room.back() == 77);
            for (std::int64_t i = 0; i < n; ++i) {
                bool set = mask[static_cast<std::size_t>(i)];
                for (int g = 0; g < guards; ++g)
                    set |= columns.data[static_cast<std::size_t>(g)][static_cast<std::size_t>(first + i)] != 0;
                CHECK((idle[i] != 0) == set);
            }
        }
    }
}

}  // namespace

int main() {
    testPositions();
    testLanes();
    testScratch();
    testVectors();
    testIdle();
}
