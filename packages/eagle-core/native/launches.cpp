// A packed block, and launch.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "bound.h"

namespace eagle::core {

PyTypeObject* BoundType = nullptr;

eagle_status BoundObject::run(const KernelObject** failed) const {
    *failed = kernel();
    eagle_status status = copy_in();
    for (std::size_t i = 0; i < stages->size() && status == EAGLE_OK; ++i) {
        *failed = (*stages)[i]->kernel;
        status = (*stages)[i]->run(*cut);
    }
    return status == EAGLE_OK ? copy_out() : status;
}

namespace {

PyObject *str_launch, *str_moved;

struct LaunchesObject {
    PyObject ob_base;
    BoundObject* bound;
};

bool is_array(PyObject* object, int typenum) {
    if (PyArray_Check(object)) {
        auto* array = reinterpret_cast<PyArrayObject*>(object);
        if (PyArray_ISCARRAY(array) && (typenum < 0 || PyArray_TYPE(array) == typenum)) return true;
    }
    PyErr_SetString(PyExc_ValueError, "_core.Bound: wanted a writable C-contiguous array");
    return false;
}

/// (kernel, values, bytes, clears): `values` has one item a slot, None where the block makes its own; `bytes` what each
/// had when it was checked, -1 where that is no matter; `clears` are arrays.
bool read_stage(PyObject* item, int64_t n, const Cut& cut, BoundObject* self) {
    PyObject *object, *values, *bytes, *clears;
    if (!PyArg_ParseTuple(item, "O!O!O!O!", KernelType, &object, &PyTuple_Type, &values, &PyTuple_Type, &bytes,
                          &PyTuple_Type, &clears))
        return false;
    auto* kernel = reinterpret_cast<KernelObject*>(object);
    std::vector<int16_t> position;
    if (!read_values(kernel, values, position)) return false;
    auto stage = std::make_unique<Stage>(kernel, n);
    if (!pack_exactly(stage->block, values, bytes, position, cut)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(clears); ++i) {
        if (!is_array(PyTuple_GET_ITEM(clears, i), -1)) return false;
        stage->clears.emplace_back(PyTuple_GET_ITEM(clears, i));
    }
    self->stages->push_back(std::move(stage));
    return true;
}

/// (name, array or view, writes)
bool read_watched(PyObject* item, std::vector<Watched>& watched) {
    PyObject *name, *array;
    int writes;
    if (!PyArg_ParseTuple(item, "UOp", &name, &array, &writes)) return false;
    if (!PyArray_Check(array) && !Py_IS_TYPE(array, ViewType)) {
        PyErr_SetString(PyExc_ValueError, "_core.Bound: wanted an array or a view to watch");
        return false;
    }
    watched.emplace_back(name, array, writes != 0);
    return true;
}

/// (copy, theirs, in, out)
bool read_copy(PyObject* item, std::vector<Relayout>& copies) {
    PyObject *copy, *theirs;
    int in, out;
    if (!PyArg_ParseTuple(item, "OOpp", &copy, &theirs, &in, &out)) return false;
    copies.emplace_back(copy, theirs, in, out);
    return true;
}

/// Reads each item of `tuple` with `read`, which takes the item and `more`.
template <class Read, class... More>
bool read_all(PyObject* tuple, Read read, More&&... more) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
        if (!read(PyTuple_GET_ITEM(tuple, i), more...)) return false;
    return true;
}

void make_empty(BoundObject* self) {
    self->stages = new std::vector<std::unique_ptr<Stage>>;
    self->watched = new std::vector<Watched>;
    self->copies = new std::vector<Relayout>;
    self->cut = new Cut;
    self->turn = new Turn;
}

/// _core.Bound(stages, n, parts, given, watched, copies): the kernels of a program, in order, over n samples. `watched`
/// are the caller's own arrays where other arrays of their memory are packed: a launch refuses one that moved. `copies`
/// are planes in the caller's own memory order, copied in before a launch and out behind it.
PyObject* bound_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *stages, *given, *watched, *copies;
    long long n, parts;
    if (!PyArg_ParseTuple(args, "O!LLO!O!O!:Bound", &PyTuple_Type, &stages, &n, &parts, &PyTuple_Type, &given,
                          &PyTuple_Type, &watched, &PyTuple_Type, &copies))
        return nullptr;
    PyObject* object = type->tp_alloc(type, 0);
    if (!object) return nullptr;
    auto* self = reinterpret_cast<BoundObject*>(object);
    PyObject* made = guarded([&]() -> PyObject* {
        make_empty(self);
        if (!read_cut(parts, given, *self->cut)) return nullptr;
        const auto stage = [&](PyObject* item) { return read_stage(item, n, *self->cut, self); };
        if (!read_all(stages, stage) || !read_all(watched, read_watched, *self->watched) ||
            !read_all(copies, read_copy, *self->copies))
            return nullptr;
        self->given = Py_NewRef(args);
        return object;
    });
    if (!made) Py_DECREF(object);
    return made;
}

