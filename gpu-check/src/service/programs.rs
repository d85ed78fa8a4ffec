//! A client's programs: launches of gridmux's workloads, each program on a stream of its own.

use super::job::{Program, Report};
use crate::cuda::{Function, Session, Shape};
use crate::formed::Stage;
use anyhow::{Context, ensure};
use gridmux_workloads::{Arg, Case, Role, Size, by_name, portable};

/// Seed of all inputs.
const SEED: u64 = 20;

/// Makes the inputs of programs.
///
/// # Errors
/// There is no such workload or size; or it changes its inputs, so that its launches are not all alike.
pub(super) fn cases(programs: &[Program]) -> anyhow::Result<Vec<Case>> {
    let case = |program: &Program| {
        let name = &program.workload;
        let workload = by_name(name).with_context(|| format!("there is no workload {name}"))?;
        let size: Size = program.size.parse()?;
        let case = workload.case(size, SEED);
        let is_changed =
            |arg: &Arg| matches!(arg, Arg::Buffer { role, .. } if *role == Role::InOut);
        ensure!(
            !case.args.iter().any(is_changed),
            "{name} changes its inputs, so that its launches are not all alike"
        );
        Ok(case)
    };
    programs.iter().map(case).collect()
}

/// A program, set up.
#[derive(Debug)]
struct Lane<'a> {
    stage: Stage<'a>,
    case: &'a Case,
    function: Function,
    launches: u32,
    end: u64,
}

/// The programs of a job.
#[derive(Debug)]
pub(super) struct Programs<'a> {
    cuda: &'a Session,
    lanes: Vec<Lane<'a>>,
}

impl<'a> Programs<'a> {
    /// Loads kernels and allocates buffers; nothing of that is an operation of the device.
    pub(super) fn new(
        cuda: &'a Session,
        programs: &[Program],
        cases: &'a [Case],
    ) -> anyhow::Result<Self> {
        let lane = |(program, case): (&Program, &'a Case)| {
            let module = cuda.load(&portable(case.ptx))?;
            let function = cuda.function(&module, case.entry)?;
            cuda.allow_shared(&function, case.dynamic_shared_bytes)?;
            anyhow::Ok(Lane {
                stage: Stage::new(cuda, case)?,
                case,
                function,
                launches: program.launches,
                end: cuda.event(true)?,
            })
        };
        let lanes: anyhow::Result<Vec<_>> = programs.iter().zip(cases).map(lane).collect();
        Ok(Self {
            cuda,
            lanes: lanes?,
        })
    }

    /// Runs them to their ends and judges their results.
    pub(super) fn run(&mut self) -> anyhow::Result<Report> {
        let cuda = self.cuda;
        for lane in &self.lanes {
            lane.stage.reset()?;
        }
        let zero = cuda.event(true)?;
        cuda.record(zero, self.lanes[0].stage.stream)?;
        let arguments: Vec<_> = self
            .lanes
            .iter()
            .map(|lane| lane.stage.arguments())
            .collect();
        let rounds = self.lanes.iter().map(|lane| lane.launches).max();
        for round in 0..rounds.unwrap_or(0) {
            for (lane, arguments) in self.lanes.iter().zip(&arguments) {
                if round >= lane.launches {
                    continue;
                }
                let shape = Shape {
                    grid: lane.case.grid,
                    block: lane.case.block,
                    shared_bytes: lane.case.dynamic_shared_bytes,
                };
                cuda.launch(&lane.function, shape, lane.stage.stream, arguments)?;
                if round + 1 == lane.launches {
                    cuda.record(lane.end, lane.stage.stream)?;
                }
            }
        }
        for lane in &self.lanes {
            cuda.wait(lane.stage.stream)?;
        }
        let times = self
            .lanes
            .iter()
            .map(|lane| cuda.elapsed_us(zero, lane.end));
        let programs_us = times.collect::<Result<Vec<_>, _>>()?;
        let mut verified = true;
        for lane in &self.lanes {
            verified &= lane.case.verify(&lane.stage.outputs()?).is_ok();
        }
        Ok(Report {
            launches: self.lanes.iter().map(|lane| u64::from(lane.launches)).sum(),
            programs_us,
            verified,
            ..Report::default()
        })
    }
}
