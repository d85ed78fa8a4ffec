//! Names of things as small integers that cannot be mistaken for one another.
//!
//! Rules: an identifier is never reused while what it names lives, and a bare integer never stands
//! for one of these in an interface.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($int:ty), $label:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, concat!($label, " {}"), self.0)
            }
        }
    };
}

id!(
    /// A device: one GPU, one MIG instance, or one modelled GPU.
    DeviceId(u16),
    "device"
);
id!(
    /// A tenant of the service.
    TenantId(u32),
    "tenant"
);
id!(
    /// A standing row: one tenant's kernel class. Numbered densely from 0 by the executor, and not
    /// reused while the policy that heard of it lives.
    KernelId(u32),
    "kernel"
);
id!(
    /// A streaming multiprocessor of one device.
    SmId(u16),
    "SM"
);
id!(
    /// A group of SMs that share their rows, by its place in the plan.
    GroupId(u16),
    "group"
);
id!(
    /// A thread block of one launch, in launch order (the linear block index).
    BlockIndex(u64),
    "block"
);

impl KernelId {
    /// The place of this kernel in a dense table.
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl SmId {
    /// The place of this SM in a dense table.
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}
