//! A client's modules: to the compiler and back, their handles, and their end.
//!
//! Rules: a module's texts are found in the client's memory here, and copied once, by the thread that has them
//! compiled; a handle is looked up in this session only; a module that is unloaded keeps its variables until nothing
//! that was launched of it is under way.

use super::deferred::Release;
use super::{MODULES, Session, device_error};
use crate::compiler::{AnswerError, JobError, part_name};
use crate::device::{CompiledKernel, DeviceError, DeviceModuleId, LoadedKernel, LoadedModule};
use crate::dispatch::client::{ClientKernel, KERNELS_PER_CLIENT};
use crate::dispatch::message::Message;
use crate::host::compile::{CompileJob, TextSource};
use crate::host::facts::globals_for_tenant;
use crate::page::{KernelFacts, uncut};
use gridmux_channel::control::{
    ControlCode, ControlError, ControlReply, KernelInfo, MAX_MODULE_PARTS, Module, ModulePart,
    ParamInfo,
};
use gridmux_ptx::Kernel;
use gridmux_ptx::kernel::KernelParam;
use std::sync::Arc;

/// A module that a client has loaded.
pub(super) struct ClientModule {
    id: DeviceModuleId,
    /// Bytes of the host's memory that it takes.
    host_bytes: u64,
    /// Its kernels by their handles.
    kernels: Vec<(u32, Arc<Kernel>)>,
}

/// Bytes of this process's memory that a kernel takes beside the device's: its entries in tables, its names.
const KERNEL_HOST_BYTES: u64 = 1024;

/// A module that was compiled and loaded for a client.
pub(in crate::host) struct ModuleForSession {
    pub(in crate::host) loaded: LoadedModule,
    /// A function of it calls `vprintf`.
    pub(in crate::host) prints: bool,
}

/// Why a module was not loaded.
#[derive(Debug, thiserror::Error)]
pub(in crate::host) enum LoadFailure {
    /// A text cannot be copied out of the client's memory.
    #[error("{part} cannot be read: {error}")]
    Unreadable {
        /// Which text.
        part: String,
        /// Why not.
        error: String,
    },
    /// It was not compiled.
    #[error(transparent)]
    Compile(#[from] JobError),
    /// The compiler's answer is wrong.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The device refused it.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl LoadFailure {
    /// Says it to the client.
    fn for_client(self) -> ControlError {
        let text = self.to_string();
        let code = match self {
            Self::Device(refusal) => return device_error(refusal),
            Self::Unreadable { .. } => ControlCode::BadIova,
            Self::Answer(_) => ControlCode::Internal,
            Self::Compile(error) => match error {
                JobError::Memory(_) | JobError::Time(_) | JobError::Wall(_) => ControlCode::Limit,
                JobError::Refused(_) => ControlCode::BadModule,
                JobError::ServerEnded
                | JobError::ServerSilent
                | JobError::NoServer
                | JobError::Cancelled
                | JobError::Displaced => ControlCode::Busy,
                JobError::Signal { .. }
                | JobError::Failed { .. }
                | JobError::Answer(_)
                | JobError::System { .. } => ControlCode::Internal,
            },
        };
        ControlError::new(code, text)
    }
}

impl Session {
    /// Finds a module's texts in the client's memory and hands them to the compilers.
    pub(super) fn begin_load(&mut self, parts: &[ModulePart]) -> Result<(), ControlError> {
        check_lengths(parts, self.member()?.account.module_bytes())?;
        if self.modules.len() >= MODULES {
            let text = format!("{MODULES} modules are loaded; unload some");
            return Err(ControlError::new(ControlCode::Limit, text));
        }
        let unloading = self
            .deferred
            .iter()
            .filter(|release| matches!(release, Release::Module { .. }));
        if unloading.count() >= MODULES {
            return Err(ControlError::new(
                ControlCode::Busy,
                format!(
                    "{MODULES} unloaded modules are still in use by operations under way; wait for some"
                ),
            ));
        }
        if self.compiling {
            return Err(ControlError::new(
                ControlCode::Busy,
                "a module is being compiled; wait for its reply",
            ));
        }
        let member = self.member()?;
        // Every module takes more than its text.
        let bytes = parts.iter().map(|part| part.len).sum();
        let room = member.account.check_modules(bytes);
        room.map_err(|text| ControlError::new(ControlCode::Limit, text))?;
        let texts = parts.iter().map(|part| self.find_part(part));
        let job = CompileJob {
            slot: self.parts.slot,
            tenant: member.account.number,
            domain: member.domain,
            texts: texts.collect::<Result<_, _>>()?,
        };
        self.parts.outbound.compile(job);
        self.compiling = true;
        Ok(())
    }

