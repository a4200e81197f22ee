// One participant of a run: steps samples until each is finished.
//
// SPDX-License-Identifier: Apache-2.0
//
// Blocks of samples are stepped where they lie for as long as most of a block is alive. What is left then is gathered
// into dense lanes, which join others of the same age: vectors stay full, whatever the samples do. A call's bits do not
// depend on how its steps are cut, nor on a sample's place where it may be moved at all.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <vector>

#include "eagle/stepping/Ages.h"
#include "eagle/stepping/Lanes.h"
#include "eagle/stepping/Record.h"
#include "eagle/stepping/Run.h"

namespace eagle::stepping {

class Stepper {
public:
    Stepper(Run& run, int self)
        : run_(run),
          batch_(run.batch),
          self_(self),
          tally_(run.tally(self)),
          ages_(batch_.cap, batch_.unit, batch_.overhead),
          movable_(batch_.movable && batch_.bytes() <= kMostMoved),
          layout_(batch_, capacityOf(batch_)),
          here_(batch_),
          there_(batch_),
          probing_(batch_),
          record_(run, tally_, probing_),
          picked_(static_cast<std::size_t>(std::max(layout_.capacity, run.block))),
          moves_(picked_.size()),
          idle_(static_cast<std::size_t>(run.block)) {
        if (batch_.mapped()) {
            identity_.resize(static_cast<std::size_t>(layout_.capacity));
            std::iota(identity_.begin(), identity_.end(), 0);
            there_.setMap(identity_.data());
            map_.resize(static_cast<std::size_t>(run.block));
            here_.setMap(map_.data());
        }
        laneRows_ = batch_.rows;
    }

    /// Steps what it takes until nothing is left, or the run is stopped: then every sample is at a step's end.
    void work() {
        for (bool scout = true; !stopped();) {
            if (Lanes* lanes = full()) {
                run(*lanes);
            } else if (const std::int64_t n = run_.take(scout, first_)) {
                runBlock(first_, n);
                scout = false;
            } else if (!lanes_.empty()) {
                run(*lanes_[youngest()]);
            } else {
                break;
            }
        }
        flush();
    }

    /// Writes back what is in lanes.
    void flush() {
        for (const auto& lanes : lanes_) scatterAll(*lanes);
        lanes_.clear();
    }

private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::int64_t kLanes = 1024, kFull = 512, kYoung = 4;
    static constexpr std::size_t kMostBytes = std::size_t{256} << 10;  ///< of lanes, unless there are few of them
    static constexpr std::size_t kMostMoved = std::size_t{32} << 10;   ///< of a sample that is worth moving
    static constexpr std::size_t kMostLanes = 48, kMostInLanes = std::size_t{32} << 20;
    static constexpr double kAlive = 0.8;  ///< of a block, to go on with it where it lies
    static constexpr double kLongCall = 10e6, kBetweenLooks = 30e3, kLeastCost = 0.01;  // ns

    static std::int64_t capacityOf(const Batch& batch) {
        const std::size_t bytes = batch.bytes() + sizeof(std::int64_t);
        return std::clamp<std::int64_t>(static_cast<std::int64_t>(kMostBytes / bytes) / 64 * 64, 64, kLanes);
    }

    bool stopped() const { return run_.stop.load(std::memory_order_relaxed); }

    // ---- calls

    /// Steps a group to an age, in as many calls as it takes.
    void advance(Group& group, std::int64_t target, const std::vector<Row>& rows, const std::uint8_t* mask) {
        const std::int64_t begin = group.age, live = group.live;
        while (group.age < target && group.live > 0 && !stopped()) {
            const std::int64_t most = run_.most(), word = wordOf(target - group.age, group.count);
            const bool records = batch_.fused() && word > most - group.age;
            const bool once = records && most == group.age + 1 && record_.endsInOne(group, rows, mask);
            if (records && !once) record_.keep(group, rows, mask);
            call(group, word);
            if (group.live > 0 || batch_.unit == 1) {
                run_.raise(group.age);
            } else if (!batch_.fused()) {
                run_.bound(group.age);
            } else if (once) {
                record_.confirm(group);
            } else if (records) {
                record_.resolve(group);
            }
        }
        if (group.age > begin) ages_.learn(begin, group.age - begin, live, live - group.live);
    }

    void call(Group& group, std::int64_t word) {
        const std::int64_t died = group.arguments.call(word, group.base, group.count, group.samples);
        const auto steps = static_cast<double>(word);
        tally_.visits += group.count;
        tally_.add(died, steps * static_cast<double>(group.live));
        group.live -= died;
        group.age += word;
        pace(steps * static_cast<double>(group.count));
    }

    /// The steps of a call that has so many left: a call that takes long could not be interrupted.
    std::int64_t wordOf(std::int64_t left, std::int64_t count) const {
        if (!batch_.fused()) return batch_.unit;
        const double most = std::max(kLongCall / (cost_ * static_cast<double>(count)), 2.0);
        return static_cast<double>(left) <= most + 1 ? left : static_cast<std::int64_t>(most);
    }

    /// After steps of samples: looks at the clock now and then, and on the caller's thread asks whether to go on.
    void pace(double steps) {
        paced_ += steps;
        if (paced_ * cost_ < kBetweenLooks) return;
        const auto now = Clock::now();
        const std::chrono::duration<double, std::nano> took = now - looked_;
        cost_ = std::max(took.count() / paced_, kLeastCost);
        looked_ = now;
        paced_ = 0;
        if (self_ == 0) run_.ask(now);
    }

