// Random programs, captured and replayed, against a serial interpreter of the same program.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "capturing.h"

namespace {

constexpr std::size_t kPlanes = 12;
using Cell = std::uint64_t;

/// What a launch does, as the entry and the interpreter both read it.
struct Box {
    Cell *to, *from;
    std::int64_t n;
    Cell factor;
};

/// Sample-local.
void local(void* const* params, std::int64_t base, std::int64_t count, std::int64_t) {
    const Box& box = **static_cast<Box* const*>(params[0]);
    for (std::int64_t i = base; i < base + count; ++i) {
        box.to[i] = box.to[i] * box.factor + box.from[i] + static_cast<Cell>(i);
    }
}

/// Reads other samples than its own.
void mirrored(void* const* params, std::int64_t base, std::int64_t count, std::int64_t) {
    const Box& box = **static_cast<Box* const*>(params[0]);
    for (std::int64_t i = base; i < base + count; ++i) {
        box.to[i] = box.to[i] * box.factor + box.from[box.n - 1 - i];
    }
}

struct Step {
    enum class Kind { Local, Mirrored, Copy, Zero, Host, Fork, If, IfElse, Switch, While } kind = Kind::Local;
    Box box{};
    Box* boxed = nullptr;
    std::int64_t base = 0, count = 0;
    std::uint32_t grain = 64;
    bool enabled = true, fused = false;
    std::uint64_t node = 0;
    Cells cells;
    std::uint32_t cap = 1, negate = 0;
    std::vector<std::vector<std::unique_ptr<Step>>> parts;  ///< branches or arms
    std::vector<std::size_t> order;                         ///< of a fork: whose step is recorded next
};

using Steps = std::vector<std::unique_ptr<Step>>;

struct Machine {
    explicit Machine(std::int64_t n) : n(n) {
        for (std::size_t p = 0; p < kPlanes; ++p) planes.emplace_back(static_cast<std::size_t>(n));
        reset();
    }
    void reset() {
        for (std::size_t p = 0; p < kPlanes; ++p)
            for (std::size_t i = 0; i < planes[p].size(); ++i) planes[p][i] = p * 1000003 + i;
    }

    std::int64_t n;
    std::vector<std::vector<Cell>> planes;
};

class Generator {
public:
    Generator(std::mt19937& random, Machine& machine) : random_(random), machine_(machine) {}

    Steps steps(const std::vector<std::size_t>& planes, int depth) {
        Steps made;
        for (int i = 0, n = pick(1, depth == 0 ? 10 : 4); i < n; ++i) made.push_back(step(planes, depth));
        return made;
    }

private:
    int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

    std::unique_ptr<Step> step(const std::vector<std::size_t>& planes, int depth) {
        auto made = std::make_unique<Step>();
        Step& s = *made;
        const int kinds = depth < 2 ? 15 : 9;
        const int kind = pick(0, kinds);
        if (kind < 7) {
            s.kind = kind < 5 ? Step::Kind::Local : Step::Kind::Mirrored;
            s.fused = s.kind == Step::Kind::Local && pick(0, 2) > 0;
        } else if (kind < 10) {
            s.kind = kind == 7 ? Step::Kind::Copy : kind == 8 ? Step::Kind::Zero : Step::Kind::Host;
        } else {
            constexpr Step::Kind blocks[] = {Step::Kind::Fork,   Step::Kind::Fork,   Step::Kind::If,
                                             Step::Kind::IfElse, Step::Kind::Switch, Step::Kind::While};
            s.kind = blocks[kind - 10];
        }
        s.box = {plane(planes), plane(planes), machine_.n, static_cast<Cell>(pick(1, 9))};
        while (s.box.from == s.box.to && (s.kind == Step::Kind::Mirrored || s.kind == Step::Kind::Copy)) {
            if (planes.size() == 1) {
                s.kind = Step::Kind::Local;
                break;
            }
            s.box.from = plane(planes);
        }
        s.boxed = &s.box;
        const bool whole = pick(0, 3) > 0;
        s.base = whole ? 0 : pick(0, static_cast<int>(machine_.n));
        s.count = whole ? machine_.n : pick(0, static_cast<int>(machine_.n - s.base));
        s.grain = pick(0, 3) == 0 ? 1u << 30 : static_cast<std::uint32_t>(pick(1, 3000));
        s.enabled = pick(0, 9) > 0;
        s.negate = static_cast<std::uint32_t>(pick(0, 1));
        s.cells.count = static_cast<std::uint32_t>(pick(0, 3));
        s.cells.baseline = static_cast<std::uint32_t>(pick(0, 3));
        s.cap = static_cast<std::uint32_t>(pick(1, 4));
        parts(s, planes, depth);
        return made;
    }

