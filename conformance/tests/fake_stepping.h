/* The extension step_run of the fakes: rounds over the whole batch on the calling thread, with cells of its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */

typedef struct {
    void *data;
    uint64_t samples, stride;
    int32_t type, id;
} fake_handle;

static eagle_status bad_step_slot(const eagle_step_desc *d, int32_t slot, int optional) {
    if (optional && slot == -1) return EAGLE_OK;
    if (slot < 0 || slot >= d->nparams || !d->params[slot]) return refuse(EAGLE_INVALID_ARGUMENT, "a bad slot");
    return EAGLE_OK;
}

static eagle_status bad_step(const eagle_step_desc *d) {
    if (!d->function || !d->params || (d->n_planes && !d->planes) || d->nparams < 1 || d->n_samples < 0 ||
        d->max_steps < 1 || d->steps_per_launch < 0 || d->threads < 0 || d->step_ops < 0)
        return refuse(EAGLE_INVALID_ARGUMENT, "a bad desc");
    if ((d->map_slot == -1) != (d->live_slot == -1) || (d->steps_per_launch == 0 && d->word_slot == -1))
        return refuse(EAGLE_INVALID_ARGUMENT, "a slot is missing");
    if (d->map_slot != -1 && d->n_samples > INT32_MAX) return refuse(EAGLE_UNSUPPORTED, "too many for a map");
    int32_t slots[64] = {d->mask_slot, d->counter_slot, d->word_slot, d->map_slot, d->live_slot};
    int known = 5;
    for (uint32_t p = 0; p < d->n_planes; ++p) {
        const eagle_step_plane *plane = &d->planes[p];
        uint32_t bytes = plane->elem_bytes, mirror = plane->flags & EAGLE_STEP_MIRROR;
        if (plane->flags & ~15u) return refuse(EAGLE_UNSUPPORTED, "an unknown flag of a plane");
        if ((bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) || !plane->components ||
            (plane->components > 1 && !(plane->flags & (EAGLE_STEP_MIRROR | EAGLE_STEP_COUNTS))) ||
            ((plane->flags & EAGLE_STEP_GUARD) && (bytes != 1 || mirror)))
            return refuse(EAGLE_INVALID_ARGUMENT, "a bad plane");
        if ((plane->flags & EAGLE_STEP_COUNTS) && plane->flags != EAGLE_STEP_COUNTS)
            return refuse(EAGLE_INVALID_ARGUMENT, "cells that are samples' too");
        slots[known++] = (int32_t)plane->slot;
    }
    for (int i = 0; i < known; ++i) {
        if (bad_step_slot(d, slots[i], i >= 2 && i < 5)) return EAGLE_INVALID_ARGUMENT;
        for (int j = 0; j < i; ++j)
            if (slots[i] == slots[j] && slots[i] != -1)
                return refuse(EAGLE_INVALID_ARGUMENT, "a slot has two meanings");
        int cell = i >= 1 && i < 5;
        if (!cell && d->n_samples && !((fake_handle *)(uintptr_t)d->params[slots[i]])->data)
            return refuse(EAGLE_INVALID_ARGUMENT, "a plane without memory");
    }
    return EAGLE_OK;
}

static int steps_no_more(const eagle_step_desc *d, const uint8_t *mask, int64_t i) {
    int idle = mask[i];
    for (uint32_t p = 0; p < d->n_planes; ++p)
        if (d->planes[p].flags & EAGLE_STEP_GUARD)
            idle |= ((uint8_t *)((fake_handle *)(uintptr_t)d->params[d->planes[p].slot])->data)[i];
    return idle;
}

/* The steps of the next launch: 2, or 3 where 1 would be left. */
static int64_t next_word(const eagle_step_desc *d, int64_t left) {
    if (d->steps_per_launch) return d->steps_per_launch;
#ifdef WRONG_STEP_WORD
    return left == 1 ? 1 : left - 1 < 2 ? 1 : 2;
#elif defined(WRONG_STEP_CAP)
    return d->max_steps == 1 ? left : 2;
#else
    return left == 3 || left == 1 ? left : 2;
#endif
}

