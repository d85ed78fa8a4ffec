//! What follows from the data flow for each access of a kernel: where the upper half of its address comes from.

use super::flow::{Flow, Function};
use super::listing::{Address, Machine, Operand, REGISTERS, Register};
use super::opcode::bytes;
use super::value::{Atom, State, Value};
use gridmux_ptx::forms::fence::GUARD_BYTES;
use std::collections::BTreeSet;

/// What could not be proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unproved {
    pub(crate) kernel: String,
    /// The instruction and its byte in the section.
    pub(crate) at: u64,
    pub(crate) text: String,
    pub(crate) reason: String,
    /// It is one access; else control flow that is not known, and nothing of the kernel is proved.
    pub(crate) is_access: bool,
}

/// What became of a kernel.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    /// Accesses by 64-bit addresses.
    pub(crate) accesses: usize,
    pub(crate) unproved: Vec<Unproved>,
}

impl Proof {
    /// Returns how many accesses are proved.
    pub(crate) fn proved(&self) -> usize {
        match self.unproved.iter().all(|u| u.is_access) {
            true => self.accesses - self.unproved.len(),
            false => 0,
        }
    }
}

impl Flow<'_> {
    /// Judges every access of the section; `came_to_rest` says whether what functions hold is complete.
    pub(super) fn judge(&self, came_to_rest: bool) -> Proof {
        let mut proof = Proof::default();
        let mut seen = BTreeSet::new();
        for function in self.functions.values() {
            if function.entry.iter().all(|v| *v == Value::NONE) {
                continue;
            }
            self.walk(function, |at, i, state| {
                seen.insert(at);
                if let Some(reason) = self.lost(at, i) {
                    self.fail(&mut proof, i, (reason, false));
                }
                if let Err(reason) = self.access(function, state, i) {
                    self.fail(&mut proof, i, (reason, true));
                }
            });
        }
        for (at, i) in self.section.code.iter().enumerate() {
            if !runs(i) || !reaches_memory(i) {
                continue;
            }
            proof.accesses += 1;
            if !seen.contains(&at) {
                let reason = "no way to it is known";
                self.fail(&mut proof, i, (reason.to_owned(), true));
            }
        }
        if let Some(i) = self.section.code.first().filter(|_| !came_to_rest) {
            let reason = "the data flow did not come to rest";
            self.fail(&mut proof, i, (reason.to_owned(), false));
        }
        proof.unproved.sort_by_key(|u| (u.at, u.is_access));
        // Several functions may have an instruction in common.
        proof.unproved.dedup_by_key(|u| (u.at, u.is_access));
        proof
    }

    fn fail(&self, proof: &mut Proof, i: &Machine, (reason, is_access): (String, bool)) {
        proof.unproved.push(Unproved {
            kernel: self.section.name.clone(),
            at: i.at,
            text: i.text.clone(),
            reason,
            is_access,
        });
    }

    /// Returns why it is not known where control goes from an instruction.
    fn lost(&self, at: usize, i: &Machine) -> Option<String> {
        if !runs(i) {
            return None;
        }
        let is_known = |name: &String| self.section.labels.contains_key(name);
        let mut labels = i.operands.iter().filter_map(|o| match o {
            Operand::Label(name) => Some(name),
            _ => None,
        });
        let reason = match i.opcode.split('.').next().unwrap_or_default() {
            "BRA" | "JMP" => match labels.next() {
                Some(name) if is_known(name) && labels.all(is_known) => None,
                _ => Some("it jumps to where is not known"),
            },
            "BSSY" | "WARPSYNC" => (!labels.all(is_known)).then_some("it names an unknown label"),
            "BRX" | "BRXU" | "JMX" | "JMXU" => {
                let is_known = !i.targets.is_empty() && i.targets.iter().all(is_known);
                (!is_known).then_some("it jumps through a table that is not known")
            }
            "CALL" if self.callees(i).is_empty() => Some("it calls what is not in the section"),
            "CALL" if self.may_leave(i) => Some("it calls what may not be in the section"),
            "EXIT" | "RET" | "KILL" if i.guard.is_none() => None,
            _ if at + 1 == self.section.code.len() => Some("control runs past the section's end"),
            _ => None,
        };
        reason.map(str::to_owned)
    }

    /// Returns whether a call goes to where a register says, and the cubin has functions in sections of their own.
    fn may_leave(&self, i: &Machine) -> bool {
        let by_register = i.operands.iter().any(|o| matches!(o, Operand::Register(_)));
        let others = &self.listing.sections;
        by_register
            && others
                .iter()
                .any(|s| s.name != self.section.name && !s.is_entry)
    }

    /// Proves an instruction's addresses, if it has any.
    fn access(&self, function: &Function, state: &State, i: &Machine) -> Result<(), String> {
        if !runs(i) {
            return Ok(());
        }
        if goes_by_object(i) {
            return Err("it reaches memory through an object or a descriptor".to_owned());
        }
        addresses(i)
            .into_iter()
            .try_for_each(|address| self.address(function, state, (i, address)))
    }

    /// Proves where the upper half of an address comes from.
    fn address(
        &self,
        function: &Function,
        state: &State,
        (i, address): (&Machine, &Address),
    ) -> Result<(), String> {
        let [(register, suffix)] = address.parts.as_slice() else {
            let count = address.parts.len();
            return Err(format!("its address is a sum of {count} registers"));
        };
        if !i.opcode.split('.').any(|word| word == "E") {
            return Err("its address does not have 64 bits".to_owned());
        }
        let guard = i64::try_from(GUARD_BYTES).unwrap_or(0);
        let end = address.offset + bytes(&i.opcode);
        let is_near = address.offset > -guard && end <= guard;
        let is_pair = matches!(suffix.as_str(), "" | "64") && register + 1 < REGISTERS;
        if !address.is_known || !is_near || !is_pair {
            return Err("its address is not one that is known here".to_owned());
        }
        let held = |register: Register| {
            let value = state.get(register, i.guard.as_deref());
            value.with(|r| function.entry[r].clone())
        };
        let (low, high) = (held(*register), held(register + 1));
        let Some(atoms) = high.atoms().filter(|atoms| !atoms.is_empty()) else {
            return Err("the upper half of its address may be anything".to_owned());
        };
        let bytes = (address.offset, end);
        match atoms
            .iter()
            .find(|atom| !self.is_confined(**atom, &low, bytes))
        {
            Some(atom) => Err(format!(
                "the upper half of its address may be {}",
                describe(*atom)
            )),
            None => Ok(()),
        }
    }

    /// Returns whether an address with that upper half is confined, for the bytes from the one to the other of it.
    fn is_confined(&self, high: Atom, low: &Value, (from, end): (i64, i64)) -> bool {
        match high {
            Atom::Base | Atom::SharedWindow => true,
            Atom::PointerHigh { at } => match low.only() {
                Some(Atom::PointerLow { at: of, by }) => {
                    of == at && by + from >= 0 && by + end <= self.stepper.block.record(at)
                }
                _ => false,
            },
            Atom::Variable { at, high: true } => {
                low.only() == Some(Atom::Variable { at, high: false })
                    && from >= 0
                    && self.size(at).is_some_and(|size| end <= size)
            }
            _ => false,
        }
    }

    /// Returns the size of the variable whose address stands at that place.
    fn size(&self, at: i64) -> Option<i64> {
        let name = self.listing.addresses.get(&at)?;
        i64::try_from(*self.listing.sizes.get(name)?).ok()
    }
}

