//! The values that a register may have at a place, as [`Sum`]s.
//!
//! Every instruction that chooses (`selp`, `slct`, `min`, `max`, a guarded write, branches that meet) gives all that it
//! chooses from. What is masked, looked up in a table, returned by a call or computed otherwise is a thing of its own
//! that equals nothing else. A number that goes through the block's shared memory is followed when the variable is
//! written as a whole only.

use super::body::{Body, Loop, Place};
use super::memory::{self, Where};
use super::sums::{Reach, Sum, Thing};
use crate::decode::{
    AddressBase, AtomOp, Instruction, Opcode, Operand, Part, RegId, ScalarType, StateSpace, Symbol,
};
use std::cell::RefCell;
use std::collections::HashMap;

/// Most values that are told apart.
const MAX_VALUES: usize = 8;
/// Steps back from a value to what it is made of; what lies further is not known.
const MAX_DEPTH: usize = 48;

/// A question about a register: what an instruction left in it, or what it held at a loop's head; in a round of a loop.
type Asked = (bool, u32, RegId, Option<u32>);

pub(super) struct Values<'a> {
    body: &'a Body<'a>,
    /// Answers; `None` while one is looked for.
    known: RefCell<HashMap<Asked, Option<Vec<Sum>>>>,
}

impl<'a> Values<'a> {
    pub(super) fn new(body: &'a Body<'a>) -> Self {
        Self {
            body,
            known: RefCell::default(),
        }
    }

    /// Returns the values of an operand of an instruction; with `within`, in terms of what registers held at this
    /// loop's head.
    pub(super) fn operand(&self, n: u32, operand: usize, within: Option<&Loop>) -> Vec<Sum> {
        self.of_operand(n, operand, within, 0)
    }

    /// Returns the addresses that an instruction reads or writes.
    pub(super) fn address(&self, n: u32, operand: usize) -> Vec<Sum> {
        let unknown = || vec![Sum::of(Thing::Operand(n, operand))];
        match self.body.instruction(n).operands.get(operand) {
            Some(Operand::Address { .. }) => self.of_operand(n, operand, None, 0),
            _ => unknown(),
        }
    }

    fn at(&self, r: RegId, at: Place, within: Option<&Loop>, depth: usize) -> Vec<Sum> {
        let reached = self.body.reached(r, at, within, true);
        let mut all = Vec::new();
        for n in reached.writes {
            let asked = (false, n, r, within.and_then(|l| l.head));
            let unknown = || Sum::of(Thing::Result(n, r));
            all.extend(self.ask(asked, depth, unknown, || {
                self.result(n, r, within, depth + 1)
            }));
        }
        for head in reached.heads {
            if within.is_some_and(|l| l.head == Some(head)) {
                all.push(Sum::of(Thing::Head(r)));
                continue;
            }
            let asked = (true, head, r, within.and_then(|l| l.head));
            let unknown = || Sum::of(Thing::Phi(head, r));
            all.extend(self.ask(asked, depth, unknown, || {
                self.at_head(head, r, within, depth + 1)
            }));
        }
        if reached.entry {
            all.push(Sum::of(Thing::Entry(r)));
        }
        let unknown = || Sum::of(Thing::Before(at.before, r));
        few(all).unwrap_or_else(|| vec![unknown()])
    }

    /// Answers from what is known, or finds out; what rests on itself, lies too deep or is too manifold is not known.
    fn ask(
        &self,
        asked: Asked,
        depth: usize,
        unknown: impl Fn() -> Sum,
        find: impl FnOnce() -> Option<Vec<Sum>>,
    ) -> Vec<Sum> {
        if let Some(known) = self.known.borrow().get(&asked) {
            return known.clone().unwrap_or_else(|| vec![unknown()]);
        }
        if depth > MAX_DEPTH || self.body.is_exhausted() {
            return vec![unknown()];
        }
        self.known.borrow_mut().insert(asked, None);
        let found = find().and_then(few).unwrap_or_else(|| vec![unknown()]);
        self.body.spend(found.len());
        let answer = Some(found.clone());
        self.known.borrow_mut().insert(asked, answer);
        found
    }

