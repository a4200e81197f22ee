// Buffers handed to other libraries. Each export holds a share of what keeps the memory alive, until its deleter runs.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "eagle/interop/Buffer.h"

namespace eagle::interop {

namespace detail {

template <class Managed>
struct Exported {
    Managed managed{};
    std::array<std::int64_t, kMaxRank> shape, strides;
    Share share;
};

template <class Managed>
Managed* makeExport(const Buffer& buffer, Share share) {
    auto* exported = new Exported<Managed>{{}, buffer.shape, buffer.strides, std::move(share)};
    Managed& managed = exported->managed;
    managed.context = exported;
    managed.deleter = [](Managed* gone) { delete static_cast<Exported<Managed>*>(gone->context); };
    managed.tensor = {.data = buffer.data,
                      .device = buffer.device,
                      .rank = buffer.rank,
                      .dtype = {buffer.element->code, buffer.element->bits, 1},
                      .shape = exported->shape.data(),
                      .strides = exported->strides.data(),
                      .byteOffset = 0};
    return &managed;
}

}  // namespace detail

/// A versioned tensor, read-only unless the buffer is writable.
inline dlpack::Versioned* exportVersioned(const Buffer& buffer, Share share) {
    auto* managed = detail::makeExport<dlpack::Versioned>(buffer, std::move(share));
    managed->version = dlpack::kVersion;
    managed->flags = buffer.writable() ? 0 : dlpack::kReadOnly;
    return managed;
}

/// A legacy tensor, bool as uint8. It cannot say that it is read-only: throws Refused for such a buffer.
inline dlpack::Legacy* exportLegacy(const Buffer& buffer, Share share) {
    if (buffer.access == Access::ReadOnly)
        throw Refused("access", "a read-only buffer", "one a legacy consumer may write",
                      "ask for max_version=(1, 0), or hand over a copy");
    auto* managed = detail::makeExport<dlpack::Legacy>(buffer, std::move(share));
    if (buffer.element->code == dlpack::kBool) managed->tensor.dtype.code = dlpack::kUInt;
    return managed;
}

}  // namespace eagle::interop
