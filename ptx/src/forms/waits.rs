//! Loops in which a block waits for another one.
//!
//! A block that waits for one that has not started can only be launched together with it: a barrier of the whole grid
//! made of atomic counters, a flag that a later block sets. Such a kernel stays whole. A block that waits for *earlier*
//! ones alone (decoupled look-back: Merrill and Garland, «Single-pass parallel prefix scan», 2016) may take any form,
//! because blocks start in ascending order in all of them. A lock is no such wait: who holds it has started, and runs
//! on.
//!
//! A *wait* is a natural loop that writes no global memory and whose every way out depends on nothing that changes from
//! round to round but loads of global memory from addresses that stay: it can only end when somebody else writes.
//! Reading atomics (`atom.add` of 0, `atom.cas` that writes what it compares with) are such loads. The wait is for
//! earlier blocks when the address grows with the block's number, or with a number taken from a counter, and something
//! is subtracted from it; that it is subtracted enough is the program's word. Loads and stores of system scope talk to
//! the host or to other GPUs, and such waits are for the whole launch.

use super::Reason;
use super::facts::Found;
use crate::analysis::{Access, Flow, dominators, for_each_register};
use crate::decode::{
    AddressBase, AtomOp, Function, Instruction, MemoryOrder, Opcode, Operand, Program, RegId,
    Scope, SpecialReg, StateSpace,
};
use std::cell::Cell;

/// Instructions looked at in all loops of a function together; a function with deeper nests is refused.
const MAX_WORK: usize = 1 << 23;
/// Steps back from an address to what it is made of.
const MAX_STEPS: usize = 512;

/// Looks for waits in every function; returns the first reason that each gives against cutting its launch.
pub(super) fn judge_all(program: &Program) -> Vec<Option<Found>> {
    program.functions.iter().map(judge).collect()
}

fn judge(function: &Function) -> Option<Found> {
    if !function.body.iter().any(may_read_global) || !branches_back(function) {
        return None;
    }
    let flow = Flow::new(function);
    let mut search = Search::new(function, &flow);
    for (head, tails) in loops(&flow) {
        search.enter(head, &tails);
        let load = search.wait();
        if search.is_exhausted() {
            return Some((Reason::LoopsTooDeep, function.span.start));
        }
        let Some(load) = load else { continue };
        let i = &function.body[load as usize];
        let what = i.mnemonic.to_string();
        let is_sys = i.mods.scope == Some(Scope::Sys) || i.mods.order == Some(MemoryOrder::Mmio);
        let reason = match is_sys {
            true => Reason::SystemWait(what),
            false if search.is_for_earlier(load) => continue,
            false => Reason::BlockWait(what),
        };
        return Some((reason, i.span.start));
    }
    None
}

fn branches_back(function: &Function) -> bool {
    let backwards = |n: usize, t: u32| t as usize <= n;
    function.body.iter().enumerate().any(|(n, i)| {
        i.operands.iter().any(|o| match o {
            Operand::Target(t) => backwards(n, *t),
            Operand::BranchTable(t) => {
                let table = function.branch_tables.get(*t as usize);
                table.into_iter().flatten().any(|&t| backwards(n, t))
            }
            _ => false,
        })
    })
}

/// Returns the heads of natural loops, each with the blocks that branch back to it.
fn loops(flow: &Flow) -> Vec<(u32, Vec<u32>)> {
    let tree = dominators(flow);
    let mut found: Vec<(u32, Vec<u32>)> = Vec::new();
    for head in (0_u32..).take(flow.blocks.len()) {
        let tails: Vec<u32> = flow
            .predecessors(head)
            .iter()
            .copied()
            .filter(|&p| tree.holds(p) && tree.dominates(head, p))
            .collect();
        if !tails.is_empty() {
            // Each way back is a loop of its own too: `continue` in a waiting loop shares its head.
            if tails.len() > 1 {
                found.extend(tails.iter().map(|&t| (head, vec![t])));
            }
            found.push((head, tails));
        }
    }
    found
}

fn is_global(i: &Instruction) -> bool {
    matches!(
        i.mods.spaces.first(),
        None | Some(StateSpace::Generic | StateSpace::Global)
    )
}

