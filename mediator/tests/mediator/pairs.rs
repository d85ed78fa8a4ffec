//! Kernels of ours that start together under a policy: through the dispatcher, and on the model in plan mode.

use crate::modelled::{Budgets, GPU, ModelRig};
use gridmux_hw_model::{Gpu, GpuConfig, QueueId};
use gridmux_mix::DriverOptions;
use gridmux_mix::model::{ModelDriver, OwnKernel};
use gridmux_policy::shape::DeviceShape;
use gridmux_policy::units::Cycles;
use gridmux_policy::{Class, DeviceId, Policy, Profiles, TenantId, by_name};
use gridmux_workloads::{Case, Params, by_name as workload};

/// SMs of the modelled part of the GPU: SRTF samples on one of them.
const SMS: u16 = 2;
/// Cycles by which the second launch is later in plan mode (SRTF, section 6.1.3: up to 100).
const STAGGER: u64 = 100;
/// No set of launches takes as many cycles.
const LATEST: Cycles = Cycles(1 << 40);

/// A kernel in a size: its workload's name, elements and rounds.
pub(crate) type Kernel = (&'static str, u32, u32);
/// What starts together, each as a tenant of its own.
pub(crate) type Mix = [Kernel];

fn case(&(name, elements, rounds): &Kernel) -> Case {
    let params = Params {
        elements,
        rounds,
        seed: 1,
    };
    let workload = workload(name).expect("a workload");
    workload.case_with(params).expect("a size that it takes")
}

/// Runs launches through the dispatcher; returns the time from each one's submission to its end, in nanoseconds.
pub(crate) fn on_device(policy: &str, mix: &Mix) -> Vec<u64> {
    let mut rig = ModelRig::with(policy, SMS, Budgets::default());
    let cases = mix.iter().map(case);
    let clients: Vec<usize> = cases
        .map(|case| {
            let tenant = rig.tenant(1);
            rig.client_with(tenant, &case)
        })
        .collect();
    rig.run();
    // The clock stands until all have submitted.
    rig.run_until(0);
    let copies = rig.done.len();
    for client in &clients {
        rig.launch(*client);
    }
    rig.run_programs(&clients);
    let launches = &rig.done[copies..];
    let took = |client: &usize| {
        let mut own = launches.iter().filter(|done| done.client == *client);
        let done = own.next().expect("it completed");
        assert_eq!(done.status, 0, "it succeeded");
        done.end - done.submitted
    };
    clients.iter().map(took).collect()
}

/// Runs launches in plan mode; returns the time from each one's arrival to its end, in nanoseconds.
pub(crate) fn on_plan(policy: &str, mix: &Mix) -> Vec<u64> {
    let config = GpuConfig::builtin(GPU).expect("it is built in");
    let config = config.scaled_to_sms(SMS);
    let mut gpu = Gpu::new(config.clone());
    let launches = (0..).zip(mix).map(|(place, kernel)| {
        let own = OwnKernel::load(&mut gpu, case(kernel), QueueId(place));
        own.expect("it loads").submission
    });
    let launches: Vec<_> = launches.collect();
    let policy = policy_of(policy, &gridmux_hw_model::device_shape(&config));
    let mut driver = ModelDriver::new(gpu, policy, DeviceId(0), DriverOptions::default());
    for ((tenant, launch), place) in (0..).map(TenantId).zip(launches).zip(0..) {
        driver.tenant(tenant, 1, Class::Normal);
        let arrival = Cycles(place * STAGGER);
        driver.submit(tenant, launch, arrival).expect("it is taken");
    }
    assert!(driver.run(LATEST), "all end");
    let took = |number: u64| {
        let outcome = driver.outcome(number).expect("it was submitted");
        assert!(outcome.error.is_none(), "it succeeded");
        let end = outcome.end.expect("it ended");
        config.cycles_to_ns(end.0 - outcome.arrival.0)
    };
    (0..).take(mix.len()).map(took).collect()
}

fn policy_of(name: &str, shape: &DeviceShape) -> Box<dyn Policy> {
    by_name(name, DeviceId(0), shape, &Profiles::default()).expect("the policy exists")
}
