//! A toy of stock hardware, and the executor in front of it.
//!
//! The toy obeys a plan as the device executor does: it keeps at most `cap_total` blocks of a row and
//! `device_limit` of a tenant in flight, takes launches in order of rank and then of arrival, cuts
//! them into slices of at most one block per SM, hands these to hardware queues, and learns of a slice
//! only when all of it has ended. Hardware places blocks wherever they fit. A stream's launches run
//! one after another. The share is measured from what the hardware did, not from what the policy heard.

use gridmux_policy::{
    BlockShape, Class, DeviceId, DeviceShape, DispatchOrder, Event, GroupId, Held, Nanos, Plan,
    Policy, ProfileKey, Profiles, RowId, ShareMeter, ShareReading, TenantId, by_name,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

pub(crate) const DEVICE: DeviceShape = DeviceShape {
    sms: 16,
    threads: 2048,
    blocks: 32,
    registers: 65_536,
    shared_bytes: 233_472,
    submission_ns: 0,
};
const SLICE: u32 = DEVICE.sms as u32;

/// One kernel with one block shape, launched again and again.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Kernel {
    pub(crate) block: BlockShape,
    /// Blocks in a launch.
    pub(crate) grid: u64,
    pub(crate) block_ns: u64,
}

/// One tenant: a closed loop on each of its streams.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) weight: u32,
    /// What the streams launch in turn, each beginning at another one; none for an idle tenant.
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) streams: usize,
    /// Launches that each stream has submitted ahead.
    pub(crate) ahead: u32,
    /// Between the end of a launch and the submission of the next.
    pub(crate) think_ns: u64,
}

/// How the toy differs from an obedient device.
#[derive(Clone, Copy, Default)]
pub(crate) struct Quirks {
    /// Slices are of one block for each SM or not at all, except the last of a launch.
    pub(crate) whole_slices: bool,
    /// All slices are in one hardware queue, whose head holds up the rest.
    pub(crate) one_queue: bool,
    /// One event in this many is lost; the executor then says what lives.
    pub(crate) loses_every: Option<u64>,
    /// Between these times, in nanoseconds, every event is lost.
    pub(crate) deaf: Option<(u64, u64)>,
}

struct Slice {
    launch: usize,
    size: u32,
    unplaced: u32,
    running: u32,
    ran_ns: u64,
}

struct Launch {
    row: usize,
    stream: usize,
    /// Blocks not yet cut into slices, and blocks that have not ended.
    uncut: u64,
    left: u64,
}

struct Row {
    tenant: usize,
    kernel: Kernel,
    named: bool,
    in_flight: u32,
    ended: u64,
    open: u32,
    waiting: u64,
}

#[derive(Default)]
struct Stream {
    tenant: usize,
    /// Its rows in turn, and the next one's place.
    rows: Vec<usize>,
    next: usize,
    queue: VecDeque<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    BlockEnds {
        sm: usize,
        slice: usize,
        ran_ns: u64,
    },
    Submit {
        stream: usize,
    },
    Wake,
}

/// Blocks that started, blocks that ended, and how long these ran.
type Counted = (u32, u32, u64);

pub(crate) struct Toy {
    loads: Vec<Load>,
    quirks: Quirks,
    policy: Box<dyn Policy>,
    standing: Plan,
    next: Plan,
    pub(crate) now: u64,
    due: BinaryHeap<Reverse<(u64, u64, Due)>>,
    sequence: u64,
    random: u64,
    rows: Vec<Row>,
    streams: Vec<Stream>,
    launches: Vec<Launch>,
    slices: Vec<Slice>,
    /// Slices with unplaced blocks, per stream: a hardware queue each.
    hardware: Vec<VecDeque<usize>>,
    /// What each tenant has in flight, and its open launches.
    in_flight: Vec<Held>,
    open: Vec<u32>,
    /// Blocks of launches that were not yet told of, by row and launch.
    untold: BTreeMap<(usize, usize), Counted>,
    /// Taken on each SM: threads, blocks, registers, shared memory.
    taken: Vec<[u32; 4]>,
    meter: ShareMeter,
    warm: Vec<ShareReading>,
    pub(crate) plans: u64,
    pub(crate) events: u64,
    lost: u64,
}

