//! The combined policy in small cases, worked out by hand.

use crate::host::{Host, row_new, tenant};
use gridmux_policy::plan::{Preemption, Surplus};
use gridmux_policy::policies::gridmux::{GRACE, Gridmux, Settings};
use gridmux_policy::{
    BlockShape, DeviceId, DeviceShape, Event, GroupId, NO_CAP, Nanos, ProfileKey, Profiles, RowId,
    SmId, Stop, TenantId,
};

/// Two SMs, of which each holds ten blocks.
const DEVICE: DeviceShape = DeviceShape {
    threads: 1000,
    ..DeviceShape::h200(2)
};
const TENTH: BlockShape = BlockShape {
    threads: 100,
    registers: 0,
    shared_bytes: 0,
};

/// The policy before an executor, and the time.
struct Timed {
    host: Host,
    now: u64,
}

impl Timed {
    /// Returns the policy with two tenants, of which each has the row of its number. Blocks of the rows that are known
    /// last 1,000 ns.
    fn new(settings: Settings, known: &[u64]) -> Self {
        Self::on(&DEVICE, settings, known)
    }

    /// As [`Self::new`], on another device.
    fn on(device: &DeviceShape, settings: Settings, known: &[u64]) -> Self {
        let profiles = Profiles::default();
        for row in known {
            profiles.set(ProfileKey(*row), 1000.0);
        }
        let settings = Settings {
            profiles,
            ..settings
        };
        let policy = Gridmux::new(DeviceId(0), device, settings);
        let mut timed = Self {
            host: Host::new(Box::new(policy)),
            now: 0,
        };
        for number in 0..2 {
            let events = [tenant(number, 1), row_new(number, number, TENTH)];
            timed.host.tell(&events);
        }
        timed.plan();
        timed
    }

    fn plan(&mut self) {
        self.host.replan(self.now);
    }

    /// Tells the policy of an event, and lets it plan.
    fn tell(&mut self, event: Event) {
        self.host.tell(&[event]).replan(self.now);
    }

    /// A launch of a row arrives.
    fn arrive(&mut self, row: u32, blocks: u64) {
        self.tell(Event::Arrive {
            row: RowId(row),
            launch: row.into(),
            blocks,
            at: Nanos(self.now),
        });
    }

    /// The first block of a row starts.
    fn start(&mut self, row: u32) {
        self.host.tell(&[Event::FirstStart {
            row: RowId(row),
            launch: row.into(),
            at: Nanos(self.now),
        }]);
    }

    /// Blocks of a row end, each after `ran_ns`.
    fn blocks_end(&mut self, row: u32, ended: u32, ran_ns: u64) {
        self.tell(Event::Blocks {
            row: RowId(row),
            group: GroupId(0),
            launch: row.into(),
            started: 0,
            ended,
            ran_ns: ran_ns * u64::from(ended),
            at: Nanos(self.now),
        });
    }

    /// The meter is read for a tenant.
    fn share(&mut self, tenant: u32, held: f64, entitled: f64) {
        self.host.tell(&[Event::Share {
            tenant: TenantId(tenant),
            held,
            entitled,
            at: Nanos(self.now),
        }]);
    }

    /// DRAM moved that many bytes for 100,000 instructions of a row.
    fn sample(&mut self, row: u32, dram_bytes: u64) {
        self.host.tell(&[Event::Sample {
            row: RowId(row),
            group: GroupId(0),
            cycles: 100_000,
            block_cycles: 100_000,
            issued: 100_000,
            memory_stalls: 0,
            l1_misses: 0,
            l2_misses: 0,
            dram_bytes,
        }]);
    }

    fn end(&mut self, row: u32) {
        self.tell(Event::Ended {
            row: RowId(row),
            launch: row.into(),
            at: Nanos(self.now),
        });
    }

    fn wake(&mut self) {
        self.now = self.host.policy.wake_at().expect("it wants to be woken").0;
        self.plan();
    }

    /// Caps of a row on both SMs.
    fn caps(&self, row: u32) -> [u16; 2] {
        [0, 1].map(|sm| self.host.standing.on_sm(SmId(sm), RowId(row)).cap)
    }
}

#[test]
fn who_is_alone_has_the_device_as_if_there_were_no_policy() {
    let mut timed = Timed::new(Settings::default(), &[0, 1]);
    timed.arrive(0, 1000);
    assert_eq!(timed.host.standing.stop(RowId(0)), Stop::Ahead);
    assert_eq!(timed.caps(0), [10, 10]);
    assert_eq!(timed.host.standing.default_row().cap, NO_CAP);
    timed.now = 50_000;
    timed.arrive(1, 20);
    assert_eq!(timed.host.standing.stop(RowId(0)), Stop::Checked);
    timed.end(1);
    assert_eq!(
        timed.host.standing.stop(RowId(0)),
        Stop::Checked,
        "a grace lasts"
    );
    while timed.now < 50_000 + GRACE.0 {
        timed.wake();
    }
    assert_eq!(timed.host.standing.stop(RowId(0)), Stop::Ahead);
}

