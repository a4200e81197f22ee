// A kernel over a batch of samples, as the stepping engine sees it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "eagle/plugin.h"

namespace eagle::stepping {

/// A plane with something of each sample.
struct Plane {
    std::size_t slot;
    std::size_t bytes;  ///< of one element
    std::size_t components;
    bool mirror;  ///< its box is a GRefMirror
    bool writes;
    bool guards;  ///< bytes: samples where one is set take no steps
};

/// One component of a plane.
struct Row {
    char* data;  ///< of sample 0
    std::size_t bytes;
    bool writes;
};

/// Cells that every step of a sample adds to.
struct Counts {
    std::size_t slot, bytes;
};

/// What is stepped, and until when.
struct Batch {
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

    plugin::HostEntry entry;
    void* const* params;
    std::size_t nparams;
    std::int64_t samples;
    std::int64_t cap;           ///< the most steps of a sample
    std::int64_t unit;          ///< steps of one launch; 0: `word` says, and is 2 or more
    bool movable;               ///< a sample's result does not depend on where in the planes it is
    bool unaligned = false;     ///< nor on where planes begin in their cache lines, with `unit` steps
    double overhead;            ///< what a call costs for each sample beyond its steps, in steps
    bool tellsOne = true;       ///< whether it is worth telling batches that took one step from those that took two
    std::vector<Plane> planes;  ///< without the mask
    std::vector<Counts> counts;
    std::size_t mask, counter;              ///< slots
    std::size_t word = kNone;               ///< of an entry that reads how many steps it takes
    std::size_t map = kNone, live = kNone;  ///< of an entry that visits the samples of a list

    /// Launches get positions by multiples of this: what is left over goes through other instructions than whole
    /// vectors do, with other last bits.
    std::int64_t vector = 16;

    std::vector<Row> rows;  ///< of the planes, in order
    std::uint8_t* finished = nullptr;
    std::vector<const std::uint8_t*> guards;

    /// Of what planes and mask hold of one sample.
    std::size_t bytes() const {
        std::size_t sum = 1;
        for (const Row& row : rows) sum += row.bytes;
        return sum;
    }
    bool fused() const { return unit == 0; }
    bool mapped() const { return map != kNone; }

    /// Finds rows and mask in the boxes, once the fields above are set.
    void findRows() {
        rows.clear();
        guards.clear();
        for (const Plane& plane : planes) {
            plugin::GRefMirror box{};
            std::memcpy(&box, params[plane.slot], plane.mirror ? sizeof box : sizeof(void*));
            if (plane.guards) guards.push_back(static_cast<const std::uint8_t*>(box.data));
            for (std::size_t c = 0; c < plane.components; ++c) {
                rows.push_back(
                    {static_cast<char*>(box.data) + c * box.compStride * plane.bytes, plane.bytes, plane.writes});
            }
        }
        std::memcpy(&finished, params[mask], sizeof finished);
        vector = 16;
        for (const Row& row : rows) vector = std::max(vector, static_cast<std::int64_t>(128 / row.bytes));
        vector = std::min<std::int64_t>(vector, 64);
    }
    std::int64_t padded(std::int64_t n) const { return (n + vector - 1) / vector * vector; }

    /// The bytes of samples [first, first + n), which `mask` begins with, that are set where one takes no steps; in
    /// `room` where several tell.
    const std::uint8_t* idle(const std::uint8_t* mask, std::int64_t first, std::int64_t n, std::uint8_t* room) const {
        if (guards.empty()) return mask;
        std::memcpy(room, mask, static_cast<std::size_t>(n));
        for (const std::uint8_t* guard : guards)
            for (std::int64_t i = 0; i < n; ++i) room[i] |= guard[first + i];
        return room;
    }
};

/// An argument block with boxes of its own for whatever differs between the places a kernel runs.
class Arguments {
public:
    explicit Arguments(const Batch& batch)
        : batch_(batch), params_(batch.params, batch.params + batch.nparams), boxes_(batch.planes.size()) {
        for (std::size_t i = 0; i < boxes_.size(); ++i) {
            const Plane& plane = batch.planes[i];
            std::memcpy(boxes_[i].bytes, batch.params[plane.slot],
                        plane.mirror ? sizeof(plugin::GRefMirror) : sizeof(plugin::ScalarHandle));
            params_[plane.slot] = &boxes_[i];
        }
        own(mask_, batch.mask, batch.finished);
        own(counter_, batch.counter, &count_);
        if (batch.word != Batch::kNone) own(wordBox_, batch.word, &word_);
        if (batch.mapped()) {
            own(map_, batch.map, nullptr);
            own(live_, batch.live, &visited_);
        }
    }
    Arguments(const Arguments&) = delete;
    Arguments& operator=(const Arguments&) = delete;

    /// Where plane i is: sample 0 at `data`, components `pitch` elements apart.
    void setPlane(std::size_t i, char* data, std::uint64_t pitch) {
        std::memcpy(boxes_[i].bytes + offsetof(plugin::GRefMirror, data), &data, sizeof data);
        if (batch_.planes[i].mirror)
            std::memcpy(boxes_[i].bytes + offsetof(plugin::GRefMirror, compStride), &pitch, sizeof pitch);
    }
    void setMask(std::uint8_t* mask) { mask_.data = mask; }
    void setMap(const std::int32_t* map) { map_.data = const_cast<std::int32_t*>(map); }
    const std::int32_t* map() const { return static_cast<const std::int32_t*>(map_.data); }

    /// Lets the cells of Batch::counts be others: what is stepped again counts for nothing.
    void countElsewhere() {
        const auto words = [](const Counts& counts) { return (counts.bytes + 7) / 8; };
        std::size_t all = 0;
        for (const Counts& counts : batch_.counts) all += words(counts);
        countBoxes_.resize(batch_.counts.size());
        counted_.resize(all);
        std::uint64_t* to = counted_.data();
        for (std::size_t i = 0; i < countBoxes_.size(); to += words(batch_.counts[i++]))
            own(countBoxes_[i], batch_.counts[i].slot, to);
    }

    /// One launch over positions [base, base + count); the samples that finished in it.
    std::int64_t call(std::int64_t word, std::int64_t base, std::int64_t count, std::int64_t samples) {
        word_ = word;
        count_ = 0;
        visited_ = static_cast<std::uint32_t>(base + count);
        batch_.entry(params_.data(), base, count, samples);
        return count_;
    }

private:
    /// A GRefMirror or a ScalarHandle; both begin with the address.
    struct Box {
        alignas(8) char bytes[sizeof(plugin::GRefMirror)];
    };
    static_assert(offsetof(plugin::GRefMirror, data) == 0 && offsetof(plugin::ScalarHandle, data) == 0);

    void own(plugin::ScalarHandle& box, std::size_t slot, void* data) {
        std::memcpy(&box, batch_.params[slot], sizeof box);
        box.data = data;
        params_[slot] = &box;
    }

    const Batch& batch_;
    std::vector<void*> params_;
    std::vector<Box> boxes_;
    plugin::ScalarHandle mask_, counter_, wordBox_, map_, live_;
    std::vector<plugin::ScalarHandle> countBoxes_;
    std::vector<std::uint64_t> counted_;
    // What the entry reads and writes: on lines that no other thread touches.
    alignas(64) std::int64_t word_ = 0;
    std::uint32_t visited_ = 0;
    std::uint32_t count_ = 0;
};

}  // namespace eagle::stepping
