// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "eagle/filtering/Compact.h"
#include "eagle/filtering/Reorder.h"
#include "guard.h"
#include "stream.h"

namespace eagle::cpu {
namespace {

using filtering::ByClass;
using filtering::ByLiveness;
using filtering::Compaction;
using filtering::Counts;
using filtering::Mask;
using filtering::Reordering;
using filtering::Scratch;

constexpr uint32_t kFewestClasses = 2;
constexpr uint32_t kLargestElement = 16;

template <class T>
T* address(uint64_t raw) {
    return reinterpret_cast<T*>(static_cast<std::uintptr_t>(raw));
}

template <class T = uint32_t>
T& cell(const char* name, uint64_t raw) {
    if (raw == 0) refuse(EAGLE_INVALID_ARGUMENT, "desc.%s is 0; an address is wanted", name);
    return *address<T>(raw);
}

/// An array of n elements: any address will do where there are none.
template <class T>
T* array(const char* name, uint64_t raw, int64_t n) {
    return n > 0 ? &cell<T>(name, raw) : address<T>(raw);
}

void requireCount(int64_t n) {
    if (n < 0) refuse(EAGLE_INVALID_ARGUMENT, "desc.n is %lld; 0 or more is wanted", static_cast<long long>(n));
    if (n > INT32_MAX) {
        refuse(EAGLE_UNSUPPORTED, "desc.n is %lld; indices have 31 bits, so at most %d is wanted",
               static_cast<long long>(n), INT32_MAX);
    }
}

void requireTheta(const char* name, float theta) {
    if (!(theta > 0 && theta < 1)) {
        refuse(EAGLE_INVALID_ARGUMENT, "desc.%s is %g; a number between 0 and 1 is wanted", name,
               static_cast<double>(theta));
    }
}

void requireZero(const char* name, uint64_t value) {
    if (value != 0) {
        refuse(EAGLE_INVALID_ARGUMENT, "desc.%s is %llu; it is reserved, and 0 is wanted", name,
               static_cast<unsigned long long>(value));
    }
}

void requireClasses(uint32_t classes) {
    if (classes < kFewestClasses || classes > EAGLE_MAX_CLASSES) {
        refuse(EAGLE_INVALID_ARGUMENT, "desc.classes is %u; %u to %u is wanted", classes, kFewestClasses,
               EAGLE_MAX_CLASSES);
    }
}

/// The size an in-out desc says; what it is the head of may be longer. `least`: up to and with scratch_bytes.
void requireSize(uint32_t size, std::size_t least) {
    if (size < least) {
        refuse(EAGLE_INVALID_ARGUMENT, "desc.struct_size is %u; at least %zu, up to scratch_bytes, is wanted", size,
               least);
    }
}

/// A desc whose class fields nobody may leave out.
template <class Head, class Desc>
void requireClassDesc(const Desc* desc) {
    static_assert(std::is_standard_layout_v<Desc>, "its head is where it begins");
    const auto* head = reinterpret_cast<const Head*>(desc);
    requireStruct("desc", head);
    if (head->struct_size < sizeof(Desc)) {
        refuse(EAGLE_UNSUPPORTED, "desc.struct_size is %u; %zu, with the class fields, is wanted", head->struct_size,
               sizeof(Desc));
    }
}

// ---- compaction -----------------------------------------------------------------------------------------------------

constexpr std::size_t kCompactHead = offsetof(eagle_compact_desc, live32);

void requireCompact(const eagle_compact_desc& d, bool hasTrigger) {
    requireNoFlags("desc", d.flags, EAGLE_MASK_IS_DROP);
    requireDevice(d.device);
    requireCount(d.n);
    requireStream(d.stream);
    if (!hasTrigger || d.scratch == 0) return;
    requireTheta("theta", d.theta);
    requireZero("reserved2", d.reserved2);
    for (const auto& [name, raw] : {std::pair{"live32", d.live32}, {"span", d.span}, {"fire", d.fire}}) {
        cell(name, raw);
    }
}

/// A compaction and its trigger; the desc has been checked.
Counts runCompaction(const eagle_compact_desc& d, Scratch& scratch, const uint8_t* classes, bool hasTrigger) {
    const Compaction compaction(scratch, d.n);
    const Mask mask{array<uint8_t>("mask", d.mask, d.n), (d.flags & EAGLE_MASK_IS_DROP) != 0};
    uint32_t& count = cell("count", d.count);
    const Counts counts = compaction.run(mask, classes, array<int32_t>("index_map", d.index_map, d.n));
    count = counts.kept;
    if (hasTrigger) {
        cell("live32", d.live32) = counts.live32;
        cell("fire", d.fire) = filtering::firesReorder(counts, d.theta, cell("span", d.span));
    }
    return counts;
}

int64_t compactBytes(int64_t n) {
    Scratch scratch(0);
    Compaction(scratch, n);
    return scratch.bytes();
}

void compact(eagle_compact_desc& out) {
    const eagle_compact_desc d = readStruct("desc", &out);
    requireSize(d.struct_size, kCompactHead);
    requireCompact(d, d.live32 != 0);
    if (d.scratch == 0) {
        out.scratch_bytes = compactBytes(d.n);
        return;
    }
    Scratch scratch(d.scratch);
    runCompaction(d, scratch, nullptr, d.live32 != 0);
}

void compactClasses(eagle_compact_classes_desc& d) {
    requireCompact(d.compact, true);
    requireClasses(d.classes);
    if (d.compact.scratch == 0) {
        d.compact.scratch_bytes = compactBytes(d.compact.n);
        return;
    }
    requireTheta("class_theta", d.class_theta);
    requireZero("reserved", d.reserved);
    const uint8_t* classes = array<uint8_t>("class_plane", d.class_plane, d.compact.n);
    uint32_t &mixed32 = cell("mixed32", d.mixed32), &fire = cell("class_fire", d.class_fire);
    Scratch scratch(d.compact.scratch);
    const Counts counts = runCompaction(d.compact, scratch, classes, true);
    const uint32_t stale = d.stale_count == 0 ? 0 : cell("stale_count", d.stale_count);
    mixed32 = counts.mixed32;
    fire = cell("fire", d.compact.fire) != 0 ||
           filtering::firesClassSort(counts, d.class_theta, cell("span", d.compact.span), stale);
}

// ---- reordering -----------------------------------------------------------------------------------------------------

std::span<const eagle_reorder_plane> planesOf(const eagle_reorder_desc& d) {
    if (d.n_planes > 0 && d.planes == 0) {
        refuse(EAGLE_INVALID_ARGUMENT, "desc.planes is 0; the address of %u planes is wanted", d.n_planes);
    }
    return {address<const eagle_reorder_plane>(d.planes), d.n_planes};
}

/// The largest element; 16 bytes where no planes are named yet.
uint32_t largestElement(const eagle_reorder_desc& d) {
    uint32_t largest = d.n_planes == 0 ? kLargestElement : sizeof(int32_t);
    for (const eagle_reorder_plane& plane : planesOf(d)) {
        const uint32_t bytes = plane.elem_bytes;
        if (bytes == 0 || bytes > kLargestElement || (bytes & (bytes - 1)) != 0) {
            refuse(EAGLE_INVALID_ARGUMENT, "desc.planes[%td].elem_bytes is %u; 1, 2, 4, 8 or 16 is wanted",
                   &plane - planesOf(d).data(), bytes);
        }
        largest = std::max(largest, bytes);
    }
    return largest;
}

void requirePlane(const eagle_reorder_desc& d, const char* name, uint64_t raw) {
    for (const eagle_reorder_plane& plane : planesOf(d)) {
        if (plane.data == raw && plane.elem_bytes == 1) return;
    }
    refuse(EAGLE_INVALID_ARGUMENT, "desc.%s is %#llx; one of desc.planes, of 1 byte, is wanted", name,
           static_cast<unsigned long long>(raw));
}

void requireReorder(const eagle_reorder_desc& d, uint32_t flags) {
    requireNoFlags("desc", d.flags, flags);
    requireDevice(d.device);
    requireCount(d.n);
    requireStream(d.stream);
}

/// The cells and arrays a reorder works on.
struct Slots {
    explicit Slots(const eagle_reorder_desc& d)
        : perm(array<int32_t>("perm", d.perm, d.n)),
          inv(array<int32_t>("inv", d.inv, d.n)),
          map(array<int32_t>("index_map", d.index_map, d.n)),
          count(cell("count", d.count)),
          span(cell("span", d.span)),
          fire(d.fire == 0 ? nullptr : &cell("fire", d.fire)) {
        for (const auto& [name, value] : {std::pair{"span", span}, {"count", count}}) {
            if (value > d.n) {
                refuse(EAGLE_INVALID_ARGUMENT, "*desc.%s is %u; at most the %lld samples of desc.n are wanted", name,
                       value, static_cast<long long>(d.n));
            }
        }
        for (const eagle_reorder_plane& plane : planesOf(d)) {
            if (d.n > 0 && plane.data == 0) {
                refuse(EAGLE_INVALID_ARGUMENT, "desc.planes[%td].data is 0; an address is wanted",
                       &plane - planesOf(d).data());
            }
        }
    }

