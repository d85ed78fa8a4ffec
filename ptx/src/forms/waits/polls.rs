//! The instructions of a loop whose result only another block may change from round to round.
//!
//! - A *weak* read, as of memory that nobody else changes, is one where its address stays. From an address that moves
//!   it is a search: through a list, a table, an array.
//! - A *strong* read is one wherever it reads, and so is a weak one in a loop with a fence that other blocks see: after
//!   each fence it asks anew.
//! - An atomic operation that changes what it reads is one, too, but for three: an addition of a constant, which comes
//!   to an end by itself; `cas` against what was just read at that place, which fails only where somebody else
//!   succeeds; a lock, which is taken by a change that the same block takes back.

use super::body::{Body, Loop};
use super::memory::{self, Reads};
use super::rests::{Rests, Walk, decides};
use super::sums::{Reach, Sum, Thing};
use super::values::Values;
use crate::analysis::CallGraph;
use crate::decode::{AddressBase, AtomOp, Opcode, Operand, Program};
use std::collections::BTreeMap;

/// Returns how each function reads what other blocks may write, its callees included.
pub(super) fn of_functions(program: &Program, calls: &CallGraph, own: &[Reads]) -> Vec<Reads> {
    let mut all = vec![Reads::Never; program.functions.len()];
    for least in [Reads::Weakly, Reads::Strongly] {
        let reached = own.iter().map(|&r| (r >= least).then_some(())).collect();
        for (at, reads) in calls.spread(reached).into_iter().enumerate() {
            if reads.is_some() {
                all[at] = least;
            }
        }
    }
    all
}

/// Returns how a function itself reads what other blocks may write.
pub(super) fn own(body: &Body) -> Reads {
    let one = |n: u32| {
        let i = body.instruction(n);
        match i.opcode {
            Opcode::Atom if memory::is_of_grid(body, n) => match (i.mods.atom, i.operands.get(2)) {
                (Some(AtomOp::Add), Some(Operand::Int(k))) if *k != 0 => Reads::Never,
                _ => Reads::Strongly,
            },
            _ => memory::reads(body, n),
        }
    };
    body.numbers().map(one).max().unwrap_or_default()
}

/// Returns whether a function has an instruction that may be a poll.
pub(super) fn asks(body: &Body) -> bool {
    body.numbers().any(|n| match body.instruction(n).opcode {
        Opcode::Call => true,
        Opcode::Atom => memory::is_of_grid(body, n),
        _ => memory::reads(body, n) != Reads::Never,
    })
}

pub(super) struct Polls<'a, 'b> {
    pub(super) body: &'b Body<'a>,
    pub(super) values: &'b Values<'a>,
    /// How each function reads what other blocks may write.
    pub(super) functions: &'b [Reads],
    pub(super) calls: &'b CallGraph,
}

impl Polls<'_, '_> {
    /// Returns whether an instruction may be a poll at all.
    pub(super) fn may_poll(&self, n: u32) -> bool {
        match self.body.instruction(n).opcode {
            Opcode::Atom => memory::is_of_grid(self.body, n),
            Opcode::Call => self.called(n) != Reads::Never,
            _ => memory::reads(self.body, n) != Reads::Never,
        }
    }

    /// Returns how what a call reaches reads.
    fn called(&self, n: u32) -> Reads {
        match self.body.instruction(n).callee() {
            Some(f) => self.functions[f.0 as usize],
            None => {
                let taken = self.calls.address_taken.iter().zip(self.functions);
                let reads = taken.filter(|(taken, _)| **taken).map(|(_, reads)| *reads);
                reads.max().unwrap_or_default()
            }
        }
    }

