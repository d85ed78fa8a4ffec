//! Running a subject in a form: slices, windows, workers, with everything that may happen to them.

use super::Subject;
use super::stage::Stage;
use gridmux_hw_model::{Advance, Report};
use gridmux_policy::units::Cycles;
use gridmux_ptx::boxes::{Grid, next_box};
use gridmux_ptx::control::{self, Control};
use gridmux_ptx::forms::{KernelForm, LaunchGrid, Shape};
use gridmux_ptx::protocol::{Gate, GateLaunch, Workers, Write, worker};
use gridmux_workloads::Prng;

/// Rounds of the driver's loop after which an instance counts as stuck.
const LONGEST_ROUNDS: u32 = 20_000;
/// Highest cap of an SM; few, so that shrinking means something with the small grids of tests.
const HIGHEST_CAP: u32 = 3;

/// Runs the subject's grid in the form.
pub(super) fn drive(
    stage: &mut Stage<'_, '_>,
    subject: &Subject<'_>,
    form: &KernelForm,
    dice: &mut Prng,
) -> Result<(), String> {
    match form.form.shape {
        Shape::Whole => whole(stage, subject, form, dice.below(2) == 0),
        Shape::Slice => slices(stage, subject, form, dice),
        Shape::Gate => gate(stage, subject, form, dice),
        Shape::Worker => workers(stage, subject, form, dice),
    }
}

/// The control block's common part.
fn fence(stage: &Stage<'_, '_>, form: &KernelForm, control: Control) -> Result<Control, String> {
    if !form.form.fenced {
        return Ok(control);
    }
    let (base, mask) = (stage.partition.base, stage.partition.mask());
    match form.fence {
        Some(mode) if mode.accepts(base, mask) => Ok(Control {
            fence_base: base,
            fence_mask: mask,
            ..control
        }),
        mode => Err(format!(
            "a reservation of {} bytes does not go with a fence of mode {mode:?}",
            stage.partition.bytes
        )),
    }
}

/// One launch, as a tenant makes it; timed or not.
pub(super) fn whole(
    stage: &mut Stage<'_, '_>,
    subject: &Subject<'_>,
    form: &KernelForm,
    timed: bool,
) -> Result<(), String> {
    let control = fence(
        stage,
        form,
        Control {
            grid: subject.grid,
            ..Control::default()
        },
    )?;
    let params = stage.params(form.control_offset.map(|at| (at, control.to_bytes())));
    let launch = stage.launch((1, 0), subject.grid, form.extra_shared_bytes, &params);
    if !timed {
        return stage.run(&launch);
    }
    stage.queue(launch)?;
    stage.drain()
}

/// Boxes of random sizes in ascending order, one after another or some at a time.
fn slices(
    stage: &mut Stage<'_, '_>,
    subject: &Subject<'_>,
    form: &KernelForm,
    dice: &mut Prng,
) -> Result<(), String> {
    let timed = dice.below(3) == 0;
    let queues = 1 + dice.below(4);
    let largest = 1 + dice.below(subject.blocks());
    let (mut next, mut tag) = (0_u64, 0_u64);
    while next < u64::from(subject.blocks()) {
        let slice = next_box(Grid(subject.grid), next, 1 + dice.below(largest));
        next += slice.blocks();
        tag += 1;
        let control = Control {
            offset: slice.offset,
            grid: subject.grid,
            ..Control::default()
        };
        let control = fence(stage, form, control)?;
        let params = stage.params(form.control_offset.map(|at| (at, control.to_bytes())));
        let queue = u8::try_from(tag % u64::from(queues)).unwrap_or(0);
        let launch = stage.launch((tag, queue), slice.dims, form.extra_shared_bytes, &params);
        if timed {
            stage.queue(launch)?;
        } else {
            stage.run(&launch)?;
        }
    }
    stage.drain()
}

/// The state of a gate's run.
struct GateRun<'r, 'a, 's> {
    stage: &'r mut Stage<'a, 's>,
    form: &'r KernelForm,
    gate: Gate,
    counters: u64,
    next_tag: u64,
    /// Tags and numbers of the launches in flight.
    flying: Vec<(u64, u32)>,
    /// Stops and resumptions still to come, and the cycle of the next.
    turns: u32,
    next_turn: u64,
}

