//! A scripted device that behaves as stock hardware does, with none of its unknowns.
//!
//! A launch's first block starts `LAUNCH_NS` after it was handed to an empty lane, and at once when the operation
//! before it in its lane has ended. Launches that may start are placed by level and then strictly in that order: one
//! that does not fit holds up those behind it, of lower levels too. Blocks stay for as long as the first eight bytes
//! behind their launch's control block say.

use super::rig::Machine;
use gridmux_mediator::device::{
    AllocationUnits, Busy, Command, Device, DeviceKernelId, DeviceReport, DomainId, KernelLimits,
    LANES, LaunchCommand, Level, Outcome, Tag,
};
use gridmux_mediator::dispatch::client::ClientKernel;
use gridmux_policy::ids::KernelKey;
use gridmux_policy::shape::{BlockShape, DeviceShape, Held, SmUnits};
use gridmux_policy::units::Nanos;
use gridmux_ptx::control::CONTROL_BYTES;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// From handing a launch to an empty lane to its first block.
pub(crate) const LAUNCH_NS: u64 = 4_000;

/// Levels of its lanes, unless a test says otherwise.
pub(crate) const LEVELS: u8 = 6;

/// A device of 4 SMs.
pub(crate) const SHAPE: DeviceShape = DeviceShape::h200(4);

/// Returns the limits of every kernel here: few registers, so that threads decide what fits.
pub(crate) fn limits(id: u32) -> KernelLimits {
    KernelLimits {
        id: DeviceKernelId(id),
        static_shared_bytes: 0,
        registers_per_thread: 16,
        max_threads_per_block: 1024,
        units: AllocationUnits {
            registers: 256,
            shared_bytes: 128,
            reserved_shared_bytes: 1024,
        },
    }
}

#[derive(Debug)]
struct Work {
    tag: Tag,
    /// How many launches were handed over before it.
    order: usize,
    level: Level,
    shape: BlockShape,
    block_ns: u64,
    /// Blocks that have not started, and those that have not ended.
    left: u32,
    live: u32,
    start: Option<u64>,
}

/// The device.
pub(crate) struct Hardware {
    levels: u8,
    now: u64,
    launches: usize,
    /// By lane, in order, with the time from which the first may start.
    lanes: Vec<(u64, VecDeque<u64>)>,
    work: BTreeMap<u64, Work>,
    /// Launches that may start, in order, the highest level first.
    ready: Vec<u64>,
    sms: Vec<Held>,
    /// Blocks by the time of their end: their launch and SM.
    running: BinaryHeap<Reverse<(u64, u64, usize)>>,
    reports: VecDeque<DeviceReport>,
}

impl Hardware {
    pub(crate) fn new(levels: u8) -> Self {
        Self {
            levels,
            now: 0,
            launches: 0,
            lanes: vec![(0, VecDeque::new()); LANES],
            work: BTreeMap::new(),
            ready: Vec::new(),
            sms: vec![Held::default(); SHAPE.sms.into()],
            running: BinaryHeap::new(),
            reports: VecDeque::new(),
        }
    }

    fn launch(&mut self, launch: &LaunchCommand, params: &[u8]) {
        let block_ns = u64::from_le_bytes(
            params[CONTROL_BYTES as usize..][..8]
                .try_into()
                .expect("eight bytes"),
        );
        let limits = limits(launch.kernel.0);
        let bits = launch.tag.to_bits();
        let work = Work {
            tag: launch.tag,
            order: self.launches,
            level: launch.level,
            shape: limits.block_shape(launch.block.iter().product(), launch.dynamic_shared_bytes),
            block_ns,
            left: launch.grid.iter().product(),
            live: 0,
            start: None,
        };
        self.launches += 1;
        self.work.insert(bits, work);
        let (from, lane) = &mut self.lanes[usize::from(launch.tag.lane.0)];
        if lane.is_empty() {
            *from = self.now + LAUNCH_NS;
        }
        lane.push_back(bits);
    }

    /// Lets time pass until a launch has ended or the time is reached.
    fn pass_time(&mut self, until: u64) {
        loop {
            self.make_ready();
            self.place();
            let starts = self.lanes.iter().filter(|(_, lane)| !lane.is_empty());
            let starts = starts
                .map(|(from, _)| *from)
                .filter(|from| *from > self.now);
            let ends = self.running.peek().map(|block| block.0.0);
            let next = starts.chain(ends).min().filter(|next| *next <= until);
            let Some(next) = next else {
                if until != u64::MAX {
                    self.now = self.now.max(until);
                }
                break;
            };
            self.now = next;
            if self.retire() {
                // Everything that is due at this instant happens before anybody can react.
                self.make_ready();
                self.place();
                break;
            }
        }
        let at = Nanos(self.now);
        self.reports.push_back(DeviceReport::Paused { at });
    }