    /// The age to step a group to.
    std::int64_t targetOf(std::int64_t age, bool meets) const {
        std::int64_t target = ages_.next(age);
        const std::int64_t most = run_.most();
        if (most < target && ages_.reaches(age, most)) target = most;
        if (!meets) return target;
        for (const auto& other : lanes_)
            if (other->age < target && ages_.reaches(age, other->age)) target = other->age;
        return target;
    }

    // ---- blocks

    void runBlock(std::int64_t first, std::int64_t n) {
        const std::int64_t live = alive(first, n, picked_);
        tally_.add(n - positions<false>(batch_.finished + first, n, moves_.data()), 0);
        Group group{here_, first, n, batch_.samples, first, n, 0, live};
        while (group.live > 0 && group.age < batch_.cap && !stopped()) {
            if (movable_ && static_cast<double>(group.live) < aliveInPlace(group.age) * static_cast<double>(n))
                return gather(first, n, group.age);
            if (batch_.mapped()) mapLive(group, first, n);
            advance(group, targetOf(group.age, false), batch_.rows, batch_.finished);
        }
    }

    /// The share of a block that has to be alive to go on with it where it lies. An entry that takes one step a call
    /// reads and writes every plane for it: that is fastest in lanes, which share no cache sets.
    double aliveInPlace(std::int64_t age) const { return !batch_.fused() && age >= kYoung ? 2 : kAlive; }

    /// Which samples of [first, first + n) take steps.
    std::int64_t alive(std::int64_t first, std::int64_t n, std::vector<std::int32_t>& positions) {
        return stepping::positions<false>(batch_.idle(first, n, idle_.data()), n, positions.data());
    }

    /// Lists the samples of a block that are alive.
    void mapLive(Group& group, std::int64_t first, std::int64_t n) {
        group.base = 0;
        group.count = alive(first, n, map_);
        for (std::int64_t i = 0; i < group.count; ++i)
            map_[static_cast<std::size_t>(i)] += static_cast<std::int32_t>(first);
    }

    void gather(std::int64_t first, std::int64_t n, std::int64_t age) {
        const std::int64_t live = alive(first, n, picked_);
        for (std::int64_t done = 0; done < live;) {
            Lanes& lanes = withRoom(age);
            const std::int64_t now = std::min(lanes.room(), live - done);
            lanes.gather(first, picked_.data() + done, now);
            done += now;
        }
    }

    // ---- lanes

    Lanes& withRoom(std::int64_t age) {
        for (const auto& lanes : lanes_)
            if (lanes->age == age && lanes->room() > 0) return *lanes;
        lanes_.push_back(std::make_unique<Lanes>(batch_, layout_));
        lanes_.back()->age = age;
        return *lanes_.back();
    }

    Lanes* full() const {
        for (const auto& lanes : lanes_)
            if (lanes->count >= std::min(kFull, layout_.capacity / 2)) return lanes.get();
        return lanes_.size() > std::min(kMostLanes, kMostInLanes / layout_.bytes()) ? lanes_[youngest()].get()
                                                                                    : nullptr;
    }

    std::size_t youngest() const {
        const auto younger = [](const auto& a, const auto& b) { return a->age < b->age; };
        return static_cast<std::size_t>(std::min_element(lanes_.begin(), lanes_.end(), younger) - lanes_.begin());
    }

    void run(Lanes& lanes) {
        lanes.show(there_);
        Group group{there_, 0, lanes.count, lanes.count, 0, lanes.count, lanes.age, lanes.count};
        for (std::size_t r = 0; r < laneRows_.size(); ++r) laneRows_[r].data = lanes.row(r);
        advance(group, targetOf(lanes.age, lanes.count < kFull), laneRows_, lanes.mask());
        lanes.age = group.age;
        if (group.live < lanes.count) retire(lanes);
        if (lanes.count > 0 && lanes.age >= batch_.cap) scatterAll(lanes);
        if (lanes.count > 0) merge(lanes);
        std::erase_if(lanes_, [](const auto& some) { return some->count == 0; });
    }

    void retire(Lanes& lanes) {
        const std::int64_t gone = positions<true>(lanes.mask(), lanes.count, picked_.data());
        lanes.scatter(picked_.data(), gone);
        lanes.drop(picked_.data(), gone, moves_.data());
    }

    void scatterAll(Lanes& lanes) {
        std::iota(picked_.begin(), picked_.begin() + lanes.count, 0);
        lanes.scatter(picked_.data(), lanes.count);
        lanes.count = 0;
    }

    void merge(Lanes& lanes) {
        for (const auto& other : lanes_) {
            if (other.get() == &lanes || other->age != lanes.age) continue;
            Lanes &larger = other->count > lanes.count ? *other : lanes, &smaller = &larger == &lanes ? *other : lanes;
            if (larger.room() < smaller.count) continue;
            larger.absorb(smaller);
            return;
        }
    }

    Run& run_;
    const Batch& batch_;
    const int self_;
    Tally& tally_;
    Ages ages_;
    const bool movable_;
    const Layout layout_;
    Arguments here_, there_, probing_;
    Record record_;
    std::vector<std::int32_t> picked_, moves_;
    std::vector<std::uint8_t> idle_;
    std::vector<std::int32_t> identity_, map_;
    std::vector<Row> laneRows_;
    std::vector<std::unique_ptr<Lanes>> lanes_;
    double cost_ = 5;   ///< ns that a step of a sample takes
    double paced_ = 0;  ///< steps of samples since the last look
    Clock::time_point looked_ = Clock::now();
    std::int64_t first_ = 0;
};

}  // namespace eagle::stepping
