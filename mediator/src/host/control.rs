//! The control thread of a device host: the supervisor's messages, the tenants' sockets, and the notices of the
//! dispatcher and the compiler.
//!
//! Rules: it never waits for a tenant, and the dispatcher never waits for it. A tenant's slot and memory are given
//! back only when the dispatcher says that nothing of it is in flight and the compiler holds nothing of it.

use super::compile::compile;
use super::session::{LoadFailure, LoadedModuleKernel};
use super::tenants::Tenants;
use super::threads;
use crate::config::Config;
use crate::device::{Device, DeviceControl, DomainId};
use crate::dispatch::message::{Message, Notice, Slot};
use crate::dispatch::policy_link::{self, PolicyRunner};
use crate::dispatch::samples::SampleSink;
use crate::dispatch::{ControlLink, Dispatcher, DispatcherConfig};
use crate::link::{HostStatistics, Link, ToHost, ToSupervisor};
use crate::waker::Waker;
use crossbeam::channel::{Receiver, Sender, TrySendError, bounded};
use gridmux_bpf::Recorder;
use gridmux_channel::ring::host::HostRings;
use gridmux_policy::ids::DeviceId;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Modules that may wait for the compiler.
const COMPILE_QUEUE: usize = 64;

/// A module for the compiler.
pub(super) struct CompileJob {
    pub(super) slot: Slot,
    pub(super) domain: DomainId,
    pub(super) text: Vec<u8>,
}

/// What the compiler made of one.
struct CompileResult {
    slot: Slot,
    loaded: Result<Vec<LoadedModuleKernel>, LoadFailure>,
}

/// Where a session's requests go.
#[derive(Clone)]
pub(super) struct Outbound {
    link: Arc<ControlLink<HostRings>>,
    waker: Arc<Waker>,
    compiler: Sender<CompileJob>,
}

impl Outbound {
    /// Sends a message to the dispatcher; waits for room, which the dispatcher makes without waiting for us.
    pub(super) fn tell(&self, message: Message<HostRings>) {
        let mut message = message;
        while let Err(back) = self.link.messages.push(message) {
            message = back;
            self.waker.wake();
            std::thread::yield_now();
        }
        self.waker.wake();
    }

    /// Hands a module to the compiler; `false` when too many wait.
    pub(super) fn compile(&self, job: CompileJob) -> bool {
        !matches!(
            self.compiler.try_send(job),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_))
        )
    }

    /// Wakes the dispatcher.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }
}

/// The control thread and what it owns.
pub(super) struct ControlThread {
    config: Config,
    device: Arc<dyn DeviceControl>,
    outbound: Outbound,
    compiled: Receiver<CompileResult>,
    bell: Arc<EventFd>,
    tenants: Tenants,
    stop: Arc<AtomicBool>,
    dispatcher: JoinHandle<()>,
    policy: JoinHandle<()>,
}

