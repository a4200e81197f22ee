// Where everything of a picture goes, in cells: boxes, frames, runs, names, the gutter.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "eagle/graph/Cells.h"
#include "eagle/graph/Layout.h"
#include "eagle/graph/Reduced.h"

namespace eagle::graph {

struct PlaceOptions {
    bool unicode = true;   // false: texts in ASCII
    int maxLabel = 24;     // cells of a label; longer ones are cut
    bool wrap = false;     // or, by this, go on in the next line, as do names
    int bus = 1;           // rows in which runs turn
    int tips = 0;          // rows between a frame's labels and its boxes, where runs end beside the labels
    int beside = 0;        // cells from a source's centre to its names
    bool brackets = true;  // whether there are any
};

/// Cells from the left and the top.
struct Placement {
    struct Box {
        int x = 0, y = 0, w = 0, h = 0;
        std::vector<std::u32string> lines;

        int centre() const { return x + w / 2; }
    };
    /// Around the boxes of a conditional; w and h count its border.
    struct Border {
        int frame = 0;
        int x = 0, y = 0, w = 0, h = 0;
        std::u32string label;
    };
    /// The way from a node to another: x[0] is the source's centre, x.back() the target's, what is between them passes
    /// the layers between.
    struct Run {
        int src = 0, dst = 0;
        unsigned kinds = 0;  // a bit an EdgeKind
        std::vector<int> x;

        bool has(EdgeKind kind) const { return kinds >> static_cast<int>(kind) & 1; }
        /// RAW before WAR before WAW.
        EdgeKind strongest() const {
            return has(EdgeKind::Raw) ? EdgeKind::Raw : has(EdgeKind::War) ? EdgeKind::War : EdgeKind::Waw;
        }
    };
    /// The planes that leave a node, under it.
    struct Names {
        int node = 0, x = 0, y = 0;
        std::vector<std::u32string> lines;
    };
    struct Gutter {
        int x = 0, y = 0;
        std::u32string text;
    };
    /// Beside the layers of nodes that run together, of one number or several; the rows at which it reaches to the
    /// left.
    struct Bracket {
        int x = 0, tiles = 0;
        std::vector<int> rows;
    };
    /// The first row of each part of a layer; `end` is behind the last one.
    struct Rows {
        int borders = 0, boxes = 0, endings = 0, names = 0, bus = 0, end = 0;
    };

    std::vector<Box> boxes;  // of each node
    std::vector<Border> borders;
    std::vector<Run> runs;
    std::vector<Names> names;
    std::vector<Gutter> gutter;
    std::vector<Bracket> brackets;
    int bracketed = 0;       // the column from which they reach to the right
    std::vector<Rows> rows;  // of each layer
    int width = 0, height = 0;
};

namespace detail {

class Placer {
public:
    Placer(const Description& d, const Layout& l, const PlaceOptions& options)
        : d_(d), l_(l), options_(options), together_(d.hidden + d.edges.size() > kDrawnEdges) {
        for (const Frame& frame : d.frames) {
            std::vector<int> around;  // conditionals, the outermost first
            for (int at = frame.id; at >= 0; at = d.frames[at].parent)
                if (!d.frames[at].stage()) around.insert(around.begin(), at);
            around_.push_back(std::move(around));
        }
    }

    Placement place() {
        placeLabels();
        collectRuns();
        for (std::size_t layer = 0; layer < l_.layers.size(); ++layer) {
            line_.push_back(itemsOf(layer));
            gather(line_.back());
            widen(line_.back());
        }
        placeColumns();
        placeRows();
        return std::move(p_);
    }

private:
    /// A box of a layer, or where runs pass between the boxes.
    struct Item {
        int node;  // -1: none
        std::vector<int> runs;
        int x = 0;
    };
    using Line = std::vector<Item>;

    const std::vector<int>& around(const Item& item) const {
        static const std::vector<int> none;
        const int frame = item.node < 0 ? -1 : d_.nodes[item.node].frame;
        return frame < 0 ? none : around_[frame];
    }
    int depth(const Item& item) const { return static_cast<int>(around(item).size()); }
    int width(const Item& item) const { return item.node < 0 ? 1 : p_.boxes[item.node].w; }
    int centre(const Item& item) const { return item.x + width(item) / 2; }