    void parts(Step& s, std::vector<std::size_t> planes, int depth) {
        switch (s.kind) {
            case Step::Kind::Fork: {
                std::shuffle(planes.begin(), planes.end(), random_);
                const std::size_t branches = std::min<std::size_t>(planes.size(), static_cast<std::size_t>(pick(1, 4)));
                for (std::size_t b = 0; b < branches; ++b) {
                    std::vector<std::size_t> own;
                    for (std::size_t p = b; p < planes.size(); p += branches) own.push_back(planes[p]);
                    s.parts.push_back(steps(own, depth + 1));
                    s.order.insert(s.order.end(), s.parts.back().size(), b);
                }
                if (pick(0, 1)) std::shuffle(s.order.begin(), s.order.end(), random_);
                break;
            }
            case Step::Kind::If:
            case Step::Kind::While:
                s.parts.push_back(steps(planes, depth + 1));
                break;
            case Step::Kind::IfElse:
            case Step::Kind::Switch:
                for (int arm = 0, arms = s.kind == Step::Kind::IfElse ? 2 : pick(1, 4); arm < arms; ++arm) {
                    s.parts.push_back(steps(planes, depth + 1));
                }
                break;
            default:
                break;
        }
        // An arm of launches over no samples would be empty.
        if (s.kind != Step::Kind::Fork)
            for (Steps& arm : s.parts)
                arm.front()->count = std::max<std::int64_t>(arm.front()->count, arm.front()->base < machine_.n);
        if (s.kind != Step::Kind::Fork)
            for (Steps& arm : s.parts)
                if (arm.front()->count == 0) arm.front()->kind = Step::Kind::Host, arm.front()->parts.clear();
    }

    Cell* plane(const std::vector<std::size_t>& planes) {
        return machine_.planes[planes[static_cast<std::size_t>(pick(0, static_cast<int>(planes.size()) - 1))]].data();
    }

    std::mt19937& random_;
    Machine& machine_;
};

void hostStep(void* arg) {
    const Box& box = *static_cast<Box*>(arg);
    box.to[0] = box.to[0] * 31 + box.factor;
}

// ---- the serial interpreter
// ------------------------------------------------------------------------------------------

void interpret(const Steps& steps);

bool holds(const Step& s) { return (s.cells.count != s.cells.baseline) != (s.negate != 0); }

void interpret(const Step& s) {
    void* const params[1] = {const_cast<Box**>(&s.boxed)};
    switch (s.kind) {
        case Step::Kind::Local:
            if (s.enabled) local(params, s.base, s.count, s.box.n);
            break;
        case Step::Kind::Mirrored:
            if (s.enabled) mirrored(params, s.base, s.count, s.box.n);
            break;
        case Step::Kind::Copy:
            if (s.enabled) std::memcpy(s.box.to, s.box.from, static_cast<std::size_t>(s.count) * sizeof(Cell));
            break;
        case Step::Kind::Zero:
            if (s.enabled) std::memset(s.box.to, 0, static_cast<std::size_t>(s.count) * sizeof(Cell));
            break;
        case Step::Kind::Host:
            hostStep(s.boxed);
            break;
        case Step::Kind::Fork:
            for (const Steps& branch : s.parts) interpret(branch);
            break;
        case Step::Kind::If:
            if (holds(s)) interpret(s.parts[0]);
            break;
        case Step::Kind::IfElse:
            interpret(s.parts[holds(s) ? 0 : 1]);
            break;
        case Step::Kind::Switch:
            if (s.cells.count < s.parts.size()) interpret(s.parts[s.cells.count]);
            break;
        case Step::Kind::While:
            for (std::uint32_t ran = 0; ran < s.cap; ++ran) interpret(s.parts[0]);
            break;
    }
}

void interpret(const Steps& steps) {
    for (const auto& step : steps) interpret(*step);
}

// ---- the capture
// -----------------------------------------------------------------------------------------------------

/// Forks and conditionals are made before the capture begins: the same walk twice.
class Tape {
public:
    void prepare(const Steps& steps, std::uint64_t stream) {
        for (const auto& step : steps) prepare(*step, stream);
    }

