//! The control thread's end of the model: memory, modules and buffers.

use super::{Shared, State};
use crate::device::{
    AllocationUnits, BufferId, CompiledModule, DeviceControl, DeviceError, DeviceFacts,
    DeviceKernelId, DomainId, KernelAttributes, KernelLimits, LoadedGlobal, LoadedKernel,
    LoadedModule, Tag,
};
use gridmux_channel::memory::TenantBuffer;
use gridmux_hw_model::memory::{self, MemoryError};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The control thread's end.
pub(super) struct ModelControl {
    shared: Arc<Shared>,
}

impl ModelControl {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.shared.state.lock())
    }
}

fn model_domain(domain: DomainId) -> memory::DomainId {
    memory::DomainId(domain.0)
}

/// A number is never used twice, so that a late command cannot reach another tenant's kernel or buffer.
fn exhausted() -> DeviceError {
    DeviceError::Backend("all numbers are used up; the device host must be restarted".into())
}

fn memory_error(asked: u64, error: &MemoryError) -> DeviceError {
    match error {
        MemoryError::OutOfMemory { .. } => DeviceError::OutOfMemory {
            asked,
            detail: error.to_string(),
        },
        other => DeviceError::Backend(other.to_string()),
    }
}

/// The tenant's variables, at their places in device memory.
fn globals_of(
    module: &CompiledModule,
    loaded: &gridmux_hw_model::LoadedModule,
) -> Vec<LoadedGlobal> {
    let place = |global: &crate::device::CompiledGlobal| {
        let placed = loaded.variables().iter().find(|v| v.name == global.name)?;
        Some(LoadedGlobal {
            name: placed.name.clone(),
            address: placed.address,
            bytes: placed.bytes,
        })
    };
    module.globals.iter().filter_map(place).collect()
}

impl DeviceControl for ModelControl {
    fn facts(&self) -> DeviceFacts {
        self.shared.facts.clone()
    }

    fn now_ns(&self) -> u64 {
        // Acquire: pairs with the Release in `DeviceThread::publish_now`.
        self.shared.now_ns.load(Ordering::Acquire)
    }

    fn create_domain(&self, limit_bytes: u64) -> Result<DomainId, DeviceError> {
        self.with(|state| {
            let domain = state.gpu.memory_mut().create_domain(limit_bytes);
            domain
                .map(|d| DomainId(d.0))
                .map_err(|error| memory_error(limit_bytes, &error))
        })
    }

    fn destroy_domain(&self, domain: DomainId) {
        self.with(|state| {
            state.gpu.kill_domain(model_domain(domain));
            state.modules.remove(&domain.0);
            state.kernels.retain(|_, (owner, _)| *owner != domain);
            if let Err(error) = state.gpu.memory_mut().destroy_domain(model_domain(domain)) {
                tracing::error!(%error, "destroying a tenant's memory domain");
            }
        });
    }

    fn alloc(&self, domain: DomainId, bytes: u64) -> Result<u64, DeviceError> {
        self.with(|state| {
            let used = state.gpu.memory().used_bytes_of_all();
            if used.saturating_add(bytes) > state.memory_bytes {
                let detail = format!(
                    "{used} of {} bytes are in use by all tenants",
                    state.memory_bytes
                );
                return Err(DeviceError::OutOfMemory {
                    asked: bytes,
                    detail,
                });
            }
            let address = state.gpu.memory_mut().alloc(model_domain(domain), bytes);
            address.map_err(|error| memory_error(bytes, &error))
        })
    }

    fn free(&self, domain: DomainId, address: u64) -> Result<(), DeviceError> {
        self.with(|state| {
            let freed = state.gpu.memory_mut().free(model_domain(domain), address);
            freed.map_err(|_| DeviceError::BadAddress { address })
        })
    }

    fn used_bytes(&self, domain: DomainId) -> u64 {
        self.with(|state| {
            state
                .gpu
                .memory()
                .used_bytes(model_domain(domain))
                .unwrap_or(0)
        })
    }

    fn used_bytes_of(&self, domains: &[DomainId]) -> u64 {
        self.with(|state| {
            let memory = state.gpu.memory();
            let used = |domain: &DomainId| memory.used_bytes(model_domain(*domain)).unwrap_or(0);
            domains.iter().map(used).sum()
        })
    }

    fn load(&self, domain: DomainId, module: &CompiledModule) -> Result<LoadedModule, DeviceError> {
        self.with(|state| {
            let loaded = state
                .gpu
                .load(model_domain(domain), &module.program, &module.ptx)
                .map_err(|error| DeviceError::Load(error.to_string()))?;
            let sm = &state.gpu.config().sm;
            let units = AllocationUnits {
                registers: sm.register_unit,
                shared_bytes: sm.shared_unit_bytes,
                reserved_shared_bytes: sm.reserved_shared_bytes_per_block,
            };
            let limit = sm.max_threads_per_block;
            let most_shared = sm.max_shared_bytes_per_block;
            let mut kernels = Vec::new();
            for compiled in &module.kernels {
                let Some(kernel) = loaded.kernel(&compiled.name) else {
                    continue;
                };
                let id = state.next_kernel;
                state.next_kernel = id.checked_add(1).ok_or_else(exhausted)?;
                let limits = KernelLimits {
                    id: DeviceKernelId(id),
                    params_bytes: compiled.params_bytes,
                    static_shared_bytes: kernel.static_shared_bytes,
                    registers_per_thread: kernel.registers_per_thread,
                    max_threads_per_block: kernel
                        .max_threads_per_block()
                        .map_or(limit, |own| own.min(limit)),
                    units,
                };
                let attributes = KernelAttributes {
                    local_bytes: kernel.local_bytes,
                    const_bytes: module.constant_bytes(),
                    max_dynamic_shared_bytes: most_shared
                        .saturating_sub(kernel.static_shared_bytes),
                    ptx_version: module.ptx_version,
                };
                kernels.push(LoadedKernel {
                    name: compiled.name.clone(),
                    limits,
                    attributes,
                });
                state.kernels.insert(id, (domain, kernel));
            }
            let globals = globals_of(module, &loaded);
            state.modules.entry(domain.0).or_default().push(loaded);
            Ok(LoadedModule { kernels, globals })
        })
    }

    fn unload(&self, domain: DomainId, kernels: &[DeviceKernelId]) {
        self.with(|state| {
            for id in kernels {
                state.kernels.remove(&id.0);
            }
            // A module whose kernels are all gone gives its variables back.
            let State {
                modules,
                kernels,
                gpu,
                ..
            } = state;
            if let Some(modules) = modules.get_mut(&domain.0) {
                modules.retain(|module| {
                    let in_use = module
                        .kernels()
                        .iter()
                        .any(|k| kernels.values().any(|(_, other)| Arc::ptr_eq(k, other)));
                    if !in_use {
                        gpu.unload(module);
                    }
                    in_use
                });
            }
        });
    }

    fn register_buffer(&self, buffer: Arc<TenantBuffer>) -> Result<BufferId, DeviceError> {
        self.with(|state| {
            let id = state.next_buffer;
            state.next_buffer = id.checked_add(1).ok_or_else(exhausted)?;
            state.buffers.insert(id, buffer);
            Ok(BufferId(id))
        })
    }

    fn unregister_buffer(&self, buffer: BufferId) {
        self.with(|state| state.buffers.remove(&buffer.0));
    }

    fn take_fault(&self, tag: Tag) -> Option<String> {
        self.with(|state| state.faults.take(tag.to_bits()))
    }
}
