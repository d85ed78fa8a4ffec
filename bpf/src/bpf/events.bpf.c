// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Hands hits of USDT probes to a reader, one by one, while somebody traces a process.
 *
 * Nobody waits for the reader: where the ring has no room, the event is lost and counted. Nobody is woken either; the
 * reader comes back by itself, so that a hit costs the traced thread no wake-up.
 *
 * Argument positions are those of src/probes.rs. Every probe that this is attached to adds two values before the
 * client and the key.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/usdt.bpf.h>
#include "gridmux.h"
#include "hits.h"

enum argument { TENANT, DEVICE, KERNEL, SEQ, TIME_NS, VALUE_0, VALUE_1, CLIENT, KEY, VALUE_2, VALUE_3 };

/* The handle of what is no launch: a copy or a fill. */
#define NO_KERNEL 0xffffffffU

const volatile struct gridmux_filter filter = {};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, GRIDMUX_EVENT_BYTES);
} gridmux_events SEC(".maps");

SEC("usdt")
int gridmux_event(struct pt_regs *ctx)
{
	__u32 probe = (__u32)bpf_usdt_cookie(ctx);
	__u32 tenant = (__u32)argument(ctx, TENANT);
	__u32 kernel = (__u32)argument(ctx, KERNEL);
	struct gridmux_event *event;

	if (probe != GRIDMUX_PROBE_PLAN && ((filter.is_on && tenant != filter.tenant) || kernel == NO_KERNEL))
		return 0;
	event = bpf_ringbuf_reserve(&gridmux_events, sizeof(*event), 0);
	if (!event)
		return lose();
	event->wall_ns = bpf_ktime_get_ns();
	event->time_ns = argument(ctx, TIME_NS);
	event->seq = argument(ctx, SEQ);
	event->key = argument(ctx, KEY);
	event->values[0] = argument(ctx, VALUE_0);
	event->values[1] = argument(ctx, VALUE_1);
	event->values[2] = argument(ctx, VALUE_2);
	event->values[3] = argument(ctx, VALUE_3);
	event->tenant = tenant;
	event->client = (__u32)argument(ctx, CLIENT);
	event->kernel = kernel;
	event->device = (__u16)argument(ctx, DEVICE);
	event->probe = (__u16)probe;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
