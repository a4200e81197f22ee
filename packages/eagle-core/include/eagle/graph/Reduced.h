// The edges that a picture of a large graph shows.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "eagle/graph/Edges.h"
#include "eagle/graph/Layout.h"

namespace eagle::graph {

/// Pictures show every edge of graphs with up to this many, or with up to four a node. Of others they leave out the
/// edges between two nodes which a path of others brings into the same order: a chain that works in place has an edge
/// between every two nodes. Above this many, what leaves a node passes other layers as one run.
inline constexpr std::size_t kDrawnEdges = 100;

namespace detail {

inline std::size_t drawnEdges(const Description& d) { return std::max(kDrawnEdges, 4 * d.nodes.size()); }

/// The pairs of nodes that no path of other pairs brings into order; sorted. `rank` is the place of each node in an
/// order that obeys all, `after(node, some)` gives the nodes that wait for one, sorted by rank.
template <class After>
std::vector<Pair> essential(const std::vector<int>& rank, After after) {
    const int nodes = static_cast<int>(rank.size());
    std::vector<int> order(nodes), some;
    for (int i = 0; i < nodes; ++i) order[rank[i]] = i;
    constexpr int kColumns = 4096;  // nodes at a time that are looked for
    const std::size_t words = static_cast<std::size_t>(std::min(nodes, kColumns) + 63) / 64;
    std::vector<std::uint64_t> reached;
    std::vector<Pair> kept;
    for (int begin = 0; begin < nodes; begin += kColumns) {
        reached.assign(words * nodes, 0);
        for (auto src = order.rbegin(); src != order.rend(); ++src) {
            after(*src, some);
            std::uint64_t* const mine = &reached[words * *src];
            for (const int dst : some) {
                const int column = dst - begin;
                if (column >= 0 && column < kColumns) {
                    std::uint64_t& word = mine[column / 64];
                    const std::uint64_t bit = std::uint64_t{1} << column % 64;
                    if (word & bit) continue;
                    word |= bit;
                    kept.emplace_back(*src, dst);
                }
                for (std::size_t w = 0; w < words; ++w) mine[w] |= reached[words * dst + w];
            }
        }
    }
    std::sort(kept.begin(), kept.end());
    return kept;
}

}  // namespace detail

/// A description with the edges that are drawn.
inline Description reduced(Description d) {
    if (d.edges.size() <= detail::drawnEdges(d)) return d;
    d.validate();
    const std::size_t nodes = d.nodes.size();
    const std::vector<detail::Pair> pairs = detail::pairsOf(d.edges);
    std::vector<std::vector<int>> after(nodes);
    std::vector<int> waits(nodes), order, rank(nodes);
    for (const auto& [src, dst] : pairs) {
        after[src].push_back(dst);
        ++waits[dst];
    }
    for (std::size_t i = 0; i < nodes; ++i)
        if (waits[i] == 0) order.push_back(static_cast<int>(i));
    for (std::size_t k = 0; k < order.size(); ++k) {
        rank[order[k]] = static_cast<int>(k);
        for (const int dst : after[order[k]])
            if (--waits[dst] == 0) order.push_back(dst);
    }
    for (std::vector<int>& some : after)
        std::sort(some.begin(), some.end(), [&](int a, int b) { return rank[a] < rank[b]; });
    const std::vector<detail::Pair> kept =
        detail::essential(rank, [&](int src, std::vector<int>& some) { some = after[src]; });
    d.hidden += std::erase_if(d.edges, [&](const Edge& edge) {
        return !std::binary_search(kept.begin(), kept.end(), detail::Pair(edge.src, edge.dst));
    });
    return d;
}

/// Puts those edges of `hazards` that are drawn into a description, as if all had been put and it had been reduced.
inline void drawEdges(Description& d, const Hazards& hazards) {
    const auto put = [&](const Hazard& h) {
        d.edges.push_back({h.src, h.dst, hazards.planes()[h.plane].name, h.kind});
        return d.edges.size() <= detail::drawnEdges(d);
    };
    hazards.each(put);
    if (d.edges.size() <= detail::drawnEdges(d)) return;
    d.edges.clear();
    std::vector<int> rank(hazards.nodes());
    for (int i = 0; i < hazards.nodes(); ++i) rank[i] = i;
    const std::vector<detail::Pair> kept =
        detail::essential(rank, [&](int src, std::vector<int>& some) { hazards.after(src, some); });
    auto next = kept.begin();
    hazards.each([&](const Hazard& h) {
        const detail::Pair pair(h.src, h.dst);
        while (next != kept.end() && *next < pair) ++next;
        if (next != kept.end() && *next == pair)
            put(h);
        else
            ++d.hidden;
        return true;
    });
}

}  // namespace eagle::graph
