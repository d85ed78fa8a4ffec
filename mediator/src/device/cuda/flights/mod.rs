//! The operations in flight in each lane, and the reports that are made of them.
//!
//! The dispatcher puts one operation at a time into a lane. Here it is handed to the lane's queue, watched (has it
//! started, has it ended), and told back as [`DeviceReport`]s. Nothing here calls the driver: the queues stand behind
//! [`Queues`], so that the bookkeeping is tested without a GPU.
//!
//! What stock hardware tells is coarse: all blocks of a launch count as placed when its first could
//! start, and as retired when the last ended. Blocks beyond what the SMs can hold at once are reported as placed and
//! retired at the end, so that a launch never seems to hold more than the whole device.
//!
//! Rules: no call allocates or blocks unless something failed. A lane's operation holds what it uses (its module, its
//! host buffer) until its end was seen; the control thread always holds another handle, so that nothing is ever freed
//! here. Once the context is lost every operation ends as failed, at once and for good.

use super::driver::CudaError;
use super::faults::Faults;
use super::tables::{Function, Keep};
use crate::device::{DeviceReport, DomainId, LANES, LaneId, Level, Outcome, Tag};
use gridmux_channel::ring::{CompletionStatus, Width};
use gridmux_policy::units::Nanos;
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
        level: Level,
        params: &'a [u8],
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

/// The lanes' hardware queues. No call blocks.
pub(super) trait Queues {
    /// Returns the device time now.
    fn now(&self) -> Nanos;
    /// Puts an operation into an empty lane, between a start and an end mark.
    fn enqueue(&mut self, lane: LaneId, work: &Work<'_>) -> Result<(), CudaError>;
    /// Returns when the lane's start mark was reached, once it was.
    fn started_at(&mut self, lane: LaneId) -> Result<Option<Nanos>, CudaError>;
    /// Returns the time between the lane's marks, once the end mark was reached.
    fn took(&mut self, lane: LaneId) -> Result<Option<Nanos>, CudaError>;
}

/// Blocks of a launch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocks {
    /// All of them.
    pub(super) all: u32,
    /// Those that the SMs can hold at once.
    pub(super) resident: u32,
}

/// An operation in a lane.
struct CudaFlight {
    tag: Tag,
    domain: DomainId,
    /// `None`: not a launch.
    blocks: Option<Blocks>,
    started: Option<Nanos>,
    _keep: Keep,
}

/// All lanes.
pub(super) struct Flights<Q> {
    queues: Q,
    flights: [Option<CudaFlight>; LANES],
    /// Lanes that the device works on.
    flying: u32,
    /// Lanes whose operation ends as failed at the next poll, and with what.
    failed: u32,
    verdicts: [CompletionStatus; LANES],
    tags: [Tag; LANES],
    /// The lane that is looked at first: lanes take turns.
    cursor: u32,
    /// Reports of one operation that ended.
    ready: VecDeque<DeviceReport>,
    faults: Arc<Faults>,
    lost: Option<CudaError>,
    /// Called once, after the last report of a lost context was taken.
    bury: Option<fn()>,
}

