//! A warp: registers, lanes that are alive, and one step of it.
//!
//! Nearly always all lanes stand at one place, and a step is one operation over the active lanes;
//! [`super::control::paths`] holds what happens when they do not.
//! Rules: a step executes at most one operation of one path; a warp without a path that can run is *stalled* and
//! must not step before [`Warp::resume`] says that it can.

use super::control::arrival::Arrival;
use super::control::paths::{Frame, Joins, NEVER, Path, Patience, ROOT, Wait};
use super::control::runtime::StepOutput;
use super::cx::{Access, BlockEnv, Cx, RangeCache, RawFault};
use super::memory::log::{Outcome, WriteLog};
use super::op::{Kind, NONE, Op, RegisterSlot};
use crate::fault::FaultKind;
use crate::kernel::Kernel;
use crate::memory::Domain;

/// A warp's state; its storage is reused from block to block.
#[derive(Debug)]
pub(crate) struct Warp {
    pub(super) registers: Vec<RegisterSlot>,
    pub(super) predicates: Vec<u32>,
    /// Where the running function's registers begin, and pointers there into `registers` and `predicates`.
    pub(super) frame: Frame,
    frame_registers: *mut RegisterSlot,
    frame_predicates: *mut u32,
    /// Next operation.
    pub(crate) pc: u32,
    /// Where the running path meets others, or [`NEVER`].
    pub(super) reconverge: u32,
    pub(super) active: u32,
    pub(super) alive: u32,
    /// The running path's join.
    pub(super) join: u32,
    /// The running path need not wait for the lanes that its next operation names.
    pub(super) over: bool,
    /// No path can run.
    pub(super) stalled: bool,
    /// Index in the block.
    pub(crate) index: u32,
    pub(super) paths: Vec<Path>,
    pub(super) joins: Joins,
    pub(super) patience: Patience,
    /// What the last operation printed or asserted.
    pub(super) said: Option<StepOutput>,
}

/// What a step did, beyond changing the warp.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// An operation without consequences for others.
    Done,
    /// As [`Step::Done`], of a `nanosleep`.
    Slept,
    /// Lanes arrived at a barrier and have moved behind it.
    Barrier(Arrival),
    /// Every living lane waits; these live.
    Stalled { alive: u32 },
    /// Lanes printed; [`Warp::take_output`] has the text.
    Printed,
    /// The last lane ended.
    Ended,
    /// The operation failed; the warp must not step any more.
    Fault(RawFault),
}

/// What a step needs besides the warp.
pub(crate) struct StepContext<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) block: &'a BlockEnv,
    pub(crate) domain: &'a Domain,
    pub(crate) ranges: &'a mut RangeCache,
    pub(crate) access: &'a mut Access,
    /// Where writes to global memory go; `None` when they go to memory at once.
    pub(crate) log: Option<&'a mut WriteLog>,
    pub(crate) clock: u64,
    pub(crate) clock_ns: u64,
}

impl StepContext<'_> {
    /// Returns the same, for another operation of the same step.
    pub(super) fn again(&mut self) -> StepContext<'_> {
        StepContext {
            kernel: self.kernel,
            block: self.block,
            domain: self.domain,
            ranges: self.ranges,
            access: self.access,
            log: self.log.as_deref_mut(),
            clock: self.clock,
            clock_ns: self.clock_ns,
        }
    }
}

/// The lanes that took part in a step, and whether it has an outcome that its caller must look at. Few steps have
/// one, and handing it back by value would cost each of them a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stepped {
    /// The step is [`Step::Done`], and nothing was written to the place for rare outcomes.
    pub(crate) plain: bool,
    pub(crate) lanes: u32,
    pub(crate) diverged: bool,
}

