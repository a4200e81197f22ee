// SPDX-License-Identifier: Apache-2.0
#include "eagle/exec/Team.h"

#include "guard.h"

using namespace eagle::cpu;
using eagle::exec::kMaxTeamSize;
using eagle::exec::Team;

eagle_status eagle_backend_team_size(int32_t n, int32_t* previous) {
    return guard("team_size", [&] {
        requireOut("previous", previous);
        if (n < 0 || n > kMaxTeamSize) {
            refuse(EAGLE_INVALID_ARGUMENT, "n is %d; 1 to %d threads, or 0 to leave the number, is wanted", n,
                   kMaxTeamSize);
        }
        *previous = n == 0 ? Team::size() : Team::setSize(n);
    });
}
