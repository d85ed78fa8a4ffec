//! Control-flow graph of a function's body (PTX ISA section 9.7.12).
//!
//! Blocks are in source order and cover the body; a guarded branch or exit falls through, an unguarded one does
//! not. Calls and barriers do not end a block.

use crate::decode::{Function, Instruction, Opcode, Operand};
use smallvec::SmallVec;

/// A basic block: half-open instruction range and successor blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// First instruction.
    pub first: u32,
    /// One past the last instruction.
    pub end: u32,
    /// Successors, as indices into [`Flow::blocks`]; leaving the function is no successor.
    pub successors: SmallVec<[u32; 2]>,
}

/// The graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Blocks in source order; block 0 is the entry.
    pub blocks: Vec<Block>,
}

fn ends_block(i: &Instruction) -> bool {
    matches!(
        i.opcode,
        Opcode::Bra | Opcode::BrxIdx | Opcode::Ret | Opcode::Exit | Opcode::Trap
    )
}

fn targets<'a>(function: &'a Function, i: &'a Instruction) -> impl Iterator<Item = u32> + 'a {
    i.operands.iter().flat_map(|o| match o {
        Operand::Target(t) => SmallVec::<[u32; 2]>::from_slice(&[*t]),
        Operand::BranchTable(t) => SmallVec::from_slice(&function.branch_tables[*t as usize]),
        _ => SmallVec::new(),
    })
}

impl Flow {
    /// Builds the graph of a body.
    #[must_use]
    pub fn new(function: &Function) -> Self {
        let body = &function.body;
        let mut leads = vec![false; body.len() + 1];
        leads[0] = true;
        for (n, i) in body.iter().enumerate() {
            if ends_block(i) {
                leads[n + 1] = true;
                for t in targets(function, i) {
                    if let Some(lead) = leads.get_mut(t as usize) {
                        *lead = true;
                    }
                }
            }
        }
        // Which block an instruction is in; a branch to the end of the body leaves the function.
        let mut block_of = Vec::with_capacity(body.len());
        let mut count = 0;
        for &lead in &leads[..body.len()] {
            count += u32::from(lead);
            block_of.push(count - 1);
        }
        let starts = (0..body.len()).filter(|&n| leads[n]);
        let mut blocks: Vec<Block> = starts
            .map(|n| Block {
                first: index(n),
                end: index(body.len()),
                successors: SmallVec::new(),
            })
            .collect();
        for b in 1..blocks.len() {
            blocks[b - 1].end = blocks[b].first;
        }
        for block in &mut blocks {
            let last = &body[block.end as usize - 1];
            if ends_block(last) {
                let to = targets(function, last).filter_map(|t| block_of.get(t as usize).copied());
                block.successors.extend(to);
            }
            let falls_through = !ends_block(last) || last.guard.is_some();
            if falls_through && let Some(&next) = block_of.get(block.end as usize) {
                block.successors.push(next);
            }
        }
        Self { blocks }
    }
}

fn index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
