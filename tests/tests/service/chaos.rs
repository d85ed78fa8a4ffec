//! Contract: whatever tenants and operators do to a service at once, every launch that completes is right, none is
//! reported twice or lost without an error, and in the end nothing is held.
//!
//! A few tenants for a few seconds; `GRIDMUX_CHAOS_SECONDS` makes it 64 tenants for that long, with five kills of the
//! service (`cargo xtask test --long` takes ten minutes). Everything that happens is drawn from [`SEED`], but not when.

use gridmux_channel::ring::{CompletionStatus, Operation};
use gridmux_mediator::config::{Config, TenantConfig};
use gridmux_mediator::settings::Change;
use gridmux_mediator::supervisor::{AdminReply, AdminRequest, ServiceStatistics, ask};
use gridmux_policy::{Class, all_policies};
use gridmux_tenant::{Args, ClientError, Gpu};
use gridmux_tests::{Bench, RawTenant, Service, ServiceBuilder, Speaker, connect, until};
use gridmux_workloads::{Prng, Size};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

const SEED: u64 = 0xc4a0_5000;
/// Tenants and seconds of a run that is not long.
const SHORT: (u32, u64) = (6, 10);
/// Tenants of a long run.
const TENANTS: u32 = 64;
/// Time between two kills of a device host: after several that died young the service would pause for up to a minute
/// before it starts the next one, and nothing would happen meanwhile.
const HOST_LIFE: Duration = Duration::from_secs(12);
/// The policy of the configuration at the start.
const POLICY: &str = "gridmux";

/// A kernel that never ends, and one that writes where it may not.
const BAD: &str = include_str!("bad.ptx");

/// The state that all tenants share.
struct World {
    folder: PathBuf,
    socket: PathBuf,
    /// The tenants that the configuration names, most of the time.
    names: Vec<String>,
    stop: AtomicBool,
    /// Launches that completed and were right.
    right: AtomicU64,
    /// Operations of raw tenants that completed.
    completed: AtomicU64,
    /// Launches that were ended for what they did.
    ended: AtomicU64,
    /// Connections that were lost, with everything that was under way.
    lost: AtomicU64,
    /// Tenant processes that were killed or stopped.
    killed: AtomicU64,
    /// Policies that an operator set.
    switched: AtomicU64,
    /// Configurations that were read again.
    reloaded: AtomicU64,
}

impl World {
    fn goes_on(&self) -> bool {
        // Relaxed: a flag that publishes nothing else; the counters below likewise.
        !self.stop.load(Ordering::Relaxed)
    }

    fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads the service; none while it is away.
    fn statistics(&self) -> Option<ServiceStatistics> {
        match ask(&self.folder, &AdminRequest::Statistics) {
            Ok(AdminReply::Statistics(statistics)) => Some(*statistics),
            _ => None,
        }
    }
}

/// The result of what a tenant did until its connection ended.
type Went = Result<(), ClientError>;

/// Plays a tenant on a thread of this process: it connects, does something, and leaves in some way, over and over.
fn tenant(world: &World, name: &str, prng: &mut Prng) {
    while world.goes_on() {
        let Ok(gpu) = connect(&world.socket, name) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        let went = match prng.below(8) {
            0 => fault(world, &gpu, "outside", CompletionStatus::MemoryFault),
            1 => fault(world, &gpu, "endless", CompletionStatus::Budget),
            2 => {
                drop(gpu);
                raw(world, name, prng);
                Ok(())
            }
            3 => leave_at_work(&gpu, prng),
            _ => work(world, &gpu, prng),
        };
        match went {
            Ok(()) => {}
            Err(error) if error.is_lost() => World::count(&world.lost),
            // The connection ended while it was made use of.
            Err(ClientError::Call(_)) => World::count(&world.lost),
            Err(error) => panic!("{name}: {error:?}"),
        }
    }
}

/// Launches whose results are verified.
fn work(world: &World, gpu: &Gpu, prng: &mut Prng) -> Went {
    let workloads = [
        "vecadd",
        "matmul",
        "reduction",
        "stencil3d",
        "spmv",
        "histogram",
    ];
    let workload = workloads[prng.below(6) as usize];
    let bench = Bench::set_up(gpu, workload, Size::Tiny, prng.next_u64())?;
    for _ in 0..prng.below(20) {
        bench.run(gpu)?;
        World::count(&world.right);
    }
    Ok(())
}

/// Returns a launch that ends with an error, and one after it that does not.
fn fault(world: &World, gpu: &Gpu, kernel: &str, expected: CompletionStatus) -> Went {
    let kernel = gpu.module(BAD.as_bytes())?.kernel(kernel)?;
    let stream = gpu.stream()?;
    match stream.launch(&kernel, 4, 64, 0, &Args::new())?.wait() {
        Err(ClientError::Failed { status, .. }) => assert_eq!(status, expected),
        Err(error) => return Err(error),
        Ok(_) => panic!("a launch that cannot end well ended well"),
    }
    World::count(&world.ended);
    let bench = Bench::set_up(gpu, "vecadd", Size::Tiny, 1)?;
    bench.run(gpu)?;
    World::count(&world.right);
    Ok(())
}

