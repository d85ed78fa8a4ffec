//! Two honest tenants beside an offender, on the timed model under the default policy: how long their launches take
//! from submission to completion, against the same two without it.
//!
//! Each offender is there once before the honest tenants and once comes after them. Everything is device time, so the
//! figures are the same on every machine.

use crate::modelled::{Budgets, ModelRig, SMS, Shape, StreamLoop, Submits};
use gridmux_channel::ring::CompletionStatus;
use gridmux_policy::ids::TenantId;
use gridmux_testkit::kernels::PRINTING;
use std::sync::OnceLock;
use std::time::Duration;

/// Most that p99 may be of what it is undisturbed.
const MOST_SLOWDOWN: f64 = 1.5;
/// Device time between the first and the others.
const HEAD_START_NS: u64 = 100_000;

/// What the honest tenants run: `n` rounds of two loads of which the second needs the first, and some arithmetic.
const LOADS: &str = include_str!("loads.ptx");

/// An endless kernel and a printing one take the parameters of every kernel here.
const ENDLESS: &str = include_str!("endless.ptx");

const fn stream(blocks: u32, threads: u16, rounds: u32, ahead: u32, count: u64) -> StreamLoop {
    StreamLoop {
        shape: Shape::new(blocks, threads, 0, rounds),
        ahead,
        count,
    }
}

/// What the honest tenants do: short and medium kernels in closed loops.
const HONEST: [[StreamLoop; 2]; 2] = [
    [stream(8, 256, 20, 1, 120), stream(48, 256, 200, 1, 40)],
    [stream(16, 128, 10, 2, 160), stream(24, 512, 150, 1, 40)],
];

fn rig(budgets: Budgets) -> ModelRig {
    ModelRig::with("gridmux", SMS, budgets)
}

/// Which of both comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offender {
    First,
    Last,
}

/// Connects the offender and lets it submit.
type Offend<'a> = &'a dyn Fn(&mut ModelRig, TenantId);

/// Times of the honest tenants' launches, by client.
#[derive(Debug)]
struct Outcome {
    p99_ns: [u64; 2],
}

/// Runs the honest tenants' programs, beside an offender where there is one.
fn run(budgets: Budgets, offend: Option<(Offender, Offend<'_>)>) -> (Outcome, ModelRig) {
    let mut rig = rig(budgets);
    let offender = rig.tenant(1);
    let honest = [0, 1].map(|_| rig.tenant(1));
    if let Some((Offender::First, offend)) = offend {
        offend(&mut rig, offender);
        rig.run_until(HEAD_START_NS);
    }
    let clients = [0, 1].map(|n| rig.client_of(honest[n], LOADS, &HONEST[n]));
    if let Some((Offender::Last, offend)) = offend {
        rig.run_until(HEAD_START_NS);
        offend(&mut rig, offender);
    }
    rig.run_programs(&clients);
    let p99_ns = [0, 1].map(|n| p99_ns(&rig, clients[n], &HONEST[n]));
    (Outcome { p99_ns }, rig)
}

/// Judges that every launch of a client completed once and in order, and returns the 99th percentile of their times.
fn p99_ns(rig: &ModelRig, client: usize, streams: &[StreamLoop]) -> u64 {
    let done = || rig.done.iter().filter(move |done| done.client == client);
    for (number, stream) in (0..).zip(streams) {
        let of_stream: Vec<_> = done().filter(|done| done.stream == number).collect();
        assert_eq!(of_stream.len() as u64, stream.count, "nothing is lost");
        assert!(
            of_stream
                .iter()
                .all(|done| done.status == CompletionStatus::Ok as u32)
        );
        assert!(of_stream.is_sorted_by_key(|done| done.end));
    }
    let mut times: Vec<u64> = done().map(|done| done.end - done.submitted).collect();
    times.sort_unstable();
    times[(times.len() * 99).div_ceil(100) - 1]
}

fn judge(name: &str, offend: Offend<'_>) {
    static UNDISTURBED: OnceLock<Outcome> = OnceLock::new();
    let budgets = Budgets::default();
    let undisturbed = UNDISTURBED.get_or_init(|| run(budgets, None).0);
    for side in [Offender::First, Offender::Last] {
        let (outcome, rig) = run(budgets, Some((side, offend)));
        let slowdown = [0, 1].map(|n| outcome.p99_ns[n] as f64 / undisturbed.p99_ns[n] as f64);
        println!("{name}, {side:?}: {slowdown:.2?} {outcome:?} undisturbed {undisturbed:?}");
        println!("  offender: {:?}", rig.usage(TenantId(0)));
        assert!(
            slowdown.iter().all(|slowdown| *slowdown <= MOST_SLOWDOWN),
            "{name}, {side:?}: {slowdown:?}"
        );
    }
}

#[test]
fn a_hundred_endless_kernels() {
    judge("hundred", &|rig, offender| {
        rig.client_of(offender, ENDLESS, &[stream(64, 256, 0, 10, 10); 10]);
    });
}

#[test]
fn a_printf_flood() {
    judge("printf", &|rig, offender| {
        rig.client_of(offender, PRINTING, &[stream(4, 32, 10, 4, u64::MAX); 2]);
    });
}

#[test]
fn barriers_and_refused_launches_in_loops() {
    judge("barriers and refusals", &|rig, offender| {
        for submits in [Submits::Barriers, Submits::Refused] {
            rig.client_that(submits, offender, &[stream(1, 32, 0, 4, u64::MAX); 2]);
        }
    });
}

#[test]
fn a_tenant_whose_launches_never_end_goes_behind_and_loses_none() {
    const QUEUED: u64 = 100;
    let budgets = Budgets {
        // Twice what an honest launch takes.
        cycles: 400_000,
        ..Budgets::default()
    };
    let offend = |rig: &mut ModelRig, offender| {
        let queued = u32::try_from(QUEUED).expect("few");
        rig.client_of(offender, ENDLESS, &[stream(4, 64, 0, queued, QUEUED)]);
    };
    let (_, mut rig) = run(budgets, Some((Offender::First, &offend)));
    let usage = rig.usage(TenantId(0));
    assert!(usage.is_behind, "{usage:?}");
    assert_eq!(
        usage.completed, 2,
        "the others were never out of work: {usage:?}"
    );
    rig.run();
    let usage = rig.usage(TenantId(0));
    assert_eq!(
        (usage.completed, usage.failed),
        (QUEUED, QUEUED),
        "{usage:?}"
    );
    let ended = rig.done.iter().filter(|done| done.client == 0);
    assert!(
        ended
            .clone()
            .all(|done| done.status == CompletionStatus::Budget as u32)
    );
    assert_eq!(ended.count() as u64, QUEUED);
}

#[test]
fn a_launch_costs_what_its_pieces_cost_together() {
    let budgets = Budgets {
        processor: Duration::from_secs(1),
        ..Budgets::default()
    };
    let mut rig = rig(budgets);
    let (printing, other) = (rig.tenant(1), rig.tenant(1));
    // Far more than the budget; beside another tenant it goes in pieces.
    rig.client_of(other, LOADS, &[stream(64, 256, 200, 1, u64::MAX)]);
    let costly = rig.client_of(printing, PRINTING, &[stream(100_000, 128, 10, 1, 1)]);
    rig.run_programs(&[costly]);
    assert_eq!(
        rig.done
            .iter()
            .find(|done| done.client == costly)
            .map(|done| done.status),
        Some(CompletionStatus::Budget as u32)
    );
    let usage = rig.usage(printing);
    println!("{usage:?}");
    assert!(usage.slices > 2 && usage.blocks > 100, "{usage:?}");
}
