/* Graphs and launchers of the fakes: a launcher walks a copy of what was captured.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* ---- replay ------------------------------------------------------------------------------------------------------ */

static uint32_t *cell(uint64_t address) { return (uint32_t *)(uintptr_t)address; }

static int holds(const eagle_conditional_desc *d) {
    if (!d->count_ptr) return 1;
    return (*cell(d->count_ptr) != (d->baseline_ptr ? *cell(d->baseline_ptr) : 0)) != (d->negate != 0);
}

static int replay(const fake_list *list, int64_t logical);

static int replay_loop(const fake_node *node, int64_t logical) {
    const eagle_conditional_desc *d = &node->guard;
    uint32_t *pair = cell(d->counter_ptr);
    pair[0] = d->loop_cap, pair[1] = 0;
#ifndef WRONG_LOOP_BRK
    if (d->brk_ptr) *cell(d->brk_ptr) = 0;
#endif
    if ((d->limit_ptr && !*cell(d->limit_ptr)) || !holds(d)) return 0;
    do {
        if (replay(node->lists[0], logical)) return 1;
#ifndef WRONG_LOOP_PAIR
        --pair[0];
#endif
        ++pair[1];
#ifdef WRONG_LOOP_LIMIT
        if (d->limit_ptr && pair[1] > *cell(d->limit_ptr)) break;
#else
        if (d->limit_ptr && pair[1] >= *cell(d->limit_ptr)) break;
#endif
    } while (pair[1] < d->loop_cap && (!d->brk_ptr || !*cell(d->brk_ptr)) && holds(d));
    return 0;
}

static int replay_node(fake_node *node, int64_t logical) {
    uint64_t params[FAKE_PARAMS];
    eagle_launch_desc d = node->launch;
    uint32_t arm = 0;
    switch (node->kind) {
        case FAKE_LAUNCH:
            for (int64_t i = 0; i < d.nparams; ++i)
                params[i] = node->size[i] ? (uint64_t)(uintptr_t)&node->box[i] : node->at[i];
            if (logical && d.count > logical) d.count = logical;
            ((entry)(uintptr_t)d.function)(params, d.base, d.count, d.n_samples);
            return 0;
        case FAKE_COPY:
            memcpy((void *)(uintptr_t)node->to, (void *)(uintptr_t)node->from, node->bytes);
            return 0;
        case FAKE_ZERO:
            memset((void *)(uintptr_t)node->to, 0, node->bytes);
            return 0;
        case FAKE_HOST:
            node->fn(node->arg);
            return 0;
        case FAKE_CALL:
#ifdef WRONG_CALL_GOES_ON
            return node->call(node->arg), 0;
#else
            return node->call(node->arg) != 0;
#endif
        case FAKE_CHILD:
            return replay(node->lists[0], logical);
        case FAKE_SETTER:
            return 0;
    }
    if (node->guard.kind == EAGLE_COND_WHILE) return replay_loop(node, logical);
    if (node->guard.kind == EAGLE_COND_SWITCH)
        arm = *cell(node->guard.count_ptr);
    else
        arm = !holds(&node->guard);
#ifdef WRONG_SWITCH_RANGE
    if (node->guard.kind == EAGLE_COND_SWITCH && arm >= node->guard.arms) arm = node->guard.arms - 1;
#endif
#ifdef WRONG_IF_ELSE
    if (node->guard.kind == EAGLE_COND_IF_ELSE) arm = 0;
#endif
    return arm < node->guard.arms ? replay(node->lists[arm], logical) : 0;
}

static int replay(const fake_list *list, int64_t logical) {
    for (int i = 0; i < list->count; ++i)
        if (list->nodes[i]->on && replay_node(list->nodes[i], logical)) return 1;
    return 0;
}

/* ---- graph ------------------------------------------------------------------------------------------------------- */