    /// Returns what a register may hold at a loop's head: what it held before, or less where each round takes something
    /// off, or more where each adds something.
    fn at_head(
        &self,
        head: u32,
        r: RegId,
        within: Option<&Loop>,
        depth: usize,
    ) -> Option<Vec<Sum>> {
        let inner = self.body.loop_at(head)?;
        let (mut grows, mut shrinks) = (false, false);
        for step in self.steps(&inner, r, depth) {
            grows |= step? > 0;
            shrinks |= step? < 0;
        }
        let reach = match (grows, shrinks) {
            (false, false) => Reach::Exact,
            (true, false) => Reach::AtLeast,
            (false, true) => Reach::AtMost,
            (true, true) => return None,
        };
        let mut all = Vec::new();
        for &p in self.body.flow.predecessors(head) {
            if !inner.tails.contains(&p) {
                all.extend(self.at(r, self.body.end_of(p), within, depth));
            }
        }
        if head == 0 {
            all.push(Sum::of(Thing::Entry(r)));
        }
        for sum in &mut all {
            sum.reach = sum.reach.and(reach)?;
        }
        Some(all)
    }

    /// Returns what a round of a loop may add to a register, for each way back; `None` is unknown.
    fn steps(&self, of: &Loop, r: RegId, depth: usize) -> Vec<Option<i64>> {
        let tails = of.tails.iter();
        tails
            .flat_map(|&t| self.steps_by(of, t, r, depth))
            .collect()
    }

    fn steps_by(&self, of: &Loop, tail: u32, r: RegId, depth: usize) -> Vec<Option<i64>> {
        let before = Sum::of(Thing::Head(r));
        let after = self.at(r, self.body.end_of(tail), Some(of), depth);
        let step = |sum: &Sum| sum.minus(&before)?.as_constant();
        after.iter().map(step).collect()
    }

    /// Returns the least and the most, by size, that every round of a loop that ends at `tail` adds to a register, or
    /// takes off, while no other round goes back.
    pub(super) fn steps_between(&self, of: &Loop, tail: u32, r: RegId) -> Option<(i64, i64)> {
        let known = |steps: Vec<Option<i64>>| steps.into_iter().collect::<Option<Vec<i64>>>();
        let here = known(self.steps_by(of, tail, r, 0))?;
        let all = known(self.steps(of, r, 0))?;
        let sign = here.first()?.signum();
        let goes = sign != 0
            && here.iter().all(|s| s.signum() == sign)
            && all.iter().all(|s| s.signum() != -sign);
        let size = |s: &&i64| s.unsigned_abs();
        goes.then_some((
            *here.iter().min_by_key(size)?,
            *all.iter().max_by_key(size)?,
        ))
    }

    /// Returns what a register may hold before a loop's first round.
    pub(super) fn before(&self, of: &Loop, r: RegId) -> Vec<Sum> {
        let Some(head) = of.head else {
            return vec![Sum::of(Thing::Entry(r))];
        };
        let outside = self.body.flow.predecessors(head).iter();
        let mut all: Vec<Sum> = outside
            .filter(|p| !of.tails.contains(p))
            .flat_map(|&p| self.at(r, self.body.end_of(p), None, 0))
            .collect();
        if head == 0 {
            all.push(Sum::of(Thing::Entry(r)));
        }
        all
    }

