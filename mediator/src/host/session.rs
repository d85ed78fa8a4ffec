//! One tenant's control plane: its memory, modules, streams and buffers, as the vfio-user server asks for them.
//!
//! Rules: every number in a request is the tenant's and is looked up in this session only; every list a tenant can
//! make longer has a limit; what the dispatcher must know is sent to it, and it never waits for this thread. The codec
//! has checked the form of each message before it arrives here.

use super::compile::CompileError;
use super::control::{CompileJob, Outbound};
use crate::device::{BufferId, DeviceControl, DeviceError, DeviceKernelId, DomainId, LoadedKernel};
use crate::dispatch::accounting::TenantCounters;
use crate::dispatch::message::{Message, Slot};
use crate::dispatch::tenant::{
    KERNELS_PER_TENANT, MAPPINGS_PER_TENANT, Mapping, STREAMS_PER_TENANT, TenantKernel,
};
use crate::link::TenantIdentity;
use gridmux_channel::Errno;
use gridmux_channel::control::{
    CONTROL_VERSION, ControlCode, ControlError, ControlReply, ControlRequest, DeviceFacts,
    KernelInfo, Mailbox, Module, ParamInfo, Usage, Welcome,
};
use gridmux_channel::memory::{MAX_MAPPINGS, TenantBuffer};
use gridmux_channel::regions::{
    self, DOORBELL_OFFSET_BYTES, REGION_CONTROL, REGION_COUNT, REGION_FACTS, REGION_RINGS,
};
use gridmux_channel::server::{Handler, IoFd};
use gridmux_channel::wire::device::{DeviceInfo, RegionDescription};
use gridmux_channel::wire::transfer::{DmaMap, DmaUnmap};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Texts of failures kept per tenant.
const ERRORS_KEPT: usize = 64;
/// Modules per tenant.
const MODULES: usize = 256;

/// A mapping of the tenant's own memory. One without a descriptor (ROM, device memory of a guest) maps nothing.
struct DmaMapping {
    size: u64,
    buffer: Option<(BufferId, Arc<TenantBuffer>)>,
}

/// What a session is made of.
pub(super) struct SessionParts {
    pub(super) identity: TenantIdentity,
    pub(super) slot: Slot,
    pub(super) domain: DomainId,
    pub(super) device: Arc<dyn DeviceControl>,
    pub(super) outbound: Outbound,
    pub(super) counters: Arc<TenantCounters>,
    pub(super) rings_memfd: OwnedFd,
    pub(super) doorbell: OwnedFd,
    pub(super) rings_bytes: u64,
    pub(super) module_bytes: u64,
}

/// One tenant's control state.
pub(super) struct Session {
    parts: SessionParts,
    mailbox: Mailbox,
    welcomed: bool,
    mappings: BTreeMap<u64, DmaMapping>,
    modules: BTreeMap<u32, Vec<(u32, DeviceKernelId)>>,
    next_module: u32,
    next_kernel: u32,
    free_kernels: Vec<u32>,
    streams: BTreeSet<u16>,
    errors: BTreeMap<u64, String>,
    /// A failure that the tenant asked about before the notice of it was taken.
    question: Option<u64>,
    /// A module is with the compiler; its reply is outstanding.
    pub(super) compiling: bool,
}

impl Session {
    pub(super) fn new(parts: SessionParts) -> Self {
        Self {
            parts,
            mailbox: Mailbox::default(),
            welcomed: false,
            mappings: BTreeMap::new(),
            modules: BTreeMap::new(),
            next_module: 1,
            next_kernel: 0,
            free_kernels: Vec::new(),
            streams: BTreeSet::from([0]),
            errors: BTreeMap::new(),
            question: None,
            compiling: false,
        }
    }

    pub(super) fn identity(&self) -> &TenantIdentity {
        &self.parts.identity
    }

    pub(super) fn counters(&self) -> &Arc<TenantCounters> {
        &self.parts.counters
    }

    pub(super) fn domain(&self) -> DomainId {
        self.parts.domain
    }

