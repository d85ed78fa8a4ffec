//! Putting the fence into a function.
//!
//! Accesses of one basic block that go through the same base register share its fence: they are collected first and
//! written behind one another. That is exact because they are executed together or not at all, so that what holds for
//! the strictest of them holds for all of a well-behaved kernel's: a group ends where its base or its guard is written,
//! at a call, and with the block.
//!
//! One pass, whose methods share its state: [`shared`] bounds what reaches shared memory, [`rows`] matrices, [`faults`]
//! turns traps and wild calls into records.

mod faults;
mod rows;
mod shared;

use super::access::{Access, Treatment, barrier_operands, treatment};
use super::bounds::{Base, Bound, Bounding, needs_values};
use super::confine::{Held, Loaded, Object, confine, hold};
use super::depth::{Depths, definitions};
use super::module_facts::{LEAST_SHARED, ModuleFacts, large};
use super::register_facts::{RegisterFacts, Root};
use super::roots::roots;
use super::{FenceMode, FenceOptions, GUARD_BYTES};
use crate::analysis::{Access as Touch, Flow, for_each_register};
use crate::decode::{
    Guard, Instruction, Opcode, Operand, RegId, ScalarType as T, StateSpace, VarId,
};
use crate::forms::code::{Code, at};
use crate::forms::frame::{Frame, Role};
use faults::Traps;
use std::collections::HashMap;

/// Accesses through one base that share its fence.
struct Group {
    base: RegId,
    shared: bool,
    /// The variable in shared memory that the base comes from.
    variable: Option<VarId>,
    members: Vec<Member>,
}

/// One access.
#[derive(Clone, Copy)]
struct Member {
    instruction: u32,
    access: Access,
    offset: i64,
}

/// A base register and a guard as they stand between two writes to either, what they reach, and which stretch of
/// offsets.
type Key = (RegId, u32, Option<(Guard, u32)>, bool, Option<VarId>, i64);

/// What a fence that stands behind its base's definition depends on: the base, whether it is one of shared memory, the
/// variable, the alignment, the bytes behind and the offset before it.
type EarlyKey = (RegId, bool, Option<VarId>, u32, u32, i64);

/// Instructions of a block whose groups are held at a time; those of a longer one are written in portions.
const MOST_HELD: u32 = 2048;

/// Offsets in a stretch of this length share a fence of shared memory whose end is known at run time only.
const MOST_SHARED_SPAN: i64 = 256;

struct Pass<'p, 'a> {
    frame: &'p mut Frame<'a>,
    module_facts: &'p ModuleFacts,
    options: FenceOptions,
    values: RegisterFacts,
    /// Shared variables that are aligned to 16 bytes now.
    raised: Vec<VarId>,
    loaded: Loaded,
    /// A register that holds the end of the block's shared memory.
    end: Option<RegId>,
    /// The last address, by what the access needs behind it and its alignment.
    last: HashMap<(u32, u32), RegId>,
    /// Addresses in shared variables that are held in registers.
    constants: HashMap<(VarId, i64), RegId>,
    /// Loops.
    depths: Depths,
    /// The one definition of each register that has just one, before which it is not read.
    definitions: Vec<Option<u32>>,
    /// Fenced bases that stand behind the base's definition.
    early: HashMap<EarlyKey, RegId>,
    traps: Option<Traps>,
}

/// Gives a kernel whose shared accesses are held below an end that the launch decides at least as much shared memory as
/// they share a bound for. This comes before any form writes into the function.
pub(crate) fn prepare(frame: &mut Frame<'_>, module_facts: &ModuleFacts) {
    let asks = |i: &Instruction| match treatment(i) {
        Treatment::Memory(accesses) => accesses
            .iter()
            .any(|a| matches!(a.space, StateSpace::Shared | StateSpace::Generic)),
        Treatment::Call => true,
        _ => false,
    };
    let is_kernel = matches!(frame.role, Role::Kernel(_));
    let any = module_facts.shared || module_facts.names_shared;
    if !(is_kernel && any && frame.function.body.iter().any(asks)) {
        return;
    }
    let large = large(frame.program, frame.id, module_facts).next();
    match large {
        Some(v) => frame.rely_on_shared(v, LEAST_SHARED),
        None => frame.pad_shared(LEAST_SHARED),
    }
}

