// A recording made ready to run: a flat array of operations that one call replays.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "eagle/exec/HostSchedule.h"
#include "eagle/exec/HostTeam.h"
#include "eagle/exec/Tape.h"

namespace eagle::exec {

enum class Code : std::uint8_t {
    Launch,
    Copy,
    Zero,
    HostFunction,
    HostCall,
    Native,
    Fork,
    Fuse,
    Choose,
    Head,
    Tail,
    Jump
};

struct LaunchOp {
    plugin::HostEntry entry;
    void* const* params;
    plugin::Partition part;
};

struct Op {
    Code code;
    bool on = true;
    bool cuttable = false;  ///< a launch: long enough for two pieces
    std::uint32_t grain = 0;
    std::uint32_t target = 0;  ///< where it goes on: behind a block, back to a loop's body
    std::uint32_t index = 0;   ///< into the table of its kind
    union {
        LaunchOp launch;
        exec::Copy copy;
        exec::Zero zero;
        exec::HostFunction hostFunction;
        exec::HostCall hostCall;
    };
};

/// Launches that may be run sample by sample: operations up to `target`, over all that any of them covers. Tiles begin
/// at `base`, where the longest begins; what lies before is a tile of its own.
struct Fusion {
    std::int64_t first, base, end;
    std::int64_t grain;
};

/// Branches to be run side by side: the operations of each, as ranges.
struct Branches {
    using Range = std::pair<std::uint32_t, std::uint32_t>;
    std::vector<std::vector<Range>> tasks;
};

/// What a conditional asks before it runs.
struct Setter {
    Condition kind;
    Guard guard;
    LoopCells loop;
    std::vector<std::uint32_t> arms;  ///< where each begins
};

/// Samples of a tile: what a launch of some planes touches stays in the nearest caches.
inline constexpr std::int64_t kTileSamples = 1024;

class Program {
public:
    /// Runs the recordings one after the other. `threads` decides how forks are run.
    Program(const std::vector<std::shared_ptr<const Recording>>& recordings, int threads) : threads_(threads) {
        for (const auto& recording : recordings) add(recording);
        pack();
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    Program(Program&&) = default;
    Program& operator=(Program&&) = default;

    const std::vector<Op>& ops() const { return ops_; }
    const Fusion& fusion(const Op& op) const { return fusions_[op.index]; }
    const Branches& branches(const Op& op) const { return branches_[op.index]; }
    const Setter& setter(const Op& op) const { return setters_[op.index]; }
    const Native& native(const Op& op) const { return natives_[op.index]; }

    /// Operations with this node's id: more than one where its recording is there twice.
    std::vector<std::uint32_t> find(std::uint64_t id) const {
        std::vector<std::uint32_t> found;
        const auto [first, last] = nodes_.equal_range(id);
        for (auto node = first; node != last; ++node) found.push_back(node->second);
        return found;
    }

    std::int64_t kernelNodes() const {
        return std::count_if(leaves_.begin(), leaves_.end(), [this](std::uint32_t leaf) {
            return ops_[leaf].code == Code::Launch || ops_[leaf].code == Code::Native;
        });
    }

    void enable(std::uint32_t op, bool on) { ops_[op].on = on; }
    Arguments& arguments(std::uint32_t op) { return launches_[ops_[op].index].arguments; }
    Setter& setter(std::uint32_t op) { return setters_[ops_[op].index]; }
    void setSource(std::uint32_t op, const void* from) { ops_[op].copy.from = from; }

    /// Launches cover no more than the first n samples.
    void setLogicalSize(std::int64_t n) {
        for (const std::uint32_t leaf : leaves_) {
            Op& op = ops_[leaf];
            if (op.code != Code::Launch) continue;
            op.launch.part.count = std::clamp<std::int64_t>(n - op.launch.part.base, 0, launches_[op.index].count);
            op.cuttable = isCuttable(op);
        }
    }

    /// Takes the place of `old` where both have the same shape: with its switches, and under its ids too.
    bool adopt(const Program& old) {
        if (shape_ != old.shape_) return false;
        std::unordered_map<std::uint32_t, std::uint32_t> now;
        for (std::size_t i = 0; i < leaves_.size(); ++i) {
            now.emplace(old.leaves_[i], leaves_[i]);
            ops_[leaves_[i]].on = old.ops_[old.leaves_[i]].on;
        }
        for (std::size_t i = 0; i < setterOps_.size(); ++i) now.emplace(old.setterOps_[i], setterOps_[i]);
        for (const auto& [id, op] : old.nodes_) nodes_.emplace(id, now.at(op));
        return true;
    }

private:
    struct Recorded {
        std::int64_t count;
        Arguments arguments;
    };

    static bool isCuttable(const Op& op) {
        constexpr std::int64_t kTwo = 2;
        return Cut(op.launch.part.base, op.launch.part.count, op.grain, kTwo).pieces() == kTwo;
    }

    /// Arguments in the order of their launches, one behind the other: a replay reads them in a row.
    void pack() {
        std::size_t units = 0;
        for (const Launch* launch : recorded_) units += launch->arguments.units();
        memory_.resize(units);
        launches_.reserve(recorded_.size());
        Arguments::Unit* next = memory_.data();
        for (const Launch* launch : recorded_) {
            launches_.push_back({launch->part.count, {launch->arguments, next}});
            next += launch->arguments.units();
        }
        for (Op& op : ops_)
            if (op.code == Code::Launch) op.launch.params = launches_[op.index].arguments.data();
        recorded_ = {};
    }

    std::uint32_t here() const { return static_cast<std::uint32_t>(ops_.size()); }

    std::uint32_t emit(Code code, std::size_t index = 0) {
        Op op{};
        op.code = code;
        op.index = static_cast<std::uint32_t>(index);
        ops_.push_back(op);
        return here() - 1;
    }

    void add(const Sequence& sequence) {
        for (std::size_t i = 0; i < sequence.entries.size();) i = addNext(sequence, i);
    }

    /// The item at i, with those after it that are fused with it; where to go on.
    std::size_t addNext(const Sequence& sequence, std::size_t i) {
        const std::size_t end = fusedUntil(sequence, i);
        const auto fuse = end > i + 1 ? addFusion(sequence, i, end) : kNone;
        for (; i < end; ++i) std::visit([this](const auto& item) { add(item); }, sequence.entries[i].item);
        if (fuse != kNone) ops_[fuse].target = here();
        return end;
    }

    static const Launch* launchOf(const Sequence::Entry& entry) {
        const auto* leaf = std::get_if<std::unique_ptr<Leaf>>(&entry.item);
        return leaf ? std::get_if<Launch>(&(*leaf)->work) : nullptr;
    }

    static std::size_t fusedUntil(const Sequence& sequence, std::size_t first) {
        const auto& entries = sequence.entries;
        const Launch* one = launchOf(entries[first]);
        std::size_t end = first + 1;
        if (!one || one->fusion == 0) return end;
        for (; end < entries.size() && entries[end].branch == entries[first].branch; ++end) {
            const Launch* other = launchOf(entries[end]);
            if (!other || other->fusion != one->fusion) break;
        }
        return end;
    }

    /// None where a single tile holds all.
    std::uint32_t addFusion(const Sequence& sequence, std::size_t first, std::size_t last) {
        constexpr double kSmallestPiece = 512;
        const auto& longest = *std::max_element(
            sequence.entries.begin() + static_cast<std::ptrdiff_t>(first),
            sequence.entries.begin() + static_cast<std::ptrdiff_t>(last),
            [](const auto& a, const auto& b) { return launchOf(a)->part.count < launchOf(b)->part.count; });
        Fusion fusion{launchOf(longest)->part.base, launchOf(longest)->part.base, 0, 0};
        double perPiece = 0;
        for (std::size_t i = first; i < last; ++i) {
            const Launch& launch = *launchOf(sequence.entries[i]);
            fusion.first = std::min(fusion.first, launch.part.base);
            fusion.end = std::max(fusion.end, launch.part.base + launch.part.count);
            const bool isAhead = launch.part.base + launch.part.count <= fusion.base;  // no work of a piece
            if (!isAhead) perPiece += 1 / static_cast<double>(launch.grain);
        }
        fusion.grain = static_cast<std::int64_t>(std::max(1 / perPiece, kSmallestPiece));
        if (fusion.end - fusion.first <= kTileSamples) return kNone;
        fusions_.push_back(fusion);
        return emit(Code::Fuse, fusions_.size() - 1);
    }

    void add(const std::unique_ptr<Leaf>& leaf) {
        const std::uint32_t op = here();
        std::visit([this](const auto& work) { addWork(work); }, leaf->work);
        leaves_.push_back(op);
        nodes_.emplace(leaf->id, op);
        shape_.push_back(static_cast<std::uint64_t>(ops_[op].code));
    }

    void addWork(const Launch& work) {
        recorded_.push_back(&work);
        Op& op = ops_[emit(Code::Launch, recorded_.size() - 1)];
        op.grain = static_cast<std::uint32_t>(work.grain);
        op.launch = {work.entry, nullptr, work.part};
        op.cuttable = isCuttable(op);
        shape_.push_back(work.arguments.size());
    }
    void addWork(const Copy& work) { ops_[emit(Code::Copy)].copy = work; }
    void addWork(const Zero& work) { ops_[emit(Code::Zero)].zero = work; }
    void addWork(const HostFunction& work) { ops_[emit(Code::HostFunction)].hostFunction = work; }
    void addWork(const HostCall& work) { ops_[emit(Code::HostCall)].hostCall = work; }
    void addWork(const Native& work) {
        natives_.push_back(work);
        emit(Code::Native, natives_.size() - 1);
    }

    void add(const std::unique_ptr<Fork>& fork) {
        std::unordered_map<std::uint64_t, std::vector<Branches::Range>> ranges;
        const std::uint32_t op = emit(Code::Fork);
        shape_.push_back(static_cast<std::uint64_t>(Code::Fork));
        const auto& entries = fork->sequence.entries;
        for (std::size_t i = 0; i < entries.size();) {
            const std::uint64_t branch = entries[i].branch;
            const std::uint32_t begin = here();
            shape_.push_back(branch);
            i = addNext(fork->sequence, i);
            auto& own = ranges[branch];
            if (!own.empty() && own.back().second == begin)
                own.back().second = here();
            else
                own.emplace_back(begin, here());
        }
        shape_.push_back(kEnd);
        ops_[op].target = here();
        Branches branches;
        if (!fork->waits && scheduleOf(op + 1, here(), ranges.size()) == Schedule::BranchTasks)
            for (auto& [branch, own] : ranges) branches.tasks.push_back(std::move(own));
        std::sort(branches.tasks.begin(), branches.tasks.end());
        ops_[op].index = static_cast<std::uint32_t>(branches_.size());
        branches_.push_back(std::move(branches));
    }

    Schedule scheduleOf(std::uint32_t first, std::uint32_t last, std::size_t branches) const {
        std::int64_t samples = 0;
        bool nativeOnly = true;
        for (; first < last; ++first) {
            const Op& op = ops_[first];
            if (op.code == Code::Launch) samples = std::max(samples, op.launch.part.nSamples);
            nativeOnly &= op.code == Code::Launch || op.code == Code::Copy || op.code == Code::Zero ||
                          op.code == Code::Fork || op.code == Code::Fuse;
        }
        return resolve(samples, static_cast<std::int64_t>(branches), threads_, nativeOnly);
    }

    std::uint32_t addSetter(Code code, const Conditional& conditional, std::uint64_t id) {
        setters_.push_back({conditional.kind, conditional.guard, conditional.loop, {}});
        const std::uint32_t op = emit(code, setters_.size() - 1);
        setterOps_.push_back(op);
        nodes_.emplace(id, op);
        return op;
    }

    void add(const std::unique_ptr<Conditional>& conditional) {
        shape_.insert(shape_.end(), {kConditional, static_cast<std::uint64_t>(conditional->kind)});
        if (conditional->kind == Condition::While) {
            const std::uint32_t head = addSetter(Code::Head, *conditional, conditional->head);
            add(conditional->arms.front());
            ops_[addSetter(Code::Tail, *conditional, conditional->tail)].target = head + 1;
            ops_[head].target = here();
        } else {
            const std::uint32_t choose = addSetter(Code::Choose, *conditional, conditional->head);
            std::vector<std::uint32_t> arms, jumps;
            for (const Sequence& arm : conditional->arms) {
                arms.push_back(here());
                shape_.push_back(kConditional);
                add(arm);
                jumps.push_back(emit(Code::Jump));
            }
            for (const std::uint32_t jump : jumps) ops_[jump].target = here();
            ops_[choose].target = here();
            setters_[ops_[choose].index].arms = std::move(arms);
        }
        shape_.push_back(kEnd);
    }

    void add(const std::shared_ptr<const Recording>& recording) { add(recording->root); }

    // Marks in a shape, apart from codes and counts.
    static constexpr std::uint64_t kEnd = ~std::uint64_t{0}, kConditional = kEnd - 1;
    static constexpr std::uint32_t kNone = ~std::uint32_t{0};

    int threads_;
    std::vector<Op> ops_;
    std::vector<const Launch*> recorded_;  ///< while it is made
    std::vector<Arguments::Unit> memory_;  ///< of the arguments
    std::vector<Recorded> launches_;
    std::vector<Fusion> fusions_;
    std::vector<Branches> branches_;
    std::vector<Setter> setters_;
    std::vector<Native> natives_;
    std::vector<std::uint32_t> leaves_, setterOps_;  ///< operations of nodes, in order
    std::unordered_multimap<std::uint64_t, std::uint32_t> nodes_;
    std::vector<std::uint64_t> shape_;
};

}  // namespace eagle::exec
