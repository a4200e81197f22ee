// Group graph: recordings one after the other.
//
// SPDX-License-Identifier: Apache-2.0
#include "graph.h"

#include "guard.h"
#include "registry.h"
#include "stream.h"

namespace eagle::cpu {
namespace {

struct Graph {
    Recordings recordings;
    std::shared_ptr<Stream> stream;
};

Registry<eagle_graph, Graph>& graphs() {
    static auto* const registry = new Registry<eagle_graph, Graph>("graph");  // outlives late calls at exit
    return *registry;
}

}  // namespace
}  // namespace eagle::cpu

using namespace eagle::cpu;

eagle_status eagle_backend_graph_create(const eagle_graph_desc* desc, eagle_graph* out) {
    return guard("graph_create", [&] {
        const eagle_graph_desc d = readStruct("desc", desc);
        requireOut("out", out);
        requireNoFlags("desc", d.flags);
        requireDevice(d.device);
        *out = graphs().add(std::make_shared<Graph>());
    });
}

eagle_status eagle_backend_graph_from_captured(eagle_captured consumed, eagle_graph* out) {
    return guard("graph_from_captured", [&] {
        auto graph = std::make_shared<Graph>();
        graph->recordings.push_back(requireRecording(consumed));
        requireOut("out", out);
        *out = graphs().add(std::move(graph));
        dropCaptured(consumed);
    });
}

eagle_status eagle_backend_graph_stream(eagle_graph graph, uint64_t stream) {
    return guard("graph_stream", [&] {
        const auto self = graphs().get(graph);
        self->stream = requireStream(stream);
    });
}

eagle_status eagle_backend_graph_add_node(eagle_graph graph, eagle_captured consumed) {
    return guard("graph_add_node", [&] {
        const auto self = graphs().get(graph);
        self->recordings.push_back(requireRecording(consumed));
        dropCaptured(consumed);
    });
}

eagle_status eagle_backend_graph_launcher(eagle_graph graph, eagle_launcher* out) {
    return guard("graph_launcher", [&] {
        const auto self = graphs().get(graph);
        requireOut("out", out);
        if (self->recordings.empty()) refuse(EAGLE_INVALID_ARGUMENT, "the graph has no node; some are wanted");
        *out = newLauncher(self->recordings, self->stream);
    });
}

eagle_status eagle_backend_graph_last_node(eagle_graph graph, int64_t* out) {
    return guard("graph_last_node", [&] {
        const auto self = graphs().get(graph);
        requireOut("out", out);
        *out = static_cast<int64_t>(self->recordings.size()) - 1;
    });
}

void eagle_backend_graph_release(eagle_graph graph) {
    guard("graph_release", [&] { graphs().remove(graph); });
}
