//! Functional runs on the device's memory: launches without timing.
//!
//! Rules: device time does not pass. A run does not count as a launch in flight: before memory is freed or a domain
//! destroyed, the caller ends the runs that use it.

use super::Gpu;
use crate::counters::Counters;
use crate::explain::attribute;
use crate::fault::Fault;
use crate::functional::{Functional, FunctionalRun};
use crate::launch::{self, Launch, LaunchError, Workspace};
use crate::memory::DomainId;

/// Storage of ended runs that is kept for others; each holds a block's registers, shared and local memory.
const KEPT: usize = 4;

/// Runs one launch to its end without timing; blocks begin in ascending order.
///
/// # Errors
/// The launch's [`Fault`], or the limit that it does not keep.
pub fn run_functional(gpu: &mut Gpu, request: &Launch<'_>) -> Result<Counters, RunError> {
    let run = gpu.begin_functional(request)?;
    run_to_end(gpu, run)
}

/// Runs one cooperative launch to its end without timing, as [`Gpu::launch_cooperative`] does with it.
///
/// # Errors
/// As [`run_functional`] and [`Gpu::launch_cooperative`].
pub fn run_functional_cooperative(
    gpu: &mut Gpu,
    request: &Launch<'_>,
    workspace: Workspace,
) -> Result<Counters, RunError> {
    let run = gpu.begin_functional_cooperative(request, workspace)?;
    run_to_end(gpu, run)
}

fn run_to_end(gpu: &mut Gpu, mut run: FunctionalRun) -> Result<Counters, RunError> {
    let mut ended = Ok(false);
    while matches!(ended, Ok(false)) {
        ended = gpu.step_functional(&mut run, u64::MAX);
    }
    let counters = gpu.end_functional(run);
    ended.map(|_| counters)
}

/// Why a functional run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The launch was refused.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// It faulted.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
}

impl Gpu {
    /// Begins a run of a launch without timing; nothing of it is executed yet.
    ///
    /// # Errors
    /// The limit that the launch does not keep.
    pub fn begin_functional(&mut self, request: &Launch<'_>) -> Result<FunctionalRun, LaunchError> {
        launch::check(&self.config, request)?;
        if self.memory.domain(request.domain).is_err() {
            return Err(no_domain(request.domain, &request.kernel.name));
        }
        let storage = self.functional.pop().unwrap_or_else(Functional::new);
        Ok(FunctionalRun::new(&self.config, request, storage))
    }

    /// Begins a run of a cooperative launch, as [`Gpu::launch_cooperative`] queues one; nothing of it is executed yet.
    ///
    /// # Errors
    /// As [`Gpu::begin_functional`], and [`LaunchError::NotAtOnce`], [`LaunchError::HostMemory`],
    /// [`LaunchError::Workspace`] and [`LaunchError::NoWorkspace`].
    pub fn begin_functional_cooperative(
        &mut self,
        request: &Launch<'_>,
        workspace: Workspace,
    ) -> Result<FunctionalRun, LaunchError> {
        let mut run = self.begin_functional(request)?;
        let found = launch::check_at_once(&self.config, request)
            .and_then(|()| run.take_room(&mut self.live_room))
            .and_then(|()| self.make_workspace(request.domain, workspace));
        match found {
            Ok(words) => Ok(run.cooperative(words, workspace)),
            Err(error) => {
                self.end_functional(run);
                Err(error)
            }
        }
    }

    /// Goes on with a run for about `most` warp instructions: a warp's turn of a thousand is never cut short.
    /// Returns whether all blocks have ended. After an error the run can only be ended.
    ///
    /// # Errors
    /// The launch's [`Fault`], or the domain is gone.
    pub fn step_functional(
        &mut self,
        run: &mut FunctionalRun,
        most: u64,
    ) -> Result<bool, RunError> {
        let Ok(domain) = self.memory.domain(run.domain()) else {
            return Err(no_domain(run.domain(), run.kernel_name()).into());
        };
        let around = (&mut self.printed, &mut self.live_room);
        let stepped = run.step(domain, most, around);
        Ok(stepped.map_err(|mut fault| {
            attribute(&mut fault, &self.memory, run.domain());
            fault
        })?)
    }

    /// Ends a run, wherever it stands; returns what it did.
    pub fn end_functional(&mut self, run: FunctionalRun) -> Counters {
        let counters = *run.counters();
        self.live_room.end(&run);
        if let Some(workspace) = run.own_workspace() {
            self.drop_workspace(run.domain(), workspace);
        }
        if self.functional.len() < KEPT {
            self.functional.push(run.into_storage());
        }
        counters
    }
}

fn no_domain(domain: DomainId, kernel: &str) -> LaunchError {
    LaunchError::WrongDomain {
        kernel: kernel.to_owned(),
        domain,
    }
}
