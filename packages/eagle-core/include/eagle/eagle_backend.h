/* The seam eagle-backend/1: what a backend library exports and the core binds.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * Plain C11. A backend for kind K is one shared library, libeagle_K, that exports the seven required symbols and any
 * of the groups below; eagle_backend_symbols.def lists every symbol with its group and the minor that brought it.
 * Within major 1 the seam only grows: symbols, fields at the end of structs, status values, bits. Nothing is
 * renumbered, reordered or given another meaning.
 *
 * Rules that hold for every function:
 *  - the result is an eagle_status, but for version, last_error, free and every *_release;
 *  - a failed call leaves its message in last_error() of the same thread, valid until that thread's next seam call;
 *  - no C++ exception crosses; the callee guards every entry;
 *  - an input struct is zero-filled by the caller, struct_size set to its sizeof; the callee reads the smaller of the
 *    two sizes and takes missing tail fields as 0; below 12 bytes is EAGLE_INVALID_ARGUMENT;
 *  - an output struct likewise: the callee writes the smaller of the two sizes and that number into struct_size;
 *  - a set flag bit the callee does not know is EAGLE_UNSUPPORTED;
 *  - a device field is an ordinal, or -1 for the one derived from the stream; below -1 is EAGLE_INVALID_ARGUMENT;
 *  - raw stream 0 is the default stream in every call that enqueues;
 *  - handles are used from one thread at a time; NULL or consumed is EAGLE_BAD_HANDLE; *_release(NULL) does nothing;
 *  - arrays a backend allocates go back through eagle_backend_free. */
#ifndef EAGLE_BACKEND_H
#define EAGLE_BACKEND_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define EAGLE_BACKEND_API __declspec(dllexport)
#else
#define EAGLE_BACKEND_API __attribute__((visibility("default")))
#endif

#define EAGLE_BACKEND_VERSION_MAJOR 1u
#define EAGLE_BACKEND_VERSION_MINOR 6u
#define EAGLE_BACKEND_VERSION ((EAGLE_BACKEND_VERSION_MAJOR << 16) | EAGLE_BACKEND_VERSION_MINOR)

/* ---- constants -------------------------------------------------------------------------------------------------- */

typedef int32_t eagle_status;
enum {
    EAGLE_OK = 0,
    EAGLE_ERROR = 1,
    EAGLE_INVALID_ARGUMENT = 2,
    EAGLE_INDEX = 3,
    EAGLE_INTEROP = 4,
    EAGLE_UNAVAILABLE = 5,
    EAGLE_CALLBACK_FAILED = 6,
    EAGLE_BAD_HANDLE = 7,
    EAGLE_UNSUPPORTED = 8
};

enum { EAGLE_STREAM_NON_BLOCKING = 1 }; /* no implicit order with the default stream */

#define EAGLE_NO_STREAM INT64_MIN /* "no stream given" in eagle_backend_fence */

enum { EAGLE_COND_IF = 1, EAGLE_COND_IF_ELSE = 2, EAGLE_COND_WHILE = 3, EAGLE_COND_SWITCH = 4 };
#define EAGLE_UNCAPPED_LOOP 0xFFFFFFFFu

enum { EAGLE_COPY_H2D = 0, EAGLE_COPY_D2H = 1, EAGLE_COPY_D2D = 2, EAGLE_COPY_H2H = 3 };

enum { EAGLE_MASK_IS_DROP = 1, EAGLE_WITHIN_LIVE = 2 }; /* flags of the filtering group */
#define EAGLE_MAX_CLASSES 255

enum {
    EAGLE_RESIDENCY_HOST = 0,
    EAGLE_RESIDENCY_DEVICE = 1,
    EAGLE_RESIDENCY_MANAGED = 2,
    EAGLE_RESIDENCY_MAPPED_HOST = 3,
    EAGLE_RESIDENCY_PAGEABLE = 4,
    EAGLE_RESIDENCY_OTHER_DEVICE = 5
};

enum { EAGLE_REDUCE_F32 = 0, EAGLE_REDUCE_F64 = 1, EAGLE_REDUCE_I32 = 2, EAGLE_REDUCE_I64 = 3, EAGLE_REDUCE_U8 = 4 };
enum { EAGLE_REDUCE_SUM = 0, EAGLE_REDUCE_MAX = 1, EAGLE_REDUCE_ALL = 2, EAGLE_REDUCE_MIN = 3 };
enum { EAGLE_POLICY_COMPENSATED = 0, EAGLE_POLICY_ORDERED = 1, EAGLE_POLICY_AUTO = 2 };
enum { EAGLE_REDUCE_PAIR_OUT = 1 };

