// SPDX-License-Identifier: Apache-2.0
extern "C" __attribute__((visibility("default"))) void in_region(void (*body)(void*), void* argument) {
#pragma omp parallel num_threads(2)
    {
#pragma omp master
        body(argument);
    }
}