/// Leaves with launches under way.
fn leave_at_work(gpu: &Gpu, prng: &mut Prng) -> Went {
    let bench = Bench::set_up(gpu, "matmul", Size::Tiny, 3)?;
    let case = bench.case();
    for _ in 0..prng.below(8) {
        bench.stream.launch(
            &bench.kernel,
            case.grid,
            case.block,
            case.dynamic_shared_bytes,
            bench.args(),
        )?;
    }
    Ok(())
}

/// Submissions of a tenant without a client library: each completes once, in order, under its own cookie.
fn raw(world: &World, name: &str, prng: &mut Prng) {
    // The service may be away.
    let Ok(mut tenant) = RawTenant::try_connect(&world.socket, name) else {
        return;
    };
    for _ in 0..prng.below(20) {
        let count = 1 + u64::from(prng.below(32));
        let first = tenant.push(0, Operation::Barrier);
        for _ in 1..count {
            tenant.push(0, Operation::Barrier);
        }
        for cookie in first..first + count {
            let entry = loop {
                match tenant.rings.wait(Duration::from_millis(50)) {
                    Ok(Some(entry)) => break entry,
                    Ok(None) if !tenant.session.is_closed() => {}
                    Ok(None) | Err(_) => {
                        World::count(&world.lost);
                        return;
                    }
                }
            };
            assert_eq!(entry.cookie, cookie, "each completes once and in order");
            World::count(&world.completed);
        }
    }
}

/// Processes of tenants that are stopped and killed.
fn victims(world: &World, prng: &mut Prng) {
    while world.goes_on() {
        let name = one_of(&world.names, prng);
        let words = "matmul --launches 1000000";
        let mut victim = Speaker::work(&world.socket, name, words, Stdio::null());
        std::thread::sleep(Duration::from_millis(prng.below(400).into()));
        if prng.below(2) == 0 {
            victim.signal(Signal::SIGSTOP);
            std::thread::sleep(Duration::from_millis(prng.below(400).into()));
            if prng.below(2) == 0 {
                victim.signal(Signal::SIGCONT);
                std::thread::sleep(Duration::from_millis(prng.below(100).into()));
            }
        }
        victim.kill();
        World::count(&world.killed);
    }
}

/// Returns what an operator and the machine do to the service, until the time is over.
fn operate(world: &World, mut service: Service, length: Duration, prng: &mut Prng) -> Service {
    let start = Instant::now();
    let mut killed_at = None;
    let kills = 5;
    for round in 1..=kills {
        let until = length * round / (kills + 1);
        while start.elapsed() < until {
            disturb(world, &service, &mut killed_at, prng);
            std::thread::sleep(Duration::from_millis(u64::from(prng.below(300))));
        }
        service = service.killed_and_started();
    }
    while start.elapsed() < length {
        disturb(world, &service, &mut killed_at, prng);
        std::thread::sleep(Duration::from_millis(u64::from(prng.below(300))));
    }
    service
}

/// Causes one disturbance: a reading, a reload, another policy, or a device host that is stopped for a moment or
/// killed; hosts are killed [`HOST_LIFE`] apart.
fn disturb(world: &World, service: &Service, killed_at: &mut Option<Instant>, prng: &mut Prng) {
    let is_old = killed_at.is_none_or(|at| at.elapsed() >= HOST_LIFE);
    let host = world
        .statistics()
        .and_then(|statistics| statistics.host_pid);
    let host = host
        .and_then(|pid| i32::try_from(pid).ok())
        .map(Pid::from_raw);
    match (prng.below(12), host) {
        (0, Some(host)) if is_old => {
            send(host, Signal::SIGKILL);
            *killed_at = Some(Instant::now());
        }
        (1, Some(host)) => {
            send(host, Signal::SIGSTOP);
            std::thread::sleep(Duration::from_millis(u64::from(prng.below(300))));
            send(host, Signal::SIGCONT);
        }
        (2..5, _) => reload(world, service, |config| change(config, &world.names, prng)),
        (5..8, _) => switch(world),
        _ => {}
    }
}

/// Has the service obey the next of all policies.
fn switch(world: &World) {
    let count = world.switched.load(Ordering::Relaxed);
    let policies = all_policies();
    let next = policies[usize::try_from(count).expect("few") % policies.len()].name;
    let request = AdminRequest::Change(Change::Policy(next.to_owned()));
    // The service may be away.
    if ask(&world.folder, &request).is_ok() {
        World::count(&world.switched);
    }
}

/// Has the service read its configuration again after a change.
fn reload(world: &World, service: &Service, change: impl FnOnce(&mut Config)) {
    service.edit_configuration(|text| {
        let mut config = Config::parse(&text).expect("it was written so");
        change(&mut config);
        toml::to_string(&config).expect("a configuration can be written")
    });
    send(service.pid(), Signal::SIGHUP);
    World::count(&world.reloaded);
}