enum {
    EAGLE_COLUMN_GATHER = 0,
    EAGLE_COLUMN_ACCUMULATE = 1,
    EAGLE_COLUMN_FILL = 2,
    EAGLE_COLUMN_COPY = 3,
    EAGLE_COLUMN_READ = 4
};

enum {
    EAGLE_EVENT_CLASSIFY = 0,
    EAGLE_EVENT_NEWTON = 1,
    EAGLE_EVENT_SETTLE = 2,
    EAGLE_EVENT_GRAZE = 3,
    EAGLE_EVENT_COMMIT = 4,
    EAGLE_EVENT_SEED = 5,
    EAGLE_EVENT_SELECT = 6
};
#define EAGLE_EVENT_GUARDS 8
#define EAGLE_EVENT_COMPONENTS 32

/* Capability bits. A set bit promises every BIT symbol of its group in eagle_backend_symbols.def. */
enum {
    EAGLE_CAP_STREAM = 0,
    EAGLE_CAP_CAPTURER = 1,
    EAGLE_CAP_CAPTURED = 2,
    EAGLE_CAP_FORK = 3,
    EAGLE_CAP_CONDITIONAL = 4,
    EAGLE_CAP_ATTRIBUTION = 5,
    EAGLE_CAP_GRAPH = 6,
    EAGLE_CAP_LAUNCHER = 7,
    /* 8 is reserved and stays clear */
    EAGLE_CAP_EXEC = 9,
    EAGLE_CAP_DEVICE = 10,
    EAGLE_CAP_INTEROP = 11,
    EAGLE_CAP_FILTERING = 12,
    EAGLE_CAP_COND_IF_ELSE = 13, /* no symbols: conditional kind IF_ELSE is accepted */
    EAGLE_CAP_COND_SWITCH = 14   /* no symbols: conditional kind SWITCH is accepted */
};

/* ---- handles ---------------------------------------------------------------------------------------------------- */

typedef struct eagle_stream_s *eagle_stream;
typedef struct eagle_capturer_s *eagle_capturer;
typedef struct eagle_captured_s *eagle_captured;
typedef struct eagle_fork_s *eagle_fork;
typedef struct eagle_conditional_s *eagle_conditional;
typedef struct eagle_graph_s *eagle_graph;
typedef struct eagle_launcher_s *eagle_launcher;
typedef struct eagle_composer_s *eagle_composer;
typedef struct eagle_module_s *eagle_module;

/* ---- structs ---------------------------------------------------------------------------------------------------- */

typedef struct eagle_build_info { /* output */
    uint32_t struct_size;
    uint32_t abi_version;
    int32_t cudart_version; /* 0 if none */
    int32_t reserved;
    char eagle_version[32];
    char archs[128];
    char backend_kind[16]; /* absent in the first backends */
} eagle_build_info;

typedef struct eagle_device_props { /* output; 0 where unknown */
    uint32_t struct_size;
    int32_t device;
    char name[256];
    int32_t cc_major;
    int32_t cc_minor;
    int32_t sm_count;
    int32_t clock_rate_khz;
    int32_t memory_clock_rate_khz;
    int32_t memory_bus_width_bits;
    int32_t regs_per_block;
    int32_t regs_per_sm;
    int32_t warp_size;
    int32_t reserved;
    int64_t shared_mem_per_block;
    int64_t shared_mem_per_sm;
    double peak_bytes_per_s;
    double peak_flops_sp;
    double peak_flops_dp;
    double fp64_ratio;
    double ridge_flops_per_byte_sp;
    double ridge_flops_per_byte_dp;
} eagle_device_props;

typedef struct eagle_stream_desc {
    uint32_t struct_size;
    uint32_t flags; /* EAGLE_STREAM_NON_BLOCKING */
    int32_t device;
    int32_t reserved;
} eagle_stream_desc;

typedef struct eagle_capturer_desc {
    uint32_t struct_size;
    uint32_t flags;
    int32_t device;
    int32_t reserved;
    uint64_t stream;
} eagle_capturer_desc;

typedef struct eagle_fork_desc {
    uint32_t struct_size;
    uint32_t flags;
    int32_t device;
    int32_t reserved;
    uint64_t origin;
    uint64_t branch_count;
    uint64_t wait_count; /* since minor 5 */
} eagle_fork_desc;

