//! Contract: a running service obeys another policy when an operator or its configuration says so, and no launch is
//! lost, repeated or stopped by that. It holds for the next device host too, and not for the next service.

use gridmux_mediator::settings::Change;
use gridmux_mediator::supervisor::{AdminError, AdminReply, AdminRequest, ask};
use gridmux_policy::all_policies;
use gridmux_tests::reload::change;
use gridmux_tests::{Bench, Service, ServiceBuilder, until};
use gridmux_workloads::Size;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The policy that the services of these tests start with.
const FIRST: &str = "smk-p";
const TENANTS: [&str; 3] = ["a", "b", "c"];

fn builder() -> ServiceBuilder {
    ServiceBuilder::new(&TENANTS.map(|name| (name, 1))).policy(FIRST)
}

fn set(service: &Service, policy: &str) -> Result<AdminReply, AdminError> {
    let request = AdminRequest::Change(Change::Policy(policy.to_owned()));
    ask(service.folder(), &request)
}

/// Waits until a policy decides.
fn await_policy(service: &Service, policy: &str) {
    until(&format!("{policy} to take over"), || {
        let host = service.statistics().host;
        let decides = host.policy_in_force.is_some_and(|now| now.name == policy);
        (host.policy == policy && decides).then_some(())
    });
}

/// Has every policy take over from the one before while all tenants launch, and checks every launch.
fn switch_under_load(service: &Service) {
    let over = AtomicBool::new(false);
    let right = TENANTS.map(|_| AtomicU64::new(0));
    std::thread::scope(|scope| {
        for (tenant, right) in TENANTS.iter().zip(&right) {
            let over = &over;
            scope.spawn(move || {
                let gpu = service.gpu(tenant);
                let bench = Bench::set_up(&gpu, "matmul", Size::Tiny, 3).unwrap();
                while !over.load(Ordering::Relaxed) {
                    bench.run(&gpu).unwrap();
                    right.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut before = FIRST;
        for policy in all_policies() {
            let launched: Vec<u64> = right.iter().map(|n| n.load(Ordering::Relaxed)).collect();
            match set(service, policy.name).unwrap() {
                AdminReply::Policy {
                    policy: now,
                    before: was,
                    host_told,
                } => {
                    assert_eq!((&*now, &*was, host_told), (policy.name, before, true));
                }
                reply => panic!("{reply:?}"),
            }
            before = policy.name;
            await_policy(service, policy.name);
            // Under each policy each tenant gets on.
            until(&format!("launches of all under {}", policy.name), || {
                let mut pairs = right.iter().zip(&launched);
                pairs
                    .all(|(now, then)| now.load(Ordering::Relaxed) > then + 1)
                    .then_some(())
            });
        }
        over.store(true, Ordering::Relaxed);
    });
    let statistics = service.statistics();
    assert_eq!(statistics.host_restarts, 0, "{}", service.log());
    assert_eq!(statistics.host.policy_failure, None);
    for (tenant, right) in statistics.host.tenants.iter().zip(&right) {
        let usage = &tenant.usage;
        assert_eq!((usage.pending, usage.abandoned), (0, 0), "{usage:?}");
        assert_eq!(usage.launches, right.load(Ordering::Relaxed), "{usage:?}");
    }
}

#[test]
fn every_policy_takes_over_while_tenants_of_a_functional_device_launch() {
    switch_under_load(&builder().functional().start());
}

#[test]
fn every_policy_takes_over_on_a_clock_that_waits_for_nobody() {
    switch_under_load(&builder().start());
}

#[test]
fn every_policy_takes_over_on_a_clock_that_clients_hold() {
    switch_under_load(&builder().lockstep().start());
}

#[test]
fn a_policy_that_is_not_there_is_refused_with_a_list_and_the_one_in_force_stays() {
    let service = builder().functional().start();
    await_policy(&service, FIRST);
    let before = service.statistics().host.policy_in_force.unwrap();
    let error = set(&service, "nope").unwrap_err().to_string();
    assert!(error.contains("\"nope\""), "{error}");
    for policy in all_policies() {
        assert!(error.contains(policy.name), "{error}");
    }
    let after = service.statistics().host.policy_in_force.unwrap();
    assert_eq!(after.name, FIRST);
    assert!(after.for_ms >= before.for_ms, "{after:?} {before:?}");
}

#[test]
fn what_was_set_holds_for_the_next_device_host_and_the_configuration_for_the_next_service() {
    let service = builder().functional().start();
    set(&service, "even").unwrap();
    await_policy(&service, "even");
    let user = nix::unistd::geteuid();
    let log = service.log();
    let line = log.lines().find(|line| line.contains("set the policy"));
    for part in [
        format!("from={FIRST}"),
        "to=even".to_owned(),
        format!("user={user}"),
    ] {
        assert!(
            line.is_some_and(|line| line.contains(&part)),
            "{part}: {log}"
        );
    }
    let host = service.host();
    kill(Pid::from_raw(i32::try_from(host).unwrap()), Signal::SIGKILL).unwrap();
    until("the next device host", || {
        gridmux_tests::host_of(&service).filter(|now| *now != host)
    });
    await_policy(&service, "even");
    let service = service.killed_and_started();
    await_policy(&service, FIRST);
    // And it holds until the configuration is read again, which may name another one.
    set(&service, "even").unwrap();
    change(&service, |text| text.replace(FIRST, "mpmax"));
    await_policy(&service, "mpmax");
    assert_eq!(service.statistics().host_restarts, 0);
}