    bool isDue() const { return !fire || *fire != 0; }

    void move(const eagle_reorder_desc& d, const Reordering& reordering) const {
        for (const eagle_reorder_plane& plane : planesOf(d)) {
            reordering.move({address<char>(plane.data), plane.elem_bytes});
        }
        reordering.move({reinterpret_cast<char*>(perm), sizeof *perm});
        reordering.invert(perm, inv);
        if (fire) *fire = 0;
    }

    void keepFirst(uint32_t kept) const {
        filtering::writeIdentity(map, kept);
        count = span = kept;
    }

    int32_t *perm, *inv, *map;
    uint32_t &count, &span;
    uint32_t* fire;
};

Mask maskOf(const eagle_reorder_desc& d) {
    return {address<const uint8_t>(d.mask), (d.flags & EAGLE_MASK_IS_DROP) != 0};
}

void reorder(eagle_reorder_desc& out) {
    const eagle_reorder_desc d = readStruct("desc", &out);
    requireSize(d.struct_size, sizeof d);
    requireReorder(d, EAGLE_MASK_IS_DROP);
    Scratch scratch(d.scratch);
    Reordering reordering(scratch, d.n, ByLiveness::buckets(), largestElement(d));
    if (d.scratch == 0) {
        out.scratch_bytes = scratch.bytes();
        return;
    }
    requirePlane(d, "mask", d.mask);
    const Slots slots(d);
    if (!slots.isDue()) return;
    std::array<uint32_t, ByLiveness::buckets()> begins{};
    reordering.find(ByLiveness{maskOf(d)}, slots.span, begins.data());
    slots.move(d, reordering);
    slots.keepFirst(begins[1]);
}

void reorderClasses(eagle_reorder_classes_desc& out) {
    const eagle_reorder_desc d = out.reorder;
    requireReorder(d, EAGLE_MASK_IS_DROP | EAGLE_WITHIN_LIVE);
    requireClasses(out.classes);
    requireZero("reserved", out.reserved);
    Scratch scratch(d.scratch);
    Reordering reordering(scratch, d.n, int64_t{out.classes} + 1, largestElement(d));
    if (d.scratch == 0) {
        out.reorder.scratch_bytes = scratch.bytes();
        return;
    }
    requirePlane(d, "mask", d.mask);
    requirePlane(d, "class_plane", out.class_plane);
    uint32_t &offsets = cell("offsets", out.offsets), &sorts = cell("class_sorts", out.class_sorts);
    const Slots slots(d);
    const bool withinLive = (d.flags & EAGLE_WITHIN_LIVE) != 0;
    if (!slots.isDue()) return;
    const ByClass by{address<const uint8_t>(out.class_plane), out.classes, maskOf(d), withinLive};
    if (!reordering.find(by, withinLive ? slots.count : slots.span, &offsets)) {
        refuse(EAGLE_INVALID_ARGUMENT, "desc.class_plane has a class of %u or more; less is wanted", out.classes);
    }
    slots.move(d, reordering);
    if (withinLive) {
        filtering::writeIdentity(slots.map, slots.count);
    } else {
        slots.keepFirst((&offsets)[out.classes]);
    }
    ++sorts;
}

void reset(eagle_reorder_desc& desc) {
    const eagle_reorder_desc d = readStruct("desc", &desc);
    requireDevice(d.device);
    requireCount(d.n);
    requireStream(d.stream);
    int32_t *perm = array<int32_t>("perm", d.perm, d.n), *inv = array<int32_t>("inv", d.inv, d.n);
    uint32_t &count = cell("count", d.count), &span = cell("span", d.span);
    for (int32_t* target : {perm, inv, address<int32_t>(d.index_map)}) {
        if (target) filtering::writeIdentity(target, d.n);
    }
    count = span = static_cast<uint32_t>(d.n);
}

// ---- capture --------------------------------------------------------------------------------------------------------

eagle_compact_desc& headOf(eagle_compact_desc& d) { return d; }
eagle_compact_desc& headOf(eagle_compact_classes_desc& d) { return d.compact; }
eagle_reorder_desc& headOf(eagle_reorder_desc& d) { return d; }
eagle_reorder_desc& headOf(eagle_reorder_classes_desc& d) { return d.reorder; }

/// A call of a replay, with the table of planes it was captured with.
template <class Desc>
exec::Native recorded(Desc desc, void (*call)(Desc&)) {
    std::vector<eagle_reorder_plane> planes;
    if constexpr (requires { headOf(desc).planes; }) {
        const auto given = planesOf(headOf(desc));
        planes.assign(given.begin(), given.end());
    }
    return [desc, planes, call] {
        Desc copy = desc;
        if constexpr (requires { headOf(copy).planes; }) {
            headOf(copy).planes = reinterpret_cast<std::uintptr_t>(planes.data());
        }
        call(copy);
    };
}

/// Runs the call, or records it where its stream is being captured: what the desc alone tells is checked at once, what
/// its cells hold at each replay. A query is never recorded.
template <class Desc>
void enqueue(Desc& desc, bool isQuery, void (*call)(Desc&), bool hasQuery = true) {
    Desc copy{};
    std::memcpy(static_cast<void*>(&copy), &desc, std::min<std::size_t>(headOf(desc).struct_size, sizeof copy));
    const auto stream = isQuery ? nullptr : recorder(headOf(copy).stream);
    if (!stream) return call(desc);
    headOf(copy).stream = 0;
    if (hasQuery) {
        Desc query = copy;
        headOf(query).scratch = 0;
        call(query);
    }
    stream->sink->add(recorded(copy, call));
}

}  // namespace
}  // namespace eagle::cpu

