// SPDX-License-Identifier: Apache-2.0
#include "guarded.h"

#if __has_include(<sys/mman.h>)

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "eagle/exec/Fork.h"

#if defined(__linux__) && defined(__x86_64__)
#include <ucontext.h>
#endif
#ifndef MAP_POPULATE  // Linux: pages made at once cost half of pages made one by one
#define MAP_POPULATE 0
#endif

namespace eagle::core {

namespace {

/// A copy of a plane that ends where untouchable memory begins. The index of an artifact is an unsigned 32-bit number
/// of cells from the first: it cannot pass that memory, nor come before the plane. Entries of other makes may: they
/// find the memory before the plane's first page untouchable too.
class Copy {
public:
    Copy(void* original, std::size_t bytes, std::size_t cell) : original_(original), bytes_(bytes) {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        const std::size_t before = cell << 31, body = (bytes + page - 1) / page * page, after = cell << 32;
        size_ = before + body + after;
        void* base = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) refuse();
        base_ = static_cast<char*>(base);
        constexpr int kBody = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE;
        if (body && mmap(base_ + before, body, PROT_READ | PROT_WRITE, kBody, -1, 0) == MAP_FAILED) {
            munmap(base_, size_);
            refuse();
        }
        data_ = base_ + before + body - bytes;
        refresh();
    }
    Copy(const Copy&) = delete;
    ~Copy() { munmap(base_, size_); }

    char* data() const { return data_; }
    std::size_t bytes() const { return bytes_; }
    bool is_of(const void* original, std::size_t bytes) const { return original_ == original && bytes_ == bytes; }
    bool covers(const char* address) const { return address >= base_ && address < base_ + size_; }
    void refresh() {
        if (bytes_) std::memcpy(data_, original_, bytes_);
    }
    void write_back() const {
        if (bytes_) std::memcpy(original_, data_, bytes_);
    }

    bool writes = false;

private:
    [[noreturn]] void refuse() const {
        throw CannotGuard(Raises::kMemoryError,
                          "checking: found no " + std::to_string(size_) + " bytes of address space for a copy of " +
                              std::to_string(bytes_) +
                              " bytes, wanted them; raise the limit (ulimit -v) or launch without checks");
    }

    void* original_;
    std::size_t bytes_, size_;
    char *base_, *data_;
};

class Session;

struct Turn {};                          // tag: runs take turns
std::atomic<Session*> current{nullptr};  // whose turn it is
constexpr int kSignals[] = {SIGSEGV, SIGBUS};
struct sigaction previous[std::size(kSignals)];

void on_fault(int signal, siginfo_t* info, void* context);

/// One run: it has the turn, the handlers and the copies.
class Session {
public:
    Session(std::span<const GuardedPlane> planes, const GuardedLaunch& launch) : launch_(launch) {
        for (const GuardedPlane& plane : planes) {
            const auto known = std::find_if(copies_.begin(), copies_.end(),
                                            [&](const Copy& copy) { return copy.is_of(*plane.data, plane.bytes); });
            Copy& copy = known == copies_.end() ? copies_.emplace_back(*plane.data, plane.bytes, plane.cell) : *known;
            copy.writes |= plane.writes;
            copy_of_plane_.push_back(&copy);
        }
        for (std::size_t i = 0; i < planes.size(); ++i) *planes[i].data = copy_of_plane_[i]->data();
        struct sigaction action{};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        current.store(this, std::memory_order_release);
        for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &previous[i]);
    }
    Session(const Session&) = delete;
    ~Session() {
        for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &previous[i], nullptr);
        current.store(nullptr, std::memory_order_release);
    }

    /// Whether the entry comes through this part of the call; else fault() tells what it did.
    bool passes(const GuardedCall& call, const plugin::Partition& part) {
        entry_ = call.entry;
        faulted_ = 0;
        launch_(&Session::enter, call.params, part);
        return !faulted_;
    }

    Fault fault(std::size_t call) const {
        Fault fault{call, 0, 0, access_};
        while (!copy_of_plane_[fault.plane]->covers(address_)) ++fault.plane;
        fault.offset = address_ - copy_of_plane_[fault.plane]->data();
        return fault;
    }

    void refresh() {
        for (Copy& copy : copies_)
            if (copy.writes) copy.refresh();
    }
    void write_back() const {
        for (const Copy& copy : copies_)
            if (copy.writes) copy.write_back();
    }

    /// The copies that are written, as they are now, and back.
    std::vector<std::vector<char>> state() const {
        std::vector<std::vector<char>> saved;
        for (const Copy& copy : copies_)
            if (copy.writes) saved.emplace_back(copy.data(), copy.data() + copy.bytes());
        return saved;
    }
    void restore(const std::vector<std::vector<char>>& saved) {
        auto next = saved.begin();
        for (Copy& copy : copies_)
            if (copy.writes) std::copy(next->begin(), next->end(), copy.data()), ++next;
    }

    /// In the signal handler: leaves the entry when the fault is its own, else returns.
    void catch_fault(const siginfo_t* info, const void* context) {
        const auto* address = static_cast<const char*>(info->si_addr);
        if (!inside_ || info->si_code <= 0 || !pthread_equal(thread_, pthread_self())) return;
        if (std::none_of(copies_.begin(), copies_.end(), [&](const Copy& copy) { return copy.covers(address); }))
            return;
        address_ = address;
        access_ = access(context);
        siglongjmp(outside_, 1);
    }