    pub(super) fn doorbell(&self) -> BorrowedFd<'_> {
        self.parts.doorbell.as_fd()
    }

    /// Forgets the tenant's buffers; its device memory goes with its domain.
    pub(super) fn release(&mut self) {
        for mapping in std::mem::take(&mut self.mappings).into_values() {
            if let Some((buffer, _)) = mapping.buffer {
                self.parts.device.unregister_buffer(buffer);
            }
        }
    }

    /// Keeps the text of a failure until the tenant asks for it.
    pub(super) fn keep_error(&mut self, cookie: u64, text: String) {
        while self.errors.len() >= ERRORS_KEPT {
            self.errors.pop_first();
        }
        self.errors.insert(cookie, text);
    }

    /// Answers what the tenant asked about a failure. A notice goes out before the completion of which it tells, so one
    /// that is not here after the notices were taken does not exist.
    pub(super) fn answer_question(&mut self) {
        if let Some(cookie) = self.question.take() {
            let text = self.errors.remove(&cookie);
            let text = text.unwrap_or_else(|| format!("nothing is known of operation {cookie}"));
            self.mailbox.answer(&ControlReply::Text(text));
        }
    }

    fn execute(&mut self, request: ControlRequest) -> Result<Option<ControlReply>, ControlError> {
        if !self.welcomed && !matches!(request, ControlRequest::Hello { .. }) {
            return Err(ControlError::new(
                ControlCode::NotWelcome,
                "say Hello first",
            ));
        }
        let reply = match request {
            ControlRequest::Hello { client_version, .. } => self.hello(client_version)?,
            ControlRequest::Alloc { bytes } => {
                let address = self
                    .parts
                    .device
                    .alloc(self.parts.domain, bytes)
                    .map_err(device_error)?;
                ControlReply::Allocated { address }
            }
            ControlRequest::Free { address } => {
                self.parts
                    .device
                    .free(self.parts.domain, address)
                    .map_err(device_error)?;
                ControlReply::Done
            }
            ControlRequest::LoadModule { iova, len } => {
                self.begin_load(iova, len)?;
                return Ok(None);
            }
            ControlRequest::UnloadModule { module } => self.unload(module)?,
            ControlRequest::CreateStream => self.create_stream()?,
            ControlRequest::DestroyStream { stream } => self.destroy_stream(stream)?,
            ControlRequest::LastError { cookie } => {
                let Some(text) = self.errors.remove(&cookie) else {
                    self.question = Some(cookie);
                    return Ok(None);
                };
                ControlReply::Text(text)
            }
            ControlRequest::Usage => self.usage(),
        };
        Ok(Some(reply))
    }

    fn hello(&mut self, client_version: u32) -> Result<ControlReply, ControlError> {
        if client_version != CONTROL_VERSION {
            let text = format!(
                "control version {client_version} is not spoken here, {CONTROL_VERSION} is"
            );
            return Err(ControlError::new(ControlCode::Version, text));
        }
        self.welcomed = true;
        let facts = self.parts.device.facts();
        let identity = &self.parts.identity;
        Ok(ControlReply::Welcome(Box::new(Welcome {
            tenant_id: identity.id,
            name: identity.name.clone(),
            weight: identity.weight,
            memory_limit_bytes: identity.memory_limit_bytes,
            device: DeviceFacts {
                name: facts.name,
                sms: facts.sms.into(),
                warp_size: 32,
                max_threads_per_block: facts.max_threads_per_block,
                shared_bytes_per_block: facts.max_shared_bytes_per_block,
                clock_khz: facts.clock_khz.into(),
                memory_bytes: facts.memory_bytes,
                is_model: facts.is_model,
            },
        })))
    }

    /// Copies a module's text out of the tenant's memory, once, and hands it to the compiler thread.
    fn begin_load(&mut self, iova: u64, len: u64) -> Result<(), ControlError> {
        let limit = self.parts.module_bytes;
        if len == 0 || len > limit {
            let text =
                format!("a module of {len} bytes is outside 1..={limit} (limits.module_bytes)");
            return Err(ControlError::new(ControlCode::Limit, text));
        }
        if self.modules.len() >= MODULES {
            let text = format!("{MODULES} modules are loaded; unload some");
            return Err(ControlError::new(ControlCode::Limit, text));
        }
        if self.compiling {
            return Err(ControlError::new(
                ControlCode::Busy,
                "a module is being compiled; wait for its reply",
            ));
        }
        let bad = || {
            ControlError::new(
                ControlCode::BadIova,
                format!("{len} bytes at {iova:#x} are not mapped"),
            )
        };
        let (start, mapping) = self.mappings.range(..=iova).next_back().ok_or_else(bad)?;
        let (_, buffer) = mapping.buffer.as_ref().ok_or_else(bad)?;
        let size = usize::try_from(len).map_err(|_| bad())?;
        if (iova - start)
            .checked_add(len)
            .is_none_or(|end| end > mapping.size)
        {
            return Err(bad());
        }
        let mut text = vec![0; size];
        buffer.read_at(iova - start, &mut text).map_err(|_| bad())?;
        let job = CompileJob {
            slot: self.parts.slot,
            domain: self.parts.domain,
            text,
        };
        if !self.parts.outbound.compile(job) {
            return Err(ControlError::new(
                ControlCode::Busy,
                "the compiler has too many modules waiting; try again",
            ));
        }
        self.compiling = true;
        Ok(())
    }

    /// Takes over what the compiler made and answers the tenant.
    pub(super) fn finish_load(&mut self, loaded: Result<Vec<LoadedModuleKernel>, LoadFailure>) {
        self.compiling = false;
        let reply = match loaded {
            Ok(kernels) if kernels.len() + self.kernels_in_use() > KERNELS_PER_TENANT => {
                let ids: Vec<DeviceKernelId> = kernels.iter().map(|k| k.loaded.limits.id).collect();
                self.parts.device.unload(self.parts.domain, &ids);
                let text =
                    format!("more than {KERNELS_PER_TENANT} kernels at once; unload modules");
                ControlReply::Error(ControlError::new(ControlCode::Limit, text))
            }
            Ok(kernels) => self.adopt(kernels),
            Err(failure) => ControlReply::Error(ControlError::new(
                ControlCode::BadModule,
                failure.to_string(),
            )),
        };
        self.mailbox.answer(&reply);
    }

    fn kernels_in_use(&self) -> usize {
        self.modules.values().map(Vec::len).sum()
    }

    fn adopt(&mut self, kernels: Vec<LoadedModuleKernel>) -> ControlReply {
        let module = self.next_module;
        self.next_module += 1;
        let mut infos = Vec::new();
        let mut handles = Vec::new();
        for LoadedModuleKernel {
            loaded: LoadedKernel { name, limits },
            params,
            control_offset,
        } in kernels
        {
            let handle = self.free_kernels.pop().unwrap_or_else(|| {
                self.next_kernel += 1;
                self.next_kernel - 1
            });
            infos.push(KernelInfo {
                name,
                handle,
                params_bytes: limits.params_bytes,
                params: params
                    .iter()
                    .map(|&(offset, size, align)| ParamInfo {
                        offset,
                        size,
                        align,
                    })
                    .collect(),
                max_threads: limits.max_threads_per_block,
                static_shared_bytes: limits.static_shared_bytes,
                registers: limits.registers_per_thread,
            });
            handles.push((handle, limits.id));
            let kernel = TenantKernel {
                limits,
                control_offset,
            };
            self.parts
                .outbound
                .tell(Message::AddKernel(self.parts.slot, handle, kernel));
        }
        self.modules.insert(module, handles);
        ControlReply::Loaded(Module {
            handle: module,
            kernels: infos,
        })
    }

    fn unload(&mut self, module: u32) -> Result<ControlReply, ControlError> {
        let unknown = || {
            ControlError::new(
                ControlCode::NotFound,
                format!("module {module} is not loaded"),
            )
        };
        let kernels = self.modules.remove(&module).ok_or_else(unknown)?;
        let ids: Vec<DeviceKernelId> = kernels.iter().map(|(_, id)| *id).collect();
        for (handle, _) in kernels {
            self.parts
                .outbound
                .tell(Message::RemoveKernel(self.parts.slot, handle));
            self.free_kernels.push(handle);
        }
        self.parts.device.unload(self.parts.domain, &ids);
        Ok(ControlReply::Done)
    }

    fn create_stream(&mut self) -> Result<ControlReply, ControlError> {
        let most = u16::try_from(STREAMS_PER_TENANT).unwrap_or(u16::MAX);
        let free = (0..most).find(|number| !self.streams.contains(number));
        let full = || {
            ControlError::new(
                ControlCode::Limit,
                format!("{most} streams exist; destroy some"),
            )
        };
        let number = free.ok_or_else(full)?;
        self.streams.insert(number);
        self.parts
            .outbound
            .tell(Message::AddStream(self.parts.slot, number));
        Ok(ControlReply::Stream(number))
    }

    fn destroy_stream(&mut self, stream: u16) -> Result<ControlReply, ControlError> {
        if stream == 0 || !self.streams.remove(&stream) {
            let text =
                format!("stream {stream} cannot be destroyed: it is stream 0, or does not exist");
            return Err(ControlError::new(ControlCode::NotFound, text));
        }
        self.parts
            .outbound
            .tell(Message::RemoveStream(self.parts.slot, stream));
        Ok(ControlReply::Done)
    }

    fn usage(&self) -> ControlReply {
        let usage = self.parts.counters.read();
        ControlReply::Usage(Usage {
            memory_bytes: self.parts.device.used_bytes(self.parts.domain),
            memory_limit_bytes: self.parts.identity.memory_limit_bytes,
            launches: usage.submitted,
            in_flight: usage.pending,
        })
    }
}

