//! The BPF programs on the running kernel: the path that is always on, tracing, both loaders, and what they cost.
//!
//! On a machine that does not permit BPF each test prints `SKIPPED: reason` and passes.
//!
//! Rules: an instance's name holds the test's and the process's, so that no two share one. Only one test traces this
//! process, because a trace sees what every thread of it does.
#![cfg(not(loom))]

#[cfg(not(gridmux_no_bpf))]
mod both_loaders;
#[cfg(not(gridmux_no_bpf))]
mod budgets;
#[cfg(target_arch = "x86_64")]
mod events;
mod hostile;
mod latency;
mod listing;
mod unprivileged;
#[cfg(target_arch = "x86_64")]
mod usdt;

use gridmux_bpf::{LatencyOptions, LatencyProgram, Recorder, Unavailable};

/// Returns a name that no other process and no other test uses.
fn instance(test: &str) -> String {
    format!("test-{test}-{}", std::process::id())
}

/// Returns what was loaded, or says why the test is skipped. Fails where the refusal is for another reason than that
/// this machine does not permit BPF or the build lacked something.
fn loaded<T>(attempt: Result<T, Unavailable>) -> Option<T> {
    match attempt {
        Ok(program) => Some(program),
        Err(reason @ (Unavailable::NotBuilt { .. } | Unavailable::NotPermitted { .. })) => {
            println!("SKIPPED: {reason}");
            None
        }
        Err(reason) => panic!("{reason}"),
    }
}

/// Loads the programs of an instance, or says why the test is skipped.
fn load(instance: &str, options: LatencyOptions) -> Option<LatencyProgram> {
    loaded(LatencyProgram::load_with(instance, options))
}

/// Returns a recorder for a program's ring.
fn recorder(program: &LatencyProgram) -> Recorder {
    Recorder::from_fd(program.producer_fd().try_clone_to_owned().unwrap()).unwrap()
}
