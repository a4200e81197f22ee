// Every door of the library: what it answers and what it refuses.
//
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "check.h"
#include "eagle/eagle_backend.h"
#include "eagle/plugin.h"

namespace {

/// The call was refused with this status, and its message says who and has these words.
void checkRefused(eagle_status found, eagle_status wanted, std::string_view door, std::string_view words = "") {
    const std::string message = eagle_backend_last_error();
    if (found == wanted && message.starts_with("eagle_backend_" + std::string(door) + ": ") &&
        message.find(words) != std::string::npos) {
        return;
    }
    std::fprintf(stderr, "%s: status %d, wanted %d; '%s' lacks '%s'\n", std::string(door).c_str(), found, wanted,
                 message.c_str(), std::string(words).c_str());
    std::_Exit(1);
}

template <class T>
std::uint64_t address(T* p) {
    return reinterpret_cast<std::uintptr_t>(p);
}

std::uint64_t entryAddress(eagle::plugin::HostEntry entry) { return reinterpret_cast<std::uintptr_t>(entry); }

template <class Struct>
Struct sized(std::uint32_t size = sizeof(Struct)) {
    Struct s{};
    s.struct_size = size;
    return s;
}

void testInformation() {
    CHECK(eagle_backend_version() == 65542);
    CHECK(eagle_backend_probe() == EAGLE_OK);
    eagle_backend_free(nullptr);

    std::uint64_t bits = 0;
    CHECK(eagle_backend_capabilities(&bits) == EAGLE_OK);
    CHECK(bits == 0x7eff);  // 0 to 7, 9 to 14
    checkRefused(eagle_backend_capabilities(nullptr), EAGLE_INVALID_ARGUMENT, "capabilities", "out is NULL");

    std::int32_t types[3] = {-7, -7, -7}, count = 0;
    CHECK(eagle_backend_device_types(types, 3, &count) == EAGLE_OK);
    CHECK(count == 2 && types[0] == 1 && types[1] == 3 && types[2] == -7);
    types[1] = -7;
    CHECK(eagle_backend_device_types(types, 1, &count) == EAGLE_OK);
    CHECK(count == 2 && types[1] == -7);
    CHECK(eagle_backend_device_types(nullptr, 0, &count) == EAGLE_OK);
    checkRefused(eagle_backend_device_types(nullptr, 1, &count), EAGLE_INVALID_ARGUMENT, "device_types", "types");
    checkRefused(eagle_backend_device_types(types, -1, &count), EAGLE_INVALID_ARGUMENT, "device_types", "cap is -1");
    checkRefused(eagle_backend_device_types(types, 3, nullptr), EAGLE_INVALID_ARGUMENT, "device_types", "count");

    auto info = sized<eagle_build_info>();
    CHECK(eagle_backend_build_info(&info) == EAGLE_OK);
    CHECK(info.struct_size == 192 && info.abi_version == 65542 && info.cudart_version == 0);
    CHECK(std::string(info.backend_kind) == "cpu" && info.eagle_version[0] && info.archs[0]);
    info = sized<eagle_build_info>(176);  // the first callers know no backend_kind
    CHECK(eagle_backend_build_info(&info) == EAGLE_OK);
    CHECK(info.struct_size == 176 && info.backend_kind[0] == 0);
    info = sized<eagle_build_info>(1000);
    CHECK(eagle_backend_build_info(&info) == EAGLE_OK && info.struct_size == 192);
    info = sized<eagle_build_info>(11);
    checkRefused(eagle_backend_build_info(&info), EAGLE_INVALID_ARGUMENT, "build_info", "struct_size is 11");
    checkRefused(eagle_backend_build_info(nullptr), EAGLE_INVALID_ARGUMENT, "build_info", "out is NULL");

    auto props = sized<eagle_device_props>();
    CHECK(eagle_backend_device_props(-1, &props) == EAGLE_OK);
    CHECK(props.struct_size == 368 && props.device == 0 && props.name[0] && props.warp_size == 1);
    std::int32_t threads = 0;
    CHECK(eagle_backend_team_size(0, &threads) == EAGLE_OK && props.sm_count == threads);
    checkRefused(eagle_backend_device_props(1, &props), EAGLE_INVALID_ARGUMENT, "device_props", "device is 1");
    checkRefused(eagle_backend_device_props(-2, &props), EAGLE_INVALID_ARGUMENT, "device_props", "device is -2");
    checkRefused(eagle_backend_device_props(0, nullptr), EAGLE_INVALID_ARGUMENT, "device_props", "out is NULL");
}

void testStreams() {
    const auto desc = sized<eagle_stream_desc>();
    eagle_stream stream = nullptr;
    std::uint64_t raw = 0;
    CHECK(eagle_backend_stream_create(&desc, &stream) == EAGLE_OK && stream);
    CHECK(eagle_backend_stream_ptr(stream, &raw) == EAGLE_OK && raw > 2);
    CHECK(eagle_backend_stream_synchronize(stream) == EAGLE_OK);
    char byte = 1;
    CHECK(eagle_backend_memset_device(address(&byte), 1, raw) == EAGLE_OK && byte == 0);
    checkRefused(eagle_backend_stream_ptr(stream, nullptr), EAGLE_INVALID_ARGUMENT, "stream_ptr", "out is NULL");
    eagle_backend_stream_release(stream);
    eagle_backend_stream_release(stream);
    eagle_backend_stream_release(nullptr);
    checkRefused(eagle_backend_stream_synchronize(stream), EAGLE_BAD_HANDLE, "stream_synchronize", "stream is 0x");
    checkRefused(eagle_backend_stream_ptr(stream, &raw), EAGLE_BAD_HANDLE, "stream_ptr");
    checkRefused(eagle_backend_stream_ptr(nullptr, &raw), EAGLE_BAD_HANDLE, "stream_ptr");
    checkRefused(eagle_backend_memset_device(address(&byte), 1, raw), EAGLE_INVALID_ARGUMENT, "memset_device",
                 "stream");

    eagle_stream next = nullptr;
    CHECK(eagle_backend_stream_create(&desc, &next) == EAGLE_OK && next != stream);
    eagle_backend_stream_release(next);

    auto wrong = desc;
    wrong.flags = 2;
    checkRefused(eagle_backend_stream_create(&wrong, &next), EAGLE_UNSUPPORTED, "stream_create", "flags is 0x2");
    wrong = desc;
    wrong.device = 1;
    checkRefused(eagle_backend_stream_create(&wrong, &next), EAGLE_INVALID_ARGUMENT, "stream_create", "device is 1");
    wrong = desc;
    wrong.struct_size = 8;
    checkRefused(eagle_backend_stream_create(&wrong, &next), EAGLE_INVALID_ARGUMENT, "stream_create", "is 8");
    checkRefused(eagle_backend_stream_create(nullptr, &next), EAGLE_INVALID_ARGUMENT, "stream_create", "desc is NULL");
    checkRefused(eagle_backend_stream_create(&desc, nullptr), EAGLE_INVALID_ARGUMENT, "stream_create", "out is NULL");
}

void addOne(void* const* params, std::int64_t base, std::int64_t count, std::int64_t) {
    for (std::int64_t i = base; i < base + count; ++i) ++static_cast<int*>(params[0])[i];
}

struct Launch {
    std::vector<int> cells = std::vector<int>(1 << 16);
    std::uint64_t params[1] = {address(cells.data())};
    eagle_launch_desc desc = sized<eagle_launch_desc>();
    std::int32_t launched = -1;

