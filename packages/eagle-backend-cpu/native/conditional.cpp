// Group conditional: parts of a capture that a cell decides about on each replay.
//
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "guard.h"
#include "registry.h"
#include "stream.h"

namespace eagle::cpu {
namespace {

constexpr std::uint32_t kMostArms = 1 << 16;

using exec::Condition;

class Conditioning {
public:
    Conditioning(const eagle_conditional_desc& d, Condition kind, std::uint32_t arms, std::shared_ptr<Stream> origin)
        : streams(arms), isLoop(kind == Condition::While), armNodes(arms), origin_(std::move(origin)) {
        made_.kind = kind;
        made_.guard = {d.count_ptr, d.baseline_ptr, d.negate};
        made_.loop = {d.loop_cap, 0, d.counter_ptr, d.limit_ptr, d.brk_ptr};
    }
    Conditioning(const Conditioning&) = delete;
    Conditioning& operator=(const Conditioning&) = delete;
    ~Conditioning() {
        if (!isOpen()) return;
        if (!isTidy()) capture_->fail("a conditional was released while a fork of an arm was open");
        close();
    }

    void begin() {
        if (!origin_ || !origin_->sink) refuse(EAGLE_ERROR, "the origin is not being captured; that is wanted first");
        if (isOpen()) refuse(EAGLE_ERROR, "the conditional has begun; its end is wanted first");
        for (const OwnStream& arm : streams)
            if (arm->sink) refuse(EAGLE_ERROR, "an arm is being captured by another capture");
        auto block = std::make_unique<exec::Conditional>();
        block->kind = made_.kind;
        block->guard = made_.guard;
        block->loop = made_.loop;
        block->head = newNode(false);
        block->id = newNode(false);
        block->tail = isLoop ? newNode(false) : 0;
        block->arms.resize(streams.size());
        exec::Conditional* const here = block.get();
        Sink& sink = *origin_->sink;
        sink.nodes->insert(sink.nodes->end(), {here->head, here->id});
        setters = {here->head};
        tail_ = here->tail;
        capture_ = sink.capture;
        sink.append(std::move(block));
        for (std::size_t i = 0; i < streams.size(); ++i) {
            armNodes[i].clear();
            capture_->attach(*streams[i], here->arms[i], 0, armNodes[i]);
        }
        ++capture_->openBlocks;
        block_ = here;
    }

    void end() {
        if (!isOpen()) {
            close();
            return;
        }
        if (!isTidy()) refuse(EAGLE_ERROR, "a fork within an arm is not joined; that is wanted first");
        for (std::size_t i = 0; i < streams.size(); ++i) {
            if (!block_->arms[i].empty()) continue;
            const char* const what = isLoop ? "the body of the loop" : "an arm of the conditional";
            capture_->fail(std::string(what) + " is empty");
            close();
            refuse(EAGLE_INVALID_ARGUMENT, "%s (arm %zu) captured no work; some is wanted", what, i);
        }
        if (isLoop) setters = {setters.front(), tail_};
        close();
    }

    std::uint64_t armStream(std::uint64_t arm) const {
        requireArm(arm);
        return streams[arm]->raw;
    }

    const Nodes& nodes(std::int64_t which) const {
        if (which == -1) return setters;
        requireArm(static_cast<std::uint64_t>(which));
        return armNodes[static_cast<std::size_t>(which)];
    }

    std::vector<OwnStream> streams;
    const bool isLoop;
    std::vector<Nodes> armNodes;
    Nodes setters;

private:
    void requireArm(std::uint64_t arm) const {
        if (arm >= streams.size()) {
            refuse(EAGLE_INDEX, "arm %lld is not one of the %zu", static_cast<long long>(arm), streams.size());
        }
    }

    bool isOpen() const { return capture_ && capture_->tape->open; }

    bool isTidy() const {
        for (std::size_t i = 0; i < streams.size(); ++i)
            if (!streams[i]->sink || !streams[i]->sink->isAt(block_->arms[i], 0)) return false;
        return true;
    }

    void close() {
        if (isOpen()) {
            for (const OwnStream& arm : streams) arm->sink.reset();
            --capture_->openBlocks;
        }
        capture_.reset();
        block_ = nullptr;
    }

