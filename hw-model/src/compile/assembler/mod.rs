//! What an assembler such as `ptxas` does inside a basic block, for descriptions that ask for it (`[assembler]`).
//!
//! PTX is no machine code. `ptxas` reads neighbouring words of shared memory with one wide load where it can prove the
//! alignment ([`wide`]), and moves loads up, together with what their addresses are made from, so that several wait at
//! once ([`schedule`]). A kernel that a compiler left as scalar loads, each in front of its use, may take twice as long
//! as it stands. Moves that become no instruction and sequences have keys of their own (`sm.folds_moves`,
//! `sm.expands_sequences`).
//!
//! Rules: a kernel whose results PTX defines gives the same with and without; blocks, branches and barriers stay where
//! they are; an instruction keeps its line, a wide load that of the first load in it; the time taken is linear in the
//! body, and quadratic only within windows of bounded length.

mod alignment;
mod dependence;
mod graph;
mod schedule;
mod wide;

use super::variables::Layout;
use crate::config::GpuConfig;
use gridmux_ptx::analysis::Flow;
use gridmux_ptx::decode::{Function, Instruction, Operand};
use std::borrow::Cow;

/// Returns a function as it is executed: as written, or as an assembler leaves it where the description says so.
pub(super) fn assembled<'a>(
    config: &GpuConfig,
    function: &'a Function,
    layout: &Layout,
) -> Cow<'a, Function> {
    let assembler = config.assembler;
    if !assembler.wide_loads && assembler.early_loads == 0 {
        return Cow::Borrowed(function);
    }
    let alignment = assembler
        .wide_loads
        .then(|| alignment::Alignment::new(function, layout));
    let mut body = Vec::with_capacity(function.body.len());
    let mut starts = Vec::new();
    for block in Flow::new(function).blocks {
        starts.push((block.first, index(body.len())));
        let mut block = function.body[block.first as usize..block.end as usize].to_vec();
        if let Some(alignment) = &alignment {
            block = wide::widened(block, alignment, &function.registers);
        }
        if assembler.early_loads != 0 {
            block = schedule::scheduled(config, block, &function.registers);
        }
        body.append(&mut block);
    }
    starts.push((index(function.body.len()), index(body.len())));
    let mut assembled = function.clone();
    assembled.body = body;
    aim(&mut assembled, &starts);
    Cow::Owned(assembled)
}

/// Gives branches the new places of the blocks that they lead to: `starts` has the first instruction of each before and
/// now, and the end of the body.
fn aim(function: &mut Function, starts: &[(u32, u32)]) {
    let moved = |target: &mut u32| {
        if let Ok(block) = starts.binary_search_by_key(target, |(before, _)| *before) {
            *target = starts[block].1;
        }
    };
    let operands = function.body.iter_mut().flat_map(|i| &mut i.operands);
    for operand in operands {
        if let Operand::Target(target) = operand {
            moved(target);
        }
    }
    function.branch_tables.iter_mut().flatten().for_each(moved);
}

/// Returns the bytes that each thread reads or writes.
fn access_bytes(i: &Instruction) -> i64 {
    let element = i.mods.types.last().map_or(0, |ty| ty.size_bytes());
    i64::from(element) * i64::from(i.mods.vector.max(1))
}

fn index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
