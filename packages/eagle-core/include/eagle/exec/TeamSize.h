// How many threads a process should use when nobody said so.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace eagle::exec {

inline constexpr int kMaxTeamSize = 1024;

namespace detail {

inline std::optional<std::int64_t> parseInteger(std::string_view text) {
    constexpr std::string_view blank = " \t\r\n";
    text.remove_prefix(std::min(text.find_first_not_of(blank), text.size()));
    text = text.substr(0, text.find_last_not_of(blank) + 1);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// The first entry of a list like "4,2", when it is a number of threads.
inline std::optional<int> threadsFromVariable(const char* name) {
    const char* text = std::getenv(name);
    if (!text) return std::nullopt;
    const auto value = parseInteger(std::string_view(text).substr(0, std::string_view(text).find(',')));
    if (!value || *value < 1) return std::nullopt;
    return static_cast<int>(std::min<std::int64_t>(*value, kMaxTeamSize));
}

inline std::string readFile(const std::string& path) {
    std::string text;
    if (std::FILE* file = std::fopen(path.c_str(), "r")) {
        char part[512];
        while (const std::size_t n = std::fread(part, 1, sizeof part, file)) text.append(part, n);
        std::fclose(file);
    }
    return text;
}

/// Processors' worth of time that a quota grants, rounded up.
inline std::optional<int> quota(std::string_view limit, std::string_view period) {
    const auto q = parseInteger(limit), p = parseInteger(period);
    if (!q || !p || *q < 1 || *p < 1) return std::nullopt;
    return static_cast<int>(std::min<std::int64_t>((*q - 1) / *p + 1, kMaxTeamSize));
}

}  // namespace detail

/// The tightest CPU quota of the control groups (v1 and v2) the process is in; none without one. `root` is "" but in
/// tests.
inline std::optional<int> cgroupQuota(const std::string& root = "") {
    std::optional<int> tightest;
    const auto consider = [&](std::optional<int> q) {
        if (q) tightest = std::min(*q, tightest.value_or(*q));
    };
    const std::string groups = detail::readFile(root + "/proc/self/cgroup");
    for (std::size_t at = 0; at < groups.size();) {
        const std::size_t end = std::min(groups.find('\n', at), groups.size());
        const std::string line = groups.substr(at, end - at);  // "<id>:<controllers>:<path>"
        at = end + 1;
        const std::size_t first = line.find(':'), second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        std::string controllers = line.substr(first, second - first + 1);
        std::replace(controllers.begin(), controllers.end(), ':', ',');  // ",cpu,cpuacct,"
        const bool v2 = controllers == ",,";
        if (!v2 && controllers.find(",cpu,") == std::string::npos) continue;
        // A limit of any ancestor holds too; inside a container the path may be one of the host, and only "/" is there.
        for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
            if (path == "/") path.clear();
            if (v2) {
                const std::string max = detail::readFile(root + "/sys/fs/cgroup" + path + "/cpu.max");
                const std::size_t space = std::min(max.find(' '), max.size());
                consider(detail::quota(max.substr(0, space), max.substr(space)));
            } else {
                const std::string group = root + "/sys/fs/cgroup/cpu" + path;
                consider(detail::quota(detail::readFile(group + "/cpu.cfs_quota_us"),
                                       detail::readFile(group + "/cpu.cfs_period_us")));
            }
            if (path.rfind('/') == std::string::npos) break;
        }
    }
    return tightest;
}

/// Processors the calling thread may run on.
inline int usableProcessors() {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(CPU_COUNT(&set), 1);
#endif
    return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

/// $EAGLE_NUM_THREADS, else $OMP_NUM_THREADS, else the processors this process may use.
inline int defaultTeamSize() {
    if (const auto n = detail::threadsFromVariable("EAGLE_NUM_THREADS")) return *n;
    if (const auto n = detail::threadsFromVariable("OMP_NUM_THREADS")) return *n;
    const int processors = std::min(usableProcessors(), kMaxTeamSize);
    return std::min(processors, cgroupQuota().value_or(processors));
}

}  // namespace eagle::exec
