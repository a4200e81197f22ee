// A host entry over a partition, cut into pieces for the thread team.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "eagle/exec/ForEach.h"
#include "eagle/exec/Partition.h"
#include "eagle/exec/Processor.h"
#include "eagle/exec/Team.h"

namespace eagle::exec {

/// Samples [base, base + count) in pieces of at least `grain` that begin at `base` and multiples of kRow from there, so
/// that pieces of a base on a cache line begin on one. They differ by at most kRow samples, but for the last.
/// Entries that write whole rows of up to kRow samples get a base on such a row: two threads must not share one.
class Cut {
public:
    static constexpr std::uint64_t kRow = 64;

    Cut(std::int64_t base, std::int64_t count, std::int64_t grain, std::int64_t mostPieces)
        : base_(static_cast<std::uint64_t>(base)), end_(base_ + static_cast<std::uint64_t>(count)) {
        const std::uint64_t rows = static_cast<std::uint64_t>(count) / kRow;
        const std::uint64_t wanted = static_cast<std::uint64_t>(std::max<std::int64_t>(grain, 1));
        const std::uint64_t rowsPerPiece = (wanted - 1) / kRow + 1;
        const std::uint64_t most = static_cast<std::uint64_t>(std::max<std::int64_t>(mostPieces, 1));
        pieces_ = std::max<std::uint64_t>(std::min(rows / rowsPerPiece, most), 1);
        rowsEach_ = rows / pieces_;
        longer_ = rows % pieces_;
    }

    std::int64_t pieces() const { return static_cast<std::int64_t>(pieces_); }

    /// Where piece i begins; begin(pieces()) is the end.
    std::int64_t begin(std::int64_t i) const {
        const std::uint64_t piece = static_cast<std::uint64_t>(i);
        if (piece == pieces_) return static_cast<std::int64_t>(end_);
        return static_cast<std::int64_t>(base_ + kRow * (rowsEach_ * piece + std::min(piece, longer_)));
    }

private:
    std::uint64_t base_, end_;
    std::uint64_t pieces_, rowsEach_, longer_;  ///< the first `longer_` pieces have one row more
};

/// A range shared by a team that the caller holds: body(begin, count) for each piece of it, as forEach does.
template <class Body>
void forPieces(Team& team, std::int64_t base, std::int64_t count, std::int64_t grain, const Body& body) {
    constexpr std::int64_t kPiecesEach = 16;
    constexpr std::int64_t kBigCount = std::int64_t{1} << 18;  // worth waking sleepers for, whatever the kernel
    const Cut cut(base, count, grain, kPiecesEach * team.participants());
    if (cut.pieces() == 1) return body(base, count);
    forEach(team, cut.pieces(), count >= kBigCount, [cut, body](std::int64_t piece) {
        const std::int64_t begin = cut.begin(piece);
        body(begin, cut.begin(piece + 1) - begin);
    });
}

/// An entry over a partition with a team that the caller holds.
inline void run(Team& team, plugin::HostEntry entry, void* const* params, const plugin::Partition& partition,
                std::int64_t grain) {
    forPieces(team, partition.base, partition.count, grain,
              [entry, params, samples = partition.nSamples](std::int64_t begin, std::int64_t count) {
                  entry(params, begin, count, samples);
              });
}

namespace detail {

[[gnu::noinline]] inline void runOnTeam(plugin::HostEntry entry, void* const* params,
                                        const plugin::Partition& partition, std::int64_t grain) {
    if (const Team::Lease team = Team::tryLease()) {
        exec::run(*team, entry, params, partition, grain);
    } else {
        entry(params, partition.base, partition.count, partition.nSamples);
    }
}

}  // namespace detail

/// Runs the entry over the partition in pieces of at least `grain` samples; returns when all are done. An exception of
/// the entry comes out here, whichever thread it was thrown on.
inline void run(plugin::HostEntry entry, void* const* params, const plugin::Partition& partition, std::int64_t grain) {
    if (partition.count <= 0) return;
    if (grain >= partition.count || Team::size() == 1) {
        entry(params, partition.base, partition.count, partition.nSamples);
    } else {
        detail::runOnTeam(entry, params, partition, grain);
    }
}

/// An entry called by hand, over a partition. Which thread runs what never shows in the results of kernels that touch
/// only their own sample. invalid_argument for a null entry and for a negative number of bytes.
struct HostTeam {
    /// On the team, in tiles or larger pieces; returns the number of tiles, 0 for an empty partition.
    static std::int64_t run(HostEntryV2 entry, void* const* params, const Partition& partition,
                            std::int64_t bytesPerSample = 0) {
        check("run", entry);
        exec::run(entry, params, partition, tile_size(bytesPerSample));
        return tile_count(partition, bytesPerSample);
    }

    /// By one call on this thread: the reference.
    static void run_serial(HostEntryV2 entry, void* const* params, const Partition& partition) {
        check("run_serial", entry);
        if (partition.count > 0) entry(params, partition.base, partition.count, partition.nSamples);
    }

    /// Samples of a tile: what half of `l2` bytes holds, a multiple of a cache line of float64, 64 to 4096; 256 where
    /// the bytes of a sample are not told (0).
    static std::int64_t tile_size(std::int64_t bytesPerSample = 0, std::int64_t l2 = l2Bytes()) {
        constexpr std::int64_t kLine = 8, kLeast = 64, kUsual = 256, kMost = 4096;
        if (bytesPerSample < 0)
            throw std::invalid_argument("HostTeam::tile_size: bytesPerSample: found " + std::to_string(bytesPerSample) +
                                        ", wanted 0 or more");
        if (bytesPerSample == 0) return kUsual;
        return std::clamp(l2 / 2 / bytesPerSample / kLine * kLine, kLeast, kMost);
    }

    static std::int64_t tile_count(const Partition& partition, std::int64_t bytesPerSample = 0) {
        const std::int64_t size = tile_size(bytesPerSample), count = std::max<std::int64_t>(partition.count, 0);
        return count / size + (count % size != 0);
    }

private:
    static void check(const char* door, HostEntryV2 entry) {
        if (!entry)
            throw std::invalid_argument(std::string("HostTeam::") + door +
                                        ": entry: found a null address, wanted a host entry");
    }
};

}  // namespace eagle::exec