typedef struct eagle_conditional_desc {
    uint32_t struct_size;
    uint32_t flags;
    int32_t device;
    uint32_t loop_cap;
    uint64_t origin;
    uint64_t count_ptr;
    uint64_t baseline_ptr;
    uint64_t counter_ptr; /* uint32_t[2] */
    uint32_t kind;        /* since minor 5, as all that follow */
    uint32_t arms;
    uint32_t negate;
    uint32_t reserved;
    uint64_t brk_ptr;
    uint64_t limit_ptr;
} eagle_conditional_desc;

typedef struct eagle_graph_desc {
    uint32_t struct_size;
    uint32_t flags;
    int32_t device;
    int32_t reserved;
} eagle_graph_desc;

/* One launch of `function` over [base, base + count). params[i] is the address of argument i; the backend appends
 * base, count and n_samples. A device runs ceil(count / block) blocks of block threads. A host backend calls
 * function(params, base, count, n_samples) over pieces of at least `block` samples that begin at base and multiples of
 * 64 from there; block >= count is one piece on the calling thread. A host backend that captures the launch copies the
 * arguments whose size is in param_sizes; of others it keeps the address, which then has to outlive the launchers. */
typedef struct eagle_launch_desc {
    uint32_t struct_size;
    uint32_t flags;
    int32_t device;
    uint32_t block;
    uint64_t function;
    const uint64_t *params;
    const uint64_t *param_sizes; /* may be NULL */
    int64_t nparams;
    int64_t base;
    int64_t count;
    int64_t n_samples;
    uint64_t stream;
} eagle_launch_desc;

typedef struct eagle_composer_desc {
    uint32_t struct_size;
    uint32_t flags;
    int32_t device;
    int32_t reserved;
    const char *mode; /* NULL: "sequenced" */
} eagle_composer_desc;

typedef struct eagle_compact_desc { /* in and out */
    uint32_t struct_size;
    uint32_t flags; /* EAGLE_MASK_IS_DROP */
    int32_t device;
    uint32_t reserved;
    uint64_t mask;      /* uint8_t[n] */
    uint64_t index_map; /* int32_t[n] */
    uint64_t count;     /* uint32_t */
    uint64_t scratch;
    int64_t n;
    uint64_t stream;
    int64_t scratch_bytes; /* out */
    uint64_t live32;       /* the trigger: this and what follows, by size alone */
    uint64_t span;
    uint64_t fire;
    float theta;
    uint32_t reserved2;
} eagle_compact_desc;

typedef struct eagle_compact_classes_desc { /* in and out; the class fields are required */
    eagle_compact_desc compact;
    uint64_t class_plane; /* uint8_t[n] */
    uint32_t classes;
    float class_theta;
    uint64_t offsets;
    uint64_t mixed32;
    uint64_t stale_count; /* 0: none */
    uint64_t class_fire;
    uint64_t reserved;
} eagle_compact_classes_desc;

typedef struct eagle_reorder_plane { /* no struct_size: an array element */
    uint64_t data;
    uint32_t elem_bytes;
    uint32_t reserved;
} eagle_reorder_plane;

typedef struct eagle_reorder_desc { /* in and out */
    uint32_t struct_size;
    uint32_t flags;
    int32_t device;
    uint32_t n_planes;
    uint64_t planes; /* host array of eagle_reorder_plane, read at the call */
    uint64_t mask;   /* one of the planes */
    uint64_t perm;   /* slot to sample, int32_t[n] */
    uint64_t inv;
    uint64_t index_map;
    uint64_t count;
    uint64_t span;
    uint64_t fire; /* 0: always */
    uint64_t scratch;
    int64_t n;
    uint64_t stream;
    int64_t scratch_bytes; /* out */
} eagle_reorder_desc;

typedef struct eagle_reorder_classes_desc { /* in and out; the class fields are required */
    eagle_reorder_desc reorder;
    uint64_t class_plane; /* one of the planes */
    uint32_t classes;
    uint32_t reserved;
    uint64_t offsets;     /* uint32_t[classes + 1] */
    uint64_t class_sorts; /* uint32_t */
} eagle_reorder_classes_desc;

