//! Whether a function can be fenced, and what it has to be handed for it.

use super::access::{Treatment, barrier_operands, treatment};
use super::bounds::{Bound, Bounding, needs_values};
use super::module_facts::{ModuleFacts, is_full};
use super::register_facts::RegisterFacts;
use super::targets::Targets;
use super::{FaultKind, FenceMode, FenceOptions, FenceReason};
use crate::analysis::Flow;
use crate::decode::{AddressBase, FuncId, Function, Instruction, Operand, Program, StateSpace};
use crate::forms::Reason;
use crate::forms::facts::{Facts, Found};
use crate::forms::value::{Value, Values};

/// A call through a pointer is compared with at most this many functions.
pub(super) const MAX_CANDIDATES: usize = 64;

/// Returns why the function cannot be fenced, for reasons of its own.
pub(crate) fn judge(
    program: &Program,
    id: FuncId,
    module_facts: &ModuleFacts,
) -> Option<(Reason, u32)> {
    let index = id.0 as usize;
    let function = &program.functions[index];
    let start = function.span.start;
    if program.version < (4, 3) || program.sm() < 50 || program.address_size != 64 {
        return Some((FenceReason::TooOld.into(), start));
    }
    if module_facts.recursive[index] {
        return Some((FenceReason::Recursion.into(), start));
    }
    if let Some(what) = module_facts.managed[index].clone() {
        return Some((FenceReason::Managed(what).into(), start));
    }
    if let Some(bytes) = is_full(program, id, module_facts).filter(|_| function.is_entry) {
        return Some((FenceReason::SharedFull(bytes).into(), start));
    }
    // What registers hold is dear to work out, and most kernels can be judged without it.
    let (mut known, unknown) = (None, RegisterFacts::default());
    for i in &function.body {
        let reason = match treatment(i) {
            Treatment::Plain | Treatment::Trap(_) | Treatment::Jump => None,
            Treatment::Refused(reason) => Some(reason),
            Treatment::Call => call(program, id, &module_facts.targets, i),
            Treatment::Barrier => barrier(i),
            Treatment::Memory(accesses) => accesses.iter().find_map(|access| {
                if is_narrow(function, &i.operands[access.operand]) {
                    let what = i.mnemonic.to_string();
                    return Some(FenceReason::NarrowAddress(what));
                }
                if access.space == StateSpace::Global {
                    return None;
                }
                let values = match needs_values(i, access) {
                    true => known.get_or_insert_with(|| {
                        RegisterFacts::new((program, function), &Flow::new(function), (&[], &[]))
                    }),
                    false => &unknown,
                };
                let bounding = Bounding {
                    program,
                    function,
                    index,
                    values,
                    module_facts,
                };
                match bounding.bound(i, access) {
                    Bound::Refused(reason) => Some(reason),
                    _ => None,
                }
            }),
        };
        if let Some(reason) = reason {
            return Some((reason.into(), i.span.start));
        }
    }
    None
}

/// Returns why the function may not read the size of its shared memory: a fenced kernel of a module with shared memory
/// may get more of it ([`prepare`](super::prepare)), and its variables other alignments.
pub(crate) fn forbids_size(facts: &Facts, module_facts: &ModuleFacts) -> Option<Found> {
    let any = module_facts.shared || module_facts.names_shared;
    facts.total_size_read.clone().filter(|_| any)
}

/// Returns whether an address lies in a register that is too small for any.
fn is_narrow(function: &Function, operand: &Operand) -> bool {
    let Operand::Address { base, .. } = operand else {
        return false;
    };
    matches!(base, AddressBase::Reg(r) if function.registers[r.0 as usize].size_bytes() < 4)
}

impl From<FenceReason> for Reason {
    fn from(reason: FenceReason) -> Self {
        Self::Fence(reason)
    }
}

/// Returns the values of the control block that the function's fence uses, itself and not through calls.
pub(crate) fn needs(program: &Program, id: FuncId, options: FenceOptions) -> Values {
    let mut values = Values::default();
    let function = &program.functions[id.0 as usize];
    for i in &function.body {
        match treatment(i) {
            Treatment::Memory(accesses) => {
                for access in &accesses {
                    match access.space {
                        StateSpace::Global => values.insert(Value::FenceBase),
                        StateSpace::Generic => {
                            values.insert(Value::FenceBase);
                            values.insert(Value::SharedEnd);
                        }
                        StateSpace::Shared => values.insert(Value::SharedEnd),
                        _ => continue,
                    }
                    if access.space != StateSpace::Shared && options.mode != FenceMode::Window {
                        values.insert(Value::FenceMask);
                    }
                }
            }
            Treatment::Trap(_) => values.insert(Value::Counters),
            Treatment::Call if i.callee().is_none() || assertion(program, i).is_some() => {
                values.insert(Value::Counters);
            }
            _ => {}
        }
    }
    values
}

/// Returns why the function stands in the way of a worker's loop only when it is fenced: what was a trap ends its
/// thread.
pub(crate) fn forbids_worker(program: &Program, id: FuncId) -> Option<(Reason, u32)> {
    let function = &program.functions[id.0 as usize];
    if function.is_entry {
        return None;
    }
    let leaves = |i: &&Instruction| {
        matches!(treatment(i), Treatment::Trap(_)) || assertion(program, i).is_some()
    };
    let found = function.body.iter().find(leaves)?;
    let function = function.name.clone();
    Some((Reason::ExitInCallee(function), found.span.start))
}

/// Returns a call of `__assertfail`, which never returns.
pub(super) fn assertion(program: &Program, i: &Instruction) -> Option<FaultKind> {
    let callee = &program.functions[i.callee()?.0 as usize];
    let is = !callee.is_defined && callee.name == "__assertfail";
    is.then_some(FaultKind::Assertion)
}

fn call(program: &Program, id: FuncId, targets: &Targets, i: &Instruction) -> Option<FenceReason> {
    if let Some(f) = i.callee() {
        let callee = &program.functions[f.0 as usize];
        let is_known = callee.is_defined || assertion(program, i).is_some();
        return (!is_known).then(|| FenceReason::External(callee.name.clone()));
    }
    match i.operands.get(1) {
        Some(Operand::Reg(_)) => {
            let found = targets.of(id, i);
            let candidates = found.len();
            let few = (1..=MAX_CANDIDATES).contains(&candidates);
            (!few).then_some(FenceReason::IndirectCall {
                candidates,
                limit: MAX_CANDIDATES,
            })
        }
        _ => Some(FenceReason::Unbounded(i.mnemonic.to_string())),
    }
}

/// Returns what is wrong with a barrier: numbers are 0 to 15, thread counts multiples of 32 (PTX ISA section 9.7.13.1).
fn barrier(i: &Instruction) -> Option<FenceReason> {
    let (number, count) = barrier_operands(i);
    let bad_number =
        matches!(i.operands.get(number), Some(Operand::Int(n)) if !(0..16).contains(n));
    let bad_count = matches!(
        count.and_then(|n| i.operands.get(n)),
        Some(Operand::Int(n)) if !(1..=1024).contains(n) || n % 32 != 0
    );
    (bad_number || bad_count).then(|| FenceReason::Barrier(i.mnemonic.to_string()))
}
