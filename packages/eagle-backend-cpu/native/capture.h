// Captures: what a stream records into.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "eagle/eagle_backend.h"
#include "eagle/exec/Tape.h"

namespace eagle::cpu {

struct Stream;

/// A new node's id: never used again. Ids tell whether the node may be switched off.
std::uint64_t newNode(bool toggleable);

/// A recording with the number it goes by as a native graph.
struct Tape : exec::Recording {
    Tape();
    ~Tape();
    Tape(const Tape&) = delete;
    Tape& operator=(const Tape&) = delete;

    std::uint64_t raw;
    bool open = true;
};

/// Nodes of one graph, a body being one of its own, in the order they were recorded.
using Nodes = std::vector<std::uint64_t>;

/// A copy that goes back through eagle_backend_free.
void giveNodes(const Nodes& from, std::uint64_t** nodes, std::int64_t* count);

/// One capture under way. It ends all its streams' sinks when it is closed.
struct Capture : std::enable_shared_from_this<Capture> {
    void attach(const std::shared_ptr<Stream>& stream, exec::Sequence& sequence, std::uint64_t branch, Nodes& nodes);
    void close();
    /// The capture will fail at its end, for this reason.
    void fail(const std::string& reason) {
        if (failure.empty()) failure = reason;
    }

    std::shared_ptr<Tape> tape = std::make_shared<Tape>();
    Nodes nodes;
    std::vector<std::weak_ptr<Stream>> streams;
    int openBlocks = 0;
    std::string failure;
};

/// Where a stream's work goes.
struct Sink {
    std::shared_ptr<Capture> capture;
    exec::Sequence* sequence;
    std::uint64_t branch;
    Nodes* nodes;
    std::uint32_t fusion = 0;

    bool isAt(const exec::Sequence& there, std::uint64_t which) const { return sequence == &there && branch == which; }
    void append(exec::Item item) { sequence->entries.push_back({branch, std::move(item)}); }
    template <class Work>
    void add(Work work);
};

template <class Work>
void Sink::add(Work work) {
    constexpr bool isHosts = std::is_same_v<Work, exec::HostFunction> || std::is_same_v<Work, exec::HostCall>;
    const std::uint64_t id = newNode(!isHosts);
    nodes->push_back(id);
    append(std::make_unique<exec::Leaf>(id, std::move(work)));
}

/// The recording of a captured handle that is not empty; refuses others.
std::shared_ptr<const exec::Recording> requireRecording(eagle_captured captured);
/// The handle has been consumed.
void dropCaptured(eagle_captured captured);

}  // namespace eagle::cpu
