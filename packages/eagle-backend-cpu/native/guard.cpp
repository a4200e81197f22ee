// SPDX-License-Identifier: Apache-2.0
#include "guard.h"

#include <cstdarg>
#include <cstdio>
#include <new>

namespace eagle::cpu {
namespace {

thread_local std::string message;
thread_local bool outOfMemory = false;  // not even the message could be kept

void keep(const char* door, const char* text) noexcept {
    try {
        outOfMemory = false;
        message = std::string("eagle_backend_") + door + ": " + text;
    } catch (...) {
        outOfMemory = true;
    }
}

}  // namespace

void refuse(eagle_status status, const char* format, ...) {
    std::va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    std::string text(static_cast<std::size_t>(std::max(std::vsnprintf(nullptr, 0, format, arguments), 0)), '\0');
    std::vsnprintf(text.data(), text.size() + 1, format, again);
    va_end(again);
    va_end(arguments);
    throw Refusal(status, text);
}

eagle_status report(const char* door) noexcept {
    try {
        throw;
    } catch (const Refusal& refusal) {
        keep(door, refusal.what());
        return refusal.status;
    } catch (const std::bad_alloc&) {
        keep(door, "out of memory");
    } catch (const std::exception& error) {
        keep(door, error.what());
    } catch (...) {
        keep(door, "an exception of unknown type was thrown");
    }
    return EAGLE_ERROR;
}

const char* lastError() noexcept { return outOfMemory ? "out of memory" : message.c_str(); }

}  // namespace eagle::cpu
