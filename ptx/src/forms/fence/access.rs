//! What the fence has to do about one instruction: which memory it touches, and how else it could harm others.
//!
//! Rule: an instruction passes untouched only when it is listed here as one that touches no memory and cannot poison
//! the context. Everything else is fenced, replaced, or refused; an opcode that nobody thought of is refused.

use super::FenceReason;
use crate::decode::{Family, Instruction, Opcode, Operand, ScalarType, StateSpace};
use smallvec::{SmallVec, smallvec};

/// One access of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    /// Index among the instruction's operands.
    pub(super) operand: usize,
    /// Where it goes, `Generic` when the instruction does not say.
    pub(super) space: StateSpace,
    /// Bytes that one thread touches, from the address on; for a matrix, of one row.
    pub(super) bytes: u32,
    /// What the address must be a multiple of, a power of two (PTX ISA section 6.4.1.1: the size of the whole access).
    pub(super) align: u32,
    /// Further rows behind the first one, for a matrix whose stride is an operand.
    pub(super) rows: Option<MatrixRows>,
}

/// The rows of a matrix in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MatrixRows {
    /// Index of the stride among the operands.
    pub(super) stride: usize,
    /// Rows behind the first.
    pub(super) more: u32,
    /// Bits of an element, which the stride counts.
    pub(super) element_bits: u32,
}

/// What to do about an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Treatment {
    /// Nothing: it computes.
    Plain,
    /// Its accesses are fenced.
    Memory(SmallVec<[Access; 2]>),
    /// It becomes a recorded fault.
    Trap(super::FaultKind),
    /// A call; the callee decides.
    Call,
    /// Register operands that name a barrier or count its threads are bounded.
    Barrier,
    /// The index of a jump table is bounded.
    Jump,
    /// It cannot be fenced.
    Refused(FenceReason),
}

/// Decides about an instruction by its opcode and modifiers.
pub(super) fn treatment(i: &Instruction) -> Treatment {
    let treatment = by_opcode(i);
    // Whatever the list says, no address goes unseen.
    let addresses = i
        .operands
        .iter()
        .filter(|o| matches!(o, Operand::Address { .. } | Operand::TexAddress(_)))
        .count();
    let seen = match &treatment {
        Treatment::Memory(accesses) => accesses.len(),
        Treatment::Refused(_) => return treatment,
        _ => 0,
    };
    if addresses == seen {
        treatment
    } else {
        refused(i)
    }
}

// Length: one line for each opcode.
fn by_opcode(i: &Instruction) -> Treatment {
    use Opcode as O;
    match i.opcode {
        O::Ld | O::Ldu => data(i, 1),
        O::St => data(i, 0),
        O::Atom => data(i, 1),
        O::Red => data(i, 0),
        O::LdMatrix => sized(i, 1, 16, 16),
        O::StMatrix => sized(i, 0, 16, 16),
        O::Prefetch | O::Prefetchu => sized(i, 0, 1, 1),
        O::CpAsync => cp_async(i),
        O::WmmaLoad => matrix(i, 1, 2),
        O::WmmaStore => matrix(i, 0, 2),
        O::Trap => Treatment::Trap(super::FaultKind::Trap),
        O::Brkpt => Treatment::Trap(super::FaultKind::Breakpoint),
        O::Call => Treatment::Call,
        O::Bar | O::BarRed | O::BarArrive => Treatment::Barrier,
        O::BrxIdx => match i.operands.as_slice() {
            [Operand::Reg(_), Operand::BranchTable(_)] => Treatment::Jump,
            _ => refused(i),
        },
        O::Cvta => address_conversion(i),
        O::Discard | O::Applypriority => sized(i, 0, 128, 128),
        // Those that name an address are refused.
        O::FenceProxy if i.operands.is_empty() => Treatment::Plain,
        _ if computes(i.opcode) => Treatment::Plain,
        _ => refused(i),
    }
}

fn refused(i: &Instruction) -> Treatment {
    let what = i.mnemonic.to_string();
    Treatment::Refused(match i.opcode.family() {
        Family::Texture | Family::Surface => FenceReason::Texture(what),
        // The kernel can overwrite the object, and nothing says that a GPU survives what it then does.
        Family::Mbarrier => FenceReason::BarrierObject(what),
        _ => FenceReason::Unbounded(what),
    })
}

/// Returns whether an instruction touches no memory and no operand can make it fault.
fn computes(opcode: Opcode) -> bool {
    use Family as F;
    use Opcode as O;
    match opcode.family() {
        F::Arithmetic | F::Division | F::Transcendental | F::Carry | F::Dot | F::Bits => true,
        F::Video | F::Selection | F::Lanes | F::CopyGroup | F::MbarrierState => true,
        F::Move => opcode != O::Cvta,
        F::Matrix => matches!(
            opcode,
            O::WmmaMma | O::Mma | O::MmaSp | O::MmaBlockScale | O::MovMatrix
        ),
        _ => matches!(
            opcode,
            O::Bra
                | O::Ret
                | O::Exit
                | O::Nanosleep
                | O::Pmevent
                | O::BarWarpSync
                | O::Membar
                | O::Fence
                | O::Griddepcontrol
                | O::Createpolicy
                | O::FenceMbarrierInit
        ),
    }
}