impl ControlThread {
    /// Starts the dispatcher, policy and compiler threads.
    pub(super) fn start<D: Device + Send + 'static>(
        config: &Config,
        device: D,
        control: Arc<dyn DeviceControl>,
        waker: Arc<Waker>,
        recorder: Option<Recorder>,
    ) -> Result<Self, String> {
        let facts = control.facts();
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|e| e.to_string())?;
        let bell = Arc::new(bell);
        let device_id = DeviceId(0);
        let policy = gridmux_policy::by_name(&config.policy, device_id, &facts.shape)
            .map_err(|e| e.to_string())?;
        let (mut policy_end, runner) =
            policy_link::link(policy, device_id, &facts.shape, facts.is_model)
                .map_err(|e| e.to_string())?;
        let stop = Arc::new(AtomicBool::new(false));
        let policy = spawn_policy(runner, &waker, &stop)?;
        policy_end.set_thread(policy.thread().clone());
        let link = Arc::new(ControlLink::with_bell(Arc::clone(&bell)));
        let settings = DispatcherConfig {
            device_id,
            shape: facts.shape,
            max_shared_bytes_per_block: facts.max_shared_bytes_per_block,
            kernel_budget_cycles: config.limits.kernel_budget_cycles,
            clock_hold: Duration::from_millis(config.limits.clock_hold_ms),
        };
        let samples = SampleSink::with_recorder(recorder);
        let dispatcher = Dispatcher::new(&settings, device, policy_end, Arc::clone(&link), samples);
        let bed = Arc::clone(&waker);
        let dispatcher = spawn("dispatcher", move || threads::dispatch(dispatcher, &bed))?;
        let (jobs_in, jobs_out) = bounded(COMPILE_QUEUE);
        let (results_in, compiled) = bounded(COMPILE_QUEUE);
        let compiler = Compiler {
            device: Arc::clone(&control),
            jobs: jobs_out,
            results: results_in,
            bell: Arc::clone(&bell),
        };
        spawn("compiler", move || compiler.run())?;
        Ok(Self {
            config: config.clone(),
            device: control,
            outbound: Outbound {
                link,
                waker,
                compiler: jobs_in,
            },
            compiled,
            bell,
            tenants: Tenants::default(),
            stop,
            dispatcher,
            policy,
        })
    }

    /// Serves until the supervisor says stop or is gone.
    pub(super) fn run(mut self, mut link: Link) -> io::Result<()> {
        link.send(&ToSupervisor::Ready(self.device.facts()), &[])?;
        loop {
            let (supervisor, tenants) = self.wait(&link)?;
            if supervisor && !self.obey_supervisor(&mut link)? {
                break;
            }
            let _ = self.bell.read();
            for &slot in &tenants {
                self.serve(slot);
            }
            self.take_compiled();
            self.take_notices(&link)?;
            for slot in tenants {
                if let Some(tenant) = self.tenants.get_mut(slot) {
                    tenant.session.answer_question();
                }
            }
        }
        self.stop()
    }

    fn stop(self) -> io::Result<()> {
        self.outbound.tell(Message::Stop);
        let _ = self.dispatcher.join();
        // Release: pairs with the Acquire in `threads::policy`.
        self.stop.store(true, Ordering::Release);
        self.policy.thread().unpark();
        let _ = self.policy.join();
        Ok(())
    }

    /// Waits for something to do: whether the supervisor spoke, and the tenants that did.
    fn wait(&self, link: &Link) -> io::Result<(bool, Vec<Slot>)> {
        let mut fds = vec![
            PollFd::new(link.fd().as_fd(), PollFlags::POLLIN),
            PollFd::new(self.bell.as_fd(), PollFlags::POLLIN),
        ];
        let mut slots = Vec::new();
        for tenant in self.tenants.serving() {
            let wants = if tenant.connection.wants_write() {
                PollFlags::POLLOUT
            } else {
                PollFlags::empty()
            };
            fds.push(PollFd::new(
                tenant.connection.as_fd(),
                PollFlags::POLLIN | wants,
            ));
            fds.push(PollFd::new(tenant.process.as_fd(), PollFlags::POLLIN));
            slots.push(tenant.slot);
        }
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready = |index: usize| fds[index].any() == Some(true);
        let spoke = slots
            .into_iter()
            .enumerate()
            .filter(|(i, _)| ready(2 + 2 * i) || ready(3 + 2 * i));
        Ok((ready(0), spoke.map(|(_, slot)| slot).collect()))
    }

    /// Obeys one message of the supervisor; `false` when the host is to end.
    fn obey_supervisor(&mut self, link: &mut Link) -> io::Result<bool> {
        match link.receive::<ToHost>()? {
            None | Some((ToHost::Stop, _)) => return Ok(false),
            Some((ToHost::Statistics, _)) => {
                let statistics = Box::new(self.statistics());
                link.send(&ToSupervisor::Statistics(statistics), &[])?;
            }
            Some((ToHost::Tenant(identity), descriptors)) => {
                let id = identity.id;
                if let Err(reason) = self.admit(identity, descriptors) {
                    tracing::warn!(id, %reason, "tenant refused");
                    link.send(&ToSupervisor::Gone { id }, &[])?;
                }
            }
            Some((ToHost::Start { .. }, _)) => tracing::warn!("a second start is ignored"),
        }
        Ok(true)
    }

    fn admit(
        &mut self,
        identity: crate::link::TenantIdentity,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), String> {
        let [connection, process] =
            <[OwnedFd; 2]>::try_from(descriptors).map_err(|_| "descriptors are missing")?;
        let tenant = self.tenants.make(
            identity,
            UnixStream::from(connection),
            process,
            &self.device,
            &self.outbound,
            self.config.limits.module_bytes,
        )?;
        if let Err(error) = self.outbound.waker.watch(tenant.session.doorbell()) {
            self.device.destroy_domain(tenant.session.domain());
            return Err(error.to_string());
        }
        let join = self.tenants.insert(tenant);
        self.outbound.tell(join);
        Ok(())
    }

    /// Serves one tenant's socket; a tenant that closed it, died, or broke the protocol leaves.
    fn serve(&mut self, slot: Slot) {
        let Some(tenant) = self.tenants.get_mut(slot) else {
            return;
        };
        if let Err(reason) = tenant.serve() {
            tracing::info!(tenant = %tenant.session.identity().name, %reason, "leaving");
            self.leave(slot);
        }
    }

    fn leave(&mut self, slot: Slot) {
        if let Some(tenant) = self.tenants.get_mut(slot)
            && !std::mem::replace(&mut tenant.leaving, true)
        {
            self.outbound.waker.forget(tenant.session.doorbell());
            self.outbound.tell(Message::Leave(slot));
        }
    }

    fn take_compiled(&mut self) {
        while let Ok(CompileResult { slot, loaded }) = self.compiled.try_recv() {
            if let Some(tenant) = self.tenants.get_mut(slot) {
                tenant.session.finish_load(loaded);
            }
        }
    }

    fn take_notices(&mut self, link: &Link) -> io::Result<()> {
        while let Some(notice) = self.outbound.link.notices.pop() {
            match notice {
                Notice::Gone(slot, remains) => {
                    drop(remains);
                    if let Some(tenant) = self.tenants.get_mut(slot) {
                        tenant.drained = true;
                    }
                }
                Notice::Corrupt(slot, why) => {
                    tracing::warn!(slot = slot.0, %why, "the tenant corrupted its rings");
                    self.leave(slot);
                }
                Notice::Failed {
                    tenant,
                    cookie,
                    tag,
                } => {
                    let text = self
                        .device
                        .take_fault(tag)
                        .unwrap_or_else(|| "the device gave no reason".into());
                    if let Some(session) = self.tenants.session_of(tenant) {
                        session.keep_error(cookie, text);
                    }
                }
                Notice::Refused {
                    tenant,
                    cookie,
                    reason,
                } => {
                    if let Some(session) = self.tenants.session_of(tenant) {
                        session.keep_error(cookie, reason.to_string());
                    }
                }
            }
        }
        for gone in self.tenants.take_gone(&self.device) {
            link.send(&ToSupervisor::Gone { id: gone }, &[])?;
        }
        Ok(())
    }

    fn statistics(&self) -> HostStatistics {
        HostStatistics {
            device: self.device.facts(),
            policy: self.config.policy.clone(),
            device_now_ns: self.device.now_ns(),
            memory_used_bytes: self.tenants.memory_used(&self.device),
            tenants: self.tenants.statistics(&self.device),
            departed: self.tenants.departed(),
        }
    }
}