    /// Returns the polls of a loop.
    pub(super) fn of(&self, of: &Loop) -> BTreeMap<u32, Reads> {
        let mut found = BTreeMap::new();
        let mut locks = Vec::new();
        let has_fence = self.body.instructions(of).any(|(_, i)| memory::orders(i));
        for (n, i) in self.body.instructions(of) {
            let poll = match i.opcode {
                Opcode::Atom if memory::is_of_grid(self.body, n) => {
                    let poll = self.atomic(of, n);
                    if poll == Reads::Never {
                        locks.push(self.values.address(n, 1));
                    }
                    poll
                }
                Opcode::Call => self.called(n),
                _ => memory::reads(self.body, n),
            };
            let poll = match poll {
                Reads::Weakly if has_fence && i.opcode == Opcode::Ld => Reads::Strongly,
                poll => poll,
            };
            let is_poll = match poll {
                Reads::Never => false,
                Reads::Weakly => of.head.is_none() || self.stays(of, n),
                Reads::Strongly => true,
            };
            if is_poll {
                found.insert(n, poll);
            }
        }
        // A read of a place that the loop itself writes is no poll, unless the value written depends on a poll.
        let all = found.clone();
        let own = |n: u32| {
            let i = self.body.instruction(n);
            let at = || self.values.address(n, 1);
            match i.opcode {
                Opcode::Ld => {
                    (!locks.is_empty() && locks.contains(&at()))
                        || memory::reads(self.body, n) == Reads::Weakly && self.changes(of, n, &all)
                }
                _ => false,
            }
        };
        found.retain(|&n, _| !own(n));
        found
    }

    /// Returns whether an instruction reads the same place in every round.
    fn stays(&self, of: &Loop, n: u32) -> bool {
        let i = self.body.instruction(n);
        let nothing = BTreeMap::new();
        let walk = Walk::new(self.body, of, &nothing).until_it_moves();
        let rests = match (i.opcode, i.operands.get(1)) {
            (Opcode::Call, _) => walk.write(n),
            (_, Some(Operand::Address { base, .. })) => match base {
                AddressBase::Reg(r) => walk.register(*r, self.body.before(n)),
                _ => Rests::default(),
            },
            _ => walk.operands(n),
        };
        !rests.moves()
    }

    /// Returns whether the loop stores where a load reads, and what it stores rests on no other poll.
    fn changes(&self, of: &Loop, load: u32, polls: &BTreeMap<u32, Reads>) -> bool {
        let at = self.values.address(load, 1);
        let mut stores = self.body.instructions(of).filter(|&(n, i)| {
            i.opcode == Opcode::St
                && memory::is_global(self.body, n)
                && self.values.address(n, 0) == at
        });
        let is_free = |n: u32| {
            let rests = Walk::new(self.body, of, polls).write(n);
            rests.polls.iter().all(|&poll| poll == load)
        };
        let first = stores.next();
        first.is_some_and(|(n, _)| is_free(n)) && stores.all(|(n, _)| is_free(n))
    }

    /// Returns how an atomic operation on global memory reads.
    fn atomic(&self, of: &Loop, n: u32) -> Reads {
        let i = self.body.instruction(n);
        let constants = |m: u32, at: usize| -> Option<Vec<i64>> {
            let values = self.values.operand(m, at, None);
            values.iter().map(Sum::as_constant).collect()
        };
        match i.mods.atom {
            Some(AtomOp::Add) => {
                let Some(added) = constants(n, 2) else {
                    return Reads::Strongly;
                };
                // What the loop itself takes back does not come to an end.
                let takes_back = |(m, other): (u32, &crate::decode::Instruction)| {
                    let operand = match other.opcode {
                        Opcode::Atom => 2,
                        Opcode::Red => 1,
                        _ => return false,
                    };
                    let place = memory::address_operand(other);
                    other.mods.atom == Some(AtomOp::Add)
                        && !have_other_roots(
                            &self.values.address(n, 1),
                            &self.values.address(m, place),
                        )
                        && constants(m, operand)
                            .is_none_or(|all| all.iter().any(|k| k.signum() != added[0].signum()))
                };
                match added[0] == 0 || self.body.instructions(of).any(takes_back) {
                    true => Reads::Strongly,
                    false => Reads::Never,
                }
            }
            Some(AtomOp::Inc | AtomOp::Dec) => match constants(n, 2) {
                Some(all) if all.iter().all(|&k| k != 0) => Reads::Never,
                _ => Reads::Strongly,
            },
            Some(AtomOp::Cas) => {
                let compare = self.values.operand(n, 2, None);
                if compare == self.values.operand(n, 3, None) {
                    return Reads::Strongly;
                }
                let is_same = compare.iter().all(|s| s.all(Thing::is_of_launch));
                match (is_same && self.is_lock(of, n)) || self.retries(of, n) || !self.stays(of, n)
                {
                    true => Reads::Never,
                    false => Reads::Strongly,
                }
            }
            Some(AtomOp::Exch | AtomOp::Or | AtomOp::And | AtomOp::Max | AtomOp::Min)
                if self.is_lock(of, n) =>
            {
                Reads::Never
            }
            _ => Reads::Strongly,
        }
    }

