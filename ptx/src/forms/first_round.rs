//! A loop whose first round, or its first part, can be copied in front of it, so that a `gate` decides behind that.
//!
//! The word that stops a block takes a round trip to the L2 cache, and where the body begins with a loop there is
//! little in front of it to hide that behind. Where the loop loads, its first round has such a trip of its own, and
//! both are made together; a round that only computes hides less than its copy costs. What comes before the decision is
//! still bounded: one round, and not the loop.
//!
//! Of a quiet loop of one basic block the whole round is copied. Of another one it is the part up to the first
//! instruction that is not quiet, say the barrier behind which a tile is read, and the decision then leads into the
//! middle of the loop: `ptxas` makes a loop of one entry of that again, as if it peeled a round.
//!
//! ```text
//!     @skip bra EXIT              @skip bra SKIP                                  @skip bra DECIDE
//!     before                      before                                          before
//!                                 body                                            part
//!                         DECIDE: the decision                            DECIDE: the decision; @skip bra EXIT
//!                                 @!again bra EXIT                                bra REST
//! HEAD:                   HEAD:                                           HEAD:
//!     body                        body                                            part
//!                                                                         REST:   rest
//!     @again bra HEAD             @again bra HEAD                                 @again bra HEAD
//! EXIT:                   EXIT:                                           EXIT:
//!                         SKIP:   again = 0; bra DECIDE
//! ```
//!
//! Rules:
//! - What is copied is quiet as [`super::commit`] says, its branches lead forward and not out of it, and what comes
//!   from in front of the loop comes to the copy.
//! - Every thread that comes to the loop or goes round it comes to the decision, once, or it leaves.
//! - Nothing outside the loop knows `again`; where `skip` is asked for again, it keeps its value up to the decision.
//! - The body reads nothing that a form rewrites.

use super::commit::{HIDES, is_quiet, looks_at_memory};
use crate::analysis::{Access, Flow, for_each_register};
use crate::decode::{Function, Instruction, Opcode, Operand, SpecialReg};
use std::ops::Range;

/// Instructions of such a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FirstRound {
    /// What is copied: a round without the branch at its end, or its first part.
    pub(super) body: Range<u32>,
    /// Whether it is the round.
    pub(super) is_whole: bool,
    /// The guarded branch that leads round the loop.
    pub(super) skip: Option<u32>,
    /// No thread has branched since the place in front of the loop.
    pub(super) together: bool,
}

impl FirstRound {
    /// Returns the instruction behind what is copied: that which leads back, where it is the round.
    pub(super) const fn next(&self) -> u32 {
        self.body.end
    }

    /// Returns the loop that basic block `at` leads to, if its first round can be copied, or a part of it; `leaves`
    /// says from which blocks every way leaves.
    pub(super) fn behind(
        function: &Function,
        flow: &Flow,
        at: u32,
        leaves: &[bool],
    ) -> Option<Self> {
        Self::whole(function, flow, at).or_else(|| Self::part(function, flow, at, leaves))
    }

    fn whole(function: &Function, flow: &Flow, at: u32) -> Option<Self> {
        let ways = flow.successors(at);
        let is_loop = |from: u32, head: u32| {
            let own = flow.predecessors(head);
            own.len() == 2 && own.contains(&head) && own.contains(&from)
        };
        let head = entered(flow, at, is_loop)?;
        let exit = head + 1;
        let (block, behind) = (flow.blocks[head as usize], flow.blocks.get(exit as usize)?);
        let stays = |&s: &u32| s == head || s == exit;
        if behind.first != block.end || !flow.successors(head).iter().all(stays) {
            return None;
        }
        let again = function.body.get(block.end as usize - 1)?;
        if again.opcode != Opcode::Bra || again.guard.is_none() {
            return None;
        }
        let body = block.first..block.end - 1;
        let skip = match ways {
            [_] => None,
            _ if ways.contains(&exit) => Some(flow.blocks[at as usize].end - 1),
            _ => return None,
        };
        let round = Self {
            body,
            is_whole: true,
            skip,
            together: stay_together(flow, at),
        };
        round.is_fit(function, flow, at).then_some(round)
    }

