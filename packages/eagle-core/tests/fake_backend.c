/* A backend in one file; macros choose what is wrong with it.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * VERSION      what eagle_backend_version returns
 * ONLY_VERSION exports nothing else
 * OMIT_PROBE   leaves out a required symbol
 * KIND         the kind build_info tells
 * BITS         the capability bits
 * STREAMS      exports the stream group but for stream_release when 1, all of it when 2
 * DEVICES      the device types, comma-separated
 * TRANSFERS    which of these it exports: 1 memcpy, 2 memcpy_device, 4 host_alloc, 8 host_free; copies are noted
 * FENCES       exports the interop group, which notes each fence, and pointer_residency
 * BUILD_BYTES  how much of build_info it fills
 * FAIL         the required call that fails: 1 capabilities, 2 device_types, 3 build_info, 4 probe
 * PROBE        what probe does besides: abort() or pause() */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "eagle/eagle_backend.h"

#ifndef VERSION
#define VERSION EAGLE_BACKEND_VERSION
#endif
#ifndef KIND
#define KIND "fake"
#endif
#ifndef BITS
#define BITS 0
#endif
#ifndef STREAMS
#define STREAMS 0
#endif
#ifndef TRANSFERS
#define TRANSFERS 0
#endif
#ifndef DEVICES
#define DEVICES 77
#endif
#ifndef BUILD_BYTES
#define BUILD_BYTES sizeof(eagle_build_info)
#endif
#ifndef FAIL
#define FAIL 0
#endif
#ifndef PROBE
#define PROBE ((void)0)
#endif

uint32_t eagle_backend_version(void) { return VERSION; }

#ifndef ONLY_VERSION

static _Thread_local const char *message = "";

static eagle_status fail(eagle_status status, const char *text) {
    message = text;
    return status;
}

const char *eagle_backend_last_error(void) { return message; }
void eagle_backend_free(void *array) { free(array); }

eagle_status eagle_backend_capabilities(uint64_t *out) {
    if (FAIL == 1) return fail(EAGLE_ERROR, "no capabilities today");
    *out = BITS;
    return EAGLE_OK;
}

eagle_status eagle_backend_device_types(int32_t *types, int32_t cap, int32_t *count) {
    static const int32_t mine[] = {DEVICES};
    if (FAIL == 2) return fail(EAGLE_ERROR, "no device types today");
    *count = sizeof mine / sizeof *mine;
    memcpy(types, mine, sizeof *mine * (*count < cap ? *count : cap));
    return EAGLE_OK;
}

eagle_status eagle_backend_build_info(eagle_build_info *out) {
    if (FAIL == 3) return fail(EAGLE_ERROR, "no build info today");
    const eagle_build_info all = {
        .abi_version = VERSION, .eagle_version = "9.9.9", .archs = "none", .backend_kind = KIND};
    const uint32_t bytes = out->struct_size < BUILD_BYTES ? out->struct_size : BUILD_BYTES;
    memcpy(out, &all, bytes);
    out->struct_size = bytes;
    return EAGLE_OK;
}

#ifndef OMIT_PROBE
eagle_status eagle_backend_probe(void) {
    PROBE;
    return FAIL == 4 ? fail(EAGLE_UNAVAILABLE, "caf\xe9: no device") : EAGLE_OK;
}
#endif

eagle_status eagle_backend_device_props(int32_t device, eagle_device_props *out) {
    if (device < -1 || device > 1) return fail(EAGLE_INVALID_ARGUMENT, "there are two devices");
    out->device = device < 0 ? 1 : device;
    snprintf(out->name, sizeof out->name, "fake device %d", out->device);
    out->cc_major = 1, out->cc_minor = 2, out->sm_count = 3, out->clock_rate_khz = 4;
    out->memory_clock_rate_khz = 5, out->memory_bus_width_bits = 6, out->warp_size = 11;
    out->shared_mem_per_block = 7, out->shared_mem_per_sm = 8, out->regs_per_block = 9, out->regs_per_sm = 10;
    out->peak_bytes_per_s = 12.5, out->peak_flops_sp = 13.5, out->peak_flops_dp = 14.5, out->fp64_ratio = 15.5;
    out->ridge_flops_per_byte_sp = 16.5, out->ridge_flops_per_byte_dp = 17.5;
    return EAGLE_OK;
}

#if STREAMS
/* The stream of device n has the handle 1000 + n. */
int32_t streams = 0, waits = 0;
eagle_status eagle_backend_stream_create(const eagle_stream_desc *desc, eagle_stream *out) {
    ++streams;
    *out = (eagle_stream)(uintptr_t)(1000 + desc->device);
    return EAGLE_OK;
}
eagle_status eagle_backend_stream_ptr(eagle_stream stream, uint64_t *out) {
    *out = (uintptr_t)stream;
    return EAGLE_OK;
}
eagle_status eagle_backend_stream_synchronize(eagle_stream stream) {
    (void)stream;
    ++waits;
    return EAGLE_OK;
}
#endif
#if STREAMS == 2
void eagle_backend_stream_release(eagle_stream stream) { streams -= stream != NULL; }
#endif

