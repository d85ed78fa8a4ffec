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
    /// Elements of one launch, and how many of a launch where the launches themselves cannot become fewer.
    pub(super) elements: u32,
    pub(super) least_elements: u32,
    /// Streams, each with one launch in flight.
    pub(super) streams: u16,
    /// Launches.
    pub(super) launches: u64,
}

impl Role {
    /// Returns the role with that part of its work: fewer launches, but one on each stream, of small size if even that
    /// is more than was asked for.
    pub(super) fn with_work(self, percent: u64) -> Self {
        let (launches, least) = (self.launches * percent / 100, u64::from(self.streams));
        Self {
            launches: launches.max(least),
            elements: match launches < least {
                true => self.least_elements,
                false => self.elements,
            },
            ..self
        }
    }
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
        least_elements: 2048,
        streams: 16,
        launches: 2000,
    },
    // Long kernels: 1024 blocks of a 16 by 16 tile each, shared memory and barriers; about a millisecond alone.
    Role {
        name: "training",
        weight: 1,
        workload: "matmul",
        elements: 512,
        least_elements: 128,
        streams: 2,
        launches: 6,
    },
    // Three streams of memory traffic and hardly any arithmetic.
    Role {
        name: "analytics",
        weight: 1,
        workload: "vecadd",
        elements: 1 << 20,
        least_elements: 1 << 16,
        streams: 2,
        launches: 20,
    },
];
