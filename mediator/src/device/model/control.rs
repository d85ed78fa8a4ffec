//! The control thread's end of the model: memory, modules and buffers.

use super::context::PlacedBlock;
use super::objects::object_of;
use super::reaper::Reaper;
use super::{Known, Loaded, Shared, State};
use crate::device::{
    AllocationUnits, BufferId, CompiledGlobal, CompiledKernel, CompiledModule, DeviceControl,
    DeviceError, DeviceFacts, DeviceKernelId, DeviceModuleId, DomainId, HostMappings,
    KernelAttributes, KernelLimits, LoadedGlobal, LoadedKernel, LoadedModule, Tag,
};
use gridmux_channel::control::PagingRequest;
use gridmux_channel::control::object::Object;
use gridmux_channel::memory::TenantBuffer;
use gridmux_hw_model::kernel::ModuleVariable;
use gridmux_hw_model::memory::{self, MemoryError};
use gridmux_hw_model::{Kernel, LoadError, Loading};
use gridmux_launch::Reservation;
use std::collections::HashMap;
use std::sync::Arc;

/// Variables of an unloaded module that are freed at a time.
const FREED_VARIABLES: usize = 1024;
/// Least bytes of a variable whose pages are given back before it is freed.
const LARGE_BYTES: u64 = 64 << 10;

/// The control thread's end.
pub(super) struct ModelControl {
    shared: Arc<Shared>,
    pub(super) reaper: Reaper,
}

impl ModelControl {
    pub(super) fn new(shared: Arc<Shared>, reaper: Reaper) -> Self {
        Self { shared, reaper }
    }

    /// Does something under the lock.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.shared.state.lock())
    }

    /// Returns whether clients are fenced, which the device's whole life does not change.
    fn is_fenced(&self) -> bool {
        self.with(|state| state.context.is_some())
    }

    /// Refuses what a fenced client cannot have.
    fn refuse_fenced(&self, what: &'static str) -> Result<(), DeviceError> {
        match self.is_fenced() {
            true => Err(DeviceError::Unsupported(what)),
            false => Ok(()),
        }
    }

    /// Gives up all that a fenced client holds.
    fn end_fenced(&self, domain: DomainId) {
        let modules = self.with(|state| state.modules.get(&domain.0).map_or_else(Vec::new, ids));
        for module in modules {
            self.unload(domain, DeviceModuleId(module));
        }
        let ended = self.with(|state| {
            state.modules.remove(&domain.0);
            state.printed.take(domain);
            state.end_client(domain)
        });
        if let Err(error) = ended {
            tracing::error!(%error, "giving a client's partition back");
        }
    }

    /// Frees the variables of a module, some at a time, so that others can take the lock in between.
    fn free_variables(&self, domain: memory::DomainId, variables: &[ModuleVariable]) {
        for some in variables.chunks(FREED_VARIABLES) {
            for large in some.iter().filter(|variable| variable.bytes >= LARGE_BYTES) {
                // Where the domain is gone, so are they.
                let _ = self.empty(domain, large.address, large.bytes);
            }
            let addresses = some.iter().map(|variable| variable.address).collect();
            self.with(|state| state.gpu.memory_mut().free_all(domain, addresses));
        }
    }
}

fn ids(modules: &HashMap<u32, Loaded>) -> Vec<u32> {
    modules.keys().copied().collect()
}

/// Returns the model's name of a domain.
pub(super) fn model_domain(domain: DomainId) -> memory::DomainId {
    memory::DomainId(domain.0)
}

/// A number is never used twice, so that a late command cannot reach another tenant's kernel or buffer.
pub(super) fn exhausted() -> DeviceError {
    DeviceError::Backend("all numbers are used up; the device host must be restarted".into())
}

/// Says why memory of that many bytes was refused.
pub(super) fn memory_error(asked: u64, error: &MemoryError) -> DeviceError {
    match error {
        MemoryError::OutOfMemory { .. } | MemoryError::Mappings { .. } => {
            DeviceError::OutOfMemory {
                asked,
                detail: error.to_string(),
            }
        }
        other => DeviceError::Backend(other.to_string()),
    }
}

