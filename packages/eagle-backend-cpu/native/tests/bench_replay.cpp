// What a replay costs: chains, forks, fused chains.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "check.h"
#include "eagle/eagle_backend.h"
#include "eagle/plugin.h"

namespace {

using Clock = std::chrono::steady_clock;
using eagle::plugin::ScalarHandle;

void step(void* const* params, std::int64_t base, std::int64_t count, std::int64_t) {
    const auto* x = static_cast<const double*>(static_cast<const ScalarHandle*>(params[0])->data) + base;
    auto* y = static_cast<double*>(static_cast<const ScalarHandle*>(params[1])->data) + base;
    for (std::int64_t i = 0; i < count; ++i) y[i] = 0.5 * x[i] + 0.25;
}

struct Nodes {
    Nodes(std::int64_t n, int planes, int nodes) : n(n), cells(static_cast<std::size_t>(planes)) {
        for (auto& plane : cells) {
            plane.assign(static_cast<std::size_t>(n) + 8, 1.0);
            const auto toLine = (64 - reinterpret_cast<std::uintptr_t>(plane.data()) % 64) % 64 / sizeof(double);
            handles.push_back({plane.data() + toLine, static_cast<std::uint64_t>(n), 1, 1, 0});
        }
        for (int i = 0; i < nodes; ++i) {
            boxes.push_back({reinterpret_cast<std::uintptr_t>(&handles[static_cast<std::size_t>(i % planes)]),
                             reinterpret_cast<std::uintptr_t>(&handles[static_cast<std::size_t>((i + 1) % planes)])});
        }
    }
    void launch(std::size_t i, std::uint64_t stream) {
        eagle_launch_desc d{};
        d.struct_size = sizeof d;
        d.block = 8192;
        d.function = reinterpret_cast<std::uintptr_t>(&step);
        d.params = boxes[i].data();
        d.nparams = 2;
        d.count = d.n_samples = n;
        d.stream = stream;
        std::int32_t launched;
        CHECK(eagle_backend_run_device(&d, &launched) == EAGLE_OK);
    }
    std::int64_t n;
    std::vector<std::vector<double>> cells;
    std::vector<ScalarHandle> handles;
    std::vector<std::vector<std::uint64_t>> boxes;
};

template <class Record>
eagle_launcher capture(Record record) {
    eagle_stream_desc sd{sizeof sd, 0, -1, 0};
    eagle_stream stream;
    std::uint64_t raw;
    CHECK(eagle_backend_stream_create(&sd, &stream) == EAGLE_OK && eagle_backend_stream_ptr(stream, &raw) == EAGLE_OK);
    eagle_capturer_desc cd{sizeof cd, 0, -1, 0, raw};
    eagle_capturer capturer;
    eagle_captured captured;
    eagle_graph graph;
    eagle_launcher launcher;
    CHECK(eagle_backend_capturer_create(&cd, &capturer) == EAGLE_OK);
    const auto whole = record(raw, capturer);
    (void)whole;
    CHECK(eagle_backend_capturer_end(capturer, &captured) == EAGLE_OK);
    CHECK(eagle_backend_graph_from_captured(captured, &graph) == EAGLE_OK);
    CHECK(eagle_backend_graph_launcher(graph, &launcher) == EAGLE_OK);
    return launcher;
}

/// Of the quietest of many short stretches: what a busy machine adds is left out.
double bestNs(eagle_launcher launcher) {
    for (int i = 0; i < 3; ++i) CHECK(eagle_backend_launcher_launch(launcher) == EAGLE_OK);
    double best = 1e300;
    const auto end = Clock::now() + std::chrono::milliseconds(300);
    do {
        constexpr int kReps = 4;
        const auto start = Clock::now();
        for (int i = 0; i < kReps; ++i) CHECK(eagle_backend_launcher_launch(launcher) == EAGLE_OK);
        best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kReps);
    } while (Clock::now() < end);
    return best;
}

void chain(int nodes, std::int64_t n, int planes, bool fused) {
    Nodes of(n, planes, nodes);
    const auto launcher = capture([&](std::uint64_t stream, eagle_capturer capturer) {
        CHECK(eagle_backend_capturer_begin(capturer) == EAGLE_OK);
        if (fused) CHECK(eagle_backend_capture_fuse(stream, 1) == EAGLE_OK);
        for (int i = 0; i < nodes; ++i) of.launch(static_cast<std::size_t>(i), stream);
        return 0;
    });
    const double ns = bestNs(launcher);
    std::printf("chain %4d  n %8lld  planes %3d %s  %12.1f ns  %9.1f ns a node\n", nodes, static_cast<long long>(n),
                planes, fused ? "fused" : "     ", ns, ns / nodes);
    eagle_backend_launcher_release(launcher);
}

void forked(std::uint64_t branches, int nodes, std::int64_t n) {
    const int all = static_cast<int>(branches) * nodes;
    Nodes of(n, all + 1, all);
    const auto launcher = capture([&](std::uint64_t stream, eagle_capturer capturer) {
        eagle_fork_desc d{};
        d.struct_size = sizeof d;
        d.device = -1;
        d.origin = stream;
        d.branch_count = branches;
        eagle_fork fork;
        CHECK(eagle_backend_fork_create(&d, &fork) == EAGLE_OK && eagle_backend_capturer_begin(capturer) == EAGLE_OK);
        CHECK(eagle_backend_fork_fork(fork) == EAGLE_OK);
        for (std::uint64_t b = 0; b < branches; ++b) {
            std::uint64_t branch;
            CHECK(eagle_backend_fork_branch(fork, b, &branch) == EAGLE_OK);
            for (int i = 0; i < nodes; ++i)
                of.launch(b * static_cast<std::size_t>(nodes) + static_cast<std::size_t>(i), branch);
        }
        CHECK(eagle_backend_fork_join(fork) == EAGLE_OK);
        return 0;
    });
    const double ns = bestNs(launcher);
    std::printf("fork %llu x %d  n %lld  %12.1f ns\n", static_cast<unsigned long long>(branches), nodes,
                static_cast<long long>(n), ns);
    eagle_backend_launcher_release(launcher);
}

}  // namespace

int main() {
    for (int nodes : {1, 8, 64, 1000}) chain(nodes, 64, 2, false);
    for (int nodes : {1, 8, 64}) chain(nodes, 1, 2, false);
    for (std::int64_t n : {std::int64_t{100000}, std::int64_t{1000000}})
        for (int planes : {2, 65})
            for (bool fused : {false, true}) chain(64, n, planes, fused);
    chain(1, 100000, 2, false);
    chain(8, 100000, 9, true);
    forked(2, 16, 1024);
    forked(8, 16, 1024);
}