fn may_read_global(i: &Instruction) -> bool {
    matches!(i.opcode, Opcode::Ld | Opcode::Atom) && is_global(i)
}

/// Returns whether an atomic operation leaves memory as it was.
fn only_reads(i: &Instruction) -> bool {
    let operand = |at: usize| i.operands.get(at);
    match i.mods.atom {
        Some(AtomOp::Add | AtomOp::Or | AtomOp::Xor) => operand(2) == Some(&Operand::Int(0)),
        Some(AtomOp::And) => operand(2) == Some(&Operand::Int(-1)),
        Some(AtomOp::Cas) => operand(2).is_some() && operand(2) == operand(3),
        _ => false,
    }
}

/// What a value in a loop rests on.
#[derive(Debug, Clone, Copy, Default)]
struct Sources {
    /// A load of global memory from an address that stays.
    load: Option<u32>,
    /// Something of the loop's own that changes.
    changes: bool,
}

struct Search<'a> {
    function: &'a Function,
    flow: &'a Flow,
    block_of: Vec<u32>,
    /// Instructions that write register `r`: `writers[starts[r]..starts[r + 1]]`.
    writers: Vec<u32>,
    starts: Vec<u32>,
    /// Number of the loop that a block was last found in.
    member: Vec<u32>,
    number: u32,
    blocks: Vec<u32>,
    /// Steps taken so far.
    work: Cell<usize>,
}

impl<'a> Search<'a> {
    fn new(function: &'a Function, flow: &'a Flow) -> Self {
        let mut starts = vec![0_u32; function.registers.len() + 1];
        let each = |each: &mut dyn FnMut(usize, u32)| {
            for (n, i) in (0_u32..).zip(&function.body) {
                for_each_register(i, |r, access| {
                    if access != Access::Read {
                        each(r.0 as usize, n);
                    }
                });
            }
        };
        each(&mut |r, _| starts[r + 1] += 1);
        for r in 1..starts.len() {
            starts[r] += starts[r - 1];
        }
        let mut next = starts.clone();
        let mut writers = vec![0; next.last().map_or(0, |&n| n as usize)];
        each(&mut |r, n| {
            writers[next[r] as usize] = n;
            next[r] += 1;
        });
        let mut block_of = vec![0; function.body.len()];
        for (b, block) in (0_u32..).zip(&flow.blocks) {
            block_of[block.first as usize..block.end as usize].fill(b);
        }
        Self {
            function,
            flow,
            block_of,
            writers,
            starts,
            member: vec![0; flow.blocks.len()],
            number: 0,
            blocks: Vec::new(),
            work: Cell::new(0),
        }
    }

    fn writers_of(&self, register: RegId) -> &[u32] {
        let at = |r: usize| self.starts[r] as usize;
        &self.writers[at(register.0 as usize)..at(register.0 as usize + 1)]
    }

    /// Returns the writes of a register within the loop.
    fn own_writers(&self, register: RegId) -> Vec<u32> {
        let all = self.writers_of(register);
        self.work.set(self.work.get() + all.len() + 1);
        all.iter().copied().filter(|&n| self.has(n)).collect()
    }

    fn is_exhausted(&self) -> bool {
        self.work.get() > MAX_WORK
    }

    /// Finds the blocks of a natural loop.
    fn enter(&mut self, head: u32, tails: &[u32]) {
        self.number += 1;
        self.blocks.clear();
        self.member[head as usize] = self.number;
        self.blocks.push(head);
        for &t in tails {
            if std::mem::replace(&mut self.member[t as usize], self.number) != self.number {
                self.blocks.push(t);
            }
        }
        // The head's own predecessors lie outside.
        let mut at = 1;
        while let Some(&b) = self.blocks.get(at) {
            at += 1;
            for &p in self.flow.predecessors(b) {
                if std::mem::replace(&mut self.member[p as usize], self.number) != self.number {
                    self.blocks.push(p);
                }
            }
        }
        let size = |b: &u32| {
            let block = &self.flow.blocks[*b as usize];
            (block.end - block.first) as usize
        };
        let steps = self.blocks.iter().map(size).sum::<usize>();
        self.work.set(self.work.get() + steps);
    }