typedef struct eagle_reduce_desc { /* in and out; experimental */
    uint32_t struct_size;
    uint32_t dtype;
    uint32_t op;
    int32_t device;
    uint64_t in;
    uint64_t out;
    uint64_t work_a;
    uint64_t work_b;
    int64_t n;
    uint64_t stream;
    int64_t work_elems; /* out */
    uint32_t policy;    /* this and what follows by size alone: ordered, one column, no companion */
    uint32_t flags;
    int64_t columns;
    uint64_t comp_in;
} eagle_reduce_desc;

typedef struct eagle_diff_desc { /* experimental */
    uint32_t struct_size;
    uint32_t op;
    int32_t device;
    uint32_t elem_bytes;
    uint64_t dst;
    uint64_t src;
    uint64_t index; /* int64_t columns */
    int64_t dst_ld;
    int64_t src_ld;
    int64_t count;
    int64_t rows;
    int64_t value;
    uint64_t stream;
} eagle_diff_desc;

typedef struct eagle_event_desc { /* experimental */
    uint32_t struct_size;
    uint32_t op;
    int32_t device;
    uint32_t elem_bytes; /* 4 or 8 */
    int64_t n;
    int32_t guards;
    int32_t components;
    uint64_t g[EAGLE_EVENT_GUARDS];
    uint64_t dg[EAGLE_EVENT_GUARDS];
    uint64_t gbar[EAGLE_EVENT_GUARDS];
    uint64_t a[EAGLE_EVENT_COMPONENTS];
    uint64_t b[EAGLE_EVENT_COMPONENTS];
    uint64_t c[EAGLE_EVENT_COMPONENTS];
    uint64_t terminated; /* uint8_t */
    uint64_t applied;    /* int64_t */
    uint64_t t0;
    uint64_t h;
    uint64_t status; /* int8_t */
    uint64_t which;  /* int8_t */
    uint64_t tau;
    uint64_t lo;
    uint64_t hi;
    uint64_t t_stop;
    uint64_t stream;
} eagle_event_desc;

/* What module_load opens. On a host kind `image` is the path of a shared library, image_bytes its length without a
 * terminator; on a device kind it is the image itself. */
typedef struct eagle_module_desc {
    uint32_t struct_size;
    uint32_t flags;
    int32_t device;
    int32_t reserved;
    const void *image;
    uint64_t image_bytes;
} eagle_module_desc;

/* A plane with something of each sample: the slot of its box, which is a mirror where it has components. */
typedef struct eagle_step_plane { /* no struct_size */
    uint32_t slot;
    uint32_t elem_bytes; /* 1, 2, 4 or 8 */
    uint32_t components;
    uint32_t flags; /* EAGLE_STEP_MIRROR, EAGLE_STEP_WRITES, EAGLE_STEP_GUARD, EAGLE_STEP_COUNTS */
} eagle_step_plane;

#define EAGLE_STEP_MIRROR 1u
#define EAGLE_STEP_WRITES 2u
#define EAGLE_STEP_GUARD 4u  /* uint8_t: samples where it is set take no steps */
#define EAGLE_STEP_COUNTS 8u /* that many cells, which each step of a sample adds to: no samples' */

/* Now and then on the calling thread, with samples finished and steps offered so far, as in the report: 0 goes on,
 * EAGLE_STEP_ABANDON ends the run without another look at the planes, whose memory may be gone, anything else ends it.
 */
#define EAGLE_STEP_ABANDON 2
typedef int32_t (*eagle_step_poll)(void *ctx, int64_t finished, int64_t offered);

/* A finishing kernel over a batch: samples are independent of each other. Slots are those of params, -1 for none. */
typedef struct eagle_step_desc {
    uint32_t struct_size;
    uint32_t flags; /* EAGLE_STEP_MOVABLE, EAGLE_STEP_UNALIGNED */
    int32_t device;
    uint32_t n_planes;
    uint64_t function;
    const uint64_t *params;
    int64_t nparams;
    const eagle_step_plane *planes; /* without the mask */
    int64_t n_samples;
    int64_t max_steps;        /* the most a sample takes; rounded up to steps_per_launch */
    int64_t steps_per_launch; /* 0: the word says, and is 1 for max_steps 1 alone */
    int32_t mask_slot;        /* uint8_t, one a sample */
    int32_t counter_slot;     /* uint32_t */
    int32_t word_slot;        /* int64_t */
    int32_t map_slot;         /* int32_t, one a sample */
    int32_t live_slot;        /* uint32_t */
    int32_t step_ops;         /* operations of one step; 0: not known */
    int32_t threads;          /* the most that take part; 0: the team's */
    int32_t reserved;
    eagle_step_poll poll; /* NULL: none */
    void *poll_ctx;
} eagle_step_desc;

