//! Writing the fence into a function.
//!
//! Accesses of one basic block that go through the same base register share its fence: they are collected first and
//! written behind one another. That is exact because they are executed together or not at all, so that what holds for
//! the strictest of them holds for all of a well-behaved kernel's: a group ends where its base or its guard is written,
//! at a call, and with the block.
//!
//! Length: one pass whose methods share its state; each kind of place is a few of them.

use super::access::{Access, Rows, Treatment, treatment};
use super::judge::{assertion, barrier_operands, candidates};
use super::place::{Base, Place, Placing, Surroundings, needs_values};
use super::scope::Scope;
use super::text::{Loaded, confine, hold};
use super::values::Values;
use super::{FaultKind, FenceOptions, GUARD_BYTES, UNKNOWN_BLOCK};
use crate::analysis::{Access as Touch, Flow, for_each_register};
use crate::control::{FAULT_BLOCK_AT, FAULT_KIND_AT, FAULT_LINE_AT, LIMIT_AT};
use crate::decode::{
    AddressBase, Guard, Instruction, Opcode, Operand, RegId, ScalarType, Span, StateSpace, Symbol,
    VarId, Variable,
};
use crate::forms::Shape;
use crate::forms::carry::Value;
use crate::forms::frame::{Frame, Role};
use crate::forms::reach::Calls;
use crate::syntax::lex::kind;
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

/// A base register and a guard as they stand between two writes to either.
type Key = (RegId, u32, Option<(Guard, u32)>, bool, Option<VarId>);

/// Offsets up to this share a fence of shared memory whose end is known at run time only.
const MOST_SHARED_SPAN: i64 = 256;

struct Pass<'p, 'a> {
    frame: &'p mut Frame<'a>,
    calls: &'p Calls,
    surroundings: &'p Surroundings,
    options: FenceOptions,
    values: Values,
    scope: Scope,
    loaded: Loaded,
    /// End of the block's shared memory: a register, or the name of the dynamic part when that is empty.
    end: Option<SharedEnd>,
    /// The last address, by what the access needs behind it and its alignment.
    last: HashMap<(u32, u32), String>,
    /// Addresses in shared memory that are held in registers.
    constants: HashMap<(String, i64), String>,
    faults: u32,
    /// The end of the body is closed to threads that run past it.
    tail_open: bool,
}

#[derive(Clone)]
enum SharedEnd {
    Register(String),
    Name(String),
}

/// What has to be known of a function before any form writes into it: a kernel whose shared accesses are held below an
/// end that the launch decides has at least as much shared memory as they share a bound for.
pub(crate) fn prepare(frame: &mut Frame<'_>, surroundings: &Surroundings) {
    let asks = |i: &Instruction| match treatment(i) {
        Treatment::Memory(accesses) => accesses
            .iter()
            .any(|a| matches!(a.space, StateSpace::Shared | StateSpace::Generic)),
        Treatment::Call => true,
        _ => false,
    };
    let small = static_shared(frame, surroundings) < MOST_SHARED_SPAN.cast_unsigned();
    let is_kernel = matches!(frame.role, Role::Kernel(_));
    let names_shared =
        |i: &Instruction| i.mods.spaces.contains(&StateSpace::Shared) && i.opcode != Opcode::Cvta;
    let any = surroundings.shared || frame.function.body.iter().any(names_shared);
    if is_kernel && small && any && frame.function.body.iter().any(asks) {
        frame.pad_shared(u32::try_from(MOST_SHARED_SPAN).unwrap_or(0));
    }
}

/// Bytes of the largest shared variable that the function declares.
fn static_shared(frame: &Frame<'_>, surroundings: &Surroundings) -> u64 {
    let variables = surroundings.owned[frame.id.0 as usize]
        .iter()
        .map(|v| &frame.program.variables[v.0 as usize]);
    let own = variables.filter(|v| v.space == StateSpace::Shared);
    own.map(|v| v.size_bytes).max().unwrap_or(0)
}

