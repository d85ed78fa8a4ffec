//! The dispatcher as a subject of the conformance suite.
//!
//! A run is one thread: it turns policy and dispatcher by turns. Each tenant is a client, whose number is that of its
//! first load; each load is a kernel handle of it. How long its blocks stay is known, because the dispatcher begins
//! with little of a row that it does not know, whatever the plan permits.
//!
//! How far the dispatcher may be off follows from what it says of itself (`gridmux_mediator::dispatch::enforces`) and
//! from the length of a block against a launch's latency; the figures are at [`Dispatched::slack`].

use super::tap::{LaunchIndex, Port, Request, Stage, Tap};
use crate::modelled::REST;
use gridmux_mediator::backoff::Backoff;
use gridmux_mediator::device::{Device, DomainId};
use gridmux_mediator::dispatch::accounting::TenantCounters;
use gridmux_mediator::dispatch::accounts::Account;
use gridmux_mediator::dispatch::client::{ClientKernel, ClientSlot};
use gridmux_mediator::dispatch::policy_link::{PolicyRunner, link_with_room};
use gridmux_mediator::dispatch::rows::{ROWS_PER_TENANT, RowTable};
use gridmux_mediator::dispatch::samples::SampleSink;
use gridmux_mediator::dispatch::window::{WINDOW_NS, starting_percent};
use gridmux_mediator::dispatch::{
    ClockMode, ControlLink, Dispatcher, DispatcherConfig, Message, Slot, Turn, enforces,
};
use gridmux_policy::conformance::{
    Breach, Breaking, LaunchSeen, Load, PolicyLog, Slack, Subject, Tapped, Trace,
};
use gridmux_policy::ids::{DeviceId, TenantId};
use gridmux_policy::shape::{BlockShape, DeviceShape};
use gridmux_policy::units::Nanos;
use gridmux_policy::{Class, Element, Enforcement, Event, Policy};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Turns in which no time passes on a scripted device before something is wrong.
const STANDSTILL: u32 = 1_000_000;
/// Events that may be under way: as in the service, and so few that some are lost.
const EVENTS: usize = 8192;
const FEW_EVENTS: usize = 8;

/// A device for one run.
pub(crate) trait Machine {
    /// Returns the dispatcher's end, once.
    fn device(&mut self) -> Box<dyn Device>;
    fn shape(&self) -> DeviceShape;
    fn max_shared_bytes(&self) -> u32;
    fn domain(&mut self, client: u16) -> DomainId;
    /// Returns a kernel whose blocks stay for as long as its parameter, eight bytes, says.
    fn kernel(&mut self, domain: DomainId, load: u32) -> ClientKernel;
    /// Returns what a launch asks for, where its load does not say it all.
    fn request(&self, _place: LaunchIndex) -> Option<Request> {
        None
    }
    /// Checks what the launches left in the device's memory.
    fn judge(&mut self, _device: &mut dyn Device) {}
}

/// The dispatcher on some device.
pub(crate) struct Dispatched {
    open: fn() -> Box<dyn Machine>,
    shape: DeviceShape,
    /// From handing a launch over to its first block.
    launch: Nanos,
    observation: Nanos,
    rows_per_tenant: usize,
    first_row: usize,
    events: usize,
    /// The residences of blocks, the shortest and the longest; a grain unless they are given.
    pub(crate) residences: Option<[Nanos; 2]>,
    /// The policy lends room, so that caps bind to the block.
    pub(crate) lends: bool,
    /// A rule that is broken by hand.
    pub(crate) breach: Option<Breach>,
}

impl Dispatched {
    pub(crate) fn new(open: fn() -> Box<dyn Machine>, launch: Nanos, observation: Nanos) -> Self {
        Self {
            open,
            shape: open().shape(),
            launch,
            observation,
            rows_per_tenant: ROWS_PER_TENANT,
            first_row: 0,
            events: EVENTS,
            residences: None,
            lends: false,
            breach: None,
        }
    }
}

impl Subject for Dispatched {
    fn device(&self) -> DeviceShape {
        self.shape
    }

    fn enforces(&self, element: Element) -> Enforcement {
        enforces(element)
    }

