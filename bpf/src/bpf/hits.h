/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What programs share that hand hits of probes to a reader one by one: arguments, and a count of hits that found no
 * room in the ring.
 */
#ifndef GRIDMUX_HITS_H
#define GRIDMUX_HITS_H

/* Hits that found no room. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} gridmux_lost SEC(".maps");

/* Returns an argument, or 0 where the probe has none at that place. */
static __always_inline __u64 argument(struct pt_regs *ctx, __u32 place)
{
	long value = 0;

	if (bpf_usdt_arg(ctx, place, &value))
		return 0;
	return (__u64)value;
}

/* Counts a hit that found no room. */
static __always_inline int lose(void)
{
	__u32 first = 0;
	__u64 *lost = bpf_map_lookup_elem(&gridmux_lost, &first);

	/* Probes fire on any CPU. */
	if (lost)
		__sync_fetch_and_add(lost, 1);
	return 0;
}

#endif
