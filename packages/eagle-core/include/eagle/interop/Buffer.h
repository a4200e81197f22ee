// A buffer of whatever library: where it is, what it holds, who may write it, and what keeps it alive.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "eagle/interop/DlPack.h"

namespace eagle::interop {

using dlpack::Device;

inline constexpr int kMaxRank = 6;

/// What the producer said of writing; a legacy DLPack tensor says nothing.
enum class Access { ReadWrite, ReadOnly, Unknown };

constexpr const char* accessName(Access access) {
    switch (access) {
        case Access::ReadWrite:
            return "read-write";
        case Access::ReadOnly:
            return "read-only";
        case Access::Unknown:
            break;
    }
    return "unknown";
}

/// The type of an element: its name, its DLPack code and size, and its letter in an array interface (0: none).
struct Element {
    const char* name;
    std::uint8_t code;
    std::uint8_t bits;
    char letter;

    std::int64_t bytes() const { return bits / 8; }
};

inline constexpr Element kElements[] = {
    {"float64", dlpack::kFloat, 64, 'f'}, {"float32", dlpack::kFloat, 32, 'f'}, {"int64", dlpack::kInt, 64, 'i'},
    {"int32", dlpack::kInt, 32, 'i'},     {"uint32", dlpack::kUInt, 32, 'u'},   {"bool", dlpack::kBool, 8, 'b'},
    {"uint64", dlpack::kUInt, 64, 'u'},   {"uint16", dlpack::kUInt, 16, 'u'},   {"uint8", dlpack::kUInt, 8, 'u'},
    {"int16", dlpack::kInt, 16, 'i'},     {"int8", dlpack::kInt, 8, 'i'},       {"float16", dlpack::kFloat, 16, 'f'},
    {"bfloat16", dlpack::kBfloat, 16, 0},
};

/// The type of these facts; null where there is none.
inline const Element* elementOf(dlpack::DataType type) {
    for (const Element& element : kElements)
        if (element.code == type.code && element.bits == type.bits && type.lanes == 1) return &element;
    return nullptr;
}

inline const Element* elementOf(char letter, std::int64_t bytes) {
    for (const Element& element : kElements)
        if (element.letter == letter && letter && element.bytes() == bytes) return &element;
    return nullptr;
}

/// The type of an array interface's `typestr` in this machine's byte order.
inline const Element* elementOfTypestr(std::string_view typestr) {
    constexpr char native = std::endian::native == std::endian::little ? '<' : '>';
    if (typestr.size() < 3 || typestr.size() > 4) return nullptr;
    if (typestr[0] != native && typestr[0] != '|' && typestr[0] != '=') return nullptr;
    std::int64_t bytes = 0;
    for (const char digit : typestr.substr(2)) {
        if (digit < '0' || digit > '9') return nullptr;
        bytes = 10 * bytes + (digit - '0');
    }
    return elementOf(typestr[1], bytes);
}

inline const Element* elementNamed(std::string_view name) {
    for (const Element& element : kElements)
        if (name == element.name) return &element;
    return nullptr;
}

/// A buffer's content that cannot serve: which check, what was found, what was wanted, the next step.
class Refused : public std::runtime_error {
public:
    Refused(const std::string& check, const std::string& found, const std::string& wanted, const std::string& fix)
        : std::runtime_error(check + ": found " + found + ", wanted " + wanted + "; " + fix) {}
};

/// A share in what keeps memory alive: the producer's deleter runs when the last one goes.
using Share = std::shared_ptr<void>;

struct Buffer {
    void* data = nullptr;  ///< of the first element
    const Element* element = nullptr;
    Device device{dlpack::kCpu, 0};
    int rank = 0;
    std::array<std::int64_t, kMaxRank> shape{};
    std::array<std::int64_t, kMaxRank> strides{};  ///< in elements, none negative
    Access access = Access::Unknown;
    bool assumedWritable = false;  ///< the caller asserted that it may be written
    bool immutable = false;        ///< the producer counts on its elements never to change, whatever it declares
    bool aliased = false;          ///< elements may share bytes
    std::int64_t count = 1;        ///< elements
    Share share;                   ///< empty: the holder of this record keeps the memory alive by other means

    std::span<const std::int64_t> extents() const { return {shape.data(), static_cast<std::size_t>(rank)}; }
    std::span<const std::int64_t> steps() const { return {strides.data(), static_cast<std::size_t>(rank)}; }

