//! The probes of a launch's way through the service, provider `gridmux`.
//!
//! While nobody traces, a call is one load and one branch that is never taken. The arguments are, in this order:
//! tenant, device, kernel, sequence number, time, then what the probe adds, then client and key, then what the probe
//! adds to that. `src/bpf/trace.bpf.c` and `src/bpf/events.bpf.c` read them by position: an argument may be added at
//! the end, and none may move.

use gridmux_usdt::{Semaphore, usdt_site};

/// The arguments that every probe carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProbeArgs {
    /// The tenant, as the dispatcher numbers it.
    pub tenant: u32,
    /// The device.
    pub device: u16,
    /// The kernel's handle within the tenant.
    pub kernel: u32,
    /// The launch's sequence number.
    pub seq: u64,
    /// When it happened, in nanoseconds of the device's clock.
    pub time_ns: u64,
    /// The number of the client, which its process is found by; 0 where there is none.
    pub client: u32,
    /// The key of the kernel, which is one for a kernel's text, whichever client loaded it; 0 for what is no launch.
    pub key: u64,
}

/// A probe by name; the discriminants are those of `enum gridmux_probe` in `src/bpf/gridmux.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum Probe {
    /// A tenant's entry was read from its ring.
    Submit = 0,
    /// The launch passed its checks and joined its stream's queue.
    Admit = 1,
    /// A new plan was published.
    Plan = 2,
    /// Blocks of a launch were handed to the device.
    SliceStart = 3,
    /// The device finished them.
    SliceEnd = 4,
    /// A launch that has begun is to give room up, or waits for some.
    Preempt = 5,
    /// It got room again.
    Resume = 6,
    /// The launch ended and its completion was written.
    Complete = 7,
    /// A block ended.
    Block = 8,
}

impl Probe {
    /// All probes, in the order of their discriminants.
    pub const ALL: [Self; 9] = [
        Self::Submit,
        Self::Admit,
        Self::Plan,
        Self::SliceStart,
        Self::SliceEnd,
        Self::Preempt,
        Self::Resume,
        Self::Complete,
        Self::Block,
    ];

    /// Returns the probe of a discriminant.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|probe| *probe as u32 == raw)
    }

    /// Returns the probe's name in the executable's notes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Admit => "admit",
            Self::Plan => "plan",
            Self::SliceStart => "slice_start",
            Self::SliceEnd => "slice_end",
            Self::Preempt => "preempt",
            Self::Resume => "resume",
            Self::Complete => "complete",
            Self::Block => "block",
        }
    }

    /// Returns whether somebody traces this probe in this process: ask before computing costly arguments.
    #[inline(always)]
    pub fn is_traced(self) -> bool {
        match self {
            Self::Submit => SUBMIT.is_traced(),
            Self::Admit => ADMIT.is_traced(),
            Self::Plan => PLAN.is_traced(),
            Self::SliceStart => SLICE_START.is_traced(),
            Self::SliceEnd => SLICE_END.is_traced(),
            Self::Preempt => PREEMPT.is_traced(),
            Self::Resume => RESUME.is_traced(),
            Self::Complete => COMPLETE.is_traced(),
            Self::Block => BLOCK.is_traced(),
        }
    }
}

/// Defines one probe: its semaphore, its site, and the function that callers see.
macro_rules! probe {
    ($(#[$doc:meta])* $name:ident, $text:literal, $semaphore:ident $(, $extra:ident)* $(; $($late:ident),+)?) => {
        #[used]
        #[unsafe(link_section = ".probes")]
        static $semaphore: Semaphore = Semaphore::new();

        $(#[$doc])*
        #[inline(always)]
        pub fn $name(args: ProbeArgs $(, $extra: u64)* $($(, $late: u64)+)?) {
            #[cold]
            #[inline(never)]
            fn site(args: ProbeArgs $(, $extra: u64)* $($(, $late: u64)+)?) {
                usdt_site!(
                    "gridmux", $text, $semaphore, site,
                    u32 args.tenant, u16 args.device, u32 args.kernel, u64 args.seq, u64 args.time_ns
                    $(, u64 $extra)*, u32 args.client, u64 args.key $($(, u64 $late)+)?
                );
            }
            if $semaphore.is_traced() {
                site(args $(, $extra)* $($(, $late)+)?);
            }
        }
    };
}

probe!(
    /// A tenant's entry was read from its ring; `time_ns` is the tenant's own stamp, clamped.
    submit, "submit", SUBMIT
);
probe!(
    /// The launch passed its checks and joined its stream's queue.
    admit, "admit", ADMIT
);
probe!(
    /// A plan was published; `epoch` counts plans, `rows` are those that it holds, `causes` are bits of
    /// [`Causes`](crate::Causes).
    plan, "plan", PLAN, epoch, rows; causes
);
probe!(
    /// `blocks` blocks from `first_block` (linear) on were handed to the device.
    slice_start, "slice_start", SLICE_START, first_block, blocks
);
probe!(
    /// The device finished `blocks` blocks from `first_block` (linear) on. The first of them started `waited_ns`
    /// nanoseconds after they were handed over, and the last one ended `ran_ns` nanoseconds after that.
    slice_end, "slice_end", SLICE_END, first_block, blocks; waited_ns, ran_ns
);
probe!(
    /// A launch that has begun gives way to others; `blocks_left` blocks have not started. Who took its room waited for
    /// that for `latency_ns` nanoseconds since it was decided, 0 where nobody has yet.
    preempt, "preempt", PREEMPT, blocks_left, latency_ns
);
probe!(
    /// A preempted launch got room again, after `out_ns` nanoseconds; `blocks_left` blocks have not started.
    resume, "resume", RESUME, blocks_left, out_ns
);
probe!(
    /// The launch, of `blocks` blocks, ended and its completion was written, with the status that the ring names;
    /// both latencies in nanoseconds.
    complete, "complete", COMPLETE, submit_to_start_ns, submit_to_complete_ns; blocks, status
);
probe!(
    /// Block `block` (linear, in the launch's grid) ended on SM `sm`, `ran_ns` nanoseconds after it started there;
    /// `group` is the plan's group that has the SM, or [`NO_GROUP`].
    block, "block", BLOCK, sm, block; ran_ns, group
);

/// What a block's group is where the plan in force has none for its SM.
pub const NO_GROUP: u64 = u64::MAX;
