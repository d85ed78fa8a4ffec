//! A device with a few SMs, the host beside it, and what must hold in every state.
//!
//! Rules: one step of one party at a time. The block scheduler places launched blocks on any SM with room. The host
//! may observe and launch at any time it wants to, and turns to control while its budget lasts; resuming, and a cap
//! above zero, are always still possible, because a tenant that is stopped for good never ends.

use super::device::{At, Choice, Code, Effect, Leave, Set, Ticket};
use super::search::State;
use gridmux_ptx::control;
use gridmux_ptx::protocol::{self, Instance, Launch, Mode, Observation, Write};

/// What is searched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    pub(crate) mode: Mode,
    pub(crate) blocks: u32,
    /// Caps at the beginning, one per SM.
    pub(crate) caps: &'static [u8],
    /// Highest caps that control may set.
    pub(crate) most: &'static [u8],
    /// Blocks that fit on an SM.
    pub(crate) room: usize,
    pub(crate) control: &'static [Control],
    /// Control operations of a run.
    pub(crate) budget: u8,
    /// An observation is one load after the other instead of one step.
    pub(crate) torn: bool,
    /// Broken: the limit is raised while launches are in flight.
    pub(crate) rash: bool,
    pub(crate) leave: Leave,
    pub(crate) choice: Choice,
    pub(crate) ticket: Ticket,
    /// Whether an SM must keep a worker from the first one on, not from the first in the lowest slot on.
    pub(crate) strict: bool,
}

/// Kinds of control operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// Any cap to any other value.
    Cap,
    /// Stop; resuming costs nothing.
    Stop,
}

/// A resident block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Block {
    sm: u8,
    at: At,
    launch: u32,
    /// The cap fell after this block last looked.
    stale: bool,
}

/// Part of an observation that has been read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Seen {
    next: u32,
    done: u32,
    placed: Option<u32>,
    masks: Vec<u32>,
}

/// A step between two states, for a trace.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code, reason = "the fields are there to be printed")]
pub(crate) enum Step {
    /// A block on an SM moves.
    Moves { sm: usize, from: At, to: At },
    /// A block of a launch is placed.
    Placed { launch: u32, sm: usize },
    /// A write takes effect.
    Arrives(Write),
    /// The host launches.
    Launches(Launch),
    /// The host reads a word, or all of them.
    Reads,
    /// The host is told to stop or resume.
    Stopped(bool),
    /// The host is told to hold a cap.
    Cap { sm: usize, cap: u8 },
}

/// A state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    set: Set,
    host: Instance,
    /// Writes on their way, oldest first.
    writes: Vec<Write>,
    /// Launches with blocks still to be placed, oldest first.
    waiting: Vec<(u32, u32)>,
    resident: Vec<Block>,
    observing: Option<Seen>,
    ran: Vec<u8>,
    budget: u8,
    /// Per SM: whether its workers must not all leave before the tickets do. Set when one enters, cleared by a
    /// stop and by a cap of zero.
    anchored: Vec<bool>,
    broken: Option<String>,
}

impl State for World {
    type Config = Config;
    type Step = Step;

    fn first(config: &Config) -> Self {
        let host =
            Instance::new(config.mode, config.blocks, config.caps).expect("a valid instance");
        let bytes = host.memory();
        let sms = u32::try_from(config.caps.len()).expect("few SMs");
        let word =
            |at: u32| u32::from_le_bytes(bytes[at as usize..][..4].try_into().expect("a word"));
        let set = Set {
            next: word(control::NEXT_AT),
            limit: word(control::LIMIT_AT),
            done: word(control::DONE_AT),
            placed: word(control::PLACED_AT),
            launched: word(control::LAUNCHED_AT),
            caps: bytes[control::caps_offset(sms) as usize..][..config.caps.len()].to_vec(),
            masks: vec![0; config.caps.len()],
        };
        Self {
            set,
            host,
            writes: Vec::new(),
            waiting: Vec::new(),
            resident: Vec::new(),
            observing: None,
            ran: vec![0; config.blocks as usize],
            budget: config.budget,
            anchored: vec![false; config.caps.len()],
            broken: None,
        }
    }

    fn has_ended(&self) -> bool {
        self.host.has_ended() && self.writes.is_empty()
    }

    fn successors(&self, config: &Config) -> Vec<(Step, Self)> {
        let mut all = Vec::new();
        self.device_steps(config, &mut all);
        self.scheduler_steps(config, &mut all);
        self.host_steps(config, &mut all);
        self.control_steps(config, &mut all);
        for (_, world) in &mut all {
            world.normalise();
        }
        all
    }

