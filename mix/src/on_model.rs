//! A mix on the SM model's plan mode.
//!
//! Rules: every program has memory of its own; the buffers of our kernels are as at first before each launch, and what
//! each launch left in them is compared with the host reference; buffers of users' kernels keep what is in them.

use crate::driver::Driver;
use crate::error::MixError;
use crate::member::{Member, Source};
use crate::model::{ModelSubmission, OwnKernel};
use crate::play::{self, Choice, Counted, Planned, Played, Program, Run};
use crate::replay::{StandIns, queue};
use gridmux_hw_model::{Counters, Gpu, GpuConfig, QueueId};
use std::rc::Rc;

/// A mix on the model.
#[derive(Debug)]
pub struct OnModel<'a> {
    /// The GPU.
    pub config: &'a GpuConfig,
    /// Threads that run the model.
    pub threads: u16,
    /// The members.
    pub members: &'a [Member],
}

/// What came of the results of a program: `None` where there is nothing to compare with, else what is wrong.
pub type Verdict = Option<Result<(), String>>;

/// A launch, loaded into a GPU.
#[derive(Debug)]
pub(crate) enum Loaded {
    /// Of a kernel of ours.
    Own(Box<OwnKernel>),
    /// Of a kernel of the user's.
    User(ModelSubmission),
}

impl Loaded {
    pub(crate) fn submission(&self) -> &ModelSubmission {
        match self {
            Self::Own(own) => &own.submission,
            Self::User(submission) => submission,
        }
    }
}

impl OnModel<'_> {
    /// Runs some members, each from its offset on. Returns the GPU as well, with what the launches left in it.
    ///
    /// # Errors
    /// [`MixError`].
    pub fn run<'p>(
        &self,
        policy: impl Into<Choice<'p>>,
        take: &[(usize, u64)],
    ) -> Result<(Run, Vec<Verdict>, Gpu), MixError> {
        let mut gpu = Gpu::new(self.config.clone());
        gpu.set_threads(self.threads.into());
        let (mut programs, mut loaded, mut first) = (Vec::new(), Vec::new(), 0);
        for (member, offset) in take {
            let member = &self.members[*member];
            let (program, kernel) = program(&mut gpu, member, *offset, first)?;
            first += member.streams();
            programs.push(program);
            loaded.push(kernel);
        }
        let mut driver = play::driver(gpu, policy)?;
        let mut run = play::run(&mut driver, &programs, |gpu, program| {
            match loaded[program].as_mut() {
                Some(Loaded::Own(own)) => Ok(own.judge(gpu)?),
                Some(Loaded::User(_)) | None => Ok(()),
            }
        })?;
        for ((member, _), played) in take.iter().zip(&mut run.played) {
            // What stands for a recorded kernel does something else than it did.
            if self.members[*member].recording().is_none() {
                played.counted = Some(self.counted(&driver, played));
            }
        }
        let verdict = |loaded: Option<Loaded>| match loaded? {
            Loaded::Own(own) => Some(own.wrong().map_or(Ok(()), |wrong| Err(wrong.to_owned()))),
            Loaded::User(_) => None,
        };
        let verdicts = loaded.into_iter().map(verdict).collect();
        Ok((run, verdicts, driver.into_engine()))
    }
}

impl OnModel<'_> {
    /// Returns what the launches of a program did.
    fn counted(&self, driver: &Driver<Gpu>, played: &Played) -> Counted {
        let mut sum = Counters::default();
        let outcomes = played.numbers.iter().map(|number| driver.outcome(*number));
        for counters in outcomes.filter_map(|outcome| outcome?.counters.as_ref()) {
            sum += *counters;
        }
        Counted {
            ipc: sum.ipc(self.config.ns_to_cycles(played.under_way_ns())),
            energy_microjoules: sum.event_microjoules(self.config),
        }
    }
}

/// Loads a member into a GPU; its first stream has that number among those of all members.
fn program(
    gpu: &mut Gpu,
    member: &Member,
    offset_ns: u64,
    first_stream: usize,
) -> Result<(Program<ModelSubmission>, Option<Loaded>), MixError> {
    let program = |streams| Program {
        name: member.name.clone(),
        weight: member.weight,
        class: member.class,
        streams,
    };
    if let Source::Recorded {
        recording,
        arrivals,
    } = &member.source
    {
        let stand_ins = StandIns::load(gpu, recording)?;
        let streams = stand_ins.streams(recording, (*arrivals, offset_ns), first_stream);
        return Ok((program(streams), None));
    }
    let loaded = load(gpu, member, queue(first_stream))?;
    let submission = Rc::new(loaded.submission().clone());
    let planned = |(_, arrival)| Planned {
        submission: Rc::clone(&submission),
        arrival,
    };
    let streams = member.arrivals(offset_ns).into_iter();
    let streams = streams.map(|stream| stream.into_iter().map(planned).collect());
    Ok((program(streams.collect()), Some(loaded)))
}

/// Loads the kernel of a member that is no recorded program.
pub(crate) fn load(gpu: &mut Gpu, member: &Member, queue: QueueId) -> Result<Loaded, MixError> {
    let program = || member.name.clone();
    match &member.source {
        Source::Own { workload, size } => {
            let own = OwnKernel::load(gpu, workload.case(*size, 1), queue);
            let own = own.map_err(|source| MixError::Own {
                program: program(),
                source,
            })?;
            Ok(Loaded::Own(Box::new(own)))
        }
        Source::User(kernel) => {
            let loaded = kernel.load(gpu, queue);
            let loaded = loaded.map_err(|source| MixError::User {
                program: program(),
                source,
            })?;
            Ok(Loaded::User(loaded))
        }
        Source::ErcBench(_) | Source::Recorded { .. } => {
            Err(MixError::NoCode { program: program() })
        }
    }
}
