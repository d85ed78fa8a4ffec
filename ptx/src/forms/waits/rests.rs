//! What a value in a loop rests on: which reads of memory that others write, and what the loop itself carries on.
//!
//! The answer follows registers, the block's shared memory, a thread's local memory, calls, and the branches that
//! decide which of several writes a use sees.

use super::body::{Body, Loop, Place};
use super::memory::{self, Reads};
use crate::analysis::{Access, for_each_register};
use crate::decode::{
    AddressBase, Instruction, Opcode, Operand, RegId, SpecialReg, StateSpace, Symbol,
};
use std::collections::{BTreeMap, BTreeSet};

/// What a value rests on.
#[derive(Default)]
pub(super) struct Rests {
    /// The polls of the loop, by instruction.
    pub(super) polls: BTreeSet<u32>,
    /// Registers that a round takes over from the one before.
    pub(super) carried: BTreeSet<RegId>,
    /// Stores of the loop to memory of the thread or the block, which a later round may load.
    pub(super) stores: BTreeSet<u32>,
    /// Reads of memory that others write which are no polls, and atomic operations.
    pub(super) reads: BTreeSet<u32>,
    /// Reads of a clock.
    pub(super) clock: bool,
}

impl Rests {
    /// Returns whether anything of it changes from round to round.
    pub(super) fn moves(&self) -> bool {
        let is_empty = self.carried.is_empty() && self.stores.is_empty() && self.reads.is_empty();
        !is_empty || self.clock
    }
}

/// The walk from values back to what they rest on, in one loop.
pub(super) struct Walk<'a, 'b> {
    body: &'b Body<'a>,
    of: &'b Loop,
    /// What counts as a poll; the walk ends there.
    polls: &'b BTreeMap<u32, Reads>,
    found: Rests,
    registers: BTreeSet<(RegId, u32)>,
    seen: BTreeSet<u32>,
    queue: Vec<u32>,
    merged: bool,
    /// It ends with the first thing that changes from round to round.
    stops: bool,
}

impl<'a, 'b> Walk<'a, 'b> {
    pub(super) fn new(body: &'b Body<'a>, of: &'b Loop, polls: &'b BTreeMap<u32, Reads>) -> Self {
        Self {
            body,
            of,
            polls,
            found: Rests::default(),
            registers: BTreeSet::new(),
            seen: BTreeSet::new(),
            queue: Vec::new(),
            merged: false,
            stops: false,
        }
    }

    /// Ends the walk with the first thing that changes from round to round.
    pub(super) fn until_it_moves(mut self) -> Self {
        self.stops = true;
        self
    }

    /// Returns what a register's value at a place rests on.
    pub(super) fn register(mut self, register: RegId, at: Place) -> Rests {
        self.follow(register, at);
        self.finish()
    }

    /// Returns what the values that an instruction reads rest on.
    pub(super) fn operands(mut self, n: u32) -> Rests {
        self.reads_of(n);
        self.finish()
    }

    /// Returns what a write of the loop rests on.
    pub(super) fn write(mut self, n: u32) -> Rests {
        self.push(n);
        self.finish()
    }

    fn finish(mut self) -> Rests {
        while let Some(n) = self.queue.pop() {
            if self.body.is_exhausted() || (self.stops && self.found.moves()) {
                break;
            }
            self.step(n);
        }
        self.found
    }

    fn push(&mut self, n: u32) {
        self.body.spend(1);
        if self.seen.insert(n) {
            self.queue.push(n);
        }
    }

    fn follow(&mut self, register: RegId, at: Place) {
        if !self.registers.insert((register, at.before)) {
            return;
        }
        let reached = self.body.reached(register, at, Some(self.of), false);
        let own: Vec<u32> = (reached.writes.iter().copied())
            .filter(|&n| self.of.has(self.body.block_of(n)))
            .collect();
        let mut ways = own.len();
        for n in own {
            self.push(n);
        }
        // A loop with several entries has no rounds: whatever it writes may be carried.
        if !reached.heads.is_empty() || self.of.head.is_none() {
            let all = self.body.writers_in(register, self.of);
            ways += usize::from(!all.is_empty());
            if !all.is_empty() && self.found.carried.insert(register) {
                for n in all {
                    self.push(n);
                }
            }
        }
        if ways > 1 {
            self.branches();
        }
    }

    /// Adds what decides between ways through a round; a branch that may leave the loop does not.
    fn branches(&mut self) {
        if std::mem::replace(&mut self.merged, true) {
            return;
        }
        for &b in &self.of.blocks {
            let stays = self.body.flow.successors(b).iter().all(|&s| self.of.has(s));
            let last = self.body.end_of(b).before - 1;
            if stays && let Some(register) = decides(self.body.instruction(last)) {
                self.follow(register, self.body.before(last));
            }
        }
    }

    fn reads_of(&mut self, n: u32) {
        let mut all = Vec::new();
        for_each_register(self.body.instruction(n), |r, access| {
            if access == Access::Read {
                all.push(r);
            }
        });
        for r in all {
            self.follow(r, self.body.before(n));
        }
    }

