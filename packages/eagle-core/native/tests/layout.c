/* The binary layout of eagle-backend/1. Compiling this file is the test, as C11 and as C++20.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * The numbers are written by hand from the contract, never from the header: a header that drifts does not compile
 * here. A released row is never edited; a struct that grows gets its new fields below and its new size. */
#include <assert.h>
#include <stddef.h>

#include "eagle/eagle_backend.h"

#define SIZE(type, bytes) static_assert(sizeof(eagle_##type) == (bytes), "size of eagle_" #type)
#define AT(type, offset, field) \
    static_assert(offsetof(eagle_##type, field) == (offset), "offset of eagle_" #type "." #field)
#define WIDTH(type, bytes, field) \
    static_assert(sizeof(((eagle_##type *)0)->field) == (bytes), "width of eagle_" #type "." #field)
#define VALUE(name, value) static_assert(EAGLE_##name == (value), "value of EAGLE_" #name)

static_assert(sizeof(void *) == 8, "the contract is written for LP64");
static_assert(sizeof(eagle_status) == 4 && (eagle_status)-1 < 0, "a status is a signed 32-bit integer");

/* ---- information ------------------------------------------------------------------------------------------------- */

SIZE(build_info, 192);
AT(build_info, 0, struct_size);
AT(build_info, 4, abi_version);
AT(build_info, 8, cudart_version);
AT(build_info, 12, reserved);
AT(build_info, 16, eagle_version);
AT(build_info, 48, archs);
AT(build_info, 176, backend_kind);
WIDTH(build_info, 32, eagle_version);
WIDTH(build_info, 128, archs);
WIDTH(build_info, 16, backend_kind);

SIZE(device_props, 368);
AT(device_props, 0, struct_size);
AT(device_props, 4, device);
AT(device_props, 8, name);
AT(device_props, 264, cc_major);
AT(device_props, 268, cc_minor);
AT(device_props, 272, sm_count);
AT(device_props, 276, clock_rate_khz);
AT(device_props, 280, memory_clock_rate_khz);
AT(device_props, 284, memory_bus_width_bits);
AT(device_props, 288, regs_per_block);
AT(device_props, 292, regs_per_sm);
AT(device_props, 296, warp_size);
AT(device_props, 300, reserved);
AT(device_props, 304, shared_mem_per_block);
AT(device_props, 312, shared_mem_per_sm);
AT(device_props, 320, peak_bytes_per_s);
AT(device_props, 328, peak_flops_sp);
AT(device_props, 336, peak_flops_dp);
AT(device_props, 344, fp64_ratio);
AT(device_props, 352, ridge_flops_per_byte_sp);
AT(device_props, 360, ridge_flops_per_byte_dp);
WIDTH(device_props, 256, name);
WIDTH(device_props, 8, ridge_flops_per_byte_dp);

/* ---- creation and launch ----------------------------------------------------------------------------------------- */

SIZE(stream_desc, 16);
AT(stream_desc, 0, struct_size);
AT(stream_desc, 4, flags);
AT(stream_desc, 8, device);
AT(stream_desc, 12, reserved);

SIZE(capturer_desc, 24);
AT(capturer_desc, 0, struct_size);
AT(capturer_desc, 4, flags);
AT(capturer_desc, 8, device);
AT(capturer_desc, 12, reserved);
AT(capturer_desc, 16, stream);

SIZE(fork_desc, 40); /* 32 before minor 5 */
AT(fork_desc, 0, struct_size);
AT(fork_desc, 4, flags);
AT(fork_desc, 8, device);
AT(fork_desc, 12, reserved);
AT(fork_desc, 16, origin);
AT(fork_desc, 24, branch_count);
AT(fork_desc, 32, wait_count);

SIZE(conditional_desc, 80); /* 48 before minor 5 */
AT(conditional_desc, 0, struct_size);
AT(conditional_desc, 4, flags);
AT(conditional_desc, 8, device);
AT(conditional_desc, 12, loop_cap);
AT(conditional_desc, 16, origin);
AT(conditional_desc, 24, count_ptr);
AT(conditional_desc, 32, baseline_ptr);
AT(conditional_desc, 40, counter_ptr);
AT(conditional_desc, 48, kind);
AT(conditional_desc, 52, arms);
AT(conditional_desc, 56, negate);
AT(conditional_desc, 60, reserved);
AT(conditional_desc, 64, brk_ptr);
AT(conditional_desc, 72, limit_ptr);

SIZE(graph_desc, 16);
AT(graph_desc, 0, struct_size);
AT(graph_desc, 4, flags);
AT(graph_desc, 8, device);
AT(graph_desc, 12, reserved);

SIZE(launch_desc, 80);
AT(launch_desc, 0, struct_size);
AT(launch_desc, 4, flags);
AT(launch_desc, 8, device);
AT(launch_desc, 12, block);
AT(launch_desc, 16, function);
AT(launch_desc, 24, params);
AT(launch_desc, 32, param_sizes);
AT(launch_desc, 40, nparams);
AT(launch_desc, 48, base);
AT(launch_desc, 56, count);
AT(launch_desc, 64, n_samples);
AT(launch_desc, 72, stream);

SIZE(composer_desc, 24);
AT(composer_desc, 0, struct_size);
AT(composer_desc, 4, flags);
AT(composer_desc, 8, device);
AT(composer_desc, 12, reserved);
AT(composer_desc, 16, mode);

SIZE(module_desc, 32);
AT(module_desc, 0, struct_size);
AT(module_desc, 4, flags);
AT(module_desc, 8, device);
AT(module_desc, 12, reserved);
AT(module_desc, 16, image);
AT(module_desc, 24, image_bytes);

/* ---- stepping ---------------------------------------------------------------------------------------------------- */

SIZE(step_plane, 16);
AT(step_plane, 0, slot);
AT(step_plane, 4, elem_bytes);
AT(step_plane, 8, components);
AT(step_plane, 12, flags);

SIZE(step_desc, 120);
AT(step_desc, 0, struct_size);
AT(step_desc, 4, flags);
AT(step_desc, 8, device);
AT(step_desc, 12, n_planes);
AT(step_desc, 16, function);
AT(step_desc, 24, params);
AT(step_desc, 32, nparams);
AT(step_desc, 40, planes);
AT(step_desc, 48, n_samples);
AT(step_desc, 56, max_steps);
AT(step_desc, 64, steps_per_launch);
AT(step_desc, 72, mask_slot);
AT(step_desc, 76, counter_slot);
AT(step_desc, 80, word_slot);
AT(step_desc, 84, map_slot);
AT(step_desc, 88, live_slot);
AT(step_desc, 92, step_ops);
AT(step_desc, 96, threads);
AT(step_desc, 100, reserved);
AT(step_desc, 104, poll);
AT(step_desc, 112, poll_ctx);

SIZE(step_report, 40);
AT(step_report, 0, struct_size);
AT(step_report, 4, flags);
AT(step_report, 8, steps);
AT(step_report, 16, visits);
AT(step_report, 24, finished);
AT(step_report, 32, offered);

/* ---- filtering --------------------------------------------------------------------------------------------------- */

SIZE(compact_desc, 104); /* 72 without the trigger */
AT(compact_desc, 0, struct_size);
AT(compact_desc, 4, flags);
AT(compact_desc, 8, device);
AT(compact_desc, 12, reserved);
AT(compact_desc, 16, mask);
AT(compact_desc, 24, index_map);
AT(compact_desc, 32, count);
AT(compact_desc, 40, scratch);
AT(compact_desc, 48, n);
AT(compact_desc, 56, stream);
AT(compact_desc, 64, scratch_bytes);
AT(compact_desc, 72, live32);
AT(compact_desc, 80, span);
AT(compact_desc, 88, fire);
AT(compact_desc, 96, theta);
AT(compact_desc, 100, reserved2);
WIDTH(compact_desc, 4, theta);

SIZE(compact_classes_desc, 160);
AT(compact_classes_desc, 0, compact);
AT(compact_classes_desc, 104, class_plane);
AT(compact_classes_desc, 112, classes);
AT(compact_classes_desc, 116, class_theta);
AT(compact_classes_desc, 120, offsets);
AT(compact_classes_desc, 128, mixed32);
AT(compact_classes_desc, 136, stale_count);
AT(compact_classes_desc, 144, class_fire);
AT(compact_classes_desc, 152, reserved);
WIDTH(compact_classes_desc, 4, class_theta);

SIZE(reorder_plane, 16);
AT(reorder_plane, 0, data);
AT(reorder_plane, 8, elem_bytes);
AT(reorder_plane, 12, reserved);

SIZE(reorder_desc, 112);
AT(reorder_desc, 0, struct_size);
AT(reorder_desc, 4, flags);
AT(reorder_desc, 8, device);
AT(reorder_desc, 12, n_planes);
AT(reorder_desc, 16, planes);
AT(reorder_desc, 24, mask);
AT(reorder_desc, 32, perm);
AT(reorder_desc, 40, inv);
AT(reorder_desc, 48, index_map);
AT(reorder_desc, 56, count);
AT(reorder_desc, 64, span);
AT(reorder_desc, 72, fire);
AT(reorder_desc, 80, scratch);
AT(reorder_desc, 88, n);
AT(reorder_desc, 96, stream);
AT(reorder_desc, 104, scratch_bytes);

SIZE(reorder_classes_desc, 144);
AT(reorder_classes_desc, 0, reorder);
AT(reorder_classes_desc, 112, class_plane);
AT(reorder_classes_desc, 120, classes);
AT(reorder_classes_desc, 124, reserved);
AT(reorder_classes_desc, 128, offsets);
AT(reorder_classes_desc, 136, class_sorts);

/* ---- experimental ------------------------------------------------------------------------------------------------ */

SIZE(reduce_desc, 96); /* 72 in older callers */
AT(reduce_desc, 0, struct_size);
AT(reduce_desc, 4, dtype);
AT(reduce_desc, 8, op);
AT(reduce_desc, 12, device);
AT(reduce_desc, 16, in);
AT(reduce_desc, 24, out);
AT(reduce_desc, 32, work_a);
AT(reduce_desc, 40, work_b);
AT(reduce_desc, 48, n);
AT(reduce_desc, 56, stream);
AT(reduce_desc, 64, work_elems);
AT(reduce_desc, 72, policy);
AT(reduce_desc, 76, flags);
AT(reduce_desc, 80, columns);
AT(reduce_desc, 88, comp_in);

SIZE(diff_desc, 88);
AT(diff_desc, 0, struct_size);
AT(diff_desc, 4, op);
AT(diff_desc, 8, device);
AT(diff_desc, 12, elem_bytes);
AT(diff_desc, 16, dst);
AT(diff_desc, 24, src);
AT(diff_desc, 32, index);
AT(diff_desc, 40, dst_ld);
AT(diff_desc, 48, src_ld);
AT(diff_desc, 56, count);
AT(diff_desc, 64, rows);
AT(diff_desc, 72, value);
AT(diff_desc, 80, stream);

SIZE(event_desc, 1080);
AT(event_desc, 0, struct_size);
AT(event_desc, 4, op);
AT(event_desc, 8, device);
AT(event_desc, 12, elem_bytes);
AT(event_desc, 16, n);
AT(event_desc, 24, guards);
AT(event_desc, 28, components);
AT(event_desc, 32, g);
AT(event_desc, 96, dg);
AT(event_desc, 160, gbar);
AT(event_desc, 224, a);
AT(event_desc, 480, b);
AT(event_desc, 736, c);
AT(event_desc, 992, terminated);
AT(event_desc, 1000, applied);
AT(event_desc, 1008, t0);
AT(event_desc, 1016, h);
AT(event_desc, 1024, status);
AT(event_desc, 1032, which);
AT(event_desc, 1040, tau);
AT(event_desc, 1048, lo);
AT(event_desc, 1056, hi);
AT(event_desc, 1064, t_stop);
AT(event_desc, 1072, stream);

/* ---- constants --------------------------------------------------------------------------------------------------- */

VALUE(BACKEND_VERSION, 65542);
VALUE(BACKEND_VERSION_MAJOR, 1);
VALUE(BACKEND_VERSION_MINOR, 6);
VALUE(OK, 0);
VALUE(ERROR, 1);
VALUE(INVALID_ARGUMENT, 2);
VALUE(INDEX, 3);
VALUE(INTEROP, 4);
VALUE(UNAVAILABLE, 5);
VALUE(CALLBACK_FAILED, 6);
VALUE(BAD_HANDLE, 7);
VALUE(UNSUPPORTED, 8);
VALUE(STREAM_NON_BLOCKING, 1);
VALUE(NO_STREAM, -9223372036854775807 - 1);
VALUE(COND_IF, 1);
VALUE(COND_IF_ELSE, 2);
VALUE(COND_WHILE, 3);
VALUE(COND_SWITCH, 4);
VALUE(UNCAPPED_LOOP, 4294967295u);
VALUE(COPY_H2D, 0);
VALUE(COPY_D2H, 1);
VALUE(COPY_D2D, 2);
VALUE(COPY_H2H, 3);
VALUE(MASK_IS_DROP, 1);
VALUE(WITHIN_LIVE, 2);
VALUE(MAX_CLASSES, 255);
VALUE(STEP_MIRROR, 1);
VALUE(STEP_WRITES, 2);
VALUE(STEP_GUARD, 4);
VALUE(STEP_COUNTS, 8);
VALUE(STEP_ABANDON, 2);
VALUE(STEP_MOVABLE, 1);
VALUE(STEP_UNALIGNED, 2);
VALUE(STEP_EXACT, 1);
VALUE(STEP_STOPPED, 2);
VALUE(RESIDENCY_HOST, 0);
VALUE(RESIDENCY_DEVICE, 1);
VALUE(RESIDENCY_MANAGED, 2);
VALUE(RESIDENCY_MAPPED_HOST, 3);
VALUE(RESIDENCY_PAGEABLE, 4);
VALUE(RESIDENCY_OTHER_DEVICE, 5);
VALUE(REDUCE_F32, 0);
VALUE(REDUCE_F64, 1);
VALUE(REDUCE_I32, 2);
VALUE(REDUCE_I64, 3);
VALUE(REDUCE_U8, 4);
VALUE(REDUCE_SUM, 0);
VALUE(REDUCE_MAX, 1);
VALUE(REDUCE_ALL, 2);
VALUE(REDUCE_MIN, 3);
VALUE(POLICY_COMPENSATED, 0);
VALUE(POLICY_ORDERED, 1);
VALUE(POLICY_AUTO, 2);
VALUE(REDUCE_PAIR_OUT, 1);
VALUE(COLUMN_GATHER, 0);
VALUE(COLUMN_ACCUMULATE, 1);
VALUE(COLUMN_FILL, 2);
VALUE(COLUMN_COPY, 3);
VALUE(COLUMN_READ, 4);
VALUE(EVENT_CLASSIFY, 0);
VALUE(EVENT_NEWTON, 1);
VALUE(EVENT_SETTLE, 2);
VALUE(EVENT_GRAZE, 3);
VALUE(EVENT_COMMIT, 4);
VALUE(EVENT_SEED, 5);
VALUE(EVENT_SELECT, 6);
VALUE(EVENT_GUARDS, 8);
VALUE(EVENT_COMPONENTS, 32);
VALUE(CAP_STREAM, 0);
VALUE(CAP_CAPTURER, 1);
VALUE(CAP_CAPTURED, 2);
VALUE(CAP_FORK, 3);
VALUE(CAP_CONDITIONAL, 4);
VALUE(CAP_ATTRIBUTION, 5);
VALUE(CAP_GRAPH, 6);
VALUE(CAP_LAUNCHER, 7);
VALUE(CAP_EXEC, 9);
VALUE(CAP_DEVICE, 10);
VALUE(CAP_INTEROP, 11);
VALUE(CAP_FILTERING, 12);
VALUE(CAP_COND_IF_ELSE, 13);
VALUE(CAP_COND_SWITCH, 14);

int main(void) { return 0; }
