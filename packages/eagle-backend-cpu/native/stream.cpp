// Streams of the host are synchronous: what is enqueued has been done when the call returns.
//
// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include "guard.h"
#include "registry.h"

namespace eagle::cpu {
namespace {

struct Stream {};

Registry<eagle_stream, Stream>& streams() {
    static auto* const registry = new Registry<eagle_stream, Stream>("stream");  // outlives late calls at exit
    return *registry;
}

}  // namespace

bool isStream(std::uint64_t raw) { return raw == 0 || streams().contains(static_cast<std::uintptr_t>(raw)); }

void requireStream(std::uint64_t raw) {
    if (!isStream(raw)) {
        refuse(EAGLE_INVALID_ARGUMENT,
               "stream is %#llx; 0 or what stream_ptr gives of a stream not yet released is wanted",
               static_cast<unsigned long long>(raw));
    }
}

}  // namespace eagle::cpu

using namespace eagle::cpu;

eagle_status eagle_backend_stream_create(const eagle_stream_desc* desc, eagle_stream* out) {
    return guard("stream_create", [&] {
        const eagle_stream_desc d = readStruct("desc", desc);
        requireOut("out", out);
        requireNoFlags("desc", d.flags, EAGLE_STREAM_NON_BLOCKING);
        requireDevice(d.device);
        *out = streams().add(std::make_shared<Stream>());
    });
}

eagle_status eagle_backend_stream_ptr(eagle_stream stream, uint64_t* out) {
    return guard("stream_ptr", [&] {
        requireOut("out", out);
        streams().get(stream);
        *out = reinterpret_cast<std::uintptr_t>(stream);
    });
}

eagle_status eagle_backend_stream_synchronize(eagle_stream stream) {
    return guard("stream_synchronize", [&] { streams().get(stream); });
}

void eagle_backend_stream_release(eagle_stream stream) {
    guard("stream_release", [&] { streams().remove(stream); });
}