    fn of_operand(&self, n: u32, operand: usize, within: Option<&Loop>, depth: usize) -> Vec<Sum> {
        let i = self.body.instruction(n);
        let unknown = || vec![Sum::of(Thing::Operand(n, operand))];
        let plus = |all: Vec<Sum>, offset: i64| {
            let offset = Sum::constant(offset);
            let all: Option<Vec<Sum>> = all.iter().map(|s| s.plus(&offset)).collect();
            all.unwrap_or_else(unknown)
        };
        let named = |symbol: &Symbol| match symbol {
            Symbol::Variable(v) => vec![Sum::of(Thing::of_variable(*v))],
            _ => unknown(),
        };
        let register = |r: RegId| self.at(r, self.body.before(n), within, depth);
        match i.operands.get(operand) {
            Some(Operand::Reg(r)) => register(*r),
            Some(Operand::RegOffset(r, offset)) => plus(register(*r), *offset),
            Some(Operand::Int(k)) => vec![Sum::constant(normal(i, *k))],
            Some(Operand::Special(s)) => {
                Thing::of_special(*s, n).map_or_else(unknown, |t| vec![Sum::of(t)])
            }
            Some(Operand::Symbol { symbol, offset }) => plus(named(symbol), *offset),
            Some(Operand::Address { base, offset }) => match base {
                AddressBase::Reg(r) => plus(register(*r), *offset),
                AddressBase::Symbol(symbol) => plus(named(symbol), *offset),
                AddressBase::Absolute => unknown(),
            },
            _ => unknown(),
        }
    }

    /// Returns what an instruction leaves in a register; `None` is a thing of its own.
    fn result(&self, n: u32, r: RegId, within: Option<&Loop>, depth: usize) -> Option<Vec<Sum>> {
        let i = self.body.instruction(n);
        let operand = |at: usize| self.of_operand(n, at, within, depth);
        let both = |a: usize, b: usize| {
            let mut all = operand(a);
            all.extend(operand(b));
            Some(all)
        };
        let is_first = i.operands.first() == Some(&Operand::Reg(r));
        if !is_first {
            return match i.operands.first() {
                Some(Operand::RegPair(Some(first), _))
                    if *first == r && i.opcode == Opcode::Shfl =>
                {
                    shared_by_lanes(operand(1))
                }
                _ => None,
            };
        }
        match i.opcode {
            Opcode::Mov | Opcode::Cvta if i.mods.vector == 0 => Some(operand(1)),
            Opcode::Cvt if keeps_integer(i) => Some(operand(1)),
            _ if !is_integer(i) => None,
            Opcode::Add => each(&operand(1), &operand(2), Sum::plus),
            Opcode::Sub => each(&operand(1), &operand(2), Sum::minus),
            Opcode::Neg => each(&[Sum::constant(0)], &operand(1), Sum::minus),
            Opcode::Mul | Opcode::Mul24 if i.mods.part != Some(Part::Hi) => {
                each(&operand(1), &operand(2), Sum::product)
            }
            Opcode::Mad | Opcode::Mad24 if i.mods.part != Some(Part::Hi) => each(
                &few(each(&operand(1), &operand(2), Sum::product)?)?,
                &operand(3),
                Sum::plus,
            ),
            Opcode::Shl => each(&operand(1), &operand(2), |a, b| {
                let bits = u32::try_from(b.as_constant()?).ok().filter(|&b| b < 32)?;
                a.times(1 << bits)
            }),
            Opcode::Min | Opcode::Max | Opcode::Selp | Opcode::Slct => both(1, 2),
            Opcode::Shfl => shared_by_lanes(operand(1)),
            Opcode::Ld => self.loaded(n, i, depth),
            Opcode::Atom if self.takes_number(n, depth) => Some(vec![Sum::of(Thing::Ticket(n))]),
            _ => None,
        }
    }

    /// Returns whether an atomic operation takes numbers from a counter in global memory: who is given a lower one has
    /// started.
    fn takes_number(&self, n: u32, depth: usize) -> bool {
        let i = self.body.instruction(n);
        let adds = match i.mods.atom {
            Some(AtomOp::Inc) => true,
            Some(AtomOp::Add) => {
                let added = self.of_operand(n, 2, None, depth);
                added.iter().all(|s| s.as_constant().is_some_and(|k| k > 0))
            }
            _ => false,
        };
        let counter = self.of_operand(n, 1, None, depth);
        let is_one = counter.len() == 1 && counter.iter().all(|s| s.all(Thing::is_of_launch));
        adds && is_one && memory::is_global(self.body, n)
    }