    fn has(&self, instruction: u32) -> bool {
        self.member[self.block_of[instruction as usize] as usize] == self.number
    }

    /// Returns the instructions of the loop.
    fn instructions(&self) -> impl Iterator<Item = (u32, &'a Instruction)> {
        let (flow, function) = (self.flow, self.function);
        self.blocks.iter().flat_map(move |&b| {
            let block = &flow.blocks[b as usize];
            (block.first..block.end).map(move |n| (n, &function.body[n as usize]))
        })
    }

    /// Returns the load that the loop waits for, when it is a wait.
    fn wait(&self) -> Option<u32> {
        let mut reads = false;
        for (_, i) in self.instructions() {
            if self.makes_progress(i) {
                return None;
            }
            reads |= may_read_global(i);
        }
        if !reads {
            return None;
        }
        let mut load = None;
        for &b in &self.blocks {
            let block = &self.flow.blocks[b as usize];
            let leaves = block.leaves
                || self
                    .flow
                    .successors(b)
                    .iter()
                    .any(|&s| self.member[s as usize] != self.number);
            if !leaves {
                continue;
            }
            let last = &self.function.body[block.end as usize - 1];
            let sources = match (last.guard, last.opcode) {
                (Some(guard), _) => self.sources(&[guard.reg]),
                (None, Opcode::BrxIdx) => match last.operands.first() {
                    Some(Operand::Reg(r)) => self.sources(&[*r]),
                    _ => return None,
                },
                // An unconditional exit from the loop.
                _ => return None,
            };
            if sources.changes {
                return None;
            }
            load = load.or(sources.load);
        }
        load
    }

    /// Returns whether an instruction of a loop does something that others may see, or is not looked into.
    fn makes_progress(&self, i: &Instruction) -> bool {
        match i.opcode {
            Opcode::St => is_global(i),
            Opcode::Atom => is_global(i) && !only_reads(i),
            Opcode::Red | Opcode::Call | Opcode::CpAsync | Opcode::Sust | Opcode::Sured => true,
            Opcode::Other => true,
            _ => false,
        }
    }

    /// Returns what the values of registers rest on within the loop.
    fn sources(&self, registers: &[RegId]) -> Sources {
        let mut found = Sources::default();
        let mut seen: Vec<RegId> = registers.to_vec();
        let mut at = 0;
        let mut shared = false;
        let mut merged = false;
        while let Some(&register) = seen.get(at) {
            at += 1;
            self.work.set(self.work.get() + seen.len());
            if self.is_exhausted() {
                break;
            }
            let own = self.own_writers(register);
            // What several places of the loop write depends on the way there.
            if own.len() > 1 && !std::mem::replace(&mut merged, true) {
                for (_, i) in self.instructions() {
                    if let (Opcode::Bra, Some(g)) = (i.opcode, i.guard) {
                        push(&mut seen, g.reg);
                    }
                }
            }
            for n in own {
                let i = &self.function.body[n as usize];
                if may_read_global(i) {
                    match self.address_stays(i) {
                        true => found.load = found.load.or(Some(n)),
                        false => found.changes = true,
                    }
                    continue;
                }
                if reads_clock(i) {
                    found.changes = true;
                }
                if i.opcode == Opcode::Ld && i.mods.spaces.first() == Some(&StateSpace::Shared) {
                    shared = true;
                }
                for_each_register(i, |r, access| {
                    if access != Access::Write {
                        push(&mut seen, r);
                    }
                });
                if self.depends_on_itself(register, n) {
                    found.changes = true;
                }
            }
            if shared {
                shared = false;
                // What is loaded from shared memory is what the loop stored there.
                for (_, i) in self.instructions() {
                    if i.opcode == Opcode::St && i.mods.spaces.first() == Some(&StateSpace::Shared)
                    {
                        for_each_register(i, |r, _| push(&mut seen, r));
                    }
                }
            }
        }
        found
    }

