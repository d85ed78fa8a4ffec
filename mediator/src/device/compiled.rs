//! A module as its compiler and the checks of its answer leave it, for a device to load.

use gridmux_policy::ids::KernelKey;
use gridmux_ptx::Kernel;
use gridmux_ptx::forms::Shape;
use gridmux_ptx::kernel::Entry;
use gridmux_ptx::placed::Placed;
use std::sync::Arc;

/// A module after rewriting, ready to be loaded.
pub struct CompiledModule {
    /// PTX text.
    pub ptx: Vec<u8>,
    /// The typed view of that text.
    pub program: gridmux_ptx::decode::Program,
    /// Its kernels.
    pub kernels: Vec<CompiledKernel>,
    /// The tenant's variables of module scope in device memory.
    pub globals: Vec<CompiledGlobal>,
    /// Those that are not in the text, and where they are expected.
    pub placed: Option<Placed>,
    /// Architecture that the PTX is written for, major * 10 + minor; 0 if the target names none.
    pub ptx_version: u32,
    /// A function of it calls `vprintf`.
    pub prints: bool,
}

/// A variable of module scope in device memory.
#[derive(Debug, Clone)]
pub struct CompiledGlobal {
    /// Name.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Declared `.const`.
    pub is_constant: bool,
    /// Declared `.attribute(.managed)`.
    pub is_managed: bool,
}

impl CompiledModule {
    /// Constant memory that the module declares, in bytes.
    #[must_use]
    pub fn constant_bytes(&self) -> u32 {
        let constant = self.globals.iter().filter(|global| global.is_constant);
        u32::try_from(constant.map(|global| global.bytes).sum::<u64>()).unwrap_or(u32::MAX)
    }
}

/// A kernel after rewriting.
#[derive(Debug, Clone)]
pub struct CompiledKernel {
    /// Names it by its text.
    pub key: KernelKey,
    /// Its description, checked against the module's text: it has an entry, whole or in slices, unless it is refused.
    pub kernel: Arc<Kernel>,
    /// Why it may not be launched, though its text is right: it cannot be fenced.
    pub refused: Option<String>,
}

impl CompiledKernel {
    /// Returns the entry by which it is launched: in slices where it can be cut. A malformed or refused kernel has
    /// none.
    #[must_use]
    pub fn entry(&self) -> Option<&Entry> {
        entry_of(&self.kernel)
    }

    /// Returns why it has no entry, if so.
    #[must_use]
    pub fn unusable(&self) -> Option<String> {
        self.kernel
            .malformed
            .clone()
            .or_else(|| self.refused.clone())
    }
}

/// Returns the entry by which a kernel is launched: in slices where it can be cut. A malformed or refused kernel has
/// none.
#[must_use]
pub fn entry_of(kernel: &Kernel) -> Option<&Entry> {
    kernel
        .entry(Shape::Slice)
        .or_else(|| kernel.entries.first())
}
