//! A mix on the `event` executor.
//!
//! Rules: our kernels have the shapes of `policy/data/kernels.toml` on the GPU where these were measured; on another
//! one they are measured first, alone on the model, as users' kernels are; blocks of a recorded program stay as long as
//! they did while that program is alone. What was measured or recorded with few blocks on an SM counts as work at full
//! residency ([`EventConfig::work_of`]).

use super::member::Member;
use super::on_model::load;
use super::spec::Source;
use crate::commands::sim::loading::BUDGET_HINT;
use crate::commands::sim::play::{self, NEVER, Planned, Program, Run};
use crate::commands::sim::recording::Recording;
use crate::commands::sim::replay::{StandIns, queue};
use crate::failure::Failure;
use crate::files;
use anyhow::Context;
use gridmux_hw_model::{Gpu, GpuConfig, MeasureError, QueueId, StandIn, event_config, measure};
use gridmux_policy::Profiles;
use gridmux_policy::driver::Engine;
use gridmux_policy::executor::{
    EventConfig, EventExecutor, EventKernel, EventSubmission, MEASURED_ON, Work, measured_kernels,
};
use gridmux_policy::hash::Fnv;
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::Cycles;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// A mix on the event executor.
#[derive(Debug)]
pub(super) struct OnEvent<'a> {
    config: EventConfig,
    members: &'a [Member],
    /// For each member its launch, or those of its trace in their order.
    launches: Vec<Vec<EventSubmission>>,
}