    void record(Steps& steps, std::uint64_t stream) {
        for (auto& step : steps) record(*step, stream);
        OK(eagle_backend_capture_fuse(stream, 0));
    }

    void finish() { CHECK(nextFork_ == forks_.size() && nextConditional_ == conditionals_.size()); }

private:
    void prepare(const Step& s, std::uint64_t stream) {
        if (s.parts.empty()) return;
        if (s.kind == Step::Kind::Fork) {
            forks_.push_back(std::make_unique<Fork>(stream, s.parts.size()));
            const Fork& fork = *forks_.back();
            forkOf_.push_back({&s, forks_.size() - 1});
            for (std::size_t b = 0; b < s.parts.size(); ++b) prepare(s.parts[b], fork.branch(b));
            return;
        }
        const std::uint32_t kind = s.kind == Step::Kind::If       ? EAGLE_COND_IF
                                   : s.kind == Step::Kind::IfElse ? EAGLE_COND_IF_ELSE
                                   : s.kind == Step::Kind::Switch ? EAGLE_COND_SWITCH
                                                                  : EAGLE_COND_WHILE;
        auto desc = conditionalDesc(stream, kind, static_cast<std::uint32_t>(s.parts.size()));
        desc.count_ptr = address(&s.cells.count);
        desc.baseline_ptr = address(&s.cells.baseline);
        desc.negate = s.negate;
        if (s.kind == Step::Kind::While) {
            desc.count_ptr = 0;
            desc.negate = 0;
            desc.counter_ptr = address(s.cells.counter);
            desc.loop_cap = s.cap;
        }
        conditionals_.push_back(std::make_unique<Conditional>(desc));
        forkOf_.push_back({&s, conditionals_.size() - 1});
        const Conditional& made = *conditionals_.back();
        for (std::size_t arm = 0; arm < s.parts.size(); ++arm) prepare(s.parts[arm], made.arm(arm));
    }

    std::size_t indexOf(const Step& s) const {
        return std::find_if(forkOf_.begin(), forkOf_.end(), [&](const auto& one) { return one.first == &s; })->second;
    }

    void record(Step& s, std::uint64_t stream) {
        if (!s.fused) {
            OK(eagle_backend_capture_fuse(stream, 0));
            fusing_ = 0;
        } else if (fusing_ != stream) {
            OK(eagle_backend_capture_fuse(stream, 1));
            fusing_ = stream;
        }
        switch (s.kind) {
            case Step::Kind::Local:
            case Step::Kind::Mirrored: {
                Call call{s.kind == Step::Kind::Local ? &local : &mirrored,
                          {address(&s.boxed)},
                          {8},
                          s.base,
                          s.count,
                          s.box.n,
                          s.grain};
                call.launch(stream, s.negate != 0);
                break;
            }
            case Step::Kind::Copy:
                OK(eagle_backend_memcpy(address(s.box.to), address(s.box.from),
                                        static_cast<std::uint64_t>(s.count) * sizeof(Cell), EAGLE_COPY_H2H, stream));
                break;
            case Step::Kind::Zero:
                OK(eagle_backend_memset_device(address(s.box.to), static_cast<std::uint64_t>(s.count) * sizeof(Cell),
                                               stream));
                break;
            case Step::Kind::Host:
                OK(eagle_backend_host_func(stream, &hostStep, s.boxed));
                break;
            case Step::Kind::Fork: {
                Fork& fork = *forks_[indexOf(s)];
                ++nextFork_;
                fork.fork();
                std::vector<std::size_t> next(s.parts.size());
                for (const std::size_t b : s.order) {
                    record(*s.parts[b][next[b]++], fork.branch(b));
                    OK(eagle_backend_capture_fuse(fork.branch(b), 0));
                    fusing_ = 0;
                }
                fork.join();
                break;
            }
            default: {
                Conditional& conditional = *conditionals_[indexOf(s)];
                ++nextConditional_;
                conditional.begin();
                for (std::size_t arm = 0; arm < s.parts.size(); ++arm) {
                    fusing_ = 0;
                    record(s.parts[arm], conditional.arm(arm));
                }
                fusing_ = 0;
                conditional.end();
            }
        }
    }

