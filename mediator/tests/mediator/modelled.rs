//! A dispatcher on the SM model, with clients whose programs run in the test's own thread.
//!
//! A program is a closed loop per stream: a fixed number of launches is kept submitted until all are. Everything is
//! virtual time and one thread drives dispatcher, policy and programs, so a run gives the same figures each time. A
//! port says that its client runs from a completion until its program has answered, so the clock holds as for a real
//! client. The device's clock runs on while the test looks at it, so what is to happen at a time waits for a client
//! whose barriers complete one after another ([`ModelRig::run_until`]).
//!
//! Length: one rig, and every part of it works on the state that the others do not see.

use gridmux_bpf::Histogram;
use gridmux_channel::memory::{Protection, SealedMemfd, TenantBuffer};
use gridmux_channel::ring::queue::Corrupt;
use gridmux_channel::ring::{
    CompletionEntry, Copy, Launch, Operation, PushError, RingError, SubmissionEntry, TenantState,
};
use gridmux_hw_model::config::GpuConfig;
use gridmux_mediator::backoff::Backoff;
use gridmux_mediator::compiler::compile;
use gridmux_mediator::config::Limits;
use gridmux_mediator::device::Isolation;
use gridmux_mediator::device::model::{self, ModelDevice};
use gridmux_mediator::device::{CompiledModule, DeviceControl, DomainId, Timing};
use gridmux_mediator::dispatch::accounting::{TenantCounters, TenantUsage};
use gridmux_mediator::dispatch::accounts::Account;
use gridmux_mediator::dispatch::client::{ClientKernel, ClientSlot, Mapping};
use gridmux_mediator::dispatch::port::TenantPort;
use gridmux_mediator::dispatch::samples::SampleSink;
use gridmux_mediator::dispatch::{
    ClockMode, ControlLink, Dispatcher, DispatcherConfig, Message, Slot, Turn, policy_link,
};
use gridmux_mediator::waker::Waker;
use gridmux_policy::ids::{DeviceId, TenantId};
use gridmux_policy::units::Nanos;
use gridmux_policy::{Class, Profiles};
use gridmux_workloads::{Arg, Case};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A kernel that counts to `n` in every thread; its blocks all take the same time.
pub(crate) const SPIN: &str = include_str!("spin.ptx");

/// How long a rig sleeps that has waited for its device for long.
pub(crate) const REST: Duration = Duration::from_micros(20);

/// The modelled GPU, of which some SMs are there.
pub(crate) const GPU: &str = "h200";
/// SMs of the modelled part of the GPU in [`ModelRig::new`].
pub(crate) const SMS: u16 = 4;

/// One kind of launch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) blocks: u32,
    pub(crate) threads: u16,
    pub(crate) shared_bytes: u32,
    /// Rounds of the kernel's loop.
    pub(crate) rounds: u32,
}

impl Shape {
    /// Returns a kind of launch; threads, shared memory and rounds are those of a block.
    pub(crate) const fn new(blocks: u32, threads: u16, shared_bytes: u32, rounds: u32) -> Self {
        Self {
            blocks,
            threads,
            shared_bytes,
            rounds,
        }
    }
}

/// What a stream of a program does: `shape` again and again, `ahead` launches submitted at once, `count` in all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamLoop {
    pub(crate) shape: Shape,
    pub(crate) ahead: u32,
    pub(crate) count: u64,
}

impl StreamLoop {
    /// Returns a stream that does not end.
    pub(crate) const fn endless(shape: Shape, ahead: u32) -> Self {
        Self {
            shape,
            ahead,
            count: u64::MAX,
        }
    }
}

#[derive(Default)]
struct Wire {
    submissions: VecDeque<(SubmissionEntry, Vec<u8>)>,
    args: Vec<u8>,
    /// Completions that were not delivered yet.
    sent: VecDeque<CompletionEntry>,
    /// Completions that were delivered.
    completions: VecDeque<CompletionEntry>,
    answering: bool,
}

struct Port(Rc<RefCell<Wire>>);

impl TenantPort for Port {
    fn pop(&mut self) -> Result<Option<SubmissionEntry>, Corrupt> {
        let mut wire = self.0.borrow_mut();
        let Some((entry, args)) = wire.submissions.pop_front() else {
            return Ok(None);
        };
        wire.args = args;
        Ok(Some(entry))
    }

    fn read_args(&self, _offset: u32, out: &mut [u8]) -> Result<(), RingError> {
        out.copy_from_slice(&self.0.borrow().args[..out.len()]);
        Ok(())
    }

