//! Kernels on the event executor of which it was measured what they use: the time they take, alone and in several
//! launches, and what samples say of them.

use gridmux_hw_model::GpuConfig;
use gridmux_mix::driver::{DriverOptions, Engine};
use gridmux_mix::event::{
    EventConfig, EventDriver, EventExecutor, EventSubmission, MEASURED_ON, MeasuredKernel, Work,
    measured_kernels,
};
use gridmux_mix::model::event_config;
use gridmux_mix::{MixLaunch, alone, together};
use gridmux_policy::policies::fifo::Fifo;
use gridmux_policy::shape::max_residency;
use gridmux_policy::{Class, Cycles, DeviceId, Profiles, TenantId, by_name};

fn device() -> EventConfig {
    let measured_on = GpuConfig::builtin(MEASURED_ON).expect("it is built in");
    event_config(&measured_on)
}

fn large(name: &str) -> MeasuredKernel {
    let kernels = measured_kernels("large").into_iter();
    let found = kernels.into_iter().find(|kernel| kernel.name == name);
    found.expect("it is in the table")
}

fn launch_of(kernel: &MeasuredKernel) -> EventSubmission {
    kernel.submission(&device()).expect("it fits")
}

/// Returns how long launches take that arrive together, each of a tenant of its own.
fn last_end(config: EventConfig, launches: &[EventSubmission]) -> f64 {
    let policy = by_name("fifo", DeviceId(0), &config.shape, &Profiles::default());
    let launches: Vec<MixLaunch> = launches
        .iter()
        .map(|submission| MixLaunch {
            submission: submission.clone(),
            arrival: Cycles(0),
            weight: 1,
        })
        .collect();
    let went = together(config, policy.expect("listed"), &launches).expect("they fit");
    went.iter().map(|went| went.end.0).max().unwrap_or(0) as f64
}

#[test]
fn launches_are_scaled_to_the_time_that_was_measured() {
    let config = device();
    for size in ["tiny", "small", "large"] {
        for kernel in measured_kernels(size) {
            let took = alone(config, &launch_of(&kernel)).expect("it fits");
            let ratio = took.0 as f64 / kernel.runtime_cycles as f64;
            let name = &kernel.name;
            assert!((0.95..1.05).contains(&ratio), "{name}, {size}: {ratio:.3}");
        }
    }
}

/// These wait for neither issue slots nor DRAM nor load/store units, but for something that they need alone: in two
/// launches as in one.
#[test]
fn a_kernel_in_two_launches_takes_as_long_as_in_one() {
    let config = device();
    for name in ["spmv", "bfs"] {
        let mut whole = launch_of(&large(name));
        let most = max_residency(&config.shape, &whole.kernel.block);
        whole.blocks = u64::from(most) * u64::from(config.shape.sms);
        if let Work::Random { deviation, .. } = &mut whole.work {
            *deviation = 0.0;
        }
        let mut half = whole.clone();
        half.blocks /= 2;
        let one = last_end(config, &[whole]);
        let two = last_end(config, &[half.clone(), half]);
        assert!(
            (0.98..1.02).contains(&(two / one)),
            "{name}: {two} for {one}"
        );
    }
}

#[test]
fn samples_say_what_a_kernel_used_until_its_row_is_forgotten() {
    let config = device();
    let kernel = large("black_scholes");
    let policy = Box::new(Fifo::new(DeviceId(0), &config.shape));
    let engine = EventExecutor::new(config);
    let mut driver = EventDriver::new(engine, policy, DeviceId(0), DriverOptions::default());
    driver.tenant(TenantId(0), 1, Class::Normal);
    let submitted = driver.submit(TenantId(0), launch_of(&kernel), Cycles(0));
    submitted.expect("it fits");
    driver.run_until(Cycles(config.launch_cycles + 20_000));
    let samples = driver.engine().samples();
    assert_eq!(samples.len(), usize::from(config.shape.sms));
    let cycles = 20_000.0 * samples.len() as f64;
    let issued: u64 = samples.iter().map(|sample| sample.issued).sum();
    let used = issued as f64 / cycles / f64::from(config.issue_width);
    let due = kernel.uses.issue;
    assert!(
        (used / due - 1.0).abs() < 0.05,
        "{used} of issue slots, {due}"
    );
    let bytes: u64 = samples.iter().map(|sample| sample.dram_bytes).sum();
    let per_cycle = f64::from(config.shape.dram_bytes_per_kcycle) / 1e3;
    let used = bytes as f64 / 20_000.0 / per_cycle;
    let due = kernel.uses.dram;
    assert!((used / due - 1.0).abs() < 0.05, "{used} of DRAM, {due}");
    let row = samples[0].row;
    driver.engine_mut().forget_row(row);
    let forgotten = driver.engine().samples();
    assert!(forgotten.iter().all(|sample| sample.issued == 0));
}

#[test]
fn a_launch_starts_after_its_latency_and_that_behind_it_in_its_queue_after_a_shorter_one() {
    let config = device();
    assert!(config.dependent_cycles < config.launch_cycles);
    let kernel = large("tea");
    let policy = Box::new(Fifo::new(DeviceId(0), &config.shape));
    let engine = EventExecutor::new(config);
    let mut driver = EventDriver::new(engine, policy, DeviceId(0), DriverOptions::default());
    driver.tenant(TenantId(0), 1, Class::Normal);
    let mut submit = || {
        let submitted = driver.submit(TenantId(0), launch_of(&kernel), Cycles(0));
        submitted.expect("it fits")
    };
    let (first, second) = (submit(), submit());
    assert!(driver.run(Cycles(1 << 40)));
    let outcome = |number| driver.outcome(number).expect("it was submitted");
    assert_eq!(
        outcome(first).first_start,
        Some(Cycles(config.launch_cycles))
    );
    let end = outcome(first).end.expect("it ended");
    let due = Cycles(end.0 + config.dependent_cycles);
    assert_eq!(outcome(second).first_start, Some(due));
}

/// While the device starts a block, it starts no other, and launches that become ready then have to be found after it.
#[test]
fn launches_that_become_ready_while_a_block_is_started_are_found() {
    let mut config = device();
    config.contention.dispatch_cycles = 4.0;
    let kernel = launch_of(&large("tea"));
    let policy = by_name("fifo", DeviceId(0), &config.shape, &Profiles::default());
    let launches: Vec<MixLaunch> = (0..8)
        .map(|at| MixLaunch {
            submission: kernel.clone(),
            arrival: Cycles(at),
            weight: 1,
        })
        .collect();
    let went = together(config, policy.expect("listed"), &launches).expect("they fit");
    assert!(went.iter().all(|went| went.end > went.start));
}
