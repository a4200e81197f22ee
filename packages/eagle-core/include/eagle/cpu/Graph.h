// A graph of the caller's own nodes, run on the host.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "eagle/ScratchArena.h"
#include "eagle/util/Busy.h"

namespace eagle::cpu {

class Graph;

/// What a graph of the host can hold: reserveScratch is called once, when it is added, and runHost once a run.
template <class N>
concept HostNode = requires(N& node, ScratchArena& arena, Graph& graph) {
    node.reserveScratch(arena);
    node.runHost(graph);
};

/// Nodes run one after the other, in the order they were added. One call at a time: util::Busy for a second.
class Graph {
public:
    Graph() = default;
    /// What is moved from is empty and open. Neither may be running.
    Graph(Graph&& other) noexcept : state_(std::exchange(other.state_, State())) {}
    Graph& operator=(Graph&& other) noexcept {
        state_ = std::exchange(other.state_, State());
        return *this;
    }

    /// Adds a copy of the node, or the very one that std::ref names, which must outlive the graph; returns its number.
    /// It comes after the nodes `deps`. invalid_argument for one that does not exist, logic_error for a graph that was
    /// finalized; the graph is as it was then, and after an exception of the node's.
    template <class N>
        requires HostNode<std::unwrap_reference_t<std::decay_t<N>>>
    idx_t addNative(N&& node, std::vector<idx_t> deps = {}) {
        const util::BusyGuard::Scope turn = guard_.scope("addNative");
        if (state_.finalized)
            throw std::logic_error(
                "eagle.cpu.Graph.addNative: found a graph that was run or finalized, wanted an open one; make a new "
                "Graph");
        return insert(std::make_unique<Held<std::unwrap_ref_decay_t<N>>>(std::forward<N>(node)), std::move(deps));
    }

    /// Takes the memory of all nodes: from here on there can be no more. A second time it does nothing.
    void finalize() {
        const util::BusyGuard::Scope turn = guard_.scope("finalize");
        close();
    }

    /// Finalizes, and runs all nodes once. What a node throws comes out, and later ones do not run; the graph can be
    /// run again.
    void run() {
        const util::BusyGuard::Scope turn = guard_.scope("run");
        close();
        for (const std::unique_ptr<Node>& node : state_.nodes) node->run(*this);
    }

    std::size_t nodeCount() const { return state_.nodes.size(); }

    /// Bytes that a sample takes, for nodes that cut their work into tiles (exec::HostTeam); 0, as it begins: not told.
    std::int64_t bytesPerSample() const { return state_.bytesPerSample; }
    Graph& setBytesPerSample(std::int64_t bytes) {
        if (bytes < 0)
            throw std::invalid_argument("eagle.cpu.Graph.setBytesPerSample: found " + std::to_string(bytes) +
                                        ", wanted 0 or more");
        state_.bytesPerSample = bytes;
        return *this;
    }

    ScratchArena& scratchArena() { return state_.arena; }
    const ScratchArena& scratchArena() const { return state_.arena; }

    /// For each node those it waits for, in order.
    const std::vector<std::vector<idx_t>>& nativeDeps() const { return state_.deps; }

private:
    struct Node {
        virtual ~Node() = default;
        virtual void reserve(ScratchArena& arena) = 0;
        virtual void run(Graph& graph) = 0;
    };
    template <class N>
    struct Held final : Node {
        explicit Held(N node) : node(std::forward<N>(node)) {}
        void reserve(ScratchArena& arena) override { node.reserveScratch(arena); }
        void run(Graph& graph) override { node.runHost(graph); }
        N node;  ///< or a reference
    };
    struct State {
        std::vector<std::unique_ptr<Node>> nodes;
        std::vector<std::vector<idx_t>> deps;
        ScratchArena arena;
        std::int64_t bytesPerSample = 0;
        bool finalized = false;
    };

    idx_t insert(std::unique_ptr<Node> node, std::vector<idx_t> deps) {
        const auto id = static_cast<idx_t>(state_.nodes.size());
        std::sort(deps.begin(), deps.end());
        deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
        if (!deps.empty() && deps.back() >= id)
            throw std::invalid_argument("eagle.cpu.Graph.addNative: deps: found node " + std::to_string(deps.back()) +
                                        ", wanted nodes that were added before; there are " + std::to_string(id));
        const std::vector<idx_t> ancestors = ancestorsOf(deps);
        state_.nodes.reserve(id + std::size_t{1});
        state_.deps.reserve(id + std::size_t{1});
        ScratchArena& arena = state_.arena;
        arena.beginNode(id, ancestors);
        try {
            node->reserve(arena);
        } catch (...) {
            arena.endNode();  // what it reserved stays, unused
            throw;
        }
        arena.endNode();
        state_.nodes.push_back(std::move(node));
        state_.deps.push_back(std::move(deps));
        return id;
    }

    /// All that a node with these dependencies comes after, in order.
    std::vector<idx_t> ancestorsOf(const std::vector<idx_t>& deps) const {
        std::vector<char> seen(state_.nodes.size());
        for (const idx_t dep : deps) seen[dep] = 1;
        std::vector<idx_t> all;
        for (std::size_t i = seen.size(); i-- > 0;) {  // a dependency is earlier than who has it
            if (!seen[i]) continue;
            all.push_back(static_cast<idx_t>(i));
            for (const idx_t dep : state_.deps[i]) seen[dep] = 1;
        }
        return all;
    }

    void close() {
        state_.arena.commit();
        state_.finalized = true;
    }

    State state_;
    util::BusyGuard guard_{"eagle.cpu.Graph"};
};

}  // namespace eagle::cpu