impl Toy {
    pub(crate) fn new(loads: &[Load], quirks: Quirks) -> Self {
        let mut meter = ShareMeter::new(&DEVICE);
        let (mut rows, mut streams) = (Vec::new(), Vec::new());
        for (tenant, load) in loads.iter().enumerate() {
            meter.set_weight(tenant_id(tenant), load.weight, Nanos(0));
            let first = rows.len();
            rows.extend(load.kernels.iter().map(|kernel| Row {
                tenant,
                kernel: *kernel,
                named: false,
                in_flight: 0,
                ended: 0,
                open: 0,
                waiting: 0,
            }));
            streams.extend((0..load.streams).map(|next| Stream {
                tenant,
                rows: (first..rows.len()).collect(),
                next,
                queue: VecDeque::new(),
            }));
        }
        let mut toy = Self {
            loads: loads.to_vec(),
            quirks,
            policy: by_name("smk-p", DeviceId(0), &DEVICE, &Profiles::default())
                .expect("smk-p is registered"),
            standing: Plan::default(),
            next: Plan::default(),
            now: 0,
            due: BinaryHeap::new(),
            sequence: 0,
            random: 0x9E37_79B9_7F4A_7C15,
            hardware: streams.iter().map(|_| VecDeque::new()).collect(),
            rows,
            streams,
            launches: Vec::new(),
            slices: Vec::new(),
            in_flight: vec![Held::default(); loads.len()],
            open: vec![0; loads.len()],
            untold: BTreeMap::new(),
            taken: vec![[0; 4]; usize::from(DEVICE.sms)],
            meter,
            warm: Vec::new(),
            plans: 0,
            events: 0,
            lost: 0,
        };
        for tenant in 0..loads.len() {
            toy.policy.observe(&toy.tenant_event(tenant));
        }
        for stream in 0..toy.streams.len() {
            for _ in 0..loads[toy.streams[stream].tenant].ahead {
                toy.after(stream as u64 * 700, Due::Submit { stream });
            }
        }
        toy
    }

    fn after(&mut self, delay_ns: u64, due: Due) {
        self.sequence += 1;
        self.due
            .push(Reverse((self.now + delay_ns, self.sequence, due)));
    }

    /// 80 % to 120 % of the mean, from a xorshift generator.
    fn jitter(&mut self, mean_ns: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        mean_ns * (800 + self.random % 401) / 1000
    }

    pub(crate) fn run(&mut self, until_ns: u64) {
        while let Some(Reverse((at, sequence, due))) = self.due.pop() {
            if at > until_ns {
                self.due.push(Reverse((at, sequence, due)));
                break;
            }
            self.now = at;
            match due {
                Due::BlockEnds { sm, slice, ran_ns } => self.block_ends(sm, slice, ran_ns),
                Due::Submit { stream } => self.submit(stream),
                Due::Wake => self.timer(),
            }
            if self.due.peek().is_none_or(|Reverse((next, ..))| *next > at) {
                self.schedule();
            }
        }
        self.meter.advance(Nanos(until_ns));
    }

    /// Runs, and measures from a tenth of the time on.
    pub(crate) fn measure(&mut self, until_ns: u64) {
        self.run(until_ns / 10);
        self.warm = self.readings();
        self.run(until_ns);
    }

    pub(crate) fn readings(&mut self) -> Vec<ShareReading> {
        let tenants = (0..self.loads.len()).map(tenant_id);
        tenants.map(|tenant| self.meter.read(tenant)).collect()
    }

    /// Held over entitled of each tenant that was busy, since measuring began.
    pub(crate) fn ratios(&mut self) -> Vec<Option<f64>> {
        let readings = self.readings();
        let since = readings.iter().zip(&self.warm);
        since
            .map(|(now, warm)| {
                let reading = ShareReading {
                    held: now.held - warm.held,
                    entitled: now.entitled - warm.entitled,
                    total: now.total - warm.total,
                };
                reading.ratio()
            })
            .collect()
    }
}

/// The executor's side: what the policy hears.
impl Toy {
    fn tell(&mut self, event: &Event) {
        self.events += 1;
        let every = self.quirks.loses_every;
        let deaf = self.quirks.deaf;
        let lost = every.is_some_and(|every| self.events.is_multiple_of(every))
            || deaf.is_some_and(|(from, to)| (from..to).contains(&self.now));
        match lost {
            true => self.lost += 1,
            false => self.policy.observe(event),
        }
    }

    fn tell_blocks(&mut self) {
        for ((row, launch), (started, ended, ran_ns)) in std::mem::take(&mut self.untold) {
            self.tell(&Event::Blocks {
                row: row_id(row),
                group: GroupId::UNKNOWN,
                launch: launch as u64,
                started,
                ended,
                ran_ns,
                at: Nanos(self.now),
            });
        }
    }

