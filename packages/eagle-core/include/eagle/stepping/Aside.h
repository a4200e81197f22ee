// Samples that must keep their positions, in memory of their own.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "eagle/stepping/Lanes.h"

namespace eagle::stepping {

/// What a kernel writes of samples [first, first + n), put where the very indices they have in the batch find it. Lanes
/// before or behind them, which take no steps, make vectors whole. It goes back whatever happens.
class Aside {
public:
    Aside(const Batch& batch, const Layout& layout, std::int64_t first, std::int64_t n)
        : batch_(batch),
          lanes_(batch, layout),
          first_(first),
          n_(n),
          span_(batch.padded(n)),
          begin_(std::max<std::int64_t>(std::min(first, batch.samples - span_), 0)),
          smaller_(batch.samples < span_) {
        for (std::size_t r = 0; r < batch.rows.size(); ++r)
            if (taken(batch.rows[r])) std::memcpy(lane(r), sample(r), bytes(r));
        std::memcpy(mask(), batch.finished + first, static_cast<std::size_t>(n));
        lanes_.fill(0, before(), before());
        lanes_.fill(before() + n, span_, before());
    }
    ~Aside() {
        for (std::size_t r = 0; r < batch_.rows.size(); ++r)
            if (batch_.rows[r].writes) std::memcpy(sample(r), lane(r), bytes(r));
        std::memcpy(batch_.finished + first_, mask(), static_cast<std::size_t>(n_));
    }
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;

    std::int64_t begin() const { return begin_; }  ///< the index of the first lane
    std::int64_t span() const { return span_; }
    /// An index of a lane that takes no steps, of those before or behind the samples.
    std::int64_t spare() const { return before() > 0 ? begin_ : first_ + n_; }
    /// Of the samples.
    std::uint8_t* mask() const { return lanes_.mask() + before(); }
    /// Of a sample 0.
    std::uint8_t* maskOfBatch() const {
        return reinterpret_cast<std::uint8_t*>(shifted(reinterpret_cast<char*>(lanes_.mask()), -begin_));
    }

    /// Points an argument block at them, and says where rows are.
    void show(Arguments& arguments, std::vector<Row>& rows) const { lanes_.show(arguments, rows, begin_, !smaller_); }

private:
    std::int64_t before() const { return first_ - begin_; }
    /// Inputs stay in the batch, where a kernel may read those of other samples; unless it would read behind them.
    bool taken(const Row& row) const { return row.writes || smaller_; }
    char* lane(std::size_t r) const {
        return lanes_.row(r) + before() * static_cast<std::int64_t>(batch_.rows[r].bytes);
    }
    char* sample(std::size_t r) const {
        return batch_.rows[r].data + first_ * static_cast<std::int64_t>(batch_.rows[r].bytes);
    }
    std::size_t bytes(std::size_t r) const { return static_cast<std::size_t>(n_) * batch_.rows[r].bytes; }

    const Batch& batch_;
    Lanes lanes_;
    const std::int64_t first_, n_, span_, begin_;
    const bool smaller_;  ///< the batch is no vector
};

}  // namespace eagle::stepping
