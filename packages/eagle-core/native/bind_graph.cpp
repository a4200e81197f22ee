// Edges and pictures of graphs: eagle/graph.h for plain data of Python.
//
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "eagle/exec/HostSchedule.h"
#include "eagle/graph.h"
#include "numpy_api.h"
#include "released.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace eagle::core {
namespace {

using Ints = std::vector<std::int64_t>;
using BytesData = std::tuple<std::uint64_t, Ints, Ints, std::int64_t>;  // address, shape, strides, itemsize
using PlaneData = std::tuple<std::string, int, std::uint64_t, Ints, Ints, std::int64_t, int>;
// label, kind, schedule, frame, own, tile
using NodeData = std::tuple<std::string, std::string, std::string, int, bool, int>;
using EdgeData = std::tuple<int, int, std::string, std::string>;
using FrameData = std::tuple<std::string, std::string, int>;  // kind, label, parent

graph::Bytes bytes_of(BytesData data) {
    auto& [base, shape, strides, itemsize] = data;
    if (shape.size() != strides.size()) throw nb::value_error("overlap: found another number of strides than of axes");
    return {base, std::move(shape), std::move(strides), itemsize};
}

/// A row of PlaneData, or of a name, a node, an array of numpy and the access.
graph::PlaneRef plane_of(nb::handle row) {
    if (!nb::isinstance<nb::tuple>(row) || nb::len(row) != 4) {
        auto [name, node, base, shape, strides, itemsize, access] = nb::cast<PlaneData>(row);
        return {std::move(name), node, base, std::move(shape), std::move(strides), itemsize, access};
    }
    const nb::tuple items = nb::borrow<nb::tuple>(row);
    if (!PyArray_Check(items[2].ptr())) throw nb::type_error("planes: wanted an array of numpy");
    auto* array = reinterpret_cast<PyArrayObject*>(items[2].ptr());
    const npy_intp *shape = PyArray_SHAPE(array), *strides = PyArray_STRIDES(array);
    const int axes = PyArray_NDIM(array);
    return {nb::cast<std::string>(items[0]),
            nb::cast<int>(items[1]),
            reinterpret_cast<std::uintptr_t>(PyArray_DATA(array)),
            {shape, shape + axes},
            {strides, strides + axes},
            PyArray_ITEMSIZE(array),
            nb::cast<int>(items[3])};
}

std::vector<graph::PlaneRef> planes_of(const nb::sequence& rows) {
    std::vector<graph::PlaneRef> planes;
    planes.reserve(nb::len(rows));
    for (const nb::handle row : rows) planes.push_back(plane_of(row));
    return planes;
}

/// While it is there, nothing is collected.
class NoCollection {
public:
    NoCollection() : was_on_(PyGC_Disable()) {}
    ~NoCollection() {
        if (was_on_) PyGC_Enable();
    }
    NoCollection(const NoCollection&) = delete;
    NoCollection& operator=(const NoCollection&) = delete;

private:
    int was_on_;
};

/// The edges of a graph, found again whenever they are asked for.
class Edges {
public:
    Edges(std::vector<graph::PlaneRef> planes, const std::vector<graph::Group>& groups)
        : hazards_(std::move(planes), groups) {}

    const graph::Hazards& hazards() const { return hazards_; }

    std::size_t size() const {
        std::size_t count = 0;
        hazards_.each([&](const graph::Hazard&) { return ++count, true; });
        return count;
    }

