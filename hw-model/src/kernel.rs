//! A loaded module and its kernels, ready to run.
//!
//! Rule: a kernel is immutable after loading and shared by every launch of it.

use crate::exec::op::{Op, RegisterSlot};
use crate::load_error::LoadError;
use crate::memory::DomainId;
use gridmux_policy::KernelKey;
use gridmux_ptx::decode::ScalarType;
use std::sync::Arc;

/// A module whose variables stand in device memory and whose kernels can be launched.
#[derive(Debug)]
pub struct LoadedModule {
    /// The memory that it is loaded into.
    pub domain: DomainId,
    pub(crate) kernels: Vec<Arc<Kernel>>,
    /// Name and reason of each kernel that cannot run.
    pub(crate) refused: Vec<(String, LoadError)>,
    pub(crate) variables: Vec<ModuleVariable>,
}

/// A `.global` or `.const` variable in device memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleVariable {
    /// Name.
    pub name: String,
    /// Device address.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
}

impl LoadedModule {
    /// Returns the kernel of that name.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<Arc<Kernel>> {
        self.kernels.iter().find(|k| &*k.name == name).cloned()
    }

    /// Returns all kernels that can run, in source order.
    #[must_use]
    pub fn kernels(&self) -> &[Arc<Kernel>] {
        &self.kernels
    }

    /// Returns the names of the kernels that cannot run, and why not.
    #[must_use]
    pub fn refused(&self) -> &[(String, LoadError)] {
        &self.refused
    }

    /// Returns about how much of the host's memory the module takes, in bytes: operations, their origins, constants and
    /// tables of its kernels, and its variables' names; no less than it takes.
    #[must_use]
    pub fn host_bytes(&self) -> u64 {
        let kernels = self.kernels.iter().map(|kernel| kernel.host_bytes());
        let kernels = kernels.chain([MODULE_BYTES]);
        let names = self.variables.iter().map(|v| v.name.len() + size_of_val(v));
        let refused = self.refused.iter().map(|(name, _)| 4 * name.len() + 256);
        kernels
            .chain(names.chain(refused).map(|bytes| bytes as u64))
            .sum()
    }

    /// Returns all variables in device memory.
    #[must_use]
    pub fn variables(&self) -> &[ModuleVariable] {
        &self.variables
    }

    /// Returns the domain that the module was loaded into.
    #[must_use]
    pub fn domain(&self) -> DomainId {
        self.domain
    }
}

/// What a module takes beside its kernels and its variables' names, in bytes, the texts of its mnemonics among it.
const MODULE_BYTES: u64 = 4096;
/// What a kernel takes beside what can be counted, in bytes: its places in tables, and what the allocator adds.
const KERNEL_BYTES: usize = 512;

/// One formal parameter of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelParam {
    /// Name as declared.
    pub name: String,
    /// Type, or the element type of a byte array.
    pub ty: ScalarType,
    /// Byte offset in the parameter block.
    pub offset: u32,
    /// Size in bytes.
    pub bytes: u32,
    /// Alignment in bytes.
    pub align: u32,
}

/// Where an instruction came from, for messages.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// The function that it stands in, when that is not the kernel.
    pub(crate) function: Option<Arc<str>>,
    pub(crate) line: u32,
    pub(crate) source_line: Option<(u32, u32)>,
    pub(crate) mnemonic: Arc<str>,
}

