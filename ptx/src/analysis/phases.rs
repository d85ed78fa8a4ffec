//! Which loads of shared memory find it settled: no thread of the block may be writing there at that time.
//!
//! Block-wide barriers cut a kernel's run into phases. Two instructions can be executed in one phase only when they
//! are connected by control flow that crosses no barrier, so the connected pieces of the flow graph, cut at its
//! barriers, stand for phases. A load is *settled* when its piece holds no instruction that may write what it reads:
//! all threads that load the same address in that phase then get the same value, which is how a block agrees on
//! «this is the last block» or on a flag that thread 0 sets.
//!
//! Shared variables are told apart by the symbol that an address is derived from, as long as exactly one is; an
//! access outside its variable is undefined (PTX ISA section 5.1.6), an address derived from none may be anywhere.
//! All of it presumes that every thread passes each barrier, which [`super::uniformity`] watches.

use super::flow::Flow;
use super::operands::{Access, for_each_register};
use crate::decode::{
    AddressBase, Function, Instruction, Opcode, Operand, Program, StateSpace, Symbol, VarId,
};

/// Functions with more instructions that touch shared memory than this are not looked at.
const MAX_ACCESSES: usize = 1 << 16;

/// The result, by instruction.
#[derive(Debug, Clone, Default)]
pub struct Phases {
    settled: Vec<u32>,
    boundaries: Vec<u32>,
}

impl Phases {
    /// Looks at a body.
    #[must_use]
    pub fn new(program: &Program, function: &Function, flow: &Flow) -> Self {
        let boundaries: Vec<u32> = (0_u32..)
            .zip(&function.body)
            .filter(|(_, i)| ends_phase(i))
            .map(|(n, _)| n)
            .collect();
        if boundaries.is_empty() {
            return Self::default();
        }
        let settled = settled(program, function, flow, &boundaries).unwrap_or_default();
        Self {
            settled,
            boundaries,
        }
    }

    /// Returns whether the load of that index reads what nobody writes at that time.
    #[must_use]
    pub fn is_settled(&self, instruction: u32) -> bool {
        self.settled.binary_search(&instruction).is_ok()
    }

    /// Returns whether the instruction of that index is a barrier that ends a phase.
    #[must_use]
    pub fn is_boundary(&self, instruction: u32) -> bool {
        self.boundaries.binary_search(&instruction).is_ok()
    }

    pub(crate) fn settled(&self) -> impl Iterator<Item = u32> {
        self.settled.iter().copied()
    }
}

/// Returns whether a barrier of all threads of the block: a constant number and no thread count.
fn ends_phase(i: &Instruction) -> bool {
    matches!(
        (i.opcode, i.operands.as_slice()),
        (Opcode::Bar, [Operand::Int(_)]) | (Opcode::BarRed, [_, Operand::Int(_), _])
    )
}

/// Stands for all of dynamic shared memory.
const DYNAMIC: VarId = VarId(u32::MAX);

/// What an address in shared memory is derived from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// No shared variable that we know of.
    None,
    One(VarId),
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

/// An access to shared memory.
struct AccessTo {
    instruction: u32,
    origin: Origin,
    writes: bool,
    loads: bool,
}

fn settled(
    program: &Program,
    function: &Function,
    flow: &Flow,
    boundaries: &[u32],
) -> Option<Vec<u32>> {
    if !function.body.iter().any(may_load_shared) {
        return Some(Vec::new());
    }
    let origins = origins(program, function);
    let mut accesses = Vec::new();
    for (n, i) in (0_u32..).zip(&function.body) {
        if let Some(access) = access(program, &origins, n, i)? {
            accesses.push(access);
            if accesses.len() > MAX_ACCESSES {
                return None;
            }
        }
    }
    if !accesses.iter().any(|a| a.loads) {
        return Some(Vec::new());
    }
    let pieces = Pieces::new(flow, boundaries);
    // Writers by piece: (piece, variable or none for any), sorted for the search.
    let mut writers: Vec<(u32, Option<VarId>)> = accesses
        .iter()
        .filter(|a| a.writes)
        .map(|a| match a.origin {
            Origin::One(v) => (pieces.of(flow, a.instruction), Some(v)),
            _ => (pieces.of(flow, a.instruction), None),
        })
        .collect();
    writers.sort_unstable();
    let settled = accesses.iter().filter(|a| a.loads).filter(|a| {
        let Origin::One(variable) = a.origin else {
            return false;
        };
        let piece = pieces.of(flow, a.instruction);
        writers.binary_search(&(piece, None)).is_err()
            && writers.binary_search(&(piece, Some(variable))).is_err()
    });
    Some(settled.map(|a| a.instruction).collect())
}

fn may_load_shared(i: &Instruction) -> bool {
    matches!(i.opcode, Opcode::Ld | Opcode::Ldu)
        && matches!(
            i.mods.spaces.first(),
            None | Some(StateSpace::Shared | StateSpace::Generic)
        )
}

