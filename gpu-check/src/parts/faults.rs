//! Faults: a kernel that traps takes its context with it, and one that is fenced records that it would have.

use super::Part;
use crate::cuda::Shape;
use crate::formed::{Stage, Work};
use crate::kernels::PROBE;
use crate::lab::Lab;
use gridmux_ptx::forms::Form;
use gridmux_workloads::portable;
use gridmux_workloads::{Arg, Role};

pub(super) const PART: Part = Part {
    name: "faults",
    about: "what a trap does to its context, and what the fence makes of it",
    usual_s: 4,
    limit_s: 30,
    run,
};

/// Blocks of a launch, and how many of them do not trap.
const BLOCKS: (u32, u32) = (8, 3);

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    fenced(lab)?;
    // The last, because it takes the context with it.
    bare(lab)
}

/// Checks what a fenced kernel that traps leaves behind.
fn fenced(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let args = [
        Arg::U64(BLOCKS.1.into()),
        Arg::Buffer {
            bytes: vec![0; 4 * BLOCKS.0 as usize],
            role: Role::Out,
        },
    ];
    let work = Work {
        ptx: PROBE,
        entry: "trap_behind",
        grid: [BLOCKS.0, 1, 1],
        block: [32, 1, 1],
        dynamic_shared_bytes: 0,
        args: &args,
    };
    let stage = Stage::new(lab.cuda, work)?;
    stage.reset()?;
    let formed = match stage.form(Form::FENCE)? {
        Ok(formed) => formed,
        Err(refusal) => {
            lab.check("a fenced trap is recorded", false, refusal);
            return Ok(());
        }
    };
    let said = formed
        .launch(u32::MAX)
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    lab.check("a fenced trap is recorded", said.contains("trap"), &said);
    let alive = stage.outputs();
    lab.check(
        "the context lives on behind a fenced trap",
        alive.is_ok(),
        "",
    );
    let ran = alive?[0]
        .chunks_exact(4)
        .filter(|word| word[0] == 1)
        .count();
    let due = BLOCKS.1 as usize;
    lab.check(
        "the blocks that did not trap ran",
        ran == due,
        format!("{ran} of {due}"),
    );
    Ok(())
}

/// Tells what a trap does to the context.
fn bare(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let cuda = lab.cuda;
    let module = cuda.load(&portable(PROBE))?;
    let function = cuda.function(&module, "trap_behind")?;
    let out = cuda.zeroed(256)?;
    let stream = cuda.stream(0)?;
    cuda.launch_words(
        &function,
        Shape::row(BLOCKS.0, 32),
        stream,
        &[BLOCKS.1.into(), out],
    )?;
    let ended = cuda.wait(stream).err().map_or(0, |error| error.code());
    lab.fact("code of a trap", ended);
    lab.check("a trap is an error of the wait", ended != 0, ended);
    let next = cuda.alloc(4096).err().map_or(0, |error| error.code());
    lab.check(
        "the error stays",
        next == ended,
        format!("{next} behind {ended}"),
    );
    Ok(())
}