    fn complete(&mut self, entry: CompletionEntry) -> Result<(), PushError> {
        self.0.borrow_mut().sent.push_back(entry);
        Ok(())
    }

    fn wake(&mut self) {
        let wire = &mut *self.0.borrow_mut();
        wire.completions.append(&mut wire.sent);
        wire.answering = !wire.completions.is_empty();
    }

    fn arm(&mut self) {}

    fn has_work(&mut self) -> bool {
        !self.0.borrow().submissions.is_empty()
    }

    fn released(&self, _stream: u16) -> u64 {
        0
    }

    fn disarm(&mut self) {}

    fn state(&mut self) -> TenantState {
        match self.0.borrow().answering {
            true => TenantState::Running,
            false => TenantState::Waiting,
        }
    }

    fn close(&mut self) {}

    fn stop(&mut self) {}
}

/// Loads a module for a client; returns its first kernel.
pub(crate) fn client_kernel(
    device: &dyn DeviceControl,
    domain: DomainId,
    module: &CompiledModule,
) -> ClientKernel {
    let loaded = device.load(domain, module).expect("the module loads");
    ClientKernel {
        unusable: false,
        kernel: Arc::clone(&module.kernels[0].kernel),
        limits: loaded.kernels[0].limits,
        key: module.kernels[0].key,
    }
}

/// The slot of the client whose barriers tell the time.
const TIMER: Slot = Slot(1000);

/// The operations that a program submits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Submits {
    /// Launches of the module's first kernel.
    Launches,
    /// Barriers.
    Barriers,
    /// Launches of a kernel that it does not have.
    Refused,
    /// What was given to it ([`ModelRig::client_with`]), when it is told to.
    Given,
}

/// Budgets of a launch: of cycles that of the service's configuration and of processor time more than any test needs,
/// because that depends on the machine, unless a test says otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budgets {
    pub(crate) cycles: u64,
    pub(crate) processor: Duration,
}

impl Default for Budgets {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            cycles: limits.kernel_budget_cycles,
            processor: Duration::from_secs(3600),
        }
    }
}

/// A client with its program.
struct Program {
    wire: Rc<RefCell<Wire>>,
    out: u64,
    submits: Submits,
    /// Operations with their parameters, where it submits what was given to it.
    given: Vec<(Operation, Vec<u8>)>,
    streams: Vec<(StreamLoop, u64)>,
    completed: u64,
}

impl Program {
    fn is_over(&self) -> bool {
        let counts = self.streams.iter().map(|(of, _)| of.count);
        self.completed >= counts.fold(0, u64::saturating_add)
    }
}

/// One completed launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) client: usize,
    pub(crate) stream: u16,
    /// Device time at which the program submitted it.
    pub(crate) submitted: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) status: u32,
}

/// The rig.
pub(crate) struct ModelRig {
    dispatcher: Dispatcher<ModelDevice, Port>,
    policy: policy_link::PolicyRunner,
    control: Arc<ControlLink<Port>>,
    device: Arc<dyn DeviceControl>,
    programs: Vec<Program>,
    /// Time of submission by client and cookie.
    submitted: Vec<Vec<u64>>,
    counters: Vec<Arc<TenantCounters>>,
    /// The client whose barriers tell the time, once there is one.
    timer: Option<Rc<RefCell<Wire>>>,
    pub(crate) done: Vec<Done>,
    /// The wait for the device's thread: a test beside this one needs the core.
    backoff: Backoff,
}

impl ModelRig {
    /// Returns a rig of [`SMS`] SMs under the policy of this name.
    pub(crate) fn new(policy: &str) -> Self {
        Self::with(policy, SMS, Budgets::default())
    }

    /// Returns a rig under the policy of this name; a run costs the host as much as its SMs execute.
    pub(crate) fn with(policy: &str, sms: u16, budgets: Budgets) -> Self {
        let gpu = GpuConfig::builtin(GPU).expect("it is built in");
        Self::of(gpu, policy, sms, budgets)
    }

    /// Returns a rig of a GPU that may differ from [`GPU`].
    pub(crate) fn of(gpu: GpuConfig, policy: &str, sms: u16, budgets: Budgets) -> Self {
        Self::of_profiles(gpu, policy, sms, budgets, None)
    }

    /// Returns a rig that learns how long kernels take, and begins with what `profiles` say.
    pub(crate) fn learning(policy: &str, sms: u16, profiles: &Profiles) -> Self {
        let gpu = GpuConfig::builtin(GPU).expect("it is built in");
        Self::of_profiles(gpu, policy, sms, Budgets::default(), Some(profiles))
    }

