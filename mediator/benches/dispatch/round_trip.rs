//! The floor: a submission there and a completion back through the rings, both ends spinning.

use super::median;
use super::rig::{launch, pair, pin};
use gridmux_channel::ring::{CompletionEntry, CompletionStatus};
use std::hint::spin_loop;
use std::time::Instant;

const TRIPS: u64 = 2_000;

/// Returns the median of many round trips, in wall nanoseconds; the other end runs on the second processor.
pub(crate) fn p50_ns() -> f64 {
    let (mut host, mut client) = pair();
    let echo = std::thread::Builder::new()
        .name("echo".into())
        .spawn(move || {
            pin(1);
            for _ in 0..TRIPS {
                let entry = loop {
                    if let Some(entry) = host.pop().expect("an honest client") {
                        break entry;
                    }
                    spin_loop();
                };
                let done = CompletionEntry::new(entry.cookie(), CompletionStatus::Ok, 1, 2);
                host.push_completion(done).expect("room");
                host.wake_if_parked();
            }
        })
        .expect("a thread");
    let mut trips: Vec<f64> = (0..TRIPS)
        .map(|cookie| {
            let start = Instant::now();
            client.push(&launch(cookie)).expect("room");
            while client.pop_completion().expect("an honest host").is_none() {
                spin_loop();
            }
            start.elapsed().as_nanos() as f64
        })
        .collect();
    echo.join().expect("the other end");
    median(&mut trips)
}
