// One caller at a time, and nobody waits: the second is told.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "eagle/exec/Fork.h"

namespace eagle::util {

/// Whether an object is in use, by any thread, also the one that asks. In a child of fork() it is in use only where the
/// thread that forked was using it; what other threads held is free.
class Busy {
public:
    /// Takes the object; false where it is in use.
    bool enter() noexcept {
        const uint64_t mine = thread() << kForkBits | (forks_.load(std::memory_order_relaxed) & kForkMask);
        uint64_t holder = 0;
        while (!holder_.compare_exchange_strong(holder, mine, std::memory_order_acquire))
            if (holder != 0 && !left_behind(holder)) return false;
        return true;
    }
    /// Gives it back; for who took it.
    void leave() noexcept { holder_.store(0, std::memory_order_release); }

private:
    static constexpr int kForkBits = 16;
    static constexpr uint64_t kForkMask = (uint64_t{1} << kForkBits) - 1;

    static uint64_t thread() noexcept {
        static std::atomic<uint64_t> threads{0};
        thread_local const uint64_t number = threads.fetch_add(1, std::memory_order_relaxed) + 1;
        return number;
    }
    /// Whether the holder is a thread that the last fork() did not copy.
    static bool left_behind(uint64_t holder) noexcept {
        return (holder & kForkMask) != (forks_.load(std::memory_order_relaxed) & kForkMask) &&
               holder >> kForkBits != survivor_.load(std::memory_order_relaxed);
    }

    std::atomic<uint64_t> holder_{0};  // 0: nobody, else the number of a thread and the forks it had seen
    inline static std::atomic<uint64_t> forks_{0}, survivor_{0};  // of this process; who called the last fork()
    inline static const bool counted_ = exec::atFork(nullptr, nullptr, [] {
        forks_.fetch_add(1, std::memory_order_relaxed);
        survivor_.store(thread(), std::memory_order_relaxed);
    });
};

}  // namespace eagle::util
