// Executors as pictures see them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "eagle/graph/Description.h"

namespace eagle::graph {

/// The native nodes of an executor (eagle::ExecGraph), each with an edge from those it waits for.
template <class G>
    requires requires(const G& graph) {
        { graph.nativeDeps() } -> std::same_as<const std::vector<std::vector<std::uint32_t>>&>;
    }
Description describe(const G& graph) {
    Description d;
    const std::vector<std::vector<std::uint32_t>>& deps = graph.nativeDeps();
    for (std::size_t i = 0; i < deps.size(); ++i)
        d.nodes.push_back({static_cast<int>(i), "native" + std::to_string(i), "native", "", -1, false});
    for (std::size_t i = 0; i < deps.size(); ++i)
        for (const std::uint32_t dep : deps[i])
            d.edges.push_back({static_cast<int>(dep), static_cast<int>(i), "", EdgeKind::Raw});
    std::stable_sort(d.edges.begin(), d.edges.end(), [](const Edge& a, const Edge& b) { return a.src < b.src; });
    return d;
}

}  // namespace eagle::graph
