// What a consumer needs of a buffer, and what of it a buffer lacks.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "eagle/interop/Buffer.h"

namespace eagle::interop {

/// Whatever is left as it is is not checked.
struct Requirements {
    const Element* element = nullptr;
    std::int64_t count = -1;
    std::optional<std::vector<std::int64_t>> shape;
    bool contiguous = false;
    std::int64_t alignment = 0;     ///< bytes
    std::uint64_t deviceTypes = 0;  ///< bit t: device type t will do
    std::string device;             ///< what they are called
    std::int32_t deviceId = -1;
    bool writable = false;
};

/// A clause for each check that fails, `<check>: required <what>, got <what>`.
inline std::vector<std::string> refusals(const Requirements& wanted, const Buffer& buffer) {
    std::vector<std::string> clauses;
    const auto add = [&](const char* check, const std::string& required, const std::string& got) {
        clauses.push_back(std::string(check) + ": required " + required + ", got " + got);
    };
    const auto extents = buffer.extents();
    if (wanted.element && wanted.element != buffer.element) add("dtype", wanted.element->name, buffer.element->name);
    if (wanted.count >= 0 && wanted.count != buffer.count)
        add("count", std::to_string(wanted.count) + " elements", std::to_string(buffer.count));
    if (wanted.shape && !std::equal(extents.begin(), extents.end(), wanted.shape->begin(), wanted.shape->end()))
        add("shape", tupleText(*wanted.shape), tupleText(extents));
    if (wanted.contiguous && !buffer.contiguous())
        add("stride", "C-contiguous with unit stride",
            "strides " + tupleText(buffer.steps()) + " for shape " + tupleText(extents));
    if (wanted.alignment > 1 && buffer.count != 0) {
        const auto excess = buffer.address() % static_cast<std::uintptr_t>(wanted.alignment);
        char text[64];
        std::snprintf(text, sizeof text, "address 0x%llx, %llu bytes past a multiple",
                      static_cast<unsigned long long>(buffer.address()), static_cast<unsigned long long>(excess));
        if (excess) add("alignment", "a multiple of " + std::to_string(wanted.alignment) + " bytes", text);
    }
    const std::int32_t type = buffer.device.type;
    const bool listed = type >= 0 && type < 64 && (wanted.deviceTypes >> type & 1);
    if (wanted.deviceTypes && !listed) add("device", wanted.device, deviceText(type));
    if (wanted.deviceId >= 0 && wanted.deviceId != buffer.device.id)
        add("device id", std::to_string(wanted.deviceId), std::to_string(buffer.device.id));
    if (wanted.writable && !buffer.writable()) {
        std::string got = accessName(buffer.access);
        if (buffer.aliased)
            got += ", but elements share memory";
        else if (buffer.immutable)
            got += ", and the producer's arrays never change";
        else if (buffer.access == Access::Unknown)
            got += "; assume_writable=True asserts that it may be written";
        add("access", "read-write", got);
    }
    return clauses;
}

}  // namespace eagle::interop
