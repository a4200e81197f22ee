// One caller at a time, and nobody waits: the second is told.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "eagle/exec/Fork.h"

namespace eagle::util {

/// Whether an object is in use, by any thread, also the one that asks. In a child of fork() it is in use only where the
/// thread that forked was using it; what other threads held is free.
class InUse {
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

/// Another call is still running on the object, in another thread or further out in this one.
class Busy : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The turns of an object. Texts are the caller's, and outlive the guard: literals.
class BusyGuard {
public:
    /// A turn, given back at the end.
    class Scope {
    public:
        Scope(Scope&& other) noexcept : guard_(std::exchange(other.guard_, nullptr)) {}
        Scope& operator=(Scope&& other) noexcept {
            Scope(std::move(other)).swap(*this);
            return *this;
        }
        ~Scope() {
            if (guard_) guard_->leave();
        }

    private:
        friend class BusyGuard;
        explicit Scope(BusyGuard& guard) : guard_(&guard) {}
        void swap(Scope& other) noexcept { std::swap(guard_, other.guard_); }

        BusyGuard* guard_;
    };

    /// `owner` is what the object's class is called, as in "eagle.Graph".
    explicit BusyGuard(const char* owner) : owner_(owner) {}
    BusyGuard(const BusyGuard&) = delete;

    /// Takes a turn, for a method of that name; false where another call has it.
    bool tryEnter(const char* method = "") noexcept {
        if (!inUse_.enter()) return false;
        current_.store(method, std::memory_order_relaxed);
        return true;
    }
    /// The same, and Busy where another call has it.
    void enter(const char* method = "") {
        if (!tryEnter(method)) throw Busy(text(method));
    }
    [[nodiscard]] Scope scope(const char* method = "") {
        enter(method);
        return Scope(*this);
    }
    /// For who took it.
    void leave() noexcept {
        current_.store(nullptr, std::memory_order_relaxed);
        inUse_.leave();
    }

    /// The method that has the turn; null where none has.
    const char* current() const noexcept { return current_.load(std::memory_order_relaxed); }
    const char* owner() const noexcept { return owner_; }

private:
    std::string text(const std::string& method) const {
        const std::string owner = owner_, type = owner.substr(owner.rfind('.') + 1);
        return (method.empty() ? "" : owner + "." + method + ": ") + "another call is still running on this " + type +
               "; give each thread its own " + type + ", or wait for it";
    }

    InUse inUse_;
    const char* const owner_;
    std::atomic<const char*> current_{nullptr};
};

}  // namespace eagle::util
