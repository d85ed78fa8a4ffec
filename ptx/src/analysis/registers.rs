//! How many 32-bit registers a thread will need, estimated from liveness.
//!
//! PTX has unlimited virtual registers; `ptxas` allocates the real ones after copy elimination and constant
//! propagation. The estimate takes the largest sum, over all points of the body, of what is live there, where
//!
//! - a 64-bit value counts two, a predicate none (predicates have a file of their own);
//! - a copy that is the only definition of its register (`mov`, `cvta`) counts as the value it copies;
//! - a kernel parameter or constant that is the only definition of its register counts nothing, because the
//!   machine reads it from the constant bank, and nor do some bits of it, which a uniform register holds;
//!
//! and adds headroom, because `ptxas` spends registers on latency while they are cheap: it moves loads up and keeps
//! address parts. On the eight workload kernels (`ptxas` 13.5, `sm_80`) it uses about twice the live sum; the
//! headroom is therefore the sum itself, up to [`HEADROOM`]. `tests/registers.rs` holds the figures.

use super::flow::Flow;
use super::liveness::{Liveness, Set};
use super::operands::{Access, for_each_register};
use crate::decode::{Function, Instruction, Opcode, Operand, RegId, ScalarType, StateSpace};

/// Most registers added to the largest live sum.
const HEADROOM: u32 = 16;
/// The fewest registers a kernel is given in practice.
const FEWEST: u32 = 8;
/// The most registers a thread can have; also the answer for functions too large to analyse.
const MOST: u32 = 255;

/// Estimated registers per thread, between 8 and 255.
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
        largest = largest.max(sum);
        for i in function.body[block.first as usize..block.end as usize]
            .iter()
            .rev()
        {
            largest = largest.max(step(i, &mut live, &mut sum, &class, &weight));
        }
    }
    (largest + largest.min(HEADROOM)).clamp(FEWEST, MOST)
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
            match (i.opcode, i.operands.get(1)) {
                (Opcode::Mov | Opcode::Cvta, Some(Operand::Reg(from)))
                    if definitions[from.0 as usize] == 1 =>
                {
                    of[to.0 as usize] = of[from.0 as usize];
                }
                (
                    Opcode::Mov,
                    Some(
                        Operand::Int(_)
                        | Operand::F32(_)
                        | Operand::F64(_)
                        | Operand::Symbol { .. },
                    ),
                ) => {
                    of[to.0 as usize] = None;
                }
                (Opcode::And, Some(Operand::Reg(from)))
                    if of[from.0 as usize].is_none()
                        && matches!(i.operands.get(2), Some(Operand::Int(_))) =>
                {
                    of[to.0 as usize] = None;
                }
                (Opcode::Ld, _)
                    if function.is_entry && i.mods.spaces.first() == Some(&StateSpace::Param) =>
                {
                    of[to.0 as usize] = None;
                }
                _ => {}
            }
        }
        Self { of }
    }
}
