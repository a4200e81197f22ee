// Where the nodes of a graph go: a layer and a place in it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "eagle/graph/Description.h"

namespace eagle::graph {

struct Layout {
    std::vector<int> stage, layer, order;   // of each node
    std::vector<std::array<double, 2>> xy;  // of each node: layers downwards, each centred about x = 0
    std::vector<std::vector<int>> layers;   // their nodes, in order
    std::int64_t crossings = 0;             // of edges between neighbouring layers
};

namespace detail {

/// Two nodes with an edge between them, of whatever kind and plane.
using Pair = std::pair<int, int>;

/// Sorted, each once.
template <class E>
std::vector<Pair> pairsOf(const std::vector<E>& edges) {
    std::vector<Pair> pairs;
    pairs.reserve(edges.size());
    for (const E& edge : edges) pairs.emplace_back(edge.src, edge.dst);
    if (!std::is_sorted(pairs.begin(), pairs.end())) std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    return pairs;
}

/// The stage of each node: the rank of the outermost stage frame around it; 0 unless each node has one.
inline std::vector<int> stagesOf(const Description& d) {
    std::vector<int> rank(d.frames.size(), -1), outermost(d.nodes.size(), -1), none(d.nodes.size());
    for (const Node& node : d.nodes) {
        for (int at = node.frame; at >= 0; at = d.frames[at].parent)
            if (d.frames[at].stage()) outermost[node.id] = at;
        if (outermost[node.id] < 0) return none;
        rank[outermost[node.id]] = 0;
    }
    int next = 0;
    for (int& r : rank)
        if (r == 0) r = next++;
    for (int& at : outermost) at = rank[at];
    return outermost;
}

/// Edges between neighbouring layers, as the places of their ends: how many cross.
inline std::int64_t crossings(const Layout& l, const std::vector<Pair>& pairs) {
    std::vector<std::vector<Pair>> between(l.layers.size());
    for (const auto& [src, dst] : pairs)
        if (l.layer[dst] == l.layer[src] + 1) between[l.layer[src]].emplace_back(l.order[src], l.order[dst]);
    std::int64_t count = 0;
    std::vector<std::int64_t> tree;  // of partial sums: how many ends seen so far are at each place
    for (std::size_t k = 0; k + 1 < l.layers.size(); ++k) {
        std::sort(between[k].begin(), between[k].end());
        tree.assign(l.layers[k + 1].size() + 1, 0);
        std::int64_t seen = 0;
        for (const auto& [from, to] : between[k]) {
            std::int64_t below = 0;
            for (int i = to + 1; i > 0; i -= i & -i) below += tree[i];
            count += seen++ - below;
            for (auto i = static_cast<std::size_t>(to) + 1; i < tree.size(); i += i & (~i + 1)) ++tree[i];
        }
    }
    return count;
}

inline void renumber(Layout& l, const std::vector<int>& layer) {
    for (std::size_t i = 0; i < layer.size(); ++i) l.order[layer[i]] = static_cast<int>(i);
}

}  // namespace detail

/// The layout of a description: nodes by stage, below those they wait for; then up to `sweeps` rounds that bring nodes
/// to the mean place of their neighbours, as long as edges cross. invalid_argument as validate().
inline Layout layout(const Description& d, int sweeps = 4) {
    d.validate();
    const std::size_t count = d.nodes.size();
    const std::vector<detail::Pair> pairs = detail::pairsOf(d.edges);
    Layout l{detail::stagesOf(d), std::vector<int>(count), std::vector<int>(count), {}, {}, 0};
    std::vector<std::vector<int>> before(count), after(count);
    for (const auto& [src, dst] : pairs) {
        after[src].push_back(dst);
        before[dst].push_back(src);
    }
    std::priority_queue<detail::Pair, std::vector<detail::Pair>, std::greater<>> ready;  // (stage, id)
    std::vector<std::size_t> waits(count);
    for (std::size_t i = 0; i < count; ++i)
        if ((waits[i] = before[i].size()) == 0) ready.emplace(l.stage[i], static_cast<int>(i));
    std::vector<int> firstRow(count + 1, -1);  // of each stage
    int rows = 0;
    while (!ready.empty()) {
        const auto [stage, id] = ready.top();
        ready.pop();
        if (firstRow[stage] < 0) firstRow[stage] = rows;
        int layer = firstRow[stage];
        for (const int src : before[id]) layer = std::max(layer, l.layer[src] + 1);
        l.layer[id] = layer;
        rows = std::max(rows, layer + 1);
        for (const int dst : after[id])
            if (--waits[dst] == 0) ready.emplace(l.stage[dst], dst);
    }
    l.layers.resize(rows);
    for (std::size_t i = 0; i < count; ++i) l.layers[l.layer[i]].push_back(static_cast<int>(i));
    for (const auto& layer : l.layers) detail::renumber(l, layer);
    l.crossings = detail::crossings(l, pairs);

    Layout best = l;
    std::vector<double> mean(count);
    const auto sort = [&](int layer, const std::vector<std::vector<int>>& neighbours, int towards) {
        for (const int id : l.layers[layer]) {
            double sum = 0;
            int near = 0;
            for (const int other : neighbours[id])
                if (l.layer[other] == layer + towards) {
                    sum += l.order[other];
                    ++near;
                }
            mean[id] = near ? sum / near : l.order[id];
        }
        std::sort(l.layers[layer].begin(), l.layers[layer].end(),
                  [&](int a, int b) { return std::pair(mean[a], a) < std::pair(mean[b], b); });
        detail::renumber(l, l.layers[layer]);
    };
    const auto compare = [&] {
        l.crossings = detail::crossings(l, pairs);
        if (l.crossings < best.crossings) best = l;
    };
    for (int round = 0; round < sweeps && l.crossings > 0; ++round) {
        for (int layer = 1; layer < rows; ++layer) sort(layer, before, -1);
        compare();
        for (int layer = rows - 2; layer >= 0; --layer) sort(layer, after, +1);
        compare();
    }
    for (std::size_t i = 0; i < count; ++i)
        best.xy.push_back({best.order[i] - (static_cast<double>(best.layers[best.layer[i]].size()) - 1) / 2,
                           static_cast<double>(best.layer[i])});
    return best;
}

}  // namespace eagle::graph
