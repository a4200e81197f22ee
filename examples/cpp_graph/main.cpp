// A graph in C++: falling bodies, their energies, and the sum of these, over and over.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <vector>

#include "eagle/ExecGraph.h"
#include "eagle/exec/HostTeam.h"
#include "eagle/graph.h"

using eagle::exec::HostTeam;
using eagle::exec::Partition;

namespace {

constexpr double kGravity = 9.81, kStep = 1e-3;

/// Plane by plane: the argument block of every kernel below.
struct Bodies {
    explicit Bodies(std::int64_t n) : count(n), height(n, 100.0), speed(n, 0.0), kinetic(n), potential(n), energy(n) {}

    std::int64_t count;
    std::vector<double> height, speed, kinetic, potential, energy;
};

/// A kernel runs over samples [base, base + count), on whichever thread.
template <auto Sample>
void kernel(void* const* params, std::int64_t base, std::int64_t count, std::int64_t) {
    Bodies& bodies = *static_cast<Bodies*>(params[0]);
    for (std::int64_t i = base; i < base + count; ++i) Sample(bodies, static_cast<std::size_t>(i));
}

void fall(Bodies& b, std::size_t i) {
    b.speed[i] -= kGravity * kStep;
    b.height[i] += b.speed[i] * kStep;
}
void kinetic(Bodies& b, std::size_t i) { b.kinetic[i] = 0.5 * b.speed[i] * b.speed[i]; }
void potential(Bodies& b, std::size_t i) { b.potential[i] = kGravity * b.height[i]; }
void add(Bodies& b, std::size_t i) { b.energy[i] = b.kinetic[i] + b.potential[i]; }

/// A node is anything with these two functions. This one shares its kernel among the team's threads.
struct OverBodies {
    eagle::exec::HostEntryV2 entry;
    Bodies* bodies;

    void reserveScratch(eagle::ScratchArena&) {}
    void runHost(eagle::cpu::Graph& graph) {
        void* params[] = {bodies};
        HostTeam::run(entry, params, Partition::whole(bodies->count), graph.bytesPerSample());
    }
};

/// This one keeps a partial sum of every 1000 bodies while it runs, in memory that the graph shares out.
struct Mean {
    Bodies* bodies;
    double* result;
    eagle::ScratchHandle scratch{};

    std::size_t rows() const { return (bodies->energy.size() + 999) / 1000; }
    void reserveScratch(eagle::ScratchArena& arena) { scratch = arena.reserve(rows() * sizeof(double)); }
    void runHost(eagle::cpu::Graph& graph) {
        double* const partial = static_cast<double*>(graph.scratchArena().resolve(scratch));
        for (std::size_t row = 0; row < rows(); ++row) partial[row] = 0;
        for (std::size_t i = 0; i < bodies->energy.size(); ++i) partial[i / 1000] += bodies->energy[i];
        *result = 0;
        for (std::size_t row = 0; row < rows(); ++row) *result += partial[row];
        *result /= static_cast<double>(bodies->count);
    }
};

}  // namespace

int main() {
    Bodies bodies(10'000);
    double mean = 0;

    eagle::cpu::Graph graph;
    graph.setBytesPerSample(5 * sizeof(double));
    const auto fell = graph.addNative(OverBodies{kernel<fall>, &bodies});
    const auto moving = graph.addNative(OverBodies{kernel<kinetic>, &bodies}, {fell});
    const auto high = graph.addNative(OverBodies{kernel<potential>, &bodies}, {fell});
    const auto sum = graph.addNative(OverBodies{kernel<add>, &bodies}, {moving, high});
    graph.addNative(Mean{&bodies, &mean}, {sum});

    auto picture = eagle::graph::describe(graph);
    const char* const labels[] = {"fall", "kinetic", "potential", "add", "mean"};
    for (auto& node : picture.nodes) node.label = labels[node.id];
    std::fputs(eagle::graph::ascii(picture).c_str(), stdout);

    for (int step = 0; step < 1000; ++step) graph.run();
    std::printf("after 1 s: height %.3f m, speed %.2f m/s, energy %.2f J/kg\n", bodies.height[0], bodies.speed[0],
                mean);
}
