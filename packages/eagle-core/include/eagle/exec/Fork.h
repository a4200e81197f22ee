// What a fork() needs: handlers around it, and a mutex the child never finds held.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#if __has_include(<pthread.h>)
#include <pthread.h>
#endif

namespace eagle::exec {

/// Registers fork handlers; false where there is no fork().
inline bool atFork(void (*prepare)(), void (*parent)(), void (*child)()) {
#if __has_include(<pthread.h>)
    return pthread_atfork(prepare, parent, child) == 0;
#else
    (void)prepare, (void)parent, (void)child;
    return false;
#endif
}

/// One process-wide mutex per Tag. fork() takes it first, so no other thread holds it while the process is copied.
template <class Tag>
class ForkMutex {
public:
    void lock() {
        (void)covered_;
        mutex_.lock();
    }
    bool try_lock() {
        (void)covered_;
        return mutex_.try_lock();
    }
    void unlock() { mutex_.unlock(); }

private:
    inline static std::mutex mutex_;
    inline static const bool covered_ = atFork([] { mutex_.lock(); }, [] { mutex_.unlock(); }, [] { mutex_.unlock(); });
};

}  // namespace eagle::exec
