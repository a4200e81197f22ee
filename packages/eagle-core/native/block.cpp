// SPDX-License-Identifier: Apache-2.0
#include "block.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "interop.h"
#include "numpy_api.h"

namespace eagle::core {

namespace {

PyArrayObject* as_array(PyObject* object) { return reinterpret_cast<PyArrayObject*>(object); }

/// A numpy array of the slot's dtype, C order (or the `order` of a flag), writable where the kernel writes it. `exact`
/// leaves out subclasses and other names of the dtype, which the careful path looks at first.
bool has_cells_of(const Slot& slot, PyObject* value, bool exact, int order = NPY_ARRAY_C_CONTIGUOUS) {
    if (exact ? !PyArray_CheckExact(value) : !PyArray_Check(value)) return false;
    PyArrayObject* array = as_array(value);
    const int wanted = order | NPY_ARRAY_ALIGNED | (slot.writes ? NPY_ARRAY_WRITEABLE : 0);
    const int typenum = PyArray_TYPE(array);
    return (typenum == slot.typenum || (!exact && PyArray_EquivTypenums(typenum, slot.typenum))) &&
           (PyArray_FLAGS(array) & wanted) == wanted && PyArray_ISNBO(PyArray_DESCR(array)->byteorder);
}

/// A plane of the slot: `(n,)`, `(width, n)`, or `(n, width)` over the same bytes.
bool is_plane_of(const Slot& slot, PyObject* value, bool exact, int64_t* n) {
    if (slot.box != Box::Mirror) {
        if (!has_cells_of(slot, value, exact) || PyArray_NDIM(as_array(value)) != 1) return false;
        *n = PyArray_DIM(as_array(value), 0);
        return true;
    }
    if (!PyArray_Check(value) || PyArray_NDIM(as_array(value)) != 2) return false;
    const int samples = PyArray_DIM(as_array(value), 0) == slot.width;  // their axis
    *n = PyArray_DIM(as_array(value), samples);
    return PyArray_DIM(as_array(value), 1 - samples) == slot.width &&
           has_cells_of(slot, value, exact, samples ? NPY_ARRAY_C_CONTIGUOUS : NPY_ARRAY_F_CONTIGUOUS);
}

/// One sample of the slot, without an axis for it: `()`, `(width,)`, or `(R, C)` of a matrix.
bool is_head_of(const Slot& slot, PyObject* value, bool exact) {
    if (!has_cells_of(slot, value, exact)) return false;
    PyArrayObject* array = as_array(value);
    if (slot.box == Box::Handle) return PyArray_NDIM(array) == 0;
    if (PyArray_NDIM(array) == 1) return PyArray_DIM(array, 0) == slot.width;
    return PyArray_NDIM(array) == 2 && slot.dims.size() == 2 && PyArray_DIM(array, 0) == slot.dims[0] &&
           PyArray_DIM(array, 1) == slot.dims[1];
}

/// A number that the slot's dtype holds exactly, as an array without axes; null without an exception for another one.
PyObject* number_array(const Slot& slot, PyObject* value) {
    constexpr long long kExact =
        1 << 24;  // integers up to it are exact in every type but the narrowest, which have none
    int overflow = 0;
    const long long whole = PyLong_CheckExact(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : 0;
    const bool fits = PyFloat_CheckExact(value) ? slot.typenum == NPY_DOUBLE
                                                : slot.typenum != NPY_BOOL && !overflow && whole <= kExact &&
                                                      whole >= (slot.typenum == NPY_UINT32 ? 0 : -kExact);
    PyObject* array = fits ? PyArray_SimpleNew(0, nullptr, slot.typenum) : nullptr;
    if (array && PyArray_SETITEM(as_array(array), PyArray_BYTES(as_array(array)), value) < 0) Py_CLEAR(array);
    if (!array) PyErr_Clear();
    return array;
}

/// A buffer of the slot: a numpy array of its dtype, C order, and of its shape where it says one.
bool is_buffer_of(const Slot& slot, PyObject* value, bool exact) {
    if (!has_cells_of(slot, value, exact)) return false;
    PyArrayObject* array = as_array(value);
    if (exact && PyArray_SIZE(array) == 0) return false;  // serves no sample
    if (slot.box == Box::Matrix) return PyArray_NDIM(array) == 2 && PyArray_DIM(array, 0) == slot.width;
    if (slot.dims.empty()) return PyArray_NDIM(array) > 0;
    if (PyArray_NDIM(array) != static_cast<int>(slot.dims.size())) return false;
    for (std::size_t i = 0; i < slot.dims.size(); ++i)
        if (slot.dims[i] >= 0 && PyArray_DIM(array, static_cast<int>(i)) != slot.dims[i]) return false;
    return true;
}

/// Whether a map or offsets lead to samples of n.
bool leads_inside(const Slot& slot, PyArrayObject* array, int64_t n) {
    const auto cells = static_cast<std::size_t>(PyArray_SIZE(array));
    if (slot.cell == kMap) {
        const auto* map = static_cast<const int32_t*>(PyArray_DATA(array));
        return std::all_of(map, map + cells, [n](int32_t sample) { return sample >= 0 && sample < n; });
    }
    const auto* offsets = static_cast<const int64_t*>(PyArray_DATA(array));
    return offsets[0] >= 0 && std::is_sorted(offsets, offsets + cells) && offsets[cells - 1] <= n;
}

/// What a reduction writes: a numpy array of its dtype and `(columns,)`.
bool is_result_of(const Slot& slot, PyObject* value, bool exact) {
    return has_cells_of(slot, value, exact) && PyArray_NDIM(as_array(value)) == 1 &&
           PyArray_DIM(as_array(value), 0) == slot.width;
}

/// Exactly a number the slot takes by value: float or int, unchanged by the conversion.
bool read_uniform(const Slot& slot, PyObject* value, BoxStorage& box) {
    if (slot.box == Box::Int64) {
        if (!PyLong_CheckExact(value)) return false;
        int overflow = 0;
        box.i64 = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (slot.typenum == NPY_INT32) return box.i64 == static_cast<int32_t>(box.i64) && overflow == 0;
        if (slot.typenum == NPY_UINT32) return box.i64 == static_cast<uint32_t>(box.i64) && overflow == 0;
        return overflow == 0;
    }
    double number;
    if (PyFloat_Check(value)) {  // numpy's float64 scalars too
        number = PyFloat_AS_DOUBLE(value);
    } else if (PyLong_CheckExact(value)) {
        int overflow = 0;
        const long long integer = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (overflow) return false;
        number = static_cast<double>(integer);
    } else {
        return false;
    }
    if (slot.box == Box::Float64) {
        box.f64 = number;
        return true;
    }
    box.f32 = static_cast<float>(number);
    return std::isfinite(box.f32) || !std::isfinite(number);
}

/// Exactly the one cell of a word: numpy itself, the declared dtype, shape (1,).
bool is_cell_of(const Slot& slot, PyObject* value, bool exact) {
    int64_t cells;
    return is_plane_of(slot, value, exact, &cells) && cells == 1;
}

bool omits(const Slot& slot, Door door) {
    return door == Door::Step || (door == Door::Run ? slot.run_omits : door == Door::Call && slot.call_omits);
}

void fill(const Slot& slot, BoxStorage& box, void* data, int64_t n) {
    const auto samples = static_cast<uint64_t>(n);
    if (slot.box == Box::Mirror || slot.box == Box::Matrix)
        box.mirror = {data, samples, samples, 1, 1, 0};
    else
        box.handle = {data, samples, 1, 1, 0};
}

}  // namespace

Block::Block(KernelObject* kernel, int64_t n) : kernel_(kernel), n_(n) {
    Py_INCREF(kernel_);
    const std::size_t slots = kernel_->slots->size();
    if (slots > kInline) {
        heap_ = std::make_unique<char[]>(slots *
                                         (sizeof(BoxStorage) + sizeof(void*) + sizeof(PyObject*) + sizeof(int16_t)));
        boxes_ = reinterpret_cast<BoxStorage*>(heap_.get());
        params_ = reinterpret_cast<const void**>(boxes_ + slots);
        planes_ = reinterpret_cast<PyObject**>(const_cast<void**>(params_ + slots));
        position_ = reinterpret_cast<int16_t*>(planes_ + slots);
    }
    std::fill_n(planes_, slots, nullptr);
}

Block::~Block() {
    // A daemon thread that ends with the interpreter is unwound without the GIL; what it held goes with the process.
    if (!PyGILState_Check()) return;
    for (std::size_t i = 0; i < kernel_->slots->size(); ++i) Py_XDECREF(planes_[i]);
    Py_DECREF(kernel_);
}

bool Block::allocate(std::size_t i, bool zero) {
    const Slot& slot = (*kernel_->slots)[i];
    npy_intp dims[NPY_MAXDIMS];
    int ndim = 0;
    const bool matrix = slot.is_plane() && one_ && !slot.dims.empty();
    if (slot.box == Box::Sink || matrix)
        for (const int64_t extent : slot.dims) dims[ndim++] = static_cast<npy_intp>(extent);
    if (slot.box == Box::Rows || (slot.box == Box::Mirror && !matrix)) dims[ndim++] = static_cast<npy_intp>(slot.width);
    if (slot.is_plane() ? !one_ : ndim == 0) dims[ndim++] = static_cast<npy_intp>(n_);
    planes_[i] =
        zero || slot.zero ? PyArray_ZEROS(ndim, dims, slot.typenum, 0) : PyArray_SimpleNew(ndim, dims, slot.typenum);
    if (!planes_[i]) return false;
    if (slot.box != Box::Rows) fill(slot, boxes_[i], PyArray_DATA(as_array(planes_[i])), n_);
    if (slot.is_buffer()) boxes_[i].cell = PyArray_NBYTES(as_array(planes_[i]));
    return true;
}

/// Two planes that share bytes, one of them written. The very same array as input and output serves where each sample
/// is read before anything of it is written, and not read again.
bool Block::unfit_overlap(bool aliasable) const {
    const std::vector<Slot>& slots = *kernel_->slots;
    for (std::size_t i = 0; i < slots.size(); ++i) {
        if (!slots[i].writes || !planes_[i]) continue;
        const char* begin = static_cast<const char*>(PyArray_DATA(as_array(planes_[i])));
        const char* end = begin + PyArray_NBYTES(as_array(planes_[i]));
        for (std::size_t j = 0; j < slots.size(); ++j) {
            if (i == j || !planes_[j]) continue;
            const char* other = static_cast<const char*>(PyArray_DATA(as_array(planes_[j])));
            const char* other_end = other + PyArray_NBYTES(as_array(planes_[j]));
            if (other >= end || other_end <= begin) continue;
            if (begin == end || other == other_end) continue;
            const bool same = other == begin && other_end == end && !slots[j].writes && slots[j].is_plane() &&
                              slots[j].width == slots[i].width && slots[j].bytes == slots[i].bytes;
            if (!same || !aliasable) return true;
        }
    }
    return false;
}

/// Holds the array that slot i is to read or write: the value, or one of numpy over the memory of another library's.
/// false for what needs a closer look.
bool Block::take(std::size_t i, PyObject* value, bool exact) {
    if (!exact || PyArray_CheckExact(value)) {
        Py_INCREF(planes_[i] = value);
        return true;
    }
    planes_[i] = quick_alias(value);
    if (!planes_[i] || (foreign_ && Py_TYPE(foreign_) != Py_TYPE(value))) return false;
    foreign_ = value;
    return true;
}

/// take() for a plane: also a number that is one sample of an input, or of state that a stepper starts from.
bool Block::take_plane(std::size_t i, PyObject* value, Door door) {
    const Slot& slot = (*kernel_->slots)[i];
    if (door != Door::Bind && kernel_->lone && slot.box == Box::Handle && (!slot.writes || door == Door::Step) &&
        (PyFloat_CheckExact(value) || PyLong_CheckExact(value)))
        return (planes_[i] = number_array(slot, value)) != nullptr;
    return take(i, value, door != Door::Bind);
}

Block::Packed Block::pack(PyObject* const* values, const int16_t* position, Door door, const Cut& cut) {
    const std::vector<Slot>& slots = *kernel_->slots;
    values_ = values;
    for (std::size_t i = 0; i < slots.size(); ++i) position_[i] = position[i];  // a producer may call the same door
    position = position_;
    const bool exact = door != Door::Bind;
    bool omitted = false;
    for (std::size_t i = 0; i < slots.size(); ++i) {
        const Slot& slot = slots[i];
        BoxStorage& box = boxes_[i];
        params_[i] = &box;
        if (slot.is_plane()) {
            if (position[i] < 0) {
                if (!omits(slot, door)) return Packed::Unfit;
                omitted = true;
                continue;
            }
            int64_t n;
            PyObject* value = values[position[i]];
            if (PyArray_CheckExact(value)) [[likely]]
                Py_INCREF(planes_[i] = value);
            else if (!take_plane(i, value, door))
                return Packed::Unfit;
            if (!is_plane_of(slot, planes_[i], exact, &n)) [[unlikely]] {
                if (!exact || !kernel_->lone || !is_head_of(slot, planes_[i], exact) || (n_ >= 0 && !one_))
                    return Packed::Unfit;
                one_ = true;
                n = 1;
            } else if (one_) {
                return Packed::Unfit;
            }
            if (n_ >= 0 && n != n_) return Packed::Unfit;
            n_ = n;
            fill(slot, box, PyArray_DATA(as_array(planes_[i])), n);
        } else if (slot.box == Box::Companion) {
            if (position[i] < 0) continue;
            if (!take(i, values[position[i]], exact) || !has_cells_of(slot, planes_[i], exact)) return Packed::Unfit;
        } else if (slot.is_buffer()) {
            if (position[i] < 0 && slot.box == Box::Sink && slot.allocates() && omits(slot, door)) {
                omitted = true;
                continue;
            }
            if (position[i] < 0 || !take(i, values[position[i]], exact) || !is_buffer_of(slot, planes_[i], exact))
                return Packed::Unfit;
            PyArrayObject* array = as_array(planes_[i]);
            fill(slot, box, PyArray_DATA(array), PyArray_DIM(array, PyArray_NDIM(array) - 1));
            box.cell = PyArray_NBYTES(array);
        } else if (slot.box == Box::Rows) {
            // Only the first rows of a reduction have a width: that of its result.
            if (slot.width == 0) {
                if (position[i] >= 0) return Packed::Unfit;  // rows are nobody's argument
                continue;
            }
            if (position[i] < 0) {
                if (door == Door::Bind) return Packed::Unfit;
                omitted = true;
            } else {
                if (door == Door::Run || !take(i, values[position[i]], exact) || !is_result_of(slot, planes_[i], exact))
                    return Packed::Unfit;
            }
        } else if (slot.box == Box::Cell) {
            void* cell = &box.cell;
            box.cell = slot.cell;
            if (position[i] >= 0) {
                if (!take(i, values[position[i]], exact) || !is_cell_of(slot, planes_[i], exact)) return Packed::Unfit;
                cell = PyArray_DATA(as_array(planes_[i]));
            }
            box.handle = {cell, 1, 1, 1, 0};
        } else if (slot.is_uniform()) {
            if (position[i] < 0 || !read_uniform(slot, values[position[i]], box)) return Packed::Unfit;
        }
    }
    if (n_ < 0 || n_ > std::numeric_limits<plugin::Index>::max() || !cut.fits(n_)) return Packed::Unfit;
    if (foreign_ && door == Door::Step) return Packed::Unfit;  // a stepper writes to copies of them
    for (std::size_t i = 0; i < slots.size(); ++i) {
        const Slot& slot = slots[i];
        if (slot.box == Box::SampleCount) {
            boxes_[i].u32 = static_cast<plugin::Index>(n_);
        } else if (slot.box == Box::Sink && planes_[i]) {
            if (PyArray_SIZE(as_array(planes_[i])) < slot.cell * n_) return Packed::Unfit;
            boxes_[i].handle.samples = static_cast<uint64_t>(n_);
        } else if (slot.box == Box::Mirror && position[i] >= 0 && slot.width == n_ && slot.width > 1 &&
                   door != Door::Bind) {
            return Packed::Unfit;  // (w, w) reads both ways: the careful path decides
        }
    }
    for (std::size_t i = 0; omitted && i < slots.size(); ++i)
        if (!planes_[i] && slots[i].allocates() && !allocate(i, door == Door::Step)) return Packed::Error;
    if (!launch_is_all(kernel_)) {
        if (n_ == 0 && !kernel_->reductions->empty()) return Packed::Unfit;
        for (const Fold& fold : *kernel_->folds)
            if (planes_[fold.companion] &&
                !PyArray_SAMESHAPE(as_array(planes_[fold.companion]), as_array(planes_[fold.sink])))
                return Packed::Unfit;
        if (!allocate_scratch()) {
            PyErr_NoMemory();
            return Packed::Error;
        }
    }
    if (foreign_ && !unmoved()) return Packed::Unfit;  // by the code of a producer that was asked later
    return unfit_overlap(kernel_->aliasable && door != Door::Step) ? Packed::Unfit : Packed::Yes;
}

bool Block::unmoved() const {
    std::size_t moved;
    for (std::size_t i = 0; i < kernel_->slots->size(); ++i) {
        PyObject* base = planes_[i] && position_[i] >= 0 ? PyArray_BASE(as_array(planes_[i])) : nullptr;
        if (!base || !Py_IS_TYPE(base, ViewType)) continue;
        const auto* view = reinterpret_cast<const ViewObject*>(base);
        if (is_read_quickly(view) && moved_quietly(view)) return false;
    }
    return intact(&moved);
}

bool Block::deliver() {
    PyObject* adapter = nullptr;
    bool done = true;
    for (std::size_t i = 0; (foreign_ || one_) && done && i < kernel_->slots->size(); ++i) {
        if (!(*kernel_->slots)[i].result || position_[i] >= 0) continue;
        if (foreign_ && !adapter && !(adapter = host_adapter(foreign_))) return false;
        PyObject* made = adapter ? PyObject_CallMethod(adapter, "from_numpy", "O", planes_[i]) : Py_NewRef(planes_[i]);
        if (made && PyArray_CheckExact(made)) made = PyArray_Return(as_array(made));
        done = made != nullptr;
        if (done) Py_SETREF(planes_[i], made);
    }
    Py_XDECREF(adapter);
    return done;
}

PyObject* Block::results(bool alone) const {
    const std::vector<Slot>& slots = *kernel_->slots;
    PyObject* only = nullptr;
    std::size_t count = 0;
    for (std::size_t i = 0; i < slots.size(); ++i)
        if (slots[i].result) {
            only = shown(i);
            ++count;
        }
    if (alone && count == 1) return Py_NewRef(only);
    PyObject* all = PyDict_New();
    for (std::size_t i = 0; all && i < slots.size(); ++i)
        if (slots[i].result && PyDict_SetItem(all, slots[i].name, shown(i)) < 0) Py_CLEAR(all);
    return all;
}

bool Block::allocate_scratch() {
    constexpr std::size_t kLine = 64;
    const std::vector<Slot>& slots = *kernel_->slots;
    for (const Fold& fold : *kernel_->folds) {
        BoxStorage& box = boxes_[fold.companion];
        PyObject* plane = planes_[fold.companion] ? planes_[fold.companion] : planes_[fold.sink];
        box.handle = {PyArray_DATA(as_array(plane)), static_cast<uint64_t>(n_), 1, 1, 0};
        box.cell = PyArray_NBYTES(as_array(plane));
    }
    const int64_t rows = (n_ + kRow - 1) / kRow;
    std::size_t bytes = 0;
    for (const bool placing : {false, true}) {  // first how much, then where
        auto* next = static_cast<char*>(scratch_.get());
        for (std::size_t i = 0; i < slots.size(); ++i) {
            if (slots[i].box == Box::Rows)
                boxes_[i].cell = rows * slots[i].cell;
            else if (!owns(i))
                continue;
            const std::size_t size = (static_cast<std::size_t>(boxes_[i].cell) + kLine - 1) / kLine * kLine;
            if (placing) {
                boxes_[i].handle = {next, static_cast<uint64_t>(n_), 1, 1, 0};
                next += size;
            } else {
                bytes += size;
            }
        }
        if (placing) break;
        scratch_.reset(std::calloc(bytes ? bytes : 1, 1));
        if (!scratch_) return false;
    }
    outs_.clear();
    for (const Reduction& reduction : *kernel_->reductions)
        outs_.push_back(PyArray_DATA(as_array(planes_[reduction.rows[0]])));
    return true;
}

template <class T>
void Block::finish(const Reduction& reduction, T* out) const {
    const int64_t count = (n_ + kRow - 1) / kRow;
    for (std::size_t column = 0; column < reduction.rows.size(); ++column) {
        const auto* rows = static_cast<const T*>(boxes_[reduction.rows[column]].handle.data);
        const auto* lost =
            reduction.lost.empty() ? nullptr : static_cast<const T*>(boxes_[reduction.lost[column]].handle.data);
        out[column] = reduce::canonical(reduction.op, rows, lost, count);
    }
}

void Block::begin() const {
    for (const Fold& fold : *kernel_->folds)
        if (owns(fold.companion)) {
            const BoxStorage& box = boxes_[fold.companion];
            std::memset(box.handle.data, 0, static_cast<std::size_t>(box.cell));
        }
}

eagle_status Block::finish() const {
    for (const Fold& fold : *kernel_->folds) {
        if (!owns(fold.companion)) continue;
        const Slot& sink = (*kernel_->slots)[fold.sink];
        const int64_t size = boxes_[fold.companion].cell / (sink.bytes / sink.width);
        if (const eagle_status status = launch_entry(kernel_, fold.entry, params_, {0, size, size})) return status;
    }
    for (std::size_t i = 0; i < outs_.size(); ++i) {
        const Reduction& reduction = (*kernel_->reductions)[i];
        if ((*kernel_->slots)[reduction.rows[0]].typenum == NPY_FLOAT)
            finish(reduction, static_cast<float*>(outs_[i]));
        else
            finish(reduction, static_cast<double*>(outs_[i]));
    }
    return EAGLE_OK;
}

eagle_status Block::run(const Cut& cut) const {
    begin();
    if (const eagle_status status = launch_released(kernel_, params_, n_, cut)) return status;
    return finish();
}

int Block::traverse(visitproc visit, void* arg) const {
    Py_VISIT(kernel_);
    for (std::size_t i = 0; i < kernel_->slots->size(); ++i) Py_VISIT(planes_[i]);
    return 0;
}

bool Block::intact(std::size_t* moved) const {
    const std::vector<Slot>& slots = *kernel_->slots;
    for (std::size_t i = 0; i < slots.size(); ++i) {
        if (!planes_[i]) continue;
        const Slot& slot = slots[i];
        const BoxStorage& box = boxes_[i];
        PyArrayObject* array = as_array(planes_[i]);
        int64_t n = 0;
        if (slot.box == Box::Rows) {
            if (is_result_of(slot, planes_[i], false) && std::ranges::find(outs_, PyArray_DATA(array)) != outs_.end())
                continue;
            *moved = i;
            return false;
        }
        const bool alike =
            slot.box == Box::Companion ? has_cells_of(slot, planes_[i], false) && PyArray_NBYTES(array) == box.cell
            : slot.is_buffer()         ? is_buffer_of(slot, planes_[i], false) && PyArray_NBYTES(array) == box.cell
            : one_ && slot.is_plane()
                ? is_head_of(slot, planes_[i], false)
                : is_plane_of(slot, planes_[i], false, &n) && n == (slot.box == Box::Cell ? 1 : n_);
        const void* packed = slot.box == Box::Mirror || slot.box == Box::Matrix ? box.mirror.data : box.handle.data;
        if (!alike || PyArray_DATA(array) != packed ||
            (slot.box == Box::Table && slot.cell != 0 && !leads_inside(slot, array, n_))) {
            *moved = i;
            return false;
        }
    }
    return true;
}

}  // namespace eagle::core