/// Boxes of random sizes, stopped at random cycles.
fn gate(
    stage: &mut Stage<'_, '_>,
    subject: &Subject<'_>,
    form: &KernelForm,
    dice: &mut Prng,
) -> Result<(), String> {
    let LaunchGrid::Planes(axis) = form.grid else {
        return Err("a gate is cut across an axis".to_owned());
    };
    let window = match dice.below(2) {
        0 => subject.blocks(),
        _ => 1 + dice.below(subject.blocks()),
    };
    let depth = 1 + dice.below(3);
    let gate = Gate::new(Grid(subject.grid), axis, window, depth).map_err(|e| e.to_string())?;
    let bytes = usize::try_from(gate.bytes()).map_err(|e| e.to_string())?;
    let counters = stage.alloc(&vec![0; bytes])?;
    let turns = dice.below(8);
    // A launch takes some thousands of cycles before its blocks start.
    let next_turn = stage.gpu.now().0 + u64::from(dice.below(10_000));
    let mut run = GateRun {
        stage,
        form,
        gate,
        counters,
        next_tag: 1,
        flying: Vec::new(),
        turns,
        next_turn,
    };
    run.write(Some(Gate::opening()))?;
    match dice.below(2) {
        0 => run.in_two_parts(dice),
        _ => run.until_it_ends(dice),
    }
}

