// eagle/util/Busy.h: one call at a time.
//
// SPDX-License-Identifier: Apache-2.0
#include "eagle/util/Busy.h"

#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "check.h"

#if __has_include(<sys/wait.h>) && __has_include(<unistd.h>)
#include <sys/wait.h>
#include <unistd.h>
#endif

using eagle::util::Busy;
using eagle::util::BusyGuard;

namespace {

static_assert(std::is_base_of_v<std::runtime_error, Busy>);
static_assert(!std::is_copy_constructible_v<BusyGuard> && !std::is_copy_constructible_v<BusyGuard::Scope>);
static_assert(std::is_nothrow_move_constructible_v<BusyGuard::Scope>);

template <class Fn>
std::string refusal(Fn fn) {
    try {
        fn();
    } catch (const Busy& error) {
        return error.what();
    }
    return {};
}

const std::string kText = "another call is still running on this Graph; give each thread its own Graph, or wait for it";

void turns() {
    BusyGuard guard("eagle.Graph");
    CHECK(std::string(guard.owner()) == "eagle.Graph" && guard.current() == nullptr);
    CHECK(guard.tryEnter("build"));
    CHECK(std::string(guard.current()) == "build");
    CHECK(!guard.tryEnter("launch") && std::string(guard.current()) == "build");
    CHECK(refusal([&] { guard.enter("launch"); }) == "eagle.Graph.launch: " + kText);
    CHECK(refusal([&] { guard.enter(); }) == kText);
    guard.leave();
    CHECK(guard.current() == nullptr);
    guard.enter();
    CHECK(std::string(guard.current()).empty());
    guard.leave();
    BusyGuard plain("Runner");  // without a dot
    plain.enter();
    CHECK(refusal([&] { plain.enter(); }) ==
          "another call is still running on this Runner; give each thread its own Runner, or wait for it");
}

void scopes() {
    BusyGuard guard("eagle.Graph");
    {
        BusyGuard::Scope scope = guard.scope("launch");
        CHECK(!guard.tryEnter());
        BusyGuard::Scope moved = std::move(scope);
        CHECK(!refusal([&] { static_cast<void>(guard.scope()); }).empty());
        CHECK(std::string(guard.current()) == "launch");
    }
    CHECK(guard.tryEnter());
    guard.leave();
    BusyGuard other("eagle.Graph");
    BusyGuard::Scope scope = guard.scope();
    scope = other.scope();  // gives back the one it had
    CHECK(guard.tryEnter() && !other.tryEnter());
}

void threads() {
    BusyGuard guard("eagle.Graph");
    int inside = 0, entered = 0;  // guarded: ThreadSanitizer watches
    std::vector<std::thread> all;
    for (int t = 0; t < 4; ++t)
        all.emplace_back([&] {
            for (int i = 0; i < 2000; ++i) {
                if (!guard.tryEnter("run")) continue;
                CHECK(++inside == 1);
                ++entered;
                --inside;
                guard.leave();
            }
        });
    for (std::thread& thread : all) thread.join();
    CHECK(entered > 0);
}

void forks() {
#if __has_include(<sys/wait.h>) && __has_include(<unistd.h>)
    BusyGuard mine("eagle.Graph"), theirs("eagle.Graph");
    mine.enter();
    std::thread([&] { theirs.enter(); }).join();
    const pid_t child = fork();
    if (child == 0) _exit(!mine.tryEnter() && theirs.tryEnter() ? 0 : 1);
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(!theirs.tryEnter());
#endif
}

}  // namespace

int main() {
    turns();
    scopes();
    threads();
    forks();
}
