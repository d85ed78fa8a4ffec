//! The mediator's parts, each against the fewest others: the dispatcher on a scripted device ([`scripted`]) and on the
//! SM model ([`modelled`]), the policy's conformance suite on both, the modelled devices, and what compilers answer.
//!
//! Rule: tests here share a process, so none changes what belongs to the whole of it. Those that do are binaries of
//! their own: `sandbox.rs`, `probes.rs`, `steady_state.rs` and the loom suites.
#![cfg(not(loom))]

mod modelled;
mod scripted;

mod answers;
mod conformance;
mod dispatcher;
mod endless;
mod estimated;
mod fenced_answers;
mod functional;
mod gangs;
mod holds;
mod kept_shares;
mod loading;
mod lockstep;
mod losses;
mod newcomers;
mod offenders;
mod pairs;
mod pauses;
mod policy_failures;
mod policy_switches;
mod policy_thread;
mod preempted;
mod published_shares;
mod removals;
mod row_readings;
mod short_and_long;
mod srtf;
mod stopping;
mod submission;
mod transfers;
mod turns;
mod whys;