impl Default for Warp {
    fn default() -> Self {
        Self {
            registers: Vec::new(),
            predicates: Vec::new(),
            frame: Frame::default(),
            frame_registers: std::ptr::null_mut(),
            frame_predicates: std::ptr::null_mut(),
            pc: 0,
            reconverge: NEVER,
            active: 0,
            alive: 0,
            join: ROOT,
            over: false,
            stalled: false,
            index: 0,
            paths: Vec::new(),
            joins: Joins::default(),
            patience: Patience::default(),
            said: None,
        }
    }
}

impl Warp {
    /// Starts warp `index` of a block of `threads` threads.
    pub(crate) fn start(&mut self, kernel: &Kernel, index: u32, threads: u32) {
        self.registers.clear();
        self.registers
            .resize(usize::from(kernel.slots), RegisterSlot::ZERO);
        self.predicates.clear();
        self.predicates.resize(usize::from(kernel.predicates), 0);
        self.set_frame(Frame::default());
        self.pc = 0;
        self.reconverge = NEVER;
        self.index = index;
        let lanes = threads.saturating_sub(index * 32).min(32);
        self.alive = if lanes == 32 {
            u32::MAX
        } else {
            (1 << lanes) - 1
        };
        self.active = self.alive;
        self.join = ROOT;
        self.over = false;
        self.stalled = false;
        self.paths.clear();
        self.joins.start(self.alive);
        self.patience = Patience::default();
        self.said = None;
    }

    /// Gives storage back that only deep or wide kernels need; the warp must be started before it steps again.
    pub(crate) fn trim(&mut self, most_bytes: usize) {
        if self.registers.capacity() * size_of::<RegisterSlot>() > most_bytes {
            self.registers = Vec::new();
        }
        if self.predicates.capacity() * size_of::<u32>() > most_bytes {
            self.predicates = Vec::new();
        }
        self.set_frame(Frame::default());
    }

    /// Sets the frame after a change of function, or after storage has moved.
    pub(super) fn set_frame(&mut self, frame: Frame) {
        self.frame = frame;
        self.frame_registers = self
            .registers
            .as_mut_ptr()
            .wrapping_add(frame.registers as usize);
        self.frame_predicates = self
            .predicates
            .as_mut_ptr()
            .wrapping_add(frame.predicates as usize);
    }

    /// Lanes that have not ended.
    pub(crate) fn alive(&self) -> u32 {
        self.alive
    }

    /// Calls `f` with the operation, the block barrier (or none) and the lanes of each path that waits.
    pub(crate) fn waiting(&self, mut f: impl FnMut(u32, Option<u8>, u32)) {
        for path in &self.paths {
            let lanes = path.mask & self.alive;
            match path.wait {
                _ if lanes == 0 => {}
                Wait::Barrier { id, .. } => f(path.pc - 1, Some(id), lanes),
                Wait::Lanes { .. } => f(path.pc, None, lanes),
                Wait::Nothing | Wait::Over | Wait::Met => {}
            }
        }
    }

    /// Returns what the last operation printed or asserted.
    pub(crate) fn said(&self) -> Option<&str> {
        self.said.as_ref().map(|said| &*said.text)
    }

    /// Takes what the last operation printed.
    pub(crate) fn take_output(&mut self) -> Option<StepOutput> {
        self.said.take()
    }

    /// Returns what a register slot of the running function holds; `None` for an operand that is none.
    pub(crate) fn register(&self, operand: u16) -> Option<&RegisterSlot> {
        let at = self.frame.registers as usize + usize::from(operand);
        self.registers.get(at)
    }

    /// Returns whether no lanes can run but those on the running path.
    pub(crate) fn runs_one_path(&self) -> bool {
        self.paths.iter().all(|path| !path.wait.can_run())
    }

    /// Returns the first register slot of the running function.
    pub(crate) fn first_register(&self) -> u32 {
        self.frame.registers
    }