    fn check(&self, _: &Config) -> Result<(), String> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        if let Some(block) = self.ran.iter().position(|n| *n > 1) {
            return Err(format!("block {block} ran twice"));
        }
        for (sm, cap) in self.set.caps.iter().enumerate() {
            let busy = |b: &&Block| usize::from(b.sm) == sm && !b.stale && b.at.holds_room();
            let busy = self.resident.iter().filter(busy).count();
            if busy > usize::from(*cap) {
                return Err(format!("{busy} workers run on SM {sm}, whose cap is {cap}"));
            }
        }
        if self.host.has_ended() {
            if !self.resident.is_empty() || !self.waiting.is_empty() {
                return Err("the host calls it ended while blocks are on the device".to_owned());
            }
            if let Some(block) = self.ran.iter().position(|n| *n == 0) {
                return Err(format!(
                    "block {block} never ran, though the instance ended"
                ));
            }
        }
        Ok(())
    }
}

impl World {
    /// States that behave alike become equal: blocks in order, counters of launches from the last observation on.
    fn normalise(&mut self) {
        self.resident.sort_unstable();
        let placed = match self.observing.as_ref().and_then(|s| s.placed) {
            // A part of an observation is compared with what was launched when it is complete.
            Some(seen) => seen,
            None => self.set.placed,
        };
        self.host.rebase(placed);
        self.set.placed -= placed;
        self.set.launched = self.set.launched.wrapping_sub(placed);
        if let Some(seen) = &mut self.observing {
            seen.placed = seen.placed.map(|_| 0);
        }
    }

    fn device_steps(&self, config: &Config, all: &mut Vec<(Step, Self)>) {
        let code = config.code();
        for (n, block) in self.resident.iter().enumerate() {
            let sm = usize::from(block.sm);
            for choice in code.choices(block.at, sm, &self.set) {
                all.push(self.device_step((&code, config.strict), n, choice));
            }
        }
    }

    /// The resident block `n` moves.
    fn device_step(&self, (code, strict): (&Code, bool), n: usize, choice: u8) -> (Step, Self) {
        let mut to = self.clone();
        let block = &self.resident[n];
        let sm = usize::from(block.sm);
        let (at, effect) = code.step(block.at, choice, sm, &mut to.set);
        to.resident[n].at = at;
        match effect {
            Effect::Nothing | Effect::LeftByCap => {}
            Effect::SawCap => to.resident[n].stale = false,
            Effect::Ran(b) => to.ran[b as usize] += 1,
            Effect::Gone => {
                let gone = to.resident.remove(n);
                to.end_of(gone.launch);
            }
        }
        to.watch_anchor(self, sm, strict);
        let from = block.at;
        (Step::Moves { sm, from, to: at }, to)
    }

    /// Workers on an SM whose cap never was zero and that was not stopped may leave only when no ticket is left.
    fn watch_anchor(&mut self, before: &Self, sm: usize, strict: bool) {
        if before.set.masks[sm] == 0 && self.set.masks[sm] != 0 {
            // The lowest slot is the last to be taken away; a higher one may be, by a cap that is not zero.
            let keeps = if strict {
                (1 << self.set.caps[sm]) - 1
            } else {
                1
            };
            let stays = self.set.caps[sm] > 0 && self.set.masks[sm] & keeps != 0;
            self.anchored[sm] = stays && self.set.limit > 0;
        }
        if self.set.masks[sm] == 0 && self.anchored[sm] && self.set.next < self.set.limit {
            self.broken = Some(format!(
                "no worker is left on SM {sm} though its cap is {} and blocks remain",
                self.set.caps[sm]
            ));
        }
    }

    fn end_of(&mut self, launch: u32) {
        let lives = self.resident.iter().any(|b| b.launch == launch)
            || self.waiting.iter().any(|(other, _)| *other == launch);
        if !lives {
            self.host.launch_ended(launch);
            // What was read so far is older than the end.
            self.observing = None;
        }
    }

    fn scheduler_steps(&self, config: &Config, all: &mut Vec<(Step, Self)>) {
        let Some((launch, _)) = self.waiting.first().copied() else {
            return;
        };
        let sms = config.caps.len().max(1);
        for sm in 0..sms {
            if self
                .resident
                .iter()
                .filter(|b| usize::from(b.sm) == sm)
                .count()
                >= config.room
            {
                continue;
            }
            let mut to = self.clone();
            to.waiting[0].1 -= 1;
            if to.waiting[0].1 == 0 {
                to.waiting.remove(0);
            }
            to.resident.push(Block {
                sm: u8::try_from(sm).expect("few SMs"),
                at: config.code().entry(),
                launch,
                stale: false,
            });
            all.push((Step::Placed { launch, sm }, to));
        }
    }