/// Puts the fence into a function: a kernel with the control block or a callee that is handed what it
/// [`needs`](super::needs).
pub(crate) fn edit(frame: &mut Frame<'_>, module_facts: &ModuleFacts, options: FenceOptions) {
    let flow = Flow::new(frame.function);
    let depths = Depths::new(&flow);
    let asks = |i: &Instruction| match treatment(i) {
        Treatment::Memory(accesses) => accesses
            .iter()
            .any(|a| needs_values(i, a) || (a.space == StateSpace::Global && a.align > 1)),
        _ => false,
    };
    let raised = shared::raise(frame, module_facts);
    let mut values = RegisterFacts::none(frame.function);
    let mut rounded = Vec::new();
    if frame.function.body.iter().any(asks) {
        let (program, function) = (frame.program, frame.function);
        let facts =
            |roots: &[Root]| RegisterFacts::new((program, function), &flow, (roots, &raised));
        values = facts(&[]);
        // The other modes round together with what they mask.
        if options.mode == FenceMode::Window {
            rounded = roots((frame.program, frame.function), &values, &depths);
            if !rounded.is_empty() {
                values = facts(&rounded);
            }
        }
    }
    let definitions = definitions(frame.function, &values);
    let mut pass = Pass {
        depths,
        definitions,
        early: HashMap::new(),
        frame,
        module_facts,
        options,
        values,
        raised,
        loaded: Loaded::default(),
        end: None,
        last: HashMap::new(),
        constants: HashMap::new(),
        traps: None,
    };
    rounded.iter().for_each(|root| pass.round(root));
    if options.zero_shared {
        pass.zero_shared();
    }
    pass.body(&flow);
    pass.record_traps();
}

impl Pass<'_, '_> {
    /// Makes a root's register a multiple of what its accesses need. A register of its own takes what was loaded, so
    /// that the root keeps one definition; under a guard that may not happen, the root is rounded in place.
    fn round(&mut self, root: &Root) {
        let register = root.register;
        let multiple = 1_i64 << root.zeros;
        let (ty, and) = match self.frame.type_of(register).size_bytes() {
            8 => (T::B64, "and.b64"),
            4 => (T::B32, "and.b32"),
            _ => (T::B16, "and.b16"),
        };
        let mut from = register;
        let definition = &self.frame.function.body[root.instruction as usize];
        if definition.guard.is_none() {
            from = self.frame.fresh(ty);
            self.frame.replace_operand(root.instruction, 0, from);
        }
        let mut code = Code::new();
        code.op(and, (register, from, -multiple));
        self.frame.after(root.instruction, code);
    }

    fn body(&mut self, flow: &Flow) {
        let function = self.frame.function;
        let mut version = vec![0_u32; function.registers.len()];
        for block in &flow.blocks {
            let mut groups: Vec<Group> = Vec::new();
            let mut open: HashMap<Key, usize> = HashMap::new();
            for n in block.first..block.end {
                let i = &function.body[n as usize];
                match treatment(i) {
                    Treatment::Memory(accesses) => {
                        for access in &accesses {
                            self.access(n, i, access, (&mut groups, &mut open, &version));
                        }
                        if i.opcode == Opcode::CpAsync {
                            self.bound_copy(n, i);
                        }
                    }
                    Treatment::Trap(fault) => self.trap(n, i, fault),
                    Treatment::Call => {
                        open.clear();
                        self.call(n, i);
                    }
                    Treatment::Barrier => self.barrier(n, i),
                    Treatment::Jump => self.jump(n, i),
                    Treatment::Plain | Treatment::Refused(_) => {}
                }
                for_each_register(i, |r, touch| {
                    if touch != Touch::Read {
                        version[r.0 as usize] += 1;
                    }
                });
                if (n + 1 - block.first).is_multiple_of(MOST_HELD) {
                    open.clear();
                    self.write(groups.drain(..));
                }
                if self.frame.is_over() {
                    return;
                }
            }
            self.write(groups.into_iter());
        }
    }

