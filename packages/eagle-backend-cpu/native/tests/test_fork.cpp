// A child of fork() launches, whatever the parent's threads were at.
//
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "check.h"
#include "eagle/exec/HostTeam.h"

using namespace eagle;
using exec::Team;

namespace {

void addOne(void* const* params, std::int64_t base, std::int64_t count, std::int64_t) {
    auto* values = static_cast<std::int64_t*>(params[0]);
    for (std::int64_t i = base; i < base + count; ++i) ++values[i];
}

void launch(std::vector<std::int64_t>& values) {
    values.assign(1 << 14, 0);
    void* params[] = {values.data()};
    for (int k = 0; k < 5; ++k) exec::run(addOne, params, {0, 1 << 14, 1 << 14}, 64);
    for (std::int64_t value : values) CHECK(value == 5);
}

void launch() {
    std::vector<std::int64_t> values;
    launch(values);
}

void launchInChild(int expectedSize) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60);
        launch();
        CHECK(Team::size() == expectedSize);
        {
            const Team::Lease lease = Team::tryLease();
            CHECK(lease);
            CHECK(lease->participants() == expectedSize);
        }
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

int main() {
    Team::setSize(3);
    launchInChild(3);  // never used before
    launch();
    launchInChild(3);
    launch();

    // From here on no thread but this one allocates: a sanitizer's allocator may not survive a fork() elsewise.
    std::atomic<bool> stop{false};
    std::atomic<int> ready{0};
    std::vector<std::thread> busy;
    for (int t = 0; t < 2; ++t) {
        busy.emplace_back([&] {
            std::vector<std::int64_t> values;
            launch(values);
            ++ready;
            while (!stop) launch(values);
        });
    }
    busy.emplace_back([&] {  // the loader's lock is what a child may find held
        exec::insideOpenMpRegion();
        ++ready;
        while (!stop) exec::insideOpenMpRegion();
    });
    while (ready < 3) std::this_thread::yield();
    for (int k = 0; k < 200; ++k) launchInChild(3);
    stop = true;
    for (std::thread& thread : busy) thread.join();
    launch();
}
