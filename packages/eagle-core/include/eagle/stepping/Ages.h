// At which ages a batch is looked at: how many steps a call takes.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace eagle::stepping {

/// Learns at which ages samples finish. A call of w steps costs `overhead` steps for each sample, and makes those that
/// finish within it wait w / 2 steps on average: with a share h of the samples finishing in each step, the sum is least
/// at w = sqrt(2 overhead / h), and by measurement at sqrt(overhead / h): those that wait make vectors slower too. Ages
/// are rounded, so that samples begun at different times meet at one.
class Ages {
public:
    /// `unit`: steps of one launch, which ages are multiples of; 0 where any number but 1 will do.
    Ages(std::int64_t cap, std::int64_t unit, double overhead)
        : unit_(std::max<std::int64_t>(unit, 1)), least_(unit == 0 ? 2 : unit_), cap_(cap), overhead_(overhead) {}

    /// The age to step samples of `age` to: at most the cap, at least `least` steps on.
    std::int64_t next(std::int64_t age) const {
        const Level& level = levels_[levelOf(age)];
        const double years = static_cast<double>(age);
        const double share = (level.finished + 1) / (level.lived + kPrior * years + kFirst);
        const double steps = std::sqrt(overhead_ / share);
        return cut(age, rounded(age, std::clamp(steps, kShortest, 2 * years + 2 * kFirst)));
    }

    /// `target`, or the cap where what is left from there could not be stepped.
    std::int64_t cut(std::int64_t age, std::int64_t target) const {
        target = std::max(target, age + least_);
        return target >= cap_ || cap_ - target < least_ ? cap_ : target;
    }

    /// Whether samples may be stepped from `age` to `target`, and from there to the cap.
    bool reaches(std::int64_t age, std::int64_t target) const {
        return target - age >= least_ && (target - age) % unit_ == 0 && cut(age, target) == target;
    }

    /// Of `live` samples stepped from `age` on by `steps` each, `died` finished. Where all did, or none, nobody waited.
    void learn(std::int64_t age, std::int64_t steps, std::int64_t live, std::int64_t died) {
        Level& level = levels_[levelOf(age)];
        const double n = static_cast<double>(live), gone = static_cast<double>(died);
        level.lived = kMemory * level.lived + (n - gone / 2) * static_cast<double>(steps);
        level.finished = kMemory * level.finished + (died < live ? gone : 0);
    }

private:
    static constexpr double kPrior = 2, kFirst = 16, kShortest = 8, kMemory = 0.9;
    static constexpr int kPerOctave = 8;

    struct Level {
        double lived = 0, finished = 0;
    };

    static std::size_t levelOf(std::int64_t age) {
        const auto a = static_cast<std::uint64_t>(age) | kPerOctave;
        const int octave = std::bit_width(a) - 4;
        return static_cast<std::size_t>(kPerOctave * octave) + ((a >> octave) & (kPerOctave - 1));
    }

    /// age + steps in the raster of its octave, which is finer where there are fewer steps.
    std::int64_t rounded(std::int64_t age, double steps) const {
        if (steps >= static_cast<double>(cap_ - age)) return cap_;
        // Unsigned: a cap may be the largest number there is.
        const auto wanted = static_cast<std::uint64_t>(age) + static_cast<std::uint64_t>(steps);
        const auto unit = static_cast<std::uint64_t>(unit_);
        const std::uint64_t fine = std::bit_floor(static_cast<std::uint64_t>(steps));
        const std::uint64_t raster = std::max(std::min(std::bit_floor(wanted) / kPerOctave, fine), unit);
        const std::uint64_t target = ((wanted + raster / 2) / raster * raster + unit - 1) / unit * unit;
        return static_cast<std::int64_t>(std::min(target, static_cast<std::uint64_t>(cap_)));
    }

    const std::int64_t unit_, least_, cap_;
    const double overhead_;
    Level levels_[kPerOctave * 62];
};

}  // namespace eagle::stepping
