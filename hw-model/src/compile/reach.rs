//! Which functions a kernel may call, what their frames look like, and how deep its stack can get.
//!
//! Rules: an indirect call may reach every function whose address the module takes; the stack of a kernel whose
//! calls cannot recur is exactly as deep as its deepest chain, any other has a fixed size.

use super::Lines;
use crate::exec::{FrameLayout, Runtime};
use crate::load_error::LoadError;
use gridmux_ptx::analysis::CallGraph;
use gridmux_ptx::decode::{
    CallPrototype, FuncId, Function, Instruction, Opcode, Operand, Param, Program,
};

/// Stack of a thread beyond its kernel's own frame, where calls recur or `alloca` is used, in bytes.
const OPEN_STACK_BYTES: u32 = 8192;
/// Least stack that a call takes, so that endless recursion ends.
const LEAST_FRAME_BYTES: u32 = 16;

/// A kernel and the functions that it may call, itself first.
pub(super) struct Reach {
    pub(super) members: Vec<FuncId>,
    /// Place of each function of the program among the members.
    places: Vec<Option<u32>>,
}

/// How far the search for the deepest stack has come with a member.
#[derive(Clone, Copy)]
enum Depth {
    Unknown,
    /// Its callees are looked at.
    Open,
    Known(u32),
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

/// Returns the function of the device runtime that an instruction calls.
pub(super) fn runtime(program: &Program, i: &Instruction) -> Option<Runtime> {
    let callee = program.functions.get(i.callee()?.0 as usize)?;
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

/// Returns whether the program allocates from the heap.
pub(super) fn needs_heap(program: &Program) -> bool {
    let bodies = program.functions.iter().flat_map(|f| &f.body);
    let mut runtime = bodies.filter_map(|i| runtime(program, i));
    runtime.any(Runtime::uses_heap)
}

/// Returns what a call's callee takes and returns; `None` for an indirect call without a prototype.
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
    if let Some(id) = i.callee() {
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
    /// Finds what `entry` may call.
    pub(super) fn of(program: &Program, calls: &CallGraph, entry: FuncId) -> Self {
        let members = calls.reached_from(program, entry);
        let mut places = vec![None; program.functions.len()];
        for (n, member) in (0..).zip(&members) {
            places[member.0 as usize] = Some(n);
        }
        Self { members, places }
    }

    /// Returns the place of a function among the members.
    pub(super) fn place_of(&self, id: FuncId) -> Option<u32> {
        self.places.get(id.0 as usize).copied().flatten()
    }

    /// Returns the local memory of a thread in bytes, given the layouts of the members.
    pub(super) fn stack_bytes(&self, program: &Program, layouts: &[FrameLayout]) -> u32 {
        let moves = layouts.iter().any(|l| l.moves);
        match self.depth(program, layouts) {
            Some(bytes) if !moves => bytes,
            _ => layouts
                .first()
                .map_or(0, |l| l.bytes.saturating_add(l.outgoing_bytes))
                .saturating_add(OPEN_STACK_BYTES),
        }
    }

    /// Returns the deepest stack of the kernel; `None` where calls recur. A chain of calls may be as long as the
    /// module, so the search keeps its own stack.
    fn depth(&self, program: &Program, layouts: &[FrameLayout]) -> Option<u32> {
        let mut known = vec![Depth::Unknown; layouts.len()];
        let mut open = vec![(0, self.callees(program, 0)?)];
        let mut deepest = vec![layouts[0].outgoing_bytes];
        loop {
            let (at, callees) = open.last_mut()?;
            let below = match callees.pop() {
                Some(callee) => match known[callee as usize] {
                    Depth::Open => return None,
                    Depth::Known(bytes) => bytes,
                    Depth::Unknown => {
                        known[callee as usize] = Depth::Open;
                        open.push((callee as usize, self.callees(program, callee as usize)?));
                        deepest.push(layouts[callee as usize].outgoing_bytes);
                        continue;
                    }
                },
                None => {
                    let bytes = layouts[*at].bytes.saturating_add(deepest.pop()?);
                    known[*at] = Depth::Known(bytes);
                    open.pop();
                    if open.is_empty() {
                        return Some(bytes);
                    }
                    bytes
                }
            };
            let most = deepest.last_mut()?;
            *most = below.max(*most);
        }
    }

    /// Returns the places of those that a member calls, without the kernel; `None` where it may call itself.
    fn callees(&self, program: &Program, at: usize) -> Option<Vec<u32>> {
        let body = &program.functions[self.members[at].0 as usize].body;
        let mut callees = Vec::new();
        for i in body.iter().filter(|i| i.opcode == Opcode::Call) {
            match i.callee() {
                Some(id) => callees.extend(self.place_of(id).filter(|place| *place != 0)),
                // An indirect call reaches every member, its own function among them.
                None if at != 0 => return None,
                None => {
                    let all = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
                    return Some((1..all).collect());
                }
            }
        }
        callees.sort_unstable();
        callees.dedup();
        Some(callees)
    }
}

/// Returns the frame of a function, before its variables are placed behind `locals_at`.
pub(super) fn frame(
    program: &Program,
    function: &Function,
    lines: &Lines,
) -> Result<FrameLayout, LoadError> {
    let mut outgoing = 0;
    for i in function.body.iter().filter(|i| i.opcode == Opcode::Call) {
        let Some(signature) = signature(program, function, i) else {
            return Err(super::unsupported(program, function, i, lines));
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
