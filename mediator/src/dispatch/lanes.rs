//! The device's hardware queues (lanes): what each holds, in order.
//!
//! A lane takes several operations, which run one after another, so that the next begins without the latency of a
//! launch. What is behind the first of a lane cannot start before the one in front has ended, so its blocks count
//! against a cap only as far as they are more than those in front ([`Flight::charge`]).
//!
//! Rules: a flight's generation is never used twice in a lane, so that a report that comes late cannot be taken for
//! one of another operation. A lane belongs to one client while it holds anything.

use super::message::Slot;
use super::operation::OperationId;
use crate::device::{LANES, Lane, Tag};
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::Nanos;

/// Operations that a lane holds at most.
pub const MOST_DEPTH: usize = 4;

/// One operation, or slice of one, on the device.
#[derive(Debug, Clone, Copy)]
pub struct Flight {
    /// The client.
    pub slot: Slot,
    /// The tenant.
    pub tenant: TenantId,
    /// The operation.
    pub operation: OperationId,
    /// The row of a launch.
    pub row: Option<RowId>,
    /// What one block takes of an SM.
    pub shape: BlockShape,
    /// Linear number of the slice's first block.
    pub first_block: u64,
    /// Device time at which it was handed over.
    pub issued: Nanos,
    /// Blocks of the slice; 0 for a copy.
    pub blocks: u32,
    /// Blocks that count against cap and limit.
    pub charge: u32,
    /// Blocks reported resident and not yet retired.
    pub resident: u32,
    /// It was handed over to an empty lane.
    pub is_fresh: bool,
}

/// A flight that left its lane, and the one that is first there now.
#[derive(Debug, Clone, Copy)]
pub struct Released {
    /// What left.
    pub flight: Flight,
    /// The new first one, with the blocks by which its charge grew.
    pub next: Option<(Flight, u32)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Held {
    generation: u32,
    flight: Option<Flight>,
}

/// What a lane holds: a ring, so that the first one leaves without moving the others.
#[derive(Debug, Clone, Copy, Default)]
struct LaneQueue {
    held: [Held; MOST_DEPTH],
    head: usize,
    len: usize,
}

impl LaneQueue {
    /// Returns where the n-th flight stands.
    fn place(&self, n: usize) -> usize {
        (self.head + n) % MOST_DEPTH
    }

    /// Returns everything that is held, in order.
    fn iter(&self) -> impl DoubleEndedIterator<Item = &Held> {
        (0..self.len).map(|n| &self.held[self.place(n)])
    }

    /// Returns which flight has a generation.
    fn find(&self, generation: u32) -> Option<usize> {
        (0..self.len).find(|n| self.held[self.place(*n)].generation == generation)
    }

    fn push(&mut self, held: Held) {
        let place = self.place(self.len);
        self.held[place] = held;
        self.len += 1;
    }

    /// Takes the n-th flight out; what is behind it moves up.
    fn remove(&mut self, n: usize) -> Option<Flight> {
        let flight = self.held[self.place(n)].flight;
        match n {
            0 => self.head = self.place(1),
            _ => {
                for behind in n + 1..self.len {
                    self.held[self.place(behind - 1)] = self.held[self.place(behind)];
                }
            }
        }
        self.len -= 1;
        flight
    }
}

/// All lanes.
#[derive(Debug)]
pub struct Lanes {
    busy: u32,
    depth: usize,
    generations: [u32; LANES],
    lanes: Box<[LaneQueue]>,
}

impl Lanes {
    /// Makes empty lanes that take `depth` operations each.
    #[must_use]
    pub fn new(depth: usize) -> Self {
        Self {
            busy: 0,
            depth: depth.clamp(1, MOST_DEPTH),
            generations: [0; LANES],
            lanes: vec![LaneQueue::default(); LANES].into_boxed_slice(),
        }
    }

    /// Returns whether anything is in flight.
    #[must_use]
    pub fn any_busy(&self) -> bool {
        self.busy != 0
    }

    /// Returns how many lanes are empty.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.busy.count_zeros()
    }

    /// Takes an empty lane.
    pub fn take(&mut self, flight: Flight) -> Option<Tag> {
        let index = u8::try_from(self.busy.trailing_ones()).ok()?;
        if usize::from(index) >= LANES {
            return None;
        }
        self.busy |= 1 << index;
        self.append(Lane(index), flight)
    }

    /// Puts a flight behind what a lane holds; `None` when the lane is full.
    pub fn append(&mut self, lane: Lane, flight: Flight) -> Option<Tag> {
        let index = usize::from(lane.0);
        let queue = &mut self.lanes[index];
        if queue.len >= self.depth {
            return None;
        }
        self.generations[index] = self.generations[index].wrapping_add(1);
        let generation = self.generations[index];
        queue.push(Held {
            generation,
            flight: Some(flight),
        });
        Some(Tag { lane, generation })
    }

