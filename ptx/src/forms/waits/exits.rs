//! Whether a loop comes to an end by itself.
//!
//! It does when every round passes an exit that its own progress opens. Where a loop has strong polls, progress is a
//! register that every round moves in one direction, towards a bound that ends it soon ([`super::bounds`]); a clock; a
//! number that an atomic addition takes.
//! Where it has weak ones alone, whatever a round hands on to the next and no poll decides is progress, because reading
//! memory weakly in order to wait is a race.

use super::body::{Body, Loop, Place};
use super::memory::Reads;
use super::rests::{Rests, Walk, decides};
use super::values::Values;
use crate::decode::{BoolOp, Opcode, Operand, RegId, ScalarType};
use std::collections::BTreeMap;

/// Steps from an exit's predicate to the comparisons that it is made of.
const MAX_DEPTH: usize = 16;

/// How a predicate is asked for.
#[derive(Clone, Copy)]
struct Asked {
    /// The end of the rounds that are looked at.
    tail: u32,
    /// Whether it has to keep its value from then on.
    lasts: bool,
    /// Steps from the exit.
    depth: usize,
}

pub(super) struct Exits<'a, 'b> {
    pub(super) body: &'b Body<'a>,
    pub(super) values: &'b Values<'a>,
    pub(super) of: &'b Loop,
    pub(super) polls: &'b BTreeMap<u32, Reads>,
    /// Whether polls were looked for: before, an atomic addition may be one.
    pub(super) knows_polls: bool,
    /// Whether only progress counts that leads to a bound.
    pub(super) is_strict: bool,
}

impl Exits<'_, '_> {
    /// Returns whether the loop comes to an end by itself.
    pub(super) fn ends(&self) -> bool {
        let by = |tail: u32| {
            let on_the_way = |e: &&u32| self.body.dominates(**e, tail);
            (self.of.blocks.iter().filter(on_the_way)).any(|&e| self.opens(e, tail))
        };
        self.of.head.is_some() && self.of.tails.iter().all(|&t| by(t))
    }

    /// Returns whether a block's last instruction leaves the loop in the end.
    fn opens(&self, block: u32, tail: u32) -> bool {
        self.body.spend(1);
        let last = self.body.end_of(block).before - 1;
        let i = self.body.instruction(last);
        let outside = |target: u32| {
            (target as usize) >= self.body.function.body.len()
                || !self.of.has(self.body.block_of(target))
        };
        let Some(guard) = i.guard else {
            return false;
        };
        let taken = match (i.opcode, i.operands.first()) {
            (Opcode::Ret | Opcode::Exit, _) => true,
            (Opcode::Bra, Some(Operand::Target(t))) => outside(*t),
            _ => return false,
        };
        let wanted = match (taken, outside(last + 1)) {
            (true, true) => return true,
            (true, false) => !guard.negated,
            (false, true) => guard.negated,
            (false, false) => return false,
        };
        let at = self.body.before(last);
        let whole = Asked {
            tail,
            lasts: false,
            depth: 0,
        };
        self.becomes((guard.reg, at), wanted, whole)
    }

    /// Returns whether a predicate comes to have a value.
    fn becomes(&self, predicate: (RegId, Place), wanted: bool, asked: Asked) -> bool {
        let (register, at) = predicate;
        let reached = self.body.reached(register, at, Some(self.of), false);
        let [n] = reached.writes.as_slice() else {
            return !self.is_strict && self.changes(&self.walk().register(register, at));
        };
        let i = self.body.instruction(*n);
        if !reached.heads.is_empty()
            || i.guard.is_some()
            || !self.of.has(self.body.block_of(*n))
            || asked.depth > MAX_DEPTH
        {
            return !self.is_strict && self.changes(&self.walk().register(register, at));
        }
        let is_predicate = i.mods.types.as_slice() == [ScalarType::Pred];
        // Both parts of a conjunction have to hold at the same time.
        let is_both = match i.opcode {
            Opcode::And if is_predicate => wanted,
            Opcode::Or if is_predicate => !wanted,
            Opcode::Setp => match i.mods.bool_op {
                Some(BoolOp::And) => wanted,
                Some(BoolOp::Or) => !wanted,
                _ => false,
            },
            _ => false,
        };
        let part = Asked {
            lasts: asked.lasts || is_both,
            depth: asked.depth + 1,
            ..asked
        };
        let operand = |at: usize, wanted: bool| match i.operands.get(at) {
            Some(Operand::Reg(r)) => self.becomes((*r, self.body.before(*n)), wanted, part),
            Some(Operand::NotReg(r)) => self.becomes((*r, self.body.before(*n)), !wanted, part),
            _ => false,
        };
        match i.opcode {
            Opcode::Mov if is_predicate => operand(1, wanted),
            Opcode::Not if is_predicate => operand(1, !wanted),
            Opcode::And | Opcode::Or if is_predicate && is_both => {
                operand(1, wanted) && operand(2, wanted)
            }
            Opcode::And | Opcode::Or if is_predicate => operand(1, wanted) || operand(2, wanted),
            Opcode::Setp => {
                let is_second = matches!(
                    i.operands.first(), Some(Operand::RegPair(_, Some(b))) if *b == register);
                let compared = |wanted: bool| self.compared(*n, wanted != is_second, part);
                match i.mods.bool_op {
                    None => compared(wanted),
                    Some(_) if is_second => false,
                    Some(BoolOp::And | BoolOp::Or) if is_both => {
                        compared(wanted) && operand(3, wanted)
                    }
                    Some(BoolOp::And | BoolOp::Or) => compared(wanted) || operand(3, wanted),
                    Some(BoolOp::Xor) => false,
                }
            }
            _ => !self.is_strict && self.changes(&self.walk().write(*n)),
        }
    }

    fn walk(&self) -> Walk<'_, '_> {
        Walk::new(self.body, self.of, self.polls)
    }

    /// Returns whether something that no poll decides goes on from round to round.
    fn changes(&self, rests: &Rests) -> bool {
        let is_free = |n: u32| self.walk().write(n).polls.is_empty();
        let carried = |r: &RegId| {
            let all = self.body.writers_in(*r, self.of);
            all.into_iter().all(is_free)
        };
        rests.clock
            || !rests.reads.is_empty()
            || rests.carried.iter().any(carried)
            || rests.stores.iter().any(|&n| is_free(n))
    }

    /// Returns whether a comparison comes to have a value.
    fn compared(&self, n: u32, wanted: bool, asked: Asked) -> bool {
        self.arrives(n, wanted, asked.tail, asked.lasts)
            || (!self.is_strict && self.changes(&self.walk().operands(n)))
    }

    /// Returns the polls that decide where the loop's rounds go, or whether it ends.
    pub(super) fn deciding(&self) -> Vec<u32> {
        let mut found = std::collections::BTreeSet::new();
        for &b in &self.of.blocks {
            let last = self.body.end_of(b).before - 1;
            if let Some(register) = decides(self.body.instruction(last)) {
                let rests = self.walk().register(register, self.body.before(last));
                found.extend(rests.polls);
            }
        }
        found.into_iter().collect()
    }
}
