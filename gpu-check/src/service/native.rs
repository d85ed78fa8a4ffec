//! What mediation costs a tenant alone: the same program, straight on the device and as a client of the service.
//!
//! A modelled device is reached through the service alone. There, what stands in for straight is a service whose
//! policy, `fifo`, hands launches on as they come.

use super::job::{Report, Stamped, Work};
use super::{Desk, ServicePart, percentile};
use crate::stamps::float;

pub(super) const PART: ServicePart = ServicePart {
    name: "native",
    about: "a tenant alone against the same program straight on the device, on one stream and on four",
    limit_s: 90,
    run,
};

/// What the mediated program runs under: the service's default.
const POLICY: &str = "gridmux";
/// Kernels: what one takes at least, and how many there are of each stream in a quick run and in a full one.
const KERNELS: [(u64, u32, u32); 3] = [(400, 60, 2_000), (9_700, 20, 1_000), (99_700, 6, 400)];

fn run(desk: &mut Desk<'_>) -> anyhow::Result<()> {
    let direct = match desk.bench.is_model() {
        true => "through a service of one tenant under fifo",
        false => "through the system's driver library",
    };
    desk.fact("straight on the device", direct);
    for (ns, quick, full) in KERNELS {
        for streams in [1, 4] {
            let work = Work::Burst {
                kernel: Stamped::even(2 * desk.sms, ns),
                streams,
                launches: desk.scale.choose(quick, full),
            };
            let name = format!("blocks of {ns} ns, streams {streams}");
            let straight = desk.straight(&name, &work)?;
            let mediated = desk.alone(&name, POLICY, &work)?;
            let [native, ours] = [&straight, &mediated].map(us_of_launch);
            for (how, report, us) in [
                ("straight", &straight, native),
                ("mediated", &mediated, ours),
            ] {
                desk.figure(format!("{name}, {how}: time of a launch"), us, "us");
                for (what, times) in [("runs for", &report.ran_ns), ("gap", &report.gaps_ns)] {
                    let times: Vec<f64> = times.iter().map(|ns| float(*ns)).collect();
                    let median = percentile(&times, 0.5).unwrap_or(f64::NAN);
                    desk.figure(format!("{name}, {how}: {what}: median"), median / 1e3, "us");
                }
            }
            desk.figure(
                format!("{name}: share of native throughput"),
                native / ours,
                "ratio",
            );
        }
    }
    Ok(())
}

/// Returns the time from the first block's start to the last one's end, for each launch, in microseconds.
fn us_of_launch(report: &Report) -> f64 {
    float(report.last_ns.saturating_sub(report.first_ns)) / report.launches.max(1) as f64 / 1e3
}
