//! Shared memory: addresses held below the end of the block's own, and what stands there cleared.
//!
//! Rule: a bound is a minimum, so that an address that a well-behaved kernel uses stays what it is.

use super::{Group, Member, Pass};
use crate::decode::{Span, StateSpace, VarId, Variable};
use crate::forms::fence::access::Access;
use crate::forms::fence::module_facts::{ModuleFacts, STATIC_SHARED, VECTOR_BYTES, here};
use crate::forms::frame::{Frame, Role};
use crate::forms::value::Value;
use std::collections::HashMap;
use std::fmt::Write as _;

/// Bytes of the widest access.
#[allow(clippy::cast_possible_truncation, reason = "a small number")]
const VECTOR: u32 = VECTOR_BYTES as u32;

/// Declares the function's larger shared variables at multiples of 16 bytes, as `ptxas` places them anyway, so that
/// addresses in them can be told to be such multiples. Gives those that were not.
pub(super) fn raise(frame: &mut Frame<'_>, module_facts: &ModuleFacts) -> Vec<VarId> {
    let variables = &frame.program.variables;
    let owned = &module_facts.owned[frame.id.0 as usize];
    if module_facts.shared_vectors > STATIC_SHARED {
        return Vec::new();
    }
    // How many variables each declaration makes.
    let mut made: HashMap<u32, u32> = HashMap::new();
    for id in owned {
        *made.entry(variables[id.0 as usize].span.start).or_default() += 1;
    }
    let mut raised = Vec::new();
    for &id in owned {
        let v = &variables[id.0 as usize];
        let whole =
            v.size_bytes >= 4 * u64::from(VECTOR) && v.size_bytes.is_multiple_of(u64::from(VECTOR));
        let alone = made[&v.span.start] == 1;
        if v.space != StateSpace::Shared || v.is_extern || v.align >= VECTOR || !(whole && alone) {
            continue;
        }
        if let Some(number) = alignment(frame, v) {
            frame.edits.replace(number, VECTOR.to_string());
            raised.push(id);
        }
    }
    raised
}

/// Returns where a declaration says `.align` how much; `None` when it does not, or has comments to search through.
fn alignment(frame: &Frame<'_>, v: &Variable) -> Option<Span> {
    const WORD: &[u8] = b".align";
    let text = frame
        .module
        .source()
        .get(v.span.start as usize..v.span.end as usize)?;
    let word = text.windows(WORD.len()).position(|w| w == WORD)? + WORD.len();
    if text.contains(&b'/') {
        return None;
    }
    let blank = text[word..]
        .iter()
        .take_while(|b| b.is_ascii_whitespace())
        .count();
    let digits = text[word + blank..]
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric())
        .count();
    let start = v.span.start + u32::try_from(word + blank).ok()?;
    let end = start + u32::try_from(digits).ok()?;
    (blank > 0 && digits > 0).then_some(Span { start, end })
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
            let (mut text, mut address) = pass.narrow(group.base);
            if shared != 0 {
                let sum = pass.frame.fresh("b32");
                let _ = write!(text, "add.u32 {sum}, {address}, {shared}; ");
                address = sum;
            }
            let (bound, held) = pass.below_end((&address, behind), (align, proved), group.variable);
            (text + &bound, held)
        });
        self.redirect(group, &held, shared);
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
        (address, behind): (&str, u32),
        (align, proved): (u32, bool),
        variable: Option<VarId>,
    ) -> (String, String) {
        let held = self.frame.fresh("b32");
        let known = variable.map(|v| &self.frame.program.variables[v.0 as usize]);
        if let Some(v) = known.filter(|v| {
            v.size_bytes >= u64::from(behind)
                && variable.is_some_and(|v| self.align_of(v).is_multiple_of(align))
        }) {
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
        let end = self.end_of_shared();
        let last = self.last_address(&end, behind, align);
        let min = format!("min.u32 {held}, {address}, {last};");
        self.rounded(min, held, if proved { 1 } else { align })
    }

    pub(super) fn rounded(&mut self, text: String, held: String, align: u32) -> (String, String) {
        if align <= 1 {
            return (text, held);
        }
        let rounded = self.frame.fresh("b32");
        (
            format!("{text} and.b32 {rounded}, {held}, -{align};"),
            rounded,
        )
    }

    /// Returns a register that holds the address of something in shared memory; `ptxas` makes a literal of it.
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

    /// Returns where the block's shared memory ends: at [`MOST_SHARED_SPAN`] bytes or more.
    pub(super) fn end_of_shared(&mut self) -> String {
        if let Some(end) = &self.end {
            return end.clone();
        }
        let end = match self.frame.formal(Value::SharedEnd) {
            Some(formal) => formal,
            None => {
                let end = self.frame.fresh("b32");
                let text = self.frame.load(Value::SharedEnd, &end);
                self.frame.at_entry(&text);
                end
            }
        };
        self.end.insert(end).clone()
    }

    /// Returns a generic address taken as one of shared memory: the held shared address, and the same as a generic one.
    pub(super) fn in_shared_window(
        &mut self,
        address: &str,
        access: &Access,
    ) -> (String, (String, String)) {
        let low = self.frame.fresh("b32");
        let [offset, wide, generic] = [(); 3].map(|()| self.frame.fresh("b64"));
        let (text, held) = self.below_end((&low, access.bytes), (access.align, false), None);
        let text = format!(
            "cvta.to.shared.u64 {offset}, {address}; cvt.u32.u64 {low}, {offset}; {text} cvt.u64.u32 {wide}, {held}; \
             cvta.shared.u64 {generic}, {wide};"
        );
        (text, (held, generic))
    }

    /// Zeroes the block's shared memory before the kernel runs: a worker's once, because its own blocks may see what
    /// the one before left there.
    pub(super) fn zero_shared(&mut self) {
        let function = self.frame.id;
        let program = self.frame.program;
        let name = |id: VarId| {
            let v = &program.variables[id.0 as usize];
            let sized = v.space == StateSpace::Shared && !v.is_extern && v.size_bytes != 0;
            (sized && self.scope.at_entry(program, id)).then(|| v.name.clone())
        };
        let names: Vec<String> = here(function, self.module_facts).filter_map(name).collect();
        let kernel = matches!(self.frame.role, Role::Kernel(_));
        if !kernel || (names.is_empty() && !self.module_facts.dynamic) {
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
            " mov.u32 {step}, %tid.z; mov.u32 {t}, %ntid.y; mul.lo.u32 {step}, {step}, {t}; mov.u32 {t}, %tid.y; \
             add.u32 {step}, {step}, {t}; \
             mov.u32 {t}, %ntid.x; mul.lo.u32 {step}, {step}, {t}; mov.u32 {t}, %tid.x; add.u32 {step}, {step}, {t}; \
             shl.b32 {step}, {step}, 2; \
             add.u32 {at}, {at}, 3; and.b32 {at}, {at}, -4; add.u32 {at}, {at}, {step}; and.b32 {end}, {end}, -4; \
             mov.u32 {step}, %ntid.x; mov.u32 {t}, %ntid.y; mul.lo.u32 {step}, {step}, {t}; mov.u32 {t}, %ntid.z; \
             mul.lo.u32 {step}, {step}, {t}; shl.b32 {step}, {step}, 2; \
             mov.u32 {zero}, 0; {next}: setp.ge.u32 {p}, {at}, {end}; @{p} bra {done}; st.shared.u32 [{at}], {zero}; \
             add.u32 {at}, {at}, {step}; bra {next}; {done}: bar.sync 0;"
        );
        self.frame.at_entry_once(&text);
    }
}