    /// Puts the first of each lane among those that may start, once.
    fn make_ready(&mut self) {
        let due = |(from, lane): &(u64, VecDeque<u64>)| {
            let first = *lane.front().filter(|_| *from <= self.now)?;
            let work = &self.work[&first];
            let waits = work.left > 0 && !self.ready.contains(&first);
            waits.then_some((*from, work.order, first))
        };
        let mut due: Vec<_> = self.lanes.iter().filter_map(due).collect();
        due.sort_unstable();
        self.ready.extend(due.into_iter().map(|(.., first)| first));
        // Stable, so that a level keeps the order in which its launches came to be ready.
        let work = &self.work;
        self.ready.sort_by_key(|bits| Reverse(work[bits].level));
    }

    fn place(&mut self) {
        while let Some(bits) = self.ready.first() {
            let work = self.work.get_mut(bits).expect("it is in its lane");
            let mut placed = 0;
            while work.left > 0 {
                let room = |sm: &Held| sm.room_within(&SHAPE, SmUnits::ONE, &work.shape);
                let fits = self.sms.iter().map(room).enumerate();
                let Some((sm, _)) = fits
                    .filter(|(_, fits)| *fits > 0)
                    .max_by_key(|(sm, fits)| (*fits, Reverse(*sm)))
                else {
                    break;
                };
                self.sms[sm].add(&work.shape, 1);
                let end = self.now + work.block_ns;
                self.running.push(Reverse((end, *bits, sm)));
                work.left -= 1;
                placed += 1;
            }
            if placed > 0 {
                work.live += placed;
                work.start.get_or_insert(self.now);
                self.reports.push_back(DeviceReport::Placed {
                    tag: work.tag,
                    blocks: placed,
                    at: Nanos(self.now),
                });
            }
            if work.left > 0 {
                return;
            }
            self.ready.remove(0);
        }
    }

    /// Ends the blocks whose time has come; returns whether a launch is over.
    fn retire(&mut self) -> bool {
        let mut ended: BTreeMap<u64, u32> = BTreeMap::new();
        while let Some(Reverse((end, bits, sm))) = self.running.peek().copied() {
            if end > self.now {
                break;
            }
            self.running.pop();
            self.sms[sm].remove(&self.work[&bits].shape, 1);
            *ended.entry(bits).or_default() += 1;
        }
        let at = Nanos(self.now);
        let mut over = false;
        for (bits, blocks) in ended {
            let work = self.work.get_mut(&bits).expect("its blocks ran");
            work.live -= blocks;
            self.reports.push_back(DeviceReport::Retired {
                tag: work.tag,
                blocks,
                ran: Nanos(work.block_ns * u64::from(blocks)),
                at,
            });
            if work.live > 0 || work.left > 0 {
                continue;
            }
            over = true;
            self.reports.push_back(DeviceReport::Ended {
                tag: work.tag,
                start: Nanos(work.start.expect("it ran")),
                end: at,
                outcome: Outcome::Done,
            });
            let (from, lane) = &mut self.lanes[usize::from(work.tag.lane.0)];
            lane.pop_front();
            *from = self.now;
            self.work.remove(&bits);
        }
        over
    }
}

impl Device for Hardware {
    fn submit(&mut self, command: &Command, params: &[u8]) -> Result<(), Busy> {
        match command {
            Command::Launch(launch) => self.launch(launch, params),
            Command::PassTime { until } => self.pass_time(until.0),
            Command::Pause => {}
            other => unreachable!("the loads only launch: {other:?}"),
        }
        Ok(())
    }

    fn poll(&mut self) -> Option<DeviceReport> {
        self.reports.pop_front()
    }

    fn has_virtual_clock(&self) -> bool {
        true
    }

    fn lane_depth(&self) -> usize {
        4
    }

    fn levels(&self) -> u8 {
        self.levels
    }

    fn now(&self) -> Nanos {
        Nanos(self.now)
    }
}

/// The device for one run.
pub(crate) struct Scripted {
    /// Levels of its lanes.
    pub(crate) levels: u8,
}

impl Machine for Scripted {
    fn device(&mut self) -> Box<dyn Device> {
        Box::new(Hardware::new(self.levels))
    }

    fn shape(&self) -> DeviceShape {
        SHAPE
    }

    fn max_shared_bytes(&self) -> u32 {
        SHAPE.shared_bytes - 1024
    }

    fn domain(&mut self, client: u16) -> DomainId {
        DomainId(client.into())
    }

    fn kernel(&mut self, _domain: DomainId, load: u32) -> ClientKernel {
        ClientKernel {
            unusable: false,
            limits: limits(load),
            kernel: crate::scripted::sliced(8),
            key: KernelKey(load.into()),
        }
    }
}
