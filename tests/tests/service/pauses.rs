//! Contract: an operator pauses tenants of a running service. A pause holds through other device hosts and readings of
//! the configuration and until the service ends; the others share the device as if the paused one had nothing to do;
//! and what binds a tenant is said also where that is device memory, and while the host is silent.

use gridmux_mediator::dispatch::accounts::TenantState;
use gridmux_mediator::dispatch::why::Why;
use gridmux_mediator::settings::Change;
use gridmux_mediator::supervisor::{AdminReply, AdminRequest, ask};
use gridmux_tests::reload::{APPLIED, reload};
use gridmux_tests::{Bystander, ENDLESS, RawTenant, Service, ServiceBuilder, bare_launch, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Launches of the other tenant that are to complete meanwhile.
const LAUNCHES: u64 = 3;

fn two_tenants() -> ServiceBuilder {
    ServiceBuilder::new(&[("paused", 1), ("other", 1)])
}

/// Has a tenant be paused or go on; returns whether a device host was told.
fn set(service: &Service, state: TenantState) -> bool {
    let name = "paused".to_owned();
    let request = AdminRequest::Change(Change::State { name, state });
    match ask(service.folder(), &request).unwrap() {
        AdminReply::Tenant { tenant, host_told } => {
            assert_eq!((&*tenant.name, tenant.state), ("paused", state));
            host_told
        }
        reply => panic!("{reply:?}"),
    }
}

fn await_why(service: &Service, why: Why) {
    until(&format!("{why:?} to bind"), || {
        let tenant = service.tenant("paused");
        (tenant.usage.binding.why == why).then_some(())
    });
}

fn beside_a_bystander(builder: ServiceBuilder) {
    let service = builder.start();
    let other = Bystander::start(&service, "other", "vecadd");
    assert!(set(&service, TenantState::Paused));
    await_why(&service, Why::Paused);
    let paused = std::thread::scope(|scope| {
        let launching = scope.spawn(|| Bystander::start(&service, "paused", "matmul"));
        until("its first operations to wait", || {
            (service.tenant("paused").usage.pending > 0).then_some(())
        });
        let before = service.tenant("paused").usage;
        other.await_more(LAUNCHES);
        let usage = service.tenant("paused").usage;
        assert_eq!(
            (usage.slices, usage.blocks, usage.completed, usage.failed),
            (before.slices, before.blocks, before.completed, 0)
        );
        assert!(service.tenant("paused").bound_for_ms.is_some());
        set(&service, TenantState::Running);
        launching.join().unwrap()
    });
    paused.await_more(LAUNCHES);
    other.await_more(LAUNCHES);
    // In the midst of its work, too.
    set(&service, TenantState::Paused);
    await_why(&service, Why::Paused);
    other.await_more(LAUNCHES);
    set(&service, TenantState::Running);
    paused.await_more(LAUNCHES);
    paused.finish();
    other.finish();
    for tenant in ["paused", "other"] {
        let usage = service.tenant(tenant).usage;
        assert_eq!((usage.failed, usage.pending), (0, 0), "{tenant}: {usage:?}");
    }
    await_why(&service, Why::Idle);
}

#[test]
fn the_launches_of_a_paused_tenant_wait_and_those_of_others_go_on() {
    beside_a_bystander(two_tenants());
    beside_a_bystander(two_tenants().functional());
    beside_a_bystander(two_tenants().policy("gridmux"));
}

#[test]
fn a_pause_in_lockstep_keeps_nobody_waiting() {
    beside_a_bystander(two_tenants().lockstep());
}

#[test]
fn a_pause_holds_through_other_hosts_and_readings_and_not_for_the_next_service() {
    let service = two_tenants().functional().start();
    set(&service, TenantState::Paused);
    let state = |service: &Service| service.tenant("paused").tenant.state;
    let host = service.host();
    kill(Pid::from_raw(host.cast_signed()), Signal::SIGKILL).unwrap();
    until("another device host", || {
        let pid = service.statistics().host_pid;
        pid.filter(|pid| *pid != host)
    });
    // The new host has it from its start.
    await_why(&service, Why::Paused);
    let log = reload(&service);
    assert!(log.contains(APPLIED), "{log}");
    assert_eq!(state(&service), TenantState::Paused);
    await_why(&service, Why::Paused);
    let service = service.killed_and_started();
    assert_eq!(state(&service), TenantState::Running);
}

#[test]
fn memory_binds_who_was_refused_it_until_there_is_room() {
    let builder = two_tenants().tenant_key("paused", "memory_limit_bytes = 4194304");
    let service = builder.start();
    let gpu = service.gpu("paused");
    let held = gpu.alloc(3 << 20).unwrap();
    await_why(&service, Why::Idle);
    assert!(gpu.alloc(2 << 20).is_err());
    await_why(&service, Why::Memory);
    drop(held);
    await_why(&service, Why::Idle);
    // One that is granted afterwards ends it too.
    let _held = gpu.alloc(3 << 20).unwrap();
    assert!(gpu.alloc(2 << 20).is_err());
    await_why(&service, Why::Memory);
    let _smaller = gpu.alloc(1 << 16).unwrap();
    await_why(&service, Why::Idle);
}

#[test]
fn what_binds_is_said_while_the_host_is_silent() {
    let service = two_tenants().start();
    let mut raw = RawTenant::connect(&service.socket(), "paused");
    let module = raw.load(ENDLESS.as_bytes()).unwrap();
    raw.push(0, bare_launch(&module, [4_000, 1, 1], [256, 1, 1]));
    await_why(&service, Why::Unproven);
    let host = Pid::from_raw(service.host().cast_signed());
    kill(host, Signal::SIGSTOP).unwrap();
    let tenant = service.tenant("paused");
    assert_eq!(tenant.usage.binding.why, Why::Unproven);
    assert!(tenant.bound_for_ms.is_some());
    kill(host, Signal::SIGCONT).unwrap();
}