    fn write(&mut self, groups: impl Iterator<Item = Group>) {
        for group in groups {
            match group.shared {
                true => self.shared_group(&group),
                false => self.global_group(&group),
            }
        }
    }

    /// Places an access; those that can share a fence join their group, the others are written at once.
    fn access(
        &mut self,
        n: u32,
        i: &Instruction,
        access: &Access,
        (groups, open, version): (&mut Vec<Group>, &mut HashMap<Key, usize>, &[u32]),
    ) {
        let Some(Operand::Address { offset, .. }) = i.operands.get(access.operand) else {
            return;
        };
        let bounding = Bounding {
            program: self.frame.program,
            function: self.frame.function,
            index: self.frame.id.0 as usize,
            values: &self.values,
            module_facts: self.module_facts,
        };
        let member = Member {
            instruction: n,
            access: *access,
            offset: *offset,
        };
        let place = bounding.bound(i, access);
        let (base, shared, variable) = match &place {
            Bound::Global(Base::Reg(r)) => (*r, false, None),
            Bound::Shared(Base::Reg(r), variable) => (*r, true, *variable),
            _ => return self.single(&member, &place),
        };
        let least = i64::from(access.align);
        let small = i64::try_from(GUARD_BYTES / 2).unwrap_or(0);
        let end = offset.saturating_add(i64::from(access.bytes));
        let variable = variable.filter(|&v| {
            let size = self.frame.program.variables[v.0 as usize].size_bytes;
            end.cast_unsigned() <= size && self.align_of(v).is_multiple_of(access.align)
        });
        let span = match self.frame.role {
            Role::Kernel(_) => MOST_SHARED_SPAN,
            Role::Callee { .. } => 32,
        };
        // Accesses far from each other are held below ends of their own.
        let window = match (shared, variable) {
            (true, None) => offset.div_euclid(span),
            _ => 0,
        };
        let near = match shared {
            true => {
                *offset >= 0 && (variable.is_some() || end <= (window + 1).saturating_mul(span))
            }
            false => (-small..small).contains(offset),
        };
        if !near || offset % least != 0 || access.rows.is_some() {
            return self.single(&member, &place);
        }
        let at = |r: RegId| version[r.0 as usize];
        let guard = i.guard.map(|g| (g, at(g.reg)));
        let key = (base, at(base), guard, shared, variable, window);
        let index = *open.entry(key).or_insert_with(|| {
            groups.push(Group {
                base,
                shared,
                variable,
                members: Vec::new(),
            });
            groups.len() - 1
        });
        groups[index].members.push(member);
    }

    /// Writes one fence for all members.
    fn global_group(&mut self, group: &Group) {
        let align = group.members.iter().map(|m| m.access.align).max();
        let align = self.unproved(group.base, align.unwrap_or(1));
        let key = (group.base, false, None, align, 0, 0);
        let fenced = self.once(group, key, |pass| {
            let (mut code, address) = pass.wide(group.base);
            let (confine, fenced) = pass.confine(address, align);
            code.append(confine);
            (code, fenced)
        });
        self.redirect(group, fenced, 0);
    }

    /// Writes a group's fence: in front of its first member, or behind the base's definition when that stands outside
    /// of a loop around the members; there it serves all groups that need the same.
    fn once(
        &mut self,
        group: &Group,
        key: EarlyKey,
        fence: impl FnOnce(&mut Self) -> Held,
    ) -> RegId {
        let first = group.members.first().map_or(0, |m| m.instruction);
        let definition = self.definitions[group.base.0 as usize];
        let is_outer = |n: &u32| self.depths.of(*n) < self.depths.of(first);
        let Some(definition) = definition.filter(is_outer) else {
            let (code, fenced) = fence(self);
            self.frame.before(first, code);
            return fenced;
        };
        if let Some(fenced) = self.early.get(&key) {
            return *fenced;
        }
        let (code, fenced) = fence(self);
        self.frame.after(definition, code);
        self.early.insert(key, fenced);
        fenced
    }

