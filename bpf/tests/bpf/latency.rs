//! The always-on path on the running kernel: recorder, program, pins and both readers.

use std::process::Command;

use gridmux_bpf::{
    Admission, Histogram, Kind, LatencyOptions, LatencyProgram, ReadError, Sample, TenantHistogram,
    Unavailable, read_histograms, read_stats,
};

use crate::{instance, load, recorder};

const OPEN: LatencyOptions = LatencyOptions {
    admission: Admission::Any,
    drain_period_ns: 10_000_000,
};

/// Numbers of every magnitude, the same in every run (xorshift64).
fn numbers() -> impl Iterator<Item = u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> (state % 64)
    })
}

fn find(histograms: &[TenantHistogram], tenant: u32, kind: Kind) -> &Histogram {
    let found = histograms
        .iter()
        .find(|entry| (entry.tenant, entry.device, entry.kind) == (tenant, 3, kind));
    &found
        .unwrap_or_else(|| panic!("no histogram of tenant {tenant}, {kind:?} among {histograms:?}"))
        .histogram
}

/// Returns a sample of `tenant` that has only the time from submit to start, in nanoseconds.
fn started(tenant: u32, submit_to_start_ns: u64) -> Sample {
    Sample {
        tenant,
        submit_to_start_ns: Some(submit_to_start_ns),
        ..Sample::default()
    }
}

#[test]
fn the_program_counts_what_a_process_would_count_itself() {
    let name = instance("count");
    let Some(program) = load(&name, OPEN) else {
        return;
    };
    let mut recorder = recorder(&program);
    let mut want: Vec<[Histogram; 3]> = (0..3)
        .map(|_| std::array::from_fn(|_| Histogram::default()))
        .collect();
    let edges = [0, 1, 7, 8, 9, 15, 16, u64::MAX, 1 << 63, (1 << 63) - 1];
    let mut numbers = edges.into_iter().chain(numbers());
    for launch in 0..30_000u32 {
        let tenant = launch % 3;
        let [start, complete, wall] = std::array::from_fn(|_| numbers.next().unwrap());
        let sample = Sample {
            tenant,
            device: 3,
            submit_to_start_ns: Some(start),
            submit_to_complete_ns: (launch % 5 != 0).then_some(complete),
            wall_submit_to_start_ns: Some(wall),
        };
        // The ring holds 21,845 samples: this producer waits by draining, the service's would drop.
        while !recorder.record(&sample) {
            program.drain().unwrap();
        }
        let want = &mut want[tenant as usize];
        want[0].add(start);
        if launch % 5 != 0 {
            want[1].add(complete);
        }
        want[2].add(wall);
    }
    program.pinned().unwrap();
    let read = read_histograms(&name).unwrap();
    assert_eq!(read.len(), 9, "three tenants, three kinds each: {read:?}");
    for tenant in 0..3 {
        for kind in [
            Kind::SubmitToStart,
            Kind::SubmitToComplete,
            Kind::WallSubmitToStart,
        ] {
            assert_eq!(
                find(&read, tenant, kind),
                &want[tenant as usize][kind as usize],
                "{tenant} {kind:?}"
            );
        }
    }
    assert_eq!(
        program.histograms().unwrap(),
        read,
        "the supervisor reads what the pins show"
    );
    let stats = read_stats(&name).unwrap();
    assert_eq!(
        (stats.samples, stats.malformed, stats.drain_errors),
        (30_000, 0, 0)
    );
    // Each failed attempt above counts as a drop, and all but a last run of them is told.
    assert_eq!(stats.lost, recorder.dropped());
}