/* A sample's result does not depend on where in the planes it is. */
#define EAGLE_STEP_MOVABLE 1u
/* Nor on where planes begin in their cache lines, where steps_per_launch is not 0. */
#define EAGLE_STEP_UNALIGNED 2u

typedef struct eagle_step_report { /* out */
    uint32_t struct_size;
    uint32_t flags;   /* EAGLE_STEP_EXACT, EAGLE_STEP_STOPPED */
    int64_t steps;    /* the most a sample took; without EAGLE_STEP_EXACT a bound */
    int64_t visits;   /* samples that calls of the entry were given, all calls added up */
    int64_t finished; /* samples whose mask is set */
    int64_t offered;  /* steps of calls to samples that were not finished, all together; at most 2^62 */
} eagle_step_report;

#define EAGLE_STEP_EXACT 1u
#define EAGLE_STEP_STOPPED 2u

typedef int32_t (*eagle_step_callback)(void *ctx, uint64_t stream);
typedef int32_t (*eagle_void_callback)(void *ctx);

/* ---- required ---------------------------------------------------------------------------------------------------- */

EAGLE_BACKEND_API uint32_t eagle_backend_version(void);
EAGLE_BACKEND_API const char *eagle_backend_last_error(void);
EAGLE_BACKEND_API eagle_status eagle_backend_build_info(eagle_build_info *out);
/* OK: a device is usable; else UNAVAILABLE. */
EAGLE_BACKEND_API eagle_status eagle_backend_probe(void);
EAGLE_BACKEND_API void eagle_backend_free(void *array);
EAGLE_BACKEND_API eagle_status eagle_backend_capabilities(uint64_t *out);
/* Writes at most cap DLPack device types and the full number to *count. */
EAGLE_BACKEND_API eagle_status eagle_backend_device_types(int32_t *types, int32_t cap, int32_t *count);

/* ---- stream ------------------------------------------------------------------------------------------------------ */

EAGLE_BACKEND_API eagle_status eagle_backend_stream_create(const eagle_stream_desc *desc, eagle_stream *out);
EAGLE_BACKEND_API eagle_status eagle_backend_stream_ptr(eagle_stream stream, uint64_t *out);
EAGLE_BACKEND_API eagle_status eagle_backend_stream_synchronize(eagle_stream stream);
EAGLE_BACKEND_API void eagle_backend_stream_release(eagle_stream stream);

/* ---- capturer, captured ------------------------------------------------------------------------------------------ */

EAGLE_BACKEND_API eagle_status eagle_backend_capturer_create(const eagle_capturer_desc *desc, eagle_capturer *out);
EAGLE_BACKEND_API eagle_status eagle_backend_capturer_begin(eagle_capturer capturer);
EAGLE_BACKEND_API eagle_status eagle_backend_capturer_end(eagle_capturer capturer, eagle_captured *out);
EAGLE_BACKEND_API void eagle_backend_capturer_release(eagle_capturer capturer);
/* The native graph being recorded; 0 outside a capture. */
EAGLE_BACKEND_API eagle_status eagle_backend_capturer_graph(eagle_capturer capturer, uint64_t *out);
EAGLE_BACKEND_API eagle_status eagle_backend_captured_is_valid(eagle_captured captured, int32_t *out);
EAGLE_BACKEND_API void eagle_backend_captured_release(eagle_captured captured);

/* ---- fork: created before the capture starts --------------------------------------------------------------------- */

EAGLE_BACKEND_API eagle_status eagle_backend_fork_create(const eagle_fork_desc *desc, eagle_fork *out);
EAGLE_BACKEND_API eagle_status eagle_backend_fork_fork(eagle_fork fork);
EAGLE_BACKEND_API eagle_status eagle_backend_fork_join(eagle_fork fork);
EAGLE_BACKEND_API eagle_status eagle_backend_fork_branch(eagle_fork fork, uint64_t index, uint64_t *out);
EAGLE_BACKEND_API eagle_status eagle_backend_fork_origin(eagle_fork fork, uint64_t *out);
EAGLE_BACKEND_API eagle_status eagle_backend_fork_forked(eagle_fork fork, int32_t *out);
EAGLE_BACKEND_API eagle_status eagle_backend_fork_size(eagle_fork fork, uint64_t *out);
EAGLE_BACKEND_API void eagle_backend_fork_release(eagle_fork fork);
EAGLE_BACKEND_API eagle_status eagle_backend_fork_mark(eagle_fork fork, uint64_t producer, uint64_t *mark);
EAGLE_BACKEND_API eagle_status eagle_backend_fork_wait(eagle_fork fork, uint64_t waiter, uint64_t mark);

