// eagle/ScratchArena.h: what shares memory, and what does not.
//
// SPDX-License-Identifier: Apache-2.0
#include "eagle/ScratchArena.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "check.h"

using eagle::idx_t;
using eagle::ScratchArena;
using eagle::ScratchHandle;

namespace {

template <class Error, class Fn>
bool refuses(Fn fn) {
    try {
        fn();
    } catch (const Error&) {
        return true;
    }
    return false;
}

/// One reservation of a node.
ScratchHandle node(ScratchArena& arena, idx_t id, const std::vector<idx_t>& ancestors, std::size_t bytes) {
    arena.beginNode(id, ancestors);
    const ScratchHandle handle = arena.reserve(bytes);
    arena.endNode();
    return handle;
}

void diamond() {
    ScratchArena arena;
    const ScratchHandle a = node(arena, 0, {}, 1000), b = node(arena, 1, {0}, 1000), c = node(arena, 2, {0}, 1000),
                        d = node(arena, 3, {0, 1, 2}, 1000);
    CHECK(arena.slotCount() == 2 && arena.peakBytes() == 2048);
    arena.commit();
    CHECK(arena.slotCount() == 2 && arena.peakBytes() == 2048);
    CHECK(arena.resolve(a) == arena.resolve(b) && arena.resolve(b) != arena.resolve(c));
    CHECK(arena.resolve(d) == arena.resolve(b) || arena.resolve(d) == arena.resolve(c));
    std::memset(arena.resolve(c), 1, 1000);
}

void within_a_node() {
    ScratchArena arena;
    arena.beginNode(0, {});
    const ScratchHandle first = arena.reserve(1), second = arena.reserve(256), third = arena.reserve(257);
    arena.endNode();
    CHECK(arena.slotCount() == 3 && arena.peakBytes() == 256 + 256 + 512);
    // A chain needs what its largest node does; a slot grows for one that comes later.
    const ScratchHandle large = node(arena, 1, {0}, 10000);
    CHECK(arena.slotCount() == 3 && arena.peakBytes() == 256 + 256 + 10240);
    const ScratchHandle small = node(arena, 2, {0, 1}, 200);
    CHECK(arena.slotCount() == 3 && arena.peakBytes() == 256 + 256 + 10240);
    arena.commit();
    for (const ScratchHandle handle : {first, second, third, large, small}) {
        CHECK(reinterpret_cast<std::uintptr_t>(arena.resolve(handle)) % 256 == 0);
    }
    CHECK(arena.resolve(large) == arena.resolve(third) && arena.resolve(first) != arena.resolve(second));
    CHECK(arena.resolve(small) != arena.resolve(large));
}

void of_no_node() {
    ScratchArena arena;
    const ScratchHandle whole = arena.reserve(100);
    const ScratchHandle a = node(arena, 0, {}, 100);
    CHECK(arena.slotCount() == 2);
    const ScratchHandle none = node(arena, 1, {0}, 0);  // has an address all the same
    arena.commit();
    CHECK(arena.resolve(whole) != arena.resolve(a) && arena.resolve(none) != nullptr);
}

void refusals() {
    ScratchArena arena;
    const ScratchHandle handle = arena.reserve(8);
    CHECK(refuses<std::logic_error>([&] { arena.resolve(handle); }));  // before commit
    CHECK(refuses<std::logic_error>([&] { arena.endNode(); }));
    arena.beginNode(0, {});
    CHECK(refuses<std::logic_error>([&] { arena.beginNode(1, {}); }));
    CHECK(refuses<std::logic_error>([&] { arena.commit(); }));
    CHECK(refuses<std::length_error>([&] { arena.reserve(std::numeric_limits<std::size_t>::max()); }));
    arena.reserve(std::numeric_limits<std::ptrdiff_t>::max() - 1023);
    CHECK(refuses<std::length_error>([&] { arena.reserve(2048); }));
    CHECK(arena.slotCount() == 2);
    arena.endNode();
    ScratchArena other;
    other.reserve(8);
    other.commit();
    other.commit();
    CHECK(refuses<std::logic_error>([&] { other.reserve(8); }));
    CHECK(refuses<std::logic_error>([&] { other.beginNode(0, {}); }));
    CHECK(refuses<std::invalid_argument>([&] { other.resolve({}); }));
    ScratchArena empty;
    empty.commit();
    CHECK(empty.peakBytes() == 0 && empty.slotCount() == 0);
    CHECK(refuses<std::invalid_argument>([&] { empty.resolve(handle); }));
}

void moves() {
    ScratchArena arena;
    const ScratchHandle handle = arena.reserve(8);
    arena.commit();
    void* const at = arena.resolve(handle);
    ScratchArena moved = std::move(arena);
    CHECK(moved.resolve(handle) == at);
    arena = ScratchArena();
    arena.reserve(8);
}

/// Random graphs: two nodes, neither of which waits for the other, never share a byte.
void strangers() {
    std::mt19937 random(5);
    for (int round = 0; round < 300; ++round) {
        const int nodes = 1 + static_cast<int>(random() % 12);
        std::vector<std::vector<char>> before(nodes, std::vector<char>(nodes));
        std::vector<std::vector<std::pair<ScratchHandle, std::size_t>>> own(nodes);
        ScratchArena arena;
        std::size_t plain = 0;
        for (int i = 0; i < nodes; ++i) {
            std::vector<idx_t> ancestors;
            for (int j = 0; j < i; ++j) {
                if (random() % 4 != 0) continue;
                before[i][j] = 1;
                for (int k = 0; k < j; ++k) before[i][k] |= before[j][k];
            }
            for (int j = 0; j < i; ++j)
                if (before[i][j]) ancestors.push_back(static_cast<idx_t>(j));
            arena.beginNode(static_cast<idx_t>(i), ancestors);
            for (unsigned k = random() % 3; k > 0; --k) {
                const std::size_t bytes = 1 + random() % 2000;
                own[i].emplace_back(arena.reserve(bytes), bytes);
                plain += (bytes + 255) / 256 * 256;
            }
            arena.endNode();
        }
        arena.commit();
        CHECK(arena.peakBytes() <= plain && arena.peakBytes() % 256 == 0);
        for (int i = 0; i < nodes; ++i)
            for (int j = 0; j <= i; ++j)
                for (const auto& [a, sizeA] : own[i])
                    for (const auto& [b, sizeB] : own[j]) {
                        if (before[i][j] || &a == &b) continue;
                        const char* const x = static_cast<const char*>(arena.resolve(a));
                        const char* const y = static_cast<const char*>(arena.resolve(b));
                        CHECK(x + sizeA <= y || y + sizeB <= x);
                    }
        for (const auto& all : own)
            for (const auto& [handle, bytes] : all) std::memset(arena.resolve(handle), 0, bytes);
    }
}

}  // namespace

int main() {
    diamond();
    within_a_node();
    of_no_node();
    refusals();
    moves();
    strangers();
}
