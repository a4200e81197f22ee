// Host entries that go astray, for the tests of checked launches.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <stdexcept>

namespace {

template <class T>
T* plane(void* const* params, int slot) {
    return *static_cast<T* const*>(params[slot]);  // a box begins with the address
}

}  // namespace

extern "C" {

/// out[where[i]] = x[i], where counted in signed 64 bits.
void put(void* const* params, std::int64_t base, std::int64_t count, std::int64_t) {
    auto* out = plane<double>(params, 0);
    const auto* x = plane<const double>(params, 1);
    const auto* where = plane<const std::int64_t>(params, 2);
    for (std::int64_t i = base; i < base + count; ++i) out[where[i]] = x[i];
}

/// Walks by where[i] and marks each place it comes to: a sample's place depends on all samples before it.
void walk(void* const* params, std::int64_t base, std::int64_t count, std::int64_t) {
    auto* place = plane<std::int64_t>(params, 0);
    auto* marks = plane<double>(params, 1);
    const auto* where = plane<const std::int64_t>(params, 2);
    for (std::int64_t i = base; i < base + count; ++i) marks[place[0] += where[i]] += 1.0;
}

/// The same as put, each thread for 4 samples that are 8 apart.
void put_boxed(void* const* params, std::int64_t base, std::int64_t count, std::int64_t samples) {
    for (std::int64_t thread = base; thread < base + count; ++thread)
        for (std::int64_t k = 0; k < 4; ++k)
            if (const std::int64_t i = thread / 8 * 32 + thread % 8 + 8 * k; i < samples) put(params, i, 1, samples);
}

/// Writes, then throws at a sample whose x is negative.
void give_up(void* const* params, std::int64_t base, std::int64_t count, std::int64_t) {
    auto* out = plane<double>(params, 0);
    const auto* x = plane<const double>(params, 1);
    for (std::int64_t i = base; i < base + count; ++i) {
        if (x[i] < 0) throw std::runtime_error("the kernel gave up");
        out[i] = x[i];
    }
}

/// Reads where there never was a plane.
void crash(void* const* params, std::int64_t base, std::int64_t, std::int64_t) {
    plane<double>(params, 0)[base] = *reinterpret_cast<volatile double*>(8);
}

}  // extern "C"