    /// Returns how far a piece may be off: it obeys the plan under which it was handed over, and starts a launch's
    /// latency later. Where a policy does not lend room, caps and limits may be exceeded by what is on its way to its
    /// first block, which is the more the shorter blocks are: the shortest last a grain, or as the subject says. Where
    /// blocks stay unequally long, what was handed over may have to wait until a slice ahead of it in its lane and the
    /// blocks in its way have ended.
    fn slack(&self, element: Element) -> Slack {
        let [shortest, longest] = self.residences.unwrap_or([self.grain(), Nanos(0)]);
        let starting = match self.lends {
            true => 0,
            false => starting_percent(self.launch.0, shortest.0),
        };
        let starting = f64::from(u32::try_from(starting).expect("a percentage"));
        let exact = Slack::exact(self.launch + self.observation);
        match element {
            Element::Cap | Element::DeviceLimit | Element::GroupLimit => Slack {
                time: exact.time + longest * 2,
                factor: 1.0 + starting / 100.0,
                ..exact
            },
            // The hardware runs what it was given in order of arrival, and rows are given their caps: a block an SM
            // where the suite looks at the order.
            Element::Order => Slack {
                blocks: self.shape.sms.into(),
                ..exact
            },
            // What comes waits for its launch, and for the block that ends.
            Element::Surplus => Slack::exact(exact.time + self.launch),
            // Two windows are on the device when a plan says that the row is to stop.
            Element::Stop => Slack::exact(exact.time + Nanos(2 * WINDOW_NS)),
            _ => exact,
        }
    }

    fn observation(&self) -> Nanos {
        self.observation
    }

    fn grain(&self) -> Nanos {
        self.launch * 20
    }

    fn switches(&self) -> bool {
        false
    }

    fn limit_rows(&mut self, per_tenant: usize) -> bool {
        self.rows_per_tenant = per_tenant;
        true
    }

    fn first_row(&mut self, first: u32) -> bool {
        self.first_row = first as usize;
        true
    }

    /// Returns whether which events are lost follows from how many there are at once: those for which the queue has no
    /// room.
    fn lose_events(&mut self, _from: u64, _n: u64) -> bool {
        self.events = FEW_EVENTS;
        true
    }

    fn run(&mut self, policy: Box<dyn Policy>, loads: &[Load], until: Nanos) -> Trace {
        let policy: Box<dyn Policy> = match self.breach {
            Some(breach) => Box::new(Breaking::new(policy, breach, &self.shape)),
            None => policy,
        };
        let rows = RowTable::new(
            std::mem::replace(&mut self.rows_per_tenant, ROWS_PER_TENANT),
            std::mem::take(&mut self.first_row),
        )
        // A row of which no block has ended gets one small window whatever its cap is.
        .with_known_blocks(self.grain().0);
        let events = std::mem::replace(&mut self.events, EVENTS);
        let (policy, log) = Tapped::new(policy);
        let mut machine = (self.open)();
        let mut rig = Rig::new(&mut *machine, policy, (rows, events), loads, until);
        rig.run();
        machine.judge(&mut *rig.stage.borrow_mut().device);
        rig.trace(loads, &log)
    }
}

struct Rig {
    dispatcher: Dispatcher<Tap, Port>,
    policy: PolicyRunner,
    stage: Rc<RefCell<Stage>>,
    until: Nanos,
    /// By load.
    shapes: Vec<BlockShape>,
}