/// Changes a configuration: a tenant goes or comes back, has another weight, or another policy is the one to obey.
fn change(config: &mut Config, names: &[String], prng: &mut Prng) {
    let count = u32::try_from(config.tenants.len()).expect("few");
    let place = prng.below(count) as usize;
    match prng.below(5) {
        0 if count > 2 => drop(config.tenants.remove(place)),
        1 | 2 => {
            let is_there = |name: &String| config.tenants.iter().any(|t| t.name == *name);
            if let Some(missing) = names.iter().find(|name| !is_there(name)) {
                let back = TenantConfig::new(missing, 1 + prng.below(9), Class::Normal);
                config.tenants.push(back);
            }
        }
        3 => one_of(all_policies(), prng)
            .name
            .clone_into(&mut config.policy),
        _ => config.tenants[place].weight = 1 + prng.below(9),
    }
}

fn one_of<'a, T>(all: &'a [T], prng: &mut Prng) -> &'a T {
    &all[prng.below(u32::try_from(all.len()).expect("few")) as usize]
}

/// Sends a signal; a process that has ended needs none.
fn send(process: Pid, signal: Signal) {
    let _ = kill(process, signal);
}

/// Has every tenant configured, waits until none holds anything, and checks that what was submitted was completed or
/// abandoned, and that the service obeys the policy that was set last.
fn assert_nothing_is_held(world: &World, service: &Service) {
    reload(world, service, |config| {
        let tenant = |name: &String| TenantConfig::new(name, 1, Class::Normal);
        config.tenants = world.names.iter().map(tenant).collect();
        POLICY.clone_into(&mut config.policy);
    });
    let last = until("everything to be given back", || {
        let statistics = world.statistics()?;
        let host = &statistics.host;
        let is_clear = host.tenants.iter().all(|tenant| tenant.clients.is_empty());
        let in_force = host.policy_in_force.as_ref()?;
        let is_reloaded = host.tenants.len() == world.names.len() && in_force.name == POLICY;
        (is_clear && is_reloaded && host.memory_used_bytes == 0).then_some(statistics)
    });
    assert_eq!(last.host.policy_failure, None);
    let log = service.log();
    assert!(!log.contains("the policy panicked"), "{log}");
    for tenant in &last.host.tenants {
        let (name, usage) = (&tenant.tenant.name, &tenant.usage);
        assert_eq!(usage.pending, 0, "{name}: {usage:?}; {}", service.log());
        assert_eq!(tenant.memory_used_bytes, 0, "{name}");
    }
}

#[test]
fn whatever_happens_at_once_no_launch_is_wrong_or_lost_and_nothing_stays() {
    let seconds = std::env::var("GRIDMUX_CHAOS_SECONDS").ok();
    let seconds: Option<u64> = seconds.map(|text| text.parse().expect("a number of seconds"));
    let (tenants, seconds) = match seconds {
        Some(seconds) => (TENANTS, seconds),
        None => SHORT,
    };
    let names: Vec<String> = (0..tenants).map(|n| format!("t{n}")).collect();
    let weights: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let service = ServiceBuilder::new(&weights)
        .policy(POLICY)
        .functional()
        .limit("kernel_budget_cpu_seconds", 1)
        .lifetime(Duration::from_secs(seconds * 2 + 240))
        .start();
    let world = World {
        folder: service.folder().to_owned(),
        socket: service.socket(),
        names,
        stop: AtomicBool::new(false),
        right: AtomicU64::new(0),
        completed: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        lost: AtomicU64::new(0),
        killed: AtomicU64::new(0),
        switched: AtomicU64::new(0),
        reloaded: AtomicU64::new(0),
    };
    let world = &world;
    let service = scope(|scope| {
        for (name, seed) in world.names.iter().zip(SEED..) {
            scope.spawn(move || tenant(world, name, &mut Prng::new(seed)));
        }
        scope.spawn(move || victims(world, &mut Prng::new(SEED - 1)));
        let mut prng = Prng::new(SEED - 2);
        let length = Duration::from_secs(seconds);
        let operated = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            operate(world, service, length, &mut prng)
        }));
        world.stop.store(true, Ordering::Relaxed);
        operated.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    assert_nothing_is_held(world, &service);
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "{} launches right, {} ended for what they did, {} barriers, {} connections lost, {} processes killed, \
         {} policies set, {} reloads",
        read(&world.right),
        read(&world.ended),
        read(&world.completed),
        read(&world.lost),
        read(&world.killed),
        read(&world.switched),
        read(&world.reloaded),
    );
    for counter in [
        &world.right,
        &world.ended,
        &world.completed,
        &world.lost,
        &world.killed,
        &world.switched,
        &world.reloaded,
    ] {
        assert!(read(counter) > 0, "everything was tried");
    }
}