#[test]
fn the_shorter_remaining_time_comes_first_and_what_it_cannot_use_goes_on() {
    let mut timed = Timed::new(Settings::default(), &[0, 1]);
    timed.arrive(0, 1000);
    timed.arrive(1, 14);
    assert_eq!(timed.caps(1), [7, 7]);
    assert_eq!(timed.caps(0), [3, 3]);
}

#[test]
fn launches_of_like_length_share() {
    let mut timed = Timed::new(Settings::default(), &[0, 1]);
    timed.arrive(0, 1000);
    timed.arrive(1, 600);
    assert_eq!((timed.caps(0), timed.caps(1)), ([5, 5], [5, 5]));
    let alone = Settings {
        share_within: None,
        ..Settings::default()
    };
    let mut timed = Timed::new(alone, &[0, 1]);
    timed.arrive(0, 1000);
    timed.arrive(1, 600);
    assert_eq!((timed.caps(0), timed.caps(1)), ([0, 0], [10, 10]));
}

#[test]
fn a_launch_that_is_little_larger_than_its_part_gets_room_for_all_its_blocks() {
    let mut timed = Timed::new(Settings::default(), &[0, 1]);
    timed.arrive(0, 12);
    timed.arrive(1, 12);
    assert_eq!((timed.caps(0), timed.caps(1)), ([6, 6], [4, 4]));
    timed.end(0);
    timed.arrive(0, 20);
    assert_eq!((timed.caps(0), timed.caps(1)), ([4, 4], [6, 6]));
}

#[test]
fn of_an_unknown_kernel_that_waits_one_block_runs_until_it_is_known() {
    let mut timed = Timed::new(Settings::default(), &[0]);
    // 2 us are left; unknown blocks are taken to last 10 us, so that 400 of them need 200 us.
    timed.arrive(0, 40);
    timed.arrive(1, 400);
    assert_eq!((timed.caps(0), timed.caps(1)), ([10, 9], [0, 1]));
    timed.start(1);
    timed.now = 50;
    // They last 50 ns: 1 us for all.
    timed.blocks_end(1, 1, 50);
    assert_eq!((timed.caps(0), timed.caps(1)), ([5, 5], [5, 5]));
}

#[test]
fn an_unknown_kernel_gives_way_when_it_has_run_for_long() {
    let mut timed = Timed::new(Settings::default(), &[0]);
    // 1,000 us are left of row 0; the unknown one is taken to need 100 us, and comes first.
    timed.arrive(0, 20_000);
    timed.arrive(1, 200);
    timed.start(1);
    assert_eq!(timed.caps(1), [10, 10]);
    // No block of it has ended after 100 us: it is taken to need 2,000 us.
    while timed.now < 101_000 {
        timed.wake();
    }
    assert_eq!((timed.caps(0), timed.caps(1)), ([10, 9], [0, 1]));
}

#[test]
fn a_loop_keeps_its_room_between_launches() {
    let mut timed = Timed::new(Settings::default(), &[0, 1]);
    timed.arrive(0, 1_000_000);
    for _ in 0..2 {
        timed.arrive(1, 10);
        assert_eq!(timed.caps(1), [5, 5]);
        timed.now += 1000;
        timed.end(1);
        timed.now += 500;
    }
    assert_eq!((timed.caps(0), timed.caps(1)), ([5, 5], [5, 5]));
    timed.now += gridmux_policy::loops::HOLD.0;
    timed.plan();
    assert_eq!(timed.caps(0), [10, 10], "it has come no more");
}

#[test]
fn a_launch_that_would_wait_too_long_comes_first() {
    let bound = Settings {
        bound: Some(4.0),
        share_within: None,
        ..Settings::default()
    };
    let mut timed = Timed::new(bound, &[0, 1]);
    // 50 us alone.
    timed.arrive(0, 1000);
    timed.now = 100_000;
    timed.arrive(1, 400);
    assert_eq!(timed.caps(0), [0, 0]);
    timed.now = 160_000;
    timed.blocks_end(1, 200, 1000);
    assert_eq!(timed.caps(0), [10, 10], "it would take 210 us");
}

#[test]
fn who_held_too_much_comes_after_others() {
    let mut timed = Timed::new(Settings::default(), &[0, 1]);
    timed.arrive(0, 1000);
    timed.arrive(1, 100);
    assert_eq!(timed.caps(1), [10, 10]);
    timed.now = 1;
    timed.share(1, 200e6, 50e6);
    timed.now = 1000;
    timed.blocks_end(1, 20, 1000);
    assert_eq!((timed.caps(0), timed.caps(1)), ([10, 10], [0, 0]));
}

