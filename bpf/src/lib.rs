//! Watching launches: USDT probes, the BPF programs, their loader and their readers.
//!
//! Two paths. The **always-on** one: the dispatcher (unprivileged) writes one [`Sample`] per launch into a ring
//! shared with the kernel ([`Recorder`]), and a BPF program adds it to per-tenant histograms ([`LatencyProgram`],
//! in the supervisor); any privileged process reads them ([`reader`]). The **traced** one: [`probes`] cost a load
//! and a branch until somebody attaches ([`TraceProgram`] counts, [`EventTrace`] hands on every hit, or any USDT tool).
//!
//! Apart from launches: the ranges of programs ([`RangeTrace`]), what is loaded, as bpftool lists it ([`listing`],
//! [`dump`]), and calls of driver libraries that are not ours ([`BypassProgram`]).
//!
//! Rules:
//! - This room knows no other but the macro of probes. Tenants, devices and kernels are bare numbers here.
//! - Loading goes through libbpf, reading through aya, which needs no C library.
//! - Whatever the ring holds may be hostile; the kernel and the program bound it.
//! - Where BPF is not permitted, or was not built, the answer is a typed [`Unavailable`]; nothing else changes.

pub mod calls;
pub mod cause;
mod drain;
pub mod dump;
pub mod event;
pub mod histogram;
pub mod instance;
pub mod layout;
pub mod listing;
pub mod probes;
pub mod range;
pub mod reader;
#[cfg(not(loom))]
pub mod recorder;
pub mod render;
pub mod ring;
mod sync;
pub mod unavailable;

#[cfg(not(gridmux_no_bpf))]
mod attach;
#[cfg(not(gridmux_no_bpf))]
mod bypass;
#[cfg(not(gridmux_no_bpf))]
mod capability;
#[cfg(not(gridmux_no_bpf))]
mod events;
#[cfg(not(gridmux_no_bpf))]
mod latency;
#[cfg(not(gridmux_no_bpf))]
mod load;
#[cfg(not(gridmux_no_bpf))]
mod pins;
#[cfg(not(gridmux_no_bpf))]
mod ranges;
#[cfg(not(gridmux_no_bpf))]
mod ring_reader;
#[cfg(not(gridmux_no_bpf))]
mod trace;
#[cfg(gridmux_no_bpf)]
mod unbuilt;

pub use calls::{Call, Caller};
pub use cause::{Cause, Causes};
pub use dump::{Dump, dump};
pub use event::{Event, Happening};
pub use histogram::{Histogram, Kind, TenantHistogram};
pub use instance::InstanceName;
pub use layout::Stats;
pub use listing::{Listing, LoadedMap, LoadedProgram, RunCounting, list};
pub use probes::{Probe, ProbeArgs};
pub use range::{Range, RangeProbe};
pub use reader::{ReadError, read_histograms, read_stats};
#[cfg(not(loom))]
pub use recorder::{Recorder, Sample};
pub use render::{Unit, render};
pub use unavailable::Unavailable;

#[cfg(not(gridmux_no_bpf))]
pub use bypass::BypassProgram;
#[cfg(not(gridmux_no_bpf))]
pub use events::EventTrace;
#[cfg(not(gridmux_no_bpf))]
pub use latency::LatencyProgram;
#[cfg(not(gridmux_no_bpf))]
pub use ranges::RangeTrace;
#[cfg(not(gridmux_no_bpf))]
pub use trace::TraceProgram;
#[cfg(gridmux_no_bpf)]
pub use unbuilt::{BypassProgram, EventTrace, LatencyProgram, RangeTrace, TraceProgram};

/// Which tenants' samples the program accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Admission {
    /// Every tenant number, up to the most keys that a map holds.
    #[default]
    Any,
    /// Only those given to [`LatencyProgram::register`]: a device host that was taken over cannot invent tenants.
    Registered,
}

/// How [`LatencyProgram::load_with`] sets the program up.
#[derive(Debug, Clone, Copy)]
pub struct LatencyOptions {
    /// Which tenants' samples count.
    pub admission: Admission,
    /// How often the kernel drains the ring by itself, in nanoseconds; bounded to 1 ms … 1 s.
    pub drain_period_ns: u64,
}

impl Default for LatencyOptions {
    fn default() -> Self {
        Self {
            admission: Admission::Any,
            drain_period_ns: 10_000_000,
        }
    }
}

/// How often one tenant's launches passed one probe while it was traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct ProbeCount {
    /// The probe.
    pub probe: Probe,
    /// The tenant, as the dispatcher numbers it.
    pub tenant: u32,
    /// Hits since the trace was attached.
    pub count: u64,
}
