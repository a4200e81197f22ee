// What a launch through run_device costs beside a plain loop and beside a plain static split over two kinds of threads.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "eagle/eagle_backend.h"
#include "eagle/plugin.h"

namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

void axpb(void* const* params, std::int64_t base, std::int64_t count, std::int64_t) {
    const double* x = static_cast<const double*>(params[0]);
    double* y = static_cast<double*>(params[1]);
    const double a = *static_cast<const double*>(params[2]), b = *static_cast<const double*>(params[3]);
#pragma GCC ivdep
    for (std::int64_t i = base; i < base + count; ++i) y[i] = a * x[i] + b;
}

void nothing(void* const*, std::int64_t, std::int64_t, std::int64_t) {}

struct Launch {
    std::vector<std::uint64_t> params;
    eagle_launch_desc desc{};

    Launch(eagle::plugin::HostEntry entry, std::int64_t n, std::uint32_t block, std::vector<std::uint64_t> p)
        : params(std::move(p)) {
        desc.struct_size = sizeof desc;
        desc.block = block;
        desc.function = reinterpret_cast<std::uintptr_t>(entry);
        desc.params = params.data();
        desc.nparams = static_cast<std::int64_t>(params.size());
        desc.count = desc.n_samples = n;
    }
    void operator()() const {
        std::int32_t launched = 0;
        if (eagle_backend_run_device(&desc, &launched) != EAGLE_OK) std::abort();
    }
};

/// The same cut without a team: one thread per share, waiting in a spin loop. The best a static split can do.
class StaticSplit {
public:
    explicit StaticSplit(int threads) : threads_(threads) {
        for (int t = 1; t < threads; ++t) workers_.emplace_back([this, t] { serve(t); });
    }
    ~StaticSplit() {
        stop_ = true;
        for (auto& w : workers_) w.join();
    }
    void run(const Launch& launch) {
        launch_ = &launch;
        done_.store(0, std::memory_order_relaxed);
        round_.fetch_add(1, std::memory_order_release);
        share(0);
        while (done_.load(std::memory_order_acquire) != threads_ - 1) __builtin_ia32_pause();
    }

private:
    void serve(int t) {
        for (int seen = 0; !stop_.load(std::memory_order_relaxed);) {
            const int now = round_.load(std::memory_order_acquire);
            if (now == seen) {
                __builtin_ia32_pause();
                continue;
            }
            seen = now;
            share(t);
            done_.fetch_add(1, std::memory_order_release);
        }
    }
    void share(int t) const {
        const auto& d = launch_->desc;
        const std::int64_t each = (d.count / threads_ + 63) / 64 * 64, begin = std::min(d.count, each * t);
        const std::int64_t end = t == threads_ - 1 ? d.count : std::min(d.count, begin + each);
        axpb(reinterpret_cast<void* const*>(d.params), begin, end - begin, d.n_samples);
    }

    const int threads_;
    const Launch* launch_ = nullptr;
    alignas(64) std::atomic<int> round_{0};
    alignas(64) std::atomic<int> done_{0};
    std::atomic<bool> stop_{false};
    std::vector<std::thread> workers_;
};

double timed(const std::function<void()>& body, int repeats) {
    const auto start = Clock::now();
    for (int r = 0; r < repeats; ++r) body();
    return microseconds(Clock::now() - start) / repeats;
}

}  // namespace

int main(int argc, char** argv) {
    const std::int64_t most = argc > 1 ? std::atoll(argv[1]) : 100'000'000;
    const std::uint32_t grain = argc > 2 ? static_cast<std::uint32_t>(std::atoi(argv[2])) : 4096;
    std::int32_t threads = 0;
    eagle_backend_team_size(0, &threads);
    std::vector<double> x(most, 1.0), y(most, 0.0);
    double a = 2.0, b = 3.0;
    const auto address = [](void* p) { return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(p)); };
    const std::vector<std::uint64_t> params{address(x.data()), address(y.data()), address(&a), address(&b)};

    std::printf("threads %d, grain %u\n", threads, grain);
    std::printf("one piece, count 1:    %8.1f ns\n", 1e3 * timed(Launch(nothing, 1, 4096, {}), 1'000'000));
    std::printf("empty region, hot:     %8.1f ns\n", 1e3 * timed(Launch(nothing, 2 * 64, 64, {}), 200'000));
    std::printf("empty region, 32 cuts: %8.1f ns\n", 1e3 * timed(Launch(nothing, 32 * 64, 64, {}), 200'000));

    std::printf("%12s %12s %12s %12s %8s\n", "n", "serial us", "static us", "team us", "static/team");
    for (std::int64_t n = 1000; n <= most; n *= 10) {
        const Launch team(axpb, n, grain, params), serial(axpb, n, UINT32_MAX, params);
        const int repeats = static_cast<int>(std::max<std::int64_t>(1, 5'000'000 / n));
        const int first = repeats / 4;  // launches until everybody is awake
        std::vector<double> s, p, t;
        for (int round = 0; round < 15; ++round) {
            s.push_back(timed(serial, repeats));
            timed(team, first);
            t.push_back(timed(team, repeats));
            StaticSplit split(threads);
            timed([&] { split.run(team); }, first);
            p.push_back(timed([&] { split.run(team); }, repeats));
        }
        std::printf("%12lld %12.2f %12.2f %12.2f %8.3f\n", static_cast<long long>(n), median(s), median(p), median(t),
                    median(p) / median(t));
    }

    std::printf("after 20 ms of idleness\n%12s %12s %12s %8s\n", "n", "serial us", "team us", "ratio");
    for (std::int64_t n : {10'000, 100'000, 1'000'000}) {
        const Launch team(axpb, n, grain, params), serial(axpb, n, UINT32_MAX, params);
        std::vector<double> s, t;
        for (int round = 0; round < 31; ++round) {
            for (auto [launch, times] : {std::pair(&serial, &s), std::pair(&team, &t)}) {
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                times->push_back(timed(*launch, 1));
            }
        }
        std::printf("%12lld %12.2f %12.2f %8.2f\n", static_cast<long long>(n), median(s), median(t),
                    median(t) / median(s));
    }
}
