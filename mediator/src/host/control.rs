//! The control thread of a device host: the supervisor's messages, the clients' sockets, and the notices of the
//! dispatcher and the compiler.
//!
//! Rules: it never waits for a client, and the dispatcher never waits for it. It finds the tenant that a client is
//! accounted to, among those that the supervisor says it may be.
//!
//! Length: what the supervisor, clients, compilers and the dispatcher say comes together here.

use super::accounts::{self, TenantAccounts};
use super::clients::{Clients, ConnectError, Making};
use super::compile::{CompileResult, Compilers};
use super::kernels::{Around, KernelReading, Next};
use super::learnt::Learnt;
use super::memory_time::MemoryClock;
use super::outbound::Outbound;
use super::session::{Hello, Member};
use super::statistics::Statistics;
use super::threads;
use super::watch::ReadySet;
use crate::config::{Clock, Config};
use crate::device::{Device, DeviceControl};
use crate::dispatch::accounts::Account;
use crate::dispatch::client::ClientSlot;
use crate::dispatch::ids::Slot;
use crate::dispatch::message::{Message, Notice};
use crate::dispatch::policy_link::{self, PolicyHandle, PolicyRunner};
use crate::dispatch::reading::RowReadings;
use crate::dispatch::samples::SampleSink;
use crate::dispatch::{ClockMode, ControlLink, Dispatcher, DispatcherConfig, Doorbells};
use crate::link::{ClientIdentity, HostLink, ToHost, ToSupervisor};
use crate::page::{DeviceSnapshot, PolicySnapshot, Snapshot, monotonic_ns};
use crate::settings::Settings;
use crate::waker::Waker;
use gridmux_bpf::Recorder;
use gridmux_channel::control::{ControlCode, ControlError};
use gridmux_channel::ring::HostState;
use gridmux_policy::ids::DeviceId;
use gridmux_policy::plan::PlanReader;
use gridmux_policy::units::Nanos;
use gridmux_policy::{Profiles, by_name};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
// Not the shim's: no loom test runs the host's threads.
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Least device time between a plan and the policy's next wake-up; arrivals and ends pass it by. On a real clock it is
/// longer where plans cost much.
const LEAST_PERIOD: Nanos = Nanos(20_000);

/// The device of a host.
const DEVICE: DeviceId = DeviceId(0);

/// How long what is in flight may take to complete when the service stops.
const FLIGHT_PATIENCE: Duration = Duration::from_secs(2);
/// How long the dispatcher may take to cut off what is still in flight then.
const CUT_PATIENCE: Duration = Duration::from_millis(200);
/// Time between two looks at whether it has.
const STOP_POLL: Duration = Duration::from_millis(1);
/// What is said to a launch that ended at its budget while it ran in pieces (`docs/forms.md`, "Waits").
const CUT_HINT: &str = "; it ran in pieces: if its blocks wait for ones that start later, read what they wait for with \
                        atom, ld.acquire or ld.volatile, and it is launched whole";

/// The control thread and what it owns.
pub(super) struct ControlThread {
    config: Config,
    device: Arc<dyn DeviceControl>,
    outbound: Outbound,
    compilers: Compilers,
    bell: Arc<EventFd>,
    accounts: TenantAccounts,
    clients: Clients,
    /// Generation of the rules that say who may be which tenant.
    rules: u64,
    learnt: Learnt,
    statistics: Statistics,
    kernels: KernelReading,
    stop: Arc<AtomicBool>,
    dispatcher: JoinHandle<()>,
    /// The dispatcher's newest turn when the supervisor last asked whether this host is at work.
    seen_turn: Option<u64>,
    policy: JoinHandle<()>,
    policy_handle: PolicyHandle,
    plan: PlanReader,
}

