/* Small backends of eagle-backend/1 for the tests of the suite: a good one, and one wrong one per -DWRONG_*.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * The good one has the required symbols alone; -DFULL adds all groups but device, and the extensions team_size,
 * step_run, host_call and capture_fuse, on the calling thread. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "eagle/eagle_backend.h"

#ifdef WRONG_SHARED_ERROR
static const char *message = "";
#else
static _Thread_local const char *message = "";
#endif

static eagle_status refuse(eagle_status status, const char *text) {
    message = text;
    return status;
}

#ifdef WRONG_OPENING
__attribute__((constructor)) static void open_and_die(void) { abort(); }
#endif

#ifdef WRONG_EXPORT
int helper(void) { return 1; }
#endif

/* ---- required ---------------------------------------------------------------------------------------------------- */

uint32_t eagle_backend_version(void) {
#ifdef WRONG_CRASH_VERSION
    abort();
#endif
#if defined(WRONG_MAJOR)
    return 2u << 16;
#elif defined(NEWER_MINOR)
    return EAGLE_BACKEND_VERSION + 3;
#elif defined(OLDER_MINOR)
    return 1u << 16;
#else
    return EAGLE_BACKEND_VERSION;
#endif
}

const char *eagle_backend_last_error(void) { return message; }

eagle_status eagle_backend_build_info(eagle_build_info *out) {
#ifdef WRONG_CRASH_BUILD_INFO
    abort();
#endif
#ifndef WRONG_NULL
    if (!out) return refuse(EAGLE_INVALID_ARGUMENT, "build_info: out is NULL");
#endif
#ifdef OLDER_MINOR
    const uint32_t own = 176;
#else
    const uint32_t own = sizeof(eagle_build_info);
#endif
#ifdef WRONG_OVERRUN
    uint32_t size = own;
#else
    uint32_t size = out->struct_size < own ? out->struct_size : own;
#endif
    if (size < 12) return refuse(EAGLE_INVALID_ARGUMENT, "build_info: struct_size is below 12");
    eagle_build_info info = {0};
    info.struct_size = size;
    info.abi_version = eagle_backend_version();
    strcpy(info.eagle_version, "0.8.0");
#if defined(WRONG_KIND)
    strcpy(info.backend_kind, "other");
#elif defined(WRONG_KIND_TEXT)
    strcpy(info.backend_kind, "Fake 2");
#else
    strcpy(info.backend_kind, "fake");
#endif
    memcpy(out, &info, size);
    return EAGLE_OK;
}

#ifndef WRONG_MISSING
eagle_status eagle_backend_probe(void) {
#if defined(WRONG_CRASH_PROBE)
    abort();
#elif defined(NO_DEVICE)
    return refuse(EAGLE_UNAVAILABLE, "the fake has no device");
#else
    return EAGLE_OK;
#endif
}
#endif

void eagle_backend_free(void *array) { free(array); }

eagle_status eagle_backend_capabilities(uint64_t *out) {
#ifdef WRONG_CRASH_CAPABILITIES
    abort();
#endif
    if (!out) return refuse(EAGLE_INVALID_ARGUMENT, "capabilities: out is NULL");
    *out = 0;
#ifdef FULL
    *out |= 1u << EAGLE_CAP_STREAM | 1u << EAGLE_CAP_EXEC | 1u << EAGLE_CAP_INTEROP | 1u << EAGLE_CAP_FILTERING;
    *out |= 1u << EAGLE_CAP_CAPTURER | 1u << EAGLE_CAP_CAPTURED | 1u << EAGLE_CAP_FORK | 1u << EAGLE_CAP_CONDITIONAL;
    *out |= 1u << EAGLE_CAP_ATTRIBUTION | 1u << EAGLE_CAP_GRAPH | 1u << EAGLE_CAP_LAUNCHER;
    *out |= 1u << EAGLE_CAP_COND_IF_ELSE | 1u << EAGLE_CAP_COND_SWITCH;
#endif
#ifdef WRONG_LYING_BIT
    *out |= 1u << EAGLE_CAP_DEVICE;
#endif
#ifdef WRONG_RESERVED_BIT
    *out |= 1u << 8;
#endif
    return EAGLE_OK;
}

eagle_status eagle_backend_device_types(int32_t *types, int32_t cap, int32_t *count) {
#ifdef WRONG_CRASH_DEVICE_TYPES
    abort();
#endif
    if (!count || (cap > 0 && !types)) return refuse(EAGLE_INVALID_ARGUMENT, "device_types: a pointer is NULL");
#ifdef WRONG_TYPES_CAP
    cap = 1;
#endif
    if (cap > 0) types[0] = 1;
    *count = 1;
    return EAGLE_OK;
}

