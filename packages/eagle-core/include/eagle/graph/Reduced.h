// The edges that a picture of a large graph shows.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "eagle/graph/Layout.h"

namespace eagle::graph {

/// Pictures show every edge of graphs with up to this many. Of larger ones they leave out the edges between two nodes
/// which a path of others brings into the same order: a chain that works in place has an edge between every two nodes.
inline constexpr std::size_t kDrawnEdges = 256;

namespace detail {

/// Which pairs (sorted, without a circle) no path of others implies.
inline std::vector<char> essential(const std::vector<Pair>& pairs, int nodes) {
    std::vector<std::size_t> first(nodes + 1);
    for (const Pair& pair : pairs) ++first[pair.first + 1];
    for (int i = 0; i < nodes; ++i) first[i + 1] += first[i];
    std::vector<int> waits(nodes), order, rank(nodes);
    for (const Pair& pair : pairs) ++waits[pair.second];
    for (int i = 0; i < nodes; ++i)
        if (waits[i] == 0) order.push_back(i);
    for (std::size_t k = 0; k < order.size(); ++k) {
        rank[order[k]] = static_cast<int>(k);
        for (std::size_t p = first[order[k]]; p < first[order[k] + 1]; ++p)
            if (--waits[pairs[p].second] == 0) order.push_back(pairs[p].second);
    }
    constexpr int kColumns = 4096;  // of what is reached, at a time
    const std::size_t words = static_cast<std::size_t>(std::min(nodes, kColumns) + 63) / 64;
    std::vector<char> kept(pairs.size(), 1);
    std::vector<std::uint64_t> reached;
    std::vector<std::size_t> mine;
    for (int begin = 0; begin < nodes; begin += kColumns) {
        reached.assign(words * nodes, 0);
        for (auto src = order.rbegin(); src != order.rend(); ++src) {
            mine.resize(first[*src + 1] - first[*src]);
            for (std::size_t k = 0; k < mine.size(); ++k) mine[k] = first[*src] + k;
            const auto earlier = [&](std::size_t a, std::size_t b) {
                return rank[pairs[a].second] < rank[pairs[b].second];
            };
            if (!std::is_sorted(mine.begin(), mine.end(), earlier)) std::sort(mine.begin(), mine.end(), earlier);
            std::uint64_t* const to = &reached[words * *src];
            for (const std::size_t p : mine) {
                const int dst = pairs[p].second, column = dst - begin;
                if (column >= 0 && column < kColumns) {
                    std::uint64_t& word = to[column / 64];
                    const std::uint64_t bit = std::uint64_t{1} << column % 64;
                    if (word & bit) {
                        kept[p] = 0;
                        continue;
                    }
                    word |= bit;
                }
                for (std::size_t w = 0; w < words; ++w) to[w] |= reached[words * dst + w];
            }
        }
    }
    return kept;
}

}  // namespace detail

/// The edges of a picture, in their order. `E` has src and dst.
template <class E>
std::vector<E> drawnEdges(const std::vector<E>& edges, int nodes) {
    if (edges.size() <= kDrawnEdges) return edges;
    const std::vector<detail::Pair> pairs = detail::pairsOf(edges);
    const std::vector<char> kept = detail::essential(pairs, nodes);
    std::vector<E> drawn;
    for (const E& edge : edges) {
        const auto at = std::lower_bound(pairs.begin(), pairs.end(), detail::Pair(edge.src, edge.dst));
        if (kept[at - pairs.begin()]) drawn.push_back(edge);
    }
    return drawn;
}

/// A description with the edges that are drawn.
inline Description reduced(Description d) {
    std::vector<Edge> drawn = drawnEdges(d.edges, static_cast<int>(d.nodes.size()));
    d.hidden += d.edges.size() - drawn.size();
    d.edges = std::move(drawn);
    return d;
}

}  // namespace eagle::graph
