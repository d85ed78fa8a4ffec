//! How long a stop takes: from the host's decision until nothing of a kernel is on the device, by the time that a block
//! takes, for gates and for workers that take their tickets in each of the three ways.
//!
//! Rule: a stop behind which no blocks were left to run stopped nothing, and has no time.

use super::Part;
use crate::formed::{Formed, Stage, Work};
use crate::kernels::PROBE;
use crate::lab::Lab;
use gridmux_ptx::control::Taking;
use gridmux_ptx::forms::{Form, Shape};
use gridmux_ptx::protocol::{Host, Manner};
use gridmux_workloads::{Arg, Role};
use std::time::{Duration, Instant};

pub(super) const PART: Part = Part {
    name: "preemption",
    about: "how long a stop takes, by the time that a block takes",
    limit_s: 60,
    run,
};

/// Bytes that a block of the kernel notes.
const NOTES: usize = 24;

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    for block_us in lab.scale.choose(&[5][..], &[5, 20, 50, 200, 1000]) {
        one(lab, *block_us)?;
    }
    Ok(())
}

/// Times stops of all forms with blocks that take so long.
fn one(lab: &mut Lab<'_>, block_us: u64) -> anyhow::Result<()> {
    // A block of the model is one warp, because each warp that spins costs it time.
    let threads = lab.scale.choose(32, 256);
    let waves = lab.scale.choose(3, 40);
    let resident = lab.cuda.sms()? * lab.scale.choose(32, 8);
    let blocks = resident * waves;
    let args = [
        Arg::Buffer {
            bytes: vec![0; blocks as usize * NOTES],
            role: Role::Out,
        },
        Arg::U64(block_us * 1000),
        // A look at the timer takes longer than a nanosecond.
        Arg::U64(block_us * 1000),
    ];
    let work = Work {
        ptx: PROBE,
        entry: "spin",
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        dynamic_shared_bytes: 0,
        args: &args,
    };
    let stage = Stage::new(lab.cuda, work)?;
    for (form, taking) in [
        (Form::GATE, Taking::Ahead),
        (Form::WORKER, Taking::Ahead),
        (Form::WORKER, Taking::Late),
        (Form::WORKER, Taking::Warily),
    ] {
        let name = match form.shape {
            Shape::Worker => format!("{form}, tickets {taking:?}").to_lowercase(),
            _ => form.to_string(),
        };
        let name = format!("{name}, blocks of {block_us} us");
        let formed = match stage.form(form)? {
            Ok(formed) => formed,
            Err(refusal) => {
                lab.skipped(name, refusal);
                continue;
            }
        };
        let mut stops = Stops::default();
        for _ in 0..lab.scale.choose(2, 9) {
            stage.reset()?;
            let manner = Manner { chunk: 1, taking };
            if let Some(host) = formed.host(blocks, manner)? {
                stops.add(&formed, host, block_us)?;
                stops.lost += missing(&stage)?;
            }
        }
        let Stops { took, late, lost } = stops;
        lab.check(
            format!("{name}: every block ran"),
            lost == 0,
            format!("{lost} did not"),
        );
        lab.figure(
            format!("{name}: stops that came too late, left out"),
            f64::from(late),
            "stops",
        );
        lab.spread(&name, took, "us (wall)");
        formed.unload()?;
    }
    Ok(stage.clear()?)
}

/// What stops of a form have shown.
#[derive(Default)]
struct Stops {
    /// Wall time of each, in microseconds.
    took: Vec<f64>,
    /// Stops behind which no blocks were left to run.
    late: u32,
    /// Blocks that never ran.
    lost: usize,
}

impl Stops {
    /// Begins an instance, stops it after one and a half blocks' time, and lets it run to its end.
    fn add(&mut self, formed: &Formed<'_>, host: Host, block_us: u64) -> anyhow::Result<()> {
        let (mut instance, mut on) = formed.begin(host)?;
        instance.step(&mut on)?;
        std::thread::sleep(Duration::from_micros(block_us * 3 / 2));
        let start = Instant::now();
        instance.stop(&mut on)?;
        while !instance.is_idle() {
            on.hear(&mut instance)?;
        }
        let time = start.elapsed().as_secs_f64() * 1e6;
        on.drain(&mut instance)?;
        match instance.has_ended() {
            true => self.late += 1,
            false => self.took.push(time),
        }
        instance.resume(&mut on)?;
        formed.finish(instance, on, &mut |_, _| Ok(()))?;
        Ok(())
    }
}

/// Returns how many blocks have noted no end.
fn missing(stage: &Stage<'_>) -> anyhow::Result<usize> {
    let outputs = stage.outputs()?;
    let missing = outputs[0]
        .chunks_exact(NOTES)
        .filter(|notes| notes[8..16].iter().all(|byte| *byte == 0))
        .count();
    Ok(missing)
}
