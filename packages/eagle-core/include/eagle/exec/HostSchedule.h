// How the branches of a fork share the thread team.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <vector>

#include "eagle/exec/ForEach.h"
#include "eagle/exec/HostTeam.h"

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

/// Calls task(i) once for each i in [0, tasks) on the team the caller holds, or in place without one. The first
/// exception comes out here, after the tasks that were begun.
template <class Task>
void runTasks(Team* team, std::int64_t tasks, const Task& task) {
    if (!team) {
        for (std::int64_t i = 0; i < tasks; ++i) task(i);
        return;
    }
    constexpr std::int64_t kWorthWaking = 16;
    std::atomic<bool> failed{false};
    std::exception_ptr error;
    forEach(*team, tasks, kWorthWaking, [&](std::int64_t i) noexcept {
        if (failed.load(std::memory_order_relaxed)) return;
        try {
            task(i);
        } catch (...) {
            if (!failed.exchange(true, std::memory_order_relaxed)) error = std::current_exception();
        }
    });
    if (error) std::rethrow_exception(error);
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
    const auto count = static_cast<std::int64_t>(branches.size());
    const Team::Lease lease = count > 1 && Team::size() > 1 ? Team::tryLease() : Team::Lease();
    runTasks(lease ? &*lease : nullptr, count, [&](std::int64_t i) {
        for (const HostBranchNode& node : branches[static_cast<std::size_t>(i)])
            for (const plugin::Partition& part : node.parts)
                if (part.count > 0) node.entry(node.params, part.base, part.count, part.nSamples);
    });
}

}  // namespace eagle::exec
