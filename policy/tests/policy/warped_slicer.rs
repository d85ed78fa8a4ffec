//! Warped-Slicer on an executor that counts: it listens, samples, partitions, and samples again what has changed.

use crate::host::{Host, arrive, busy, ended};
use gridmux_policy::policies::warped_slicer::paper_cycles;
use gridmux_policy::{BlockShape, DeviceShape, Event, GroupId, Plan, RowId, SmId};
use std::collections::BTreeMap;

/// Warped-Slicer's GPU (Table I).
const TABLE_1: DeviceShape = DeviceShape {
    sms: 16,
    threads: 1536,
    blocks: 8,
    registers: 32_768,
    shared_bytes: 49_152,
    submission_ns: 0,
    dram_bytes_per_kcycle: 0,
    issued_per_kcycle: 0,
};
/// Eight of these fill an SM.
const EIGHTH: BlockShape = BlockShape::of_threads(192);
/// One window.
const WINDOW: u64 = paper_cycles(5_000).0;
const CYCLES: u64 = 5_000;

/// An executor on which blocks come and go at once, and which counts what they do.
struct Executor {
    host: Host,
    now: u64,
    /// By row and SM: blocks' cycles and instructions.
    done: BTreeMap<(u32, u16), [u64; 2]>,
    cycles: u64,
    /// By row: instructions of an SM in a thousand cycles with 1, 2, … blocks.
    rates: [[u64; 8]; 2],
    counts: bool,
    /// Blocks have not left yet: twice as many reside as the plan says.
    lags: bool,
}

/// More blocks, more instructions.
const RISES: [u64; 8] = [100, 200, 300, 400, 500, 600, 700, 800];
/// One block does all that many do.
const FLAT: [u64; 8] = [800; 8];

impl Executor {
    /// Starts two kernels.
    fn new(rates: [[u64; 8]; 2], counts: bool) -> Self {
        let mut host = Host::named("warped-slicer", &TABLE_1);
        host.tell(&busy(0, 1, EIGHTH)).tell(&busy(1, 1, EIGHTH));
        for row in [0, 1] {
            host.tell(&[Event::Blocks {
                row: RowId(row),
                group: GroupId(0),
                launch: 1,
                started: 1,
                ended: 0,
                ran_ns: 0,
                at: gridmux_policy::Nanos(1),
            }]);
        }
        host.replan(1);
        Self {
            host,
            now: 1,
            done: BTreeMap::new(),
            cycles: 0,
            rates,
            counts,
            lags: false,
        }
    }

    fn plan(&self) -> &Plan {
        &self.host.standing
    }

    fn caps(&self, sm: u16) -> [u16; 2] {
        [0, 1].map(|row| self.plan().on_sm(SmId(sm), RowId(row)).cap)
    }

    /// Lets a window pass; the policy is asked at its end.
    fn pass(&mut self) {
        self.cycles += CYCLES;
        self.now += WINDOW + 1;
        for sm in 0..TABLE_1.sms {
            for (row, blocks) in (0..).zip(self.caps(sm)) {
                if let Some(rate) = usize::from(blocks).checked_sub(1) {
                    let done = self.done.entry((row, sm)).or_default();
                    let lags = 1 + u64::from(self.lags);
                    done[0] += CYCLES * u64::from(blocks) * lags;
                    done[1] += CYCLES / 1000 * self.rates[row as usize][rate];
                }
            }
        }
        if self.counts
            && self
                .host
                .policy
                .wake_at()
                .is_some_and(|at| at.0 <= self.now)
        {
            let mut sums: BTreeMap<(u32, GroupId), [u64; 3]> = BTreeMap::new();
            for ((row, sm), done) in &self.done {
                let group = self.host.standing.group_of(SmId(*sm)).expect("an SM");
                let sum = sums.entry((*row, group)).or_default();
                *sum = [sum[0] + self.cycles, sum[1] + done[0], sum[2] + done[1]];
            }
            for ((row, group), [cycles, block_cycles, issued]) in sums {
                self.host.tell(&[Event::Sample {
                    row: RowId(row),
                    group,
                    cycles,
                    block_cycles,
                    issued,
                    memory_stalls: 0,
                    l1_misses: 0,
                    l2_misses: 0,
                    dram_bytes: 0,
                }]);
            }
        }
        self.host.replan(self.now);
    }

    /// Lets windows pass until SM 0 has other caps than while the kernels are sampled, and returns these.
    fn decided(&mut self) -> [u16; 2] {
        for _ in 0..40 {
            self.pass();
            if self.plan().groups().len() <= 2 && self.caps(0) != [1, 0] {
                return self.caps(0);
            }
        }
        panic!("nothing is decided: {:?}", self.plan());
    }
}

