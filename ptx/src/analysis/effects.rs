//! What running a kernel again, or its blocks in another order, would change.
//!
//! *Idempotent*: nothing that the kernel reads from global memory is something that it writes, so a block may be thrown
//! away and run again from its start (Park, Park and Mahlke, «Chimera», ASPLOS 2015, section 2.3, whose flushing
//! needs just this). Buffers are told apart by the parameter or variable that an address is derived from; two
//! parameters are taken not to overlap, as their paper does.
//!
//! *Order-dependent*: the result may differ with the order of blocks: an atomic whose old value is used, a
//! floating-point sum, or an access that waits for or watches other blocks.

use super::operands::{Access, for_each_register};
use crate::decode::{
    AddressBase, AtomOp, Function, Instruction, MemoryOrder, Opcode, Operand, Program, SpecialReg,
    StateSpace, Symbol,
};

/// Rounds over the body until origins settle.
const MAX_ROUNDS: usize = 16;

/// The two verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effects {
    /// Running a block twice gives what running it once gives.
    pub idempotent: bool,
    /// The order of blocks may show in the result.
    pub order_dependent: bool,
}

/// What an address is derived from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    None,
    Param(u32),
    Variable(u32),
    Many,
}

impl Origin {
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, o) | (o, Self::None) => o,
            (a, b) if a == b => a,
            _ => Self::Many,
        }
    }
}

/// Judges a kernel by its own body; one that calls functions other than `vprintf` is neither proved idempotent nor
/// proved independent of order.
#[must_use]
pub fn effects(program: &Program, function: &Function) -> Effects {
    let origins = origins(function);
    let (mut read, mut written) = (Vec::new(), Vec::new());
    let mut effects = Effects {
        idempotent: true,
        order_dependent: false,
    };
    for i in &function.body {
        let memory = global_access(i);
        if matches!(memory, Some((_, true))) {
            read.push(origin(i, &origins));
        }
        if let Some((writes, _)) = memory
            && writes
        {
            written.push(origin(i, &origins));
        }
        let (repeats, independent) = verdict(program, i);
        effects.idempotent &= repeats;
        effects.order_dependent |= !independent;
    }
    read.sort_unstable();
    let unknown = |list: &[Origin]| {
        list.iter()
            .any(|o| matches!(o, Origin::None | Origin::Many))
    };
    let overlap = written.iter().any(|o| read.binary_search(o).is_ok());
    let may_overlap =
        !read.is_empty() && !written.is_empty() && (unknown(&read) || unknown(&written));
    effects.idempotent &= !overlap && !may_overlap;
    effects
}

/// Returns whether an instruction writes and whether it reads global memory; `None` when neither.
fn global_access(i: &Instruction) -> Option<(bool, bool)> {
    use Opcode as O;
    let space = i.mods.spaces.first().copied().unwrap_or_default();
    let global = matches!(space, StateSpace::Global | StateSpace::Generic);
    match i.opcode {
        O::Ld | O::Ldu | O::WmmaLoad if global => Some((false, true)),
        O::St | O::WmmaStore if global => Some((true, false)),
        O::Atom | O::Red if global => Some((true, true)),
        O::CpAsync => Some((false, true)),
        _ => None,
    }
}

/// Returns whether an instruction may run twice, and whether it gives the same in any order of blocks.
fn verdict(program: &Program, i: &Instruction) -> (bool, bool) {
    use Opcode as O;
    let space = i.mods.spaces.first().copied().unwrap_or_default();
    let global = matches!(space, StateSpace::Global | StateSpace::Generic);
    match i.opcode {
        O::Ld if global => {
            let watches = matches!(
                i.mods.order,
                Some(
                    MemoryOrder::Volatile
                        | MemoryOrder::Relaxed
                        | MemoryOrder::Acquire
                        | MemoryOrder::Mmio
                )
            );
            (true, !watches)
        }
        O::Atom | O::Red if global => {
            let unused = i.opcode == O::Red || matches!(i.operands.first(), Some(Operand::Sink));
            let exact = i.mods.types.first().is_none_or(|t| !t.is_float())
                || matches!(i.mods.atom, Some(AtomOp::Min | AtomOp::Max));
            let commutes = !matches!(
                i.mods.atom,
                Some(AtomOp::Exch | AtomOp::Cas | AtomOp::Inc | AtomOp::Dec)
            );
            let repeats = unused
                && matches!(
                    i.mods.atom,
                    Some(AtomOp::Min | AtomOp::Max | AtomOp::And | AtomOp::Or)
                );
            (repeats, unused && exact && commutes)
        }
        // A surface may be read as well, multimem and bulk operations reach memory by other ways.
        O::Sust | O::Sured | O::MultimemRed | O::MultimemSt | O::RedAsync => (false, false),
        O::CpAsyncBulk | O::CpAsyncBulkTensor | O::StAsync | O::StBulk => (false, true),
        O::CpReduceAsyncBulk | O::CpReduceAsyncBulkTensor => (false, false),
        O::Call => called(program, i),
        O::Mov if i.operands.iter().any(depends_on_place) => (false, false),
        O::Other => (false, false),
        _ => (true, true),
    }
}

