// The graph executor of this build, and what all executors have in common.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>
#include <vector>

#include "eagle/ScratchArena.h"
#include "eagle/cpu/Graph.h"

#if !defined(EAGLE_CPU_ONLY) && __has_include("eagle/cuda/Graph.h")
#include "eagle/cuda/Graph.h"
#endif

namespace eagle {

/// A graph that is moved and not copied, has scratch for its nodes and knows which of them wait for which. Code written
/// against it runs on every executor, at no cost.
template <class G>
concept ExecGraph = std::default_initializable<G> && std::movable<G> && !std::is_copy_constructible_v<G> &&
                    !std::is_copy_assignable_v<G> && requires(G& graph, const G& seen) {
                        graph.finalize();
                        { graph.scratchArena() } -> std::same_as<ScratchArena&>;
                        { seen.scratchArena() } -> std::same_as<const ScratchArena&>;
                        { seen.nativeDeps() } -> std::same_as<const std::vector<std::vector<idx_t>>&>;
                    };

static_assert(ExecGraph<cpu::Graph>);

#if !defined(EAGLE_CPU_ONLY) && __has_include("eagle/cuda/Graph.h")
static_assert(ExecGraph<cuda::Graph>);
using Graph = cuda::Graph;
#else
using Graph = cpu::Graph;
#endif

}  // namespace eagle
