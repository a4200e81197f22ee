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
          layout_(batch_, capacityOf(batch_)),
          here_(batch_),
          there_(batch_),
          probing_(batch_),
          record_(run, tally_, probing_),
          picked_(static_cast<std::size_t>(std::max(layout_.capacity, run.block))),
          moves_(picked_.size()),
          idle_(static_cast<std::size_t>(run.block)) {
        if (batch_.mapped()) {
            map_.resize(static_cast<std::size_t>(layout_.capacity));
            std::iota(map_.begin(), map_.end(), 0);
            there_.setMap(map_.data());
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
        if (!abandoned())
            for (const auto& lanes : lanes_) scatterAll(*lanes);
        lanes_.clear();
    }

private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::int64_t kLanes = 1024, kFull = 512;
    static constexpr std::size_t kMostBytes = std::size_t{256} << 10;  ///< of lanes, unless they are one vector
    static constexpr std::size_t kMostLanes = 48, kMostInLanes = std::size_t{32} << 20;
    static constexpr double kAlive = 0.8;  ///< of a block, to go on with it where it lies
    static constexpr double kLongCall = 10e6, kBetweenLooks = 30e3, kLeastCost = 0.01;  // ns

    /// Samples copied into lanes, which go back whatever happens.
    class Aside {
    public:
        Aside(const Stepper& stepper, Lanes& lanes, std::int64_t first, std::int64_t n)
            : stepper_(stepper), lanes_(lanes), first_(first) {
            lanes.takeFrom(first, n);
        }
        ~Aside() {
            if (!stepper_.abandoned()) lanes_.writeTo(first_);
        }
        Aside(const Aside&) = delete;
        Aside& operator=(const Aside&) = delete;

    private:
        const Stepper& stepper_;
        Lanes& lanes_;
        const std::int64_t first_;
    };

    static std::int64_t capacityOf(const Batch& batch) {
        const std::size_t bytes = batch.bytes() + sizeof(std::int64_t);
        return std::clamp(static_cast<std::int64_t>(kMostBytes / bytes) / 64 * 64, batch.vector, kLanes);
    }

    bool abandoned() const { return run_.abandoned.load(std::memory_order_relaxed); }
    bool stopped() const { return run_.stop.load(std::memory_order_relaxed); }

    // ---- calls

    /// Steps a group to an age, in as many calls as it takes.
    void advance(Group& group, std::int64_t target, const std::vector<Row>& rows, const std::uint8_t* mask) {
        const std::int64_t begin = group.age, live = group.live;
        while (group.age < target && group.live > 0 && !stopped()) {
            const std::int64_t most = run_.most(), word = wordOf(target - group.age, group.count);
            const bool records = batch_.fused() && word > most - group.age;
            if (records) record_.keep(group, rows, mask);
            const bool once = records && most == group.age + 1 && record_.endsInOne(group);
            call(group, word);
            if (abandoned()) return;
            if (group.live > 0 || batch_.unit == 1) {
                run_.raise(group.age);
            } else if (!batch_.fused()) {
                run_.bound(group.age);
            } else if (records && !(once && record_.same(group))) {
                record_.resolve(group);
            }
        }
        if (group.age > begin) ages_.learn(begin, group.age - begin, live, live - group.live);
    }

    void call(Group& group, std::int64_t word) {
        const std::int64_t died = group.arguments.call(word, group.base, group.count, group.samples);
        const auto steps = static_cast<double>(word);
        tally_.visits += group.given;
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
        if (age == 0 && run_.most() == 1 && batch_.fused() && !batch_.tellsOne) run_.bound(2);
        const std::int64_t most = run_.most();
        if (most < target && ages_.reaches(age, most)) target = most;
        if (!meets) return target;
        for (const auto& other : lanes_)
            if (other->age < target && ages_.reaches(age, other->age)) target = other->age;
        return target;
    }

    // ---- blocks

    void runBlock(std::int64_t first, std::int64_t n) {
        tally_.add(n - positions<false>(batch_.finished + first, n, moves_.data()), 0);
        if (!batch_.movable) {
            for (std::int64_t done = 0; done < n && !stopped(); done += layout_.capacity)
                runAside(first + done, std::min(layout_.capacity, n - done));
        } else if ((batch_.fused() || batch_.unaligned) && !batch_.mapped()) {
            const std::int64_t whole = n / batch_.vector * batch_.vector;
            gather(first + whole, n - whole, 0);
            runHere(first, whole);
        } else {
            gather(first, n, 0);
        }
    }

    /// Steps samples where they lie, until there are few of them left. Launches of few steps read and write every
    /// plane: after the first ones, that is fastest in lanes.
    void runHere(std::int64_t first, std::int64_t n) {
        Group group{here_, first, n, n, batch_.samples, first, n, 0, alive(first, n, picked_)};
        while (group.live > 0 && group.age < batch_.cap && !stopped()) {
            const bool stays = group.age == 0 || batch_.fused();
            if (!stays || static_cast<double>(group.live) < kAlive * static_cast<double>(n))
                return gather(first, n, group.age);
            advance(group, targetOf(group.age, false), batch_.rows, batch_.finished);
        }
    }

    /// Steps samples that must keep their positions: they are put aside, in memory that goes on behind them, where the
    /// entry finds them at the very indices they have in the batch.
    void runAside(std::int64_t first, std::int64_t n) {
        const std::int64_t live = alive(first, n, picked_);
        if (live == 0) return;
        Lanes lanes(batch_, layout_);
        const Aside aside(*this, lanes, first, n);
        const std::int64_t span = lanes.pad();
        lanes.show(there_, laneRows_, first);
        auto* const mask = reinterpret_cast<std::uint8_t*>(shifted(reinterpret_cast<char*>(lanes.mask()), -first));
        Group group{there_, first, span, n, batch_.samples, first, span, 0, live};
        while (group.live > 0 && group.age < batch_.cap && !stopped()) {
            if (batch_.mapped()) listAlive(group, lanes.mask(), n);
            advance(group, targetOf(group.age, false), laneRows_, mask);
        }
    }

    /// Which samples of [first, first + n) take steps.
    std::int64_t alive(std::int64_t first, std::int64_t n, std::vector<std::int32_t>& found) {
        return positions<false>(batch_.idle(batch_.finished + first, first, n, idle_.data()), n, found.data());
    }

    /// Lets an entry that reads a list visit those of n samples alone that take steps; their bytes begin with `mask`.
    void listAlive(Group& group, const std::uint8_t* mask, std::int64_t n) {
        const std::uint8_t* idle = batch_.idle(mask, group.first, n, idle_.data());
        const auto first = static_cast<std::int32_t>(group.first);
        group.base = 0;
        group.given = positions<false>(idle, n, map_.data());
        group.count = batch_.padded(group.given);
        for (std::int64_t i = 0; i < group.given; ++i) map_[static_cast<std::size_t>(i)] += first;
        const auto other =
            static_cast<std::int32_t>(std::find_if(idle, idle + n, [](auto byte) { return byte; }) - idle);
        std::fill(map_.begin() + group.given, map_.begin() + group.count, first + other);  // they take none
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
        const std::int64_t positions = lanes.pad();
        lanes.show(there_, laneRows_);
        Group group{there_, 0, positions, lanes.count, positions, 0, positions, lanes.age, lanes.count};
        advance(group, targetOf(lanes.age, lanes.count < kFull), laneRows_, lanes.mask());
        if (abandoned()) return;
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
    const Layout layout_;
    Arguments here_, there_, probing_;
    Record record_;
    std::vector<std::int32_t> picked_, moves_;
    std::vector<std::uint8_t> idle_;
    std::vector<std::int32_t> map_;
    std::vector<Row> laneRows_;
    std::vector<std::unique_ptr<Lanes>> lanes_;
    double cost_ = 5;   ///< ns that a step of a sample takes
    double paced_ = 0;  ///< steps of samples since the last look
    Clock::time_point looked_ = Clock::now();
    std::int64_t first_ = 0;
};

}  // namespace eagle::stepping
