//! One kernel instance as the host sees it.
//!
//! Rule: what the host knows of the device is an [`Observation`], which is old when it arrives; a decision that
//! needs a fresh one waits for it ([`Instance::wants_observation`]).

use crate::control;

/// How an instance's blocks are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Each launched block runs one block of the grid, or none if no ticket is left.
    Gate {
        /// Blocks of one launch: a few waves.
        window: u32,
        /// Launches in flight at most; with two, the next window stands ready when one runs dry.
        depth: u32,
    },
}

/// A 32-bit word to be written to the instance's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Write {
    /// Byte offset from the counters.
    pub at: u32,
    /// What to write.
    pub value: u32,
}

/// A launch to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Launch {
    /// To be written before the launch.
    pub announce: Write,
    /// The launch's number, the lowest that is not in flight; to be given back to [`Instance::launch_ended`].
    pub number: u32,
    /// Blocks of its one-dimensional grid.
    pub blocks: u32,
}

/// What the host is to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Write a word.
    Write(Write),
    /// Write a word, then launch.
    Launch(Launch),
}

/// What was read from the instance's memory after the last call.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// The word at [`control::NEXT_AT`].
    pub next: u32,
    /// The word at [`control::DONE_AT`].
    pub done: u32,
    /// The word at [`control::PLACED_AT`].
    pub placed: u32,
    /// The slot masks, one word per SM; empty for a gate.
    pub masks: &'a [u32],
}

/// Why there can be no such instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A grid without blocks.
    #[error("an instance of no blocks; a grid has at least one")]
    NoBlocks,
    /// A window, depth or chunk of zero would never end.
    #[error("{what} is zero; it must be at least 1")]
    Zero {
        /// `window`, `depth` or `chunk`.
        what: &'static str,
    },
    /// A mask has 32 bits.
    #[error("a cap of {cap} for SM {sm}; a slot mask holds at most 32 workers")]
    Cap {
        /// The SM.
        sm: usize,
        /// Its cap.
        cap: u8,
    },
}

/// The host's state of one instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Instance {
    mode: Mode,
    total: u32,
    caps: Box<[u8]>,
    /// The caller wants it stopped.
    stopped: bool,
    /// A fault was recorded: nothing more starts.
    faulted: bool,
    /// The device's limit is zero, and numbers may have been taken in vain.
    closed: bool,
    /// The device's `next` has been corrected, so that the limit may be raised.
    corrected: bool,
    /// Blocks launched so far.
    launched: u32,
    /// Launches in flight with their blocks.
    flying: smallvec::SmallVec<[(u32, u32); 4]>,
    /// The newest observation, and whether nothing has happened since that could make it misleading.
    next: u32,
    done: u32,
    placed: u32,
    masks: Box<[u32]>,
    fresh: bool,
}

impl Instance {
    /// An instance that has launched nothing. `caps` holds one cap per SM for a worker and nothing for a gate.
    ///
    /// # Errors
    /// [`SpecError`].
    pub fn new(mode: Mode, total: u32, caps: &[u8]) -> Result<Self, SpecError> {
        if total == 0 {
            return Err(SpecError::NoBlocks);
        }
        let parts = match mode {
            Mode::Gate { window, depth } => [("window", window), ("depth", depth)],
        };
        if let Some((what, _)) = parts.into_iter().find(|(_, value)| *value == 0) {
            return Err(SpecError::Zero { what });
        }
        check_caps(caps)?;
        Ok(Self {
            mode,
            total,
            caps: caps.into(),
            stopped: false,
            faulted: false,
            closed: false,
            corrected: false,
            launched: 0,
            flying: smallvec::SmallVec::new(),
            next: 0,
            done: 0,
            placed: 0,
            masks: vec![0; caps.len()].into(),
            fresh: true,
        })
    }

    /// The bytes of the instance's memory before its first launch: counters, masks, caps.
    #[must_use]
    pub fn memory(&self) -> Vec<u8> {
        let sms = self.sms();
        let mut bytes = vec![0; control::instance_bytes(sms) as usize];
        let limit = control::LIMIT_AT as usize;
        bytes[limit..limit + 4].copy_from_slice(&self.total.to_le_bytes());
        bytes
    }

    /// Stops at block boundaries: what runs goes on to the end of its block or chunk, nothing starts. The write to
    /// make, if the device does not stand already.
    #[must_use]
    pub fn stop(&mut self) -> Option<Write> {
        self.stopped = true;
        let at = control::LIMIT_AT;
        let closes = !std::mem::replace(&mut self.closed, true);
        self.corrected = false;
        closes.then_some(Write { at, value: 0 })
    }

    /// Goes on after [`Instance::stop`], as soon as everything that was launched before has ended.
    pub fn resume(&mut self) {
        self.stopped = false;
    }