eagle_status eagle_backend_graph_create(const eagle_graph_desc *desc, eagle_graph *out) {
    READ(eagle_graph_desc, d, desc);
    eagle_status status = bad_desc(d.struct_size, d.flags, 0, d.device);
    if (status) return status;
    WRITABLE(out);
    fake_object *graph = added(FAKE_GRAPH);
    graph->list = calloc(1, sizeof(fake_list));
    graph->last = -1;
    *out = (eagle_graph)graph;
    return EAGLE_OK;
}

eagle_status eagle_backend_graph_add_node(eagle_graph graph, eagle_captured consumed) {
    GET(self, graph, FAKE_GRAPH);
    GET(captured, consumed, FAKE_CAPTURED);
    if (!captured->list->count) return refuse(EAGLE_INVALID_ARGUMENT, "the capture is empty");
#ifdef WRONG_GRAPH_ORDER
    self->list->count = 0;
#endif
    record(self->list, FAKE_CHILD)->lists[0] = captured->list;
    ++self->last;
#ifndef WRONG_CONSUMED
    drop(consumed, FAKE_CAPTURED);
#endif
    return EAGLE_OK;
}

eagle_status eagle_backend_graph_from_captured(eagle_captured consumed, eagle_graph *out) {
    GET(captured, consumed, FAKE_CAPTURED);
    WRITABLE(out);
    if (!captured->list->count) return refuse(EAGLE_INVALID_ARGUMENT, "the capture is empty");
    fake_object *graph = added(FAKE_GRAPH);
    graph->list = captured->list;
    *out = (eagle_graph)graph;
    drop(consumed, FAKE_CAPTURED);
    return EAGLE_OK;
}

eagle_status eagle_backend_graph_stream(eagle_graph graph, uint64_t stream) {
    GET(self, graph, FAKE_GRAPH);
    self->stream = stream;
    return EAGLE_OK;
}

eagle_status eagle_backend_graph_launcher(eagle_graph graph, eagle_launcher *out) {
    GET(self, graph, FAKE_GRAPH);
    WRITABLE(out);
    fake_object *launcher = added(FAKE_LAUNCHER);
    launcher->list = copied(self->list);
    *out = (eagle_launcher)launcher;
    return EAGLE_OK;
}

eagle_status eagle_backend_graph_last_node(eagle_graph graph, int64_t *out) {
    GET(self, graph, FAKE_GRAPH);
    WRITABLE(out);
    *out = self->last;
    return EAGLE_OK;
}

void eagle_backend_graph_release(eagle_graph graph) { drop(graph, FAKE_GRAPH); }

/* ---- launcher ---------------------------------------------------------------------------------------------------- */

eagle_status eagle_backend_launcher_launch(eagle_launcher launcher) {
    GET(self, launcher, FAKE_LAUNCHER);
#ifdef WRONG_REPLAY_ONCE
    if (self->last++) return EAGLE_OK;
#endif
    return replay(self->list, self->logical) ? refuse(EAGLE_CALLBACK_FAILED, "a host call ended it") : EAGLE_OK;
}

eagle_status eagle_backend_launcher_synchronize(eagle_launcher launcher) {
    GET(self, launcher, FAKE_LAUNCHER);
    return EAGLE_OK;
}

eagle_status eagle_backend_launcher_stream(eagle_launcher launcher, uint64_t stream) {
    GET(self, launcher, FAKE_LAUNCHER);
    self->stream = stream;
    return EAGLE_OK;
}

eagle_status eagle_backend_launcher_set_logical_size(eagle_launcher launcher, int64_t n) {
    GET(self, launcher, FAKE_LAUNCHER);
#ifdef WRONG_LOGICAL
    self->logical = n;
#else
    if (n) self->logical = n;
#endif
    return EAGLE_OK;
}

static fake_node *node_of(const fake_list *list, uint64_t node) {
    for (int i = 0; i < list->count; ++i) {
        if (list->nodes[i]->origin == (fake_node *)(uintptr_t)node) return list->nodes[i];
        for (int arm = 0; arm < FAKE_ARMS && list->nodes[i]->lists[arm]; ++arm) {
            fake_node *inner = node_of(list->nodes[i]->lists[arm], node);
            if (inner) return inner;
        }
    }
    return NULL;
}