/// Returns the tenant's variables, at their places in device memory.
fn globals_of(
    module: &CompiledModule,
    loaded: &gridmux_hw_model::LoadedModule,
    block: PlacedBlock,
) -> Vec<LoadedGlobal> {
    let mut places: HashMap<&str, u64> = HashMap::new();
    places.extend(loaded.variables().iter().map(|v| (&*v.name, v.address)));
    if let Some(placed) = &module.placed
        && let Some(first) = block.first(placed)
    {
        let variables = placed.variables.iter();
        places.extend(variables.map(|v| (&*v.name, first + v.offset)));
    }
    let place = |global: &CompiledGlobal| {
        Some(LoadedGlobal {
            name: global.name.clone(),
            address: *places.get(&*global.name)?,
            bytes: global.bytes,
            is_managed: global.is_managed,
        })
    };
    module.globals.iter().filter_map(place).collect()
}

/// Returns what is known of a kernel, or why it cannot run.
fn judged(
    state: &State,
    kernel: Option<&Kernel>,
    refused: Option<&LoadError>,
    module: &CompiledModule,
    compiled: &CompiledKernel,
    id: DeviceKernelId,
) -> LoadedKernel {
    let sm = &state.gpu.config().sm;
    let unusable = match kernel {
        Some(_) => None,
        None => {
            let reason = refused.map(ToString::to_string);
            let reason = compiled.unusable().or(reason);
            Some(reason.unwrap_or_else(|| "it was not loaded".into()))
        }
    };
    let own = kernel;
    let static_shared_bytes = own.map_or(0, |kernel| kernel.static_shared_bytes);
    let limit = sm.max_threads_per_block;
    LoadedKernel {
        compiled: compiled.clone(),
        limits: KernelLimits {
            id,
            static_shared_bytes,
            registers_per_thread: own.map_or(0, |kernel| kernel.registers_per_thread),
            max_threads_per_block: own
                .and_then(|kernel| kernel.max_threads_per_block())
                .map_or(limit, |own| own.min(limit)),
            units: AllocationUnits {
                registers: sm.register_unit,
                shared_bytes: sm.shared_unit_bytes,
                reserved_shared_bytes: sm.reserved_shared_bytes_per_block,
            },
        },
        attributes: KernelAttributes {
            local_bytes: own.map_or(0, |kernel| kernel.local_bytes),
            const_bytes: module.constant_bytes(),
            max_dynamic_shared_bytes: sm
                .max_shared_bytes_per_block
                .saturating_sub(static_shared_bytes),
            ptx_version: module.ptx_version,
        },
        unusable,
    }
}

impl State {
    /// Checks whether `asked` further bytes fit the device's memory, beside what all tenants hold.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    pub(super) fn check_room(&self, asked: u64) -> Result<(), DeviceError> {
        let used = self.gpu.memory().used_bytes_of_all();
        if used.saturating_add(asked) <= self.memory_bytes {
            return Ok(());
        }
        let all = self.memory_bytes;
        let detail = format!("{used} of {all} bytes are in use by all tenants");
        Err(DeviceError::OutOfMemory { asked, detail })
    }

    /// Gives a loaded module and its kernels their numbers.
    ///
    /// # Errors
    /// None of the kernels can run, or the numbers are used up; nothing is kept of it then.
    fn adopt(
        &mut self,
        domain: DomainId,
        module: &CompiledModule,
        (loaded, block): (&Arc<gridmux_hw_model::LoadedModule>, PlacedBlock),
    ) -> Result<LoadedModule, DeviceError> {
        let usable: HashMap<&str, _> = loaded.kernels().iter().map(|k| (&*k.name, k)).collect();
        let refused = loaded.refused().iter();
        let refused: HashMap<&str, _> = refused.map(|(k, why)| (&**k, why)).collect();
        let count = u32::try_from(module.kernels.len()).map_err(|_| exhausted())?;
        let first = self.next_kernel;
        let (next_kernel, id) = (first.checked_add(count), self.next_module);
        let (next_kernel, next_module) =
            next_kernel.zip(id.checked_add(1)).ok_or_else(exhausted)?;
        let judge = |(number, compiled): (u32, &CompiledKernel)| {
            let name = compiled.entry().map(|entry| &*entry.name);
            let kernel = name.and_then(|name| usable.get(name).copied());
            let why = name.and_then(|name| refused.get(name).copied());
            let id = DeviceKernelId(number);
            judged(
                self,
                kernel.map(|kernel| &**kernel),
                why,
                module,
                compiled,
                id,
            )
        };
        let kernels: Vec<_> = (first..).zip(&module.kernels).map(judge).collect();
        if let Some(LoadedKernel {
            unusable: Some(reason),
            ..
        }) = kernels.first()
            && kernels.iter().all(|kernel| kernel.unusable.is_some())
        {
            return Err(DeviceError::Load(reason.clone()));
        }
        (self.next_kernel, self.next_module) = (next_kernel, next_module);
        let ids: Vec<DeviceKernelId> = kernels.iter().map(|kernel| kernel.limits.id).collect();
        for (id, compiled) in ids.iter().zip(&module.kernels) {
            let entry = compiled.entry();
            if let Some(kernel) = entry.and_then(|entry| usable.get(&*entry.name)) {
                let known = Known {
                    kernel: Arc::clone(kernel),
                    is_fenced: entry.is_some_and(|entry| entry.fence.is_some()),
                };
                self.kernels.insert(id.0, known);
            }
        }
        let globals = globals_of(module, loaded, block);
        let own = Loaded {
            module: Arc::clone(loaded),
            kernels: ids,
            globals: globals.clone(),
            block,
        };
        self.modules.entry(domain.0).or_default().insert(id, own);
        Ok(LoadedModule {
            id: DeviceModuleId(id),
            host_bytes: loaded.host_bytes(),
            kernels,
            globals,
        })
    }
}

