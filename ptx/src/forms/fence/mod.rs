//! The `fence`: every address confined to the tenant's reservation.
//!
//! A tenant lives in one *reservation*: a power-of-two range of addresses, aligned to its size, at least 4 GiB. The
//! fence replaces the upper bits of each address by the reservation's, so an access can go nowhere else, whatever the
//! kernel computed. For a well-behaved kernel that changes nothing. Contract with the code that maps memory:
//!
//! - everything in the reservation is mapped: holes between allocations map a sink, so that no fenced address faults;
//! - no allocation lies within [`GUARD_BYTES`] of either end, and as much beyond either end maps a sink, too. So a
//!   base register is fenced once for all its small immediate offsets: the sum is at most a guard away, and the base
//!   of a proper access is inside;
//! - the module's `.global` variables are placed in the reservation, by the loader of the module or, where a driver
//!   does that, by the pass [`place`](super::place); accesses by name inside a variable are not confined;
//! - the control block's `counters` point at the launch's counters, outside the reservation, or are zero.
//!
//! What else would poison a context that tenants share is dealt with as well. Addresses are rounded down to what the
//! access needs, together with the mask. Shared, local, constant and parameter accesses are proved to lie in their
//! variable, or held inside it: shared memory up to the end of the block's own, local memory inside the function's own
//! variables, because return addresses stand beside them. Generic addresses are told apart by what they come from, else
//! at run time. `trap`, `brkpt` and failed assertions become a recorded fault and an orderly exit, and a call through a
//! pointer that is none of the module's functions is recorded and goes to one of them. What has no bounds that can be
//! held here (textures, surfaces, bulk copies, barrier objects, descriptors, other blocks' shared memory, `printf`,
//! `malloc`, recursion) is refused with its line. Not hidden: registers and shared memory may hold what an earlier
//! kernel left (see [`FenceOptions::zero_shared`]), and timing can be observed.
//!
//! Known limits. Barrier objects (`mbarrier`) are refused even where a kernel names them by a variable: an object that
//! a store has broken faults, and any store through a register may reach it. A kernel that uses shared memory has
//! [`LEAST_SHARED`](edit) bytes of it at least, so that a launch that takes all that the device has as dynamic shared
//! memory does not fit under the fence. Shared memory in front of the block's variables, which the driver reserves for
//! the block, is the block's own and not guarded.
//!
//! Cost: `cargo xtask bench ptx-cost`. In [`FenceMode::Window`] an instruction for each fenced base, and one for its
//! alignment where that cannot be proved. The files: [`access`] says what an instruction touches, [`register_facts`]
//! what its registers may hold, [`roots`] where alignment is made, [`bounds`] what bounds apply, [`depth`] how deep in
//! loops that would be, [`confine`] confines one address, [`edit`] changes the
//! function.

mod access;
mod bounds;
mod confine;
mod depth;
mod edit;
mod judge;
mod module_facts;
mod register_facts;
mod roots;
mod targets;

pub(super) use edit::{edit, prepare};
pub(super) use judge::{forbids_size, forbids_worker, judge, needs};
pub(super) use module_facts::ModuleFacts;
pub(super) use targets::Targets;

use serde::{Deserialize, Serialize};

/// No allocation of a reservation lies within this many bytes of either end, and as many bytes beyond either end
/// map a sink; a fenced base may have an immediate offset of less than this added.
pub const GUARD_BYTES: u64 = 16 << 20;

/// How the upper bits of an address are replaced. All of them take the same control block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum FenceMode {
    /// The reservation is 4 GiB: the upper half of an address is the base's, and nothing of it is computed. The
    /// cheapest by far.
    #[default]
    Window,
    /// The reservation is a multiple of 4 GiB: the upper half is masked and combined with the base's.
    HighBits,
    /// The reservation is any power of two: all 64 bits are masked and combined.
    Mask,
}

impl FenceMode {
    /// Returns the cheapest mode for a reservation of that size.
    #[must_use]
    pub const fn for_reservation(bytes: u64) -> Self {
        const WINDOW: u64 = 4 << 30;
        match bytes {
            WINDOW => Self::Window,
            0..WINDOW => Self::Mask,
            _ => Self::HighBits,
        }
    }

