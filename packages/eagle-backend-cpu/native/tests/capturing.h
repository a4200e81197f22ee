// Short hands for tests that capture and replay.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "check.h"
#include "eagle/eagle_backend.h"
#include "eagle/plugin.h"

inline void checkOk(eagle_status status, const char* file, int line) {
    if (status == EAGLE_OK) return;
    std::fprintf(stderr, "%s:%d: status %d: %s\n", file, line, status, eagle_backend_last_error());
    std::_Exit(1);
}
#define OK(call) checkOk(call, __FILE__, __LINE__)

/// The call was refused with this status, and its message says who and has these words.
inline void checkRefused(eagle_status found, eagle_status wanted, std::string_view door, std::string_view words = "") {
    const std::string message = eagle_backend_last_error();
    if (found == wanted && message.starts_with("eagle_backend_" + std::string(door) + ": ") &&
        message.find(words) != std::string::npos) {
        return;
    }
    std::fprintf(stderr, "%s: status %d, wanted %d; '%s' lacks '%s'\n", std::string(door).c_str(), found, wanted,
                 message.c_str(), std::string(words).c_str());
    std::_Exit(1);
}

template <class T>
std::uint64_t address(T* p) {
    return reinterpret_cast<std::uintptr_t>(p);
}

template <class Struct>
Struct sized() {
    Struct s{};
    s.struct_size = sizeof s;
    s.device = -1;
    return s;
}

/// A stream with a capturer.
struct Recorder {
    Recorder() {
        const auto desc = sized<eagle_stream_desc>();
        OK(eagle_backend_stream_create(&desc, &stream));
        OK(eagle_backend_stream_ptr(stream, &raw));
        auto capturing = sized<eagle_capturer_desc>();
        capturing.stream = raw;
        OK(eagle_backend_capturer_create(&capturing, &capturer));
    }
    ~Recorder() {
        eagle_backend_capturer_release(capturer);
        eagle_backend_stream_release(stream);
    }
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    void begin() { OK(eagle_backend_capturer_begin(capturer)); }
    eagle_captured end() {
        eagle_captured captured = nullptr;
        OK(eagle_backend_capturer_end(capturer, &captured));
        return captured;
    }
    std::vector<std::uint64_t> nodes(std::uint64_t of = 0) const {
        std::uint64_t* found = nullptr;
        std::int64_t count = 0;
        OK(eagle_backend_capture_snapshot_nodes(of ? of : raw, &found, &count));
        const std::vector<std::uint64_t> all(found, found + count);
        eagle_backend_free(found);
        return all;
    }

    eagle_stream stream = nullptr;
    std::uint64_t raw = 0;
    eagle_capturer capturer = nullptr;
};

inline eagle_launcher launcherOf(eagle_captured captured) {
    eagle_graph graph = nullptr;
    eagle_launcher launcher = nullptr;
    OK(eagle_backend_graph_from_captured(captured, &graph));
    OK(eagle_backend_graph_launcher(graph, &launcher));
    eagle_backend_graph_release(graph);
    return launcher;
}

/// The whole of a capture: what `record` does between begin and end.
template <class Record>
eagle_launcher captured(Recorder& recorder, Record record) {
    recorder.begin();
    record();
    return launcherOf(recorder.end());
}

struct Fork {
    Fork(std::uint64_t origin, std::uint64_t branches, std::uint64_t waits = 0) {
        auto desc = sized<eagle_fork_desc>();
        desc.origin = origin;
        desc.branch_count = branches;
        desc.wait_count = waits;
        OK(eagle_backend_fork_create(&desc, &handle));
    }
    ~Fork() { eagle_backend_fork_release(handle); }
    Fork(const Fork&) = delete;
    Fork& operator=(const Fork&) = delete;

    void fork() { OK(eagle_backend_fork_fork(handle)); }
    void join() { OK(eagle_backend_fork_join(handle)); }
    std::uint64_t branch(std::uint64_t i) const {
        std::uint64_t raw = 0;
        OK(eagle_backend_fork_branch(handle, i, &raw));
        return raw;
    }

