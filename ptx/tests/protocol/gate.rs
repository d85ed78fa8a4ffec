//! A gate's blocks, each of two threads, beside the host ([`Gate`], the real one) that stops it and lets it go on.
//!
//! Rules: one step of one party at a time. Each thread of a block reads the word and its mark for itself; the decision,
//! the mark and the effects are steps of the block. A fault is recorded in one step and closes the gate in another. The
//! host's writes take effect later than they are made, in order, and before the launches that follow. Resuming is
//! always possible, because a tenant that is stopped for good never ends.

use super::search::{Outcome, State, search};
use gridmux_ptx::boxes::Grid;
use gridmux_ptx::protocol::{Gate, GateLaunch, Write};

/// What is broken, on the device or beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Nothing.
    Sound,
    /// A block that goes on leaves its mark.
    MarkStays,
    /// A thread takes the mark away before the others have read it.
    MarkGoesEarly,
    /// A block marks itself when it has run already.
    MarkAfterEffect,
    /// Tables are read while blocks are on the device.
    ReadEarly,
    /// Each thread goes by what it saw itself.
    EachForItself,
    /// A box that is launched again does not look who is meant.
    MarkIgnored,
    /// A table is not asked for.
    NotAsked,
    /// The host opens without looking for a fault.
    RecordUnread,
    /// It looks only before.
    NotLookedAfter,
}

#[derive(Debug, Clone, Copy)]
struct Config {
    grid: [u32; 3],
    axis: u8,
    window: u32,
    depth: u32,
    /// Blocks on the device at once.
    room: usize,
    /// Stops of a run.
    budget: u8,
    /// The block that records a fault when it runs.
    faults: Option<usize>,
    fault: Fault,
}

const GATE: Config = Config {
    grid: [3, 1, 1],
    axis: 0,
    window: 2,
    depth: 2,
    room: 2,
    budget: 2,
    faults: None,
    fault: Fault::Sound,
};

/// What a thread saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Saw {
    Open,
    Closed,
    /// The block is not marked, in a launch for those that are.
    NotMeant,
}

/// Where a block stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum At {
    /// What its threads have seen so far.
    Looks([Option<Saw>; 2]),
    /// It runs; the threads that do.
    Runs([bool; 2]),
    /// It marks itself.
    Marks,
    /// It has recorded a fault, and closes the gate.
    Closes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Block {
    launch: u32,
    /// Its number in the launch and in the grid.
    index: u32,
    linear: u32,
    at: At,
}

/// A launch on the device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Launched {
    number: u32,
    first: u32,
    blocks: u32,
    placed: u32,
    resumed: bool,
}

/// A step, for a trace.
#[derive(Debug)]
#[allow(dead_code, reason = "the fields are there to be printed")]
enum Step {
    Moves(Block),
    Placed(u32),
    Arrives(Write),
    Launches(GateLaunch),
    Stops,
    Resumes,
    LooksAfter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    host: Gate,
    open: bool,
    recorded: bool,
    /// The host has opened and has not looked for a fault since.
    unsure: bool,
    /// The blocks that are marked, by launch number.
    tables: Vec<u32>,
    writes: Vec<Write>,
    launched: Vec<Launched>,
    resident: Vec<Block>,
    /// How often each thread of each block has run.
    ran: Vec<[u8; 2]>,
    budget: u8,
}

impl State for World {
    type Config = Config;
    type Step = Step;

    fn first(config: &Config) -> Self {
        let grid = Grid(config.grid);
        let blocks = usize::try_from(grid.blocks()).expect("few blocks");
        Self {
            host: Gate::new(grid, config.axis, config.window, config.depth)
                .expect("a valid instance"),
            open: Gate::opening().value != 0,
            recorded: false,
            unsure: false,
            tables: vec![0; config.depth as usize],
            writes: Vec::new(),
            launched: Vec::new(),
            resident: Vec::new(),
            ran: vec![[0; 2]; blocks],
            budget: config.budget,
        }
    }

    fn successors(&self, config: &Config) -> Vec<(Step, Self)> {
        let mut all = Vec::new();
        for n in 0..self.resident.len() {
            self.block_steps(config, n, &mut all);
        }
        self.place(config, &mut all);
        self.host_steps(config, &mut all);
        for (_, world) in &mut all {
            world.resident.sort_unstable();
        }
        all
    }