    fn of_profiles(
        gpu: GpuConfig,
        policy: &str,
        sms: u16,
        budgets: Budgets,
        learnt: Option<&Profiles>,
    ) -> Self {
        let waker = Arc::new(Waker::new().expect("a waker"));
        let processor = budgets.processor;
        let setup = model::Setup {
            timing: Timing::Timed,
            memory_bytes: 1 << 30,
            cpu_budget: processor,
            isolation: Isolation::Shared,
        };
        let open = model::open_described(gpu, Some(sms), setup, &waker);
        let open = open.expect("a device");
        let facts = open.control.facts();
        let profiles = learnt.cloned().unwrap_or_default();
        let policy = gridmux_policy::by_name(policy, DeviceId(0), &facts.shape, &profiles)
            .expect("the policy exists");
        let (end, mut runner) =
            policy_link::link(policy, DeviceId(0), &facts.shape, true, Nanos(20_000))
                .expect("a plan");
        #[allow(
            clippy::arc_with_non_send_sync,
            reason = "the dispatcher takes an Arc; the ports stay on one thread"
        )]
        let control = Arc::new(ControlLink::default());
        let config = DispatcherConfig {
            device_id: DeviceId(0),
            shape: facts.shape,
            max_shared_bytes_per_block: facts.max_shared_bytes_per_block,
            kernel_budget_cycles: budgets.cycles,
            clock: ClockMode::Lockstep {
                longest_hold: Duration::from_secs(60),
            },
        };
        let sink = SampleSink::default();
        let mut dispatcher = Dispatcher::new(&config, open.device, end, Arc::clone(&control), sink);
        if let Some(profiles) = learnt {
            dispatcher.set_profiles(profiles);
            runner.learn(profiles);
        }
        Self {
            dispatcher,
            policy: runner,
            control,
            device: open.control,
            programs: Vec::new(),
            submitted: Vec::new(),
            counters: Vec::new(),
            timer: None,
            backoff: Backoff::default(),
            done: Vec::new(),
        }
    }

    pub(crate) fn tenant(&mut self, weight: u32) -> TenantId {
        self.tenant_of(weight, Class::Normal)
    }

    pub(crate) fn tenant_of(&mut self, weight: u32, class: Class) -> TenantId {
        let id = TenantId(u32::try_from(self.counters.len()).expect("few tenants"));
        let counters = Arc::new(TenantCounters::default());
        let account = Account::new(id, weight, class, Arc::clone(&counters));
        self.counters.push(counters);
        self.tell(Message::Tenant(Box::new(account)));
        id
    }

    /// Connects a client of a tenant with a program; an empty one stays idle.
    pub(crate) fn client(&mut self, tenant: TenantId, streams: &[StreamLoop]) -> usize {
        self.client_of(tenant, SPIN, streams)
    }

    /// Connects a client whose program submits something else than launches.
    pub(crate) fn client_that(
        &mut self,
        submits: Submits,
        tenant: TenantId,
        streams: &[StreamLoop],
    ) -> usize {
        self.connect(submits, tenant, SPIN, streams)
    }

    /// Connects a client whose program launches the first kernel of a module, with an address and a number as its
    /// parameters.
    pub(crate) fn client_of(
        &mut self,
        tenant: TenantId,
        ptx: &str,
        streams: &[StreamLoop],
    ) -> usize {
        self.connect(Submits::Launches, tenant, ptx, streams)
    }

    fn connect(
        &mut self,
        submits: Submits,
        tenant: TenantId,
        ptx: &str,
        streams: &[StreamLoop],
    ) -> usize {
        let number = self.programs.len();
        let slot = Slot(u16::try_from(number).expect("few clients"));
        assert!(slot != TIMER, "few clients");
        let (domain, wire) = self.join(slot, tenant, 1 << 24);
        let out = self.device.alloc(domain, 4096).expect("memory");
        let module = compile(ptx.as_bytes().to_vec()).expect("the module compiles");
        let kernel = client_kernel(&*self.device, domain, &module);
        self.tell(Message::AddKernel(slot, 0, kernel));
        for stream in 1..streams.len() {
            let stream = u16::try_from(stream).expect("few streams");
            self.tell(Message::AddStream(slot, stream));
        }
        self.submitted.push(Vec::new());
        self.programs.push(Program {
            wire,
            out,
            submits,
            given: Vec::new(),
            completed: 0,
            streams: streams.iter().map(|stream| (*stream, 0)).collect(),
        });
        // Its kernel and streams are known before it submits.
        let _ = self.dispatcher.turn();
        for (stream, of) in streams.iter().enumerate() {
            for _ in 0..of.ahead {
                self.submit(number, stream);
            }
        }
        number
    }

    /// Connects a client that launches a case of a workload once, when it is told to ([`ModelRig::launch`]); copies of
    /// the case's buffers to the device are submitted at once.
    pub(crate) fn client_with(&mut self, tenant: TenantId, case: &Case) -> usize {
        let number = self.programs.len();
        let slot = Slot(u16::try_from(number).expect("few clients"));
        let bytes = case.buffer_bytes() + (1 << 24);
        let (domain, wire) = self.join(slot, tenant, bytes);
        let module = compile(case.ptx.as_bytes().to_vec()).expect("the module compiles");
        assert_eq!(module.kernels[0].kernel.name, case.entry, "its only kernel");
        let kernel = client_kernel(&*self.device, domain, &module);
        self.tell(Message::AddKernel(slot, 0, kernel));
        let (mut given, mut addresses) = (Vec::new(), Vec::new());
        for arg in &case.args {
            if let Arg::Buffer { bytes, .. } = arg {
                let (mapping, copy) = self.buffer(domain, given.len() as u64, bytes);
                self.tell(Message::AddMapping(slot, mapping));
                addresses.push(copy.address);
                given.push((Operation::CopyToDevice(copy), Vec::new()));
            }
        }
        let copies = given.len() as u64;
        let args = case.pack_params(&addresses);
        let launch = Launch {
            kernel: 0,
            grid: case.grid,
            block: case.block.map(|n| u16::try_from(n).expect("a block")),
            shared_bytes: case.dynamic_shared_bytes,
            args_offset: 0,
            args_len: u32::try_from(args.len()).expect("few parameters"),
            is_cooperative: false,
        };
        given.push((Operation::Launch(launch), args));
        let own = StreamLoop {
            shape: Shape::default(),
            ahead: 1,
            count: copies,
        };
        self.submitted.push(Vec::new());
        self.programs.push(Program {
            wire,
            out: 0,
            submits: Submits::Given,
            given,
            completed: 0,
            streams: vec![(own, 0)],
        });
        let _ = self.dispatcher.turn();
        self.submit(number, 0);
        number
    }

    /// Submits the launch of a client that was given one and whose copies have ended.
    pub(crate) fn launch(&mut self, client: usize) {
        let (of, submitted) = &mut self.programs[client].streams[0];
        assert_eq!(*submitted, of.count, "all before it was submitted");
        of.count += 1;
        self.submit(client, 0);
    }

    /// Returns a client's buffer with these bytes, and the copy of it to the device.
    fn buffer(&self, domain: DomainId, place: u64, bytes: &[u8]) -> (Mapping, Copy) {
        let (len, iova) = (bytes.len() as u64, place << 32);
        let size = len.next_multiple_of(4096);
        let memfd = SealedMemfd::create("case", size).expect("a memfd");
        let own = memfd.as_fd().try_clone_to_owned().expect("a copy");
        let file: File = memfd.as_fd().try_clone_to_owned().expect("a copy").into();
        file.write_all_at(bytes, 0).expect("room");
        let protection = Protection {
            read: true,
            write: false,
        };
        let buffer = TenantBuffer::new(own, 0, size, protection).expect("it is sealed");
        let mapping = Mapping {
            iova,
            bytes: size,
            buffer: self
                .device
                .register_buffer(Arc::new(buffer))
                .expect("a place"),
            writable: false,
        };
        let address = self.device.alloc(domain, len).expect("memory");
        (mapping, Copy { iova, address, len })
    }

    /// Lets a client of a tenant join, with at most this many bytes of memory; returns its domain and its end of the
    /// channel.
    fn join(&self, slot: Slot, tenant: TenantId, bytes: u64) -> (DomainId, Rc<RefCell<Wire>>) {
        let domain = self.device.create_domain(bytes).expect("a domain");
        let wire = Rc::new(RefCell::new(Wire::default()));
        let client = ClientSlot::new(
            u32::from(slot.0) + 1,
            tenant,
            domain,
            Port(Rc::clone(&wire)),
        );
        self.tell(Message::Join(slot, Box::new(client)));
        (domain, wire)
    }

    fn submit(&mut self, client: usize, stream: usize) {
        let now = self.device.now_ns();
        let program = &mut self.programs[client];
        let (of, submitted) = &mut program.streams[stream];
        if *submitted >= of.count {
            return;
        }
        *submitted += 1;
        let times = &mut self.submitted[client];
        let cookie = times.len() as u64;
        times.push(now);
        let launch = Launch {
            kernel: u32::from(program.submits == Submits::Refused),
            grid: [of.shape.blocks, 1, 1],
            block: [of.shape.threads, 1, 1],
            shared_bytes: of.shape.shared_bytes,
            args_offset: 0,
            args_len: 12,
            is_cooperative: false,
        };
        let number = u16::try_from(stream).expect("few streams");
        let (operation, args) = match program.submits {
            Submits::Launches | Submits::Refused => {
                let mut args = program.out.to_le_bytes().to_vec();
                args.extend(of.shape.rounds.to_le_bytes());
                (Operation::Launch(launch), args)
            }
            Submits::Barriers => (Operation::Barrier, Vec::new()),
            Submits::Given => {
                let place = usize::try_from(*submitted - 1).expect("few operations");
                program.given[place].clone()
            }
        };
        let entry = SubmissionEntry::new(operation, number, cookie | (stream as u64) << 32, 0);
        program
            .wire
            .borrow_mut()
            .submissions
            .push_back((entry, args));
    }

    /// Lets every program answer its completions.
    fn react(&mut self) {
        if let Some(timer) = &self.timer {
            timer.borrow_mut().answering = false;
        }
        for client in 0..self.programs.len() {
            loop {
                let wire = Rc::clone(&self.programs[client].wire);
                let Some(entry) = wire.borrow_mut().completions.pop_front() else {
                    wire.borrow_mut().answering = false;
                    break;
                };
                let stream = usize::try_from(entry.cookie >> 32).expect("a stream");
                let number = usize::try_from(entry.cookie & 0xffff_ffff).expect("a launch");
                self.programs[client].completed += 1;
                self.done.push(Done {
                    client,
                    stream: u16::try_from(stream).expect("a stream"),
                    submitted: self.submitted[client][number],
                    start: entry.start_ns,
                    end: entry.end_ns,
                    status: entry.status,
                });
                self.submit(client, stream);
            }
        }
    }

    /// Runs until every program has ended.
    pub(crate) fn run(&mut self) {
        while self.goes_on() {}
    }

    /// Runs until device time `until` and up to `OPERATION_NS` longer. The clock then stands until the next run.
    pub(crate) fn run_until(&mut self, until: u64) {
        let timer = self.timer();
        loop {
            let barrier = SubmissionEntry::new(Operation::Barrier, 0, 0, 0);
            timer
                .borrow_mut()
                .submissions
                .push_back((barrier, Vec::new()));
            while timer.borrow_mut().completions.pop_front().is_none() {
                self.goes_on();
            }
            if self.device.now_ns() >= until {
                return;
            }
        }
    }

    /// Returns the client whose barriers tell the time.
    fn timer(&mut self) -> Rc<RefCell<Wire>> {
        if let Some(timer) = &self.timer {
            return Rc::clone(timer);
        }
        let tenant = self.tenant(1);
        let (_, wire) = self.join(TIMER, tenant, 1 << 20);
        self.timer = Some(Rc::clone(&wire));
        wire
    }

    /// Runs until the programs of these clients have ended, whatever the others do.
    pub(crate) fn run_programs(&mut self, clients: &[usize]) {
        let under_way = |rig: &Self| clients.iter().any(|n| !rig.programs[*n].is_over());
        while under_way(self) && self.goes_on() {}
    }

    /// Lets everybody do what can be done now; returns whether there is more to come.
    fn goes_on(&mut self) -> bool {
        self.react();
        let events = self.policy.run();
        let turn = self.dispatcher.turn();
        let over = self.programs.iter().all(|program| {
            let wire = program.wire.borrow();
            wire.submissions.is_empty() && wire.sent.is_empty() && wire.completions.is_empty()
        });
        match turn {
            Turn::Waiting => self.backoff.wait(|| std::thread::sleep(REST)),
            _ => self.backoff.reset(),
        }
        turn != Turn::Idle || events > 0 || !over
    }

    /// Returns whether a client's program has ended.
    pub(crate) fn is_over(&self, client: usize) -> bool {
        self.programs[client].is_over()
    }

    /// Returns the counters of a tenant.
    pub(crate) fn usage(&self, tenant: TenantId) -> TenantUsage {
        self.counters[tenant.index()].read()
    }

    /// Returns a tenant's preemption latencies.
    pub(crate) fn preemptions(&self, tenant: TenantId) -> Histogram {
        self.counters[tenant.index()].preemption_latency().read()
    }

    fn tell(&self, message: Message<Port>) {
        assert!(self.control.messages.push(message).is_ok(), "room");
    }
}