    /// (src, dst, plane, kind) of each, in tuples of that type. There may be millions: what they hold is made once, and
    /// as nothing of it leads to another object, the collector need not look at them.
    nb::object tuples(nb::type_object type) const {
        const NoCollection paused;
        std::vector<nb::object> nodes, names;
        std::map<std::string_view, nb::object> known;
        for (int node = 0; node < hazards_.nodes(); ++node) nodes.push_back(nb::int_(node));
        for (const graph::PlaneRef& plane : hazards_.planes()) {
            nb::object& name = known[plane.name];
            if (!name.is_valid()) name = nb::str(plane.name.c_str(), plane.name.size());
            names.push_back(name);
        }
        nb::object kinds[3];
        for (const graph::EdgeKind kind : graph::kEdgeKinds)
            kinds[static_cast<int>(kind)] = nb::str(graph::kindName(kind));
        auto* made = reinterpret_cast<PyTypeObject*>(type.ptr());
        if (!PyType_IsSubtype(made, &PyTuple_Type) || made->tp_basicsize != PyTuple_Type.tp_basicsize)
            throw nb::type_error("Edges.tuples: wanted a type of tuples that hold nothing else");
        std::vector<nb::object> edges;
        hazards_.each([&](const graph::Hazard& h) {
            auto* edge = reinterpret_cast<PyObject*>(PyObject_GC_NewVar(PyTupleObject, made, 4));
            if (!edge) throw nb::python_error();
#if PY_VERSION_HEX >= 0x030E0000
            reinterpret_cast<PyTupleObject*>(edge)->ob_hash = -1;  // not known yet
#endif
            PyTuple_SET_ITEM(edge, 0, nodes[h.src].inc_ref().ptr());
            PyTuple_SET_ITEM(edge, 1, nodes[h.dst].inc_ref().ptr());
            PyTuple_SET_ITEM(edge, 2, names[h.plane].inc_ref().ptr());
            PyTuple_SET_ITEM(edge, 3, kinds[static_cast<int>(h.kind)].inc_ref().ptr());
            edges.push_back(nb::steal(edge));
            return true;
        });
        PyObject* all = PyTuple_New(static_cast<Py_ssize_t>(edges.size()));
        if (!all) throw nb::python_error();
        for (std::size_t i = 0; i < edges.size(); ++i)
            PyTuple_SET_ITEM(all, static_cast<Py_ssize_t>(i), edges[i].release().ptr());
        PyObject_GC_UnTrack(all);
        return nb::steal(all);
    }

private:
    graph::Hazards hazards_;
};

/// What is drawn, and its layout, which some languages do without.
class Drawing {
public:
    Drawing(std::vector<NodeData> nodes, nb::object edges, std::vector<FrameData> frames) {
        for (auto& [label, kind, schedule, frame, own, tile] : nodes)
            d_.nodes.push_back({static_cast<int>(d_.nodes.size()), std::move(label), std::move(kind),
                                std::move(schedule), frame, own, tile});
        for (auto& [kind, label, parent] : frames)
            d_.frames.push_back({static_cast<int>(d_.frames.size()), std::move(kind), std::move(label), parent});
        if (nb::isinstance<Edges>(edges)) {
            const graph::Hazards& hazards = nb::cast<const Edges&>(edges).hazards();
            if (hazards.nodes() > static_cast<int>(d_.nodes.size()))
                throw nb::value_error("Drawing: found planes of more nodes than there are");
            const Released released;
            graph::drawEdges(d_, hazards);
        } else {
            for (auto& [src, dst, plane, kind] : nb::cast<std::vector<EdgeData>>(edges))
                d_.edges.push_back({src, dst, std::move(plane), graph::parseEdgeKind(kind)});
            const Released released;
            d_ = graph::reduced(std::move(d_));
        }
    }

    std::string text(bool unicode, int most) const { return graph::ascii(d_, layout(), unicode, most); }
    std::string mermaid() const { return graph::mermaid(d_); }
    std::string dot() const { return graph::dot(d_); }
    std::size_t hidden() const { return d_.hidden; }

    nb::list xy() const {
        nb::list out;
        for (const auto& [x, y] : layout().xy) out.append(nb::make_tuple(x, y));
        return out;
    }

    /// Everything in cells, labels in lines of up to `most` cells.
    nb::dict placed(int most, int bus) const {
        graph::Placement p;
        {
            const Released released;
            p = graph::place(d_, layout(), {true, std::max(most, 1), true, bus, 1, 2, false});
        }
        const auto lines = [](const std::vector<std::u32string>& texts) {
            nb::list out;
            for (const std::u32string& text : texts) out.append(utf8(text));
            return out;
        };
        nb::list boxes, borders, runs, names, gutter, rows;
        for (const auto& b : p.boxes) boxes.append(nb::make_tuple(b.x, b.y, b.w, b.h, lines(b.lines)));
        for (const auto& b : p.borders) borders.append(nb::make_tuple(b.frame, b.x, b.y, b.w, b.h, utf8(b.label)));
        for (const auto& r : p.runs) {
            nb::list kinds, x;
            for (const graph::EdgeKind kind : graph::kEdgeKinds)
                if (r.has(kind)) kinds.append(graph::kindName(kind));
            for (const int at : r.x) x.append(at);
            runs.append(nb::make_tuple(r.src, r.dst, kinds, layout().layer[r.src], x));
        }
        for (const auto& n : p.names) names.append(nb::make_tuple(n.node, n.x, n.y, lines(n.lines)));
        for (const auto& g : p.gutter) gutter.append(nb::make_tuple(g.x, g.y, utf8(g.text)));
        for (const auto& r : p.rows) rows.append(nb::make_tuple(r.borders, r.boxes, r.endings, r.names, r.bus, r.end));
        nb::dict out;
        out["boxes"] = boxes;
        out["borders"] = borders;
        out["runs"] = runs;
        out["names"] = names;
        out["gutter"] = gutter;
        out["rows"] = rows;
        out["size"] = nb::make_tuple(p.width, p.height);
        return out;
    }

private:
    static std::string utf8(const std::u32string& text) { return graph::detail::encoded(text); }