/* ---- conditional: created before the capture starts -------------------------------------------------------------- */

EAGLE_BACKEND_API eagle_status eagle_backend_conditional_create(const eagle_conditional_desc *desc,
                                                                eagle_conditional *out);
EAGLE_BACKEND_API eagle_status eagle_backend_conditional_begin(eagle_conditional conditional, uint64_t *stream);
EAGLE_BACKEND_API eagle_status eagle_backend_conditional_body_stream(eagle_conditional conditional, uint64_t *stream);
EAGLE_BACKEND_API eagle_status eagle_backend_conditional_is_loop(eagle_conditional conditional, int32_t *out);
EAGLE_BACKEND_API eagle_status eagle_backend_conditional_end(eagle_conditional conditional);
EAGLE_BACKEND_API void eagle_backend_conditional_release(eagle_conditional conditional);
EAGLE_BACKEND_API eagle_status eagle_backend_conditional_arm_stream(eagle_conditional conditional, uint64_t arm,
                                                                    uint64_t *stream);
/* which >= 0: the nodes of that arm; -1: the setter nodes. The array goes back through eagle_backend_free. */
EAGLE_BACKEND_API eagle_status eagle_backend_conditional_nodes(eagle_conditional conditional, int64_t which,
                                                               uint64_t **nodes, int64_t *count);

/* ---- attribution ------------------------------------------------------------------------------------------------- */

EAGLE_BACKEND_API eagle_status eagle_backend_capture_snapshot_nodes(uint64_t stream, uint64_t **nodes, int64_t *count);
EAGLE_BACKEND_API eagle_status eagle_backend_is_node_toggleable(uint64_t node, int32_t *out);
EAGLE_BACKEND_API eagle_status eagle_backend_capture_add_child(uint64_t stream, uint64_t graph, int32_t in_body);

/* ---- graph, launcher -------------------------------------------------------------------------------------------- */

EAGLE_BACKEND_API eagle_status eagle_backend_graph_create(const eagle_graph_desc *desc, eagle_graph *out);
EAGLE_BACKEND_API eagle_status eagle_backend_graph_from_captured(eagle_captured consumed, eagle_graph *out);
EAGLE_BACKEND_API eagle_status eagle_backend_graph_stream(eagle_graph graph, uint64_t stream);
EAGLE_BACKEND_API eagle_status eagle_backend_graph_add_node(eagle_graph graph, eagle_captured consumed);
EAGLE_BACKEND_API eagle_status eagle_backend_graph_launcher(eagle_graph graph, eagle_launcher *out);
EAGLE_BACKEND_API eagle_status eagle_backend_graph_last_node(eagle_graph graph, int64_t *out);
EAGLE_BACKEND_API void eagle_backend_graph_release(eagle_graph graph);

EAGLE_BACKEND_API eagle_status eagle_backend_launcher_launch(eagle_launcher launcher);
EAGLE_BACKEND_API eagle_status eagle_backend_launcher_synchronize(eagle_launcher launcher);
EAGLE_BACKEND_API eagle_status eagle_backend_launcher_stream(eagle_launcher launcher, uint64_t stream);
EAGLE_BACKEND_API eagle_status eagle_backend_launcher_set_logical_size(eagle_launcher launcher, int64_t n);
EAGLE_BACKEND_API eagle_status eagle_backend_launcher_kernel_node_count(eagle_launcher launcher, int64_t *out);
EAGLE_BACKEND_API eagle_status eagle_backend_launcher_set_node_enabled(eagle_launcher launcher, uint64_t node,
                                                                       int32_t on);
EAGLE_BACKEND_API void eagle_backend_launcher_release(eagle_launcher launcher);
/* params[i] is the address holding the replacement of kernel argument i, read before returning; 0 leaves it. Of a host
 * launch that was captured without param_sizes the address itself is the replacement. */
EAGLE_BACKEND_API eagle_status eagle_backend_launcher_set_kernel_params(eagle_launcher launcher, uint64_t node,
                                                                        const uint64_t *params, int64_t n);
