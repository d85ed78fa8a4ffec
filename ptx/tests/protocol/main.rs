//! Every interleaving of a small device with the host's half of `gate` and of `worker`.
//!
//! `device` is the device's half, one atomic operation a step; `world` puts it beside the host ([`Instance`], the
//! real one) and a block scheduler and checks each state; `search` visits every reachable state and demands that
//! each can still reach the end. `gate` is both for the gate. Broken variants of the device's half show that the search finds what it is for.
//!
//! [`Instance`]: gridmux_ptx::protocol::Instance

mod device;
mod gate;
mod search;
mod world;

use device::{Choice, Leave, Ticket};
use gridmux_ptx::protocol::Mode;
use search::{Outcome, search};
use world::{Config, Control, World};

const WORKER: Config = Config {
    mode: Mode::Worker { chunk: 1 },
    blocks: 2,
    caps: &[2],
    most: &[2],
    room: 2,
    control: &[Control::Cap, Control::Stop],
    budget: 1,
    torn: false,
    rash: false,
    leave: Leave::HighestSlot,
    choice: Choice::Lowest,
    ticket: Ticket::OneWord,
    strict: false,
};

fn passes(name: &str, config: &Config) {
    match search::<World>(config) {
        Outcome::Proved { states, ended } => {
            println!("{name}: {states} states, {ended} of them ends");
            assert!(ended > 0, "{name}: nothing ever ends");
            assert!(states > 100, "{name}: only {states} states were reached");
        }
        Outcome::Broken { why, trace } => panic!("{name}: {why}\n{}", trace.join("\n")),
    }
}

fn finds(name: &str, config: &Config, expected: &str) {
    match search::<World>(config) {
        Outcome::Proved { states, .. } => panic!("{name}: {states} states and nothing found"),
        Outcome::Broken { why, trace } => {
            println!("{name}: {why} after {} steps", trace.len());
            assert!(why.contains(expected), "{name}: found another bug: {why}");
        }
    }
}

#[test]
fn a_worker_on_one_sm_under_shrink_grow_stop_and_resume() {
    passes("one SM", &WORKER);
    passes(
        "one SM, two operations",
        &Config {
            budget: 2,
            blocks: 3,
            ..WORKER
        },
    );
}

#[test]
fn workers_in_chunks() {
    let chunks = Config {
        mode: Mode::Worker { chunk: 2 },
        blocks: 5,
        ..WORKER
    };
    passes("chunks of two", &chunks);
}

#[test]
fn workers_on_two_sms() {
    let two = Config {
        caps: &[1, 1],
        most: &[2, 1],
        control: &[Control::Cap],
        ..WORKER
    };
    passes("two SMs", &two);
    let uneven = Config {
        caps: &[1, 0],
        control: &[Control::Stop],
        ..two
    };
    passes("one of two SMs", &uneven);
}

#[test]
fn newcomers_may_take_any_free_slot() {
    // An SM may then be left alone for a moment, by a worker in a high slot while the low ones are still empty; the
    // host sees what is missing, and everything still ends as it must.
    let any = Config {
        choice: Choice::Any,
        ..WORKER
    };
    passes("any slot", &any);
    let strict = Config {
        strict: true,
        ..any
    };
    finds("any slot, strictly", &strict, "no worker is left");
}

#[test]
fn an_observation_is_a_sequence_of_loads() {
    let torn = Config {
        torn: true,
        blocks: 2,
        ..WORKER
    };
    passes("torn observation", &torn);
}

#[test]
fn workers_that_count_each_other_all_leave_at_once() {
    let counted = Config {
        leave: Leave::CompareAndDecrement,
        ..WORKER
    };
    finds("compare, decrement, exit", &counted, "no worker is left");
}

#[test]
fn an_addition_whose_end_is_read_separately_loses_blocks() {
    let added = Config {
        ticket: Ticket::Separate,
        ..WORKER
    };
    finds("atom.add", &added, "ran twice");
}

#[test]
fn a_limit_that_is_raised_too_early_loses_blocks() {
    let rash = Config {
        rash: true,
        ..WORKER
    };
    finds("raised too early", &rash, "no worker is left");
}
