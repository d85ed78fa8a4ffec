//! The device's hardware queues: which are free, and what the others hold.
//!
//! Rules: a lane holds one operation at a time; its generation grows with each use, so that a report that comes
//! late cannot be taken for one of the next operation.

use super::message::Slot;
use super::operation::OperationId;
use crate::device::{LANES, Lane, Tag};
use gridmux_policy::units::Nanos;

/// What a lane holds.
#[derive(Debug, Clone, Copy)]
pub struct Flight {
    /// Whose.
    pub slot: Slot,
    /// Which operation.
    pub operation: OperationId,
    /// Linear number of the slice's first block.
    pub first_block: u64,
    /// Device time at which it was handed over.
    pub issued: Nanos,
    /// Blocks of the slice; 0 for a copy.
    pub blocks: u32,
    /// Blocks reported resident and not yet retired.
    pub resident: u32,
}

/// All lanes.
#[derive(Debug, Default)]
pub struct Lanes {
    busy: u32,
    generations: [u32; LANES],
    flights: [Option<Flight>; LANES],
}

impl Lanes {
    /// Whether anything is in flight.
    #[must_use]
    pub fn any_busy(&self) -> bool {
        self.busy != 0
    }

    /// Free lanes.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.busy.count_zeros()
    }

    /// Lanes that a tenant holds.
    #[must_use]
    pub fn held_by(&self, slot: Slot) -> usize {
        self.flights
            .iter()
            .flatten()
            .filter(|f| f.slot == slot)
            .count()
    }

    /// Takes a free lane.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "trailing_ones of a u32 is at most 32"
    )]
    pub fn take(&mut self, flight: Flight) -> Option<Tag> {
        let index = self.busy.trailing_ones() as usize;
        if index >= LANES {
            return None;
        }
        self.busy |= 1 << index;
        self.generations[index] = self.generations[index].wrapping_add(1);
        self.flights[index] = Some(flight);
        Some(Tag {
            lane: Lane(index as u8),
            generation: self.generations[index],
        })
    }

    /// What is in flight under a tag.
    pub fn get_mut(&mut self, tag: Tag) -> Option<&mut Flight> {
        let index = usize::from(tag.lane.0);
        if *self.generations.get(index)? != tag.generation {
            return None;
        }
        self.flights[index].as_mut()
    }

    /// Frees the lane of a tag.
    pub fn release(&mut self, tag: Tag) -> Option<Flight> {
        self.get_mut(tag)?;
        let index = usize::from(tag.lane.0);
        self.busy &= !(1 << index);
        self.flights[index].take()
    }

    /// Tags of everything that a tenant has in flight.
    pub fn tags_of(&self, slot: Slot) -> impl Iterator<Item = Tag> + '_ {
        (0_u8..)
            .zip(&self.flights)
            .zip(&self.generations)
            .filter_map(move |((lane, flight), generation)| {
                (flight.as_ref()?.slot == slot).then_some(Tag {
                    lane: Lane(lane),
                    generation: *generation,
                })
            })
    }
}
