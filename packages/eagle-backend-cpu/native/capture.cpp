// Groups capturer, captured and attribution.
//
// SPDX-License-Identifier: Apache-2.0
#include "capture.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "guard.h"
#include "registry.h"
#include "stream.h"

namespace eagle::cpu {
namespace {

std::atomic<std::uint64_t> nextSerial{1};

struct Capturer {
    explicit Capturer(std::shared_ptr<Stream> stream) : stream(std::move(stream)) {}
    ~Capturer() {
        if (capture) capture->close();
    }
    Capturer(const Capturer&) = delete;
    Capturer& operator=(const Capturer&) = delete;

    void begin() {
        if (capture) refuse(EAGLE_ERROR, "the capture has begun; its end is wanted first");
        if (stream->sink) refuse(EAGLE_ERROR, "the stream is being captured; one capture at a time is wanted");
        auto fresh = std::make_shared<Capture>();
        fresh->attach(stream, fresh->tape->root, 0, fresh->nodes);
        capture = std::move(fresh);
    }

    std::shared_ptr<Tape> end() {
        if (!capture) refuse(EAGLE_ERROR, "no capture has begun; capturer_begin is wanted first");
        const std::shared_ptr<Capture> ended = std::exchange(capture, nullptr);
        if (!stream->sink || !stream->sink->isAt(ended->tape->root, 0)) ended->fail("a fork is not joined");
        if (ended->openBlocks > 0) ended->fail("a fork is not joined or a conditional not ended");
        ended->close();
        if (!ended->failure.empty()) refuse(EAGLE_ERROR, "the capture is discarded: %s", ended->failure.c_str());
        return ended->tape;
    }

    const std::shared_ptr<Stream> stream;
    std::shared_ptr<Capture> capture;
};

using Captured = const Tape;

Registry<eagle_capturer, Capturer>& capturers() {
    static auto* const registry = new Registry<eagle_capturer, Capturer>("capturer");
    return *registry;
}

Registry<eagle_captured, Captured>& captureds() {
    static auto* const registry = new Registry<eagle_captured, Captured>("captured");
    return *registry;
}

/// Native graphs are told by number only.
using TapeNumber = struct TapeNumberTag*;
using TapeRegistry = Registry<TapeNumber, std::weak_ptr<const Tape>>;

TapeRegistry& tapes() {
    static auto* const registry = new TapeRegistry("graph");
    return *registry;
}

TapeNumber numberOf(std::uint64_t raw) { return reinterpret_cast<TapeNumber>(static_cast<std::uintptr_t>(raw)); }

std::shared_ptr<const Tape> requireTape(std::uint64_t raw) {
    const auto entry = raw == 0 ? nullptr : tapes().find(numberOf(raw));
    const auto tape = entry ? entry->lock() : nullptr;
    if (!tape) {
        refuse(EAGLE_INVALID_ARGUMENT, "graph is %#llx; what capturer_graph gave of a capture that is kept is wanted",
               static_cast<unsigned long long>(raw));
    }
    if (tape->open) refuse(EAGLE_INVALID_ARGUMENT, "graph is still being captured; one that has ended is wanted");
    return tape;
}

std::shared_ptr<Stream> requireCapturing(std::uint64_t raw) {
    auto stream = recorder(raw);
    if (!stream) refuse(EAGLE_ERROR, "stream %#llx is not being captured", static_cast<unsigned long long>(raw));
    return stream;
}

}  // namespace

std::uint64_t newNode(bool toggleable) { return nextSerial.fetch_add(1) * 2 + toggleable; }

Tape::Tape() : raw(reinterpret_cast<std::uintptr_t>(tapes().add(std::make_shared<std::weak_ptr<const Tape>>()))) {}

Tape::~Tape() { tapes().remove(numberOf(raw)); }

void Capture::attach(const std::shared_ptr<Stream>& stream, exec::Sequence& sequence, std::uint64_t branch,
                     Nodes& into) {
    streams.push_back(stream);
    stream->sink = Sink{shared_from_this(), &sequence, branch, &into};
}

void Capture::close() {
    tape->open = false;
    const auto self = shared_from_this();  // the last sink may hold it
    for (const auto& weak : streams) {
        const auto stream = weak.lock();
        if (stream && stream->sink && stream->sink->capture.get() == this) stream->sink.reset();
    }
    streams.clear();
}

std::shared_ptr<const exec::Recording> requireRecording(eagle_captured captured) {
    auto tape = captureds().get(captured);
    if (tape->root.empty()) refuse(EAGLE_INVALID_ARGUMENT, "captured is empty; a capture of some work is wanted");
    return tape;
}

void dropCaptured(eagle_captured captured) { captureds().remove(captured); }

void giveNodes(const Nodes& from, uint64_t** nodes, int64_t* count) {
    uint64_t* copy = nullptr;
    if (!from.empty()) {
        copy = static_cast<uint64_t*>(std::malloc(from.size() * sizeof *copy));
        if (!copy) throw std::bad_alloc();
        std::memcpy(copy, from.data(), from.size() * sizeof *copy);
    }
    *nodes = copy;
    *count = static_cast<int64_t>(from.size());
}

}  // namespace eagle::cpu