fn called(program: &Program, i: &Instruction) -> (bool, bool) {
    let name = match i.operands.get(1) {
        Some(Operand::Symbol {
            symbol: Symbol::Function(f),
            ..
        }) => program.functions.get(f.0 as usize).map(|f| &*f.name),
        _ => None,
    };
    match name {
        Some("__assertfail") => (true, true),
        Some("vprintf") => (false, false),
        _ => (false, false),
    }
}

/// Clocks and where a block happens to run.
fn depends_on_place(operand: &Operand) -> bool {
    matches!(
        operand,
        Operand::Special(
            SpecialReg::Clock
                | SpecialReg::ClockHi
                | SpecialReg::Clock64
                | SpecialReg::Globaltimer
                | SpecialReg::GlobaltimerLo
                | SpecialReg::GlobaltimerHi
                | SpecialReg::Smid
                | SpecialReg::Warpid
        )
    )
}

fn origin(i: &Instruction, origins: &[Origin]) -> Origin {
    // The source of an asynchronous copy is its second operand.
    let operands = i
        .operands
        .iter()
        .skip(usize::from(i.opcode == Opcode::CpAsync));
    let base = operands
        .filter_map(|o| match o {
            Operand::Address { base, .. } => Some(base),
            _ => None,
        })
        .next();
    match base {
        Some(AddressBase::Reg(r)) => origins[r.0 as usize],
        Some(AddressBase::Symbol(s)) => of_symbol(*s),
        _ => Origin::Many,
    }
}

fn of_symbol(symbol: Symbol) -> Origin {
    match symbol {
        Symbol::Variable(v) => Origin::Variable(v.0),
        Symbol::Param(n) => Origin::Param(n),
        _ => Origin::Many,
    }
}

/// Returns for each register the parameter or variable that its value is derived from.
fn origins(function: &Function) -> Vec<Origin> {
    let mut of = vec![Origin::None; function.registers.len()];
    for _ in 0..MAX_ROUNDS {
        let mut changed = false;
        for i in &function.body {
            let mut from = Origin::None;
            match i.opcode {
                // A 64-bit parameter may be a pointer; what memory holds may point anywhere.
                Opcode::Ld if i.mods.spaces.first() == Some(&StateSpace::Param) => {
                    if let Some(Operand::Address {
                        base: AddressBase::Symbol(s),
                        ..
                    }) = i.operands.get(1)
                        && i.mods.types.first().is_some_and(|t| t.size_bytes() == 8)
                    {
                        from = of_symbol(*s);
                    }
                }
                Opcode::Ld | Opcode::Ldu | Opcode::Atom => {}
                _ => {
                    for_each_register(i, |r, access| {
                        if access == Access::Read {
                            from = from.join(of[r.0 as usize]);
                        }
                    });
                    for operand in &i.operands {
                        if let Operand::Symbol { symbol, .. } = operand {
                            from = from.join(of_symbol(*symbol));
                        }
                    }
                }
            }
            if from == Origin::None {
                continue;
            }
            for_each_register(i, |r, access| {
                if access != Access::Read {
                    let slot = &mut of[r.0 as usize];
                    let joined = slot.join(from);
                    changed |= joined != *slot;
                    *slot = joined;
                }
            });
        }
        if !changed {
            return of;
        }
    }
    vec![Origin::Many; function.registers.len()]
}
