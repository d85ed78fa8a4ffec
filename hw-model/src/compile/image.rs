//! One kernel and the functions that it may call, as one sequence of operations.
//!
//! Each function is lowered for itself and placed behind the one before; branches get absolute targets. A call
//! becomes the moves that pass its arguments, the call itself, and the moves that fetch its results; a function
//! that takes parameters in registers begins with the moves that bring them there.
//!
//! Rule: every operation has an origin, so that a fault names an instruction wherever it happens.

use super::flow::reconvergence;
use super::reach::{Reach, Signature, runtime, signature};
use super::variables::Layout;
use super::{Lines, assembler, operands, slots, unsupported};
use crate::config::GpuConfig;
use crate::exec::{
    self, Constants, Draft, FrameLayout, Kind, Lower, NONE, Op, RegisterSlot, Runtime,
};
use crate::kernel::{FunctionEntry, Origin};
use crate::load_error::LoadError;
use gridmux_ptx::analysis::Flow;
use gridmux_ptx::decode::{
    FuncId, Function, Instruction, MemoryOrder, Opcode, Operand, Param, Program, RegId, ScalarType,
    Span, StateSpace,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// What linking a kernel gives.
pub(super) struct Image {
    pub(super) ops: Vec<Op>,
    pub(super) origins: Vec<Origin>,
    pub(super) tables: Vec<Box<[u32]>>,
    pub(super) functions: Vec<FunctionEntry>,
    pub(super) constants: Box<[RegisterSlot]>,
}

/// An image being made.
struct Linker<'a> {
    program: &'a Program,
    reach: &'a Reach,
    lines: &'a Lines,
    /// Device address of the domain's heap, where the module uses it.
    heap: Option<u64>,
    ops: Vec<Op>,
    origins: Vec<Origin>,
    tables: Vec<Box<[u32]>>,
    functions: Vec<FunctionEntry>,
}

/// Links the members of `reach`.
pub(super) fn link(
    config: &GpuConfig,
    program: &Program,
    reach: &Reach,
    frames: &[FrameLayout],
    layout: &Layout,
    heap: Option<u64>,
    lines: &Lines,
) -> Result<Image, LoadError> {
    let mut linker = Linker {
        program,
        reach,
        lines,
        heap,
        ops: Vec::new(),
        origins: Vec::new(),
        tables: Vec::new(),
        functions: Vec::new(),
    };
    let kernel = reach.members.first().map_or(0, |id| id.0 as usize);
    let too_many = |slots| LoadError::TooManyRegisters {
        kernel: gridmux_ptx::shown(&program.functions[kernel].name),
        slots,
    };
    let mut constants = Constants::default();
    for (id, frame) in reach.members.iter().zip(frames) {
        let function = &*assembler::assembled(config, &program.functions[id.0 as usize], layout);
        let flow = Flow::new(function);
        let mut slots = slots::assign(function, &flow, frame.reserved());
        // The carry flag is one predicate more.
        let carries = function.body.iter().any(exec::uses_carry);
        slots.predicates += usize::from(carries);
        let scoreboard = slots.slots + slots.predicates;
        if scoreboard >= usize::from(NONE) {
            return Err(too_many(scoreboard));
        }
        let counts = (
            u16::try_from(slots.slots).unwrap_or(NONE),
            u16::try_from(slots.predicates).unwrap_or(NONE),
        );
        let mut lower = Lower::new(
            function,
            layout,
            &slots.place,
            counts,
            *frame,
            config,
            constants,
        );
        if carries {
            lower.carry = u16::try_from(slots.predicates - 1).ok();
        }
        let wide_from = u16::try_from(slots.wide_from).unwrap_or(NONE);
        linker.function(&mut lower, wide_from, &flow, frame)?;
        constants = lower.into_constants();
    }
    let slots = usize::from(NONE) + 1;
    let constants = constants.into_slots().ok_or_else(|| too_many(slots))?;
    Ok(Image {
        ops: linker.ops,
        origins: linker.origins,
        tables: linker.tables,
        functions: linker.functions,
        constants,
    })
}

