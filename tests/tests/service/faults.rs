//! Contract: whoever dies, dies alone. A tenant that is killed leaves nothing behind, and a device host that is killed
//! is replaced.

use gridmux_tenant::{ClientError, Gpu};
use gridmux_tests::{Bench, Bystander, Service, ServiceBuilder, Speaker, until};
use gridmux_workloads::{Prng, Size};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::Stdio;
use std::time::Duration;

const KILLS: u32 = 50;
const SEED: u64 = 0x9_1d_44;

/// Returns a tenant in a process of its own that would go on for hours.
fn start_victim(service: &Service, prng: &mut Prng) -> Speaker {
    let workloads = [
        "vecadd",
        "matmul",
        "reduction",
        "stencil3d",
        "spmv",
        "black_scholes",
    ];
    let workload = workloads[prng.below(6) as usize];
    let streams = 1 + prng.below(8);
    let words = format!("{workload} --launches 1000000 --streams {streams}");
    Speaker::work(&service.socket(), "victim", &words, Stdio::null())
}

fn sleep_up_to_60_ms(prng: &mut Prng) {
    std::thread::sleep(Duration::from_micros(u64::from(prng.below(60_000))));
}

/// Descriptors that the device host holds, where we may look.
fn descriptors(host: u32) -> Option<usize> {
    Some(std::fs::read_dir(format!("/proc/{host}/fd")).ok()?.count())
}

#[test]
fn fifty_tenants_are_killed_and_nothing_of_them_stays() {
    let service = ServiceBuilder::new(&[("first", 2), ("second", 1), ("victim", 1)]).start();
    let first = Bystander::start(&service, "first", "matmul");
    let second = Bystander::start(&service, "second", "reduction");
    let before = service.statistics();
    let held = |name: &str| service.tenant(name).memory_used_bytes;
    let (first_held, second_held) = (held("first"), held("second"));
    assert!(before.host.memory_used_bytes > 0 && first_held > 0 && second_held > 0);
    let descriptors_before = descriptors(service.host());
    let mut prng = Prng::new(SEED);
    let mut killed_at_work = 0;
    for round in 0..KILLS {
        let submitted_before = service.tenant("victim").usage.submitted;
        let mut victim = start_victim(&service, &mut prng);
        // Half of them die somewhere in their start, half at work.
        if round % 2 == 1 {
            until("a victim at work", || {
                let usage = service.tenant("victim").usage;
                (usage.submitted > submitted_before).then_some(())
            });
            killed_at_work += 1;
        }
        sleep_up_to_60_ms(&mut prng);
        assert!(
            victim.ended().is_none(),
            "round {round}: a victim ended by itself"
        );
        victim.kill();
        let after = service.await_gone("victim");
        let usage = service.tenant("victim").usage;
        assert_eq!(usage.pending, 0, "round {round}: {usage:?}");
        assert_eq!(
            usage.submitted,
            usage.completed + usage.abandoned,
            "round {round}: {usage:?}"
        );
        assert_eq!(
            after.host.memory_used_bytes, before.host.memory_used_bytes,
            "round {round}"
        );
        assert_eq!(
            (held("first"), held("second")),
            (first_held, second_held),
            "round {round}"
        );
    }
    assert_eq!(killed_at_work, KILLS / 2);
    let after = service.statistics();
    assert_eq!((after.host_pid, after.host_restarts), (before.host_pid, 0));
    assert!(
        after
            .host
            .tenants
            .iter()
            .all(|tenant| tenant.usage.failed == 0)
    );
    if descriptors_before.is_some() {
        until("the device host to close the victims' descriptors", || {
            (descriptors(service.host()) <= descriptors_before).then_some(())
        });
    } else {
        println!("SKIPPED: the device host's descriptors cannot be counted by this user");
    }
    first.finish();
    second.finish();
}

#[test]
fn a_killed_device_host_is_reported_and_replaced() {
    let service = ServiceBuilder::new(&[("first", 1), ("second", 1)]).start();
    let before = service.statistics();
    let connect = |name: &str| {
        let gpu = service.gpu(name);
        let bench = Bench::set_up(&gpu, "matmul", Size::Tiny, 5).unwrap();
        (gpu, bench)
    };
    let (busy, busy_bench) = connect("first");
    let (idle, _idle_bench) = connect("second");
    busy_bench.run(&busy).unwrap();
    let host = Pid::from_raw(i32::try_from(service.host()).unwrap());
    kill(host, Signal::SIGKILL).unwrap();
    let error = until("a tenant at work to hear of it", || {
        busy_bench.run(&busy).err()
    });
    assert!(error.is_lost(), "{error:?}");
    let error = idle.alloc(4096).unwrap_err();
    assert!(
        error.is_lost(),
        "an idle tenant hears of it when it asks: {error:?}"
    );

    for lost in [&busy, &idle] {
        let gpu = until("the new device host", || reconnected(lost));
        let bench = Bench::set_up(&gpu, "vecadd", Size::Tiny, 6).unwrap();
        bench.run(&gpu).unwrap();
    }
    let after = service.statistics();
    assert_eq!(after.host_restarts, 1);
    assert_ne!(after.host_pid, before.host_pid);
}

/// Returns a new connection; `None` while the device host is being replaced.
fn reconnected(lost: &Gpu) -> Option<Gpu> {
    match lost.reconnect() {
        Ok(gpu) => Some(gpu),
        Err(ClientError::Call(_) | ClientError::DeviceLost(_)) => None,
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_device_host_does_not_outlive_its_service() {
    let service = ServiceBuilder::new(&[("only", 1)]).start();
    let host = service.host();
    kill(service.pid(), Signal::SIGKILL).unwrap();
    until("the end of the device host", || {
        // A zombie that nobody has reaped yet has ended too.
        let state = std::fs::read_to_string(format!("/proc/{host}/stat")).unwrap_or_default();
        let ended = state.is_empty() || state.contains(") Z ") || state.contains(") X ");
        ended.then_some(())
    });
}
