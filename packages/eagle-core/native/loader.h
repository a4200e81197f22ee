// A backend library, opened and checked against the seam. No Python here.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eagle/eagle_backend.h"

namespace eagle::core {

/// The Python exception an Error becomes.
enum class Raises { kRuntimeError, kValueError, kIndexError, kMemoryError, kInteropError, kBackendUnavailable };

/// A failure of the seam or of its loading. The text may hold any bytes: it can quote a backend.
class Error : public std::runtime_error {
public:
    Error(Raises raises, const std::string& message) : std::runtime_error(message), raises(raises) {}
    const Raises raises;
};

/// One typed pointer per symbol of the seam; null for what the backend may not be asked: symbols it does not export,
/// and those of a group whose capability bit is clear.
struct Symbols {
#define EAGLE_SYMBOL(name, group, minor, bound) decltype(&eagle_backend_##name) name = nullptr;
#include "eagle/eagle_backend_symbols.def"
};

enum class Bound { REQUIRED, BIT, ALONE };

/// A row of eagle_backend_symbols.def.
struct SymbolRow {
    const char* name;  ///< without eagle_backend_
    const char* group;
    int minor;
    Bound bound;
    int bit;  ///< the group's capability bit; -1 for groups that have none
};

/// A group with a capability bit.
struct Group {
    const char* name;
    int bit;
};

std::span<const SymbolRow> symbol_rows();
std::span<const Group> groups();

/// What build_info told; a field the backend did not fill is empty.
struct BuildInfo {
    std::optional<std::uint32_t> abi_version;
    std::optional<std::int32_t> cudart_version;
    std::optional<std::string> eagle_version;
    std::optional<std::string> archs;
    std::optional<std::string> backend_kind;
};

/// A loaded backend. Immutable and free to share between threads; its library stays open until the process ends.
class Backend : public std::enable_shared_from_this<Backend> {
public:
    /// Opens the library at `path` and shakes hands. Throws Error(kBackendUnavailable) that names kind and file.
    static std::shared_ptr<const Backend> open(std::string kind, std::string path);

    const std::string kind;
    const std::string path;
    std::uint32_t version = 0;  ///< major << 16 | minor
    std::uint64_t capabilities = 0;
    std::vector<std::int32_t> device_types;
    BuildInfo build_info;
    Symbols fn;

    /// The function behind `symbol`, as in require(&Symbols::run_device). Throws Error(kBackendUnavailable) that ends
    /// with "does not provide <group>" when the group's bit is clear, else "does not provide eagle_backend_<symbol>".
    template <class Function>
    Function require(Function Symbols::* symbol) const {
        const Function& function = fn.*symbol;
        if (function == nullptr) refuse(row_of(&function));
        return function;
    }

    /// Turns a status into an Error that carries the backend's message for this thread. CALLBACK_FAILED is a plain
    /// error here: whoever passed a callback raises what the callback stored first.
    void check(eagle_status status) const {
        if (status != EAGLE_OK) fail(status);
    }

    /// require() and check() in one: call(&Symbols::device_props, device, &props).
    template <class Function, class... Arguments>
    void call(Function Symbols::* symbol, Arguments... arguments) const {
        check(require(symbol)(arguments...));
    }

    bool has(std::string_view symbol) const;  ///< whether `symbol`, without its prefix, may be called
    std::string lacks(const SymbolRow& row) const;
    std::string lacks(const Group& group) const;
    std::string title() const { return "backend '" + kind + "' (" + path + ")"; }

private:
    Backend(std::string kind, std::string path) : kind(std::move(kind)), path(std::move(path)) {}
    void handshake(void* library);
    void read_build_info();
    void must_answer(const char* symbol, eagle_status status) const;
    std::string message() const;  ///< of this thread's last failed call
    const SymbolRow& row_of(const void* slot) const;
    [[noreturn]] void refuse(const SymbolRow& row) const;
    [[noreturn]] void refuse(const std::string& why) const;
    [[noreturn]] void fail(eagle_status status) const;
};

/// A kernel image a backend opened, released with the object. Used from one thread at a time.
class Module {
public:
    /// `image` is what the backend's kind takes: a path on host kinds, the image's bytes elsewhere.
    Module(std::shared_ptr<const Backend> backend, std::string_view image, int device);
    ~Module();
    Module(const Module&) = delete;
    Module& operator=(const Module&) = delete;

    std::uint64_t function(const char* name) const;
    /// Address and size of a data symbol; size 0 where the image does not tell.
    std::pair<std::uint64_t, std::uint64_t> global(const char* name) const;

    const std::shared_ptr<const Backend> backend;

private:
    eagle_module handle_ = nullptr;
};

/// A stream of a backend that is ordered with the default one; released with the object. Used from one thread at a
/// time.
class Stream {
public:
    Stream(std::shared_ptr<const Backend> backend, int device);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    std::uint64_t ptr() const;  ///< the raw stream
    void synchronize() const { backend->call(&Symbols::stream_synchronize, handle_); }

    const std::shared_ptr<const Backend> backend;

private:
    eagle_stream handle_ = nullptr;
};

}  // namespace eagle::core
