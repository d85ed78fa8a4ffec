// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The always-on launch latency, with plain sections only: both libbpf and aya load this object.
 *
 * `gridmux_drain` is attached to nothing; whoever holds it (the supervisor, or a reader through its pin) runs it with
 * BPF_PROG_TEST_RUN. A raw tracepoint program is the plainest type that may be run so without input data.
 *
 * The kernel knows programs and maps by the first 15 characters of their names; each begins with `gridmux_`, so that
 * whoever lists them sees whose they are.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "gridmux.h"
#include "aggregate.h"

/* Who pinned this instance; the programs do not use it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gridmux_owner);
} gridmux_owner SEC(".maps");

SEC("raw_tp/gridmux")
int gridmux_drain(void *context)
{
	(void)context;
	return (int)drain_samples();
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
