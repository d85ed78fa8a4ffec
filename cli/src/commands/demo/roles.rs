//! The demo's tenants: what each runs, and how much of it.

/// A tenant of the demo.
#[derive(Debug, Clone, Copy)]
pub(super) struct Role {
    /// Tenant.
    pub(super) name: &'static str,
    /// Weight of its share.
    pub(super) weight: u32,
    /// Workload (`gridmux workload list`).
    pub(super) workload: &'static str,
    /// Elements of one launch.
    pub(super) elements: u32,
    /// Streams, each with one launch in flight.
    pub(super) streams: u16,
    /// Launches.
    pub(super) launches: u64,
}

/// The three tenants. Training has several times the work of the others, as in life: its kernels are there for as long
/// as theirs are.
pub(super) const ROLES: [Role; 3] = [
    // Short kernels: 32 blocks each, a few microseconds.
    Role {
        name: "serving",
        weight: 2,
        workload: "black_scholes",
        elements: 8192,
        streams: 16,
        launches: 2000,
    },
    // Long kernels: 1024 blocks of a 16 by 16 tile each, shared memory and barriers; about a millisecond alone.
    Role {
        name: "training",
        weight: 1,
        workload: "matmul",
        elements: 512,
        streams: 2,
        launches: 6,
    },
    // Three streams of memory traffic and hardly any arithmetic.
    Role {
        name: "analytics",
        weight: 1,
        workload: "vecadd",
        elements: 1 << 20,
        streams: 2,
        launches: 20,
    },
];
