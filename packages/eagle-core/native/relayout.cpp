// SPDX-License-Identifier: Apache-2.0
#include "relayout.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "eagle/plugin.h"
#include "numpy_api.h"

namespace eagle::core {

namespace {

constexpr int64_t kTile = 256;               // samples whose components are moved while they are near
constexpr int64_t kPieceBytes = 128 * 1024;  // worth handing to another thread

}  // namespace

Relayout::Relayout(PyObject* copy, PyObject* theirs, bool in, bool out) : in_(in), out_(out) {
    auto *own = reinterpret_cast<PyArrayObject*>(copy), *other = reinterpret_cast<PyArrayObject*>(theirs);
    const bool arrays = PyArray_Check(copy) && PyArray_Check(theirs) && PyArray_ISCARRAY(own);
    const int axes = arrays ? PyArray_NDIM(other) : 0;
    if (axes < 1 || axes > 3 || PyArray_TYPE(own) != PyArray_TYPE(other) || PyArray_SIZE(own) != PyArray_SIZE(other) ||
        (out && !PyArray_ISWRITEABLE(other)))
        throw std::invalid_argument("_core.Bound: two arrays that are not one plane");
    copy_ = static_cast<char*>(PyArray_DATA(own));
    theirs_ = static_cast<char*>(PyArray_DATA(other));
    samples_ = PyArray_DIM(other, axes - 1);
    size_ = PyArray_ITEMSIZE(own);
    sample_step_ = PyArray_STRIDE(other, axes - 1);
    if (axes > 1) columns_ = PyArray_DIM(other, axes - 2), column_step_ = PyArray_STRIDE(other, axes - 2);
    if (axes > 2) rows_ = PyArray_DIM(other, 0), row_step_ = PyArray_STRIDE(other, 0);
}

template <class Element, bool in>
void Relayout::move(int64_t base, int64_t count) const {
    for (int64_t tile = base; tile < base + count; tile += kTile) {
        const int64_t samples = std::min(kTile, base + count - tile);
        for (int64_t row = 0; row < rows_; ++row) {
            for (int64_t column = 0; column < columns_; ++column) {
                char* own = copy_ + ((row * columns_ + column) * samples_ + tile) * size_;
                char* other = theirs_ + row * row_step_ + column * column_step_ + tile * sample_step_;
                for (int64_t i = 0; i < samples; ++i) {
                    // theirs may be unaligned
                    if constexpr (in)
                        std::memcpy(own + i * sizeof(Element), other + i * sample_step_, sizeof(Element));
                    else
                        std::memcpy(other + i * sample_step_, own + i * sizeof(Element), sizeof(Element));
                }
            }
        }
    }
}

template <bool in>
void Relayout::entry(void* const* params, int64_t base, int64_t count, int64_t) {
    const auto* self = static_cast<const Relayout*>(params[0]);
    if (self->size_ == 8)
        self->move<uint64_t, in>(base, count);
    else if (self->size_ == 4)
        self->move<uint32_t, in>(base, count);
    else
        self->move<uint8_t, in>(base, count);
}

template <bool in>
eagle_status Relayout::run(const Backend& seam) const {
    if (samples_ == 0) return EAGLE_OK;
    const void* params[] = {this};
    eagle_launch_desc desc{};
    desc.struct_size = sizeof desc;
    desc.device = -1;
    desc.block = static_cast<uint32_t>(std::max<int64_t>(kPieceBytes / (rows_ * columns_ * size_), 64));
    desc.function = reinterpret_cast<uint64_t>(static_cast<plugin::HostEntry>(&entry<in>));
    desc.params = reinterpret_cast<const uint64_t*>(params);
    desc.nparams = 1;
    desc.n_samples = desc.count = samples_;
    int32_t launched = 0;
    return seam.fn.run_device(&desc, &launched);
}

template eagle_status Relayout::run<true>(const Backend& seam) const;
template eagle_status Relayout::run<false>(const Backend& seam) const;

}  // namespace eagle::core