impl GateRun<'_, '_, '_> {
    /// Every launch three times: refused as a whole, then the blocks that marked themselves, in two random parts. Stops by
    /// time seldom part so few blocks.
    fn in_two_parts(mut self, dice: &mut Prng) -> Result<(), String> {
        let opening = Gate::opening();
        while let Some(mut launch) = self.gate.next_launch() {
            let number = launch.number;
            self.write(Some(Write {
                value: 0,
                ..opening
            }))?;
            let tag = self.submit(&launch)?;
            let refused = self.refused(tag, number)?;
            let last = launch.part.blocks().div_ceil(32) * 32 - launch.part.blocks();
            if last > 0 && refused.last().is_some_and(|word| word >> (32 - last) != 0) {
                return Err("a block is marked that there is not".to_owned());
            }
            self.write(Some(opening))?;
            let some: Vec<u32> = refused.iter().map(|_| dice.below(u32::MAX)).collect();
            for flip in [0, u32::MAX] {
                let part = refused.iter().zip(&some).map(|(r, s)| r & (s ^ flip));
                let table = refused.iter().map(|_| 0).chain(part).collect();
                launch.table = Some(table);
                let tag = self.submit(&launch)?;
                if self.refused(tag, number)?.iter().any(|word| *word != 0) {
                    return Err("a block is refused though nobody closed the gate".to_owned());
                }
            }
            let fault = self.fault()?;
            self.gate.launch_ended(number, fault);
        }
        self.check_end()
    }

    /// What a launch refused, when it has ended.
    fn refused(&mut self, tag: u64, number: u32) -> Result<Vec<u32>, String> {
        self.stage.drain()?;
        self.flying.retain(|(other, _)| *other != tag);
        self.words(self.gate.table_at(number), self.gate.words(number))
    }

    fn until_it_ends(mut self, dice: &mut Prng) -> Result<(), String> {
        let mut reports = Vec::new();
        for _ in 0..LONGEST_ROUNDS {
            self.launch()?;
            if self.gate.has_ended() {
                return self.check_end();
            }
            let now = self.stage.gpu.now().0;
            if self.turns > 0 && now >= self.next_turn {
                self.turn(dice)?;
                continue;
            }
            let until = match self.turns {
                0 => now + 5000,
                _ => self.next_turn.min(now + 5000),
            };
            let advance = self.stage.gpu.advance(Cycles(until), &mut reports);
            for report in reports.drain(..) {
                match report {
                    Report::Ended { tag, .. } => self.ended(tag)?,
                    Report::Faulted { fault, .. } => return Err(fault.to_string()),
                    _ => {}
                }
            }
            if advance == Advance::Idle && self.turns == 0 && !self.flying.is_empty() {
                return Err("a launch vanished".to_owned());
            }
        }
        Err(format!("it is stuck: {:?}", self.gate))
    }

    fn launch(&mut self) -> Result<(), String> {
        while let Some(launch) = self.gate.next_launch() {
            self.submit(&launch)?;
        }
        Ok(())
    }

    /// Writes a launch's table and launches; its tag.
    fn submit(&mut self, launch: &GateLaunch) -> Result<u64, String> {
        let table_at = self.counters + self.gate.table_at(launch.number);
        for (at, word) in (table_at..).step_by(4).zip(launch.table.iter().flatten()) {
            self.stage.write_word(at, *word)?;
        }
        let control = fence(
            self.stage,
            self.form,
            self.gate.control(launch, self.counters),
        )?;
        let control = self.form.control_offset.map(|at| (at, control.to_bytes()));
        let params = self.stage.params(control);
        let tag = self.next_tag;
        self.next_tag += 1;
        self.flying.push((tag, launch.number));
        let queue = u8::try_from(launch.number % 32).unwrap_or(0);
        let extra = self.form.extra_shared_bytes;
        let launch = self
            .stage
            .launch((tag, queue), launch.part.dims, extra, &params);
        self.stage.queue(launch)?;
        Ok(tag)
    }

    fn write(&mut self, write: Option<Write>) -> Result<(), String> {
        write.map_or(Ok(()), |write| {
            let at = self.counters + u64::from(write.at);
            self.stage.write_word(at, write.value)
        })
    }

    /// A launch has ended: the fault is looked for, and the bitmap if it may say something.
    fn ended(&mut self, tag: u64) -> Result<(), String> {
        let Some(at) = self.flying.iter().position(|(other, _)| *other == tag) else {
            return Ok(());
        };
        let (_, number) = self.flying.swap_remove(at);
        let fault = self.fault()?;
        if self.gate.launch_ended(number, fault) {
            let refused = self.words(self.gate.table_at(number), self.gate.words(number))?;
            self.gate.observe(number, &refused);
        }
        Ok(())
    }

    fn words(&self, at: u64, count: u32) -> Result<Vec<u32>, String> {
        let bytes = self.stage.read(self.counters + at, 4 * count as usize)?;
        let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        Ok(bytes.chunks_exact(4).map(word).collect())
    }

    /// Whether the counters hold a fault.
    fn fault(&self) -> Result<bool, String> {
        Ok(self.words(u64::from(control::FAULT_KIND_AT), 1)?[0] != 0)
    }

    /// Stop or resume. The last turn leaves the instance able to end.
    fn turn(&mut self, dice: &mut Prng) -> Result<(), String> {
        self.turns -= 1;
        let gap = [600, 3000, 12_000][dice.below(3) as usize];
        self.next_turn = self.stage.gpu.now().0 + 1 + u64::from(dice.below(gap));
        let write = match self.turns == 0 || self.gate.is_stopped() {
            true => self.gate.resume(self.fault()?),
            false => self.gate.stop(),
        };
        self.write(write)
    }

    fn check_end(&self) -> Result<(), String> {
        if !self.gate.is_faulted() {
            return Ok(());
        }
        let kind = self.words(u64::from(control::FAULT_KIND_AT), 1)?[0];
        let line = self.words(u64::from(control::FAULT_LINE_AT), 1)?[0];
        Err(format!("it recorded a fault of kind {kind} at line {line}"))
    }
}

/// The state of a worker's run.
struct Run<'r, 'a, 's> {
    stage: &'r mut Stage<'a, 's>,
    form: &'r KernelForm,
    workers: Workers,
    /// Device address of the counters.
    counters: u64,
    params: Vec<u8>,
    sms: u32,
    next_tag: u64,
    /// Tags and numbers of the launches in flight.
    flying: Vec<(u64, u32)>,
    /// Control operations still to come, and the cycle of the next.
    turns: u32,
    next_turn: u64,
    /// While all caps are zero: tickets taken before that, and workers that were there.
    closed: Option<(u32, u32)>,
    /// Tickets that a worker may take behind that: the one that these caps still decided, and one that it takes ahead.
    held: u32,
}

