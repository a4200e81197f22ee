// A graph of C++ nodes that run on the host, in the order they were added.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "eagle/exec/ScratchArena.h"

namespace eagle::cpu {

class Graph;

/// What a graph runs: it reserves scratch memory once and finds it again when it runs.
template <class T>
concept Node = requires(T node, ScratchArena& arena, Graph& graph) {
    node.reserveScratch(arena);
    node.runHost(graph);
};

class Graph {
public:
    Graph() = default;
    Graph(Graph&&) = default;
    Graph& operator=(Graph&&) = default;
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;

    /// Adds a node that runs after `deps`, which were added before; its number. invalid_argument: a dep that is none of
    /// them; logic_error: after finalize().
    template <class T>
        requires Node<std::decay_t<T>>
    idx_t addNative(T&& node, std::vector<idx_t> deps = {}) {
        if (finalized_) throw std::logic_error("cpu::Graph::addNative: the graph is finalized");
        const auto id = static_cast<idx_t>(nodes_.size());
        for (const idx_t dep : deps) {
            if (dep >= id) {
                throw std::invalid_argument("cpu::Graph::addNative: node " + std::to_string(id) + " depends on " +
                                            std::to_string(dep) + ", which was not added before it");
            }
        }
        std::sort(deps.begin(), deps.end());
        deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
        nodes_.push_back(std::make_unique<Held<std::decay_t<T>>>(std::forward<T>(node)));
        try {
            deps_.push_back(std::move(deps));
        } catch (...) {
            nodes_.pop_back();
            throw;
        }
        return id;
    }

    /// Gives every node its scratch memory. Once is enough; again does nothing.
    void finalize() {
        if (finalized_) return;
        ScratchArena arena;
        std::vector<std::set<idx_t>> before(nodes_.size());
        for (std::size_t i = 0; i < nodes_.size(); ++i) {
            for (const idx_t dep : deps_[i]) {
                before[i].insert(dep);
                before[i].insert(before[dep].begin(), before[dep].end());
            }
            arena.beginNode(static_cast<idx_t>(i), {before[i].begin(), before[i].end()});
            nodes_[i]->reserveScratch(arena);
            arena.endNode();
        }
        arena.commit();
        arena_ = std::move(arena);
        finalized_ = true;
    }

    /// Runs all nodes, as often as called. What a node throws comes out, and later nodes do not run.
    void run() {
        finalize();
        for (const auto& node : nodes_) node->runHost(*this);
    }

    std::size_t nodeCount() const { return nodes_.size(); }
    ScratchArena& scratchArena() { return arena_; }
    const ScratchArena& scratchArena() const { return arena_; }
    const std::vector<std::vector<idx_t>>& nativeDeps() const { return deps_; }

    /// What one sample takes, for nodes that cut their batch into tiles; 0 is unknown.
    std::size_t bytesPerSample() const { return bytesPerSample_; }
    Graph& setBytesPerSample(std::size_t bytes) {
        bytesPerSample_ = bytes;
        return *this;
    }

private:
    struct Any {
        Any() = default;
        virtual ~Any() = default;
        Any(const Any&) = delete;
        Any& operator=(const Any&) = delete;
        virtual void reserveScratch(ScratchArena& arena) = 0;
        virtual void runHost(Graph& graph) = 0;
    };
    template <class T>
    struct Held final : Any {
        template <class From>
        explicit Held(From&& from) : node(std::forward<From>(from)) {}
        void reserveScratch(ScratchArena& arena) override { node.reserveScratch(arena); }
        void runHost(Graph& graph) override { node.runHost(graph); }
        T node;
    };

    std::vector<std::unique_ptr<Any>> nodes_;
    std::vector<std::vector<idx_t>> deps_;
    ScratchArena arena_;
    std::size_t bytesPerSample_ = 0;
    bool finalized_ = false;
};

}  // namespace eagle::cpu