    /// Finds one text in the client's memory.
    fn find_part(&self, part: &ModulePart) -> Result<TextSource, ControlError> {
        let ModulePart { iova, len } = *part;
        let bad = || {
            let text = format!("{len} bytes at {iova:#x} are not mapped");
            ControlError::new(ControlCode::BadIova, text)
        };
        let (start, mapping) = self.mappings.range(..=iova).next_back().ok_or_else(bad)?;
        let (_, buffer) = mapping.buffer.as_ref().ok_or_else(bad)?;
        let bytes = usize::try_from(len).map_err(|_| bad())?;
        if (iova - start)
            .checked_add(len)
            .is_none_or(|end| end > mapping.size)
        {
            return Err(bad());
        }
        Ok(TextSource {
            buffer: Arc::clone(buffer),
            offset: iova - start,
            bytes,
        })
    }

    /// Takes over what the compiler made and answers the tenant.
    pub(in crate::host) fn finish_load(&mut self, loaded: Result<ModuleForSession, LoadFailure>) {
        self.compiling = false;
        let reply = match loaded {
            Ok(module) => match self.check_loaded(&module) {
                Ok(host_bytes) => self.adopt(module, host_bytes),
                Err(error) => ControlReply::Error(error),
            },
            Err(failure) => ControlReply::Error(failure.for_client()),
        };
        if !self.mailbox.answer(&reply)
            && let ControlReply::Loaded(module) = &reply
        {
            // The client has no handle of it: it was told that the module is refused.
            let gone = self.unload(module.handle);
            debug_assert!(gone.is_ok(), "it was just loaded");
        }
    }

    /// Checks what the module takes against the limits, and takes its part of the host's memory into the account; one
    /// that is over them is unloaded again.
    fn check_loaded(&self, module: &ModuleForSession) -> Result<u64, ControlError> {
        let member = self.member()?;
        let device = &*self.parts.device;
        let loaded = &module.loaded;
        let count = loaded.kernels.len();
        let descriptions = loaded.kernels.iter().map(|own| &own.compiled.kernel);
        let heap_bytes: usize = descriptions.map(|kernel| kernel.heap_bytes()).sum();
        let host_bytes = loaded.host_bytes + KERNEL_HOST_BYTES * count as u64 + heap_bytes as u64;
        let checked = if count + self.kernels_in_use() > KERNELS_PER_CLIENT {
            let text = format!("more than {KERNELS_PER_CLIENT} kernels at once; unload modules");
            Err(ControlError::new(ControlCode::Limit, text))
        } else {
            // The module's variables are allocated by now, so they need no more room.
            let room = member.account.check_room(device, 0);
            let room = room.map_err(|text| {
                let text = format!("the module's variables do not fit: {text}");
                ControlError::new(ControlCode::OutOfMemory, text)
            });
            room.and_then(|()| {
                let taken = member.account.take_modules(host_bytes);
                taken.map_err(|text| ControlError::new(ControlCode::Limit, text))
            })
        };
        if checked.is_err() {
            device.unload(member.domain, loaded.id);
        }
        checked.map(|()| host_bytes)
    }

    fn kernels_in_use(&self) -> usize {
        self.modules.values().map(|m| m.kernels.len()).sum()
    }

    fn adopt(&mut self, loaded: ModuleForSession, host_bytes: u64) -> ControlReply {
        let ModuleForSession { loaded, prints } = loaded;
        let LoadedModule {
            id,
            host_bytes: _,
            kernels,
            globals,
        } = loaded;
        let described = kernels.iter();
        let described: Vec<_> = described
            .map(|own| Arc::clone(&own.compiled.kernel))
            .collect();
        let module = self.next_module;
        self.next_module += 1;
        let infos: Vec<_> = kernels
            .into_iter()
            .map(|kernel| self.adopt_kernel(kernel))
            .collect();
        let own = ClientModule {
            id,
            host_bytes,
            kernels: infos
                .iter()
                .map(|info| info.handle)
                .zip(described)
                .collect(),
        };
        self.modules.insert(module, own);
        ControlReply::Loaded(Module {
            handle: module,
            kernels: infos,
            globals: globals_for_tenant(globals),
            prints,
        })
    }

