//! A scripted tenant and a scripted device for tests of the dispatcher.
//!
//! The device obeys at once: each launch is placed when it is submitted and ends when a permit lets time pass, in the
//! order of submission, `BLOCK_NS` later. Everything that was ever submitted is kept for the test to judge.
#![allow(dead_code, reason = "the binaries apart from this room's use a part")]

use gridmux_channel::ring::queue::Corrupt;
use gridmux_channel::ring::{
    CompletionEntry, CompletionStatus, Launch, Operation, PushError, RingError, SubmissionEntry,
    TenantState,
};
use gridmux_mediator::device::{
    AllocationUnits, Busy, Command, Device, DeviceKernelId, DeviceReport, DomainId, KernelLimits,
    LaunchCommand, MemsetCommand, Outcome, Residency, Submission, Tag,
};
use gridmux_mediator::dispatch::accounting::TenantCounters;
use gridmux_mediator::dispatch::accounts::Account;
use gridmux_mediator::dispatch::client::{ClientKernel, ClientSlot};
use gridmux_mediator::dispatch::samples::SampleSink;
use gridmux_mediator::dispatch::{
    ClockMode, ControlLink, Dispatcher, DispatcherConfig, Message, Notice, Slot, Turn, policy_link,
};
use gridmux_policy::ids::{DeviceId, KernelKey, TenantId};
use gridmux_policy::shape::DeviceShape;
use gridmux_policy::units::Nanos;
use gridmux_policy::{Class, Policy};
use gridmux_ptx::Kernel;
use gridmux_ptx::decode::LaunchBounds;
use gridmux_ptx::forms::Shape;
use gridmux_ptx::kernel::Entry;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Residence of every block on the scripted device.
pub(crate) const BLOCK_NS: u64 = 1000;
/// How often the scripted device is to be polled.
pub(crate) const POLL_EVERY: Duration = Duration::from_micros(70);

/// A device of 4 SMs.
pub(crate) const SHAPE: DeviceShape = DeviceShape::h200(4);

/// State that a test and its port share.
#[derive(Default)]
pub(crate) struct Wire {
    pub(crate) submissions: VecDeque<SubmissionEntry>,
    pub(crate) completions: Vec<CompletionEntry>,
    /// Completions that fit before the ring is full.
    pub(crate) room: usize,
    pub(crate) closed: bool,
    pub(crate) stopped: bool,
    /// It says that it runs, so it holds the clock.
    pub(crate) runs: bool,
    /// It says that it runs while it has nothing submitted that has not completed.
    pub(crate) answers: bool,
    /// Submissions taken and not completed.
    pub(crate) open: usize,
    /// Holds released, by stream.
    pub(crate) released: [u64; 4],
}

impl Wire {
    /// Returns the cookies of what has completed, in order.
    pub(crate) fn cookies(&self) -> Vec<u64> {
        self.completions.iter().map(|entry| entry.cookie).collect()
    }

    /// Returns when an operation started and ended that has completed once and well.
    pub(crate) fn times(&self, cookie: u64) -> (u64, u64) {
        let mut found = self.completions.iter().filter(|c| c.cookie == cookie);
        let entry = found.next().expect("it has completed");
        assert_eq!(entry.status, CompletionStatus::Ok as u32);
        assert!(found.next().is_none(), "it completes once");
        (entry.start_ns, entry.end_ns)
    }
}

/// A wire that a test and its port have.
pub(crate) type SharedWire = Rc<RefCell<Wire>>;

/// The scripted tenant's end; it waits unless the test lets it run.
pub(crate) struct Port(pub(crate) SharedWire);

impl TenantPort for Port {
    fn pop(&mut self) -> Result<Option<SubmissionEntry>, Corrupt> {
        let mut wire = self.0.borrow_mut();
        let entry = wire.submissions.pop_front();
        wire.open += usize::from(entry.is_some());
        Ok(entry)
    }

    fn read_args(&self, _offset: u32, out: &mut [u8]) -> Result<(), RingError> {
        out.fill(0xa5);
        Ok(())
    }

    fn complete(&mut self, entry: CompletionEntry) -> Result<(), PushError> {
        let mut wire = self.0.borrow_mut();
        if wire.completions.len() >= wire.room {
            return Err(PushError::Full);
        }
        wire.completions.push(entry);
        wire.open -= 1;
        Ok(())
    }

    fn wake(&mut self) {}

    fn arm(&mut self) {}

    fn has_work(&mut self) -> bool {
        !self.0.borrow().submissions.is_empty()
    }

    fn released(&self, stream: u16) -> u64 {
        let wire = self.0.borrow();
        wire.released.get(usize::from(stream)).copied().unwrap_or(0)
    }

    fn disarm(&mut self) {}

