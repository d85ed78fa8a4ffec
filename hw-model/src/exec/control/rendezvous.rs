//! Waiting for one another: lanes at operations across the warp, threads at block barriers.
//!
//! An operation with a member mask waits until the living lanes that it names stand at the same operation (PTX ISA
//! section 9.7.13, `bar.warp.sync`; the same holds for `shfl`, `vote`, `match` and `redux`). Lanes that came by
//! different ways are one path from there on, unless they came by different calls: those execute the operation in one
//! step and go on as they came. A lane that waits for lanes which wait elsewhere for it would wait for
//! ever on a chip; here each of them then goes on alone.
//!
//! Rules: lanes with different member masks are different groups of one instruction; a path that waits at a block
//! barrier already stands behind it.

use super::arrival::{Arrival, Released, Tally};
use super::instructions::{BarrierMode, barrier_operands};
use super::paths::{Frame, Path, ROOT, Vote, Wait};
use crate::exec::lanes::active;
use crate::exec::op::{CONSTANT, NONE, Op, RegisterSlot};
use crate::exec::warp::{Step, StepContext, Warp};
use crate::fault::FaultKind;
use crate::kernel::FunctionEntry;

impl Warp {
    /// Returns an operation across lanes that may have to wait, or whose lanes fall into groups.
    pub(crate) fn across(&mut self, op: &Op, lanes: u32, around: StepContext<'_>) -> (Step, u32) {
        if self.over && self.paths.iter().any(|p| self.meets(p)) {
            return self.across_paths(op, around);
        }
        let members = self.members(op, &around);
        let first = members[lanes.trailing_zeros() as usize & 31];
        let (mut named, mut other) = (0, 0);
        for (lane, mask) in members.iter().enumerate() {
            let takes_part = 0_u32.wrapping_sub(lanes >> lane & 1);
            named |= mask & takes_part;
            other |= (mask ^ first) & takes_part;
        }
        let wanted = named & self.alive & !self.active;
        if wanted != 0 && !self.over {
            self.paths.push(self.running(Wait::Lanes { wanted }));
            self.unite();
            self.pick();
            return (Step::Done, 0);
        }
        self.over = false;
        if other == 0 {
            return (self.execute(op, lanes, around), lanes);
        }
        (self.by_groups(op, lanes, &members, around), lanes)
    }

    /// Executes an operation for each group of lanes with one member mask.
    fn by_groups(
        &mut self,
        op: &Op,
        lanes: u32,
        members: &[u32; 32],
        mut around: StepContext<'_>,
    ) -> Step {
        let mut rest = lanes;
        while rest != 0 {
            let mask = members[rest.trailing_zeros() as usize & 31];
            let group = (0..32_u32)
                .filter(|lane| rest >> lane & 1 != 0 && members[*lane as usize] == mask)
                .fold(0, |all, lane| all | 1 << lane);
            rest &= !group;
            let mut cx = self.cx(group, around.again());
            // SAFETY: as in `execute`: the operation was lowered for this kernel and this host.
            unsafe { (op.exec)(&mut cx, op) };
            if let Some(fault) = cx.fault {
                return Step::Fault(fault);
            }
        }
        self.pc += 1;
        Step::Done
    }

    /// Returns whether the path executes the running one's next operation with it.
    fn meets(&self, path: &Path) -> bool {
        path.wait == Wait::Met && path.pc == self.pc
    }

    /// Returns an operation whose lanes came by different calls: all execute it at once, in a frame to which their
    /// registers are copied and from which they are copied back.
    #[cold]
    fn across_paths(&mut self, op: &Op, around: StepContext<'_>) -> (Step, u32) {
        let (home, own, at) = (self.frame, self.active, self.pc);
        let functions = around.kernel.functions.iter();
        let Some(function) = functions.rev().find(|f| f.pc <= at).copied() else {
            return (Step::Done, 0);
        };
        let others = self.paths.iter().filter(|p| self.meets(p));
        let mut parts: Vec<(Frame, u32)> = others.map(|p| (p.frame, p.mask & self.alive)).collect();
        parts.push((home, own));
        let ends = (self.registers.len(), self.predicates.len());
        let common = Frame {
            registers: u32::try_from(ends.0).unwrap_or(u32::MAX),
            predicates: u32::try_from(ends.1).unwrap_or(u32::MAX),
        };
        let added = usize::from(function.slots);
        self.registers.resize(ends.0 + added, RegisterSlot::ZERO);
        let added = usize::from(function.predicates);
        self.predicates.resize(ends.1 + added, 0);
        for (frame, lanes) in &parts {
            self.copy_frame(&function, *frame, common, *lanes);
        }
        self.set_frame(common);
        self.active = parts.iter().fold(0, |all, (_, lanes)| all | lanes);
        let lanes = self.active & self.guard(op);
        self.over = false;
        let members = self.members(op, &around);
        let step = self.by_groups(op, lanes, &members, around);
        for (frame, lanes) in &parts {
            self.copy_frame(&function, common, *frame, *lanes);
        }
        self.registers.truncate(ends.0);
        self.predicates.truncate(ends.1);
        self.set_frame(home);
        self.active = own;
        for path in &mut self.paths {
            if path.wait == Wait::Met && path.pc == at {
                (path.pc, path.wait) = (at + 1, Wait::Nothing);
            }
        }
        (step, lanes)
    }

