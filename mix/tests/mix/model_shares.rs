//! Policies in charge of `plan` mode: shares follow weights, whatever a tenant runs; a run is the same on any number of
//! threads.
//!
//! Rule: a share is a ratio between two moments of one run, after the policy has settled.

use crate::bench::Bench;
use gridmux_hw_model::{BlockChange, Gpu, Kernel, QueueId, device_shape};
use gridmux_mix::DriverOptions;
use gridmux_mix::model::{ModelDriver, ModelSubmission, Outcome, OwnKernel, SubmitError};
use gridmux_policy::ids::{DeviceId, TenantId};
use gridmux_policy::units::Cycles;
use gridmux_policy::{Class, Profiles, by_name as policy_named};
use gridmux_testkit::kernels::BUSY;
use gridmux_workloads::{Size, by_name};
use std::sync::Arc;

/// How far a share may be from its entitlement.
const SHARE_TOLERANCE: f64 = 0.03;
/// When the policy has settled, and when the measurement ends.
const SETTLED: u64 = 300_000;
const END: u64 = 1_500_000;

const A: TenantId = TenantId(0);
const B: TenantId = TenantId(1);
const C: TenantId = TenantId(2);

/// A kernel with its arguments in device memory.
#[derive(Clone)]
struct Program {
    kernel: Arc<Kernel>,
    params: Vec<u8>,
    grid: [u32; 3],
    block: [u32; 3],
}

/// A GPU of four SMs with kernels in it.
struct Setting {
    bench: Bench,
}

impl Setting {
    fn new() -> Self {
        let bench = Bench::new(Bench::config(4));
        Self { bench }
    }

    fn workload(&mut self, name: &str) -> Program {
        let workload = by_name(name).unwrap_or_else(|| panic!("no {name}"));
        let case = workload.case(Size::Small, 5);
        let own = OwnKernel::load(&mut self.bench.gpu, case, QueueId(0)).expect("it loads");
        let submission = own.submission;
        Program {
            kernel: submission.kernel,
            params: submission.params,
            grid: submission.grid,
            block: submission.block,
        }
    }

    fn busy(&mut self, threads: u32, blocks: u32, rounds: u32) -> Program {
        Program {
            kernel: self.bench.kernel(BUSY, "busy"),
            params: rounds.to_le_bytes().to_vec(),
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
        }
    }

    /// Returns a policy in charge of it.
    fn under(self, policy: &str, threads: usize) -> ModelDriver {
        let mut gpu: Gpu = self.bench.gpu;
        gpu.set_threads(threads);
        let device = DeviceId(0);
        let policy = policy_named(
            policy,
            device,
            &device_shape(gpu.config()),
            &Profiles::default(),
        )
        .expect("a policy");
        let options = DriverOptions {
            record: true,
            ..DriverOptions::default()
        };
        ModelDriver::new(gpu, policy, device, options)
    }
}

impl Program {
    fn submit(&self, driver: &mut ModelDriver, tenant: TenantId, queue: u8, at: u64) -> u64 {
        let submission = ModelSubmission {
            queue: QueueId(queue),
            kernel: Arc::clone(&self.kernel),
            grid: self.grid,
            block: self.block,
            dynamic_shared_bytes: 0,
            params: self.params.clone(),
            budget: None,
        };
        let number = driver.submit(tenant, submission, Cycles(at));
        number.expect("accepted")
    }
}

/// Returns each tenant's share of what all held, over its entitlement, between two moments.
fn ratios<const N: usize>(driver: &mut ModelDriver, tenants: [TenantId; N]) -> [f64; N] {
    driver.run_until(Cycles(SETTLED));
    let before = tenants.map(|tenant| driver.reading(tenant));
    driver.run_until(Cycles(END));
    let after = tenants.map(|tenant| driver.reading(tenant));
    std::array::from_fn(|n| {
        let held = after[n].held - before[n].held;
        held / (after[n].entitled - before[n].entitled)
    })
}

fn assert_fair(ratios: &[f64]) {
    for ratio in ratios {
        assert!((ratio - 1.0).abs() <= SHARE_TOLERANCE, "{ratios:?}");
    }
}

/// Returns three tenants of weights 2, 1 and 1 that always have work, and perhaps one that has none.
fn three(threads: usize, idle: bool) -> ModelDriver {
    let mut setting = Setting::new();
    let programs = ["matmul", "stencil3d", "black_scholes"].map(|name| setting.workload(name));
    let mut driver = setting.under("smk-p", threads);
    for (tenant, weight) in [(A, 2), (B, 1), (C, 1)] {
        driver.tenant(tenant, weight, Class::Normal);
    }
    if idle {
        driver.tenant(TenantId(3), 100, Class::Latency);
    }
    for (tenant, program) in [A, B, C].into_iter().zip(&programs) {
        for launch in 0..600 {
            let queue = tenant.0 * 8 + launch % 8;
            program.submit(&mut driver, tenant, u8::try_from(queue).expect("small"), 0);
        }
    }
    driver
}

#[test]
fn shares_follow_weights() {
    let mut driver = three(2, false);
    let ratios = ratios(&mut driver, [A, B, C]);
    println!("{ratios:?} {:?}", driver.counters());
    assert_fair(&ratios);
}

/// Times of every launch.
fn times(driver: &ModelDriver) -> Vec<(Cycles, Option<Cycles>, Option<Cycles>)> {
    let of = |outcome: &Outcome| (outcome.arrival, outcome.first_start, outcome.end);
    let outcomes = (0..).map_while(|number| driver.outcome(number));
    outcomes.map(of).collect()
}