    std::u32string text(const std::string& utf8) const {
        const std::u32string out = decoded(utf8);
        return options_.unicode ? out : plain(out);
    }
    std::vector<std::u32string> label(const std::u32string& whole) const {
        if (options_.wrap) return wrapped(whole, options_.maxLabel);
        return {cut(whole, options_.maxLabel, options_.unicode ? U"…" : U"...")};
    }

    void placeLabels() {
        for (const Node& node : d_.nodes) {
            Placement::Box box;
            box.lines = label(text(node.label));
            if (node.own && !options_.wrap) box.lines[0] = U'<' + box.lines[0] + U'>';
            int widest = 0;
            for (const std::u32string& line : box.lines) widest = std::max(widest, cells(line));
            box.w = widest + 4 + (widest % 2 == 0);
            box.h = static_cast<int>(box.lines.size()) + 2;
            p_.boxes.push_back(std::move(box));
        }
        for (const Frame& frame : d_.frames) {
            const std::u32string whole = text(frame.label);
            titles_.push_back(options_.wrap ? whole : label(whole)[0]);
        }
    }

    void collectRuns() {
        std::map<Pair, int> known;
        std::vector<std::vector<std::string>> planes(d_.nodes.size());
        for (const Edge& edge : d_.edges) {
            const auto [at, added] = known.try_emplace({edge.src, edge.dst}, static_cast<int>(p_.runs.size()));
            if (added) p_.runs.push_back({edge.src, edge.dst, 0, {}});
            p_.runs[at->second].kinds |= 1u << static_cast<int>(edge.kind);
            std::vector<std::string>& mine = planes[edge.src];
            if (!edge.plane.empty() && std::find(mine.begin(), mine.end(), edge.plane) == mine.end())
                mine.push_back(edge.plane);
        }
        std::sort(p_.runs.begin(), p_.runs.end(),
                  [](const auto& a, const auto& b) { return Pair(a.src, a.dst) < Pair(b.src, b.dst); });
        from_.resize(d_.nodes.size());
        for (std::size_t r = 0; r < p_.runs.size(); ++r) from_[p_.runs[r].src].push_back(static_cast<int>(r));
        names_.resize(d_.nodes.size());
        for (std::size_t i = 0; i < planes.size(); ++i) {
            std::string joined;
            for (const std::string& plane : planes[i]) joined += (joined.empty() ? "" : ",") + plane;
            if (joined.empty()) continue;
            names_[i] = options_.wrap ? wrapped(text(joined), options_.maxLabel) : std::vector{text(joined)};
        }
    }

    /// The boxes of a layer in their order, and behind each what passes by the box above it.
    Line itemsOf(std::size_t layer) const {
        std::vector<std::pair<int, Item>> placed;  // twice the place, odd for what passes
        for (const int node : l_.layers[layer]) placed.push_back({2 * l_.order[node], {node, {}}});
        if (layer > 0)
            for (std::size_t i = 0; i < line_.back().size(); ++i) {
                const Item& above = line_.back()[i];
                std::vector<int> through;
                for (const int run : above.node < 0 ? above.runs : from_[above.node])
                    if (l_.layer[p_.runs[run].dst] > static_cast<int>(layer)) through.push_back(run);
                const int place = 2 * static_cast<int>(i) + 1;
                if (together_ && !through.empty())
                    placed.push_back({place, {-1, through}});
                else
                    for (const int run : through) placed.push_back({place, {-1, {run}}});
            }
        std::stable_sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        Line line;
        for (auto& [place, item] : placed) line.push_back(std::move(item));
        return line;
    }

    /// The boxes of a frame side by side, at the place of the first one.
    void gather(Line& line) const {
        std::size_t deepest = 0;
        for (const Item& item : line) deepest = std::max(deepest, around(item).size());
        for (std::size_t level = 0; level < deepest; ++level) {
            Line sorted;
            std::vector<char> done(line.size());
            for (std::size_t i = 0; i < line.size(); ++i) {
                if (done[i]) continue;
                sorted.push_back(line[i]);
                if (around(line[i]).size() <= level) continue;
                for (std::size_t j = i + 1; j < line.size(); ++j)
                    if (!done[j] && around(line[j]).size() > level &&
                        around(line[j])[level] == around(line[i])[level]) {
                        sorted.push_back(line[j]);
                        done[j] = 1;
                    }
            }
            line.swap(sorted);
        }
    }

