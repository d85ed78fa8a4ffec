//! Calls, and branches through a table (PTX ISA sections 9.7.12 and 7.3).
//!
//! Registers are a stack per warp: a call's frame begins behind its caller's, and behind those that lanes elsewhere in
//! the warp use; its first register is the lanes'
//! frame pointer into local memory, where parameters, results and variables stand. A call is a join that lanes
//! reach by returning; an indirect call sends the lanes of each target by a way of their own.
//!
//! Rules: a frame is entered only if it fits the thread's stack, so that whatever addresses it needs no check;
//! what a frame holds beside its parameters reads as zero; the registers of a warp's frames are bounded, too.

use super::paths::{Frame, Join, Path, Wait};
use crate::exec::cx::{BlockEnv, RawFault};
use crate::exec::lanes::read;
use crate::exec::op::{NONE, Op, RegisterSlot};
use crate::exec::warp::{StepContext, Warp};
use crate::fault::FaultKind;
use crate::kernel::{FUNCTION_BYTES, FUNCTION_WINDOW, FunctionEntry, Kernel};
use smallvec::SmallVec;

/// Register of a function's frame that holds its frame pointer.
pub(super) const FRAME_POINTER: u16 = 0;

/// Most bytes of a warp's registers and predicates behind which another frame begins or ends: the depth that the stack
/// allows, with more than a hundred registers at each level.
const MAX_FRAMES_BYTES: usize = 4 << 20;

impl Warp {
    /// Executes `call`: `imm` is the function's number or `r[0]` its address; `r[1]` and `r[2]` count the caller's
    /// register slots and predicates; the callee's frame begins at `r[3]` plus `aux`.
    #[cold]
    #[inline(never)]
    pub(crate) fn call(
        &mut self,
        op: &Op,
        lanes: u32,
        around: StepContext<'_>,
    ) -> Result<(), RawFault> {
        let (kernel, block) = (around.kernel, around.block);
        let cx = self.cx(lanes, around);
        let bases = read::<u32>(&cx, op.r[3]).map(|base| base.wrapping_add(op.aux));
        let cx_targets = (op.r[0] != NONE).then(|| read::<u64>(&cx, op.r[0]));
        let number_of = |lane: u32| match cx_targets {
            None => u32::try_from(op.imm).ok(),
            Some(addresses) => kernel.function_at(addresses[lane as usize & 31]),
        };
        // Everything is checked before anything changes.
        let mut frame = self.next_frame(op, kernel);
        let mut end = frame;
        let mut called: SmallVec<[Option<u32>; 4]> = SmallVec::new();
        for lane in (0..32).filter(|lane| lanes >> lane & 1 != 0) {
            let fail = |kind, address| RawFault {
                kind,
                lane,
                address,
            };
            let entry = number_of(lane).and_then(|n| kernel.functions.get(n as usize));
            let Some(entry) = entry else {
                let address = cx_targets.map(|a| a[lane as usize & 31]);
                return Err(fail(FaultKind::BadCall, address));
            };
            let top = u64::from(bases[lane as usize & 31]) + u64::from(entry.stack_bytes);
            let limit = block.local_bytes;
            if top > u64::from(limit) {
                return Err(fail(FaultKind::StackOverflow { limit }, None));
            }
            if !called.contains(&number_of(lane)) {
                called.push(number_of(lane));
                end.enter(frame, entry);
            }
            if end.bytes() > MAX_FRAMES_BYTES {
                return Err(fail(FaultKind::StackOverflow { limit }, None));
            }
        }
        let behind = self.pc + 1;
        let mut rest = lanes;
        let mut first = None;
        while rest != 0 {
            let number = number_of(rest.trailing_zeros());
            let group = (0..32)
                .filter(|lane| rest >> lane & 1 != 0 && number_of(*lane) == number)
                .fold(0, |all, lane| all | 1 << lane);
            rest &= !group;
            let entry = number.and_then(|n| kernel.functions.get(n as usize));
            let Some(entry) = entry else {
                continue;
            };
            if first.is_none() && group != self.active {
                self.part(behind);
                let skipped = self.active & !lanes;
                if skipped != 0 {
                    self.send(behind, skipped, self.frame);
                }
            }
            let path = self.enter(entry, frame, group, behind);
            frame.registers += u32::from(entry.slots);
            self.set_up(entry, path.frame, group, &bases, block);
            if first.is_none() {
                first = Some(path);
            } else {
                self.paths.push(path);
            }
        }
        if let Some(path) = first {
            self.run(path);
        }
        Ok(())
    }

