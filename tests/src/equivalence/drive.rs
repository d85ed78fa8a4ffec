//! Running a subject in a form: slices, windows, workers, with everything that may happen to them.

use super::Subject;
use super::stage::Stage;
use gridmux_hw_model::Advance;
use gridmux_hw_model::drive::Run;
use gridmux_policy::units::Cycles;
use gridmux_ptx::boxes::{Grid, next_box};
use gridmux_ptx::control::{self, Control, Taking};
use gridmux_ptx::forms::{KernelForm, LaunchGrid, Shape};
use gridmux_ptx::protocol::instance::{recorded_fault, words};
use gridmux_ptx::protocol::{
    Device, Gate, GateLaunch, Host, Instance, InstanceLaunch, Workers, Write,
};
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

/// Returns one launch, as a tenant makes it; timed or not.
pub(super) fn whole(
    stage: &mut Stage<'_, '_>,
    subject: &Subject<'_>,
    form: &KernelForm,
    timed: bool,
) -> Result<(), String> {
    let control = Control {
        grid: subject.grid,
        ..Control::default()
    };
    let mut run = Run::new(stage.formed(form), timed);
    run.submit(stage.gpu, 0, subject.grid, control)
        .map_err(|e| e.to_string())?;
    stage.drain(&mut run)
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
    let queues = u8::try_from(queues).map_err(|e| e.to_string())?;
    let mut run = Run::new(stage.formed(form), timed).with_names(1, (0, queues));
    let (mut next, mut number) = (0_u64, 0);
    while next < u64::from(subject.blocks()) {
        let slice = next_box(Grid(subject.grid), next, 1 + dice.below(largest));
        next += slice.blocks();
        number += 1;
        let control = Control {
            offset: slice.offset,
            grid: subject.grid,
            ..Control::default()
        };
        run.submit(stage.gpu, number, slice.dims, control)
            .map_err(|e| e.to_string())?;
    }
    stage.drain(&mut run)
}

/// A subject's launches in a form, on its stage.
struct Place<'r, 'a, 's> {
    stage: &'r mut Stage<'a, 's>,
    run: Run,
}

impl<'r, 'a, 's> Place<'r, 'a, 's> {
    fn new(stage: &'r mut Stage<'a, 's>, form: &KernelForm) -> Self {
        let run = Run::new(stage.formed(form), true);
        Self { stage, run }
    }

    /// Returns an instance whose memory is as it is at the beginning.
    fn begin(&mut self, host: Host) -> Result<Instance, String> {
        let begun = self.run.begin(self.stage.gpu, host);
        begun.map_err(|e| e.to_string())
    }

    fn check_faults(&mut self) -> Result<(), String> {
        let checked = self.run.check_recorded(self.stage.gpu);
        checked.map_err(|e| e.to_string())
    }
}

impl Device for Place<'_, '_, '_> {
    type Error = String;

    fn write(&mut self, write: Write) -> Result<(), String> {
        let mut on = self.run.on(self.stage.gpu);
        on.write(write).map_err(|e| e.to_string())
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), String> {
        let mut on = self.run.on(self.stage.gpu);
        on.read(at, into).map_err(|e| e.to_string())
    }

    fn launch(&mut self, launch: &InstanceLaunch) -> Result<(), String> {
        let mut on = self.run.on(self.stage.gpu);
        on.launch(launch).map_err(|e| e.to_string())
    }
}

