//! A mix on the SM model's plan mode.
//!
//! Rules: every program has memory of its own; the buffers of our kernels are as at first before each launch, and what
//! each launch left in them is compared with the host reference; buffers of users' kernels keep what is in them.

use super::member::Member;
use super::spec::{Source, UserKernel};
use crate::commands::sim::loading::{Room, Wanted, fetch, lay_out, memory_bytes, place_all};
use crate::commands::sim::play::{self, Planned, Program, Run};
use crate::commands::sim::ptx_file::{PtxFile, with_shown_name};
use crate::commands::sim::replay::{StandIns, queue};
use crate::failure::Failure;
use anyhow::Context;
use gridmux_hw_model::{DomainId, Gpu, GpuConfig, Partition, QueueId, Submission};
use gridmux_policy::Profiles;
use gridmux_policy::units::Cycles;
use gridmux_workloads::{Arg, Case, Role, Size, Workload};
use std::rc::Rc;

/// Memory beside the buffers of one of our kernels.
const SPARE_BYTES: u64 = 1 << 30;

/// A mix on the model.
#[derive(Debug)]
pub(super) struct OnModel<'a> {
    pub(super) config: &'a GpuConfig,
    /// Threads that run the model.
    pub(super) threads: u16,
    /// Cycles that a launch of a user's kernel may take.
    pub(super) budget: Cycles,
    pub(super) members: &'a [Member],
}

/// What came of the results of a program: `None` where there is nothing to compare with, else what is wrong.
pub(super) type Verdict = Option<Result<(), String>>;

/// A launch, loaded into a GPU, and what is to be done with its buffers.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) submission: Submission,
    results: Option<Results>,
    wanted: Vec<Wanted>,
    partition: Partition,
}

/// The results of one of our kernels.
#[derive(Debug)]
struct Results {
    case: Case,
    domain: DomainId,
    /// Addresses of the buffers that the kernel writes.
    addresses: Vec<u64>,
    /// The contents of these buffers before a launch.
    initial: Vec<Vec<u8>>,
    /// Contents that equalled the reference.
    right: Option<Vec<Vec<u8>>>,
    wrong: Option<String>,
}

impl OnModel<'_> {
    /// Runs some members, each from its offset on. `keep` says whether buffers go to the files that users named.
    pub(super) fn run(
        &self,
        policy: (&str, &Profiles),
        take: &[(usize, u64)],
        keep: bool,
    ) -> Result<(Run, Vec<Verdict>), Failure> {
        let mut gpu = Gpu::new(self.config.clone());
        gpu.set_threads(self.threads.into());
        let (mut programs, mut loaded, mut first) = (Vec::new(), Vec::new(), 0);
        for (member, offset) in take {
            let member = &self.members[*member];
            let loaded_program = program(&mut gpu, (member, self.budget), *offset, first);
            let (program, kernel) = loaded_program.map_err(|error| error.of(&member.spec.name))?;
            first += member.streams();
            programs.push(program);
            loaded.push(kernel);
        }
        let mut driver = play::driver(gpu, policy)?;
        let run = play::run(&mut driver, &programs, |gpu, program| {
            let results = loaded[program].as_mut();
            match results.and_then(|loaded| loaded.results.as_mut()) {
                Some(results) => results.judge(gpu),
                None => Ok(()),
            }
        })?;
        for loaded in loaded.iter().flatten().filter(|_| keep) {
            for wanted in &loaded.wanted {
                fetch(driver.engine(), loaded.partition, wanted)?;
            }
        }
        let verdict = |loaded: Option<Loaded>| {
            let wrong = loaded?.results?.wrong;
            Some(wrong.map_or(Ok(()), Err))
        };
        Ok((run, loaded.into_iter().map(verdict).collect()))
    }
}

/// Loads a member into a GPU; its first stream has that number among those of all members.
fn program(
    gpu: &mut Gpu,
    (member, budget): (&Member, Cycles),
    offset_ns: u64,
    first_stream: usize,
) -> Result<(Program<Submission>, Option<Loaded>), Failure> {
    let program = |streams| Program {
        name: member.spec.name.clone(),
        weight: member.spec.weight,
        class: member.spec.class,
        streams,
    };
    if let (Source::Trace { arrivals, .. }, Some(recording)) =
        (&member.spec.source, &member.recording)
    {
        let stand_ins = StandIns::load(gpu, recording)?;
        let streams = stand_ins.streams(recording, (*arrivals, offset_ns), first_stream);
        return Ok((program(streams), None));
    }
    let loaded = load(gpu, (member, budget), queue(first_stream))?;
    let submission = Rc::new(loaded.submission.clone());
    let planned = |(_, arrival)| Planned {
        submission: Rc::clone(&submission),
        arrival,
    };
    let streams = member.arrivals(offset_ns).into_iter();
    let streams = streams.map(|stream| stream.into_iter().map(planned).collect());
    Ok((program(streams.collect()), Some(loaded)))
}

