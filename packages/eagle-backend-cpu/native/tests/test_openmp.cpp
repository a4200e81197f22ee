// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "check.h"
#include "eagle/exec/Team.h"

using eagle::exec::insideOpenMpRegion;
using eagle::exec::Team;

int main() {
    CHECK(!insideOpenMpRegion());
    void* const library = dlopen(FIXTURE_OPENMP, RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    using InRegion = void (*)(void (*)(void*), void*);
    const auto inRegion = reinterpret_cast<InRegion>(dlsym(library, "in_region"));
    CHECK(inRegion);
    CHECK(!insideOpenMpRegion());
    bool ran = false;
    inRegion(
        [](void* flag) {
            CHECK(insideOpenMpRegion());
            CHECK(!Team::tryLease());
            *static_cast<bool*>(flag) = true;
        },
        &ran);
    CHECK(ran);
    CHECK(!insideOpenMpRegion());
    CHECK(Team::tryLease());
}