    fn timer(&mut self) {
        self.tell_blocks();
        let at = Nanos(self.now);
        self.meter.advance(at);
        for tenant in 0..self.loads.len() {
            let reading = self.meter.read(tenant_id(tenant));
            if self.open[tenant] > 0 {
                self.tell(&Event::Share {
                    tenant: tenant_id(tenant),
                    held: reading.held,
                    entitled: reading.entitled,
                    at,
                });
            }
        }
        self.tell(&Event::Timer { at });
    }

    fn tenant_event(&self, tenant: usize) -> Event {
        Event::Tenant {
            tenant: tenant_id(tenant),
            weight: self.loads[tenant].weight,
            class: Class::Normal,
        }
    }

    fn row_event(&self, row: usize) -> Event {
        Event::RowNew {
            row: row_id(row),
            tenant: tenant_id(self.rows[row].tenant),
            block: self.rows[row].kernel.block,
            profile: ProfileKey(row as u64),
            spill: false,
        }
    }

    /// What the executor says after a loss.
    fn tell_what_lives(&mut self) {
        let n = std::mem::take(&mut self.lost);
        self.untold.clear();
        self.policy.observe(&Event::Lost { n });
        for tenant in 0..self.loads.len() {
            self.policy.observe(&self.tenant_event(tenant));
        }
        for row in (0..self.rows.len()).filter(|row| self.rows[*row].named) {
            self.policy.observe(&self.row_event(row));
            let state = &self.rows[row];
            self.policy.observe(&Event::Counters {
                row: row_id(row),
                open_launches: state.open,
                live: state.in_flight,
                waiting: state.waiting,
                ended: state.ended,
                at: Nanos(self.now),
            });
        }
        self.policy.observe(&Event::Resynced);
    }

    fn schedule(&mut self) {
        let deaf = self.quirks.deaf;
        let hears = deaf.is_none_or(|(from, to)| !(from..to).contains(&self.now));
        if self.lost > 0 && hears {
            self.tell_what_lives();
        }
        self.tell_blocks();
        let before = self.policy.wake_at();
        let now = Nanos(self.now);
        if self.policy.replan(now, &self.standing, &mut self.next) {
            std::mem::swap(&mut self.standing, &mut self.next);
            self.plans += 1;
        }
        if let Some(wake) = self.policy.wake_at().filter(|wake| before != Some(*wake)) {
            self.after(wake.0.saturating_sub(self.now).max(1), Due::Wake);
        }
        self.dispatch();
        self.place();
    }

    fn submit(&mut self, stream: usize) {
        let state = &mut self.streams[stream];
        let row = state.rows[state.next % state.rows.len()];
        state.next += 1;
        let launch = self.launches.len();
        state.queue.push_back(launch);
        if !std::mem::replace(&mut self.rows[row].named, true) {
            self.tell(&self.row_event(row));
        }
        let state = &mut self.rows[row];
        let (tenant, blocks) = (state.tenant, state.kernel.grid);
        state.open += 1;
        state.waiting += blocks;
        self.open[tenant] += 1;
        self.launches.push(Launch {
            row,
            stream,
            uncut: blocks,
            left: blocks,
        });
        let at = Nanos(self.now);
        self.meter.set_busy(tenant_id(tenant), true, at);
        self.tell_blocks();
        self.tell(&Event::Arrive {
            row: row_id(row),
            launch: launch as u64,
            blocks,
            at,
        });
    }

    /// Hands over what the plan permits, by rank and then by arrival.
    fn dispatch(&mut self) {
        let fronts = self
            .streams
            .iter()
            .filter_map(|stream| stream.queue.front());
        let mut order: Vec<usize> = fronts.copied().collect();
        order.sort_by_key(|launch| match self.standing.order() {
            DispatchOrder::Rank => {
                let row = row_id(self.launches[*launch].row);
                (self.standing.rank(row), *launch)
            }
            DispatchOrder::Arrival => (0, *launch),
        });
        for launch in order {
            while self.cut(launch) {}
        }
    }

