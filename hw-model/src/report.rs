//! What the model tells its driver while time advances.
//!
//! Rule: block events are aggregated per cycle and launch, never one report per block of the same cycle.

use crate::counters::Counters;
use crate::exec::StepOutput;
use crate::fault::Fault;
use crate::memory::DomainId;
use gridmux_policy::units::Cycles;

/// One report; `tag` is the caller's own number of the launch or copy.
#[derive(Debug, Clone, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "a box would be an allocation for each launch"
)]
pub enum Report {
    /// Blocks of a launch were placed on SMs.
    Placed {
        /// Launch.
        tag: u64,
        /// Number of blocks placed.
        blocks: u32,
        /// Cycle in which they were placed.
        at: Cycles,
    },
    /// Blocks of a launch ended and their room is free.
    Retired {
        /// Launch.
        tag: u64,
        /// Number of blocks that ended.
        blocks: u32,
        /// Sum of their residences.
        ran: Cycles,
        /// Cycle in which they ended.
        at: Cycles,
    },
    /// A launch ended: all of its blocks did.
    Ended {
        /// Launch.
        tag: u64,
        /// When its first block was placed.
        first_start: Cycles,
        /// When its last block ended.
        end: Cycles,
        /// What it did.
        counters: Counters,
    },
    /// A launch faulted and was removed.
    Faulted {
        /// Launch.
        tag: u64,
        /// What it did wrong, and where.
        fault: Box<Fault>,
        /// Cycle in which it was removed.
        at: Cycles,
        /// What it issued until it was removed: the last value of [`Gpu::launch_cost`](crate::Gpu::launch_cost).
        warp_instructions: u64,
    },
    /// A copy is complete.
    Copied {
        /// Copy.
        tag: u64,
        /// Cycle in which it was complete.
        at: Cycles,
    },
}

impl Report {
    /// Reports stand in this order: by time, within a cycle room is freed before it is filled, then by tag.
    pub(crate) fn order(&self) -> (u64, u8, u64) {
        match self {
            Self::Retired { at, tag, .. } => (at.0, 0, *tag),
            Self::Placed { at, tag, .. } => (at.0, 1, *tag),
            Self::Ended { end, tag, .. } => (end.0, 2, *tag),
            Self::Faulted { at, tag, .. } => (at.0, 3, *tag),
            Self::Copied { at, tag, .. } => (at.0, 4, *tag),
        }
    }
}

/// Why [`crate::Gpu::advance`] came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advance {
    /// Nothing is queued, running or being copied; time stands at `until`.
    Idle,
    /// Time reached `until`.
    Reached,
    /// There are reports; time stands at the end of the epoch that made them.
    Reported,
}

/// Most bytes that one launch prints; what comes after is dropped, as when a printf buffer is full.
pub(crate) const MAX_PRINTED_BYTES: usize = 1 << 20;

/// What a launch printed with `printf`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// Launch.
    pub tag: u64,
    /// Memory domain of the launch.
    pub domain: DomainId,
    /// Its text so far.
    pub text: String,
    /// Bytes of text that found no room.
    pub lost_bytes: u64,
}

/// Appends to a launch's text, as far as there is room.
pub(crate) fn append_printed(
    all: &mut Vec<Printed>,
    tag: u64,
    domain: DomainId,
    said: &StepOutput,
) {
    let text = &said.text;
    let of_launch = all.iter().position(|p| p.tag == tag);
    let at = of_launch.unwrap_or_else(|| {
        all.push(Printed {
            tag,
            domain,
            text: String::new(),
            lost_bytes: 0,
        });
        all.len() - 1
    });
    let printed = &mut all[at];
    let room = MAX_PRINTED_BYTES.saturating_sub(printed.text.len());
    let end = text.floor_char_boundary(room);
    printed.text.push_str(&text[..end]);
    printed.lost_bytes += (text.len() - end) as u64 + said.lost_bytes;
}
