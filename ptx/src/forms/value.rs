//! Values that a function needs from the kernel that called it: the block's coordinates, fields of the control block.

use crate::decode::{Param, ScalarType};

/// One value that calls may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    /// The block's coordinate on an axis, 32 bits.
    Ctaid(u8),
    /// The grid's extent on an axis, 32 bits.
    Nctaid(u8),
    /// The control block's field at [`FENCE_BASE_AT`](crate::control::FENCE_BASE_AT), 64 bits.
    FenceBase,
    /// The control block's field at [`FENCE_MASK_AT`](crate::control::FENCE_MASK_AT), 64 bits.
    FenceMask,
    /// The control block's field at [`COUNTERS_AT`](crate::control::COUNTERS_AT), 64 bits, for the record of a fault.
    Counters,
    /// Where the block's shared memory ends, a 32-bit shared address.
    SharedEnd,
}

impl Value {
    /// Every value, in the order of the added parameters.
    pub(crate) const ALL: [Self; 10] = [
        Self::Ctaid(0),
        Self::Ctaid(1),
        Self::Ctaid(2),
        Self::Nctaid(0),
        Self::Nctaid(1),
        Self::Nctaid(2),
        Self::FenceBase,
        Self::FenceMask,
        Self::Counters,
        Self::SharedEnd,
    ];

    fn bit(self) -> u16 {
        1 << match self {
            Self::Ctaid(axis) => axis.min(2),
            Self::Nctaid(axis) => 3 + axis.min(2),
            Self::FenceBase => 6,
            Self::FenceMask => 7,
            Self::Counters => 8,
            Self::SharedEnd => 9,
        }
    }

    /// Returns the type, [`ScalarType::B32`] or [`ScalarType::B64`].
    pub(crate) fn ty(self) -> ScalarType {
        match self {
            Self::Ctaid(_) | Self::Nctaid(_) | Self::SharedEnd => ScalarType::B32,
            _ => ScalarType::B64,
        }
    }

    /// Returns the parameter in which a callee is handed the value, with no register yet.
    pub(crate) fn parameter(self) -> Param {
        let ty = self.ty();
        Param {
            name: String::new(),
            ty,
            size_bytes: ty.size_bytes(),
            align: ty.size_bytes(),
            offset: 0,
            is_register: true,
            reg: None,
        }
    }
}

/// A set of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Values(u16);

impl Values {
    pub(crate) fn insert(&mut self, value: Value) {
        self.0 |= value.bit();
    }

    pub(crate) fn contains(self, value: Value) -> bool {
        self.0 & value.bit() != 0
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the members in the order of the added parameters.
    pub(crate) fn iter(self) -> impl Iterator<Item = Value> {
        Value::ALL.into_iter().filter(move |v| self.contains(*v))
    }
}
