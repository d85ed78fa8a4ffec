//! Stand-ins: a launch lasts as many times a block's stay as its blocks fill the GPU, and blocks take what they are
//! said to.

use crate::bench::Bench;
use gridmux_hw_model::{BlockChange, QueueId, StandIn, device_shape};
use gridmux_mix::DriverOptions;
use gridmux_mix::model::{ModelDriver, ModelSubmission};
use gridmux_policy::ids::{DeviceId, TenantId};
use gridmux_policy::units::Cycles;
use gridmux_policy::{Class, Profiles, by_name};

const SMS: u16 = 2;

/// A launch by itself: threads of a block, registers, shared memory (static and dynamic), blocks, a block's stay.
struct Case {
    threads: u32,
    registers: u32,
    shared: [u32; 2],
    blocks: u32,
    stay_ns: u64,
}

impl Case {
    fn registers(self, registers: u32) -> Self {
        Self { registers, ..self }
    }

    fn shared(self, shared: [u32; 2]) -> Self {
        Self { shared, ..self }
    }

    fn stay_ns(self, stay_ns: u64) -> Self {
        Self { stay_ns, ..self }
    }
}

/// Returns how long the launch lasts from its first block's start to its end, in nanoseconds.
fn duration(case: &Case, policy: &str) -> u64 {
    let mut bench = Bench::new(Bench::config(SMS));
    let domain = bench.domain;
    let stand_in = StandIn {
        name: "any".into(),
        registers: case.registers,
        static_shared_bytes: case.shared[0],
    };
    let kernel = stand_in.load(&mut bench.gpu, domain).expect("it loads");
    assert_eq!(&*kernel.name, "any");
    let device = DeviceId(0);
    let policy = by_name(
        policy,
        device,
        &device_shape(bench.gpu.config()),
        &Profiles::default(),
    )
    .expect("a policy");
    let mut driver = ModelDriver::new(bench.gpu, policy, device, DriverOptions::default());
    driver.tenant(TenantId(0), 1, Class::Normal);
    let submission = ModelSubmission {
        queue: QueueId(0),
        kernel,
        grid: [case.blocks, 1, 1],
        block: [case.threads, 1, 1],
        dynamic_shared_bytes: case.shared[1],
        params: StandIn::params(case.stay_ns),
        budget: None,
    };
    let number = driver
        .submit(TenantId(0), submission, Cycles(0))
        .expect("accepted");
    assert_eq!(driver.run_to_an_end(Cycles(1_000_000_000)), [number]);
    let ended = driver.run_to_an_end(Cycles(1_000_000_000));
    assert!(ended.is_empty(), "nothing is left");
    let outcome = driver.outcome(number).expect("known");
    let (start, end) = (
        outcome.first_start.expect("started"),
        outcome.end.expect("ended"),
    );
    driver.engine().config().cycles_to_ns((end - start).0)
}

/// Nanoseconds in which the GPU places `blocks` blocks.
fn placing_ns(blocks: u32) -> u64 {
    let config = Bench::config(SMS);
    #[allow(clippy::cast_possible_truncation, reason = "a small positive number")]
    let cycles = (f64::from(blocks) * config.launch.block_interval_cycles) as u64;
    config.cycles_to_ns(cycles)
}

#[test]
fn a_launch_lasts_as_many_stays_as_it_has_waves() {
    // V100: 2,048 threads, 32 blocks, 65,536 registers and 96 KiB of shared memory in each of the two SMs.
    let free = |threads, blocks| Case {
        threads,
        registers: 16,
        shared: [0, 0],
        blocks,
        stay_ns: 20_000,
    };
    let cases = [
        (free(256, 16), 1),
        (free(256, 17), 2),
        (free(32, 64), 1),
        (free(32, 3 * 64), 3),
        (free(256, 4).registers(128), 1),
        (free(256, 5).registers(128), 2),
        (free(64, 4).shared([32 << 10, 16 << 10]), 1),
        (free(64, 5).shared([32 << 10, 16 << 10]), 2),
        (free(1024, 8).stay_ns(3_000_000), 2),
        (free(64, 2).stay_ns(300), 1),
    ];
    for (case, waves) in cases {
        for policy in ["fifo", "smk-p"] {
            let (lasted, due) = (duration(&case, policy), waves * case.stay_ns);
            // What starting blocks and placing them one after another costs, and the instructions around a sleep.
            let slack = due / 50 + waves * 1_000 + placing_ns(case.blocks);
            assert!(
                (due..due + slack).contains(&lasted),
                "{policy}: {lasted} ns instead of {due}: {} blocks of {} threads",
                case.blocks,
                case.threads
            );
        }
    }
}

#[test]
fn a_block_that_is_switched_out_goes_on_where_it_was() {
    const STAY_NS: u64 = 400_000;
    let mut bench = Bench::new(Bench::config(SMS));
    let domain = bench.domain;
    let kernels = ["long", "short"].map(|name| {
        let stand_in = StandIn {
            name: name.into(),
            registers: 32,
            static_shared_bytes: 0,
        };
        stand_in.load(&mut bench.gpu, domain).expect("it loads")
    });
    let device = DeviceId(0);
    let policy = by_name(
        "smk-p",
        device,
        &device_shape(bench.gpu.config()),
        &Profiles::default(),
    )
    .expect("a policy");
    let options = DriverOptions {
        record: true,
        ..DriverOptions::default()
    };
    let mut driver = ModelDriver::new(bench.gpu, policy, device, options);
    // The first one fills the GPU; the other one comes when it has done about a quarter, and takes half of it.
    for (tenant, (kernel, at)) in (0..).zip(kernels.into_iter().zip([0, 150_000])) {
        let tenant = TenantId(tenant);
        driver.tenant(tenant, 1, Class::Normal);
        let submission = ModelSubmission {
            queue: QueueId(u8::try_from(tenant.0).expect("small")),
            kernel,
            grid: [16, 1, 1],
            block: [256, 1, 1],
            dynamic_shared_bytes: 0,
            params: StandIn::params(STAY_NS),
            budget: None,
        };
        driver
            .submit(tenant, submission, Cycles(at))
            .expect("accepted");
    }
    assert!(driver.run(Cycles(1_000_000_000)));
    let events = driver.take_block_events();
    let is_out = |change| matches!(change, BlockChange::SwitchedOut { .. });
    let switched = events.iter().filter(|event| is_out(event.change));
    assert!(switched.count() > 0, "nothing was switched out");
    let config = driver.engine().config();
    // One sleep for each time that a block left, and as much again for leaving and coming back.
    for event in &events {
        let outs = events.iter().filter(|other| {
            (other.tag, other.block) == (event.tag, event.block) && is_out(other.change)
        });
        let slack = STAY_NS / 8 * (1 + outs.count() as u64);
        if let BlockChange::Retired { ran } = event.change {
            let ran_ns = config.cycles_to_ns(ran.0);
            assert!(
                (STAY_NS - slack..STAY_NS + slack).contains(&ran_ns),
                "{event:?} ran {ran_ns} ns"
            );
        }
    }
}
