//! `isolation`: what two honest tenants notice of a third one that does all it can, on the functional device.
//!
//! For each offence `isolation/control/OFFENCE` is the longest time that an honest control operation (an allocation and
//! its release) took beyond the median of undisturbed ones, in milliseconds, and `isolation/launch/OFFENCE` the longest
//! launch beside it over the longest undisturbed one, which is measured just before. Both are medians of [`ROUNDS`]
//! rounds. `isolation/load` is how long the module of 600,000 basic blocks takes until it is loaded or refused, and
//! `isolation/left/*` is what the service holds when all have left, over what it held before.
//!
//! Times are wall time: on a machine with few processors they tell of these, too. The offence `spinning` shows how
//! much: a thread that never speaks to the service and only keeps a processor busy, as each offender's own does.

use gridmux_channel::memory::{Protection, SealedMemfd};
use gridmux_channel::ring::{Copy, Operation};
use gridmux_tenant::Gpu;
use gridmux_testkit::bench::{Chosen, Figure};
use gridmux_tests::{Bench, RawTenant, Service, ServiceBuilder, connect, until};
use gridmux_workloads::Size;
use std::fmt::Write as _;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

/// How long an offence goes on at least.
const LENGTH: Duration = Duration::from_secs(4);
/// How often each offence is measured.
const ROUNDS: usize = 3;
/// How long it goes on at most, where one round of it takes longer.
const LONGEST: Duration = Duration::from_secs(60);
/// Bytes of one copy of the offender.
const COPY_BYTES: u64 = 128 << 20;
/// Bytes that it copies in all.
const COPIED_BYTES: u64 = 64 << 30;
/// Basic blocks of the large module.
const BLOCKS: usize = 600_000;

/// How far an offender is.
#[derive(Default)]
struct Progress {
    stop: AtomicBool,
    /// What it did from beginning to end.
    rounds: AtomicU64,
}

impl Progress {
    fn goes_on(&self) -> bool {
        // Relaxed: a flag that publishes nothing else, and a count below.
        !self.stop.load(Ordering::Relaxed)
    }

    fn round(&self) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
    }

    fn has_begun_anew(&self) -> bool {
        self.rounds.load(Ordering::Relaxed) > 0
    }
}

