// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <vector>

#include "eagle/stepping/stepRun.h"
#include "guard.h"

namespace eagle::cpu {
namespace {

using stepping::Batch;

void requireSlot(const char* name, int32_t slot, const eagle_step_desc& d) {
    if (slot < 0 || slot >= d.nparams) {
        refuse(EAGLE_INVALID_ARGUMENT, "desc.%s is %d; a slot of the %lld params is wanted", name, slot,
               static_cast<long long>(d.nparams));
    }
}

std::size_t optionalSlot(const char* name, int32_t slot, const eagle_step_desc& d) {
    if (slot == -1) return Batch::kNone;
    requireSlot(name, slot, d);
    return static_cast<std::size_t>(slot);
}

void requireRange(const char* name, int64_t value, int64_t least, int64_t most) {
    if (value < least || value > most) {
        refuse(EAGLE_INVALID_ARGUMENT, "desc.%s is %lld; %lld to %lld is wanted", name, static_cast<long long>(value),
               static_cast<long long>(least), static_cast<long long>(most));
    }
}

constexpr uint32_t kPlaneFlags = EAGLE_STEP_MIRROR | EAGLE_STEP_WRITES | EAGLE_STEP_GUARD | EAGLE_STEP_COUNTS;

bool isElement(uint32_t bytes) { return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8; }

stepping::Plane readPlane(const eagle_step_plane& plane, const eagle_step_desc& d) {
    requireSlot("planes.slot", static_cast<int32_t>(plane.slot), d);
    requireNoFlags("desc.planes", plane.flags, kPlaneFlags);
    const bool mirror = plane.flags & EAGLE_STEP_MIRROR;
    const bool guards = plane.flags & EAGLE_STEP_GUARD;
    const uint32_t bytes = plane.elem_bytes;
    if (!isElement(bytes) || plane.components == 0 || (plane.components > 1 && !mirror) ||
        (guards && (bytes != 1 || mirror))) {
        refuse(EAGLE_INVALID_ARGUMENT,
               "desc.planes has %u components of %u bytes and flags 0x%x at slot %u; elements of 1, 2, 4 or 8 bytes, a "
               "mirror where there are several components, and guards of one byte are wanted",
               plane.components, bytes, plane.flags, plane.slot);
    }
    return {plane.slot, bytes, plane.components, mirror, (plane.flags & EAGLE_STEP_WRITES) != 0, guards};
}

/// Every slot has one meaning, a box, and memory behind it.
void requireBoxes(const Batch& batch) {
    std::vector<std::size_t> slots;
    for (const std::size_t slot : {batch.mask, batch.counter, batch.word, batch.map, batch.live})
        if (slot != Batch::kNone) slots.push_back(slot);
    for (const stepping::Plane& plane : batch.planes) slots.push_back(plane.slot);
    for (const stepping::Counts& counts : batch.counts) slots.push_back(counts.slot);
    std::sort(slots.begin(), slots.end());
    const auto twice = std::adjacent_find(slots.begin(), slots.end());
    if (twice != slots.end())
        refuse(EAGLE_INVALID_ARGUMENT, "desc names slot %zu twice; one meaning for each is wanted", *twice);
    for (const std::size_t slot : slots)
        if (!batch.params[slot])
            refuse(EAGLE_INVALID_ARGUMENT, "desc.params[%zu] is 0; the address of a box is wanted", slot);
}

void requireMemory(const Batch& batch) {
    if (batch.samples == 0) return;
    const bool missing =
        std::any_of(batch.rows.begin(), batch.rows.end(), [](const stepping::Row& row) { return !row.data; });
    if (missing || !batch.finished)
        refuse(EAGLE_INVALID_ARGUMENT, "a plane or the mask is at address 0; memory of %lld samples is wanted",
               static_cast<long long>(batch.samples));
}

/// Cells that are no samples'.
stepping::Counts readCounts(const eagle_step_plane& plane, const eagle_step_desc& d) {
    requireSlot("planes.slot", static_cast<int32_t>(plane.slot), d);
    requireNoFlags("desc.planes", plane.flags, kPlaneFlags);
    if (plane.flags != EAGLE_STEP_COUNTS || !isElement(plane.elem_bytes) || plane.components == 0) {
        refuse(
            EAGLE_INVALID_ARGUMENT,
            "desc.planes has %u cells of %u bytes and flags 0x%x at slot %u; cells that are counted in, with no other "
            "flag, are wanted",
            plane.components, plane.elem_bytes, plane.flags, plane.slot);
    }
    return {plane.slot, std::size_t{plane.elem_bytes} * plane.components};
}

/// What a call costs for each sample beyond its steps, in steps: an entry that takes several moves every row in and
/// out, which is what 60 operations cost; one of a single step is looked through afterwards.
double overheadOf(const Batch& batch, int32_t stepOps) {
    constexpr double kRowCosts = 60, kLook = 2, kUnknown = 8, kMost = 64;
    if (!batch.fused()) return kLook;
    if (stepOps <= 0) return kUnknown;
    return std::clamp(kRowCosts * static_cast<double>(batch.rows.size()) / stepOps, 1.0, kMost);
}

/// A launch of one step tells one step from two. Heavy ones are scalar, and take some times as long as the steps.
bool tellsOne(const eagle_step_desc& d) {
    constexpr int64_t kFew = 512, kLight = 100;
    return d.n_samples <= kFew || d.step_ops <= kLight;
}

Batch readBatch(const eagle_step_desc& d) {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    requireNoFlags("desc", d.flags, EAGLE_STEP_MOVABLE | EAGLE_STEP_UNALIGNED);
    requireDevice(d.device);
    if (d.function == 0) refuse(EAGLE_INVALID_ARGUMENT, "desc.function is 0; the address of a host entry is wanted");
    if (!d.params) refuse(EAGLE_INVALID_ARGUMENT, "desc.params is NULL; the addresses of the arguments are wanted");
    if (d.n_planes > 0 && !d.planes) refuse(EAGLE_INVALID_ARGUMENT, "desc.planes is NULL; %u are wanted", d.n_planes);
    requireRange("nparams", d.nparams, 1, std::numeric_limits<int32_t>::max());
    requireRange("n_samples", d.n_samples, 0, kMost);
    requireRange("max_steps", d.max_steps, 1, kMost);
    requireRange("steps_per_launch", d.steps_per_launch, 0, kMost);
    requireRange("step_ops", d.step_ops, 0, std::numeric_limits<int32_t>::max());
    requireRange("threads", d.threads, 0, exec::kMaxTeamSize);
    requireSlot("mask_slot", d.mask_slot, d);
    requireSlot("counter_slot", d.counter_slot, d);
    Batch batch{};
    batch.entry = reinterpret_cast<plugin::HostEntry>(static_cast<std::uintptr_t>(d.function));
    static_assert(sizeof(void*) == sizeof(uint64_t));
    batch.params = reinterpret_cast<void* const*>(d.params);
    batch.nparams = static_cast<std::size_t>(d.nparams);
    batch.samples = d.n_samples;
    batch.movable = d.flags & EAGLE_STEP_MOVABLE;
    batch.unaligned = d.flags & EAGLE_STEP_UNALIGNED;
    batch.mask = static_cast<std::size_t>(d.mask_slot);
    batch.counter = static_cast<std::size_t>(d.counter_slot);
    batch.word = optionalSlot("word_slot", d.word_slot, d);
    batch.map = optionalSlot("map_slot", d.map_slot, d);
    batch.live = optionalSlot("live_slot", d.live_slot, d);
    if ((batch.map == Batch::kNone) != (batch.live == Batch::kNone))
        refuse(EAGLE_INVALID_ARGUMENT, "desc has one of map_slot and live_slot; both or none are wanted");
    if (batch.mapped()) requireRange("n_samples", d.n_samples, 0, std::numeric_limits<int32_t>::max());
    if (d.steps_per_launch == 0 && batch.word == Batch::kNone)
        refuse(EAGLE_INVALID_ARGUMENT, "desc.word_slot is -1; a slot is wanted where steps_per_launch is 0");
    batch.unit = d.max_steps == 1 && d.steps_per_launch == 0 ? 1 : d.steps_per_launch;
    const int64_t unit = std::max<int64_t>(batch.unit, 1);
    batch.cap = std::min((d.max_steps - 1) / unit + 1, kMost / unit) * unit;
    for (uint32_t i = 0; i < d.n_planes; ++i) {
        if (d.planes[i].flags & EAGLE_STEP_COUNTS)
            batch.counts.push_back(readCounts(d.planes[i], d));
        else
            batch.planes.push_back(readPlane(d.planes[i], d));
    }
    requireBoxes(batch);
    batch.findRows();
    requireMemory(batch);
    batch.overhead = overheadOf(batch, d.step_ops);
    batch.tellsOne = tellsOne(d);
    return batch;
}

}  // namespace
}  // namespace eagle::cpu

using namespace eagle::cpu;

eagle_status eagle_backend_step_run(const eagle_step_desc* desc, eagle_step_report* out) {
    return guard("step_run", [&] {
        const eagle_step_desc d = readStruct("desc", desc);
        requireStruct("out", out);
        const eagle::stepping::Batch batch = readBatch(d);
        const int threads = d.threads > 0 ? d.threads : eagle::exec::kMaxTeamSize;
        const eagle::stepping::Report report = eagle::stepping::stepRun(batch, threads, d.poll, d.poll_ctx);
        eagle_step_report told{};
        told.flags = (report.exact ? EAGLE_STEP_EXACT : 0u) | (report.stopped ? EAGLE_STEP_STOPPED : 0u);
        told.steps = report.steps;
        told.visits = report.visits;
        told.finished = report.finished;
        told.offered = report.offered;
        writeStruct("out", told, out);
    });
}
