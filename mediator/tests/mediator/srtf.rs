//! The SRTF paper's claims on a stock device, as in plan mode: the shorter of two kernels does not wait for the longer
//! one, and under MPMax the first one keeps most of the device. `cargo xtask bench srtf` runs all pairs.

use crate::pairs::{Kernel, Mix, on_device, on_plan};
use gridmux_policy::metrics::antt;

/// The longer kernel, which comes first, and the shorter one.
const PAIR: [Kernel; 2] = [("vecadd", 1_600_000, 0), ("raytrace", 420, 12)];
/// How launches are run under a policy: it returns the time of each, in nanoseconds.
type Run = fn(&str, &Mix) -> Vec<u64>;
/// How far the device may be from plan mode.
const WITHIN: f64 = 0.1;

/// Returns a pair's average normalized turnaround time under a policy.
fn antt_under(policy: &str, pair: [Kernel; 2], run: Run) -> f64 {
    let alone = pair.map(|kernel| run("fifo-strict", &[kernel])[0]);
    let together = run(policy, &pair);
    let times = [0, 1].map(|n| (alone[n] as f64, together[n] as f64));
    antt(&times)
}

#[test]
fn the_shorter_kernel_goes_first_as_in_plan_mode() {
    let [device, plan] = [on_device as Run, on_plan].map(|run| antt_under("srtf", PAIR, run));
    let fifo = antt_under("fifo-strict", PAIR, on_device);
    assert!(device < fifo, "srtf {device:.3}, fifo {fifo:.3}");
    assert!(
        (device / plan - 1.0).abs() < WITHIN,
        "{device:.3} against {plan:.3}"
    );
}

#[test]
fn under_caps_the_first_kernel_takes_the_next_room_as_in_plan_mode() {
    let pair = [PAIR[1], PAIR[0]];
    let [device, plan] = [on_device as Run, on_plan].map(|run| antt_under("mpmax", pair, run));
    assert!(
        (device / plan - 1.0).abs() < WITHIN,
        "{device:.3} against {plan:.3}"
    );
}