    Launch() {
        desc.block = 256;
        desc.function = entryAddress(addOne);
        desc.params = params;
        desc.nparams = 1;
        desc.count = desc.n_samples = 1 << 16;
    }
    eagle_status run() { return eagle_backend_run_device(&desc, &launched); }

    /// A copy with one field changed is refused and runs nothing.
    template <class Field, class Value>
    static void refused(Field eagle_launch_desc::* field, Value value, eagle_status status, const char* words) {
        Launch launch;
        launch.desc.*field = static_cast<Field>(value);
        checkRefused(launch.run(), status, "run_device", words);
        CHECK(launch.launched == -1);
        for (int cell : launch.cells) CHECK(cell == 0);
    }
};

void testLaunches() {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max(), least = -most - 1;
    Launch launch;
    CHECK(launch.run() == EAGLE_OK && launch.launched == 1);
    launch.desc.block = UINT32_MAX;
    CHECK(launch.run() == EAGLE_OK);
    launch.desc.struct_size = 4096;
    CHECK(launch.run() == EAGLE_OK);
    launch.desc.struct_size = 72;  // without a stream
    launch.desc.stream = 12345;
    CHECK(launch.run() == EAGLE_OK);
    for (int cell : launch.cells) CHECK(cell == 4);
    for (std::int64_t none : {std::int64_t{0}, std::int64_t{-3}, least}) {
        Launch empty;
        empty.desc.count = none;
        CHECK(empty.run() == EAGLE_OK && empty.launched == 0);
    }

    using Desc = eagle_launch_desc;
    Launch::refused(&Desc::flags, 4, EAGLE_UNSUPPORTED, "flags is 0x4");
    Launch::refused(&Desc::device, 1, EAGLE_INVALID_ARGUMENT, "device is 1");
    Launch::refused(&Desc::device, -2, EAGLE_INVALID_ARGUMENT, "device is -2");
    Launch::refused(&Desc::block, 0, EAGLE_INVALID_ARGUMENT, "block is 0");
    Launch::refused(&Desc::function, 0, EAGLE_INVALID_ARGUMENT, "function is 0");
    Launch::refused(&Desc::params, nullptr, EAGLE_INVALID_ARGUMENT, "params is NULL");
    Launch::refused(&Desc::nparams, -1, EAGLE_INVALID_ARGUMENT, "nparams is -1");
    Launch::refused(&Desc::stream, 7, EAGLE_INVALID_ARGUMENT, "stream is 0x7");
    Launch::refused(&Desc::base, -1, EAGLE_INVALID_ARGUMENT, "base is -1");
    Launch::refused(&Desc::base, 1, EAGLE_INVALID_ARGUMENT, "base is 1");
    Launch::refused(&Desc::base, most, EAGLE_INVALID_ARGUMENT, "base is");
    Launch::refused(&Desc::count, most, EAGLE_INVALID_ARGUMENT, "count");
    Launch::refused(&Desc::n_samples, least, EAGLE_INVALID_ARGUMENT, "n_samples");
    Launch::refused(&Desc::struct_size, 11, EAGLE_INVALID_ARGUMENT, "struct_size is 11");
    checkRefused(eagle_backend_run_device(nullptr, &launch.launched), EAGLE_INVALID_ARGUMENT, "run_device", "desc");
    checkRefused(eagle_backend_run_device(&launch.desc, nullptr), EAGLE_INVALID_ARGUMENT, "run_device", "launched");
}

void testInterop() {
    for (std::int32_t type : {1, 3}) {
        for (std::int64_t code : {EAGLE_NO_STREAM, std::int64_t{-1}, std::int64_t{0}}) {
            CHECK(eagle_backend_fence(type, 0, code, EAGLE_NO_STREAM) == EAGLE_OK);
            CHECK(eagle_backend_fence(type, -1, EAGLE_NO_STREAM, code) == EAGLE_OK);
        }
    }
    checkRefused(eagle_backend_fence(2, 0, 0, 0), EAGLE_UNSUPPORTED, "fence", "device_type is 2");
    checkRefused(eagle_backend_fence(1, 1, 0, 0), EAGLE_INVALID_ARGUMENT, "fence", "device is 1");
    checkRefused(eagle_backend_fence(1, 0, 5, 0), EAGLE_INTEROP, "fence", "producer is 5");
    checkRefused(eagle_backend_fence(1, 0, 0, -2), EAGLE_INTEROP, "fence", "consumer is -2");

    std::int64_t events = -1;
    CHECK(eagle_backend_event_pool_created(&events) == EAGLE_OK && events == 0);
    checkRefused(eagle_backend_event_pool_created(nullptr), EAGLE_INVALID_ARGUMENT, "event_pool_created", "out");

    char from[64], to[64] = {};
    std::memset(from, 7, sizeof from);
    CHECK(eagle_backend_memcpy_device(address(to), address(from), 64, 0) == EAGLE_OK && to[63] == 7);
    CHECK(eagle_backend_memset_device(address(to), 64, 0) == EAGLE_OK && to[63] == 0);
    for (std::int32_t direction : {0, 1, 2, 3}) {
        CHECK(eagle_backend_memcpy(address(to), address(from), 64, direction, 0) == EAGLE_OK && to[0] == 7);
        CHECK(eagle_backend_memcpy(0, 0, 0, direction, 0) == EAGLE_OK);
        CHECK(eagle_backend_memcpy(address(to), address(to), 64, direction, 0) == EAGLE_OK);
    }
    CHECK(eagle_backend_memset_device(0, 0, 0) == EAGLE_OK);
    checkRefused(eagle_backend_memset_device(0, 1, 0), EAGLE_INVALID_ARGUMENT, "memset_device", "ptr is 0");
    checkRefused(eagle_backend_memset_device(address(to), UINT64_MAX, 0), EAGLE_INVALID_ARGUMENT, "memset_device");
    checkRefused(eagle_backend_memcpy_device(0, address(from), 1, 0), EAGLE_INVALID_ARGUMENT, "memcpy_device", "dst");
    checkRefused(eagle_backend_memcpy_device(address(to), 0, 1, 0), EAGLE_INVALID_ARGUMENT, "memcpy_device", "src");
    checkRefused(eagle_backend_memcpy(address(to), address(from), 0, 4, 0), EAGLE_INVALID_ARGUMENT, "memcpy", "is 4");
    checkRefused(eagle_backend_memcpy(address(to), address(from), 0, -1, 0), EAGLE_INVALID_ARGUMENT, "memcpy", "is -1");
    checkRefused(eagle_backend_memcpy(address(to), address(to) + 8, 16, 3, 0), EAGLE_INVALID_ARGUMENT, "memcpy",
                 "share");
    checkRefused(eagle_backend_memcpy(address(to), address(from), 8, 3, 9), EAGLE_INVALID_ARGUMENT, "memcpy", "stream");

    std::uint64_t block = 1;
    CHECK(eagle_backend_host_alloc(0, &block) == EAGLE_OK && block == 0);
    CHECK(eagle_backend_host_alloc(1000, &block) == EAGLE_OK && block != 0 && block % 64 == 0);
    std::memset(reinterpret_cast<void*>(block), 1, 1000);
    CHECK(eagle_backend_host_free(block) == EAGLE_OK);
    CHECK(eagle_backend_host_free(0) == EAGLE_OK);
    checkRefused(eagle_backend_host_free(block), EAGLE_INVALID_ARGUMENT, "host_free", "ptr is 0x");
    checkRefused(eagle_backend_host_alloc(1, nullptr), EAGLE_INVALID_ARGUMENT, "host_alloc", "out is NULL");
    checkRefused(eagle_backend_host_alloc(UINT64_MAX / 2 - 64, &block), EAGLE_ERROR, "host_alloc", "bytes is");
    checkRefused(eagle_backend_host_alloc(UINT64_MAX, &block), EAGLE_ERROR, "host_alloc", "bytes is");

    int calls = 0;
    const auto count = [](void* p) { ++*static_cast<int*>(p); };
    CHECK(eagle_backend_host_func(0, count, &calls) == EAGLE_OK && calls == 1);
    checkRefused(eagle_backend_host_func(0, nullptr, nullptr), EAGLE_INVALID_ARGUMENT, "host_func", "fn is NULL");
    checkRefused(eagle_backend_host_func(3, count, &calls), EAGLE_INVALID_ARGUMENT, "host_func", "stream is 0x3");
    CHECK(calls == 1);
}

eagle_module_desc moduleDesc(std::string_view path) {
    auto desc = sized<eagle_module_desc>();
    desc.image = path.data();
    desc.image_bytes = path.size();
    return desc;
}

void testModules() {
    const std::string path = std::string(FIXTURE_KERNEL) + "behind the path";
    auto desc = moduleDesc(std::string_view(path).substr(0, std::strlen(FIXTURE_KERNEL)));
    eagle_module module = nullptr;
    CHECK(eagle_backend_module_load(&desc, &module) == EAGLE_OK && module);

    std::uint64_t entry = 0, ptr = 0, bytes = 0;
    CHECK(eagle_backend_module_function(module, "fill_host", &entry) == EAGLE_OK && entry);
    std::vector<double> cells(10000);
    eagle::plugin::ScalarHandle plane{cells.data(), cells.size(), 1, 1, 0};
    Launch launch;
    launch.params[0] = address(&plane);
    launch.desc.function = entry;
    launch.desc.count = launch.desc.n_samples = 10000;
    CHECK(launch.run() == EAGLE_OK);
    for (std::size_t i = 0; i < cells.size(); ++i) CHECK(cells[i] == static_cast<double>(i));

    CHECK(eagle_backend_module_global(module, "eagle_layout_sizes", &ptr, &bytes) == EAGLE_OK);
    CHECK(reinterpret_cast<const std::uint64_t*>(ptr)[0] == 40);
    CHECK(bytes == 40 || bytes == 0);
    CHECK(eagle_backend_module_global(module, "eagle_abi_tag", &ptr, &bytes) == EAGLE_OK);
    CHECK(std::string(reinterpret_cast<const char*>(ptr)) == "aether-abi/2");

    CHECK(eagle_backend_module_function(module, "throwing_host", &launch.desc.function) == EAGLE_OK);
    for (std::uint32_t grain : {64u, 1u << 20}) {
        launch.desc.block = grain;
        launch.launched = -1;
        checkRefused(launch.run(), EAGLE_ERROR, "run_device", "the kernel is out of luck");
        CHECK(launch.launched == -1);
    }
    CHECK(Launch().run() == EAGLE_OK);

    checkRefused(eagle_backend_module_function(module, "absent", &entry), EAGLE_INDEX, "module_function", "'absent'");
    checkRefused(eagle_backend_module_function(module, "", &entry), EAGLE_INDEX, "module_function", "''");
    checkRefused(eagle_backend_module_function(module, "malloc", &entry), EAGLE_INDEX, "module_function", "'malloc'");
    checkRefused(eagle_backend_module_global(module, "environ", &ptr, &bytes), EAGLE_INDEX, "module_global", "environ");
#if defined(__GLIBC__)
    checkRefused(eagle_backend_module_function(module, "eagle_abi_tag", &entry), EAGLE_INDEX, "module_function");
    checkRefused(eagle_backend_module_global(module, "fill_host", &ptr, &bytes), EAGLE_INDEX, "module_global");
#endif
    checkRefused(eagle_backend_module_function(module, nullptr, &entry), EAGLE_INVALID_ARGUMENT, "module_function");
    checkRefused(eagle_backend_module_function(module, "fill_host", nullptr), EAGLE_INVALID_ARGUMENT,
                 "module_function");
    checkRefused(eagle_backend_module_global(module, nullptr, &ptr, &bytes), EAGLE_INVALID_ARGUMENT, "module_global");
    checkRefused(eagle_backend_module_global(module, "x", nullptr, &bytes), EAGLE_INVALID_ARGUMENT, "module_global");
    checkRefused(eagle_backend_module_global(module, "x", &ptr, nullptr), EAGLE_INVALID_ARGUMENT, "module_global");
    eagle_backend_module_release(module);
    eagle_backend_module_release(module);
    eagle_backend_module_release(nullptr);
    checkRefused(eagle_backend_module_function(module, "fill_host", &entry), EAGLE_BAD_HANDLE, "module_function");
    checkRefused(eagle_backend_module_global(nullptr, "x", &ptr, &bytes), EAGLE_BAD_HANDLE, "module_global");

    const auto refused = [&](const eagle_module_desc& d, eagle_status status, const char* words) {
        checkRefused(eagle_backend_module_load(&d, &module), status, "module_load", words);
    };
    refused(moduleDesc("/nowhere/kernel.so"), EAGLE_ERROR, "/nowhere/kernel.so");
    refused(moduleDesc("libc.so.6"), EAGLE_ERROR, "./libc.so.6");
    refused(moduleDesc(std::string_view("/a\0b", 4)), EAGLE_INVALID_ARGUMENT, "zero byte at 2");
    refused(moduleDesc(""), EAGLE_INVALID_ARGUMENT, "empty");
    refused(moduleDesc({}), EAGLE_INVALID_ARGUMENT, "empty");
    desc.image_bytes = UINT64_MAX;
    refused(desc, EAGLE_INVALID_ARGUMENT, "image_bytes");
    desc = moduleDesc(FIXTURE_KERNEL);
    desc.flags = 1;
    refused(desc, EAGLE_UNSUPPORTED, "flags is 0x1");
    desc = moduleDesc(FIXTURE_KERNEL);
    desc.device = 2;
    refused(desc, EAGLE_INVALID_ARGUMENT, "device is 2");
    checkRefused(eagle_backend_module_load(nullptr, &module), EAGLE_INVALID_ARGUMENT, "module_load", "desc is NULL");
    desc = moduleDesc(FIXTURE_KERNEL);
    checkRefused(eagle_backend_module_load(&desc, nullptr), EAGLE_INVALID_ARGUMENT, "module_load", "out is NULL");
}

void testTeamSize() {
    std::int32_t first = 0, previous = 0;
    CHECK(eagle_backend_team_size(0, &first) == EAGLE_OK && first >= 1);
    CHECK(eagle_backend_team_size(3, &previous) == EAGLE_OK && previous == first);
    CHECK(eagle_backend_team_size(0, &previous) == EAGLE_OK && previous == 3);
    CHECK(Launch().run() == EAGLE_OK);
    checkRefused(eagle_backend_team_size(-1, &previous), EAGLE_INVALID_ARGUMENT, "team_size", "n is -1");
    checkRefused(eagle_backend_team_size(1 << 20, &previous), EAGLE_INVALID_ARGUMENT, "team_size", "1024");
    checkRefused(eagle_backend_team_size(1, nullptr), EAGLE_INVALID_ARGUMENT, "team_size", "previous is NULL");
    CHECK(eagle_backend_team_size(first, &previous) == EAGLE_OK && previous == 3);
}

void testMessagesAreOfTheThread() {
    checkRefused(eagle_backend_capabilities(nullptr), EAGLE_INVALID_ARGUMENT, "capabilities");
    std::thread([] {
        CHECK(std::string(eagle_backend_last_error()).empty());
        checkRefused(eagle_backend_build_info(nullptr), EAGLE_INVALID_ARGUMENT, "build_info");
    }).join();
    CHECK(std::string(eagle_backend_last_error()).starts_with("eagle_backend_capabilities: "));
}

void testForkedChild() {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60);
        testStreams();
        testLaunches();
        testModules();
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

int main() {
    testInformation();
    testStreams();
    testLaunches();
    testInterop();
    testModules();
    testTeamSize();
    testMessagesAreOfTheThread();
    testForkedChild();
}