    /// Makes the first box of a frame wide enough for the frame's label.
    void widen(const Line& line) {
        struct Span {
            int first, width;
        };
        std::map<int, Span> spans;
        for (const Item& item : line)
            for (const int frame : around(item)) {
                const auto [at, added] = spans.try_emplace(frame, Span{item.node, width(item)});
                if (!added) at->second.width += 3 + width(item);
            }
        for (const auto& [frame, span] : spans) {
            const int title = cells(titles_[frame]), missing = (options_.tips ? 2 * title : title) + 2 - span.width;
            if (missing <= 0) continue;
            const int more = missing + missing % 2;
            p_.boxes[span.first].w += more;
            for (auto& [other, inside] : spans)
                if (inside.first == span.first) inside.width += more;
        }
    }

    static int widest(const std::vector<std::u32string>& lines) {
        int most = 0;
        for (const std::u32string& line : lines) most = std::max(most, cells(line));
        return most;
    }

    void placeColumns() {
        std::vector<int> widths;
        for (Line& line : line_) {
            int free = 0;  // the first column for the next way down
            int end = 0;
            for (std::size_t i = 0; i < line.size(); ++i) {
                Item& item = line[i];
                if (i == 0) {
                    item.x = 2 * depth(item);
                } else {
                    const std::vector<int>&before = around(line[i - 1]), &here = around(item);
                    std::size_t shared = 0;
                    while (shared < before.size() && shared < here.size() && before[shared] == here[shared]) ++shared;
                    item.x = end + 3 + 2 * static_cast<int>(before.size() + here.size() - 2 * shared);
                }
                if (item.node < 0 || !from_[item.node].empty()) item.x += std::max(0, free - centre(item));
                if (item.node >= 0 && !names_[item.node].empty())
                    free = centre(item) + options_.beside + widest(names_[item.node]) + 1;
                end = item.x + width(item);
            }
            widths.push_back(line.empty() ? 0 : std::max(end + 2 * depth(line.back()), free ? free + 1 : 0));
            p_.width = std::max(p_.width, widths.back());
        }
        placeGutter();
        int margin = 0;
        for (const Placement::Gutter& g : p_.gutter) margin = std::max(margin, g.x + cells(g.text) + 1);
        if (options_.brackets) margin = placeBrackets(margin);
        for (std::size_t layer = 0; layer < line_.size(); ++layer)
            for (Item& item : line_[layer]) {
                item.x += margin + (p_.width - widths[layer]) / 2;
                if (item.node >= 0) p_.boxes[item.node].x = item.x;
            }
        p_.width += margin;
        for (Placement::Run& run : p_.runs) run.x.push_back(p_.boxes[run.src].centre());
        for (const Line& line : line_)
            for (const Item& item : line)
                for (const int run : item.runs) p_.runs[run].x.push_back(item.x);
        for (Placement::Run& run : p_.runs) run.x.push_back(p_.boxes[run.dst].centre());
    }

    /// The texts; their rows are not known yet, but their layers are.
    void placeGutter() {
        std::map<int, std::pair<int, const std::string*>> stages;  // the first layer, the schedule that all share
        static const std::string none;
        for (const Node& node : d_.nodes) {
            const auto [at, added] =
                stages.try_emplace(l_.stage[node.id], std::pair(l_.layer[node.id], &node.schedule));
            at->second.first = std::min(at->second.first, l_.layer[node.id]);
            if (*at->second.second != node.schedule) at->second.second = &none;
        }
        for (const auto& [stage, facts] : stages) {
            const std::string schedule = facts.second->empty() ? "" : " " + *facts.second;
            p_.gutter.push_back({2, facts.first, text("stage " + std::to_string(stage) + schedule)});
        }
    }

    /// Those that overlap stand side by side, and nodes of the same layers share one. Returns the column behind them;
    /// their rows are layers as yet.
    int placeBrackets(int margin) {
        std::map<int, std::set<int>> tiles;
        for (const Node& node : d_.nodes)
            if (node.tile >= 0) tiles[node.tile].insert(l_.layer[node.id]);
        std::map<std::vector<int>, int> spans;
        for (const auto& [tile, layers] : tiles) ++spans[{layers.begin(), layers.end()}];
        std::vector<int> ends;  // of the brackets in each column
        for (const auto& [layers, count] : spans) {
            std::size_t column = 0;
            while (column < ends.size() && ends[column] >= layers.front()) ++column;
            if (column == ends.size()) ends.push_back(0);
            ends[column] = layers.back();
            p_.brackets.push_back({margin + 1 + static_cast<int>(column), count, layers});
        }
        p_.bracketed = margin;
        return ends.empty() ? margin : margin + static_cast<int>(ends.size()) + 2;
    }