/// Who used idle room for minutes gets at least this part, in the second after others can use the device too, of what
/// it would get without that past. The guard's bound is half a window, 25 ms of the device, beyond what is let pass,
/// and half of the device repays that in 50 ms.
const LEAST_KEPT: f64 = 0.9;

/// Returns for how many milliseconds of a second tenant 1 may have blocks on the device, after two minutes in which it
/// held both SMs, although tenant 0 was entitled to one, or (without a past) after nothing.
fn served_ms(has_past: bool) -> u32 {
    let settings = Settings {
        bound: None,
        ..Settings::default()
    };
    let mut timed = Timed::new(settings, &[0, 1]);
    timed.arrive(1, 1000);
    // By tenant: what it held and what it was entitled to, in SM · nanoseconds.
    let mut readings = [(0.0, 0.0); 2];
    if has_past {
        timed.now = 120_000_000_000;
        readings = [(0.0, 120e9), (240e9, 120e9)];
    }
    timed.share(0, readings[0].0, readings[0].1);
    timed.share(1, readings[1].0, readings[1].1);
    timed.arrive(0, 1000);
    let mut served = 0;
    for _ in 0..1000 {
        let is_served = timed.caps(1) != [0, 0];
        served += u32::from(is_served);
        // Who is behind holds nothing, and the other one holds the device.
        let held = if is_served { [1e6, 1e6] } else { [2e6, 0.0] };
        timed.now += 1_000_000;
        for (tenant, reading) in (0..).zip(&mut readings) {
            reading.0 += held[tenant as usize];
            reading.1 += 1e6;
            timed.share(tenant, reading.0, reading.1);
        }
        timed.plan();
    }
    served
}

#[test]
fn who_used_idle_room_for_minutes_keeps_its_part_when_others_can_use_the_device_too() {
    let (without, with) = (served_ms(false), served_ms(true));
    assert!(without > 0 && with < 1000, "the guard has effect: {with}");
    let kept = f64::from(with) / f64::from(without);
    assert!(kept >= LEAST_KEPT, "{with} ms of {without} ms");
}

#[test]
fn where_launches_queue_up_others_have_the_room_that_these_do_not_fill_on_average() {
    // Blocks last a tenth of what it takes to submit a launch, so that a tenth of a launch resides on average.
    let submission_ns = 10_000;
    let whole = [[10, 10], [0, 0]];
    for (submission_ns, open, other, caps) in [
        (0, 4, 1000, whole),
        (submission_ns, 3, 1000, whole),
        (submission_ns, 4, 1000, [[1, 1], [9, 9]]),
        // What the others leave is theirs all the same.
        (submission_ns, 4, 6, [[7, 7], [3, 3]]),
    ] {
        let device = DeviceShape {
            submission_ns,
            ..DEVICE
        };
        let mut timed = Timed::on(&device, Settings::default(), &[0, 1]);
        for _ in 0..open {
            timed.arrive(0, 20);
        }
        timed.arrive(1, other);
        let planned = [timed.caps(0), timed.caps(1)];
        assert_eq!(planned, caps, "{submission_ns} ns, {open} beside {other}");
    }
}

#[test]
fn rows_that_share_and_whose_launches_queue_up_share_what_is_left_over() {
    let device = DeviceShape {
        submission_ns: 10_000,
        ..DEVICE
    };
    let mut timed = Timed::on(&device, Settings::default(), &[0, 1]);
    for row in [0, 1, 0, 1, 0, 1, 0, 1] {
        timed.arrive(row, 20);
    }
    assert_eq!([timed.caps(0), timed.caps(1)], [[5, 5], [5, 5]]);
}

#[test]
fn two_programs_that_do_not_both_wait_for_dram_stay_within_their_parts() {
    // Sixteen bytes a cycle: two an instruction at most.
    let device = DeviceShape {
        dram_bytes_per_kcycle: 16_000,
        ..DEVICE
    };
    let plan = |settings: Settings, bytes: [u64; 2], blocks: [u64; 2]| {
        let mut timed = Timed::on(&device, settings, &[0, 1]);
        for (row, dram_bytes) in (0..).zip(bytes) {
            timed.sample(row, dram_bytes);
        }
        timed.arrive(0, blocks[0]);
        timed.arrive(1, blocks[1]);
        let group = timed.host.standing.groups()[0];
        (
            timed.caps(0),
            timed.caps(1),
            group.surplus,
            group.preemption,
        )
    };
    let (few, many) = (1_000, 1_000_000);
    let parts = ([5, 5], [5, 5], Surplus::Idle, Preemption::None);
    let shared = ([5, 5], [5, 5], Surplus::Lend, Preemption::Cheapest);
    let order = ([0, 0], [10, 10], Surplus::Lend, Preemption::Cheapest);
    let with = |share_within, pairs| Settings {
        share_within,
        pairs,
        ..Settings::default()
    };
    // However much longer the one takes.
    let blocks = [3200, 180];
    for bytes in [[few, few], [few, many], [many, few]] {
        assert_eq!(plan(Settings::default(), bytes, blocks), parts);
        assert_eq!(plan(with(Some(2.0), false), bytes, blocks), shared);
        assert_eq!(plan(with(None, true), bytes, blocks), order);
    }
    assert_eq!(plan(Settings::default(), [many, many], blocks), order);
    // Nor do those share that are alike.
    assert_eq!(plan(Settings::default(), [many, many], [1000, 600]), order);
}