    std::vector<std::unique_ptr<Fork>> forks_;
    std::vector<std::unique_ptr<Conditional>> conditionals_;
    std::vector<std::pair<const Step*, std::size_t>> forkOf_;
    std::size_t nextFork_ = 0, nextConditional_ = 0;
    std::uint64_t fusing_ = 0;
};

/// Leaves in the order of recording, as snapshots tell them: for switching off.
void leavesOf(Steps& steps, std::vector<Step*>& out) {
    for (auto& s : steps) {
        const bool launch = s->kind == Step::Kind::Local || s->kind == Step::Kind::Mirrored ||
                            s->kind == Step::Kind::Copy || s->kind == Step::Kind::Zero;
        if (launch && s->count > 0) out.push_back(s.get());
    }
}

void testOne(std::uint32_t seed, std::int64_t n) {
    std::mt19937 random(seed);
    Machine machine(n);
    std::vector<std::size_t> all(kPlanes);
    for (std::size_t p = 0; p < kPlanes; ++p) all[p] = p;
    Steps steps = Generator(random, machine).steps(all, 0);
    Recorder recorder;
    Tape tape;
    tape.prepare(steps, recorder.raw);
    std::vector<std::pair<Step*, std::uint64_t>> nodes;
    recorder.begin();
    std::size_t before = 0;
    for (auto& step : steps) {
        Steps one;
        one.push_back(std::move(step));
        tape.record(one, recorder.raw);
        const auto now = recorder.nodes();
        std::vector<Step*> leaves;
        leavesOf(one, leaves);
        if (!leaves.empty()) nodes.emplace_back(leaves[0], now.back());
        CHECK(leaves.empty() || now.size() == before + 1);
        before = now.size();
        step = std::move(one[0]);
    }
    tape.finish();
    const eagle_launcher launcher = [&] {
        const eagle_captured captured = recorder.end();
        std::int32_t valid = 0;
        OK(eagle_backend_captured_is_valid(captured, &valid));
        if (valid) return launcherOf(captured);
        eagle_backend_captured_release(captured);
        return eagle_launcher{};
    }();
    if (!launcher) return;
    std::set<const Step*> top;
    for (const auto& [step, node] : nodes) {
        if (!step->enabled) OK(eagle_backend_launcher_set_node_enabled(launcher, node, 0));
        top.insert(step);
    }
    // Only nodes of the outermost sequence are switched off here.
    const auto enableInner = [&](auto&& self, Steps& of) -> void {
        for (auto& s : of) {
            if (!top.contains(s.get())) s->enabled = true;
            for (Steps& part : s->parts) self(self, part);
        }
    };
    enableInner(enableInner, steps);
    interpret(steps);
    interpret(steps);
    const auto expected = machine.planes;
    machine.reset();
    OK(eagle_backend_launcher_launch(launcher));
    OK(eagle_backend_launcher_launch(launcher));
    if (machine.planes != expected) {
        std::fprintf(stderr, "program %u with n = %lld: other bits than the serial interpreter's\n", seed,
                     static_cast<long long>(n));
        std::_Exit(1);
    }
    machine.reset();
    for (int i = 0; i < 2; ++i) OK(eagle_backend_launcher_launch_timed(launcher, nullptr, 0, nullptr));
    CHECK(machine.planes == expected);
    eagle_backend_launcher_release(launcher);
}

}  // namespace

int main() {
    constexpr std::uint32_t kPrograms = 6000;
    std::int32_t previous = 0;
    for (std::uint32_t seed = 0; seed < kPrograms; ++seed) {
        OK(eagle_backend_team_size(1 + static_cast<std::int32_t>(seed % 4), &previous));
        testOne(seed, seed % 10 == 0 ? 20011 : seed % 3 == 0 ? 3000 : 100 + seed % 77);
    }
}