    const graph::Layout& layout() const {
        std::call_once(laid_out_, [this] { layout_ = graph::layout(d_); });
        return layout_;
    }

    graph::Description d_;
    mutable std::once_flag laid_out_;
    mutable graph::Layout layout_;
};

}  // namespace

void register_graph(nb::module_& m) {
    m.attr("OVERLAP_MAX_WORK") = graph::kOverlapMaxWork;
    m.attr("BRANCH_TASKS_MAX_SAMPLES") = exec::BRANCH_TASKS_MAX_SAMPLES;
    m.def(
        "branch_tasks",
        [](std::int64_t n, std::int64_t branches, std::int64_t threads, bool native) {
            return exec::resolve(n, branches, threads, native) == exec::Schedule::BranchTasks;
        },
        "n"_a, "branches"_a, "threads"_a, "native"_a);
    m.attr("DRAWN_EDGES") = graph::kDrawnEdges;
    nb::dict meanings;
    for (const graph::EdgeKind kind : graph::kEdgeKinds) meanings[graph::kindName(kind)] = graph::kindMeaning(kind);
    m.attr("EDGE_MEANINGS") = meanings;

    m.def(
        "overlap",
        [](BytesData a, BytesData b, std::int64_t max_work) {
            const graph::Bytes first = bytes_of(std::move(a)), second = bytes_of(std::move(b));
            const Released released;
            return graph::overlap(first, second, max_work);
        },
        "a"_a, "b"_a, "max_work"_a = graph::kOverlapMaxWork);
    nb::class_<Edges>(m, "Edges")
        .def("__len__", &Edges::size, nb::call_guard<Released>())
        .def("tuples", &Edges::tuples, "kind"_a = nb::handle(reinterpret_cast<PyObject*>(&PyTuple_Type)));
    m.def(
        "derive_edges",
        [](const nb::sequence& rows, const std::vector<graph::Group>& groups) {
            std::vector<graph::PlaneRef> planes = planes_of(rows);
            const Released released;
            return Edges(std::move(planes), groups);
        },
        "planes"_a, "groups"_a = std::vector<graph::Group>());
    m.def(
        "sibling_conflicts",
        [](const nb::sequence& rows, const std::vector<graph::Group>& groups) {
            const std::vector<graph::PlaneRef> planes = planes_of(rows);
            std::vector<graph::Conflict> conflicts;
            {
                const Released released;
                conflicts = graph::siblingConflicts(planes, groups);
            }
            nb::list out;
            for (const graph::Conflict& c : conflicts)
                out.append(nb::make_tuple(c.first, c.second, c.firstPlane, c.secondPlane, graph::kindName(c.kind)));
            return out;
        },
        "planes"_a, "groups"_a);
    nb::class_<Drawing>(m, "Drawing")
        .def(nb::init<std::vector<NodeData>, nb::object, std::vector<FrameData>>(), "nodes"_a, "edges"_a, "frames"_a)
        .def("text", &Drawing::text, "unicode"_a = true, "max_label"_a = 24, nb::call_guard<Released>())
        .def("mermaid", &Drawing::mermaid, nb::call_guard<Released>())
        .def("dot", &Drawing::dot, nb::call_guard<Released>())
        .def("placed", &Drawing::placed, "most"_a, "bus"_a)
        .def_prop_ro("hidden", &Drawing::hidden)
        .def_prop_ro("xy", &Drawing::xy);
}

}  // namespace eagle::core