    /// Returns whether a control block with this base and mask confines a kernel that was fenced in this mode.
    #[must_use]
    pub const fn accepts(self, base: u64, mask: u64) -> bool {
        let is_reservation = mask & mask.wrapping_add(1) == 0 && base & mask == 0;
        let low = mask & 0xffff_ffff;
        is_reservation
            && match self {
                Self::Window => mask == 0xffff_ffff,
                Self::HighBits => low == 0xffff_ffff,
                Self::Mask => mask >= 0xffff,
            }
    }
}

/// How the fence is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FenceOptions {
    /// How addresses are confined.
    pub mode: FenceMode,
    /// Zero each block's shared memory when it starts, so that it cannot read what another tenant's block left there.
    /// Off by default: a block pays a loop over its shared memory and a barrier, and a launcher that runs one
    /// tenant's kernels on an SM at a time, or tenants that keep no secrets in shared memory, need not pay it.
    pub zero_shared: bool,
}

/// What a recorded fault was; its number is what the counters hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FaultKind {
    /// `trap`.
    Trap = 1,
    /// `brkpt`.
    Breakpoint = 2,
    /// `__assertfail`.
    Assertion = 3,
    /// A call through a pointer that is none of the module's functions.
    IndirectCall = 4,
}

impl FaultKind {
    /// Every kind.
    const ALL: [Self; 4] = [
        Self::Trap,
        Self::Breakpoint,
        Self::Assertion,
        Self::IndirectCall,
    ];

    /// Returns the kind that the counters hold as this number; `None` for 0 and for what no kind has.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number)
    }

    /// Returns what happened, for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::Breakpoint => "brkpt",
            Self::Assertion => "a failed assertion",
            Self::IndirectCall => "a call through a pointer that is none of the module's functions",
        }
    }
}

/// What the block of a recorded fault reads when the fault was in a function that the kernel called.
pub const UNKNOWN_BLOCK: u32 = u32::MAX;

/// Why a kernel cannot be fenced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each text says what it is")]
pub enum FenceReason {
    /// Its texture or surface object may be forged.
    #[error("`{0}` reaches memory through an object that the fence cannot check")]
    Texture(String),
    #[error("`{0}` uses a barrier object that the fence cannot keep whole")]
    BarrierObject(String),
    #[error("the fence cannot bound what `{0}` reaches")]
    Unbounded(String),
    /// An address of 8 or 16 bits: `ptxas` takes it, and extends it by what the register was declared as.
    #[error("the address of `{0}` is in a register of less than 32 bits")]
    NarrowAddress(String),
    #[error(
        "`{0}` makes a generic address of a constant or parameter, which the fence cannot tell from global memory"
    )]
    GenericConstant(String),
    #[error("the fence cannot tell which {space} variable `{what}` reaches")]
    UnknownVariable { space: &'static str, what: String },
    /// Parameters at a computed address, where a compiler places them by the target.
    #[error(
        "`{0}` computes the address of a parameter, and one is aligned to more than 16 bytes: how far parameters are \
         apart depends on the target then"
    )]
    ParameterPlaces(String),
    #[error("`{what}` reaches outside of `{name}`")]
    OutsideVariable { what: String, name: String },
    #[error("`{0}` may reach local variables of a function further up the stack")]
    CallersLocals(String),
    #[error("it calls `{0}`, which is defined elsewhere and cannot be fenced")]
    External(String),
    #[error(
        "it calls through a pointer, and {candidates} functions of the module could be meant; the fence compares at \
         most {limit}"
    )]
    IndirectCall { candidates: usize, limit: usize },
    #[error("it calls itself, directly or through others, so its stack has no bound")]
    Recursion,
    #[error("`{0}` names a barrier or a number of threads that does not exist")]
    Barrier(String),
    /// Its shared memory is full of small variables.
    #[error("its variables leave no room for the {0} bytes of shared memory that the fence adds")]
    SharedFull(u32),
    #[error("`{0}` is a managed variable, which the driver places outside of the tenant's memory")]
    Managed(String),
    #[error("the variable `{name}` cannot be placed in the tenant's memory: {why}")]
    Unplaced { name: String, why: super::Unplaced },
    #[error("the fence needs PTX 4.3, sm_50 and 64-bit addresses")]
    TooOld,
}
