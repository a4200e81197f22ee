// The calls of the group filtering, prepared once and then made again and again.
//
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bindings.h"
#include "loader.h"
#include "released.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace eagle::core {
namespace {

using Handle = std::shared_ptr<const Backend>;
using Planes = std::vector<std::pair<std::uint64_t, std::uint32_t>>;  // address, bytes of an element

constexpr std::int64_t kLongBatch = 1 << 11;  // samples that take about a microsecond

/// A call over addresses its maker keeps alive. May be used from several threads.
class Filter {
public:
    virtual ~Filter() = default;

    /// Bytes of scratch memory a run needs, where the backend's memory is.
    virtual std::int64_t scratch_bytes() const = 0;

    void run(std::uint64_t scratch) const {
        std::optional<Released> released;
        if (n_ >= kLongBatch) released.emplace();
        call(scratch);
    }

protected:
    explicit Filter(std::int64_t n) : n_(n) {}
    virtual void call(std::uint64_t scratch) const = 0;

private:
    const std::int64_t n_;
};

/// `Head` is the part of Desc that holds n and the scratch; Desc begins with it.
template <class Desc, class Head = Desc>
class Prepared final : public Filter {
public:
    using Symbol = eagle_status (*Symbols::*)(Desc*);

    Prepared(Handle backend, Symbol symbol, const Desc& desc, std::vector<eagle_reorder_plane> planes = {})
        : Filter(head(desc).n), backend_(std::move(backend)), symbol_(symbol), desc_(desc), planes_(std::move(planes)) {
        if constexpr (requires(Head h) { h.planes; }) {
            head(desc_).planes = reinterpret_cast<std::uintptr_t>(planes_.data());
            head(desc_).n_planes = static_cast<std::uint32_t>(planes_.size());
        }
        head(desc_).struct_size = sizeof desc_;
    }

    std::int64_t scratch_bytes() const override {
        const Desc told = called(0);
        return head(told).scratch_bytes;
    }

private:
    template <class Whole>
    static auto& head(Whole& desc) {
        if constexpr (std::is_same_v<Desc, Head>) {
            return desc;
        } else if constexpr (requires { desc.compact; }) {
            return desc.compact;
        } else {
            return desc.reorder;
        }
    }

    void call(std::uint64_t scratch) const override { called(scratch); }

    Desc called(std::uint64_t scratch) const {
        Desc desc = desc_;
        head(desc).scratch = scratch;
        backend_->call(symbol_, &desc);
        return desc;
    }

