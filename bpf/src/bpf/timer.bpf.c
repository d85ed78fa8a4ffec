// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Drains the sample ring periodically, so that it does not fill while nobody reads.
 *
 * Kept apart from core.bpf.c: tracing programs may not share an object's timer, and aya rejects `syscall`
 * sections. The maps of aggregate.h are those of the core object, handed over before load.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "gridmux.h"
#include "aggregate.h"

struct tick {
	struct bpf_timer timer;
};

/* Never pinned: the timer ends with the last process that holds this map. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tick);
} gridmux_ticks SEC(".maps");

static int on_tick(void *map, __u32 *key, struct tick *tick)
{
	long taken = drain_samples();

	(void)map;
	(void)key;
	/* A full batch means that more is waiting: come back soon, but let the CPU do other work in between. */
	bpf_timer_start(&tick->timer, taken >= GRIDMUX_DRAIN_LIMIT ? tunables.period_ns / 16 : tunables.period_ns, 0);
	return 0;
}

SEC("syscall")
int gridmux_arm(void *context)
{
	__u32 first = 0;
	struct tick *tick = bpf_map_lookup_elem(&gridmux_ticks, &first);
	long error;

	(void)context;
	if (!tick)
		return -2;
	error = bpf_timer_init(&tick->timer, &gridmux_ticks, 1 /* CLOCK_MONOTONIC */);
	if (error)
		return (int)error;
	error = bpf_timer_set_callback(&tick->timer, on_tick);
	if (error)
		return (int)error;
	return (int)bpf_timer_start(&tick->timer, tunables.period_ns, 0);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