    fn host_steps(&self, config: &Config, all: &mut Vec<(Step, Self)>) {
        if !self.writes.is_empty() {
            let mut to = self.clone();
            let write = to.writes.remove(0);
            to.perform(write);
            all.push((Step::Arrives(write), to));
            return;
        }
        let mut to = self.clone();
        match to.host.next_step() {
            Some(protocol::Step::Write(write)) => {
                to.perform(write);
                all.push((Step::Arrives(write), to));
                return;
            }
            Some(protocol::Step::Launch(launch)) => {
                to.perform(launch.announce);
                to.waiting.push((launch.number, launch.blocks));
                to.observing = None;
                all.push((Step::Launches(launch), to));
                return;
            }
            None => {}
        }
        if self.host.wants_observation() {
            self.observe_steps(config, all);
        }
    }

    fn observe_steps(&self, config: &Config, all: &mut Vec<(Step, Self)>) {
        let mut to = self.clone();
        let mut seen = to.observing.take().unwrap_or_else(|| Seen {
            next: self.set.next,
            done: self.set.done,
            ..Seen::default()
        });
        if self.observing.is_none() && config.torn {
            // `next` was read when the observation began.
        } else if seen.placed.is_none() && config.torn {
            seen.placed = Some(self.set.placed);
        } else {
            seen.placed.get_or_insert(self.set.placed);
            let masks = config.code().as_slots(&self.set.masks);
            seen.masks = if config.torn {
                masks[..=seen.masks.len().min(masks.len().saturating_sub(1))].to_vec()
            } else {
                masks
            };
        }
        if seen.placed.is_some() && seen.masks.len() >= self.set.masks.len() {
            to.host.observe(&Observation {
                next: seen.next,
                done: seen.done,
                placed: seen.placed.unwrap_or(0),
                masks: &seen.masks,
            });
        } else {
            to.observing = Some(seen);
        }
        all.push((Step::Reads, to));
    }

    fn control_steps(&self, config: &Config, all: &mut Vec<(Step, Self)>) {
        if !self.writes.is_empty() || self.has_ended() {
            return;
        }
        if self.host.is_stopped() {
            let mut to = self.clone();
            to.host.resume();
            if config.rash {
                let at = control::LIMIT_AT;
                to.writes.push(Write {
                    at,
                    value: config.blocks,
                });
            }
            all.push((Step::Stopped(false), to));
        } else if self.budget > 0 && config.control.contains(&Control::Stop) {
            let mut to = self.clone();
            to.writes.extend(to.host.stop());
            to.budget -= 1;
            all.push((Step::Stopped(true), to));
        }
        if !config.control.contains(&Control::Cap) {
            return;
        }
        let all_zero = self.host.caps().iter().all(|cap| *cap == 0);
        for (sm, most) in config.most.iter().enumerate() {
            for cap in 0..=*most {
                let free = all_zero && cap > 0;
                if cap == self.host.caps()[sm] || (self.budget == 0 && !free) {
                    continue;
                }
                let mut to = self.clone();
                let mut caps = self.host.caps().to_vec();
                caps[sm] = cap;
                to.writes
                    .extend(to.host.set_caps(&caps).expect("valid caps"));
                to.budget -= u8::from(!free);
                to.observing = None;
                all.push((Step::Cap { sm, cap }, to));
            }
        }
    }

    /// A write of the host's takes effect.
    fn perform(&mut self, write: Write) {
        match write.at {
            control::LIMIT_AT => {
                self.set.limit = write.value;
                if write.value == 0 {
                    self.anchored.fill(false);
                }
            }
            control::NEXT_AT => self.set.next = write.value,
            control::LAUNCHED_AT => self.set.launched = write.value,
            at => {
                let sms = u32::try_from(self.set.caps.len()).expect("few SMs");
                let first = (at - control::caps_offset(sms)) as usize;
                let caps = self.set.caps.iter_mut().skip(first);
                for ((sm, cap), new) in (first..).zip(caps).zip(write.value.to_le_bytes()) {
                    let shrinks = new < *cap;
                    *cap = new;
                    self.anchored[sm] &= new > 0;
                    let here = self.resident.iter_mut().filter(|b| usize::from(b.sm) == sm);
                    here.for_each(|b| b.stale |= shrinks && b.at.holds_room());
                }
            }
        }
    }
}

impl Config {
    fn code(&self) -> Code {
        let Mode::Worker { chunk } = self.mode;
        Code {
            chunk,
            leave: self.leave,
            choice: self.choice,
            ticket: self.ticket,
        }
    }
}

impl Code {
    /// The masks as the host reads them; a count is read as that many slots.
    fn as_slots(&self, masks: &[u32]) -> Vec<u32> {
        let slots = |mask: &u32| match self.leave {
            Leave::HighestSlot => *mask,
            Leave::CompareAndDecrement => (1 << mask) - 1,
        };
        masks.iter().map(slots).collect()
    }
}

impl At {
    /// It has passed a comparison with the cap and goes on to run blocks, or does.
    fn holds_room(self) -> bool {
        matches!(
            self,
            Self::Take { .. } | Self::ReadLimit { .. } | Self::Run { .. } | Self::CountDone { .. }
        )
    }
}