    fn check(&self, _: &Config) -> Result<(), String> {
        for (block, ran) in self.ran.iter().enumerate() {
            if ran.iter().any(|n| *n > 1) {
                return Err(format!("block {block} ran twice"));
            }
        }
        let still = self.writes.is_empty() && !self.unsure;
        let closes = self.resident.iter().any(|b| b.at == At::Closes);
        if self.recorded && self.open && still && !closes {
            return Err("the gate is open after a fault".to_owned());
        }
        let on_device = !self.launched.is_empty();
        if on_device == self.host.is_idle() {
            return Err("the host is wrong about what is on the device".to_owned());
        }
        if self.host.has_ended() {
            if self.recorded != self.host.is_faulted() {
                return Err("a fault was recorded and not noticed".to_owned());
            }
            if let Some(block) = self.ran.iter().position(|n| *n != [1; 2])
                && !self.recorded
            {
                return Err(format!("block {block} never ran whole"));
            }
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.host.has_ended() && self.writes.is_empty() && !self.unsure
    }
}

impl World {
    /// The steps that the resident block `n` may take.
    fn block_steps(&self, config: &Config, n: usize, all: &mut Vec<(Step, Self)>) {
        let block = self.resident[n];
        let launch = self.launched.iter().find(|l| l.number == block.launch);
        let resumed = launch.expect("its launch is there").resumed;
        let mut go = |at: Option<At>, change: &dyn Fn(&mut Self)| {
            let mut to = self.clone();
            change(&mut to);
            match at {
                Some(at) => to.resident[n].at = at,
                None => {
                    to.resident.remove(n);
                    to.end_of(config, block.launch);
                }
            }
            all.push((Step::Moves(block), to));
        };
        match block.at {
            At::Looks([Some(a), Some(b)]) => go(decision(config, [a, b]), &|_| {}),
            At::Looks(seen) => {
                for thread in (0..2).filter(|&t| seen[t].is_none()) {
                    let marked = self.tables[block.launch as usize] >> block.index & 1 != 0;
                    let mut seen = seen;
                    seen[thread] = Some(match self.open {
                        _ if resumed && !marked && config.fault != Fault::MarkIgnored => {
                            Saw::NotMeant
                        }
                        true => Saw::Open,
                        false => Saw::Closed,
                    });
                    let early = config.fault == Fault::MarkGoesEarly && self.open;
                    go(Some(At::Looks(seen)), &|to| {
                        if early {
                            to.tables[block.launch as usize] &= !(1 << block.index);
                        }
                    });
                }
            }
            At::Runs(threads) => {
                let linear = block.linear as usize;
                let late = config.fault == Fault::MarkAfterEffect && !self.open;
                let each = config.fault == Fault::EachForItself && threads != [true; 2];
                let next = match config.faults == Some(linear) {
                    true => Some(At::Closes),
                    false => (late || each).then_some(At::Marks),
                };
                go(next, &|to| {
                    for (count, runs) in to.ran[linear].iter_mut().zip(threads) {
                        *count += u8::from(runs);
                    }
                    to.recorded |= config.faults == Some(linear);
                    if config.fault != Fault::MarkStays {
                        to.tables[block.launch as usize] &= !(1 << block.index);
                    }
                });
            }
            At::Marks => go(None, &|to| {
                to.tables[block.launch as usize] |= 1 << block.index;
            }),
            At::Closes => go(None, &|to| to.open = false),
        }
    }

    /// A launch ends with its last block.
    fn end_of(&mut self, config: &Config, number: u32) {
        let Some(at) = self.launched.iter().position(|l| l.number == number) else {
            return;
        };
        let launch = &self.launched[at];
        let lives = launch.placed < launch.blocks;
        if lives || self.resident.iter().any(|b| b.launch == number) {
            return;
        }
        self.launched.remove(at);
        self.tell(config, number);
    }

    fn tell(&mut self, config: &Config, number: u32) {
        if self.host.launch_ended(number, self.recorded) {
            let marks = match config.fault {
                Fault::NotAsked => 0,
                _ => self.tables[number as usize],
            };
            let blocks = u32::try_from(self.host.table_bytes(number)).expect("few blocks");
            let table: Vec<u8> = (0..blocks).map(|n| u8::from(marks >> n & 1 != 0)).collect();
            self.host.observe(number, &table);
        }
    }

    /// The block scheduler places the next block of any launch.
    fn place(&self, config: &Config, all: &mut Vec<(Step, Self)>) {
        if self.resident.len() >= config.room {
            return;
        }
        for (n, launch) in self.launched.iter().enumerate() {
            if launch.placed == launch.blocks {
                continue;
            }
            let mut to = self.clone();
            to.launched[n].placed += 1;
            to.resident.push(Block {
                launch: launch.number,
                index: launch.placed,
                linear: launch.first + launch.placed,
                at: At::Looks([None; 2]),
            });
            all.push((Step::Placed(launch.number), to));
        }
    }

