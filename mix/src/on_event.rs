//! A mix on the `event` executor.
//!
//! Rules: our kernels have the shapes of `mix/data/kernels.toml` on the GPU where these were measured; on another
//! one, or with another number of SMs unless [`Shapes`] says otherwise, they are measured first, alone on the model, as
//! users' kernels are, and take as long alone as they did there ([`EventSubmission::lasting`]); blocks of a recorded
//! program stay as long as they did while that program is alone, which with few blocks on an SM is more work
//! ([`EventConfig::work_of`]).

use crate::driver::Engine;
use crate::error::MixError;
use crate::event::{
    Contention, EventConfig, EventExecutor, EventKernel, EventSubmission, MEASURED_ON, Uses, Work,
    measured_kernels,
};
use crate::member::{Member, Source};
use crate::model::{MeasureError, event_config, measure};
use crate::on_model::load;
use crate::play::{self, Choice, NEVER, Planned, Program, Run};
use crate::recording::Recording;
use crate::replay::{StandIns, queue};
use gridmux_hw_model::{Gpu, GpuConfig, QueueId, StandIn};
use gridmux_policy::shape::BlockShape;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// A mix on the event executor.
#[derive(Debug)]
pub struct OnEvent<'a> {
    config: EventConfig,
    members: &'a [Member],
    /// For each member its launch, or those of its trace in their order.
    launches: Vec<Vec<EventSubmission>>,
}

/// Where the table of measured kernels serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shapes {
    /// On the GPU of the table as it is.
    OfWhole,
    /// On that GPU with any number of SMs: what blocks lasted on all of them stands for what they last on fewer.
    OfAnySms,
}

impl<'a> OnEvent<'a> {
    /// Finds the shape of every member; `progress` gets the name of each that has to be measured.
    ///
    /// # Errors
    /// [`MixError`].
    pub fn new(
        gpu: &GpuConfig,
        members: &'a [Member],
        progress: impl FnMut(&str),
    ) -> Result<Self, MixError> {
        let how = (Contention::calibrated(), Shapes::OfWhole);
        Self::with(how, gpu, members, progress)
    }

    /// As [`OnEvent::new`], with other parameters than the calibrated ones, and with the table of measured kernels
    /// where that is wanted.
    ///
    /// # Errors
    /// [`MixError`].
    pub fn with(
        (contention, shapes): (Contention, Shapes),
        gpu: &GpuConfig,
        members: &'a [Member],
        mut progress: impl FnMut(&str),
    ) -> Result<Self, MixError> {
        let config = EventConfig {
            contention,
            ..event_config(gpu)
        };
        let mut launches = Vec::new();
        for member in members {
            launches.push(match &member.source {
                Source::ErcBench(kernel) => vec![kernel.submission(&config.shape)],
                Source::Own { workload, size } if shapes.serve(gpu) => {
                    vec![from_table(contention, workload.name, &size.to_string())?]
                }
                Source::Recorded { recording, .. } => recorded(gpu, config, recording)?,
                _ => {
                    progress(&member.name);
                    vec![measured(gpu, config, member)?]
                }
            });
        }
        Ok(Self {
            config,
            members,
            launches,
        })
    }

    /// Returns the members of whose kernels policies hear no samples, because it is not known what they use.
    pub fn unsampled(&self) -> impl Iterator<Item = &Member> {
        let is_unknown = |launches: &&Vec<EventSubmission>| {
            launches.iter().any(|of| of.kernel.uses == Uses::UNKNOWN)
        };
        let all = self.members.iter().zip(&self.launches);
        all.filter(move |(_, launches)| is_unknown(launches))
            .map(|(member, _)| member)
    }

