//! Events come one by one, as the probes say them, and those that nobody reads are lost and counted.

use gridmux_bpf::probes::NO_GROUP;
use gridmux_bpf::{Cause, Event, EventTrace, Happening, Probe, ProbeArgs, probes};

/// The tenant whose events pass.
const WATCHED: u32 = 41;
/// More than the ring holds.
const MANY: u64 = 100_000;

fn args(tenant: u32, seq: u64) -> ProbeArgs {
    ProbeArgs {
        tenant,
        device: 3,
        kernel: 5,
        seq,
        time_ns: u64::MAX - seq,
        client: 0xffff_fffe,
        key: 0x8000_0000_0000_0001,
    }
}

/// Fires everything that a reader may get, and what it may not.
fn fire(tenant: u32) {
    probes::submit(args(tenant, 0));
    probes::admit(args(tenant, 0));
    probes::plan(ProbeArgs::default(), 7, 2, 1 << Cause::Arrival as u8);
    probes::slice_start(args(tenant, 1), 64, 8);
    probes::slice_end(args(tenant, 2), 64, 8, 500, 3_000);
    probes::preempt(args(tenant, 3), 10, 700);
    probes::resume(args(tenant, 4), 10, 9_000);
    probes::complete(args(tenant, 5), 100, 1_000, 80, 9);
    probes::block(args(tenant, 6), 131, 40, 2_500, 1);
    probes::block(args(tenant, 7), 0, 41, 0, NO_GROUP);
    let copy = ProbeArgs {
        kernel: u32::MAX,
        ..args(tenant, 8)
    };
    probes::complete(copy, 1, 2, 0, 0);
}

/// Returns what is said of blocks.
fn blocks() -> [(ProbeArgs, Happening); 2] {
    let of = |seq, sm, block, (ran_ns, group)| {
        let what = Happening::Block {
            sm,
            block,
            ran_ns,
            group,
        };
        (args(WATCHED, seq), what)
    };
    [of(6, 131, 40, (2_500, Some(1))), of(7, 0, 41, (0, None))]
}

fn take(trace: &mut EventTrace, most: usize) -> Vec<Event> {
    let mut events = Vec::new();
    trace.take(most, &mut events).unwrap();
    events
}

/// Part of the one test that traces this process.
pub(crate) fn come_as_they_are_said() {
    let pid = std::process::id();
    let mut trace = EventTrace::attach(pid, &Probe::ALL, Some(WATCHED)).unwrap();
    fire(WATCHED + 1);
    fire(WATCHED);
    let events = take(&mut trace, 100);
    let plan = Happening::Plan {
        epoch: 7,
        rows: 2,
        causes: [Cause::Arrival].into_iter().collect(),
    };
    let due = [
        // Plans are of no tenant: both pass.
        (ProbeArgs::default(), plan),
        (ProbeArgs::default(), plan),
        (
            args(WATCHED, 1),
            Happening::SliceStart {
                first_block: 64,
                blocks: 8,
            },
        ),
        (
            args(WATCHED, 2),
            Happening::SliceEnd {
                first_block: 64,
                blocks: 8,
                waited_ns: 500,
                ran_ns: 3_000,
            },
        ),
        (
            args(WATCHED, 3),
            Happening::Preempt {
                blocks_left: 10,
                latency_ns: 700,
            },
        ),
        (
            args(WATCHED, 4),
            Happening::Resume {
                blocks_left: 10,
                out_ns: 9_000,
            },
        ),
        (
            args(WATCHED, 5),
            Happening::Complete {
                submit_to_start_ns: 100,
                submit_to_complete_ns: 1_000,
                blocks: 80,
                status: 9,
            },
        ),
    ];
    let due = [&due[..], &blocks()].concat();
    let said: Vec<_> = events
        .iter()
        .map(|event| (event.args, event.what))
        .collect();
    assert_eq!(said, due);
    assert!(events.is_sorted_by_key(|event| event.wall_ns));
    assert!(events[0].wall_ns > 0);
    drop(trace);
}

/// Part of the one test that traces this process.
pub(crate) fn are_lost_and_counted_where_nobody_reads() {
    let pid = std::process::id();
    let mut trace = EventTrace::attach(pid, &[Probe::SliceStart], None).unwrap();
    assert!(Probe::SliceStart.is_traced() && !Probe::Complete.is_traced());
    for seq in 0..MANY {
        probes::slice_start(args(9, seq), seq, 1);
    }
    let lost = trace.lost().unwrap();
    let first = take(&mut trace, 1);
    assert_eq!(first[0].args.seq, 0, "what came first is kept");
    let rest = take(&mut trace, usize::try_from(MANY).unwrap());
    println!("{} events found room, {lost} were lost", 1 + rest.len());
    assert_eq!(1 + rest.len() as u64 + lost, MANY);
    assert!(rest.len() > 40_000 && lost > 40_000);
    // There is room again.
    probes::slice_start(args(9, MANY), 0, 1);
    assert_eq!(take(&mut trace, 10)[0].args.seq, MANY);
    assert_eq!(trace.lost().unwrap(), lost);
    drop(trace);
    assert!(Probe::ALL.iter().all(|probe| !probe.is_traced()));
}
