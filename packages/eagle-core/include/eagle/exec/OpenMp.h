// Whether the calling thread runs inside a parallel region of some OpenMP runtime of this process.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "eagle/exec/Fork.h"

#if __has_include(<dlfcn.h>)
#include <dlfcn.h>
#endif
#if __has_include(<link.h>)
#include <link.h>
#endif

namespace eagle::exec {

#if __has_include(<link.h>)

/// The `omp_in_parallel` of every runtime loaded, also of those bound locally; looked up again when libraries came.
class OpenMpRuntimes {
public:
    bool insideRegion() {
        (void)forkSafe_;
        unsigned long long loads = seenLoads_;
        if (!inForkedChild_) dl_iterate_phdr(&firstObject, &loads);
        if (loads != seenLoads_) {
            find();
            seenLoads_ = loads;
        }
        return std::any_of(inParallel_.begin(), inParallel_.end(), [](InParallel ask) { return ask && ask() != 0; });
    }

private:
    using InParallel = int (*)();

    static int firstObject(dl_phdr_info* info, std::size_t, void* loads) {
        *static_cast<unsigned long long*>(loads) = info->dlpi_adds;
        return 1;
    }

    static int collect(dl_phdr_info* info, std::size_t, void* paths) {
        const std::string path = info->dlpi_name ? info->dlpi_name : "";
        const std::string file = path.substr(path.rfind('/') + 1);
        for (const char* runtime : {"libgomp", "libomp", "libiomp"}) {
            if (file.starts_with(runtime)) static_cast<std::vector<std::string>*>(paths)->push_back(path);
        }
        return 0;
    }

    /// The loader's lock is held while it iterates, so opening waits until it is done. Handles are kept: they pin the
    /// addresses.
    void find() {
        std::vector<std::string> paths;
        dl_iterate_phdr(&collect, &paths);
        for (const std::string& path : paths) {
            void* runtime = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
            if (!runtime) continue;
            const auto ask = reinterpret_cast<InParallel>(dlsym(runtime, "omp_in_parallel"));
            const auto known = std::find(inParallel_.begin(), inParallel_.end(), ask);
            const auto room = std::find(inParallel_.begin(), inParallel_.end(), nullptr);
            if (ask && known == inParallel_.end() && room != inParallel_.end()) {
                *room = ask;
            } else {
                dlclose(runtime);
            }
        }
    }

    unsigned long long seenLoads_ = 0;
    /// A thread the child does not have may hold the loader's lock: the child asks the runtimes known before.
    inline static bool inForkedChild_ = false;
    inline static const bool forkSafe_ = atFork(nullptr, nullptr, [] { inForkedChild_ = true; });
    std::array<InParallel, 8> inParallel_{};
};

/// About 100 ns. The loader keeps its lock across fork(), hence the fork mutex; while a fork has it, "yes" is the
/// answer that needs nothing.
inline bool insideOpenMpRegion() {
    static constinit ForkMutex<OpenMpRuntimes> mutex;
    static constinit OpenMpRuntimes runtimes;
    const std::unique_lock lock(mutex, std::try_to_lock);
    return !lock.owns_lock() || runtimes.insideRegion();
}

#elif __has_include(<dlfcn.h>)

inline bool insideOpenMpRegion() {
    const auto ask = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_in_parallel"));
    return ask && ask() != 0;
}

#else

inline bool insideOpenMpRegion() { return false; }

#endif

}  // namespace eagle::exec