    /// Runs some members, each from its offset on.
    ///
    /// # Errors
    /// [`MixError`].
    pub fn run<'p>(
        &self,
        policy: impl Into<Choice<'p>>,
        take: &[(usize, u64)],
    ) -> Result<Run, MixError> {
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
                name: member.name.clone(),
                weight: member.weight,
                class: member.class,
                streams: streams.collect(),
            });
            first += member.streams();
        }
        let mut driver = play::driver(EventExecutor::new(self.config), policy)?;
        play::run(&mut driver, &programs, |_, _| Ok(()))
    }
}

impl Shapes {
    /// Returns whether the table serves on a GPU.
    fn serve(self, gpu: &GpuConfig) -> bool {
        GpuConfig::builtin(MEASURED_ON).is_ok_and(|on| match self {
            Self::OfWhole => on == *gpu,
            Self::OfAnySms => on.scaled_to_sms(gpu.sm.count) == *gpu,
        })
    }
}

fn kernel(name: &str, block: BlockShape, uses: Uses) -> Arc<EventKernel> {
    Arc::new(EventKernel {
        name: name.to_owned(),
        block,
        pressure: 1.0,
        sensitivity: 1.0,
        uses,
    })
}

/// Returns a kernel of ours as the table has it.
fn from_table(contention: Contention, name: &str, size: &str) -> Result<EventSubmission, MixError> {
    let of_size = measured_kernels(size).into_iter();
    let found = of_size.into_iter().find(|kernel| kernel.name == name);
    let found = found.ok_or_else(|| MixError::NotInTable(name.to_owned()))?;
    let on = GpuConfig::builtin(MEASURED_ON).expect("the table's GPU is built in");
    let on = EventConfig {
        contention,
        ..event_config(&on)
    };
    Ok(found.submission(&on).expect("it ran there"))
}

/// Measures a kernel alone on the model.
fn measured(
    gpu: &GpuConfig,
    config: EventConfig,
    member: &Member,
) -> Result<EventSubmission, MixError> {
    let mut model = Gpu::new(gpu.clone());
    let loaded = load(&mut model, member, QueueId(0))?;
    let mut submission = loaded.submission().clone();
    // As the limit of the measurement, the budget leads to an error of its own kind.
    let budget = submission.budget.take();
    let measured = measure(model, submission, budget.unwrap_or(NEVER));
    let measured = measured.map_err(|source| MixError::NotMeasured {
        program: member.name.clone(),
        given_up: matches!(source, MeasureError::Endless { .. }) && budget.is_some(),
        source,
    })?;
    let known_as = match &member.source {
        Source::User(kernel) => kernel.known_as(),
        _ => member.name.clone(),
    };
    let durations = measured.durations.iter().map(|ran| f64::from(*ran));
    let submission = EventSubmission {
        queue: 0,
        kernel: kernel(&known_as, measured.block, measured.uses),
        blocks: measured.durations.len() as u64,
        work: Work::Measured(durations.collect()),
    };
    let lasting = submission.lasting(&config, measured.runtime);
    Ok(lasting.expect("it ran on the model of this device"))
}

/// Returns the launches of a recording.
fn recorded(
    gpu: &GpuConfig,
    config: EventConfig,
    recording: &Recording,
) -> Result<Vec<EventSubmission>, MixError> {
    let mut model = Gpu::new(gpu.clone());
    let stand_ins = StandIns::load(&mut model, recording)?;
    let mut kernels: HashMap<(&StandIn, BlockShape), Arc<EventKernel>> = HashMap::new();
    let mut launches = Vec::with_capacity(recording.launches.len());
    for launch in &recording.launches {
        let name = &launch.kernel.name;
        let described = model.describe(&stand_ins.submission(launch, QueueId(0)));
        let described = described.map_err(|error| MixError::LargerThanRecorded {
            kernel: name.clone(),
            why: error.to_string(),
        })?;
        let (block, blocks) = (described.block, described.blocks);
        let kernel = kernels
            .entry((&launch.kernel, block))
            .or_insert_with(|| kernel(name, block, Uses::UNKNOWN));
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