impl DeviceControl for ModelControl {
    fn facts(&self) -> DeviceFacts {
        self.shared.facts.clone()
    }

    fn now_ns(&self) -> u64 {
        self.shared.clock.now().0
    }

    fn create_domain(&self, limit_bytes: u64) -> Result<DomainId, DeviceError> {
        self.with(|state| state.make_domain(limit_bytes))
    }

    fn reservation(&self, domain: DomainId) -> Option<Reservation> {
        self.with(|state| state.reservation_of(domain))
    }

    fn set_limit(&self, domain: DomainId, limit_bytes: u64) {
        let set = self.with(|state| state.change_limit(domain, limit_bytes));
        if let Err(error) = set {
            tracing::error!(%error, "changing the limit of a tenant's memory domain");
        }
    }

    fn read_past_ends(&self) {
        self.with(|state| state.gpu.memory_mut().read_past_ends());
    }

    fn destroy_domain(&self, domain: DomainId) {
        if self.is_fenced() {
            return self.end_fenced(domain);
        }
        let removed = self.with(|state| {
            state.gpu.kill_domain(model_domain(domain));
            let modules = state.modules.remove(&domain.0);
            for loaded in modules.iter().flat_map(HashMap::values) {
                for id in &loaded.kernels {
                    state.kernels.remove(&id.0);
                }
            }
            state.printed.take(domain);
            state.mapped.remove_all(domain);
            let memory = state.gpu.memory_mut().remove_domain(model_domain(domain));
            (modules, memory)
        });
        if let (_, Err(error)) = &removed {
            tracing::error!(%error, "destroying a tenant's memory domain");
        }
        self.reaper.take(removed);
    }

    fn alloc(&self, domain: DomainId, bytes: u64) -> Result<u64, DeviceError> {
        self.with(|state| {
            state.check_room(bytes)?;
            state.allocate(domain, bytes)
        })
    }

    fn free(&self, domain: DomainId, address: u64) -> Result<(), DeviceError> {
        let bad = |_| DeviceError::BadAddress { address };
        if self.is_fenced() {
            // The sink takes the place of its pages at once.
            return self.with(|state| state.free_own(domain, address));
        }
        let own = model_domain(domain);
        let found = self.with(|state| {
            state.mapped.remove(domain, address);
            let found = state.gpu.memory().allocation_at(own, address);
            found.filter(|found| found.start == address)
        });
        let found = found.ok_or(DeviceError::BadAddress { address })?;
        self.empty(own, address, found.bytes).map_err(bad)?;
        self.with(|state| state.gpu.memory_mut().free(own, address).map_err(bad))
    }

    fn used_bytes(&self, domain: DomainId) -> u64 {
        self.with(|state| state.used_by(domain))
    }

    fn used_bytes_of(&self, domains: &[DomainId]) -> u64 {
        self.with(|state| domains.iter().map(|domain| state.used_by(*domain)).sum())
    }

    fn host_mappings_of(&self, domains: &[DomainId]) -> HostMappings {
        if self.is_fenced() {
            return HostMappings::default();
        }
        let domains = domains.iter().copied().map(model_domain);
        let found = self.with(|state| state.gpu.memory().host_mappings_of(domains));
        HostMappings {
            count: found.count,
            uncounted_bytes: found.uncounted_bytes,
        }
    }

