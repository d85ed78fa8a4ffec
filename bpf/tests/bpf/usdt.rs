//! The probes fire when traced, for the tenant that they name, and agree with the always-on path.

use crate::{events, instance, loaded, recorder};
use gridmux_bpf::{
    Kind, LatencyProgram, Probe, ProbeArgs, ProbeCount, Sample, TraceProgram, Unavailable, probes,
};

/// Fires every probe a different number of times for tenants 1 and 2.
fn fire_all() -> Vec<ProbeCount> {
    let mut want = Vec::new();
    for probe in Probe::ALL {
        for tenant in [1u32, 2] {
            let count = u64::from(probe as u32 + 1) * u64::from(tenant);
            for seq in 0..count {
                fire(
                    probe,
                    ProbeArgs {
                        tenant,
                        device: 9,
                        kernel: 4,
                        seq,
                        time_ns: seq * 10,
                        ..ProbeArgs::default()
                    },
                );
            }
            want.push(ProbeCount {
                probe,
                tenant,
                count,
            });
        }
    }
    want
}

fn fire(probe: Probe, args: ProbeArgs) {
    match probe {
        Probe::Submit => probes::submit(args),
        Probe::Admit => probes::admit(args),
        Probe::Plan => probes::plan(args, 1, 2, 1),
        Probe::SliceStart => probes::slice_start(args, 0, 64),
        Probe::SliceEnd => probes::slice_end(args, 0, 64, 500, 3_000),
        Probe::Preempt => probes::preempt(args, 10, 700),
        Probe::Resume => probes::resume(args, 10, 9_000),
        Probe::Complete => probes::complete(args, args.seq * 100, args.seq * 1000, 64, 0),
        Probe::Block => probes::block(args, 3, 7, 2_500, 0),
    }
}

/// One test, because a trace of this process sees what every thread of it does.
#[test]
fn probes_fire_only_when_traced_and_agree_with_the_samples() {
    assert!(Probe::ALL.iter().all(|probe| !probe.is_traced()));
    fire_all();
    let Some(trace) = loaded(TraceProgram::attach(std::process::id())) else {
        return;
    };
    assert!(
        Probe::ALL.iter().all(|probe| probe.is_traced()),
        "attaching raises the semaphores"
    );
    let mut want = fire_all();
    assert_eq!(trace.counts().unwrap(), want);

    let program = LatencyProgram::load(&instance("usdt")).unwrap();
    let mut recorder = recorder(&program);
    for launch in 0..500u64 {
        let (start, complete) = (launch * launch, launch * launch * 31);
        let sample = Sample {
            tenant: 6,
            device: 1,
            submit_to_start_ns: Some(start),
            submit_to_complete_ns: Some(complete),
            ..Sample::default()
        };
        assert!(recorder.record(&sample));
        probes::complete(
            ProbeArgs {
                tenant: 6,
                device: 1,
                ..ProbeArgs::default()
            },
            start,
            complete,
            1,
            0,
        );
    }
    want.push(ProbeCount {
        probe: Probe::Complete,
        tenant: 6,
        count: 500,
    });
    want.sort_unstable();
    assert_eq!(trace.counts().unwrap(), want);
    let traced: Vec<_> = trace
        .histograms()
        .unwrap()
        .into_iter()
        .filter(|entry| entry.tenant == 6)
        .collect();
    assert_eq!(
        traced.iter().map(|entry| entry.kind).collect::<Vec<_>>(),
        [Kind::SubmitToStart, Kind::SubmitToComplete]
    );
    assert_eq!(
        traced,
        program.histograms().unwrap(),
        "both paths saw the same latencies"
    );

    drop(trace);
    assert!(
        Probe::ALL.iter().all(|probe| !probe.is_traced()),
        "detaching lowers the semaphores"
    );
    events::come_as_they_are_said();
    events::are_lost_and_counted_where_nobody_reads();
}

#[test]
fn a_process_without_probes_is_told() {
    // The first process is alive and no gridmux.
    match TraceProgram::attach(1) {
        Err(Unavailable::NoProbes { pid: 1, reason }) => assert!(!reason.is_empty()),
        Err(reason @ (Unavailable::NotBuilt { .. } | Unavailable::NotPermitted { .. })) => {
            println!("SKIPPED: {reason}")
        }
        other => panic!("{other:?}"),
    }
}
