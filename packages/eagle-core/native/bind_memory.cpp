// The seam's memcpy, host_alloc and host_free for plain host memory, where no backend is needed.
//
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <string>

#include "bindings.h"
#include "loader.h"
#include "released.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace eagle::core {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr std::uint64_t kLongCopy = 1 << 14;  // bytes that take about a microsecond

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)); }

/// Done when it returns. The ranges may overlap: the target gets what the source held before.
void copy(std::uint64_t dst, std::uint64_t src, std::uint64_t bytes, std::int32_t direction) {
    if (direction < EAGLE_COPY_H2D || direction > EAGLE_COPY_H2H)
        throw Error(Raises::kValueError,
                    "_core.memcpy: direction: found " + std::to_string(direction) + ", wanted 0 to 3");
    if (bytes == 0 || dst == src) return;
    std::optional<Released> released;
    if (bytes >= kLongCopy) released.emplace();
    std::memmove(pointer(dst), pointer(src), bytes);
}

std::uint64_t allocate(std::uint64_t bytes) {
    if (bytes == 0) return 0;
    const bool possible = bytes <= PTRDIFF_MAX - static_cast<std::uint64_t>(kAlignment);
    void* const block = possible ? ::operator new(bytes, kAlignment, std::nothrow) : nullptr;
    if (!block)
        throw Error(Raises::kMemoryError,
                    "_core.host_alloc: found " + std::to_string(bytes) + " bytes, wanted what memory is left");
    return reinterpret_cast<std::uintptr_t>(block);
}

}  // namespace

void register_memory(nb::module_& m) {
    m.def("memcpy", copy, "dst"_a, "src"_a, "bytes"_a, "direction"_a = EAGLE_COPY_H2H + 0);
    m.def("host_alloc", allocate, "bytes"_a);
    m.def("host_free", [](std::uint64_t ptr) { ::operator delete(pointer(ptr), kAlignment); }, "ptr"_a);
}

}  // namespace eagle::core
