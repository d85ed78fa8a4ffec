//! `native`: a tenant alone through the dispatcher, against the same launches on the bare modelled device.
//!
//! Both run in device time, so the figures are the same on every machine. The value is the share of native throughput:
//! bare time over mediated time, from the first submission to the last end.

#[path = "../tests/mediator/modelled.rs"]
#[allow(dead_code, reason = "each user takes its part")]
mod modelled;

use gridmux_mediator::device::model::bare::{BareDevice, BareStream};
use gridmux_testkit::bench::{Chosen, Figure};
use modelled::{GPU, ModelRig, SMS, SPIN, Shape, StreamLoop};

/// Launches of a stream that are kept submitted.
const AHEAD: u32 = 8;

/// The kernels: name, shape, launches per stream.
const KERNELS: [(&str, Shape, u64); 4] = [
    ("700ns", Shape::new(8, 256, 0, 5), 400),
    ("20us", Shape::new(32, 256, 0, 1_000), 60),
    ("200us", Shape::new(32, 256, 0, 10_000), 20),
    ("2ms_waves", Shape::new(320, 256, 0, 10_000), 4),
];

fn main() {
    let chosen = Chosen::by_arguments();
    for (kernel, shape, count) in KERNELS {
        for streams in [1, 4] {
            let mut bare = None;
            for info in gridmux_policy::all_policies() {
                let name = format!("native/{}/{kernel}/{streams}", info.name);
                if !chosen.has(&name) {
                    continue;
                }
                let bare = *bare.get_or_insert_with(|| bare_ns(&shape, streams, count));
                let share = bare / mediated_ns(info.name, &shape, streams, count);
                Figure::higher(&name, share, "share of native throughput")
                    .with("ratio", share)
                    .print();
            }
        }
    }
}

/// Returns the time of the launches on the bare device, eight of each stream submitted at once.
fn bare_ns(shape: &Shape, streams: u16, count: u64) -> f64 {
    let mut device = BareDevice::open(GPU, Some(SMS), 1 << 24).expect("a device");
    let kernel = device.load(SPIN.as_bytes(), "spin").expect("the kernel");
    let out = device.place(&[0; 4096]).expect("memory");
    let mut params = out.to_le_bytes().to_vec();
    params.extend(shape.rounds.to_le_bytes());
    let stream = BareStream {
        kernel,
        grid: [shape.blocks, 1, 1],
        block: [shape.threads.into(), 1, 1],
        dynamic_shared_bytes: shape.shared_bytes,
        params,
        restored: Vec::new(),
        ahead: AHEAD,
        most: count,
    };
    let streams = vec![stream; usize::from(streams)];
    let launches = count * streams.len() as u64;
    let run = device.run(&streams, launches, |_| {}).expect("it runs");
    run.duration_ns() as f64
}

/// Returns the time of the same launches through the dispatcher, kept submitted alike.
fn mediated_ns(policy: &str, shape: &Shape, streams: u16, count: u64) -> f64 {
    let mut rig = ModelRig::new(policy);
    let tenant = rig.tenant(1);
    let own = StreamLoop {
        shape: *shape,
        ahead: AHEAD,
        count,
    };
    rig.client(tenant, &vec![own; usize::from(streams)]);
    rig.run();
    let done = &rig.done;
    assert_eq!(
        done.len() as u64,
        count * u64::from(streams),
        "all completed"
    );
    assert!(done.iter().all(|done| done.status == 0), "all succeeded");
    let first = done.iter().map(|done| done.submitted).min().unwrap_or(0);
    let last = done.iter().map(|done| done.end).max().unwrap_or(0);
    (last - first) as f64
}