#if defined(WRONG_CLEAR_BIT) && !defined(FULL)
eagle_status eagle_backend_graph_create(const eagle_graph_desc *desc, eagle_graph *out) {
    (void)desc, (void)out;
    return EAGLE_OK;
}
#endif

#ifdef FULL

static eagle_status bad_desc(uint32_t size, uint32_t flags, uint32_t known, int32_t device) {
    if (size < 12) return refuse(EAGLE_INVALID_ARGUMENT, "struct_size is below 12");
#ifdef WRONG_FLAGS
    known = ~0u;
#endif
    if (flags & ~known) return refuse(EAGLE_UNSUPPORTED, "an unknown flag is set");
    if (device < -1 || device > 0) return refuse(EAGLE_INVALID_ARGUMENT, "no such device");
    return EAGLE_OK;
}

#define READ(Type, copy, desc)                                        \
    Type copy = {0};                                                  \
    if (!desc) return refuse(EAGLE_INVALID_ARGUMENT, "desc is NULL"); \
    memcpy(&copy, desc, (desc)->struct_size < sizeof(copy) ? (desc)->struct_size : sizeof(copy))

/* ---- stream ------------------------------------------------------------------------------------------------------ */

static int live[64];
static eagle_stream stream_of(int slot) { return (eagle_stream)(uintptr_t)(0x1000 + slot); }

static int slot_of(eagle_stream stream) {
    for (int slot = 0; slot < 64; ++slot)
        if (stream == stream_of(slot) && live[slot]) return slot;
    return -1;
}

eagle_status eagle_backend_stream_create(const eagle_stream_desc *desc, eagle_stream *out) {
    READ(eagle_stream_desc, copy, desc);
    eagle_status status = bad_desc(copy.struct_size, copy.flags, EAGLE_STREAM_NON_BLOCKING, copy.device);
    if (status) return status;
    if (!out) return refuse(EAGLE_INVALID_ARGUMENT, "out is NULL");
    for (int slot = 0; slot < 64; ++slot)
        if (!live[slot]) {
            live[slot] = 1;
            *out = stream_of(slot);
            return EAGLE_OK;
        }
    return refuse(EAGLE_ERROR, "no stream is left");
}

eagle_status eagle_backend_stream_ptr(eagle_stream stream, uint64_t *out) {
    if (slot_of(stream) < 0) return refuse(EAGLE_BAD_HANDLE, "no such stream");
    if (!out) return refuse(EAGLE_INVALID_ARGUMENT, "out is NULL");
    *out = (uint64_t)(uintptr_t)stream;
    return EAGLE_OK;
}

eagle_status eagle_backend_stream_synchronize(eagle_stream stream) {
    return slot_of(stream) < 0 ? refuse(EAGLE_BAD_HANDLE, "no such stream") : EAGLE_OK;
}

void eagle_backend_stream_release(eagle_stream stream) {
#ifdef WRONG_RELEASE
    if (!stream) abort();
#elif defined(WRONG_STALE_HANDLE)
    return;
#endif
    int slot = slot_of(stream);
    if (slot >= 0) live[slot] = 0;
}

/* ---- exec -------------------------------------------------------------------------------------------------------- */

typedef void (*entry)(const uint64_t *params, int64_t base, int64_t count, int64_t n_samples);

#include "fake_capture.h"
#include "fake_replay.h"

eagle_status eagle_backend_run_device(const eagle_launch_desc *desc, int32_t *launched) {
    READ(eagle_launch_desc, d, desc);
    eagle_status status = bad_desc(d.struct_size, d.flags, 0, d.device);
    if (status) return status;
    if (!launched || !d.function || d.nparams < 0 || (d.nparams && !d.params) || !d.block)
        return refuse(EAGLE_INVALID_ARGUMENT, "a bad launch");
    *launched = d.count > 0;
    if (!*launched) return EAGLE_OK;
    fake_list *list = *sink_of(d.stream);
    if (list) {
        fake_node *node = record(list, FAKE_LAUNCH);
        node->launch = d;
        hold(node, d.params, d.param_sizes);
#ifndef WRONG_CAPTURE_RUNS
        return EAGLE_OK;
#endif
    }
    entry run = (entry)(uintptr_t)d.function;
#ifdef WRONG_TAIL
    d.count = d.count < 32 ? d.count : d.count / 32 * 32;
#endif
    run(d.params, d.base, d.count, d.n_samples);
#ifdef WRONG_TWICE
    run(d.params, d.base + d.count - 1, 1, d.n_samples);
#endif
    return EAGLE_OK;
}

/* ---- interop ----------------------------------------------------------------------------------------------------- */

