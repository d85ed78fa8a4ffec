//! A loop whose first round can be copied in front of it, so that a `gate` decides behind that round.
//!
//! The word that stops a block takes a round trip to the L2 cache, and where the body begins with a loop there is little in
//! front of it to hide that behind. Where the loop loads, its first round has such a trip of its own, and both are made
//! together; a round that only computes hides less than its copy costs. What comes before the decision is still bounded:
//! one round, and not the loop.
//!
//! ```text
//!     @skip bra EXIT              @skip bra DECIDE
//!     before                      before
//!                                 body
//!                         DECIDE: the decision; @skip bra EXIT; @!again bra EXIT
//! HEAD:                   HEAD:
//!     body                        body
//!     @again bra HEAD             @again bra HEAD
//! EXIT:                   EXIT:
//! ```
//!
//! Rules:
//! - The loop is one basic block, it is quiet as [`super::commit`] says, and it is entered from in front of it alone.
//! - Every thread that comes to the loop or goes round it comes to the decision, once.
//! - The predicate that leads round the loop keeps its value up to the decision.
//! - The body reads nothing that a form rewrites.

use super::commit::{HIDES, is_quiet, looks_at_memory};
use crate::analysis::{Access, Flow, for_each_register};
use crate::decode::{Function, Instruction, Opcode, Operand, SpecialReg};
use std::ops::Range;

/// Instructions of such a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FirstRound {
    /// The body without the branch at its end.
    pub(super) body: Range<u32>,
    /// The guarded branch that leads round the loop.
    pub(super) skip: Option<u32>,
}

impl FirstRound {
    /// The loop's last instruction, which leads back.
    pub(super) const fn again(&self) -> u32 {
        self.body.end
    }

    /// The instruction behind the loop.
    pub(super) const fn exit(&self) -> u32 {
        self.body.end + 1
    }

    /// The loop that basic block `at` leads to, if its first round can be copied.
    pub(super) fn behind(function: &Function, flow: &Flow, at: u32) -> Option<Self> {
        let ways = flow.successors(at);
        let head = ways.iter().find_map(|&way| entered(flow, at, way))?;
        let exit = head + 1;
        let (block, behind) = (flow.blocks[head as usize], flow.blocks.get(exit as usize)?);
        if behind.first != block.end
            || flow
                .successors(head)
                .iter()
                .any(|&s| s != head && s != exit)
        {
            return None;
        }
        let again = function.body.get(block.end as usize - 1)?;
        let body = block.first..block.end - 1;
        let is_fit = again.opcode == Opcode::Bra && again.guard.is_some();
        let inside = &function.body[body.start as usize..body.end as usize];
        let is_fit = is_fit && body.len() <= HIDES as usize;
        if !is_fit || !inside.iter().all(may_be_copied) || !inside.iter().any(looks_at_memory) {
            return None;
        }
        let last = flow.blocks[at as usize].end - 1;
        let skip = match ways {
            [_] => None,
            _ if ways.contains(&exit) => Some(last),
            _ => return None,
        };
        // What stands between the branch and the body's end.
        let before = &function.body[last as usize + 1..body.end as usize];
        let ends = &function.body[last as usize];
        let keeps = match skip {
            Some(_) => keeps_guard(ends, before),
            None => !leads_elsewhere(ends) || matches!(ends.opcode, Opcode::Ret | Opcode::Exit),
        };
        let is_straight = before.iter().all(|i| is_quiet(i) && !leads_elsewhere(i));
        (keeps && is_straight).then_some(Self { body, skip })
    }
}

/// The head of a loop of one block that lies on this way from `at`, at most behind one block, and right behind it in the
/// text.
fn entered(flow: &Flow, at: u32, way: u32) -> Option<u32> {
    let leads_to = |from: u32, head: u32| {
        let own = flow.predecessors(head);
        head == from + 1 && own.len() == 2 && own.contains(&head) && own.contains(&from)
    };
    if leads_to(at, way) {
        return Some(way);
    }
    let between = flow.predecessors(way) == [at] && way == at + 1;
    let next = *flow.successors(way).first()?;
    let is_head = flow.successors(way).len() == 1 && leads_to(way, next);
    (between && is_head && !flow.blocks[way as usize].leaves).then_some(next)
}

/// Whether an instruction does the same in a copy, and leaves no trace.
fn may_be_copied(i: &Instruction) -> bool {
    let reads_own = |o: &Operand| match o {
        Operand::Special(s) => matches!(s, SpecialReg::Tid(_) | SpecialReg::Ntid(_)),
        _ => true,
    };
    is_quiet(i) && i.operands.iter().all(reads_own)
}

const fn leads_elsewhere(i: &Instruction) -> bool {
    use Opcode as O;
    matches!(i.opcode, O::Bra | O::BrxIdx | O::Ret | O::Exit)
}

/// Whether a branch is a guarded one whose predicate these instructions leave alone.
fn keeps_guard(branch: &Instruction, others: &[Instruction]) -> bool {
    let Some(guard) = branch.guard.filter(|_| branch.opcode == Opcode::Bra) else {
        return false;
    };
    let mut keeps = true;
    for i in others {
        for_each_register(i, |r, access| {
            keeps &= r != guard.reg || access == Access::Read;
        });
    }
    keeps
}
