//! One instance of a `gate` kernel as the host sees it: boxes of the grid in launches that can be refused.
//!
//! The host cuts the grid into boxes of at most `window` blocks, across one axis in ascending order, and keeps up to
//! `depth` of them in launches of their own. A launch has a *table* in the instance's memory, one byte for each block:
//! blocks that found the gate closed mark themselves there. When the box is launched again, only marked blocks run, and
//! take their marks away.
//!
//! ```text
//! loop {
//!     while let Some(launch) = gate.next_launch() { launch }
//!     if gate.has_ended() { break }
//!     wait for the end of a launch; fault = a fault is recorded
//!     if gate.launch_ended(number, fault) { read its table → gate.observe(number, …) }
//! }
//! to stop:       write what gate.stop() says
//! to resume:     fault = a fault is recorded; write what gate.resume(fault) says, and when it has arrived:
//!                fault = a fault is recorded; write what gate.resumed(fault) says
//! ```
//!
//! Rules, all of them proved by the search in `tests/protocol`:
//! - Writes take effect in the order in which they are made, and before the launches that follow them.
//! - The word is lowered and raised at any time. A block decides by what all of its threads saw, and marks itself
//!   before it leaves, so the table of a launch that has *ended* is exact; before that it says nothing.
//! - A launch that was on the device while the word was zero is asked for its table; no other can have refused a block.
//!   A recorded fault makes the word zero as well, so the host looks for one whenever a launch ends, and before and
//!   after it raises the word: what it raised over a fault it lowers again. Blocks start in spite of a fault only
//!   between these two writes.
//! - A table serves another box only when its own has run; there are no marks then.

use super::{InstanceLaunch, SpecError, Write};
use crate::boxes::{Grid, SubBox, next_planes};
use crate::control::{self, Control};
use smallvec::SmallVec;

/// A launch to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GateLaunch {
    /// The number of its table, below the depth; to be given back to [`Gate::launch_ended`].
    pub number: u32,
    /// Its blocks, and the dimensions of its grid.
    pub part: SubBox,
    /// Its box was launched before: only the blocks that are marked in the table run.
    pub resumed: bool,
}

/// A box that has a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Part {
    number: u32,
    part: SubBox,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum State {
    /// On the device; `closed` when the word was zero meanwhile.
    Flying { closed: bool },
    /// Ended, its table is to be read.
    Unread,
    /// Some blocks were refused.
    Refused,
}

/// The host's state of one instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Gate {
    grid: Grid,
    /// The axis that the grid is cut across.
    axis: u8,
    /// Most blocks of a launch: as many whole planes as the caller's bound has room for, or one plane.
    window: u32,
    depth: u32,
    /// The first plane that no box covers yet.
    next: u32,
    stopped: bool,
    faulted: bool,
    parts: SmallVec<[Part; 4]>,
}

impl Gate {
    /// The write that lets nobody in.
    const CLOSING: Write = Write {
        at: control::OPEN_AT,
        value: 0,
    };

    /// Returns an instance that has launched nothing: launches of at most `window` blocks, or of one plane across the
    /// axis that [`LaunchGrid::Planes`](crate::forms::LaunchGrid::Planes) names, `depth` of them at a time.
    ///
    /// # Errors
    /// [`SpecError`].
    pub fn new(grid: Grid, axis: u8, window: u32, depth: u32) -> Result<Self, SpecError> {
        if grid.blocks() == 0 {
            return Err(SpecError::NoBlocks);
        }
        if !grid.is_sliceable() {
            return Err(SpecError::TooManyBlocks);
        }
        let parts = [("window", window), ("depth", depth)];
        if let Some((what, _)) = parts.into_iter().find(|(_, value)| *value == 0) {
            return Err(SpecError::Zero { what });
        }
        let most = next_planes(grid, axis, 0, window).blocks();
        Ok(Self {
            grid,
            axis,
            window: u32::try_from(most).unwrap_or(u32::MAX),
            depth,
            next: 0,
            stopped: false,
            faulted: false,
            parts: SmallVec::new(),
        })
    }

