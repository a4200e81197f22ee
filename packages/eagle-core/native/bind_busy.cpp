// eagle._core.Turns: one call at a time on an object, by the rule of eagle/util/Busy.h.
//
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>

#include "bindings.h"
#include "eagle/util/Busy.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace eagle::core {
namespace {

/// The turns of one object: what its class is called, and whether it is in use.
struct Turns {
    std::string owner;
    util::InUse busy;
};

/// A method's turn: taken where a with statement enters it, given back where that is left or never began.
class Turn {
public:
    Turn(nb::object turns, nb::str method) : turns_(std::move(turns)), method_(std::move(method)) {}
    Turn(const Turn&) = delete;
    ~Turn() { leave(); }

    void enter() {
        if (taken_ || !turns().busy.enter()) {
            const nb::object error = nb::module_::import_("eagle.errors").attr("busy")(turns().owner, method_);
            PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
            throw nb::python_error();
        }
        taken_ = true;
    }
    void leave() {
        if (std::exchange(taken_, false)) turns().busy.leave();
    }

private:
    Turns& turns() const { return *nb::inst_ptr<Turns>(turns_); }

    nb::object turns_;
    nb::str method_;
    bool taken_ = false;
};

}  // namespace

void register_busy(nb::module_& m) {
    nb::class_<Turns>(m, "Turns")
        .def(
            "__init__", [](Turns* self, std::string owner) { new (self) Turns{std::move(owner), {}}; }, "owner"_a)
        .def(
            "__call__", [](nb::handle_t<Turns> self, nb::str method) { return new Turn(nb::borrow(self), method); },
            "method"_a);
    nb::class_<Turn>(m, "Turn")
        .def("__enter__", &Turn::enter)
        .def(
            "__exit__", [](Turn& self, nb::handle, nb::handle, nb::handle) { self.leave(); }, "kind"_a.none(),
            "error"_a.none(), "trace"_a.none());
}

}  // namespace eagle::core
