//! Writing the fence into a function.
//!
//! Accesses of one basic block that go through the same base register share its fence: they are collected first and
//! written behind one another. That is exact because they are executed together or not at all, so that what holds for
//! the strictest of them holds for all of a well-behaved kernel's: a group ends where its base or its guard is written,
//! at a call, and with the block.
//!
//! One pass, whose methods share its state: [`shared`] bounds what reaches shared memory, [`rows`] matrices, [`faults`]
//! turns traps and wild calls into records, [`operands`] finds an instruction's operands in the text.

mod faults;
mod operands;
mod rows;
mod shared;

use super::access::{Access, Treatment, barrier_operands, treatment};
use super::bounds::{Base, Bound, Bounding, needs_values};
use super::depth::{Depths, definitions};
use super::module_facts::{LEAST_SHARED, ModuleFacts, large};
use super::register_facts::{RegisterFacts, Root};
use super::roots::roots;
use super::scope::Scope;
use super::text::{Loaded, confine, hold};
use super::{FenceMode, FenceOptions, GUARD_BYTES};
use crate::analysis::{Access as Touch, Flow, for_each_register};
use crate::decode::{Guard, Instruction, Opcode, Operand, RegId, ScalarType, StateSpace, VarId};
use crate::forms::frame::{Frame, Role};
use std::collections::HashMap;
use std::fmt::Write as _;

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
    scope: Scope<'p>,
    loaded: Loaded,
    /// A register that holds the end of the block's shared memory.
    end: Option<String>,
    /// The last address, by what the access needs behind it and its alignment.
    last: HashMap<(u32, u32), String>,
    /// Addresses in shared memory that are held in registers.
    constants: HashMap<(String, i64), String>,
    /// Loops.
    depths: Depths,
    /// The one definition of each register that has just one, before which it is not read.
    definitions: Vec<Option<u32>>,
    /// Fenced bases that stand behind the base's definition.
    early: HashMap<EarlyKey, String>,
    faults: u32,
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
    let owned = &module_facts.owned[frame.id.0 as usize];
    let scope = Scope::new(
        (frame.module, frame.syntax),
        (frame.program, frame.function),
        owned,
        frame.entry_offset(),
    );
    let mut large = large(frame.program, frame.id, module_facts);
    match large.find(|&v| scope.at_entry(frame.program, v)) {
        Some(v) => {
            let name = frame.program.variables[v.0 as usize].name.clone();
            frame.rely_on_shared(name, LEAST_SHARED);
        }
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
    let raised = match module_facts.shared {
        true => shared::raise(frame, module_facts),
        false => Vec::new(),
    };
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
    let scope = Scope::new(
        (frame.module, frame.syntax),
        (frame.program, frame.function),
        &module_facts.owned[frame.id.0 as usize],
        frame.entry_offset(),
    );
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
        scope,
        loaded: Loaded::default(),
        end: None,
        last: HashMap::new(),
        constants: HashMap::new(),
        faults: 0,
    };
    rounded.iter().for_each(|root| pass.round(root));
    if options.zero_shared {
        pass.zero_shared();
    }
    pass.body(&flow);
}

