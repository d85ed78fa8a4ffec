//! Control-flow graph of a function's body (PTX ISA section 9.7.12).
//!
//! Blocks are in source order and cover the body; a guarded branch or exit falls through, an unguarded one does
//! not. Calls and barriers do not end a block. A thread leaves the function at a `ret`, an `exit` or the end of the
//! body; a `trap` ends the whole grid, so it is neither a way out nor a way on.

use crate::decode::{Function, Instruction, Opcode, Operand};

/// A basic block: half-open instruction range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// First instruction.
    pub first: u32,
    /// One past the last instruction.
    pub end: u32,
    /// Whether a thread may leave the function at the end of this block, by `ret`, `exit` or the body's end.
    pub leaves: bool,
}

/// The graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Blocks in source order; block 0 is the entry. Empty for an empty body.
    pub blocks: Vec<Block>,
    /// Successors of block `b` are `successors[successor_starts[b]..successor_starts[b + 1]]`.
    successors: Vec<u32>,
    successor_starts: Vec<u32>,
    /// Predecessors of block `b` are `predecessors[predecessor_starts[b]..predecessor_starts[b + 1]]`.
    predecessors: Vec<u32>,
    predecessor_starts: Vec<u32>,
}

/// Returns whether control may go elsewhere than to the next instruction.
fn ends_block(i: &Instruction) -> bool {
    matches!(
        i.opcode,
        Opcode::Bra | Opcode::BrxIdx | Opcode::Ret | Opcode::Exit | Opcode::Trap
    )
}

/// Hands over each label that an instruction may branch to.
fn for_each_target(function: &Function, i: &Instruction, mut each: impl FnMut(u32)) {
    for operand in &i.operands {
        match operand {
            Operand::Target(t) => each(*t),
            Operand::BranchTable(t) => {
                let table = function.branch_tables.get(*t as usize);
                table.into_iter().flatten().for_each(|&t| each(t));
            }
            _ => {}
        }
    }
}

impl Flow {
    /// Builds the graph of a body.
    #[must_use]
    pub fn new(function: &Function) -> Self {
        let mut blocks = split(function);
        let (successors, successor_starts) = connect(function, &mut blocks);
        let mut predecessor_starts = vec![0_u32; blocks.len() + 1];
        for &s in &successors {
            predecessor_starts[s as usize + 1] += 1;
        }
        for b in 1..predecessor_starts.len() {
            predecessor_starts[b] += predecessor_starts[b - 1];
        }
        let mut next = predecessor_starts.clone();
        let edges = predecessor_starts.last().copied().unwrap_or(0);
        let mut predecessors = vec![0; edges as usize];
        for (b, range) in (0_u32..).zip(successor_starts.windows(2)) {
            for &s in &successors[range[0] as usize..range[1] as usize] {
                predecessors[next[s as usize] as usize] = b;
                next[s as usize] += 1;
            }
        }
        Self {
            blocks,
            successors,
            successor_starts,
            predecessors,
            predecessor_starts,
        }
    }

    /// Returns the blocks that may come right behind this one, as indices into [`Flow::blocks`], without repetition;
    /// leaving the function is no successor.
    #[must_use]
    pub fn successors(&self, block: u32) -> &[u32] {
        let at = |b: usize| self.successor_starts[b] as usize;
        &self.successors[at(block as usize)..at(block as usize + 1)]
    }

    /// Returns the blocks that may come right before this one.
    #[must_use]
    pub fn predecessors(&self, block: u32) -> &[u32] {
        let at = |b: usize| self.predecessor_starts[b] as usize;
        &self.predecessors[at(block as usize)..at(block as usize + 1)]
    }

    /// Returns the block that holds this instruction.
    #[must_use]
    pub fn block_of(&self, instruction: u32) -> u32 {
        let after = self.blocks.partition_point(|b| b.first <= instruction);
        index(after.saturating_sub(1))
    }

    /// Returns which blocks are marked in `to`, which has an entry for each block, or can lead to one that is.
    #[must_use]
    pub fn reaching(&self, to: &[bool]) -> Vec<bool> {
        let mut found = vec![false; self.blocks.len()];
        for (b, _) in (0..).zip(to).filter(|(_, marked)| **marked) {
            self.mark_reaching(b, &mut found);
        }
        found
    }

    /// Marks a block and those that can lead to it; what leads to a marked block is marked already.
    pub(super) fn mark_reaching(&self, block: u32, found: &mut [bool]) {
        if std::mem::replace(&mut found[block as usize], true) {
            return;
        }
        let mut stack = vec![block];
        while let Some(b) = stack.pop() {
            for &p in self.predecessors(b) {
                if !std::mem::replace(&mut found[p as usize], true) {
                    stack.push(p);
                }
            }
        }
    }
}

/// Returns the blocks without their successors.
fn split(function: &Function) -> Vec<Block> {
    let body = &function.body;
    let mut leads = vec![false; body.len() + 1];
    leads[0] = true;
    for (n, i) in body.iter().enumerate() {
        if ends_block(i) {
            leads[n + 1] = true;
            for_each_target(function, i, |t| {
                if let Some(lead) = leads.get_mut(t as usize) {
                    *lead = true;
                }
            });
        }
    }
    let count = leads[..body.len()].iter().filter(|&&l| l).count();
    let mut blocks: Vec<Block> = Vec::with_capacity(count);
    for n in (0..body.len()).filter(|&n| leads[n]) {
        if let Some(last) = blocks.last_mut() {
            last.end = index(n);
        }
        blocks.push(Block {
            first: index(n),
            end: index(body.len()),
            leaves: false,
        });
    }
    blocks
}

/// Finds out where blocks leave the function; gives their successors and where each one's begin.
fn connect(function: &Function, blocks: &mut [Block]) -> (Vec<u32>, Vec<u32>) {
    let mut successors = Vec::with_capacity(blocks.len());
    let mut starts = Vec::with_capacity(blocks.len() + 1);
    // Which block lists the target already, so that a long branch table with few targets stays short.
    let mut listed = vec![u32::MAX; blocks.len()];
    for b in 0..index(blocks.len()) {
        starts.push(index(successors.len()));
        let block = blocks[b as usize];
        let last = &function.body[block.end as usize - 1];
        let mut leaves = matches!(last.opcode, Opcode::Ret | Opcode::Exit);
        let mut to = |target: u32| match blocks.binary_search_by_key(&target, |b| b.first) {
            Ok(s) if listed[s] == b => {}
            Ok(s) => {
                listed[s] = b;
                successors.push(index(s));
            }
            // The only target that begins no block is the end of the body.
            Err(_) => leaves = true,
        };
        if ends_block(last) {
            for_each_target(function, last, &mut to);
        }
        if !ends_block(last) || last.guard.is_some() {
            to(block.end);
        }
        blocks[b as usize].leaves = leaves;
    }
    starts.push(index(successors.len()));
    (successors, starts)
}

fn index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