    fn host_steps(&self, config: &Config, all: &mut Vec<(Step, Self)>) {
        if !self.writes.is_empty() {
            let mut to = self.clone();
            let write = to.writes.remove(0);
            to.open = write.value != 0;
            all.push((Step::Arrives(write), to));
        } else {
            let mut to = self.clone();
            if let Some(launch) = to.host.next_launch() {
                to.launch(config, &launch);
                all.push((Step::Launches(launch), to));
            }
        }
        if self.unsure && self.writes.is_empty() {
            let mut to = self.clone();
            let blind = [Fault::RecordUnread, Fault::NotLookedAfter].contains(&config.fault);
            to.writes.extend(to.host.resumed(self.recorded && !blind));
            to.unsure = false;
            all.push((Step::LooksAfter, to));
        }
        let mut to = self.clone();
        if self.host.is_stopped() {
            let reads = self.recorded && config.fault != Fault::RecordUnread;
            let opening = to.host.resume(reads);
            to.unsure |= opening.is_some();
            to.writes.extend(opening);
            if config.fault == Fault::ReadEarly {
                for number in 0..config.depth {
                    to.tell(config, number);
                }
            }
            all.push((Step::Resumes, to));
        } else if self.budget > 0 && !self.has_ended() {
            to.budget -= 1;
            to.writes.extend(to.host.stop());
            all.push((Step::Stops, to));
        }
    }

    fn launch(&mut self, config: &Config, launch: &GateLaunch) {
        let number = launch.number;
        let [x, y, z] = launch.part.offset;
        let [width, height, _] = config.grid;
        self.launched.push(Launched {
            number,
            first: x + width * (y + height * z),
            blocks: u32::try_from(launch.part.blocks()).expect("few blocks"),
            placed: 0,
            resumed: launch.resumed,
        });
    }
}

/// Returns what a block does whose threads have all looked; `None` is that it leaves.
fn decision(config: &Config, saw: [Saw; 2]) -> Option<At> {
    if saw == [Saw::NotMeant; 2] {
        return None;
    }
    // Threads that leave as not meant vote no more.
    let closed = saw.contains(&Saw::Closed);
    let each = config.fault == Fault::EachForItself && saw[0] != saw[1];
    let runs = saw.map(|saw| saw == Saw::Open || !each && saw == Saw::Closed);
    match closed && !each && config.fault != Fault::MarkAfterEffect {
        true => Some(At::Marks),
        false => Some(At::Runs(runs)),
    }
}

fn passes(name: &str, config: &Config) {
    match search::<World>(config) {
        Outcome::Proved { states, ended } => {
            println!("{name}: {states} states, {ended} of them ends");
            assert!(ended > 0, "{name}: nothing ever ends");
            assert!(states > 1000, "{name}: only {states} states were reached");
        }
        Outcome::Broken { why, trace } => panic!("{name}: {why}\n{}", trace.join("\n")),
    }
}

fn finds(fault: Fault, expected: &str) {
    finds_in(&Config { fault, ..GATE }, expected);
}

fn finds_in(config: &Config, expected: &str) {
    let fault = config.fault;
    match search::<World>(config) {
        Outcome::Proved { states, .. } => panic!("{fault:?}: {states} states and nothing found"),
        Outcome::Broken { why, trace } => {
            println!("{fault:?}: {why} after {} steps", trace.len());
            assert!(
                why.contains(expected),
                "{fault:?}: found another bug: {why}"
            );
        }
    }
}

#[test]
fn every_block_runs_once_under_stop_and_resume() {
    passes("two launches", &GATE);
    let thrice = Config {
        budget: 3,
        depth: 1,
        ..GATE
    };
    passes("three stops, one launch at a time", &thrice);
    let rows = Config {
        grid: [2, 2, 1],
        axis: 1,
        window: 3,
        budget: 1,
        ..GATE
    };
    passes("rows", &rows);
}

#[test]
fn a_fault_ends_it() {
    for block in 0..3 {
        let faults = Some(block);
        passes("a fault", &Config { faults, ..GATE });
    }
}

#[test]
fn broken_gates_are_found() {
    finds(Fault::MarkStays, "ran twice");
    finds(Fault::MarkGoesEarly, "never ran whole");
    finds(Fault::MarkAfterEffect, "ran twice");
    finds(Fault::ReadEarly, "wrong about what is on the device");
    finds(Fault::EachForItself, "ran twice");
    finds(Fault::MarkIgnored, "ran twice");
    finds(Fault::NotAsked, "never ran whole");
    for fault in [Fault::RecordUnread, Fault::NotLookedAfter] {
        let faults = Some(0);
        let config = Config {
            fault,
            faults,
            ..GATE
        };
        finds_in(&config, "open after a fault");
    }
}