#[test]
fn kernels_are_sampled_side_by_side_and_share_as_their_curves_say() {
    let mut executor = Executor::new([RISES, FLAT], true);
    assert_eq!((executor.caps(0), executor.caps(15)), ([1, 0], [0, 1]));
    executor.pass();
    // Figure 4: 1 to 8 blocks of each kernel on its eight SMs.
    for sm in 0..8 {
        assert_eq!(executor.caps(sm), [sm + 1, 0]);
        assert_eq!(executor.caps(8 + sm), [0, sm + 1]);
    }
    assert_eq!(executor.decided(), [7, 1]);
    assert_eq!(executor.plan().groups().len(), 1);
    // Listening, a warm-up of four windows and one window.
    assert!(executor.now <= 7 * (WINDOW + 1) + 1, "{}", executor.now);
}

#[test]
fn an_executor_that_counts_nothing_gets_sms_apart() {
    let mut executor = Executor::new([RISES, RISES], false);
    assert_eq!(executor.decided(), [8, 0]);
    assert_eq!((executor.caps(7), executor.caps(8)), ([8, 0], [0, 8]));
    assert_eq!(executor.host.policy.wake_at(), None);
}

#[test]
fn who_is_alone_has_the_device_and_is_not_sampled_again() {
    let mut executor = Executor::new([RISES, RISES], true);
    assert_eq!(executor.decided(), [4, 4]);
    let now = executor.now;
    executor.host.tell(&[ended(1, 1)]).replan(now + 1);
    assert_eq!(executor.caps(3)[0], 8);
    executor
        .host
        .tell(&[arrive(1, 100, now + 2)])
        .replan(now + 2);
    assert_eq!(executor.caps(3), [4, 4], "both are known");
}

/// The first kernel's rate falls to a quarter and stays there, long after the decision: it is sampled again, beside the
/// other one, which is known.
#[test]
fn a_rate_that_changes_for_good_has_the_kernel_sampled_again() {
    let mut executor = Executor::new([RISES, RISES], true);
    assert_eq!(executor.decided(), [4, 4]);
    for _ in 0..100 {
        executor.pass();
        assert_eq!(executor.caps(0), [4, 4], "nothing changes");
    }
    executor.rates[0] = FLAT.map(|rate| rate / 8);
    let sampled = |executor: &Executor| executor.plan().groups().len() > 2;
    let passed = (0..20).take_while(|_| {
        executor.pass();
        !sampled(&executor)
    });
    let passed = passed.count();
    assert!(sampled(&executor), "in {passed} windows nobody was sampled");
    assert_eq!(executor.caps(15), [0, 8], "the other one is known");
    assert_eq!(executor.decided(), [1, 7]);
}

/// While blocks last, no SM has those that it should have, and nothing is known. That is no knowledge: the kernels are
/// sampled again, after longer and longer, and share once that yields something.
#[test]
fn kernels_of_which_nothing_was_sampled_are_sampled_again() {
    let mut executor = Executor::new([RISES, RISES], true);
    executor.lags = true;
    let is_sampled = |executor: &Executor| executor.plan().groups().len() > 2;
    let windows = |executor: &mut Executor, sampled: bool| {
        let passed = (0..4000).take_while(|_| {
            executor.pass();
            is_sampled(executor) == sampled
        });
        let passed = passed.count();
        assert!(passed < 4000, "{sampled} for good");
        passed
    };
    executor.pass();
    let mut before = (0, 0);
    for _ in 0..3 {
        let sampled = windows(&mut executor, true);
        assert_eq!((executor.caps(0), executor.caps(15)), ([8, 0], [0, 8]));
        let apart = windows(&mut executor, false);
        assert!(
            sampled > before.0 && apart > 10 * sampled,
            "{sampled} {apart}"
        );
        before = (sampled, apart);
    }
    executor.lags = false;
    assert_eq!(executor.decided(), [4, 4]);
}

/// Curves that are lost while they are sampled are sampled anew once everything has been named again.
#[test]
fn after_a_loss_kernels_are_sampled_anew() {
    let mut executor = Executor::new([RISES, FLAT], true);
    executor.pass();
    executor.pass();
    assert_eq!(executor.caps(3), [4, 0], "they are being sampled");
    let now = executor.now;
    executor.host.tell(&[Event::Lost { n: 1 }]);
    for number in [0, 1] {
        let [tenant, row_new, _] = busy(number, 1, EIGHTH);
        let counters = Event::Counters {
            row: RowId(number),
            open_launches: 1,
            live: 1,
            waiting: 999,
            ended: 0,
            at: gridmux_policy::Nanos(now),
        };
        executor.host.tell(&[tenant, row_new, counters]);
    }
    executor.host.tell(&[Event::Resynced]);
    assert_eq!(executor.decided(), [7, 1]);
}
