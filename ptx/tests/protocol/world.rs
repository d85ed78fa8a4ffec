//! A device with a few SMs, the host beside it, and what must hold in every state.
//!
//! Rules: one step of one party at a time. The block scheduler places launched workers on any SM with room. The host
//! may observe and launch at any time it wants to, and turns to control while its budget lasts; resuming, and a cap
//! above zero, are always still possible, because a tenant that is stopped for good never ends.

use super::device::{At, Code, Effect, Fault, Manner, Place, Set};
use super::search::State;
use gridmux_ptx::control;
use gridmux_ptx::protocol::{Launch, Workers, Write, worker::Observation};

/// What is searched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    pub(crate) tickets: u32,
    /// Caps at the beginning, one per SM.
    pub(crate) caps: &'static [u32],
    /// Highest caps that control may set.
    pub(crate) most: &'static [u32],
    /// Workers that fit on an SM.
    pub(crate) room: usize,
    pub(crate) control: &'static [Control],
    /// Control operations of a run.
    pub(crate) budget: u8,
    /// An observation is one load after the other instead of one step.
    pub(crate) torn: bool,
    /// When tickets are taken.
    pub(crate) manner: Manner,
    /// The first tickets are dealt, for SMs that hold `room` workers.
    pub(crate) deals: bool,
    /// A block waits for all earlier ones.
    pub(crate) waits: bool,
    pub(crate) fault: Fault,
}

/// Kinds of control operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// Any cap to any other value.
    Cap,
    /// Stop; resuming costs nothing.
    Stop,
}

/// A resident worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Worker {
    sm: u8,
    at: At,
    launch: u32,
    /// The cap fell while it was there: tickets that it may still begin.
    grace: Option<u8>,
}

/// Part of an observation that has been read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Seen {
    next: u32,
    placed: Option<u32>,
    members: Vec<u32>,
}

/// A step between two states, for a trace.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code, reason = "the fields are there to be printed")]
pub(crate) enum Step {
    /// A worker on an SM moves.
    Moves { sm: usize, from: At, to: At },
    /// A worker of a launch is placed.
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
    Cap { sm: usize, cap: u32 },
}

/// A state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    set: Set,
    host: Workers,
    /// Writes on their way, oldest first.
    writes: Vec<Write>,
    /// Launches with workers still to be placed, oldest first.
    waiting: Vec<(u32, u32)>,
    /// Dealt tickets whose workers are still to be placed begin here.
    next_dealt: Option<u32>,
    resident: Vec<Worker>,
    observing: Option<Seen>,
    ran: Vec<u8>,
    budget: u8,
    broken: Option<String>,
}

impl State for World {
    type Config = Config;
    type Step = Step;

    fn first(config: &Config) -> Self {
        let host = Workers::new(config.tickets, config.caps).expect("tickets");
        let host = match config.deals {
            true => host.deal(u32::try_from(config.room).expect("few")),
            false => host,
        };
        let bytes = host.memory();
        let word =
            |at: u32| u32::from_le_bytes(bytes[at as usize..][..4].try_into().expect("a word"));
        let place = |sm| Place {
            cap: word(control::place_offset(sm)),
            count: word(control::place_offset(sm) + 4),
        };
        let set = Set {
            next: word(control::NEXT_AT),
            placed: word(control::PLACED_AT),
            launched: word(control::LAUNCHED_AT),
            places: (0..).take(config.caps.len()).map(place).collect(),
        };
        Self {
            set,
            host,
            writes: Vec::new(),
            waiting: Vec::new(),
            next_dealt: None,
            resident: Vec::new(),
            observing: None,
            ran: vec![0; config.tickets as usize],
            budget: config.budget,
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
            world.normalise(config);
        }
        all
    }

