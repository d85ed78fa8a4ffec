//! Shared memory: addresses held below the end of the block's own, and what stands there cleared.
//!
//! Rule: a bound is a minimum, so that an address that a well-behaved kernel uses stays what it is.

use super::{Group, Member, Pass};
use crate::decode::{RegId, ScalarType as T, SpecialReg, StateSpace, VarId};
use crate::forms::code::{Code, address_of, at};
use crate::forms::fence::access::Access;
use crate::forms::fence::confine::rounded;
use crate::forms::fence::module_facts::{ModuleFacts, STATIC_SHARED, VECTOR_BYTES, here};
use crate::forms::frame::{Frame, Role};
use crate::forms::value::Value;

/// Bytes of the widest access.
#[allow(clippy::cast_possible_truncation, reason = "a small number")]
const VECTOR: u32 = VECTOR_BYTES as u32;

/// Declares the function's larger shared variables at multiples of 16 bytes, as `ptxas` places them anyway, so that
/// addresses in them can be told to be such multiples. Gives those that were not.
pub(super) fn raise(frame: &mut Frame<'_>, module_facts: &ModuleFacts) -> Vec<VarId> {
    if !module_facts.shared || module_facts.shared_vectors > STATIC_SHARED {
        return Vec::new();
    }
    let variables = &frame.program.variables;
    let is_raised = |id: &VarId| {
        let v = &variables[id.0 as usize];
        let whole =
            v.size_bytes >= 4 * u64::from(VECTOR) && v.size_bytes.is_multiple_of(u64::from(VECTOR));
        v.space == StateSpace::Shared && !v.is_extern && v.align < VECTOR && whole
    };
    let owned = module_facts.owned[frame.id.0 as usize].iter().copied();
    frame.raised = owned.filter(is_raised).collect();
    frame.raised.clone()
}

/// Returns whether some members of a group lie side by side.
fn has_neighbours(group: &Group) -> bool {
    let end = |m: &Member| m.offset + i64::from(m.access.bytes);
    let is_next = |m: &Member| group.members.iter().any(|next| next.offset == end(m));
    group.members.iter().any(is_next)
}

impl Pass<'_, '_> {
    /// Writes one bound for all members: the base is at most what the farthest of them allows.
    pub(super) fn shared_group(&mut self, group: &Group) {
        let align = group.members.iter().map(|m| m.access.align).max();
        let (align, proved) = self.shared_align(group, align.unwrap_or(1));
        let end = |m: &Member| m.offset + i64::from(m.access.bytes);
        let behind = group.members.iter().map(end).max().unwrap_or(0);
        // A base in front of all that is accessed may lie in front of address 0, that is, far behind everything. The
        // offset that all members share belongs to it, in steps that keep its alignment.
        let least = group.members.iter().map(|m| m.offset).min().unwrap_or(0);
        let shared = least / i64::from(align) * i64::from(align);
        let behind = u32::try_from(behind - shared).unwrap_or(u32::MAX);
        let key = (group.base, true, group.variable, align, behind, shared);
        let held = self.once(group, key, |pass| {
            let (mut code, mut address) = pass.narrow(group.base);
            if shared != 0 {
                let sum = pass.frame.fresh(T::B32);
                code.op("add.u32", (sum, address, shared));
                address = sum;
            }
            let held = pass.below_end(
                &mut code,
                (address, behind),
                (align, proved),
                group.variable,
            );
            (code, held)
        });
        self.redirect(group, held, shared);
    }

    /// Returns a variable's alignment as it is declared now.
    pub(super) fn align_of(&self, v: VarId) -> u32 {
        match self.raised.contains(&v) {
            true => VECTOR,
            false => self.frame.program.variables[v.0 as usize].align,
        }
    }

    /// Returns the alignment of a group's bound, and whether rounding to it can be left out.
    fn shared_align(&self, group: &Group, align: u32) -> (u32, bool) {
        let known = self.values.multiple_of(group.base);
        let fits = |v: VarId| self.align_of(v).is_multiple_of(VECTOR);
        // `ptxas` does not see through a minimum that the base is a multiple of 16, and joins neighbouring accesses
        // only if it does.
        let joins = known >= VECTOR && align < VECTOR && has_neighbours(group);
        match joins && group.variable.is_none_or(fits) {
            true => (VECTOR, false),
            false => (align, known >= align),
        }
    }

    /// Holds a 32-bit shared address so low that `behind` bytes from it on are the block's, and rounds it down.
    pub(super) fn below_end(
        &mut self,
        code: &mut Code,
        (address, behind): (RegId, u32),
        (align, proved): (u32, bool),
        variable: Option<VarId>,
    ) -> RegId {
        let size = |v: VarId| self.frame.program.variables[v.0 as usize].size_bytes;
        let fits =
            |v: &VarId| size(*v) >= u64::from(behind) && self.align_of(*v).is_multiple_of(align);
        let last = match variable.filter(fits) {
            Some(v) => {
                let last = (size(v) - u64::from(behind)) / u64::from(align) * u64::from(align);
                self.constant(v, i64::try_from(last).unwrap_or(0))
            }
            None => {
                let end = self.end_of_shared();
                self.last_address(end, behind, align)
            }
        };
        let held = self.frame.fresh(T::B32);
        code.op("min.u32", (held, address, last));
        rounded(self.frame, code, held, if proved { 1 } else { align })
    }

