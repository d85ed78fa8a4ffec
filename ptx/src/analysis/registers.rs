//! How many 32-bit registers a thread will need, estimated from liveness.
//!
//! PTX has unlimited virtual registers; `ptxas` allocates the real ones after copy elimination, constant propagation
//! and scheduling. The estimate takes the largest sum, over all points of the body, of what is live there, where
//!
//! - a 64-bit value counts two, a predicate none (predicates have a file of their own);
//! - a copy that is the only definition of its register (`mov`, `cvta`) counts as the value it copies;
//! - what is the same in the whole launch counts nothing: parameters, constants and the launch's dimensions come from
//!   the constant bank, and integer arithmetic on them goes to uniform registers.
//!
//! To that it adds, for each basic block, what `ptxas` spends there on latency: it moves loads of memory up, so that
//! their results are live together, and unrolls a loop of one block, up to [`MOST_LOADED`]; and [`ALWAYS`], which it
//! takes everywhere. Text that loads nothing, such as what a form puts in front of a body, then costs what is live in
//! it.
//!
//! A function that calls leaves the registers of the calling convention to the callee. The launch bounds limit all.
//! `cargo xtask bench ptx-cost` says how far the estimate is from `ptxas`, for originals and for each form, on `sm_75`
//! to `sm_100`; the three constants were chosen by what it says of the originals. `tests/registers.rs` holds figures of
//! workload kernels.

use super::flow::Flow;
use super::liveness::{Liveness, Set};
use super::operands::{Access, for_each_register};
use crate::decode::{
    Function, Instruction, LaunchBounds, Opcode, Operand, RegId, ScalarType, SpecialReg, StateSpace,
};

/// Registers besides what is live: the stack pointer, pairs that must be even, parts of addresses.
const ALWAYS: u32 = 5;
/// Most registers of loads that wait together.
const MOST_LOADED: u32 = 8;
/// Rounds of a loop of one block that are unrolled into each other.
const UNROLLED: u32 = 2;
/// Registers that a function with calls has at least, for its callees.
const CALLING: u32 = 24;
/// Registers of an SM, of which launch bounds give each thread its part, in steps of [`UNIT`].
const OF_AN_SM: u32 = 65536;
const UNIT: u32 = 8;
/// The fewest registers a kernel is given in practice.
const FEWEST: u32 = 8;
/// The most registers a thread can have; also the answer for functions too large to analyse.
const MOST: u32 = 255;

/// Estimates the registers per thread, between 8 and 255.
#[must_use]
pub fn registers_estimate(function: &Function) -> u32 {
    let classes = Classes::new(function);
    let class = |r: RegId| classes.of[r.0 as usize];
    let flow = Flow::new(function);
    let Some(liveness) = Liveness::new(function, &flow, function.registers.len(), class) else {
        return MOST;
    };
    let weight = |c: u32| weight(function.registers[c as usize]);
    let mut largest = 0;
    for (b, block) in (0_u32..).zip(&flow.blocks) {
        let mut live = liveness.live_out(b);
        let mut sum: u32 = live.iter().map(weight).sum();
        let (mut crowded, mut loaded) = (sum, 0);
        for i in function.body[block.first as usize..block.end as usize]
            .iter()
            .rev()
        {
            crowded = crowded.max(step(i, &mut live, &mut sum, &class, &weight));
            if loads_memory(i) {
                loaded += results(i, &class, &weight);
            }
        }
        let rounds = match flow.successors(b).contains(&b) {
            true => UNROLLED,
            false => 1,
        };
        largest = largest.max(crowded + MOST_LOADED.min(rounds * loaded));
    }
    let calls = function.body.iter().any(|i| i.opcode == Opcode::Call);
    let least = if calls { CALLING } else { FEWEST };
    let most = most(&function.bounds);
    (largest + ALWAYS).max(least).min(most)
}

/// Returns the most that launch bounds leave.
fn most(bounds: &LaunchBounds) -> u32 {
    let threads = bounds.required_threads.or(bounds.max_threads);
    let threads = threads.map_or(1, |t| t.into_iter().fold(1, u32::saturating_mul));
    let together = threads.saturating_mul(bounds.min_blocks_per_sm.unwrap_or(1));
    let part = (OF_AN_SM / together.max(1)) / UNIT * UNIT;
    let named = bounds.max_registers.unwrap_or(MOST);
    MOST.min(part).min(named).max(FEWEST)
}