    /// Returns whether `cas` compares with what was read at that place.
    fn retries(&self, of: &Loop, n: u32) -> bool {
        let Some(Operand::Reg(compare)) = self.body.instruction(n).operands.get(2) else {
            return false;
        };
        let nothing = BTreeMap::new();
        let walk = Walk::new(self.body, of, &nothing);
        let rests = walk.register(*compare, self.body.before(n));
        let at = self.values.address(n, 1);
        let is_it = |m: &u32| *m == n || self.values.address(*m, 1) == at;
        rests.reads.iter().any(is_it)
    }

    /// Returns whether a loop takes a lock with an atomic operation: the block writes there again once it has it, and
    /// no block does that without having had it.
    fn is_lock(&self, of: &Loop, n: u32) -> bool {
        let at = self.values.address(n, 1);
        if at.iter().any(|s| s.reach != Reach::Exact) {
            return false;
        }
        let taken = self.values.operand(n, 2, None);
        self.body.spend(self.body.function.body.len());
        self.body.numbers().any(|m| {
            let i = self.body.instruction(m);
            let operand = match (i.opcode, i.mods.atom) {
                (Opcode::St, _) => 1,
                (Opcode::Atom, Some(AtomOp::Cas)) => 3,
                (Opcode::Atom, _) => 2,
                (Opcode::Red, _) => 1,
                _ => return false,
            };
            if m == n || !memory::is_global(self.body, m) {
                return false;
            }
            let is_cas = self.body.instruction(n).mods.atom == Some(AtomOp::Cas);
            let gives_back = !is_cas
                || i.opcode == Opcode::Red
                || self.values.operand(m, operand, None) == taken
                || !taken.iter().all(|s| s.as_constant().is_some());
            gives_back
                && self.values.address(m, memory::address_operand(i)) == at
                && self.comes_after(of, n, m)
        })
    }

    /// Returns whether whoever comes to `m` belongs to a block that came by `n`: every way there leads past `n`, or
    /// only a condition that differs between threads leads round it.
    fn comes_after(&self, of: &Loop, n: u32, m: u32) -> bool {
        let (from, to) = (self.body.block_of(n), self.body.block_of(m));
        if from == to || self.body.dominates(from, to) {
            return true;
        }
        let reaching = |block: u32| {
            let mut marked = vec![false; self.body.flow.blocks.len()];
            marked[block as usize] = true;
            self.body.spend(marked.len());
            self.body.flow.reaching(&marked)
        };
        let (to_n, to_m) = (reaching(from), reaching(to));
        if to_n[to as usize] || !to_m[from as usize] {
            return false;
        }
        (0_u32..).take(self.body.flow.blocks.len()).all(|b| {
            let next = self.body.flow.successors(b);
            let goes_there = next.iter().any(|&s| to_n[s as usize]);
            let goes_round = next.iter().any(|&s| !to_n[s as usize] && to_m[s as usize]);
            !(goes_there && goes_round) || of.has(b) || self.is_of_threads(b)
        })
    }

    /// Returns whether the branch at a block's end differs between the threads of a block only.
    fn is_of_threads(&self, block: u32) -> bool {
        let last = self.body.end_of(block).before - 1;
        let Some(register) = decides(self.body.instruction(last)) else {
            return false;
        };
        let reached = self
            .body
            .reached(register, self.body.before(last), None, false);
        let [setp] = reached.writes.as_slice() else {
            return false;
        };
        let i = self.body.instruction(*setp);
        let is_of_threads = |at: usize| {
            let values = self.values.operand(*setp, at, None);
            let is = |t: Thing| t.is_of_launch() || matches!(t, Thing::Thread(_));
            values.iter().all(|s| s.all(is))
        };
        i.opcode == Opcode::Setp && i.mods.bool_op.is_none() && is_of_threads(1) && is_of_threads(2)
    }
}

/// Returns whether addresses start from different parameters or variables.
fn have_other_roots(a: &[Sum], b: &[Sum]) -> bool {
    let start = |sum: &Sum| {
        sum.terms.iter().find_map(|t| match (t.0.as_slice(), t.1) {
            ([thing @ (Thing::Param(_, _, 8) | Thing::Variable(_))], 1) => Some(*thing),
            _ => None,
        })
    };
    let differ = |a: &Sum, b: &Sum| start(a).zip(start(b)).is_some_and(|(a, b)| a != b);
    a.iter().all(|a| b.iter().all(|b| differ(a, b)))
}
