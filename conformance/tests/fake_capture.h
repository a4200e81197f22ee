/* The capture groups of the fakes: what a stream is given goes into a list.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * Branches of a fork record into the origin's list, in the order of recording. Nothing is ever freed: handles that were
 * released stay apart from new ones. */

enum { FAKE_LAUNCH, FAKE_COPY, FAKE_ZERO, FAKE_HOST, FAKE_CALL, FAKE_CHILD, FAKE_CONDITIONAL, FAKE_SETTER };
enum { FAKE_ARMS = 8, FAKE_PARAMS = 8 };

typedef struct fake_list fake_list;

typedef struct fake_node {
    int kind, on;
    struct fake_node *origin; /* of a copy: what it was captured as */
    eagle_launch_desc launch;
    uint64_t at[FAKE_PARAMS], box[FAKE_PARAMS], size[FAKE_PARAMS];
    uint64_t to, from, bytes;
    void (*fn)(void *);
    eagle_void_callback call;
    void *arg;
    eagle_conditional_desc guard;
    fake_list *lists[FAKE_ARMS]; /* arms, or a child */
} fake_node;

struct fake_list {
    fake_node *nodes[512];
    int count, open_blocks, failed, open;
};

enum { FAKE_CAPTURER, FAKE_CAPTURED, FAKE_FORK, FAKE_COND, FAKE_GRAPH, FAKE_LAUNCHER };

typedef struct {
    int kind;
    fake_list *list; /* captured, graph, launcher; of a capturer and blocks: where they record */
    uint64_t stream, streams[FAKE_ARMS];
    uint64_t branches, marks, most_marks;
    int begun, arms, last;
    int64_t logical;
    eagle_conditional_desc guard;
    fake_node *node, *setters[2];
} fake_object;

static fake_object *objects[1 << 16];
static int object_count;
static fake_list *sinks[64];

static void *added(int kind) {
    fake_object *object = calloc(1, sizeof *object);
    object->kind = kind;
    if (object_count == 1 << 16) abort();
    objects[object_count++] = object;
    return object;
}

static fake_object *found(const void *handle, int kind) {
    for (int i = object_count - 1; i >= 0; --i)
        if (objects[i] == handle && handle) return objects[i]->kind == kind ? objects[i] : NULL;
    return NULL;
}

static void drop(const void *handle, int kind) {
    fake_object *object = found(handle, kind);
    if (object) object->kind = -1;
}

#define GET(object, handle, kind)                    \
    fake_object *const object = found(handle, kind); \
    if (!object) return refuse(EAGLE_BAD_HANDLE, "no such handle")
#define WRITABLE(out) \
    if (!(out)) return refuse(EAGLE_INVALID_ARGUMENT, "out is NULL")

static fake_list **sink_of(uint64_t raw) {
    static fake_list *none;
    int slot = slot_of((eagle_stream)(uintptr_t)raw);
    none = NULL;
    return slot < 0 ? &none : &sinks[slot];
}

static uint64_t own_stream(void) {
    eagle_stream_desc desc = {sizeof desc, 0, -1, 0};
    eagle_stream stream = NULL;
    if (eagle_backend_stream_create(&desc, &stream)) abort();
    *sink_of((uint64_t)(uintptr_t)stream) = NULL;
    return (uint64_t)(uintptr_t)stream;
}

static fake_node *record(fake_list *list, int kind) {
    fake_node *node = calloc(1, sizeof *node);
    node->kind = kind;
    node->on = 1;
    if (list->count == 512) abort();
    list->nodes[list->count++] = node;
    return node;
}

static void hold(fake_node *node, const uint64_t *params, const uint64_t *sizes) {
    for (int64_t i = 0; i < node->launch.nparams; ++i) {
        node->at[i] = params[i];
        node->size[i] = sizes ? sizes[i] : 0;
#ifdef WRONG_CAPTURE_BOX
        node->size[i] = 0;
#endif
        if (node->size[i] > 8) abort();
        if (node->size[i]) memcpy(&node->box[i], (void *)(uintptr_t)params[i], node->size[i]);
    }
}

static fake_list *copied(const fake_list *list) {
    fake_list *copy = calloc(1, sizeof *copy);
    *copy = *list;
    for (int i = 0; i < list->count; ++i) {
        fake_node *node = copy->nodes[i] = calloc(1, sizeof *node);
        *node = *list->nodes[i];
        node->origin = list->nodes[i];
        for (int arm = 0; arm < FAKE_ARMS; ++arm)
            if (node->lists[arm]) node->lists[arm] = copied(node->lists[arm]);
    }
    return copy;
}