int bound_traverse(PyObject* object, visitproc visit, void* arg) {
    auto* self = reinterpret_cast<BoundObject*>(object);
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->given);
    for (std::size_t i = 0; self->stages && i < self->stages->size(); ++i)
        if (const int stopped = (*self->stages)[i]->block.traverse(visit, arg)) return stopped;
    return 0;
}

void bound_dealloc(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    auto* self = reinterpret_cast<BoundObject*>(object);
    PyObject_GC_UnTrack(object);
    delete self->stages;
    delete self->watched;
    delete self->copies;
    delete self->cut;
    delete self->turn;
    Py_XDECREF(self->given);
    type->tp_free(object);
    Py_DECREF(type);
}

/// What the stages of a program write, as it was: a checked launch changes all of it or none.
class Before {
public:
    explicit Before(const std::vector<std::unique_ptr<Stage>>& stages) {
        for (const auto& stage : stages) {
            for (std::size_t i = 0; i < stage->kernel->slots->size(); ++i)
                if (PyObject* plane = stage->block.plane(i); plane && (*stage->kernel->slots)[i].writes)
                    keep(Kept(plane));
        }
    }
    void restore() const {
        for (const auto& [plane, bytes] : planes_) std::copy(bytes.begin(), bytes.end(), plane.data);
    }

private:
    void keep(const Kept& plane) { planes_.emplace_back(plane, std::vector(plane.data, plane.data + plane.bytes())); }

    std::vector<std::pair<Kept, std::vector<char>>> planes_;
};

/// launch_bound() while somebody asks for checks.
bool launch_bound_checked(BoundObject* bound, const Caller& caller) {
    Py_BEGIN_ALLOW_THREADS;
    bound->turn->take();
    Py_END_ALLOW_THREADS;
    Failure failed;
    {
        const std::unique_ptr<Turn, void (*)(Turn*)> taken(bound->turn, [](Turn* turn) { turn->give(); });
        const auto report = [bound](eagle_status status) -> Failure {
            if (status == EAGLE_OK) return nullptr;
            return [kernel = bound->kernel(), status] { passed(kernel, status); };
        };
        failed = report(bound->copy_in());
        const Before before(*bound->stages);
        for (std::size_t i = 0; !failed && i < bound->stages->size(); ++i)
            failed = (*bound->stages)[i]->run_checked(*bound->cut, caller);
        if (failed)
            before.restore();
        else
            failed = report(bound->copy_out());
    }
    if (failed) failed();  // after the turn: a signal handler may launch the same plan
    return !failed;
}

}  // namespace

bool launch_bound(BoundObject* bound, const Caller& caller) {
    const auto& stages = *bound->stages;
    if (stages.size() == 1 && stages[0]->plain() && bound->copies->empty())
        return launch(stages[0]->kernel, stages[0]->block.params(), stages[0]->block.n(), *bound->cut, caller);
    if (checking()) [[unlikely]]
        return launch_bound_checked(bound, caller);
    const KernelObject* kernel = nullptr;
    eagle_status status;
    Py_BEGIN_ALLOW_THREADS;
    bound->turn->take();
    status = bound->run(&kernel);
    bound->turn->give();
    Py_END_ALLOW_THREADS;
    return passed(kernel, status);
}

PyObject* moved_plane(const BoundObject* bound) {
    for (const Watched& plane : *bound->watched)
        if (plane.moved()) return plane.name;
    for (const auto& stage : *bound->stages) {
        std::size_t slot = 0;
        if (!stage->block.intact(&slot)) return (*stage->kernel->slots)[slot].name;
    }
    return nullptr;
}