    fn check(&self, config: &Config) -> Result<(), String> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        if let Some(block) = self.ran.iter().position(|n| *n > 1) {
            return Err(format!("block {block} ran twice"));
        }
        for (sm, place) in self.set.places.iter().enumerate() {
            self.check_sm(config, sm, *place)?;
        }
        if config.waits {
            self.check_lowest()?;
        }
        if self.host.has_ended() {
            if !self.resident.is_empty() || !self.waiting.is_empty() {
                return Err("the host calls it ended while workers are on the device".to_owned());
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
    fn check_sm(&self, config: &Config, sm: usize, place: Place) -> Result<(), String> {
        let here = || self.resident.iter().filter(|w| usize::from(w.sm) == sm);
        let members = here().filter(|w| w.at.is_member()).count();
        // Who found no ticket has left without subtracting itself.
        let none_left = self.set.next >= config.tickets;
        let count = place.count as usize;
        if members > count || (members < count && !none_left) {
            return Err(format!(
                "{members} workers on SM {sm} count as {}",
                place.count
            ));
        }
        for below in 0..=place.count {
            let hints = here().filter_map(|w| w.at.hint());
            let count = hints.filter(|hint| *hint < below).count();
            if count > below as usize {
                return Err(format!(
                    "{count} workers on SM {sm} have a hint below {below}"
                ));
            }
        }
        let busy = here().filter(|w| w.grace.is_none() && w.at.runs().is_some());
        let busy = busy.count();
        match busy > place.cap as usize {
            true => Err(format!(
                "{busy} workers run on SM {sm}, whose cap is {}",
                place.cap
            )),
            false => Ok(()),
        }
    }

    /// Returns the lowest ticket that was accepted and has not run is one that somebody runs, or comes to without
    /// waiting for another, so that a wait for earlier blocks ends.
    fn check_lowest(&self) -> Result<(), String> {
        let lowest = (0..self.set.next)
            .zip(&self.ran)
            .find(|(_, ran)| **ran == 0);
        match lowest {
            Some((lowest, _))
                if !self
                    .resident
                    .iter()
                    .any(|w| w.at.comes_to() == Some(lowest)) =>
            {
                Err(format!(
                    "block {lowest} is held while later ones may wait for it"
                ))
            }
            _ => Ok(()),
        }
    }

    /// States that behave alike become equal: workers in order, counters of launches from the last observation on.
    fn normalise(&mut self, config: &Config) {
        self.resident.sort_unstable();
        self.set.next = self.set.next.min(config.tickets);
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
        for (n, worker) in self.resident.iter().enumerate() {
            let earlier = |ticket: u32| self.ran.iter().take(ticket as usize).all(|n| *n > 0);
            let may_run = !config.waits || worker.at.runs().is_none_or(earlier);
            if !may_run && matches!(worker.at, At::RunHeld { .. }) {
                continue;
            }
            for choice in code.choices(worker.at, may_run) {
                all.push(self.device_step(&code, n, choice));
            }
        }
    }

    /// Returns the resident worker `n` moves.
    fn device_step(&self, code: &Code, n: usize, choice: u8) -> (Step, Self) {
        let mut to = self.clone();
        let Worker { sm, at: from, .. } = self.resident[n];
        let sm = usize::from(sm);
        let (at, effect) = code.step(from, choice, sm, &mut to.set);
        to.resident[n].at = at;
        match effect {
            Effect::Nothing => {}
            Effect::Began => {
                let grace = &mut to.resident[n].grace;
                *grace = grace.and_then(|left| left.checked_sub(1));
            }
            Effect::Ran(block) => to.ran[block as usize] += 1,
            Effect::Gone => {
                let gone = to.resident.remove(n);
                to.end_of(gone.launch);
            }
        }
        let place = to.set.places[sm];
        if place.count == 0 && self.set.places[sm].count > 0 && place.cap > 0 {
            let remain = self.set.next < code.tickets;
            let others = to
                .resident
                .iter()
                .any(|w| usize::from(w.sm) == sm && !w.at.is_member() && w.at.runs().is_some());
            if remain && !others {
                to.broken = Some(format!(
                    "no worker is left on SM {sm} though its cap is {} and blocks remain",
                    place.cap
                ));
            }
        }
        (Step::Moves { sm, from, to: at }, to)
    }

    fn end_of(&mut self, launch: u32) {
        let lives = self.resident.iter().any(|w| w.launch == launch)
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
        for sm in 0..config.caps.len() {
            let here = self.resident.iter().filter(|w| usize::from(w.sm) == sm);
            if here.count() >= config.room {
                continue;
            }
            let mut to = self.clone();
            to.waiting[0].1 -= 1;
            let dealt = self.next_dealt;
            if to.waiting[0].1 == 0 {
                to.waiting.remove(0);
                to.next_dealt = None;
            } else {
                to.next_dealt = dealt.map(|ticket| ticket + 1);
            }
            let at = At::first(&config.code(), dealt);
            // The ticket that it was dealt, and one that it takes before it hears of a cap.
            let asks = u8::from(config.manner != Manner::Wary);
            to.resident.push(Worker {
                sm: u8::try_from(sm).expect("few SMs"),
                at,
                launch,
                grace: dealt
                    .filter(|_| self.set.places[sm].cap != control::CAP_UNBOUND)
                    .map(|_| 1 + asks),
            });
            all.push((Step::Placed { launch, sm }, to));
        }
    }

    fn host_steps(&self, config: &Config, all: &mut Vec<(Step, Self)>) {
        let mut to = self.clone();
        if !self.writes.is_empty() {
            let write = to.writes.remove(0);
            to.perform(write, config);
            all.push((Step::Arrives(write), to));
            return;
        }
        if let Some(launch) = to.host.next_launch() {
            to.set.launched = launch.announce.value;
            to.waiting.push((launch.number, launch.blocks));
            if launch.dealt {
                to.next_dealt = Some(0);
            }
            to.observing = None;
            all.push((Step::Launches(launch), to));
            return;
        }
        if self.host.wants_observation() {
            self.observe_steps(config, all);
        }
    }

    fn observe_steps(&self, config: &Config, all: &mut Vec<(Step, Self)>) {
        let mut to = self.clone();
        let mut seen = to.observing.take().unwrap_or_else(|| Seen {
            next: self.set.next,
            ..Seen::default()
        });
        if self.observing.is_none() && config.torn {
            // `next` was read when the observation began.
        } else if seen.placed.is_none() && config.torn {
            seen.placed = Some(self.set.placed);
        } else {
            seen.placed.get_or_insert(self.set.placed);
            let counts: Vec<u32> = self.set.places.iter().map(|p| p.count).collect();
            let from = seen.members.len();
            let to = if config.torn { from + 1 } else { counts.len() };
            seen.members.extend(&counts[from..to]);
        }
        if seen.placed.is_some() && seen.members.len() >= self.set.places.len() {
            to.host.observe(&Observation {
                next: seen.next,
                placed: seen.placed.unwrap_or(0),
                members: &seen.members,
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
        let mut to = self.clone();
        to.observing = None;
        if self.host.is_stopped() {
            to.writes.extend(to.host.resume());
            all.push((Step::Stopped(false), to));
        } else if self.budget > 0 && config.control.contains(&Control::Stop) {
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
                to.writes.extend(to.host.set_caps(&caps));
                to.budget -= u8::from(!free);
                to.observing = None;
                all.push((Step::Cap { sm, cap }, to));
            }
        }
    }

    /// A write of the host's takes effect: a cap.
    fn perform(&mut self, write: Write, config: &Config) {
        let sm = (write.at - control::place_offset(0)) as usize / 8;
        let shrinks = write.value < self.set.places[sm].cap;
        self.set.places[sm].cap = write.value;
        let here = self.resident.iter_mut().filter(|w| usize::from(w.sm) == sm);
        for worker in here.filter(|w| shrinks && !matches!(w.at, At::Enter | At::Exit)) {
            // The ticket that is taken by the cap before, and the one whose taking that cap still decides. A worker
            // that takes late and has not heard of a cap decides about one by the cap that it was told; a wary one
            // about none.
            worker.grace = Some(match (config.manner, worker.at) {
                (Manner::Late, At::Run { cap: None, .. }) => 1,
                (Manner::Ahead | Manner::Late, _) => 2,
                (Manner::Wary, At::Run { .. }) => 0,
                (Manner::Wary, _) => 1,
            });
        }
    }
}

impl Config {
    fn code(&self) -> Code {
        Code {
            tickets: self.tickets,
            manner: self.manner,
            fault: self.fault,
        }
    }
}