fn workers(
    stage: &mut Stage<'_, '_>,
    subject: &Subject<'_>,
    form: &KernelForm,
    dice: &mut Prng,
) -> Result<(), String> {
    let sms = u32::from(stage.gpu.config().sm.count);
    let caps = random_caps(sms, dice);
    let chunk = (1 + dice.below(4)).min(form.most_chunk);
    let singles = dice.below(subject.blocks() + 2);
    let control =
        Control::workers(subject.grid, chunk, singles, 0).ok_or("the grid cannot be counted")?;
    let workers = Workers::new(control.total, &caps).ok_or("a grid of no blocks")?;
    let counters = stage.alloc(&workers.memory())?;
    let control = Control {
        counters,
        ..control
    };
    let is_late = dice.below(4) == 0;
    let control = match is_late {
        true => control.taking_late(),
        false => control,
    };
    let control = fence(stage, form, control)?;
    let params = stage.params(form.control_offset.map(|at| (at, control.to_bytes())));
    let turns = dice.below(7);
    let next_turn = stage.gpu.now().0 + 2000 + u64::from(dice.below(12_000));
    let run = Run {
        stage,
        form,
        workers,
        counters,
        params,
        sms,
        next_tag: 1,
        flying: Vec::new(),
        turns: turns + u32::from(caps.contains(&0) && turns == 0),
        next_turn,
        closed: None,
        // A thread that is alone in its block looks at the cap before each ticket.
        held: match is_late || subject.block == [1, 1, 1] {
            true => 1,
            false => 2,
        },
    };
    run.until_it_ends(dice)
}

/// Caps of which not all are zero.
fn random_caps(sms: u32, dice: &mut Prng) -> Vec<u32> {
    loop {
        let caps: Vec<u32> = (0..sms).map(|_| dice.below(HIGHEST_CAP + 1)).collect();
        if caps.iter().any(|cap| *cap > 0) {
            return caps;
        }
    }
}

