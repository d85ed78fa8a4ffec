//! A policy that gives launches no room and is woken again and again: whoever waits for their ends is told.

use crate::load;
use gridmux_mix::event::{EventConfig, EventDriver, EventExecutor};
use gridmux_mix::event::{EventKernel, EventSubmission, Uses, Work};
use gridmux_mix::play::{self, Arrival, Planned, Program};
use gridmux_mix::{DriverOptions, Engine, MixError};
use gridmux_policy::{
    BlockShape, Class, DeviceId, DispatchOrder, Event, Nanos, Plan, Policy, Preemption, book::Book,
    layout::Layout, layout::whole,
};
use std::rc::Rc;
use std::sync::Arc;

/// As often as this a policy that controls shares is woken.
const TICK: u64 = 100_000;

/// Gives launches room from an instant on, and none before.
struct Starves {
    book: Book,
    until: Nanos,
    wake: Option<Nanos>,
}

impl Starves {
    fn until(ns: u64) -> Box<Self> {
        Box::new(Self {
            book: Book::new(&EventConfig::gtx480().shape),
            until: Nanos(ns),
            wake: None,
        })
    }
}

impl Policy for Starves {
    fn observe(&mut self, event: &Event) {
        self.book.observe(event);
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        let (mut heads, mut rows) = (Vec::new(), Vec::new());
        self.book.line_up(&mut heads, &mut rows);
        let cap = if now < self.until { 0 } else { 1 };
        let all = whole(&self.book, DispatchOrder::Arrival, Preemption::None);
        let layout = Layout {
            default_cap: cap,
            ..Layout::checked(DeviceId(0))
        };
        layout.fill(&self.book, (standing, next), &[all], &rows, |_, _| cap);
        self.wake = Some(now + Nanos(TICK));
        true
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.wake
    }
}

/// Runs a program of one launch under a policy that is replaced by nobody.
fn play(policy: Box<dyn Policy>) -> (EventDriver, Result<play::Run, MixError>) {
    let engine = EventExecutor::new(EventConfig::gtx480());
    let mut driver = EventDriver::new(engine, policy, DeviceId(0), DriverOptions::default());
    let kernel = Arc::new(EventKernel {
        name: "waits".to_owned(),
        block: BlockShape::of_threads(128),
        pressure: 1.0,
        sensitivity: 1.0,
        uses: Uses::UNKNOWN,
    });
    let submission = EventSubmission {
        queue: 0,
        kernel,
        blocks: 30,
        work: Work::Random {
            mean: 10_000.0,
            deviation: 0.0,
            by_wave: true,
        },
    };
    let programs = [Program {
        name: "starved".to_owned(),
        weight: 1,
        class: Class::Normal,
        streams: vec![vec![Planned {
            submission: Rc::new(submission),
            arrival: Arrival::At(0),
        }]],
    }];
    let went = play::run(&mut driver, &programs, |_, _| Ok(()));
    (driver, went)
}

#[test]
fn a_launch_that_never_gets_room_ends_the_run_with_an_error() {
    let (driver, went) = play(Starves::until(u64::MAX));
    let error = went.expect_err("nothing runs");
    assert!(matches!(error, MixError::Endless { .. }), "{error}");
    let engine = driver.engine();
    let second = 1_000_000_000..1_001_000_000;
    assert!(second.contains(&engine.time(engine.now()).0));
}

#[test]
fn a_launch_that_waits_for_less_than_a_second_is_waited_for() {
    let (_, went) = play(Starves::until(900_000_000));
    let run = went.expect("it runs in the end");
    assert!(run.played[0].start_ns() >= 900_000_000);
}

#[test]
fn a_driver_that_runs_to_a_time_comes_there_whatever_waits() {
    let mut driver = load::driver(Starves::until(u64::MAX));
    let end = driver.engine().cycle(Nanos(2_000_000_000));
    driver.run_until(end);
    assert_eq!(driver.engine().now(), end);
    assert!(!driver.run(end + end), "no launch has ended");
    assert!(driver.engine().now() <= end, "and none is waited for");
}