using namespace eagle::cpu;

eagle_status eagle_backend_capturer_create(const eagle_capturer_desc* desc, eagle_capturer* out) {
    return guard("capturer_create", [&] {
        const eagle_capturer_desc d = readStruct("desc", desc);
        requireOut("out", out);
        requireNoFlags("desc", d.flags);
        requireDevice(d.device);
        auto stream = requireStream(d.stream);
        if (!stream) refuse(EAGLE_INVALID_ARGUMENT, "desc.stream is 0; the default stream cannot be captured");
        *out = capturers().add(std::make_shared<Capturer>(std::move(stream)));
    });
}

eagle_status eagle_backend_capturer_begin(eagle_capturer capturer) {
    return guard("capturer_begin", [&] { capturers().get(capturer)->begin(); });
}

eagle_status eagle_backend_capturer_end(eagle_capturer capturer, eagle_captured* out) {
    return guard("capturer_end", [&] {
        const auto self = capturers().get(capturer);
        requireOut("out", out);
        *out = captureds().add(self->end());
    });
}

eagle_status eagle_backend_capturer_graph(eagle_capturer capturer, uint64_t* out) {
    return guard("capturer_graph", [&] {
        const auto self = capturers().get(capturer);
        requireOut("out", out);
        *out = 0;
        if (!self->capture) return;
        const auto& tape = self->capture->tape;
        *tapes().get(numberOf(tape->raw)) = tape;
        *out = tape->raw;
    });
}

void eagle_backend_capturer_release(eagle_capturer capturer) {
    guard("capturer_release", [&] { capturers().remove(capturer); });
}

eagle_status eagle_backend_captured_is_valid(eagle_captured captured, int32_t* out) {
    return guard("captured_is_valid", [&] {
        const auto self = captureds().get(captured);
        requireOut("out", out);
        *out = !self->root.empty();
    });
}

void eagle_backend_captured_release(eagle_captured captured) {
    guard("captured_release", [&] { captureds().remove(captured); });
}

eagle_status eagle_backend_capture_snapshot_nodes(uint64_t stream, uint64_t** nodes, int64_t* count) {
    return guard("capture_snapshot_nodes", [&] {
        requireOut("nodes", nodes);
        requireOut("count", count);
        giveNodes(*requireCapturing(stream)->sink->nodes, nodes, count);
    });
}

eagle_status eagle_backend_is_node_toggleable(uint64_t node, int32_t* out) {
    return guard("is_node_toggleable", [&] {
        requireOut("out", out);
        if (node / 2 == 0 || node / 2 >= nextSerial.load()) {
            refuse(EAGLE_INVALID_ARGUMENT, "node is %#llx; a node of a capture is wanted",
                   static_cast<unsigned long long>(node));
        }
        *out = node % 2;
    });
}

/// Nothing is forbidden in a body here.
eagle_status eagle_backend_capture_add_child(uint64_t stream, uint64_t graph, int32_t) {
    return guard("capture_add_child", [&] {
        auto child = requireTape(graph);
        const auto into = requireCapturing(stream);
        into->sink->nodes->push_back(newNode(false));
        into->sink->append(std::shared_ptr<const eagle::exec::Recording>(std::move(child)));
    });
}

eagle_status eagle_backend_capture_fuse(uint64_t stream, int32_t on) {
    return guard("capture_fuse", [&] {
        static std::atomic<uint32_t> groups{0};
        Sink& sink = *requireCapturing(stream)->sink;
        sink.fusion = 0;
        while (on && sink.fusion == 0) sink.fusion = ++groups;
    });
}
