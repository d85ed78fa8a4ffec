//! A warp: registers, lanes that are alive, and the SIMT stack; and one step of it.
//!
//! The stack is the classic one: a divergent branch leaves a frame at its reconvergence point and one for the
//! lanes that go the other way; reaching the reconvergence point takes the next frame.
//! Rules: a frame that no living lane belongs to is skipped; the stack never grows in a loop, because lanes that
//! leave for the reconvergence point of the frame below need no frame of their own.

use super::control::barrier_operands;
use super::cx::{Access, BlockEnv, Cx, RangeCache, RawFault};
use super::log::{Outcome, WriteLog};
use super::op::{Kind, NONE, Op, Slot};
use crate::fault::FaultKind;
use crate::kernel::Kernel;
use crate::memory::Domain;

/// Where lanes go on later.
#[derive(Debug, Clone, Copy)]
struct Frame {
    pc: u32,
    reconverge: u32,
    mask: u32,
}

/// A warp's state; its storage is reused from block to block.
#[derive(Debug, Default)]
pub(crate) struct Warp {
    registers: Vec<Slot>,
    predicates: Vec<u32>,
    stack: Vec<Frame>,
    /// Next operation.
    pub(crate) pc: u32,
    reconverge: u32,
    active: u32,
    alive: u32,
    /// Index in the block.
    pub(crate) index: u32,
}

/// What a step did, beyond changing the warp.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// An operation without consequences for others.
    Done,
    /// The warp arrived at a barrier and has moved behind it.
    Barrier { id: u32, threads: Option<u32> },
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
    /// Where writes to global memory go; `None` when they go to memory at once.
    pub(crate) log: Option<&'a mut WriteLog>,
    pub(crate) clock: u64,
    pub(crate) clock_ns: u64,
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
        self.stack.clear();
        self.pc = 0;
        self.reconverge = u32::MAX;
        self.index = index;
        let lanes = threads.saturating_sub(index * 32).min(32);
        self.alive = if lanes == 32 {
            u32::MAX
        } else {
            (1 << lanes) - 1
        };
        self.active = self.alive;
    }

    /// Lanes that have not ended.
    pub(crate) fn alive(&self) -> u32 {
        self.alive
    }

    /// Executes `op`, which must be the kernel's operation at `pc`.
    #[inline(always)]
    pub(crate) fn step(&mut self, op: &Op, around: Surroundings<'_>) -> Stepped {
        let guard = if op.guard == NONE {
            u32::MAX
        } else {
            self.predicates[usize::from(op.guard)] ^ if op.guard_negated { u32::MAX } else { 0 }
        };
        let lanes = self.active & guard;
        let mut diverged = false;
        let step = match op.kind {
            Kind::Alu | Kind::Memory => self.execute(op, lanes, around),
            Kind::Nothing => {
                self.pc += 1;
                Step::Done
            }
            Kind::Branch => {
                diverged = self.branch(op, lanes);
                Step::Done
            }
            Kind::Exit => {
                self.exit(lanes);
                if self.alive == 0 {
                    Step::Ended
                } else {
                    Step::Done
                }
            }
            Kind::Barrier if lanes != 0 => {
                let (id, threads) = barrier_operands(&self.cx(lanes, around), op);
                self.pc += 1;
                if id > 15 {
                    let kind = FaultKind::BadBarrier { id };
                    self.fault(kind, lanes)
                } else {
                    Step::Barrier { id, threads }
                }
            }
            Kind::Trap if lanes != 0 => self.fault(FaultKind::Trap, lanes),
            Kind::Barrier | Kind::Trap => {
                self.pc += 1;
                Step::Done
            }
        };
        if self.pc == self.reconverge {
            self.pop();
        }
        Stepped {
            step,
            lanes,
            diverged,
        }
    }

    /// Writes the result of a recorded operation to its register.
    pub(crate) fn commit(&mut self, outcome: &Outcome<'_>) {
        let words: *mut u32 = self.registers.as_mut_ptr().cast();
        let first = usize::from(outcome.target.slot) * 32;
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

    #[inline(always)]
    fn cx<'a>(&mut self, mask: u32, around: Surroundings<'a>) -> Cx<'a> {
        Cx {
            regs: self.registers.as_mut_ptr(),
            constants: around.kernel.constants.as_ptr(),
            predicates: self.predicates.as_mut_ptr(),
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

    #[inline(always)]
    fn execute(&mut self, op: &Op, lanes: u32, around: Surroundings<'_>) -> Step {
        let mut cx = self.cx(lanes, around);
        if lanes == 0 {
            cx.access.mask = 0;
            self.pc += 1;
            return Step::Done;
        }
        // SAFETY: `exec` was chosen for this host's instructions, and `op` was lowered for the kernel whose slots,
        // predicates and constants `cx` points to, with the sizes that `start` gave them.
        unsafe { (op.exec)(&mut cx, op) };
        if let Some(fault) = cx.fault {
            return Step::Fault(fault);
        }
        self.pc += 1;
        Step::Done
    }

    fn fault(&self, kind: FaultKind, lanes: u32) -> Step {
        Step::Fault(RawFault {
            kind,
            lane: lanes.trailing_zeros() & 31,
            address: None,
        })
    }

    /// True when the lanes part.
    #[inline(always)]
    fn branch(&mut self, op: &Op, taken: u32) -> bool {
        let target = u32::try_from(op.imm).unwrap_or(u32::MAX);
        let stay = self.active & !taken;
        if taken == 0 {
            self.pc += 1;
            return false;
        }
        if stay == 0 {
            self.pc = target;
            return false;
        }
        let meet = op.aux;
        if meet != self.reconverge && meet != u32::MAX {
            self.stack.push(Frame {
                pc: meet,
                reconverge: self.reconverge,
                mask: self.active,
            });
        }
        if target != meet {
            self.stack.push(Frame {
                pc: target,
                reconverge: meet,
                mask: taken,
            });
        }
        self.pc += 1;
        self.reconverge = meet;
        self.active = stay;
        true
    }

    fn exit(&mut self, lanes: u32) {
        self.alive &= !lanes;
        self.active &= !lanes;
        if self.active == 0 {
            self.pop();
        } else {
            self.pc += 1;
        }
    }

    /// Goes on with the next frame that has living lanes and somewhere to go.
    fn pop(&mut self) {
        while let Some(frame) = self.stack.pop() {
            let mask = frame.mask & self.alive;
            if mask != 0 && frame.pc != frame.reconverge {
                self.pc = frame.pc;
                self.reconverge = frame.reconverge;
                self.active = mask;
                return;
            }
        }
        // Without a frame left, lanes that reached the reconvergence point go on together from there.
        self.reconverge = u32::MAX;
        self.active = self.alive;
    }
}
