//! One client's control plane: its memory, modules, streams and buffers, as the vfio-user server asks for them.
//!
//! Rules: every number in a request is the client's and is looked up in this session only; every list a client can
//! make longer has a limit; what the dispatcher must know is sent to it, and it never waits for this thread. The codec
//! has checked the form of each message before it arrives here. Until the control thread has found the tenant that a
//! client is accounted to, the client has no memory and the dispatcher does not know it.

mod deferred;
mod handler;
mod memory;
mod modules;

use modules::ClientModule;
pub(super) use modules::{LoadFailure, ModuleForSession};

use super::accounts::TenantAccount;
use super::facts::facts_for_tenant;
use super::memory_time::MemoryClock;
use super::outbound::Outbound;
use super::parts::OF_A_CLIENT;
use crate::device::{BufferId, DeviceControl, DeviceError, DomainId};
use crate::dispatch::client::{Mapping, STREAMS_PER_CLIENT};
use crate::dispatch::client_accounting::ClientCounters;
use crate::dispatch::clients::CLIENTS;
use crate::dispatch::ids::Slot;
use crate::dispatch::message::{Message, Refusal};
use crate::link::ClientIdentity;
use crate::texts::Texts;
use deferred::{DeferredReleases, Release};
use gridmux_channel::control::{
    CONTROL_VERSION, ControlCode, ControlError, ControlReply, ControlRequest, MAX_NAME_BYTES,
    MAX_TENANT_NAME_BYTES, Mailbox, Usage, Welcome,
};
use gridmux_channel::memory::{HostPages, TenantBuffer};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

/// Texts of failures kept per client.
const ERRORS_KEPT: usize = 64;
/// Modules per client. Programs that compile as they go, as numba's and Triton's, load one for each kernel and type and
/// keep it.
const MODULES: usize = 4096;

/// A mapping of the client's own memory. One without a descriptor (ROM, device memory of a guest) maps nothing.
struct DmaMapping {
    size: u64,
    writable: bool,
    buffer: Option<(BufferId, Arc<TenantBuffer>)>,
    /// The client's kernels reach the buffer: copies that name it find it in device memory.
    is_for_kernels: bool,
}

impl DmaMapping {
    /// Returns the mapping as the dispatcher knows it.
    fn for_dispatcher(&self, iova: u64) -> Option<Mapping> {
        let (buffer, _) = self.buffer.as_ref()?;
        Some(Mapping {
            iova,
            bytes: self.size,
            buffer: *buffer,
            writable: self.writable,
        })
    }
}

/// The parts of a session.
pub(super) struct SessionParts {
    pub(super) identity: ClientIdentity,
    pub(super) slot: Slot,
    pub(super) device: Arc<dyn DeviceControl>,
    pub(super) outbound: Outbound,
    pub(super) rings_memfd: OwnedFd,
    pub(super) doorbell: OwnedFd,
    pub(super) rings_bytes: u64,
    /// Memory that copies into holes of its buffers have taken; its tenant's once it has one.
    pub(super) pages: Arc<HostPages>,
}

impl SessionParts {
    /// Returns whether the client has a slot of the dispatcher's and may be some tenant.
    fn may_join(&self) -> bool {
        usize::from(self.slot.0) < CLIENTS && !self.identity.allowed.is_empty()
    }
}

/// Tenant, memory and name of a client that is welcome.
pub(super) struct Member {
    /// The tenant that it is accounted to.
    pub(super) account: Rc<TenantAccount>,
    /// Its memory.
    pub(super) domain: DomainId,
    /// The name that it gave itself.
    pub(super) name: String,
    /// What the dispatcher counts of it.
    pub(super) counters: Arc<ClientCounters>,
    /// For how long it held how much memory.
    pub(super) memory: MemoryClock,
}

/// A client's request to be welcome; the control thread judges it.
pub(super) struct Hello {
    /// The name that it gives itself.
    pub(super) name: String,
    /// The tenant that it wants to be.
    pub(super) tenant: Option<String>,
}

