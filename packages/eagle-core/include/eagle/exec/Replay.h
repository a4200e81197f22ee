// Runs a program, once.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "eagle/exec/Program.h"

namespace eagle::exec {

/// The team for the length of a replay, taken when it is first wanted; tried again while somebody else has it.
class Crew {
public:
    Team* get() {
        if (lease_) return &**lease_;
        if (Team::size() == 1) return nullptr;
        lease_.emplace(Team::tryLease());
        if (*lease_) return &**lease_;
        lease_.reset();
        return nullptr;
    }
    void leave() { lease_.reset(); }

private:
    std::optional<Team::Lease> lease_;
};

/// Time of each operation of a program, in seconds: of the whole team where it is shared, of one thread in a branch.
class Times {
public:
    explicit Times(std::size_t ops) : seconds_(ops) {}

    double& operator[](std::size_t op) { return seconds_[op]; }

private:
    std::vector<double> seconds_;
};

template <bool Timed>
class Replay {
public:
    explicit Replay(const Program& program, Times* times = nullptr)
        : program_(program), ops_(program.ops().data()), times_(times) {}

    /// False when a host call ended it. What an entry throws comes out, and later operations do not run.
    bool run() {
        for (std::uint32_t at = 0, end = static_cast<std::uint32_t>(program_.ops().size()); at < end;) {
            const Op& op = ops_[at];
            switch (op.code) {
                case Code::Launch:
                    if (op.on) timed(times_, at, [&] { launch(op); });
                    ++at;
                    break;
                case Code::Copy:
                case Code::Zero:
                    if (op.on) timed(times_, at, [&] { move(op); });
                    ++at;
                    break;
                case Code::HostFunction:
                    crew_.leave();
                    timed(times_, at, [&] { op.hostFunction.fn(op.hostFunction.arg); });
                    ++at;
                    break;
                case Code::HostCall: {
                    crew_.leave();
                    std::int32_t answer = 0;
                    timed(times_, at, [&] { answer = op.hostCall.fn(op.hostCall.arg); });
                    if (answer != 0) return false;
                    ++at;
                    break;
                }
                case Code::Native:
                    crew_.leave();  // it takes the team itself
                    if (op.on) timed(times_, at, [&] { program_.native(op)(); });
                    ++at;
                    break;
                case Code::Fork:
                    at = fork(op, at);
                    break;
                case Code::Fuse:
                    fuse(op, at);
                    at = op.target;
                    break;
                case Code::Choose:
                    at = choose(op);
                    break;
                case Code::Head:
                    at = enters(program_.setter(op)) ? at + 1 : op.target;
                    break;
                case Code::Tail:
                    at = repeats(program_.setter(op)) ? op.target : at + 1;
                    break;
                case Code::Jump:
                    at = op.target;
                    break;
            }
        }
        return true;
    }

private:
    using Clock = std::chrono::steady_clock;

    static double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

    template <class Work>
    static void timed(Times* times, std::uint32_t at, const Work& work) {
        if constexpr (Timed) {
            const auto start = Clock::now();
            work();
            (*times)[at] += since(start);
        } else {
            work();
        }
    }

    static void runHere(const Op& op) {
        const LaunchOp& launch = op.launch;
        if (launch.part.count > 0)
            launch.entry(launch.params, launch.part.base, launch.part.count, launch.part.nSamples);
    }

    void launch(const Op& op) {
        if (op.cuttable) {
            if (Team* team = crew_.get()) {
                exec::run(*team, op.launch.entry, op.launch.params, op.launch.part, op.grain);
                return;
            }
        }
        runHere(op);
    }

    static void move(const Op& op) {
        if (op.code == Code::Copy)
            std::memcpy(op.copy.to, op.copy.from, op.copy.bytes);
        else
            std::memset(op.zero.to, 0, op.zero.bytes);
    }

    /// Where to go on: behind the fork when its branches ran side by side, elsewise at its first operation.
    std::uint32_t fork(const Op& op, std::uint32_t at) {
        const auto& tasks = program_.branches(op).tasks;
        if (tasks.empty()) return at + 1;
        forEach(crew_.get(), static_cast<std::int64_t>(tasks.size()),
                [each = tasks.data(), ops = ops_, times = times_](std::int64_t i) {
                    for (const auto& [first, last] : each[i]) branch(ops, first, last, times);
                });
        return op.target;
    }

    /// One thread's: launches and copies; forks and fusions within are run node by node.
    static void branch(const Op* ops, std::uint32_t first, std::uint32_t last, Times* times) {
        for (std::uint32_t at = first; at < last; ++at) {
            const Op& op = ops[at];
            if (!op.on) continue;
            if (op.code == Code::Launch)
                timed(times, at, [&] { runHere(op); });
            else if (op.code == Code::Copy || op.code == Code::Zero)
                timed(times, at, [&] { move(op); });
        }
    }

