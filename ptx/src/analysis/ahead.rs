//! What a thread may still meet on its way out of a function.

use super::flow::Flow;
use crate::decode::{Function, Instruction, Opcode};

/// For each place of a body, a wanted instruction that control may still reach from there.
#[derive(Debug, Clone)]
pub struct Ahead {
    /// The wanted instructions, in order.
    wanted: Vec<u32>,
    /// By block: one that is reachable from its first instruction, or `u32::MAX`.
    from_start: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Ahead {
    /// Prepares the question for the instructions that `wanted` picks; it gets index and instruction.
    #[must_use]
    pub fn new(
        function: &Function,
        flow: &Flow,
        mut wanted: impl FnMut(u32, &Instruction) -> bool,
    ) -> Self {
        let wanted: Vec<u32> = (0_u32..)
            .zip(&function.body)
            .filter(|(n, i)| wanted(*n, i))
            .map(|(n, _)| n)
            .collect();
        let mut from_start = vec![NONE; flow.blocks.len()];
        let mut queue: Vec<u32> = Vec::new();
        for &n in &wanted {
            let block = flow.block_of(n);
            if from_start[block as usize] == NONE {
                from_start[block as usize] = n;
                queue.push(block);
            }
        }
        // Breadth first, so that the answer is a near one.
        let mut at = 0;
        while let Some(&block) = queue.get(at) {
            at += 1;
            for &p in flow.predecessors(block) {
                if from_start[p as usize] == NONE {
                    from_start[p as usize] = from_start[block as usize];
                    queue.push(p);
                }
            }
        }
        Self { wanted, from_start }
    }

    /// Returns whether the function has any wanted instruction.
    #[must_use]
    pub fn any(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Returns a wanted instruction that a thread may reach from the block's first instruction on, that one included.
    #[must_use]
    pub fn from_block(&self, block: u32) -> Option<u32> {
        let found = self.from_start[block as usize];
        (found != NONE).then_some(found)
    }

    /// Returns a wanted instruction that a thread may reach after it executed this one, or that threads which do not
    /// take its branch or exit may reach: what others meet when some leave here.
    #[must_use]
    pub fn after(&self, flow: &Flow, instruction: u32) -> Option<u32> {
        let number = flow.block_of(instruction);
        let block = &flow.blocks[number as usize];
        let next = self.wanted.partition_point(|&n| n <= instruction);
        match self.wanted.get(next) {
            Some(&n) if n < block.end => Some(n),
            _ => {
                let mut next = flow.successors(number).iter();
                next.find_map(|&s| self.from_block(s))
            }
        }
    }
}

/// Returns whether a barrier of the block or part of it: threads that left early change what it waits for.
#[must_use]
pub fn is_block_barrier(i: &Instruction) -> bool {
    matches!(i.opcode, Opcode::Bar | Opcode::BarRed | Opcode::BarArrive)
}

/// Returns whether an operation in which the threads of a warp take part together (PTX ISA sections 9.7.9.6, 9.7.13,
/// 9.7.14): what is missing when one of them left.
#[must_use]
pub fn is_warp_synchronising(i: &Instruction) -> bool {
    use Opcode as O;
    matches!(
        i.opcode,
        O::Shfl
            | O::Vote
            | O::Match
            | O::Redux
            | O::BarWarpSync
            | O::Activemask
            | O::Elect
            | O::LdMatrix
            | O::StMatrix
            | O::WmmaLoad
            | O::WmmaStore
            | O::WmmaMma
            | O::Mma
    )
}