/// One client's control state.
pub(super) struct Session {
    parts: SessionParts,
    mailbox: Mailbox,
    member: Option<Member>,
    /// A Hello that is not answered yet.
    hello: Option<Hello>,
    /// The client was refused for good.
    is_turned_away: bool,
    /// It has read why.
    was_told: bool,
    mappings: BTreeMap<u64, DmaMapping>,
    /// Device memory that the client holds: its size in bytes, by its address. Its own memory that does not count has
    /// no size.
    allocations: BTreeMap<u64, u64>,
    /// Where its own memory stands among it, and where that begins in its DMA space.
    own: BTreeMap<u64, u64>,
    /// Its textures and surfaces, by handle.
    objects: BTreeSet<u64>,
    deferred: DeferredReleases,
    modules: BTreeMap<u32, ClientModule>,
    /// Why a kernel cannot run, by its handle.
    unusable: BTreeMap<u32, String>,
    next_module: u32,
    next_kernel: u32,
    free_kernels: Vec<u32>,
    streams: BTreeSet<u16>,
    /// Streams of those that are to end and hold operations still.
    ending: BTreeSet<u16>,
    errors: Texts,
    /// A failure that the client asked about before the notice of it was taken.
    question: Option<u64>,
    /// A request that waits for something to be released.
    postponed: Option<ControlRequest>,
    /// A module is with the compiler; its reply is outstanding.
    pub(super) compiling: bool,
}

impl Session {
    /// Makes the session of a client that has not said anything.
    pub(super) fn new(parts: SessionParts) -> Self {
        Self {
            parts,
            mailbox: Mailbox::default(),
            member: None,
            hello: None,
            is_turned_away: false,
            was_told: false,
            mappings: BTreeMap::new(),
            allocations: BTreeMap::new(),
            own: BTreeMap::new(),
            objects: BTreeSet::new(),
            deferred: DeferredReleases::default(),
            modules: BTreeMap::new(),
            unusable: BTreeMap::new(),
            next_module: 1,
            next_kernel: 0,
            free_kernels: Vec::new(),
            streams: BTreeSet::from([0]),
            ending: BTreeSet::new(),
            errors: Texts::new(ERRORS_KEPT),
            question: None,
            postponed: None,
            compiling: false,
        }
    }

    /// Returns which process the client is, and which tenants it may be.
    pub(super) fn identity(&self) -> &ClientIdentity {
        &self.parts.identity
    }

    /// Returns its tenant, memory and name, once it is welcome.
    pub(super) fn membership(&self) -> Option<&Member> {
        self.member.as_ref()
    }

    /// Returns whether a tenant was found for it.
    pub(super) fn is_welcome(&self) -> bool {
        self.member.is_some()
    }

    /// Returns whether it was refused for good and has read why.
    pub(super) fn is_dismissed(&self) -> bool {
        self.was_told
    }