impl<Q: Queues> Flights<Q> {
    /// Empty lanes; `bury` ends the process after a loss.
    pub(super) fn new(queues: Q, faults: Arc<Faults>, bury: fn()) -> Self {
        Self {
            queues,
            flights: [const { None }; LANES],
            flying: 0,
            failed: 0,
            verdicts: [CompletionStatus::Ok; LANES],
            tags: [Tag::from_bits(0); LANES],
            cursor: 0,
            ready: VecDeque::with_capacity(4),
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

    /// Lanes that the device works on, as bits.
    pub(super) fn flying(&self) -> u32 {
        self.flying
    }

    /// Returns whether a lane still has an operation whose end was not taken.
    pub(super) fn is_taken(&self, lane: LaneId) -> bool {
        (self.flying | self.failed) & bit(lane) != 0
    }

    /// Starts an operation; a failure is reported as its end.
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
        match self.queues.enqueue(tag.lane, work) {
            Err(error) if error.is_refusal() => {
                let text = format!("the CUDA driver refused the operation: {error}");
                self.refuse(tag, error.status(), text);
            }
            begun => {
                let flight = CudaFlight {
                    tag,
                    domain,
                    blocks,
                    started: None,
                    _keep: keep,
                };
                self.flights[usize::from(tag.lane.0)] = Some(flight);
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
        self.verdicts[usize::from(tag.lane.0)] = status;
        self.tags[usize::from(tag.lane.0)] = tag;
        self.failed |= bit(tag.lane);
    }

    /// Returns the next report. Costs at most one question to the driver per lane in flight.
    pub(super) fn poll(&mut self) -> Option<DeviceReport> {
        if let Some(report) = self.ready.pop_front() {
            return Some(report);
        }
        if self.failed == 0 && self.flying != 0 {
            match self.look_at_all() {
                Ok(report @ Some(_)) => return report,
                Ok(None) => {}
                Err(error) => self.lose(error),
            }
        }
        if self.failed != 0 {
            return Some(self.take_failed());
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

    fn look_at(&mut self, lane: LaneId) -> Result<Option<DeviceReport>, CudaError> {
        let index = usize::from(lane.0);
        let Some(flight) = &mut self.flights[index] else {
            self.flying &= !bit(lane);
            return Ok(None);
        };
        let start = match flight.started {
            Some(start) => start,
            None => {
                let Some(start) = self.queues.started_at(lane)? else {
                    return Ok(None);
                };
                flight.started = Some(start);
                if let Some(blocks) = flight.blocks {
                    return Ok(Some(DeviceReport::Placed {
                        tag: flight.tag,
                        blocks: blocks.resident,
                        at: start,
                    }));
                }
                start
            }
        };
        let Some(took) = self.queues.took(lane)? else {
            return Ok(None);
        };
        let end = start + took;
        let (tag, blocks) = (flight.tag, flight.blocks);
        self.flights[index] = None;
        self.flying &= !bit(lane);
        if let Some(blocks) = blocks {
            self.end_launch(tag, blocks, took, end);
        }
        self.ready.push_back(DeviceReport::Ended {
            tag,
            start,
            end,
            outcome: Outcome::Done,
        });
        Ok(self.ready.pop_front())
    }

    fn end_launch(&mut self, tag: Tag, blocks: Blocks, took: Nanos, end: Nanos) {
        let later = blocks.all - blocks.resident;
        if later > 0 {
            self.ready.push_back(DeviceReport::Placed {
                tag,
                blocks: later,
                at: end,
            });
        }
        // As many as fit were resident at any moment; in the last wave fewer, which nobody can see from outside.
        let ran = Nanos(took.0.saturating_mul(u64::from(blocks.resident)));
        self.ready.push_back(DeviceReport::Retired {
            tag,
            blocks: blocks.all,
            ran,
            at: end,
        });
    }

    fn take_failed(&mut self) -> DeviceReport {
        let index = self.failed.trailing_zeros() as usize;
        self.failed &= self.failed - 1;
        let now = self.queues.now();
        DeviceReport::Ended {
            tag: self.tags[index],
            start: now,
            end: now,
            outcome: Outcome::Failed(self.verdicts[index]),
        }
    }

    /// The context is lost: everything in flight has failed.
    ///
    /// CUDA does not say which kernel was at fault. When all launches in flight are one tenant's, it is that tenant's,
    /// and each of them ends with the fault's own status; otherwise blaming one would be a guess, and all end as
    /// `DeviceLost`. Copies and fills were checked before they began, so they are never at fault.
    fn lose(&mut self, error: CudaError) {
        if self.lost.replace(error).is_some() {
            return;
        }
        tracing::error!(%error, "the CUDA context failed");
        let mut launches = self.flights.iter().flatten().filter(|f| f.blocks.is_some());
        let suspect = launches.next().map(|f| f.domain);
        let culprit = suspect.filter(|domain| launches.all(|f| f.domain == *domain));
        for index in 0..LANES {
            let Some(flight) = self.flights[index].take() else {
                continue;
            };
            let is_culprit = flight.blocks.is_some() && culprit == Some(flight.domain);
            if is_culprit {
                let text = format!("a kernel of yours failed on the GPU: {error}");
                self.refuse(flight.tag, error.status(), text);
            } else {
                self.refuse(flight.tag, CompletionStatus::DeviceLost, lost_text(error));
            }
        }
        self.flying = 0;
    }
}

fn bit(lane: LaneId) -> u32 {
    1_u32.checked_shl(u32::from(lane.0)).unwrap_or(0)
}

fn lost_text(error: CudaError) -> String {
    format!("the GPU context was lost ({error}), by whose kernel is unknown; reconnect")
}

#[cfg(test)]
mod tests;
