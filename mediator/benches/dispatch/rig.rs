//! A dispatcher with clients on real rings and the policy on a thread of its own.

use super::device::Scripted;
use gridmux_channel::ring::client::ClientRings;
use gridmux_channel::ring::host::HostRings;
use gridmux_channel::ring::{Launch, Operation, RingLayout, SubmissionEntry};
use gridmux_mediator::device::{AllocationUnits, DeviceKernelId, DomainId, KernelLimits};
use gridmux_mediator::dispatch::accounting::TenantCounters;
use gridmux_mediator::dispatch::accounts::Account;
use gridmux_mediator::dispatch::client::{ClientKernel, ClientSlot};
use gridmux_mediator::dispatch::samples::SampleSink;
use gridmux_mediator::dispatch::{
    ClockMode, ControlLink, Dispatcher, DispatcherConfig, Doorbells, Message, Slot, Turn,
    policy_link,
};
use gridmux_mediator::waker::Waker;
use gridmux_policy::Class;
use gridmux_policy::ids::{DeviceId, KernelKey, TenantId};
use gridmux_policy::shape::DeviceShape;
use gridmux_policy::units::Nanos;
use gridmux_ptx::Kernel;
use gridmux_ptx::decode::LaunchBounds;
use gridmux_ptx::forms::Shape;
use gridmux_ptx::kernel::Entry;
use nix::time::ClockId;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Launches of a burst, if there are enough for each client.
const BURST: u64 = 512;
/// Launches that each active client submits at once: at least and at most.
const AHEAD: RangeInclusive<u64> = 8..=64;
/// An H200.
const SHAPE: DeviceShape = DeviceShape::h200(132);