eagle_status eagle_backend_launcher_kernel_node_count(eagle_launcher launcher, int64_t *out) {
    GET(self, launcher, FAKE_LAUNCHER);
    WRITABLE(out);
    *out = 0;
    for (int i = 0; i < self->list->count; ++i) *out += self->list->nodes[i]->kind == FAKE_LAUNCH;
#ifdef WRONG_COUNT
    ++*out;
#endif
    return EAGLE_OK;
}

eagle_status eagle_backend_launcher_set_node_enabled(eagle_launcher launcher, uint64_t node, int32_t on) {
    GET(self, launcher, FAKE_LAUNCHER);
    fake_node *ours = node_of(self->list, node);
    if (!ours || ours->kind > FAKE_ZERO) return refuse(EAGLE_INVALID_ARGUMENT, "no such node");
#ifdef WRONG_ENABLED
    on = 1;
#endif
    ours->on = on;
    return EAGLE_OK;
}

void eagle_backend_launcher_release(eagle_launcher launcher) { drop(launcher, FAKE_LAUNCHER); }

eagle_status eagle_backend_launcher_set_kernel_params(eagle_launcher launcher, uint64_t node, const uint64_t *params,
                                                      int64_t n) {
    GET(self, launcher, FAKE_LAUNCHER);
    fake_node *ours = node_of(self->list, node);
    if (!ours || ours->kind != FAKE_LAUNCH || n < 0 || n > ours->launch.nparams)
        return refuse(EAGLE_INVALID_ARGUMENT, "no such node or argument");
    for (int64_t i = 0; i < n; ++i) {
        if (!params[i]) continue;
        ours->at[i] = params[i];
#ifdef WRONG_PARAMS_LATE
        ours->size[i] = 0;
#endif
        if (ours->size[i]) memcpy(&ours->box[i], (void *)(uintptr_t)params[i], ours->size[i]);
    }
    return EAGLE_OK;
}

eagle_status eagle_backend_launcher_set_memcpy_source(eagle_launcher launcher, uint64_t node, uint64_t src) {
    GET(self, launcher, FAKE_LAUNCHER);
    fake_node *ours = node_of(self->list, node);
    if (!ours || ours->kind != FAKE_COPY || !src) return refuse(EAGLE_INVALID_ARGUMENT, "no such copy");
#ifndef WRONG_SOURCE
    ours->from = src;
#endif
    return EAGLE_OK;
}

static int same_shape(const fake_list *one, const fake_list *other) {
    int same = one->count == other->count;
    for (int i = 0; same && i < one->count; ++i) same = one->nodes[i]->kind == other->nodes[i]->kind;
#ifdef WRONG_UPDATE
    same = 1;
#endif
    return same;
}

eagle_status eagle_backend_launcher_exec_update(eagle_launcher launcher, eagle_captured captured, int32_t *accepted) {
    GET(self, launcher, FAKE_LAUNCHER);
    GET(fresh, captured, FAKE_CAPTURED);
    WRITABLE(accepted);
    *accepted = same_shape(self->list, fresh->list);
    if (*accepted) self->list = copied(fresh->list);
    return EAGLE_OK;
}

/* ---- extensions of captures -------------------------------------------------------------------------------------- */

eagle_status eagle_backend_host_call(uint64_t stream, eagle_void_callback fn, void *arg) {
    if (!fn) return refuse(EAGLE_INVALID_ARGUMENT, "fn is NULL");
    fake_list *list = *sink_of(stream);
    if (!list) return fn(arg) ? refuse(EAGLE_CALLBACK_FAILED, "fn failed") : EAGLE_OK;
    fake_node *node = record(list, FAKE_CALL);
    node->call = fn;
    node->arg = arg;
    return EAGLE_OK;
}

eagle_status eagle_backend_capture_fuse(uint64_t stream, int32_t on) {
    (void)on;
    return *sink_of(stream) ? EAGLE_OK : refuse(EAGLE_ERROR, "the stream is not being captured");
}