#[test]
fn neither_threads_nor_an_idle_tenant_change_anything() {
    let run = |threads, idle| {
        let mut driver = three(threads, idle);
        driver.run_until(Cycles(SETTLED));
        let blocks = driver.take_block_events();
        assert!(blocks.len() > 100);
        (times(&driver), blocks)
    };
    let alone = run(1, false);
    assert!(run(2, false) == alone, "threads");
    assert!(run(1, true) == alone, "an idle tenant");
}

#[test]
fn a_tenant_with_two_block_shapes_gets_its_half() {
    let mut setting = Setting::new();
    let programs = [
        setting.busy(64, 600, 300),
        setting.busy(256, 300, 300),
        setting.busy(128, 600, 300),
    ];
    let mut driver = setting.under("smk-p", 2);
    for tenant in [A, B] {
        driver.tenant(tenant, 1, Class::Normal);
    }
    for (queue, program) in (0..).zip(&programs) {
        for _ in 0..60 {
            let tenant = if queue == 2 { B } else { A };
            program.submit(&mut driver, tenant, queue, 0);
        }
    }
    let ratios = ratios(&mut driver, [A, B]);
    println!("{ratios:?} {:?}", driver.counters());
    assert_fair(&ratios);
    let rows = [0, 60].map(|n| driver.outcome(n).and_then(|outcome| outcome.row));
    assert_ne!(rows[0], rows[1], "a row for each shape");
}

#[test]
fn fifo_fills_the_device_strictly_in_order_of_arrival() {
    let mut setting = Setting::new();
    let long = setting.busy(64, 2000, 300);
    let mut driver = setting.under("fifo-strict", 1);
    for tenant in [A, B, C] {
        driver.tenant(tenant, 1, Class::Normal);
    }
    // C arrives before B although it is submitted after it.
    let order = [(A, 0, 0), (B, 1, 2000), (C, 2, 1000)];
    let numbers = order.map(|(tenant, queue, at)| long.submit(&mut driver, tenant, queue, at));
    assert!(driver.run(Cycles(20_000_000)));
    let events = driver.take_block_events();
    let placed = |n: u64| {
        let own = events.iter().filter(move |event| event.tag == n);
        own.filter(|event| event.change == BlockChange::Placed)
            .map(|event| event.at)
    };
    let [a, b, c] = numbers;
    assert_eq!(placed(a).count(), 2000);
    assert!(placed(a).max() < placed(c).min() && placed(c).max() < placed(b).min());
    for number in numbers {
        let outcome = driver.outcome(number).expect("known");
        assert_eq!(outcome.first_start, placed(number).min());
        assert!(outcome.counters.is_some_and(|c| c.blocks == 2000));
    }
}

#[test]
fn rows_are_bounded_and_a_tenant_that_goes_takes_its_own_along() {
    let mut setting = Setting::new();
    let shapes: Vec<Program> = (1..=6).map(|n| setting.busy(32 * n, 8, 50)).collect();
    let endless = setting.busy(64, 5000, 20_000);
    let policy = policy_named(
        "smk-p",
        DeviceId(0),
        &device_shape(setting.bench.gpu.config()),
        &Profiles::default(),
    );
    let options = DriverOptions {
        rows_per_tenant: 2,
        ..DriverOptions::default()
    };
    let mut driver = ModelDriver::new(
        setting.bench.gpu,
        policy.expect("a policy"),
        DeviceId(0),
        options,
    );
    assert!(matches!(
        driver.submit(A, submission(&endless), Cycles(0)),
        Err(SubmitError::NoTenant(A))
    ));
    driver.tenant(A, 1, Class::Normal);
    driver.tenant(B, 1, Class::Normal);
    // All at once: two rows, and the spill row for the other four. Then one after another: two rows at a time.
    let together: Vec<u64> = (0..)
        .zip(&shapes)
        .map(|(q, s)| s.submit(&mut driver, A, q, 0))
        .collect();
    assert!(driver.run(Cycles(10_000_000)));
    let row = |driver: &ModelDriver, n| driver.outcome(n).and_then(|o| o.row).expect("it ran").0;
    let rows: Vec<u32> = together.iter().map(|n| row(&driver, *n)).collect();
    assert_eq!(rows, [0, 1, 2, 2, 2, 2]);
    for shape in &shapes {
        let at = driver.engine().now().0 + 50_000;
        shape.submit(&mut driver, A, 0, at);
        assert!(driver.run(Cycles(at + 10_000_000)));
    }
    let last = endless.submit(&mut driver, B, 1, 0);
    let now = driver.engine().now().0;
    driver.run_until(Cycles(now + 20_000));
    assert!(
        row(&driver, last) < 8,
        "ids come back: {}",
        row(&driver, last)
    );
    driver.end_tenant(B);
    assert!(driver.run(Cycles(now + 30_000)));
    assert_eq!(driver.engine().resident_blocks(), 0);
    assert_eq!(driver.engine().held(B).blocks(), 0);
    assert!(
        driver
            .outcome(last)
            .is_some_and(|o| o.counters.is_none() && o.end.is_some())
    );
}

fn submission(program: &Program) -> ModelSubmission {
    ModelSubmission {
        queue: QueueId(0),
        kernel: Arc::clone(&program.kernel),
        grid: program.grid,
        block: program.block,
        dynamic_shared_bytes: 0,
        params: program.params.clone(),
        budget: None,
    }
}