impl Linker<'_> {
    fn function(
        &mut self,
        lower: &mut Lower<'_>,
        wide_from: u16,
        flow: &Flow,
        frame: &FrameLayout,
    ) -> Result<(), LoadError> {
        let function = lower.function;
        self.functions.push(FunctionEntry {
            pc: self.here(),
            slots: lower.slots,
            wide_from,
            predicates: lower.predicates,
            stack_bytes: frame.bytes.saturating_add(frame.outgoing_bytes),
            cleared: (frame.returns_at, frame.bytes),
        });
        let name: Option<Arc<str>> = (!frame.is_entry).then(|| function.name.as_str().into());
        let header = Origin {
            function: name.clone(),
            line: self.lines.of(function.span),
            source_line: None,
            mnemonic: "function entry".into(),
        };
        if frame.moves {
            let draft = exec::begin_stack(lower);
            self.emit(lower, draft, None, &[], &[], &header);
        }
        self.formals(lower, &function.params, 0, true, None, &header)
            .ok_or_else(|| self.refused_header(function))?;
        let mut starts = Vec::with_capacity(function.body.len() + 1);
        let mut branches = Vec::new();
        let reconvergence = reconvergence(function, flow);
        let mut blocks = flow.blocks.iter().map(|block| block.first as usize);
        let mut next_block = blocks.next();
        for (at, i) in function.body.iter().enumerate() {
            starts.push(self.here());
            if next_block == Some(at) {
                next_block = blocks.next();
                lower.begin_block();
            }
            let origin = Origin {
                function: name.clone(),
                line: self.lines.of(i.span),
                source_line: i.source_line,
                mnemonic: Arc::clone(&i.mnemonic),
            };
            let done = match i.opcode {
                Opcode::Call => self.call(lower, i, &origin),
                Opcode::Ret if !frame.is_entry => self.ret(lower, i, &origin),
                _ => self.plain(lower, i, &origin),
            };
            done.ok_or_else(|| unsupported(self.program, function, i, self.lines))?;
            lower.passed(i);
            if matches!(i.opcode, Opcode::Bra | Opcode::BrxIdx) {
                branches.push((self.ops.len() - 1, reconvergence[at], at));
            }
        }
        starts.push(self.here());
        self.end_of_body(lower, name);
        let polled = polls_before(&function.body);
        for (op, meet, at) in branches {
            self.aim(function, op, meet, at, (&starts, &polled));
        }
        Ok(())
    }

    fn here(&self) -> u32 {
        u32::try_from(self.ops.len()).unwrap_or(u32::MAX)
    }

    fn refused_header(&self, function: &Function) -> LoadError {
        LoadError::Unsupported {
            function: gridmux_ptx::shown(&function.name),
            line: self.lines.of(function.span),
            mnemonic: ".func".to_owned(),
        }
    }

    /// Gives the branch at an instruction its absolute targets, after where each instruction starts and how many
    /// instructions before each poll memory.
    fn aim(
        &mut self,
        function: &Function,
        op: usize,
        meet: u32,
        at: usize,
        (starts, polled): (&[u32], &[u32]),
    ) {
        let start = |instruction: u32| {
            starts
                .get(instruction as usize)
                .copied()
                .unwrap_or(u32::MAX)
        };
        let op = &mut self.ops[op];
        op.aux = start(meet);
        let target = usize::try_from(op.imm).unwrap_or(0);
        if op.kind == Kind::BranchTable {
            let table = function.branch_tables.get(target);
            let table = table.into_iter().flatten().map(|t| start(*t)).collect();
            op.imm = i64::try_from(self.tables.len()).unwrap_or(0);
            self.tables.push(table);
            return;
        }
        op.imm = i64::from(start(u32::try_from(target).unwrap_or(u32::MAX)));
        if target <= at {
            op.r[0] = exec::branch_weight(polled[target] < polled[at + 1]);
        }
    }

    fn emit(
        &mut self,
        lower: &Lower<'_>,
        draft: Draft,
        i: Option<&Instruction>,
        reads: &[RegId],
        writes: &[RegId],
        origin: &Origin,
    ) -> Option<()> {
        let unguarded = bare(Opcode::Mov);
        let op = lower.finish(draft, i.unwrap_or(&unguarded), reads, writes)?;
        self.ops.push(op);
        self.origins.push(origin.clone());
        Some(())
    }

    fn plain(&mut self, lower: &mut Lower<'_>, i: &Instruction, origin: &Origin) -> Option<()> {
        let mut draft = exec::lower(lower, i)?;
        if draft.kind == Kind::Alu && draft.r[5] == NONE && across_lanes(i) {
            draft.kind = Kind::WarpSync;
            if has_members(i.opcode) {
                draft.r[5] = lower.src(i, i.operands.len() - 1, ScalarType::B32)?;
            }
        }
        if draft.kind == Kind::WarpSync
            && matches!(i.operands.last(), Some(Operand::Int(mask)) if mask & 0xffff_ffff == 0xffff_ffff)
        {
            draft.r[5] = NONE;
        }
        let registers = operands::registers(i);
        self.emit(
            lower,
            draft,
            Some(i),
            &registers.reads,
            &registers.writes,
            origin,
        )
    }

    /// Arguments, the call, results.
    fn call(&mut self, lower: &mut Lower<'_>, i: &Instruction, origin: &Origin) -> Option<()> {
        let signature = signature(self.program, lower.function, i)?;
        let (Operand::Arguments(results), Operand::Arguments(arguments)) =
            (i.operands.first()?, i.operands.get(2)?)
        else {
            return None;
        };
        if results.len() != signature.returns.len() || arguments.len() != signature.params.len() {
            return None;
        }
        for (argument, formal) in arguments.iter().zip(signature.params) {
            self.pass(lower, argument, formal, 0, false, i, origin)?;
        }
        let guard = i.guard.map(|g| g.reg);
        let returns_at = FrameLayout::returns_at(signature.params_bytes());
        if let Some(runtime) = runtime(self.program, i) {
            self.runtime(lower, runtime, returns_at, i, origin)?;
            return self.results(lower, results, &signature, i, origin);
        }
        let (number, address) = match i.operands.get(1)? {
            Operand::Reg(reg) => (0, Some(*reg)),
            _ => (self.number_of(i.callee()?)?, None),
        };
        let slot = match address {
            Some(reg) => Some(lower.reg(&Operand::Reg(reg), true)?),
            None => None,
        };
        let reads: SmallVec<[RegId; 2]> = guard.into_iter().chain(address).collect();
        let draft = exec::call(lower, number, slot);
        self.emit(lower, draft, Some(i), &reads, &[], origin)?;
        self.results(lower, results, &signature, i, origin)
    }

    /// Results, from the frame that the callee has left.
    fn results(
        &mut self,
        lower: &mut Lower<'_>,
        results: &[Operand],
        signature: &Signature<'_>,
        i: &Instruction,
        origin: &Origin,
    ) -> Option<()> {
        let at = FrameLayout::returns_at(signature.params_bytes());
        for (result, formal) in results.iter().zip(signature.returns) {
            self.pass(lower, result, formal, at, true, i, origin)?;
        }
        Some(())
    }

    /// Returns what stands in the place of a call of the device runtime.
    fn runtime(
        &mut self,
        lower: &mut Lower<'_>,
        runtime: Runtime,
        returns_at: u32,
        i: &Instruction,
        origin: &Origin,
    ) -> Option<()> {
        let reads: SmallVec<[RegId; 1]> = i.guard.map(|g| g.reg).into_iter().collect();
        if !runtime.uses_heap() {
            let draft = exec::lower_print(lower, runtime, returns_at);
            return self.emit(lower, draft, Some(i), &reads, &[], origin);
        }
        let scratch = lower.frame.scratch();
        let (base, bias) = lower.outgoing();
        let take = exec::move_word(scratch, (base, bias), true);
        self.emit(lower, take, Some(i), &reads, &[], origin)?;
        self.through(scratch, false, true);
        let draft = exec::lower_heap(runtime, self.heap?, scratch);
        self.emit(lower, draft, Some(i), &reads, &[], origin)?;
        self.through(scratch, true, runtime == Runtime::Malloc);
        if runtime == Runtime::Malloc {
            let give = exec::move_word(scratch, (base, bias + returns_at), false);
            self.emit(lower, give, Some(i), &reads, &[], origin)?;
            self.through(scratch, true, false);
        }
        Some(())
    }

    /// Makes the last operation read or write a slot that no register names.
    fn through(&mut self, slot: u16, reads: bool, writes: bool) {
        let Some(op) = self.ops.last_mut() else {
            return;
        };
        let free = |list: &mut [u16]| {
            if let Some(entry) = list.iter_mut().find(|entry| **entry == NONE) {
                *entry = slot;
            }
        };
        op.free = false;
        if reads || writes {
            free(&mut op.waits);
        }
        if writes {
            free(&mut op.writes);
        }
    }

    fn number_of(&self, id: FuncId) -> Option<u32> {
        self.reach.place_of(id).filter(|n| *n != 0)
    }

    /// One argument (or result, when `back`) between the caller and the callee's frame, `at` bytes into it.
    #[allow(
        clippy::too_many_arguments,
        reason = "what is passed, from where to where, and for which call"
    )]
    fn pass(
        &mut self,
        lower: &mut Lower<'_>,
        actual: &Operand,
        formal: &Param,
        at: u32,
        back: bool,
        i: &Instruction,
        origin: &Origin,
    ) -> Option<()> {
        let (base, bias) = lower.outgoing();
        let callee = (base, bias.checked_add(at)?.checked_add(formal.offset)?);
        let guard = i.guard.map(|g| g.reg);
        if let Operand::Symbol { symbol, offset: 0 } = actual {
            let (start, size) = lower.frame_place(*symbol)?;
            if formal.size_bytes > size {
                return None;
            }
            let own = (lower.frame_pointer(), start);
            let (to, from) = if back { (own, callee) } else { (callee, own) };
            let draft = exec::copy(to, from, formal.size_bytes);
            let reads: SmallVec<[RegId; 1]> = guard.into_iter().collect();
            return self.emit(lower, draft, Some(i), &reads, &[], origin);
        }
        if back && matches!(actual, Operand::Sink) {
            return Some(());
        }
        let draft = exec::pass(lower, actual, formal.ty, callee, back)?;
        let register = match actual {
            Operand::Reg(reg) => Some(*reg),
            _ => None,
        };
        let (mut reads, mut writes) =
            (SmallVec::<[RegId; 2]>::new(), SmallVec::<[RegId; 1]>::new());
        reads.extend(guard);
        if back {
            writes.extend(register);
        } else {
            reads.extend(register);
        }
        self.emit(lower, draft, Some(i), &reads, &writes, origin)
    }

    /// Results that stand in registers go to the frame, then the lanes return.
    fn ret(&mut self, lower: &mut Lower<'_>, i: &Instruction, origin: &Origin) -> Option<()> {
        let function = lower.function;
        let at = lower.frame.returns_at;
        self.formals(lower, &function.returns, at, false, Some(i), origin)?;
        self.plain(lower, i, origin)
    }

    /// Moves between a function's frame and the registers that its parameters or results are declared as.
    fn formals(
        &mut self,
        lower: &mut Lower<'_>,
        formals: &[Param],
        at: u32,
        is_load: bool,
        i: Option<&Instruction>,
        origin: &Origin,
    ) -> Option<()> {
        for formal in formals {
            let Some(reg) = formal.reg else {
                continue;
            };
            if lower.slot(reg) == NONE {
                continue;
            }
            let place = (lower.frame_pointer(), at + formal.offset);
            let draft = exec::pass(lower, &Operand::Reg(reg), formal.ty, place, is_load)?;
            let (reads, writes) = if is_load {
                (None, Some(reg))
            } else {
                (Some(reg), None)
            };
            self.emit(lower, draft, i, reads.as_slice(), writes.as_slice(), origin)?;
        }
        Some(())
    }

    /// Adds what stands behind the last instruction: the end of the kernel or function for whoever gets there.
    fn end_of_body(&mut self, lower: &mut Lower<'_>, name: Option<Arc<str>>) {
        let function = lower.function;
        let end = function.span.end;
        let (what, opcode) = if function.is_entry {
            ("end of kernel", Opcode::Exit)
        } else {
            ("end of function", Opcode::Ret)
        };
        let origin = Origin {
            function: name,
            line: self.lines.of(Span {
                start: end.saturating_sub(1),
                end,
            }),
            source_line: None,
            mnemonic: what.into(),
        };
        let last = bare(opcode);
        let done = if function.is_entry {
            self.plain(lower, &last, &origin)
        } else {
            self.ret(lower, &last, &origin)
        };
        debug_assert!(done.is_some(), "an operation without operands always fits");
    }
}

