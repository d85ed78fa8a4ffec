//! The device's hardware queues (lanes): what each holds, in order.
//!
//! A lane takes several operations, which run one after another, so that the next begins without the latency of a
//! launch. What is behind the first of a lane cannot start before the one in front has ended, so its blocks count
//! against a cap only as far as they are more than those in front ([`Flight::charge`]).
//!
//! A tenant's work on the device is summed up from its flights when somebody asks ([`Lanes::backlog`]).
//!
//! Rules: a flight's generation is never used twice in a lane, so that a report that comes late cannot be taken for
//! one of another operation. A lane belongs to one client while it holds anything.

use super::transfers::Engine;
use crate::device::{LANES, LaneId, Level, MOST_DEPTH, Tag};
use crate::dispatch::ids::{OperationId, OperationRef, Slot};
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::shape::{BlockShape, Held};
use gridmux_policy::units::Nanos;

/// One operation, or slice of one, on the device.
#[derive(Debug, Clone, Copy)]
pub struct Flight {
    /// The operation.
    pub op: OperationRef,
    /// The tenant.
    pub tenant: TenantId,
    /// The row of a launch.
    pub row: Option<RowId>,
    /// Resources that one block takes of an SM.
    pub shape: BlockShape,
    /// Linear number of the slice's first block.
    pub first_block: u64,
    /// Device time at which its operation was admitted.
    pub admitted: Nanos,
    /// Device time at which it was handed over.
    pub issued: Nanos,
    /// Blocks of the slice; 0 for a copy.
    pub blocks: u32,
    /// Blocks that count against cap and limit.
    pub charge: u32,
    /// Block-time for which its blocks resided, in nanoseconds.
    pub resided_ns: u64,
    /// How long a block of its row was predicted to take; 0 where none had ended, and for a copy.
    pub block_ns: u64,
    /// How long it was predicted to take with the device to itself; 0 where that is unknown, and for a copy.
    pub work_ns: u64,
    /// Blocks reported resident and not yet retired.
    pub resident: u32,
    /// Blocks reported resident so far.
    pub placed: u32,
    /// Block-time that its blocks have held room up to [`Flight::held_at`], in nanoseconds.
    pub held_ns: u64,
    /// When a block of it was last placed or retired.
    pub held_at: Nanos,
    /// It was handed over to an empty lane.
    pub is_fresh: bool,
    /// It is a launch of a gang.
    pub is_gang: bool,
    /// It takes room from others on the device ([`super::preemption`]).
    pub preempts: bool,
    /// For a piece of a copy or fill: what moves it, and its length in bytes.
    pub transfer: Option<(Engine, u64)>,
    /// It is to be killed, and the device has not taken that command yet.
    pub kill_due: bool,
}

impl Flight {
    /// Returns what a client's operation hands over at a time to an empty lane: no blocks and no bytes yet.
    #[must_use]
    pub fn new(op: OperationRef, tenant: TenantId, now: Nanos) -> Self {
        Self {
            op,
            tenant,
            row: None,
            shape: BlockShape::default(),
            first_block: 0,
            admitted: now,
            issued: now,
            blocks: 0,
            charge: 0,
            resided_ns: 0,
            block_ns: 0,
            work_ns: 0,
            resident: 0,
            placed: 0,
            held_ns: 0,
            held_at: now,
            is_fresh: true,
            is_gang: false,
            preempts: false,
            transfer: None,
            kill_due: false,
        }
    }

    /// Notes that blocks became resident at `at`.
    pub fn place(&mut self, blocks: u32, at: Nanos) {
        self.hold_until(at);
        self.resident += blocks;
        self.placed = self.placed.saturating_add(blocks);
    }

    /// Notes that resident blocks retired at `at`, and that the flight's blocks resided for `ran` since the last such
    /// report.
    pub fn retire(&mut self, blocks: u32, ran: Nanos, at: Nanos) {
        self.hold_until(at);
        self.resident -= blocks;
        self.resided_ns = self.resided_ns.saturating_add(ran.0);
    }

    /// Returns for how long its blocks have resided up to `at` beyond what was reported of those that retired.
    #[must_use]
    pub fn unreported_at(mut self, at: Nanos) -> Nanos {
        self.hold_until(at);
        Nanos(self.held_ns.saturating_sub(self.resided_ns))
    }

