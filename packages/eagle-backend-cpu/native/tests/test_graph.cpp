// The C++ graph, its scratch memory, and branches run side by side.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "eagle/ExecGraph.h"
#include "eagle/exec/HostSchedule.h"

namespace {

using eagle::idx_t;
using eagle::ScratchArena;
using eagle::ScratchHandle;
using eagle::cpu::Graph;
namespace exec = eagle::exec;

template <class Error, class Call>
void checkThrows(Call call, const std::string& words) {
    try {
        call();
    } catch (const Error& error) {
        CHECK(std::string(error.what()).find(words) != std::string::npos);
        return;
    }
    CHECK(!"nothing was thrown");
}

struct Node {
    void reserveScratch(ScratchArena& arena) {
        if (bytes > 0) handle = arena.reserve(bytes);
    }
    void runHost(Graph& graph) {
        trail->push_back(label);
        if (bytes > 0) std::memset(graph.scratchArena().resolve(handle), label, bytes);
    }

    std::vector<int>* trail;
    int label;
    std::size_t bytes = 0;
    ScratchHandle handle{};
};

void testOrder() {
    std::vector<int> trail;
    Graph graph;
    CHECK(graph.nodeCount() == 0 && graph.bytesPerSample() == 0);
    CHECK(&graph.setBytesPerSample(24) == &graph && graph.bytesPerSample() == 24);
    const idx_t first = graph.addNative(Node{&trail, 1});
    const idx_t second = graph.addNative(Node{&trail, 2}, {first, first});
    CHECK(first == 0 && second == 1 && graph.nodeCount() == 2);
    CHECK((graph.nativeDeps() == std::vector<std::vector<idx_t>>{{}, {0}}));
    checkThrows<std::invalid_argument>([&] { graph.addNative(Node{&trail, 3}, {2}); }, "node 2 depends on 2");
    CHECK(graph.nodeCount() == 2);
    graph.run();
    graph.finalize();
    graph.run();
    CHECK((trail == std::vector<int>{1, 2, 1, 2}));
    checkThrows<std::logic_error>([&] { graph.addNative(Node{&trail, 3}); }, "finalized");
    Graph moved = std::move(graph);
    moved.run();
    CHECK(trail.size() == 6);
}

void testDiamond() {
    std::vector<int> trail;
    Graph graph;
    const idx_t top = graph.addNative(Node{&trail, 1, 1000});
    const idx_t left = graph.addNative(Node{&trail, 2, 1000}, {top});
    const idx_t right = graph.addNative(Node{&trail, 3, 1000}, {top});
    graph.addNative(Node{&trail, 4, 1000}, {left, right});
    graph.run();
    CHECK(graph.scratchArena().slotCount() == 2 && graph.scratchArena().peakBytes() == 2048);
}

void testScratch() {
    ScratchArena arena;
    CHECK(arena.slotCount() == 0 && arena.peakBytes() == 0);
    checkThrows<std::logic_error>([&] { arena.reserve(1); }, "no node");
    arena.beginNode(0, {});
    checkThrows<std::logic_error>([&] { arena.beginNode(1, {}); }, "not ended");
    const ScratchHandle a = arena.reserve(1), b = arena.reserve(300);
    arena.endNode();
    checkThrows<std::logic_error>([&] { arena.endNode(); }, "no node");
    checkThrows<std::logic_error>([&] { arena.resolve(a); }, "not committed");
    arena.beginNode(1, {0});
    const ScratchHandle c = arena.reserve(257);
    arena.endNode();
    arena.beginNode(2, {});
    const ScratchHandle d = arena.reserve(0);
    arena.endNode();
    CHECK(arena.slotCount() == 3 && arena.peakBytes() == 256 + 512 + 256);
    CHECK(c.slot == b.slot && d.slot != a.slot);
    arena.commit();
    for (const ScratchHandle handle : {a, b, c, d}) {
        CHECK(reinterpret_cast<std::uintptr_t>(arena.resolve(handle)) % 256 == 0);
    }
    CHECK(arena.resolve(a) != arena.resolve(b) && arena.resolve(b) == arena.resolve(c));
}

void testSchedules() {
    using exec::Schedule;
    CHECK(exec::BRANCH_TASKS_MAX_SAMPLES == 4096);
    CHECK(exec::resolve(4096, 2, 2, true) == Schedule::BranchTasks);
    CHECK(exec::resolve(0, 9, 8, true) == Schedule::BranchTasks);
    CHECK(exec::resolve(4097, 2, 2, true) == Schedule::WorkShare);
    CHECK(exec::resolve(4096, 1, 2, true) == Schedule::WorkShare);
    CHECK(exec::resolve(4096, 2, 1, true) == Schedule::WorkShare);
    CHECK(exec::resolve(4096, 2, 2, false) == Schedule::WorkShare);
}

void addOne(void* const* params, std::int64_t base, std::int64_t count, std::int64_t) {
    for (std::int64_t i = base; i < base + count; ++i) ++static_cast<int*>(params[0])[i];
}

void throwing(void* const*, std::int64_t, std::int64_t, std::int64_t) { throw std::runtime_error("out of luck"); }

void testBranches() {
    std::vector<std::vector<int>> planes(9, std::vector<int>(1000));
    std::vector<void*> params;
    for (auto& plane : planes) params.push_back(plane.data());
    std::vector<exec::HostBranch> branches(9);
    for (std::size_t b = 0; b < 9; ++b)
        for (int node = 0; node < 5; ++node)
            branches[b].push_back({&addOne, &params[b], {{0, 600, 1000}, {600, 400, 1000}, {0, 0, 1000}}});
    for (const int threads : {1, 3}) {
        exec::Team::setSize(threads);
        for (auto& plane : planes) plane.assign(1000, 0);
        for (int round = 0; round < 20; ++round) exec::runHostBranches(branches);
        for (const auto& plane : planes) CHECK(plane == std::vector<int>(1000, 100));
        exec::runHostBranches({});
        branches[3][0].entry = nullptr;
        checkThrows<std::runtime_error>([&] { exec::runHostBranches(branches); }, "null entry");
        branches[3][0].entry = &throwing;
        checkThrows<std::runtime_error>([&] { exec::runHostBranches(branches); }, "out of luck");
        branches[3][0].entry = &addOne;
        const exec::Team::Lease lease = exec::Team::tryLease();  // somebody has the team: in place
        CHECK(lease);
        exec::runHostBranches(branches);
    }
}

}  // namespace

int main() {
    testOrder();
    testDiamond();
    testScratch();
    testSchedules();
    testBranches();
}
