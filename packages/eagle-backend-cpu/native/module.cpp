// Compiled kernels: a shared library to the addresses in it.
//
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <string>

#include "guard.h"
#include "registry.h"

#if defined(__GLIBC__)
#include <link.h>
#endif

namespace eagle::cpu {
namespace {

std::string loaderError() {
    const char* text = dlerror();
    return text ? text : "the loader gives no reason";
}

class Module {
public:
    explicit Module(const std::string& path) : library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        if (!library_) refuse(EAGLE_ERROR, "%s", loaderError().c_str());
    }
    ~Module() { dlclose(library_); }
    Module(const Module&) = delete;
    Module& operator=(const Module&) = delete;

    struct Symbol {
        void* address = nullptr;
        std::uint64_t bytes = 0;  ///< 0 where the loader does not tell
    };
    enum class Kind { kFunction, kData };

    /// A symbol of the image itself, not of a library it needs.
    Symbol find(const char* name, Kind kind) const {
        Symbol symbol{dlsym(library_, name)};
        if (!symbol.address || !isOurs(symbol, kind)) {
            refuse(EAGLE_INDEX, "the image has no %s '%s'", kind == Kind::kFunction ? "function" : "data symbol", name);
        }
        return symbol;
    }

private:
    /// Fills in the size on the way.
    bool isOurs(Symbol& symbol, Kind kind) const {
#if defined(__GLIBC__)
        Dl_info info{};
        link_map* own = nullptr;
        void *found = nullptr, *entry = nullptr;
        if (dlinfo(library_, RTLD_DI_LINKMAP, &own) != 0) return false;
        if (!dladdr1(symbol.address, &info, &found, RTLD_DL_LINKMAP) || found != own) return false;
        dladdr1(symbol.address, &info, &entry, RTLD_DL_SYMENT);
        if (!entry || info.dli_saddr != symbol.address) return true;
        const auto* elf = static_cast<const ElfW(Sym)*>(entry);
        const auto type = elf->st_info & 0xf;
        if (kind == Kind::kFunction ? type == STT_OBJECT : type == STT_FUNC) return false;
        symbol.bytes = elf->st_size;
#else
        (void)symbol, (void)kind;
#endif
        return true;
    }

    void* const library_;
};

Registry<eagle_module, Module>& modules() {
    static auto* const registry = new Registry<eagle_module, Module>("module");  // outlives late calls at exit
    return *registry;
}

std::string readPath(const eagle_module_desc& d) {
    if (!d.image || d.image_bytes == 0) {
        refuse(EAGLE_INVALID_ARGUMENT, "desc.image is empty; the path of a shared library is wanted");
    }
    constexpr std::uint64_t longest = 1 << 20;
    if (d.image_bytes > longest) {
        refuse(EAGLE_INVALID_ARGUMENT, "desc.image_bytes is %llu; a path of at most %llu bytes is wanted",
               static_cast<unsigned long long>(d.image_bytes), static_cast<unsigned long long>(longest));
    }
    const std::string path(static_cast<const char*>(d.image), d.image_bytes);
    if (path.find('\0') != std::string::npos) {
        refuse(EAGLE_INVALID_ARGUMENT, "desc.image has a zero byte at %zu; the path of a shared library is wanted",
               path.find('\0'));
    }
    return path.find('/') == std::string::npos ? "./" + path : path;  // a bare name would be searched for
}

void requireName(const char* name) {
    if (!name) refuse(EAGLE_INVALID_ARGUMENT, "name is NULL; a symbol's name is wanted");
}

}  // namespace
}  // namespace eagle::cpu

using namespace eagle::cpu;

eagle_status eagle_backend_module_load(const eagle_module_desc* desc, eagle_module* out) {
    return guard("module_load", [&] {
        const eagle_module_desc d = readStruct("desc", desc);
        requireOut("out", out);
        requireNoFlags("desc", d.flags);
        requireDevice(d.device);
        *out = modules().add(std::make_shared<Module>(readPath(d)));
    });
}

eagle_status eagle_backend_module_function(eagle_module module, const char* name, uint64_t* out) {
    return guard("module_function", [&] {
        requireOut("out", out);
        requireName(name);
        const Module::Symbol symbol = modules().get(module)->find(name, Module::Kind::kFunction);
        *out = reinterpret_cast<std::uintptr_t>(symbol.address);
    });
}

eagle_status eagle_backend_module_global(eagle_module module, const char* name, uint64_t* ptr, uint64_t* bytes) {
    return guard("module_global", [&] {
        requireOut("ptr", ptr);
        requireOut("bytes", bytes);
        requireName(name);
        const Module::Symbol symbol = modules().get(module)->find(name, Module::Kind::kData);
        *ptr = reinterpret_cast<std::uintptr_t>(symbol.address);
        *bytes = symbol.bytes;
    });
}

void eagle_backend_module_release(eagle_module module) {
    guard("module_release", [&] { modules().remove(module); });
}
