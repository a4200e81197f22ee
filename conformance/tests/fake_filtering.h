/* The group filtering of the fake: one sample after another, nothing clever. Included by fake.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define AT(Type, raw) ((Type *)(uintptr_t)(raw))

static int keeps(uint64_t mask, uint32_t flags, int64_t i) {
#ifdef WRONG_MASK_VALUE
    return (AT(uint8_t, mask)[i] == 1) != (flags & EAGLE_MASK_IS_DROP);
#else
    return (AT(uint8_t, mask)[i] != 0) != (flags & EAGLE_MASK_IS_DROP);
#endif
}

static eagle_status bad_batch(uint32_t size, uint32_t flags, uint32_t known, int32_t device, int64_t n) {
    eagle_status status = bad_desc(size, flags, known, device);
    if (status) return status;
    if (n < 0) return refuse(EAGLE_INVALID_ARGUMENT, "n is negative");
    return n > INT32_MAX ? refuse(EAGLE_UNSUPPORTED, "n is too large") : EAGLE_OK;
}

/* ---- compaction -------------------------------------------------------------------------------------------------- */

static int outside(float theta) { return !(theta > 0 && theta < 1); }

static eagle_status compact(eagle_compact_desc *d, const uint8_t *classes, uint32_t *mixed32, int trigger) {
    if (trigger && (!d->live32 || !d->span || !d->fire || outside(d->theta) || d->reserved2))
        return refuse(EAGLE_INVALID_ARGUMENT, "a bad trigger");
    uint32_t count = 0, live32 = 0, mixed = 0;
    int64_t n = d->n;
#ifdef WRONG_COMPACT_TAIL
    n = n / 32 * 32;
#endif
    for (int64_t group = 0; group < n; group += 32) {
        int first = -1, differ = 0;
        for (int64_t i = group; i < n && i < group + 32; ++i) {
            if (!keeps(d->mask, d->flags, i)) continue;
            AT(int32_t, d->index_map)[count++] = (int32_t)i;
            if (classes && first >= 0 && classes[i] != first) differ = 1;
            if (first < 0) first = classes ? classes[i] : 0;
        }
        live32 += first >= 0;
        mixed += differ;
    }
#ifdef WRONG_MAP_TAIL
    if (count < n) AT(int32_t, d->index_map)[n] = 0;
#endif
    *AT(uint32_t, d->count) = count;
    if (mixed32) *mixed32 = mixed;
    if (!trigger) return EAGLE_OK;
    uint32_t span = *AT(uint32_t, d->span);
    *AT(uint32_t, d->live32) = live32;
#if defined(WRONG_FIRE_EQUAL)
    int sparse = count <= d->theta * 32.0 * live32;
#elif defined(WRONG_FIRE_DECIMAL)
    int sparse = count < (int)(d->theta * 1000 + .5) / 1000.0 * 32 * live32;
#else
    int sparse = count < d->theta * 32.0 * live32;
#endif
#ifdef WRONG_FIRE_SMALL
    *AT(uint32_t, d->fire) = sparse && count < span;
#else
    *AT(uint32_t, d->fire) = sparse && count < span && span >= 4096;
#endif
    return EAGLE_OK;
}

eagle_status eagle_backend_compact_device(eagle_compact_desc *desc) {
    READ(eagle_compact_desc, d, desc);
    eagle_status status = bad_batch(d.struct_size, d.flags, EAGLE_MASK_IS_DROP, d.device, d.n);
    if (status) return status;
#ifdef WRONG_QUERY
    if (!d.scratch) *AT(uint32_t, d.count) = 0;
#endif
    desc->scratch_bytes = 8;
    return d.scratch ? compact(&d, NULL, NULL, d.live32 != 0) : EAGLE_OK;
}

