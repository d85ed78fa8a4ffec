/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Draining the sample ring into the histograms; used by core.bpf.c (on demand) and timer.bpf.c (periodically).
 *
 * The kernel lets one drain run at a time and answers EBUSY to the second, so that additions need not be atomic.
 * The producer is unprivileged and may write anything at any moment: each sample is copied once and the copy is
 * checked; positions and lengths are checked by the kernel.
 */
#ifndef GRIDMUX_AGGREGATE_H
#define GRIDMUX_AGGREGATE_H

#define GRIDMUX_ADD(field, n) ((field) += (n))
#include "histogram.h"

const volatile struct gridmux_tunables tunables = {};

struct {
	__uint(type, BPF_MAP_TYPE_USER_RINGBUF);
	__uint(max_entries, GRIDMUX_RING_BYTES);
} gridmux_samples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GRIDMUX_MAX_TENANTS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
} gridmux_tenants SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gridmux_stats);
} gridmux_stats SEC(".maps");

/* A drain stops after so many samples, so that a timer never holds a CPU for long (about 0.5 ms). */
#define GRIDMUX_DRAIN_LIMIT 8192

struct drain {
	struct gridmux_stats *stats;
	/* Stop when stats->records reaches this. Counting in the map and not here keeps the verifier from telling
	 * each step of the loop from the next. */
	__u64 until;
};

static long take_sample(struct bpf_dynptr *record, void *context)
{
	struct drain *drain = context;
	struct gridmux_sample sample;
	__u32 kind;

	drain->stats->records++;
	if (bpf_dynptr_read(&sample, sizeof(sample), record, 0, 0)) {
		drain->stats->malformed++;
		goto out;
	}
	drain->stats->lost += sample.lost_before;
	if (tunables.registered_only && !bpf_map_lookup_elem(&gridmux_tenants, &sample.tenant)) {
		drain->stats->unknown_tenant++;
		goto out;
	}
	drain->stats->samples++;
	for (kind = 0; kind < GRIDMUX_KINDS; kind++) {
		if (!(sample.present & (1 << kind)))
			continue;
		if (add_latency(sample.tenant, sample.device, kind, sample.latency_ns[kind]))
			drain->stats->keys_full++;
	}
out:
	return drain->stats->records >= drain->until;
}

/* Takes what the ring holds, up to the limit: the number taken, or the negative error of the kernel. */
static __always_inline long drain_samples(void)
{
	struct drain drain = {};
	__u32 first = 0;
	long taken;

	drain.stats = bpf_map_lookup_elem(&gridmux_stats, &first);
	if (!drain.stats)
		return -1;
	drain.until = drain.stats->records + GRIDMUX_DRAIN_LIMIT;
	/* Nobody sleeps until the ring has room: a producer that finds it full drops the sample. */
	taken = bpf_user_ringbuf_drain(&gridmux_samples, take_sample, &drain, BPF_RB_NO_WAKEUP);
	if (taken == -16 /* EBUSY */)
		return taken;
	drain.stats->drains++;
	if (taken < 0)
		drain.stats->drain_errors++;
	return taken;
}

#endif