    /// Copies what some lanes have in one frame of a function to another.
    fn copy_frame(&mut self, function: &FunctionEntry, from: Frame, to: Frame, lanes: u32) {
        let (narrow, slots) = (usize::from(function.wide_from), usize::from(function.slots));
        let (source, target) = (from.registers as usize, to.registers as usize);
        for lane in active(lanes) {
            for slot in 0..narrow {
                self.registers[target + slot].0[lane] = self.registers[source + slot].0[lane];
            }
            // A 64-bit word is at its lane's place in the pair: two words of one of the two slots.
            let (half, word) = (lane / 16, lane % 16 * 2);
            for slot in (narrow..slots).step_by(2).map(|first| first + half) {
                let value = self.registers[source + slot].0;
                self.registers[target + slot].0[word..word + 2]
                    .copy_from_slice(&value[word..word + 2]);
            }
        }
        for number in 0..usize::from(function.predicates) {
            let value = self.predicates[from.predicates as usize + number] & lanes;
            let place = &mut self.predicates[to.predicates as usize + number];
            *place = *place & !lanes | value;
        }
    }

    /// Returns the member mask of each lane.
    fn members(&self, op: &Op, around: &StepContext<'_>) -> [u32; 32] {
        match op.r[5] {
            NONE => [u32::MAX; 32],
            constant if constant & CONSTANT != 0 => {
                around.kernel.constants[usize::from(constant & !CONSTANT)].0
            }
            slot => self.registers[self.frame.registers as usize + usize::from(slot)].0,
        }
    }

    /// Lets paths go on whose lanes all stand at one operation; false when there are none.
    fn unite(&mut self) -> bool {
        for at in 0..self.paths.len() {
            let first = self.paths[at];
            let Wait::Lanes { wanted } = first.wait else {
                continue;
            };
            let stands_there = |p: &Path| matches!(p.wait, Wait::Lanes { .. }) && p.pc == first.pc;
            let here = self.paths.iter().filter(|p| stands_there(p));
            let here = here.fold(0, |all, p| all | p.mask);
            if wanted & self.alive & !here != 0 {
                continue;
            }
            self.merge(at, stands_there);
            return true;
        }
        false
    }

    /// Makes one path of those that stand where path `at` stands, as far as they return to the same place; the others
    /// execute the operation in the same step, and part again.
    fn merge(&mut self, at: usize, stands_there: impl Fn(&Path) -> bool) {
        let mut whole = self.paths.remove(at);
        whole.wait = Wait::Met;
        let mut next = 0;
        while let Some(path) = self.paths.get(next).copied() {
            if !stands_there(&path) {
                next += 1;
                continue;
            }
            let same = path.frame == whole.frame;
            match self.common(whole.join, path.join).filter(|_| same) {
                Some(join) => {
                    self.paths.remove(next);
                    self.detach(whole.mask, whole.join, join);
                    self.detach(path.mask, path.join, join);
                    whole.mask |= path.mask;
                    whole.join = join;
                    // Lanes that were let go by a join stand at the end, so none is passed over.
                }
                None => {
                    self.paths[next].wait = Wait::Met;
                    next += 1;
                }
            }
        }
        self.paths.push(whole);
    }

    /// Returns the innermost join that two paths share, if no call lies between.
    fn common(&self, a: u32, b: u32) -> Option<u32> {
        let mut of_a = a;
        loop {
            let mut of_b = b;
            loop {
                if of_a == of_b {
                    return Some(of_a);
                }
                if of_b == ROOT || self.joins.get(of_b).is_call {
                    break;
                }
                of_b = self.joins.get(of_b).parent;
            }
            if of_a == ROOT || self.joins.get(of_a).is_call {
                return None;
            }
            of_a = self.joins.get(of_a).parent;
        }
    }

    /// Takes lanes out of the joins from `from` outwards, up to but without `to`.
    fn detach(&mut self, lanes: u32, from: u32, to: u32) {
        let mut at = from;
        while at != to && at != ROOT {
            let join = self.joins.get_mut(at);
            join.mask &= !lanes;
            let (parent, left) = (join.parent, join.mask & self.alive);
            if left != 0 && join.arrived & self.alive == left {
                self.release_waiting(at);
            }
            self.joins.free_if_empty(at, self.alive);
            at = parent;
        }
    }

