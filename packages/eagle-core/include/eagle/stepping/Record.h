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
    Record(Run& run, Tally& tally, Arguments& arguments)
        : run_(run), batch_(run.batch), tally_(tally), arguments_(arguments) {
        arguments.countElsewhere();
    }
    ~Record() {
        for (Scratch::Piece* piece : {&before_, &now_}) Scratch::ofThread().give(std::move(*piece));
    }

    /// Keeps what `group` is now. `rows` are where its planes are.
    void keep(const Group& group, const std::vector<Row>& rows, const std::uint8_t* mask) {
        copy(before_, group, rows, mask);
        make(now_);
    }

    /// Whether all of the group that was kept would finish in one step: certain once the group itself came to the
    /// same().
    bool endsInOne(const Group& group) {
        show(group);
        restore();
        return !stepped(group, 1);
    }

    /// Whether the state is, bit for bit, what the group came to.
    bool same(const Group& group) const {
        const char* own = now_.memory.get();
        for (const Row& row : *rows_) {
            if (!row.writes) continue;
            if (std::memcmp(own, row.data + group.first * static_cast<std::int64_t>(row.bytes), span_ * row.bytes) != 0)
                return false;
            own += pitch(row.bytes);
        }
        return true;
    }

    /// All of the group finished since it was kept: raises the most of the run to the steps of its last.
    void resolve(const Group& group) {
        const std::int64_t most = run_.most();
        std::int64_t from = age_;                   // of the state kept
        std::int64_t low = from, high = group.age;  // the last is alive at one, finished at the other
        if (most >= high) return;
        show(group);
        if (most - from >= 2) {
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
        if (high - low > 1) {
            straight(group, from);
        } else {
            run_.raise(high);
        }
    }

private:
    void copy(Scratch::Piece& piece, const Group& group, const std::vector<Row>& rows, const std::uint8_t* mask) {
        rows_ = &rows;
        age_ = group.age;
        span_ = static_cast<std::size_t>(group.span);
        bytes_ = pitch(1);
        for (const Row& row : rows) bytes_ += row.writes ? pitch(row.bytes) : 0;
        make(piece);
        char* to = piece.memory.get();
        for (const Row& row : rows) {
            if (!row.writes) continue;
            std::memcpy(to, row.data + group.first * static_cast<std::int64_t>(row.bytes), span_ * row.bytes);
            to += pitch(row.bytes);
        }
        std::memcpy(to, mask + group.first, span_);
        for (std::size_t r = 0, i = 0; i < batch_.planes.size(); r += batch_.planes[i++].components)
            if (batch_.planes[i].guards)
                for (std::int64_t j = 0; j < group.span; ++j) to[j] |= rows[r].data[group.first + j];
    }

    /// Bytes from one row to the next: whole lines, and up to one more.
    std::size_t pitch(std::size_t bytes) const { return (span_ * bytes + 127) / 64 * 64; }

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
                const std::size_t apart = pitch(plane.bytes);
                arguments_.setPlane(i, shifted(own, -group.first * static_cast<std::int64_t>(plane.bytes)),
                                    apart / plane.bytes);
                own += apart * plane.components;
            } else {
                arguments_.setPlane(i, row.data, plane.components > 1 ? elementsApart(r) : 0);
            }
            r += plane.components;
        }
        maskNow_ = reinterpret_cast<std::uint8_t*>(own);
        arguments_.setMask(reinterpret_cast<std::uint8_t*>(shifted(own, -group.first)));
        if (batch_.mapped()) arguments_.setMap(group.arguments.map());
    }

    std::uint64_t elementsApart(std::size_t r) const {
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
        tally_.visits += group.given;
        return std::memchr(maskNow_, 0, span_) != nullptr;
    }

    /// The kept state, of age `from`, ends after 1 or 2 steps. Launches of one step tell, whose last bits may differ
    /// from those of longer ones: it is certain where they came to what the group came to.
    void straight(const Group& group, std::int64_t from) {
        restore();
        const std::int64_t steps = stepped(group, 1) ? 2 : 1;
        const bool ended = steps == 1 || !stepped(group, 1);
        if (ended && same(group)) {
            run_.raise(from + steps);
        } else {
            run_.bound(from + 2);
        }
    }

    Run& run_;
    const Batch& batch_;
    Tally& tally_;
    Arguments& arguments_;
    const std::vector<Row>* rows_ = nullptr;
    std::uint8_t* maskNow_ = nullptr;
    std::int64_t age_ = 0;
    std::size_t span_ = 0, bytes_ = 0;
    Scratch::Piece before_, now_;
};

}  // namespace eagle::stepping
