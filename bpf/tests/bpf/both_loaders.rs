//! The core object through libbpf and through aya: the same samples give equal histograms.

use std::os::fd::AsFd;

use aya::maps::Map;
use aya::programs::{RawTracePoint, RawTracePointRunOptions, TestRun};
use gridmux_bpf::layout::RawTunables;
use gridmux_bpf::reader::histograms_of_fd;
use gridmux_bpf::{LatencyOptions, Recorder, Sample};

use crate::{instance, load, recorder};

/// Aligned as aya reads ELF headers.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static CORE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/core.bpf.o")));

fn record_all(recorder: &mut Recorder) {
    for launch in 0..5000u64 {
        let sample = Sample {
            tenant: u32::try_from(launch % 4).unwrap(),
            device: u16::try_from(launch % 2).unwrap(),
            submit_to_start_ns: Some(launch * launch * 7),
            submit_to_complete_ns: Some((launch * launch) << (launch % 40)),
            ..Sample::default()
        };
        assert!(recorder.record(&sample), "5,000 samples fit");
    }
}

#[test]
fn libbpf_and_aya_count_the_same() {
    let Some(through_libbpf) = load(&instance("both"), LatencyOptions::default()) else {
        return;
    };
    record_all(&mut recorder(&through_libbpf));
    let want = through_libbpf.histograms().unwrap();
    assert_eq!(want.len(), 8, "four tenants, each on one device, two kinds");

    let tunables = RawTunables {
        period_ns: 0,
        registered_only: 0,
        reserved: 0,
    };
    let mut through_aya = aya::EbpfLoader::new()
        .override_global("tunables", &tunables, true)
        // aya has no type of its own for a user ring buffer, and needs none to make one.
        .allow_unsupported_maps()
        .load(&CORE.0)
        .unwrap();
    let fd_of = |name: &str, ebpf: &aya::Ebpf| {
        let (Map::Unsupported(data) | Map::HashMap(data)) = ebpf.map(name).unwrap() else {
            panic!("{name}")
        };
        data.fd().as_fd().try_clone_to_owned().unwrap()
    };
    record_all(&mut Recorder::from_fd(fd_of("gridmux_samples", &through_aya)).unwrap());
    let drain: &mut RawTracePoint = through_aya
        .program_mut("gridmux_drain")
        .unwrap()
        .try_into()
        .unwrap();
    drain.load().unwrap();
    let result = drain.test_run(RawTracePointRunOptions::new()).unwrap();
    assert_eq!(result.return_value, 5000);
    assert_eq!(
        histograms_of_fd(fd_of("gridmux_latency", &through_aya)).unwrap(),
        want
    );
}