#[test]
fn the_kernel_drains_by_itself() {
    let Some(program) = load(&instance("timer"), OPEN) else {
        return;
    };
    program.drains_itself().unwrap();
    let mut recorder = recorder(&program);
    for _ in 0..1000 {
        assert!(recorder.record(&started(1, 1)));
    }
    // Ends when the timer has run; the bound only keeps a broken timer from hanging the test.
    for _ in 0..1000 {
        if recorder.pending() == 0 {
            assert_eq!(program.histograms().unwrap()[0].histogram.count(), 1000);
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the timer never drained");
}

#[test]
fn the_timer_ends_with_the_program() {
    let Some(program) = load(&instance("ends"), OPEN) else {
        return;
    };
    let mut recorder = recorder(&program);
    drop(program);
    assert!(
        recorder.record(&Sample::default()),
        "the ring lives as long as somebody maps it"
    );
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(recorder.pending(), 1, "nobody drains any more");
}

#[test]
fn every_sample_is_accounted_for_while_the_timer_drains() {
    let name = instance("concurrent");
    let options = LatencyOptions {
        drain_period_ns: 1_000_000,
        ..OPEN
    };
    let Some(program) = load(&name, options) else {
        return;
    };
    let mut recorder = recorder(&program);
    let producer = std::thread::spawn(move || {
        let mut want = Histogram::default();
        for latency in numbers().take(1_000_000) {
            if recorder.record(&started(1, latency)) {
                want.add(latency);
            }
        }
        (want, recorder)
    });
    while !producer.is_finished() {
        program.drain().unwrap();
        assert!(read_histograms(&name).unwrap().len() <= 1);
    }
    let (want, mut recorder) = producer.join().unwrap();
    program.drain().unwrap();
    // One more, of another tenant, tells the last drops.
    assert!(recorder.record(&started(2, 0)));
    let read = program.histograms().unwrap();
    assert_eq!((read[0].tenant, &read[0].histogram), (1, &want));
    let stats = program.stats().unwrap();
    assert_eq!(stats.samples + stats.lost, 1_000_001);
    assert_eq!((stats.lost, stats.drain_errors), (recorder.dropped(), 0));
}

#[test]
fn a_new_device_host_takes_the_ring_over() {
    let Some(program) = load(&instance("restart"), OPEN) else {
        return;
    };
    for _ in 0..3 {
        let mut recorder = recorder(&program);
        assert!((0..10_000).all(|launch| recorder.record(&started(1, launch))));
        program.drain().unwrap();
    }
    assert_eq!(program.histograms().unwrap()[0].histogram.count(), 30_000);
}

#[test]
fn a_full_ring_drops_and_tells() {
    let name = instance("full");
    let options = LatencyOptions {
        drain_period_ns: 1_000_000_000,
        ..OPEN
    };
    let Some(program) = load(&name, options) else {
        return;
    };
    let mut recorder = recorder(&program);
    let sample = started(1, 1);
    let accepted = (0..40_000).filter(|_| recorder.record(&sample)).count() as u64;
    assert_eq!(accepted + recorder.dropped(), 40_000);
    assert!(recorder.dropped() > 0, "40,000 samples do not fit");
    program.drain().unwrap();
    assert!(recorder.record(&sample), "the ring has room again");
    let stats = program.stats().unwrap();
    assert_eq!(
        (stats.samples, stats.lost),
        (accepted + 1, recorder.dropped())
    );
}

#[test]
fn unregistered_tenants_are_dropped_and_keys_are_bounded() {
    let Some(program) = load(
        &instance("register"),
        LatencyOptions {
            admission: Admission::Registered,
            ..OPEN
        },
    ) else {
        return;
    };
    program.register(7).unwrap();
    let mut strict = recorder(&program);
    for tenant in [7, 8, 7] {
        strict.record(&started(tenant, 9));
    }
    let read = program.histograms().unwrap();
    assert_eq!(
        (read.len(), read[0].tenant, read[0].histogram.count()),
        (1, 7, 2)
    );
    assert_eq!(program.stats().unwrap().unknown_tenant, 1);
    drop(program);

    let program = load(&instance("bounded"), OPEN).unwrap();
    let mut open = recorder(&program);
    for tenant in 0..20_000 {
        while !open.record(&started(tenant, 9)) {
            program.drain().unwrap();
        }
    }
    // On a busy machine the timer's drain may hold a part of the ring for a while.
    for _ in 0..1000 {
        if program.stats().unwrap().samples == 20_000 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let (read, stats) = (program.histograms().unwrap(), program.stats().unwrap());
    assert_eq!(
        stats.keys_full + read.len() as u64,
        20_000,
        "every sample is counted or told as dropped"
    );
    assert!(stats.keys_full > 0, "{stats:?}");
}

#[test]
fn an_instance_has_one_live_owner_and_dead_ones_are_replaced() {
    let name = instance("owner");
    if let Ok(name) = std::env::var("GRIDMUX_TEST_OWNER") {
        // The child below: pins, and ends without cleaning up.
        let program = LatencyProgram::load(&name).unwrap();
        let mut recorder = recorder(&program);
        recorder.record(&started(1, 1));
        program.pinned().unwrap();
        std::process::abort();
    }
    if load(&name, OPEN).is_none() {
        return;
    }
    assert!(
        matches!(read_histograms(&name), Err(ReadError::NoInstance { .. })),
        "dropping removed the pins"
    );
    let status = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "latency::an_instance_has_one_live_owner_and_dead_ones_are_replaced",
        ])
        .env("GRIDMUX_TEST_OWNER", &name)
        .output()
        .unwrap();
    assert!(!status.status.success());
    assert_eq!(
        read_histograms(&name).unwrap().len(),
        1,
        "a dead owner's pins stay readable"
    );
    let program = LatencyProgram::load(&name).unwrap();
    assert!(
        read_histograms(&name).unwrap().is_empty(),
        "they were replaced"
    );
    match LatencyProgram::load(&name) {
        Err(Unavailable::InstanceInUse { pid, .. }) => assert_eq!(pid, std::process::id()),
        other => panic!("a second owner was let in: {other:?}"),
    }
    drop(program);
    assert!(
        !gridmux_bpf::instance::list()
            .iter()
            .any(|found| found.to_string() == name)
    );
}

#[test]
fn unusable_names_and_absent_instances_have_their_own_errors() {
    assert!(matches!(
        read_histograms("no-such-instance"),
        Err(ReadError::NoInstance { .. } | ReadError::NotPermitted)
    ));
    assert!(matches!(
        read_histograms("../escape"),
        Err(ReadError::NoInstance { .. })
    ));
    match LatencyProgram::load("../escape") {
        Err(Unavailable::InstanceName { .. } | Unavailable::NotBuilt { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn maps_and_programs_have_names_that_begin_with_gridmux() {
    let name = instance("names");
    let Some(program) = load(&name, OPEN) else {
        return;
    };
    if let Err(reason) = program.pinned() {
        println!("SKIPPED: {reason}");
        return;
    }
    let folder = std::path::Path::new("/sys/fs/bpf/gridmux").join(&name);
    let map = |pin: &str| {
        let info = aya::maps::MapInfo::from_pin(folder.join(pin)).unwrap();
        info.name_as_str().unwrap().to_owned()
    };
    let maps = ["histograms", "stats", "owner"].map(map);
    assert_eq!(maps, ["gridmux_latency", "gridmux_stats", "gridmux_owner"]);
    let drain = aya::programs::ProgramInfo::from_pin(folder.join("drain")).unwrap();
    assert_eq!(drain.name_as_str(), Some("gridmux_drain"));
}