    /// Returns the bytes of the instance's memory before its first launch: no marks, and blocks are let in.
    #[must_use]
    pub fn memory(&self) -> Vec<u8> {
        let bytes = control::gate_bytes(self.depth, self.window);
        // What does not fit into memory here cannot be made on a device either.
        let mut memory = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        let opening = Self::opening();
        memory[opening.at as usize..][..4].copy_from_slice(&opening.value.to_le_bytes());
        memory
    }

    /// Returns the write that lets blocks in.
    #[must_use]
    pub fn opening() -> Write {
        Write {
            at: control::OPEN_AT,
            value: 1,
        }
    }

    /// Returns offset, from the counters, of the table of that number.
    #[must_use]
    pub fn table_at(&self, number: u32) -> u64 {
        control::gate_table_offset(number, self.window)
    }

    /// Returns the launch as a device makes it, of an instance at that address.
    #[must_use]
    pub fn launch(&self, launch: &GateLaunch, counters: u64) -> InstanceLaunch {
        let table = counters + self.table_at(launch.number);
        let (part, resumed) = (launch.part, launch.resumed);
        InstanceLaunch {
            number: launch.number,
            grid: part.dims,
            control: Control::gate(self.grid.0, part, resumed, counters, table),
        }
    }

    /// Stops: blocks that have not come to their commit point leave, the others run to their end. The write to make,
    /// unless it is stopped already.
    #[must_use]
    pub fn stop(&mut self) -> Option<Write> {
        if std::mem::replace(&mut self.stopped, true) {
            return None;
        }
        for part in &mut self.parts {
            if let State::Flying { closed } = &mut part.state {
                *closed = true;
            }
        }
        Some(Self::CLOSING)
    }

    /// Goes on after [`Gate::stop`], at once: the write to make. `fault_recorded` is as for [`Gate::launch_ended`],
    /// read now: the word is zero for both reasons, so that it alone does not say whether it may be raised. When the
    /// write has arrived, [`Gate::resumed`] is to follow.
    #[must_use]
    pub fn resume(&mut self, fault_recorded: bool) -> Option<Write> {
        self.faulted |= fault_recorded;
        let was_stopped = std::mem::replace(&mut self.stopped, false);
        (was_stopped && !self.faulted).then(Self::opening)
    }

    /// Returns what [`Gate::resume`] asked to write has arrived; `fault_recorded` was read after that. A fault between
    /// the two readings has made the word zero, or will, in vain or not: the write that makes sure.
    #[must_use]
    pub fn resumed(&mut self, fault_recorded: bool) -> Option<Write> {
        self.faulted |= fault_recorded;
        fault_recorded.then_some(Self::CLOSING)
    }

    /// Returns the launch to be made now, if any. Call again until it returns `None`.
    pub fn next_launch(&mut self) -> Option<GateLaunch> {
        if self.stopped || self.faulted {
            return None;
        }
        self.refused_launch().or_else(|| self.fresh_launch())
    }

    /// Returns the lowest box with blocks that were refused.
    fn refused_launch(&mut self) -> Option<GateLaunch> {
        let mut parts = self.parts.iter_mut();
        let part = parts.find(|p| p.state == State::Refused)?;
        part.state = State::Flying { closed: false };
        Some(GateLaunch {
            number: part.number,
            part: part.part,
            resumed: true,
        })
    }

    fn fresh_launch(&mut self) -> Option<GateLaunch> {
        let taken = |n: &u32| self.parts.iter().any(|p| p.number == *n);
        let number = (0..self.depth).find(|n| !taken(n))?;
        let part = next_planes(self.grid, self.axis, self.next, self.window);
        if part.blocks() == 0 {
            return None;
        }
        self.next += part.dims[usize::from(self.axis.min(2))];
        let state = State::Flying { closed: false };
        self.parts.push(Part {
            number,
            part,
            state,
        });
        Some(GateLaunch {
            number,
            part,
            resumed: false,
        })
    }

