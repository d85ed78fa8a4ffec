// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Counts USDT probes while somebody traces a process; `gridmux_done` feeds histograms as well.
 *
 * Probes fire on any CPU, so that additions are atomic here. Argument positions are those of src/probes.rs.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/usdt.bpf.h>
#include "gridmux.h"

#define GRIDMUX_ADD(field, n) __sync_fetch_and_add(&(field), (n))
#include "histogram.h"

enum argument { TENANT, DEVICE, KERNEL, SEQ, TIME_NS, SUBMIT_TO_START_NS, SUBMIT_TO_COMPLETE_NS };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GRIDMUX_MAX_TENANTS * GRIDMUX_PROBES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gridmux_probe_key);
	__type(value, __u64);
} gridmux_probes SEC(".maps");

static __always_inline int count_probe(struct pt_regs *ctx, __u32 probe, __u32 tenant)
{
	struct gridmux_probe_key key = { .tenant = tenant, .probe = probe };
	__u64 none = 0, *count = bpf_map_lookup_elem(&gridmux_probes, &key);

	(void)ctx;
	if (!count) {
		bpf_map_update_elem(&gridmux_probes, &key, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&gridmux_probes, &key);
		if (!count)
			return -1;
	}
	__sync_fetch_and_add(count, 1);
	return 0;
}

SEC("usdt")
int gridmux_count(struct pt_regs *ctx)
{
	long tenant;

	if (bpf_usdt_arg(ctx, TENANT, &tenant))
		return 0;
	return count_probe(ctx, (__u32)bpf_usdt_cookie(ctx), (__u32)tenant);
}

SEC("usdt")
int gridmux_done(struct pt_regs *ctx)
{
	long tenant, device, start_ns, complete_ns;

	if (bpf_usdt_arg(ctx, TENANT, &tenant) || bpf_usdt_arg(ctx, DEVICE, &device) ||
	    bpf_usdt_arg(ctx, SUBMIT_TO_START_NS, &start_ns) ||
	    bpf_usdt_arg(ctx, SUBMIT_TO_COMPLETE_NS, &complete_ns))
		return 0;
	count_probe(ctx, GRIDMUX_PROBE_COMPLETE, (__u32)tenant);
	add_latency((__u32)tenant, (__u16)device, GRIDMUX_SUBMIT_TO_START, (__u64)start_ns);
	add_latency((__u32)tenant, (__u16)device, GRIDMUX_SUBMIT_TO_COMPLETE, (__u64)complete_ns);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