    eagle_fork handle = nullptr;
};

struct Cells {
    std::uint32_t count = 0, baseline = 0, limit = 0, brk = 0;
    std::uint32_t counter[2] = {77, 77};
};

struct Conditional {
    explicit Conditional(const eagle_conditional_desc& desc) { OK(eagle_backend_conditional_create(&desc, &handle)); }
    ~Conditional() { eagle_backend_conditional_release(handle); }
    Conditional(const Conditional&) = delete;
    Conditional& operator=(const Conditional&) = delete;

    std::uint64_t begin() {
        std::uint64_t raw = 0;
        OK(eagle_backend_conditional_begin(handle, &raw));
        return raw;
    }
    void end() { OK(eagle_backend_conditional_end(handle)); }
    std::uint64_t arm(std::uint64_t i) const {
        std::uint64_t raw = 0;
        OK(eagle_backend_conditional_arm_stream(handle, i, &raw));
        return raw;
    }
    std::vector<std::uint64_t> nodes(std::int64_t which) const {
        std::uint64_t* found = nullptr;
        std::int64_t count = 0;
        OK(eagle_backend_conditional_nodes(handle, which, &found, &count));
        const std::vector<std::uint64_t> all(found, found + count);
        eagle_backend_free(found);
        return all;
    }

    eagle_conditional handle = nullptr;
};

inline eagle_conditional_desc conditionalDesc(std::uint64_t origin, std::uint32_t kind, std::uint32_t arms = 0) {
    auto desc = sized<eagle_conditional_desc>();
    desc.origin = origin;
    desc.kind = kind;
    desc.arms = arms;
    return desc;
}

/// A launch of an entry with addresses of boxes, copied or kept.
struct Call {
    std::int32_t launch(std::uint64_t stream, bool copied = false) {
        auto desc = sized<eagle_launch_desc>();
        desc.block = block;
        desc.function = reinterpret_cast<std::uintptr_t>(entry);
        desc.params = params.data();
        desc.param_sizes = copied ? sizes.data() : nullptr;
        desc.nparams = static_cast<std::int64_t>(params.size());
        desc.base = base;
        desc.count = count;
        desc.n_samples = n;
        desc.stream = stream;
        std::int32_t launched = -1;
        OK(eagle_backend_run_device(&desc, &launched));
        return launched;
    }

    eagle::plugin::HostEntry entry;
    std::vector<std::uint64_t> params, sizes;
    std::int64_t base = 0, count = 0, n = 0;
    std::uint32_t block = 64;
};

/// cells[i] = cells[i] * factor + i, which shows order, coverage and repetition.
inline void advance(void* const* params, std::int64_t base, std::int64_t count, std::int64_t) {
    auto* cells = *static_cast<std::uint64_t**>(params[0]);
    const std::uint64_t factor = *static_cast<const std::uint64_t*>(params[1]);
    for (std::int64_t i = base; i < base + count; ++i) {
        cells[i] = cells[i] * factor + static_cast<std::uint64_t>(i);
    }
}

/// Cells that launches of `advance` change.
struct Plane {
    explicit Plane(std::int64_t n, std::uint64_t start = 1) : cells(static_cast<std::size_t>(n), start) {}

    Call call(std::uint64_t& factor) {
        const auto n = static_cast<std::int64_t>(cells.size());
        return {&advance, {address(&data), address(&factor)}, {8, 8}, 0, n, n, 64};
    }
    void expect(const std::vector<std::uint64_t>& factors, std::uint64_t start = 1) const {
        for (std::size_t i = 0; i < cells.size(); ++i) {
            std::uint64_t value = start;
            for (const std::uint64_t factor : factors) value = value * factor + i;
            CHECK(cells[i] == value);
        }
    }

    std::vector<std::uint64_t> cells;
    std::uint64_t* data = cells.data();
};
