//! How much of a device host's address space tenants take: mappings of the process, of which Linux allows 65,530.

/// Mappings of the process that all tenants may have together.
pub const MOST_HOST_MAPPINGS: u64 = 40 << 10;

/// What tenants have of a device host, beside device memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostMappings {
    /// Mappings of the process ([`MOST_HOST_MAPPINGS`]).
    pub count: u64,
    /// Bytes of memory of their own that kernels reach and that does not count as device memory.
    pub uncounted_bytes: u64,
}

impl HostMappings {
    /// A range of a tenant's own memory, or physical memory at addresses.
    pub const RANGE: Self = Self {
        count: 2,
        uncounted_bytes: 0,
    };
    /// Physical memory.
    pub const PHYSICAL: Self = Self {
        count: 1,
        uncounted_bytes: 0,
    };
}