fn space(i: &Instruction) -> StateSpace {
    i.mods.spaces.first().copied().unwrap_or_default()
}

fn sized(i: &Instruction, operand: usize, bytes: u32, align: u32) -> Treatment {
    one(
        i,
        Access {
            operand,
            space: space(i),
            bytes,
            align,
            rows: None,
        },
    )
}

fn one(i: &Instruction, access: Access) -> Treatment {
    let is_address = matches!(
        i.operands.get(access.operand),
        Some(Operand::Address { .. })
    );
    if is_address && access.space != StateSpace::SharedCluster {
        Treatment::Memory(smallvec![access])
    } else {
        refused(i)
    }
}

/// Returns what loads, stores, atomics and reductions touch: the type times the vector.
fn data(i: &Instruction, operand: usize) -> Treatment {
    let Some(ty) = i.mods.types.first() else {
        return refused(i);
    };
    // `multimem.ld_reduce` and its like reach other devices.
    let first = i.mnemonic.split('.').next().unwrap_or("");
    if !matches!(first, "ld" | "ldu" | "st" | "atom" | "red") {
        return refused(i);
    }
    let bytes = ty.size_bytes() * u32::from(i.mods.vector.max(1));
    if !bytes.is_power_of_two() || bytes > 32 {
        return refused(i);
    }
    sized(i, operand, bytes, bytes)
}

/// Returns what `cp.async` touches: `cp.async.{ca,cg}.shared.global [dst], [src], size{, src-size}{, policy}` (PTX ISA
/// section 9.7.9.25.3.1).
fn cp_async(i: &Instruction) -> Treatment {
    let (Some(Operand::Address { .. }), Some(Operand::Address { .. }), Some(Operand::Int(size))) =
        (i.operands.first(), i.operands.get(1), i.operands.get(2))
    else {
        return refused(i);
    };
    let bytes = match size {
        4 => 4,
        8 => 8,
        16 => 16,
        _ => return refused(i),
    };
    if i.mods.spaces.as_slice() != [StateSpace::Shared, StateSpace::Global] {
        return refused(i);
    }
    let access = |operand, space| Access {
        operand,
        space,
        bytes,
        align: bytes,
        rows: None,
    };
    Treatment::Memory(smallvec![
        access(0, StateSpace::Shared),
        access(1, StateSpace::Global)
    ])
}

/// Returns what `wmma.load` and `wmma.store` (PTX ISA section 9.7.15.3) touch: rows of a fragment, a stride apart.
fn matrix(i: &Instruction, operand: usize, stride: usize) -> Treatment {
    fragment(i, operand, stride).map_or_else(|| refused(i), |access| one(i, access))
}

fn fragment(i: &Instruction, operand: usize, stride: usize) -> Option<Access> {
    let words: SmallVec<[&str; 8]> = i.mnemonic.split('.').collect();
    let part = *words.get(2)?;
    let by_row = words.contains(&"row");
    if by_row == words.contains(&"col") {
        return None;
    }
    let shape = words
        .iter()
        .find(|w| w.starts_with('m') && w.contains('k'))?;
    let (m, rest) = shape.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    let (m, n, k): (u32, u32, u32) = (m.parse().ok()?, n.parse().ok()?, k.parse().ok()?);
    let (rows, columns) = match part {
        "a" => (m, k),
        "b" => (k, n),
        "c" | "d" => (m, n),
        _ => return None,
    };
    let (lines, length) = if by_row {
        (rows, columns)
    } else {
        (columns, rows)
    };
    let element_bits = match i.mods.types.first()? {
        ScalarType::B1 => 1,
        ScalarType::U4 | ScalarType::S4 => 4,
        ty => ty.size_bytes() * 8,
    };
    if !(1..=256).contains(&lines) || !(1..=256).contains(&length) {
        return None;
    }
    // Without a stride the rows lie behind one another: more than the least shared memory that a kernel has.
    let (rows, together) = match i.operands.get(stride) {
        Some(_) => (Some(lines - 1), 1),
        None if space(i) == StateSpace::Global => (None, lines),
        None => return None,
    };
    Some(Access {
        operand,
        space: space(i),
        bytes: (together * length * element_bits).div_ceil(8),
        // A thread's part of a fragment is at most 16 bytes in a row.
        align: 16,
        rows: rows.map(|more| MatrixRows {
            stride,
            more,
            element_bits,
        }),
    })
}

/// Decides about `cvta`: a generic address of a constant or a parameter would be fenced like one of global memory.
fn address_conversion(i: &Instruction) -> Treatment {
    match space(i) {
        StateSpace::Const | StateSpace::Param if !i.mods.to => {
            Treatment::Refused(FenceReason::GenericConstant(i.mnemonic.to_string()))
        }
        StateSpace::SharedCluster => refused(i),
        _ => Treatment::Plain,
    }
}

/// Returns which operands name the barrier and count its threads.
pub(super) fn barrier_operands(i: &Instruction) -> (usize, Option<usize>) {
    match i.opcode {
        // Destination, number, perhaps a count, predicate.
        Opcode::BarRed => (1, (i.operands.len() == 4).then_some(2)),
        _ => (0, Some(1)),
    }
}