    /// Gives a kernel a handle, tells the dispatcher of it, and returns what the client is told.
    fn adopt_kernel(&mut self, loaded: LoadedKernel) -> KernelInfo {
        let LoadedKernel {
            compiled: CompiledKernel { key, kernel, .. },
            limits,
            attributes,
            unusable,
        } = loaded;
        let name = kernel.name.clone();
        let undivided = uncut(&kernel).filter(|_| unusable.is_none());
        if let Some(reason) = &undivided {
            let identity = &self.parts.identity;
            if self.parts.outbound.lines.may_say(identity.credentials.uid) {
                let id = identity.id;
                tracing::info!(id, kernel = ?name, %reason, "a kernel whose launches cannot be cut");
            }
        }
        let handle = self.free_kernels.pop().unwrap_or_else(|| {
            self.next_kernel += 1;
            self.next_kernel - 1
        });
        // What is learnt of a kernel is its tenant's own: another may run the same text with other arguments.
        let account = self.member.as_ref().map(|member| &member.account);
        let key = key.of_tenant(account.map_or("", |account| &account.name));
        if let Some(account) = account {
            let kernels = &self.parts.outbound.kernels;
            kernels.put(account.number, key, KernelFacts::of(&kernel));
        }
        let known = ClientKernel {
            kernel: Arc::clone(&kernel),
            limits,
            key,
            unusable: unusable.is_some(),
        };
        if let Some(reason) = &unusable {
            self.unusable.insert(handle, reason.clone());
        }
        self.parts
            .outbound
            .tell(Message::AddKernel(self.parts.slot, handle, known));
        let param = |param: &KernelParam| ParamInfo {
            offset: param.offset,
            size: param.size_bytes,
            align: param.align,
        };
        KernelInfo {
            name,
            handle,
            params_bytes: kernel.params_bytes,
            params: kernel.params.iter().map(param).collect(),
            max_threads: limits.max_threads_per_block,
            static_shared_bytes: limits.static_shared_bytes,
            registers: limits.registers_per_thread,
            local_bytes: attributes.local_bytes,
            const_bytes: attributes.const_bytes,
            max_dynamic_shared_bytes: attributes.max_dynamic_shared_bytes,
            ptx_version: attributes.ptx_version,
            unusable,
            undivided,
        }
    }

    pub(super) fn unload(&mut self, module: u32) -> Result<ControlReply, ControlError> {
        let unknown = || {
            ControlError::new(
                ControlCode::NotFound,
                format!("module {module} is not loaded"),
            )
        };
        let ClientModule {
            id,
            host_bytes,
            kernels,
        } = self.modules.remove(&module).ok_or_else(unknown)?;
        for (handle, _) in &kernels {
            let handle = *handle;
            self.parts
                .outbound
                .tell(Message::RemoveKernel(self.parts.slot, handle));
            self.unusable.remove(&handle);
            self.free_kernels.push(handle);
        }
        self.defer(Release::Module {
            id,
            host_bytes,
            kernels: kernels.into_iter().map(|(_, kernel)| kernel).collect(),
        });
        Ok(ControlReply::Done)
    }

    /// Returns what the client's modules take of the host's memory, those included that are not released yet.
    pub(super) fn module_bytes(&self) -> u64 {
        let waiting = self.deferred.iter().map(|release| match release {
            Release::Module { host_bytes, .. } => *host_bytes,
            Release::Memory { .. } | Release::Buffer(_) | Release::Object(_) => 0,
        });
        let loaded = self.modules.values().map(|module| module.host_bytes);
        loaded.chain(waiting).sum()
    }
}

/// Checks how many texts there are, and their lengths, before anything is read.
fn check_lengths(parts: &[ModulePart], limit: u64) -> Result<(), ControlError> {
    let refused = |text| Err(ControlError::new(ControlCode::Limit, text));
    if parts.is_empty() || parts.len() > MAX_MODULE_PARTS {
        let count = parts.len();
        return refused(format!(
            "a module of {count} texts; 1 to {MAX_MODULE_PARTS} are linked"
        ));
    }
    let sum = |total: u64, part: &ModulePart| total.saturating_add(part.len);
    let len = parts.iter().fold(0, sum);
    if len == 0 || len > limit {
        return refused(format!(
            "a module of {len} bytes is outside 1..={limit} (limits.module_bytes)"
        ));
    }
    match parts.iter().position(|part| part.len == 0) {
        Some(n) => refused(format!("{} is empty", part_name(n, parts.len()))),
        None => Ok(()),
    }
}
