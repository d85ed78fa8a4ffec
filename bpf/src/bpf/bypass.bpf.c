// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Counts calls of functions of somebody else's driver library, by process and kind of call.
 *
 * Plain sections only: aya loads this object and attaches it, one probe for each function, with the kind of call as
 * the cookie. Calls come on any CPU, so that additions are atomic. The first call of a process takes its name, which a
 * process chooses itself: it may be anything.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "gridmux.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GRIDMUX_MAX_CALLERS * GRIDMUX_CALLS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gridmux_call_key);
	__type(value, struct gridmux_calls);
} gridmux_calls SEC(".maps");

/* Callers that found no room. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} gridmux_unkept SEC(".maps");

static __always_inline int no_room(void)
{
	__u32 first = 0;
	__u64 *unkept = bpf_map_lookup_elem(&gridmux_unkept, &first);

	if (unkept)
		__sync_fetch_and_add(unkept, 1);
	return 0;
}

SEC("uprobe")
int gridmux_bypass(void *context)
{
	struct gridmux_call_key key = {};
	struct gridmux_calls *calls;

	key.pid = bpf_get_current_pid_tgid() >> 32;
	key.call = (__u32)bpf_get_attach_cookie(context);
	calls = bpf_map_lookup_elem(&gridmux_calls, &key);
	if (!calls) {
		struct gridmux_calls first = {};

		bpf_get_current_comm(&first.name, sizeof(first.name));
		/* Another thread may have been faster: then its entry is found below. */
		bpf_map_update_elem(&gridmux_calls, &key, &first, BPF_NOEXIST);
		calls = bpf_map_lookup_elem(&gridmux_calls, &key);
		if (!calls)
			return no_room();
	}
	__sync_fetch_and_add(&calls->count, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
