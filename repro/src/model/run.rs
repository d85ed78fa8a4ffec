//! Mixes of our kernels on the model in plan mode, with every block's event.
//!
//! Rule: each launch is of a tenant of its own and in a queue of its own; a run that does not end by [`LATEST`] fails.

use super::{Sized, submission};
use anyhow::{Context, Result, ensure};
use gridmux_hw_model::{BlockChange, Gpu, GpuConfig};
use gridmux_mix::model::ModelDriver;
use gridmux_mix::{DriverOptions, Engine};
use gridmux_policy::ids::ProfileKey;
use gridmux_policy::shape::{BlockShape, DeviceShape, max_residency};
use gridmux_policy::units::Cycles;
use gridmux_policy::{Class, DeviceId, Policy, Profiles, TenantId};
use serde::{Deserialize, Serialize};

/// No mix takes as many cycles.
const LATEST: Cycles = Cycles(1 << 40);

/// What runs on which GPU.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    /// The GPU.
    pub(crate) gpu: GpuConfig,
    /// Kernels, and when each arrives in cycles.
    pub(crate) launches: Vec<(Sized, u64)>,
}

/// How a mix went.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Ran {
    /// SMs of the device.
    pub(crate) sms: u16,
    /// Each launch, in order.
    pub(crate) launches: Vec<Traced>,
    /// Starts and ends of blocks in order of time: cycle, SM, launch, and for an end how long the block was resident.
    pub(crate) blocks: Vec<(u64, u16, u32, Option<u64>)>,
}

/// A launch.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Traced {
    /// The kernel.
    pub(crate) kernel: String,
    /// What a block takes.
    pub(crate) block: BlockShape,
    /// Blocks of its grid.
    pub(crate) blocks: u64,
    /// Blocks that an SM holds when they are alone.
    pub(crate) resident: u16,
    /// When it arrived, when its first block started and its last one ended, in cycles.
    pub(crate) arrival: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Traced {
    /// Returns the time from arrival to end.
    pub(crate) fn turnaround(&self) -> u64 {
        self.end - self.arrival
    }
}

impl Mix {
    /// Runs the mix; `policy` is made for the device and the launches, each with the name under which its kernel's
    /// profile is kept. Blocks are kept if `record` says so; a store `learning` is filled with what runs.
    pub(crate) fn run(
        &self,
        record: bool,
        learning: Option<&Profiles>,
        policy: impl FnOnce(&DeviceShape, &[(ProfileKey, Traced)]) -> Result<Box<dyn Policy>>,
    ) -> Result<Ran> {
        let mut gpu = Gpu::new(self.gpu.clone());
        let shape = gpu.shape();
        let (mut submissions, mut launches) = (Vec::new(), Vec::new());
        for (place, (kernel, arrival)) in (0..).zip(&self.launches) {
            let submission = submission(&mut gpu, kernel.case()?, place)?;
            let described = gpu.describe(&submission)?;
            let key = gpu.profile(&described.kernel, &described.block);
            let launch = Traced {
                kernel: kernel.workload.name.to_owned(),
                block: described.block,
                blocks: described.blocks,
                resident: max_residency(&shape, &described.block),
                arrival: *arrival,
                start: 0,
                end: 0,
            };
            launches.push((key, launch));
            submissions.push(submission);
        }
        let policy = policy(&shape, &launches)?;
        let mut launches: Vec<Traced> = launches.into_iter().map(|(_, launch)| launch).collect();
        let options = DriverOptions {
            record,
            ..DriverOptions::default()
        };
        let mut driver = ModelDriver::new(gpu, policy, DeviceId(0), options);
        if let Some(profiles) = learning {
            driver.learn(profiles);
        }
        for (tenant, (submission, launch)) in (0..)
            .map(TenantId)
            .zip(submissions.into_iter().zip(&launches))
        {
            driver.tenant(tenant, 1, Class::Normal);
            driver.submit(tenant, submission, Cycles(launch.arrival))?;
        }
        ensure!(driver.run(LATEST), "{launches:?} do not end on the model");
        for (number, launch) in (0..).zip(&mut launches) {
            let outcome = driver.outcome(number).context("it was submitted")?;
            if let Some(error) = &outcome.error {
                anyhow::bail!("{} failed on the model: {error}", launch.kernel);
            }
            let (start, end) = outcome.first_start.zip(outcome.end).context("it ended")?;
            (launch.start, launch.end) = (start.0, end.0);
        }
        let events = driver.take_block_events();
        let blocks = events.into_iter().filter_map(|event| {
            let ran = match event.change {
                BlockChange::Placed => None,
                BlockChange::Retired { ran } => Some(ran.0),
                BlockChange::SwitchedOut { .. } | BlockChange::SwitchedIn { .. } => return None,
            };
            Some((event.at.0, event.sm.0, u32::try_from(event.tag).ok()?, ran))
        });
        Ok(Ran {
            sms: shape.sms,
            launches,
            blocks: blocks.collect(),
        })
    }
}
