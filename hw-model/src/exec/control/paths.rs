//! Paths: where the lanes of a warp stand when they do not all stand at one place.
//!
//! A warp runs one path at a time; the others wait in a list. Lanes that part agree on a *join*: the place where
//! they meet again (the branch's immediate post-dominator, or the instruction behind a call), the lanes that are
//! to meet, and those that have arrived. Joins form a tree by their parents. As long as every path can run, the
//! youngest runs first, which is the order of a SIMT stack. Unlike a stack, a path may wait anywhere without
//! holding up the others, so that the forward progress which PTX promises from sm_70 on (PTX ISA section 3.1)
//! can be kept: a path that goes round in a loop lets the others run, and when all that are left go round, lanes
//! that wait at a join go on without the rest.
//!
//! Rules: the lanes of a path lie in its join's mask, a join's mask in its parent's; a join ends when all of its
//! living lanes have arrived; registers are a stack, and frames of different functions that are in use at one time do
//! not overlap, because a 64-bit word of one lane stands where other lanes' 32-bit words would.

use crate::exec::op::{NONE, RegisterSlot};
use crate::exec::warp::Warp;
use crate::kernel::FunctionEntry;

/// Place that is never reached.
pub(in crate::exec) const NEVER: u32 = u32::MAX;
/// The join of a whole warp, which nobody reaches.
pub(in crate::exec) const ROOT: u32 = 0;

/// Backward branches that a path takes while others wait, before they have their turn.
const PATIENCE: u32 = 1 << 20;
/// The same, once lanes were seen to wait for one another.
const SHORT_PATIENCE: u32 = PATIENCE >> 4;

/// Where the registers and predicates of the running function begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) registers: u32,
    pub(crate) predicates: u32,
}

impl Frame {
    /// Moves behind one function more of those that lanes enter with one call, whose predicates begin at `frame`.
    pub(crate) fn enter(&mut self, frame: Self, entry: &FunctionEntry) {
        self.registers += u32::from(entry.slots);
        let predicates = frame.predicates + u32::from(entry.predicates);
        self.predicates = self.predicates.max(predicates);
    }

    /// Returns the bytes of the registers and predicates before it.
    pub(crate) fn bytes(self) -> usize {
        let registers = self.registers as usize * size_of::<RegisterSlot>();
        registers + self.predicates as usize * size_of::<u32>()
    }
}

/// Why a path does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It can.
    Nothing,
    /// It waits at a block barrier, behind which it stands; `result` is where a reduction's result goes.
    Barrier { id: u8, result: Vote },
    /// It waits before an operation across lanes for the lanes in `wanted`.
    Lanes { wanted: u32 },
    /// It waits for nobody at its next operation, though not all have come that this one names.
    Over,
    /// The lanes that it waited for stand at the same operation, which all execute in one step.
    Met,
}

impl Wait {
    /// Returns whether the path may run.
    pub(in crate::exec) fn can_run(self) -> bool {
        matches!(self, Self::Nothing | Self::Over | Self::Met)
    }
}

/// Where a block-wide reduction leaves its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vote {
    None,
    Count(u16),
    All(u16),
    Any(u16),
}

/// Lanes that stand at one place and do not run now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    pub(crate) join: u32,
    pub(crate) frame: Frame,
    pub(crate) wait: Wait,
}

/// A place where lanes meet, and which of them have arrived.
#[derive(Debug, Clone, Copy)]
pub(in crate::exec) struct Join {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    pub(crate) arrived: u32,
    pub(crate) parent: u32,
    pub(crate) frame: Frame,
    /// The lanes arrive by returning from a function.
    pub(super) is_call: bool,
}

impl Join {
    /// Returns where a path of this join meets the others, for the comparison after each step.
    fn reconverge(&self) -> u32 {
        if self.is_call { NEVER } else { self.pc }
    }
}

/// The joins of a warp.
#[derive(Debug, Default)]
pub(in crate::exec) struct Joins {
    pub(crate) all: Vec<Join>,
    free: Vec<u32>,
}

impl Joins {
    pub(crate) fn start(&mut self, mask: u32) {
        self.all.clear();
        self.free.clear();
        self.all.push(Join {
            pc: NEVER,
            mask,
            arrived: 0,
            parent: ROOT,
            frame: Frame::default(),
            is_call: false,
        });
    }

    pub(crate) fn get(&self, at: u32) -> &Join {
        &self.all[at as usize]
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> &mut Join {
        &mut self.all[at as usize]
    }

    pub(crate) fn add(&mut self, join: Join) -> u32 {
        if let Some(at) = self.free.pop() {
            self.all[at as usize] = join;
            return at;
        }
        self.all.push(join);
        u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX)
    }