impl Pass<'_, '_> {
    /// Makes a root's register a multiple of what its accesses need. A register of its own takes what was loaded, so
    /// that the root keeps one definition; under a guard that may not happen, the root is rounded in place.
    fn round(&mut self, root: &Root) {
        let n = root.register.0 as usize;
        let function = self.frame.function;
        let name = function.register_names[n].to_owned();
        let bytes = function.registers[n].size_bytes();
        let multiple = 1_u32 << root.zeros;
        let mut from = name.clone();
        if function.body[root.instruction as usize].guard.is_none() {
            from = self.frame.fresh(if bytes == 8 { "b64" } else { "b32" });
            self.replace_operand(root.instruction, 0, from.clone());
        }
        let text = format!("and.b{} {name}, {from}, -{multiple};", 8 * bytes);
        self.frame.after(root.instruction, &text);
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
            scope: &self.scope,
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
            let (widen, address) = pass.wide(group.base);
            let (text, fenced) = pass.confine(&address, align);
            (format!("{widen}{text}"), fenced)
        });
        self.redirect(group, &fenced, 0);
    }

    /// Writes a group's fence: in front of its first member, or behind the base's definition when that stands outside
    /// of a loop around the members; there it serves all groups that need the same.
    fn once(
        &mut self,
        group: &Group,
        key: EarlyKey,
        fence: impl FnOnce(&mut Self) -> (String, String),
    ) -> String {
        let first = group.members.first().map_or(0, |m| m.instruction);
        let definition = self.definitions[group.base.0 as usize];
        let movable = key
            .2
            .is_none_or(|v| self.scope.at_entry(self.frame.program, v));
        let is_outer = |n: &u32| movable && self.depths.of(*n) < self.depths.of(first);
        let outer = definition.filter(is_outer);
        let Some(definition) = outer else {
            let (text, fenced) = fence(self);
            self.frame.before(first, &text);
            return fenced;
        };
        if let Some(fenced) = self.early.get(&key) {
            return fenced.clone();
        }
        let (text, fenced) = fence(self);
        self.frame.after(definition, &text);
        self.early.insert(key, fenced.clone());
        fenced
    }

    /// Lets all members go through `fenced`, which holds the base and so much of their offsets.
    fn redirect(&mut self, group: &Group, fenced: &str, held: i64) {
        for m in &group.members {
            let text = match m.offset - held {
                0 => format!("[{fenced}]"),
                offset => format!("[{fenced}+{offset}]"),
            };
            self.replace_operand(m.instruction, m.access.operand, text);
        }
    }

    /// Writes the fence of an access that shares nothing.
    fn single(&mut self, m: &Member, place: &Bound) {
        let access = &m.access;
        let (text, operand) = match place {
            Bound::Proved | Bound::Refused(_) => return,
            Bound::Global(base) => {
                let (sum, address) = self.sum(*base, m.offset);
                let (text, fenced) = self.confine(&address, access.align);
                let rows = self.rows(m, |pass, end| pass.confine(end, 1), &fenced);
                (format!("{sum}{text} {rows}"), fenced)
            }
            Bound::Shared(base, _) => {
                let (sum, address) = self.sum(*base, m.offset);
                let low = self.frame.fresh("b32");
                let (text, held) =
                    self.below_end((&low, access.bytes), (access.align, false), None);
                let rows = self.shared_rows(m, &held);
                (
                    format!("{sum}cvt.u32.u64 {low}, {address}; {text} {rows}"),
                    held,
                )
            }
            Bound::Variable(base, v) => {
                let variable = &self.frame.program.variables[v.0 as usize];
                let (sum, address) = self.sum(*base, m.offset);
                let last = variable.size_bytes - u64::from(access.bytes);
                let name = variable.name.clone();
                let (text, held) = hold(self.frame, (&address, &name), (last, access.align));
                (format!("{sum}{text}"), held)
            }
            Bound::Param(base) => {
                let (sum, address) = self.sum(*base, m.offset);
                let function = self.frame.function;
                let bytes = u64::from(function.params_bytes);
                let last = bytes.saturating_sub(u64::from(access.bytes));
                let Some(name) = function.params.first().map(|p| p.name.clone()) else {
                    return;
                };
                let (text, held) = hold(self.frame, (&address, &name), (last, access.align));
                (format!("{sum}{text}"), held)
            }
            Bound::GenericShared(base) => {
                let (sum, address) = self.sum(*base, m.offset);
                let (text, held) = self.in_shared_window(&address, access);
                let rows = self.shared_rows(m, &held.0);
                (format!("{sum}{text} {rows}"), held.1)
            }
            Bound::Generic {
                base,
                shared,
                local,
            } => {
                let (sum, address) = self.sum(*base, m.offset);
                let (text, held) = self.told_apart(&address, access, (*shared, *local));
                (format!("{sum}{text}"), held)
            }
        };
        self.frame.before(m.instruction, &text);
        self.replace_operand(m.instruction, access.operand, format!("[{operand}]"));
    }

    fn confine(&mut self, address: &str, align: u32) -> (String, String) {
        confine(
            self.frame,
            &mut self.loaded,
            self.options.mode,
            (address, align),
        )
    }

    /// Returns the alignment that is still to be made.
    fn unproved(&self, base: RegId, align: u32) -> u32 {
        if self.values.multiple_of(base) >= align {
            1
        } else {
            align
        }
    }

    fn register(&self, r: RegId) -> (String, ScalarType) {
        let n = r.0 as usize;
        let function = self.frame.function;
        (function.register_names[n].to_owned(), function.registers[n])
    }

    /// Returns the register as a 64-bit address; a 32-bit one is extended by zeros.
    fn wide(&mut self, r: RegId) -> (String, String) {
        let (name, ty) = self.register(r);
        if ty.size_bytes() == 8 {
            return (String::new(), name);
        }
        let wide = self.frame.fresh("b64");
        (format!("cvt.u64.u32 {wide}, {name}; "), wide)
    }

    /// Returns the register as a 32-bit address.
    fn narrow(&mut self, r: RegId) -> (String, String) {
        let (name, ty) = self.register(r);
        if ty.size_bytes() == 4 {
            return (String::new(), name);
        }
        let low = self.frame.fresh("b32");
        (format!("cvt.u32.u64 {low}, {name}; "), low)
    }

    /// Returns text that adds base and offset up to one 64-bit address, and the address.
    fn sum(&mut self, base: Base, offset: i64) -> (String, String) {
        let (text, address) = match base {
            Base::Reg(r) => self.wide(r),
            Base::Name(v) => {
                let register = self.frame.fresh("b64");
                let name = &self.frame.program.variables[v.0 as usize].name;
                (format!("mov.u64 {register}, {name}; "), register)
            }
            Base::Absolute => {
                let register = self.frame.fresh("b64");
                return (format!("mov.u64 {register}, {offset}; "), register);
            }
        };
        if offset == 0 {
            return (text, address);
        }
        let sum = self.frame.fresh("b64");
        (format!("{text}add.s64 {sum}, {address}, {offset}; "), sum)
    }

    /// Returns a generic address, held in the window that it lies in.
    fn told_apart(
        &mut self,
        address: &str,
        access: &Access,
        (shared, local): (bool, Option<VarId>),
    ) -> (String, String) {
        let (mut text, mut result) = self.confine(address, access.align);
        if shared {
            let (held, (_, generic)) = self.in_shared_window(address, access);
            let (p, chosen) = (self.frame.fresh("pred"), self.frame.fresh("b64"));
            let _ = write!(
                text,
                " isspacep.shared {p}, {address}; {held} selp.b64 {chosen}, {generic}, {result}, {p};"
            );
            result = chosen;
        }
        if let Some(v) = local {
            let variable = &self.frame.program.variables[v.0 as usize];
            let (name, last) = (
                variable.name.clone(),
                variable.size_bytes - u64::from(access.bytes),
            );
            let [offset, generic, chosen] = [(); 3].map(|()| self.frame.fresh("b64"));
            let p = self.frame.fresh("pred");
            let (held, at) = hold(self.frame, (&offset, &name), (last, access.align));
            let _ = write!(
                text,
                " isspacep.local {p}, {address}; cvta.to.local.u64 {offset}, {address}; \
                 {held} cvta.local.u64 {generic}, {at}; selp.b64 {chosen}, {generic}, {result}, {p};"
            );
            result = chosen;
        }
        (text, result)
    }

    /// Holds `cp.async`'s optional source size to the copy's.
    fn bound_copy(&mut self, n: u32, i: &Instruction) {
        if let (Some(Operand::Int(size)), Some(Operand::Reg(r))) =
            (i.operands.get(2), i.operands.get(3))
        {
            let (name, ty) = self.register(*r);
            if ty.size_bytes() == 4 {
                let t = self.frame.fresh("b32");
                self.frame
                    .before(n, &format!("min.u32 {t}, {name}, {size};"));
                self.replace_operand(n, 3, t);
            }
        }
    }

    /// Makes a jump through a table go to one of its entries.
    fn jump(&mut self, n: u32, i: &Instruction) {
        let (Some(Operand::Reg(r)), Some(Operand::BranchTable(t))) =
            (i.operands.first(), i.operands.get(1))
        else {
            return;
        };
        let entries = self.frame.function.branch_tables[*t as usize].len();
        let (name, t) = (self.register(*r).0, self.frame.fresh("b32"));
        let last = entries.saturating_sub(1);
        self.frame
            .before(n, &format!("min.u32 {t}, {name}, {last};"));
        self.replace_operand(n, 0, t);
    }

    /// Makes barrier numbers and thread counts in registers ones that exist.
    fn barrier(&mut self, n: u32, i: &Instruction) {
        let (number, count) = barrier_operands(i);
        if let Some(Operand::Reg(r)) = i.operands.get(number) {
            let (name, t) = (self.register(*r).0, self.frame.fresh("b32"));
            self.frame.before(n, &format!("and.b32 {t}, {name}, 15;"));
            self.replace_operand(n, number, t);
        }
        if let Some((at, Operand::Reg(r))) = count.and_then(|c| Some((c, i.operands.get(c)?))) {
            let (name, t) = (self.register(*r).0, self.frame.fresh("b32"));
            let text = format!("and.b32 {t}, {name}, 992; max.u32 {t}, {t}, 32;");
            let text = match self.frame.function.registers[r.0 as usize].size_bytes() {
                // 1024 is the one proper count with another bit.
                4 => format!(
                    "min.u32 {t}, {name}, 1024; and.b32 {t}, {t}, 2016; max.u32 {t}, {t}, 32;"
                ),
                _ => text,
            };
            self.frame.before(n, &text);
            self.replace_operand(n, at, t);
        }
    }
}