    const Handle backend_;
    const Symbol symbol_;
    Desc desc_;
    const std::vector<eagle_reorder_plane> planes_;
};

/// What both compactions take; live32 0 is no trigger. A set byte of the mask drops its sample.
eagle_compact_desc compact_desc(std::int32_t device, std::int64_t n, std::uint64_t mask, std::uint64_t index_map,
                                std::uint64_t count, std::uint64_t live32, std::uint64_t span, std::uint64_t fire,
                                float theta) {
    eagle_compact_desc desc{};
    desc.flags = EAGLE_MASK_IS_DROP;
    desc.device = device;
    desc.n = n;
    desc.mask = mask;
    desc.index_map = index_map;
    desc.count = count;
    desc.live32 = live32;
    desc.span = span;
    desc.fire = fire;
    desc.theta = theta;
    return desc;
}

std::unique_ptr<Filter> compaction(Handle self, std::int32_t device, std::int64_t n, std::uint64_t mask,
                                   std::uint64_t index_map, std::uint64_t count, std::uint64_t live32,
                                   std::uint64_t span, std::uint64_t fire, float theta) {
    self->require(&Symbols::compact_device);
    return std::make_unique<Prepared<eagle_compact_desc>>(
        std::move(self), &Symbols::compact_device,
        compact_desc(device, n, mask, index_map, count, live32, span, fire, theta));
}

std::unique_ptr<Filter> class_compaction(Handle self, std::int32_t device, std::int64_t n, std::uint64_t mask,
                                         std::uint64_t index_map, std::uint64_t count, std::uint64_t live32,
                                         std::uint64_t span, std::uint64_t fire, float theta, std::uint64_t class_plane,
                                         std::uint32_t classes, float class_theta, std::uint64_t offsets,
                                         std::uint64_t mixed32, std::uint64_t stale_count, std::uint64_t class_fire) {
    self->require(&Symbols::compact_classes_device);
    eagle_compact_classes_desc desc{};
    desc.compact = compact_desc(device, n, mask, index_map, count, live32, span, fire, theta);
    desc.class_plane = class_plane;
    desc.classes = classes;
    desc.class_theta = class_theta;
    desc.offsets = offsets;
    desc.mixed32 = mixed32;
    desc.stale_count = stale_count;
    desc.class_fire = class_fire;
    return std::make_unique<Prepared<eagle_compact_classes_desc, eagle_compact_desc>>(
        std::move(self), &Symbols::compact_classes_device, desc);
}

eagle_reorder_desc reorder_desc(std::int32_t device, std::int64_t n, std::uint64_t perm, std::uint64_t inv,
                                std::uint64_t index_map, std::uint64_t count, std::uint64_t span) {
    eagle_reorder_desc desc{};
    desc.struct_size = sizeof desc;
    desc.flags = EAGLE_MASK_IS_DROP;
    desc.device = device;
    desc.n = n;
    desc.perm = perm;
    desc.inv = inv;
    desc.index_map = index_map;
    desc.count = count;
    desc.span = span;
    return desc;
}

std::vector<eagle_reorder_plane> rows(const Planes& planes) {
    std::vector<eagle_reorder_plane> rows;
    for (const auto& [address, bytes] : planes) rows.push_back({address, bytes, 0});
    return rows;
}

std::unique_ptr<Filter> reordering(Handle self, std::int32_t device, std::int64_t n, const Planes& planes,
                                   std::uint64_t mask, std::uint64_t perm, std::uint64_t inv, std::uint64_t index_map,
                                   std::uint64_t count, std::uint64_t span) {
    self->require(&Symbols::reorder_device);
    eagle_reorder_desc desc = reorder_desc(device, n, perm, inv, index_map, count, span);
    desc.mask = mask;
    return std::make_unique<Prepared<eagle_reorder_desc>>(std::move(self), &Symbols::reorder_device, desc,
                                                          rows(planes));
}

std::unique_ptr<Filter> class_reordering(Handle self, std::int32_t device, std::int64_t n, const Planes& planes,
                                         std::uint64_t mask, std::uint64_t perm, std::uint64_t inv,
                                         std::uint64_t index_map, std::uint64_t count, std::uint64_t span,
                                         std::uint64_t class_plane, std::uint32_t classes, std::uint64_t offsets,
                                         std::uint64_t class_sorts, bool within_live) {
    self->require(&Symbols::reorder_classes_device);
    eagle_reorder_classes_desc desc{};
    desc.reorder = reorder_desc(device, n, perm, inv, index_map, count, span);
    desc.reorder.mask = mask;
    if (within_live) desc.reorder.flags |= EAGLE_WITHIN_LIVE;
    desc.class_plane = class_plane;
    desc.classes = classes;
    desc.offsets = offsets;
    desc.class_sorts = class_sorts;
    return std::make_unique<Prepared<eagle_reorder_classes_desc, eagle_reorder_desc>>(
        std::move(self), &Symbols::reorder_classes_device, desc, rows(planes));
}

void reset(const Backend& self, std::int32_t device, std::int64_t n, std::uint64_t perm, std::uint64_t inv,
           std::uint64_t index_map, std::uint64_t count, std::uint64_t span) {
    eagle_reorder_desc desc = reorder_desc(device, n, perm, inv, index_map, count, span);
    self.call(&Symbols::reset_device, &desc);
}

}  // namespace

void register_filtering(nb::module_& m) {
    nb::class_<Filter>(m, "Filter").def("scratch_bytes", &Filter::scratch_bytes).def("run", &Filter::run, "scratch"_a);
    nb::object backend = m.attr("Backend");
    const auto add = [&](const char* name, auto function, auto... arguments) {
        backend.attr(name) = nb::cpp_function(function, nb::is_method(), nb::scope(backend), nb::name(name),
                                              nb::kw_only(), "device"_a, "n"_a, arguments...);
    };
    add("compaction", compaction, "mask"_a, "index_map"_a, "count"_a, "live32"_a = 0, "span"_a = 0, "fire"_a = 0,
        "theta"_a = 0.0f);
    add("class_compaction", class_compaction, "mask"_a, "index_map"_a, "count"_a, "live32"_a, "span"_a, "fire"_a,
        "theta"_a, "class_plane"_a, "classes"_a, "class_theta"_a, "offsets"_a, "mixed32"_a, "stale_count"_a,
        "class_fire"_a);
    add("reordering", reordering, "planes"_a, "mask"_a, "perm"_a, "inv"_a, "index_map"_a, "count"_a, "span"_a);
    add("class_reordering", class_reordering, "planes"_a, "mask"_a, "perm"_a, "inv"_a, "index_map"_a, "count"_a,
        "span"_a, "class_plane"_a, "classes"_a, "offsets"_a, "class_sorts"_a, "within_live"_a);
    backend.attr("reset") =
        nb::cpp_function(reset, nb::is_method(), nb::scope(backend), nb::name("reset"), nb::kw_only(), "device"_a,
                         "n"_a, "perm"_a, "inv"_a, "index_map"_a, "count"_a, "span"_a, nb::call_guard<Released>());
}

}  // namespace eagle::core