fn describe(atom: Atom) -> &'static str {
    match atom {
        Atom::Base => "the base's",
        Atom::SharedWindow => "the shared window's",
        Atom::LocalWindow => "the local window's",
        Atom::PointerHigh { .. } => "that of a pointer of the control block, not within its record",
        Atom::PointerLow { .. } => "the lower half of a pointer of the control block",
        Atom::Variable { .. } => "that of a variable, not within it",
        Atom::Literal(_) => "a number",
        Atom::Stack(_) => "the stack pointer",
        Atom::Entry(_) => "what a caller hands over",
    }
}

/// Returns whether an instruction is ever executed.
pub(super) fn runs(i: &Machine) -> bool {
    !matches!(i.guard.as_deref(), Some("!PT" | "!UPT"))
}

fn reaches_memory(i: &Machine) -> bool {
    goes_by_object(i) || !addresses(i).is_empty()
}

/// Returns whether an instruction reaches memory through a texture, a surface, or a descriptor.
fn goes_by_object(i: &Machine) -> bool {
    let objects = [
        "TEX", "TLD", "TXD", "TMML", "SULD", "SUST", "SURED", "SUATOM", "UTMA", "UBLK",
    ];
    objects.iter().any(|start| i.opcode.starts_with(start))
}

/// Returns the addresses of global and generic memory of an instruction.
fn addresses(i: &Machine) -> Vec<&Address> {
    let word = i.opcode.split('.').next().unwrap_or_default();
    // Shared and local memory, instructions that ask about an address, and waits at barriers of shared memory.
    let is_other = matches!(
        word,
        "LDS" | "STS" | "ATOMS" | "LDSM" | "STSM" | "LDL" | "STL" | "QSPC" | "SYNCS" | "LDC"
    );
    let all = i.operands.iter().filter_map(|o| match o {
        Operand::Address(address) => Some(address),
        _ => None,
    });
    // An asynchronous copy names shared memory first.
    let first = usize::from(word == "LDGSTS");
    all.skip(first).filter(|_| !is_other).collect()
}