    /// Lets all members go through `fenced`, which holds the base and so much of their offsets.
    fn redirect(&mut self, group: &Group, fenced: RegId, held: i64) {
        for m in &group.members {
            let place = at(fenced, m.offset - held);
            self.frame
                .replace_operand(m.instruction, m.access.operand, place);
        }
    }

    /// Writes the fence of an access that shares nothing.
    fn single(&mut self, m: &Member, place: &Bound) {
        let base = match place {
            Bound::Proved => return,
            // More is known of registers now than when the function was judged, or less.
            Bound::Refused(reason) => return self.frame.fail(reason.clone()),
            Bound::Global(base)
            | Bound::Shared(base, _)
            | Bound::Variable(base, _)
            | Bound::Param(base)
            | Bound::GenericShared(base)
            | Bound::Generic { base, .. } => *base,
        };
        let (mut code, address) = self.sum(base, m.offset);
        let (bound, fenced) = self.bounded(m, place, address);
        code.append(bound);
        self.frame.before(m.instruction, code);
        self.frame
            .replace_operand(m.instruction, m.access.operand, at(fenced, 0));
    }

    /// Returns an address within the bounds of an access.
    fn bounded(&mut self, m: &Member, place: &Bound, address: RegId) -> Held {
        let access = &m.access;
        match place {
            // The first two have no bounds to write.
            Bound::Proved | Bound::Refused(_) | Bound::Global(_) => {
                let (mut code, fenced) = self.confine(address, access.align);
                self.rows(m, &mut code, fenced);
                (code, fenced)
            }
            Bound::Shared(..) => {
                let low = self.frame.fresh(T::B32);
                let mut code = Code::new();
                code.op("cvt.u32.u64", (low, address));
                let held =
                    self.below_end(&mut code, (low, access.bytes), (access.align, false), None);
                self.shared_rows(m, &mut code, held);
                (code, held)
            }
            Bound::Variable(_, v) => self.held_in(*v, address, access),
            Bound::Param(_) => {
                let bytes = u64::from(self.frame.function.params_bytes);
                let last = bytes.saturating_sub(u64::from(access.bytes));
                hold(self.frame, (address, Object::Params), (last, access.align))
            }
            Bound::GenericShared(_) => {
                let (mut code, (held, generic)) = self.in_shared_window(address, access);
                self.shared_rows(m, &mut code, held);
                (code, generic)
            }
            Bound::Generic { shared, local, .. } => {
                self.told_apart(address, access, (*shared, *local))
            }
        }
    }

    fn held_in(&mut self, v: VarId, address: RegId, access: &Access) -> Held {
        let size = self.frame.program.variables[v.0 as usize].size_bytes;
        let last = size - u64::from(access.bytes);
        hold(
            self.frame,
            (address, Object::Variable(v)),
            (last, access.align),
        )
    }

    fn confine(&mut self, address: RegId, align: u32) -> Held {
        let mode = self.options.mode;
        confine(self.frame, &mut self.loaded, mode, (address, align))
    }

    /// Returns the alignment that is still to be made.
    fn unproved(&self, base: RegId, align: u32) -> u32 {
        if self.values.multiple_of(base) >= align {
            1
        } else {
            align
        }
    }

    /// Returns the register as a 64-bit address; a 32-bit one is extended by zeros.
    fn wide(&mut self, r: RegId) -> Held {
        let mut code = Code::new();
        if self.frame.type_of(r).size_bytes() == 8 {
            return (code, r);
        }
        let wide = self.frame.fresh(T::B64);
        code.op("cvt.u64.u32", (wide, r));
        (code, wide)
    }

    /// Returns the register as a 32-bit address.
    fn narrow(&mut self, r: RegId) -> Held {
        let mut code = Code::new();
        if self.frame.type_of(r).size_bytes() == 4 {
            return (code, r);
        }
        let low = self.frame.fresh(T::B32);
        code.op("cvt.u32.u64", (low, r));
        (code, low)
    }