    pub(super) fn free_if_empty(&mut self, at: u32, alive: u32) {
        if at != ROOT && self.get(at).mask & alive == 0 {
            self.free(at);
        }
    }

    fn free(&mut self, at: u32) {
        let join = self.get_mut(at);
        (join.mask, join.arrived) = (0, 0);
        self.free.push(at);
    }
}

/// How long the running path may go on before the others get a turn.
#[derive(Debug, Clone, Copy)]
pub(in crate::exec) struct Patience {
    left: u32,
    limit: u32,
    /// Paths that went round since somebody last got anywhere.
    rounds: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            left: PATIENCE,
            limit: PATIENCE,
            rounds: 0,
        }
    }
}

impl Warp {
    /// Returns whether all living lanes are on the running path.
    #[inline(always)]
    pub(crate) fn together(&self) -> bool {
        self.active == self.alive
    }

    /// Returns whether a conditional or unconditional branch; true when the lanes part.
    #[inline(always)]
    pub(crate) fn branch(&mut self, target: u32, meet: u32, weight: u16, taken: u32) -> bool {
        let stay = self.active & !taken;
        if taken == 0 {
            self.pc += 1;
            return false;
        }
        let back = target <= self.pc;
        if stay == 0 {
            self.pc = target;
            if back && !self.together() {
                self.go_round(weight);
            }
            return false;
        }
        self.diverge(target, meet, if back { weight } else { 0 }, taken);
        true
    }

    /// Sends some of the running lanes to `target` and lets the others go on.
    #[inline(never)]
    fn diverge(&mut self, target: u32, meet: u32, weight: u16, taken: u32) {
        let left = self.patience.left.saturating_sub(u32::from(weight));
        self.patience.left = left.max(1);
        let next = self.pc + 1;
        let stay = self.active & !taken;
        self.part(meet);
        self.send(target, taken, self.frame);
        self.active = stay;
        self.pc = next;
    }

    /// Opens a join at `meet` for the running lanes, which are about to part.
    pub(crate) fn part(&mut self, meet: u32) {
        if meet != NEVER && meet != self.reconverge {
            self.join = self.joins.add(Join {
                pc: meet,
                mask: self.active,
                arrived: 0,
                parent: self.join,
                frame: self.frame,
                is_call: false,
            });
            self.reconverge = meet;
        }
    }

    /// Sends some of the running lanes elsewhere under the same join.
    pub(crate) fn send(&mut self, pc: u32, mask: u32, frame: Frame) {
        if pc == self.reconverge {
            self.joins.get_mut(self.join).arrived |= mask;
        } else {
            self.paths.push(Path {
                pc,
                mask,
                join: self.join,
                frame,
                wait: Wait::Nothing,
            });
        }
    }

    /// Ends the running path, which stands at its join.
    #[cold]
    #[inline(never)]
    pub(crate) fn arrive(&mut self) {
        while self.pc == self.reconverge {
            let join = self.joins.get_mut(self.join);
            join.arrived |= self.active;
            if !self.close(self.join) {
                self.pick();
            }
        }
    }

    /// Ends a join that all of its living lanes have reached: they run on from there.
    fn close(&mut self, at: u32) -> bool {
        let join = *self.joins.get(at);
        let lanes = join.mask & self.alive;
        if lanes == 0 || join.arrived & self.alive != lanes || at == ROOT {
            return false;
        }
        self.joins.free(at);
        self.run(Path {
            pc: join.pc,
            mask: lanes,
            join: join.parent,
            frame: join.frame,
            wait: Wait::Nothing,
        });
        self.patience.left = self.patience.limit;
        self.patience.rounds = 0;
        true
    }

    /// Makes a path the running one.
    pub(crate) fn run(&mut self, path: Path) {
        self.pc = path.pc;
        self.active = path.mask & self.alive;
        self.join = path.join;
        self.reconverge = self.joins.get(path.join).reconverge();
        self.set_frame(path.frame);
        self.over = matches!(path.wait, Wait::Over | Wait::Met);
    }

    /// Returns the running path as one that waits.
    pub(crate) fn running(&self, wait: Wait) -> Path {
        Path {
            pc: self.pc,
            mask: self.active,
            join: self.join,
            frame: self.frame,
            wait,
        }
    }

