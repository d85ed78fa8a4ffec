//! The event executor is a subject of the conformance suite.

use gridmux_mix::conformance::{Asked, OnVirtualTime};
use gridmux_mix::event::{
    Contention, EventConfig, EventExecutor, EventKernel, EventSubmission, Uses, Work, enforces,
};
use gridmux_policy::Policy;
use gridmux_policy::conformance::{Breach, Load, Subject, Verdict, check, check_policy, mix};
use gridmux_policy::shape::{BlockShape, DeviceShape};
use gridmux_policy::units::Nanos;
use std::sync::Arc;

/// Returns a small device on which a cycle is a nanosecond and nobody slows another down.
fn on_events() -> OnVirtualTime {
    let config = EventConfig {
        shape: DeviceShape::v100(4),
        clock_mhz: 1_000,
        issue_width: 4,
        launch_cycles: 0,
        dependent_cycles: 0,
        contention: Contention {
            context_bytes_per_cycle: 16.0,
            ..Contention::NONE
        },
    };
    let times = [Nanos(1), Nanos(80_000)];
    let run = move |asked: Asked, policy: Box<dyn Policy>, loads: &[Load], until: Nanos| {
        let kernel = |(place, load): (usize, &Load)| {
            Arc::new(EventKernel {
                name: format!("load {place}"),
                block: BlockShape {
                    registers: load.block.threads * 16,
                    ..load.block
                },
                pressure: 1.0,
                sensitivity: 1.0,
                uses: Uses::UNKNOWN,
            })
        };
        let kernels: Vec<_> = loads.iter().enumerate().map(kernel).collect();
        let engine = EventExecutor::new(config);
        asked.run(engine, policy, (loads, until), |place, load, launch| {
            EventSubmission {
                queue: u32::from(load.stream),
                kernel: Arc::clone(&kernels[place]),
                blocks: u64::from(launch.blocks),
                work: Work::Random {
                    mean: launch.block_ns.0 as f64,
                    deviation: 0.0,
                    by_wave: true,
                },
            }
        })
    };
    OnVirtualTime::new(config.shape, enforces, times, Box::new(run))
}

/// Runs the mix under a policy, with a rule broken if asked.
fn mixed(policy: &'static str, breach: Option<Breach>) -> Result<(), String> {
    let mut subject = on_events();
    subject.breach = breach;
    let grain = subject.grain();
    let loads = mix(&subject.device(), grain);
    let held = check_policy(&mut subject, policy, &loads, grain * 1_000);
    held.map_err(|failure| failure.to_string())
}

#[test]
fn the_event_executor_holds_every_rule_that_applies() {
    let went = check(&mut on_events()).unwrap_or_else(|failures| {
        let lines: Vec<String> = failures.iter().map(ToString::to_string).collect();
        panic!("{}", lines.join("\n"));
    });
    let skipped: Vec<_> = went.iter().filter(|(_, v)| *v != Verdict::Held).collect();
    let names: Vec<_> = skipped.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["rows issue as their weights are"]);
    assert!(went.len() >= 20, "{}", went.len());
}

/// Every policy over the mix of the suite.
mod policies {
    use super::{Breach, mixed};

    gridmux_policy::policy_tests!(holds);

    fn holds(policy: &'static str) {
        let held = mixed(policy, None);
        held.unwrap_or_else(|failure| panic!("{failure}"));
    }

    #[test]
    fn a_broken_rule_is_noticed() {
        for (policy, breach, what) in [
            ("mpmax", Breach::Caps, "cap of"),
            ("even", Breach::Caps, "cap of"),
            ("fifo", Breach::Order, "which had room there"),
            ("sjf", Breach::Stops, "beside"),
            ("spatial", Breach::Stops, "under one plan"),
            ("srtf", Breach::Stops, "one samples"),
            ("fifo", Breach::Blocks, "is said to have"),
        ] {
            let failure = mixed(policy, Some(breach));
            let text = failure.expect_err(policy);
            assert!(text.contains(what), "{breach:?}: {text}");
        }
    }
}
