//! What each form costs a kernel before it runs, as the driver sees it: registers, shared and local memory, and how
//! many blocks an SM holds. And whether the driver lays parameters out as the rewriter does.

use super::Part;
use crate::cuda::session::REGISTERS;
use crate::formed::Stage;
use crate::lab::Lab;
use gridmux_ptx::control::CONTROL_BYTES;
use gridmux_ptx::forms::Form;
use gridmux_workloads::{Case, Size, workloads};

pub(super) const PART: Part = Part {
    name: "registers",
    about: "registers, memory and occupancy of every form as the driver sees them; the layout of parameters",
    usual_s: 1,
    limit_s: 90,
    run,
};

/// Attributes of a kernel (`CUfunction_attribute`), by the names of figures, with their units.
const ATTRIBUTES: [(&str, i32, &str); 3] = [
    ("registers", REGISTERS, "registers"),
    ("shared", 1, "B"),
    ("local", 3, "B"),
];

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    for workload in workloads() {
        report_resources(lab, &workload.case(Size::Tiny, 1))?;
    }
    Ok(())
}

fn report_resources(lab: &mut Lab<'_>, case: &Case) -> anyhow::Result<()> {
    let stage = Stage::new(lab.cuda, case)?;
    for form in Form::ALL {
        // The part on workloads reports refusals.
        let Ok(formed) = stage.form(form)? else {
            continue;
        };
        let name = format!("{}/{form}", case.workload);
        for (what, attribute, unit) in ATTRIBUTES {
            let value = lab.cuda.function_attribute(&formed.function, attribute)?;
            lab.figure(format!("{name}: {what}"), f64::from(value), unit);
        }
        lab.figure(
            format!("{name}: blocks"),
            f64::from(formed.per_sm),
            "blocks/SM",
        );
        if form.has_control() {
            parameter(lab, &name, formed.function.handle())?;
        }
        formed.unload()?;
    }
    Ok(stage.clear()?)
}

/// Checks that the driver has the control block at the start of the parameters.
fn parameter(lab: &mut Lab<'_>, name: &str, function: u64) -> anyhow::Result<()> {
    let name = format!("{name}: the control block's offset");
    let (mut offset, mut bytes) = (0, 0);
    // SAFETY: both variables live across the call.
    let answer = unsafe {
        lab.cuda
            .api
            .cuFuncGetParamInfo(function, 0, &mut offset, &mut bytes)
    };
    if lab.offered(&name, answer)?.is_some() {
        let passed = offset == 0 && bytes == CONTROL_BYTES as usize;
        lab.check(name, passed, format!("{bytes} bytes at {offset}, due at 0"));
    }
    Ok(())
}