    /// Runs the youngest path that can; without one the warp is stalled.
    pub(in crate::exec) fn pick(&mut self) {
        self.active = 0;
        loop {
            let can_run = |p: &Path| p.wait.can_run();
            let Some(at) = self.paths.iter().rposition(can_run) else {
                if self.meet_lanes() {
                    continue;
                }
                self.stalled = true;
                self.reconverge = NEVER;
                return;
            };
            let path = self.paths.remove(at);
            if path.mask & self.alive != 0 {
                self.stalled = false;
                self.run(path);
                self.gather();
                return;
            }
        }
    }

    /// Takes along the paths that can run and stand where the running one stands.
    fn gather(&mut self) {
        let mut at = 0;
        while let Some(path) = self.paths.get(at) {
            if path.wait == Wait::Nothing
                && path.pc == self.pc
                && path.join == self.join
                && path.frame == self.frame
            {
                self.active |= path.mask & self.alive;
                self.paths.remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Ends the running path, which has no lanes left; its joins may now be complete.
    pub(crate) fn leave(&mut self) {
        let mut at = self.join;
        while self.joins.get(at).mask & self.alive == 0 {
            if at == ROOT {
                return;
            }
            let parent = self.joins.get(at).parent;
            self.joins.free(at);
            at = parent;
        }
        self.patience.rounds = 0;
        if !self.close(at) {
            self.pick();
        }
    }

    /// Counts a backward branch of the running path while others wait.
    #[cold]
    #[inline(never)]
    fn go_round(&mut self, weight: u16) {
        self.patience.left = self.patience.left.saturating_sub(u32::from(weight));
        if self.patience.left != 0 || self.pc == self.reconverge {
            return;
        }
        self.patience.left = self.patience.limit;
        self.patience.rounds += 1;
        let can_run = |p: &&Path| p.wait.can_run();
        let others = self.paths.iter().filter(can_run).count();
        if self.patience.rounds as usize > others {
            self.patience.rounds = 0;
            self.patience.limit = SHORT_PATIENCE;
            // All that can run go round, so somebody must be waiting for lanes that wait for one of them.
            self.release_waiting(self.join);
            for at in 0..self.paths.len() {
                self.release_waiting(self.paths[at].join);
            }
        }
        self.paths.insert(0, self.running(Wait::Nothing));
        self.pick();
    }

    /// Lanes that wait at the nearest join from `at` outwards go on without the others; false if there are none.
    pub(super) fn release_waiting(&mut self, at: u32) -> bool {
        let mut at = at;
        while at != ROOT {
            let alive = self.alive;
            let join = self.joins.get_mut(at);
            let lanes = join.arrived & alive;
            if lanes != 0 {
                join.mask &= !lanes;
                join.arrived = 0;
                let (join, parent) = (*join, join.parent);
                let beyond = self.joins.get_mut(parent);
                if beyond.reconverge() == join.pc {
                    beyond.arrived |= lanes;
                    at = parent;
                    continue;
                }
                self.paths.push(Path {
                    pc: join.pc,
                    mask: lanes,
                    join: parent,
                    frame: join.frame,
                    wait: Wait::Nothing,
                });
                return true;
            }
            at = join.parent;
        }
        false
    }

    /// Executes `exit` for some of the running lanes.
    pub(crate) fn exit(&mut self, lanes: u32) {
        self.alive &= !lanes;
        self.active &= !lanes;
        if self.active == 0 {
            self.leave();
        } else {
            self.pc += 1;
        }
    }

    /// Executes `ret` for some of the running lanes.
    pub(in crate::exec) fn return_lanes(&mut self, lanes: u32) {
        let mut at = self.join;
        while at != ROOT && !self.joins.get(at).is_call {
            let join = self.joins.get_mut(at);
            join.mask &= !lanes;
            at = join.parent;
        }
        self.joins.get_mut(at).arrived |= lanes;
        self.active &= !lanes;
        if self.active == 0 {
            self.leave();
        } else {
            self.pc += 1;
        }
    }

    /// Returns a path parked somewhere else in the warp whose lanes wait at a block barrier, youngest first.
    pub(crate) fn at_barrier(&self) -> Option<&Path> {
        let waits = |p: &&Path| matches!(p.wait, Wait::Barrier { .. });
        self.paths.iter().rev().find(waits)
    }

    /// Returns the weight of a backward branch towards [`PATIENCE`]: a loop that asks memory is soon suspected of
    /// waiting.
    pub(crate) const fn weight(polls: bool) -> u16 {
        if polls { 1 << 14 } else { 1 }
    }

    /// Returns the slot of a predicate or register in the running frame.
    pub(super) fn predicate_slot(frame: Frame, number: u16) -> Option<usize> {
        (number != NONE).then(|| frame.predicates as usize + usize::from(number))
    }
}
