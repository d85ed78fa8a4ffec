//! Measuring a kernel: one launch alone on a GPU, and how long each of its blocks was resident.
//!
//! The `event` executor takes its blocks' durations from such a measurement.

use super::{ModelDriver, ModelSubmission, SubmitError};
use crate::driver::{BlockChange, DriverOptions, Engine};
use crate::event::Uses;
use gridmux_hw_model::{Gpu, GpuConfig, device_shape};
use gridmux_policy::policies::fifo::Fifo;
use gridmux_policy::shape::{BlockShape, max_residency};
use gridmux_policy::units::Cycles;
use gridmux_policy::{Class, DeviceId, TenantId};
use std::collections::HashMap;

/// A launch that was alone on a GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// What each block takes.
    pub block: BlockShape,
    /// From arrival to end.
    pub runtime: Cycles,
    /// Cycles for which each block was resident, by its number in the grid.
    pub durations: Vec<u32>,
    /// What it used of the device, for as long as its blocks would have filled it.
    pub uses: Uses,
}

/// A launch could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The launch cannot run.
    #[error(transparent)]
    Refused(#[from] SubmitError),
    /// It did not end in good order.
    #[error("{0}")]
    Failed(String),
    /// It did not end until the cycle that was given.
    #[error("kernel '{kernel}' does not end within {limit} cycles")]
    Endless {
        /// The kernel.
        kernel: String,
        /// The cycle.
        limit: u64,
    },
}

/// Runs a launch alone on an idle GPU, in order of arrival, and returns what was measured.
///
/// # Errors
/// [`MeasureError`]; `limit` is the cycle until which the launch must end.
pub fn measure(
    gpu: Gpu,
    submission: ModelSubmission,
    limit: Cycles,
) -> Result<Measured, MeasureError> {
    let (device, tenant) = (DeviceId(0), TenantId(0));
    let kernel = submission.kernel.name.to_string();
    let config = gpu.config().clone();
    let shape = Engine::shape(&gpu);
    let described = gpu.describe(&submission).map_err(SubmitError::Launch)?;
    let policy = Box::new(Fifo::new(device, &shape));
    let options = DriverOptions {
        record: true,
        ..DriverOptions::default()
    };
    let mut driver = ModelDriver::new(gpu, policy, device, options);
    driver.tenant(tenant, 1, Class::Normal);
    let number = driver.submit(tenant, submission, Cycles(0))?;
    let in_time = driver.run(limit);
    let outcome = driver.outcome(number);
    if let Some(error) = outcome.and_then(|outcome| outcome.error.as_ref()) {
        return Err(MeasureError::Failed(error.to_string()));
    }
    let runtime = outcome.and_then(|outcome| Some(outcome.end? - outcome.arrival));
    let Some(runtime) = runtime.filter(|_| in_time) else {
        let limit = limit.0;
        return Err(MeasureError::Endless { kernel, limit });
    };
    let counters = outcome.and_then(|outcome| outcome.counters.as_ref());
    let uses = counters.map(|counters| {
        let most = f64::from(max_residency(&shape, &described.block)) * f64::from(shape.sms);
        let counted: HashMap<_, _> = counters.named().into_iter().collect();
        uses(&config, counters.block_cycles as f64 / most, |name| {
            counted[name]
        })
    });
    let mut durations = vec![0; usize::try_from(described.blocks).unwrap_or(usize::MAX)];
    for event in driver.take_block_events() {
        if let BlockChange::Retired { ran } = event.change
            && let Ok(at) = usize::try_from(event.block)
        {
            durations[at] = u32::try_from(ran.0).unwrap_or(u32::MAX);
        }
    }
    Ok(Measured {
        block: described.block,
        runtime,
        durations,
        uses: uses.unwrap_or(Uses::UNKNOWN),
    })
}

/// Returns what a kernel used of a GPU that its blocks would have filled for `cycles`, from what was counted, by the
/// names of [`Counters`](gridmux_hw_model::Counters); not how it fares with few blocks on an SM.
///
/// # Panics
/// If the counter has no such name.
#[must_use]
pub fn uses(config: &GpuConfig, cycles: f64, counter: impl Fn(&str) -> u64) -> Uses {
    let sms = f64::from(config.sm.count);
    let slots = sms * f64::from(config.sm.schedulers) * f64::from(config.sm.issue_width);
    let bytes_per_cycle = f64::from(device_shape(config).dram_bytes_per_kcycle) / 1e3;
    let part = |counted: u64, of: f64| match cycles > 0.0 {
        true => (counted as f64 / cycles / of).min(1.0),
        false => 0.0,
    };
    // An access takes a load/store unit a cycle for each line or round.
    let accesses = counter("shared_accesses") + counter("local_accesses");
    let rounds = accesses + counter("shared_conflict_cycles") + counter("global_lines");
    let bytes = counter("dram_read_bytes") + counter("dram_write_bytes");
    let issued = counter("warp_instructions").saturating_sub(counter("folded_instructions"));
    Uses {
        issue: part(issued, slots),
        lsu: part(rounds, sms),
        dram: part(bytes, bytes_per_cycle),
        ..Uses::UNKNOWN
    }
}

#[cfg(test)]
mod tests {
    use super::{MeasureError, measure};
    use crate::model::ModelSubmission;
    use gridmux_hw_model::{Gpu, GpuConfig, QueueId, StandIn};
    use gridmux_policy::units::Cycles;

    /// Returns a launch of blocks that stay for 50 us.
    fn launch(gpu: &mut Gpu, blocks: u32) -> ModelSubmission {
        let stand_in = StandIn {
            name: "k".to_owned(),
            registers: 16,
            static_shared_bytes: 0,
        };
        let domain = gpu.memory_mut().create_domain(1 << 30).expect("room");
        ModelSubmission {
            queue: QueueId(0),
            kernel: stand_in.load(gpu, domain).expect("it is PTX"),
            grid: [blocks, 1, 1],
            block: [64, 1, 1],
            dynamic_shared_bytes: 0,
            params: StandIn::params(50_000),
            budget: None,
        }
    }

    #[test]
    fn every_block_has_its_duration_and_what_does_not_end_is_an_error() {
        let config = GpuConfig::builtin("gtx980").expect("it is built in");
        let config = config.scaled_to_sms(1);
        let due = u32::try_from(config.ns_to_cycles(50_000)).expect("small");
        let mut gpu = Gpu::new(config.clone());
        let submission = launch(&mut gpu, 5);
        let measured = measure(gpu, submission, Cycles(1 << 40)).expect("it ends");
        assert_eq!((measured.durations.len(), measured.block.threads), (5, 64));
        for ran in &measured.durations {
            assert!((due..due + due / 20).contains(ran), "{ran} for {due}");
        }
        assert!(measured.runtime.0 >= due.into());
        let mut gpu = Gpu::new(config.clone());
        let submission = launch(&mut gpu, 5);
        let error = measure(gpu, submission, Cycles(1000)).expect_err("too early");
        assert!(
            matches!(error, MeasureError::Endless { limit: 1000, .. }),
            "{error}"
        );
        let mut gpu = Gpu::new(config);
        let mut submission = launch(&mut gpu, 5);
        submission.block = [2048, 1, 1];
        let error = measure(gpu, submission, Cycles(1 << 40)).expect_err("too large");
        assert!(matches!(error, MeasureError::Refused(_)), "{error}");
    }
}
