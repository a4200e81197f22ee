// What stands at every door of the seam: exceptions become a status and a message.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "eagle/eagle_backend.h"

namespace eagle::cpu {

/// A call that is refused, with the status it ends in.
class Refusal : public std::runtime_error {
public:
    Refusal(eagle_status status, const std::string& message) : std::runtime_error(message), status(status) {}
    const eagle_status status;
};

[[noreturn, gnu::cold, gnu::format(printf, 2, 3)]] void refuse(eagle_status status, const char* format, ...);

/// The status of the exception being handled; keeps its message, behind the door's name, for last_error().
[[gnu::cold]] eagle_status report(const char* door) noexcept;

const char* lastError() noexcept;

template <class Body>
eagle_status guard(const char* door, Body&& body) noexcept {
    try {
        body();
        return EAGLE_OK;
    } catch (...) {
        return report(door);
    }
}

/// The smallest struct_size anybody may send.
inline constexpr uint32_t kSmallestStruct = 12;

template <class Desc>
void requireStruct(const char* name, const Desc* desc) {
    if (!desc) refuse(EAGLE_INVALID_ARGUMENT, "%s is NULL; the address of a struct is wanted", name);
    if (desc->struct_size < kSmallestStruct) {
        refuse(EAGLE_INVALID_ARGUMENT, "%s.struct_size is %u; the size of the struct, at least %u, is wanted", name,
               desc->struct_size, kSmallestStruct);
    }
}

/// The caller's desc as far as both sides know it; fields it has not got are 0.
template <class Desc>
Desc readStruct(const char* name, const Desc* desc) {
    requireStruct(name, desc);
    Desc copy{};
    std::memcpy(&copy, desc, std::min<std::size_t>(desc->struct_size, sizeof copy));
    return copy;
}

/// Writes what both sides know and says how much that is.
template <class Struct>
void writeStruct(const char* name, Struct value, Struct* out) {
    requireStruct(name, out);
    value.struct_size = std::min<uint32_t>(out->struct_size, sizeof value);
    std::memcpy(out, &value, value.struct_size);
}

template <class T>
void requireOut(const char* name, const T* out) {
    if (!out) refuse(EAGLE_INVALID_ARGUMENT, "%s is NULL; an address to write to is wanted", name);
}

inline void requireNoFlags(const char* name, uint32_t flags, uint32_t known = 0) {
    if (flags & ~known) refuse(EAGLE_UNSUPPORTED, "%s.flags is 0x%x; only 0x%x is known", name, flags, known);
}

/// The host is one device: ordinal 0, which -1 derives to.
inline void requireDevice(int32_t device) {
    if (device != 0 && device != -1) {
        refuse(EAGLE_INVALID_ARGUMENT, "device is %d; the host is device 0 (-1 finds it too)", device);
    }
}

}  // namespace eagle::cpu
