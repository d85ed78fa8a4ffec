//! The operations in flight in each lane, and the reports that are made of them.
//!
//! The dispatcher puts up to [`MOST_DEPTH`] operations into a lane, which run one after another. Here they are handed
//! to the lane's queue, the first of each lane is watched (has it started, has it ended), and told back as
//! [`DeviceReport`]s. Nothing here calls the driver: the queues stand behind [`Queues`], so that the bookkeeping is
//! tested without a GPU.
//!
//! Times are those at which the host saw something: to have the device note them costs more of the host's time than
//! the launch does (`hw-model/validation/documents/README.md`). Launches of kernels that stamp their blocks tell more
//! ([`residence`]). Of others it is only seen that the first block could start, and that the last one has ended; blocks
//! beyond what the SMs can hold at once are reported as placed and retired at the end, so that a launch never seems to
//! hold more than the whole device.
//!
//! Rules: no call allocates or blocks unless something failed. A lane's operation holds what it uses (its module, its
//! host buffer) until its end was seen; the control thread always holds another handle, so that nothing is ever freed
//! here. Once the context is lost every operation ends as failed, at once and for good.

mod residence;

use super::arguments::Place;
use super::driver::CudaError;
use super::faults::Faults;
use super::tables::{Function, Keep};
use crate::device::{DeviceReport, DomainId, LANES, LaneId, Level, MOST_DEPTH, Outcome, Tag};
use gridmux_bpf::Probe;
use gridmux_channel::ring::{CompletionStatus, Width};
use gridmux_launch::{Sampling, StampRecord};
use gridmux_policy::units::Nanos;
pub(super) use residence::Blocks;
use residence::Residence;
use std::collections::VecDeque;
use std::sync::Arc;

/// One operation for a queue.
pub(super) enum Work<'a> {
    /// A kernel.
    Launch {
        function: Function,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_shared_bytes: u32,
        is_cooperative: bool,
        level: Level,
        params: &'a [u8],
        /// Where each parameter stands among the bytes.
        places: &'a [Place],
        /// Which of its blocks write stamps into the lane's records, where the kernel is one that can.
        stamps: Option<Sampling>,
    },
    /// Host memory to device memory.
    ToDevice {
        address: u64,
        host: *const u8,
        bytes: u64,
    },
    /// Device memory to host memory.
    FromDevice {
        address: u64,
        host: *mut u8,
        bytes: u64,
    },
    /// Device memory to device memory.
    OnDevice { from: u64, to: u64, bytes: u64 },
    /// A fill with one value.
    Fill {
        address: u64,
        bytes: u64,
        value: u32,
        width: Width,
    },
}

impl Work<'_> {
    /// Returns the level that it asks for.
    fn level(&self) -> Level {
        match self {
            Self::Launch { level, .. } => *level,
            _ => Level::LOWEST,
        }
    }

    /// Returns which blocks of a launch write stamps, if any do.
    pub(super) fn sampling(&self) -> Option<Sampling> {
        match self {
            Self::Launch { stamps, .. } => *stamps,
            _ => None,
        }
    }
}

/// Reports of an operation at once, those of the blocks that stamped included.
const READY: usize = 4 + super::stamps::RECORDS as usize;
/// Least time between two questions about the end mark of a launch that its stamps say is running.
const ASK_AFTER: Nanos = Nanos(50_000);
/// [`MOST_DEPTH`] as slots are counted.
#[allow(clippy::cast_possible_truncation, reason = "it is 4")]
const SLOTS: u8 = MOST_DEPTH as u8;

/// What an operation has to itself while it is in a lane: its marks and the records of its stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LaneSlot {
    pub(super) lane: LaneId,
    /// Below [`MOST_DEPTH`].
    pub(super) slot: u8,
}

