//! A mix: launches of several tenants together on the event executor, under any policy, beside each alone.

use crate::driver::DriverOptions;
use crate::event::{EventConfig, EventDriver, EventExecutor, EventSubmission, Refusal};
use gridmux_policy::class::Class;
use gridmux_policy::ids::{DeviceId, TenantId};
use gridmux_policy::policies::fifo::Fifo;
use gridmux_policy::policy::Policy;
use gridmux_policy::profiles::Profiles;
use gridmux_policy::units::Cycles;

/// A launch of a mix; each is of a tenant of its own.
#[derive(Clone, Debug)]
pub struct MixLaunch {
    /// What is launched.
    pub submission: EventSubmission,
    /// When it arrives.
    pub arrival: Cycles,
    /// The tenant's weight.
    pub weight: u32,
}

/// How a launch of a mix went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Went {
    /// When it arrived.
    pub arrival: Cycles,
    /// When its first block started.
    pub start: Cycles,
    /// When its last block ended.
    pub end: Cycles,
}

impl Went {
    /// Returns the time from arrival to end.
    #[must_use]
    pub fn turnaround(&self) -> Cycles {
        self.end - self.arrival
    }
}

/// Runs a mix to its end and returns how each launch went, in order.
///
/// # Errors
/// [`Refusal`] of a launch that cannot run.
///
/// # Panics
/// If the policy panics, or never gives a launch room.
pub fn together(
    config: EventConfig,
    policy: Box<dyn Policy>,
    launches: &[MixLaunch],
) -> Result<Vec<Went>, Refusal> {
    run(driver(config, policy), launches)
}

/// As [`together`], and fills a store of profiles with what runs.
///
/// # Errors
/// As for [`together`].
///
/// # Panics
/// As for [`together`].
pub fn together_learning(
    config: EventConfig,
    policy: Box<dyn Policy>,
    profiles: &Profiles,
    launches: &[MixLaunch],
) -> Result<Vec<Went>, Refusal> {
    let mut driver = driver(config, policy);
    driver.learn(profiles);
    run(driver, launches)
}

fn driver(config: EventConfig, policy: Box<dyn Policy>) -> EventDriver {
    let engine = EventExecutor::new(config);
    EventDriver::new(engine, policy, DeviceId(0), DriverOptions::default())
}

fn run(mut driver: EventDriver, launches: &[MixLaunch]) -> Result<Vec<Went>, Refusal> {
    for (tenant, launch) in (0..).map(TenantId).zip(launches) {
        driver.tenant(tenant, launch.weight, Class::Normal);
        let submitted = driver.submit(tenant, launch.submission.clone(), launch.arrival);
        submitted.map_err(|error| match error {
            crate::driver::SubmitError::Launch(refusal) => refusal,
            crate::driver::SubmitError::NoTenant(_) => unreachable!("it was introduced"),
        })?;
    }
    driver.run(Cycles(u64::MAX));
    if let Some(failure) = driver.policy_failure() {
        panic!("{failure}");
    }
    let went = |(number, launch): (u64, &MixLaunch)| {
        let outcome = driver.outcome(number);
        let outcome = outcome.expect("every number up to the last was submitted");
        if let Some(refusal) = &outcome.error {
            return Err(refusal.clone());
        }
        let (Some(start), Some(end)) = (outcome.first_start, outcome.end) else {
            let kernel = &launch.submission.kernel.name;
            panic!("the policy never gave launch {number}, of `{kernel}`, room to end");
        };
        Ok(Went {
            arrival: outcome.arrival,
            start,
            end,
        })
    };
    (0..).zip(launches).map(went).collect()
}

/// Runs a launch alone and returns its turnaround.
///
/// # Errors
/// [`Refusal`] of a launch that cannot run.
pub fn alone(config: EventConfig, submission: &EventSubmission) -> Result<Cycles, Refusal> {
    let launch = MixLaunch {
        submission: submission.clone(),
        arrival: Cycles(0),
        weight: 1,
    };
    let policy = Box::new(Fifo::new(DeviceId(0), &config.shape));
    Ok(together(config, policy, &[launch])?[0].turnaround())
}
