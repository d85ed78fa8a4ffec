//! One launch: dimensions, arguments, and what to compare afterwards.

use crate::params::Params;
use crate::verify::{self, Expected, Mismatch};

/// What a buffer is to a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Read only; must be unchanged afterwards.
    In,
    /// Written; its bytes before the launch do not matter (they are given, as a pattern, all the same).
    Out,
    /// Read and written.
    InOut,
}

/// One kernel argument, in parameter order.
#[derive(Debug, Clone, PartialEq)]
#[allow(
    missing_docs,
    reason = "the scalar variants are the types that they are named after"
)]
pub enum Arg {
    U32(u32),
    S32(i32),
    U64(u64),
    F32(f32),
    F64(f64),
    /// Device memory; the kernel receives its 64-bit address.
    Buffer {
        /// Contents before the launch, little-endian.
        bytes: Vec<u8>,
        /// How the kernel uses it.
        role: Role,
    },
}

impl Arg {
    /// Returns the little-endian bytes of a scalar; `None` for a buffer, whose address only the device knows.
    #[must_use]
    pub fn scalar_bytes(&self) -> Option<Vec<u8>> {
        Some(match self {
            Self::U32(value) => value.to_le_bytes().to_vec(),
            Self::S32(value) => value.to_le_bytes().to_vec(),
            Self::U64(value) => value.to_le_bytes().to_vec(),
            Self::F32(value) => value.to_le_bytes().to_vec(),
            Self::F64(value) => value.to_le_bytes().to_vec(),
            Self::Buffer { .. } => return None,
        })
    }

    /// Returns the size of the parameter in bytes, which is also its alignment; 8 for a buffer.
    #[must_use]
    pub const fn param_bytes(&self) -> usize {
        match self {
            Self::U32(_) | Self::S32(_) | Self::F32(_) => 4,
            Self::U64(_) | Self::F64(_) | Self::Buffer { .. } => 8,
        }
    }
}

/// What a launch leaves in its `Out` and `InOut` buffers, in argument order.
#[derive(Debug, Clone)]
pub(crate) enum Reference {
    /// Computed on each call from the parameters and arguments.
    Computed(fn(&Params, &[Arg]) -> Vec<Expected>),
    /// Made together with the arguments.
    Known(Vec<Expected>),
}

/// One launch of a workload.
#[derive(Debug, Clone)]
pub struct Case {
    /// Name of the workload.
    pub workload: &'static str,
    /// Name of the `.entry`.
    pub entry: &'static str,
    /// The PTX module that holds it.
    pub ptx: &'static str,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub dynamic_shared_bytes: u32,
    /// Arguments in parameter order.
    pub args: Vec<Arg>,
    /// What the case was made from.
    pub params: Params,
    pub(crate) reference: Reference,
}

impl Case {
    /// Judges the buffers after the launch: the `Out` and `InOut` ones, in argument order.
    ///
    /// A workload's reference is computed here, on each call.
    ///
    /// # Errors
    /// The first [`Mismatch`], which counts the others.
    pub fn verify<B: AsRef<[u8]>>(&self, outputs: &[B]) -> Result<(), Mismatch> {
        match &self.reference {
            Reference::Computed(compute) => {
                verify::check(&compute(&self.params, &self.args), outputs)
            }
            Reference::Known(expected) => verify::check(expected, outputs),
        }
    }

    /// Returns the `Out` and `InOut` buffers as they are before the launch, in argument order.
    #[must_use]
    pub fn initial_outputs(&self) -> Vec<Vec<u8>> {
        self.args
            .iter()
            .filter_map(|arg| match arg {
                Arg::Buffer { bytes, role } if *role != Role::In => Some(bytes.clone()),
                _ => None,
            })
            .collect()
    }

    /// Lays the parameters out as the PTX ISA does (section 5.1.6: declaration order, natural alignment).
    /// `addresses` are the device addresses of all buffers, in argument order.
    ///
    /// # Panics
    /// If there are fewer addresses than buffers.
    #[must_use]
    pub fn pack_params(&self, addresses: &[u64]) -> Vec<u8> {
        let mut addresses = addresses.iter();
        let mut packed = Vec::new();
        for arg in &self.args {
            packed.resize(packed.len().next_multiple_of(arg.param_bytes()), 0);
            packed.extend(arg.scalar_bytes().unwrap_or_else(|| {
                let address = addresses.next().expect("one address for each buffer");
                address.to_le_bytes().to_vec()
            }));
        }
        packed
    }

    /// Returns the blocks of the grid.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|&extent| u64::from(extent)).product()
    }

    /// Returns the threads of the grid.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.block
            .iter()
            .fold(self.blocks(), |n, &extent| n * u64::from(extent))
    }

    /// Returns the bytes of all buffers together.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        self.args
            .iter()
            .map(|arg| match arg {
                Arg::Buffer { bytes, .. } => bytes.len() as u64,
                _ => 0,
            })
            .sum()
    }
}