/// Puts the fence into a function: a kernel with the control block or a callee that is handed what it
/// [`needs`](super::needs).
pub(crate) fn edit(
    frame: &mut Frame<'_>,
    calls: &Calls,
    surroundings: &Surroundings,
    options: FenceOptions,
) {
    let flow = Flow::new(frame.function);
    let asks = |i: &Instruction| match treatment(i) {
        Treatment::Memory(accesses) => accesses
            .iter()
            .any(|a| needs_values(i, a) || (a.space == StateSpace::Global && a.align > 1)),
        _ => false,
    };
    let values = match frame.function.body.iter().any(asks) {
        true => Values::new(frame.program, frame.function, &flow),
        false => Values::none(frame.function),
    };
    let scope = Scope::new(
        (frame.module, frame.syntax),
        (frame.program, frame.function),
        &surroundings.owned[frame.id.0 as usize],
        frame.entry_offset(),
    );
    let mut pass = Pass {
        frame,
        calls,
        surroundings,
        options,
        values,
        scope,
        loaded: Loaded::default(),
        end: None,
        last: HashMap::new(),
        constants: HashMap::new(),
        faults: 0,
        tail_open: false,
    };
    if options.zero_shared {
        pass.zero_shared();
    }
    pass.body(&flow);
}

impl Pass<'_, '_> {
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
            }
            for group in groups {
                match group.shared {
                    true => self.shared_group(&group),
                    false => self.global_group(&group),
                }
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
        let placing = Placing {
            program: self.frame.program,
            function: self.frame.function,
            index: self.frame.id.0 as usize,
            values: &self.values,
            surroundings: self.surroundings,
            scope: &self.scope,
        };
        let member = Member {
            instruction: n,
            access: *access,
            offset: *offset,
        };
        let place = placing.place(i, access);
        let (base, shared, variable) = match &place {
            Place::Global(Base::Reg(r)) => (*r, false, None),
            Place::Shared(Base::Reg(r), variable) => (*r, true, *variable),
            _ => return self.single(&member, &place),
        };
        let least = i64::from(access.align);
        let small = i64::try_from(GUARD_BYTES / 2).unwrap_or(0);
        let end = offset.saturating_add(i64::from(access.bytes));
        let variable = variable.filter(|v| {
            let v = &self.frame.program.variables[v.0 as usize];
            end.cast_unsigned() <= v.size_bytes && v.align.is_multiple_of(access.align)
        });
        let span = match self.frame.role {
            Role::Kernel(_) => MOST_SHARED_SPAN,
            Role::Callee { .. } => 32,
        };
        let near = match shared {
            true => *offset >= 0 && (variable.is_some() || end <= span),
            false => (-small..small).contains(offset),
        };
        if !near || offset % least != 0 || access.rows.is_some() {
            return self.single(&member, &place);
        }
        let at = |r: RegId| version[r.0 as usize];
        let guard = i.guard.map(|g| (g, at(g.reg)));
        let key = (base, at(base), guard, shared, variable);
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

    /// One fence for all members.
    fn global_group(&mut self, group: &Group) {
        let align = group.members.iter().map(|m| m.access.align).max();
        let align = self.unproved(group.base, align.unwrap_or(1));
        let (widen, address) = self.wide(group.base);
        let (text, fenced) = self.confine(&address, align);
        let first = group.members.first().map_or(0, |m| m.instruction);
        self.frame.before(first, &format!("{widen}{text}"));
        self.redirect(group, &fenced);
    }

    fn redirect(&mut self, group: &Group, fenced: &str) {
        for m in &group.members {
            let text = match m.offset {
                0 => format!("[{fenced}]"),
                offset => format!("[{fenced}+{offset}]"),
            };
            self.replace_operand(m.instruction, m.access.operand, text);
        }
    }

    /// One bound for all members: the base is at most what the farthest of them allows.
    fn shared_group(&mut self, group: &Group) {
        let align = group
            .members
            .iter()
            .map(|m| m.access.align)
            .max()
            .unwrap_or(1);
        let end = |m: &Member| m.offset + i64::from(m.access.bytes);
        let behind = group.members.iter().map(end).max().unwrap_or(0);
        let first = group.members.first().map_or(0, |m| m.instruction);
        let (narrow, address) = self.narrow(group.base);
        let behind = u32::try_from(behind).unwrap_or(u32::MAX);
        let proved = self.unproved(group.base, align) == 1;
        let (text, held) = self.below_end((&address, behind), (align, proved), group.variable);
        self.frame.before(first, &format!("{narrow}{text}"));
        self.redirect(group, &held);
    }

    /// An access that shares nothing.
    fn single(&mut self, m: &Member, place: &Place) {
        let access = &m.access;
        let (text, operand) = match place {
            Place::Proved | Place::Refused(_) => return,
            Place::Global(base) => {
                let (sum, address) = self.sum(*base, m.offset);
                let (text, fenced) = self.confine(&address, access.align);
                let rows = self.rows(m, |pass, end| pass.confine(end, 1), &fenced);
                (format!("{sum}{text} {rows}"), fenced)
            }
            Place::Shared(base, _) => {
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
            Place::Variable(base, v) => {
                let variable = &self.frame.program.variables[v.0 as usize];
                let (sum, address) = self.sum(*base, m.offset);
                let last = variable.size_bytes - u64::from(access.bytes);
                let name = variable.name.clone();
                let (text, held) = hold(self.frame, (&address, &name), (last, access.align));
                (format!("{sum}{text}"), held)
            }
            Place::Param(base) => {
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
            Place::GenericShared(base) => {
                let (sum, address) = self.sum(*base, m.offset);
                let (text, held) = self.in_shared_window(&address, access);
                let rows = self.shared_rows(m, &held.0);
                (format!("{sum}{text} {rows}"), held.1)
            }
            Place::Generic {
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

    /// The alignment that is still to be made.
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
        (function.register_names[n].clone(), function.registers[n])
    }

    /// The register as a 64-bit address; a 32-bit one is extended by zeros.
    fn wide(&mut self, r: RegId) -> (String, String) {
        let (name, ty) = self.register(r);
        if ty.size_bytes() == 8 {
            return (String::new(), name);
        }
        let wide = self.frame.fresh("b64");
        (format!("cvt.u64.u32 {wide}, {name}; "), wide)
    }

    /// The register as a 32-bit address.
    fn narrow(&mut self, r: RegId) -> (String, String) {
        let (name, ty) = self.register(r);
        if ty.size_bytes() == 4 {
            return (String::new(), name);
        }
        let low = self.frame.fresh("b32");
        (format!("cvt.u32.u64 {low}, {name}; "), low)
    }

    /// Base and offset as one 64-bit address.
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

    /// Holds a 32-bit shared address so low that `behind` bytes from it on are the block's, and rounds it down.
    fn below_end(
        &mut self,
        (address, behind): (&str, u32),
        (align, proved): (u32, bool),
        variable: Option<VarId>,
    ) -> (String, String) {
        let held = self.frame.fresh("b32");
        let known = variable.map(|v| &self.frame.program.variables[v.0 as usize]);
        if let Some(v) =
            known.filter(|v| v.size_bytes >= u64::from(behind) && v.align.is_multiple_of(align))
        {
            let last = (v.size_bytes - u64::from(behind)) / u64::from(align) * u64::from(align);
            let (name, last) = (v.name.clone(), i64::try_from(last).unwrap_or(0));
            let at_entry = variable.is_some_and(|v| self.scope.at_entry(self.frame.program, v));
            let min = if at_entry {
                let limit = self.constant(&name, last);
                format!("min.u32 {held}, {address}, {limit};")
            } else {
                format!("mov.u32 {held}, {name}+{last}; min.u32 {held}, {held}, {address};")
            };
            return self.rounded(min, held, if proved { 1 } else { align });
        }
        match self.end_of_shared(behind) {
            SharedEnd::Name(name) => {
                let limit = self.constant(&name, -i64::from(behind));
                let min = format!("min.u32 {held}, {address}, {limit};");
                self.rounded(min, held, align)
            }
            SharedEnd::Register(end) => {
                let last = self.last_address(&end, behind, align);
                let min = format!("min.u32 {held}, {address}, {last};");
                self.rounded(min, held, if proved { 1 } else { align })
            }
        }
    }

    fn rounded(&mut self, text: String, held: String, align: u32) -> (String, String) {
        if align <= 1 {
            return (text, held);
        }
        let rounded = self.frame.fresh("b32");
        (
            format!("{text} and.b32 {rounded}, {held}, -{align};"),
            rounded,
        )
    }

    /// A register that holds the address of something in shared memory; `ptxas` makes a literal of it.
    fn constant(&mut self, name: &str, offset: i64) -> String {
        let key = (name.to_owned(), offset);
        if let Some(register) = self.constants.get(&key) {
            return register.clone();
        }
        let register = self.frame.fresh("b32");
        // `ptxas` takes a sum with a literal, not a difference.
        let text = match offset < 0 {
            true => format!(
                "mov.u32 {register}, {name}; sub.u32 {register}, {register}, {};",
                offset.unsigned_abs()
            ),
            false => format!("mov.u32 {register}, {name}+{offset};"),
        };
        self.frame.at_entry(&text);
        self.constants.insert(key, register.clone());
        register
    }

    fn last_address(&mut self, end: &str, behind: u32, align: u32) -> String {
        if let Some(last) = self.last.get(&(behind, align)) {
            return last.clone();
        }
        let last = self.frame.fresh("b32");
        let mut text = format!("sub.u32 {last}, {end}, {behind};");
        if align > 1 {
            let _ = write!(text, " and.b32 {last}, {last}, -{align};");
        }
        self.frame.at_entry(&text);
        self.last.insert((behind, align), last.clone());
        last
    }

    /// Where the block's shared memory ends, of which it has at least `behind` bytes.
    fn end_of_shared(&mut self, behind: u32) -> SharedEnd {
        if let Some(end) = &self.end {
            return end.clone();
        }
        let most = u64::from(behind).max(MOST_SHARED_SPAN.cast_unsigned());
        let end = match self.frame.formal(Value::SharedEnd) {
            Some(formal) => SharedEnd::Register(formal),
            None if !self.surroundings.dynamic
                && static_shared(self.frame, self.surroundings) >= most =>
            {
                SharedEnd::Name(self.frame.names.shared.clone())
            }
            None => {
                let end = self.frame.fresh("b32");
                let text = self.frame.load(Value::SharedEnd, &end);
                self.frame.at_entry(&text);
                SharedEnd::Register(end)
            }
        };
        self.end.insert(end).clone()
    }

    /// A generic address taken as one of shared memory: the held shared address, and the same as a generic one.
    fn in_shared_window(&mut self, address: &str, access: &Access) -> (String, (String, String)) {
        let low = self.frame.fresh("b32");
        let [offset, wide, generic] = [(); 3].map(|()| self.frame.fresh("b64"));
        let (text, held) = self.below_end((&low, access.bytes), (access.align, false), None);
        let text = format!(
            "cvta.to.shared.u64 {offset}, {address}; cvt.u32.u64 {low}, {offset}; {text} cvt.u64.u32 {wide}, {held}; cvta.shared.u64 {generic}, {wide};"
        );
        (text, (held, generic))
    }

    /// A generic address, held in the window that it lies in.
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
                " isspacep.local {p}, {address}; cvta.to.local.u64 {offset}, {address}; {held} cvta.local.u64 {generic}, {at}; selp.b64 {chosen}, {generic}, {result}, {p};"
            );
            result = chosen;
        }
        (text, result)
    }

    /// The stride of a matrix: kept when the end of the last row is where `confine` would leave it, else zero.
    fn rows(
        &mut self,
        m: &Member,
        confine: impl FnOnce(&mut Self, &str) -> (String, String),
        fenced: &str,
    ) -> String {
        let Some(rows) = m.access.rows else {
            return String::new();
        };
        let Some((mut text, stride, span)) = self.row_span(m, rows) else {
            return String::new();
        };
        let (end, p) = (self.frame.fresh("b64"), self.frame.fresh("pred"));
        let _ = write!(text, "add.s64 {end}, {fenced}, {span}; ");
        let (confined, same) = confine(self, &end);
        let _ = write!(text, "{confined} setp.eq.u64 {p}, {end}, {same}; ");
        text + &self.stride(m, rows, &stride, &p)
    }

    fn shared_rows(&mut self, m: &Member, held: &str) -> String {
        let Some(rows) = m.access.rows else {
            return String::new();
        };
        let Some((mut text, stride, span)) = self.row_span(m, rows) else {
            return String::new();
        };
        let end = match self.end_of_shared(m.access.bytes) {
            SharedEnd::Register(end) => end,
            SharedEnd::Name(name) => {
                let end = self.frame.fresh("b32");
                let _ = write!(text, "mov.u32 {end}, {name}; ");
                end
            }
        };
        let [wide, last, limit] = [(); 3].map(|()| self.frame.fresh("b64"));
        let p = self.frame.fresh("pred");
        let _ = write!(
            text,
            "cvt.u64.u32 {wide}, {held}; add.s64 {last}, {wide}, {span}; cvt.u64.u32 {limit}, {end}; setp.lt.u64 {p}, {last}, {limit}; "
        );
        text + &self.stride(m, rows, &stride, &p)
    }

    /// The stride as a register, and how far the last byte of the last row is from the first byte.
    fn row_span(&mut self, m: &Member, rows: Rows) -> Option<(String, String, String)> {
        let i = &self.frame.function.body[m.instruction as usize];
        let (mut text, stride) = match i.operands.get(rows.stride) {
            Some(Operand::Reg(r)) => (String::new(), self.register(*r).0),
            Some(Operand::Int(n)) => {
                let stride = self.frame.fresh("b32");
                (format!("mov.u32 {stride}, {n}; "), stride)
            }
            _ => return None,
        };
        let (bits, span) = (self.frame.fresh("b64"), self.frame.fresh("b64"));
        let _ = write!(
            text,
            "mul.wide.u32 {bits}, {stride}, {}; shr.u64 {bits}, {bits}, 3; add.s64 {span}, {bits}, {}; ",
            rows.more * rows.element_bits,
            m.access.bytes - 1
        );
        Some((text, stride, span))
    }

    /// Replaces the stride operand by one that is zero where `p` is false and a multiple of 16 bytes.
    fn stride(&mut self, m: &Member, rows: Rows, stride: &str, p: &str) -> String {
        let (kept, rounded) = (self.frame.fresh("b32"), self.frame.fresh("b32"));
        self.replace_operand(m.instruction, rows.stride, rounded.clone());
        format!(
            "selp.b32 {kept}, {stride}, 0, {p}; and.b32 {rounded}, {kept}, -{};",
            (128 / rows.element_bits).max(1)
        )
    }

    /// `cp.async`'s optional source size is at most the copy's.
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

    /// A jump through a table goes to one of its entries.
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

    /// Barrier numbers and thread counts in registers are made ones that exist.
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

    /// A trap becomes a jump to its record at the end of the function.
    fn trap(&mut self, n: u32, i: &Instruction, fault: FaultKind) {
        let guard = self.guard(i);
        let (label, line) = (self.fault_label(), self.line(i));
        let span = self.frame.span(n);
        self.frame
            .edits
            .replace(span, format!("{guard}bra {label};"));
        let record = self.record(fault, line);
        let leave = self.frame.leave_for_fault();
        self.open_tail();
        self.frame.at_end(&format!("{label}: {record} {leave}"));
    }

    fn guard(&self, i: &Instruction) -> String {
        i.guard.map_or_else(String::new, |g| {
            let name = self.register(g.reg).0;
            let not = if g.negated { "!" } else { "" };
            format!("@{not}{name} ")
        })
    }

    fn line(&self, i: &Instruction) -> u32 {
        self.surroundings.lines.line(i.span.start)
    }

    fn fault_label(&mut self) -> String {
        self.faults += 1;
        self.frame.label(&format!("fault{}", self.faults))
    }

    /// What stands behind the body is reached by jumps only.
    fn open_tail(&mut self) {
        if std::mem::replace(&mut self.tail_open, true) {
            return;
        }
        let ends = |i: &Instruction| {
            i.guard.is_none() && matches!(i.opcode, Opcode::Ret | Opcode::Exit | Opcode::Bra)
        };
        let last = self.frame.function.body.last();
        if !last.is_some_and(ends) && self.frame.shape() != Shape::Worker {
            self.frame.at_end("ret;");
        }
    }

    /// Records the first fault of the launch, and lets no further block start.
    fn record(&mut self, fault: FaultKind, line: u32) -> String {
        let f = &mut *self.frame;
        let counters = f.fresh("b64");
        let load = f.load(Value::Counters, &counters);
        let (p, old, block) = (f.fresh("pred"), f.fresh("b32"), f.fresh("b32"));
        let number = match f.role {
            Role::Kernel(_) => block_number(f, &block),
            Role::Callee { .. } => format!("mov.u32 {block}, {UNKNOWN_BLOCK};"),
        };
        let done = f.label(&format!("recorded{}", self.faults));
        let kind = fault as u32;
        format!(
            "{load} setp.eq.u64 {p}, {counters}, 0; @{p} bra {done}; cvta.to.global.u64 {counters}, {counters}; \
             atom.global.cas.b32 {old}, [{counters}+{FAULT_KIND_AT}], 0, {kind}; setp.ne.u32 {p}, {old}, 0; @{p} bra {done}; \
             {number} mov.u32 {old}, {line}; st.global.u32 [{counters}+{FAULT_LINE_AT}], {old}; st.global.u32 [{counters}+{FAULT_BLOCK_AT}], {block}; \
             mov.u32 {old}, 0; st.volatile.global.u32 [{counters}+{LIMIT_AT}], {old}; {done}:"
        )
    }

    fn call(&mut self, n: u32, i: &Instruction) {
        if let Some(fault) = assertion(self.frame.program, i) {
            return self.trap(n, i, fault);
        }
        if let Some(Operand::Reg(r)) = i.operands.get(1) {
            self.indirect_call(n, i, *r);
        }
    }

    /// A call through a pointer goes to one of the functions that it may mean; any other is recorded first.
    fn indirect_call(&mut self, n: u32, i: &Instruction, pointer: RegId) {
        let frame = &*self.frame;
        let found = candidates(frame.program, frame.function, self.calls, i);
        let names: Vec<String> = found
            .iter()
            .map(|id| frame.program.functions[id.0 as usize].name.clone())
            .collect();
        let Some((first, rest)) = names.split_first() else {
            return;
        };
        let name = self.register(pointer).0;
        let (target, each) = (self.frame.fresh("b64"), self.frame.fresh("b64"));
        let p = self.frame.fresh("pred");
        let mut text = format!("mov.u64 {target}, {first}; ");
        for f in rest {
            let _ = write!(
                text,
                "mov.u64 {each}, {f}; setp.eq.u64 {p}, {name}, {each}; selp.b64 {target}, {each}, {target}, {p}; "
            );
        }
        // Labels have the scope that they stand in, so that the record stands here rather than at the end.
        let fine = self.fault_label();
        let line = self.line(i);
        let _ = write!(text, "setp.ne.u64 {p}, {name}, {target}; ");
        if let Some(g) = i.guard {
            // Where the call is not made, the pointer may be anything.
            let (guard, not) = (self.register(g.reg).0, self.frame.fresh("pred"));
            let _ = match g.negated {
                true => write!(text, "not.pred {not}, {guard}; and.pred {p}, {p}, {not}; "),
                false => write!(text, "and.pred {p}, {p}, {guard}; "),
            };
        }
        let record = self.record(FaultKind::IndirectCall, line);
        let _ = write!(text, "@!{p} bra {fine}; {record} {fine}:");
        self.frame.before(n, &text);
        self.replace_callee(n, &target);
    }
}

/// Text that puts the number of the thread's block, x fastest, into a register.
fn block_number(f: &mut Frame<'_>, into: &str) -> String {
    let t = f.fresh("b32");
    let mut text = f.load(Value::Ctaid(2), into);
    for axis in [1, 0] {
        let extent = f.load(Value::Nctaid(axis), &t);
        let _ = write!(text, " {extent} mul.lo.u32 {into}, {into}, {t}; ");
        let place = f.load(Value::Ctaid(axis), &t);
        let _ = write!(text, "{place} add.u32 {into}, {into}, {t};");
    }
    text
}

impl Pass<'_, '_> {
    /// The spans of an instruction's operands, in source order.
    fn operand_spans(&mut self, n: u32) -> Vec<Span> {
        let module = self.frame.module;
        let statement = self.frame.statement(n);
        let tokens = &module.cursor(0).tokens[statement.first..statement.end];
        let mut at = 0;
        if tokens.first().is_some_and(|t| t.kind() == b'@') {
            at = 1 + usize::from(tokens[1].kind() == b'!') + 1;
        }
        // The opcode and its words.
        at += 1;
        while tokens.get(at).is_some_and(|t| t.kind() == kind::DOT) {
            at += 1;
        }
        let (mut spans, mut depth, mut first) = (Vec::new(), 0_i32, at);
        for (k, t) in tokens.iter().enumerate().skip(at) {
            match t.kind() {
                b'[' | b'{' | b'(' => depth += 1,
                b']' | b'}' | b')' => depth -= 1,
                b',' | b';' if depth == 0 => {
                    if k > first {
                        spans.push(module.token_span(statement.first + first, statement.first + k));
                    }
                    first = k + 1;
                }
                _ => {}
            }
        }
        spans
    }

    fn replace_operand(&mut self, n: u32, operand: usize, text: String) {
        let spans = self.operand_spans(n);
        let span = spans.get(operand).copied();
        // The instruction was decoded with an operand there, so its text has one.
        debug_assert!(span.is_some(), "operand {operand} of instruction {n}");
        if let Some(span) = span {
            self.frame.edits.replace(span, text);
        }
    }

    /// The callee is the first operand, or the second where returned values stand before it.
    fn replace_callee(&mut self, n: u32, text: &str) {
        let spans = self.operand_spans(n);
        let source = self.frame.module.source();
        let is_list = |s: &Span| source.get(s.start as usize) == Some(&b'(');
        let at = usize::from(spans.first().is_some_and(is_list));
        if let Some(span) = spans.get(at) {
            self.frame.edits.replace(*span, text.to_owned());
        }
    }

    /// Whether the body names a variable of the module.
    fn is_named(&self, v: VarId) -> bool {
        let symbol = Symbol::Variable(v);
        let names = |o: &Operand| match o {
            Operand::Symbol { symbol: s, .. }
            | Operand::Address {
                base: AddressBase::Symbol(s),
                ..
            } => *s == symbol,
            _ => false,
        };
        self.frame
            .function
            .body
            .iter()
            .any(|i| i.operands.iter().any(names))
    }

    /// Zeroes the block's shared memory before anything else runs.
    fn zero_shared(&mut self) {
        let function = self.frame.id;
        let program = self.frame.program;
        let is_mine = |(n, v): &(u32, &Variable)| {
            v.space == StateSpace::Shared
                && !v.is_extern
                && v.size_bytes != 0
                && (v.owner == Some(function) || (v.owner.is_none() && self.is_named(VarId(*n))))
                && self.scope.at_entry(program, VarId(*n))
        };
        let names: Vec<String> = (0_u32..)
            .zip(&program.variables)
            .filter(is_mine)
            .map(|(_, v)| v.name.clone())
            .collect();
        let kernel = matches!(self.frame.role, Role::Kernel(_));
        if !kernel || (names.is_empty() && !self.surroundings.dynamic) {
            return;
        }
        let (end, at, t, step) = (
            self.frame.fresh("b32"),
            self.frame.fresh("b32"),
            self.frame.fresh("b32"),
            self.frame.fresh("b32"),
        );
        let zero = self.frame.fresh("b32");
        let p = self.frame.fresh("pred");
        let (next, done) = (self.frame.label("zero"), self.frame.label("zeroed"));
        let mut text = self.frame.load(Value::SharedEnd, &end);
        let shared = self.frame.names.shared.clone();
        // From the lowest of them on.
        let _ = write!(text, " mov.u32 {at}, {shared};");
        for name in names {
            let _ = write!(text, " mov.u32 {t}, {name}; min.u32 {at}, {at}, {t};");
        }
        let _ = write!(
            text,
            " mov.u32 {step}, %tid.z; mov.u32 {t}, %ntid.y; mul.lo.u32 {step}, {step}, {t}; mov.u32 {t}, %tid.y; add.u32 {step}, {step}, {t}; \
             mov.u32 {t}, %ntid.x; mul.lo.u32 {step}, {step}, {t}; mov.u32 {t}, %tid.x; add.u32 {step}, {step}, {t}; shl.b32 {step}, {step}, 2; \
             add.u32 {at}, {at}, 3; and.b32 {at}, {at}, -4; add.u32 {at}, {at}, {step}; and.b32 {end}, {end}, -4; \
             mov.u32 {step}, %ntid.x; mov.u32 {t}, %ntid.y; mul.lo.u32 {step}, {step}, {t}; mov.u32 {t}, %ntid.z; mul.lo.u32 {step}, {step}, {t}; shl.b32 {step}, {step}, 2; \
             mov.u32 {zero}, 0; {next}: setp.ge.u32 {p}, {at}, {end}; @{p} bra {done}; st.shared.u32 [{at}], {zero}; add.u32 {at}, {at}, {step}; bra {next}; {done}: bar.sync 0;"
        );
        self.frame.at_entry(&text);
    }
}
