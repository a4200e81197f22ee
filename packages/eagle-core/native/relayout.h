// A plane in the caller's own memory order, beside the component-major copy of it that a kernel works on.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <cstdint>

#include "loader.h"

namespace eagle::core {

class Relayout {
public:
    /// Of two numpy arrays with the samples last: `copy` is C-contiguous, `theirs` has any strides and one or two axes
    /// of components before the samples. Both are borrowed. Throws std::invalid_argument for arrays that do not match.
    Relayout(PyObject* copy, PyObject* theirs, bool in, bool out);

    /// What a launch needs before it and behind it: the copies, cut as launches are. Without the GIL.
    eagle_status before(const Backend& seam) const { return in_ ? run<true>(seam) : EAGLE_OK; }
    eagle_status behind(const Backend& seam) const { return out_ ? run<false>(seam) : EAGLE_OK; }

private:
    template <bool in>
    eagle_status run(const Backend& seam) const;
    template <bool in>
    static void entry(void* const* params, int64_t base, int64_t count, int64_t n);
    template <class Element, bool in>
    void move(int64_t base, int64_t count) const;

    char *copy_, *theirs_;
    int64_t samples_, size_;                                                         ///< size: bytes of an element
    int64_t rows_ = 1, columns_ = 1, row_step_ = 0, column_step_ = 0, sample_step_;  ///< steps in bytes, of theirs
    bool in_, out_;
};

}  // namespace eagle::core