#[test]
fn where_nobody_counts_those_share_that_are_alike() {
    for (blocks, caps) in [(600, ([5, 5], [5, 5])), (400, ([0, 0], [10, 10]))] {
        let mut timed = Timed::new(Settings::default(), &[0, 1]);
        timed.arrive(0, 1000);
        timed.arrive(1, blocks);
        assert_eq!((timed.caps(0), timed.caps(1)), caps);
    }
}

#[test]
fn of_those_that_wait_for_dram_one_shares_with_the_others() {
    let device = DeviceShape {
        dram_bytes_per_kcycle: 16_000,
        ..DEVICE
    };
    let caps = |bytes: [u64; 3]| {
        let mut timed = Timed::on(&device, Settings::default(), &[0, 1, 2]);
        timed.host.tell(&[tenant(2, 1), row_new(2, 2, TENTH)]);
        for (row, dram_bytes) in (0..).zip(bytes) {
            timed.sample(row, dram_bytes);
        }
        for (row, blocks) in [(0, 1000), (1, 1100), (2, 1200)] {
            timed.arrive(row, blocks);
        }
        [0, 1, 2].map(|row| timed.caps(row).iter().sum::<u16>())
    };
    let (few, many) = (1_000, 1_000_000);
    assert_eq!(caps([many, many, few]), [10, 0, 10]);
    assert_eq!(caps([few, many, many]), [10, 10, 0]);
    assert_eq!(caps([few, few, many]), [7, 7, 6]);
}

#[test]
fn launches_of_which_none_is_known_share() {
    let mut timed = Timed::new(Settings::default(), &[]);
    timed.arrive(0, 400);
    timed.arrive(1, 400);
    assert_eq!((timed.caps(0), timed.caps(1)), ([5, 5], [5, 5]));
}

#[test]
fn launches_of_a_tenant_that_has_many_are_not_alike_to_one() {
    // Four launches of a tenant count whole, eight as twice as long each.
    for (open, caps) in [(4, ([5, 5], [5, 5])), (8, ([10, 10], [0, 0]))] {
        let mut timed = Timed::new(Settings::default(), &[0, 1]);
        timed.arrive(0, 1000);
        for _ in 0..open {
            timed.arrive(1, 1200);
        }
        assert_eq!((timed.caps(0), timed.caps(1)), caps, "{open}");
    }
}

#[test]
fn who_has_many_launches_and_held_more_than_its_part_is_not_late() {
    let settings = Settings {
        bound: Some(4.0),
        share_within: None,
        ..Settings::default()
    };
    // Launches that are open, and excess in nanoseconds of both SMs; a launch takes 50 us alone.
    for (open, excess, first) in [(1, 1e6, true), (8, 80e3, true), (8, 1e6, false)] {
        let mut timed = Timed::new(settings.clone(), &[0, 1]);
        for _ in 0..open {
            timed.arrive(0, 1000);
        }
        timed.now = 500_000;
        timed.share(0, excess, 0.0);
        timed.arrive(1, 400);
        let caps = if first { [10, 10] } else { [0, 0] };
        assert_eq!(timed.caps(0), caps, "{open} launches, {excess} ns");
    }
}

#[test]
fn a_row_for_many_kernels_is_not_capped_where_it_comes_first_without_sharing() {
    let settings = Settings {
        share_within: None,
        ..Settings::default()
    };
    let mut timed = Timed::new(settings, &[0, 7]);
    timed.host.tell(&[Event::RowNew {
        row: RowId(2),
        tenant: TenantId(1),
        block: TENTH,
        profile: ProfileKey(7),
        spill: true,
    }]);
    timed.arrive(0, 400);
    timed.arrive(2, 40);
    assert_eq!(timed.caps(2), [NO_CAP, NO_CAP]);
    assert!(timed.caps(0) != [NO_CAP, NO_CAP]);
}
