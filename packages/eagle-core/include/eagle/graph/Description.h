// What a picture is made of: nodes, edges, frames.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace eagle::graph {

/// Why a node waits for an earlier one.
enum class EdgeKind { Raw, War, Waw };

inline constexpr EdgeKind kEdgeKinds[] = {EdgeKind::Raw, EdgeKind::War, EdgeKind::Waw};

inline constexpr const char* kindName(EdgeKind kind) {
    return kind == EdgeKind::Raw ? "RAW" : kind == EdgeKind::War ? "WAR" : "WAW";
}

inline constexpr const char* kindMeaning(EdgeKind kind) {
    return kind == EdgeKind::Raw ? "data flows" : kind == EdgeKind::War ? "must wait to overwrite" : "same output";
}

/// The kind of a name as kindName gives it; invalid_argument for any other.
inline EdgeKind parseEdgeKind(std::string_view name) {
    for (const EdgeKind kind : kEdgeKinds)
        if (name == kindName(kind)) return kind;
    throw std::invalid_argument("eagle::graph::parseEdgeKind: found \"" + std::string(name) +
                                "\", wanted RAW, WAR or WAW");
}

/// `dst` comes after `src`, for the sake of the plane that src calls `plane`.
struct Edge {
    int src = 0, dst = 0;
    std::string plane;
    EdgeKind kind = EdgeKind::Raw;

    friend bool operator==(const Edge&, const Edge&) = default;
};

/// A piece of work. Texts are UTF-8.
struct Node {
    int id = 0;  // its position
    std::string label, kind;
    std::string schedule;  // how it runs; empty as long as nobody knows
    int frame = -1;        // the innermost frame around it
    bool own = false;      // the user's code
    int tile = -1;         // those of one number run together, tile by tile
};

/// What holds nodes together: a stage (kind "stage"), or a conditional, which is drawn around its nodes.
struct Frame {
    int id = 0;  // its position
    std::string kind, label;
    int parent = -1;

    bool stage() const { return kind == "stage"; }
};

/// A graph as it is drawn.
struct Description {
    std::vector<Node> nodes;
    std::vector<Edge> edges;
    std::vector<Frame> frames;
    std::size_t hidden = 0;  // edges of the graph that are not among these

    /// invalid_argument for an id that is not the position, an edge or frame that leads nowhere, an edge from a node to
    /// itself, and circles of edges or frames.
    void validate() const;
};

namespace detail {

[[noreturn]] inline void refuse(const std::string& what, const std::string& wanted) {
    throw std::invalid_argument("eagle::graph::Description: found " + what + ", wanted " + wanted);
}

template <class T>
void checkIds(const std::vector<T>& items, const char* what) {
    for (std::size_t i = 0; i < items.size(); ++i)
        if (items[i].id != static_cast<int>(i))
            refuse(std::string(what) + " " + std::to_string(i) + " with id " + std::to_string(items[i].id),
                   "its position as id");
}

}  // namespace detail

inline void Description::validate() const {
    using detail::refuse;
    const int count = static_cast<int>(nodes.size()), framed = static_cast<int>(frames.size());
    detail::checkIds(nodes, "node");
    detail::checkIds(frames, "frame");
    for (const Node& node : nodes)
        if (node.frame < -1 || node.frame >= framed)
            refuse("node " + std::to_string(node.id) + " in frame " + std::to_string(node.frame),
                   "one of " + std::to_string(framed) + " frames, or -1");
    for (const Frame& frame : frames)
        if (frame.parent < -1 || frame.parent >= framed)
            refuse("frame " + std::to_string(frame.id) + " in frame " + std::to_string(frame.parent),
                   "one of " + std::to_string(framed) + " frames, or -1");
    std::vector<char> rooted(frames.size());  // known to end at a frame without a parent
    for (const Frame& frame : frames) {
        int steps = 0;
        for (int at = frame.id; at >= 0 && !rooted[at]; at = frames[at].parent)
            if (++steps > framed) refuse("frame " + std::to_string(frame.id) + " inside itself", "a tree of frames");
        for (int at = frame.id; at >= 0 && !rooted[at]; at = frames[at].parent) rooted[at] = 1;
    }
    std::vector<int> waits(nodes.size()), ready;
    std::vector<std::vector<int>> after(nodes.size());
    for (const Edge& edge : edges) {
        const std::string shown = "an edge from node " + std::to_string(edge.src) + " to " + std::to_string(edge.dst);
        if (edge.src < 0 || edge.src >= count || edge.dst < 0 || edge.dst >= count)
            refuse(shown, "two of " + std::to_string(count) + " nodes");
        if (edge.src == edge.dst) refuse(shown, "two nodes");
        after[edge.src].push_back(edge.dst);
        ++waits[edge.dst];
    }
    for (int i = 0; i < count; ++i)
        if (waits[i] == 0) ready.push_back(i);
    for (std::size_t k = 0; k < ready.size(); ++k)
        for (const int next : after[ready[k]])
            if (--waits[next] == 0) ready.push_back(next);
    if (ready.size() < nodes.size()) refuse("nodes that wait for each other", "edges without a circle");
}

}  // namespace eagle::graph