    /// Returns how many flights a lane holds.
    #[must_use]
    pub fn len(&self, lane: Lane) -> usize {
        self.lanes[usize::from(lane.0)].len
    }

    /// Returns whether a lane takes another flight behind those that it holds.
    #[must_use]
    pub fn has_room(&self, lane: Lane) -> bool {
        self.len(lane) < self.depth
    }

    /// Returns whether a lane holds a flight of a client's operation.
    #[must_use]
    pub fn holds(&self, lane: Lane, slot: Slot, operation: OperationId) -> bool {
        let queue = &self.lanes[usize::from(lane.0)];
        let mut flights = queue.iter().filter_map(|held| held.flight.as_ref());
        flights.any(|flight| (flight.slot, flight.operation) == (slot, operation))
    }

    /// Returns the newest flight of a lane.
    #[must_use]
    pub fn last(&self, lane: Lane) -> Option<&Flight> {
        self.lanes[usize::from(lane.0)]
            .iter()
            .next_back()?
            .flight
            .as_ref()
    }

    /// Returns what is in flight under a tag.
    pub fn get_mut(&mut self, tag: Tag) -> Option<&mut Flight> {
        let queue = self.lanes.get_mut(usize::from(tag.lane.0))?;
        let place = queue.place(queue.find(tag.generation)?);
        queue.held[place].flight.as_mut()
    }

    /// Takes a flight out of its lane, wherever in the lane it is.
    pub fn release(&mut self, tag: Tag) -> Option<Released> {
        let index = usize::from(tag.lane.0);
        let queue = self.lanes.get_mut(index)?;
        let flight = queue.remove(queue.find(tag.generation)?)?;
        let first = match queue.len {
            0 => None,
            _ => queue.held[queue.head].flight.as_mut(),
        };
        let next = first.map(|first| {
            let grew = first.blocks.saturating_sub(first.charge);
            first.charge = first.blocks.max(first.charge);
            (*first, grew)
        });
        if next.is_none() {
            self.busy &= !(1 << index);
        }
        Some(Released { flight, next })
    }

    /// Calls a function for the tag of everything that a client has in flight.
    pub fn for_client(&self, slot: Slot, mut act: impl FnMut(Tag, &Flight)) {
        for (lane, queue) in (0_u8..).zip(&*self.lanes) {
            for held in queue.iter() {
                if let Some(flight) = held.flight.as_ref().filter(|f| f.slot == slot) {
                    let generation = held.generation;
                    let lane = Lane(lane);
                    act(Tag { lane, generation }, flight);
                }
            }
        }
    }

    /// Returns how many flights a client has.
    #[must_use]
    pub fn held_by(&self, slot: Slot) -> usize {
        let mut count = 0;
        self.for_client(slot, |_, _| count += 1);
        count
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Flight, Lanes, Slot};
    use crate::device::LANES;
    use crate::dispatch::operation::OperationId;
    use gridmux_policy::ids::TenantId;
    use gridmux_policy::shape::BlockShape;
    use gridmux_policy::units::Nanos;

    fn flight(blocks: u32, charge: u32) -> Flight {
        Flight {
            slot: Slot(3),
            tenant: TenantId(0),
            operation: OperationId(0),
            row: None,
            shape: BlockShape::default(),
            first_block: 0,
            issued: Nanos(0),
            blocks,
            charge,
            resident: 0,
            is_fresh: true,
        }
    }

    #[test]
    fn what_is_behind_is_charged_in_full_when_it_is_first() {
        let mut lanes = Lanes::new(3);
        let first = lanes.take(flight(8, 8)).unwrap();
        let second = lanes.append(first.lane, flight(10, 2)).unwrap();
        let third = lanes.append(first.lane, flight(4, 0)).unwrap();
        assert!(lanes.append(first.lane, flight(1, 1)).is_none());
        let released = lanes.release(first).unwrap();
        assert_eq!(released.flight.charge, 8);
        let (next, grew) = released.next.unwrap();
        assert_eq!((next.charge, grew), (10, 8));
        assert!(
            lanes.release(first).is_none(),
            "a late report finds nothing"
        );
        let released = lanes.release(second).unwrap();
        assert_eq!(released.next.unwrap().1, 4);
        assert!(lanes.release(third).unwrap().next.is_none());
        assert!(!lanes.any_busy());
    }

    #[test]
    fn every_lane_is_taken_once() {
        let mut lanes = Lanes::new(1);
        for _ in 0..LANES {
            assert!(lanes.take(flight(1, 1)).is_some());
        }
        assert_eq!(lanes.free(), 0);
        assert!(lanes.take(flight(1, 1)).is_none());
        assert_eq!(lanes.held_by(Slot(3)), LANES);
    }
}