    fn load(&self, domain: DomainId, module: &CompiledModule) -> Result<LoadedModule, DeviceError> {
        let rounded = |global: &CompiledGlobal| global.bytes.max(1).checked_next_multiple_of(256);
        let sum = |all: u64, global| all.saturating_add(rounded(global).unwrap_or(u64::MAX));
        let asked = module.globals.iter().fold(0, sum);
        // Compiling takes long for a large module, so it is done outside the lock, which the device thread needs.
        let own = self.with(|state| state.memory_of(domain));
        let mut loading = Loading::new(own, &module.program, &module.ptx);
        let placed = module.placed.as_ref().map_or(0, |placed| placed.bytes);
        let config = self.with(|state| {
            state.check_room(asked)?;
            state.check_outside(domain, asked.saturating_sub(placed))?;
            let placed = state.gpu.place(&mut loading);
            placed.map_err(|error| DeviceError::Load(error.to_string()))?;
            Ok::<_, DeviceError>(state.gpu.config().clone())
        })?;
        let compiled = loading.compile(&config);
        let (loaded, garbage) = self.with(|state| {
            let loaded = state.gpu.adopt(compiled);
            let adopted = state
                .place_variables(domain, module, &loaded)
                .and_then(|block| {
                    let adopted = state.adopt(domain, module, (&loaded, block));
                    if adopted.is_err() {
                        state.free_block(domain, block);
                    }
                    adopted
                });
            if adopted.is_err() {
                state.gpu.unload(&loaded);
            }
            (adopted, loaded)
        });
        // A module that was refused is dropped outside the lock, too.
        drop(garbage);
        loaded
    }

    fn unload(&self, domain: DomainId, module: DeviceModuleId) {
        let garbage = self.with(|state| {
            let loaded = state.modules.get_mut(&domain.0)?.remove(&module.0)?;
            for variable in loaded.module.variables() {
                state.mapped.remove(domain, variable.address);
            }
            let kernels = loaded.kernels.iter();
            let kernels = kernels.filter_map(|id| state.kernels.remove(&id.0));
            let kernels = kernels.collect::<Vec<_>>();
            state.free_block(domain, loaded.block);
            Some((kernels, loaded.module, state.memory_of(domain)))
        });
        if let Some((_, module, own)) = &garbage {
            self.free_variables(*own, module.variables());
        }
        self.reaper.take(garbage);
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
        let buffer = self.with(|state| state.buffers.remove(&buffer.0));
        // Where its client has ended, the last descriptor frees all of its pages.
        self.reaper.take(buffer);
    }

    fn map_buffer(
        &self,
        domain: DomainId,
        buffer: BufferId,
        bytes: u64,
        counts: bool,
    ) -> Result<u64, DeviceError> {
        self.refuse_fenced("host memory is out of reach of fenced kernels (device.isolation)")?;
        self.put_buffer(domain, buffer, bytes, counts)
    }

    fn map_variable(
        &self,
        domain: DomainId,
        buffer: BufferId,
        address: u64,
    ) -> Result<(), DeviceError> {
        self.refuse_fenced(
            "managed variables are out of reach of fenced kernels (device.isolation)",
        )?;
        self.put_variable(domain, buffer, address)
    }

    fn paging(&self, domain: DomainId, request: &PagingRequest) -> Result<u64, DeviceError> {
        self.refuse_fenced(
            "addresses cannot be reserved where kernels are fenced (device.isolation)",
        )?;
        self.page(domain, request)
    }

    fn create_object(&self, domain: DomainId, object: &Object) -> Result<u64, DeviceError> {
        self.refuse_fenced(
            "textures and surfaces are out of reach of fenced kernels (device.isolation)",
        )?;
        self.with(|state| {
            let memory = state.gpu.memory_mut();
            let made = memory.create_object(model_domain(domain), object_of(object));
            made.map_err(|error| DeviceError::Object(error.to_string()))
        })
    }

    fn destroy_object(&self, domain: DomainId, handle: u64) {
        if self.is_fenced() {
            return;
        }
        let destroyed = self.with(|state| {
            let memory = state.gpu.memory_mut();
            memory.destroy_object(model_domain(domain), handle)
        });
        if let Err(error) = destroyed {
            tracing::error!(%error, "destroying a texture or surface of a tenant");
        }
    }

    fn take_fault(&self, tag: Tag) -> Option<String> {
        self.with(|state| state.faults.take(tag.to_bits()))
    }

    fn take_printed(&self, domain: DomainId) -> (Vec<u8>, u64) {
        self.with(|state| state.printed.take(domain))
    }
}
