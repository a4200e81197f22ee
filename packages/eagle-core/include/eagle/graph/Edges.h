// Edges: which node must wait for which, from the memory their planes share.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "eagle/graph/Description.h"
#include "eagle/graph/Overlap.h"

namespace eagle::graph {

/// A plane of a node: what the node calls it, where it is, and whether it is read (0), written (1) or both (2).
struct PlaneRef {
    std::string name;
    int node = 0;
    std::uint64_t base = 0;
    std::vector<std::int64_t> shape, strides;
    std::int64_t itemsize = 1;
    int access = 0;

    bool reads() const { return access != 1; }
    bool writes() const { return access != 0; }
};

/// An edge as positions in the list of planes: the one of src that it is about, and one of dst that shares bytes with it.
struct Hazard {
    int src = 0, dst = 0;
    int plane = 0, other = 0;
    EdgeKind kind = EdgeKind::Raw;
};

/// Two nodes of different branches that may not run at the same time.
struct Conflict {
    int first = 0, second = 0;
    std::string firstPlane, secondPlane;
    EdgeKind kind = EdgeKind::Raw;
};

namespace detail {

/// The planes of one memory layout, by node, and what overlaps them.
struct Region {
    Bytes bytes;
    Range range;
    std::vector<int> planes;
    std::vector<int> meets;  // regions, itself among them
};

/// Planes grouped by where they are: a chain re-uses few regions however long it is.
class Regions {
public:
    explicit Regions(const std::vector<PlaneRef>& planes) : of(planes.size()) {
        std::map<std::tuple<std::uint64_t, std::vector<std::int64_t>, std::vector<std::int64_t>, std::int64_t>, int> known;
        for (std::size_t i = 0; i < planes.size(); ++i) {
            const PlaneRef& p = planes[i];
            if (p.shape.size() != p.strides.size())
                throw std::invalid_argument("eagle::graph::PlaneRef: found " + std::to_string(p.shape.size()) +
                                            " extents and " + std::to_string(p.strides.size()) +
                                            " strides, wanted one stride an axis");
            const auto [at, added] =
                known.try_emplace({p.base, p.shape, p.strides, p.itemsize}, static_cast<int>(all.size()));
            if (added) {
                const Bytes bytes{p.base, p.shape, p.strides, p.itemsize};
                all.push_back({bytes, graph::range(bytes), {}, {}});
            }
            of[i] = at->second;
            all[at->second].planes.push_back(static_cast<int>(i));
        }
        for (Region& region : all)
            std::stable_sort(region.planes.begin(), region.planes.end(),
                             [&](int a, int b) { return planes[a].node < planes[b].node; });
        std::vector<int> by(all.size());
        for (std::size_t i = 0; i < by.size(); ++i) by[i] = static_cast<int>(i);
        std::sort(by.begin(), by.end(), [&](int a, int b) { return all[a].range.begin < all[b].range.begin; });
        std::vector<int> open;  // those that reach to where the sweep is
        for (const int i : by) {
            if (all[i].range.empty()) continue;
            std::erase_if(open, [&](int j) { return all[j].range.end <= all[i].range.begin; });
            for (const int j : open)
                if (overlap(all[i].bytes, all[j].bytes)) {
                    all[i].meets.push_back(j);
                    all[j].meets.push_back(i);
                }
            all[i].meets.push_back(i);
            open.push_back(i);
        }
    }

