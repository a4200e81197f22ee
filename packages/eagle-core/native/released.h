// The GIL, given up for a while.
//
// SPDX-License-Identifier: Apache-2.0
//
// CPython ends a thread that asks for the GIL behind the interpreter's end; before 3.14 by pthread_exit, whose
// unwinding would end the process at the first frame that lets nothing through, such as a destructor.
#pragma once

#include <Python.h>

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

namespace eagle::core {

/// What `body` gives, which may ask for the GIL. A thread that would be ended sleeps for as long as the process lives.
template <class Body>
decltype(auto) outliving(Body&& body) {
#ifdef __GLIBCXX__
    try {
        return std::forward<Body>(body)();
    } catch (...) {
        while (!std::current_exception()) std::this_thread::sleep_for(std::chrono::hours(1));  // it is no C++ exception
        throw;
    }
#else
    return std::forward<Body>(body)();
#endif
}

/// The thread is without the GIL while it lives.
class Released {
public:
    Released() : state_(PyEval_SaveThread()) {}
    ~Released() {
        outliving([this] { PyEval_RestoreThread(state_); });
    }
    Released(const Released&) = delete;
    Released& operator=(const Released&) = delete;

private:
    PyThreadState* const state_;
};

}  // namespace eagle::core