/// What may happen to an instance while it runs, and what must hold then.
trait Events {
    /// Something changes. After the last turn the instance can end.
    fn turn(
        &mut self,
        instance: &mut Instance,
        place: &mut Place<'_, '_, '_>,
        dice: &mut Prng,
    ) -> Result<(), String>;
    /// Stops, resumptions and the like still to come.
    fn turns(&self) -> u32;
    /// Returns the cycle of the next.
    fn next_turn(&self) -> u64;
    /// Returns what must hold at any time.
    fn check(&self, place: &mut Place<'_, '_, '_>) -> Result<(), String>;
}

/// Runs an instance to its end.
fn until_it_ends(
    mut instance: Instance,
    place: &mut Place<'_, '_, '_>,
    events: &mut impl Events,
    dice: &mut Prng,
) -> Result<Instance, String> {
    for _ in 0..LONGEST_ROUNDS {
        events.check(place)?;
        instance.step(place)?;
        if instance.has_ended() {
            place.check_faults()?;
            return Ok(instance);
        }
        let now = place.stage.gpu.now().0;
        if events.turns() > 0 && now >= events.next_turn() {
            events.turn(&mut instance, place, dice)?;
            continue;
        }
        let until = match events.turns() {
            0 => now + 5000,
            _ => events.next_turn().min(now + 5000),
        };
        let advance = place.run.advance(place.stage.gpu, Cycles(until));
        let advance = advance.map_err(|e| e.to_string())?;
        while let Some(number) = place.run.take_ended() {
            instance.launch_ended(place, number)?;
        }
        if advance == Advance::Idle && events.turns() == 0 && place.run.in_flight() > 0 {
            return Err("a launch vanished".to_owned());
        }
    }
    Err(format!("it is stuck: {instance:?}"))
}

/// Stops and resumptions of a gate.
struct Closings {
    turns: u32,
    next_turn: u64,
}

impl Events for Closings {
    fn turn(
        &mut self,
        instance: &mut Instance,
        place: &mut Place<'_, '_, '_>,
        dice: &mut Prng,
    ) -> Result<(), String> {
        self.turns -= 1;
        let gap = [600, 3000, 12_000][dice.below(3) as usize];
        self.next_turn = place.stage.gpu.now().0 + 1 + u64::from(dice.below(gap));
        match self.turns == 0 || instance.is_stopped() {
            true => instance.resume(place),
            false => instance.stop(place),
        }
    }

    fn turns(&self) -> u32 {
        self.turns
    }

    fn next_turn(&self) -> u64 {
        self.next_turn
    }

