//! How long a latency tenant's short kernels wait beside batch tenants that fill the device.

use super::bench::Seat;
use super::job::{Stamped, Work};
use super::{Desk, PER_SM, ServicePart};

pub(super) const PART: ServicePart = ServicePart {
    name: "latency",
    about: "a latency tenant alone and beside one and three batch tenants: to its first block and its last one's end",
    limit_s: 120,
    run,
};

/// What a block of the latency tenant takes at least, in nanoseconds; its kernels have one for each SM.
const SHORT_NS: u64 = 5_000;
/// Waves of blocks of a batch launch.
const WAVES: u32 = 3;
/// Launches of the latency tenant under fifo, where each waits for everything that is queued in front of it.
const FIFO_LAUNCHES: u32 = 100;
/// Most batch tenants.
const MOST_BATCH: u32 = 3;
/// Streams of a batch tenant.
const BATCH_STREAMS: u32 = 2;
/// A batch tenant has room for this many times as many launches as are expected beside the latency tenant's.
const ROOM: u32 = 2;

fn run(desk: &mut Desk<'_>) -> anyhow::Result<()> {
    let policies: &[(&str, u32)] = desk.scale.choose(
        &[("gridmux", 50)],
        &[
            ("gridmux", 1_000),
            ("smk-p", 1_000),
            ("fifo", FIFO_LAUNCHES),
        ],
    );
    // Blocks of a batch tenant take half of this to one and a half.
    let batch_ns: u64 = desk.scale.choose(40_000, 200_000);
    let longest_us = batch_ns as f64 * 1.5e-3;
    desk.figure("what a batch block takes at most", longest_us, "us");
    let kernel = Stamped::scattered(WAVES * PER_SM * desk.sms, batch_ns);
    for (policy, launches) in policies {
        let served = Work::Loop {
            kernel: Stamped::even(desk.sms, SHORT_NS),
            launches: *launches,
            pause_ns: desk.scale.choose(0, 100_000),
        };
        // A launch waits for a batch block, or under fifo for what all streams have submitted.
        let under_fifo = FIFO_LAUNCHES * MOST_BATCH * BATCH_STREAMS;
        let batch = Work::Endless {
            kernel,
            streams: BATCH_STREAMS,
            most: launches.div_ceil(WAVES).max(under_fifo) * ROOM,
            ns: None,
        };
        for beside in [0, 1, MOST_BATCH] {
            let mut seats = vec![Seat {
                class: "latency",
                ..Seat::new("served", served.clone())
            }];
            seats.extend((1..=beside).map(|n| Seat {
                class: "batch",
                ..Seat::new(format!("batch{n}"), batch.clone())
            }));
            let round = desk.bench.round(policy, &seats)?;
            let name = format!("{policy}, batch tenants {beside}");
            desk.check_clock(&name, round.holds_expired);
            tell(desk, &name, &round.told)?;
        }
    }
    Ok(())
}

/// Reports the latencies of the first tenant, and whether the others were at work all the time.
fn tell(desk: &mut Desk<'_>, name: &str, told: &[super::bench::Told]) -> anyhow::Result<()> {
    let Some((served, others)) = told.split_first() else {
        anyhow::bail!("a round without a client");
    };
    let report = &served.report;
    desk.figure(
        format!("{name}: launches"),
        report.launches as f64,
        "launches",
    );
    desk.percentiles(&format!("{name}: to the first block"), &report.start_ns);
    desk.percentiles(&format!("{name}: to the end"), &report.complete_ns);
    if report.clock_error_ns > 0.0 {
        let error_us = report.clock_error_ns / 1e3;
        desk.figure(format!("{name}: submissions are known to"), error_us, "us");
    }
    for (what, member, value) in [
        ("to the first block", "launch_latency_ns", "start_p99"),
        ("to the end", "completion_latency_ns", "p99"),
    ] {
        if let Some(ns) = served.tenant[member][value].as_f64() {
            desk.figure(
                format!("{name}: {what}: p99, says the service"),
                ns / 1e3,
                "us",
            );
        }
    }
    if !others.is_empty() {
        let ended = others
            .iter()
            .all(|other| other.report.last_ns >= report.last_ns);
        desk.check(
            format!("{name}: the batch tenants are at work all the time"),
            ended,
            "one ran out of room for stamps",
        );
    }
    Ok(())
}
