// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace eagle::cpu {

/// Whether a raw stream is the default stream or a live one of ours.
bool isStream(std::uint64_t raw);

/// Refuses any other.
void requireStream(std::uint64_t raw);

}  // namespace eagle::cpu