    std::vector<Region> all;
    std::vector<int> of;  // the region of each plane
};

/// Sorts by dst and keeps the order of equal ones: by counting, where the nodes lie close together.
inline void sortByNode(std::vector<Hazard>& some, std::vector<Hazard>& room, std::vector<int>& counts) {
    const auto before = [](const Hazard& a, const Hazard& b) { return a.dst < b.dst; };
    if (std::is_sorted(some.begin(), some.end(), before)) return;
    const auto [low, high] = std::minmax_element(some.begin(), some.end(), before);
    const std::size_t first = low->dst, span = high->dst - low->dst + 1;
    if (span > 4 * some.size()) return std::stable_sort(some.begin(), some.end(), before);
    counts.assign(span + 1, 0);
    for (const Hazard& h : some) ++counts[h.dst - first + 1];
    for (std::size_t i = 1; i <= span; ++i) counts[i] += counts[i - 1];
    room.resize(some.size());
    for (const Hazard& h : some) room[counts[h.dst - first]++] = h;
    some.swap(room);
}

}  // namespace detail

/// Branches of a group, each a list of nodes: those of different branches do not wait for each other.
using Group = std::vector<std::vector<int>>;

namespace detail {

/// In which branches of which groups each node is.
class Branches {
public:
    explicit Branches(const std::vector<Group>& groups) {
        for (std::size_t g = 0; g < groups.size(); ++g)
            for (std::size_t b = 0; b < groups[g].size(); ++b)
                for (const int node : groups[g][b]) {
                    if (node < 0) throw std::invalid_argument("eagle::graph::Group: found a node below 0");
                    if (node >= static_cast<int>(of_.size())) of_.resize(node + 1);
                    of_[node].emplace_back(static_cast<int>(g), static_cast<int>(b));
                }
    }
    bool grouped(int node) const { return node < static_cast<int>(of_.size()) && !of_[node].empty(); }
    bool apart(int a, int b) const {
        if (!grouped(a) || !grouped(b)) return false;
        for (const auto& [group, branch] : of_[a])
            for (const auto& [other, theirs] : of_[b])
                if (group == other && branch != theirs) return true;
        return false;
    }

private:
    std::vector<std::vector<std::pair<int, int>>> of_;  // (group, branch) of each node
};

}  // namespace detail

/// Every hazard between every two nodes, once for each (src, dst, name of src's plane, kind): by src, dst, then for each
/// plane that src writes RAW and WAW, then for each that it reads WAR. Nodes run in the order of their numbers. Pairs in
/// different branches of one of `groups` are left out; with `apart` they are all there is.
inline std::vector<Hazard> hazards(const std::vector<PlaneRef>& planes, const std::vector<Group>& groups = {},
                                   bool apart = false) {
    const detail::Regions regions(planes);
    const detail::Branches branches(groups);
    int nodes = 0;
    for (const PlaneRef& plane : planes) {
        if (plane.node < 0) throw std::invalid_argument("eagle::graph::PlaneRef: found a node below 0");
        nodes = std::max(nodes, plane.node + 1);
    }
    std::vector<std::vector<int>> own(nodes);
    std::vector<int> slot(planes.size());  // among its node's planes, the first of this name
    for (std::size_t i = 0; i < planes.size(); ++i) {
        std::vector<int>& mine = own[planes[i].node];
        mine.push_back(static_cast<int>(i));
        while (planes[mine[slot[i]]].name != planes[i].name) ++slot[i];
    }
    std::vector<Hazard> found, some, room;
    std::vector<int> counts, seen;
    for (int src = 0; src < nodes; ++src) {
        const bool grouped = branches.grouped(src);
        if (apart && !grouped) continue;
        some.clear();
        const auto collect = [&](int plane, bool theirReads, EdgeKind kind) {
            for (const int meets : regions.all[regions.of[plane]].meets) {
                const std::vector<int>& users = regions.all[meets].planes;
                auto user = std::upper_bound(users.begin(), users.end(), src,
                                             [&](int node, int other) { return node < planes[other].node; });
                for (; user != users.end(); ++user) {
                    const PlaneRef& theirs = planes[*user];
                    if (!(theirReads ? theirs.reads() : theirs.writes())) continue;
                    if (grouped && branches.apart(src, theirs.node) != apart) continue;
                    some.push_back({src, theirs.node, plane, *user, kind});
                }
            }
        };
        for (const int plane : own[src])
            if (planes[plane].writes()) {
                collect(plane, true, EdgeKind::Raw);
                collect(plane, false, EdgeKind::Waw);
            }
        for (const int plane : own[src])
            if (planes[plane].reads()) collect(plane, false, EdgeKind::War);
        detail::sortByNode(some, room, counts);
        seen.assign(3 * own[src].size(), -1);  // the dst that each (name, kind) last led to
        for (const Hazard& h : some) {
            int& last = seen[3 * slot[h.plane] + static_cast<int>(h.kind)];
            if (std::exchange(last, h.dst) != h.dst) found.push_back(h);
        }
    }
    return found;
}

/// hazards() by name.
inline std::vector<Edge> deriveEdges(const std::vector<PlaneRef>& planes, const std::vector<Group>& groups = {}) {
    const std::vector<Hazard> found = hazards(planes, groups);
    std::vector<Edge> edges;
    edges.reserve(found.size());
    for (const Hazard& h : found) edges.push_back({h.src, h.dst, planes[h.plane].name, h.kind});
    return edges;
}

/// What keeps branches of groups from running at the same time: the hazards between them, in the order of edges.
inline std::vector<Conflict> siblingConflicts(const std::vector<PlaneRef>& planes, const std::vector<Group>& groups) {
    const detail::Branches branches(groups);
    std::vector<PlaneRef> some;
    for (const PlaneRef& plane : planes)
        if (branches.grouped(plane.node)) some.push_back(plane);
    std::vector<Conflict> found;
    for (const Hazard& h : hazards(some, groups, true))
        found.push_back({h.src, h.dst, some[h.plane].name, some[h.other].name, h.kind});
    return found;
}

}  // namespace eagle::graph