/// A kernel: compact operations, constants, and what one block of it needs.
#[derive(Debug)]
pub struct Kernel {
    /// Name.
    pub name: Arc<str>,
    /// Bytes of the parameter block.
    pub params_bytes: u32,
    /// Formal parameters in order.
    pub params: Vec<KernelParam>,
    /// Static shared memory in bytes.
    pub static_shared_bytes: u32,
    /// Local memory of one thread in bytes.
    pub local_bytes: u32,
    /// 32-bit registers of one thread, as estimated for a real chip.
    pub registers_per_thread: u32,
    /// `.maxntid`.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`.
    pub required_threads: Option<[u32; 3]>,
    /// The name under which profiles know it.
    pub key: KernelKey,
    /// The memory that it is loaded into.
    pub domain: DomainId,
    /// First 128-byte line of its code, which no other loaded kernel has.
    pub(crate) code_line: u64,
    pub(crate) ops: Box<[Op]>,
    pub(crate) origins: Box<[Origin]>,
    /// Broadcast constants; operands name them with their top bit set.
    pub(crate) constants: Box<[RegisterSlot]>,
    /// 128-byte register slots of a warp: the most that one of its functions needs.
    pub(crate) slots: u16,
    /// Predicate registers of a warp: the most that one of its functions needs.
    pub(crate) predicates: u16,
    /// Part of `local_bytes` that is the kernel's own.
    pub(crate) frame_bytes: u32,
    /// Functions that it may call.
    pub(crate) functions: Box<[FunctionEntry]>,
    /// Number in `functions` of each function of the module; `u32::MAX` for one that it never calls.
    pub(crate) numbers: Box<[u32]>,
    /// The module's variables in device memory, for messages.
    pub(crate) variables: Arc<[ModuleVariable]>,
    /// Number and name of each `.file`, for messages.
    pub(crate) files: Arc<[(u32, Arc<str>)]>,
    /// Reads of shared memory that nobody wrote are faults.
    pub(crate) checks_shared: bool,
    /// It has an instruction that asks for what others may change, or sleeps.
    pub(crate) polls: bool,
    /// Targets of `brx.idx`.
    pub(crate) tables: Box<[Box<[u32]>]>,
}

/// First address of the functions, which are no memory that can be read.
pub(crate) const FUNCTION_WINDOW: u64 = 0x4_0000_0000;
/// Distance of two functions' addresses.
pub(crate) const FUNCTION_BYTES: u64 = 16;

/// A function as calls see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FunctionEntry {
    /// First operation.
    pub(crate) pc: u32,
    /// Register slots.
    pub(crate) slots: u16,
    /// From this one on they hold 64-bit words by pairs.
    pub(crate) wide_from: u16,
    /// Predicates.
    pub(crate) predicates: u16,
    /// Stack that its frame takes, with room for what it passes on.
    pub(crate) stack_bytes: u32,
    /// Half-open part of the frame that is zero when the function begins.
    pub(crate) cleared: (u32, u32),
}

impl Kernel {
    /// Returns about how much of the host's memory it takes, in bytes.
    fn host_bytes(&self) -> u64 {
        let parts = [
            size_of_val(self),
            size_of_val(&*self.ops),
            size_of_val(&*self.origins),
            size_of_val(&*self.constants),
            size_of_val(&*self.functions),
            size_of_val(&*self.numbers),
            size_of_val(&*self.params),
            self.params.iter().map(|param| param.name.len()).sum(),
            KERNEL_BYTES,
            self.tables.iter().map(|table| size_of_val(&**table)).sum(),
        ];
        // The texts of mnemonics are shared.
        parts.into_iter().map(|bytes| bytes as u64).sum()
    }

    /// Returns the number of the function at an address.
    pub(crate) fn function_at(&self, address: u64) -> Option<u32> {
        let offset = address.checked_sub(FUNCTION_WINDOW)?;
        if !offset.is_multiple_of(FUNCTION_BYTES) {
            return None;
        }
        let id = usize::try_from(offset / FUNCTION_BYTES).ok()?;
        self.numbers.get(id).copied().filter(|n| *n != u32::MAX)
    }

    /// Returns the most threads that a block may have, as far as the kernel itself says; `u32::MAX` for more.
    #[must_use]
    pub fn max_threads_per_block(&self) -> Option<u32> {
        let product = |d: [u32; 3]| d.into_iter().fold(1, u32::saturating_mul);
        self.required_threads.or(self.max_threads).map(product)
    }
}