    /// Cuts one slice off a launch, if the plan permits one.
    fn cut(&mut self, launch: usize) -> bool {
        let Launch {
            row, stream, uncut, ..
        } = self.launches[launch];
        let state = &self.rows[row];
        let tenant = state.tenant;
        let limit = self.standing.device_limit(tenant_id(tenant));
        let within = self.in_flight[tenant].room_within(&DEVICE, limit, &state.kernel.block);
        let cap = self.standing.cap_total(row_id(row));
        let room = cap.saturating_sub(state.in_flight).min(within);
        let n = room.min(SLICE).min(u32::try_from(uncut).unwrap());
        let whole = n == SLICE || u64::from(n) == uncut;
        if n == 0 || (self.quirks.whole_slices && !whole) {
            return false;
        }
        self.launches[launch].uncut -= u64::from(n);
        self.in_flight[tenant].add(&self.rows[row].kernel.block, n);
        self.rows[row].in_flight += n;
        self.rows[row].waiting -= u64::from(n);
        let queue = if self.quirks.one_queue { 0 } else { stream };
        self.hardware[queue].push_back(self.slices.len());
        self.slices.push(Slice {
            launch,
            size: n,
            unplaced: n,
            running: 0,
            ran_ns: 0,
        });
        self.untold.entry((row, launch)).or_default().0 += n;
        true
    }

    fn slice_ends(&mut self, slice: usize) {
        let Slice {
            launch,
            size,
            ran_ns,
            ..
        } = self.slices[slice];
        let Launch { row, stream, .. } = self.launches[launch];
        let (tenant, at) = (self.rows[row].tenant, Nanos(self.now));
        let untold = self.untold.entry((row, launch)).or_default();
        untold.1 += size;
        untold.2 += ran_ns;
        self.rows[row].in_flight -= size;
        self.rows[row].ended += u64::from(size);
        self.in_flight[tenant].remove(&self.rows[row].kernel.block, size);
        self.launches[launch].left -= u64::from(size);
        if self.launches[launch].left > 0 {
            return;
        }
        assert_eq!(self.streams[stream].queue.pop_front(), Some(launch));
        self.rows[row].open -= 1;
        self.open[tenant] -= 1;
        if self.open[tenant] == 0 {
            self.meter.set_busy(tenant_id(tenant), false, at);
        }
        self.tell_blocks();
        self.tell(&Event::Ended {
            row: row_id(row),
            launch: launch as u64,
            at,
        });
        let think_ns = self.loads[tenant].think_ns.max(1);
        self.after(think_ns, Due::Submit { stream });
    }
}

/// The hardware.
impl Toy {
    /// Each queue's first slice places its blocks on the emptiest SM that takes them.
    fn place(&mut self) {
        for queue in 0..self.hardware.len() {
            while let Some(&slice) = self.hardware[queue].front() {
                let row = self.launches[self.slices[slice].launch].row;
                let Row { tenant, kernel, .. } = self.rows[row];
                let Some(sm) = self.emptiest(&kernel.block) else {
                    break;
                };
                for (taken, need) in self.taken[sm].iter_mut().zip(needs(&kernel.block)) {
                    *taken += need;
                }
                self.slices[slice].unplaced -= 1;
                self.slices[slice].running += 1;
                if self.slices[slice].unplaced == 0 {
                    self.hardware[queue].pop_front();
                }
                let at = Nanos(self.now);
                self.meter.placed(tenant_id(tenant), &kernel.block, 1, at);
                let ran_ns = self.jitter(kernel.block_ns);
                self.after(ran_ns, Due::BlockEnds { sm, slice, ran_ns });
            }
        }
    }

    fn emptiest(&self, block: &BlockShape) -> Option<usize> {
        let need = needs(block);
        let limits = [
            DEVICE.threads,
            DEVICE.blocks,
            DEVICE.registers,
            DEVICE.shared_bytes,
        ];
        let fits = |sm: &usize| (0..4).all(|r| self.taken[*sm][r] + need[r] <= limits[r]);
        (0..self.taken.len())
            .filter(fits)
            .min_by_key(|&sm| self.taken[sm][0])
    }

    fn block_ends(&mut self, sm: usize, slice: usize, ran_ns: u64) {
        let row = self.launches[self.slices[slice].launch].row;
        let Row { tenant, kernel, .. } = self.rows[row];
        for (taken, need) in self.taken[sm].iter_mut().zip(needs(&kernel.block)) {
            *taken -= need;
        }
        let at = Nanos(self.now);
        self.meter.retired(tenant_id(tenant), &kernel.block, 1, at);
        let state = &mut self.slices[slice];
        state.running -= 1;
        state.ran_ns += ran_ns;
        if state.running + state.unplaced == 0 {
            self.slice_ends(slice);
        }
    }
}

fn needs(block: &BlockShape) -> [u32; 4] {
    [block.threads, 1, block.registers, block.shared_bytes]
}

fn tenant_id(tenant: usize) -> TenantId {
    TenantId(u32::try_from(tenant).unwrap())
}

fn row_id(row: usize) -> RowId {
    RowId(u32::try_from(row).unwrap())
}
