//! Running a subject in a form: slices, windows, workers, with everything that may happen to them.

use super::Subject;
use super::stage::Stage;
use gridmux_hw_model::{Advance, Report};
use gridmux_policy::units::Cycles;
use gridmux_ptx::boxes::{Grid, next_box};
use gridmux_ptx::control::{self, Control};
use gridmux_ptx::forms::{KernelForm, Shape};
use gridmux_ptx::protocol::{Instance, Mode, Observation, Step, Workers, Write, worker};
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
        Shape::Gate => {
            let window = 1 + dice.below(subject.blocks() + 2);
            let depth = 1 + dice.below(3);
            instance(stage, subject, form, Mode::Gate { window, depth }, dice)
        }
        Shape::Worker => {
            let chunk = (1 + dice.below(4)).min(form.most_chunk);
            instance(stage, subject, form, Mode::Worker { chunk }, dice)
        }
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

/// The state of a gate's or worker's run.
struct Run<'r, 'a, 's> {
    stage: &'r mut Stage<'a, 's>,
    form: &'r KernelForm,
    instance: Instance,
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
}

fn instance(
    stage: &mut Stage<'_, '_>,
    subject: &Subject<'_>,
    form: &KernelForm,
    mode: Mode,
    dice: &mut Prng,
) -> Result<(), String> {
    // A gate knows no SMs, so that its memory ends behind the counters.
    let sms = match mode {
        Mode::Gate { .. } => 0,
        Mode::Worker { .. } => u32::from(stage.gpu.config().sm.count),
    };
    let caps = match mode {
        Mode::Gate { .. } => Vec::new(),
        Mode::Worker { .. } => random_caps(sms, dice),
    };
    let instance = Instance::new(mode, subject.blocks(), &caps).map_err(|e| e.to_string())?;
    let counters = stage.alloc(&instance.memory())?;
    let chunk = match mode {
        Mode::Gate { .. } => 1,
        Mode::Worker { chunk } => chunk,
    };
    let caps_at = counters + u64::from(control::caps_offset(sms));
    let control = Control::tickets(subject.grid, chunk, counters, caps_at)
        .ok_or("the grid cannot be counted")?;
    let control = fence(stage, form, control)?;
    let params = stage.params(form.control_offset.map(|at| (at, control.to_bytes())));
    let turns = dice.below(7);
    let next_turn = stage.gpu.now().0 + 2000 + u64::from(dice.below(12_000));
    let run = Run {
        stage,
        form,
        instance,
        counters,
        params,
        sms,
        next_tag: 1,
        flying: Vec::new(),
        turns: turns + u32::from(caps.contains(&0) && turns == 0),
        next_turn,
    };
    run.until_it_ends(dice)
}

/// Caps of which not all are zero.
fn random_caps(sms: u32, dice: &mut Prng) -> Vec<u8> {
    loop {
        let cap = |_| u8::try_from(dice.below(HIGHEST_CAP + 1)).unwrap_or(1);
        let caps: Vec<u8> = (0..sms).map(cap).collect();
        if caps.iter().any(|cap| *cap > 0) {
            return caps;
        }
    }
}

impl Run<'_, '_, '_> {
    fn until_it_ends(mut self, dice: &mut Prng) -> Result<(), String> {
        let mut reports = Vec::new();
        for _ in 0..LONGEST_ROUNDS {
            self.take_steps()?;
            if self.instance.wants_observation() {
                self.observe()?;
                self.take_steps()?;
            }
            if self.instance.has_ended() {
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
        Err(format!("it is stuck: {:?}", self.instance))
    }

    fn take_steps(&mut self) -> Result<(), String> {
        while let Some(step) = self.instance.next_step() {
            match step {
                Step::Write(write) => self.write(write)?,
                Step::Launch(launch) => {
                    self.write(launch.announce)?;
                    let tag = self.next_tag;
                    self.next_tag += 1;
                    self.flying.push((tag, launch.number));
                    let queue = u8::try_from(launch.number % 32).unwrap_or(0);
                    let grid = [launch.blocks, 1, 1];
                    let extra = self.form.extra_shared_bytes;
                    let params = self.params.clone();
                    let launch = self.stage.launch((tag, queue), grid, extra, &params);
                    self.stage.queue(launch)?;
                }
            }
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
            self.instance.launch_ended(number);
        }
    }

    fn words(&self) -> Result<Vec<u32>, String> {
        let bytes = control::caps_offset(self.sms) as usize;
        let bytes = self.stage.read(self.counters, bytes)?;
        let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        Ok(bytes.chunks_exact(4).map(word).collect())
    }

    fn observe(&mut self) -> Result<(), String> {
        let words = self.words()?;
        let at = |offset: u32| words[offset as usize / 4];
        let fault = at(control::FAULT_KIND_AT);
        if fault != 0 {
            self.instance.fault_recorded();
        }
        self.instance.observe(&Observation {
            next: at(control::NEXT_AT),
            done: at(control::DONE_AT),
            placed: at(control::PLACED_AT),
            masks: &words[control::mask_offset(0) as usize / 4..],
        });
        Ok(())
    }

    /// Something changes: caps, stop, resume. The last turn leaves the instance able to end.
    fn turn(&mut self, dice: &mut Prng) -> Result<(), String> {
        self.turns -= 1;
        let short = dice.below(2) == 0;
        let gap = if short { 400 } else { 9000 };
        self.next_turn = self.stage.gpu.now().0 + 1 + u64::from(dice.below(gap));
        let is_worker = !self.instance.caps().is_empty();
        if self.turns == 0 {
            self.instance.resume();
            return if is_worker {
                self.set_caps(random_caps(self.sms, dice))
            } else {
                Ok(())
            };
        }
        match dice.below(5) {
            0 | 1 if is_worker => {
                let cap = |_| u8::try_from(dice.below(HIGHEST_CAP + 1)).unwrap_or(1);
                let caps = (0..self.sms).map(cap).collect();
                self.set_caps(caps)
            }
            2 if is_worker => self.set_caps(vec![0; self.sms as usize]),
            _ if self.instance.is_stopped() => {
                self.instance.resume();
                Ok(())
            }
            _ => match self.instance.stop() {
                Some(write) => self.write(write),
                None => Ok(()),
            },
        }
    }

    fn set_caps(&mut self, caps: Vec<u8>) -> Result<(), String> {
        let writes = self.instance.set_caps(&caps).map_err(|e| e.to_string())?;
        writes.into_iter().try_for_each(|write| self.write(write))
    }

    /// At the end the counters say what the protocol promises.
    fn check_end(&self) -> Result<(), String> {
        let words = self.words()?;
        if self.instance.is_faulted() {
            let at = |offset: u32| words[offset as usize / 4];
            let (kind, line) = (at(control::FAULT_KIND_AT), at(control::FAULT_LINE_AT));
            return Err(format!("it recorded a fault of kind {kind} at line {line}"));
        }
        let done = words[control::DONE_AT as usize / 4];
        let (total, masks) = (
            self.instance.total(),
            &words[control::mask_offset(0) as usize / 4..],
        );
        if done != total {
            return Err(format!("{done} blocks of {total} are counted as done"));
        }
        match masks.iter().position(|mask| *mask != 0) {
            Some(sm) => Err(format!("a slot of SM {sm} is still taken at the end")),
            None => Ok(()),
        }
    }
}