/// A kernel that was compiled and loaded for a tenant.
pub(super) struct LoadedModuleKernel {
    pub(super) loaded: LoadedKernel,
    /// Offset, size and alignment of each of the tenant's own parameters.
    pub(super) params: Vec<(u32, u32, u32)>,
    pub(super) control_offset: Option<u32>,
}

/// Why a module was not loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadFailure {
    /// The front end refused it.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The device refused it.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

fn device_error(error: DeviceError) -> ControlError {
    let code = match &error {
        DeviceError::OutOfMemory { .. } => ControlCode::OutOfMemory,
        DeviceError::BadAddress { .. } => ControlCode::NotFound,
        DeviceError::Load(_) => ControlCode::BadModule,
        DeviceError::NoDevice(_) => ControlCode::DeviceLost,
        DeviceError::Backend(_) => ControlCode::Internal,
    };
    ControlError::new(code, error.to_string())
}

impl Handler for Session {
    fn device_info(&self) -> DeviceInfo {
        DeviceInfo::new(REGION_COUNT, 0)
    }

    fn region_info(&self, region: u32) -> Result<RegionDescription, Errno> {
        regions::describe(region, self.parts.rings_bytes).ok_or(Errno::EINVAL)
    }

    fn region_fd(&self, region: u32) -> Option<BorrowedFd<'_>> {
        (region == REGION_RINGS).then(|| self.parts.rings_memfd.as_fd())
    }

    fn io_fds(&self, region: u32) -> Result<Vec<IoFd<'_>>, Errno> {
        if region != REGION_FACTS {
            return Ok(Vec::new());
        }
        Ok(vec![IoFd {
            offset: DOORBELL_OFFSET_BYTES,
            size: 4,
            fd: self.parts.doorbell.as_fd(),
        }])
    }

    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        match region {
            REGION_CONTROL => self.mailbox.read(offset, data),
            REGION_FACTS => {
                let facts = self.parts.device.facts();
                let words = [
                    u32::from_le_bytes(*b"gmux"),
                    CONTROL_VERSION,
                    facts.sms.into(),
                    facts.clock_khz,
                ];
                let page: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                for (index, byte) in data.iter_mut().enumerate() {
                    *byte = start
                        .checked_add(index)
                        .and_then(|i| page.get(i))
                        .copied()
                        .unwrap_or(0);
                }
                Ok(())
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno> {
        match region {
            // A doorbell written through the socket instead of its eventfd.
            REGION_FACTS if offset == DOORBELL_OFFSET_BYTES => {
                self.parts.outbound.wake();
                Ok(())
            }
            REGION_CONTROL => {
                if let Some(request) = self.mailbox.write(offset, data)? {
                    match self.execute(request) {
                        Ok(Some(reply)) => self.mailbox.answer(&reply),
                        // The compiler's reply follows.
                        Ok(None) => {}
                        Err(error) => self.mailbox.answer(&ControlReply::Error(error)),
                    }
                }
                Ok(())
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn dma_map(&mut self, request: &DmaMap, fd: Option<OwnedFd>) -> Result<(), Errno> {
        let (iova, size) = (request.address, request.size);
        let end = iova
            .checked_add(size)
            .filter(|_| size > 0)
            .ok_or(Errno::EINVAL)?;
        let overlaps = self
            .mappings
            .range(..end)
            .next_back()
            .is_some_and(|(start, m)| start + m.size > iova);
        if overlaps {
            return Err(Errno::EEXIST);
        }
        let with_memory = self
            .mappings
            .values()
            .filter(|m| m.buffer.is_some())
            .count();
        if self.mappings.len() >= MAX_MAPPINGS
            || (fd.is_some() && with_memory >= MAPPINGS_PER_TENANT)
        {
            return Err(Errno::ENOSPC);
        }
        let protection = request.protection();
        let mut buffer = None;
        if let Some(fd) = fd {
            let shared = TenantBuffer::new(fd, request.offset, size, protection)
                .map_err(|error| error.errno())?;
            let shared = Arc::new(shared);
            let id = self
                .parts
                .device
                .register_buffer(Arc::clone(&shared))
                .map_err(|_| Errno::ENOMEM)?;
            let mapping = Mapping {
                iova,
                bytes: size,
                buffer: id,
                writable: protection.write,
            };
            self.parts
                .outbound
                .tell(Message::AddMapping(self.parts.slot, mapping));
            buffer = Some((id, shared));
        }
        self.mappings.insert(iova, DmaMapping { size, buffer });
        Ok(())
    }

    fn dma_unmap(&mut self, request: &DmaUnmap) -> Result<(), Errno> {
        match self.mappings.get(&request.address) {
            Some(mapping) if mapping.size == request.size => {}
            _ => return Err(Errno::ENOENT),
        }
        if let Some(DmaMapping {
            buffer: Some((buffer, _)),
            ..
        }) = self.mappings.remove(&request.address)
        {
            self.parts
                .outbound
                .tell(Message::RemoveMapping(self.parts.slot, buffer));
            self.parts.device.unregister_buffer(buffer);
        }
        Ok(())
    }

    fn reset(&mut self) -> Result<(), Errno> {
        // A reset would have to wait for the device; a tenant that wants one connects anew.
        Err(Errno::EOPNOTSUPP)
    }
}