    /// Returns whether a register's new value in the loop is made from its old one, directly or by a few steps.
    fn depends_on_itself(&self, register: RegId, writer: u32) -> bool {
        let mut seen: Vec<RegId> = Vec::new();
        let mut queue = vec![writer];
        while let Some(n) = queue.pop() {
            let i = &self.function.body[n as usize];
            if may_read_global(i) {
                continue;
            }
            let mut reads = Vec::new();
            for_each_register(i, |r, access| {
                if access == Access::Read {
                    reads.push(r);
                }
            });
            for r in reads {
                if r == register {
                    return true;
                }
                if !seen.contains(&r) && seen.len() < 64 {
                    seen.push(r);
                    queue.extend(self.own_writers(r));
                }
            }
        }
        false
    }

    fn address_stays(&self, i: &Instruction) -> bool {
        let Some(Operand::Address {
            base: AddressBase::Reg(r),
            ..
        }) = i.operands.get(1)
        else {
            return true;
        };
        let mut seen = vec![*r];
        let mut at = 0;
        while let Some(&register) = seen.get(at) {
            at += 1;
            if self.is_exhausted() {
                break;
            }
            let own = self.own_writers(register);
            for &n in &own {
                let i = &self.function.body[n as usize];
                let is_parameter = matches!(
                    i.mods.spaces.first(),
                    Some(StateSpace::Param | StateSpace::Const)
                );
                if self.depends_on_itself(register, n)
                    || matches!(i.opcode, Opcode::Ld | Opcode::Ldu | Opcode::Atom) && !is_parameter
                    || own.len() > 1
                {
                    return false;
                }
                for_each_register(i, |r, access| {
                    if access == Access::Read {
                        push(&mut seen, r);
                    }
                });
            }
        }
        true
    }

    /// Returns whether the address grows with the block's number and something is subtracted from it.
    fn is_for_earlier(&self, load: u32) -> bool {
        let Some(Operand::Address {
            base: AddressBase::Reg(base),
            offset,
        }) = self.function.body[load as usize].operands.get(1)
        else {
            return false;
        };
        let (mut grows, mut subtracts) = (false, *offset < 0);
        let mut seen: Vec<(RegId, bool)> = vec![(*base, true)];
        let mut at = 0;
        while let Some(&(register, positive)) = seen.get(at) {
            at += 1;
            if at > MAX_STEPS {
                return false;
            }
            for &n in self.writers_of(register) {
                let i = &self.function.body[n as usize];
                for (o, operand) in i.operands.iter().enumerate().skip(1) {
                    let negated = matches!(
                        (i.opcode, o),
                        (Opcode::Sub, 2) | (Opcode::Not | Opcode::Neg, 1)
                    );
                    match operand {
                        Operand::Special(SpecialReg::Ctaid(_)) => grows |= positive,
                        Operand::Int(k) => {
                            let factor = matches!(
                                (i.opcode, o),
                                (
                                    Opcode::Shl
                                        | Opcode::Shr
                                        | Opcode::Mul
                                        | Opcode::And
                                        | Opcode::Bfe,
                                    _
                                ) | (Opcode::Mad, 1 | 2)
                            );
                            subtracts |= if factor {
                                *k < 0 && i.opcode != Opcode::And
                            } else {
                                (*k < 0) != (negated == positive)
                            };
                        }
                        Operand::Reg(r) => {
                            subtracts |= negated == positive;
                            let next = (*r, positive != negated);
                            if !seen.contains(&next) {
                                seen.push(next);
                            }
                        }
                        Operand::Address { .. } if i.opcode == Opcode::Atom => {
                            // A number taken from a counter.
                            grows |= positive;
                        }
                        Operand::Address { .. }
                            if i.mods.spaces.first() == Some(&StateSpace::Shared) =>
                        {
                            // It may have come from the thread that took it.
                            grows |= positive && self.takes_numbers();
                        }
                        _ => {}
                    }
                }
            }
        }
        grows && subtracts
    }

    fn takes_numbers(&self) -> bool {
        self.function.body.iter().any(|i| {
            i.opcode == Opcode::Atom
                && is_global(i)
                && matches!(i.mods.atom, Some(AtomOp::Add | AtomOp::Inc))
        })
    }
}

fn push(list: &mut Vec<RegId>, register: RegId) {
    if !list.contains(&register) {
        list.push(register);
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
