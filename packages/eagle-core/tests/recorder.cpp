// Host entries that write down what they were given, for the tests of the argument block and of launches.
//
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <thread>

extern "C" {

struct Piece {
    std::int64_t base, count, samples;
};
Piece pieces[4096];
std::atomic<std::int64_t> piece_count{0};
unsigned char boxes[64][40];
std::uintptr_t addresses[64];
std::int64_t slots = 0;
std::int64_t cell = 0;
std::atomic<std::int64_t> gate{1};     // record waits until it is 1
std::atomic<std::int64_t> waiting{0};  // entries at the gate

/// Notes the piece, where every box is and its first bytes; waits at the gate, for ten seconds at most.
void record(void* const* params, std::int64_t base, std::int64_t count, std::int64_t samples) {
    const std::int64_t at = piece_count.fetch_add(1);
    if (at < 4096) pieces[at] = {base, count, samples};
    if (at == 0)
        for (std::int64_t i = 0; i < slots; ++i) {
            std::memcpy(boxes[i], params[i], 40);
            addresses[i] = reinterpret_cast<std::uintptr_t>(params[i]);
        }
    ++waiting;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (gate.load() == 0 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --waiting;
}

/// The same, and reads the cell that slot 0 points at.
void record_cell(void* const* params, std::int64_t base, std::int64_t count, std::int64_t samples) {
    const void* data = *static_cast<void* const*>(params[0]);
    std::memcpy(&cell, data, 8);
    record(params, base, count, samples);
}

void fail(void* const*, std::int64_t, std::int64_t, std::int64_t) { throw std::runtime_error("the kernel gave up"); }

}  // extern "C"