impl Rig {
    fn new(
        machine: &mut dyn Machine,
        policy: Box<dyn Policy>,
        (rows, events): (RowTable, usize),
        loads: &[Load],
        until: Nanos,
    ) -> Self {
        let shape = machine.shape();
        let (end, runner) = link_with_room(policy, DeviceId(0), &shape, true, Nanos(0), events)
            .expect("a plan stands");
        let mut tenants: Vec<TenantId> = Vec::new();
        let mut clients = Vec::new();
        for load in loads {
            let known = tenants.iter().position(|tenant| *tenant == load.tenant);
            clients.push(known.unwrap_or(tenants.len()));
            if known.is_none() {
                tenants.push(load.tenant);
            }
        }
        let stage = Stage::new(machine.device(), loads, &clients, until);
        let stage = Rc::new(RefCell::new(stage));
        #[allow(
            clippy::arc_with_non_send_sync,
            reason = "the dispatcher takes an Arc; the ports stay on one thread"
        )]
        let control = Arc::new(ControlLink::default());
        let config = DispatcherConfig {
            device_id: DeviceId(0),
            shape,
            max_shared_bytes_per_block: machine.max_shared_bytes(),
            kernel_budget_cycles: 1 << 40,
            clock: ClockMode::Lockstep {
                longest_hold: Duration::from_secs(600),
            },
        };
        let sink = SampleSink::default();
        let tap = Tap(Rc::clone(&stage));
        let mut dispatcher = Dispatcher::new(&config, tap, end, Arc::clone(&control), sink);
        dispatcher.set_rows(rows);
        let tell = |message| assert!(control.messages.push(message).is_ok(), "room");
        let domains = join(machine, &stage, &tenants, loads, &tell);
        let mut shapes = Vec::new();
        for (place, load) in loads.iter().enumerate() {
            let number = u32::try_from(place).expect("few loads");
            let kernel = machine.kernel(domains[clients[place]], number);
            stage.borrow_mut().add_kernel(kernel.limits.id, place);
            let (threads, shared) = (load.block.threads, load.block.shared_bytes);
            shapes.push(kernel.limits.block_shape(threads, shared));
            let slot = slot(clients[place]);
            tell(Message::AddKernel(slot, number, kernel));
            tell(Message::AddStream(slot, load.stream.into()));
            for launch in 0..load.launches.len() {
                if let Some(request) = machine.request((place, launch)) {
                    stage.borrow_mut().set_request((place, launch), request);
                }
            }
        }
        Self {
            dispatcher,
            policy: runner,
            stage,
            until,
            shapes,
        }
    }

    fn run(&mut self) {
        self.stage.borrow_mut().submit_due(Nanos(0));
        let mut turns = 0;
        let mut last = Nanos(0);
        let mut backoff = Backoff::default();
        while self.stage.borrow().now() < self.until {
            let now = self.stage.borrow().now();
            turns = if now == last { turns + 1 } else { 0 };
            last = now;
            assert!(
                turns < STANDSTILL,
                "the dispatcher turns on the spot at {now}"
            );
            let events = self.policy.run();
            let turn = self.dispatcher.turn();
            if turn == Turn::Idle && events == 0 && !self.stage.borrow_mut().pass_idle_time() {
                return;
            }
            match turn {
                // The model's clock is a thread's.
                Turn::Waiting => backoff.wait(|| std::thread::sleep(REST)),
                _ => backoff.reset(),
            }
        }
    }

    fn trace(self, loads: &[Load], log: &PolicyLog) -> Trace {
        let stage = self.stage.borrow();
        let (mut launches, mut rows) = (HashMap::new(), HashMap::new());
        // Where the event of an arrival was lost, the row of the tenant's blocks of that size tells: it is named again.
        for event in log.take_events() {
            match event {
                Event::Arrive { row, launch, .. } => drop(launches.insert(launch, row)),
                Event::RowNew {
                    row, tenant, block, ..
                } => drop(rows.insert((tenant, block.threads), row)),
                _ => {}
            }
        }
        let launch = |(number, place): (u64, &LaunchIndex)| {
            let load = &loads[place.0];
            let row = rows.get(&(load.tenant, load.block.threads));
            Some(LaunchSeen {
                load: place.0,
                launch: place.1,
                number,
                row: *launches.get(&number).or(row)?,
                end: stage.ends.get(place).copied(),
            })
        };
        let mut blocks = stage.blocks.clone();
        // Reports of one step of the device come launch by launch.
        blocks.sort_by_key(|seen| seen.at);
        Trace {
            blocks,
            launches: (1..).zip(&stage.admitted).filter_map(launch).collect(),
            shapes: self.shapes,
        }
    }
}

fn slot(client: usize) -> Slot {
    Slot(u16::try_from(client).expect("few clients"))
}

/// Introduces the tenants, each with a client; returns the clients' memories.
fn join(
    machine: &mut dyn Machine,
    stage: &Rc<RefCell<Stage>>,
    tenants: &[TenantId],
    loads: &[Load],
    tell: &dyn Fn(Message<Port>),
) -> Vec<DomainId> {
    let mut domains = Vec::new();
    for (client, tenant) in tenants.iter().enumerate() {
        let own = loads.iter().find(|load| load.tenant == *tenant);
        let weight = own.expect("it has a load").weight;
        let counters = Arc::new(TenantCounters::default());
        let account = Account::new(*tenant, weight, Class::Normal, counters);
        tell(Message::Tenant(Box::new(account)));
        let domain = machine.domain(slot(client).0);
        let port = Port {
            stage: Rc::clone(stage),
            client,
        };
        tell(Message::Join(
            slot(client),
            Box::new(ClientSlot::new(1, *tenant, domain, port)),
        ));
        domains.push(domain);
    }
    domains
}