/// Loads the kernel of a member that is no trace.
pub(super) fn load(
    gpu: &mut Gpu,
    (member, budget): (&Member, Cycles),
    queue: QueueId,
) -> Result<Loaded, Failure> {
    match &member.spec.source {
        Source::Own { workload, size } => own(gpu, workload, *size, queue),
        Source::Ptx(kernel) => users(gpu, (kernel, budget), queue),
        Source::ErcBench(_) | Source::Trace { .. } => Err(no_code(&member.spec.name)),
    }
}

/// Returns the failure of a workload of which only shapes and durations are known.
pub(super) fn no_code(name: &str) -> Failure {
    let message = format!(
        "{name}: the code of ERCBench's kernels is not here, only their shapes and durations, which the model cannot \
         run"
    );
    Failure::usage(message).hint("run the mix with --on event")
}

fn own(gpu: &mut Gpu, workload: &Workload, size: Size, queue: QueueId) -> Result<Loaded, Failure> {
    let case = workload.case(size, 1);
    let room = Room::whole(gpu, case.buffer_bytes().saturating_add(SPARE_BYTES))?;
    let domain = room.partition.domain;
    let module = gridmux_ptx::Module::parse(workload.ptx)?;
    let loaded = gpu.load(domain, &module.decode()?, workload.ptx.as_bytes())?;
    let kernel = loaded.kernel(workload.entry);
    let kernel = kernel.with_context(|| format!("{} has no kernel", workload.name))?;
    let (mut addresses, mut written) = (Vec::new(), Vec::new());
    for arg in &case.args {
        if let Arg::Buffer { bytes, role } = arg {
            let address = gpu.memory_mut().alloc(domain, bytes.len() as u64)?;
            gpu.memory_mut().write(domain, address, bytes)?;
            addresses.push(address);
            if *role != Role::In {
                written.push(address);
            }
        }
    }
    Ok(Loaded {
        submission: Submission {
            queue,
            kernel,
            grid: case.grid,
            block: case.block,
            dynamic_shared_bytes: case.dynamic_shared_bytes,
            params: case.pack_params(&addresses),
            budget: None,
        },
        results: Some(Results {
            initial: case.initial_outputs(),
            case,
            domain,
            addresses: written,
            right: None,
            wrong: None,
        }),
        wanted: Vec::new(),
        partition: room.partition,
    })
}

fn users(
    gpu: &mut Gpu,
    (kernel, budget): (&UserKernel, Cycles),
    queue: QueueId,
) -> Result<Loaded, Failure> {
    let file = &kernel.file;
    let room = Room::whole(gpu, memory_bytes(&kernel.args))?;
    let mut wanted = Vec::new();
    let values = place_all(gpu, room, &kernel.args, &mut wanted)?;
    let text = PtxFile::read(file)?;
    let name = text.kernel(&kernel.entry)?;
    let found = text
        .load(gpu, room, &name)
        .map_err(|failure| with_shown_name(failure, &name))?;
    Ok(Loaded {
        submission: Submission {
            queue,
            params: lay_out(&found, &values, None)?,
            kernel: found,
            grid: kernel.grid,
            block: kernel.block,
            dynamic_shared_bytes: kernel.shared,
            budget: Some(budget),
        },
        results: None,
        wanted,
        partition: room.partition,
    })
}

impl Results {
    /// Compares what a launch left in its buffers with the reference, and makes them ready for the next one.
    fn judge(&mut self, gpu: &mut Gpu) -> Result<(), Failure> {
        let memory = gpu.memory_mut();
        let mut outputs = Vec::with_capacity(self.addresses.len());
        for (address, initial) in self.addresses.iter().zip(&self.initial) {
            let mut bytes = vec![0; initial.len()];
            memory.read(self.domain, *address, &mut bytes)?;
            memory.write(self.domain, *address, initial)?;
            outputs.push(bytes);
        }
        // The reference takes a while; equal inputs give equal bytes, unless threads race for their places.
        if self.right.as_ref() == Some(&outputs) {
            return Ok(());
        }
        match self.case.verify(&outputs) {
            Ok(()) => self.right = Some(outputs),
            Err(mismatch) => self.wrong = Some(mismatch.to_string()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::own;
    use gridmux_hw_model::{Gpu, GpuConfig, QueueId};
    use gridmux_workloads::{Size, by_name};

    #[test]
    fn a_launch_that_did_not_run_has_wrong_results() {
        let mut gpu = Gpu::new(GpuConfig::builtin("gtx980").unwrap().scaled_to_sms(1));
        let workload = by_name("vecadd").unwrap();
        let loaded = own(&mut gpu, workload, Size::Tiny, QueueId(0)).unwrap();
        let mut results = loaded.results.unwrap();
        results.judge(&mut gpu).unwrap();
        let wrong = results.wrong.unwrap();
        assert!(wrong.contains("values are wrong"), "{wrong}");
    }
}