using namespace eagle::cpu;

eagle_status eagle_backend_compact_device(eagle_compact_desc* desc) {
    return guard("compact_device", [&] {
        requireStruct("desc", desc);
        enqueue(*desc, readStruct("desc", desc).scratch == 0, &compact);
    });
}

eagle_status eagle_backend_compact_classes_device(eagle_compact_classes_desc* desc) {
    return guard("compact_classes_device", [&] {
        requireClassDesc<eagle_compact_desc>(desc);
        enqueue(*desc, desc->compact.scratch == 0, &compactClasses);
    });
}

eagle_status eagle_backend_reorder_device(eagle_reorder_desc* desc) {
    return guard("reorder_device", [&] {
        requireStruct("desc", desc);
        enqueue(*desc, readStruct("desc", desc).scratch == 0, &reorder);
    });
}

eagle_status eagle_backend_reorder_classes_device(eagle_reorder_classes_desc* desc) {
    return guard("reorder_classes_device", [&] {
        requireClassDesc<eagle_reorder_desc>(desc);
        enqueue(*desc, desc->reorder.scratch == 0, &reorderClasses);
    });
}

eagle_status eagle_backend_reset_device(eagle_reorder_desc* desc) {
    return guard("reset_device", [&] {
        requireStruct("desc", desc);
        enqueue(*desc, false, &reset, false);
    });
}

/// All memory is the host's own, whatever the address.
eagle_status eagle_backend_pointer_residency(int32_t device, uint64_t, int32_t* out) {
    return guard("pointer_residency", [&] {
        requireDevice(device);
        requireOut("out", out);
        *out = EAGLE_RESIDENCY_HOST;
    });
}