    /// The counters hold a recorded fault ([`control::FAULT_KIND_AT`]). The device has closed itself: what runs goes on
    /// to the end of its block, nothing starts, and the instance ends with its launches. A worker that left for the
    /// fault leaves its slot taken and its blocks uncounted, so that the memory serves another instance only after
    /// that instance's [`Instance::memory`] was written to it, which every instance's start asks for anyway.
    pub fn fault_recorded(&mut self) {
        self.faulted = true;
    }

    /// Whether it ends for a recorded fault, so that not all blocks may have run.
    #[must_use]
    pub fn is_faulted(&self) -> bool {
        self.faulted
    }

    /// What to do now, if anything. Call again until it returns `None`.
    pub fn next_step(&mut self) -> Option<Step> {
        if self.stopped || self.faulted || !self.fresh {
            return None;
        }
        if self.closed {
            return self.reopen();
        }
        let blocks = match self.mode {
            Mode::Gate { window, depth } => self.next_window(window, depth),
        };
        (blocks != 0).then(|| Step::Launch(self.launch(blocks)))
    }

    /// Gives back the numbers that were taken in vain, then raises the limit; only while nothing is in flight.
    fn reopen(&mut self) -> Option<Step> {
        if !self.flying.is_empty() || self.done >= self.total {
            return None;
        }
        let (at, value) = if self.corrected {
            self.closed = false;
            (control::LIMIT_AT, self.total)
        } else {
            self.corrected = true;
            self.next = self.done;
            (control::NEXT_AT, self.done)
        };
        Some(Step::Write(Write { at, value }))
    }

    fn launch(&mut self, blocks: u32) -> Launch {
        let in_flight = |n: &u32| self.flying.iter().any(|(number, _)| number == n);
        let number = (0..).find(|n| !in_flight(n)).unwrap_or(u32::MAX);
        self.launched = self.launched.wrapping_add(blocks);
        self.flying.push((number, blocks));
        let announce = Write {
            at: control::LAUNCHED_AT,
            value: self.launched,
        };
        Launch {
            announce,
            number,
            blocks,
        }
    }

    /// All blocks of a launch have left the device.
    pub fn launch_ended(&mut self, number: u32) {
        self.flying.retain(|(other, _)| *other != number);
        self.fresh = false;
    }

    /// Takes note of what was read from memory after the last call of any other method.
    pub fn observe(&mut self, seen: &Observation<'_>) {
        self.next = seen.next;
        self.done = seen.done;
        self.placed = seen.placed;
        let known = self.masks.len().min(seen.masks.len());
        self.masks[..known].copy_from_slice(&seen.masks[..known]);
        // With workers still to be placed the masks are not the whole truth.
        self.fresh = match self.mode {
            Mode::Gate { .. } => true,
        };
    }

    /// Whether the next step waits for an observation. For a worker whose launch waits for room that may last.
    #[must_use]
    pub fn wants_observation(&self) -> bool {
        !self.fresh && !self.has_ended()
    }

    /// Nothing of it is on the device: it has ended, or was stopped and has drained.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.flying.is_empty()
    }

    /// Every launch has ended, and every block has run or a fault was recorded; the memory may be reused, once the
    /// next instance's [`Instance::memory`] was written to it.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.flying.is_empty() && (self.done == self.total || self.faulted)
    }

    /// Whether it is stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Blocks of the grid.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.total
    }

    /// The caps as last set.
    #[must_use]
    pub fn caps(&self) -> &[u8] {
        &self.caps
    }

    /// Takes `placed` off the counters of launches, which only ever count, and forgets what a stale observation said.
    /// States that differ by this alone behave alike, which makes a search through all of them finite.
    pub fn rebase(&mut self, placed: u32) {
        self.launched = self.launched.wrapping_sub(placed);
        self.placed = self.placed.wrapping_sub(placed);
        if !self.fresh {
            self.placed = 0;
            self.masks.fill(0);
            self.next = 0;
            if self.done != self.total {
                self.done = 0;
            }
        }
        self.flying.sort_unstable();
    }

    fn sms(&self) -> u32 {
        u32::try_from(self.caps.len()).unwrap_or(u32::MAX)
    }

    /// Blocks of the grid for which nothing was launched yet, in windows.
    fn next_window(&self, window: u32, depth: u32) -> u32 {
        if self.flying.len() >= depth as usize {
            return 0;
        }
        let flying: u32 = self.flying.iter().map(|(_, blocks)| blocks).sum();
        let covered = self.next.saturating_add(flying);
        self.total.saturating_sub(covered).min(window)
    }
}

fn check_caps(caps: &[u8]) -> Result<(), SpecError> {
    match caps.iter().enumerate().find(|(_, cap)| **cap > 32) {
        Some((sm, &cap)) => Err(SpecError::Cap { sm, cap }),
        None => Ok(()),
    }
}