namespace {

/// The same after the producers were asked; null also with an exception of one set.
PyObject* moved_since_bound(const BoundObject* bound) {
    for (const Watched& plane : *bound->watched)  // first those whose code may move others
        if (const int moved = plane.moved_says_producer()) return moved > 0 ? plane.name : nullptr;
    return moved_plane(bound);
}

/// launch(door): of a call that packed for itself. The name of a plane that moved since it was read, or None.
PyObject* bound_launch(PyObject* object, PyObject* door) {
    return guarded([&]() -> PyObject* {
        auto* bound = reinterpret_cast<BoundObject*>(object);
        if (PyObject* moved = moved_plane(bound)) return Py_NewRef(moved);
        return launch_bound(bound, {door, nullptr}) ? Py_NewRef(Py_None) : nullptr;
    });
}

/// moved(asking): the name of a plane that is no longer what was packed, or None; `asking` the producers too.
PyObject* bound_moved(PyObject* object, PyObject* asking) {
    return guarded([&]() -> PyObject* {
        const auto* bound = reinterpret_cast<BoundObject*>(object);
        PyObject* moved = asking == Py_True ? moved_since_bound(bound) : moved_plane(bound);
        return moved ? Py_NewRef(moved) : PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
    });
}

/// exactly(kernel, values, parts, given): one kernel over values that are exactly what its slots take, in slot order;
/// None where one of them needs the careful path. A plane that is None is made, and starts at zero.
PyObject* bound_exactly(PyObject* type, PyObject* const* args, Py_ssize_t count) {
    if (count != 4 || !Py_IS_TYPE(args[0], KernelType) || !PyTuple_CheckExact(args[1]) || !PyLong_Check(args[2]) ||
        !PyTuple_CheckExact(args[3])) {
        PyErr_SetString(PyExc_TypeError, "_core.Bound.exactly: wanted (kernel, values, parts, given)");
        return nullptr;
    }
    PyObject* object = PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(type), 0);
    if (!object) return nullptr;
    auto* self = reinterpret_cast<BoundObject*>(object);
    PyObject* made = guarded([&]() -> PyObject* {
        auto* kernel = reinterpret_cast<KernelObject*>(args[0]);
        std::vector<int16_t> position;
        make_empty(self);
        if (!read_cut(PyLong_AsLongLong(args[2]), args[3], *self->cut) || !read_values(kernel, args[1], position))
            return nullptr;
        auto stage = std::make_unique<Stage>(kernel, -1);
        PyObject* const* values = reinterpret_cast<PyTupleObject*>(args[1])->ob_item;
        switch (stage->block.pack(values, position.data(), Door::Step, *self->cut)) {
            case Block::Packed::Unfit:
                return Py_NewRef(Py_None);
            case Block::Packed::Error:
                return nullptr;
            case Block::Packed::Yes:
                break;
        }
        self->stages->push_back(std::move(stage));
        self->given = Py_NewRef(args[1]);
        return Py_NewRef(object);
    });
    Py_DECREF(object);
    return made;
}

/// planes(): the array of each slot of the only kernel, None for a slot without one.
PyObject* bound_planes(PyObject* object, PyObject*) {
    const Stage& stage = *reinterpret_cast<BoundObject*>(object)->stages->front();
    const std::size_t slots = stage.kernel->slots->size();
    PyObject* planes = PyTuple_New(static_cast<Py_ssize_t>(slots));
    for (std::size_t i = 0; planes && i < slots; ++i) {
        PyObject* plane = stage.block.plane(i);
        PyTuple_SET_ITEM(planes, static_cast<Py_ssize_t>(i), Py_NewRef(plane ? plane : Py_None));
    }
    return planes;
}

/// alike(bounds): whether kernels over these planes may run one behind the other: all over as many samples, and no
/// plane that one writes under another name in another.
PyObject* bound_alike(PyObject*, PyObject* bounds) {
    std::vector<const Stage*> stages;
    if (!PyTuple_Check(bounds)) return PyErr_Format(PyExc_TypeError, "_core.Bound.alike: wanted a tuple");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bounds); ++i) {
        if (!Py_IS_TYPE(PyTuple_GET_ITEM(bounds, i), BoundType))
            return PyErr_Format(PyExc_TypeError, "_core.Bound.alike: wanted bound kernels");
        for (const auto& stage : *reinterpret_cast<BoundObject*>(PyTuple_GET_ITEM(bounds, i))->stages)
            stages.push_back(stage.get());
    }
    for (const Stage* one : stages)
        for (const Stage* other : stages)
            if (one->block.n() != other->block.n() || (one != other && one->writes_into(*other))) Py_RETURN_FALSE;
    Py_RETURN_TRUE;
}

