// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include "guard.h"
#include "registry.h"

namespace eagle::cpu {
namespace {

Registry<eagle_stream, Stream>& streams() {
    static auto* const registry = new Registry<eagle_stream, Stream>("stream");  // outlives late calls at exit
    return *registry;
}

eagle_stream handleOf(std::uint64_t raw) { return reinterpret_cast<eagle_stream>(static_cast<std::uintptr_t>(raw)); }

std::shared_ptr<Stream> add() {
    auto stream = std::make_shared<Stream>();
    stream->raw = reinterpret_cast<std::uintptr_t>(streams().add(stream));
    return stream;
}

}  // namespace

bool isStream(std::uint64_t raw) { return raw == 0 || streams().contains(static_cast<std::uintptr_t>(raw)); }

std::shared_ptr<Stream> requireStream(std::uint64_t raw) {
    if (raw == 0) return nullptr;
    std::shared_ptr<Stream> stream = streams().find(handleOf(raw));
    if (!stream) {
        refuse(EAGLE_INVALID_ARGUMENT,
               "stream is %#llx; 0 or what stream_ptr gives of a stream not yet released is wanted",
               static_cast<unsigned long long>(raw));
    }
    return stream;
}

OwnStream::OwnStream() : stream_(add()) {}

OwnStream::~OwnStream() {
    if (!stream_) return;
    stream_->sink.reset();
    streams().remove(handleOf(stream_->raw));
}

}  // namespace eagle::cpu

using namespace eagle::cpu;

eagle_status eagle_backend_stream_create(const eagle_stream_desc* desc, eagle_stream* out) {
    return guard("stream_create", [&] {
        const eagle_stream_desc d = readStruct("desc", desc);
        requireOut("out", out);
        requireNoFlags("desc", d.flags, EAGLE_STREAM_NON_BLOCKING);
        requireDevice(d.device);
        *out = handleOf(add()->raw);
    });
}

eagle_status eagle_backend_stream_ptr(eagle_stream stream, uint64_t* out) {
    return guard("stream_ptr", [&] {
        requireOut("out", out);
        *out = streams().get(stream)->raw;
    });
}

eagle_status eagle_backend_stream_synchronize(eagle_stream stream) {
    return guard("stream_synchronize", [&] {
        if (streams().get(stream)->sink) refuse(EAGLE_ERROR, "the stream is being captured; nothing runs on it");
    });
}

void eagle_backend_stream_release(eagle_stream stream) {
    guard("stream_release", [&] { streams().remove(stream); });
}
