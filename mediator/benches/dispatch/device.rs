//! A device that obeys at once: blocks are placed when they are handed over and end a fixed time later, however many
//! there are. Its clock is the wall's; where blocks take no time it counts the dispatcher's turns, [`TURN_NS`] each, so
//! that the device itself costs as little as may be.

use gridmux_mediator::device::{Busy, Command, Device, DeviceReport, MOST_DEPTH, Outcome, Tag};
use gridmux_mediator::wall_clock::wall_ns;
use gridmux_policy::units::Nanos;
use std::collections::VecDeque;

/// What a turn takes where the clock counts turns.
const TURN_NS: u64 = 1_000;

/// The scripted device.
pub(crate) struct Scripted {
    block_ns: u64,
    started_ns: u64,
    /// Its clock, read once a turn.
    now: Nanos,
    /// In order of submission, which is that of their ends.
    in_flight: VecDeque<Flight>,
    reports: VecDeque<DeviceReport>,
}

struct Flight {
    tag: Tag,
    blocks: u32,
    start: Nanos,
}

impl Scripted {
    /// Makes a device on which each block resides for `block_ns`.
    pub(crate) fn new(block_ns: u64) -> Self {
        Self {
            block_ns,
            started_ns: wall_ns(),
            now: Nanos(0),
            in_flight: VecDeque::with_capacity(256),
            reports: VecDeque::with_capacity(1024),
        }
    }

    fn end(&mut self, flight: &Flight, at: Nanos) {
        let Flight { tag, blocks, start } = *flight;
        let ran = Nanos((at - start).0 * u64::from(blocks));
        self.reports.push_back(DeviceReport::Retired {
            tag,
            blocks,
            ran,
            at,
        });
        self.reports.push_back(DeviceReport::Ended {
            tag,
            start,
            end: at,
            outcome: Outcome::Done,
        });
    }
}

impl Device for Scripted {
    fn submit(&mut self, command: &Command, _params: &[u8]) -> Result<(), Busy> {
        if let Command::Launch(launch) = command {
            let (tag, start) = (launch.tag, self.now);
            let blocks = launch.grid.iter().product();
            self.in_flight.push_back(Flight { tag, blocks, start });
            self.reports.push_back(DeviceReport::Placed {
                tag,
                blocks,
                at: start,
            });
        }
        Ok(())
    }

    fn poll(&mut self) -> Option<DeviceReport> {
        if self.reports.is_empty() {
            self.now = match self.block_ns {
                0 => self.now + Nanos(TURN_NS),
                _ => Nanos(wall_ns() - self.started_ns),
            };
            let (now, takes) = (self.now, Nanos(self.block_ns));
            let over = |flight: &mut Flight| flight.start + takes <= now;
            while let Some(flight) = self.in_flight.pop_front_if(over) {
                self.end(&flight, now);
            }
        }
        self.reports.pop_front()
    }

    fn has_virtual_clock(&self) -> bool {
        false
    }

    fn lane_depth(&self) -> usize {
        MOST_DEPTH
    }

    fn now(&self) -> Nanos {
        self.now
    }
}