    fn hold_until(&mut self, at: Nanos) {
        let held = (at - self.held_at).0.saturating_mul(self.resident.into());
        self.held_ns = self.held_ns.saturating_add(held);
        self.held_at = self.held_at.max(at);
    }
}

/// A flight that left its lane, and the one that is first there now.
#[derive(Debug, Clone, Copy)]
pub struct Released {
    /// The flight that left.
    pub flight: Flight,
    /// The new first one, with the blocks by which its charge grew.
    pub next: Option<(Flight, u32)>,
}

/// Sums over one tenant's launches on the device, those that have not begun included.
#[derive(Debug, Clone, Copy, Default)]
pub struct Backlog {
    /// Time that it was predicted to take with the device to itself.
    pub work_ns: u64,
    /// The same of those that are first in their lanes.
    pub first_ns: u64,
    /// Longest time that one of its blocks was predicted to take.
    pub block_ns: u64,
    /// Resources of the blocks of rows of which no block had ended.
    pub unproven: Held,
}

#[derive(Debug, Clone, Copy, Default)]
struct HeldFlight {
    generation: u32,
    flight: Option<Flight>,
}

/// The flights of a lane, as a ring, so that the first one leaves without moving the others.
#[derive(Debug, Clone, Copy, Default)]
struct LaneQueue {
    level: Level,
    held: [HeldFlight; MOST_DEPTH],
    head: usize,
    len: usize,
}

impl LaneQueue {
    /// Returns where the n-th flight stands.
    fn place(&self, n: usize) -> usize {
        (self.head + n) % MOST_DEPTH
    }

    /// Returns everything that is held, in order.
    fn iter(&self) -> impl DoubleEndedIterator<Item = &HeldFlight> {
        (0..self.len).map(|n| &self.held[self.place(n)])
    }

    /// Returns which flight has a generation.
    fn find(&self, generation: u32) -> Option<usize> {
        (0..self.len).find(|n| self.held[self.place(*n)].generation == generation)
    }

    fn push(&mut self, held: HeldFlight) {
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
    /// Lanes in which a flight may be whose [`Flight::kill_due`] is set.
    kills_due: u32,
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
            kills_due: 0,
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

    /// Returns how many lanes there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.lanes.len()).unwrap_or(u32::MAX)
    }