impl ControlThread {
    /// Starts the dispatcher, policy and compiler threads.
    pub(super) fn start<D: Device + Send + 'static>(
        (config, settings): (&Config, &Settings),
        device: D,
        control: Arc<dyn DeviceControl>,
        waker: Arc<Waker>,
        recorder: Option<Recorder>,
        statistics: Statistics,
    ) -> Result<Self, String> {
        let facts = control.facts();
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|e| e.to_string())?;
        let bell = Arc::new(bell);
        let profiles = Profiles::default();
        let policy =
            by_name(&config.policy, DEVICE, &facts.shape, &profiles).map_err(|e| e.to_string())?;
        let (mut policy_end, mut runner) = policy_link::link(
            policy,
            DEVICE,
            &facts.shape,
            device.has_virtual_clock(),
            LEAST_PERIOD,
        )
        .map_err(|e| e.to_string())?;
        runner.set_name(&config.policy);
        runner.learn(&profiles);
        let stop = Arc::new(AtomicBool::new(false));
        let plan = runner.plan_reader();
        let (policy, policy_handle) = spawn_policy(runner, &waker, &stop)?;
        policy_end.set_thread(policy.thread().clone());
        let link = Arc::new(ControlLink::with_bell(Arc::clone(&bell)));
        let dispatching = DispatcherConfig {
            device_id: DEVICE,
            shape: facts.shape,
            max_shared_bytes_per_block: facts.max_shared_bytes_per_block,
            kernel_budget_cycles: config.limits.kernel_budget_cycles,
            clock: match config.device.clock {
                Clock::Live => ClockMode::Live,
                Clock::Lockstep => ClockMode::Lockstep {
                    longest_hold: Duration::from_millis(config.limits.clock_hold_ms),
                },
            },
        };
        let samples = SampleSink::with_recorder(recorder);
        let mut dispatcher =
            Dispatcher::new(&dispatching, device, policy_end, Arc::clone(&link), samples);
        dispatcher.set_doorbells(Arc::clone(&waker) as Arc<dyn Doorbells>);
        // In lockstep what was learnt by the time that a row is new would depend on the host's speed.
        if config.device.clock == Clock::Live {
            dispatcher.set_profiles(&profiles);
        }
        let own_waker = Arc::clone(&waker);
        let dispatcher = spawn("dispatcher", move || {
            threads::dispatch(dispatcher, &own_waker)
        })?;
        let compilers = Compilers::start(config, &control, &bell, |name, body| {
            spawn(name, body).map(drop)
        })?;
        Ok(Self {
            config: config.clone(),
            device: control,
            outbound: Outbound::new(link, waker, compilers.queue.clone()),
            compilers,
            bell,
            accounts: TenantAccounts::new(settings, statistics.before()),
            clients: Clients::new(config.limits.clients),
            rules: settings.rules,
            learnt: Learnt::new(profiles),
            statistics,
            kernels: KernelReading::default(),
            stop,
            dispatcher,
            seen_turn: None,
            policy,
            policy_handle,
            plan,
        })
    }

    /// Serves until the supervisor says stop or is gone.
    pub(super) fn run(mut self, mut link: HostLink) -> io::Result<()> {
        for account in self.accounts.iter() {
            self.introduce(account);
        }
        let watch = ReadySet::new(link.fd(), &*self.bell)?;
        link.send(&ToSupervisor::Ready(self.device.facts()), &[])?;
        loop {
            let now = Instant::now();
            let greeting = self.clients.time_to_greeting(now);
            let report = self
                .learnt
                .time_left(now)
                .min(self.statistics.time_left(now));
            let longest = greeting.map_or(report, |greeting| greeting.min(report));
            let ready = watch.wait(Some(longest))?;
            if let Some(learnt) = self.learnt.report_if_due(Instant::now()) {
                link.send(&ToSupervisor::Profiles(learnt), &[])?;
            }
            if self
                .statistics
                .is_due(self.accounts.have_clients(), Instant::now())
            {
                self.write_statistics(false);
            }
            if ready.link && !self.obey_supervisor(&mut link, &watch)? {
                break;
            }
            let _ = self.bell.read();
            for &slot in &ready.clients {
                self.serve(slot, &watch, &link)?;
            }
            for slot in self.clients.take_overdue(Instant::now()) {
                self.leave(slot, "it did not become welcome in time", &watch, &link)?;
            }
            self.take_compiled(&link)?;
            self.take_notices(&watch, &link)?;
            for slot in ready.clients {
                if let Some(client) = self.clients.get_mut(slot) {
                    client.session.answer_question();
                }
            }
        }
        self.stop(&link)
    }

    /// Ends in good order: what is in flight may still complete for a while, and what does not is lost with the
    /// client's connection, which is how its client learns of it.
    fn stop(mut self, link: &HostLink) -> io::Result<()> {
        // What has not completed by then is cut off; its clients are told so.
        for patience in [FLIGHT_PATIENCE, CUT_PATIENCE] {
            self.outbound.tell(Message::Stop);
            let deadline = Instant::now() + patience;
            while !self.dispatcher.is_finished() && Instant::now() < deadline {
                std::thread::sleep(STOP_POLL);
            }
            if self.dispatcher.is_finished() {
                break;
            }
        }
        self.write_statistics(true);
        for account in self.accounts.iter() {
            let operations = account.counters.read().pending;
            if operations > 0 {
                let tenant = &account.name;
                tracing::warn!(tenant, operations, "cut off: the service stops");
            }
        }
        // Release: pairs with the Acquire in `PolicyRunner::serve`.
        self.stop.store(true, Ordering::Release);
        self.policy.thread().unpark();
        let _ = self.policy.join();
        if let Some(learnt) = self.learnt.report() {
            // A supervisor that is gone keeps nothing.
            let _ = link.send(&ToSupervisor::Profiles(learnt), &[]);
        }
        Ok(())
    }

    /// Obeys one message of the supervisor; `false` when the host is to end.
    fn obey_supervisor(&mut self, link: &mut HostLink, watch: &ReadySet) -> io::Result<bool> {
        match link.receive::<ToHost>()? {
            None | Some((ToHost::Stop, _)) => return Ok(false),
            Some((ToHost::WriteStatistics { number }, _)) => {
                self.write_statistics(true);
                link.send(&ToSupervisor::Written { number }, &[])?;
            }
            Some((ToHost::WriteKernels { number }, _)) => {
                if let Some(readings) = self.kernels.ask(number) {
                    self.outbound.tell(Message::ReadRows(readings));
                }
            }
            Some((ToHost::Ping, _)) if self.is_dispatching() => {
                link.send(&ToSupervisor::Alive, &[])?;
            }
            Some((ToHost::Ping, _)) => {}
            Some((ToHost::Client(identity), descriptors)) => {
                let (id, uid) = (identity.id, identity.credentials.uid);
                if let Err(reason) = self.connect(identity, descriptors, watch) {
                    if self.outbound.lines.may_say(uid) {
                        tracing::warn!(id, %reason, "client refused");
                    }
                    link.send(&ToSupervisor::Gone { id, last: None }, &[])?;
                }
            }
            Some((ToHost::Settings(settings), _)) => self.obey_settings(&settings, watch, link)?,
            Some((ToHost::Profiles(kept), _)) => self.learnt.take(kept),
            Some((ToHost::Compilers, sockets)) => self.compilers.connect(sockets),
            Some((ToHost::Start { .. }, _)) => tracing::warn!("a second start is ignored"),
        }
        Ok(true)
    }

    /// Obeys settings from now on. Clients of tenants that are configured no more are closed; whoever else is welcome
    /// stays, also where a new process of its user could no longer be its tenant.
    fn obey_settings(
        &mut self,
        settings: &Settings,
        watch: &ReadySet,
        link: &HostLink,
    ) -> io::Result<()> {
        self.config.limits = settings.limits.clone();
        self.choose_policy(&settings.policy);
        self.clients.set_most(settings.limits.clients);
        self.rules = settings.rules;
        let changes = self.accounts.set(settings);
        for account in &changes.introduced {
            self.introduce(account);
        }
        for account in &changes.limited {
            account.limit_domains(&*self.device);
        }
        for account in changes.removed {
            for slot in self.clients.slots_of(&account) {
                if let Some(client) = self.clients.get_mut(slot) {
                    client.farewell = HostState::Removed;
                }
                let reason = format!("tenant {} is configured no more", account.name);
                self.leave(slot, &reason, watch, link)?;
            }
            self.close_account(&account);
        }
        Ok(())
    }

    /// Tells the dispatcher of a tenant, or of its weight, class and state.
    fn introduce(&self, account: &accounts::TenantAccount) {
        let (terms, counters) = (account.terms(), Arc::clone(&account.counters));
        let account = Account::new(account.id(), terms.weight, terms.class, counters);
        let account = Account {
            state: terms.state,
            ..account
        };
        self.outbound.tell(Message::Tenant(Box::new(account)));
    }

    /// Closes the account of a tenant that is configured no more, if its last client is gone.
    fn close_account(&mut self, account: &accounts::TenantAccount) {
        if self.accounts.close(account) {
            self.outbound.kernels.forget(account.number);
            self.outbound.tell(Message::TenantGone(account.id()));
        }
    }

    /// Returns whether the dispatcher has turned since the last time that this was asked, and wakes it, so that it
    /// turns before the next time.
    fn is_dispatching(&mut self) -> bool {
        let turn = Some(self.outbound.link.turn());
        self.outbound.wake();
        std::mem::replace(&mut self.seen_turn, turn) != turn
    }

    fn connect(
        &mut self,
        identity: ClientIdentity,
        descriptors: Vec<OwnedFd>,
        watch: &ReadySet,
    ) -> Result<(), ConnectError> {
        let [connection, process] = <[OwnedFd; 2]>::try_from(descriptors)
            .map_err(|_| ConnectError::Incomplete("descriptors are missing"))?;
        let making = Making {
            device: &self.device,
            outbound: &self.outbound,
        };
        let connection = UnixStream::from(connection);
        let slot = self
            .clients
            .connect(identity, connection, process, &making)?;
        let Some(client) = self.clients.get_mut(slot) else {
            return Err(ConnectError::Incomplete("its place is gone"));
        };
        if let Err(error) = watch.add(slot, &client.connection, &client.process) {
            client.drained = true;
            self.clients.take_gone(slot, &self.device);
            return Err(error.into());
        }
        Ok(())
    }

    /// Serves one client's socket; a client that closed it, died, or broke the protocol leaves.
    fn serve(&mut self, slot: Slot, watch: &ReadySet, link: &HostLink) -> io::Result<()> {
        let Some(client) = self.clients.get_mut(slot).filter(|client| !client.leaving) else {
            return Ok(());
        };
        let before = client.session.holdings();
        let served = client.serve();
        if client.session.holdings() != before {
            client.note_memory(&*self.device);
        }
        if let Some(hello) = client.session.take_hello()
            && let Err(error) = self.greet(slot, hello)
            && let Some(client) = self.clients.get_mut(slot)
        {
            if self
                .outbound
                .lines
                .may_say(client.session.identity().credentials.uid)
            {
                tracing::info!(id = client.session.identity().id, reason = %error, "not welcome");
            }
            client.session.refuse(error);
        }
        let Some(client) = self.clients.get_mut(slot) else {
            return Ok(());
        };
        let wants = client.connection.wants_write();
        if std::mem::replace(&mut client.watched_for_room, wants) != wants {
            watch.want_room(slot, &client.connection, wants);
        }
        match served {
            Ok(()) => Ok(()),
            Err(reason) => self.leave(slot, &reason.to_string(), watch, link),
        }
    }

    /// Finds the tenant that a client is accounted to, and lets the client in.
    fn greet(&mut self, slot: Slot, hello: Hello) -> Result<(), ControlError> {
        let refused = |code, text: String| Err(ControlError::new(code, text));
        let Some(client) = self.clients.get_mut(slot) else {
            return Ok(());
        };
        let identity = client.session.identity();
        if identity.rules != self.rules {
            let text =
                "who may be which tenant changed while this process connected; connect again";
            return refused(ControlCode::NotWelcome, text.into());
        }
        let asked = hello.tenant.as_deref();
        let chosen = self.accounts.choose(&identity.allowed, asked);
        let account = match chosen {
            Ok(account) => account,
            Err(text) if asked.is_some() => return refused(ControlCode::Denied, text),
            Err(text) => return refused(ControlCode::NotWelcome, text),
        };
        if Clients::is_refused_place(slot) {
            let most = self.config.limits.clients;
            let text = format!(
                "no place is left for a client (limits.clients is {most}); try again later"
            );
            return refused(ControlCode::Limit, text);
        }
        if let Err(text) = account.check_place() {
            return refused(ControlCode::Limit, text);
        }
        let internal = |text: String| ControlError::new(ControlCode::Internal, text);
        if !account.take_descriptors(client.session.descriptors()) {
            let text = format!(
                "the clients of tenant {} hold all file descriptors of the service that it may have; close some",
                account.name
            );
            return refused(ControlCode::Limit, text);
        }
        // Taken once: a client is greeted with success once.
        let rings = client.rings.take();
        let rings = rings.ok_or_else(|| internal("this client has no rings left".into()))?;
        let domain = match self
            .device
            .create_domain(account.terms().memory_limit_bytes)
        {
            Ok(domain) => domain,
            Err(error) => {
                account.give_descriptors_back(client.session.descriptors());
                client.rings = Some(rings);
                return refused(ControlCode::OutOfMemory, error.to_string());
            }
        };
        if let Err(error) = self.outbound.waker.watch(client.session.doorbell(), slot) {
            self.device.destroy_domain(domain);
            account.give_descriptors_back(client.session.descriptors());
            client.rings = Some(rings);
            return Err(internal(error.to_string()));
        }
        account.join(domain);
        let (id, name) = (identity.id, &account.name);
        let joining = ClientSlot::new(id, account.id(), domain, rings);
        if self.outbound.lines.may_say(identity.credentials.uid) {
            tracing::info!(id, tenant = %name, client = ?hello.name, "welcome");
        }
        let account = std::rc::Rc::clone(account);
        let counters = Arc::clone(&joining.counters);
        self.outbound.tell(Message::Join(slot, Box::new(joining)));
        let member = Member {
            account,
            domain,
            name: hello.name,
            counters,
            memory: MemoryClock::new(monotonic_ns()),
        };
        for mapping in client.session.welcome(member) {
            self.outbound.tell(Message::AddMapping(slot, mapping));
        }
        Ok(())
    }

    /// Serves a client no more; what it holds goes when nothing of it is in flight.
    fn leave(
        &mut self,
        slot: Slot,
        reason: &str,
        watch: &ReadySet,
        link: &HostLink,
    ) -> io::Result<()> {
        let Some(client) = self.clients.get_mut(slot) else {
            return Ok(());
        };
        if std::mem::replace(&mut client.leaving, true) {
            return Ok(());
        }
        if self
            .outbound
            .lines
            .may_say(client.session.identity().credentials.uid)
        {
            tracing::info!(id = client.session.identity().id, %reason, "leaving");
        }
        watch.forget(&client.connection, &client.process);
        if client.session.compiling && self.compilers.queue.cancel(slot) {
            client.session.compiling = false;
        }
        if client.session.is_welcome() {
            self.outbound.waker.forget(client.session.doorbell());
            self.outbound.tell(Message::Leave(slot));
        } else {
            client.drained = true;
        }
        self.part_with(slot, link)
    }

    /// Frees what a client held, if nothing of it is in flight any more.
    fn part_with(&mut self, slot: Slot, link: &HostLink) -> io::Result<()> {
        match self.clients.take_gone(slot, &self.device) {
            Some(gone) => {
                if let Some((account, _)) = &gone.member {
                    self.close_account(account);
                }
                let last = gone.member.map(|(_, last)| last);
                link.send(&ToSupervisor::Gone { id: gone.id, last }, &[])
            }
            None => Ok(()),
        }
    }

    fn take_compiled(&mut self, link: &HostLink) -> io::Result<()> {
        if self.compilers.queue.takes_server() {
            link.send(&ToSupervisor::NoCompilers, &[])?;
        }
        while let Ok(CompileResult { slot, loaded }) = self.compilers.results.try_recv() {
            if let Some(client) = self.clients.get_mut(slot) {
                client.session.finish_load(loaded);
            }
            self.part_with(slot, link)?;
        }
        Ok(())
    }

    fn take_notices(&mut self, watch: &ReadySet, link: &HostLink) -> io::Result<()> {
        while let Some(notice) = self.outbound.link.notices.pop() {
            match notice {
                Notice::Known(account) => drop(account),
                Notice::Rows(readings) => self.take_rows(readings, link)?,
                Notice::Gone(slot, remains) => {
                    if let Some(client) = self.clients.get_mut(slot) {
                        // Before its socket is closed, so that a client that finds it closed finds this as well.
                        remains.port.set_host_state(client.farewell);
                        client.drained = true;
                    }
                    drop(remains);
                    self.part_with(slot, link)?;
                }
                Notice::Corrupt(slot, why) => {
                    self.leave(slot, &format!("it corrupted its rings: {why}"), watch, link)?;
                }
                Notice::Failed {
                    slot,
                    cookie,
                    tag,
                    was_cut,
                } => {
                    let text = self.device.take_fault(tag);
                    let mut text = text.unwrap_or_else(|| "the device gave no reason".into());
                    if was_cut {
                        text += CUT_HINT;
                    }
                    if let Some(client) = self.clients.get_mut(slot) {
                        client.session.keep_error(cookie, text);
                    }
                }
                Notice::Refused {
                    slot,
                    cookie,
                    reason,
                } => {
                    if let Some(client) = self.clients.get_mut(slot) {
                        client.session.keep_refusal(cookie, reason);
                    }
                }
                Notice::StreamGone(slot, stream) => {
                    if let Some(client) = self.clients.get_mut(slot) {
                        client.session.stream_gone(stream);
                    }
                }
                Notice::Fenced(slot, number) => {
                    if let Some(client) = self.clients.get_mut(slot) {
                        client.session.fenced(number);
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes rows that the dispatcher has read, and asks for more or answers the supervisor.
    fn take_rows(&mut self, readings: Box<RowReadings>, link: &HostLink) -> io::Result<()> {
        let around = Around {
            accounts: &self.accounts,
            known: &self.outbound.kernels,
            profiles: self.learnt.profiles(),
            shape: &self.device.facts().shape,
            plan: self.plan.read(),
        };
        match self.kernels.take(readings, around) {
            Next::Ask(readings) => self.outbound.tell(Message::ReadRows(readings)),
            Next::Answer(asked) => {
                self.write_statistics(true);
                for number in asked {
                    link.send(&ToSupervisor::Written { number }, &[])?;
                }
            }
        }
        Ok(())
    }

    /// Has another policy take over, if this is another one than was chosen last.
    fn choose_policy(&mut self, name: &str) {
        if self.config.policy == name {
            return;
        }
        let (shape, profiles) = (self.device.facts().shape, self.learnt.profiles());
        match by_name(name, DEVICE, &shape, profiles) {
            Ok(policy) => {
                tracing::info!(policy = name, before = %self.config.policy, "another policy takes over");
                self.config.policy = name.to_owned();
                self.policy_handle.choose(name, policy);
            }
            // The supervisor looks at names before it passes them on.
            Err(error) => tracing::error!(%error, "the policy stays"),
        }
    }

    /// Writes what is counted into the page; where it was not asked for, only if something changed.
    fn write_statistics(&mut self, was_asked: bool) {
        let device = &*self.device;
        let tenants = self
            .accounts
            .statistics(device, |account| self.clients.of(account, device));
        let in_force = self.policy_handle.in_force();
        let snapshot = Snapshot {
            at_ns: monotonic_ns(),
            device: DeviceSnapshot::of(&device.facts()),
            policy: PolicySnapshot {
                name: in_force.name().to_owned(),
                since_ns: in_force.since_ns,
                failure: in_force.failure.map(|failure| failure.to_string()),
            },
            device_now_ns: device.now_ns(),
            holds_expired: self.outbound.link.holds_expired(),
            tenants,
            kernels: self.kernels.last().clone(),
        };
        self.statistics.write(snapshot, was_asked);
    }
}

/// Starts a thread whose panic ends the process: a host that has lost one of its threads would only seem to live, and
/// the supervisor replaces one that has ended.
fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(|| {
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err() {
                std::process::abort();
            }
        })
        .map_err(|error| format!("starting the {name} thread: {error}"))
}

fn spawn_policy(
    runner: PolicyRunner,
    waker: &Arc<Waker>,
    stop: &Arc<AtomicBool>,
) -> Result<(JoinHandle<()>, PolicyHandle), String> {
    let (waker, stop) = (Arc::clone(waker), Arc::clone(stop));
    let handle = runner.handle();
    let thread = spawn("policy", move || runner.serve(&stop, || waker.wake()))?;
    Ok((thread, handle))
}