eagle_status eagle_backend_compact_classes_device(eagle_compact_classes_desc *desc) {
    if (!desc) return refuse(EAGLE_INVALID_ARGUMENT, "desc is NULL");
    eagle_compact_desc *d = &desc->compact;
    eagle_status status = bad_batch(d->struct_size, d->flags, EAGLE_MASK_IS_DROP, d->device, d->n);
    if (status) return status;
#ifndef WRONG_SHORT_CLASSES
    if (d->struct_size < sizeof *desc) return refuse(EAGLE_UNSUPPORTED, "the class fields are missing");
#endif
    d->scratch_bytes = 8;
    if (!d->scratch) return EAGLE_OK;
    if (desc->classes < 2 || desc->classes > 255 || !desc->mixed32 || !desc->class_fire || outside(desc->class_theta))
        return refuse(EAGLE_INVALID_ARGUMENT, "bad classes");
    status = compact(d, AT(uint8_t, desc->class_plane), AT(uint32_t, desc->mixed32), 1);
    if (status) return status;
    uint32_t mixed = *AT(uint32_t, desc->mixed32), live32 = *AT(uint32_t, d->live32), count = *AT(uint32_t, d->count);
    uint32_t stale = desc->stale_count ? *AT(uint32_t, desc->stale_count) : 0;
#ifdef WRONG_STALE
    int old = stale * 20 >= count && stale;
#else
    int old = stale * 20 > count;
#endif
    int many = mixed > 0 && mixed >= (double)desc->class_theta * live32 && *AT(uint32_t, d->span) >= 4096;
    *AT(uint32_t, desc->class_fire) = many || old || *AT(uint32_t, d->fire);
    return EAGLE_OK;
}

/* ---- reorder ----------------------------------------------------------------------------------------------------- */

static void move(char *data, uint32_t size, const int32_t *order, int64_t span) {
    char *copy = malloc(span * size + 1);
    for (int64_t i = 0; i < span; ++i) memcpy(copy + i * size, data + order[i] * size, size);
    memcpy(data, copy, span * size);
    free(copy);
}

static void move_all(const eagle_reorder_desc *d, const int32_t *order, int64_t span) {
    const eagle_reorder_plane *planes = AT(eagle_reorder_plane, d->planes);
    for (uint32_t p = 0; p < d->n_planes; ++p) move(AT(char, planes[p].data), planes[p].elem_bytes, order, span);
    int32_t *perm = AT(int32_t, d->perm), *inv = AT(int32_t, d->inv);
    move((char *)perm, 4, order, span);
#ifndef WRONG_INVERSE
    for (int64_t i = 0; i < span; ++i) inv[perm[i]] = (int32_t)i;
#endif
}

static eagle_status bad_reorder(const eagle_reorder_desc *d, uint32_t known) {
    eagle_status status = bad_batch(d->struct_size, d->flags, known, d->device, d->n);
    if (status) return status;
    const eagle_reorder_plane *planes = AT(eagle_reorder_plane, d->planes);
    for (uint32_t p = 0; p < d->n_planes; ++p) {
        uint32_t size = planes[p].elem_bytes;
#ifdef WRONG_ELEMENT_SIZE
        if (size == 12) continue;
#endif
        if (!size || size > 16 || size & (size - 1)) return refuse(EAGLE_INVALID_ARGUMENT, "a bad element size");
    }
    return EAGLE_OK;
}

static void identity(uint64_t target, int64_t n) {
    for (int64_t i = 0; i < n; ++i) AT(int32_t, target)[i] = (int32_t)i;
}

static int waits(const eagle_reorder_desc *d) {
    if (!d->fire) return 0;
    int due = *AT(uint32_t, d->fire);
#ifndef WRONG_FIRE_STAYS
    *AT(uint32_t, d->fire) = 0;
#endif
    return !due;
}

