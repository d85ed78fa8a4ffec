//! The dispatcher and the policy thread under loom: every interleaving of their queue and plan, two preemptions deep.
//!
//! Invariants: **D1** every admitted launch completes exactly once, with all of its blocks launched once; **D2**
//! virtual time never passes while the policy has not seen the start of a launch that was reported before; **D3** a
//! launch alone and never seen before has few blocks in flight.
#![cfg(loom)]

#[path = "mediator/scripted.rs"]
mod scripted;

use gridmux_policy::event::Event;
use gridmux_policy::units::Nanos;
use gridmux_policy::{Plan, Policy};
use scripted::{Rig, launch, named, submit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// SMK-P, with a count of the launches that it has seen start. The count is outside loom's view on purpose: it judges,
/// and must not order anything.
struct Watched {
    inner: Box<dyn Policy>,
    started: Arc<AtomicU32>,
}

impl Policy for Watched {
    fn observe(&mut self, event: &Event) {
        if let Event::FirstStart { .. } = event {
            // SeqCst: pairs with the load at each permit.
            self.started.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.observe(event);
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        self.inner.replan(now, standing, next)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.inner.wake_at()
    }
}

#[test]
fn launches_complete_once_and_time_waits_for_the_policy() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let started = Arc::new(AtomicU32::new(0));
        let inner = named("smk-p");
        let mut rig = Rig::with_policy(Box::new(Watched {
            inner,
            started: Arc::clone(&started),
        }));
        rig.bench.borrow_mut().at_permit = Some(Box::new(move |blocks| {
            // SeqCst: pairs with the addition in `Watched::observe`.
            assert_eq!(
                started.load(Ordering::SeqCst),
                u32::from(blocks > 0),
                "D2: time passes behind the policy's back"
            );
        }));
        let wire = rig.join(0, 1);
        submit(&wire, launch(1, [9, 1, 1], [1024, 1, 1]));
        let Rig {
            mut dispatcher,
            mut policy,
            bench,
            ..
        } = rig;
        let thread = loom::thread::spawn(move || {
            // The thread that serves the policy for a while; what is left is run below.
            for _ in 0..2 {
                policy.run();
                loom::thread::yield_now();
            }
            policy
        });
        for _ in 0..3 {
            let _ = dispatcher.turn();
            let in_flight: u32 = bench
                .borrow()
                .in_flight
                .iter()
                .map(|(_, blocks)| blocks)
                .sum();
            assert!(
                in_flight <= 8,
                "D3: {in_flight} blocks of 1024 threads on 4 SMs of 2048"
            );
        }
        let mut policy = thread.join().unwrap();
        while wire.borrow().completions.is_empty() {
            policy.run();
            let _ = dispatcher.turn();
        }
        for _ in 0..4 {
            policy.run();
            let _ = dispatcher.turn();
        }
        assert_eq!(wire.borrow().completions.len(), 1, "D1: completed once");
        let blocks: u32 = bench
            .borrow()
            .launched
            .iter()
            .map(|slice| slice.grid[0])
            .sum();
        assert_eq!(blocks, 9, "D1: every block was launched once");
    });
}
