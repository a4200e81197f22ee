// What every graph executor offers.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <vector>

#include "eagle/cpu/Graph.h"

namespace eagle {

template <class G>
concept ExecGraph =
    std::default_initializable<G> && std::movable<G> && !std::copyable<G> && requires(G graph, const G& constant) {
        graph.finalize();
        { graph.scratchArena() } -> std::same_as<ScratchArena&>;
        { constant.scratchArena() } -> std::same_as<const ScratchArena&>;
        { constant.nativeDeps() } -> std::same_as<const std::vector<std::vector<idx_t>>&>;
    };

/// The executor of this build: host memory, unless a device's executor is compiled in.
using Graph = cpu::Graph;

static_assert(ExecGraph<cpu::Graph>);

}  // namespace eagle