    /// Returns the operation and lane that a message about the whole warp names: where it stands, or the barrier where
    /// it waits.
    pub(crate) fn place(&self) -> (u32, u32) {
        match self.at_barrier() {
            Some(path) if self.stalled => (path.pc - 1, path.mask.trailing_zeros() & 31),
            _ => {
                let waiting = self.paths.last().filter(|_| self.stalled);
                let (pc, lanes) = waiting.map_or((self.pc, self.active), |p| (p.pc, p.mask));
                (pc, lanes.trailing_zeros() & 31)
            }
        }
    }

    /// Bits of a predicate of the running function.
    #[inline(always)]
    pub(super) fn predicate(&self, number: u16) -> u32 {
        debug_assert!(self.frame.predicates as usize + usize::from(number) < self.predicates.len());
        // SAFETY: the lowering numbers predicates below the function's count, `start` and `call` made room for as
        // many behind the frame's beginning, and `set_frame` follows each change of the storage.
        unsafe { *self.frame_predicates.add(usize::from(number)) }
    }

    /// Lanes for which the guard of an operation of the running function holds.
    #[inline(always)]
    pub(super) fn guard(&self, op: &Op) -> u32 {
        if op.guard == NONE {
            u32::MAX
        } else {
            self.predicate(op.guard) ^ if op.guard_negated { u32::MAX } else { 0 }
        }
    }

    /// Executes `op`, which must be the kernel's operation at `pc`; an outcome other than [`Step::Done`] goes to
    /// `rare`.
    #[inline(always)]
    pub(crate) fn step(&mut self, op: &Op, around: StepContext<'_>, rare: &mut Step) -> Stepped {
        let mut lanes = self.active & self.guard(op);
        let mut diverged = false;
        let plain = if op.kind.is_simple() {
            match self.execute_quickly(op, lanes, around) {
                None => true,
                Some(fault) => {
                    *rare = Step::Fault(fault);
                    false
                }
            }
        } else if op.kind == Kind::Branch {
            let target = u32::try_from(op.imm).unwrap_or(NEVER);
            diverged = self.branch(target, op.aux, op.r[0], lanes);
            true
        } else {
            self.step_rarely(op, &mut lanes, around, rare)
        };
        let plain = if self.pc == self.reconverge {
            self.arrived(plain, rare)
        } else {
            plain
        };
        Stepped {
            plain,
            lanes,
            diverged,
        }
    }