    /// Returns how many lanes are empty.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.busy.count_zeros()
    }

    /// Takes an empty lane for a level.
    pub fn take(&mut self, flight: Flight, level: Level) -> Option<Tag> {
        let index = u8::try_from(self.busy.trailing_ones()).ok()?;
        if usize::from(index) >= LANES {
            return None;
        }
        self.busy |= 1 << index;
        self.lanes[usize::from(index)].level = level;
        self.append(LaneId(index), flight)
    }

    /// Puts a flight behind what a lane holds; `None` when the lane is full.
    pub fn append(&mut self, lane: LaneId, flight: Flight) -> Option<Tag> {
        let index = usize::from(lane.0);
        let queue = &mut self.lanes[index];
        if queue.len >= self.depth {
            return None;
        }
        self.generations[index] = self.generations[index].wrapping_add(1);
        let generation = self.generations[index];
        queue.push(HeldFlight {
            generation,
            flight: Some(flight),
        });
        Some(Tag { lane, generation })
    }

    /// Returns the level of what a lane holds.
    #[must_use]
    pub fn level(&self, lane: LaneId) -> Level {
        self.lanes[usize::from(lane.0)].level
    }

    /// Returns the lanes that hold something.
    fn busy_lanes(&self) -> impl Iterator<Item = &LaneQueue> {
        let mut busy = self.busy;
        std::iter::from_fn(move || {
            let index = busy.trailing_zeros() as usize;
            busy &= busy.checked_sub(1)?;
            self.lanes.get(index)
        })
    }

    /// Returns the first flight of each lane that holds something, and its level.
    pub fn first_flights(&self) -> impl Iterator<Item = (Level, &Flight)> {
        self.busy_lanes()
            .filter_map(|lane| Some((lane.level, lane.iter().next()?.flight.as_ref()?)))
    }

    /// Returns the highest level at which a row has something.
    #[must_use]
    pub fn level_of(&self, row: RowId) -> Option<Level> {
        let has = |lane: &&LaneQueue| {
            let mut flights = lane.iter().filter_map(|held| held.flight.as_ref());
            flights.any(|flight| flight.row == Some(row))
        };
        self.busy_lanes().filter(has).map(|lane| lane.level).max()
    }

    /// Returns the flights with blocks that wait for room, and their levels.
    pub fn waiting(&self) -> impl Iterator<Item = (Level, &Flight)> {
        let flights = self.busy_lanes().flat_map(|lane| {
            let flights = lane.iter().filter_map(|held| held.flight.as_ref());
            flights.map(|flight| (lane.level, flight))
        });
        flights.filter(|(_, flight)| flight.placed < flight.blocks)
    }

    /// Returns how long what waits for room at a level or above it was predicted to take with the device to itself.
    #[must_use]
    pub fn queued_ns(&self, level: Level) -> u64 {
        let waiting = self.waiting().filter(|(other, _)| *other >= level);
        let unplaced = waiting.map(|(_, flight)| {
            let left = u64::from(flight.blocks - flight.placed.min(flight.blocks));
            let work = flight.work_ns.saturating_mul(left);
            work / u64::from(flight.blocks.max(1))
        });
        unplaced.fold(0, u64::saturating_add)
    }

    /// Returns how many flights a lane holds.
    #[must_use]
    pub fn len(&self, lane: LaneId) -> usize {
        self.lanes[usize::from(lane.0)].len
    }

    /// Returns whether a lane takes another flight behind those that it holds.
    #[must_use]
    pub fn has_room(&self, lane: LaneId) -> bool {
        self.len(lane) < self.depth
    }

    /// Returns whether a lane holds a flight of a client's operation.
    #[must_use]
    pub fn holds(&self, lane: LaneId, op: OperationRef) -> bool {
        let queue = &self.lanes[usize::from(lane.0)];
        let mut flights = queue.iter().filter_map(|held| held.flight.as_ref());
        flights.any(|flight| flight.op == op)
    }

    /// Returns the newest flight of a lane.
    #[must_use]
    pub fn last(&self, lane: LaneId) -> Option<&Flight> {
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

    /// Takes a flight out of its lane at a time, wherever in the lane it is.
    pub fn release(&mut self, tag: Tag) -> Option<Released> {
        let index = usize::from(tag.lane.0);
        let queue = self.lanes.get_mut(index)?;
        let place = queue.find(tag.generation)?;
        let flight = queue.remove(place)?;
        let first = match queue.len {
            0 => None,
            _ => queue.held[queue.head].flight.as_mut(),
        };
        let next = first.map(|first| {
            let left = first.blocks - (first.placed - first.resident);
            let grew = left.saturating_sub(first.charge);
            first.charge = left.max(first.charge);
            (*first, grew)
        });
        if next.is_none() {
            self.busy &= !(1 << index);
        }
        Some(Released { flight, next })
    }

    /// Marks what a client has in flight, or only what belongs to one operation, as to be killed.
    pub fn mark_kills(&mut self, slot: Slot, only: Option<OperationId>) {
        for (lane, queue) in self.lanes.iter_mut().enumerate() {
            for n in 0..queue.len {
                let place = queue.place(n);
                if let Some(flight) = &mut queue.held[place].flight
                    && flight.op.slot == slot
                    && only.is_none_or(|id| id == flight.op.id)
                {
                    flight.kill_due = true;
                    self.kills_due |= 1 << lane;
                }
            }
        }
    }

    /// Returns whether a flight is to be killed and the device has not taken the command yet.
    #[must_use]
    pub fn has_kills_due(&self) -> bool {
        self.kills_due != 0
    }

    /// Calls `kill` for each flight that is to be killed, until it refuses one; that one and the rest stay marked.
    pub fn send_kills(&mut self, mut kill: impl FnMut(Tag) -> bool) {
        while self.kills_due != 0 {
            let index = self.kills_due.trailing_zeros();
            let lane = LaneId(u8::try_from(index).unwrap_or(u8::MAX));
            let queue = &mut self.lanes[index as usize];
            for n in 0..queue.len {
                let place = queue.place(n);
                let held = &mut queue.held[place];
                let generation = held.generation;
                if let Some(flight) = held.flight.as_mut().filter(|flight| flight.kill_due) {
                    if !kill(Tag { lane, generation }) {
                        return;
                    }
                    flight.kill_due = false;
                }
            }
            self.kills_due &= self.kills_due - 1;
        }
    }

    /// Returns what a tenant's launches have on the device.
    #[must_use]
    pub fn backlog(&self, tenant: TenantId) -> Backlog {
        let mut backlog = Backlog::default();
        let mut busy = self.busy;
        while busy != 0 {
            let lane = &self.lanes[busy.trailing_zeros() as usize];
            busy &= busy - 1;
            let flights = lane.iter().map_while(|place| place.flight.as_ref());
            let own = flights
                .zip(0..)
                .filter(|(flight, _)| flight.tenant == tenant);
            for (flight, place) in own {
                backlog.work_ns = backlog.work_ns.saturating_add(flight.work_ns);
                if place == 0 {
                    backlog.first_ns = backlog.first_ns.saturating_add(flight.work_ns);
                }
                backlog.block_ns = backlog.block_ns.max(flight.block_ns);
                if flight.block_ns == 0 {
                    backlog.unproven.add(&flight.shape, flight.blocks);
                }
            }
        }
        backlog
    }

    /// Returns how many flights a client has.
    #[must_use]
    pub fn held_by(&self, slot: Slot) -> usize {
        let flights = self.lanes.iter().flat_map(LaneQueue::iter);
        let flights = flights.filter_map(|held| held.flight.as_ref());
        flights.filter(|flight| flight.op.slot == slot).count()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Flight, Lanes};
    use crate::device::{LANES, Level};
    use crate::dispatch::ids::{OperationId, OperationRef, Slot};
    use gridmux_policy::ids::TenantId;
    use gridmux_policy::units::Nanos;

    fn flight(blocks: u32, charge: u32) -> Flight {
        Flight {
            blocks,
            charge,
            ..Flight::new(
                OperationRef {
                    slot: Slot(3),
                    id: OperationId(0),
                },
                TenantId(0),
                Nanos(0),
            )
        }
    }

    #[test]
    fn blocks_that_are_killed_have_resided_since_they_were_placed() {
        let mut alone = flight(4, 4);
        alone.place(2, Nanos(110));
        alone.place(1, Nanos(130));
        assert_eq!(alone.unreported_at(Nanos(140)), Nanos(2 * 30 + 10));
        alone.retire(1, Nanos(40), Nanos(150));
        assert_eq!(alone.resident, 2);
        assert_eq!(alone.unreported_at(Nanos(200)), Nanos(90 + 70));
        // The functional device reports what all resident blocks ran, whichever of them retire.
        let mut all = flight(10, 10);
        all.place(10, Nanos(0));
        all.retire(5, Nanos(1_000), Nanos(100));
        assert_eq!(all.unreported_at(Nanos(200)), Nanos(5 * 100));
    }

    #[test]
    fn a_backlog_is_the_sum_of_a_tenants_flights() {
        let mut lanes = Lanes::new(2);
        let known = |block_ns, work_ns| Flight {
            block_ns,
            work_ns,
            ..flight(4, 4)
        };
        let first = lanes.take(known(30, 100), Level::LOWEST).unwrap();
        lanes.append(first.lane, known(20, 50)).unwrap();
        lanes.take(flight(3, 3), Level::LOWEST).unwrap();
        let other = TenantId(1);
        lanes
            .take(
                Flight {
                    tenant: other,
                    ..known(900, 900)
                },
                Level::LOWEST,
            )
            .unwrap();
        let backlog = lanes.backlog(TenantId(0));
        assert_eq!((backlog.work_ns, backlog.block_ns), (150, 30));
        assert_eq!(backlog.first_ns, 100);
        assert_eq!(backlog.unproven.blocks(), 3);
        lanes.release(first).unwrap();
        assert_eq!(lanes.backlog(TenantId(0)).work_ns, 50);
        assert_eq!(lanes.backlog(other).unproven.blocks(), 0);
    }

    #[test]
    fn what_is_behind_is_charged_in_full_when_it_is_first() {
        let mut lanes = Lanes::new(3);
        let first = lanes.take(flight(8, 8), Level::LOWEST).unwrap();
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
            assert!(lanes.take(flight(1, 1), Level::LOWEST).is_some());
        }
        assert_eq!(lanes.free(), 0);
        assert!(lanes.take(flight(1, 1), Level::LOWEST).is_none());
        assert_eq!(lanes.held_by(Slot(3)), LANES);
    }
}