    /// Returns its doorbell.
    pub(super) fn doorbell(&self) -> BorrowedFd<'_> {
        self.parts.doorbell.as_fd()
    }

    /// Takes the Hello that the control thread has not answered yet.
    pub(super) fn take_hello(&mut self) -> Option<Hello> {
        self.hello.take()
    }

    /// Makes the client a member and answers its Hello; returns what the dispatcher must be told after it joined.
    pub(super) fn welcome(&mut self, member: Member) -> Vec<Mapping> {
        let reply = self.welcome_reply(&member);
        self.parts.pages.pass_to(&member.account.pages);
        self.member = Some(member);
        self.mailbox.answer(&reply);
        let mappings = self.mappings.iter();
        mappings
            .filter_map(|(iova, mapping)| mapping.for_dispatcher(*iova))
            .collect()
    }

    /// Answers a Hello with a reason why not; one who cannot become welcome is dismissed once it has read that.
    pub(super) fn refuse(&mut self, error: ControlError) {
        self.is_turned_away = !self.parts.may_join();
        self.mailbox.answer(&ControlReply::Error(error));
    }

    /// Returns how many descriptors the client holds.
    pub(super) fn descriptors(&self) -> u64 {
        let mapped = self.mappings.values().filter(|m| m.buffer.is_some());
        OF_A_CLIENT + (mapped.count() + self.deferred.buffers()) as u64
    }

    /// Forgets the client's buffers; its device memory goes with its domain.
    pub(super) fn release(&mut self) {
        if let Some(member) = &self.member {
            member.account.give_descriptors_back(self.descriptors());
            member.account.give_modules_back(self.module_bytes());
        }
        let mapped = std::mem::take(&mut self.mappings).into_values();
        let mapped = mapped.filter_map(|mapping| Some(mapping.buffer?.0));
        let deferred = std::mem::take(&mut self.deferred);
        let unmapped = deferred.iter().filter_map(|release| match release {
            Release::Buffer(buffer) => Some(*buffer),
            Release::Memory { .. } | Release::Module { .. } | Release::Object(_) => None,
        });
        for buffer in mapped.chain(unmapped) {
            self.parts.device.unregister_buffer(buffer);
        }
    }

    /// Returns how many things it holds that take device memory: another number where that memory has changed.
    pub(super) fn holdings(&self) -> (usize, usize, usize) {
        let (held, freed) = (self.allocations.len(), self.deferred.len());
        (held, freed, self.modules.len())
    }

    /// Keeps the text of a failure until the client asks for it.
    pub(super) fn keep_error(&mut self, cookie: u64, text: String) {
        self.errors.keep(cookie, text);
    }

    /// Keeps the text of a refusal until the client asks for it.
    pub(super) fn keep_refusal(&mut self, cookie: u64, reason: Refusal) {
        let text = match reason {
            Refusal::Unusable(handle) => self.unusable.get(&handle).cloned(),
            _ => None,
        };
        self.keep_error(cookie, text.unwrap_or_else(|| reason.to_string()));
    }

    /// Answers what the client asked about a failure. A notice goes out before the completion of which it tells, so one
    /// that is not here after the notices were taken does not exist.
    pub(super) fn answer_question(&mut self) {
        if let Some(cookie) = self.question.take() {
            let text = self.errors.take(cookie);
            let text = text.unwrap_or_else(|| format!("nothing is known of operation {cookie}"));
            self.mailbox.answer(&ControlReply::Text(text));
        }
    }

    /// Releases what waited for the fence of that number.
    pub(super) fn fenced(&mut self, number: u64) {
        let (released, next) = self.deferred.reached(number);
        self.send_fence(next);
        let Some(domain) = self.member.as_ref().map(|member| member.domain) else {
            return;
        };
        for release in released {
            match release {
                Release::Memory { address, .. } => {
                    // It was found among the client's allocations when it was given back.
                    if let Err(error) = self.parts.device.free(domain, address) {
                        tracing::error!(%error, "freeing what a client gave back");
                    }
                }
                Release::Module { id, host_bytes, .. } => {
                    self.parts.device.unload(domain, id);
                    if let Some(member) = &self.member {
                        member.account.give_modules_back(host_bytes);
                    }
                }
                Release::Object(handle) => self.parts.device.destroy_object(domain, handle),
                Release::Buffer(buffer) => {
                    self.parts.device.unregister_buffer(buffer);
                    if let Some(member) = &self.member {
                        member.account.give_descriptors_back(1);
                    }
                }
            }
        }
        self.resume();
    }

    /// Frees the number of a stream that has ended.
    pub(super) fn stream_gone(&mut self, stream: u16) {
        self.ending.remove(&stream);
        self.streams.remove(&stream);
        self.resume();
    }

    /// Keeps a request until something is released that is given back.
    fn postpone(&mut self, request: ControlRequest) {
        self.postponed = Some(request);
        self.parts
            .outbound
            .tell(Message::Postponed(self.parts.slot));
    }

    /// Tries a request again that waited for something to be released.
    fn resume(&mut self) {
        if let Some(request) = self.postponed.take() {
            self.execute_and_answer(request);
        }
    }

    /// Releases something once nothing that is admitted by now can use it.
    fn defer(&mut self, release: Release) {
        let fence = self.deferred.add(release);
        self.send_fence(fence);
    }

    fn send_fence(&self, number: Option<u64>) {
        if let Some(number) = number {
            let message = Message::Fence(self.parts.slot, number);
            self.parts.outbound.tell(message);
        }
    }

    fn member(&self) -> Result<&Member, ControlError> {
        let not_yet = || ControlError::new(ControlCode::NotWelcome, "say Hello first");
        self.member.as_ref().ok_or_else(not_yet)
    }

    /// Executes a request; one whose answer must wait is answered later.
    fn execute_and_answer(&mut self, request: ControlRequest) {
        if self.member.is_some() {
            // Refused or not, it costs its client time on a virtual clock.
            let charge = Message::Charge(self.parts.slot);
            self.parts.outbound.tell(charge);
        }
        match self.execute(request) {
            Ok(Some(reply)) => {
                self.mailbox.answer(&reply);
            }
            Ok(None) => {}
            Err(error) => {
                self.mailbox.answer(&ControlReply::Error(error));
            }
        }
    }

    fn execute(&mut self, request: ControlRequest) -> Result<Option<ControlReply>, ControlError> {
        if !matches!(request, ControlRequest::Hello { .. }) {
            self.member()?;
        }
        let reply = match request {
            ControlRequest::Hello {
                name,
                client_version,
                tenant,
            } => return self.hello(name, client_version, tenant),
            ControlRequest::Alloc { bytes } => return self.alloc(bytes),
            ControlRequest::MapMemory {
                iova,
                bytes,
                counts,
            } => return self.map_memory(iova, bytes, counts),
            ControlRequest::MapVariable { iova, address } => self.map_variable(iova, address)?,
            ControlRequest::Free { address } => self.free(address)?,
            ControlRequest::Paging(request) => return self.paging(request),
            ControlRequest::CreateObject(object) => self.create_object(&object)?,
            ControlRequest::DestroyObject { handle } => self.destroy_object(handle)?,
            ControlRequest::LoadModule { parts } => {
                self.begin_load(&parts)?;
                return Ok(None);
            }
            ControlRequest::UnloadModule { module } => self.unload(module)?,
            ControlRequest::CreateStream => return self.create_stream(),
            ControlRequest::DestroyStream { stream } => self.destroy_stream(stream)?,
            ControlRequest::LastError { cookie } => {
                let Some(text) = self.errors.take(cookie) else {
                    self.question = Some(cookie);
                    return Ok(None);
                };
                ControlReply::Text(text)
            }
            ControlRequest::Usage => self.usage()?,
            ControlRequest::TakePrinted => {
                let domain = self.member()?.domain;
                let (text, lost_bytes) = self.parts.device.take_printed(domain);
                ControlReply::Printed { text, lost_bytes }
            }
        };
        Ok(Some(reply))
    }

    /// Checks a Hello's form; the control thread finds the tenant and answers.
    fn hello(
        &mut self,
        mut name: String,
        client_version: u32,
        tenant: Option<String>,
    ) -> Result<Option<ControlReply>, ControlError> {
        if client_version != CONTROL_VERSION {
            let text = format!(
                "the client speaks control version {client_version}, this service (gridmux {}) speaks \
                 {CONTROL_VERSION}: use the client library that was built with it",
                env!("CARGO_PKG_VERSION")
            );
            return Err(ControlError::new(ControlCode::Version, text));
        }
        name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
        if let Some(tenant) = tenant
            .as_ref()
            .filter(|tenant| tenant.len() > MAX_TENANT_NAME_BYTES)
        {
            let text = format!(
                "a tenant's name of {} bytes is over {MAX_TENANT_NAME_BYTES}",
                tenant.len()
            );
            return Err(ControlError::new(ControlCode::Limit, text));
        }
        let Some(member) = &self.member else {
            self.hello = Some(Hello { name, tenant });
            return Ok(None);
        };
        let own = &member.account.name;
        if tenant.is_some_and(|tenant| tenant != *own) {
            let text = format!("this connection is a client of tenant {own} already");
            return Err(ControlError::new(ControlCode::BadRequest, text));
        }
        Ok(Some(self.welcome_reply(member)))
    }

    fn welcome_reply(&self, member: &Member) -> ControlReply {
        let (tenant, terms) = (&member.account, member.account.terms());
        ControlReply::Welcome(Box::new(Welcome {
            tenant_id: tenant.number,
            tenant: tenant.name.clone(),
            client: self.parts.identity.id,
            name: member.name.clone(),
            weight: terms.weight,
            memory_limit_bytes: terms.memory_limit_bytes,
            device: facts_for_tenant(self.parts.device.facts()),
        }))
    }

    fn create_stream(&mut self) -> Result<Option<ControlReply>, ControlError> {
        let most = u16::try_from(STREAMS_PER_CLIENT).unwrap_or(u16::MAX);
        let Some(number) = (0..most).find(|number| !self.streams.contains(number)) else {
            if !self.ending.is_empty() {
                self.postpone(ControlRequest::CreateStream);
                return Ok(None);
            }
            let text =
                format!("{most} streams exist, one of each context among them; destroy some");
            return Err(ControlError::new(ControlCode::Limit, text));
        };
        self.streams.insert(number);
        let message = Message::AddStream(self.parts.slot, number);
        self.parts.outbound.tell(message);
        Ok(Some(ControlReply::Stream(number)))
    }

    /// Lets a stream end when it is empty; its number stays taken until then.
    fn destroy_stream(&mut self, stream: u16) -> Result<ControlReply, ControlError> {
        let exists = stream != 0 && self.streams.contains(&stream);
        if !exists || !self.ending.insert(stream) {
            let text =
                format!("stream {stream} cannot be destroyed: it is stream 0, or does not exist");
            return Err(ControlError::new(ControlCode::NotFound, text));
        }
        let message = Message::RemoveStream(self.parts.slot, stream);
        self.parts.outbound.tell(message);
        Ok(ControlReply::Done)
    }

    /// Returns what all clients of the tenant did, hold and may hold. What this client gave back counts as free at
    /// once, because its next allocation waits for it.
    fn usage(&self) -> Result<ControlReply, ControlError> {
        let member = self.member()?;
        let usage = member.account.counters.read();
        let (device, account) = (&*self.parts.device, &member.account);
        let used = account.memory_used(device);
        let used = used.saturating_sub(self.deferred.memory_bytes());
        Ok(ControlReply::Usage(Usage {
            memory_bytes: used,
            memory_limit_bytes: account.terms().memory_limit_bytes,
            memory_free_bytes: account.memory_limit(device).saturating_sub(used),
            launches: usage.launches,
            in_flight: usage.pending,
            operations: usage.submitted,
        }))
    }
}

pub(super) fn device_error(error: DeviceError) -> ControlError {
    let code = match &error {
        DeviceError::OutOfMemory { .. } => ControlCode::OutOfMemory,
        DeviceError::BadAddress { .. } => ControlCode::NotFound,
        DeviceError::Load(_) => ControlCode::BadModule,
        DeviceError::NoDevice(_) => ControlCode::DeviceLost,
        DeviceError::Backend(_) => ControlCode::Internal,
        DeviceError::Unsupported(_) => ControlCode::Unsupported,
        DeviceError::Unfit(_) | DeviceError::Object(_) => ControlCode::BadRequest,
    };
    ControlError::new(code, error.to_string())
}
