//! The SRTF paper's claim on a stock device: the shorter of two kernels does not wait for the longer one, as in plan
//! mode. `cargo xtask bench srtf` runs all pairs.

use crate::pairs::{Kernel, Mix, on_device, on_plan};
use gridmux_policy::metrics::antt;

/// The longer kernel, which comes first, and the shorter one.
const PAIR: [Kernel; 2] = [("vecadd", 1_600_000, 0), ("raytrace", 420, 12)];
/// How launches are run under a policy: it returns the time of each, in nanoseconds.
type Run = fn(&str, &Mix) -> Vec<u64>;
/// How far the device may be from plan mode.
const WITHIN: f64 = 0.1;

/// Returns the pair's average normalized turnaround time under a policy.
fn antt_under(policy: &str, run: Run) -> f64 {
    let alone = PAIR.map(|kernel| run("fifo-strict", &[kernel])[0]);
    let together = run(policy, &PAIR);
    let times = [0, 1].map(|n| (alone[n] as f64, together[n] as f64));
    antt(&times)
}

#[test]
fn the_shorter_kernel_goes_first_as_in_plan_mode() {
    let [device, plan] = [on_device as Run, on_plan].map(|run| antt_under("srtf", run));
    let fifo = antt_under("fifo-strict", on_device);
    assert!(device < fifo, "srtf {device:.3}, fifo {fifo:.3}");
    assert!(
        (device / plan - 1.0).abs() < WITHIN,
        "{device:.3} against {plan:.3}"
    );
}
