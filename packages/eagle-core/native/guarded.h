// Host entries over copies of their planes, each in front of memory that nobody may touch: an index that leads outside
// its plane stops the entry and damages nothing. No Python here.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "eagle/plugin.h"
#include "loader.h"

namespace eagle::core {

struct GuardedPlane {
    void** data;  ///< where the box holds the address of the first cell
    std::size_t bytes;
    std::size_t cell;  ///< bytes of a cell, at most 16
    bool writes;       ///< the entry writes it: the copy goes back when all calls are done
};

struct GuardedCall {
    plugin::HostEntry entry;
    void* const* params;
    plugin::Partition part;
    std::int64_t row = 1;  ///< samples the entry cannot tell apart: it rounds both ends of a part up to a multiple
};

struct Fault {
    enum class Access { Unknown, Read, Write };

    std::size_t call;
    std::size_t plane;
    std::int64_t offset;  ///< bytes from the plane's first cell
    Access access;
    std::int64_t first = -1;  ///< the first sample, or row of samples, that faults alone; -1: none does
};

/// Memory or the platform refuses. The text lacks the door.
class CannotGuard : public Error {
    using Error::Error;
};

/// Launches an entry once over a partition, on the calling thread and in one piece; throws when that fails.
using GuardedLaunch = std::function<void(plugin::HostEntry, void* const* params, const plugin::Partition&)>;

/// Makes the calls in order, through `launch`. Every plane's box holds the address of a copy from then on; planes of
/// one address and size share it. Without a fault the planes that are written get their copies' contents; else, and
/// when `launch` throws, they keep their own.
///
/// Such runs of several threads take turns. A fault that is not of this run goes to the handler that was there before.
/// Throws CannotGuard, and what `launch` throws.
std::optional<Fault> run_guarded(std::span<const GuardedPlane> planes, std::span<const GuardedCall> calls,
                                 const GuardedLaunch& launch);

}  // namespace eagle::core