eagle_status eagle_backend_reorder_device(eagle_reorder_desc *desc) {
    READ(eagle_reorder_desc, d, desc);
    eagle_status status = bad_reorder(&d, EAGLE_MASK_IS_DROP);
    if (status) return status;
    desc->scratch_bytes = 8;
    if (!d.scratch || waits(&d)) return EAGLE_OK;
    int64_t span = *AT(uint32_t, d.span), kept = 0;
#ifdef WRONG_BEYOND_SPAN
    span = d.n;
#endif
    int32_t *order = malloc(4 * span + 4);
    for (int64_t i = 0; i < span; ++i)
        if (keeps(d.mask, d.flags, i)) order[kept++] = (int32_t)i;
    int64_t other = kept;
    for (int64_t i = 0; i < span; ++i)
        if (!keeps(d.mask, d.flags, i)) order[other++] = (int32_t)i;
#ifdef WRONG_UNSTABLE
    for (int64_t a = kept, b = span - 1; a < b; ++a, --b) {
        int32_t swap = order[a];
        order[a] = order[b];
        order[b] = swap;
    }
#endif
    move_all(&d, order, span);
    free(order);
    identity(d.index_map, kept);
    *AT(uint32_t, d.count) = (uint32_t)kept;
    *AT(uint32_t, d.span) = (uint32_t)kept;
    return EAGLE_OK;
}

eagle_status eagle_backend_reorder_classes_device(eagle_reorder_classes_desc *desc) {
    if (!desc) return refuse(EAGLE_INVALID_ARGUMENT, "desc is NULL");
    eagle_reorder_desc *d = &desc->reorder;
    eagle_status status = bad_reorder(d, EAGLE_MASK_IS_DROP | EAGLE_WITHIN_LIVE);
    if (status) return status;
    if (d->struct_size < sizeof *desc) return refuse(EAGLE_UNSUPPORTED, "the class fields are missing");
    if (desc->classes < 2 || desc->classes > 255) return refuse(EAGLE_INVALID_ARGUMENT, "bad classes");
    d->scratch_bytes = 8;
    if (!d->scratch) return EAGLE_OK;
    if (waits(d)) return EAGLE_OK;
    int within = d->flags & EAGLE_WITHIN_LIVE;
    int64_t span = *AT(uint32_t, within ? d->count : d->span), next = 0;
    const uint8_t *classes = AT(uint8_t, desc->class_plane);
    uint32_t *offsets = AT(uint32_t, desc->offsets);
    int32_t *order = malloc(4 * span + 4);
    for (uint32_t c = 0; c < desc->classes; ++c) {
#ifndef WRONG_OFFSETS
        offsets[c] = (uint32_t)next;
#endif
        for (int64_t i = 0; i < span; ++i)
            if ((within || keeps(d->mask, d->flags, i)) && classes[i] == c) order[next++] = (int32_t)i;
#ifdef WRONG_OFFSETS
        offsets[c] = (uint32_t)next;
#endif
    }
    uint32_t kept = offsets[desc->classes] = (uint32_t)next;
    for (int64_t i = 0; i < span; ++i)
        if (!(within || keeps(d->mask, d->flags, i)) || classes[i] >= desc->classes) order[next++] = (int32_t)i;
    move_all(d, order, span);
    free(order);
    identity(d->index_map, kept);
#ifdef WRONG_WITHIN_LIVE
    within = 0;
#endif
    if (!within) *AT(uint32_t, d->count) = *AT(uint32_t, d->span) = kept;
#ifndef WRONG_SORTS
    ++*AT(uint32_t, desc->class_sorts);
#endif
    return EAGLE_OK;
}

eagle_status eagle_backend_reset_device(eagle_reorder_desc *desc) {
    READ(eagle_reorder_desc, d, desc);
    identity(d.perm, d.n);
    identity(d.inv, d.n);
#ifndef WRONG_RESET_MAP
    if (d.index_map) identity(d.index_map, d.n);
#endif
    *AT(uint32_t, d.count) = *AT(uint32_t, d.span) = (uint32_t)d.n;
    return EAGLE_OK;
}

eagle_status eagle_backend_pointer_residency(int32_t device, uint64_t ptr, int32_t *out) {
    (void)ptr;
    if (device < -1) return refuse(EAGLE_INVALID_ARGUMENT, "no such device");
    if (!out) return refuse(EAGLE_INVALID_ARGUMENT, "out is NULL");
#ifdef WRONG_RESIDENCY
    *out = EAGLE_RESIDENCY_DEVICE;
#else
    *out = EAGLE_RESIDENCY_PAGEABLE;
#endif
    return EAGLE_OK;
}