/// A dispatcher, its clients, and the policy's thread.
pub(crate) struct Rig {
    dispatcher: Dispatcher<Scripted, HostRings>,
    clients: Vec<ClientRings>,
    counters: Vec<Arc<TenantCounters>>,
    /// Launches that each active client submits at once.
    ahead: u64,
    cookie: u64,
    policy: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Rig {
    /// Connects clients, the first `active` of which will submit, to a device of that block time.
    pub(crate) fn new(connected: u16, active: u16, block_ns: u64) -> Self {
        let policy = gridmux_policy::by_name(
            "smk-p",
            DeviceId(0),
            &SHAPE,
            &gridmux_policy::Profiles::default(),
        )
        .expect("a policy of ours");
        let (mut end, runner) =
            policy_link::link(policy, DeviceId(0), &SHAPE, false, Nanos(20_000))
                .expect("a plan stands");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("policy".into())
            .spawn(move || {
                pin(1);
                runner.serve(&stopped, || {});
            })
            .expect("a thread");
        end.set_thread(thread.thread().clone());
        pin(0);
        let control = Arc::new(ControlLink::default());
        let config = DispatcherConfig {
            device_id: DeviceId(0),
            shape: SHAPE,
            max_shared_bytes_per_block: 232_448,
            kernel_budget_cycles: 1 << 40,
            clock: ClockMode::Live,
        };
        let mut dispatcher = Dispatcher::new(
            &config,
            Scripted::new(block_ns),
            end,
            Arc::clone(&control),
            SampleSink::default(),
        );
        let waker = Arc::new(Waker::new().expect("epoll"));
        let (mut clients, mut counters) = (Vec::new(), Vec::new());
        for number in 0..connected {
            let (host, client) = pair();
            waker.watch(host.doorbell(), Slot(number)).expect("epoll");
            clients.push(client);
            counters.push(join(&control, number, host));
            let _ = dispatcher.turn();
        }
        dispatcher.set_doorbells(waker as Arc<dyn Doorbells>);
        clients.truncate(active.into());
        Self {
            dispatcher,
            clients,
            counters,
            ahead: (BURST / u64::from(active)).clamp(*AHEAD.start(), *AHEAD.end()),
            cookie: 0,
            policy: Some(thread),
            stop,
        }
    }

    /// Submits a burst of every active client and turns until all of it has completed; returns how many launches that
    /// were, and the processor time of the turns.
    pub(crate) fn burst(&mut self) -> (u64, Duration) {
        for client in &mut self.clients {
            for _ in 0..self.ahead {
                self.cookie += 1;
                client.push(&launch(self.cookie)).expect("room");
            }
        }
        let launches = self.ahead * self.clients.len() as u64;
        let (mut done, mut spent) = (0, Duration::ZERO);
        while done < launches {
            let start = cpu_time(ClockId::CLOCK_THREAD_CPUTIME_ID);
            while self.dispatcher.turn() == Turn::Worked {}
            spent += cpu_time(ClockId::CLOCK_THREAD_CPUTIME_ID) - start;
            done += self.clients.iter_mut().map(take).sum::<u64>();
        }
        (launches, spent)
    }

    /// Keeps launches of every active client open for that long; returns the wall time that it took.
    pub(crate) fn serve(&mut self, wall: Duration) -> Duration {
        let start = Instant::now();
        while start.elapsed() < wall {
            for client in &mut self.clients {
                let done = take(client);
                let missing = match client.in_flight() {
                    0 => self.ahead,
                    _ => done,
                };
                for _ in 0..missing {
                    self.cookie += 1;
                    client.push(&launch(self.cookie)).expect("room");
                }
            }
            let _ = self.dispatcher.turn();
        }
        start.elapsed()
    }

    /// Returns the processor time that the policy thread has used.
    pub(crate) fn policy_cpu(&self) -> Duration {
        use std::os::unix::thread::JoinHandleExt;
        let thread = self.policy.as_ref().expect("it runs").as_pthread_t();
        let mut clock = 0;
        // SAFETY: the thread has not been joined, so its handle is valid, and the result is ours to write.
        let got = unsafe { libc::pthread_getcpuclockid(thread, &raw mut clock) };
        assert_eq!(got, 0, "a thread has a clock of its processor time");
        cpu_time(ClockId::from_raw(clock))
    }

    /// Describes what ran, for the log.
    pub(crate) fn summary(&self) -> String {
        let usage = self.counters.iter().map(|counters| counters.read());
        let (mut launches, mut slices) = (0, 0);
        for usage in usage {
            launches += usage.completed;
            slices += usage.slices;
        }
        format!("{launches} launches in {slices} slices")
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // Release: pairs with the Acquire of the policy's thread.
        self.stop.store(true, Ordering::Release);
        if let Some(policy) = self.policy.take() {
            policy.thread().unpark();
            let _ = policy.join();
        }
    }
}

/// Joins a client of a tenant of its own with one sliceable kernel; returns the tenant's counters.
fn join(control: &ControlLink<HostRings>, number: u16, host: HostRings) -> Arc<TenantCounters> {
    let tell = |message| {
        let sent = control.messages.push(message);
        assert!(sent.is_ok(), "the message queue has room");
    };
    let (tenant, counters) = (TenantId(number.into()), Arc::new(TenantCounters::default()));
    let account = Account::new(tenant, 1, Class::Normal, Arc::clone(&counters));
    tell(Message::Tenant(Box::new(account)));
    let client = ClientSlot::new(number.into(), tenant, DomainId(number.into()), host);
    tell(Message::Join(Slot(number), Box::new(client)));
    let limits = KernelLimits {
        id: DeviceKernelId(number.into()),
        static_shared_bytes: 0,
        registers_per_thread: 32,
        max_threads_per_block: 1024,
        units: AllocationUnits {
            registers: 256,
            shared_bytes: 128,
            reserved_shared_bytes: 1024,
        },
    };
    let kernel = ClientKernel {
        unusable: false,
        limits,
        kernel: sliced(0),
        key: KernelKey(1),
    };
    tell(Message::AddKernel(Slot(number), 0, kernel));
    counters
}

/// Reads a clock of a thread's processor time.
fn cpu_time(clock: ClockId) -> Duration {
    clock.now().expect("the clock exists").into()
}

/// Takes every completion that is there.
fn take(client: &mut ClientRings) -> u64 {
    let mut taken = 0;
    while client.pop_completion().expect("an honest host").is_some() {
        taken += 1;
    }
    taken
}

/// Returns a launch of one small block.
pub(crate) fn launch(cookie: u64) -> SubmissionEntry {
    let request = Launch {
        kernel: 0,
        grid: [1, 1, 1],
        block: [64, 1, 1],
        shared_bytes: 0,
        args_offset: 0,
        args_len: 0,
        is_cooperative: false,
    };
    SubmissionEntry::new(Operation::Launch(request), 0, cookie, 0)
}

/// Both ends of a channel's rings.
pub(crate) fn pair() -> (HostRings, ClientRings) {
    let host = HostRings::create(RingLayout::default()).expect("ring memory");
    let memfd = host.memfd().try_clone_to_owned().expect("a descriptor");
    let doorbell = host.doorbell().try_clone_to_owned().expect("a descriptor");
    let client = ClientRings::map(&memfd, doorbell).expect("a mapping");
    (host, client)
}

/// Pins the calling thread to one processor of those that the process may run on.
pub(crate) fn pin(index: usize) {
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use std::sync::OnceLock;
    static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();
    let this = nix::unistd::Pid::from_raw(0);
    let allowed = ALLOWED.get_or_init(|| {
        let set = sched_getaffinity(this).expect("the affinity");
        (0..CpuSet::count())
            .filter(|cpu| set.is_set(*cpu).unwrap_or(false))
            .collect()
    });
    let mut set = CpuSet::new();
    set.set(allowed[index]).expect("a processor");
    // Where pinning is not permitted the figures are noisier, not wrong.
    let _ = sched_setaffinity(this, &set);
}

/// Raises the limit of open files to what is permitted: a client takes three.
pub(crate) fn allow_descriptors() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Where that fails, connecting the clients says so.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// Returns the description of a kernel that can be cut.
fn sliced(params_bytes: u32) -> Arc<Kernel> {
    Arc::new(Kernel {
        name: "k".to_owned(),
        params: Vec::new(),
        params_bytes,
        bounds: LaunchBounds::default(),
        entries: vec![Entry {
            shape: Shape::Slice,
            ..Entry::whole("k")
        }],
        refusals: Vec::new(),
        is_gang: false,
        malformed: None,
    })
}
