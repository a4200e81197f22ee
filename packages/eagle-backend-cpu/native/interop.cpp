// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_set>

#include "eagle/exec/Fork.h"
#include "guard.h"
#include "stream.h"

namespace eagle::cpu {
namespace {

constexpr int32_t kHost = 1, kPinnedHost = 3;  // DLPack device types
constexpr std::align_val_t kAlignment{64};

void* pointer(uint64_t address) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)); }

/// A range that is there: not at 0 and not past the end of the address space.
void requireRange(const char* name, uint64_t address, uint64_t bytes) {
    if (address == 0 || bytes > UINT64_MAX - address) {
        refuse(EAGLE_INVALID_ARGUMENT, "%s is %#llx; the address of %llu bytes is wanted", name,
               static_cast<unsigned long long>(address), static_cast<unsigned long long>(bytes));
    }
}

void copy(uint64_t dst, uint64_t src, uint64_t bytes, uint64_t stream) {
    const auto recording = recorder(stream);
    if (bytes == 0 || dst == src) return;
    requireRange("dst", dst, bytes);
    requireRange("src", src, bytes);
    if ((dst > src ? dst - src : src - dst) < bytes) {
        refuse(EAGLE_INVALID_ARGUMENT,
               "dst %#llx and src %#llx share some of their %llu bytes; disjoint ranges are wanted",
               static_cast<unsigned long long>(dst), static_cast<unsigned long long>(src),
               static_cast<unsigned long long>(bytes));
    }
    if (recording)
        recording->sink->add(exec::Copy{pointer(dst), pointer(src), bytes});
    else
        std::memcpy(pointer(dst), pointer(src), bytes);
}

void requireCode(const char* name, int64_t code) {
    if (code == EAGLE_NO_STREAM || code == -1 || isStream(static_cast<uint64_t>(code))) return;
    refuse(EAGLE_INTEROP, "%s is %lld; -1, 0, a live stream of this backend or no stream is wanted", name,
           static_cast<long long>(code));
}

/// What host_alloc gave and host_free has not taken back.
class HostBlocks {
public:
    uint64_t allocate(uint64_t bytes) {
        const bool possible = bytes <= PTRDIFF_MAX - static_cast<uint64_t>(kAlignment);
        void* const block = possible ? ::operator new(bytes, kAlignment, std::nothrow) : nullptr;
        if (!block) {
            refuse(EAGLE_ERROR, "bytes is %llu; there is not so much memory", static_cast<unsigned long long>(bytes));
        }
        try {
            const std::lock_guard lock(mutex_);
            live_.insert(block);
        } catch (...) {
            ::operator delete(block, kAlignment);
            throw;
        }
        return reinterpret_cast<std::uintptr_t>(block);
    }

    void free(uint64_t address) {
        {
            const std::lock_guard lock(mutex_);
            if (live_.erase(pointer(address)) == 0) {
                refuse(EAGLE_INVALID_ARGUMENT, "ptr is %#llx; an address of host_alloc that was not freed is wanted",
                       static_cast<unsigned long long>(address));
            }
        }
        ::operator delete(pointer(address), kAlignment);
    }

    static HostBlocks& instance() {
        static auto* const blocks = new HostBlocks;  // outlives late calls at exit
        return *blocks;
    }

private:
    exec::ForkMutex<HostBlocks> mutex_;
    std::unordered_set<void*> live_;
};

}  // namespace
}  // namespace eagle::cpu

using namespace eagle::cpu;

/// Nothing is ever under way on the host, so there is nothing to wait for.
eagle_status eagle_backend_fence(int32_t device_type, int32_t device_id, int64_t producer, int64_t consumer) {
    return guard("fence", [&] {
        if (device_type != kHost && device_type != kPinnedHost) {
            refuse(EAGLE_UNSUPPORTED, "device_type is %d; %d (host) or %d (pinned host) is wanted", device_type, kHost,
                   kPinnedHost);
        }
        requireDevice(device_id);
        requireCode("producer", producer);
        requireCode("consumer", consumer);
    });
}

eagle_status eagle_backend_event_pool_created(int64_t* out) {
    return guard("event_pool_created", [&] {
        requireOut("out", out);
        *out = 0;
    });
}

eagle_status eagle_backend_memset_device(uint64_t ptr, uint64_t bytes, uint64_t stream) {
    return guard("memset_device", [&] {
        const auto recording = recorder(stream);
        if (bytes == 0) return;
        requireRange("ptr", ptr, bytes);
        if (recording)
            recording->sink->add(eagle::exec::Zero{pointer(ptr), bytes});
        else
            std::memset(pointer(ptr), 0, bytes);
    });
}

eagle_status eagle_backend_memcpy_device(uint64_t dst, uint64_t src, uint64_t bytes, uint64_t stream) {
    return guard("memcpy_device", [&] { copy(dst, src, bytes, stream); });
}

eagle_status eagle_backend_memcpy(uint64_t dst, uint64_t src, uint64_t bytes, int32_t direction, uint64_t stream) {
    return guard("memcpy", [&] {
        if (direction < EAGLE_COPY_H2D || direction > EAGLE_COPY_H2H) {
            refuse(EAGLE_INVALID_ARGUMENT, "direction is %d; %d to %d is wanted", direction, EAGLE_COPY_H2D,
                   EAGLE_COPY_H2H);
        }
        copy(dst, src, bytes, stream);
    });
}

eagle_status eagle_backend_host_alloc(uint64_t bytes, uint64_t* out) {
    return guard("host_alloc", [&] {
        requireOut("out", out);
        *out = bytes == 0 ? 0 : HostBlocks::instance().allocate(bytes);
    });
}

eagle_status eagle_backend_host_free(uint64_t ptr) {
    return guard("host_free", [&] {
        if (ptr != 0) HostBlocks::instance().free(ptr);
    });
}

eagle_status eagle_backend_host_func(uint64_t stream, void (*fn)(void*), void* arg) {
    return guard("host_func", [&] {
        const auto recording = recorder(stream);
        if (!fn) refuse(EAGLE_INVALID_ARGUMENT, "fn is NULL; a function is wanted");
        if (recording)
            recording->sink->add(eagle::exec::HostFunction{fn, arg});
        else
            fn(arg);
    });
}

eagle_status eagle_backend_host_call(uint64_t stream, eagle_void_callback fn, void* arg) {
    return guard("host_call", [&] {
        const auto recording = recorder(stream);
        if (!fn) refuse(EAGLE_INVALID_ARGUMENT, "fn is NULL; a function is wanted");
        if (recording)
            recording->sink->add(eagle::exec::HostCall{fn, arg});
        else if (const int32_t answer = fn(arg))
            refuse(EAGLE_CALLBACK_FAILED, "fn answers %d", answer);
    });
}