    /// Returns whether all blocks of a launch have left the device; `fault_recorded` says whether the counters hold a
    /// fault ([`control::FAULT_KIND_AT`]), after which nothing more starts. True when its table is to be read.
    pub fn launch_ended(&mut self, number: u32, fault_recorded: bool) -> bool {
        self.faulted |= fault_recorded;
        let Some(at) = self.parts.iter().position(|p| p.number == number) else {
            return false;
        };
        let is_asked = self.parts[at].state == State::Flying { closed: true } && !self.faulted;
        match is_asked {
            true => self.parts[at].state = State::Unread,
            false => drop(self.parts.remove(at)),
        }
        is_asked
    }

    /// Returns the bytes of the table of that number: one for each block of its box.
    #[must_use]
    pub fn table_bytes(&self, number: u32) -> u64 {
        let part = self.parts.iter().find(|p| p.number == number);
        part.map_or(0, |p| p.part.blocks())
    }

    /// Takes note of the table of a launch that has ended.
    pub fn observe(&mut self, number: u32, table: &[u8]) {
        let Some(at) = self.parts.iter().position(|p| p.number == number) else {
            return;
        };
        match table.iter().any(|mark| *mark != 0) {
            true => self.parts[at].state = State::Refused,
            false => drop(self.parts.remove(at)),
        }
    }

    /// Returns whether nothing of it is on the device: it has ended, or was stopped and has drained.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let flies = |p: &Part| matches!(p.state, State::Flying { .. });
        !self.parts.iter().any(flies)
    }

    /// Returns whether every launch has ended, and every block has run or a fault was recorded; the memory may be
    /// reused, once it is cleared.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let has_run = self.parts.is_empty() && self.next >= self.extent();
        has_run || (self.faulted && self.is_idle())
    }

    fn extent(&self) -> u32 {
        self.grid.0[usize::from(self.axis.min(2))]
    }

    /// Returns whether it is stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Returns whether it ends for a recorded fault, so that not all blocks may have run.
    #[must_use]
    pub fn is_faulted(&self) -> bool {
        self.faulted
    }
}

#[cfg(test)]
mod tests {
    use super::{Gate, Grid};

    #[test]
    fn refused_blocks_go_first_and_a_fault_ends_it() {
        let mut gate = Gate::new(Grid([5, 2, 1]), 0, 4, 2).expect("fine");
        let launches: Vec<_> = std::iter::from_fn(|| gate.next_launch()).collect();
        assert_eq!(launches.len(), 2, "as many as the depth");
        assert!(gate.stop().is_some() && gate.stop().is_none());
        assert!(
            gate.launch_ended(1, false),
            "it was there when the word was zero"
        );
        assert_eq!(gate.table_bytes(1), 4);
        gate.observe(1, &[1, 0, 1, 0]);
        assert_eq!(gate.next_launch(), None, "it is stopped");
        assert_eq!(gate.resume(false), Some(Gate::opening()));
        assert_eq!(gate.resumed(false), None);
        let again = gate.next_launch().expect("two blocks were refused");
        assert_eq!((again.number, again.part), (1, launches[1].part));
        assert!(again.resumed);
        assert!(
            !gate.launch_ended(1, false),
            "the word was not zero meanwhile"
        );
        let third = gate.next_launch().expect("two blocks are left");
        assert_eq!((third.part.offset[0], third.part.blocks()), (4, 2));
        assert!(!gate.launch_ended(0, true));
        assert_eq!(gate.next_launch(), None);
        assert!(!gate.has_ended() && gate.is_faulted());
        assert!(!gate.launch_ended(third.number, true));
        assert!(gate.has_ended());
    }
}
