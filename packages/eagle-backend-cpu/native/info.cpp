// What the library is and where it runs.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "eagle/exec/Team.h"
#include "guard.h"

#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace eagle::cpu {
namespace {

constexpr int32_t kDeviceTypes[] = {1, 3};  // DLPack: host and pinned host memory

template <std::size_t N>
void setText(char (&field)[N], std::string_view text) {
    const std::size_t n = std::min(text.size(), N - 1);
    std::memcpy(field, text.data(), n);
    field[n] = '\0';
}

/// The processor as the system calls it; the architecture where it does not say.
std::string processorName() {
#if defined(__APPLE__)
    char name[256] = "";
    std::size_t size = sizeof name;
    if (sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) == 0 && name[0]) return name;
#else
    const std::string text = exec::detail::readFile("/proc/cpuinfo");
    const std::size_t key = text.find("model name");
    const std::size_t colon = text.find(": ", std::min(key, text.size()));
    if (colon != std::string::npos) return text.substr(colon + 2, text.find('\n', colon) - colon - 2);
#endif
    return EAGLE_ARCH;
}

}  // namespace
}  // namespace eagle::cpu

using namespace eagle::cpu;

uint32_t eagle_backend_version(void) { return EAGLE_BACKEND_VERSION; }

const char* eagle_backend_last_error(void) { return lastError(); }

eagle_status eagle_backend_build_info(eagle_build_info* out) {
    return guard("build_info", [&] {
        eagle_build_info info{};
        info.abi_version = EAGLE_BACKEND_VERSION;
        setText(info.eagle_version, EAGLE_VERSION);
        setText(info.archs, EAGLE_ARCH);
        setText(info.backend_kind, "cpu");
        writeStruct("out", info, out);
    });
}

eagle_status eagle_backend_probe(void) { return EAGLE_OK; }

void eagle_backend_free(void* array) { std::free(array); }

eagle_status eagle_backend_capabilities(uint64_t* out) {
    return guard("capabilities", [&] {
        requireOut("out", out);
        *out = 0;
        for (int bit : {EAGLE_CAP_STREAM, EAGLE_CAP_CAPTURER, EAGLE_CAP_CAPTURED, EAGLE_CAP_FORK, EAGLE_CAP_CONDITIONAL,
                        EAGLE_CAP_ATTRIBUTION, EAGLE_CAP_GRAPH, EAGLE_CAP_LAUNCHER, EAGLE_CAP_EXEC, EAGLE_CAP_DEVICE,
                        EAGLE_CAP_INTEROP, EAGLE_CAP_FILTERING, EAGLE_CAP_COND_IF_ELSE, EAGLE_CAP_COND_SWITCH}) {
            *out |= 1ull << bit;
        }
    });
}

eagle_status eagle_backend_device_types(int32_t* types, int32_t cap, int32_t* count) {
    return guard("device_types", [&] {
        requireOut("count", count);
        if (cap < 0) refuse(EAGLE_INVALID_ARGUMENT, "cap is %d; the room in types, 0 or more, is wanted", cap);
        if (cap > 0) requireOut("types", types);
        *count = static_cast<int32_t>(std::size(kDeviceTypes));
        std::copy_n(kDeviceTypes, std::min(cap, *count), types);
    });
}

eagle_status eagle_backend_device_props(int32_t device, eagle_device_props* out) {
    return guard("device_props", [&] {
        requireDevice(device);
        eagle_device_props props{};
        setText(props.name, processorName());
        props.sm_count = eagle::exec::Team::size();
        props.warp_size = 1;
        writeStruct("out", props, out);
    });
}
