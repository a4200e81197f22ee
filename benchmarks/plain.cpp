// The yardstick of the stream suite: y = a*x + b as anybody would write it. One contiguous range a thread, ordinary
// stores. The threads live through all repetitions and meet once a repetition, so thread creation is not in the time.
#include <barrier>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

namespace {

void axpb(const double* __restrict x, double* __restrict y, double a, double b, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) y[i] = a * x[i] + b;
}

}  // namespace

// Seconds for `repeats` passes over n samples by `threads` threads.
extern "C" double plain_axpb(const double* x, double* y, double a, double b, std::size_t n, std::size_t threads,
                             std::size_t repeats) {
    using clock = std::chrono::steady_clock;
    std::barrier meet(static_cast<std::ptrdiff_t>(threads));
    const auto work = [&](std::size_t t) {
        const std::size_t begin = n * t / threads;
        const std::size_t end = n * (t + 1) / threads;
        meet.arrive_and_wait();
        const auto start = clock::now();
        for (std::size_t r = 0; r < repeats; ++r) {
            axpb(x, y, a, b, begin, end);
            meet.arrive_and_wait();
        }
        return std::chrono::duration<double>(clock::now() - start).count();
    };
    std::vector<std::thread> others;
    for (std::size_t t = 1; t < threads; ++t) others.emplace_back(work, t);
    const double seconds = work(0);
    for (auto& other : others) other.join();
    return seconds;
}
