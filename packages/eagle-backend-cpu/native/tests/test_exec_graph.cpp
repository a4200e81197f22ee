// eagle/ExecGraph.h and eagle/cpu/Graph.h: the concept, and the executor of the host.
//
// SPDX-License-Identifier: Apache-2.0
#include "eagle/ExecGraph.h"

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "check.h"
#include "eagle/graph.h"
#include "eagle/util/Busy.h"

using eagle::idx_t;
using eagle::ScratchArena;
using eagle::ScratchHandle;
namespace cpu = eagle::cpu;

namespace {

// ---- the concept

struct Minimal {
    Minimal() = default;
    Minimal(Minimal&&) = default;
    Minimal& operator=(Minimal&&) = default;
    void finalize() {}
    ScratchArena& scratchArena() { return arena; }
    const ScratchArena& scratchArena() const { return arena; }
    const std::vector<std::vector<idx_t>>& nativeDeps() const { return deps; }
    ScratchArena arena;
    std::vector<std::vector<idx_t>> deps;
};
struct Unfinished : Minimal {
    void finalize() = delete;
};
struct Copies : Minimal {
    Copies() = default;
    Copies(const Copies&) : Minimal() {}
    Copies& operator=(const Copies&) { return *this; }
};
struct Stays : Minimal {
    Stays() = default;
    Stays(Stays&&) = delete;
};
struct NeedsMore : Minimal {
    explicit NeedsMore(int) {}
};
struct GivesDepsAway : Minimal {
    std::vector<std::vector<idx_t>> nativeDeps() const { return deps; }
};
struct ChangesDeps : Minimal {
    const std::vector<std::vector<idx_t>>& nativeDeps() { return deps; }
};

static_assert(eagle::ExecGraph<Minimal> && eagle::ExecGraph<cpu::Graph> && eagle::ExecGraph<eagle::Graph>);
static_assert(!eagle::ExecGraph<Unfinished> && !eagle::ExecGraph<Copies> && !eagle::ExecGraph<Stays> &&
              !eagle::ExecGraph<NeedsMore> && !eagle::ExecGraph<GivesDepsAway> && !eagle::ExecGraph<ChangesDeps> &&
              !eagle::ExecGraph<int>);
static_assert(std::is_same_v<eagle::Graph, cpu::Graph> && std::is_same_v<idx_t, std::uint32_t>);
static_assert(std::is_nothrow_move_constructible_v<cpu::Graph> && std::is_nothrow_move_assignable_v<cpu::Graph>);

// ---- the executor

template <class Error, class Fn>
std::string refusal(Fn fn) {
    try {
        fn();
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

/// A node of any function, with scratch of some size.
struct Step {
    std::function<void(cpu::Graph&, void*)> run;
    std::size_t bytes = 0;
    ScratchHandle scratch{};

    void reserveScratch(ScratchArena& arena) {
        if (bytes > 0) scratch = arena.reserve(bytes);
    }
    void runHost(cpu::Graph& graph) { run(graph, bytes > 0 ? graph.scratchArena().resolve(scratch) : nullptr); }
};

void order() {
    cpu::Graph graph;
    std::string ran;
    const auto letter = [&](char c) { return Step{[&ran, c](cpu::Graph&, void*) { ran += c; }}; };
    CHECK(graph.nodeCount() == 0);
    graph.run();
    CHECK(refusal<std::logic_error>([&] { graph.addNative(letter('z')); }).find("run or finalized") !=
          std::string::npos);

    graph = cpu::Graph();
    CHECK(graph.addNative(letter('a')) == 0 && graph.addNative(letter('b')) == 1);
    CHECK(graph.addNative(letter('c'), {1, 0, 1}) == 2);
    CHECK(graph.nodeCount() == 3);
    CHECK((graph.nativeDeps() == std::vector<std::vector<idx_t>>{{}, {}, {0, 1}}));
    CHECK(refusal<std::invalid_argument>([&] { graph.addNative(letter('d'), {3}); }).find("3") != std::string::npos);
    CHECK(graph.nodeCount() == 3 && graph.nativeDeps().size() == 3);
    CHECK(ran.empty());
    graph.finalize();
    graph.finalize();
    graph.run();
    graph.run();
    CHECK(ran == "abcabc");
}

void options() {
    cpu::Graph graph;
    CHECK(graph.bytesPerSample() == 0);
    CHECK(&graph.setBytesPerSample(48) == &graph && graph.bytesPerSample() == 48);
    CHECK(refusal<std::invalid_argument>([&] { graph.setBytesPerSample(-1); }).find("-1") != std::string::npos);
    CHECK(graph.bytesPerSample() == 48);
}

/// Values pass through scratch: a diamond of sums.
void scratch() {
    constexpr int kCells = 125;  // 1000 bytes
    cpu::Graph graph;
    double first = 1, result = 0;
    double *a = nullptr, *b = nullptr, *c = nullptr;  // planes of the caller's
    std::vector<double> planes(3 * kCells);
    a = planes.data(), b = a + kCells, c = b + kCells;
    const auto through = [](void* scratch, auto value, double* out) {
        double* const own = static_cast<double*>(scratch);
        for (int i = 0; i < kCells; ++i) own[i] = value(i);
        for (int i = 0; i < kCells; ++i) out[i] = own[i];
    };
    const std::size_t bytes = kCells * sizeof(double);
    graph.addNative(Step{[&](cpu::Graph&, void* s) { through(s, [&](int i) { return first + i; }, a); }, bytes});
    graph.addNative(Step{[&](cpu::Graph&, void* s) { through(s, [&](int i) { return 2 * a[i]; }, b); }, bytes}, {0});
    graph.addNative(Step{[&](cpu::Graph&, void* s) { through(s, [&](int i) { return a[i] + 1; }, c); }, bytes}, {0});
    graph.addNative(Step{[&](cpu::Graph&, void*) { result = b[kCells - 1] + c[0]; }, bytes}, {1, 2});
    CHECK(std::as_const(graph).scratchArena().slotCount() == 2 && graph.scratchArena().peakBytes() == 2048);
    graph.run();
    CHECK(result == 2 * 125 + 2);
    first = 2;
    cpu::Graph moved = std::move(graph);
    moved.run();
    CHECK(result == 2 * 126 + 3);
}

/// A chain of 1000 nodes has one slot; who waits for whom is followed over many steps.
void chain() {
    cpu::Graph graph;
    const auto nothing = [](cpu::Graph&, void*) {};
    for (idx_t i = 0; i < 1000; ++i)
        graph.addNative(Step{nothing, 1000}, i ? std::vector<idx_t>{i - 1} : std::vector<idx_t>{});
    CHECK(graph.scratchArena().slotCount() == 1 && graph.scratchArena().peakBytes() == 1024);
    graph.addNative(Step{nothing});
    graph.addNative(Step{nothing, 1000}, {500});
    CHECK(graph.scratchArena().slotCount() == 2);  // 501 to 999 may run beside it
}

void held_nodes() {
    struct Counter {
        std::unique_ptr<int> count = std::make_unique<int>(0);
        void reserveScratch(ScratchArena&) {}
        void runHost(cpu::Graph&) { ++*count; }
    };
    Counter mine;
    cpu::Graph graph;
    graph.addNative(std::ref(mine));  // stays the caller's
    graph.addNative(Counter());       // is the graph's
    graph.run();
    graph.run();
    CHECK(*mine.count == 2);
}

void failures() {
    struct Greedy {
        void reserveScratch(ScratchArena& arena) {
            arena.reserve(8);
            throw std::runtime_error("no scratch");
        }
        void runHost(cpu::Graph&) {}
    };
    cpu::Graph graph;
    bool broken = true;
    int later = 0;
    CHECK(refusal<std::runtime_error>([&] { graph.addNative(Greedy()); }) == "no scratch");
    CHECK(graph.nodeCount() == 0 && graph.nativeDeps().empty());
    graph.addNative(Step{[&](cpu::Graph&, void*) {
        if (broken) throw std::runtime_error("as it is");
    }});
    graph.addNative(Step{[&](cpu::Graph&, void*) { ++later; }, 8});
    CHECK(refusal<std::runtime_error>([&] { graph.run(); }) == "as it is");
    CHECK(later == 0);
    broken = false;
    graph.run();
    CHECK(later == 1);
}

void one_caller() {
    cpu::Graph graph;
    std::atomic<bool> inside{false}, go{false};
    std::string again;
    graph.addNative(Step{[&](cpu::Graph& own, void*) {
        again = refusal<eagle::util::Busy>([&] { own.run(); });
        inside = true;
        while (!go) std::this_thread::yield();
    }});
    std::thread first([&] { graph.run(); });
    while (!inside) std::this_thread::yield();
    const std::string text = refusal<eagle::util::Busy>([&] { graph.run(); });
    CHECK(!refusal<eagle::util::Busy>([&] { graph.finalize(); }).empty());
    go = true;
    first.join();
    CHECK(text ==
          "eagle.cpu.Graph.run: another call is still running on this Graph; give each thread its own Graph, or wait "
          "for it");
    CHECK(again == text);
    graph.run();
}

void pictures() {
    cpu::Graph graph;
    const auto nothing = [](cpu::Graph&, void*) {};
    graph.addNative(Step{nothing});
    graph.addNative(Step{nothing}, {0});
    graph.addNative(Step{nothing}, {0});
    graph.addNative(Step{nothing}, {1, 2});
    const eagle::graph::Description d = eagle::graph::describe(graph);
    d.validate();
    CHECK(d.nodes.size() == 4 && d.nodes[3].label == "native3" && d.nodes[3].kind == "native" && !d.nodes[3].own);
    const std::vector<eagle::graph::Edge> wanted = {{0, 1, "", eagle::graph::EdgeKind::Raw},
                                                    {0, 2, "", eagle::graph::EdgeKind::Raw},
                                                    {1, 3, "", eagle::graph::EdgeKind::Raw},
                                                    {2, 3, "", eagle::graph::EdgeKind::Raw}};
    CHECK(d.edges == wanted && d.frames.empty() && d.hidden == 0);
    CHECK(eagle::graph::ascii(eagle::graph::describe(cpu::Graph())) == "  (empty)\n");
    CHECK(eagle::graph::describe(Minimal()).nodes.empty());
}

}  // namespace

int main() {
    order();
    options();
    scratch();
    chain();
    held_nodes();
    failures();
    one_caller();
    pictures();
}