    exec::Conditional made_{};
    const std::shared_ptr<Stream> origin_;
    std::shared_ptr<Capture> capture_;
    exec::Conditional* block_ = nullptr;
    std::uint64_t tail_ = 0;
};

Registry<eagle_conditional, Conditioning>& conditionals() {
    static auto* const registry = new Registry<eagle_conditional, Conditioning>("conditional");
    return *registry;
}

Condition kindOf(const eagle_conditional_desc& d) {
    if (d.kind == 0) return d.counter_ptr ? Condition::While : Condition::If;
    if (d.kind > EAGLE_COND_SWITCH) {
        refuse(EAGLE_UNSUPPORTED, "desc.kind is %u; %d to %d, or 0, is known", d.kind, EAGLE_COND_IF,
               EAGLE_COND_SWITCH);
    }
    return static_cast<Condition>(d.kind);
}

std::uint32_t armsOf(const eagle_conditional_desc& d, Condition kind) {
    const std::uint32_t own = kind == Condition::IfElse ? 2 : 1;
    const bool isSwitch = kind == Condition::Switch;
    const std::uint32_t arms = d.arms == 0 && !isSwitch ? own : d.arms;
    if (isSwitch ? arms == 0 || arms > kMostArms : arms != own) {
        refuse(EAGLE_INVALID_ARGUMENT, "desc.arms is %u; %u%s is wanted", d.arms, own, isSwitch ? " or more" : "");
    }
    return arms;
}

std::shared_ptr<Conditioning> create(const eagle_conditional_desc& d) {
    requireNoFlags("desc", d.flags);
    requireDevice(d.device);
    auto origin = requireStream(d.origin);
    const Condition kind = kindOf(d);
    const std::uint32_t arms = armsOf(d, kind);
    if (d.reserved != 0) refuse(EAGLE_INVALID_ARGUMENT, "desc.reserved is %u; 0 is wanted", d.reserved);
    if (kind == Condition::Switch && d.count_ptr == 0) {
        refuse(EAGLE_INVALID_ARGUMENT, "desc.count_ptr is 0; the cell that tells the arm is wanted");
    }
    if (kind == Condition::While && (d.counter_ptr == 0 || d.loop_cap == 0)) {
        refuse(EAGLE_INVALID_ARGUMENT,
               "desc.counter_ptr is %#llx and desc.loop_cap %u; two cells and 1 or more are wanted",
               static_cast<unsigned long long>(d.counter_ptr), d.loop_cap);
    }
    return std::make_shared<Conditioning>(d, kind, arms, std::move(origin));
}

}  // namespace
}  // namespace eagle::cpu

using namespace eagle::cpu;

eagle_status eagle_backend_conditional_create(const eagle_conditional_desc* desc, eagle_conditional* out) {
    return guard("conditional_create", [&] {
        const eagle_conditional_desc d = readStruct("desc", desc);
        requireOut("out", out);
        *out = conditionals().add(create(d));
    });
}

eagle_status eagle_backend_conditional_begin(eagle_conditional conditional, uint64_t* stream) {
    return guard("conditional_begin", [&] {
        const auto self = conditionals().get(conditional);
        requireOut("stream", stream);
        self->begin();
        *stream = self->armStream(0);
    });
}

eagle_status eagle_backend_conditional_body_stream(eagle_conditional conditional, uint64_t* stream) {
    return guard("conditional_body_stream", [&] {
        const auto self = conditionals().get(conditional);
        requireOut("stream", stream);
        *stream = self->armStream(0);
    });
}

eagle_status eagle_backend_conditional_is_loop(eagle_conditional conditional, int32_t* out) {
    return guard("conditional_is_loop", [&] {
        const auto self = conditionals().get(conditional);
        requireOut("out", out);
        *out = self->isLoop;
    });
}

eagle_status eagle_backend_conditional_end(eagle_conditional conditional) {
    return guard("conditional_end", [&] { conditionals().get(conditional)->end(); });
}

void eagle_backend_conditional_release(eagle_conditional conditional) {
    guard("conditional_release", [&] { conditionals().remove(conditional); });
}

eagle_status eagle_backend_conditional_arm_stream(eagle_conditional conditional, uint64_t arm, uint64_t* stream) {
    return guard("conditional_arm_stream", [&] {
        const auto self = conditionals().get(conditional);
        requireOut("stream", stream);
        *stream = self->armStream(arm);
    });
}

eagle_status eagle_backend_conditional_nodes(eagle_conditional conditional, int64_t which, uint64_t** nodes,
                                             int64_t* count) {
    return guard("conditional_nodes", [&] {
        const auto self = conditionals().get(conditional);
        requireOut("nodes", nodes);
        requireOut("count", count);
        giveNodes(self->nodes(which), nodes, count);
    });
}