    fn state(&mut self) -> TenantState {
        let wire = self.0.borrow();
        let answers = wire.answers && wire.open == 0 && wire.submissions.is_empty();
        match wire.runs || answers {
            true => TenantState::Running,
            false => TenantState::Waiting,
        }
    }

    fn close(&mut self) {
        self.0.borrow_mut().closed = true;
    }

    fn stop(&mut self) {
        self.0.borrow_mut().stopped = true;
    }
}

pub(crate) use gridmux_mediator::dispatch::port::TenantPort;

/// State that a test and its device share.
#[derive(Default)]
pub(crate) struct Bench {
    pub(crate) launched: Vec<LaunchCommand>,
    /// Parameters of the launches, control struct included.
    pub(crate) params: Vec<Vec<u8>>,
    /// Keep the parameters.
    pub(crate) keeps_params: bool,
    pub(crate) killed: Vec<Tag>,
    pub(crate) in_flight: VecDeque<(Tag, u32)>,
    pub(crate) reports: VecDeque<DeviceReport>,
    pub(crate) now: u64,
    pub(crate) permits: usize,
    /// End of the newest permit.
    pub(crate) until: u64,
    /// Time passes by itself: the test sets `now`, and permits are not asked for.
    pub(crate) has_real_clock: bool,
    /// Called at each permit, before time passes.
    pub(crate) at_permit: Option<Box<dyn FnMut(u32)>>,
    /// Blocks reported as placed so far.
    pub(crate) placed: u32,
    /// Ends launches with this outcome instead of `Done`.
    pub(crate) outcome: Option<Outcome>,
    /// How it knows which blocks are resident.
    pub(crate) residency: Residency,
    /// How launches come to it.
    pub(crate) submission: Submission,
    /// Its levels, at least one.
    pub(crate) levels: u8,
    /// Blocks start when time passes, not as they are handed over.
    pub(crate) starts_late: bool,
    /// Launches that it refuses for want of room, before it takes one.
    pub(crate) refuses: usize,
    /// Kills that it refuses for want of room, before it takes one.
    pub(crate) refuses_kills: usize,
    /// Has no room for permits.
    pub(crate) refuses_permits: bool,
    /// Fills handed over: whose memory, address, length, and how much more follows.
    pub(crate) fills: Vec<(u32, u64, u64, u64)>,
    /// Most operations on it at once.
    pub(crate) most_in_flight: usize,
}

/// The scripted device.
pub(crate) struct MockDevice(pub(crate) Rc<RefCell<Bench>>);

impl Device for MockDevice {
    fn submit(&mut self, command: &Command, params: &[u8]) -> Result<(), Busy> {
        let mut bench = self.0.borrow_mut();
        let now = Nanos(bench.now);
        match command {
            Command::Launch(_) if bench.refuses > 0 => {
                bench.refuses -= 1;
                return Err(Busy);
            }
            Command::Launch(launch) => {
                let blocks = launch.grid.iter().product();
                if bench.launched.len() < bench.launched.capacity() {
                    bench.launched.push(*launch);
                }
                if bench.keeps_params {
                    bench.params.push(params.to_vec());
                }
                bench.in_flight.push_back((launch.tag, blocks));
                bench.submission.add(now);
                if !bench.starts_late {
                    bench.reports.push_back(DeviceReport::Placed {
                        tag: launch.tag,
                        blocks,
                        at: now,
                    });
                }
            }
            Command::Copy(copy) => bench.in_flight.push_back((copy.tag, 0)),
            Command::DeviceCopy(copy) => bench.in_flight.push_back((copy.tag, 0)),
            Command::Memset(memset) => {
                let MemsetCommand {
                    domain,
                    address,
                    bytes,
                    rest_bytes,
                    ..
                } = *memset;
                bench.fills.push((domain.0, address, bytes, rest_bytes));
                bench.in_flight.push_back((memset.tag, 0));
                bench.most_in_flight = bench.most_in_flight.max(bench.in_flight.len());
            }
            Command::Kill(_) if bench.refuses_kills > 0 => {
                bench.refuses_kills -= 1;
                return Err(Busy);
            }
            Command::Kill(tag) => {
                bench.killed.push(*tag);
                bench.in_flight.retain(|(other, _)| other != tag);
                let outcome = Outcome::Killed;
                bench.reports.push_back(DeviceReport::Ended {
                    tag: *tag,
                    start: now,
                    end: now,
                    outcome,
                });
            }
            Command::PassTime { .. } if bench.refuses_permits => return Err(Busy),
            Command::PassTime { until } => {
                bench.permits += 1;
                bench.until = until.0;
                let placed = bench.placed;
                if let Some(at_permit) = &mut bench.at_permit {
                    at_permit(placed);
                }
                bench.pass_time();
            }
            Command::Pause => {}
        }
        Ok(())
    }

