// Graphs and launchers: what may be changed between replays, and who may use them.
//
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "capturing.h"

namespace {

void testPatches() {
    Recorder recorder;
    Plane plane(5000), other(5000);
    std::uint64_t a = 3, b = 5;
    std::vector<std::uint64_t> from(10, 7), second(10, 8), to(10);
    std::vector<std::uint64_t> nodes;
    const eagle_launcher launcher = captured(recorder, [&] {
        plane.call(a).launch(recorder.raw);
        plane.call(b).launch(recorder.raw, true);
        OK(eagle_backend_memcpy(address(to.data()), address(from.data()), 80, EAGLE_COPY_H2H, recorder.raw));
        OK(eagle_backend_host_func(recorder.raw, [](void*) {}, nullptr));
        nodes = recorder.nodes();
    });
    std::int32_t toggleable[4] = {};
    for (std::size_t i = 0; i < 4; ++i) OK(eagle_backend_is_node_toggleable(nodes[i], &toggleable[i]));
    CHECK(toggleable[0] == 1 && toggleable[1] == 1 && toggleable[2] == 1 && toggleable[3] == 0);
    checkRefused(eagle_backend_is_node_toggleable(0, toggleable), EAGLE_INVALID_ARGUMENT, "is_node_toggleable");
    checkRefused(eagle_backend_is_node_toggleable(~0ull, toggleable), EAGLE_INVALID_ARGUMENT, "is_node_toggleable");

    std::uint64_t c = 7, d = 11;
    const std::uint64_t kept[2] = {0, address(&c)}, copied[2] = {address(&other.data), address(&d)};
    OK(eagle_backend_launcher_set_kernel_params(launcher, nodes[0], kept, 2));
    OK(eagle_backend_launcher_set_kernel_params(launcher, nodes[1], copied, 2));
    OK(eagle_backend_launcher_set_memcpy_source(launcher, nodes[2], address(second.data())));
    d = 99;  // read before the call returned
    OK(eagle_backend_launcher_launch(launcher));
    plane.expect({7});
    other.expect({11});
    CHECK(to == second);
    OK(eagle_backend_launcher_set_kernel_params(launcher, nodes[0], nullptr, 0));
    OK(eagle_backend_launcher_set_node_enabled(launcher, nodes[0], 0));
    OK(eagle_backend_launcher_set_node_enabled(launcher, nodes[2], 0));
    to[0] = 1;
    OK(eagle_backend_launcher_launch(launcher));
    plane.expect({7});
    other.expect({11, 11});
    CHECK(to[0] == 1);
    OK(eagle_backend_launcher_set_node_enabled(launcher, nodes[0], 1));
    OK(eagle_backend_launcher_set_logical_size(launcher, 100));
    OK(eagle_backend_launcher_set_logical_size(launcher, 0));  // leaves it
    OK(eagle_backend_launcher_launch(launcher));
    CHECK(plane.cells[99] == (1 * 7 + 99) * 7 + 99 && plane.cells[100] == 1 * 7 + 100);
    OK(eagle_backend_launcher_set_logical_size(launcher, 1 << 30));
    OK(eagle_backend_launcher_launch(launcher));
    CHECK(plane.cells[4999] == (1 * 7 + 4999) * 7 + 4999);

    // Of a range in the middle what lies below the size is covered.
    Plane middle(100);
    auto part = middle.call(b);
    part.base = 40, part.count = 50;
    const eagle_launcher partly = captured(recorder, [&] { part.launch(recorder.raw); });
    for (const auto& [size, end] : {std::pair{60, 60}, {30, 40}, {95, 90}}) {
        OK(eagle_backend_launcher_set_logical_size(partly, size));
        const std::vector<std::uint64_t> old = middle.cells;
        OK(eagle_backend_launcher_launch(partly));
        for (std::size_t i = 0; i < 100; ++i)
            CHECK((middle.cells[i] != old[i]) == (i >= 40 && i < static_cast<std::size_t>(end)));
    }
    eagle_backend_launcher_release(partly);

    // Another capture of the same shape takes its place, with the switches; one of another shape does not.
    std::int32_t accepted = -1;
    std::vector<std::uint64_t> fresh;
    recorder.begin();
    Plane third(64);
    third.call(a).launch(recorder.raw);
    third.call(b).launch(recorder.raw);
    OK(eagle_backend_memset_device(address(to.data()), 8, recorder.raw));
    OK(eagle_backend_host_func(recorder.raw, [](void*) {}, nullptr));
    const eagle_captured different = recorder.end();
    CHECK(eagle_backend_launcher_exec_update(launcher, different, &accepted) == EAGLE_OK && accepted == 0);
    recorder.begin();
    third.call(a).launch(recorder.raw);
    third.call(b).launch(recorder.raw);
    OK(eagle_backend_memcpy(address(to.data()), address(from.data()), 40, EAGLE_COPY_H2H, recorder.raw));
    OK(eagle_backend_host_func(recorder.raw, [](void*) {}, nullptr));
    fresh = recorder.nodes();
    const eagle_captured same = recorder.end();
    CHECK(eagle_backend_launcher_exec_update(launcher, same, &accepted) == EAGLE_OK && accepted == 1);
    eagle_backend_captured_release(same);
    eagle_backend_captured_release(different);
    to[0] = 1;
    OK(eagle_backend_launcher_launch(launcher));
    third.expect({3, 5});
    CHECK(to[0] == 1);
    OK(eagle_backend_launcher_set_node_enabled(launcher, fresh[0], 0));
    OK(eagle_backend_launcher_set_node_enabled(launcher, nodes[2], 1));  // by the first ids too
    OK(eagle_backend_launcher_launch(launcher));
    third.expect({3, 5, 5});
    CHECK(to[0] == 7);

    const auto launcherRefuses = [&](eagle_status found, const char* door, const char* words) {
        checkRefused(found, EAGLE_INVALID_ARGUMENT, door, words);
    };
    launcherRefuses(eagle_backend_launcher_set_node_enabled(launcher, nodes[3], 0), "launcher_set_node_enabled",
                    "node");
    launcherRefuses(eagle_backend_launcher_set_node_enabled(launcher, 4, 0), "launcher_set_node_enabled",
                    "node is 0x4");
    launcherRefuses(eagle_backend_launcher_set_kernel_params(launcher, nodes[0], kept, 3), "launcher_set_kernel_params",
                    "n is 3");
    launcherRefuses(eagle_backend_launcher_set_kernel_params(launcher, nodes[2], kept, 2), "launcher_set_kernel_params",
                    "node");
    launcherRefuses(eagle_backend_launcher_set_memcpy_source(launcher, nodes[0], address(to.data())),
                    "launcher_set_memcpy_source", "a copy");
    launcherRefuses(eagle_backend_launcher_set_memcpy_source(launcher, nodes[2], 0), "launcher_set_memcpy_source",
                    "src is 0");
    launcherRefuses(eagle_backend_launcher_set_memcpy_source(launcher, nodes[2], address(to.data() + 1)),
                    "launcher_set_memcpy_source", "src is");
    launcherRefuses(eagle_backend_launcher_set_logical_size(launcher, -1), "launcher_set_logical_size", "n is -1");
    launcherRefuses(eagle_backend_launcher_stream(launcher, 123), "launcher_stream", "stream is 0x7b");
    eagle_backend_launcher_release(launcher);
    checkRefused(eagle_backend_launcher_launch(launcher), EAGLE_BAD_HANDLE, "launcher_launch");
}

void testGraphs() {
    Recorder recorder;
    Plane plane(100);
    std::uint64_t a = 3, b = 5, raw = 7;
    const auto desc = sized<eagle_graph_desc>();
    eagle_graph graph = nullptr;
    eagle_launcher launcher = nullptr;
    std::int64_t last = 7;
    OK(eagle_backend_graph_create(&desc, &graph));
    CHECK(eagle_backend_graph_last_node(graph, &last) == EAGLE_OK && last == -1);
    checkRefused(eagle_backend_graph_launcher(graph, &launcher), EAGLE_INVALID_ARGUMENT, "graph_launcher", "no node");
    CHECK(eagle_backend_capturer_graph(recorder.capturer, &raw) == EAGLE_OK && raw == 0);
    recorder.begin();
    OK(eagle_backend_capturer_graph(recorder.capturer, &raw));
    plane.call(a).launch(recorder.raw);
    checkRefused(eagle_backend_capture_add_child(recorder.raw, raw, 0), EAGLE_INVALID_ARGUMENT, "capture_add_child",
                 "still being captured");
    const eagle_captured child = recorder.end();
    recorder.begin();
    plane.call(b).launch(recorder.raw);
    OK(eagle_backend_capture_add_child(recorder.raw, raw, 0));
    checkRefused(eagle_backend_capture_add_child(recorder.raw, 0, 0), EAGLE_INVALID_ARGUMENT, "capture_add_child",
                 "graph is 0");
    CHECK(recorder.nodes().size() == 2);
    const eagle_captured captured = recorder.end();
    OK(eagle_backend_graph_add_node(graph, captured));
    checkRefused(eagle_backend_graph_add_node(graph, captured), EAGLE_BAD_HANDLE, "graph_add_node");
    OK(eagle_backend_graph_add_node(graph, child));
    CHECK(eagle_backend_graph_last_node(graph, &last) == EAGLE_OK && last == 1);
    OK(eagle_backend_graph_stream(graph, recorder.raw));
    OK(eagle_backend_graph_launcher(graph, &launcher));
    eagle_backend_graph_release(graph);
    checkRefused(eagle_backend_graph_launcher(graph, &launcher), EAGLE_BAD_HANDLE, "graph_launcher");
    OK(eagle_backend_launcher_launch(launcher));
    plane.expect({5, 3, 3});
    recorder.begin();
    checkRefused(eagle_backend_launcher_launch(launcher), EAGLE_ERROR, "launcher_launch", "being captured");
    eagle_backend_captured_release(recorder.end());
    checkRefused(eagle_backend_capture_snapshot_nodes(recorder.raw, nullptr, nullptr), EAGLE_INVALID_ARGUMENT,
                 "capture_snapshot_nodes");
    std::uint64_t* nodes = nullptr;
    checkRefused(eagle_backend_capture_snapshot_nodes(recorder.raw, &nodes, &last), EAGLE_ERROR,
                 "capture_snapshot_nodes", "not being captured");
    checkRefused(eagle_backend_capture_add_child(recorder.raw, 16, 0), EAGLE_INVALID_ARGUMENT, "capture_add_child");
    checkRefused(eagle_backend_capture_fuse(recorder.raw, 1), EAGLE_ERROR, "capture_fuse", "not being captured");
    eagle_backend_launcher_release(launcher);
}

void again(void* arg) {
    const auto launcher = *static_cast<eagle_launcher*>(arg);
    checkRefused(eagle_backend_launcher_launch(launcher), EAGLE_ERROR, "launcher_launch", "in use");
    checkRefused(eagle_backend_launcher_set_logical_size(launcher, 4), EAGLE_ERROR, "launcher_set_logical_size");
    eagle_backend_launcher_release(launcher);
}

void testALauncherUsedFromWithin() {
    Recorder recorder;
    eagle_launcher launcher = nullptr;
    Plane plane(100000);
    std::uint64_t a = 3;
    launcher = captured(recorder, [&] {
        plane.call(a).launch(recorder.raw);
        OK(eagle_backend_host_func(recorder.raw, &again, &launcher));
        plane.call(a).launch(recorder.raw);
    });
    OK(eagle_backend_launcher_launch(launcher));
    plane.expect({3, 3});
    checkRefused(eagle_backend_launcher_launch(launcher), EAGLE_BAD_HANDLE, "launcher_launch");
}

void testTimes() {
    Recorder recorder;
    Plane plane(100000), small(64);
    std::uint64_t a = 3;
    std::vector<std::uint64_t> nodes;
    Fork fork(recorder.raw, 2);
    const eagle_launcher launcher = captured(recorder, [&] {
        OK(eagle_backend_capture_fuse(recorder.raw, 1));
        plane.call(a).launch(recorder.raw);
        plane.call(a).launch(recorder.raw);
        OK(eagle_backend_capture_fuse(recorder.raw, 0));
        OK(eagle_backend_host_func(
            recorder.raw, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(3)); }, nullptr));
        fork.fork();
        small.call(a).launch(fork.branch(0));
        plane.call(a).launch(fork.branch(1));
        fork.join();
        nodes = recorder.nodes();
    });
    std::vector<double> seconds(5, -1);
    OK(eagle_backend_launcher_launch_timed(launcher, nodes.data(), 5, seconds.data()));
    plane.expect({3, 3, 3});
    small.expect({3});
    for (const double s : seconds) CHECK(s > 0);
    CHECK(seconds[2] >= 0.003);
    OK(eagle_backend_launcher_launch_timed(launcher, nullptr, 0, nullptr));
    checkRefused(eagle_backend_launcher_launch_timed(launcher, nodes.data(), 1, nullptr), EAGLE_INVALID_ARGUMENT,
                 "launcher_launch_timed", "count is 1");
    nodes[0] = 4;
    checkRefused(eagle_backend_launcher_launch_timed(launcher, nodes.data(), 1, seconds.data()), EAGLE_INVALID_ARGUMENT,
                 "launcher_launch_timed", "node is 0x4");
    eagle_backend_launcher_release(launcher);
}

