// How the branches of a fork share the thread team.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "eagle/exec/ForEach.h"
#include "eagle/plugin.h"

namespace eagle::exec {

/// The most samples of a node for branches to run side by side: a barrier per node would cost more than the node.
inline constexpr std::int64_t BRANCH_TASKS_MAX_SAMPLES = 4096;

enum class Schedule {
    WorkShare,    ///< one node after the other, each over the whole team
    BranchTasks,  ///< one branch beside the other, each on one thread
};

/// The rule: `n` is the largest sample count of a node, `nativeOnly` that every node is a launch.
constexpr Schedule resolve(std::int64_t n, std::int64_t branches, std::int64_t threads, bool nativeOnly) {
    const bool small = n <= BRANCH_TASKS_MAX_SAMPLES;
    return nativeOnly && small && branches >= 2 && threads >= 2 ? Schedule::BranchTasks : Schedule::WorkShare;
}

struct HostBranchNode {
    plugin::HostEntry entry;
    void* const* params;
    std::vector<plugin::Partition> parts;
};

using HostBranch = std::vector<HostBranchNode>;

/// Runs independent branches side by side, the nodes of each in order on one thread; in place inside a parallel region.
/// A null entry: runtime_error, and nothing has run.
inline void runHostBranches(const std::vector<HostBranch>& branches) {
    for (const HostBranch& branch : branches)
        for (const HostBranchNode& node : branch)
            if (!node.entry) throw std::runtime_error("runHostBranches: a node has a null entry");
    exec::forEach(static_cast<std::int64_t>(branches.size()), [&](std::int64_t i) {
        for (const HostBranchNode& node : branches[static_cast<std::size_t>(i)])
            for (const plugin::Partition& part : node.parts)
                if (part.count > 0) node.entry(node.params, part.base, part.count, part.nSamples);
    });
}

}  // namespace eagle::exec