    fn step(&mut self, n: u32) {
        if self.polls.contains_key(&n) {
            self.found.polls.insert(n);
            return;
        }
        let i = self.body.instruction(n);
        self.found.clock |= reads_clock(i);
        match i.opcode {
            Opcode::Atom if memory::is_of_grid(self.body, n) => {
                self.found.reads.insert(n);
            }
            Opcode::Call => self.passed(n),
            Opcode::Ld | Opcode::LdMatrix | Opcode::WmmaLoad => self.loaded(n),
            _ if memory::reads(self.body, n) != Reads::Never => {
                self.found.reads.insert(n);
            }
            _ => {}
        }
        self.reads_of(n);
    }

    /// Adds what a load gives that the loop itself stored.
    fn loaded(&mut self, n: u32) {
        let i = self.body.instruction(n);
        if memory::reads(self.body, n) != Reads::Never {
            self.found.reads.insert(n);
            return;
        }
        if let Some(Operand::Address {
            base: AddressBase::Symbol(Symbol::Variable(v)),
            ..
        }) = i.operands.get(1)
            && self.body.program.variables[v.0 as usize].space == StateSpace::Param
        {
            return self.returned(v.0);
        }
        let at = memory::place(self.body, n, 1);
        // A generic address of the block's scope may be one of shared memory.
        let anywhere = at.is_none() && memory::is_global(self.body, n);
        let gives = |m: u32, other: &Instruction| {
            self.may_give(m, other, at) || (anywhere && memory::writes_global(self.body, m))
        };
        let stores: Vec<u32> = (self.body.instructions(self.of))
            .filter(|&(m, other)| gives(m, other))
            .map(|(m, _)| m)
            .collect();
        self.body.spend(self.of.blocks.len() + stores.len());
        for m in stores {
            self.found.stores.insert(m);
            self.push(m);
        }
    }

    /// Returns whether an instruction may have left what a load of the thread's or the block's memory gives.
    fn may_give(&self, m: u32, other: &Instruction, at: Option<memory::Where>) -> bool {
        let writes = match other.opcode {
            Opcode::St | Opcode::StMatrix | Opcode::WmmaStore | Opcode::Atom | Opcode::Red => {
                !memory::is_global(self.body, m)
            }
            // A callee may be handed the address.
            Opcode::Call => self.polls.contains_key(&m),
            _ => memory::shared_write(self.body, m).is_some(),
        };
        let place = memory::place(self.body, m, memory::address_operand(other));
        writes
            && match at.zip(place.filter(|_| memory::is_narrow(other))) {
                Some((a, b)) => a.variable == b.variable && !memory::lie_apart(a, b),
                None => true,
            }
    }

    /// Adds the calls of the loop that return into a variable.
    fn returned(&mut self, variable: u32) {
        let calls: Vec<u32> = (self.body.instructions(self.of))
            .filter(|(_, i)| i.opcode == Opcode::Call && names(i.operands.first(), variable))
            .map(|(m, _)| m)
            .collect();
        self.body.spend(self.of.blocks.len());
        for m in calls {
            self.push(m);
        }
    }

    /// Adds what a call is passed in variables.
    fn passed(&mut self, n: u32) {
        let passed = self.body.instruction(n).operands.get(2);
        let stores: Vec<u32> = (self.body.instructions(self.of))
            .filter(|(_, i)| {
                i.opcode == Opcode::St
                    && matches!(
                        i.operands.first(),
                        Some(Operand::Address { base: AddressBase::Symbol(Symbol::Variable(v)), .. })
                            if names(passed, v.0)
                    )
            })
            .map(|(m, _)| m)
            .collect();
        self.body.spend(self.of.blocks.len());
        for m in stores {
            self.push(m);
        }
    }
}

/// Returns whether a list of arguments names a variable.
fn names(arguments: Option<&Operand>, variable: u32) -> bool {
    let is_it = |o: &Operand| matches!(o, Operand::Symbol { symbol: Symbol::Variable(v), .. } if v.0 == variable);
    match arguments {
        Some(Operand::Arguments(all)) => all.iter().any(is_it),
        _ => false,
    }
}

/// Returns the register that decides where a block goes on.
pub(super) fn decides(i: &Instruction) -> Option<RegId> {
    match (i.guard, i.opcode, i.operands.first()) {
        (_, Opcode::BrxIdx, Some(Operand::Reg(r))) => Some(*r),
        (Some(guard), Opcode::Bra | Opcode::Ret | Opcode::Exit, _) => Some(guard.reg),
        _ => None,
    }
}

fn reads_clock(i: &Instruction) -> bool {
    use SpecialReg as S;
    i.operands.iter().any(|o| {
        matches!(
            o,
            Operand::Special(
                S::Clock
                    | S::ClockHi
                    | S::Clock64
                    | S::Globaltimer
                    | S::GlobaltimerLo
                    | S::GlobaltimerHi
            )
        )
    })
}