    void placeRows() {
        struct Extent {
            int first, last, left, right;
        };
        std::map<int, Extent> frames;
        for (std::size_t layer = 0; layer < line_.size(); ++layer)
            for (const Item& item : line_[layer]) {
                int out = 2 * depth(item);
                for (const int frame : around(item)) {
                    const int row = static_cast<int>(layer), left = item.x - out, right = item.x + width(item) + out;
                    auto& e = frames.try_emplace(frame, Extent{row, row, left, right}).first->second;
                    e = {e.first, row, std::min(e.left, left), std::max(e.right, right)};
                    out -= 2;
                }
            }
        // Borders of one layer are stacked: inside[frame] is how many of those that it holds begin (end) in its layer.
        std::map<int, int> above, below;
        std::vector<int> most(line_.size()), least(line_.size());
        const auto stack = [&](int frame, std::map<int, int>& levels, int Extent::* row, std::vector<int>& deepest) {
            int level = 1;
            for (int at = frame; at >= 0; at = d_.frames[at].parent, ++level) {
                while (at >= 0 && d_.frames[at].stage()) at = d_.frames[at].parent;
                if (at < 0 || frames.at(at).*row != frames.at(frame).*row) break;
                levels[at] = std::max(levels[at], level);
                deepest[frames.at(at).*row] = std::max(deepest[frames.at(at).*row], level);
            }
        };
        for (const auto& [frame, extent] : frames) {
            stack(frame, above, &Extent::first, most);
            stack(frame, below, &Extent::last, least);
        }
        int y = 0;
        for (std::size_t layer = 0; layer < line_.size(); ++layer) {
            int tallest = 0, lines = 1;
            for (const int node : l_.layers[layer]) {
                tallest = std::max(tallest, p_.boxes[node].h);
                if (!names_[node].empty()) lines = std::max(lines, static_cast<int>(names_[node].size()));
            }
            const bool last = layer + 1 == line_.size();
            Placement::Rows rows;
            rows.borders = y;
            rows.boxes = rows.borders + most[layer] + (most[layer] ? options_.tips : 0);
            rows.endings = rows.boxes + tallest;
            rows.names = rows.endings + least[layer];
            rows.bus = rows.names + (last ? 0 : lines);
            rows.end = y = rows.bus + (last ? 0 : options_.bus);
            for (const int node : l_.layers[layer]) {
                Placement::Box& box = p_.boxes[node];
                box.y = rows.boxes;
                box.h = tallest;
                if (!names_[node].empty())
                    p_.names.push_back({node, box.centre() + options_.beside, rows.names, std::move(names_[node])});
            }
            p_.rows.push_back(rows);
        }
        p_.height = y;
        for (Placement::Gutter& g : p_.gutter) g.y = p_.rows[g.y].boxes;
        for (Placement::Bracket& b : p_.brackets) {
            const int last = b.rows.back();
            for (int& row : b.rows) row = p_.rows[row].boxes;
            if (b.rows.size() == 1) b.rows.push_back(p_.rows[last].endings - 1);
        }
        for (const auto& [frame, e] : frames) {
            const int top = p_.rows[e.first].boxes - options_.tips - above[frame],
                      bottom = p_.rows[e.last].endings + below[frame];
            p_.borders.push_back({frame, e.left, top, e.right - e.left, bottom - top, titles_[frame]});
        }
    }

    const Description& d_;
    const Layout& l_;
    const PlaceOptions options_;
    const bool together_;                   // runs of one source pass layers as one
    std::vector<std::vector<int>> around_;  // of each frame: it and those it is in, without the stages
    std::vector<std::u32string> titles_;    // of each frame
    std::vector<std::vector<int>> from_;    // of each node: the runs that leave it
    std::vector<std::vector<std::u32string>> names_;
    std::vector<Line> line_;  // of each layer
    Placement p_;
};

}  // namespace detail

/// Places what a description shows. `l` is its layout.
inline Placement place(const Description& d, const Layout& l, const PlaceOptions& options = {}) {
    return detail::Placer(d, l, options).place();
}

}  // namespace eagle::graph