eagle_status eagle_backend_fence(int32_t type, int32_t device, int64_t producer, int64_t consumer) {
#ifdef WRONG_CRASH_MIDWAY
    abort();
#endif
    (void)device;
    if (type != 1) return refuse(EAGLE_UNSUPPORTED, "this type is not served");
    if ((producer < -1 && producer != EAGLE_NO_STREAM) || (consumer < -1 && consumer != EAGLE_NO_STREAM))
        return refuse(EAGLE_INTEROP, "no stream code");
    return EAGLE_OK;
}

eagle_status eagle_backend_event_pool_created(int64_t *out) {
    if (!out) return refuse(EAGLE_INVALID_ARGUMENT, "out is NULL");
    *out = 0;
    return EAGLE_OK;
}

/* Whether it was recorded. */
static int captured(uint64_t stream, int kind, uint64_t to, uint64_t from, uint64_t bytes) {
#ifdef WRONG_CAPTURE_COPY
    if (kind == FAKE_COPY) return 0;
#endif
    fake_list *list = *sink_of(stream);
    if (!list) return 0;
    if (!bytes) return 1;
    fake_node *node = record(list, kind);
    node->to = to, node->from = from, node->bytes = bytes;
    return 1;
}

eagle_status eagle_backend_memcpy(uint64_t dst, uint64_t src, uint64_t bytes, int32_t direction, uint64_t stream) {
#ifdef WRONG_DIRECTION
    if (!bytes) return EAGLE_OK;
#elif defined(WRONG_STREAM_COPY)
    if (stream) return EAGLE_OK;
#endif
    if (direction < 0 || direction > 3) return refuse(EAGLE_INVALID_ARGUMENT, "no such direction");
    if (captured(stream, FAKE_COPY, dst, src, bytes)) return EAGLE_OK;
    if (dst != src) memcpy((void *)(uintptr_t)dst, (void *)(uintptr_t)src, bytes);
    return EAGLE_OK;
}

eagle_status eagle_backend_memset_device(uint64_t ptr, uint64_t bytes, uint64_t stream) {
    if (captured(stream, FAKE_ZERO, ptr, 0, bytes)) return EAGLE_OK;
#ifdef WRONG_MEMSET
    ++bytes;
#endif
    memset((void *)(uintptr_t)ptr, 0, bytes);
    return EAGLE_OK;
}

eagle_status eagle_backend_memcpy_device(uint64_t dst, uint64_t src, uint64_t bytes, uint64_t stream) {
    if (captured(stream, FAKE_COPY, dst, src, bytes)) return EAGLE_OK;
#ifdef WRONG_COPY
    bytes = bytes / 4 * 4;
#endif
    memcpy((void *)(uintptr_t)dst, (void *)(uintptr_t)src, bytes);
    return EAGLE_OK;
}

#ifdef WRONG_ALIGNMENT
static const uint64_t offset = 16;
#else
static const uint64_t offset = 64;
#endif

eagle_status eagle_backend_host_alloc(uint64_t bytes, uint64_t *out) {
    if (!out) return refuse(EAGLE_INVALID_ARGUMENT, "out is NULL");
    char *block = bytes && bytes < INT64_MAX - 128 ? aligned_alloc(64, bytes / 64 * 64 + 128) : NULL;
    if (bytes && !block) return refuse(EAGLE_ERROR, "not so much memory");
    *out = block ? (uint64_t)(uintptr_t)block + offset : 0;
    return EAGLE_OK;
}

eagle_status eagle_backend_host_free(uint64_t ptr) {
    if (ptr) free((void *)(uintptr_t)(ptr - offset));
    return EAGLE_OK;
}

eagle_status eagle_backend_host_func(uint64_t stream, void (*fn)(void *), void *arg) {
    if (!fn) return refuse(EAGLE_INVALID_ARGUMENT, "fn is NULL");
    fake_list *list = *sink_of(stream);
    if (list) {
        fake_node *node = record(list, FAKE_HOST);
        node->fn = fn;
        node->arg = arg;
        return EAGLE_OK;
    }
    fn(arg);
#ifdef WRONG_TWO_CALLS
    fn(arg);
#endif
    return EAGLE_OK;
}

#include "fake_filtering.h"
#include "fake_stepping.h"

/* ---- extensions -------------------------------------------------------------------------------------------------- */

static int32_t team = 1;

eagle_status eagle_backend_team_size(int32_t n, int32_t *previous) {
    if (n < 0 || !previous) return refuse(EAGLE_INVALID_ARGUMENT, "a bad size");
    *previous = team;
#ifndef WRONG_TEAM
    if (n) team = n;
#endif
    return EAGLE_OK;
}

#endif
