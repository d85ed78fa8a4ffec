//! The probes of a launch that has to give room up fire where the dispatcher stops handing its blocks over, and where
//! it goes on.
//!
//! A binary of its own, because a trace sees what every thread of the traced process does.
#![cfg(all(not(loom), target_arch = "x86_64"))]

#[path = "mediator/scripted.rs"]
mod scripted;

use gridmux_bpf::{Probe, ProbeCount, TraceProgram, Unavailable};
use scripted::{Rig, Wire, launch};
use std::cell::RefCell;
use std::rc::Rc;

/// Tenant 0's launches are long, tenant 1's come while they run.
const LONG: [u32; 3] = [200_000, 1, 1];
const SHORT: [u32; 3] = [200, 1, 1];

fn submit(wire: &Rc<RefCell<Wire>>, cookie: u64, grid: [u32; 3]) {
    scripted::submit(wire, launch(cookie, grid, [256, 1, 1]));
}

/// Turns until `launches` launches of a client have completed.
fn complete(rig: &mut Rig, wire: &Rc<RefCell<Wire>>, launches: usize) {
    for _ in 0..200_000 {
        if wire.borrow().completions.len() == launches {
            return;
        }
        rig.turn();
    }
    panic!("a launch has not completed");
}

fn count(trace: &TraceProgram, probe: Probe, tenant: u32) -> u64 {
    let counts: Vec<ProbeCount> = trace.counts().expect("the program's map");
    let of = |count: &&ProbeCount| (count.probe, count.tenant) == (probe, tenant);
    counts.iter().find(of).map_or(0, |count| count.count)
}

#[test]
fn a_launch_that_gives_room_up_is_seen_to_stop_and_to_go_on() {
    let trace = match TraceProgram::attach(std::process::id()) {
        Ok(trace) => trace,
        Err(reason @ (Unavailable::NotBuilt { .. } | Unavailable::NotPermitted { .. })) => {
            println!("SKIPPED: {reason}");
            return;
        }
        Err(reason) => panic!("{reason}"),
    };
    let mut rig = Rig::live("smk-p");
    let [long, short] = [0, 1].map(|slot| rig.join(slot, 1));
    // Alone, it has the whole device and nobody stops it.
    submit(&long, 0, LONG);
    complete(&mut rig, &long, 1);
    assert_eq!(count(&trace, Probe::Preempt, 0), 0);
    assert!(count(&trace, Probe::SliceStart, 0) > 0);
    submit(&long, 1, LONG);
    for round in 0..3 {
        rig.turns(20);
        assert_eq!(long.borrow().completions.len(), 1, "it still runs");
        submit(&short, round, SHORT);
    }
    complete(&mut rig, &short, 3);
    complete(&mut rig, &long, 2);
    let preempted = count(&trace, Probe::Preempt, 0);
    assert!(preempted > 0, "it had the device, and another one came");
    assert_eq!(count(&trace, Probe::Resume, 0), preempted, "it ended");
}
