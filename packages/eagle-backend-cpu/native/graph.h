// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "capture.h"

namespace eagle::cpu {

using Recordings = std::vector<std::shared_ptr<const exec::Recording>>;

/// A launcher of recordings that run one after the other; replays go to the stream.
eagle_launcher newLauncher(const Recordings& recordings, std::shared_ptr<Stream> stream);

}  // namespace eagle::cpu
