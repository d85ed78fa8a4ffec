//! One kernel instance as the host sees it.
//!
//! Rule: what the host knows of the device is an [`Observation`], which is old when it arrives; a decision that
//! needs a fresh one waits for it ([`Instance::wants_observation`]).

use super::set;

/// How an instance's blocks are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Each launched block runs one block of the grid, or none if no ticket is left.
    Gate {
        /// Blocks of one launch: a few waves.
        window: u32,
        /// Launches in flight at most; with two, the next window stands ready when one runs dry.
        depth: u32,
    },
    /// Each launched block runs chunks of the grid until it is sent away.
    Worker {
        /// Blocks taken at a time.
        chunk: u32,
    },
}

/// A 32-bit word to be written to the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Write {
    /// Byte offset from the set's first counter.
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

/// What was read from the set, at or after the time of the last call.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// The word at [`set::NEXT_AT`].
    pub next: u32,
    /// The word at [`set::PLACED_AT`].
    pub placed: u32,
    /// The masks, one word per SM; empty for a gate.
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
    shape: Shape,
    total: u32,
    caps: Box<[u8]>,
    stopped: bool,
    /// Blocks launched so far.
    launched: u32,
    /// Launches in flight with their blocks.
    flying: smallvec::SmallVec<[(u32, u32); 4]>,
    /// The newest observation, and whether nothing has happened since that could make it misleading.
    next: u32,
    placed: u32,
    masks: Box<[u32]>,
    fresh: bool,
}

impl Instance {
    /// An instance that has launched nothing. `caps` holds one cap per SM for a worker and nothing for a gate.
    ///
    /// # Errors
    /// [`SpecError`].
    pub fn new(shape: Shape, total: u32, caps: &[u8]) -> Result<Self, SpecError> {
        if total == 0 {
            return Err(SpecError::NoBlocks);
        }
        let parts = match shape {
            Shape::Gate { window, depth } => [("window", window), ("depth", depth)],
            Shape::Worker { chunk } => [("chunk", chunk); 2],
        };
        if let Some((what, _)) = parts.into_iter().find(|(_, value)| *value == 0) {
            return Err(SpecError::Zero { what });
        }
        check_caps(caps)?;
        Ok(Self {
            shape,
            total,
            caps: caps.into(),
            stopped: false,
            launched: 0,
            flying: smallvec::SmallVec::new(),
            next: 0,
            placed: 0,
            masks: vec![0; caps.len()].into(),
            fresh: true,
        })
    }

    /// The set's bytes before the first launch.
    #[must_use]
    pub fn set(&self) -> Vec<u8> {
        let sms = u32::try_from(self.caps.len()).unwrap_or(u32::MAX);
        let mut bytes = vec![0; set::set_bytes(sms) as usize];
        let limit = set::LIMIT_AT as usize;
        bytes[limit..limit + 4].copy_from_slice(&self.limit().to_le_bytes());
        bytes[set::COUNTERS_BYTES as usize..][..self.caps.len()].copy_from_slice(&self.caps);
        bytes
    }

    /// Changes the caps; the writes that change. Higher slots leave at their next block boundary, missing workers
    /// come with the next launches.
    ///
    /// # Errors
    /// [`SpecError::Cap`]; the caps stay as they were.
    ///
    /// # Panics
    /// If the number of SMs differs from the one at the beginning.
    pub fn set_caps(&mut self, caps: &[u8]) -> Result<Vec<Write>, SpecError> {
        assert_eq!(caps.len(), self.caps.len(), "one cap for each SM");
        check_caps(caps)?;
        if caps.iter().zip(&self.caps).any(|(new, old)| new > old) {
            // A worker that was sent away may still stand in its slot and be taken for one that stays.
            self.fresh = false;
        }
        let mut writes = Vec::new();
        let words = caps.chunks(4).zip(self.caps.chunks(4));
        for (at, (new, old)) in (set::COUNTERS_BYTES..).step_by(4).zip(words) {
            if new != old {
                let mut word = [0; 4];
                word[..new.len()].copy_from_slice(new);
                let value = u32::from_le_bytes(word);
                writes.push(Write { at, value });
            }
        }
        self.caps.copy_from_slice(caps);
        Ok(writes)
    }

    /// Stops at block boundaries: what runs goes on to the end of its block or chunk, nothing starts.
    pub fn stop(&mut self) -> Write {
        self.stopped = true;
        self.limit_write()
    }

    /// Goes on after [`Instance::stop`].
    pub fn resume(&mut self) -> Write {
        self.stopped = false;
        self.fresh = false;
        self.limit_write()
    }

    /// What to launch now, if anything. Call again until it returns `None`.
    pub fn next_launch(&mut self) -> Option<Launch> {
        if self.stopped || !self.fresh {
            return None;
        }
        let blocks = match self.shape {
            Shape::Gate { window, depth } => self.next_window(window, depth),
            Shape::Worker { chunk } => self.missing_workers(chunk),
        };
        if blocks == 0 {
            return None;
        }
        let in_flight = |n: &u32| self.flying.iter().any(|(number, _)| number == n);
        let number = (0..).find(|n| !in_flight(n)).unwrap_or(u32::MAX);
        self.launched = self.launched.wrapping_add(blocks);
        self.flying.push((number, blocks));
        if let Shape::Worker { .. } = self.shape {
            // Until these workers stand in their slots the masks say that they are missing.
            self.fresh = false;
        }
        let announce = Write {
            at: set::LAUNCHED_AT,
            value: self.launched,
        };
        Some(Launch {
            announce,
            number,
            blocks,
        })
    }

    /// All blocks of a launch have left the device.
    pub fn launch_ended(&mut self, number: u32) {
        self.flying.retain(|(other, _)| *other != number);
        self.fresh = false;
    }

    /// Takes note of what was read from the set after the last call of any other method.
    pub fn observe(&mut self, seen: &Observation<'_>) {
        self.next = seen.next;
        self.placed = seen.placed;
        let known = self.masks.len().min(seen.masks.len());
        self.masks[..known].copy_from_slice(&seen.masks[..known]);
        // With workers still to be placed the masks are not the whole truth.
        self.fresh = match self.shape {
            Shape::Gate { .. } => true,
            Shape::Worker { .. } => seen.placed == self.launched,
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

    /// Every block has run and every launch has ended; the set may be reused.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.flying.is_empty() && self.next == self.total
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
            if self.next != self.total {
                self.next = 0;
            }
        }
        self.flying.sort_unstable();
    }

    fn limit(&self) -> u32 {
        if self.stopped { 0 } else { self.total }
    }

    fn limit_write(&self) -> Write {
        Write {
            at: set::LIMIT_AT,
            value: self.limit(),
        }
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

    /// Free slots below the caps, and no more workers than there are chunks left.
    fn missing_workers(&self, chunk: u32) -> u32 {
        if self.placed != self.launched {
            return 0;
        }
        let missing = |(cap, mask): (&u8, &u32)| {
            let below = 1_u64.checked_shl(u32::from(*cap)).unwrap_or(0) - 1;
            u32::from(*cap) - (u64::from(*mask) & below).count_ones()
        };
        let free: u32 = self.caps.iter().zip(&self.masks).map(missing).sum();
        free.min((self.total - self.next.min(self.total)).div_ceil(chunk))
    }
}

fn check_caps(caps: &[u8]) -> Result<(), SpecError> {
    match caps.iter().enumerate().find(|(_, cap)| **cap > 32) {
        Some((sm, &cap)) => Err(SpecError::Cap { sm, cap }),
        None => Ok(()),
    }
}