static int holds(const eagle_conditional_desc *d); /* of fake_replay.h */

/* ---- capturer, captured ------------------------------------------------------------------------------------------ */

eagle_status eagle_backend_capturer_create(const eagle_capturer_desc *desc, eagle_capturer *out) {
    READ(eagle_capturer_desc, d, desc);
    eagle_status status = bad_desc(d.struct_size, d.flags, 0, d.device);
    if (status) return status;
    WRITABLE(out);
    if (slot_of((eagle_stream)(uintptr_t)d.stream) < 0) return refuse(EAGLE_INVALID_ARGUMENT, "no such stream");
    fake_object *capturer = added(FAKE_CAPTURER);
    capturer->stream = d.stream;
    *out = (eagle_capturer)capturer;
    return EAGLE_OK;
}

eagle_status eagle_backend_capturer_begin(eagle_capturer capturer) {
    GET(self, capturer, FAKE_CAPTURER);
    if (self->begun || *sink_of(self->stream)) return refuse(EAGLE_ERROR, "the capture has begun");
    self->begun = 1;
    self->list = *sink_of(self->stream) = calloc(1, sizeof(fake_list));
    self->list->open = 1;
    return EAGLE_OK;
}

static void close_capture(fake_object *self) {
    for (int slot = 0; slot < 64; ++slot)
        if (sinks[slot] == self->list) sinks[slot] = NULL;
    self->list->open = self->begun = 0;
}

eagle_status eagle_backend_capturer_end(eagle_capturer capturer, eagle_captured *out) {
    GET(self, capturer, FAKE_CAPTURER);
    WRITABLE(out);
    if (!self->begun) return refuse(EAGLE_ERROR, "no capture has begun");
    close_capture(self);
#ifndef WRONG_FORK_UNJOINED
    if (self->list->open_blocks) return refuse(EAGLE_ERROR, "a fork or conditional is open");
#endif
    if (self->list->failed) return refuse(EAGLE_ERROR, "the capture has failed");
    fake_object *captured = added(FAKE_CAPTURED);
    captured->list = self->list;
    *out = (eagle_captured)captured;
    return EAGLE_OK;
}

eagle_status eagle_backend_capturer_graph(eagle_capturer capturer, uint64_t *out) {
    GET(self, capturer, FAKE_CAPTURER);
    WRITABLE(out);
    *out = self->begun ? (uint64_t)(uintptr_t)self->list : 0;
    return EAGLE_OK;
}

void eagle_backend_capturer_release(eagle_capturer capturer) {
    fake_object *self = found(capturer, FAKE_CAPTURER);
    if (self && self->begun) close_capture(self);
    drop(capturer, FAKE_CAPTURER);
}

eagle_status eagle_backend_captured_is_valid(eagle_captured captured, int32_t *out) {
    GET(self, captured, FAKE_CAPTURED);
    WRITABLE(out);
#ifdef WRONG_CAPTURE_EMPTY
    *out = 1;
#else
    *out = self->list->count > 0;
#endif
    return EAGLE_OK;
}

void eagle_backend_captured_release(eagle_captured captured) { drop(captured, FAKE_CAPTURED); }

/* ---- fork -------------------------------------------------------------------------------------------------------- */

eagle_status eagle_backend_fork_create(const eagle_fork_desc *desc, eagle_fork *out) {
    READ(eagle_fork_desc, d, desc);
    eagle_status status = bad_desc(d.struct_size, d.flags, 0, d.device);
    if (status) return status;
    WRITABLE(out);
    if (!d.branch_count || d.branch_count > FAKE_ARMS) return refuse(EAGLE_INVALID_ARGUMENT, "1 to 8 branches");
    fake_object *fork = added(FAKE_FORK);
    fork->stream = d.origin;
    fork->branches = d.branch_count;
    fork->most_marks = d.wait_count;
    for (uint64_t i = 0; i < d.branch_count; ++i) fork->streams[i] = own_stream();
    *out = (eagle_fork)fork;
    return EAGLE_OK;
}