/// The lanes' hardware queues. No call blocks.
pub(super) trait Queues {
    /// Returns the device time now.
    fn now(&self) -> Nanos;
    /// Puts an operation behind what its lane holds, which is all of one level, and an end mark behind it; in front of
    /// it a start mark, unless it stamps its blocks.
    fn enqueue(&mut self, at: LaneSlot, level: Level, work: &Work<'_>) -> Result<(), CudaError>;
    /// Returns whether the start mark was reached.
    fn has_started(&mut self, at: LaneSlot) -> Result<bool, CudaError>;
    /// Returns whether the end mark was reached.
    fn has_ended(&mut self, at: LaneSlot) -> Result<bool, CudaError>;
    /// Returns the records of the launch's stamps, which were empty when it was enqueued.
    fn stamps(&self, at: LaneSlot) -> &[StampRecord];
}

/// An operation in a lane.
struct CudaFlight {
    tag: Tag,
    at: LaneSlot,
    domain: DomainId,
    residence: Residence,
    enqueued: Nanos,
    /// When it could begin, once that was seen; of a launch that stamps its blocks, once it is the first of its lane.
    began: Option<Nanos>,
    /// When its end mark was asked last.
    asked: Nanos,
    _keep: Keep,
}

impl CudaFlight {
    fn is_launch(&self) -> bool {
        !matches!(self.residence, Residence::None)
    }
}

/// What a lane holds.
struct Lane {
    /// In the order of their ends; at most [`MOST_DEPTH`].
    flights: VecDeque<CudaFlight>,
    /// The slot of the next one.
    slot: u8,
    level: Level,
    /// When the last one that ended was seen to.
    free_since: Nanos,
}

impl Lane {
    fn new() -> Self {
        Self {
            flights: VecDeque::with_capacity(MOST_DEPTH),
            slot: 0,
            level: Level::LOWEST,
            free_since: Nanos(0),
        }
    }
}

/// All lanes.
pub(super) struct Flights<Q> {
    queues: Q,
    lanes: [Lane; LANES],
    /// Lanes that the device works on.
    flying: u32,
    /// Operations that end as failed at the next poll, and with what.
    failed: VecDeque<(Tag, CompletionStatus)>,
    /// The lane that is looked at first: lanes take turns.
    cursor: u32,
    /// Reports of one operation that are to be told.
    ready: VecDeque<DeviceReport>,
    faults: Arc<Faults>,
    lost: Option<CudaError>,
    /// Called once, after the last report of a lost context was taken.
    bury: Option<fn()>,
}

impl<Q: Queues> Flights<Q> {
    /// Makes empty lanes; `bury` ends the process after a loss.
    pub(super) fn new(queues: Q, faults: Arc<Faults>, bury: fn()) -> Self {
        Self {
            queues,
            lanes: std::array::from_fn(|_| Lane::new()),
            flying: 0,
            failed: VecDeque::with_capacity(LANES * MOST_DEPTH),
            cursor: 0,
            ready: VecDeque::with_capacity(READY),
            faults,
            lost: None,
            bury: Some(bury),
        }
    }

    /// Returns the device time now.
    pub(super) fn now(&self) -> Nanos {
        self.queues.now()
    }

    /// Returns whether the context is lost.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Returns the lanes that the device works on, as bits.
    pub(super) fn flying(&self) -> u32 {
        self.flying
    }

    /// Returns whether a lane takes another operation.
    pub(super) fn has_room(&self, lane: LaneId) -> bool {
        self.lanes[usize::from(lane.0)].flights.len() < MOST_DEPTH
    }

    /// Hands an operation over; a failure is reported as its end.
    pub(super) fn begin(
        &mut self,
        tag: Tag,
        domain: DomainId,
        blocks: Option<Blocks>,
        work: &Work<'_>,
        keep: Keep,
    ) {
        if let Some(error) = self.lost {
            self.refuse(tag, CompletionStatus::DeviceLost, lost_text(error));
            return;
        }
        let lane = &mut self.lanes[usize::from(tag.lane.0)];
        if lane.flights.is_empty() {
            lane.level = work.level();
        }
        let at = LaneSlot {
            lane: tag.lane,
            slot: lane.slot,
        };
        let enqueued = self.queues.now();
        match self.queues.enqueue(at, lane.level, work) {
            Err(error) if error.is_refusal() => {
                let text = format!("the CUDA driver refused the operation: {error}");
                self.refuse(tag, error.status(), text);
            }
            begun => {
                lane.slot = (lane.slot + 1) % SLOTS;
                lane.flights.push_back(CudaFlight {
                    tag,
                    at,
                    domain,
                    residence: Residence::new(blocks, work.sampling()),
                    enqueued,
                    began: None,
                    asked: enqueued,
                    _keep: keep,
                });
                self.flying |= bit(tag.lane);
                // A sticky error may be this very operation's, so it is among those that failed.
                if let Err(error) = begun {
                    self.lose(error);
                }
            }
        }
    }

    /// Ends an operation that was not started.
    pub(super) fn refuse(&mut self, tag: Tag, status: CompletionStatus, text: String) {
        self.faults.keep(tag, text);
        self.failed.push_back((tag, status));
    }

    /// Returns the next report. Costs at most two questions to the driver per lane in flight.
    pub(super) fn poll(&mut self) -> Option<DeviceReport> {
        if let Some(report) = self.ready.pop_front() {
            return Some(report);
        }
        if self.failed.is_empty() && self.flying != 0 {
            match self.look_at_all() {
                Ok(report @ Some(_)) => return report,
                Ok(None) => {}
                Err(error) => self.lose(error),
            }
        }
        if let Some((tag, status)) = self.failed.pop_front() {
            let now = self.queues.now();
            return Some(DeviceReport::Ended {
                tag,
                start: now,
                end: now,
                outcome: Outcome::Failed(status),
            });
        }
        if self.lost.is_some()
            && let Some(bury) = self.bury.take()
        {
            bury();
        }
        None
    }

    /// Looks at the lanes in flight, beginning after the one that had something to say last.
    fn look_at_all(&mut self) -> Result<Option<DeviceReport>, CudaError> {
        let mut left = self.flying.rotate_right(self.cursor);
        while left != 0 {
            let index = (left.trailing_zeros() + self.cursor) % u32::BITS;
            left &= left - 1;
            // The index is below 32, so it fits.
            let lane = LaneId(u8::try_from(index).unwrap_or(0));
            if let Some(report) = self.look_at(lane)? {
                self.cursor = (index + 1) % u32::BITS;
                return Ok(Some(report));
            }
        }
        Ok(None)
    }

