//! The event executor is a subject of the conformance suite.

use gridmux_mix::conformance::Asked;
use gridmux_mix::event::{
    Contention, EventConfig, EventExecutor, EventKernel, EventSubmission, Work, enforces,
};
use gridmux_policy::conformance::{
    Breach, Load, Slack, Subject, Trace, Verdict, check, check_policy, mix,
};
use gridmux_policy::shape::{BlockShape, DeviceShape};
use gridmux_policy::units::Nanos;
use gridmux_policy::{Element, Enforcement, Policy};
use std::sync::Arc;

/// A small device on which a cycle is a nanosecond and nobody slows another down.
struct OnEvents {
    config: EventConfig,
    asked: Asked,
}

impl OnEvents {
    fn new() -> Self {
        Self {
            config: EventConfig {
                shape: DeviceShape::v100(4),
                clock_mhz: 1_000,
                contention: Contention {
                    context_bytes_per_cycle: 16.0,
                    ..Contention::NONE
                },
            },
            asked: Asked::default(),
        }
    }

    /// Runs the mix under a policy, with a rule broken if asked.
    fn mixed(&mut self, policy: &'static str, breach: Option<Breach>) -> Result<(), String> {
        let loads = mix(&self.config.shape, self.grain());
        self.asked.breach = breach;
        let until = self.grain() * 1_000;
        check_policy(self, policy, &loads, until).map_err(|failure| failure.to_string())
    }
}

impl Subject for OnEvents {
    fn device(&self) -> DeviceShape {
        self.config.shape
    }

    fn enforces(&self, element: Element) -> Enforcement {
        enforces(element)
    }

    fn slack(&self, element: Element) -> Slack {
        Slack::exact(match element {
            Element::Preemption => Nanos(20_000),
            _ => Nanos(0),
        })
    }

    fn observation(&self) -> Nanos {
        Nanos(1)
    }

    fn grain(&self) -> Nanos {
        Nanos(80_000)
    }

    fn limit_rows(&mut self, per_tenant: usize) -> bool {
        self.asked.rows_per_tenant = per_tenant;
        true
    }

    fn first_row(&mut self, first: u32) -> bool {
        self.asked.first_row = first;
        true
    }

    fn lose_events(&mut self, from: u64, n: u64) -> bool {
        self.asked.lose = Some((from, n));
        true
    }

    fn run(&mut self, policy: Box<dyn Policy>, loads: &[Load], until: Nanos) -> Trace {
        let kernel = |(place, load): (usize, &Load)| {
            Arc::new(EventKernel {
                name: format!("load {place}"),
                block: BlockShape {
                    registers: load.block.threads * 16,
                    ..load.block
                },
                pressure: 1.0,
                sensitivity: 1.0,
            })
        };
        let kernels: Vec<_> = loads.iter().enumerate().map(kernel).collect();
        let engine = EventExecutor::new(self.config);
        let asked = std::mem::take(&mut self.asked);
        asked.run(engine, policy, (loads, until), |place, load, launch| {
            EventSubmission {
                queue: u32::from(load.stream),
                kernel: Arc::clone(&kernels[place]),
                blocks: u64::from(launch.blocks),
                work: Work::Random {
                    mean: launch.block_ns.0 as f64,
                    deviation: 0.0,
                },
            }
        })
    }
}

#[test]
fn the_event_executor_holds_every_rule_that_applies() {
    let went = check(&mut OnEvents::new()).unwrap_or_else(|failures| {
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
    use super::{Breach, OnEvents};

    gridmux_policy::policy_tests!(holds);

    fn holds(policy: &'static str) {
        let held = OnEvents::new().mixed(policy, None);
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
            let failure = OnEvents::new().mixed(policy, Some(breach));
            let text = failure.expect_err(policy);
            assert!(text.contains(what), "{breach:?}: {text}");
        }
    }
}