eagle_status eagle_backend_fork_fork(eagle_fork fork) {
    GET(self, fork, FAKE_FORK);
    if (self->begun) return EAGLE_OK;
    self->begun = 1;
    self->marks = 0;
    self->list = *sink_of(self->stream);
    if (!self->list) return EAGLE_OK;
    ++self->list->open_blocks;
    for (uint64_t i = 0; i < self->branches; ++i) *sink_of(self->streams[i]) = self->list;
#ifdef WRONG_FORK_LAST
    if (self->branches > 1) *sink_of(self->streams[self->branches - 1]) = calloc(1, sizeof(fake_list));
#endif
    return EAGLE_OK;
}

eagle_status eagle_backend_fork_join(eagle_fork fork) {
    GET(self, fork, FAKE_FORK);
    if (self->begun && self->list) {
        --self->list->open_blocks;
        for (uint64_t i = 0; i < self->branches; ++i) *sink_of(self->streams[i]) = NULL;
    }
    self->begun = 0;
    return EAGLE_OK;
}

eagle_status eagle_backend_fork_branch(eagle_fork fork, uint64_t index, uint64_t *out) {
    GET(self, fork, FAKE_FORK);
    WRITABLE(out);
    if (index >= self->branches) return refuse(EAGLE_INDEX, "no such branch");
    *out = self->streams[index];
    return EAGLE_OK;
}

eagle_status eagle_backend_fork_origin(eagle_fork fork, uint64_t *out) {
    GET(self, fork, FAKE_FORK);
    WRITABLE(out);
    *out = self->stream;
    return EAGLE_OK;
}

eagle_status eagle_backend_fork_forked(eagle_fork fork, int32_t *out) {
    GET(self, fork, FAKE_FORK);
    WRITABLE(out);
    *out = self->begun;
    return EAGLE_OK;
}

eagle_status eagle_backend_fork_size(eagle_fork fork, uint64_t *out) {
    GET(self, fork, FAKE_FORK);
    WRITABLE(out);
    *out = self->branches;
    return EAGLE_OK;
}

static void release_streams(fake_object *self, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
        *sink_of(self->streams[i]) = NULL;
        eagle_backend_stream_release((eagle_stream)(uintptr_t)self->streams[i]);
    }
}

void eagle_backend_fork_release(eagle_fork fork) {
    fake_object *self = found(fork, FAKE_FORK);
    if (!self) return;
    eagle_backend_fork_join(fork);
    release_streams(self, self->branches);
    drop(fork, FAKE_FORK);
}

eagle_status eagle_backend_fork_mark(eagle_fork fork, uint64_t producer, uint64_t *mark) {
    GET(self, fork, FAKE_FORK);
    WRITABLE(mark);
    if (producer >= self->branches || self->marks >= self->most_marks) return refuse(EAGLE_INDEX, "no such mark");
    *mark = self->marks++;
    return EAGLE_OK;
}

eagle_status eagle_backend_fork_wait(eagle_fork fork, uint64_t waiter, uint64_t mark) {
    GET(self, fork, FAKE_FORK);
    if (waiter >= self->branches || mark >= self->marks) return refuse(EAGLE_INDEX, "no such mark");
    return EAGLE_OK;
}

/* ---- conditional ------------------------------------------------------------------------------------------------- */

eagle_status eagle_backend_conditional_create(const eagle_conditional_desc *desc, eagle_conditional *out) {
    READ(eagle_conditional_desc, d, desc);
    eagle_status status = bad_desc(d.struct_size, d.flags, 0, d.device);
    if (status) return status;
    WRITABLE(out);
    if (d.kind > EAGLE_COND_SWITCH) return refuse(EAGLE_UNSUPPORTED, "no such kind");
    if (!d.kind) d.kind = d.counter_ptr ? EAGLE_COND_WHILE : EAGLE_COND_IF;
    uint32_t own = d.kind == EAGLE_COND_IF_ELSE ? 2 : d.kind == EAGLE_COND_SWITCH ? d.arms : 1;
    if (!d.arms) d.arms = own;
    if (!own || d.arms != own || d.arms > FAKE_ARMS || (d.kind == EAGLE_COND_SWITCH && !d.count_ptr) ||
        (d.kind == EAGLE_COND_WHILE && (!d.counter_ptr || !d.loop_cap)))
        return refuse(EAGLE_INVALID_ARGUMENT, "a bad conditional");
    fake_object *conditional = added(FAKE_COND);
    conditional->guard = d;
    for (uint32_t i = 0; i < d.arms; ++i) conditional->streams[i] = own_stream();
    *out = (eagle_conditional)conditional;
    return EAGLE_OK;
}

