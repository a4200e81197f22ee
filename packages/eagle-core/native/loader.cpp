// Opening a backend library: the handshake of eagle-backend/1, in its order.
//
// SPDX-License-Identifier: Apache-2.0
#include "loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

namespace eagle::core {
namespace {

constexpr Group kGroups[] = {
    {"stream", EAGLE_CAP_STREAM}, {"capturer", EAGLE_CAP_CAPTURER},       {"captured", EAGLE_CAP_CAPTURED},
    {"fork", EAGLE_CAP_FORK},     {"conditional", EAGLE_CAP_CONDITIONAL}, {"attribution", EAGLE_CAP_ATTRIBUTION},
    {"graph", EAGLE_CAP_GRAPH},   {"launcher", EAGLE_CAP_LAUNCHER},       {"exec", EAGLE_CAP_EXEC},
    {"device", EAGLE_CAP_DEVICE}, {"interop", EAGLE_CAP_INTEROP},         {"filtering", EAGLE_CAP_FILTERING},
};

constexpr int bit_of(std::string_view name) {
    for (const Group& group : kGroups) {
        if (name == group.name) return group.bit;
    }
    return -1;
}

constexpr SymbolRow kRows[] = {
#define EAGLE_SYMBOL(name, group, minor, bound) {#name, #group, minor, Bound::bound, bit_of(#group)},
#include "eagle/eagle_backend_symbols.def"
};

constexpr std::ptrdiff_t kSlotBytes = sizeof(void (*)());
static_assert(std::is_standard_layout_v<Symbols> && sizeof(Symbols) == kSlotBytes * std::size(kRows));

constexpr std::int32_t kMaxDeviceTypes = 64;

const void* image_of(const void* address) {
    Dl_info info{};
    return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

/// The exported address, null when the library has none of its own: a name the core itself happens to carry is not
/// the backend's.
void* symbol_address(void* library, const char* name) {
    void* address = dlsym(library, (std::string("eagle_backend_") + name).c_str());
    if (address == nullptr || image_of(address) == image_of(kRows)) return nullptr;
    return address;
}

bool bit_is_set(std::uint64_t capabilities, int bit) { return (capabilities >> bit & 1u) != 0; }

std::string dotted(std::uint32_t version) {
    return std::to_string(version >> 16) + "." + std::to_string(version & 0xFFFFu);
}

Raises raises_of(eagle_status status) {
    switch (status) {
        case EAGLE_INVALID_ARGUMENT:
            return Raises::kValueError;
        case EAGLE_INDEX:
            return Raises::kIndexError;
        case EAGLE_INTEROP:
            return Raises::kInteropError;
        case EAGLE_UNAVAILABLE:
            return Raises::kBackendUnavailable;
        default:
            return Raises::kRuntimeError;
    }
}

}  // namespace

std::span<const SymbolRow> symbol_rows() { return kRows; }
std::span<const Group> groups() { return kGroups; }

std::shared_ptr<const Backend> Backend::open(std::string kind, std::string path) {
    std::shared_ptr<Backend> backend(new Backend(std::move(kind), std::move(path)));
    // Never closed: threads and callbacks of the library may outlive every object here.
    void* library = dlopen(backend->path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char* reason = dlerror();
        backend->refuse(std::string("cannot be opened: ") + (reason != nullptr ? reason : "the loader gave no reason"));
    }
    backend->handshake(library);
    return backend;
}

void Backend::handshake(void* library) {
    const auto bind = [&](std::size_t index) {
        void* address = symbol_address(library, kRows[index].name);
        std::memcpy(reinterpret_cast<char*>(&fn) + index * kSlotBytes, &address, kSlotBytes);
        return address != nullptr;
    };
    const auto bind_all = [&](Bound bound) {
        for (std::size_t i = 0; i < std::size(kRows); ++i) {
            const SymbolRow& row = kRows[i];
            if (row.bound != bound || (bound == Bound::BIT && !bit_is_set(capabilities, row.bit))) continue;
            if (bind(i) || bound == Bound::ALONE) continue;
            if (bound == Bound::BIT) {
                refuse(std::string("sets the capability bit of group ") + row.group +
                       " without exporting eagle_backend_" + row.name);
            }
            refuse(std::string("found no symbol eagle_backend_") + row.name + ", which every backend exports");
        }
    };

    // A library of another major need export nothing but this, so nothing else is looked up before it.
    if (!bind(0)) refuse("found no symbol eagle_backend_version, so it is no backend library");
    version = fn.version();
    if (version >> 16 != EAGLE_BACKEND_VERSION_MAJOR) {
        refuse("found seam version " + dotted(version) + " (major " + std::to_string(version >> 16) +
               "), wanted major " + std::to_string(EAGLE_BACKEND_VERSION_MAJOR) +
               "; install a build of the backend for eagle-backend/" + std::to_string(EAGLE_BACKEND_VERSION_MAJOR));
    }
    bind_all(Bound::REQUIRED);

    must_answer("capabilities", fn.capabilities(&capabilities));

    std::int32_t count = 0;
    device_types.resize(kMaxDeviceTypes);
    must_answer("device_types", fn.device_types(device_types.data(), kMaxDeviceTypes, &count));
    device_types.resize(std::clamp(count, 0, kMaxDeviceTypes));

    read_build_info();
    bind_all(Bound::BIT);
    bind_all(Bound::ALONE);
}

void Backend::read_build_info() {
    eagle_build_info info{};
    info.struct_size = sizeof info;
    must_answer("build_info", fn.build_info(&info));
    // What lies beyond the size the backend wrote is absent, not zero.
    const auto filled = [&](const auto& field) {
        const auto end = reinterpret_cast<const char*>(&field + 1) - reinterpret_cast<const char*>(&info);
        return static_cast<std::size_t>(end) <= info.struct_size;
    };
    const auto number = [&](const auto& field) { return filled(field) ? std::optional(field) : std::nullopt; };
    const auto text = [&](const auto& field) -> std::optional<std::string> {
        if (!filled(field)) return std::nullopt;
        return std::string(field, std::find(field, field + sizeof field, '\0'));
    };
    build_info = {number(info.abi_version), number(info.cudart_version), text(info.eagle_version), text(info.archs),
                  text(info.backend_kind)};
    const std::string& told = build_info.backend_kind.value_or("");
    if (!told.empty() && told != kind) refuse("found a backend of kind '" + told + "', wanted kind '" + kind + "'");
}

bool Backend::has(std::string_view symbol) const {
    for (std::size_t i = 0; i < std::size(kRows); ++i) {
        if (symbol != kRows[i].name) continue;
        void* address = nullptr;
        std::memcpy(&address, reinterpret_cast<const char*>(&fn) + i * kSlotBytes, kSlotBytes);
        return address != nullptr;
    }
    return false;
}

const SymbolRow& Backend::row_of(const void* slot) const {
    return kRows[(static_cast<const char*>(slot) - reinterpret_cast<const char*>(&fn)) / kSlotBytes];
}

std::string Backend::lacks(const SymbolRow& row) const {
    if (row.bound == Bound::BIT && !bit_is_set(capabilities, row.bit)) return lacks(Group{row.group, row.bit});
    return title() + " does not provide eagle_backend_" + row.name;
}

std::string Backend::lacks(const Group& group) const {
    return bit_is_set(capabilities, group.bit) ? "" : title() + " does not provide " + group.name;
}

void Backend::refuse(const SymbolRow& row) const { throw Error(Raises::kBackendUnavailable, lacks(row)); }

void Backend::refuse(const std::string& why) const { throw Error(Raises::kBackendUnavailable, title() + ": " + why); }

void Backend::must_answer(const char* symbol, eagle_status status) const {
    if (status == EAGLE_OK) return;
    refuse(std::string("eagle_backend_") + symbol + " failed with status " + std::to_string(status) + ": " + message());
}

std::string Backend::message() const {
    const char* told = fn.last_error();
    return told != nullptr && *told != '\0' ? told : title() + " gave no message";
}

void Backend::fail(eagle_status status) const {
    std::string message = this->message();
    if (status < 0 || status >= EAGLE_UNSUPPORTED) {
        message = title() + ": status " + std::to_string(status) + ": " + message;
    }
    throw Error(raises_of(status), message);
}

Module::Module(std::shared_ptr<const Backend> owner, std::string_view image, int device) : backend(std::move(owner)) {
    backend->require(&Symbols::module_release);
    eagle_module_desc desc{};
    desc.struct_size = sizeof desc;
    desc.device = device;
    desc.image = image.data();
    desc.image_bytes = image.size();
    backend->call(&Symbols::module_load, &desc, &handle_);
}

Module::~Module() { backend->fn.module_release(handle_); }

std::uint64_t Module::function(const char* name) const {
    std::uint64_t address = 0;
    backend->call(&Symbols::module_function, handle_, name, &address);
    return address;
}

std::pair<std::uint64_t, std::uint64_t> Module::global(const char* name) const {
    std::uint64_t address = 0, bytes = 0;
    backend->call(&Symbols::module_global, handle_, name, &address, &bytes);
    return {address, bytes};
}

Stream::Stream(std::shared_ptr<const Backend> owner, int device) : backend(std::move(owner)) {
    eagle_stream_desc desc{};
    desc.struct_size = sizeof desc;
    desc.device = device;
    backend->call(&Symbols::stream_create, &desc, &handle_);
}

Stream::~Stream() { backend->fn.stream_release(handle_); }

std::uint64_t Stream::ptr() const {
    std::uint64_t raw = 0;
    backend->call(&Symbols::stream_ptr, handle_, &raw);
    return raw;
}

}  // namespace eagle::core