    /// Returns where the frame of a function that the running one calls can begin.
    fn next_frame(&self, op: &Op, kernel: &Kernel) -> Frame {
        let mut frame = Frame {
            registers: self.frame.registers + u32::from(op.r[1]),
            predicates: self.frame.predicates + u32::from(op.r[2]),
        };
        if !self.together() {
            let arrived = self.joins.all.iter();
            let arrived = arrived.filter(|j| j.arrived & self.alive != 0);
            let others = self.paths.iter().map(|p| p.frame);
            for other in others.chain(arrived.map(|j| j.frame)) {
                if other.registers != self.frame.registers {
                    let end = other.registers + u32::from(kernel.slots);
                    frame.registers = frame.registers.max(end);
                }
            }
        }
        frame
    }

    /// Returns the path of a group that calls one function.
    fn enter(&mut self, entry: &FunctionEntry, frame: Frame, group: u32, behind: u32) -> Path {
        let join = self.joins.add(Join {
            pc: behind,
            mask: group,
            arrived: 0,
            parent: self.join,
            frame: self.frame,
            is_call: true,
        });
        let registers = frame.registers as usize + usize::from(entry.slots);
        if self.registers.len() < registers {
            self.registers.resize(registers, RegisterSlot::ZERO);
        }
        let predicates = frame.predicates as usize + usize::from(entry.predicates);
        if self.predicates.len() < predicates {
            self.predicates.resize(predicates, 0);
        }
        Path {
            pc: entry.pc,
            mask: group,
            join,
            frame,
            wait: Wait::Nothing,
        }
    }

    /// Gives each lane of a new frame its frame pointer and clears its part of the frame.
    fn set_up(
        &mut self,
        entry: &FunctionEntry,
        frame: Frame,
        group: u32,
        bases: &[u32; 32],
        block: &BlockEnv,
    ) {
        let pointers = &mut self.registers[frame.registers as usize + usize::from(FRAME_POINTER)];
        let (from, to) = entry.cleared;
        for lane in (0..32_usize).filter(|lane| group >> lane & 1 != 0) {
            pointers.0[lane] = bases[lane];
            if from < to {
                let thread = self.index as usize * 32 + lane;
                let at = thread * block.local_bytes as usize + bases[lane] as usize + from as usize;
                // SAFETY: `call` found that the frame, of which `cleared` is a part, lies inside the thread's
                // local memory, and the block has that much for each of its threads.
                unsafe { block.local.add(at).write_bytes(0, (to - from) as usize) };
            }
        }
    }

    /// Executes `brx.idx`: `imm` is the table's number, `r[0]` the index, `aux` where the lanes meet.
    #[cold]
    #[inline(never)]
    pub(in crate::exec) fn branch_table(
        &mut self,
        op: &Op,
        lanes: u32,
        around: StepContext<'_>,
    ) -> Result<(), RawFault> {
        let kernel = around.kernel;
        let table = usize::try_from(op.imm)
            .ok()
            .and_then(|n| kernel.tables.get(n));
        let table: &[u32] = table.map_or(&[], |t| t);
        let index = read::<u32>(&self.cx(lanes, around), op.r[0]);
        let target = |lane: u32| table.get(index[lane as usize & 31] as usize).copied();
        if let Some(lane) = (0..32).find(|lane| lanes >> lane & 1 != 0 && target(*lane).is_none()) {
            let kind = FaultKind::BadBranch {
                index: index[lane as usize],
                targets: u32::try_from(table.len()).unwrap_or(u32::MAX),
            };
            return Err(RawFault {
                kind,
                lane,
                address: None,
            });
        }
        let to = target(lanes.trailing_zeros());
        let group_of = |to: Option<u32>, rest: u32| {
            (0..32)
                .filter(|lane| rest >> lane & 1 != 0 && target(*lane) == to)
                .fold(0, |all, lane| all | 1 << lane)
        };
        let mut group = group_of(to, lanes);
        if group == self.active {
            let back = to.is_some_and(|to| to <= self.pc);
            // One way for all: as an unconditional branch.
            self.branch(to.unwrap_or(0), op.aux, Self::weight(back), self.active);
            return Ok(());
        }
        let next = self.pc + 1;
        self.part(op.aux);
        let mut rest = lanes;
        while rest != 0 {
            let to = target(rest.trailing_zeros());
            group = group_of(to, rest);
            rest &= !group;
            self.send(to.unwrap_or(0), group, self.frame);
        }
        let stay = self.active & !lanes;
        if stay == 0 {
            self.settle_running();
        } else {
            self.active = stay;
            self.pc = next;
        }
        Ok(())
    }

    /// Picks another path, because all running lanes were sent elsewhere.
    fn settle_running(&mut self) {
        self.active = 0;
        self.pick();
    }
}

/// Returns the generic address of a function.
pub(crate) fn function_address(id: u32) -> u64 {
    FUNCTION_WINDOW + u64::from(id) * FUNCTION_BYTES
}
