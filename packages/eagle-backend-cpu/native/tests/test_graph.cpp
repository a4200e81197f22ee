// eagle/graph.h: edges, layouts and pictures.
//
// SPDX-License-Identifier: Apache-2.0
#include "eagle/graph.h"

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"

using namespace eagle::graph;

namespace {

template <class Fn>
std::string refusal(Fn fn) {
    try {
        fn();
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return {};
}

std::string invalid(Description d) {
    return refusal([&] { d.validate(); });
}

Node node(const Description& d, const char* label) {
    return {static_cast<int>(d.nodes.size()), label, "launch", "", -1, false};
}

Description fork() {
    return {{{0, "up", "opaque", "work_share", 0, true},
             {1, "dn", "opaque", "work_share", 0, true},
             {2, "mix", "skippable", "work_share", 2, true}},
            {{0, 2, "u", EdgeKind::Raw}, {1, 2, "d", EdgeKind::Raw}},
            {{0, "stage", "", -1}, {1, "stage", "", -1}, {2, "skippable", "skip if guard", 1}},
            0};
}

void kinds() {
    for (const EdgeKind kind : kEdgeKinds) CHECK(parseEdgeKind(kindName(kind)) == kind);
    CHECK(std::string(kindMeaning(EdgeKind::War)) == "must wait to overwrite");
    CHECK(refusal([] { parseEdgeKind("raw"); }).find("\"raw\"") != std::string::npos);
}

void validation() {
    CHECK(invalid(fork()).empty());
    Description d = fork();
    d.nodes[1].id = 7;
    CHECK(invalid(d).find("node 1 with id 7") != std::string::npos);
    d = fork();
    d.frames[2].id = 0;
    CHECK(invalid(d).find("frame 2 with id 0") != std::string::npos);
    d = fork();
    d.edges.push_back({0, 3, "x", EdgeKind::Raw});
    CHECK(invalid(d).find("from node 0 to 3") != std::string::npos);
    d = fork();
    d.nodes[0].frame = 3;
    CHECK(invalid(d).find("in frame 3") != std::string::npos);
    d = fork();
    d.frames[0].parent = -2;
    CHECK(invalid(d).find("in frame -2") != std::string::npos);
    d = fork();
    d.edges.push_back({1, 1, "x", EdgeKind::Raw});
    CHECK(invalid(d).find("from node 1 to 1") != std::string::npos);
    d = fork();
    d.edges.push_back({2, 0, "x", EdgeKind::Raw});
    CHECK(invalid(d).find("circle") != std::string::npos);
    d = fork();
    d.frames[1].parent = 2;
    CHECK(invalid(d).find("inside itself") != std::string::npos);
    for (const auto draw :
         {+[](const Description& e) { return ascii(e); }, +[](const Description& e) { return dot(e); },
          +[](const Description& e) { return mermaid(e); }})
        CHECK(!refusal([&] { draw(d); }).empty());
}

void layouts() {
    const Description d = fork();
    const Layout l = layout(d);
    CHECK((l.layer == std::vector<int>{0, 0, 1}));
    CHECK((l.xy == std::vector<std::array<double, 2>>{{-0.5, 0}, {0.5, 0}, {0, 1}}));
    // a -> d, b -> c: the sweep swaps c and d, none leaves them.
    Description crossed;
    for (const char* label : {"a", "b", "c", "d"}) crossed.nodes.push_back(node(crossed, label));
    crossed.edges = {{0, 3, "x", EdgeKind::Raw}, {1, 2, "y", EdgeKind::Raw}};
    CHECK(layout(crossed, 0).crossings == 1 && layout(crossed, 0).order[3] == 1);
    CHECK(layout(crossed).crossings == 0 && layout(crossed).order[3] == 0);
    // Stages lie below each other, also without edges, unless a node has none.
    Description staged;
    staged.nodes = {{0, "a", "", "", 0, false}, {1, "b", "", "", 1, false}};
    staged.frames = {{0, "stage", "", -1}, {1, "stage", "", -1}};
    CHECK((layout(staged).layer == std::vector<int>{0, 1}));
    staged.nodes[1].frame = -1;
    CHECK((layout(staged).layer == std::vector<int>{0, 0}));
    CHECK(layout({}).layers.empty());
}

void texts() {
    const Description d = fork();
    CHECK(ascii(d) ==
          "  stage 0 work_share ┌───────┐   ┌───────┐\n"
          "                     │ <up>  │   │ <dn>  │\n"
          "                     └───┬───┘   └───┬───┘\n"
          "                         u           d\n"
          "                         └─────┬─────┘\n"
          "                      ┌─ skip if guard ─┐\n"
          "  stage 1 work_share  │ ┌──────┴──────┐ │\n"
          "                      │ │    <mix>    │ │\n"
          "                      │ └─────────────┘ │\n"
          "                      └─────────────────┘\n");
    CHECK(ascii(d, layout(d), false) ==
          "  stage 0 work_share +-------+   +-------+\n"
          "                     | <up>  |   | <dn>  |\n"
          "                     +---+---+   +---+---+\n"
          "                         u           d\n"
          "                         +-----+-----+\n"
          "                      += skip if guard =+\n"
          "  stage 1 work_share  | +------+------+ |\n"
          "                      | |    <mix>    | |\n"
          "                      | +-------------+ |\n"
          "                      +=================+\n");
    CHECK(ascii({}) == "  (empty)\n");
    CHECK(mermaid({}) == "flowchart TD\n");
    CHECK(dot({}) == "digraph eagle {\n  rankdir=TB;\n  node [shape=box];\n}\n");
}

Description longChain(int nodes) {
    Description d;
    for (int i = 0; i < nodes; ++i) {
        d.nodes.push_back({i, "node" + std::to_string(i), "launch", "work_share", i, false});
        d.frames.push_back({i, "stage", "", -1});
    }
    std::vector<PlaneRef> planes;
    for (int i = 0; i < nodes; ++i) planes.push_back({"x", i, 4096, {100}, {8}, 8, 2});
    d.edges = deriveEdges(planes);
    return d;
}

void large() {
    CHECK(reduced(longChain(8)).hidden == 0);  // 84 edges
    const Description fifteen = reduced(longChain(15));
    CHECK(fifteen.edges.size() == 3 * 14 && fifteen.hidden == 3 * (15 * 14 / 2 - 14));
    CHECK(reduced(fifteen).edges == fifteen.edges && reduced(fifteen).hidden == fifteen.hidden);
    // The same from the planes, without the list of all.
    std::vector<PlaneRef> planes;
    for (int i = 0; i < 15; ++i) planes.push_back({"x", i, 4096, {100}, {8}, 8, 2});
    Description drawn;
    drawn.nodes = fifteen.nodes;
    drawEdges(drawn, Hazards(planes));
    CHECK(drawn.edges == fifteen.edges && drawn.hidden == fifteen.hidden);
    const Description thousand = longChain(1000);
    const auto begun = std::chrono::steady_clock::now();
    const std::string text = ascii(thousand);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    CHECK(text.ends_with("  not drawn: 1495503 edges that a path of these implies\n"));
    CHECK(took.count() < 5);
    CHECK(dot(thousand).find("// not drawn: 1495503 edges") != std::string::npos);
    CHECK(mermaid(thousand).find("%% not drawn: 1495503 edges") != std::string::npos);
}

/// More nodes than are looked for at a time, in an order that is not theirs.
void reducedOfMany() {
    Description d;
    const int n = 9000;
    const auto at = [](int i) { return i * 7 % n; };  // 7 and n have no common divisor
    for (int i = 0; i < n; ++i) d.nodes.push_back(node(d, "n"));
    for (int i = 0; i + 1 < n; ++i) {
        d.edges.push_back({at(i), at(i + 1), "x", EdgeKind::Raw});
        for (int far = 5000; far < 5010 && i + far < n; ++far)
            d.edges.push_back({at(i), at(i + far), "y", EdgeKind::War});
    }
    const std::size_t all = d.edges.size();
    CHECK(all > 4 * d.nodes.size());
    const Description r = reduced(d);
    CHECK(r.edges.size() == n - 1 && r.hidden == all - (n - 1));
    for (const Edge& edge : r.edges) CHECK(edge.plane == "x");
}

void overlaps() {
    CHECK(overlap({0, {4}, {16}, 8}, {0, {4}, {16}, 8}));
    CHECK(!overlap({0, {4}, {16}, 8}, {8, {4}, {16}, 8}));
    CHECK(overlap({48, {4}, {-16}, 8}, {0, {1}, {8}, 1}));
    CHECK(!overlap({0, {0}, {8}, 8}, {0, {4}, {8}, 8}));
    CHECK(overlap({0, {3, 5}, {1009, 7}, 1}, {3, {4, 4}, {1013, 11}, 1}, 0));  // no step was allowed
}

}  // namespace

int main() {
    kinds();
    validation();
    layouts();
    texts();
    large();
    reducedOfMany();
    overlaps();
}
