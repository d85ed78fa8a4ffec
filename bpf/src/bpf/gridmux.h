/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The layouts that BPF programs and Rust share; src/layout.rs mirrors this file and asserts the same sizes and
 * offsets, so that neither side can drift alone.
 */
#ifndef GRIDMUX_SHARED_H
#define GRIDMUX_SHARED_H

/* Counted up whenever a layout below changes; readers refuse pins of another version. */
#define GRIDMUX_LAYOUT_VERSION 2

/* Data bytes of the sample ring: a power of two and a multiple of the page size. */
#define GRIDMUX_RING_BYTES (1 << 20)

/* Most {tenant, device, kind} keys that one instance may hold. */
#define GRIDMUX_MAX_KEYS 16384
#define GRIDMUX_MAX_TENANTS 4096

/* log2 buckets, each cut into 8 linear ones: 8 exact values, then 8 for each of the exponents 3 to 63. */
#define GRIDMUX_SUB_BITS 3
#define GRIDMUX_SUB_BUCKETS (1 << GRIDMUX_SUB_BITS)
#define GRIDMUX_BUCKETS ((64 - GRIDMUX_SUB_BITS + 1) * GRIDMUX_SUB_BUCKETS)

/* Which latency a histogram holds; also the bit of gridmux_sample.present that says the field is filled. */
enum gridmux_kind {
	GRIDMUX_SUBMIT_TO_START,
	GRIDMUX_SUBMIT_TO_COMPLETE,
	GRIDMUX_WALL_SUBMIT_TO_START,
	GRIDMUX_KINDS,
};

/* One finished launch, written by the dispatcher. Everything in it may be a lie. */
struct gridmux_sample {
	__u32 tenant;
	__u16 device;
	__u16 present;
	__u32 lost_before;
	__u32 reserved;
	__u64 latency_ns[GRIDMUX_KINDS];
};

struct gridmux_key {
	__u32 tenant;
	__u16 device;
	__u16 kind;
};

struct gridmux_histogram {
	__u64 sum_ns;
	__u64 max_ns;
	/* The complement of the least value, so that 0, which a map begins with, says that there was none. */
	__u64 not_min_ns;
	__u64 buckets[GRIDMUX_BUCKETS];
};

/* What became of the samples. */
struct gridmux_stats {
	__u64 records;
	__u64 samples;
	__u64 lost;
	__u64 unknown_tenant;
	__u64 keys_full;
	__u64 malformed;
	__u64 drains;
	__u64 drain_errors;
};

/* Read-only to programs, set before load; the one variable of each object's .rodata. */
struct gridmux_tunables {
	/* How often the timer drains. */
	__u64 period_ns;
	/* 1 drops samples of tenants that the supervisor did not register. */
	__u32 registered_only;
	__u32 reserved;
};

/* Who owns an instance's pins. */
struct gridmux_owner {
	__u32 layout_version;
	__u32 pid;
	__u64 start_ticks;
};

/* Index of a USDT probe, carried as its cookie. */
enum gridmux_probe {
	GRIDMUX_PROBE_SUBMIT,
	GRIDMUX_PROBE_ADMIT,
	GRIDMUX_PROBE_PLAN,
	GRIDMUX_PROBE_SLICE_START,
	GRIDMUX_PROBE_SLICE_END,
	GRIDMUX_PROBE_PREEMPT,
	GRIDMUX_PROBE_RESUME,
	GRIDMUX_PROBE_COMPLETE,
	GRIDMUX_PROBE_BLOCK,
	GRIDMUX_PROBES,
};

/* Data bytes of the ring of events: a power of two and a multiple of the page size. */
#define GRIDMUX_EVENT_BYTES (4 << 20)

/* What a probe may add beyond the arguments that every probe carries. */
#define GRIDMUX_VALUES 4

/* A hit of a probe, as a reader of events gets it. */
struct gridmux_event {
	/* CLOCK_MONOTONIC. */
	__u64 wall_ns;
	/* The device's clock. */
	__u64 time_ns;
	__u64 seq;
	__u64 key;
	/* In the order of src/probes.rs; 0 where the probe adds less. */
	__u64 values[GRIDMUX_VALUES];
	__u32 tenant;
	__u32 client;
	__u32 kernel;
	__u16 device;
	__u16 probe;
};