impl Run<'_, '_, '_> {
    fn until_it_ends(mut self, dice: &mut Prng) -> Result<(), String> {
        let mut reports = Vec::new();
        for _ in 0..LONGEST_ROUNDS {
            self.check_closed()?;
            self.launch_missing()?;
            if self.workers.wants_observation() {
                self.observe()?;
                self.launch_missing()?;
            }
            if self.workers.has_ended() {
                return self.check_end();
            }
            let now = self.stage.gpu.now().0;
            if self.turns > 0 && now >= self.next_turn {
                self.turn(dice)?;
                continue;
            }
            let until = if self.turns > 0 {
                self.next_turn
            } else {
                now + 5000
            };
            let until = until.min(now + 5000);
            let advance = self.stage.gpu.advance(Cycles(until), &mut reports);
            for report in reports.drain(..) {
                match report {
                    Report::Ended { tag, .. } => self.ended(tag),
                    Report::Faulted { fault, .. } => return Err(fault.to_string()),
                    _ => {}
                }
            }
            if advance == Advance::Idle && self.turns == 0 && !self.flying.is_empty() {
                return Err("a launch vanished".to_owned());
            }
        }
        Err(format!("it is stuck: {:?}", self.workers))
    }

    fn launch_missing(&mut self) -> Result<(), String> {
        while let Some(launch) = self.workers.next_launch() {
            self.write(launch.announce)?;
            let tag = self.next_tag;
            self.next_tag += 1;
            self.flying.push((tag, launch.number));
            let queue = u8::try_from(launch.number % 32).unwrap_or(0);
            let grid = [launch.blocks, 1, 1];
            let extra = self.form.extra_shared_bytes;
            let launch = self.stage.launch((tag, queue), grid, extra, &self.params);
            self.stage.queue(launch)?;
        }
        Ok(())
    }

    fn write(&mut self, write: Write) -> Result<(), String> {
        self.stage
            .write_word(self.counters + u64::from(write.at), write.value)
    }

    fn ended(&mut self, tag: u64) {
        if let Some(at) = self.flying.iter().position(|(other, _)| *other == tag) {
            let (_, number) = self.flying.swap_remove(at);
            self.workers.launch_ended(number);
        }
    }

    fn words(&self) -> Result<Vec<u32>, String> {
        let bytes = control::instance_bytes(self.sms) as usize;
        let bytes = self.stage.read(self.counters, bytes)?;
        let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        Ok(bytes.chunks_exact(4).map(word).collect())
    }

    fn members(&self, words: &[u32]) -> Vec<u32> {
        let at = |sm| words[control::place_offset(sm) as usize / 4 + 1];
        (0..self.sms).map(at).collect()
    }

    fn observe(&mut self) -> Result<(), String> {
        let words = self.words()?;
        let at = |offset: u32| words[offset as usize / 4];
        let fault = at(control::FAULT_KIND_AT);
        if fault != 0 {
            self.workers.fault_recorded();
        }
        let members = self.members(&words);
        self.workers.observe(&worker::Observation {
            next: at(control::NEXT_AT),
            placed: at(control::PLACED_AT),
            members: &members,
        });
        Ok(())
    }

    /// Something changes: caps, stop, resume. The last turn leaves the instance able to end.
    fn turn(&mut self, dice: &mut Prng) -> Result<(), String> {
        self.turns -= 1;
        let short = dice.below(2) == 0;
        let gap = if short { 400 } else { 9000 };
        self.next_turn = self.stage.gpu.now().0 + 1 + u64::from(dice.below(gap));
        if self.turns == 0 {
            let writes = self.workers.resume();
            self.write_all(writes)?;
            return self.set_caps(&random_caps(self.sms, dice));
        }
        match dice.below(5) {
            0 | 1 => {
                let cap = |_| dice.below(HIGHEST_CAP + 1);
                let caps: Vec<u32> = (0..self.sms).map(cap).collect();
                self.set_caps(&caps)
            }
            2 => self.set_caps(&vec![0; self.sms as usize]),
            _ => {
                let writes = match self.workers.is_stopped() {
                    true => self.workers.resume(),
                    false => self.workers.stop(),
                };
                self.write_all(writes)
            }
        }
    }

    fn set_caps(&mut self, caps: &[u32]) -> Result<(), String> {
        let writes = self.workers.set_caps(caps);
        self.write_all(writes)
    }

    fn write_all(&mut self, writes: Vec<Write>) -> Result<(), String> {
        self.check_closed()?;
        writes.into_iter().try_for_each(|write| self.write(write))?;
        let words = self.words()?;
        let cap = |sm| words[control::place_offset(sm) as usize / 4];
        let now = || {
            let members = self.members(&words).iter().sum();
            (words[control::NEXT_AT as usize / 4], members)
        };
        self.closed = match (0..self.sms).all(|sm| cap(sm) == 0) {
            true => Some(self.closed.unwrap_or_else(now)),
            false => None,
        };
        Ok(())
    }

    /// While all caps are zero nobody takes more tickets than he may hold.
    fn check_closed(&self) -> Result<(), String> {
        let Some((taken, members)) = self.closed else {
            return Ok(());
        };
        let next = self.words()?[control::NEXT_AT as usize / 4];
        match next > taken.saturating_add(members.saturating_mul(self.held))
            && next < control::NEXT_CLOSED
        {
            true => Err(format!(
                "{} tickets were taken by {members} workers that are to leave",
                next - taken
            )),
            false => Ok(()),
        }
    }

    /// At the end the counters say what the protocol promises.
    fn check_end(&self) -> Result<(), String> {
        let words = self.words()?;
        if self.workers.is_faulted() {
            let at = |offset: u32| words[offset as usize / 4];
            let (kind, line) = (at(control::FAULT_KIND_AT), at(control::FAULT_LINE_AT));
            return Err(format!("it recorded a fault of kind {kind} at line {line}"));
        }
        let (next, tickets) = (words[control::NEXT_AT as usize / 4], self.workers.tickets());
        if next < tickets || self.workers.progress() != tickets {
            return Err(format!("{next} tickets of {tickets} were taken at the end"));
        }
        match self
            .members(&words)
            .iter()
            .position(|&members| members != 0)
        {
            Some(sm) => Err(format!("a place of SM {sm} is still taken at the end")),
            None => Ok(()),
        }
    }
}
