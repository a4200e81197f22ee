// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "capture.h"

namespace eagle::cpu {

/// Synchronous: what is enqueued has been done when the call returns, or is recorded while there is a sink.
struct Stream {
    std::uint64_t raw = 0;
    std::optional<Sink> sink;
};

/// Whether a raw stream is the default stream or a live one of ours.
bool isStream(std::uint64_t raw);

/// The stream, which is none for the default one; refuses what is neither.
std::shared_ptr<Stream> requireStream(std::uint64_t raw);

/// The stream where it records, none where it runs what it is given.
inline std::shared_ptr<Stream> recorder(std::uint64_t raw) {
    if (raw == 0) return nullptr;
    std::shared_ptr<Stream> stream = requireStream(raw);
    return stream->sink ? stream : nullptr;
}

/// A stream that lives as long as this: of a branch, of an arm.
class OwnStream {
public:
    OwnStream();
    ~OwnStream();
    OwnStream(const OwnStream&) = delete;
    OwnStream& operator=(const OwnStream&) = delete;
    OwnStream(OwnStream&&) = default;
    OwnStream& operator=(OwnStream&&) = delete;

    const std::shared_ptr<Stream>& operator*() const { return stream_; }
    Stream* operator->() const { return stream_.get(); }

private:
    std::shared_ptr<Stream> stream_;
};

}  // namespace eagle::cpu
