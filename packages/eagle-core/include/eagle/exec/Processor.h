// What a thread may ask of its processor and of the scheduler. Requests: nothing depends on their being granted.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#if __has_include(<unistd.h>)
#include <unistd.h>
#endif
#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#endif

namespace eagle::exec {

/// Tells the processor that this is a spin loop.
inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#else
    std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

/// Asks for the first cache lines of an object that is about to be read.
inline void prefetch(const void* object) {
#if defined(__GNUC__) || defined(__clang__)
    constexpr int kLine = 64;
    __builtin_prefetch(object);
    __builtin_prefetch(static_cast<const char*>(object) + kLine);
#else
    (void)object;
#endif
}

inline constexpr int kUnknownProcessor = -1;

inline int currentProcessor() {
#if defined(__linux__)
    return sched_getcpu();
#else
    return kUnknownProcessor;
#endif
}

/// Bytes of a core's L2 cache, where the system tells, else of a usual one.
inline std::int64_t l2Bytes() {
    constexpr std::int64_t kUsual = std::int64_t{1} << 20;
#if defined(_SC_LEVEL2_CACHE_SIZE)
    static const std::int64_t found = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return found > 0 ? found : kUsual;
#else
    return kUsual;
#endif
}

/// Moves the calling thread off this processor, if that is where it is and another may be had. It may come back.
inline void stepAside(int processor) {
#if defined(__linux__)
    if (processor < 0 || processor >= CPU_SETSIZE || sched_getcpu() != processor) return;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    cpu_set_t others = allowed;
    CPU_CLR(processor, &others);
    if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
    sched_setaffinity(0, sizeof allowed, &allowed);
#else
    (void)processor;
#endif
}

/// Lets the calling thread run soon after it is woken, in return for short turns while others want the processor.
/// Elsewise one woken where another thread computes waits until that one's turn of some milliseconds is over.
inline void askForShortTurns() {
#if defined(__linux__) && defined(SYS_sched_getattr) && defined(SYS_sched_setattr)
    struct {  // struct sched_attr, which no header gives portably
        std::uint32_t size, policy;
        std::uint64_t flags;
        std::int32_t nice;
        std::uint32_t priority;
        std::uint64_t runtime, deadline, period;
    } attributes{};
    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
    if (attributes.policy != SCHED_OTHER) return;
    attributes.size = sizeof attributes;
    attributes.runtime = 100'000;  // ns; taken since Linux 6.12, ignored before
    syscall(SYS_sched_setattr, 0, &attributes, 0);
#endif
}

}  // namespace eagle::exec
