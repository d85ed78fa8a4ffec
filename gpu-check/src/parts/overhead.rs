//! What each form costs a kernel while it runs: device time of one undisturbed launch, over that of the original.

use super::Part;
use crate::formed::Stage;
use crate::lab::Lab;
use gridmux_ptx::forms::Form;
use gridmux_workloads::{Case, Size, workloads};

pub(super) const PART: Part = Part {
    name: "overhead",
    about: "device time of every form over the original's",
    usual_s: 14,
    limit_s: 120,
    run,
};

/// Workloads of a quick run.
const QUICK: [&str; 2] = ["vecadd", "matmul"];

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let size = lab.scale.choose(Size::Tiny, Size::Large);
    for workload in workloads() {
        if lab.scale.choose(QUICK.contains(&workload.name), true) {
            time_forms(lab, &workload.case(size, 22))?;
        }
    }
    Ok(())
}

fn time_forms(lab: &mut Lab<'_>, case: &Case) -> anyhow::Result<()> {
    let runs = lab.scale.choose(1, 20);
    let stage = Stage::new(lab.cuda, case)?;
    let mut original = None;
    for form in Form::ALL {
        // The part on workloads reports refusals.
        let Ok(formed) = stage.form(form)? else {
            continue;
        };
        let time = formed.fastest_us(runs)?;
        let name = format!("{}/{form}", case.workload);
        lab.figure(format!("{name}: time"), time, "us");
        match original {
            None => original = Some(time),
            Some(original) => lab.figure(
                format!("{name}: over the original"),
                time / original,
                "ratio",
            ),
        }
        formed.unload()?;
    }
    Ok(stage.clear()?)
}