eagle_status eagle_backend_conditional_begin(eagle_conditional conditional, uint64_t *stream) {
    GET(self, conditional, FAKE_COND);
    WRITABLE(stream);
    self->list = *sink_of(self->guard.origin);
    if (!self->list || self->begun) return refuse(EAGLE_ERROR, "the origin is not being captured");
    self->begun = 1;
    ++self->list->open_blocks;
    self->setters[0] = record(self->list, FAKE_SETTER);
    self->setters[1] = self->guard.kind == EAGLE_COND_WHILE ? record(self->list, FAKE_SETTER) : NULL;
    self->node = record(self->list, FAKE_CONDITIONAL);
    self->node->guard = self->guard;
    for (uint32_t i = 0; i < self->guard.arms; ++i)
        self->node->lists[i] = *sink_of(self->streams[i]) = calloc(1, sizeof(fake_list));
#ifdef WRONG_GUARD_ONCE
    if (self->guard.kind == EAGLE_COND_IF) self->node->on = holds(&self->guard);
#endif
    *stream = self->streams[0];
    return EAGLE_OK;
}

eagle_status eagle_backend_conditional_body_stream(eagle_conditional conditional, uint64_t *stream) {
    GET(self, conditional, FAKE_COND);
    WRITABLE(stream);
    *stream = self->streams[0];
    return EAGLE_OK;
}

eagle_status eagle_backend_conditional_is_loop(eagle_conditional conditional, int32_t *out) {
    GET(self, conditional, FAKE_COND);
    WRITABLE(out);
    *out = self->guard.kind == EAGLE_COND_WHILE;
    return EAGLE_OK;
}

eagle_status eagle_backend_conditional_end(eagle_conditional conditional) {
    GET(self, conditional, FAKE_COND);
    if (!self->begun) return EAGLE_OK;
    self->begun = 0;
    --self->list->open_blocks;
    int empty = 0;
    for (uint32_t i = 0; i < self->guard.arms; ++i) {
        *sink_of(self->streams[i]) = NULL;
        empty |= self->node->lists[i]->count == 0;
    }
#ifdef WRONG_EMPTY_ARM
    empty = 0;
#endif
    if (!empty) return EAGLE_OK;
    self->list->failed = 1;
    return refuse(EAGLE_INVALID_ARGUMENT, "an arm captured no work");
}

void eagle_backend_conditional_release(eagle_conditional conditional) {
    fake_object *self = found(conditional, FAKE_COND);
    if (!self) return;
    eagle_backend_conditional_end(conditional);
    release_streams(self, self->guard.arms);
    drop(conditional, FAKE_COND);
}

eagle_status eagle_backend_conditional_arm_stream(eagle_conditional conditional, uint64_t arm, uint64_t *stream) {
    GET(self, conditional, FAKE_COND);
    WRITABLE(stream);
    if (arm >= self->guard.arms) return refuse(EAGLE_INDEX, "no such arm");
    *stream = self->streams[arm];
    return EAGLE_OK;
}

/* ---- attribution ------------------------------------------------------------------------------------------------- */

eagle_status eagle_backend_capture_snapshot_nodes(uint64_t stream, uint64_t **nodes, int64_t *count) {
    fake_list *list = *sink_of(stream);
    if (!nodes || !count || !list) return refuse(EAGLE_ERROR, "the stream is not being captured");
    *nodes = malloc(sizeof **nodes * (size_t)(list->count + 1));
    for (int i = 0; i < list->count; ++i) (*nodes)[i] = (uint64_t)(uintptr_t)list->nodes[i];
    *count = list->count;
    return EAGLE_OK;
}

eagle_status eagle_backend_is_node_toggleable(uint64_t node, int32_t *out) {
    if (!node || !out) return refuse(EAGLE_INVALID_ARGUMENT, "no such node");
#ifdef WRONG_TOGGLEABLE
    *out = 1;
#else
    *out = ((const fake_node *)(uintptr_t)node)->kind <= FAKE_ZERO;
#endif
    return EAGLE_OK;
}

eagle_status eagle_backend_capture_add_child(uint64_t stream, uint64_t graph, int32_t in_body) {
    (void)in_body;
    fake_list *list = *sink_of(stream);
    if (!graph || !list) return refuse(EAGLE_INVALID_ARGUMENT, "no such graph");
    record(list, FAKE_CHILD)->lists[0] = (fake_list *)(uintptr_t)graph;
    return EAGLE_OK;
}
