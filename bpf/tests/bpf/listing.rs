//! What is loaded, as bpftool would list it, and what maps hold.

use std::path::PathBuf;

use gridmux_bpf::{Dump, LatencyOptions, Listing, LoadedMap, ReadError, RunCounting, dump, list};

use crate::{instance, load, recorder};
use gridmux_bpf::Sample;

/// Returns the map of that name and instance.
fn map<'a>(listing: &'a Listing, instance: &str, name: &str) -> &'a LoadedMap {
    let of = |map: &&LoadedMap| map.name == name && map.instance.as_deref() == Some(instance);
    let found = listing.maps.iter().find(of);
    found.unwrap_or_else(|| panic!("no map {name} of {instance} in {:?}", listing.maps))
}

#[test]
fn an_instance_is_listed_with_its_programs_maps_and_pins() {
    let name = instance("listed");
    let Some(program) = load(&name, LatencyOptions::default()) else {
        return;
    };
    program.pinned().unwrap();
    let listing = list().unwrap();
    let ours = |of: &Option<String>| of.as_deref() == Some(&name);
    let programs = listing.programs.iter().filter(|of| ours(&of.instance));
    let drain = programs.clone().find(|of| of.name == "gridmux_drain");
    let drain = drain.expect("the program that drains is listed");
    assert_eq!(drain.kind, "raw_tracepoint");
    assert_eq!(drain.uid, Some(0));
    assert!(drain.bytes_xlated > 0 && drain.bytes_memlock > Some(0));
    assert_eq!(
        drain.pinned,
        [PathBuf::from(format!("/sys/fs/bpf/gridmux/{name}/drain"))]
    );
    if program.drains_itself().is_ok() {
        let arm = programs.clone().find(|of| of.name == "gridmux_arm");
        assert_eq!(arm.expect("the timer shares the maps").kind, "syscall");
    }
    let latency = map(&listing, &name, "gridmux_latency");
    let found = (
        latency.kind.as_str(),
        latency.bytes_key,
        latency.bytes_value,
    );
    assert_eq!(found, ("hash", 8, 3992));
    assert_eq!(latency.max_entries, 16384);
    assert_eq!(
        latency.pinned,
        [PathBuf::from(format!(
            "/sys/fs/bpf/gridmux/{name}/histograms"
        ))]
    );
    let samples = map(&listing, &name, "gridmux_samples");
    assert_eq!(samples.kind, "user_ringbuf");
    assert!(drain.map_ids.contains(&samples.id) && samples.pinned.is_empty());
    drop(program);
    let after = list().unwrap();
    assert!(after.maps.iter().all(|map| !ours(&map.instance)));
}

#[test]
fn maps_are_dumped_by_their_layout() {
    let name = instance("dumped");
    let Some(program) = load(&name, LatencyOptions::default()) else {
        return;
    };
    program.register(7).unwrap();
    program.register(3).unwrap();
    let mut recorder = recorder(&program);
    for launch in 1..=10 {
        assert!(recorder.record(&Sample {
            tenant: 3,
            submit_to_start_ns: Some(launch * 1000),
            ..Sample::default()
        }));
    }
    program.drain().unwrap();
    let listing = list().unwrap();
    let dumped = |map_name: &str| dump(map(&listing, &name, map_name));
    match dumped("gridmux_latency").unwrap() {
        Dump::Histograms(found) => assert_eq!(found, program.histograms().unwrap()),
        other => panic!("{other:?}"),
    }
    match dumped("gridmux_stats").unwrap() {
        Dump::Stats(stats) => assert_eq!(stats.samples, 10),
        other => panic!("{other:?}"),
    }
    match dumped("gridmux_tenants").unwrap() {
        Dump::Tenants(numbers) => assert_eq!(numbers, [3, 7]),
        other => panic!("{other:?}"),
    }
    match dumped("gridmux_owner").unwrap() {
        Dump::Owner(owner) => assert_eq!(owner.pid, std::process::id()),
        other => panic!("{other:?}"),
    }
    let refused = dumped("gridmux_samples").unwrap_err();
    assert!(matches!(refused, ReadError::NoLayout { .. }), "{refused}");
    let mut of_another_layout = map(&listing, &name, "gridmux_stats").clone();
    of_another_layout.bytes_value += 8;
    let refused = dump(&of_another_layout).unwrap_err();
    assert!(refused.to_string().contains("4 and 72 bytes"), "{refused}");
}

#[test]
fn runs_are_counted_while_that_is_asked_for() {
    let name = instance("counted");
    let Some(program) = load(&name, LatencyOptions::default()) else {
        return;
    };
    let runs = || {
        let listing = list().unwrap();
        let found = listing
            .programs
            .into_iter()
            .find(|of| of.name == "gridmux_drain" && of.instance.as_deref() == Some(name.as_str()));
        let found = found.expect("the program that drains is listed");
        (found.run_cnt, found.run_time_ns)
    };
    let counting = RunCounting::start().unwrap();
    let before = runs();
    for _ in 0..5 {
        program.drain().unwrap();
    }
    let after = runs();
    drop(counting);
    assert!(after.0 >= before.0 + 5, "{before:?}, {after:?}");
    assert!(after.1 > before.1, "{before:?}, {after:?}");
}