PyMethodDef bound_methods[] = {
    {"alike", bound_alike, METH_O | METH_STATIC, nullptr},
    {"exactly", method(bound_exactly), METH_FASTCALL | METH_CLASS, nullptr},
    {"planes", bound_planes, METH_NOARGS, nullptr},
    {"launch", bound_launch, METH_O, nullptr},
    {"moved", bound_moved, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot bound_slots[] = {
    {Py_tp_doc, const_cast<char*>("Packed argument blocks with the planes they point at.")},
    {Py_tp_new, reinterpret_cast<void*>(bound_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(bound_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(bound_traverse)},
    {Py_tp_methods, bound_methods},
    {0, nullptr},
};
PyType_Spec bound_spec = {"eagle._core.Bound", sizeof(BoundObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, bound_slots};

PyObject* launches_launch(PyObject* object, PyObject* const* args, Py_ssize_t given, PyObject* names) {
    auto* self = reinterpret_cast<LaunchesObject*>(object);
    if (!self->bound) {
        PyErr_SetString(PyExc_RuntimeError, "BoundPlan.launch: found nothing bound, wanted what Plan.bind returns");
        return nullptr;
    }
    if (given || names) return guarded([&] { return careful(object, str_launch, args, given, names); });
    BoundObject* bound = self->bound;
    Py_INCREF(bound);  // another thread may rebind while the GIL is released, or while a producer is asked
    PyObject* moved = moved_since_bound(bound);
    if (moved || PyErr_Occurred()) {
        PyObject* refused = moved ? PyObject_CallMethodOneArg(object, str_moved, moved) : nullptr;
        Py_DECREF(bound);
        return refused;
    }
    PyObject* result = guarded([&]() -> PyObject* {
        return launch_bound(bound, {bound->stages->front()->kernel->name, "launch"}) ? Py_NewRef(Py_None) : nullptr;
    });
    Py_DECREF(bound);
    return result;
}

PyObject* launches_set(PyObject* object, PyObject* bound) {
    if (!PyObject_TypeCheck(bound, BoundType)) {
        PyErr_SetString(PyExc_TypeError, "_set: wanted a _core.Bound");
        return nullptr;
    }
    auto* self = reinterpret_cast<LaunchesObject*>(object);
    Py_INCREF(bound);
    Py_XSETREF(self->bound, reinterpret_cast<BoundObject*>(bound));
    Py_RETURN_NONE;
}

int launches_traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(reinterpret_cast<LaunchesObject*>(object)->bound);
    return 0;
}

int launches_clear(PyObject* object) {
    Py_CLEAR(reinterpret_cast<LaunchesObject*>(object)->bound);
    return 0;
}

void launches_dealloc(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    launches_clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

PyMethodDef launches_methods[] = {
    {"launch", method(launches_launch), METH_FASTCALL | METH_KEYWORDS,
     "launch(stream=None, *, grid=None, block=None)\n--\n\n"
     "Run the kernel once over the bound planes; the answers are in them. Host plans take no stream and no grid\n"
     "(ValueError); `block` is not used. Raises BufferRefused when a bound plane has moved, changed its shape or\n"
     "become read-only since."},
    {"_set", method(launches_set), METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot launches_slots[] = {
    {Py_tp_doc, const_cast<char*>("What launch() needs: a block, replaced as a whole by rebinding.")},
    {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
    {Py_tp_dealloc, reinterpret_cast<void*>(launches_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(launches_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(launches_clear)},
    {Py_tp_methods, launches_methods},
    {0, nullptr},
};
PyType_Spec launches_spec = {"eagle._core.Launches", sizeof(LaunchesObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
                             launches_slots};

}  // namespace

bool add_launches(PyObject* module) {
    str_launch = PyUnicode_InternFromString("_launch");
    str_moved = PyUnicode_InternFromString("_moved");
    return str_launch && str_moved && add_type(module, bound_spec, "Bound", nullptr, &BoundType) &&
           add_type(module, launches_spec, "Launches");
}

}  // namespace eagle::core