impl<'a> OnEvent<'a> {
    /// Finds the shape of every member; a launch that is measured may take `budget` cycles; `progress` gets the name of
    /// each that has to be measured.
    pub(super) fn new(
        gpu: &GpuConfig,
        (members, budget): (&'a [Member], Cycles),
        mut progress: impl FnMut(&str),
    ) -> Result<Self, Failure> {
        let config = event_config(gpu);
        let mut launches = Vec::new();
        for member in members {
            launches.push(match (&member.spec.source, &member.recording) {
                (Source::ErcBench(kernel), _) => vec![kernel.submission(&config.shape)],
                (Source::Own { workload, size }, _) if is_measured(gpu) => {
                    vec![from_table(workload.name, &size.to_string())?]
                }
                (_, Some(recording)) => recorded(gpu, config, recording)?,
                _ => {
                    progress(&member.spec.name);
                    vec![measured(gpu, config, (member, budget))?]
                }
            });
        }
        Ok(Self {
            config,
            members,
            launches,
        })
    }

    /// Runs some members, each from its offset on.
    pub(super) fn run(
        &self,
        policy: (&str, &Profiles),
        take: &[(usize, u64)],
    ) -> Result<Run, Failure> {
        let (mut programs, mut first) = (Vec::new(), 0);
        for (place, offset) in take {
            let member = &self.members[*place];
            let launches = &self.launches[*place];
            let planned = |(stream, arrivals): (usize, Vec<(usize, play::Arrival)>)| {
                let queue = u32::from(queue(stream).0);
                let launch = |(at, arrival): (usize, play::Arrival)| Planned {
                    submission: Rc::new(EventSubmission {
                        queue,
                        ..launches[at].clone()
                    }),
                    arrival,
                };
                arrivals.into_iter().map(launch).collect()
            };
            let streams = (first..).zip(member.arrivals(*offset)).map(planned);
            programs.push(Program {
                name: member.spec.name.clone(),
                weight: member.spec.weight,
                class: member.spec.class,
                streams: streams.collect(),
            });
            first += member.streams();
        }
        let mut driver = play::driver(EventExecutor::new(self.config), policy)?;
        play::run(&mut driver, &programs, |_, _| Ok(()))
    }
}

/// Returns whether a GPU is the one of the table of measured kernels, but for the number of its SMs.
fn is_measured(gpu: &GpuConfig) -> bool {
    let built_in = GpuConfig::builtin(MEASURED_ON);
    built_in.is_ok_and(|on| on.scaled_to_sms(gpu.sm.count) == *gpu)
}

fn kernel(name: &str, block: BlockShape) -> Arc<EventKernel> {
    Arc::new(EventKernel {
        name: name.to_owned(),
        block,
        pressure: 1.0,
        sensitivity: 1.0,
    })
}

/// Returns a kernel of ours as the table has it.
fn from_table(name: &str, size: &str) -> Result<EventSubmission, Failure> {
    let of_size = measured_kernels(size).into_iter();
    let found = of_size.into_iter().find(|kernel| kernel.name == name);
    let found = found.with_context(|| format!("{name} has not been measured"))?;
    let on = event_config(&GpuConfig::builtin(MEASURED_ON)?);
    let mut submission = found.submission();
    if let Work::Random { mean, .. } = &mut submission.work {
        *mean = on.work_of(&found.block, found.blocks, *mean);
    }
    Ok(submission)
}

/// Measures a kernel alone on the model.
fn measured(
    gpu: &GpuConfig,
    config: EventConfig,
    (member, budget): (&Member, Cycles),
) -> Result<EventSubmission, Failure> {
    let name = &member.spec.name;
    let mut model = Gpu::new(gpu.clone());
    let loaded = load(&mut model, (member, budget), QueueId(0)).map_err(|error| error.of(name))?;
    let mut submission = loaded.submission;
    // As the limit of the measurement, the budget leads to an error of its own kind.
    let own_budget = submission.budget.take();
    let measured = measure(model, submission, own_budget.unwrap_or(NEVER)).map_err(|error| {
        let is_given_up = matches!(error, MeasureError::Endless { .. }) && own_budget.is_some();
        let error = anyhow::Error::from(error);
        let failure = Failure::from(error.context(format!("{name}, measured alone on the model")));
        match is_given_up {
            true => failure.hint(BUDGET_HINT),
            false => failure,
        }
    })?;
    // Profiles are kept under a kernel's name, which for a user's is that of its code.
    let known_as = match &member.spec.source {
        Source::Ptx(kernel) => {
            let text = files::bytes(&kernel.file, files::MOST_PTX)?;
            format!(
                "{:016x} {}",
                Fnv::default().bytes(&text).finish(),
                kernel.entry
            )
        }
        _ => name.clone(),
    };
    let (block, blocks) = (measured.block, measured.durations.len() as u64);
    let durations = measured.durations.iter();
    let work = durations.map(|ran| config.work_of(&block, blocks, f64::from(*ran)).round());
    Ok(EventSubmission {
        queue: 0,
        kernel: kernel(&known_as, block),
        blocks,
        work: Work::Measured(work.collect()),
    })
}

/// Returns the launches of a recording.
#[allow(
    clippy::cast_precision_loss,
    reason = "a stay in cycles to 53 bits is exact enough"
)]
fn recorded(
    gpu: &GpuConfig,
    config: EventConfig,
    recording: &Recording,
) -> Result<Vec<EventSubmission>, Failure> {
    let mut model = Gpu::new(gpu.clone());
    let stand_ins = StandIns::load(&mut model, recording)?;
    let mut kernels: HashMap<(&StandIn, BlockShape), Arc<EventKernel>> = HashMap::new();
    let mut launches = Vec::with_capacity(recording.launches.len());
    for launch in &recording.launches {
        let name = &launch.kernel.name;
        let described = model.describe(&stand_ins.submission(launch, QueueId(0)));
        let described = described.map_err(|error| {
            Failure::new(format!("{name}: {error}"))
                .hint("replay on a GPU that is at least as large as the recorded one, with --gpu")
        })?;
        let (block, blocks) = (described.block, described.blocks);
        let kernel = kernels
            .entry((&launch.kernel, block))
            .or_insert_with(|| kernel(name, block));
        let stay = gpu.ns_to_cycles(launch.stay_ns) as f64;
        let work = config.work_of(&block, blocks, stay).round();
        launches.push(EventSubmission {
            queue: 0,
            kernel: Arc::clone(kernel),
            blocks,
            work: Work::Measured(Arc::new([work])),
        });
    }
    Ok(launches)
}