EAGLE_BACKEND_API eagle_status eagle_backend_launcher_set_memcpy_source(eagle_launcher launcher, uint64_t node,
                                                                        uint64_t src);
EAGLE_BACKEND_API eagle_status eagle_backend_launcher_exec_update(eagle_launcher launcher, eagle_captured captured,
                                                                  int32_t *accepted);

/* ---- exec, device ----------------------------------------------------------------------------------------------- */

/* *launched is 1, or 0 for count <= 0. */
EAGLE_BACKEND_API eagle_status eagle_backend_run_device(const eagle_launch_desc *desc, int32_t *launched);
EAGLE_BACKEND_API eagle_status eagle_backend_device_props(int32_t device, eagle_device_props *out);

/* ---- interop ---------------------------------------------------------------------------------------------------- */

/* Orders producer before consumer without blocking the host; both are DLPack stream codes of that device type. */
EAGLE_BACKEND_API eagle_status eagle_backend_fence(int32_t device_type, int32_t device_id, int64_t producer,
                                                   int64_t consumer);
EAGLE_BACKEND_API eagle_status eagle_backend_event_pool_created(int64_t *out);
EAGLE_BACKEND_API eagle_status eagle_backend_memset_device(uint64_t ptr, uint64_t bytes, uint64_t stream);
EAGLE_BACKEND_API eagle_status eagle_backend_memcpy_device(uint64_t dst, uint64_t src, uint64_t bytes, uint64_t stream);
EAGLE_BACKEND_API eagle_status eagle_backend_memcpy(uint64_t dst, uint64_t src, uint64_t bytes, int32_t direction,
                                                    uint64_t stream);
EAGLE_BACKEND_API eagle_status eagle_backend_host_alloc(uint64_t bytes, uint64_t *out);
EAGLE_BACKEND_API eagle_status eagle_backend_host_free(uint64_t ptr);
/* Runs fn(arg) in stream order; fn must not call the seam and has no way to fail. */
EAGLE_BACKEND_API eagle_status eagle_backend_host_func(uint64_t stream, void (*fn)(void *), void *arg);

/* ---- filtering: scratch == 0 only writes scratch_bytes ----------------------------------------------------------- */

EAGLE_BACKEND_API eagle_status eagle_backend_compact_device(eagle_compact_desc *desc);
EAGLE_BACKEND_API eagle_status eagle_backend_reorder_device(eagle_reorder_desc *desc);
EAGLE_BACKEND_API eagle_status eagle_backend_compact_classes_device(eagle_compact_classes_desc *desc);
EAGLE_BACKEND_API eagle_status eagle_backend_reorder_classes_device(eagle_reorder_classes_desc *desc);
EAGLE_BACKEND_API eagle_status eagle_backend_reset_device(eagle_reorder_desc *desc);
EAGLE_BACKEND_API eagle_status eagle_backend_pointer_residency(int32_t device, uint64_t ptr, int32_t *out);

/* ---- experimental: each by presence alone, no promise of stability ----------------------------------------------- */

EAGLE_BACKEND_API eagle_status eagle_backend_x_captured_debug_dot(eagle_captured captured, const char *path,
                                                                  uint32_t flags);
EAGLE_BACKEND_API eagle_status eagle_backend_x_capture_guard_depth(int64_t *out);
EAGLE_BACKEND_API eagle_status eagle_backend_x_capture_guard_pending_count(int64_t *out);
EAGLE_BACKEND_API eagle_status eagle_backend_x_restore_device(eagle_reorder_desc *desc);
EAGLE_BACKEND_API eagle_status eagle_backend_x_reduce_canonical(eagle_reduce_desc *desc);
EAGLE_BACKEND_API eagle_status eagle_backend_x_time_launch(const eagle_launch_desc *desc, int32_t reps,
                                                           double *seconds);
EAGLE_BACKEND_API eagle_status eagle_backend_x_diff_columns(eagle_diff_desc *desc);
EAGLE_BACKEND_API eagle_status eagle_backend_x_event_columns(eagle_event_desc *desc);
EAGLE_BACKEND_API eagle_status eagle_backend_x_composer_create(const eagle_composer_desc *desc, eagle_composer *out);
EAGLE_BACKEND_API eagle_status eagle_backend_x_composer_register_launcher(eagle_composer composer,
                                                                          eagle_launcher consumed, const char *name,
                                                                          eagle_void_callback pre, void *ctx,
                                                                          int64_t *index);
