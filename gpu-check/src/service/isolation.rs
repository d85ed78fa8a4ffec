//! Whether the fence keeps a hostile tenant out of an honest one's memory, while both work.
//!
//! Where the service does not start with the fence on a device, that is said, and nothing is run.

use super::bench::{Bench, Seat};
use super::job::{Program, Work};
use super::{Desk, ServicePart};

pub(super) const PART: ServicePart = ServicePart {
    name: "isolation",
    about: "a hostile tenant beside an honest one under device.isolation = \"fenced\"",
    limit_s: 90,
    run,
};

/// The honest tenant's programs: they read, write, and look up what others could have changed.
const PROGRAMS: [&str; 3] = ["vecadd", "matmul", "stencil3d"];

fn run(desk: &mut Desk<'_>) -> anyhow::Result<()> {
    let bench = Bench {
        isolation: "fenced",
        ..desk.bench.clone()
    };
    let launches = desk.scale.choose(8, 400);
    let programs = PROGRAMS.map(|workload| Program {
        workload: workload.to_owned(),
        size: "small".to_owned(),
        launches,
    });
    let honest = Work::Programs {
        programs: programs.into(),
    };
    let hostile = Work::Hostile {
        launches: 4 * launches,
    };
    let seats = [Seat::new("honest", honest), Seat::new("hostile", hostile)];
    if let Some(why) = bench.refuses("gridmux", &seats)? {
        desk.fact(
            "the fence",
            format!("the service does not start with it: {why}"),
        );
        return Ok(());
    }
    let round = bench.round("gridmux", &seats)?;
    let [honest, hostile] = &round.told[..] else {
        anyhow::bail!("a round of two without two reports");
    };
    desk.check_clock("isolation", round.holds_expired);
    desk.check(
        "the honest tenant's results are right",
        honest.report.verified,
        format!("{} launches", honest.report.launches),
    );
    desk.check(
        "the hostile tenant's launches end in order",
        hostile.report.launches == u64::from(4 * launches),
        format!("{} launches", hostile.report.launches),
    );
    Ok(())
}
