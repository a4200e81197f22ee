// numpy's C API, shared by the translation units of _core; calls.cpp imports it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define PY_ARRAY_UNIQUE_SYMBOL eagle_core_numpy
#ifndef EAGLE_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#define NPY_NO_DEPRECATED_API NPY_1_23_API_VERSION
#include <Python.h>

#include <numpy/arrayobject.h>
