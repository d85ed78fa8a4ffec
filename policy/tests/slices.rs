//! SMK-P on a toy of stock hardware: tenants' shares follow their weights.
//!
//! The toy obeys a plan as the device executor does: it keeps at most `cap_total` blocks of a
//! kernel in flight, cuts launches into slices of at most one block per SM, hands them to hardware
//! queues, and learns of a slice only when all of it has ended. Hardware places blocks wherever
//! they fit. The share is measured from what the hardware did, not from what the policy heard.

use gridmux_policy::{
    BlockShape, DeviceId, DeviceShape, Event, KernelId, Nanos, Plan, Policy, Share, ShareMeter,
    TenantId, by_name, shape::dominant_share,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const DEVICE: DeviceShape = DeviceShape {
    sms: 16,
    threads: 2048,
    blocks: 32,
    registers: 65_536,
    shared_bytes: 233_472,
};

/// One tenant: a closed loop of equal launches.
#[derive(Clone, Copy)]
struct Load {
    weight: u32,
    block: BlockShape,
    /// Blocks in a launch, and launches submitted ahead.
    grid: u64,
    ahead: u32,
    block_ns: u64,
    /// Between the end of a launch and the submission of the next.
    think_ns: u64,
}

/// How the toy differs from an obedient device.
#[derive(Clone, Copy, Default)]
struct Quirks {
    /// Slices are of one block on every SM or not at all, except the last of a launch.
    whole_slices: bool,
    /// All slices stand in one hardware queue, whose head holds up the rest.
    one_queue: bool,
    /// Every so many events one is lost; the executor then sends counters.
    loses_every: Option<u64>,
}

struct Slice {
    kernel: usize,
    launch: u64,
    size: u32,
    unplaced: u32,
    running: u32,
    ran_sum_ns: u64,
}

#[derive(Default)]
struct Stream {
    /// Launches in order: number and blocks not yet cut into slices.
    queue: VecDeque<(u64, u64)>,
    /// Of the launches, blocks not yet reported.
    open: VecDeque<(u64, u64)>,
    in_flight: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    BlockEnds {
        sm: usize,
        slice: usize,
        ran_ns: u64,
    },
    Submit {
        kernel: usize,
    },
    Wake,
}

struct Toy {
    loads: Vec<Load>,
    quirks: Quirks,
    policy: Box<dyn Policy>,
    plan: Plan,
    now: u64,
    due: BinaryHeap<Reverse<(u64, u64, Due)>>,
    sequence: u64,
    random: u64,
    streams: Vec<Stream>,
    slices: Vec<Slice>,
    /// Slices with unplaced blocks, per kernel: a hardware queue each.
    hardware: Vec<VecDeque<usize>>,
    /// Taken on each SM: threads, blocks, registers, shared memory.
    taken: Vec<[u32; 4]>,
    meter: ShareMeter,
    plans: u64,
    events: u64,
    lost: bool,
    ran_total_ns: Vec<u64>,
    /// SM · ns of dominant share that blocks held, all tenants together.
    held_sm_ns: f64,
}

impl Toy {
    fn new(loads: &[Load], quirks: Quirks) -> Self {
        let mut policy = by_name("smk-p", DeviceId(0), &DEVICE).expect("smk-p is registered");
        let mut meter = ShareMeter::new();
        for (tenant, load) in (0..).map(TenantId).zip(loads) {
            policy.observe(&Event::TenantJoined {
                tenant,
                weight: load.weight,
            });
            meter.join(tenant, Nanos(0));
        }
        let plan = policy
            .replan(Nanos(0))
            .expect("the first replan gives a plan");
        let mut toy = Self {
            loads: loads.to_vec(),
            quirks,
            policy,
            plan,
            now: 0,
            due: BinaryHeap::new(),
            sequence: 0,
            random: 0x9E37_79B9_7F4A_7C15,
            streams: loads.iter().map(|_| Stream::default()).collect(),
            slices: Vec::new(),
            hardware: loads.iter().map(|_| VecDeque::new()).collect(),
            taken: vec![[0; 4]; usize::from(DEVICE.sms)],
            meter,
            plans: 0,
            events: 0,
            lost: false,
            ran_total_ns: vec![0; loads.len()],
            held_sm_ns: 0.0,
        };
        for (kernel, load) in loads.iter().enumerate() {
            for _ in 0..load.ahead {
                toy.after(kernel as u64 * 700, Due::Submit { kernel });
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

    fn tell(&mut self, event: &Event) {
        self.events += 1;
        let lost = self
            .quirks
            .loses_every
            .is_some_and(|every| self.events.is_multiple_of(every));
        // Counters do not say what an unheard-of kernel is like, so arrivals are kept.
        if !lost || matches!(event, Event::Arrive { .. }) {
            self.policy.observe(event);
            return;
        }
        self.policy.observe(&Event::Lost { n: 1 });
        self.lost = true;
    }

    fn run(&mut self, until_ns: u64) {
        while let Some(Reverse((at, _, due))) = self.due.pop() {
            if at > until_ns {
                break;
            }
            self.now = at;
            match due {
                Due::BlockEnds { sm, slice, ran_ns } => self.block_ends(sm, slice, ran_ns),
                Due::Submit { kernel } => self.submit(kernel),
                Due::Wake => self.tell(&Event::Timer { at: Nanos(at) }),
            }
            if self.due.peek().is_none_or(|Reverse((next, ..))| *next > at) {
                self.schedule();
            }
        }
    }

    /// What the executor says after a loss.
    fn tell_counters(&mut self) {
        for (kernel, stream) in self.streams.iter().enumerate() {
            self.policy.observe(&Event::Counters {
                kernel: KernelId(u32::try_from(kernel).unwrap()),
                open_launches: u32::try_from(stream.open.len()).unwrap(),
                waiting: stream.queue.iter().map(|launch| launch.1).sum(),
                in_flight: stream.in_flight,
                ran_total_ns: self.ran_total_ns[kernel],
                at: Nanos(self.now),
            });
        }
    }

    fn schedule(&mut self) {
        if std::mem::take(&mut self.lost) {
            self.tell_counters();
        }
        let before = self.policy.wake_at();
        if let Some(plan) = self.policy.replan(Nanos(self.now)) {
            self.plan = plan;
            self.plans += 1;
        }
        if let Some(wake) = self.policy.wake_at().filter(|wake| before != Some(*wake)) {
            self.after(wake.0.saturating_sub(self.now).max(1), Due::Wake);
        }
        self.dispatch();
        self.place();
    }

    fn dispatch(&mut self) {
        let mut order: Vec<usize> = (0..self.loads.len()).collect();
        let rank = |kernel: &usize| {
            self.plan
                .fill_rank(KernelId(u32::try_from(*kernel).unwrap()))
        };
        order.sort_by_key(rank);
        for kernel in order {
            let id = KernelId(u32::try_from(kernel).unwrap());
            while let Some(&(launch, left)) = self.streams[kernel].queue.front() {
                let room = self
                    .plan
                    .cap_total(id)
                    .saturating_sub(self.streams[kernel].in_flight);
                let n = room
                    .min(u32::from(DEVICE.sms))
                    .min(u32::try_from(left).unwrap());
                let whole = n == u32::from(DEVICE.sms) || u64::from(n) == left;
                if n == 0 || (self.quirks.whole_slices && !whole) {
                    break;
                }
                self.streams[kernel].queue[0].1 -= u64::from(n);
                if left == u64::from(n) {
                    self.streams[kernel].queue.pop_front();
                }
                self.streams[kernel].in_flight += n;
                let queue = if self.quirks.one_queue { 0 } else { kernel };
                self.hardware[queue].push_back(self.slices.len());
                self.slices.push(Slice {
                    kernel,
                    launch,
                    size: n,
                    unplaced: n,
                    running: 0,
                    ran_sum_ns: 0,
                });
                self.tell(&Event::Placed {
                    kernel: id,
                    launch,
                    n,
                    at: Nanos(self.now),
                });
            }
        }
    }

    /// Hardware: each queue's first slice places its blocks on the emptiest SM that takes them.
    fn place(&mut self) {
        for queue in 0..self.hardware.len() {
            while let Some(&slice) = self.hardware[queue].front() {
                let kernel = self.slices[slice].kernel;
                let Some(sm) = self.emptiest(kernel) else {
                    break;
                };
                let need = needs(&self.loads[kernel].block);
                for (taken, need) in self.taken[sm].iter_mut().zip(need) {
                    *taken += need;
                }
                self.slices[slice].unplaced -= 1;
                self.slices[slice].running += 1;
                if self.slices[slice].unplaced == 0 {
                    self.hardware[queue].pop_front();
                }
                self.meter
                    .placed(self.tenant(kernel), self.share(kernel), 1, Nanos(self.now));
                let ran_ns = self.jitter(self.loads[kernel].block_ns);
                self.after(ran_ns, Due::BlockEnds { sm, slice, ran_ns });
            }
        }
    }

    fn emptiest(&self, kernel: usize) -> Option<usize> {
        let need = needs(&self.loads[kernel].block);
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
        let kernel = self.slices[slice].kernel;
        let need = needs(&self.loads[kernel].block);
        for (taken, need) in self.taken[sm].iter_mut().zip(need) {
            *taken -= need;
        }
        self.meter
            .retired(self.tenant(kernel), self.share(kernel), 1, Nanos(self.now));
        self.held_sm_ns += self
            .share(kernel)
            .times(u32::try_from(ran_ns).unwrap())
            .as_f64();
        let done = &mut self.slices[slice];
        done.running -= 1;
        done.ran_sum_ns += ran_ns;
        if done.running + done.unplaced == 0 {
            let (launch, n, ran_sum_ns) = (done.launch, done.size, done.ran_sum_ns);
            let id = KernelId(u32::try_from(kernel).unwrap());
            let at = Nanos(self.now);
            self.ran_total_ns[kernel] += ran_sum_ns;
            self.tell(&Event::Retired {
                kernel: id,
                launch,
                n,
                ran_sum_ns,
                at,
            });
            self.slice_ends(kernel, launch, n);
        }
    }

    fn slice_ends(&mut self, kernel: usize, launch: u64, n: u32) {
        let stream = &mut self.streams[kernel];
        stream.in_flight -= n;
        let place = stream
            .open
            .iter()
            .position(|open| open.0 == launch)
            .expect("launch is open");
        stream.open[place].1 -= u64::from(n);
        if stream.open[place].1 == 0 {
            stream.open.remove(place);
            let idle = stream.open.is_empty();
            let id = KernelId(u32::try_from(kernel).unwrap());
            self.tell(&Event::Ended {
                kernel: id,
                launch,
                at: Nanos(self.now),
            });
            if idle {
                self.meter
                    .set_busy(self.tenant(kernel), false, Nanos(self.now));
            }
            self.after(self.loads[kernel].think_ns.max(1), Due::Submit { kernel });
        }
    }

    fn submit(&mut self, kernel: usize) {
        let load = self.loads[kernel];
        self.sequence += 1;
        let launch = self.sequence;
        self.streams[kernel].queue.push_back((launch, load.grid));
        self.streams[kernel].open.push_back((launch, load.grid));
        self.meter
            .set_busy(self.tenant(kernel), true, Nanos(self.now));
        self.tell(&Event::Arrive {
            kernel: KernelId(u32::try_from(kernel).unwrap()),
            tenant: self.tenant(kernel),
            launch,
            blocks: load.grid,
            block: load.block,
            at: Nanos(self.now),
        });
    }

    fn tenant(&self, kernel: usize) -> TenantId {
        assert!(kernel < self.loads.len());
        TenantId(u32::try_from(kernel).unwrap())
    }

    fn share(&self, kernel: usize) -> Share {
        dominant_share(&DEVICE, &self.loads[kernel].block)
    }

    /// The worst relative miss of a share, after a run.
    fn worst(&self) -> f64 {
        let total: u32 = self.loads.iter().map(|load| load.weight).sum();
        let asked = |load: &Load| f64::from(load.weight) / f64::from(total);
        let got = self.meter.shares();
        let miss = self
            .loads
            .iter()
            .zip(&got)
            .map(|(load, got)| got.1 / asked(load) - 1.0);
        miss.fold(0.0, |worst, miss| {
            if miss.abs() > f64::abs(worst) {
                miss
            } else {
                worst
            }
        })
    }

    fn report(&self, what: &str) {
        println!(
            "{what}: worst {:+.3}, shares {:?}, all busy {} of {} us, {} plans, {} events, {:.3} SMs held of each",
            self.worst(),
            self.meter
                .shares()
                .iter()
                .map(|share| (share.1 * 1e4).round() / 1e4)
                .collect::<Vec<_>>(),
            self.meter.all_busy_ns() / 1000,
            self.now / 1000,
            self.plans,
            self.events,
            self.held_sm_ns / (self.now as f64) / f64::from(DEVICE.sms),
        );
    }
}

fn needs(block: &BlockShape) -> [u32; 4] {
    [block.threads, 1, block.registers, block.shared_bytes]
}

fn load(weight: u32, threads: u32, registers: u32, shared_kib: u32, block_ns: u64) -> Load {
    let block = BlockShape {
        threads,
        registers: threads * registers,
        shared_bytes: shared_kib * 1024,
    };
    Load {
        weight,
        block,
        grid: 4000,
        ahead: 2,
        block_ns,
        think_ns: 2_000,
    }
}

fn holds(what: &str, loads: &[Load], quirks: Quirks, ms: u64, within: f64) {
    let mut toy = Toy::new(loads, quirks);
    toy.run(ms * 1_000_000);
    toy.report(what);
    assert!(
        toy.meter.all_busy_ns() > ms * 300_000,
        "{what}: the tenants were hardly busy together"
    );
    assert!(
        toy.worst().abs() < within,
        "{what}: {:?}",
        toy.meter.shares()
    );
}

#[test]
fn three_tenants_at_2_1_1() {
    let loads = [
        load(2, 256, 32, 0, 8_000),
        load(1, 128, 64, 48, 120_000),
        load(1, 512, 24, 8, 30_000),
    ];
    holds("2:1:1", &loads, Quirks::default(), 40, 0.05);
}

#[test]
fn devices_that_obey_badly() {
    let loads = [
        load(2, 256, 32, 0, 8_000),
        load(1, 128, 64, 48, 120_000),
        load(1, 512, 24, 8, 30_000),
    ];
    let obedient = Quirks::default();
    let whole = Quirks {
        whole_slices: true,
        ..obedient
    };
    holds("whole slices only", &loads, whole, 40, 0.05);
    let queue = Quirks {
        one_queue: true,
        ..obedient
    };
    holds("one hardware queue", &loads, queue, 40, 0.05);
    let loses = Quirks {
        loses_every: Some(101),
        ..obedient
    };
    holds("loses events", &loads, loses, 40, 0.05);
}

#[test]
fn a_short_run_is_nearly_as_good() {
    let loads = [
        load(2, 256, 32, 0, 8_000),
        load(1, 128, 64, 48, 40_000),
        load(1, 512, 24, 8, 30_000),
    ];
    holds("2 ms", &loads, Quirks::default(), 2, 0.05);
}

#[test]
fn equal_and_skewed_weights() {
    for weights in [[1, 1, 1], [1, 2, 5], [8, 1, 1], [3, 2, 2]] {
        let mut loads = [
            load(1, 192, 40, 16, 15_000),
            load(1, 256, 32, 0, 6_000),
            load(1, 128, 32, 20, 60_000),
        ];
        for (load, weight) in loads.iter_mut().zip(weights) {
            load.weight = weight;
        }
        holds(&format!("{weights:?}"), &loads, Quirks::default(), 40, 0.05);
    }
}

#[test]
fn coarse_blocks() {
    // Two blocks fill an SM; an exact split of one SM does not exist.
    let loads = [
        load(2, 1024, 32, 0, 20_000),
        load(1, 1024, 16, 100, 50_000),
        load(1, 768, 24, 0, 9_000),
    ];
    holds("coarse", &loads, Quirks::default(), 60, 0.05);
}

#[test]
fn complementary_kernels() {
    // One is bound by registers, one by shared memory: together they could hold 200 %.
    let loads = [load(2, 64, 255, 0, 10_000), load(1, 64, 16, 56, 10_000)];
    holds("complementary", &loads, Quirks::default(), 40, 0.05);
}

#[test]
fn short_launches_with_gaps() {
    // A serving tenant: small grids one at a time, with a pause shorter than the grace.
    let serving = Load {
        grid: 256,
        ahead: 1,
        think_ns: 5_000,
        ..load(2, 128, 32, 0, 4_000)
    };
    let loads = [
        serving,
        load(1, 256, 64, 32, 200_000),
        load(1, 256, 32, 0, 25_000),
    ];
    let mut toy = Toy::new(&loads, Quirks::default());
    toy.run(60_000_000);
    toy.report("serving");
    assert!(toy.worst().abs() < 0.10, "{:?}", toy.meter.shares());
}