/// Parses, rewrites and loads modules, one after another.
struct Compiler {
    device: Arc<dyn DeviceControl>,
    jobs: Receiver<CompileJob>,
    results: Sender<CompileResult>,
    bell: Arc<EventFd>,
}

impl Compiler {
    fn run(self) {
        while let Ok(CompileJob { slot, domain, text }) = self.jobs.recv() {
            let loaded = self.load(domain, text);
            if self.results.send(CompileResult { slot, loaded }).is_err() {
                return;
            }
            let _ = self.bell.write(1);
        }
    }

    fn load(
        &self,
        domain: DomainId,
        text: Vec<u8>,
    ) -> Result<Vec<LoadedModuleKernel>, LoadFailure> {
        let module = compile(text)?;
        let loaded = self.device.load(domain, &module)?;
        let with_params = loaded.into_iter().filter_map(|kernel| {
            let compiled = module.kernels.iter().find(|c| c.name == kernel.name)?;
            let control_offset = compiled.control.as_ref().ok().copied();
            Some(LoadedModuleKernel {
                loaded: kernel,
                params: compiled.params.clone(),
                control_offset,
            })
        });
        Ok(with_params.collect())
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
) -> Result<JoinHandle<()>, String> {
    let (waker, stop) = (Arc::clone(waker), Arc::clone(stop));
    spawn("policy", move || threads::policy(runner, &waker, &stop))
}
