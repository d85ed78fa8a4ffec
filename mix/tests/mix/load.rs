//! Launches of three tenants on an event executor: some run, some wait and some have not arrived when something
//! happens.

use gridmux_mix::driver::DriverOptions;
use gridmux_mix::event::{
    EventConfig, EventDriver, EventExecutor, EventKernel, EventSubmission, Uses, Work,
};
use gridmux_policy::profiles::Profiles;
use gridmux_policy::{BlockShape, Class, Cycles, DeviceId, Policy, TenantId, by_name};
use std::sync::Arc;

const TENANTS: u32 = 3;
const LAUNCHES: u64 = 3;

/// Makes a policy for the executor.
pub(crate) fn policy(name: &str) -> Box<dyn Policy> {
    let shape = EventConfig::gtx480().shape;
    by_name(name, DeviceId(0), &shape, &Profiles::default()).expect("listed")
}

/// Makes a driver under a policy, with the launches submitted.
pub(crate) fn driver(policy: Box<dyn Policy>) -> EventDriver {
    let engine = EventExecutor::new(EventConfig::gtx480());
    let mut driver = EventDriver::new(engine, policy, DeviceId(0), DriverOptions::default());
    for tenant in 0..TENANTS {
        driver.tenant(TenantId(tenant), tenant + 1, Class::Normal);
        let kernel = Arc::new(EventKernel {
            name: format!("kernel {tenant}"),
            block: BlockShape::of_threads(128 << tenant),
            pressure: 1.0,
            sensitivity: 1.0,
            uses: Uses::UNKNOWN,
        });
        for launch in 0..LAUNCHES {
            let submission = EventSubmission {
                queue: 0,
                kernel: Arc::clone(&kernel),
                blocks: 300,
                work: Work::Random {
                    mean: 10_000.0,
                    deviation: 0.1,
                    by_wave: true,
                },
            };
            let at = Cycles(u64::from(tenant) * 7_000 + launch * 90_000);
            driver
                .submit(TenantId(tenant), submission, at)
                .expect("it fits");
        }
    }
    driver
}

/// Runs to the end and checks that every launch has ended well, with all of its blocks.
pub(crate) fn finish(driver: &mut EventDriver, name: &str) {
    assert!(
        driver.run(Cycles(1 << 40)),
        "{name}: a launch has not ended"
    );
    for number in 0..u64::from(TENANTS) * LAUNCHES {
        let outcome = driver.outcome(number).expect("it was submitted");
        let is_well = outcome.counters.is_some() && outcome.error.is_none();
        assert!(is_well, "{name}: launch {number}");
    }
}