eagle_status eagle_backend_step_run(const eagle_step_desc *desc, eagle_step_report *out) {
    READ(eagle_step_desc, d, desc);
    eagle_status status = bad_desc(d.struct_size, d.flags, EAGLE_STEP_MOVABLE | EAGLE_STEP_UNALIGNED, d.device);
    if (status) return status;
    if (!out || out->struct_size < 12) return refuse(EAGLE_INVALID_ARGUMENT, "no out");
    if ((status = bad_step(&d))) return status;

    uint32_t counted = 0, live = 0;
    int64_t word = 0, n = d.n_samples;
    int32_t *map = malloc((size_t)(n ? n : 1) * sizeof *map);
    uint64_t *params = malloc((size_t)d.nparams * sizeof *params);
    if (!map || !params) return free(map), free(params), refuse(EAGLE_ERROR, "out of memory");
    memcpy(params, d.params, (size_t)d.nparams * sizeof *params);
    fake_handle own[4] = {
        {&counted, 1, 1, 1, 0}, {&word, 1, 1, 1, 0}, {map, (uint64_t)n, 1, 1, 0}, {&live, 1, 1, 1, 0}};
    int32_t slots[4] = {d.counter_slot, d.word_slot, d.map_slot, d.live_slot};
    for (int k = 0; k < 4; ++k)
        if (slots[k] != -1) params[slots[k]] = (uint64_t)(uintptr_t)&own[k];
#ifdef WRONG_STEP_COUNTER
    params[d.counter_slot] = d.params[d.counter_slot];
#endif
#ifdef WRONG_STEP_TOTALS
    uint64_t totals[64] = {0};
    fake_handle elsewhere = {totals, 64, 1, 1, 0};
    for (uint32_t p = 0; p < d.n_planes; ++p)
        if (d.planes[p].flags & EAGLE_STEP_COUNTS) params[d.planes[p].slot] = (uint64_t)(uintptr_t)&elsewhere;
#endif
    uint8_t *mask = ((fake_handle *)(uintptr_t)d.params[d.mask_slot])->data;
    entry run = (entry)(uintptr_t)d.function;

    int64_t unit = d.steps_per_launch ? d.steps_per_launch : 1;
    int64_t cap = (d.max_steps - 1) / unit + 1 < INT64_MAX / unit ? ((d.max_steps - 1) / unit + 1) * unit
                                                                  : INT64_MAX / unit * unit;
    eagle_step_report report = {0};
    int64_t age = 0, steps = 0;
    for (;;) {
        live = 0;
        for (int64_t i = 0; i < n; ++i)
            if (!steps_no_more(&d, mask, i)) map[live++] = (int32_t)i;
        if (!live || age >= cap || (report.flags & EAGLE_STEP_STOPPED)) break;
#ifdef WRONG_STEP_LOST
        if (n > 1000 && live < 20) break;
#endif
        word = next_word(&d, cap - age);
#ifdef WRONG_STEP_FINISHED
        uint8_t was = mask[0];
        if (was && age < 8) mask[0] = 0;
#endif
        int64_t count = d.map_slot == -1 ? n : live;
        run(params, 0, count, n);
#ifdef WRONG_STEP_FINISHED
        if (was) mask[0] = was;
#endif
        report.visits += count;
        age += word;
        steps += word * live;
        int end = d.poll ? d.poll(d.poll_ctx, n - live, steps) : 0;
#ifdef WRONG_STEP_POLL
        end = end && report.visits < 0;
#endif
        if (end) report.flags |= EAGLE_STEP_STOPPED;
#ifndef WRONG_STEP_ABANDON
        if (end == EAGLE_STEP_ABANDON) break;
#else
        if (end == EAGLE_STEP_ABANDON) run(params, 0, n, n);
#endif
    }
    free(map), free(params);
    for (int64_t i = 0; i < n; ++i) report.finished += mask[i] != 0;
    report.steps = age;
#ifndef WRONG_STEP_OFFERED
    report.offered = steps;
#endif
    if (age == 0 || live || d.steps_per_launch == 1) report.flags |= EAGLE_STEP_EXACT;
#ifdef WRONG_STEP_EXACT
    report.flags |= EAGLE_STEP_EXACT;
#elif defined(WRONG_STEP_VISITS)
    report.visits = age * n;
#endif
    uint32_t size = out->struct_size < sizeof report ? out->struct_size : (uint32_t)sizeof report;
    report.struct_size = size;
    memcpy(out, &report, size);
    return EAGLE_OK;
}
