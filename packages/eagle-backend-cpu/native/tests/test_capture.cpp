// Captures and their replay: each rule of the groups by itself. Random programs are in test_replay.
//
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "capturing.h"

namespace {

void throwing(void* const*, std::int64_t, std::int64_t, std::int64_t) { throw std::runtime_error("out of luck"); }

void testLaunchesAreRecorded() {
    Recorder recorder;
    Plane plane(1000);
    std::uint64_t a = 3, b = 5;
    recorder.begin();
    CHECK(plane.call(a).launch(recorder.raw) == 1);
    CHECK(plane.call(b).launch(recorder.raw, true) == 1);
    auto none = plane.call(b);
    none.count = 0;
    CHECK(none.launch(recorder.raw) == 0);
    CHECK(recorder.nodes().size() == 2);
    plane.expect({});
    Plane other(10);
    CHECK(other.call(a).launch(0) == 1);  // another stream's work runs
    other.expect({3});
    const eagle_captured captured = recorder.end();
    plane.expect({});
    std::int32_t valid = -1;
    CHECK(eagle_backend_captured_is_valid(captured, &valid) == EAGLE_OK && valid == 1);
    const eagle_launcher launcher = launcherOf(captured);
    std::int64_t count = 0;
    CHECK(eagle_backend_launcher_kernel_node_count(launcher, &count) == EAGLE_OK && count == 2);
    OK(eagle_backend_launcher_launch(launcher));
    plane.expect({3, 5});
    a = 7;  // the box stayed ours
    b = 9;  // the value was copied
    OK(eagle_backend_launcher_launch(launcher));
    OK(eagle_backend_launcher_synchronize(launcher));
    plane.expect({3, 5, 7, 5});
    CHECK(plane.call(a).launch(recorder.raw) == 1);  // no longer captured
    plane.expect({3, 5, 7, 5, 7});
    eagle_backend_launcher_release(launcher);
}

/// Values that are copied lie where their types may, whatever comes before them.
void testAlignedArguments() {
    struct alignas(16) Wide {
        std::uint64_t words[2];
    };
    Recorder recorder;
    std::uint8_t one = 1;
    std::uint16_t two = 2;
    std::uint32_t four = 4;
    std::uint64_t eight = 8, sum = 0;
    Wide wide{{16, 32}};
    Call call{[](void* const* params, std::int64_t, std::int64_t, std::int64_t) {
                  const auto at = [&](int i) { return reinterpret_cast<std::uintptr_t>(params[i]); };
                  CHECK(at(1) % 16 == 0 && at(2) % 2 == 0 && at(3) % 8 == 0 && at(5) % 4 == 0);
                  const auto& wide = *static_cast<const Wide*>(params[1]);
                  **static_cast<std::uint64_t* const*>(params[6]) =
                      *static_cast<const std::uint8_t*>(params[0]) + wide.words[0] + wide.words[1] +
                      *static_cast<const std::uint16_t*>(params[2]) + *static_cast<const std::uint64_t*>(params[3]) +
                      *static_cast<const std::uint8_t*>(params[4]) + *static_cast<const std::uint32_t*>(params[5]);
              },
              {},
              {}};
    const auto give = [&](const void* box, std::uint64_t size) {
        call.params.push_back(address(box));
        call.sizes.push_back(size);
    };
    std::uint64_t* const out = &sum;
    give(&one, 1), give(&wide, sizeof wide), give(&two, 2), give(&eight, 8), give(&one, 1), give(&four, 4);
    give(&out, sizeof out);
    call.count = call.n = 1;
    Call bare{[](void* const*, std::int64_t, std::int64_t, std::int64_t) {}, {}, {}, 0, 1, 1, 64};
    const eagle_launcher launcher = captured(recorder, [&] {
        call.launch(recorder.raw, true);
        bare.launch(recorder.raw, true);
        call.launch(recorder.raw, true);
    });
    one = 0, two = 0, four = 0, eight = 0, wide = {};
    OK(eagle_backend_launcher_launch(launcher));
    CHECK(sum == 1 + 16 + 32 + 2 + 8 + 1 + 4);
    eagle_backend_launcher_release(launcher);
}

struct Trail {
    std::vector<int> steps;
    int value = 0;
};

void note(void* arg) {
    auto* trail = static_cast<Trail*>(arg);
    trail->steps.push_back(trail->value++);
}

std::int32_t endAtTwo(void* arg) { return ++*static_cast<int*>(arg) == 2 ? 9 : 0; }

void testOtherWork() {
    Recorder recorder;
    Plane plane(100);
    std::uint64_t factor = 2;
    std::vector<std::uint64_t> from(100, 40), to(100, 50);
    Trail trail;
    int calls = 0;
    const eagle_launcher launcher = captured(recorder, [&] {
        OK(eagle_backend_memset_device(address(plane.data), 8 * 50, recorder.raw));
        OK(eagle_backend_memset_device(0, 0, recorder.raw));
        plane.call(factor).launch(recorder.raw);
        OK(eagle_backend_memcpy(address(to.data()), address(from.data()), 8 * 99, EAGLE_COPY_H2H, recorder.raw));
        OK(eagle_backend_memcpy_device(address(to.data() + 99), address(plane.data + 99), 8, recorder.raw));
        OK(eagle_backend_host_func(recorder.raw, &note, &trail));
        OK(eagle_backend_host_call(recorder.raw, &endAtTwo, &calls));
        OK(eagle_backend_host_func(recorder.raw, &note, &trail));
        CHECK(recorder.nodes().size() == 7);
        checkRefused(eagle_backend_memcpy(1, 2, 8, 7, recorder.raw), EAGLE_INVALID_ARGUMENT, "memcpy");
        checkRefused(eagle_backend_host_call(recorder.raw, nullptr, nullptr), EAGLE_INVALID_ARGUMENT, "host_call");
        CHECK(trail.steps.empty() && to[0] == 50 && plane.cells[0] == 1);
    });
    OK(eagle_backend_launcher_launch(launcher));
    for (std::size_t i = 0; i < 100; ++i) CHECK(plane.cells[i] == (i < 50 ? 0 : 2) + i);
    CHECK(to[0] == 40 && to[98] == 40 && to[99] == 101);
    CHECK((trail.steps == std::vector<int>{0, 1}));
    checkRefused(eagle_backend_launcher_launch(launcher), EAGLE_CALLBACK_FAILED, "launcher_launch", "ended");
    CHECK((trail.steps == std::vector<int>{0, 1, 2}));
    OK(eagle_backend_launcher_launch(launcher));
    CHECK((trail.steps == std::vector<int>{0, 1, 2, 3, 4}));
    eagle_backend_launcher_release(launcher);

    calls = 0;
    OK(eagle_backend_host_call(0, &endAtTwo, &calls));
    checkRefused(eagle_backend_host_call(0, &endAtTwo, &calls), EAGLE_CALLBACK_FAILED, "host_call", "answers 9");
}

void testThrowingEntries() {
    Recorder recorder;
    Plane before(10), after(10);
    std::uint64_t factor = 2;
    Call bad{&throwing, {0}, {}, 0, 10, 10, 64};
    std::vector<std::uint64_t> nodes;
    const eagle_launcher launcher = captured(recorder, [&] {
        before.call(factor).launch(recorder.raw);
        bad.launch(recorder.raw);
        after.call(factor).launch(recorder.raw);
        nodes = recorder.nodes();
    });
    checkRefused(eagle_backend_launcher_launch(launcher), EAGLE_ERROR, "launcher_launch", "out of luck");
    before.expect({2});
    after.expect({});
    OK(eagle_backend_launcher_set_node_enabled(launcher, nodes[1], 0));
    OK(eagle_backend_launcher_launch(launcher));
    before.expect({2, 2});
    after.expect({2});
    eagle_backend_launcher_release(launcher);
}

void testThrowingBranches() {
    Recorder recorder;
    Fork fork(recorder.raw, 3);
    Plane before(100), after(100);
    std::uint64_t factor = 2;
    Call bad{&throwing, {0}, {}, 0, 100, 100, 64};
    const eagle_launcher launcher = captured(recorder, [&] {
        fork.fork();
        before.call(factor).launch(fork.branch(0));
        for (std::uint64_t i = 0; i < 3; ++i) bad.launch(fork.branch(i));
        fork.join();
        after.call(factor).launch(recorder.raw);
    });
    std::vector<std::uint64_t> ran;
    for (int replay = 0; replay < 3; ++replay) {
        checkRefused(eagle_backend_launcher_launch(launcher), EAGLE_ERROR, "launcher_launch", "out of luck");
        if (before.cells[0] != std::uint64_t{1} << ran.size())
            ran.push_back(2);  // another branch may have thrown first
        before.expect(ran);
        after.expect({});
    }
    eagle_backend_launcher_release(launcher);
}

void testForks() {
    for (const std::int64_t n : {100, 5000, 200000}) {
        Recorder recorder;
        Fork fork(recorder.raw, 3);
        std::uint64_t a = 3, b = 5, size = 0, origin = 0;
        std::int32_t forked = -1;
        std::vector<Plane> planes(4, Plane(n));
        for (Plane& plane : planes) plane.data = plane.cells.data();
        OK(eagle_backend_fork_size(fork.handle, &size));
        OK(eagle_backend_fork_origin(fork.handle, &origin));
        CHECK(size == 3 && origin == recorder.raw);
        const eagle_launcher launcher = captured(recorder, [&] {
            for (Plane& plane : planes) plane.call(a).launch(recorder.raw);
            fork.fork();
            fork.fork();
            CHECK(eagle_backend_fork_forked(fork.handle, &forked) == EAGLE_OK && forked == 1);
            for (int round = 0; round < 2; ++round)
                for (std::uint64_t i = 0; i < 3; ++i) planes[i].call(b).launch(fork.branch(i));
            planes[3].call(b).launch(recorder.raw);  // beside the branches
            CHECK(recorder.nodes(fork.branch(2)).size() == 4 + 7);
            fork.join();
            fork.join();
            CHECK(eagle_backend_fork_forked(fork.handle, &forked) == EAGLE_OK && forked == 0);
            for (Plane& plane : planes) plane.call(a).launch(recorder.raw);
        });
        for (int replay = 1; replay < 3; ++replay) {
            OK(eagle_backend_launcher_launch(launcher));
            std::vector<std::uint64_t> branch, beside;
            for (int i = 0; i < replay; ++i) {
                branch.insert(branch.end(), {3, 5, 5, 3});
                beside.insert(beside.end(), {3, 5, 3});
            }
            for (std::size_t i = 0; i < 3; ++i) planes[i].expect(branch);
            planes[3].expect(beside);
        }
        eagle_backend_launcher_release(launcher);
    }
}

void testWaits() {
    Recorder recorder;
    Fork fork(recorder.raw, 2, 1);
    Plane plane(100), other(100);
    std::uint64_t a = 3, b = 5, c = 7, mark = 99;
    const eagle_launcher launcher = captured(recorder, [&] {
        checkRefused(eagle_backend_fork_mark(fork.handle, 0, &mark), EAGLE_ERROR, "fork_mark", "not open");
        fork.fork();
        checkRefused(eagle_backend_fork_wait(fork.handle, 0, 0), EAGLE_INDEX, "fork_wait", "mark is 0");
        plane.call(a).launch(fork.branch(1));
        CHECK(eagle_backend_fork_mark(fork.handle, 1, &mark) == EAGLE_OK && mark == 0);
        checkRefused(eagle_backend_fork_mark(fork.handle, 1, &mark), EAGLE_INDEX, "fork_mark", "wait_count was 1");
        checkRefused(eagle_backend_fork_mark(fork.handle, 2, &mark), EAGLE_INDEX, "fork_mark", "branch 2");
        checkRefused(eagle_backend_fork_wait(fork.handle, 2, 0), EAGLE_INDEX, "fork_wait", "branch 2");
        other.call(a).launch(fork.branch(0));
        OK(eagle_backend_fork_wait(fork.handle, 0, 0));
        plane.call(b).launch(fork.branch(0));
        other.call(c).launch(fork.branch(0));
        fork.join();
    });
    OK(eagle_backend_launcher_launch(launcher));
    plane.expect({3, 5});
    other.expect({3, 7});
    eagle_backend_launcher_release(launcher);
}

void testForksOutsideACapture() {
    Fork fork(0, 2);
    Plane plane(10);
    std::uint64_t a = 3;
    fork.fork();
    plane.call(a).launch(fork.branch(1));
    plane.expect({3});
    fork.join();
    std::uint64_t raw = 0;
    checkRefused(eagle_backend_fork_branch(fork.handle, 2, &raw), EAGLE_INDEX, "fork_branch", "branch 2");
    auto desc = sized<eagle_fork_desc>();
    eagle_fork handle = nullptr;
    checkRefused(eagle_backend_fork_create(&desc, &handle), EAGLE_INVALID_ARGUMENT, "fork_create", "branch_count is 0");
    desc.branch_count = UINT64_MAX;
    checkRefused(eagle_backend_fork_create(&desc, &handle), EAGLE_INVALID_ARGUMENT, "fork_create", "branch_count");
    desc.branch_count = 1;
    desc.flags = 4;
    checkRefused(eagle_backend_fork_create(&desc, &handle), EAGLE_UNSUPPORTED, "fork_create", "flags");
}

void testBrokenCaptures() {
    Plane plane(10);
    std::uint64_t a = 3;
    eagle_captured out = nullptr;
    Recorder recorder;
    checkRefused(eagle_backend_capturer_end(recorder.capturer, &out), EAGLE_ERROR, "capturer_end", "no capture");
    {
        Fork fork(recorder.raw, 2);
        recorder.begin();
        checkRefused(eagle_backend_capturer_begin(recorder.capturer), EAGLE_ERROR, "capturer_begin", "has begun");
        checkRefused(eagle_backend_stream_synchronize(recorder.stream), EAGLE_ERROR, "stream_synchronize", "captured");
        fork.fork();
        plane.call(a).launch(fork.branch(0));
        checkRefused(eagle_backend_capturer_end(recorder.capturer, &out), EAGLE_ERROR, "capturer_end", "not joined");
        plane.call(a).launch(fork.branch(0));  // runs now
        plane.expect({3});
        fork.join();
        recorder.begin();  // and all can be used again
        fork.fork();
        plane.call(a).launch(fork.branch(1));
        fork.join();
        const eagle_launcher launcher = launcherOf(recorder.end());
        OK(eagle_backend_launcher_launch(launcher));
        plane.expect({3, 3});
        eagle_backend_launcher_release(launcher);
    }
    {
        Fork outer(recorder.raw, 2);
        Fork inner(outer.branch(0), 2);
        recorder.begin();
        outer.fork();
        inner.fork();
        checkRefused(eagle_backend_fork_join(outer.handle), EAGLE_ERROR, "fork_join", "not joined");
        inner.join();
        outer.join();
        const eagle_captured captured = recorder.end();
        eagle_backend_captured_release(captured);
    }
    recorder.begin();
    {
        Fork fork(recorder.raw, 1);
        fork.fork();
        plane.call(a).launch(fork.branch(0));
    }  // joined by its release
    eagle_backend_captured_release(recorder.end());
    recorder.begin();
    const eagle_captured empty = recorder.end();
    std::int32_t valid = -1;
    CHECK(eagle_backend_captured_is_valid(empty, &valid) == EAGLE_OK && valid == 0);
    eagle_graph graph = nullptr;
    checkRefused(eagle_backend_graph_from_captured(empty, &graph), EAGLE_INVALID_ARGUMENT, "graph_from_captured",
                 "empty");
    eagle_backend_captured_release(empty);
    checkRefused(eagle_backend_captured_is_valid(empty, &valid), EAGLE_BAD_HANDLE, "captured_is_valid");
    {
        Recorder abandoned;
        abandoned.begin();
        plane.call(a).launch(abandoned.raw);
    }
    auto desc = sized<eagle_capturer_desc>();
    eagle_capturer capturer = nullptr;
    checkRefused(eagle_backend_capturer_create(&desc, &capturer), EAGLE_INVALID_ARGUMENT, "capturer_create", "default");
    desc.stream = 12345;
    checkRefused(eagle_backend_capturer_create(&desc, &capturer), EAGLE_INVALID_ARGUMENT, "capturer_create", "stream");
    plane.expect({3, 3});
}

void testConditionals() {
    Recorder recorder;
    Plane plane(100);
    Cells cells;
    std::uint64_t factors[6] = {2, 3, 5, 7, 11, 13};
    const auto replayed = [&](eagle_launcher launcher, std::vector<std::uint64_t> expected) {
        std::fill(plane.cells.begin(), plane.cells.end(), 1);
        OK(eagle_backend_launcher_launch(launcher));
        plane.expect(expected);
    };
    {
        auto desc = conditionalDesc(recorder.raw, 0);
        desc.count_ptr = address(&cells.count);
        desc.baseline_ptr = address(&cells.baseline);
        Conditional one(desc);
        desc.negate = 1;
        desc.kind = EAGLE_COND_IF_ELSE;
        Conditional two(desc);
        std::int32_t loop = -1;
        CHECK(eagle_backend_conditional_is_loop(one.handle, &loop) == EAGLE_OK && loop == 0);
        const eagle_launcher launcher = captured(recorder, [&] {
            const std::uint64_t body = one.begin();
            std::uint64_t same = 0;
            CHECK(eagle_backend_conditional_body_stream(one.handle, &same) == EAGLE_OK && same == body);
            plane.call(factors[0]).launch(recorder.raw);
            plane.call(factors[1]).launch(body);
            one.end();
            one.end();
            two.begin();
            plane.call(factors[2]).launch(two.arm(1));
            plane.call(factors[3]).launch(two.arm(0));
            two.end();
            CHECK(recorder.nodes().size() == 5 && one.nodes(0).size() == 1 && two.nodes(1).size() == 1);
            CHECK(one.nodes(-1).size() == 1);
        });
        replayed(launcher, {2, 7});
        cells.count = 4;
        replayed(launcher, {3, 2, 5});
        cells.baseline = 4;
        replayed(launcher, {2, 7});
        // Patched: other cells, and the other way round.
        std::uint32_t other = 6;
        std::uint64_t pair[2] = {address(&other), 0};
        std::uint32_t negate = 1;
        const std::uint64_t params[3] = {0, address(pair), address(&negate)};
        OK(eagle_backend_launcher_set_kernel_params(launcher, one.nodes(-1)[0], params, 3));
        replayed(launcher, {2, 7});
        other = 0;
        replayed(launcher, {3, 2, 7});
        checkRefused(eagle_backend_launcher_set_kernel_params(launcher, one.nodes(-1)[0], params, 4),
                     EAGLE_INVALID_ARGUMENT, "launcher_set_kernel_params", "n is 4");
        eagle_backend_launcher_release(launcher);
    }
    {
        auto desc = conditionalDesc(recorder.raw, EAGLE_COND_SWITCH, 3);
        desc.count_ptr = address(&cells.count);
        Conditional choice(desc);
        const eagle_launcher launcher = captured(recorder, [&] {
            choice.begin();
            for (std::uint64_t i = 0; i < 3; ++i) plane.call(factors[i]).launch(choice.arm(i));
            choice.end();
            plane.call(factors[5]).launch(recorder.raw);
        });
        for (std::uint32_t i = 0; i < 5; ++i) {
            cells.count = i;
            replayed(launcher, i < 3 ? std::vector<std::uint64_t>{factors[i], 13} : std::vector<std::uint64_t>{13});
        }
        checkRefused(eagle_backend_conditional_arm_stream(choice.handle, 3, &desc.count_ptr), EAGLE_INDEX,
                     "conditional_arm_stream", "arm 3");
        eagle_backend_launcher_release(launcher);
    }
}

struct Loop {
    Cells* cells;
    int ran = 0, breakAt = -1, closeAt = -1;
    std::vector<std::uint32_t> seen;
};

void iterate(void* arg) {
    auto* loop = static_cast<Loop*>(arg);
    loop->seen.push_back(loop->cells->counter[1]);
    if (loop->ran == loop->breakAt) loop->cells->brk = 1;
    if (loop->ran == loop->closeAt) loop->cells->count = 0;
    ++loop->ran;
}

void testLoops() {
    struct Case {
        std::uint32_t cap, limit;
        int breakAt, closeAt;
        bool hasLimit, hasBrk, hasGuard;
        std::uint32_t ran;
    };
    for (const Case& c : {Case{3, 0, -1, -1, false, false, false, 3}, Case{9, 4, -1, -1, true, false, false, 4},
                          Case{9, 0, -1, -1, true, false, false, 0}, Case{3, 8, -1, -1, true, false, false, 3},
                          Case{EAGLE_UNCAPPED_LOOP, 0, 4, -1, false, true, false, 5},
                          Case{EAGLE_UNCAPPED_LOOP, 0, -1, 2, false, false, true, 3},
                          Case{2, 0, 4, -1, false, true, false, 2}, Case{1, 5, 0, 0, true, true, true, 1}}) {
        Recorder recorder;
        Cells cells;
        Loop loop{&cells, 0, c.breakAt, c.closeAt, {}};
        auto desc = conditionalDesc(recorder.raw, EAGLE_COND_WHILE);
        desc.loop_cap = c.cap;
        desc.counter_ptr = address(cells.counter);
        if (c.hasLimit) desc.limit_ptr = address(&cells.limit);
        if (c.hasBrk) desc.brk_ptr = address(&cells.brk);
        if (c.hasGuard) desc.count_ptr = address(&cells.count);
        Conditional conditional(desc);
        std::int32_t isLoop = -1;
        CHECK(eagle_backend_conditional_is_loop(conditional.handle, &isLoop) == EAGLE_OK && isLoop == 1);
        const eagle_launcher launcher = captured(recorder, [&] {
            OK(eagle_backend_host_func(conditional.begin(), &iterate, &loop));
            conditional.end();
        });
        CHECK(conditional.nodes(-1).size() == 2);
        for (int replay = 0; replay < 2; ++replay) {
            cells.limit = c.limit;
            cells.brk = 1;  // cleared at the head
            cells.count = 1;
            loop.ran = 0;
            loop.seen.clear();
            OK(eagle_backend_launcher_launch(launcher));
            CHECK(loop.ran == static_cast<int>(c.ran) && cells.counter[0] == c.cap - c.ran);
            CHECK(cells.counter[1] == c.ran);
            for (std::uint32_t i = 0; i < c.ran; ++i) CHECK(loop.seen[i] == i);
        }
        eagle_backend_launcher_release(launcher);
    }
}

void testConditionalRefusals() {
    Recorder recorder;
    Cells cells;
    eagle_conditional handle = nullptr;
    const auto refused = [&](eagle_conditional_desc desc, eagle_status status, const char* words) {
        checkRefused(eagle_backend_conditional_create(&desc, &handle), status, "conditional_create", words);
    };
    auto desc = conditionalDesc(recorder.raw, 9);
    refused(desc, EAGLE_UNSUPPORTED, "kind is 9");
    refused(conditionalDesc(recorder.raw, EAGLE_COND_IF, 2), EAGLE_INVALID_ARGUMENT, "arms is 2");
    refused(conditionalDesc(recorder.raw, EAGLE_COND_IF_ELSE, 1), EAGLE_INVALID_ARGUMENT, "arms is 1");
    refused(conditionalDesc(recorder.raw, EAGLE_COND_SWITCH), EAGLE_INVALID_ARGUMENT, "arms is 0");
    refused(conditionalDesc(recorder.raw, EAGLE_COND_SWITCH, 2), EAGLE_INVALID_ARGUMENT, "count_ptr is 0");
    desc = conditionalDesc(recorder.raw, EAGLE_COND_WHILE);
    desc.loop_cap = 1;
    refused(desc, EAGLE_INVALID_ARGUMENT, "counter_ptr is 0");
    desc.counter_ptr = address(cells.counter);
    desc.loop_cap = 0;
    refused(desc, EAGLE_INVALID_ARGUMENT, "loop_cap 0");
    desc.kind = 0;
    refused(desc, EAGLE_INVALID_ARGUMENT, "loop_cap 0");
    desc.loop_cap = 1;
    desc.flags = 1;
    refused(desc, EAGLE_UNSUPPORTED, "flags");
    desc.flags = 0;
    desc.struct_size = 48;  // the first callers: a loop by its counter
    OK(eagle_backend_conditional_create(&desc, &handle));
    std::uint64_t raw = 0;
    checkRefused(eagle_backend_conditional_begin(handle, &raw), EAGLE_ERROR, "conditional_begin", "not being captured");
    recorder.begin();
    OK(eagle_backend_conditional_begin(handle, &raw));
    checkRefused(eagle_backend_conditional_begin(handle, &raw), EAGLE_ERROR, "conditional_begin", "has begun");
    checkRefused(eagle_backend_conditional_end(handle), EAGLE_INVALID_ARGUMENT, "conditional_end", "body of the loop");
    OK(eagle_backend_conditional_end(handle));
    eagle_captured captured = nullptr;
    checkRefused(eagle_backend_capturer_end(recorder.capturer, &captured), EAGLE_ERROR, "capturer_end", "empty");
    eagle_backend_conditional_release(handle);
    {
        Conditional branch(conditionalDesc(recorder.raw, EAGLE_COND_IF));
        recorder.begin();
        OK(eagle_backend_host_func(branch.begin(), &note, nullptr));
        checkRefused(eagle_backend_capturer_end(recorder.capturer, &captured), EAGLE_ERROR, "capturer_end", "ended");
    }
}

void testStrangers() {
    const auto handle = [](auto& out, std::uintptr_t number) {
        out = reinterpret_cast<std::remove_reference_t<decltype(out)>>(number);
    };
    for (const std::uintptr_t number : {0ull, 1ull, 16ull << 40, ~0ull}) {
        eagle_capturer capturer;
        eagle_captured captured;
        eagle_fork fork;
        eagle_conditional conditional;
        eagle_graph graph;
        eagle_launcher launcher;
        handle(capturer, number), handle(captured, number), handle(fork, number), handle(conditional, number);
        handle(graph, number), handle(launcher, number);
        std::uint64_t out = 0;
        std::int64_t wide = 0;
        std::int32_t flag = 0;
        std::uint64_t* nodes = nullptr;
        CHECK(eagle_backend_capturer_begin(capturer) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_capturer_end(capturer, nullptr) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_capturer_graph(capturer, &out) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_captured_is_valid(captured, &flag) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_fork_fork(fork) == EAGLE_BAD_HANDLE && eagle_backend_fork_join(fork) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_fork_branch(fork, 0, &out) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_fork_origin(fork, &out) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_fork_forked(fork, &flag) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_fork_size(fork, &out) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_fork_mark(fork, 0, &out) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_fork_wait(fork, 0, 0) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_conditional_begin(conditional, &out) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_conditional_body_stream(conditional, &out) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_conditional_is_loop(conditional, &flag) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_conditional_end(conditional) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_conditional_arm_stream(conditional, 0, &out) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_conditional_nodes(conditional, 0, &nodes, &wide) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_graph_from_captured(captured, &graph) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_graph_stream(graph, 0) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_graph_add_node(graph, captured) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_graph_last_node(graph, &wide) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_launcher_launch(launcher) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_launcher_synchronize(launcher) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_launcher_kernel_node_count(launcher, &wide) == EAGLE_BAD_HANDLE);
        CHECK(eagle_backend_launcher_exec_update(launcher, captured, &flag) == EAGLE_BAD_HANDLE);
        eagle_backend_capturer_release(capturer);
        eagle_backend_captured_release(captured);
        eagle_backend_fork_release(fork);
        eagle_backend_conditional_release(conditional);
        eagle_backend_graph_release(graph);
        eagle_backend_launcher_release(launcher);
    }
}

}  // namespace

int main() {
    std::int32_t previous = 0;
    for (const std::int32_t threads : {4, 1}) {
        OK(eagle_backend_team_size(threads, &previous));
        testLaunchesAreRecorded();
        testAlignedArguments();
        testOtherWork();
        testThrowingEntries();
        testThrowingBranches();
        testForks();
        testWaits();
        testForksOutsideACapture();
        testBrokenCaptures();
        testConditionals();
        testLoops();
        testConditionalRefusals();
        testStrangers();
    }
}