/* Memory of the fake's devices is the host's. A row for each copy: bytes, direction, stream. */
int64_t copied[16][3];
int32_t copies = 0;
__attribute__((unused)) static eagle_status move(uint64_t dst, uint64_t src, uint64_t bytes, int32_t direction,
                                                 uint64_t stream) {
    int64_t *row = copied[copies++ % 16];
    row[0] = (int64_t)bytes, row[1] = direction, row[2] = (int64_t)stream;
    if (dst < src + bytes && src < dst + bytes) return fail(EAGLE_INVALID_ARGUMENT, "the ranges overlap");
    memcpy((void *)(uintptr_t)dst, (void *)(uintptr_t)src, bytes);
    return EAGLE_OK;
}
#if TRANSFERS & 1
eagle_status eagle_backend_memcpy(uint64_t dst, uint64_t src, uint64_t bytes, int32_t direction, uint64_t stream) {
    if (direction < 0 || direction > 3) return fail(EAGLE_INVALID_ARGUMENT, "no such direction");
    return move(dst, src, bytes, direction, stream);
}
#endif
#if TRANSFERS & 2
eagle_status eagle_backend_memcpy_device(uint64_t dst, uint64_t src, uint64_t bytes, uint64_t stream) {
    return move(dst, src, bytes, -1, stream);
}
#endif
int32_t pinned = 0; /* blocks that were not freed */
#if TRANSFERS & 4
eagle_status eagle_backend_host_alloc(uint64_t bytes, uint64_t *out) {
    if (bytes > 1u << 30) return fail(EAGLE_ERROR, "there is not so much memory");
    pinned += bytes != 0;
    *out = bytes ? (uintptr_t)malloc(bytes) : 0;
    return EAGLE_OK;
}
#endif
#if TRANSFERS & 8
eagle_status eagle_backend_host_free(uint64_t ptr) {
    pinned -= ptr != 0;
    free((void *)(uintptr_t)ptr);
    return EAGLE_OK;
}
#endif

#ifdef EXTENSIONS
static int32_t threads = 4;
eagle_status eagle_backend_team_size(int32_t n, int32_t *previous) {
    if (n < 0) return fail(-7, "negative team");
    *previous = threads;
    if (n > 0) threads = n;
    return EAGLE_OK;
}

/* The image is one byte, the status module_load returns; its one function and one datum are called "entry". */
static int opened = 0;
eagle_status eagle_backend_module_load(const eagle_module_desc *desc, eagle_module *out) {
    const eagle_status status = *(const char *)desc->image;
    if (status != EAGLE_OK) return fail(status, "module_load was told to fail");
    ++opened;
    *out = (eagle_module)&opened;
    return EAGLE_OK;
}
eagle_status eagle_backend_module_function(eagle_module module, const char *name, uint64_t *out) {
    (void)module;
    if (strcmp(name, "entry") != 0) return fail(EAGLE_INDEX, "no such entry");
    *out = 1000 + (uint64_t)opened;
    return EAGLE_OK;
}
eagle_status eagle_backend_module_global(eagle_module module, const char *name, uint64_t *ptr, uint64_t *bytes) {
    *bytes = 8;
    return eagle_backend_module_function(module, name, ptr);
}
void eagle_backend_module_release(eagle_module module) {
    if (module != NULL) --opened;
}
#endif

#ifdef FENCES
int64_t fenced[16][4];
int32_t fences = 0;
eagle_status eagle_backend_fence(int32_t device_type, int32_t device_id, int64_t producer, int64_t consumer) {
    int64_t *row = fenced[fences++ % 16];
    row[0] = device_type, row[1] = device_id, row[2] = producer, row[3] = consumer;
    return EAGLE_OK;
}
eagle_status eagle_backend_event_pool_created(int64_t *out) {
    *out = 0;
    return EAGLE_OK;
}
/* Addresses from 2**40 on are of device 1. */
eagle_status eagle_backend_pointer_residency(int32_t device, uint64_t ptr, int32_t *out) {
    *out = device == (ptr >> 40 != 0) ? EAGLE_RESIDENCY_DEVICE : EAGLE_RESIDENCY_OTHER_DEVICE;
    return EAGLE_OK;
}
eagle_status eagle_backend_compact_device(eagle_compact_desc *desc) {
    (void)desc;
    return EAGLE_OK;
}
#endif

#endif
