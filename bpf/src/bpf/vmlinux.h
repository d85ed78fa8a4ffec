/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The dozen kernel types that our programs name, written by hand.
 *
 * A full vmlinux.h is 3 MB and makes objects twenty times larger; our programs read no kernel structure, so no
 * field relocation is needed beyond the user registers that USDT arguments live in.
 */
/* libbpf's headers look for this name to choose the kernel's register names. */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
enum { false, true };

/* include/uapi/linux/bpf.h, enum bpf_map_type: values are ABI. */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_USER_RINGBUF = 31,
};

/* include/uapi/linux/bpf.h: flags of map creation, of updates, and of wake-ups. */
enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1,
	BPF_RB_NO_WAKEUP = 1,
	BPF_F_CURRENT_CPU = 0xffffffffULL,
};

/* include/uapi/linux/bpf.h: opaque to programs, sizes are ABI. */
struct bpf_timer {
	__u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_dynptr {
	__u64 opaque[2];
} __attribute__((aligned(8)));

/* arch/x86/include/asm/ptrace.h: the user registers at a probe, which libbpf reads by offset. */
#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
} __attribute__((preserve_access_index));
#endif

#endif