    /// Returns a register that holds the address of something in a shared variable; `ptxas` makes a literal of it.
    fn constant(&mut self, variable: VarId, offset: i64) -> RegId {
        if let Some(register) = self.constants.get(&(variable, offset)) {
            return *register;
        }
        let register = self.frame.fresh(T::B32);
        let mut code = Code::new();
        code.op("mov.u32", (register, address_of(variable, offset)));
        self.frame.at_entry(code);
        self.constants.insert((variable, offset), register);
        register
    }

    fn last_address(&mut self, end: RegId, behind: u32, align: u32) -> RegId {
        if let Some(last) = self.last.get(&(behind, align)) {
            return *last;
        }
        let last = self.frame.fresh(T::B32);
        let mut code = Code::new();
        code.op("sub.u32", (last, end, behind));
        if align > 1 {
            code.op("and.b32", (last, last, -i64::from(align)));
        }
        self.frame.at_entry(code);
        self.last.insert((behind, align), last);
        last
    }

    /// Returns where the block's shared memory ends: at [`MOST_SHARED_SPAN`](super::MOST_SHARED_SPAN) bytes or more.
    pub(super) fn end_of_shared(&mut self) -> RegId {
        if let Some(end) = self.end {
            return end;
        }
        let (load, end) = self.frame.held(Value::SharedEnd);
        self.frame.at_entry(load);
        *self.end.insert(end)
    }

    /// Returns a generic address taken as one of shared memory: the held shared address, and the same as a generic one.
    pub(super) fn in_shared_window(
        &mut self,
        address: RegId,
        access: &Access,
    ) -> (Code, (RegId, RegId)) {
        let low = self.frame.fresh(T::B32);
        let [offset, wide, generic] = self.frame.several(T::B64);
        let mut code = Code::new();
        code.op("cvta.to.shared.u64", (offset, address));
        code.op("cvt.u32.u64", (low, offset));
        let held = self.below_end(&mut code, (low, access.bytes), (access.align, false), None);
        code.op("cvt.u64.u32", (wide, held));
        code.op("cvta.shared.u64", (generic, wide));
        (code, (held, generic))
    }

    /// Zeroes the block's shared memory before the kernel runs: a worker's once, because its own blocks may see what
    /// the one before left there.
    pub(super) fn zero_shared(&mut self) {
        let program = self.frame.program;
        let is_sized = |id: &VarId| {
            let v = &program.variables[id.0 as usize];
            v.space == StateSpace::Shared && !v.is_extern && v.size_bytes != 0
        };
        let variables: Vec<VarId> = here(self.frame.id, self.module_facts)
            .filter(is_sized)
            .collect();
        let kernel = matches!(self.frame.role, Role::Kernel(_));
        if !kernel || (variables.is_empty() && !self.module_facts.dynamic) {
            return;
        }
        let [end, first, t, step, zero] = self.frame.several(T::B32);
        let p = self.frame.fresh(T::Pred);
        let [next, done] = [(); 2].map(|()| self.frame.label());
        let mut code = self.frame.load(Value::SharedEnd, end);
        // From the lowest of them on.
        code.op("mov.u32", (first, self.frame.added.shared()));
        for variable in variables {
            code.op("mov.u32", (t, variable));
            code.op("min.u32", (first, first, t));
        }
        code.append(thread_rank(step, t));
        code.op("shl.b32", (step, step, 2_i64));
        code.op("add.u32", (first, first, 3_i64));
        code.op("and.b32", (first, first, -4_i64));
        code.op("add.u32", (first, first, step));
        code.op("and.b32", (end, end, -4_i64));
        code.op("mov.u32", (step, SpecialReg::Ntid(0)));
        for axis in [1, 2] {
            code.op("mov.u32", (t, SpecialReg::Ntid(axis)));
            code.op("mul.lo.u32", (step, step, t));
        }
        code.op("shl.b32", (step, step, 2_i64));
        code.op("mov.u32", (zero, 0_i64));
        code.label(next);
        code.op("setp.ge.u32", (p, first, end));
        code.op_if(p, "bra", (done,));
        code.op("st.shared.u32", (at(first, 0), zero));
        code.op("add.u32", (first, first, step));
        code.op("bra", (next,));
        code.label(done);
        code.op("bar.sync", (0_i64,));
        self.frame.at_entry_once(code);
    }
}

/// Returns code that puts a thread's number in its block into a register, with another one's help.
fn thread_rank(into: RegId, t: RegId) -> Code {
    let mut code = Code::new();
    code.op("mov.u32", (into, SpecialReg::Tid(2)));
    for axis in [1, 0] {
        code.op("mov.u32", (t, SpecialReg::Ntid(axis)));
        code.op("mul.lo.u32", (into, into, t));
        code.op("mov.u32", (t, SpecialReg::Tid(axis)));
        code.op("add.u32", (into, into, t));
    }
    code
}