    /// C order with a unit innermost stride. The stride of an axis of one element says nothing.
    bool contiguous() const {
        if (count == 0) return true;
        std::int64_t step = 1;
        for (int axis = rank - 1; axis >= 0; --axis) {
            if (shape[axis] != 1 && strides[axis] != step) return false;
            step *= shape[axis];
        }
        return true;
    }

    /// Declared so, or asserted where nothing was declared.
    bool writable() const {
        return !aliased && !immutable &&
               (access == Access::ReadWrite || (access == Access::Unknown && assumedWritable));
    }

    std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(data); }
};

/// `(2, 3)`, `(5,)`, `()`
inline std::string tupleText(std::span<const std::int64_t> values) {
    std::string text = "(";
    for (std::size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
    return text + (values.size() == 1 ? ",)" : ")");
}

/// `cpu`, `cuda`, or `device type 99`
inline std::string deviceText(std::int32_t type) {
    const char* name = dlpack::deviceName(type);
    return name ? name : "device type " + std::to_string(type);
}

/// `extent -1 of axis 0`
inline std::string axisText(int axis, const std::string& what) { return what + " of axis " + std::to_string(axis); }

namespace detail {

/// a * b where both are >= 0 and the product has 63 bits
inline std::optional<std::int64_t> product(std::int64_t a, std::int64_t b) {
    if (b != 0 && a > std::numeric_limits<std::int64_t>::max() / b) return std::nullopt;
    return a * b;
}

/// Whether elements may share bytes: with axes in the order of their strides, each must step over all before it.
inline bool mayAlias(const Buffer& buffer) {
    std::array<int, kMaxRank> order;
    int many = 0;
    for (int axis = 0; axis < buffer.rank; ++axis) {
        if (buffer.shape[axis] == 1) continue;
        int place = many++;
        for (; place > 0 && buffer.strides[order[place - 1]] > buffer.strides[axis]; --place)
            order[place] = order[place - 1];
        order[place] = axis;
    }
    std::int64_t reach = 0;
    for (int i = 0; i < many; ++i) {
        const std::int64_t stride = buffer.strides[order[i]];
        if (stride <= reach) return true;
        reach += stride * (buffer.shape[order[i]] - 1);
    }
    return false;
}

/// Fills in count and aliased of a buffer that has all else; throws Refused.
inline void conclude(Buffer& buffer, bool has_strides) {
    constexpr const char* bytes = "at most 2**63 - 1 bytes";
    const std::int64_t size = buffer.element->bytes();
    bool empty = false;
    std::int64_t cells = 1;  // of a C-order array whose empty axes have one
    for (int axis = 0; axis < buffer.rank; ++axis) {
        const std::int64_t extent = buffer.shape[axis];
        if (extent < 0)
            throw Refused("shape", axisText(axis, "extent " + std::to_string(extent)), "0 or more",
                          "correct the producer");
        empty |= extent == 0;
        const auto more = product(cells, std::max<std::int64_t>(extent, 1));
        if (!more || !product(*more, size))
            throw Refused("shape", tupleText(buffer.extents()), bytes, "pass a part of it");
        cells = *more;
    }
    buffer.count = empty ? 0 : cells;
    std::int64_t step = 1;
    for (int axis = buffer.rank - 1; axis >= 0; --axis) {
        std::int64_t& stride = buffer.strides[axis];
        const bool steps = !empty && buffer.shape[axis] > 1;  // else any stride will do
        if (!has_strides || (stride < 0 && !steps)) stride = step;
        step *= std::max<std::int64_t>(buffer.shape[axis], 1);
    }
    if (!buffer.contiguous()) {
        std::int64_t reach = 0;
        for (int axis = 0; axis < buffer.rank; ++axis) {
            const std::int64_t stride = buffer.strides[axis];
            if (buffer.shape[axis] == 1) continue;
            if (stride < 0)
                throw Refused("strides", axisText(axis, "the negative stride " + std::to_string(stride)),
                              "strides of 0 or more", "pass a copy, or a view that runs forward");
            const auto span = product(stride, buffer.shape[axis] - 1);
            const auto room = std::numeric_limits<std::int64_t>::max() / size - 1 - reach;
            if (!span || *span > room)
                throw Refused("strides", axisText(axis, "stride " + std::to_string(stride)),
                              "a reach of " + std::string(bytes), "pass a copy");
            reach += *span;
        }
        buffer.aliased = mayAlias(buffer);
    }
    if (!buffer.data && !empty)
        throw Refused("data", "a null pointer for " + std::to_string(buffer.count) + " elements", "an address",
                      "give the array memory first");
}

}  // namespace detail

}  // namespace eagle::interop