    fn part(function: &Function, flow: &Flow, at: u32, leaves: &[bool]) -> Option<Self> {
        let is_loop = |from: u32, head: u32| {
            let own = flow.predecessors(head);
            own.len() > 1 && own.contains(&from)
        };
        let head = entered(flow, at, is_loop)?;
        let (last, end) = first_loud(function, flow, head)?;
        let is_closed = (head..last).all(|b| {
            let leads_on = |&s: &u32| b < s && s <= last;
            !flow.blocks[b as usize].leaves && flow.successors(b).iter().all(leads_on)
        });
        let body = flow.blocks[head as usize].first..end;
        let inside = &function.body[body.start as usize..end as usize];
        let mut branches = inside.iter().filter(|i| leads_elsewhere(i));
        let are_plain = branches.all(|i| {
            matches!(
                (i.opcode, &*i.operands),
                (Opcode::Bra, [Operand::Target(_)])
            )
        });
        let ways = flow.successors(at);
        let ends = flow.blocks[at as usize].end - 1;
        let skip = match ways {
            [_] => None,
            [_, _] if function.body[ends as usize].opcode == Opcode::Bra => {
                let round = *ways.iter().find(|way| **way != at + 1)?;
                (!leaves[round as usize]).then_some(ends)
            }
            _ => return None,
        };
        let round = Self {
            body,
            is_whole: false,
            skip,
            together: last == head && stay_together(flow, at),
        };
        (is_closed && are_plain && round.is_fit(function, flow, at)).then_some(round)
    }

    /// Returns whether the part may be copied, is worth it, and is reached from block `at`.
    fn is_fit(&self, function: &Function, flow: &Flow, at: u32) -> bool {
        let (start, end) = (self.body.start as usize, self.body.end as usize);
        let inside = &function.body[start..end];
        if inside.len() > HIDES as usize
            || !inside.iter().all(may_be_copied)
            || !inside.iter().any(looks_at_memory)
        {
            return false;
        }
        let last = flow.blocks[at as usize].end as usize - 1;
        let ends = &function.body[last];
        let keeps = match self.skip {
            Some(_) if self.is_whole => has_own_guard(function, &self.body),
            Some(_) => keeps_guard(ends, &function.body[last + 1..end]),
            None if flow.successors(at).len() == 1 => {
                !leads_elsewhere(ends) || matches!(ends.opcode, Opcode::Ret | Opcode::Exit)
            }
            // The other way leaves.
            None => true,
        };
        let before = &function.body[last + 1..start];
        keeps && before.iter().all(|i| is_quiet(i) && !leads_elsewhere(i))
    }
}

/// Returns whether threads that come to the end of a block go on together.
fn stay_together(flow: &Flow, block: u32) -> bool {
    flow.successors(block).len() == 1 && !flow.blocks[block as usize].leaves
}

/// Returns the first instruction that is not quiet, from a block on in the order of the text, and its block.
fn first_loud(function: &Function, flow: &Flow, head: u32) -> Option<(u32, u32)> {
    let most = flow.blocks[head as usize].first + HIDES;
    for (b, block) in (head..).zip(&flow.blocks[head as usize..]) {
        for n in block.first..block.end.min(most + 1) {
            if !is_quiet(&function.body[n as usize]) {
                return Some((b, n));
            }
        }
        if block.end > most {
            return None;
        }
    }
    None
}

/// Returns the head of a loop that `at` leads to, at most by way of one block, and that is right behind it in the text.
fn entered(flow: &Flow, at: u32, is_loop: impl Fn(u32, u32) -> bool) -> Option<u32> {
    let ways = flow.successors(at);
    let next = at + 1;
    if !ways.contains(&next) {
        return None;
    }
    if is_loop(at, next) {
        return Some(next);
    }
    let between = flow.predecessors(next) == [at] && flow.successors(next) == [next + 1];
    let leaves = flow.blocks[next as usize].leaves;
    (between && !leaves && is_loop(next, next + 1)).then_some(next + 1)
}

/// Returns whether an instruction does the same in a copy, and leaves no trace.
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

/// Returns whether only the loop knows the predicate of the branch behind its body.
fn has_own_guard(function: &Function, body: &Range<u32>) -> bool {
    let Some(guard) = function.body[body.end as usize].guard else {
        return false;
    };
    let others = (0_u32..)
        .zip(&function.body)
        .filter(|(n, _)| !(body.start..=body.end).contains(n));
    others.into_iter().all(|(_, i)| {
        let mut knows = i.guard.is_some_and(|g| g.reg == guard.reg);
        for_each_register(i, |r, _| knows |= r == guard.reg);
        !knows
    })
}

/// Returns whether a branch is a guarded one whose predicate these instructions leave alone.
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