    /// Returns whether nothing can run: lanes that wait for one another at different places go on alone, and lanes that
    /// wait at a join go on without those that wait for them. False when that helps nobody.
    pub(super) fn meet_lanes(&mut self) -> bool {
        if self.unite() {
            return true;
        }
        let waits = |p: &Path| matches!(p.wait, Wait::Lanes { .. });
        let anywhere = self.paths.iter().filter(|p| waits(p));
        let anywhere = anywhere.fold(0, |all, p| all | p.mask);
        for at in 0..self.paths.len() {
            let Wait::Lanes { wanted } = self.paths[at].wait else {
                continue;
            };
            if wanted & self.alive & !anywhere == 0 {
                for path in self.paths.iter_mut().filter(|p| waits(p)) {
                    path.wait = Wait::Over;
                }
                return true;
            }
            if self.release_waiting(self.paths[at].join) {
                return true;
            }
        }
        false
    }

    /// Returns whether the last resort before a block is declared deadlocked: lanes that wait at joins for lanes that
    /// wait at a block barrier go on. True when the warp can run again.
    pub(crate) fn loosen(&mut self) -> bool {
        for at in 0..self.paths.len() {
            if self.release_waiting(self.paths[at].join) && self.go_on() {
                return true;
            }
        }
        false
    }

    /// Lanes come to a block barrier.
    pub(crate) fn meet(&mut self, op: &Op, lanes: u32, around: StepContext<'_>) -> Step {
        let votes = match op.r[2] {
            NONE => 0,
            predicate if op.aux & BarrierMode::NEGATED != 0 => !self.predicate(predicate),
            predicate => self.predicate(predicate),
        };
        let cx = self.cx(lanes, around);
        let (id, threads, same) = barrier_operands(&cx, op);
        if id > 15 {
            return self.fault(FaultKind::BadBarrier { id }, lanes);
        }
        if let Some(threads) = threads
            && (threads == 0 || threads % 32 != 0)
        {
            return self.fault(FaultKind::BadBarrierCount { threads }, lanes);
        }
        let id = u8::try_from(id).unwrap_or(15);
        let mode = BarrierMode::of(op.aux);
        let waits = mode != BarrierMode::Arrive;
        self.pass(lanes, same);
        if waits {
            let result = match mode {
                BarrierMode::Count => Vote::Count(op.r[3]),
                BarrierMode::All => Vote::All(op.r[3]),
                BarrierMode::Any => Vote::Any(op.r[3]),
                BarrierMode::Sync | BarrierMode::Arrive => Vote::None,
            };
            self.paths.push(self.running(Wait::Barrier { id, result }));
            self.pick();
        }
        Step::Barrier(Arrival {
            id,
            threads,
            lanes: same,
            votes: votes & same,
            alive: self.alive,
            stalled: self.stalled,
        })
    }

    /// Splits off the running lanes that do not take part in this execution, and moves those that do past it:
    /// lanes whose guard is false go on, lanes that name another barrier execute the instruction for themselves.
    fn pass(&mut self, lanes: u32, same: u32) {
        let (skipped, later) = (self.active & !lanes, lanes & !same);
        if skipped != 0 {
            self.send(self.pc + 1, skipped, self.frame);
        }
        if later != 0 {
            self.send(self.pc, later, self.frame);
        }
        self.active = same;
        self.pc += 1;
    }

    /// Barriers completed: paths that waited there go on.
    /// True when the warp was stalled and can run again.
    pub(crate) fn resume(&mut self, released: &Released) -> bool {
        for at in 0..self.paths.len() {
            let Wait::Barrier { id, result } = self.paths[at].wait else {
                continue;
            };
            if released.ids >> id & 1 == 0 {
                continue;
            }
            self.paths[at].wait = Wait::Nothing;
            let (path, tally) = (self.paths[at], released.votes[usize::from(id)]);
            self.deliver(&path, result, tally);
        }
        self.go_on()
    }

    /// Runs a path if the warp was stalled; true when it was and is no more.
    fn go_on(&mut self) -> bool {
        if !self.stalled {
            return false;
        }
        self.pick();
        if self.pc == self.reconverge {
            self.arrive();
        }
        !self.stalled
    }

    fn deliver(&mut self, path: &Path, result: Vote, tally: Tally) {
        let (number, bits) = match result {
            Vote::None => return,
            Vote::Count(slot) if slot == NONE => return,
            Vote::Count(slot) => {
                let slot = path.frame.registers as usize + usize::from(slot);
                for (lane, word) in self.registers[slot].0.iter_mut().enumerate() {
                    if path.mask >> lane & 1 != 0 {
                        *word = tally.yes;
                    }
                }
                return;
            }
            Vote::All(number) => (number, tally.all),
            Vote::Any(number) => (number, tally.yes != 0),
        };
        if let Some(at) = Self::predicate_slot(path.frame, number) {
            let keep = self.predicates[at] & !path.mask;
            self.predicates[at] = keep | if bits { path.mask } else { 0 };
        }
    }
}
