//! The event executor is a subject of the conformance suite.

use gridmux_policy::conformance::{Asked, Load, Slack, Subject, Trace, Verdict, check};
use gridmux_policy::executor::{
    Contention, EventConfig, EventExecutor, EventKernel, EventSubmission, Work, enforces,
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
                shape: DeviceShape {
                    sms: 4,
                    threads: 2048,
                    blocks: 32,
                    registers: 65_536,
                    shared_bytes: 98_304,
                },
                clock_mhz: 1_000,
                contention: Contention {
                    context_bytes_per_cycle: 16.0,
                    ..Contention::NONE
                },
            },
            asked: Asked::default(),
        }
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
                    #[allow(clippy::cast_precision_loss, reason = "a short time")]
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