void testFilteringIsRecorded() {
    Recorder recorder;
    constexpr std::int64_t n = 1000;
    std::vector<std::uint8_t> mask(n);
    std::vector<std::int32_t> map(n, -1);
    std::uint32_t count = 77;
    auto desc = sized<eagle_compact_desc>();
    desc.mask = address(mask.data());
    desc.index_map = address(map.data());
    desc.count = address(&count);
    desc.n = n;
    desc.stream = recorder.raw;
    recorder.begin();
    OK(eagle_backend_compact_device(&desc));  // a query, which runs
    std::vector<char> scratch(static_cast<std::size_t>(desc.scratch_bytes) + 64);
    desc.scratch = (address(scratch.data()) + 63) / 64 * 64;
    CHECK(recorder.nodes().empty());
    OK(eagle_backend_compact_device(&desc));
    CHECK(recorder.nodes().size() == 1 && count == 77);
    desc.flags = 64;
    checkRefused(eagle_backend_compact_device(&desc), EAGLE_UNSUPPORTED, "compact_device");
    const eagle_launcher launcher = launcherOf(recorder.end());
    desc = {};
    for (const int stride : {3, 7}) {
        for (int i = 0; i < n; ++i) mask[static_cast<std::size_t>(i)] = i % stride == 0;
        OK(eagle_backend_launcher_launch(launcher));
        CHECK(count == static_cast<std::uint32_t>((n + stride - 1) / stride) && map[2] == 2 * stride);
    }
    eagle_backend_launcher_release(launcher);
}

