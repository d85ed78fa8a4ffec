//! How programs and services end, and what is left of either.

use super::program::Program;
use super::{builder, service};
use gridmux_tests::reload::{change, without};
use gridmux_tests::until;
use gridmux_workloads::Prng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::time::Duration;

const KILLS: u32 = 20;
const SEED: u64 = 0x17_c0_da;

#[test]
fn programs_are_killed_at_any_moment_and_nothing_of_them_stays() {
    let service = service();
    let before = service.statistics();
    let mut prng = Prng::new(SEED);
    for round in 0..KILLS {
        let mut victim = Program::start(&service, "tenant", "victim::works_until_it_is_killed", "");
        // Half of them die somewhere in their start, half at work.
        if round % 2 == 1 {
            assert_eq!(victim.hear(), "works");
        }
        std::thread::sleep(Duration::from_micros(u64::from(prng.below(60_000))));
        assert!(!victim.has_ended(), "round {round}: it ended by itself");
        victim.kill();
        let after = service.await_gone("tenant");
        let usage = service.tenant("tenant").usage;
        assert_eq!(usage.pending, 0, "round {round}: {usage:?}");
        assert_eq!(
            usage.submitted,
            usage.completed + usage.abandoned,
            "round {round}: {usage:?}"
        );
        assert_eq!(after.host.memory_used_bytes, 0, "round {round}");
    }
    let after = service.statistics();
    assert_eq!((after.host_pid, after.host_restarts), (before.host_pid, 0));
}

#[test]
fn a_program_that_gives_nothing_back_leaves_nothing() {
    let service = service();
    Program::start(&service, "tenant", "victim::leaves_everything_behind", "").succeed();
    let after = service.await_gone("tenant");
    until("the end of its kernel", || {
        (service.tenant("tenant").usage.pending == 0).then_some(())
    });
    assert_eq!(after.host.memory_used_bytes, 0);
}

#[test]
fn a_tenant_cannot_touch_the_memory_of_another() {
    let service = service();
    let mut owner = Program::start(&service, "other", "victim::shows_an_address", "");
    let address = owner.hear();
    // Another tenant, and another process of the same one.
    for tenant in ["tenant", "other"] {
        Program::start(&service, tenant, "faults::foreign_pointers", &address).succeed();
    }
    owner.say("look");
    owner.succeed();
}

#[test]
fn a_program_outlives_its_service() {
    for whole in [false, true] {
        let service = builder().start();
        let mut program = Program::start(&service, "tenant", "victim::loses_its_service", "");
        assert_eq!(program.hear(), "runs");
        let host = service.host();
        let host = Pid::from_raw(i32::try_from(host).expect("a process number"));
        if whole {
            kill(service.pid(), Signal::SIGKILL).expect("the supervisor can be killed");
        }
        let _ = kill(host, Signal::SIGKILL);
        is_told_once(&program.succeed(), "run this again");
    }
}

/// Checks that a program was told once why it lost its service, with this reason or hint.
fn is_told_once(said: &str, why: &str) {
    let sentence = "gridmux: the connection to the service was lost: ";
    let told: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with(sentence))
        .collect();
    assert!(told.len() == 1 && told[0].contains(why), "{said}");
}

#[test]
fn a_program_whose_tenant_is_taken_out_is_told() {
    let service = builder().start();
    let mut program = Program::start(&service, "tenant", "victim::is_taken_out", "");
    assert_eq!(program.hear(), "runs");
    change(&service, |text| without(&text, "tenant"));
    let why = "no more in the service's configuration";
    is_told_once(&program.succeed(), why);
}

#[test]
fn without_a_service_there_is_no_device() {
    let nowhere = Path::new("/nonexistent/gridmux.sock");
    let mut program = Program::start_at(nowhere, "tenant", "entry::no_service", "");
    let (status, said) = program.end();
    assert!(status.success(), "{said}");
    assert!(said.contains("/nonexistent/gridmux.sock"), "{said:?}");
}