    /// Returns what a load gives: a kernel's parameter, or what a variable of the block's shared memory is given.
    fn loaded(&self, n: u32, i: &Instruction, depth: usize) -> Option<Vec<Sum>> {
        let size = i.mods.types.first()?.size_bytes();
        match (i.mods.spaces.first(), i.operands.get(1)) {
            (
                Some(StateSpace::Param),
                Some(Operand::Address {
                    base: AddressBase::Symbol(Symbol::Param(p)),
                    offset,
                }),
            ) if self.body.function.is_entry => {
                Some(vec![Sum::of(Thing::Param(*p, *offset, size))])
            }
            (Some(StateSpace::Shared), Some(_)) => {
                self.left_in_shared(memory::place(self.body, n, 1)?, size, depth)
            }
            _ => None,
        }
    }

    /// Returns what the function writes to a place in the block's shared memory.
    fn left_in_shared(&self, at: Where, size: u32, depth: usize) -> Option<Vec<Sum>> {
        at.offset?;
        let mut all = Vec::new();
        for (m, i) in (0_u32..).zip(&self.body.function.body) {
            self.body.spend(1);
            let Some(place) = memory::shared_write(self.body, m) else {
                continue;
            };
            let place = place?;
            if place == at {
                let is_one = i.opcode == Opcode::St
                    && i.mods.vector == 0
                    && i.mods.types.first()?.size_bytes() == size;
                is_one.then_some(())?;
                all.extend(self.of_operand(m, 1, None, depth));
            } else if place.variable == at.variable {
                // Elsewhere in it, for certain only where it lies apart.
                memory::lie_apart(place, at).then_some(())?;
            }
        }
        (!all.is_empty()).then_some(all)
    }
}

/// Returns what a lane may get from another one: what is the same in the whole block.
fn shared_by_lanes(all: Vec<Sum>) -> Option<Vec<Sum>> {
    let is_same = |t: Thing| t.is_of_launch() || t.is_of_block();
    all.iter().all(|s| s.all(is_same)).then_some(all)
}

/// Returns the values in order without repetition; `None` when there are too many.
fn few(mut all: Vec<Sum>) -> Option<Vec<Sum>> {
    all.sort_unstable();
    all.dedup();
    (!all.is_empty() && all.len() <= MAX_VALUES).then_some(all)
}

/// Returns each of some values with each of others; `None` where one is unknown.
pub(super) fn each(
    a: &[Sum],
    b: &[Sum],
    join: impl Fn(&Sum, &Sum) -> Option<Sum>,
) -> Option<Vec<Sum>> {
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
    pairs.map(|(a, b)| join(a, b)).collect()
}

fn is_whole(t: ScalarType) -> bool {
    use ScalarType as T;
    matches!(t, T::B32 | T::U32 | T::S32 | T::B64 | T::U64 | T::S64)
}

/// Returns whether an instruction is over integers of 32 or 64 bits (16-bit ones overflow, and are not followed).
fn is_integer(i: &Instruction) -> bool {
    let is_wide = i.mods.part == Some(Part::Wide);
    let narrow = |t: &ScalarType| matches!(t, ScalarType::U16 | ScalarType::S16);
    let types = &i.mods.types;
    !types.is_empty() && types.iter().all(|t| is_whole(*t) || (is_wide && narrow(t)))
}

fn keeps_integer(i: &Instruction) -> bool {
    i.mods.types.len() == 2 && i.mods.types.iter().all(|t| is_whole(*t)) && !i.mods.sat
}

/// Returns a literal as the signed number that it stands for in an instruction of 32 bits.
#[allow(clippy::cast_possible_truncation, reason = "the lower half is meant")]
fn normal(i: &Instruction, k: i64) -> i64 {
    let is_short = i.mods.types.last().is_some_and(|t| t.size_bytes() == 4)
        && !(i.mods.part == Some(Part::Wide) && i.mods.types.contains(&ScalarType::U32));
    match is_short && u32::try_from(k).is_ok() {
        true => i64::from(k as u32 as i32),
        false => k,
    }
}