void testForkedProcess() {
    Recorder recorder;
    Plane plane(300000);
    std::uint64_t a = 3;
    const eagle_launcher launcher = captured(recorder, [&] {
        plane.call(a).launch(recorder.raw);
        plane.call(a).launch(recorder.raw);
    });
    OK(eagle_backend_launcher_launch(launcher));
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60);
        OK(eagle_backend_launcher_launch(launcher));
        plane.expect({3, 3, 3, 3});
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(eagle_backend_launcher_launch(launcher));
    plane.expect({3, 3, 3, 3});
    eagle_backend_launcher_release(launcher);
}

/// A handle stays dead, whether it was the last that was asked for or not.
void testReleasedLaunchers() {
    Recorder recorder;
    Plane plane(10);
    std::uint64_t a = 3;
    eagle_launcher launchers[2];
    for (eagle_launcher& each : launchers) each = captured(recorder, [&] { plane.call(a).launch(recorder.raw); });
    OK(eagle_backend_launcher_launch(launchers[0]));
    for (const eagle_launcher each : launchers) OK(eagle_backend_launcher_synchronize(each));
    eagle_backend_launcher_release(launchers[1]);
    CHECK(eagle_backend_launcher_synchronize(launchers[1]) == EAGLE_BAD_HANDLE);
    OK(eagle_backend_launcher_launch(launchers[0]));
    OK(eagle_backend_launcher_synchronize(launchers[0]));
    eagle_backend_launcher_release(launchers[0]);
    for (const eagle_launcher each : {launchers[0], launchers[1], eagle_launcher{}}) {
        CHECK(eagle_backend_launcher_synchronize(each) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_launcher_launch(each) == EAGLE_BAD_HANDLE);
    }
    plane.expect({3, 3});
}

}  // namespace

int main() {
    std::int32_t previous = 0;
    for (const std::int32_t threads : {4, 1}) {
        OK(eagle_backend_team_size(threads, &previous));
        testPatches();
        testReleasedLaunchers();
        testGraphs();
        testALauncherUsedFromWithin();
        testTimes();
        testFilteringIsRecorded();
        testForkedProcess();
    }
}
