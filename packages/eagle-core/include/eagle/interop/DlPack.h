// The binary interface of DLPack 1.0: what array libraries hand each other.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace eagle::interop::dlpack {

/// Device types that mean something here; the others are numbers that are handed on.
enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3 };

enum TypeCode : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6 };

struct Device {
    std::int32_t type;
    std::int32_t id;

    bool operator==(const Device&) const = default;
};

struct DataType {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
};

/// A tensor that owns nothing. Null strides mean C order.
struct Tensor {
    void* data;
    Device device;
    std::int32_t rank;
    DataType dtype;
    std::int64_t* shape;
    std::int64_t* strides;  ///< in elements
    std::uint64_t byteOffset;
};

/// What was handed over before version 1.0; it cannot say that it is read-only.
struct Legacy {
    Tensor tensor;
    void* context;
    void (*deleter)(Legacy*);
};

struct Version {
    std::uint32_t major;
    std::uint32_t minor;
};

struct Versioned {
    Version version;
    void* context;
    void (*deleter)(Versioned*);  ///< the last field to rely on when the major version is a newer one
    std::uint64_t flags;
    Tensor tensor;
};

inline constexpr Version kVersion{1, 0};
inline constexpr std::uint64_t kReadOnly = 1;  ///< a flag

/// The functions a Python type offers in its attribute `__dlpack_c_exchange_api__`, a capsule. None of them orders
/// streams; each gives 0, or -1 with a Python exception set.
struct ExchangeApi {
    Version version;
    ExchangeApi* older;
    int (*allocate)(Tensor*, Versioned**, void*, void (*)(void*, const char*, const char*));
    int (*fromObject)(void* object, Versioned** out);
    int (*toObject)(Versioned*, void** object);
    int (*borrow)(void* object, Tensor* out);
    int (*currentStream)(std::int32_t deviceType, std::int32_t deviceId, void** out);
};

/// What a device type is called; null for those that are refused.
constexpr const char* deviceName(std::int32_t type) {
    switch (type) {
        case 1:
            return "cpu";
        case 2:
            return "cuda";
        case 3:
            return "cuda-host";
        case 4:
            return "opencl";
        case 7:
            return "vulkan";
        case 8:
            return "metal";
        case 9:
            return "vpi";
        case 10:
            return "hip";
        case 11:
            return "hip-host";
        case 12:
            return "extension";
        case 13:
            return "cuda-managed";
        case 14:
            return "oneapi";
        case 15:
            return "webgpu";
        case 16:
            return "hexagon";
        case 17:
            return "maia";
        default:
            return nullptr;
    }
}
inline constexpr std::int32_t kLastDeviceType = 17;

static_assert(sizeof(void*) != 8 ||
              (sizeof(Tensor) == 48 && sizeof(Legacy) == 64 && sizeof(Versioned) == 80 && sizeof(ExchangeApi) == 56));
static_assert(sizeof(void*) != 8 || (offsetof(Tensor, shape) == 24 && offsetof(Versioned, tensor) == 32));

}  // namespace eagle::interop::dlpack
