// Buffers from what other libraries hand over. What is handed over with a deleter is owned from the call on: the
// deleter runs exactly once, with the last Share, or before Refused leaves.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "eagle/interop/Buffer.h"

namespace eagle::interop {

/// A DLPack tensor. Throws Refused.
inline Buffer importTensor(const dlpack::Tensor& tensor, Access access, Share share) {
    Buffer buffer;
    buffer.share = std::move(share);
    buffer.access = access;
    buffer.device = tensor.device;
    if (!dlpack::deviceName(tensor.device.type))
        throw Refused("device", "DLPack device type " + std::to_string(tensor.device.type),
                      "1 to 4 or 7 to " + std::to_string(dlpack::kLastDeviceType), "copy it to the host");
    buffer.element = elementOf(tensor.dtype);
    if (!buffer.element)
        throw Refused("dtype",
                      "DLPack type code " + std::to_string(tensor.dtype.code) + " of " +
                          std::to_string(tensor.dtype.bits) + " bits and " + std::to_string(tensor.dtype.lanes) +
                          " lanes",
                      "a float, bfloat16, integer or bool of 8 to 64 bits and 1 lane", "convert it");
    if (tensor.rank < 0 || tensor.rank > kMaxRank)
        throw Refused("rank", std::to_string(tensor.rank) + " axes", "at most " + std::to_string(kMaxRank),
                      "join some");
    if (tensor.rank > 0 && !tensor.shape) throw Refused("shape", "a null pointer", "extents", "correct the producer");
    buffer.rank = tensor.rank;
    std::copy_n(tensor.shape, tensor.rank, buffer.shape.begin());
    if (tensor.strides) std::copy_n(tensor.strides, tensor.rank, buffer.strides.begin());
    buffer.data = tensor.data;
    detail::conclude(buffer, tensor.strides != nullptr);
    if (tensor.data) buffer.data = static_cast<char*>(tensor.data) + tensor.byteOffset;
    return buffer;
}

/// Takes a legacy tensor over. Throws Refused.
inline Buffer importManaged(dlpack::Legacy* managed) {
    Share share(managed, [](dlpack::Legacy* gone) {
        if (gone->deleter) gone->deleter(gone);
    });
    return importTensor(managed->tensor, Access::Unknown, std::move(share));
}

/// Takes a versioned tensor over. Throws Refused.
inline Buffer importManaged(dlpack::Versioned* managed) {
    Share share(managed, [](dlpack::Versioned* gone) {
        if (gone->deleter) gone->deleter(gone);
    });
    if (managed->version.major > dlpack::kVersion.major)
        throw Refused("version",
                      "DLPack " + std::to_string(managed->version.major) + "." + std::to_string(managed->version.minor),
                      "at most major version " + std::to_string(dlpack::kVersion.major), "ask for max_version=(1, 0)");
    const Access access = managed->flags & dlpack::kReadOnly ? Access::ReadOnly : Access::ReadWrite;
    return importTensor(managed->tensor, access, std::move(share));
}

/// What an array interface tells, or numpy's array struct. No byte strides: C order.
struct ArrayFacts {
    void* data;
    const Element* element;
    std::span<const std::int64_t> shape;
    std::optional<std::span<const std::int64_t>> byteStrides;
    bool readOnly;
    Device device{dlpack::kCpu, 0};
};

/// An array of these facts, kept alive by `share`. Throws Refused.
inline Buffer importArray(const ArrayFacts& facts, Share share) {
    Buffer buffer;
    buffer.share = std::move(share);
    buffer.access = facts.readOnly ? Access::ReadOnly : Access::ReadWrite;
    buffer.device = facts.device;
    buffer.element = facts.element;
    buffer.data = facts.data;
    const std::size_t rank = facts.shape.size();
    if (rank > kMaxRank)
        throw Refused("rank", std::to_string(rank) + " axes", "at most " + std::to_string(kMaxRank), "join some");
    buffer.rank = static_cast<int>(rank);
    std::copy(facts.shape.begin(), facts.shape.end(), buffer.shape.begin());
    if (facts.byteStrides) {
        const auto& bytes = *facts.byteStrides;
        if (bytes.size() != rank)
            throw Refused("strides", std::to_string(bytes.size()) + " strides", std::to_string(rank) + ", one an axis",
                          "correct them");
        const bool empty = std::find(facts.shape.begin(), facts.shape.end(), 0) != facts.shape.end();
        for (std::size_t axis = 0; axis < rank; ++axis) {
            const std::int64_t size = facts.element->bytes();
            const bool whole = bytes[axis] % size == 0;
            if (!whole && !empty && facts.shape[axis] != 1)
                throw Refused("strides",
                              axisText(static_cast<int>(axis), "a stride of " + std::to_string(bytes[axis]) + " bytes"),
                              "whole elements of " + std::to_string(size) + " bytes", "pass a copy");
            buffer.strides[axis] = whole ? bytes[axis] / size : -1;
        }
    }
    detail::conclude(buffer, facts.byteStrides.has_value());
    return buffer;
}

}  // namespace eagle::interop