    fn poll(&mut self) -> Option<DeviceReport> {
        let mut bench = self.0.borrow_mut();
        let report = bench.reports.pop_front();
        if let Some(DeviceReport::Placed { blocks, .. }) = report {
            bench.placed += blocks;
        }
        report
    }

    fn residency(&self) -> Residency {
        self.0.borrow().residency
    }

    fn has_virtual_clock(&self) -> bool {
        !self.0.borrow().has_real_clock
    }

    fn now(&self) -> Nanos {
        Nanos(self.0.borrow().now)
    }

    fn poll_every(&self) -> Duration {
        POLL_EVERY
    }

    fn submission(&self) -> Submission {
        self.0.borrow().submission
    }

    fn levels(&self) -> u8 {
        self.0.borrow().levels.max(1)
    }
}

impl Bench {
    /// Returns the number of blocks of each piece that was launched, in order.
    pub(crate) fn grids(&self) -> Vec<u32> {
        let grids = self.launched.iter().map(|launch| launch.grid);
        grids.map(|grid| grid.iter().product()).collect()
    }

    /// Ends the oldest operation, a block's residence from now.
    pub(crate) fn pass_time(&mut self) {
        if self.in_flight.is_empty() && self.until != u64::MAX {
            self.now = self.now.max(self.until);
        }
        if let Some((tag, blocks)) = self.in_flight.pop_front() {
            let start = Nanos(self.now);
            if self.starts_late && blocks > 0 {
                self.reports.push_back(DeviceReport::Placed {
                    tag,
                    blocks,
                    at: start,
                });
            }
            self.now += BLOCK_NS;
            let at = Nanos(self.now);
            if blocks > 0 {
                let ran = Nanos(BLOCK_NS * u64::from(blocks));
                self.reports.push_back(DeviceReport::Retired {
                    tag,
                    blocks,
                    ran,
                    at,
                });
            }
            let outcome = self.outcome.unwrap_or(Outcome::Done);
            self.reports.push_back(DeviceReport::Ended {
                tag,
                start,
                end: at,
                outcome,
            });
        }
        self.reports.push_back(DeviceReport::Paused {
            at: Nanos(self.now),
        });
    }
}

/// A dispatcher on the scripted device under a policy, with the policy run by hand.
pub(crate) struct Rig {
    pub(crate) dispatcher: Dispatcher<MockDevice, Port>,
    pub(crate) policy: policy_link::PolicyRunner,
    pub(crate) control: Arc<ControlLink<Port>>,
    pub(crate) bench: Rc<RefCell<Bench>>,
}

impl Rig {
    pub(crate) fn new(policy: &str) -> Self {
        Self::with_policy(named(policy))
    }

    pub(crate) fn with_policy(policy: Box<dyn Policy>) -> Self {
        let linked = policy_link::link(policy, DeviceId(0), &SHAPE, true, Nanos(0));
        let longest_hold = Duration::from_millis(100);
        let clock = ClockMode::Lockstep { longest_hold };
        Self::linked(linked.expect("a plan stands"), clock, false)
    }

    /// With a virtual clock that nobody holds.
    pub(crate) fn live(policy: &str) -> Self {
        let linked = policy_link::link(named(policy), DeviceId(0), &SHAPE, true, Nanos(0));
        Self::linked(linked.expect("a plan stands"), ClockMode::Live, false)
    }

    /// On a real clock, with room for `events` events to the policy.
    #[cfg(not(loom))]
    pub(crate) fn on_real_clock(policy: Box<dyn Policy>, events: usize) -> Self {
        Self::woken_after(policy, events, Nanos(0))
    }

    /// As [`Rig::on_real_clock`]; the policy is woken at most once in so much time.
    #[cfg(not(loom))]
    pub(crate) fn woken_after(policy: Box<dyn Policy>, events: usize, least: Nanos) -> Self {
        let linked = policy_link::link_with_room(policy, DeviceId(0), &SHAPE, false, least, events);
        Self::linked(linked.expect("a plan stands"), ClockMode::Live, true)
    }

