// The argument block of a compiled kernel (aether-abi/2): one box per slot, little-endian, in arg_spec order.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

namespace eagle::plugin {

/// A plane with several components per sample. Strides and extents count elements.
struct GRefMirror {
    void* data;
    std::uint64_t samples;
    std::uint64_t compStride;    ///< elements from one component's row to the next
    std::uint64_t sampleStride;  ///< 1
    std::int32_t deviceType;     ///< DLPack: 1 is host memory
    std::int32_t deviceId;
};

/// A plane with one cell per sample, or a buffer with a length of its own.
struct ScalarHandle {
    void* data;
    std::uint64_t samples;
    std::uint64_t stride;
    std::int32_t deviceType;
    std::int32_t deviceId;
};

using IntHandle = ScalarHandle;
using Index = std::uint32_t;  ///< what an nsamples slot holds

/// The range a launch covers: samples [base, base + count) of nSamples.
struct Partition {
    std::int64_t base;
    std::int64_t count;
    std::int64_t nSamples;

    static constexpr Partition whole(std::int64_t n) { return {0, n, n}; }
    constexpr bool is_whole() const { return base == 0 && count == nSamples; }
};

/// A host entry of aether-abi/2: serial over [base, base + count).
using HostEntry = void (*)(void* const* params, std::int64_t base, std::int64_t count, std::int64_t nSamples);

// What an artifact says in `eagle_layout_sizes`; eagle.abi compares.
static_assert(sizeof(GRefMirror) == 40 && sizeof(ScalarHandle) == 32 && sizeof(Partition) == 24);
static_assert(std::is_trivially_copyable_v<GRefMirror> && std::is_trivially_copyable_v<ScalarHandle>);

}  // namespace eagle::plugin

namespace eagle {
using idx_t = plugin::Index;
}
