//! Which functions a kernel may call, what their frames look like, and how deep its stack can get.
//!
//! Rules: an indirect call may reach every function whose address the module takes; the stack of a kernel whose
//! calls cannot recur is exactly as deep as its deepest chain, any other has a fixed size.

use super::{Lines, LoadError};
use crate::exec::{FrameLayout, Runtime};
use gridmux_ptx::decode::{
    CallPrototype, FuncId, Function, Instruction, Opcode, Operand, Param, Program,
    RelocationTarget, Symbol,
};

/// Stack of a thread beyond its kernel's own frame, where calls recur or `alloca` is used, in bytes.
const OPEN_STACK_BYTES: u32 = 8192;
/// Least stack that a call takes, so that endless recursion ends.
const LEAST_FRAME_BYTES: u32 = 16;

/// A kernel and the functions that it may call, itself first.
pub(super) struct Reach {
    pub(super) members: Vec<FuncId>,
}

/// What a call passes and gets back.
pub(super) struct Signature<'a> {
    pub(super) params: &'a [Param],
    pub(super) returns: &'a [Param],
}

impl Signature<'_> {
    pub(super) fn params_bytes(&self) -> u32 {
        end_of(self.params)
    }

    fn bytes(&self) -> u32 {
        FrameLayout::returns_at(self.params_bytes()).saturating_add(whole_units(self.returns))
    }
}

/// Returns the bytes of a block of parameters; `u32::MAX` for more.
pub(super) fn end_of(params: &[Param]) -> u32 {
    params
        .last()
        .map_or(0, |p| p.offset.saturating_add(p.size_bytes))
}

/// Returns the bytes of a block of parameters, up to the next multiple of 16; `u32::MAX` for more.
fn whole_units(params: &[Param]) -> u32 {
    end_of(params)
        .checked_next_multiple_of(16)
        .unwrap_or(u32::MAX)
}

/// The function that a direct call names.
pub(super) fn callee(i: &Instruction) -> Option<FuncId> {
    match i.operands.get(1)? {
        Operand::Symbol {
            symbol: Symbol::Function(id),
            ..
        } => Some(*id),
        _ => None,
    }
}

/// The function of the device runtime that an instruction calls.
pub(super) fn runtime(program: &Program, i: &Instruction) -> Option<Runtime> {
    if i.opcode != Opcode::Call {
        return None;
    }
    let callee = program.functions.get(callee(i)?.0 as usize)?;
    let takes = |bytes: u32| end_of(&callee.params) == bytes;
    let runtime = Runtime::by_name(&callee.name).filter(|_| !callee.is_defined)?;
    // The layout of the arguments is part of the contract.
    let fits = match runtime {
        Runtime::Print => takes(16) && end_of(&callee.returns) == 4,
        Runtime::Assert => takes(40) && callee.returns.is_empty(),
        Runtime::Malloc => takes(8) && end_of(&callee.returns) == 8,
        Runtime::Free => takes(8) && callee.returns.is_empty(),
    };
    fits.then_some(runtime)
}

/// The program allocates from the heap.
pub(super) fn needs_heap(program: &Program) -> bool {
    let bodies = program.functions.iter().flat_map(|f| &f.body);
    let mut runtime = bodies.filter_map(|i| runtime(program, i));
    runtime.any(Runtime::uses_heap)
}

/// What a call's callee takes and returns; `None` for an indirect call without a prototype.
pub(super) fn signature<'a>(
    program: &'a Program,
    function: &'a Function,
    i: &Instruction,
) -> Option<Signature<'a>> {
    let of = |id: FuncId| {
        let callee = program.functions.get(id.0 as usize)?;
        Some(Signature {
            params: &callee.params,
            returns: &callee.returns,
        })
    };
    if let Some(id) = callee(i) {
        return of(id);
    }
    let Operand::Prototype(index) = i.operands.get(3)? else {
        return None;
    };
    let prototype: &CallPrototype = function.call_prototypes.get(*index as usize)?;
    match prototype.targets.first() {
        Some(id) => of(*id),
        None => Some(Signature {
            params: &prototype.params,
            returns: &prototype.returns,
        }),
    }
}