    fn check(&self, _: &mut Place<'_, '_, '_>) -> Result<(), String> {
        Ok(())
    }
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
    let host = Host::Gate(gate.clone());
    let mut place = Place::new(stage, form);
    let instance = place.begin(host)?;
    let turns = dice.below(8);
    if dice.below(2) == 0 {
        return in_two_parts(gate, &mut place, dice);
    }
    // A launch takes some thousands of cycles before its blocks start.
    let next_turn = place.stage.gpu.now().0 + u64::from(dice.below(10_000));
    let mut events = Closings { turns, next_turn };
    until_it_ends(instance, &mut place, &mut events, dice).map(|_| ())
}

/// Returns every launch three times: refused as a whole, then the blocks that marked themselves, in two random parts.
/// Stops by time seldom part so few blocks.
fn in_two_parts(
    mut gate: Gate,
    place: &mut Place<'_, '_, '_>,
    dice: &mut Prng,
) -> Result<(), String> {
    let opening = Gate::opening();
    while let Some(mut launch) = gate.next_launch() {
        let number = launch.number;
        place.write(Write {
            value: 0,
            ..opening
        })?;
        let refused = marks_behind(&gate, place, &launch)?;
        place.write(opening)?;
        let some: Vec<bool> = refused.iter().map(|_| dice.below(2) == 0).collect();
        launch.resumed = true;
        for part in [true, false] {
            let marks = refused.iter().zip(&some);
            let marks: Vec<u8> = marks
                .map(|(r, s)| if *s == part { *r } else { 0 })
                .collect();
            let at = u32::try_from(gate.table_at(number)).map_err(|e| e.to_string())?;
            for (at, word) in (at..).step_by(4).zip(marks.chunks(4)) {
                let mut bytes = [0; 4];
                bytes[..word.len()].copy_from_slice(word);
                let value = u32::from_le_bytes(bytes);
                place.write(Write { at, value })?;
            }
            if marks_behind(&gate, place, &launch)?.iter().any(|m| *m != 0) {
                return Err("a block is marked though nobody closed the gate".to_owned());
            }
        }
        let fault = recorded_fault(place)?.is_some();
        gate.launch_ended(number, fault);
    }
    place.check_faults()
}

/// Makes a launch and waits for its end; its table then.
fn marks_behind(
    gate: &Gate,
    place: &mut Place<'_, '_, '_>,
    launch: &GateLaunch,
) -> Result<Vec<u8>, String> {
    let counters = place.run.counters();
    place.launch(&gate.launch(launch, counters))?;
    place.stage.drain(&mut place.run)?;
    place.run.take_ended();
    let blocks = usize::try_from(gate.table_bytes(launch.number)).map_err(|e| e.to_string())?;
    let mut table = vec![0; blocks.next_multiple_of(8)];
    place.read(gate.table_at(launch.number), &mut table)?;
    match table.split_off(blocks).iter().any(|mark| *mark != 0) {
        true => Err("a block is marked that there is not".to_owned()),
        false => Ok(table),
    }
}

/// What happens to workers.
struct Caps {
    sms: u32,
    turns: u32,
    next_turn: u64,
    /// Workers whose first tickets are dealt, and who may not be counted.
    dealt: u32,
    /// While all caps are zero: tickets taken before that, and workers that were there.
    closed: Option<(u32, u32)>,
    /// Tickets that a worker may take behind that: the one that these caps still decided, and one that it takes ahead.
    held: u32,
    /// Says which tickets are for no block; a worker takes another one at once.
    control: Control,
}

fn workers(
    stage: &mut Stage<'_, '_>,
    subject: &Subject<'_>,
    form: &KernelForm,
    dice: &mut Prng,
) -> Result<(), String> {
    let sms = u32::from(stage.gpu.config().sm.count);
    let deals = form.may_deal && dice.below(2) == 0;
    let caps = match deals {
        true => vec![1 + dice.below(HIGHEST_CAP); sms as usize],
        false => random_caps(sms, dice),
    };
    let chunk = (1 + dice.below(4)).min(form.most_chunk);
    let apart = 1 << dice.below(4);
    let singles = dice.below(subject.blocks() + 2);
    let control = Control::workers(subject.grid, subject.block, (chunk, apart), singles)
        .ok_or("the grid cannot be counted")?;
    let workers = Workers::new(control.total, &caps).ok_or("a grid of no blocks")?;
    let workers = match deals {
        // More may reside, so that caps bind who is not counted, too.
        true => workers.deal(caps[0]),
        false => workers,
    };
    let dealt = workers.dealt();
    let control = control.taking(match dice.below(4) {
        0 => Taking::Late,
        1 => Taking::Warily,
        _ => Taking::Ahead,
    });
    let host = Host::Workers(workers, control);
    let mut place = Place::new(stage, form);
    let instance = place.begin(host)?;
    let turns = dice.below(7);
    let next_turn = place.stage.gpu.now().0 + 2000 + u64::from(dice.below(12_000));
    let mut events = Caps {
        sms,
        turns: turns + u32::from(caps.contains(&0) && turns == 0),
        next_turn,
        dealt,
        closed: None,
        // A wary one looks at the cap before each ticket.
        held: match control.offset[2] & control::WARY {
            0 => 2,
            _ => 1,
        },
        control,
    };
    let instance = until_it_ends(instance, &mut place, &mut events, dice)?;
    events.check_end(&instance, &mut place)
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

impl Events for Caps {
    /// Caps, stop, resume.
    fn turn(
        &mut self,
        instance: &mut Instance,
        place: &mut Place<'_, '_, '_>,
        dice: &mut Prng,
    ) -> Result<(), String> {
        self.check_idle(instance, place)?;
        self.turns -= 1;
        let short = dice.below(2) == 0;
        let gap = if short { 400 } else { 9000 };
        self.next_turn = place.stage.gpu.now().0 + 1 + u64::from(dice.below(gap));
        let last = self.turns == 0;
        if last {
            instance.resume(place)?;
        }
        match dice.below(5) {
            _ if last => instance.set_caps(place, &random_caps(self.sms, dice))?,
            0 | 1 => {
                let cap = |_| dice.below(HIGHEST_CAP + 1);
                let caps: Vec<u32> = (0..self.sms).map(cap).collect();
                instance.set_caps(place, &caps)?;
            }
            2 => instance.set_caps(place, &vec![0; self.sms as usize])?,
            _ if instance.is_stopped() => instance.resume(place)?,
            _ => instance.stop(place)?,
        }
        self.note_caps(place)
    }

    fn turns(&self) -> u32 {
        self.turns
    }

    fn next_turn(&self) -> u64 {
        self.next_turn
    }

    /// While all caps are zero nobody takes more tickets than he may hold.
    fn check(&self, place: &mut Place<'_, '_, '_>) -> Result<(), String> {
        let Some((taken, members)) = self.closed else {
            return Ok(());
        };
        let next = self.words(place)?[control::NEXT_AT as usize / 4];
        if next >= control::NEXT_CLOSED {
            return Ok(());
        }
        let last = next.min(self.control.total);
        let in_vain = (taken..last).filter(|&ticket| self.is_for_none(ticket));
        let in_vain = u32::try_from(in_vain.count()).unwrap_or(u32::MAX);
        match next > taken + in_vain + members * self.held {
            true => Err(format!(
                "{} tickets were taken by {members} workers that are to leave, {in_vain} of them for no block",
                next - taken
            )),
            false => Ok(()),
        }
    }
}

impl Caps {
    /// Returns whether a ticket of a row that was rounded up to chunks may begin behind the row's end
    /// ([`Control::workers`]).
    fn is_for_none(&self, ticket: u32) -> bool {
        self.control.ticket_begins(ticket) >= self.control.grid[0]
    }

    fn words(&self, place: &mut Place<'_, '_, '_>) -> Result<Vec<u32>, String> {
        words(place, 0, control::instance_bytes(self.sms) / 4)
    }

    fn members(&self, words: &[u32]) -> Vec<u32> {
        let at = |sm| words[control::place_offset(sm) as usize / 4 + 1];
        (0..self.sms).map(at).collect()
    }

    /// Remembers who was there when all caps became zero.
    fn note_caps(&mut self, place: &mut Place<'_, '_, '_>) -> Result<(), String> {
        let words = self.words(place)?;
        let cap = |sm| words[control::place_offset(sm) as usize / 4];
        let now = || {
            let members: u32 = self.members(&words).iter().sum();
            (words[control::NEXT_AT as usize / 4], members + self.dealt)
        };
        self.closed = match (0..self.sms).all(|sm| cap(sm) == 0) {
            true => Some(self.closed.unwrap_or_else(now)),
            false => None,
        };
        Ok(())
    }

    /// At the end the counters say what the protocol promises.
    fn check_end(&self, instance: &Instance, place: &mut Place<'_, '_, '_>) -> Result<(), String> {
        let words = self.words(place)?;
        let Host::Workers(workers, _) = instance.host() else {
            return Err("workers have become something else".to_owned());
        };
        let (next, tickets) = (words[control::NEXT_AT as usize / 4], workers.tickets());
        if next < tickets || workers.progress() != tickets {
            return Err(format!("{next} tickets of {tickets} were taken at the end"));
        }
        Ok(())
    }

    /// Who leaves while there are tickets gives his place back.
    fn check_idle(&self, instance: &Instance, place: &mut Place<'_, '_, '_>) -> Result<(), String> {
        let words = self.words(place)?;
        let Host::Workers(workers, _) = instance.host() else {
            return Err("workers have become something else".to_owned());
        };
        let tickets_left = words[control::NEXT_AT as usize / 4] < workers.tickets();
        if !workers.is_idle() || !tickets_left {
            return Ok(());
        }
        let members = self.members(&words);
        match members.iter().position(|&members| members != 0) {
            Some(sm) => Err(format!(
                "a place of SM {sm} is taken while nobody is on the device"
            )),
            None => Ok(()),
        }
    }
}