    fn linked(
        (end, runner): (policy_link::PolicyLink, policy_link::PolicyRunner),
        clock: ClockMode,
        has_real_clock: bool,
    ) -> Self {
        let bench = Rc::new(RefCell::new(Bench {
            launched: Vec::with_capacity(4096),
            in_flight: VecDeque::with_capacity(256),
            reports: VecDeque::with_capacity(4096),
            has_real_clock,
            ..Bench::default()
        }));
        #[allow(
            clippy::arc_with_non_send_sync,
            reason = "the dispatcher takes an Arc; this rig and its ports stay on one thread"
        )]
        let control = Arc::new(ControlLink::default());
        let config = DispatcherConfig {
            device_id: DeviceId(0),
            shape: SHAPE,
            max_shared_bytes_per_block: 232_448,
            kernel_budget_cycles: 1 << 40,
            clock,
        };
        let device = MockDevice(Rc::clone(&bench));
        let dispatcher = Dispatcher::new(
            &config,
            device,
            end,
            Arc::clone(&control),
            SampleSink::default(),
        );
        Self {
            dispatcher,
            policy: runner,
            control,
            bench,
        }
    }

    /// Returns a tenant with kernel 0: 256 threads, 32 registers a thread, sliceable, 16 bytes of parameters.
    pub(crate) fn join(&mut self, slot: u16, weight: u32) -> SharedWire {
        let counters = Arc::new(TenantCounters::default());
        self.join_as(slot, TenantId(slot.into()), weight, counters)
    }

    /// Returns a client of a tenant, with kernel 0 as in [`Rig::join`].
    pub(crate) fn join_as(
        &mut self,
        slot: u16,
        tenant: TenantId,
        weight: u32,
        counters: Arc<TenantCounters>,
    ) -> SharedWire {
        let wire = Rc::new(RefCell::new(Wire {
            submissions: VecDeque::with_capacity(4096),
            completions: Vec::with_capacity(4096),
            room: 4096,
            ..Wire::default()
        }));
        let account = Account::new(tenant, weight, Class::Normal, counters);
        self.tell(Message::Tenant(Box::new(account)));
        let client = ClientSlot::new(
            u32::from(slot) + 1,
            tenant,
            DomainId(u32::from(slot)),
            Port(Rc::clone(&wire)),
        );
        self.tell(Message::Join(Slot(slot), Box::new(client)));
        self.add_kernel(slot, sliced(16));
        wire
    }

    /// Makes a kernel a client's kernel 0: 32 registers a thread.
    pub(crate) fn add_kernel(&self, slot: u16, kernel: Arc<Kernel>) {
        let limits = KernelLimits {
            id: DeviceKernelId(u32::from(slot)),
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
            kernel,
            key: KernelKey(1),
        };
        self.tell(Message::AddKernel(Slot(slot), 0, kernel));
    }

    pub(crate) fn tell(&self, message: Message<Port>) {
        assert!(
            self.control.messages.push(message).is_ok(),
            "the message queue has room"
        );
    }

    /// Turns policy and dispatcher once.
    pub(crate) fn turn(&mut self) {
        self.policy.run();
        let _ = self.dispatcher.turn();
    }

    /// Turns policy and dispatcher `times` times.
    pub(crate) fn turns(&mut self, times: usize) {
        (0..times).for_each(|_| self.turn());
    }

    /// Takes the notices that the dispatcher has given so far.
    pub(crate) fn notices(&self) -> impl Iterator<Item = Notice<Port>> {
        std::iter::from_fn(|| self.control.notices.pop())
    }

    /// Turns dispatcher and policy until neither has anything to do, or `limit` turns are over.
    pub(crate) fn settle(&mut self, limit: usize) -> usize {
        for turn in 0..limit {
            let events = self.policy.run();
            let done = self.dispatcher.turn();
            if matches!(done, Turn::Idle | Turn::Stopped) && events == 0 {
                return turn;
            }
        }
        limit
    }
}

/// Returns a policy for the scripted device by its name.
pub(crate) fn named(policy: &str) -> Box<dyn Policy> {
    let profiles = gridmux_policy::Profiles::default();
    gridmux_policy::by_name(policy, DeviceId(0), &SHAPE, &profiles).expect("the policy exists")
}

/// Has a client submit something.
pub(crate) fn submit(wire: &RefCell<Wire>, entry: SubmissionEntry) {
    wire.borrow_mut().submissions.push_back(entry);
}

/// Returns a submission of kernel 0.
pub(crate) fn launch(cookie: u64, grid: [u32; 3], block: [u16; 3]) -> SubmissionEntry {
    let request = Launch {
        kernel: 0,
        grid,
        block,
        shared_bytes: 0,
        args_offset: 0,
        args_len: 16,
        is_cooperative: false,
    };
    on_stream(0, cookie, Operation::Launch(request))
}

/// Returns a submission of an operation in a stream.
pub(crate) fn on_stream(stream: u16, cookie: u64, operation: Operation) -> SubmissionEntry {
    SubmissionEntry::new(operation, stream, cookie, 0)
}

/// Returns a launch of kernel 0 with blocks of 32 threads in a stream.
pub(crate) fn launch_on(stream: u16, cookie: u64, blocks: u32) -> SubmissionEntry {
    let entry = launch(cookie, [blocks, 1, 1], [32, 1, 1]);
    on_stream(stream, cookie, entry.decode().expect("a launch"))
}

/// Returns the description of a kernel that can be cut.
pub(crate) fn sliced(params_bytes: u32) -> Arc<Kernel> {
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
