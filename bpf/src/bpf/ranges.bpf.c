// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Hands hits of the probes of ranges to a reader, from every process that has the driver library mapped.
 *
 * Names are the processes' own words: bounded, and read without waiting for a page, so that no process holds the
 * kernel up. The ring is apart from that of events, so that a process that floods it takes no room from these.
 *
 * Argument positions are those of tenant/cuda/src/nvtx/probes.rs.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/usdt.bpf.h>
#include "gridmux.h"
#include "hits.h"

enum argument { NAME, NAME_BYTES, DOMAIN, RANGE };

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, GRIDMUX_EVENT_BYTES);
} gridmux_ranges SEC(".maps");

SEC("usdt")
int gridmux_range(struct pt_regs *ctx)
{
	__u64 process_and_thread = bpf_get_current_pid_tgid();
	struct gridmux_range *range;
	const void *name;
	__u64 bytes;

	range = bpf_ringbuf_reserve(&gridmux_ranges, sizeof(*range), 0);
	if (!range)
		return lose();
	__builtin_memset(range, 0, sizeof(*range));
	range->wall_ns = bpf_ktime_get_ns();
	range->domain = argument(ctx, DOMAIN);
	range->range = argument(ctx, RANGE);
	range->pid = process_and_thread >> 32;
	range->tid = (__u32)process_and_thread;
	range->probe = (__u32)bpf_usdt_cookie(ctx);
	name = (const void *)argument(ctx, NAME);
	bytes = argument(ctx, NAME_BYTES);
	if (bytes > GRIDMUX_NAME_BYTES)
		bytes = GRIDMUX_NAME_BYTES;
	if (name && bytes && !bpf_probe_read_user(range->name, bytes, name))
		range->name_bytes = bytes;
	if (range->domain)
		bpf_probe_read_user_str(range->domain_name, sizeof(range->domain_name), (const void *)range->domain);
	bpf_ringbuf_submit(range, BPF_RB_NO_WAKEUP);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
