// The live handles of one kind.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "eagle/exec/Fork.h"
#include "guard.h"

namespace eagle::cpu {

/// A handle is a serial number in a pointer's clothes, never an address: one that was released stays dead.
template <class Handle, class Object>
class Registry {
public:
    explicit Registry(const char* kind) : kind_(kind) {}

    Handle add(std::shared_ptr<Object> object) {
        const std::lock_guard lock(mutex_);
        live_.emplace(next_, std::move(object));
        const Handle handle = reinterpret_cast<Handle>(next_);
        next_ += kStep;
        return handle;
    }

    std::shared_ptr<Object> get(Handle handle) {
        std::shared_ptr<Object> object = find(handle);
        if (!object) refuseDead(handle);
        return object;
    }

    /// Refuses a dead handle. Of the one that was found last it costs nothing.
    void require(Handle handle) {
        const auto number = reinterpret_cast<std::uintptr_t>(handle);
        const bool found = number != 0 && found_.load(std::memory_order_relaxed) == number;
        if (!found && !contains(number)) refuseDead(handle);
    }

    /// Null where there is none.
    std::shared_ptr<Object> find(Handle handle) {
        const std::lock_guard lock(mutex_);
        const auto number = reinterpret_cast<std::uintptr_t>(handle);
        const auto found = live_.find(number);
        if (found == live_.end()) return nullptr;
        found_.store(number, std::memory_order_relaxed);
        return found->second;
    }

    bool contains(std::uintptr_t number) {
        const std::lock_guard lock(mutex_);
        return live_.contains(number);
    }

    /// The object of a handle that is dead from now on; null when it was already.
    std::shared_ptr<Object> remove(Handle handle) {
        const std::lock_guard lock(mutex_);
        found_.store(0, std::memory_order_relaxed);
        auto node = live_.extract(reinterpret_cast<std::uintptr_t>(handle));
        return node ? std::move(node.mapped()) : nullptr;
    }

private:
    [[noreturn, gnu::cold]] void refuseDead(Handle handle) const {
        refuse(EAGLE_BAD_HANDLE, "%s is %#llx; the handle of a %s that was not released is wanted", kind_,
               static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(handle)), kind_);
    }

    static constexpr std::uintptr_t kStep = 16;  // clear of the small numbers that stand for default streams

    const char* const kind_;
    exec::ForkMutex<Object> mutex_;
    std::uintptr_t next_ = kStep;
    std::unordered_map<std::uintptr_t, std::shared_ptr<Object>> live_;
    std::atomic<std::uintptr_t> found_{0};  ///< last, and not removed since; written under the mutex
};

}  // namespace eagle::cpu
