// Group launcher: programs and their replay.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "eagle/exec/Replay.h"
#include "eagle/util/Busy.h"
#include "graph.h"
#include "guard.h"
#include "registry.h"
#include "stream.h"

namespace eagle::cpu {
namespace {

using exec::Code;
using exec::Condition;
using exec::Program;

struct Launcher {
    Launcher(const Recordings& recordings, std::shared_ptr<Stream> stream)
        : program(recordings, exec::Team::size()), stream(std::move(stream)) {}

    Program program;
    std::shared_ptr<Stream> stream;
    std::int64_t logicalSize = 0;
    util::InUse used;
};

/// One call at a time: a host function must not change the launcher it is replayed by, nor replay it.
class Use {
public:
    explicit Use(Launcher& launcher) : used_(launcher.used) {
        if (!used_.enter()) {
            refuse(EAGLE_ERROR, "the launcher is in use by another call; one at a time is wanted");
        }
    }
    ~Use() { used_.leave(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

private:
    util::InUse& used_;
};

Registry<eagle_launcher, Launcher>& launchers() {
    static auto* const registry = new Registry<eagle_launcher, Launcher>("launcher");  // outlives late calls at exit
    return *registry;
}

void requireRunning(const Launcher& launcher) {
    if (launcher.stream && launcher.stream->sink) {
        refuse(EAGLE_ERROR, "the launcher's stream is being captured; capture_add_child puts a graph into another");
    }
}

void requireWhole(bool ended) {
    if (!ended) refuse(EAGLE_CALLBACK_FAILED, "a host call ended the replay");
}

/// The operations of a node; refuses one the launcher has not got, or that is of no such kind.
template <class Accepts>
std::vector<std::uint32_t> require(const Launcher& launcher, std::uint64_t node, const char* wanted, Accepts accepts) {
    std::vector<std::uint32_t> found = launcher.program.find(node);
    const bool fits = std::all_of(found.begin(), found.end(),
                                  [&](std::uint32_t op) { return accepts(launcher.program.ops()[op].code); });
    if (found.empty() || !fits) {
        refuse(EAGLE_INVALID_ARGUMENT, "node is %#llx; %s of this launcher is wanted",
               static_cast<unsigned long long>(node), wanted);
    }
    return found;
}

bool isToggleable(Code code) {
    return code == Code::Launch || code == Code::Copy || code == Code::Zero || code == Code::Native;
}

bool isSetter(Code code) { return code == Code::Choose || code == Code::Head || code == Code::Tail; }

std::size_t argumentsOf(const exec::Setter& setter) {
    switch (setter.kind) {
        case Condition::Switch:
            return 2;
        case Condition::While:
            return 4;
        default:
            return 3;
    }
}

template <class T>
void take(T& into, uint64_t address) {
    if (address) std::memcpy(static_cast<void*>(&into), reinterpret_cast<const void*>(address), sizeof into);
}

/// Arguments as conditional_nodes tells them: 0 is the backend's own.
void setArguments(exec::Setter& setter, const uint64_t* params, std::size_t n) {
    struct Cells {
        std::uint64_t count, baseline;
    } cells{setter.guard.count, setter.guard.baseline};
    exec::LoopCells loop = setter.loop;
    std::uint32_t negate = setter.guard.negate;
    const auto at = [&](std::size_t i) { return i < n ? params[i] : 0; };
    if (setter.kind == Condition::Switch)
        take(cells.count, at(1));
    else
        take(cells, at(1));
    take(negate, at(2));
    take(loop, at(3));
    if ((setter.kind == Condition::Switch && !cells.count) ||
        (setter.kind == Condition::While && (!loop.counter || !loop.cap))) {
        refuse(EAGLE_INVALID_ARGUMENT, "params leave no cell or a cap of 0; cells and 1 or more are wanted");
    }
    setter.guard = {cells.count, cells.baseline, negate};
    setter.loop = loop;
}

}  // namespace

eagle_launcher newLauncher(const Recordings& recordings, std::shared_ptr<Stream> stream) {
    return launchers().add(std::make_shared<Launcher>(recordings, std::move(stream)));
}

}  // namespace eagle::cpu

using namespace eagle::cpu;

eagle_status eagle_backend_launcher_launch(eagle_launcher launcher) {
    return guard("launcher_launch", [&] {
        const auto self = launchers().get(launcher);
        const Use use(*self);
        requireRunning(*self);
        requireWhole(eagle::exec::Replay<false>(self->program).run());
    });
}

eagle_status eagle_backend_launcher_launch_timed(eagle_launcher launcher, const uint64_t* nodes, int64_t count,
                                                 double* seconds) {
    return guard("launcher_launch_timed", [&] {
        const auto self = launchers().get(launcher);
        const Use use(*self);
        requireRunning(*self);
        if (count < 0 || (count > 0 && (!nodes || !seconds))) {
            refuse(EAGLE_INVALID_ARGUMENT, "count is %lld; 0 or more, and both arrays, is wanted",
                   static_cast<long long>(count));
        }
        std::vector<std::vector<uint32_t>> ops;
        for (int64_t i = 0; i < count; ++i) {
            ops.push_back(require(*self, nodes[i], "a node", [](Code) { return true; }));
        }
        eagle::exec::Times times(self->program.ops().size());
        const bool ended = eagle::exec::Replay<true>(self->program, &times).run();
        for (int64_t i = 0; i < count; ++i) {
            seconds[i] = 0;
            for (const uint32_t op : ops[static_cast<std::size_t>(i)]) seconds[i] += times[op];
        }
        requireWhole(ended);
    });
}

eagle_status eagle_backend_launcher_synchronize(eagle_launcher launcher) {
    return guard("launcher_synchronize", [&] { launchers().require(launcher); });
}

eagle_status eagle_backend_launcher_stream(eagle_launcher launcher, uint64_t stream) {
    return guard("launcher_stream", [&] {
        const auto self = launchers().get(launcher);
        const Use use(*self);
        self->stream = requireStream(stream);
    });
}

eagle_status eagle_backend_launcher_set_logical_size(eagle_launcher launcher, int64_t n) {
    return guard("launcher_set_logical_size", [&] {
        const auto self = launchers().get(launcher);
        const Use use(*self);
        if (n < 0) refuse(EAGLE_INVALID_ARGUMENT, "n is %lld; 0 or more is wanted", static_cast<long long>(n));
        if (n == 0) return;
        self->program.setLogicalSize(n);
        self->logicalSize = n;
    });
}

eagle_status eagle_backend_launcher_kernel_node_count(eagle_launcher launcher, int64_t* out) {
    return guard("launcher_kernel_node_count", [&] {
        const auto self = launchers().get(launcher);
        requireOut("out", out);
        *out = self->program.kernelNodes();
    });
}

eagle_status eagle_backend_launcher_set_node_enabled(eagle_launcher launcher, uint64_t node, int32_t on) {
    return guard("launcher_set_node_enabled", [&] {
        const auto self = launchers().get(launcher);
        const Use use(*self);
        for (const uint32_t op : require(*self, node, "a launch, copy or memset", isToggleable)) {
            self->program.enable(op, on != 0);
        }
    });
}

eagle_status eagle_backend_launcher_set_kernel_params(eagle_launcher launcher, uint64_t node, const uint64_t* params,
                                                      int64_t n) {
    return guard("launcher_set_kernel_params", [&] {
        const auto self = launchers().get(launcher);
        const Use use(*self);
        Program& program = self->program;
        const auto ops = require(*self, node, "a launch or what sets a conditional",
                                 [](Code code) { return code == Code::Launch || isSetter(code); });
        const bool launch = program.ops()[ops.front()].code == Code::Launch;
        const std::size_t most =
            launch ? program.arguments(ops.front()).size() : argumentsOf(program.setter(ops.front()));
        if (n < 0 || static_cast<uint64_t>(n) > most || (n > 0 && !params)) {
            refuse(EAGLE_INVALID_ARGUMENT, "n is %lld; at most the %zu arguments of the node, with params, is wanted",
                   static_cast<long long>(n), most);
        }
        for (const uint32_t op : ops) {
            if (!launch) setArguments(program.setter(op), params, static_cast<std::size_t>(n));
            for (std::size_t i = 0; launch && i < static_cast<std::size_t>(n); ++i) {
                if (params[i]) program.arguments(op).set(i, reinterpret_cast<void*>(params[i]));
            }
        }
    });
}

eagle_status eagle_backend_launcher_set_memcpy_source(eagle_launcher launcher, uint64_t node, uint64_t src) {
    return guard("launcher_set_memcpy_source", [&] {
        const auto self = launchers().get(launcher);
        const Use use(*self);
        const auto ops = require(*self, node, "a copy", [](Code code) { return code == Code::Copy; });
        for (const uint32_t op : ops) {
            const eagle::exec::Copy& copy = self->program.ops()[op].copy;
            const auto to = reinterpret_cast<std::uintptr_t>(copy.to);
            if (src == 0 || copy.bytes > UINT64_MAX - src || (to > src ? to - src : src - to) < copy.bytes) {
                refuse(EAGLE_INVALID_ARGUMENT,
                       "src is %#llx; %zu bytes apart from those at %#llx, where they are copied to, are wanted",
                       static_cast<unsigned long long>(src), copy.bytes, static_cast<unsigned long long>(to));
            }
        }
        for (const uint32_t op : ops) self->program.setSource(op, reinterpret_cast<const void*>(src));
    });
}

eagle_status eagle_backend_launcher_exec_update(eagle_launcher launcher, eagle_captured captured, int32_t* accepted) {
    return guard("launcher_exec_update", [&] {
        const auto self = launchers().get(launcher);
        const Use use(*self);
        const auto recording = requireRecording(captured);
        requireOut("accepted", accepted);
        Program fresh({recording}, eagle::exec::Team::size());
        *accepted = fresh.adopt(self->program);
        if (!*accepted) return;
        if (self->logicalSize > 0) fresh.setLogicalSize(self->logicalSize);
        self->program = std::move(fresh);
    });
}

void eagle_backend_launcher_release(eagle_launcher launcher) {
    guard("launcher_release", [&] { launchers().remove(launcher); });
}
