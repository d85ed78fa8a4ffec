/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Adding a latency to a histogram map.
 *
 * The including file defines GRIDMUX_ADD(field, n) first: a plain addition where one drain at a time runs, an
 * atomic one where probes fire on several CPUs.
 */
#ifndef GRIDMUX_HISTOGRAM_H
#define GRIDMUX_HISTOGRAM_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GRIDMUX_MAX_KEYS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gridmux_key);
	__type(value, struct gridmux_histogram);
} gridmux_latency SEC(".maps");

/* What a new key starts from: a histogram is far larger than a program's stack. Never written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gridmux_histogram);
} gridmux_empty SEC(".maps");

/* Position of the highest set bit; BPF has no instruction for it. value is not 0. */
static __always_inline __u32 log2_floor(__u64 value)
{
	__u32 shift, exponent = (value > 0xffffffffULL) << 5;

	value >>= exponent;
	shift = (value > 0xffff) << 4;
	value >>= shift;
	exponent |= shift;
	shift = (value > 0xff) << 3;
	value >>= shift;
	exponent |= shift;
	shift = (value > 0xf) << 2;
	value >>= shift;
	exponent |= shift;
	shift = (value > 0x3) << 1;
	value >>= shift;
	exponent |= shift;
	return exponent | (__u32)(value >> 1);
}

/* src/histogram.rs, Bucket::of, is the same function. */
static __always_inline __u32 bucket_of(__u64 value)
{
	__u32 exponent, sub;

	if (value < GRIDMUX_SUB_BUCKETS)
		return (__u32)value;
	exponent = log2_floor(value);
	sub = (value >> (exponent - GRIDMUX_SUB_BITS)) & (GRIDMUX_SUB_BUCKETS - 1);
	return (exponent - GRIDMUX_SUB_BITS + 1) * GRIDMUX_SUB_BUCKETS + sub;
}

/* Adds one latency; 0, or -1 when the map holds no further key. */
static __always_inline int add_latency(__u32 tenant, __u16 device, __u16 kind, __u64 latency_ns)
{
	struct gridmux_key key = { .tenant = tenant, .device = device, .kind = kind };
	struct gridmux_histogram *histogram = bpf_map_lookup_elem(&gridmux_latency, &key);
	__u32 bucket;

	if (!histogram) {
		__u32 first = 0;
		struct gridmux_histogram *start = bpf_map_lookup_elem(&gridmux_empty, &first);

		if (!start)
			return -1;
		/* Another CPU may have been faster: then its entry is found below. */
		bpf_map_update_elem(&gridmux_latency, &key, start, BPF_NOEXIST);
		histogram = bpf_map_lookup_elem(&gridmux_latency, &key);
		if (!histogram)
			return -1;
	}
	GRIDMUX_ADD(histogram->sum_ns, latency_ns);
	if (latency_ns > histogram->max_ns)
		histogram->max_ns = latency_ns;
	if (~latency_ns > histogram->not_min_ns)
		histogram->not_min_ns = ~latency_ns;
	bucket = bucket_of(latency_ns);
	/* Always true; the verifier cannot derive it. */
	if (bucket < GRIDMUX_BUCKETS)
		GRIDMUX_ADD(histogram->buckets[bucket], 1);
	return 0;
}

#endif