    fn look_at(&mut self, id: LaneId) -> Result<Option<DeviceReport>, CudaError> {
        let lane = &mut self.lanes[usize::from(id.0)];
        let Some(flight) = lane.flights.front_mut() else {
            self.flying &= !bit(id);
            return Ok(None);
        };
        let (tag, at) = (flight.tag, flight.at);
        // Asked for before the end is, so that what is reported now lies before it.
        let now = self.queues.now();
        let began = match (flight.began, &flight.residence) {
            (Some(began), _) => began,
            (None, Residence::Stamped(_)) => flight.enqueued.max(lane.free_since),
            _ if !self.queues.has_started(at)? => return Ok(None),
            (None, Residence::Estimated(blocks)) => {
                flight.began = Some(now);
                return Ok(Some(DeviceReport::Placed {
                    tag,
                    blocks: blocks.resident,
                    at: now,
                }));
            }
            (None, Residence::None) => now,
        };
        flight.began = Some(began);
        if let Residence::Stamped(stamped) = &mut flight.residence {
            let records = self.queues.stamps(at);
            stamped.read(records, now - began);
            if !stamped.is_over() && now - flight.asked < ASK_AFTER {
                stamped.tell_of_now((tag, now), &mut self.ready);
                return Ok(self.ready.pop_front());
            }
        }
        flight.asked = now;
        if !self.queues.has_ended(at)? {
            if let Residence::Stamped(stamped) = &mut flight.residence {
                stamped.tell_of_now((tag, now), &mut self.ready);
            }
            return Ok(self.ready.pop_front());
        }
        let end = self.queues.now();
        let (start, end) = match &mut flight.residence {
            Residence::None => (began, end),
            Residence::Estimated(blocks) => {
                estimate_end((tag, *blocks), (end - began, end), &mut self.ready);
                (began, end)
            }
            Residence::Stamped(stamped) => {
                let records = self.queues.stamps(at);
                let (start, end) = stamped.finish(records, (tag, began, end), &mut self.ready);
                if Probe::Block.is_traced() {
                    stamped.tell_blocks(records, (tag, start, end), &mut self.ready);
                }
                (start, end)
            }
        };
        lane.free_since = end;
        lane.flights.pop_front();
        if lane.flights.is_empty() {
            self.flying &= !bit(id);
        }
        self.ready.push_back(DeviceReport::Ended {
            tag,
            start,
            end,
            outcome: Outcome::Done,
        });
        Ok(self.ready.pop_front())
    }

    /// Fails everything in flight, because the context is lost.
    ///
    /// CUDA does not say which kernel was at fault. When all launches in flight are one tenant's, it is that tenant's,
    /// and each of them ends with the fault's own status; otherwise blaming one would be a guess, and all end as
    /// `DeviceLost`. Copies and fills were checked before they began, so they are never at fault.
    fn lose(&mut self, error: CudaError) {
        if self.lost.replace(error).is_some() {
            return;
        }
        tracing::error!(%error, "the CUDA context failed");
        let flights = self.lanes.iter().flat_map(|lane| &lane.flights);
        let mut launches = flights.filter(|flight| flight.is_launch());
        let suspect = launches.next().map(|f| f.domain);
        let culprit = suspect.filter(|domain| launches.all(|f| f.domain == *domain));
        for index in 0..LANES {
            while let Some(flight) = self.lanes[index].flights.pop_front() {
                let is_culprit = flight.is_launch() && culprit == Some(flight.domain);
                if is_culprit {
                    let text = format!("a kernel of yours failed on the GPU: {error}");
                    self.refuse(flight.tag, error.status(), text);
                } else {
                    self.refuse(flight.tag, CompletionStatus::DeviceLost, lost_text(error));
                }
            }
        }
        self.flying = 0;
    }
}

/// Reports what is left of a launch that writes no stamps.
fn estimate_end(
    (tag, blocks): (Tag, Blocks),
    (took, end): (Nanos, Nanos),
    ready: &mut VecDeque<DeviceReport>,
) {
    let later = blocks.all - blocks.resident;
    if later > 0 {
        ready.push_back(DeviceReport::Placed {
            tag,
            blocks: later,
            at: end,
        });
    }
    // As many as fit were resident at any moment; in the last wave fewer, which nobody can see from outside.
    let ran = Nanos(took.0.saturating_mul(u64::from(blocks.resident)));
    ready.push_back(DeviceReport::Retired {
        tag,
        blocks: blocks.all,
        ran,
        at: end,
    });
}

fn bit(lane: LaneId) -> u32 {
    1_u32.checked_shl(u32::from(lane.0)).unwrap_or(0)
}

fn lost_text(error: CudaError) -> String {
    format!("the GPU context was lost ({error}), by whose kernel is unknown; reconnect")
}

#[cfg(test)]
mod tests;
