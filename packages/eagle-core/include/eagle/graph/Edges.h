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

/// An edge as positions in the list of planes: the one of src that it is about, and one of dst that shares bytes with
/// it.
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

struct User {
    int node, plane;
    bool reads, writes;
};

/// The planes of one memory layout, by node, and what overlaps them.
struct Region {
    Bytes bytes;
    Range range;
    std::vector<User> users;
    std::vector<int> meets;  // regions, itself among them
    bool written = false;
};

/// Planes grouped by where they are: a chain reuses few regions however long it is.
class Regions {
public:
    explicit Regions(const std::vector<PlaneRef>& planes) : of(planes.size()) {
        std::map<std::tuple<std::uint64_t, std::vector<std::int64_t>, std::vector<std::int64_t>, std::int64_t>, int>
            known;
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
            all[at->second].users.push_back({p.node, static_cast<int>(i), p.reads(), p.writes()});
            all[at->second].written |= p.writes();
        }
        for (Region& region : all)
            std::stable_sort(region.users.begin(), region.users.end(),
                             [](const User& a, const User& b) { return a.node < b.node; });
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
inline void sortByNode(std::vector<Hazard>& some) {
    const auto before = [](const Hazard& a, const Hazard& b) { return a.dst < b.dst; };
    if (std::is_sorted(some.begin(), some.end(), before)) return;
    const auto [low, high] = std::minmax_element(some.begin(), some.end(), before);
    const std::size_t first = low->dst, span = high->dst - low->dst + 1;
    if (span > 4 * some.size()) return std::stable_sort(some.begin(), some.end(), before);
    std::vector<int> next(span + 1);
    for (const Hazard& h : some) ++next[h.dst - first + 1];
    for (std::size_t i = 1; i <= span; ++i) next[i] += next[i - 1];
    std::vector<Hazard> sorted(some.size());
    for (const Hazard& h : some) sorted[next[h.dst - first]++] = h;
    some.swap(sorted);
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
    /// (group, branch) of a node.
    const std::vector<std::pair<int, int>>& of(int node) const {
        static const std::vector<std::pair<int, int>> none;
        return grouped(node) ? of_[node] : none;
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

/// Finds the hazards between nodes, which run in the order of their numbers, without keeping them: a chain has one
/// between every two nodes. Pairs in different branches of one of `groups` are left out; with `apart` they are all
/// there is.
class Hazards {
public:
    explicit Hazards(std::vector<PlaneRef> planes, const std::vector<Group>& groups = {}, bool apart = false)
        : planes_(std::move(planes)), regions_(planes_), branches_(groups), apart_(apart), slot_(planes_.size()) {
        for (std::size_t i = 0; i < planes_.size(); ++i) {
            if (planes_[i].node < 0) throw std::invalid_argument("eagle::graph::PlaneRef: found a node below 0");
            if (planes_[i].node >= nodes()) own_.resize(planes_[i].node + 1);
            std::vector<int>& mine = own_[planes_[i].node];
            mine.push_back(static_cast<int>(i));
            while (planes_[mine[slot_[i]]].name != planes_[i].name) ++slot_[i];
        }
        if (!apart_) return;
        touched_.resize(regions_.all.size());
        for (std::size_t i = 0; i < touched_.size(); ++i)
            for (const detail::User& user : regions_.all[i].users)
                for (const auto& [group, branch] : branches_.of(user.node)) {
                    const auto [known, added] = touched_[i].try_emplace(group, branch);
                    if (!added && known->second != branch) known->second = kSeveral;
                }
    }

    const std::vector<PlaneRef>& planes() const { return planes_; }
    /// One more than the last node that a plane belongs to.
    int nodes() const { return static_cast<int>(own_.size()); }

    /// Calls `fn` with every hazard, once for each (src, dst, name of src's plane, kind): by src, dst, then for each
    /// plane that src writes RAW and WAW, then for each that it reads WAR. Stops where `fn` returns false.
    template <class Fn>
    void each(Fn fn) const {
        std::vector<Hazard> some;
        for (int src = 0; src < nodes(); ++src) {
            of(src, some);
            for (const Hazard& h : some)
                if (!fn(h)) return;
        }
    }

    /// Those of a src, in that order.
    void of(int src, std::vector<Hazard>& some) const {
        some.clear();
        visit(src, [&](int plane, const detail::User& user, EdgeKind kind) {
            some.push_back({src, user.node, plane, user.plane, kind});
        });
        detail::sortByNode(some);
        std::vector<int> seen(3 * own_[src].size(), -1);  // the dst that each (name, kind) last led to
        std::erase_if(some, [&](const Hazard& h) {
            return std::exchange(seen[3 * slot_[h.plane] + static_cast<int>(h.kind)], h.dst) == h.dst;
        });
    }

    /// The nodes that wait for `src`, in order.
    void after(int src, std::vector<int>& some) const {
        some.clear();
        visit(src, [&](int, const detail::User& user, EdgeKind) { some.push_back(user.node); });
        if (!std::is_sorted(some.begin(), some.end())) std::sort(some.begin(), some.end());
        some.erase(std::unique(some.begin(), some.end()), some.end());
    }

private:
    template <class Fn>
    void visit(int src, Fn fn) const {
        const bool grouped = branches_.grouped(src);
        if (apart_ && !grouped) return;
        const auto collect = [&](int plane, bool theirReads, EdgeKind kind) {
            for (const int meets : regions_.all[regions_.of[plane]].meets) {
                if (!theirReads && !regions_.all[meets].written) continue;
                if (apart_ && !mayBeApart(regions_.of[plane], meets)) continue;
                const std::vector<detail::User>& users = regions_.all[meets].users;
                auto user = std::upper_bound(users.begin(), users.end(), src,
                                             [](int node, const detail::User& other) { return node < other.node; });
                for (; user != users.end(); ++user) {
                    if (!(theirReads ? user->reads : user->writes)) continue;
                    if (grouped && branches_.apart(src, user->node) != apart_) continue;
                    fn(plane, *user, kind);
                }
            }
        };
        for (const int plane : own_[src])
            if (planes_[plane].writes()) {
                collect(plane, true, EdgeKind::Raw);
                collect(plane, false, EdgeKind::Waw);
            }
        for (const int plane : own_[src])
            if (planes_[plane].reads()) collect(plane, false, EdgeKind::War);
    }

    /// Whether branches of one group use the two regions.
    bool mayBeApart(int one, int other) const {
        return std::any_of(touched_[one].begin(), touched_[one].end(), [&](const auto& in) {
            const auto also = touched_[other].find(in.first);
            return also != touched_[other].end() && (in.second == kSeveral || in.second != also->second);
        });
    }

    static constexpr int kSeveral = -1;

    std::vector<PlaneRef> planes_;
    detail::Regions regions_;
    detail::Branches branches_;
    bool apart_;
    std::vector<std::vector<int>> own_;        // planes of each node
    std::vector<int> slot_;                    // of each plane: the first of its name among its node's planes
    std::vector<std::map<int, int>> touched_;  // of each region: the branch of each group that uses it, or kSeveral
};

/// Every hazard, by name, in the order of Hazards::each.
inline std::vector<Edge> deriveEdges(const std::vector<PlaneRef>& planes, const std::vector<Group>& groups = {}) {
    std::vector<Edge> edges;
    Hazards(planes, groups).each([&](const Hazard& h) {
        edges.push_back({h.src, h.dst, planes[h.plane].name, h.kind});
        return true;
    });
    return edges;
}

/// What keeps branches of groups from running at the same time: the hazards between them, in the order of edges.
inline std::vector<Conflict> siblingConflicts(const std::vector<PlaneRef>& planes, const std::vector<Group>& groups) {
    std::vector<Conflict> found;
    Hazards(planes, groups, true).each([&](const Hazard& h) {
        found.push_back({h.src, h.dst, planes[h.plane].name, planes[h.other].name, h.kind});
        return true;
    });
    return found;
}

}  // namespace eagle::graph