/// What an offender does until it is told to stop.
type Offence = (&'static str, fn(&Path, &Progress));

const OFFENCES: [Offence; 7] = [
    ("spinning", spinning),
    ("copies", copies),
    ("large_module", large_module),
    ("modules", modules),
    ("variables", variables),
    ("connections", connections),
    ("descriptors", descriptors),
];

/// The longest control operation and launch of honest tenants, and the median of the former.
#[derive(Clone, Copy, Default)]
struct Noticed {
    control: Duration,
    usual_control: Duration,
    launch: Duration,
}

fn main() {
    let chosen = Chosen::by_arguments();
    let service = ServiceBuilder::new(&[("first", 1), ("second", 1), ("bad", 1)])
        .policy("gridmux")
        .functional()
        .memory(1 << 30)
        .lifetime(Duration::from_secs(1800))
        .start();
    let host = service.host();
    // What is made once is made before anything is compared.
    beside(&service, None);
    await_all_gone(&service);
    let before = held(host);
    for (name, offence) in OFFENCES {
        let (control, launch) = (
            format!("isolation/control/{name}"),
            format!("isolation/launch/{name}"),
        );
        if !chosen.has(&control) && !chosen.has(&launch) {
            continue;
        }
        let rounds = [(); ROUNDS].map(|()| {
            let undisturbed = beside(&service, None);
            (undisturbed, beside(&service, Some(offence)))
        });
        let beyond = rounds.map(|(undisturbed, noticed)| {
            ms(noticed.control.saturating_sub(undisturbed.usual_control))
        });
        Figure::lower(&control, median(beyond), "ms").print();
        let floor = median(rounds.map(|(undisturbed, _)| ms(undisturbed.launch)));
        let longest = median(rounds.map(|(_, noticed)| ms(noticed.launch)));
        let ratio = median(rounds.map(|(undisturbed, noticed)| {
            noticed.launch.as_secs_f64() / undisturbed.launch.as_secs_f64()
        }));
        Figure::lower(&launch, longest, "ms")
            .floor(floor)
            .with("ratio", ratio)
            .print();
    }
    if chosen.has("isolation/load") {
        let tenant = || RawTenant::try_connect(&service.socket(), "bad").ok();
        let mut tenant = until("a place", tenant);
        let start = Instant::now();
        // Loaded or refused: both are an answer.
        let _ = tenant.load(spaghetti(BLOCKS).as_bytes());
        let took = start.elapsed().as_secs_f64();
        Figure::lower("isolation/load", took, "s").print();
    }
    await_all_gone(&service);
    // What was held is given back after a while in which nothing comes.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(service.host(), host, "the host is the one from the start");
    let after = held(host);
    for (name, before, after) in [
        ("isolation/left/memory", before.0, after.0),
        ("isolation/left/descriptors", before.1, after.1),
    ] {
        if chosen.has(name) {
            Figure::lower(name, after / before, "of before").print();
        }
    }
}

fn median(mut values: [f64; ROUNDS]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[ROUNDS / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn await_all_gone(service: &Service) {
    for name in ["first", "second", "bad"] {
        service.await_gone(name);
    }
}

/// Connects as soon as the service has room.
fn connected(service: &Service, name: &str) -> Gpu {
    until("a place", || connect(&service.socket(), name).ok())
}

/// Runs two honest tenants, beside an offender if there is one.
fn beside(service: &Service, offence: Option<fn(&Path, &Progress)>) -> Noticed {
    let (progress, socket) = (Progress::default(), service.socket());
    let (progress, socket) = (&progress, &socket);
    scope(|scope| {
        let honest = ["first", "second"].map(|name| {
            let gpu_of = move || connected(service, name);
            scope.spawn(move || honest(&gpu_of(), progress))
        });
        let start = Instant::now();
        match offence {
            Some(offence) => {
                scope.spawn(move || offence(socket, progress));
                while (start.elapsed() < LENGTH || !progress.has_begun_anew())
                    && start.elapsed() < LONGEST
                {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            None => std::thread::sleep(LENGTH),
        }
        progress.stop.store(true, Ordering::Relaxed);
        let mut all = Noticed::default();
        for noticed in
            honest.map(|thread| thread.join().expect("an honest tenant notices no failure"))
        {
            all.control = all.control.max(noticed.control);
            all.usual_control = all.usual_control.max(noticed.usual_control);
            all.launch = all.launch.max(noticed.launch);
        }
        all
    })
}

/// Allocates, releases, launches and verifies without a pause.
fn honest(gpu: &Gpu, progress: &Progress) -> Noticed {
    let bench = Bench::set_up(gpu, "matmul", Size::Small, 7).expect("it is set up");
    let (mut controls, mut noticed) = (Vec::new(), Noticed::default());
    while progress.goes_on() {
        let start = Instant::now();
        drop(gpu.alloc(4096).expect("there is room"));
        controls.push(start.elapsed());
        let case = bench.case();
        let shared = case.dynamic_shared_bytes;
        let start = Instant::now();
        let launch =
            bench
                .stream
                .launch(&bench.kernel, case.grid, case.block, shared, bench.args());
        launch.and_then(|event| event.wait()).expect("it ends well");
        noticed.launch = noticed.launch.max(start.elapsed());
        bench.run(gpu).expect("its results are right");
    }
    controls.sort_unstable();
    noticed.control = controls.last().copied().unwrap_or_default();
    noticed.usual_control = controls
        .get(controls.len() / 2)
        .copied()
        .unwrap_or_default();
    noticed
}

fn spinning(_: &Path, progress: &Progress) {
    progress.round();
    while progress.goes_on() {
        std::hint::spin_loop();
    }
}

fn copies(socket: &Path, progress: &Progress) {
    let mut tenant = RawTenant::connect(socket, "bad");
    let protection = Protection::READ_WRITE;
    let (iova, _) = tenant.map(
        &vec![1; usize::try_from(COPY_BYTES).expect("64 bits")],
        protection,
    );
    let address = tenant.alloc(COPY_BYTES);
    let copy = Copy {
        iova,
        address,
        len: COPY_BYTES,
    };
    let mut left = COPIED_BYTES / COPY_BYTES;
    while left > 0 && progress.goes_on() {
        let batch = left.min(64);
        for _ in 0..batch {
            tenant.push(0, Operation::CopyToDevice(copy));
        }
        for _ in 0..batch {
            if !progress.goes_on() {
                return;
            }
            tenant.await_completion();
        }
        left -= batch;
        progress.round();
    }
}

/// Returns a module whose one kernel jumps about among `blocks` basic blocks.
fn spaghetti(blocks: usize) -> String {
    let mut text =
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry s()\n{\n.reg .u32 %r<2>;\n\
                    .reg .pred %p<2>;\nmov.u32 %r1, 0;\nsetp.eq.u32 %p1, %r1, 1;\n"
            .to_owned();
    for block in 0..blocks {
        let target = block * 7919 % blocks;
        let _ = writeln!(text, "L{block}: add.u32 %r1, %r1, 1; @%p1 bra L{target};");
    }
    text + "ret;\n}\n"
}

fn large_module(socket: &Path, progress: &Progress) {
    let text = spaghetti(BLOCKS);
    while progress.goes_on() {
        if let Ok(mut tenant) = RawTenant::try_connect(socket, "bad") {
            // Loaded or refused: both are an answer.
            let _ = tenant.load(text.as_bytes());
            drop(tenant);
            progress.round();
        }
    }
}

/// Modules of about 40 MiB until one is refused, and again.
fn modules(socket: &Path, progress: &Progress) {
    let head = ".version 8.0\n.target sm_80\n.address_size 64\n\
                .visible .entry m()\n{\n.reg .u32 %r<2>;\nmov.u32 %r1, 0;\n";
    let body = "add.u32 %r1, %r1, 1;\n".repeat(2_000_000);
    let text = format!("{head}{body}ret;\n}}\n");
    while progress.goes_on() {
        let Ok(mut tenant) = RawTenant::try_connect(socket, "bad") else {
            continue;
        };
        while progress.goes_on() && tenant.load(text.as_bytes()).is_ok() {}
        drop(tenant);
        progress.round();
    }
}

/// Loads a module of so many variables that no reply could list them, over and over.
fn variables(socket: &Path, progress: &Progress) {
    let mut text = ".version 8.0\n.target sm_80\n.address_size 64\n".to_owned();
    for variable in 0..1_500_000 {
        let _ = writeln!(text, ".global .u32 v{variable};");
    }
    while progress.goes_on() {
        if let Ok(mut tenant) = RawTenant::try_connect(socket, "bad") {
            // Loaded or refused: both are an answer.
            let _ = tenant.load(text.as_bytes());
            drop(tenant);
            progress.round();
        }
    }
}

fn connections(socket: &Path, progress: &Progress) {
    while progress.goes_on() {
        let _ = UnixStream::connect(socket);
        progress.round();
    }
}

/// Maps pages from ever more clients until that is refused, and again.
fn descriptors(socket: &Path, progress: &Progress) {
    let protection = Protection::READ;
    while progress.goes_on() {
        let mut tenants = Vec::new();
        'clients: for _ in 0..16 {
            let Ok(mut tenant) = RawTenant::try_connect(socket, "bad") else {
                break;
            };
            let memfd = SealedMemfd::create("bad", 4096).expect("a memfd");
            for page in 0..4096_u64 {
                if !progress.goes_on() {
                    break 'clients;
                }
                let iova = (1 << 40) + page * 4096;
                let mapped = tenant
                    .session
                    .dma_map(iova, 4096, 0, protection, memfd.as_fd());
                if mapped.is_err() {
                    break;
                }
            }
            tenants.push(tenant);
        }
        progress.round();
    }
}

/// Returns the memory in KiB and the descriptors of a process.
fn held(process: u32) -> (f64, f64) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kib = status.lines().find_map(|line| {
        let rest = line.strip_prefix("VmRSS:")?;
        rest.trim().strip_suffix("kB")?.trim().parse().ok()
    });
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count);
    let descriptors = u32::try_from(descriptors).unwrap_or(u32::MAX);
    (kib.unwrap_or(f64::NAN), f64::from(descriptors))
}
