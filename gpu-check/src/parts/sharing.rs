//! How two kernels share the memory's bandwidth: readers and writers of one block on each SM, alone and together.

use super::Part;
use crate::cuda::{Function, Shape};
use crate::kernels::PROBE;
use crate::lab::Lab;
use gridmux_workloads::portable;

pub(super) const PART: Part = Part {
    name: "sharing",
    about: "how readers and writers on two streams share the memory's bandwidth",
    usual_s: 1,
    limit_s: 40,
    run,
};

/// Threads of a block: two blocks fill an SM.
const THREADS: u32 = 1024;

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let cuda = lab.cuda;
    let module = cuda.load(&portable(PROBE))?;
    let kernels = [
        ("reader", cuda.function(&module, "pull")?),
        ("writer", cuda.function(&module, "push")?),
    ];
    let bytes: u64 = lab.scale.choose(1 << 20, 2 << 30);
    let turns = lab.scale.choose(1, 4);
    let data = [cuda.zeroed(bytes)?, cuda.zeroed(bytes)?];
    let out = cuda.zeroed(256)?;
    let streams = [cuda.stream(0)?, cuda.stream(0)?];
    let events = [
        [cuda.event(true)?, cuda.event(true)?],
        [cuda.event(true)?, cuda.event(true)?],
    ];
    let shape = Shape::row(cuda.sms()?, THREADS);
    let submit = |n: usize, function: &Function| -> anyhow::Result<()> {
        cuda.record(events[n][0], streams[n])?;
        cuda.launch_words(
            function,
            shape,
            streams[n],
            &[data[n], bytes / 8, turns, out],
        )?;
        Ok(cuda.record(events[n][1], streams[n])?)
    };
    let took = |n: usize| cuda.elapsed_us(events[n][0], events[n][1]);
    let gigabytes = |us: f64| (bytes * turns) as f64 / us / 1e3;
    let mut alone = Vec::new();
    for (name, function) in &kernels {
        submit(0, function)?;
        cuda.wait_for_all()?;
        submit(0, function)?;
        cuda.wait_for_all()?;
        alone.push(took(0)?);
        lab.figure(format!("a {name} alone"), gigabytes(took(0)?), "GB/s");
    }
    for (one, other) in [(0, 0), (0, 1), (1, 1)] {
        submit(0, &kernels[one].1)?;
        submit(1, &kernels[other].1)?;
        cuda.wait_for_all()?;
        let pair = format!("a {} beside a {}", kernels[one].0, kernels[other].0);
        let slowdowns = [took(0)? / alone[one], took(1)? / alone[other]];
        lab.figure(
            format!("{pair}: the first's slowdown"),
            slowdowns[0],
            "ratio",
        );
        lab.figure(
            format!("{pair}: the second's slowdown"),
            slowdowns[1],
            "ratio",
        );
    }
    Ok(())
}