impl Reach {
    pub(super) fn of(program: &Program, entry: FuncId) -> Self {
        let taken = address_taken(program);
        let mut members = vec![entry];
        let mut at = 0;
        while let Some(id) = members.get(at).copied() {
            at += 1;
            let body = &program.functions[id.0 as usize].body;
            for i in body.iter().filter(|i| i.opcode == Opcode::Call) {
                let direct = callee(i);
                let targets = direct.as_slice().iter();
                let indirect = if direct.is_none() { &*taken } else { &[] };
                for id in targets.chain(indirect) {
                    let defined = program.functions[id.0 as usize].is_defined;
                    if defined && !members.contains(id) {
                        members.push(*id);
                    }
                }
            }
        }
        Self { members }
    }

    /// Local memory of a thread in bytes, given the layouts of the members.
    pub(super) fn stack_bytes(&self, program: &Program, layouts: &[FrameLayout]) -> u32 {
        let moves = layouts.iter().any(|l| l.moves);
        match self.depth(program, layouts, 0, &mut vec![None; layouts.len()], 0) {
            Some(bytes) if !moves => bytes,
            _ => layouts
                .first()
                .map_or(0, |l| l.bytes.saturating_add(l.outgoing_bytes))
                .saturating_add(OPEN_STACK_BYTES),
        }
    }

    /// Deepest stack from member `at` on; `None` where calls recur.
    fn depth(
        &self,
        program: &Program,
        layouts: &[FrameLayout],
        at: usize,
        known: &mut Vec<Option<u32>>,
        nested: usize,
    ) -> Option<u32> {
        if let Some(bytes) = known[at] {
            return Some(bytes);
        }
        if nested > layouts.len() {
            return None;
        }
        let own = layouts[at];
        let mut deepest = own.outgoing_bytes;
        let body = &program.functions[self.members[at].0 as usize].body;
        for i in body.iter().filter(|i| i.opcode == Opcode::Call) {
            let direct = callee(i);
            for (number, member) in self.members.iter().enumerate().skip(1) {
                if direct.is_none_or(|id| id == *member) {
                    let below = self.depth(program, layouts, number, known, nested + 1)?;
                    deepest = deepest.max(below);
                }
            }
        }
        let bytes = own.bytes.saturating_add(deepest);
        known[at] = Some(bytes);
        Some(bytes)
    }
}

/// Functions whose address is a value somewhere in the module.
fn address_taken(program: &Program) -> Vec<FuncId> {
    let mut taken = Vec::new();
    for function in &program.functions {
        for i in function.body.iter().filter(|i| i.opcode != Opcode::Call) {
            for operand in &i.operands {
                if let Operand::Symbol {
                    symbol: Symbol::Function(id),
                    ..
                } = operand
                {
                    taken.push(*id);
                }
            }
        }
        let listed = function.call_prototypes.iter().flat_map(|p| &p.targets);
        taken.extend(listed.copied());
    }
    for relocation in program.variables.iter().flat_map(|v| &v.relocations) {
        if let RelocationTarget::Function(id) = relocation.target {
            taken.push(id);
        }
    }
    taken.sort_unstable();
    taken.dedup();
    taken
}

/// The frame of a function, before its variables are placed behind `locals_at`.
pub(super) fn frame(
    program: &Program,
    function: &Function,
    lines: &Lines,
) -> Result<FrameLayout, LoadError> {
    let mut outgoing = 0;
    for i in function.body.iter().filter(|i| i.opcode == Opcode::Call) {
        let Some(signature) = signature(program, function, i) else {
            return Err(super::unsupported(function, i, lines));
        };
        outgoing = signature.bytes().max(outgoing);
    }
    let params = if function.is_entry {
        0
    } else {
        end_of(&function.params)
    };
    let returns_at = FrameLayout::returns_at(params);
    let locals_at = returns_at.saturating_add(whole_units(&function.returns));
    let moves = |i: &Instruction| {
        matches!(
            i.opcode,
            Opcode::Alloca | Opcode::StackSave | Opcode::StackRestore
        )
    };
    Ok(FrameLayout {
        is_entry: function.is_entry,
        returns_at,
        bytes: locals_at.max(if function.is_entry {
            0
        } else {
            LEAST_FRAME_BYTES
        }),
        outgoing_bytes: outgoing,
        moves: function.body.iter().any(moves),
        uses_heap: function
            .body
            .iter()
            .any(|i| runtime(program, i).is_some_and(Runtime::uses_heap)),
    })
}
