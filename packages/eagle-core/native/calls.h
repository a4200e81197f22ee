// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

#include "block.h"

namespace eagle::core {

bool read_cut(long long parts, PyObject* given, Cut& cut);
bool read_values(const KernelObject* kernel, PyObject* values, std::vector<int16_t>& position);
bool pack_exactly(Block& block, PyObject* values, const std::vector<int16_t>& position, const Cut& cut);

}  // namespace eagle::core
