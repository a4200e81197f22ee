// A graph as text.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "eagle/graph/Cells.h"
#include "eagle/graph/Layout.h"
#include "eagle/graph/Placement.h"
#include "eagle/graph/Reduced.h"

namespace eagle::graph {

namespace detail {

/// Lines and texts on a grid of cells.
class Canvas {
public:
    Canvas(int width, int height, bool unicode)
        : width_(width), unicode_(unicode), cells_(static_cast<std::size_t>(width) * height), texts_(height) {}

    void down(int x, int from, int to, EdgeKind kind = EdgeKind::Raw) {
        for (int y = from; y < to; ++y) {
            mark(x, y).set(kDown, kind);
            mark(x, y + 1).set(kUp, kind);
        }
    }
    void across(int y, int from, int to, EdgeKind kind = EdgeKind::Raw) {
        for (int x = std::min(from, to); x < std::max(from, to); ++x) {
            mark(x, y).set(kRight, kind);
            mark(x + 1, y).set(kLeft, kind);
        }
    }
    void box(int x, int y, int w, int h, bool frame) {
        across(y, x, x + w - 1);
        across(y + h - 1, x, x + w - 1);
        down(x, y, y + h - 1);
        down(x + w - 1, y, y + h - 1);
        if (frame)
            for (int i = 0; i < w; ++i) mark(x + i, y).frame = mark(x + i, y + h - 1).frame = true;
    }
    void text(int x, int y, std::u32string text) { texts_[y].emplace_back(x, std::move(text)); }

    std::string str() {
        std::string out;
        for (std::size_t y = 0; y < texts_.size(); ++y) {
            std::stable_sort(texts_[y].begin(), texts_[y].end(),
                             [](const auto& a, const auto& b) { return a.first < b.first; });
            auto next = texts_[y].begin();
            const std::size_t start = out.size();
            for (int x = 0; x < width_;) {
                if (next != texts_[y].end() && next->first <= x) {
                    if (next->first == x) {
                        out += encoded(next->second);
                        x += cells(next->second);
                    }
                    ++next;
                } else {
                    append(out, glyph(mark(x++, static_cast<int>(y))));
                }
            }
            while (out.size() > start && out.back() == ' ') out.pop_back();
            out += '\n';
        }
        return out;
    }

private:
    enum Way { kUp, kDown, kLeft, kRight };

    struct Mark {
        std::uint8_t kinds = 0xFF;  // two bits a way: an EdgeKind, 3 for no line; the strongest stays
        bool frame = false;

        int at(Way way) const { return kinds >> 2 * way & 3; }
        bool has(Way way) const { return at(way) != 3; }
        int stronger(Way a, Way b) const { return at(a) < at(b) ? at(a) : at(b); }
        void set(Way way, EdgeKind kind) {
            const int strongest = std::min(at(way), static_cast<int>(kind));
            kinds = static_cast<std::uint8_t>((kinds & ~(3 << 2 * way)) | strongest << 2 * way);
        }
    };

    Mark& mark(int x, int y) { return cells_[static_cast<std::size_t>(y) * width_ + x]; }

    char32_t glyph(const Mark& m) const {
        if (m.kinds == 0xFF) return U' ';
        const bool up = m.has(kUp), down = m.has(kDown), left = m.has(kLeft), right = m.has(kRight);
        if (!left && !right) return (unicode_ ? U"│:!" : U"|:!")[m.stronger(kUp, kDown)];
        if (!up && !down) {
            const int kind = m.stronger(kLeft, kRight);
            return unicode_ ? U"─.~"[kind] : m.frame ? U'=' : U"-.~"[kind];
        }
        if (!unicode_) return U'+';
        constexpr char32_t corners[] =
            U"????"
            U"?┘└┴"
            U"?┐┌┬"
            U"?┤├┼";
        return corners[(up + 2 * down) * 4 + left + 2 * right];
    }

    int width_;
    bool unicode_;
    std::vector<Mark> cells_;
    std::vector<std::vector<std::pair<int, std::u32string>>> texts_;  // of each row
};

inline void drawRun(Canvas& canvas, const Placement& p, const Layout& l, const Placement::Run& run) {
    const EdgeKind kind = run.strongest();
    const std::size_t first = l.layer[run.src];
    int y = p.rows[first].endings - 1;
    for (std::size_t k = 0; k + 1 < run.x.size(); ++k) {
        const int bus = p.rows[first + k].bus;
        canvas.down(run.x[k], y, bus, kind);
        canvas.across(bus, run.x[k], run.x[k + 1], kind);
        y = bus;
    }
    canvas.down(run.x.back(), y, p.rows[l.layer[run.dst]].boxes, kind);
}

}  // namespace detail

/// A graph as lines of text. Labels have up to maxLabel cells; `unicode` false: ASCII. What the lines mean is said
/// below where not all are data that flows, as are edges that are left out (kDrawnEdges).
inline std::string ascii(const Description& whole, const Layout& l, bool unicode = true, int maxLabel = 24) {
    if (whole.nodes.empty()) return "  (empty)\n";
    const Description d = reduced(whole);
    const Placement p = place(d, l, {unicode, std::max(maxLabel, 1)});
    detail::Canvas canvas(p.width, p.height, unicode);
    for (const Placement::Border& b : p.borders) {
        canvas.box(b.x, b.y, b.w, b.h, true);
        canvas.text(b.x + 2, b.y, U' ' + b.label + U' ');
    }
    for (const Placement::Box& box : p.boxes) {
        canvas.box(box.x, box.y, box.w, box.h, false);
        canvas.text(box.x + 1 + (box.w - 2 - detail::cells(box.lines[0])) / 2, box.y + 1, box.lines[0]);
    }
    bool drawn[3] = {};
    for (const Placement::Run& run : p.runs) {
        detail::drawRun(canvas, p, l, run);
        drawn[static_cast<int>(run.strongest())] = true;
    }
    for (const Placement::Names& names : p.names) canvas.text(names.x, names.y, names.lines[0]);
    for (const Placement::Gutter& g : p.gutter) canvas.text(g.x, g.y, g.text);
    for (const Placement::Bracket& b : p.brackets) {
        canvas.down(b.x, b.rows.front(), b.rows.back());
        for (const int row : b.rows) canvas.across(row, p.bracketed, b.x);
    }
    std::string out = canvas.str();
    if (drawn[1] || drawn[2]) {
        out += "  edges:";
        for (const EdgeKind kind : kEdgeKinds) {
            if (!drawn[static_cast<int>(kind)]) continue;
            const char* glyph = kind == EdgeKind::Raw ? (unicode ? "──" : "--") : kind == EdgeKind::War ? ".." : "~~";
            out += std::string("  ") + glyph + " " + kindName(kind) + " " + kindMeaning(kind);
        }
        out += "\n";
    }
    if (!p.brackets.empty()) {
        const bool several =
            std::any_of(p.brackets.begin(), p.brackets.end(), [](const auto& b) { return b.tiles > 1; });
        out += std::string("  stages:  ") + (unicode ? "─┐ ─┘" : "-+ -+") + " run together, tile by tile" +
               (several ? ", in a group each branch by itself\n" : "\n");
    }
    if (d.hidden > 0) out += "  not drawn: " + std::to_string(d.hidden) + " edges that a path of these implies\n";
    return out;
}

inline std::string ascii(const Description& d) {
    const Description drawn = reduced(d);
    return ascii(drawn, layout(drawn));
}

}  // namespace eagle::graph
