// A graph in the languages of Mermaid and Graphviz.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "eagle/graph/Cells.h"
#include "eagle/graph/Reduced.h"

namespace eagle::graph {

namespace detail {

/// A text on one line, with some of its characters spelt in another way.
template <class Spell>
std::string spelt(const std::string& text, Spell spell) {
    std::string out;
    for (const char32_t c : decoded(text))
        if (const char* other = spell(c))
            out += other;
        else
            append(out, c);
    return out;
}

inline std::string mermaidText(const std::string& text) {
    return spelt(text, [](char32_t c) { return c == U'"' ? "#quot;" : nullptr; });
}

inline std::string dotText(const std::string& text) {
    return spelt(text, [](char32_t c) { return c == U'"' ? "\\\"" : c == U'\\' ? "\\\\" : nullptr; });
}

/// How a node runs, in words.
inline std::string manner(const Node& node) {
    if (node.tile < 0) return node.schedule;
    return node.schedule + (node.schedule.empty() ? "tile " : ", tile ") + std::to_string(node.tile);
}

/// Nodes by their frames: `node` is called with a node and an indent, `open` and `close` with a frame's number and
/// more.
template <class OnNode, class Open, class Close>
void nested(const Description& d, OnNode node, Open open, Close close) {
    const auto conditional = [&](int frame) {  // the innermost one from here outwards
        while (frame >= 0 && d.frames[frame].stage()) frame = d.frames[frame].parent;
        return frame;
    };
    std::vector<std::vector<int>> nodes(d.frames.size() + 1), inside(d.frames.size() + 1);
    std::vector<int> number(d.frames.size(), -1);
    int next = 0;
    for (const Node& n : d.nodes) nodes[conditional(n.frame) + 1].push_back(n.id);
    for (const Frame& frame : d.frames) {
        if (frame.stage()) continue;
        number[frame.id] = next++;
        inside[conditional(frame.parent) + 1].push_back(frame.id);
    }
    const auto visit = [&](const auto& self, int frame, const std::string& indent) -> void {
        for (const int id : nodes[frame + 1]) node(d.nodes[id], indent);
        for (const int id : inside[frame + 1]) {
            open(d.frames[id], number[id], indent);
            self(self, id, indent + "  ");
            close(indent);
        }
    };
    visit(visit, -1, "  ");
}

inline std::string notDrawn(const Description& d, const char* comment) {
    if (d.hidden == 0) return {};
    return std::string("  ") + comment + " not drawn: " + std::to_string(d.hidden) +
           " edges that a path of these implies\n";
}

}  // namespace detail

/// A flowchart of Mermaid. The edges are those of drawnEdges.
inline std::string mermaid(const Description& whole) {
    const Description d = reduced(whole);
    d.validate();
    using detail::mermaidText;
    std::string out = "flowchart TD\n", own;
    detail::nested(
        d,
        [&](const Node& node, const std::string& indent) {
            const std::string manner = detail::manner(node);
            out += indent + "n" + std::to_string(node.id) + "[\"" + mermaidText(node.label) +
                   (manner.empty() ? "" : "<br/>" + mermaidText(manner)) + "\"]\n";
        },
        [&](const Frame& frame, int number, const std::string& indent) {
            out += indent + "subgraph f" + std::to_string(number) + "[\"" + mermaidText(frame.label) + "\"]\n";
        },
        [&](const std::string& indent) { out += indent + "end\n"; });
    for (const Edge& edge : d.edges) {
        const char* arrow = edge.kind == EdgeKind::Raw ? " -->" : edge.kind == EdgeKind::War ? " -.->" : " ==>";
        const std::string plane = edge.plane.empty() ? "" : "|\"" + mermaidText(edge.plane) + "\"|";
        out += "  n" + std::to_string(edge.src) + arrow + plane + " n" + std::to_string(edge.dst) + "\n";
    }
    out += detail::notDrawn(d, "%%");
    for (const Node& node : d.nodes)
        if (node.own) own += (own.empty() ? "n" : ",n") + std::to_string(node.id);
    if (!own.empty()) out += "  classDef opaque stroke-dasharray: 4 2\n  class " + own + " opaque\n";
    return out;
}

/// A digraph of Graphviz. The edges are those of drawnEdges.
inline std::string dot(const Description& whole) {
    const Description d = reduced(whole);
    d.validate();
    using detail::dotText;
    std::string out = "digraph eagle {\n  rankdir=TB;\n  node [shape=box];\n";
    detail::nested(
        d,
        [&](const Node& node, const std::string& indent) {
            const std::string manner = detail::manner(node);
            out += indent + "n" + std::to_string(node.id) + " [label=\"" + dotText(node.label) +
                   (manner.empty() ? "" : "\\n" + dotText(manner)) + "\"" + (node.own ? ", style=dashed" : "") + "];\n";
        },
        [&](const Frame& frame, int number, const std::string& indent) {
            out += indent + "subgraph cluster_f" + std::to_string(number) + " {\n" + indent + "  label=\"" +
                   dotText(frame.label) + "\";\n";
        },
        [&](const std::string& indent) { out += indent + "}\n"; });
    for (const Edge& edge : d.edges) {
        const char* style = edge.kind == EdgeKind::Raw ? "solid" : edge.kind == EdgeKind::War ? "dashed" : "bold";
        out += "  n" + std::to_string(edge.src) + " -> n" + std::to_string(edge.dst) + " [label=\"" +
               dotText(edge.plane) + "\", style=" + style + "];\n";
    }
    out += detail::notDrawn(d, "//") + "}\n";
    return out;
}

}  // namespace eagle::graph
