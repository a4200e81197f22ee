// Group fork: branches of a capture. Outside a capture there is nothing to order, as streams are synchronous.
//
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "guard.h"
#include "registry.h"
#include "stream.h"

namespace eagle::cpu {
namespace {

constexpr std::uint64_t kMostBranches = 1 << 16;

class Branching {
public:
    Branching(const eagle_fork_desc& d, std::shared_ptr<Stream> origin)
        : originRaw(d.origin), branches(d.branch_count), origin_(std::move(origin)), mostMarks_(d.wait_count) {}
    Branching(const Branching&) = delete;
    Branching& operator=(const Branching&) = delete;
    ~Branching() {
        if (isRecording() && !isTidy())
            capture_->fail("a fork was released while a fork or capture of a branch was open");
        if (isRecording() && isTidy()) join();
    }

    void fork() {
        if (forked) return;
        if (origin_ && origin_->sink) {
            for (const OwnStream& branch : branches)
                if (branch->sink) refuse(EAGLE_ERROR, "a branch is being captured by another capture");
            begin();
        }
        forked = true;
    }

    void join() {
        if (isRecording()) {
            if (!isTidy()) refuse(EAGLE_ERROR, "a fork within a branch is not joined; that is wanted first");
            for (const OwnStream& branch : branches) branch->sink.reset();
            origin_->sink = std::move(before_);
            --capture_->openBlocks;
        }
        capture_.reset();
        before_.reset();
        block_ = nullptr;
        forked = false;
    }

    std::uint64_t mark(std::uint64_t producer) {
        requireBranch(producer);
        requireRecording();
        if (marks_ >= mostMarks_) {
            refuse(EAGLE_INDEX, "desc.wait_count was %llu, and that many marks are set",
                   static_cast<unsigned long long>(mostMarks_));
        }
        return marks_++;
    }

    void wait(std::uint64_t waiter, std::uint64_t mark) {
        requireBranch(waiter);
        requireRecording();
        if (mark >= marks_) {
            refuse(EAGLE_INDEX, "mark is %llu; one of the %llu that are set is wanted",
                   static_cast<unsigned long long>(mark), static_cast<unsigned long long>(marks_));
        }
        block_->waits = true;  // what is recorded runs in the order of recording then
    }

    void requireBranch(std::uint64_t index) const {
        if (index >= branches.size()) {
            refuse(EAGLE_INDEX, "branch %llu is not one of the %zu", static_cast<unsigned long long>(index),
                   branches.size());
        }
    }

    const std::uint64_t originRaw;
    std::vector<OwnStream> branches;
    bool forked = false;

private:
    bool isRecording() const { return capture_ && capture_->tape->open; }

    /// Every stream records where this fork has put it: no fork within is open.
    bool isTidy() const {
        for (std::size_t i = 0; i < branches.size(); ++i)
            if (!branches[i]->sink || !branches[i]->sink->isAt(block_->sequence, i)) return false;
        return origin_->sink && origin_->sink->isAt(block_->sequence, branches.size());
    }

    /// What the origin records until the join is one branch more.
    void begin() {
        auto block = std::make_unique<exec::Fork>();
        exec::Fork* const here = block.get();
        Sink before = *origin_->sink;
        before.fusion = 0;
        before.append(std::move(block));
        capture_ = before.capture;
        for (std::size_t i = 0; i < branches.size(); ++i)
            capture_->attach(*branches[i], here->sequence, i, *before.nodes);
        capture_->attach(origin_, here->sequence, branches.size(), *before.nodes);
        ++capture_->openBlocks;
        block_ = here;
        before_ = std::move(before);
        marks_ = 0;
    }

    void requireRecording() const {
        if (!isRecording()) refuse(EAGLE_ERROR, "the fork is not open in a capture; fork_fork is wanted first");
    }

    const std::shared_ptr<Stream> origin_;
    const std::uint64_t mostMarks_;
    std::uint64_t marks_ = 0;
    std::shared_ptr<Capture> capture_;
    std::optional<Sink> before_;
    exec::Fork* block_ = nullptr;
};

Registry<eagle_fork, Branching>& forks() {
    static auto* const registry = new Registry<eagle_fork, Branching>("fork");  // outlives late calls at exit
    return *registry;
}

}  // namespace
}  // namespace eagle::cpu

using namespace eagle::cpu;

eagle_status eagle_backend_fork_create(const eagle_fork_desc* desc, eagle_fork* out) {
    return guard("fork_create", [&] {
        const eagle_fork_desc d = readStruct("desc", desc);
        requireOut("out", out);
        requireNoFlags("desc", d.flags);
        requireDevice(d.device);
        auto origin = requireStream(d.origin);
        if (d.branch_count == 0 || d.branch_count > kMostBranches) {
            refuse(EAGLE_INVALID_ARGUMENT, "desc.branch_count is %llu; 1 to %llu is wanted",
                   static_cast<unsigned long long>(d.branch_count), static_cast<unsigned long long>(kMostBranches));
        }
        *out = forks().add(std::make_shared<Branching>(d, std::move(origin)));
    });
}

eagle_status eagle_backend_fork_fork(eagle_fork fork) {
    return guard("fork_fork", [&] { forks().get(fork)->fork(); });
}

eagle_status eagle_backend_fork_join(eagle_fork fork) {
    return guard("fork_join", [&] { forks().get(fork)->join(); });
}

eagle_status eagle_backend_fork_branch(eagle_fork fork, uint64_t index, uint64_t* out) {
    return guard("fork_branch", [&] {
        const auto self = forks().get(fork);
        requireOut("out", out);
        self->requireBranch(index);
        *out = self->branches[index]->raw;
    });
}

eagle_status eagle_backend_fork_origin(eagle_fork fork, uint64_t* out) {
    return guard("fork_origin", [&] {
        const auto self = forks().get(fork);
        requireOut("out", out);
        *out = self->originRaw;
    });
}

eagle_status eagle_backend_fork_forked(eagle_fork fork, int32_t* out) {
    return guard("fork_forked", [&] {
        const auto self = forks().get(fork);
        requireOut("out", out);
        *out = self->forked;
    });
}

eagle_status eagle_backend_fork_size(eagle_fork fork, uint64_t* out) {
    return guard("fork_size", [&] {
        const auto self = forks().get(fork);
        requireOut("out", out);
        *out = self->branches.size();
    });
}

void eagle_backend_fork_release(eagle_fork fork) {
    guard("fork_release", [&] { forks().remove(fork); });
}

eagle_status eagle_backend_fork_mark(eagle_fork fork, uint64_t producer, uint64_t* mark) {
    return guard("fork_mark", [&] {
        const auto self = forks().get(fork);
        requireOut("mark", mark);
        *mark = self->mark(producer);
    });
}

eagle_status eagle_backend_fork_wait(eagle_fork fork, uint64_t waiter, uint64_t mark) {
    return guard("fork_wait", [&] { forks().get(fork)->wait(waiter, mark); });
}