private:
    /// The entry that is launched in place of the call's own. Nothing with a destructor may live here.
    static void enter(void* const* params, std::int64_t base, std::int64_t count, std::int64_t samples) {
        Session* self = current.load(std::memory_order_relaxed);
        if (sigsetjmp(self->outside_, 1) == 0) {
            self->inside_ = 1;
            self->entry_(params, base, count, samples);
        } else {
            self->faulted_ = 1;
        }
        self->inside_ = 0;
    }

    static Fault::Access access([[maybe_unused]] const void* context) {
#if defined(__linux__) && defined(__x86_64__)
        constexpr greg_t kWrite = 2;
        const auto code = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR];
        return code & kWrite ? Fault::Access::Write : Fault::Access::Read;
#else
        return Fault::Access::Unknown;
#endif
    }

    std::unique_lock<exec::ForkMutex<Turn>> turn_{mutex_};
    const GuardedLaunch& launch_;
    std::deque<Copy> copies_;
    std::vector<const Copy*> copy_of_plane_;
    const pthread_t thread_ = pthread_self();
    plugin::HostEntry entry_ = nullptr;
    sigjmp_buf outside_;
    volatile sig_atomic_t inside_ = 0, faulted_ = 0;
    const char* address_ = nullptr;
    Fault::Access access_ = Fault::Access::Unknown;

    inline static exec::ForkMutex<Turn> mutex_;
};

/// What would happen without us.
void pass_on(int signal, siginfo_t* info, void* context) {
    const struct sigaction& action = previous[signal == SIGBUS];
    const bool sent = info->si_code <= 0;
    if (action.sa_flags & SA_SIGINFO) return action.sa_sigaction(signal, info, context);
    if (action.sa_handler == SIG_IGN && sent) return;
    if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN) return action.sa_handler(signal);
    ::signal(signal, SIG_DFL);
    if (sent) raise(signal);  // else the access happens again
}

void on_fault(int signal, siginfo_t* info, void* context) {
    if (Session* session = current.load(std::memory_order_acquire)) session->catch_fault(info, context);
    pass_on(signal, info, context);
}

/// Halves the part of a call that faults, from the state before it, down to the first row that faults by itself. The
/// calls before it are made again; a fault that does not come again, since somebody writes the planes meanwhile, stays
/// without a sample.
Fault locate(Session& session, std::span<const GuardedCall> calls, Fault fault) {
    session.refresh();
    for (std::size_t i = 0; i < fault.call; ++i)
        if (!session.passes(calls[i], calls[i].part)) return fault;
    const GuardedCall& call = calls[fault.call];
    std::int64_t first = (call.part.base + call.row - 1) / call.row * call.row, end = call.part.base + call.part.count;
    auto state = session.state();
    while (end - first > call.row) {
        const std::int64_t rows = (end - first + call.row - 1) / call.row;
        const std::int64_t middle = first + rows / 2 * call.row;
        if (session.passes(call, {first, middle - first, call.part.nSamples})) {
            first = middle;
            state = session.state();
        } else {
            end = middle;
            session.restore(state);
        }
    }
    if (session.passes(call, {first, end - first, call.part.nSamples})) return fault;
    fault = session.fault(fault.call);
    fault.first = first;
    return fault;
}

}  // namespace

std::optional<Fault> run_guarded(std::span<const GuardedPlane> planes, std::span<const GuardedCall> calls,
                                 const GuardedLaunch& launch) {
    Session session(planes, launch);
    for (std::size_t i = 0; i < calls.size(); ++i)
        if (!session.passes(calls[i], calls[i].part)) return locate(session, calls, session.fault(i));
    session.write_back();
    return std::nullopt;
}

}  // namespace eagle::core

#else

namespace eagle::core {

std::optional<Fault> run_guarded(std::span<const GuardedPlane>, std::span<const GuardedCall>, const GuardedLaunch&) {
    throw CannotGuard(Raises::kRuntimeError,
                      "checking: found a platform without mmap, wanted POSIX; launch without checks");
}

}  // namespace eagle::core

#endif
