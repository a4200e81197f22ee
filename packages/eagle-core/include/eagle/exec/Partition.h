// The range of a launch, and the entry that runs one.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "eagle/plugin.h"

namespace eagle::exec {

using plugin::Partition;
using HostEntryV2 = plugin::HostEntry;  ///< of aether-abi/2

}  // namespace eagle::exec
