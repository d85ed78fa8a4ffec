//! Contract: whatever tenants and operators do to a service at once, every launch that completes is right, none is
//! reported twice or lost without an error, and in the end nothing is held.
//!
//! A few tenants for a few seconds; `GRIDMUX_CHAOS_SECONDS` makes it 64 tenants for that long, with five kills of the
//! service (`cargo xtask test --long` takes ten minutes). Everything that happens is drawn from [`SEED`], but not when.

use gridmux_channel::ring::{CompletionStatus, Operation};
use gridmux_mediator::supervisor::{AdminReply, AdminRequest, ServiceStatistics, ask};
use gridmux_tenant::{Args, ClientError, Gpu};
use gridmux_tests::{Bench, RawTenant, Service, ServiceBuilder, Speaker, connect, until};
use gridmux_workloads::{Prng, Size};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

const SEED: u64 = 0xc4a0_5000;
/// Tenants and seconds of a run that is not long.
const SHORT: (u32, u64) = (6, 10);
/// Tenants of a long run.
const TENANTS: u32 = 64;

/// A kernel that never ends, and one that writes where it may not.
const BAD: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry endless()
{
$again:
    bra.uni $again;
}
.visible .entry outside()
{
    .reg .b64 %rd<2>;
    mov.u64 %rd1, 64;
    st.global.u32 [%rd1], 7;
    ret;
}
";

/// What all tenants share.
struct World {
    folder: PathBuf,
    socket: PathBuf,
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

/// What a tenant did until its connection ended.
type Went = Result<(), ClientError>;

/// A tenant on a thread of this process: it connects, does something, and leaves in some way, over and over.
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

/// A launch that ends with an error, and one after it that does not.
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
fn victims(world: &World, names: &[String], prng: &mut Prng) {
    while world.goes_on() {
        let name = &names[prng.below(u32::try_from(names.len()).expect("few")) as usize];
        let arguments = [
            "workload",
            "run",
            "matmul",
            "--launches",
            "1000000",
            "--tenant",
            name,
            "--socket",
        ];
        let arguments = arguments
            .iter()
            .map(AsRef::as_ref)
            .chain([world.socket.as_os_str()]);
        let mut victim = Speaker::start(arguments, Stdio::null());
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

/// What an operator and the machine do to the service, until the time is over.
fn operate(world: &World, mut service: Service, length: Duration, prng: &mut Prng) -> Service {
    let start = Instant::now();
    let kills = 5;
    for round in 1..=kills {
        let until = length * round / (kills + 1);
        while start.elapsed() < until {
            disturb(world, &service, prng);
            std::thread::sleep(Duration::from_millis(u64::from(prng.below(300))));
        }
        service = service.killed_and_started();
    }
    while start.elapsed() < length {
        disturb(world, &service, prng);
        std::thread::sleep(Duration::from_millis(u64::from(prng.below(300))));
    }
    service
}

/// One disturbance: a reading, a reload, another policy, or a device host that is stopped for a moment or killed.
fn disturb(world: &World, service: &Service, prng: &mut Prng) {
    let host = world
        .statistics()
        .and_then(|statistics| statistics.host_pid);
    let host = host
        .and_then(|pid| i32::try_from(pid).ok())
        .map(Pid::from_raw);
    match (prng.below(12), host) {
        (0, Some(host)) => send(host, Signal::SIGKILL),
        (1, Some(host)) => {
            send(host, Signal::SIGSTOP);
            std::thread::sleep(Duration::from_millis(u64::from(prng.below(300))));
            send(host, Signal::SIGCONT);
        }
        (2..5, _) => {
            let weight = 1 + prng.below(9);
            service.edit_configuration(|text| with_first_weight(&text, weight));
            send(service.pid(), Signal::SIGHUP);
        }
        _ => {}
    }
}

/// Sends a signal; a process that has ended needs none.
fn send(process: Pid, signal: Signal) {
    let _ = kill(process, signal);
}

/// Returns a configuration with another weight of its first tenant.
fn with_first_weight(text: &str, weight: u32) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let first = lines.iter_mut().find(|line| line.starts_with("weight"));
    *first.expect("a tenant has a weight") = format!("weight = {weight}");
    lines.join("\n") + "\n"
}

/// Waits until nothing is held, and checks that what was submitted was completed or abandoned.
fn assert_nothing_is_held(folder: &Path, service: &Service) {
    let last = until("everything to be given back", || {
        let Ok(AdminReply::Statistics(statistics)) = ask(folder, &AdminRequest::Statistics) else {
            return None;
        };
        let tenants = &statistics.host.tenants;
        let is_clear = tenants.iter().all(|tenant| tenant.clients.is_empty());
        (is_clear && statistics.host.memory_used_bytes == 0).then_some(statistics)
    });
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
        .policy("gridmux")
        .functional()
        .limit("kernel_budget_cpu_seconds", 1)
        .lifetime(Duration::from_secs(seconds * 2 + 240))
        .start();
    let world = World {
        folder: service.folder().to_owned(),
        socket: service.socket(),
        stop: AtomicBool::new(false),
        right: AtomicU64::new(0),
        completed: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        lost: AtomicU64::new(0),
        killed: AtomicU64::new(0),
    };
    let world = &world;
    let service = scope(|scope| {
        for (name, seed) in names.iter().zip(SEED..) {
            scope.spawn(move || tenant(world, name, &mut Prng::new(seed)));
        }
        let names = &names;
        scope.spawn(move || victims(world, names, &mut Prng::new(SEED - 1)));
        let mut prng = Prng::new(SEED - 2);
        let length = Duration::from_secs(seconds);
        let operated = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            operate(world, service, length, &mut prng)
        }));
        world.stop.store(true, Ordering::Relaxed);
        operated.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    assert_nothing_is_held(&world.folder, &service);
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "{} launches right, {} ended for what they did, {} barriers, {} connections lost, {} processes killed",
        read(&world.right),
        read(&world.ended),
        read(&world.completed),
        read(&world.lost),
        read(&world.killed),
    );
    for counter in [
        &world.right,
        &world.ended,
        &world.completed,
        &world.lost,
        &world.killed,
    ] {
        assert!(read(counter) > 0, "everything was tried");
    }
}
