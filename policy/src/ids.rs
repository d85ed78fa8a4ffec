//! Names of things as small integers that cannot be mistaken for one another.
//!
//! Rules: an identifier is never reused while what it names lives, and interfaces take these types,
//! never bare integers.

use crate::hash::Fnv;
use crate::shape::BlockShape;
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
    /// A tenant of the service, numbered densely from 0 by whoever configures the executor.
    TenantId(u32),
    "tenant"
);
id!(
    /// A row of plans: one tenant's kernel with one block shape. Numbered densely from 0 by the
    /// executor; a freed number is handed out again only after a plan that no longer lists it, made
    /// after [`crate::Event::RowGone`], was read.
    RowId(u32),
    "row"
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

id!(
    /// Names a kernel across clients, processes and versions of the program: a hash of its module's text and of its own
    /// name. One of a tenant ([`KernelKey::of_tenant`]) has the tenant in its upper [`TENANT_BITS`].
    KernelKey(u64),
    "kernel"
);

id!(
    /// Under which profiles are kept: a kernel and the shape of its blocks, which tells numbers of threads and amounts
    /// of shared memory apart.
    ProfileKey(u64),
    "profile"
);

impl KernelKey {
    /// Names a kernel by the hash of its module's text and by its own name.
    #[must_use]
    pub fn new(text: Fnv, entry: &str) -> Self {
        let text = Fnv::default().bytes(&text.finish().to_le_bytes());
        Self(text.bytes(entry.as_bytes()).finish())
    }

    /// Names the kernel as a tenant's, so that nothing that another tenant runs has its name, whatever its text is:
    /// those of tenants with different names differ in bits that no text changes.
    #[must_use]
    pub fn of_tenant(self, tenant: &str) -> Self {
        let kernel = Fnv::default().bytes(&self.0.to_le_bytes()).finish();
        let tenant = Fnv::default().bytes(tenant.as_bytes()).finish();
        Self(joined(tenant, kernel))
    }
}

/// Upper bits of a kernel's key that name its tenant.
const TENANT_BITS: u32 = 28;

/// Returns the upper bits of one number with the lower ones of another.
fn joined(upper: u64, lower: u64) -> u64 {
    let lower_bits = u64::MAX >> TENANT_BITS;
    (upper & !lower_bits) | (lower & lower_bits)
}

impl ProfileKey {
    /// Names a kernel that runs with blocks of one shape; its tenant stays in the upper bits.
    #[must_use]
    pub fn new(kernel: KernelKey, block: &BlockShape) -> Self {
        let parts = [block.threads, block.registers, block.shared_bytes];
        let hash = |hash: Fnv, part: u32| hash.bytes(&part.to_le_bytes());
        let name = Fnv::default().bytes(&kernel.0.to_le_bytes());
        Self(joined(
            kernel.0,
            parts.into_iter().fold(name, hash).finish(),
        ))
    }
}

impl GroupId {
    /// Stands where an executor does not know on which group's SMs something happened.
    pub const UNKNOWN: Self = Self(u16::MAX);
}

impl TenantId {
    /// Returns the place of this tenant in a dense table.
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl RowId {
    /// Returns the place of this row in a dense table.
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl SmId {
    /// Returns the place of this SM in a dense table.
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{KernelKey, ProfileKey};
    use crate::hash::Fnv;
    use crate::shape::BlockShape;
    use std::collections::HashSet;

    /// Files hold these numbers, so that a change of them needs another version of the format.
    #[test]
    fn names_of_kernels_and_profiles_never_change() {
        let kernel = KernelKey::new(Fnv::default().bytes(b".version 7.0"), "saxpy");
        assert_eq!(kernel, KernelKey(0x3bb2_45e2_d419_984f));
        let block = BlockShape {
            threads: 256,
            registers: 8192,
            shared_bytes: 1024,
        };
        let profile = ProfileKey::new(kernel, &block);
        assert_eq!(profile, ProfileKey(0x3bb2_45e7_11d2_217e));
        let others = [
            BlockShape {
                threads: 128,
                ..block
            },
            BlockShape {
                registers: 4096,
                ..block
            },
            BlockShape {
                shared_bytes: 2048,
                ..block
            },
        ];
        for other in others {
            assert_ne!(ProfileKey::new(kernel, &other), profile, "{other:?}");
        }
        let own = ProfileKey::new(kernel.of_tenant("first"), &block);
        assert_eq!(own, ProfileKey(0x89d7_ed7a_564c_27f0));
    }

    #[test]
    fn no_kernel_of_one_tenant_has_the_name_of_one_of_another() {
        let block = BlockShape::default();
        let key = |text: u64, tenant| {
            let kernel = KernelKey(text.wrapping_mul(0x9e37_79b9_7f4a_7c15)).of_tenant(tenant);
            ProfileKey::new(kernel, &block).0 >> (64 - super::TENANT_BITS)
        };
        let tenant = |name| {
            (0..1000)
                .map(|text| key(text, name))
                .collect::<HashSet<_>>()
        };
        let (one, other) = (tenant("victim"), tenant("attacker"));
        assert_eq!(
            (one.len(), other.len()),
            (1, 1),
            "the text changes nothing there"
        );
        assert!(one.is_disjoint(&other));
    }
}