/* Whose events pass; set before load. */
struct gridmux_filter {
	__u32 tenant;
	/* 1: only those of the tenant, and those of no tenant. */
	__u32 is_on;
};

/* Index of a probe of ranges, carried as its cookie. */
enum gridmux_range_probe {
	GRIDMUX_RANGE_PUSH,
	GRIDMUX_RANGE_POP,
	GRIDMUX_RANGE_START,
	GRIDMUX_RANGE_END,
	GRIDMUX_RANGE_MARK,
};

/* Most bytes of the name of a range, and of that of a domain. */
#define GRIDMUX_NAME_BYTES 64
#define GRIDMUX_DOMAIN_BYTES 32

/* A hit of a probe of ranges. */
struct gridmux_range {
	/* CLOCK_MONOTONIC. */
	__u64 wall_ns;
	/* Which domain of the process; 0 for its own. */
	__u64 domain;
	/* Which range of the process; 0 for what is nested in its thread. */
	__u64 range;
	/* The process and the thread, as the kernel numbers them. */
	__u32 pid;
	__u32 tid;
	__u32 probe;
	/* Bytes of the name that could be read. */
	__u32 name_bytes;
	char name[GRIDMUX_NAME_BYTES];
	/* Filled up with zeros. */
	char domain_name[GRIDMUX_DOMAIN_BYTES];
};

struct gridmux_probe_key {
	__u32 tenant;
	__u32 probe;
};

/* Most processes whose calls of another driver library are counted. */
#define GRIDMUX_MAX_CALLERS 4096

/* What a watched function of a driver library does; carried as the probe's cookie. */
enum gridmux_call {
	GRIDMUX_CALL_LAUNCH,
	GRIDMUX_CALL_ALLOCATE,
	GRIDMUX_CALL_COPY,
	GRIDMUX_CALLS,
};

struct gridmux_call_key {
	__u32 pid;
	__u32 call;
};

struct gridmux_calls {
	__u64 count;
	/* The name of the thread that called first. */
	char name[16];
};

#define GRIDMUX_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " has the size that layout.rs states")
#define GRIDMUX_OFFSET(type, field, bytes) \
	_Static_assert(__builtin_offsetof(type, field) == (bytes), #type "." #field " stands where layout.rs states")

GRIDMUX_SIZE(struct gridmux_sample, 40);
GRIDMUX_OFFSET(struct gridmux_sample, device, 4);
GRIDMUX_OFFSET(struct gridmux_sample, present, 6);
GRIDMUX_OFFSET(struct gridmux_sample, lost_before, 8);
GRIDMUX_OFFSET(struct gridmux_sample, latency_ns, 16);
GRIDMUX_SIZE(struct gridmux_key, 8);
GRIDMUX_OFFSET(struct gridmux_key, kind, 6);
GRIDMUX_SIZE(struct gridmux_histogram, 3992);
GRIDMUX_OFFSET(struct gridmux_histogram, not_min_ns, 16);
GRIDMUX_OFFSET(struct gridmux_histogram, buckets, 24);
GRIDMUX_SIZE(struct gridmux_stats, 64);
GRIDMUX_SIZE(struct gridmux_tunables, 16);
GRIDMUX_OFFSET(struct gridmux_tunables, registered_only, 8);
GRIDMUX_SIZE(struct gridmux_owner, 16);
GRIDMUX_OFFSET(struct gridmux_owner, start_ticks, 8);
GRIDMUX_SIZE(struct gridmux_probe_key, 8);
GRIDMUX_SIZE(struct gridmux_call_key, 8);
GRIDMUX_SIZE(struct gridmux_calls, 24);
GRIDMUX_OFFSET(struct gridmux_calls, name, 8);
GRIDMUX_SIZE(struct gridmux_event, 80);
GRIDMUX_OFFSET(struct gridmux_event, key, 24);
GRIDMUX_OFFSET(struct gridmux_event, values, 32);
GRIDMUX_OFFSET(struct gridmux_event, tenant, 64);
GRIDMUX_OFFSET(struct gridmux_event, device, 76);
GRIDMUX_SIZE(struct gridmux_filter, 8);
GRIDMUX_SIZE(struct gridmux_range, 136);
GRIDMUX_OFFSET(struct gridmux_range, pid, 24);
GRIDMUX_OFFSET(struct gridmux_range, name, 40);
GRIDMUX_OFFSET(struct gridmux_range, domain_name, 104);

#endif
