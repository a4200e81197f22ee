// Finding the most steps a sample took.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "eagle/stepping/Lanes.h"
#include "eagle/stepping/Run.h"

namespace eagle::stepping {

/// Samples of one age that a launch steps together, where they lie.
struct Group {
    Arguments& arguments;
    std::int64_t base, count;  ///< the positions a launch visits
    std::int64_t given;        ///< those of them that are samples
    std::int64_t samples;      ///< of the planes
    std::int64_t first, span;  ///< the samples the rows hold for them
    std::int64_t age, live;
};

/// Does the last steps of a group again, in memory of its own, to learn which of them was the last: a fused call tells
/// who finished, not when. Only calls that lead beyond the most steps known so far are worth it.
class Record {
public:
    Record(Run& run, Arguments& arguments) : run_(run), batch_(run.batch), arguments_(arguments) {}
    ~Record() {
        for (Scratch::Piece* piece : {&before_, &now_}) Scratch::ofThread().give(std::move(*piece));
    }

    /// Keeps what `group` is now. `rows` are where its planes are.
    void keep(const Group& group, const std::vector<Row>& rows, const std::uint8_t* mask) {
        copy(before_, group, rows, mask);
        make(now_);
    }

    /// Whether all of the group would finish in one step. To be confirmed once it did finish.
    bool endsInOne(const Group& group, const std::vector<Row>& rows, const std::uint8_t* mask) {
        copy(now_, group, rows, mask);
        show(group);
        return !stepped(group, 1);
    }
    void confirm(const Group& group) {
        if (run_.exact.load(std::memory_order_relaxed) && !same(group)) doubt();
    }

    /// All of the group finished, after more than `low` and at most `high` steps: raises the most of the run to the
    /// steps of its last.
    void resolve(const Group& group, std::int64_t low, std::int64_t high) {
        const std::int64_t most = run_.most.load(std::memory_order_relaxed);
        std::int64_t from = age_;  // of the state kept
        if (most >= high) return;
        show(group);
        if (most - from >= 2 && most > low) {
            if (!outlives(group, most - from)) return;
            low = most;
        }
        while (high - low > 1) {
            const std::int64_t middle = std::max(low + (high - low) / 2, from + 2);
            if (middle >= high) break;
            if (!outlives(group, middle - from)) {
                high = middle;
                continue;
            }
            low = middle;
            if (high - middle > 2) {
                std::memcpy(before_.memory.get(), now_.memory.get(), bytes_);
                from = middle;
            }
        }
        run_.raise(high - low > 1 || high - from == 1 ? from + straight(group) : high);
    }

private:
    void doubt() { run_.exact.store(false, std::memory_order_relaxed); }

    void copy(Scratch::Piece& piece, const Group& group, const std::vector<Row>& rows, const std::uint8_t* mask) {
        rows_ = &rows;
        age_ = group.age;
        pitch_ = static_cast<std::size_t>(group.span + 127) / 64 * 64;
        bytes_ = pitch_;
        for (const Row& row : rows) bytes_ += row.writes ? pitch_ * row.bytes : 0;
        make(piece);
        char* to = piece.memory.get();
        for (const Row& row : rows) {
            if (!row.writes) continue;
            const std::size_t bytes = static_cast<std::size_t>(group.span) * row.bytes;
            std::memcpy(to, row.data + group.first * static_cast<std::int64_t>(row.bytes), bytes);
            to += pitch_ * row.bytes;
        }
        std::memcpy(to, mask + group.first, static_cast<std::size_t>(group.span));
        for (std::size_t r = 0, i = 0; i < batch_.planes.size(); r += batch_.planes[i++].components)
            if (batch_.planes[i].guards)
                for (std::int64_t j = 0; j < group.span; ++j) to[j] |= rows[r].data[group.first + j];
    }

    void make(Scratch::Piece& piece) {
        if (piece.bytes >= bytes_) return;
        Scratch::ofThread().give(std::move(piece));
        piece = Scratch::ofThread().take(bytes_);
    }

    /// Points the arguments at the group's inputs and at the state of its own.
    void show(const Group& group) {
        char* own = now_.memory.get();
        std::size_t r = 0;
        for (std::size_t i = 0; i < batch_.planes.size(); ++i) {
            const Plane& plane = batch_.planes[i];
            const Row& row = (*rows_)[r];
            if (plane.writes) {
                arguments_.setPlane(i, shifted(own, -group.first * static_cast<std::int64_t>(plane.bytes)), pitch_);
                own += pitch_ * plane.bytes * plane.components;
            } else {
                const std::size_t apart = plane.components > 1 ? pitchOf(r) : 0;
                arguments_.setPlane(i, row.data, apart);
            }
            r += plane.components;
        }
        maskNow_ = reinterpret_cast<std::uint8_t*>(own);
        arguments_.setMask(reinterpret_cast<std::uint8_t*>(shifted(own, -group.first)));
        if (batch_.mapped()) arguments_.setMap(group.arguments.map());
    }

    std::uint64_t pitchOf(std::size_t r) const {
        const Row &one = (*rows_)[r], &next = (*rows_)[r + 1];
        return static_cast<std::uint64_t>(next.data - one.data) / one.bytes;
    }

    void restore() { std::memcpy(now_.memory.get(), before_.memory.get(), bytes_); }

    /// Whether a sample of the kept state is left after so many steps.
    bool outlives(const Group& group, std::int64_t steps) {
        restore();
        return stepped(group, steps);
    }

    bool stepped(const Group& group, std::int64_t word) {
        arguments_.call(word, group.base, group.count, group.samples);
        return std::memchr(maskNow_, 0, static_cast<std::size_t>(group.span)) != nullptr;
    }

    /// 1 or 2, the steps after which the kept state ends: by launches of one step, whose last bits may differ from
    /// those of longer ones. It is certain where they came to what the group came to.
    std::int64_t straight(const Group& group) {
        restore();
        const std::int64_t steps = stepped(group, 1) ? 2 : 1;
        if (steps == 2) stepped(group, 1);
        if (!same(group)) doubt();
        return steps;
    }

    /// Whether the state is, bit for bit, what the group came to.
    bool same(const Group& group) const {
        const char* own = now_.memory.get();
        for (const Row& row : *rows_) {
            if (!row.writes) continue;
            if (std::memcmp(own, row.data + group.first * static_cast<std::int64_t>(row.bytes),
                            static_cast<std::size_t>(group.span) * row.bytes) != 0)
                return false;
            own += pitch_ * row.bytes;
        }
        return true;
    }

    Run& run_;
    const Batch& batch_;
    Arguments& arguments_;
    const std::vector<Row>* rows_ = nullptr;
    std::uint8_t* maskNow_ = nullptr;
    std::int64_t age_ = 0;
    std::size_t pitch_ = 0, bytes_ = 0;
    Scratch::Piece before_, now_;
};

}  // namespace eagle::stepping