/// Returns an instruction without guard and operands.
fn bare(opcode: Opcode) -> Instruction {
    Instruction {
        guard: None,
        opcode,
        mnemonic: "ret".into(),
        mods: Arc::default(),
        operands: Vec::new(),
        source_line: None,
        span: Span::default(),
    }
}

/// Returns whether the instruction exchanges data across the lanes of its warp and waits for them.
fn across_lanes(i: &Instruction) -> bool {
    let shuffles = matches!(
        i.opcode,
        Opcode::Shfl | Opcode::Vote | Opcode::Match | Opcode::Redux | Opcode::Elect
    );
    let matrices = matches!(i.opcode, Opcode::Mma | Opcode::WmmaMma);
    (shuffles && i.mods.sync) || matrices
}

/// Returns whether its last operand is a member mask.
fn has_members(opcode: Opcode) -> bool {
    !matches!(opcode, Opcode::Mma | Opcode::WmmaMma)
}

/// Returns for each place in a body, its end included, how many instructions before it poll.
fn polls_before(body: &[Instruction]) -> Vec<u32> {
    let sums = body.iter().scan(0, |sum, i| {
        *sum += u32::from(polls(i));
        Some(*sum)
    });
    std::iter::once(0).chain(sums).collect()
}

/// Returns whether an instruction asks for something that others may change, or sleeps: loops around it may be waiting.
pub(super) fn polls(i: &Instruction) -> bool {
    let strong = !matches!(i.mods.order, None | Some(MemoryOrder::Weak));
    match i.opcode {
        Opcode::Ld => strong && i.mods.spaces.first() != Some(&StateSpace::Param),
        Opcode::Atom | Opcode::Nanosleep | Opcode::MbarrierTestWait | Opcode::MbarrierTryWait => {
            true
        }
        _ => false,
    }
}