    /// Writes the result of a recorded operation to its register.
    pub(crate) fn commit(&mut self, outcome: &Outcome<'_>) {
        let words: *mut u32 = self.registers.as_mut_ptr().cast();
        let first = (outcome.owner.frame as usize + usize::from(outcome.target.slot)) * 32;
        for lane in (0..32).filter(|lane| outcome.mask >> lane & 1 != 0) {
            let word = outcome.words[lane];
            #[allow(
                clippy::cast_possible_truncation,
                reason = "a narrow register keeps the low half"
            )]
            // SAFETY: the lowering gave the destination's slots, two of them for a wide one, and the warp is the
            // one that recorded the operation, so its registers hold them.
            unsafe {
                if outcome.target.wide {
                    words
                        .add(first)
                        .cast::<u64>()
                        .add(lane)
                        .write_unaligned(word);
                } else {
                    words.add(first + lane).write(word as u32);
                }
            }
        }
    }

    /// Returns whether the outcome of a step that ends at the running path's join; true when it is [`Step::Done`].
    #[inline(never)]
    fn arrived(&mut self, plain: bool, rare: &mut Step) -> bool {
        self.arrive();
        match if plain { Step::Done } else { *rare } {
            Step::Barrier(mut arrival) => {
                arrival.stalled = self.stalled;
                *rare = Step::Barrier(arrival);
            }
            step => *rare = self.settled(step),
        }
        matches!(rare, Step::Done)
    }

    /// Operations that matter less for speed; true when the outcome is [`Step::Done`].
    #[inline(never)]
    fn step_rarely(
        &mut self,
        op: &Op,
        lanes: &mut u32,
        around: StepContext<'_>,
        rare: &mut Step,
    ) -> bool {
        *rare = self.run_rarely(op, lanes, around);
        matches!(rare, Step::Done)
    }

    #[inline(always)]
    fn run_rarely(&mut self, op: &Op, lanes: &mut u32, around: StepContext<'_>) -> Step {
        let running = *lanes;
        if running == 0 {
            self.pc += 1;
            return Step::Done;
        }
        match op.kind {
            Kind::WarpSync if self.together() && op.r[5] == NONE => {
                return self.execute(op, running, around);
            }
            Kind::Sleep => {
                return match self.execute(op, running, around) {
                    Step::Done => Step::Slept,
                    failed => failed,
                };
            }
            Kind::Nothing | Kind::CopyGroup => {
                self.pc += 1;
                return Step::Done;
            }
            Kind::Exit => self.exit(running),
            Kind::Return => self.return_lanes(running),
            Kind::WarpSync => {
                let (step, ran) = self.across(op, running, around);
                *lanes = ran;
                return self.settled(step);
            }
            Kind::Barrier => return self.meet(op, running, around),
            Kind::Call => {
                if let Err(fault) = self.call(op, running, around) {
                    return Step::Fault(fault);
                }
            }
            Kind::BranchTable => {
                if let Err(fault) = self.branch_table(op, running, around) {
                    return Step::Fault(fault);
                }
            }
            Kind::Print => return self.print(op, running, around),
            Kind::Assert => return self.assert(op, running, around),
            Kind::Trap => return self.fault(FaultKind::Trap, running),
            Kind::Breakpoint => return self.fault(FaultKind::Breakpoint, running),
            Kind::Alu
            | Kind::Memory
            | Kind::Copy
            | Kind::CopyArrival
            | Kind::Parameter
            | Kind::Branch => {}
        }
        self.settled(Step::Done)
    }

    /// Returns what a step that may have parked or ended lanes comes to.
    fn settled(&self, step: Step) -> Step {
        match step {
            Step::Done | Step::Slept if self.alive == 0 => Step::Ended,
            Step::Done | Step::Slept if self.stalled => Step::Stalled { alive: self.alive },
            step => step,
        }
    }

    #[inline(always)]
    pub(super) fn cx<'a>(&mut self, mask: u32, around: StepContext<'a>) -> Cx<'a> {
        Cx {
            regs: self.frame_registers,
            constants: around.kernel.constants.as_ptr(),
            predicates: self.frame_predicates,
            mask,
            warp: self.index,
            pc: self.pc,
            clock: around.clock,
            clock_ns: around.clock_ns,
            block: around.block,
            domain: around.domain,
            ranges: around.ranges,
            access: around.access,
            log: around.log,
            fault: None,
        }
    }

    pub(super) fn execute(&mut self, op: &Op, lanes: u32, around: StepContext<'_>) -> Step {
        match self.execute_quickly(op, lanes, around) {
            None => Step::Done,
            Some(fault) => Step::Fault(fault),
        }
    }

    #[inline(always)]
    fn execute_quickly(
        &mut self,
        op: &Op,
        lanes: u32,
        around: StepContext<'_>,
    ) -> Option<RawFault> {
        let mut cx = self.cx(lanes, around);
        if lanes == 0 {
            cx.access.mask = 0;
            self.pc += 1;
            return None;
        }
        // SAFETY: `exec` was chosen for this host's instructions, and `op` was lowered for the kernel whose slots,
        // predicates and constants `cx` points to, with the sizes that `start` and `call` gave them.
        unsafe { (op.exec)(&mut cx, op) };
        if cx.fault.is_some() {
            return cx.fault;
        }
        self.pc += 1;
        None
    }

    pub(super) fn fault(&self, kind: FaultKind, lanes: u32) -> Step {
        Step::Fault(RawFault {
            kind,
            lane: lanes.trailing_zeros() & 31,
            address: None,
        })
    }
}