    /// Returns code that adds base and offset up to one 64-bit address, and the address.
    fn sum(&mut self, base: Base, offset: i64) -> Held {
        let (mut code, address) = match base {
            Base::Reg(r) => self.wide(r),
            Base::Name(v) => match self.frame.place_of(v) {
                Some(place) => return self.frame.address_in_block(place.wrapping_add(offset)),
                None => {
                    let (register, mut code) = (self.frame.fresh(T::B64), Code::new());
                    code.op("mov.u64", (register, v));
                    (code, register)
                }
            },
            Base::Absolute => {
                let (register, mut code) = (self.frame.fresh(T::B64), Code::new());
                code.op("mov.u64", (register, offset));
                return (code, register);
            }
        };
        if offset == 0 {
            return (code, address);
        }
        let sum = self.frame.fresh(T::B64);
        code.op("add.s64", (sum, address, offset));
        (code, sum)
    }

    /// Returns a generic address, held in the window that it lies in.
    fn told_apart(
        &mut self,
        address: RegId,
        access: &Access,
        (shared, local): (bool, Option<VarId>),
    ) -> Held {
        let (mut code, mut result) = self.confine(address, access.align);
        if shared {
            let (held, (_, generic)) = self.in_shared_window(address, access);
            let (p, chosen) = (self.frame.fresh(T::Pred), self.frame.fresh(T::B64));
            code.op("isspacep.shared", (p, address));
            code.append(held);
            code.op("selp.b64", (chosen, generic, result, p));
            result = chosen;
        }
        if let Some(v) = local {
            let [offset, generic, chosen] = self.frame.several(T::B64);
            let p = self.frame.fresh(T::Pred);
            let (held, place) = self.held_in(v, offset, access);
            code.op("isspacep.local", (p, address));
            code.op("cvta.to.local.u64", (offset, address));
            code.append(held);
            code.op("cvta.local.u64", (generic, place));
            code.op("selp.b64", (chosen, generic, result, p));
            result = chosen;
        }
        (code, result)
    }

    /// Holds `cp.async`'s optional source size to the copy's.
    fn bound_copy(&mut self, n: u32, i: &Instruction) {
        if let (Some(Operand::Int(size)), Some(Operand::Reg(r))) =
            (i.operands.get(2), i.operands.get(3))
            && self.frame.type_of(*r).size_bytes() == 4
        {
            let (t, mut code) = (self.frame.fresh(T::B32), Code::new());
            code.op("min.u32", (t, *r, *size));
            self.frame.before(n, code);
            self.frame.replace_operand(n, 3, t);
        }
    }

    /// Makes a jump through a table go to one of its entries.
    fn jump(&mut self, n: u32, i: &Instruction) {
        let (Some(Operand::Reg(r)), Some(Operand::BranchTable(table))) =
            (i.operands.first(), i.operands.get(1))
        else {
            return;
        };
        let entries = self.frame.function.branch_tables[*table as usize].len();
        // A table is no longer than the text.
        let last = u32::try_from(entries.saturating_sub(1)).unwrap_or(u32::MAX);
        let (t, mut code) = (self.frame.fresh(T::B32), Code::new());
        code.op("min.u32", (t, *r, last));
        self.frame.before(n, code);
        self.frame.replace_operand(n, 0, t);
    }

    /// Makes barrier numbers and thread counts in registers ones that exist.
    fn barrier(&mut self, n: u32, i: &Instruction) {
        let (number, count) = barrier_operands(i);
        if let Some(Operand::Reg(r)) = i.operands.get(number) {
            let (t, mut code) = (self.frame.fresh(T::B32), Code::new());
            code.op("and.b32", (t, *r, 15_i64));
            self.frame.before(n, code);
            self.frame.replace_operand(n, number, t);
        }
        if let Some((operand, Operand::Reg(r))) = count.and_then(|c| Some((c, i.operands.get(c)?)))
        {
            let (t, mut code) = (self.frame.fresh(T::B32), Code::new());
            if self.frame.type_of(*r).size_bytes() == 4 {
                // 1024 is the one proper count with another bit.
                code.op("min.u32", (t, *r, 1024_i64));
                code.op("and.b32", (t, t, 2016_i64));
            } else {
                code.op("and.b32", (t, *r, 992_i64));
            }
            code.op("max.u32", (t, t, 32_i64));
            self.frame.before(n, code);
            self.frame.replace_operand(n, operand, t);
        }
    }
}