/// Returns whether an instruction's result comes from memory, and late.
fn loads_memory(i: &Instruction) -> bool {
    let space = i.mods.spaces.first().copied().unwrap_or_default();
    let is_far = !matches!(space, StateSpace::Param | StateSpace::Local);
    i.opcode == Opcode::Tex || (matches!(i.opcode, Opcode::Ld | Opcode::Ldu) && is_far)
}

/// Returns the registers that an instruction writes.
fn results(
    i: &Instruction,
    class: &dyn Fn(RegId) -> Option<u32>,
    weight: &dyn Fn(u32) -> u32,
) -> u32 {
    let mut sum = 0;
    for_each_register(i, |r, access| {
        if let (Some(c), Access::Write | Access::MayWrite) = (class(r), access) {
            sum += weight(c);
        }
    });
    sum
}

/// Moves backwards over one instruction; gives the sum at its most crowded moment, when results and sources that
/// stay live are both held.
fn step(
    i: &Instruction,
    live: &mut Set,
    sum: &mut u32,
    class: &dyn Fn(RegId) -> Option<u32>,
    weight: &dyn Fn(u32) -> u32,
) -> u32 {
    let mut crowded = *sum;
    for_each_register(i, |r, access| {
        if let (Some(c), Access::Write) = (class(r), access) {
            if live.remove(c) {
                *sum -= weight(c);
            } else {
                crowded += weight(c);
            }
        }
    });
    for_each_register(i, |r, access| {
        if let Some(c) = class(r)
            && access != Access::Write
            && live.insert(c)
        {
            *sum += weight(c);
        }
    });
    crowded.max(*sum)
}

fn weight(ty: ScalarType) -> u32 {
    match ty {
        ScalarType::Pred => 0,
        ty => ty.size_bytes().div_ceil(4),
    }
}

/// The value class of each register: itself, what it copies, or none.
struct Classes {
    of: Vec<Option<u32>>,
}

impl Classes {
    fn new(function: &Function) -> Self {
        let mut definitions = vec![0_u32; function.registers.len()];
        for i in &function.body {
            for_each_register(i, |r, access| {
                if access != Access::Read {
                    definitions[r.0 as usize] += 1;
                }
            });
        }
        let mut of: Vec<Option<u32>> = (0..).take(function.registers.len()).map(Some).collect();
        for i in &function.body {
            let (Some(Operand::Reg(to)), None) = (i.operands.first(), i.guard) else {
                continue;
            };
            if definitions[to.0 as usize] != 1 {
                continue;
            }
            let known = |r: &RegId| of[r.0 as usize].is_none();
            match (i.opcode, i.operands.get(1)) {
                _ if is_of_the_launch(function, i, known) => of[to.0 as usize] = None,
                (Opcode::Mov | Opcode::Cvta, Some(Operand::Reg(from)))
                    if definitions[from.0 as usize] == 1 =>
                {
                    of[to.0 as usize] = of[from.0 as usize];
                }
                _ => {}
            }
        }
        Self { of }
    }
}

/// Returns whether an instruction gives the same in the whole launch, without a register of each thread; `known` are
/// registers that hold such values.
fn is_of_the_launch(function: &Function, i: &Instruction, known: impl Fn(&RegId) -> bool) -> bool {
    use Opcode as O;
    let sources = || i.operands.iter().skip(1);
    let is_integer = i.opcode == O::Mov || !i.mods.types.iter().any(|t| t.is_float());
    match i.opcode {
        O::Ld => function.is_entry && i.mods.spaces.first() == Some(&StateSpace::Param),
        O::Mov
        | O::Cvt
        | O::Cvta
        | O::Add
        | O::Sub
        | O::Mul
        | O::Mad
        | O::Min
        | O::Max
        | O::Neg
        | O::Shl
        | O::Shr
        | O::And
        | O::Or
        | O::Xor
        | O::Not
        | O::Lop3
        | O::Bfe
        | O::Setp
        | O::Selp
            if is_integer =>
        {
            sources().all(|o| match o {
                Operand::Reg(r) => known(r),
                Operand::Int(_) | Operand::F32(_) | Operand::F64(_) | Operand::Symbol { .. } => {
                    true
                }
                Operand::Special(s) => matches!(s, SpecialReg::Ntid(_) | SpecialReg::Nctaid(_)),
                _ => false,
            })
        }
        _ => false,
    }
}