EAGLE_BACKEND_API eagle_status eagle_backend_x_composer_register_callable(eagle_composer composer,
                                                                          eagle_step_callback step, void *ctx,
                                                                          const char *name, eagle_void_callback pre,
                                                                          void *pre_ctx, int64_t *index);
EAGLE_BACKEND_API eagle_status eagle_backend_x_composer_register_nested(eagle_composer composer, eagle_composer shared,
                                                                        const char *name, eagle_void_callback pre,
                                                                        void *pre_ctx, int64_t *index);
EAGLE_BACKEND_API eagle_status eagle_backend_x_composer_build(eagle_composer composer);
EAGLE_BACKEND_API eagle_status eagle_backend_x_composer_reset_fired_history(eagle_composer composer);
EAGLE_BACKEND_API eagle_status eagle_backend_x_composer_set_routing(eagle_composer composer, const uint8_t *routing,
                                                                    int64_t n);
EAGLE_BACKEND_API eagle_status eagle_backend_x_composer_launch(eagle_composer composer, int64_t n);
EAGLE_BACKEND_API eagle_status eagle_backend_x_composer_fired_history(eagle_composer composer, int64_t **flat,
                                                                      int64_t **offsets, int64_t *calls);
EAGLE_BACKEND_API eagle_status eagle_backend_x_composer_mode(eagle_composer composer, const char **out);
EAGLE_BACKEND_API eagle_status eagle_backend_x_composer_num_members(eagle_composer composer, int64_t *out);
EAGLE_BACKEND_API eagle_status eagle_backend_x_composer_member_name(eagle_composer composer, int64_t index,
                                                                    const char **out);
EAGLE_BACKEND_API void eagle_backend_x_composer_release(eagle_composer composer);

/* ---- extensions: no minor of their own, each by presence alone --------------------------------------------------- */

/* Opens a kernel image; released modules leave their addresses invalid. */
EAGLE_BACKEND_API eagle_status eagle_backend_module_load(const eagle_module_desc *desc, eagle_module *out);
/* The entry address of `name`; INDEX when the image has none. */
EAGLE_BACKEND_API eagle_status eagle_backend_module_function(eagle_module module, const char *name, uint64_t *out);
/* Address and size of the data symbol `name` (size 0 where the image does not tell); INDEX when it has none. */
EAGLE_BACKEND_API eagle_status eagle_backend_module_global(eagle_module module, const char *name, uint64_t *ptr,
                                                           uint64_t *bytes);
EAGLE_BACKEND_API void eagle_backend_module_release(eagle_module module);
/* Threads a launch may use from now on: n >= 1 sets, 0 leaves; *previous is the number before the call. */
EAGLE_BACKEND_API eagle_status eagle_backend_team_size(int32_t n, int32_t *previous);
/* Steps every sample that is not finished until it is, or has taken max_steps: host kinds, complete on return. An entry
 * may be called from several threads at once, over any range, with boxes of the backend's own: over copies of samples,
 * with any word, to learn what they would do, and over positions without a sample, whose mask is set. What the boxes of
 * counter, word, map and live point at is left alone. A run that is ended leaves every sample at a step's end; so does
 * one whose entry throws between steps. */
EAGLE_BACKEND_API eagle_status eagle_backend_step_run(const eagle_step_desc *desc, eagle_step_report *out);

/* Like host_func, but fn may end what it is part of: any answer but 0 makes the call, or the replay that runs it,
 * return CALLBACK_FAILED, and what comes later does not run. */
EAGLE_BACKEND_API eagle_status eagle_backend_host_call(uint64_t stream, eagle_void_callback fn, void *arg);
/* Between on and off, the launches captured on this stream may be run sample by sample, pieces beginning at any sample:
 * each touches of a plane the cell of its own sample alone, so that a sample sees the launches in their order and no
 * other one's cells. On again begins anew. */
EAGLE_BACKEND_API eagle_status eagle_backend_capture_fuse(uint64_t stream, int32_t on);
/* One replay, complete on return; seconds[i] is what nodes[i] took in it, all its runs together. */
EAGLE_BACKEND_API eagle_status eagle_backend_launcher_launch_timed(eagle_launcher launcher, const uint64_t *nodes,
                                                                   int64_t count, double *seconds);

#ifdef __cplusplus
}
#endif

#endif