    void fuse(const Op& op, std::uint32_t at) {
        const Fusion& fusion = program_.fusion(op);
        const std::uint32_t first = at + 1, last = op.target;
        const auto start = Clock::time_point(Timed ? Clock::now() : Clock::time_point());
        Shares shares(Timed ? last - first : 0);
        const auto piece = [first, last, ops = ops_, &shares](std::int64_t begin, std::int64_t count) {
            for (std::int64_t end = begin + count; begin < end; begin += kTileSamples)
                tile(ops, first, last, begin, std::min(begin + kTileSamples, end), shares);
        };
        if (fusion.first < fusion.base) piece(fusion.first, fusion.base - fusion.first);
        Team* team = fusion.end - fusion.base >= 2 * fusion.grain ? crew_.get() : nullptr;
        if (team)
            forPieces(*team, fusion.base, fusion.end - fusion.base, fusion.grain, piece);
        else
            piece(fusion.base, fusion.end - fusion.base);
        if constexpr (Timed) shares.divide(since(start), first, *times_);
    }

    /// How long the operations of a fusion took on whatever threads, relative to each other.
    class Shares {
    public:
        explicit Shares(std::uint32_t n) : took_(n) {}

        void add(std::uint32_t i, double seconds) {
            took_[i].fetch_add(static_cast<std::int64_t>(seconds * kTicks), std::memory_order_relaxed);
        }
        void divide(double wall, std::uint32_t first, Times& times) const {
            double sum = 0;
            for (const auto& ticks : took_) sum += static_cast<double>(ticks.load());
            for (std::size_t i = 0; sum > 0 && i < took_.size(); ++i)
                times[first + i] += wall * static_cast<double>(took_[i].load()) / sum;
        }

    private:
        static constexpr double kTicks = 1e9;
        std::vector<std::atomic<std::int64_t>> took_;
    };

    static void tile(const Op* ops, std::uint32_t first, std::uint32_t last, std::int64_t begin, std::int64_t end,
                     Shares& shares) {
        for (std::uint32_t at = first; at < last; ++at) {
            const Op& op = ops[at];
            const plugin::Partition& part = op.launch.part;
            const std::int64_t base = std::max(begin, part.base), stop = std::min(end, part.base + part.count);
            if (!op.on || base >= stop) continue;
            if constexpr (Timed) {
                const auto start = Clock::now();
                op.launch.entry(op.launch.params, base, stop - base, part.nSamples);
                shares.add(at - first, since(start));
            } else {
                op.launch.entry(op.launch.params, base, stop - base, part.nSamples);
            }
        }
    }

    // ---- conditionals: cells are read anew each time, wherever they are ----

    static std::uint32_t load(std::uint64_t address) {
        std::uint32_t value;
        std::memcpy(&value, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(address)), sizeof value);
        return value;
    }
    static void store(std::uint64_t address, std::uint32_t value) {
        std::memcpy(reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), &value, sizeof value);
    }

    static bool holds(const Guard& guard) {
        if (guard.count == 0) return true;
        return (load(guard.count) != (guard.baseline ? load(guard.baseline) : 0)) != (guard.negate != 0);
    }

    std::uint32_t choose(const Op& op) const {
        const Setter& setter = program_.setter(op);
        const std::uint32_t arm = setter.kind == Condition::Switch ? load(setter.guard.count) : !holds(setter.guard);
        return arm < setter.arms.size() ? setter.arms[arm] : op.target;
    }

    static bool enters(const Setter& setter) {
        const LoopCells& loop = setter.loop;
        store(loop.counter, loop.cap);
        store(loop.counter + sizeof(std::uint32_t), 0);
        if (loop.brk) store(loop.brk, 0);
        return loop.cap != 0 && (!loop.limit || load(loop.limit) != 0) && holds(setter.guard);
    }

    static bool repeats(const Setter& setter) {
        const LoopCells& loop = setter.loop;
        const std::uint32_t left = load(loop.counter) - 1;
        const std::uint32_t ran = load(loop.counter + sizeof(std::uint32_t)) + 1;
        store(loop.counter, left);
        store(loop.counter + sizeof(std::uint32_t), ran);
        return left != 0 && (!loop.limit || ran < load(loop.limit)) && (!loop.brk || load(loop.brk) == 0) &&
               holds(setter.guard);
    }

    const Program& program_;
    const Op* const ops_;
    Times* const times_;
    Crew crew_;
};

}  // namespace eagle::exec
