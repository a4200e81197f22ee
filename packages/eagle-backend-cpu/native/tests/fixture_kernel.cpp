// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <stdexcept>

#include "eagle/plugin.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED const char eagle_abi_tag[] = "aether-abi/2";
EXPORTED const std::uint64_t eagle_layout_sizes[5] = {40, 32, 32, 4, 24};

EXPORTED void fill_host(void* const* params, std::int64_t base, std::int64_t count, std::int64_t) {
    auto* out = static_cast<double*>(static_cast<const eagle::plugin::ScalarHandle*>(params[0])->data);
    for (std::int64_t i = base; i < base + count; ++i) out[i] += static_cast<double>(i);
}

EXPORTED void throwing_host(void* const*, std::int64_t, std::int64_t, std::int64_t) {
    throw std::runtime_error("the kernel is out of luck");
}
