//! Every workload in every form that it can take, against its host reference and against the original's bytes.
//!
//! Rule: outputs are compared bit for bit with those of the unchanged kernel where two runs of that agree; kernels that
//! add in the order of their blocks need not agree with themselves, and are held against the reference alone.

use super::Part;
use crate::formed::{Formed, Stage};
use crate::lab::Lab;
use gridmux_ptx::forms::Form;
use gridmux_workloads::{Case, Size, workloads};

pub(super) const PART: Part = Part {
    name: "workloads",
    about: "every workload in every form against the host reference, bit for bit",
    usual_s: 4,
    limit_s: 120,
    run,
};

/// Seed of all inputs.
const SEED: u64 = 20;

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let size = lab.scale.choose(Size::Tiny, Size::Small);
    for workload in workloads() {
        compare_forms(lab, &workload.case(size, SEED))?;
    }
    Ok(())
}

/// Runs one workload in all of its forms.
fn compare_forms(lab: &mut Lab<'_>, case: &Case) -> anyhow::Result<()> {
    let name = case.workload;
    let stage = Stage::new(lab.cuda, case)?;
    let original = match stage.form(Form::WHOLE)? {
        Ok(original) => original,
        Err(refusal) => anyhow::bail!("{name} cannot be launched whole: {refusal}"),
    };
    let first = outputs(&stage, &original)?;
    let agrees = first == outputs(&stage, &original)?;
    original.unload()?;
    judge(lab, case, "whole", &first, None);
    for form in Form::ALL.into_iter().filter(|form| *form != Form::WHOLE) {
        let formed = match stage.form(form)? {
            Ok(formed) => formed,
            Err(refusal) => {
                lab.skipped(format!("{name}/{form}"), refusal);
                continue;
            }
        };
        let outputs = outputs(&stage, &formed)?;
        formed.unload()?;
        judge(lab, case, form.name(), &outputs, agrees.then_some(&first));
    }
    Ok(stage.clear()?)
}

/// Runs a kernel to its end and returns what it wrote.
fn outputs(stage: &Stage<'_>, formed: &Formed<'_>) -> anyhow::Result<Vec<Vec<u8>>> {
    stage.reset()?;
    // A third of the grid at a time, so that a form that is cut makes several launches.
    let window = stage.work.blocks().div_ceil(3);
    formed.launch(window)?;
    Ok(stage.outputs()?)
}

/// Checks outputs.
fn judge(
    lab: &mut Lab<'_>,
    case: &Case,
    how: &str,
    outputs: &[Vec<u8>],
    original: Option<&Vec<Vec<u8>>>,
) {
    let name = format!("{}/{how}", case.workload);
    match case.verify(outputs) {
        Err(mismatch) => lab.check(name, false, mismatch),
        Ok(()) => match original {
            Some(original) if original != outputs => {
                lab.check(
                    name,
                    false,
                    "it is within the reference's bounds, but not the original's bits",
                );
            }
            Some(_) => lab.check(name, true, "the original's bits"),
            None => lab.check(name, true, "the reference's values"),
        },
    }
}
