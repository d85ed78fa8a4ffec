//! Every interleaving of a small device with the host's half of `gate` and of `worker`.
//!
//! `device` is a worker, one atomic operation a step; `world` puts some beside the host ([`Workers`], the real one) and
//! a block scheduler and checks each state; `search` visits every reachable state and demands that each can still reach
//! the end. `gate` is both for the gate. Broken variants of the device's half show that the search finds what it is
//! for.
//!
//! [`Workers`]: gridmux_ptx::protocol::Workers

mod device;
mod gate;
mod search;
mod world;

use device::{Fault, Manner};
use search::{Outcome, search};
use world::{Config, Control, World};

const WORKER: Config = Config {
    tickets: 3,
    caps: &[2],
    most: &[2],
    room: 2,
    control: &[Control::Cap, Control::Stop],
    budget: 1,
    torn: false,
    manner: Manner::Ahead,
    deals: false,
    waits: false,
    fault: Fault::Sound,
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
fn workers_on_one_sm_under_shrink_grow_stop_and_resume() {
    passes("one SM", &WORKER);
    let often = Config {
        tickets: 2,
        budget: 3,
        ..WORKER
    };
    passes("one SM, three operations", &often);
    for manner in [Manner::Late, Manner::Wary] {
        let config = Config { manner, ..often };
        passes(&format!("{manner:?}"), &config);
    }
}

#[test]
fn dealt_tickets_run_once_under_shrink_grow_stop_and_resume() {
    let dealt = Config {
        deals: true,
        budget: 2,
        ..WORKER
    };
    passes("dealt", &dealt);
    for manner in [Manner::Late, Manner::Wary] {
        let config = Config { manner, ..dealt };
        passes(&format!("dealt, {manner:?}"), &config);
    }
    let two = Config {
        caps: &[1, 1],
        most: &[1, 1],
        room: 1,
        ..dealt
    };
    passes("dealt on two SMs", &two);
    let all = Config {
        tickets: 2,
        ..dealt
    };
    passes("all tickets dealt", &all);
}

#[test]
fn who_leaves_for_the_cap_gives_its_place_back() {
    let kept = Config {
        fault: Fault::KeepsPlace,
        ..WORKER
    };
    finds("a place kept", &kept, "count as");
}

#[test]
fn a_dealt_ticket_is_not_in_the_counter() {
    let taken = Config {
        deals: true,
        fault: Fault::TakesDealt,
        ..WORKER
    };
    finds("a dealt ticket left", &taken, "never ran");
}

#[test]
fn three_workers_shrink_to_any_cap() {
    let three = Config {
        tickets: 2,
        caps: &[3],
        most: &[3],
        room: 3,
        control: &[Control::Cap],
        ..WORKER
    };
    passes("three workers", &three);
}

#[test]
fn workers_on_two_sms() {
    let two = Config {
        tickets: 2,
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
fn blocks_that_wait_for_earlier_ones_end() {
    let waits = Config {
        waits: true,
        ..WORKER
    };
    passes("waits for earlier blocks", &waits);
    let held = Config {
        fault: Fault::LastFirst,
        ..waits
    };
    finds("the last one first", &held, "is held");
}

#[test]
fn an_observation_is_a_sequence_of_loads() {
    passes(
        "torn",
        &Config {
            torn: true,
            ..WORKER
        },
    );
}

#[test]
fn workers_that_look_first_and_subtract_then_leave_too_many() {
    let looked = Config {
        fault: Fault::LookThenSubtract,
        ..WORKER
    };
    finds("look, then subtract", &looked, "no worker is left");
}

#[test]
fn a_ticket_that_is_given_back_is_lost() {
    let dropped = Config {
        fault: Fault::DropsTicket,
        ..WORKER
    };
    finds("a dropped ticket", &dropped, "never ran");
}

#[test]
fn a_number_that_is_read_and_then_written_is_taken_twice() {
    let split = Config {
        fault: Fault::ReadThenWrite,
        ..WORKER
    };
    finds("read, then write", &split, "ran twice");
}

#[test]
fn workers_with_the_same_hint_stay_above_the_cap() {
    let same = Config {
        budget: 2,
        fault: Fault::HintOfZero,
        ..WORKER
    };
    finds("hints of zero", &same, "have a hint below");
}
