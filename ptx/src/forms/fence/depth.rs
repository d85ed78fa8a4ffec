//! How deep in loops an instruction stands, and where a register gets its value, to decide where work is cheapest.
//!
//! A branch back to a block counts as a loop of all that stands between, which is how compilers write loops. Rule: a
//! wrong depth costs time and nothing else.

use super::register_facts::RegisterFacts;
use crate::analysis::{Access, Flow, for_each_register};
use crate::decode::{Function, RegId};

/// Loops around each block.
pub(super) struct Depths {
    /// First instruction of each block, with the loops around it.
    blocks: Vec<(u32, i32)>,
}

impl Depths {
    pub(super) fn new(flow: &Flow) -> Self {
        // Where loops begin, and where they have ended.
        let mut steps = vec![0_i32; flow.blocks.len() + 1];
        for (n, block) in (0..flow.blocks.len()).zip(0..) {
            let heads = flow.successors(block).iter().map(|&s| s as usize);
            for head in heads.filter(|&head| head <= n) {
                steps[head] += 1;
                steps[n + 1] -= 1;
            }
        }
        let mut depth = 0;
        let around = |(block, step): (&crate::analysis::Block, i32)| {
            depth += step;
            (block.first, depth)
        };
        Self {
            blocks: flow.blocks.iter().zip(steps).map(around).collect(),
        }
    }

    /// Returns how many loops are around an instruction.
    pub(super) fn of(&self, instruction: u32) -> i32 {
        let behind = self
            .blocks
            .partition_point(|(first, _)| *first <= instruction);
        behind.checked_sub(1).map_or(0, |n| self.blocks[n].1)
    }
}

/// Returns the definition of each register that has one alone, which every read follows.
pub(super) fn definitions(function: &Function, values: &RegisterFacts) -> Vec<Option<u32>> {
    let mut found = vec![None; function.registers.len()];
    let mut several = vec![false; function.registers.len()];
    for (n, i) in (0_u32..).zip(&function.body) {
        for_each_register(i, |r, touch| {
            let at = r.0 as usize;
            if touch != Access::Read {
                several[at] |= found[at].is_some() || touch == Access::MayWrite;
                found[at] = Some(n);
            }
        });
    }
    for (n, definition) in (0_u32..).zip(&mut found) {
        if several[n as usize] || values.is_early(RegId(n)) {
            *definition = None;
        }
    }
    found
}
