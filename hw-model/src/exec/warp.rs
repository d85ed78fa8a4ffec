//! A warp: registers, lanes that are alive, and one step of it.
//!
//! Nearly always all lanes stand at one place, and a step is one operation over the active lanes; [`super::paths`]
//! holds what happens when they do not.
//! Rules: a step executes at most one operation of one path; a warp without a path that can run is *stalled* and
//! must not step before [`Warp::resume`] says that it can.

use super::cx::{Access, BlockEnv, Cx, RangeCache, RawFault};
use super::op::{Kind, NONE, Op, Slot};
use super::paths::{Frame, Joins, NEVER, Path, Patience, ROOT};
use super::rendezvous::Arrival;
use crate::fault::FaultKind;
use crate::kernel::Kernel;
use crate::memory::Domain;

/// A warp's state; its storage is reused from block to block.
#[derive(Debug, Default)]
pub(crate) struct Warp {
    pub(super) registers: Vec<Slot>,
    pub(super) predicates: Vec<u32>,
    /// Where the running function's registers begin.
    pub(super) frame: Frame,
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
}

/// What a step did, beyond changing the warp.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// An operation without consequences for others.
    Done,
    /// Lanes arrived at a barrier and have moved behind it.
    Barrier(Arrival),
    /// Every living lane waits; these live.
    Stalled { alive: u32 },
    /// The last lane ended.
    Ended,
    /// The operation failed; the warp must not step any more.
    Fault(RawFault),
}

/// What a step needs besides the warp.
pub(crate) struct Surroundings<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) block: &'a BlockEnv,
    pub(crate) domain: &'a Domain,
    pub(crate) ranges: &'a mut RangeCache,
    pub(crate) access: &'a mut Access,
    pub(crate) clock: u64,
    pub(crate) clock_ns: u64,
}

impl Surroundings<'_> {
    /// The same, for another operation of the same step.
    pub(super) fn again(&mut self) -> Surroundings<'_> {
        Surroundings {
            kernel: self.kernel,
            block: self.block,
            domain: self.domain,
            ranges: self.ranges,
            access: self.access,
            clock: self.clock,
            clock_ns: self.clock_ns,
        }
    }
}

/// A step's outcome, and the lanes that took part in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stepped {
    pub(crate) step: Step,
    pub(crate) lanes: u32,
    pub(crate) diverged: bool,
}

impl Warp {
    /// Starts warp `index` of a block of `threads` threads.
    pub(crate) fn start(&mut self, kernel: &Kernel, index: u32, threads: u32) {
        self.registers.clear();
        self.registers.resize(usize::from(kernel.slots), Slot::ZERO);
        self.predicates.clear();
        self.predicates.resize(usize::from(kernel.predicates), 0);
        self.frame = Frame::default();
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
    }

    /// Lanes that have not ended.
    pub(crate) fn alive(&self) -> u32 {
        self.alive
    }

    /// Operation and lane that a message about the whole warp names: where it stands, or the barrier where it waits.
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
        self.predicates[self.frame.predicates as usize + usize::from(number)]
    }

    /// Executes `op`, which must be the kernel's operation at `pc`.
    #[inline(always)]
    pub(crate) fn step(&mut self, op: &Op, around: Surroundings<'_>) -> Stepped {
        let guard = if op.guard == NONE {
            u32::MAX
        } else {
            self.predicate(op.guard) ^ if op.guard_negated { u32::MAX } else { 0 }
        };
        let mut lanes = self.active & guard;
        let mut diverged = false;
        let step = match op.kind {
            Kind::Alu | Kind::Memory => self.execute(op, lanes, around),
            Kind::WarpSync if self.together() && op.r[5] == NONE => self.execute(op, lanes, around),
            Kind::Nothing => {
                self.pc += 1;
                Step::Done
            }
            Kind::Branch => {
                let target = u32::try_from(op.imm).unwrap_or(NEVER);
                diverged = self.branch(target, op.aux, op.r[0], lanes);
                Step::Done
            }
            _ => self.step_rarely(op, &mut lanes, around),
        };
        if self.pc == self.reconverge {
            return self.arrived(step, lanes, diverged);
        }
        Stepped {
            step,
            lanes,
            diverged,
        }
    }

    /// The outcome of a step that ends at the running path's join.
    fn arrived(&mut self, step: Step, lanes: u32, diverged: bool) -> Stepped {
        self.arrive();
        let step = match step {
            Step::Barrier(mut arrival) => {
                arrival.stalled = self.stalled;
                Step::Barrier(arrival)
            }
            step => self.settled(step),
        };
        Stepped {
            step,
            lanes,
            diverged,
        }
    }

    /// Operations that matter less for speed.
    fn step_rarely(&mut self, op: &Op, lanes: &mut u32, around: Surroundings<'_>) -> Step {
        let running = *lanes;
        if running == 0 {
            self.pc += 1;
            return Step::Done;
        }
        match op.kind {
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
            Kind::Trap => return self.fault(FaultKind::Trap, running),
            Kind::Breakpoint => return self.fault(FaultKind::Breakpoint, running),
            Kind::Alu | Kind::Memory | Kind::Nothing | Kind::Branch => {}
        }
        self.settled(Step::Done)
    }

    /// What a step that may have parked or ended lanes comes to.
    fn settled(&self, step: Step) -> Step {
        match step {
            Step::Done if self.alive == 0 => Step::Ended,
            Step::Done if self.stalled && self.at_barrier().is_none() => {
                self.fault(FaultKind::WarpDeadlock, self.alive)
            }
            Step::Done if self.stalled => Step::Stalled { alive: self.alive },
            step => step,
        }
    }

    #[inline(always)]
    pub(super) fn cx<'a>(&mut self, mask: u32, around: Surroundings<'a>) -> Cx<'a> {
        Cx {
            regs: self
                .registers
                .as_mut_ptr()
                .wrapping_add(self.frame.registers as usize),
            constants: around.kernel.constants.as_ptr(),
            predicates: self
                .predicates
                .as_mut_ptr()
                .wrapping_add(self.frame.predicates as usize),
            mask,
            warp: self.index,
            pc: self.pc,
            clock: around.clock,
            clock_ns: around.clock_ns,
            block: around.block,
            domain: around.domain,
            ranges: around.ranges,
            access: around.access,
            fault: None,
        }
    }

    #[inline(always)]
    fn execute(&mut self, op: &Op, lanes: u32, around: Surroundings<'_>) -> Step {
        let mut cx = self.cx(lanes, around);
        if lanes == 0 {
            cx.access.mask = 0;
            self.pc += 1;
            return Step::Done;
        }
        // SAFETY: `exec` was chosen for this host's instructions, and `op` was lowered for the kernel whose slots,
        // predicates and constants `cx` points to, with the sizes that `start` and `call` gave them.
        unsafe { (op.exec)(&mut cx, op) };
        if let Some(fault) = cx.fault {
            return Step::Fault(fault);
        }
        self.pc += 1;
        Step::Done
    }

    pub(super) fn fault(&self, kind: FaultKind, lanes: u32) -> Step {
        Step::Fault(RawFault {
            kind,
            lane: lanes.trailing_zeros() & 31,
            address: None,
        })
    }
}
