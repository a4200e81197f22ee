// The yardstick of the graphs suite: the same nodes in a flow graph of oneTBB, one task a node, started and awaited
// once a repetition. The graph is made before the clock starts.
#include <chrono>
#include <cstddef>
#include <list>

#include <oneapi/tbb/flow_graph.h>

namespace flow = oneapi::tbb::flow;

namespace {

void axpb(const double* __restrict x, double* __restrict y, double a, double b, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) y[i] = a * x[i] + b;
}

}  // namespace

// Seconds for `repeats` runs of `branches` chains of `length` nodes; node i of all reads xs[i] and writes ys[i].
extern "C" double flow_axpb(const double* const* xs, double* const* ys, double a, double b, std::size_t branches,
                            std::size_t length, std::size_t n, std::size_t repeats) {
    using clock = std::chrono::steady_clock;
    using Message = flow::continue_msg;
    flow::graph graph;
    flow::broadcast_node<Message> source(graph);
    std::list<flow::continue_node<Message>> nodes;
    for (std::size_t i = 0; i < branches * length; ++i) {
        flow::sender<Message>* before = &source;
        if (i % length != 0) before = &nodes.back();
        nodes.emplace_back(graph, [=](const Message&) { axpb(xs[i], ys[i], a, b, n); });
        flow::make_edge(*before, nodes.back());
    }
    const auto start = clock::now();
    for (std::size_t r = 0; r < repeats; ++r) {
        source.try_put(Message());
        graph.wait_for_all();
    }
    return std::chrono::duration<double>(clock::now() - start).count();
}