/// Returns how an instruction touches shared memory: `Some(None)` not at all, `None` in a way that cannot be followed.
fn access(
    program: &Program,
    origins: &[Origin],
    n: u32,
    i: &Instruction,
) -> Option<Option<AccessTo>> {
    use Opcode as O;
    let (writes, loads) = match i.opcode {
        O::Ld | O::Ldu => (false, true),
        O::St | O::Atom | O::Red | O::StMatrix | O::WmmaStore => (true, false),
        O::Call => (true, false),
        // Asynchronous writes land in a phase of their own choosing; unknown instructions may do anything.
        O::CpAsync | O::CpAsyncMbarrierArrive | O::Other => return None,
        O::MbarrierInit
        | O::MbarrierInval
        | O::MbarrierArrive
        | O::MbarrierArriveDrop
        | O::MbarrierTestWait
        | O::MbarrierTryWait => (true, false),
        _ => return Some(None),
    };
    let address = i.operands.iter().find_map(|o| match o {
        Operand::Address { base, .. } => Some(*base),
        _ => None,
    });
    let space = i.mods.spaces.first().copied().unwrap_or_default();
    if i.opcode != O::Call
        && !matches!(
            space,
            StateSpace::Shared | StateSpace::SharedCluster | StateSpace::Generic
        )
    {
        return Some(None);
    }
    let origin = match address {
        Some(AddressBase::Reg(r)) => origins[r.0 as usize],
        Some(AddressBase::Symbol(Symbol::Variable(v))) => of_variable(program, v),
        _ => Origin::None,
    };
    // Another block's shared memory is not ours to know.
    let loads = loads && space != StateSpace::SharedCluster;
    Some(Some(AccessTo {
        instruction: n,
        origin,
        writes,
        loads,
    }))
}

fn of_variable(program: &Program, v: VarId) -> Origin {
    match program.variables.get(v.0 as usize) {
        Some(variable) if variable.space == StateSpace::Shared => {
            // Dynamic shared memory begins at one address whatever its variables are called.
            Origin::One(if variable.is_extern { DYNAMIC } else { v })
        }
        _ => Origin::None,
    }
}

/// Returns for each register the shared variable that its value is derived from by any chain of instructions.
fn origins(program: &Program, function: &Function) -> Vec<Origin> {
    let mut of = vec![Origin::None; function.registers.len()];
    // Each register climbs at most twice, so this ends; bodies in source order settle in two or three rounds.
    for _ in 0..64 {
        let mut changed = false;
        for i in &function.body {
            // A value that memory gives back has lost its origin; it may only be an index, or point anywhere.
            if matches!(i.opcode, Opcode::Ld | Opcode::Ldu | Opcode::Atom) {
                continue;
            }
            let mut origin = Origin::None;
            for_each_register(i, |r, access| {
                if access == Access::Read {
                    origin = origin.join(of[r.0 as usize]);
                }
            });
            for operand in &i.operands {
                if let Operand::Symbol {
                    symbol: Symbol::Variable(v),
                    ..
                } = operand
                {
                    origin = origin.join(of_variable(program, *v));
                }
            }
            if origin == Origin::None {
                continue;
            }
            for_each_register(i, |r, access| {
                if access != Access::Read {
                    let slot = &mut of[r.0 as usize];
                    let joined = slot.join(origin);
                    changed |= joined != *slot;
                    *slot = joined;
                }
            });
        }
        if !changed {
            return of;
        }
    }
    // A chain written backwards through a long body: give up on telling variables apart.
    vec![Origin::Many; function.registers.len()]
}

/// The flow graph cut at its barriers: each block is one or more segments, joined where control crosses no barrier.
struct Pieces {
    /// Barriers, as instruction indices.
    boundaries: Vec<u32>,
    /// Union-find over segments; segment `k` of a block is numbered by blocks and barriers before it.
    root: Vec<u32>,
}

impl Pieces {
    fn new(flow: &Flow, boundaries: &[u32]) -> Self {
        let segments = flow.blocks.len() + boundaries.len();
        let mut pieces = Self {
            boundaries: boundaries.to_vec(),
            root: (0..u32::try_from(segments).unwrap_or(u32::MAX)).collect(),
        };
        for (b, block) in (0_u32..).zip(&flow.blocks) {
            let last = pieces.segment(b, block.end);
            for &s in flow.successors(b) {
                let first = pieces.segment(s, flow.blocks[s as usize].first);
                let (a, b) = (pieces.find(last), pieces.find(first));
                pieces.root[a as usize] = b;
            }
        }
        for s in 0..pieces.root.len() {
            let root = pieces.find(u32::try_from(s).unwrap_or(u32::MAX));
            pieces.root[s] = root;
        }
        pieces
    }

    /// Returns the segment of block `b` that holds the place right before this instruction.
    fn segment(&self, b: u32, instruction: u32) -> u32 {
        let before = self.boundaries.partition_point(|&at| at < instruction);
        b + u32::try_from(before).unwrap_or(u32::MAX)
    }

    fn find(&mut self, segment: u32) -> u32 {
        let mut at = segment as usize;
        while self.root[at] as usize != at {
            self.root[at] = self.root[self.root[at] as usize];
            at = self.root[at] as usize;
        }
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Returns the piece that an instruction is in.
    fn of(&self, flow: &Flow, instruction: u32) -> u32 {
        let segment = self.segment(flow.block_of(instruction), instruction);
        self.root[segment as usize]
    }
}
