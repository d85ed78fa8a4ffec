//! The control thread's end of a GPU: memory, modules and buffers.
//!
//! Rules: the dispatcher never takes this lock; what it must know is published to it ([`Tables`]). Every call first
//! makes the context current, because any thread may call, and frees what can be freed ([`State::sweep`]).

use super::Shared;
use super::module::{FunctionFacts, Module};
use super::partition::Mapper;
use super::state::State;
use super::tables::Tables;
use crate::device::{
    AllocationUnits, BufferId, CompiledModule, DeviceControl, DeviceError, DeviceFacts,
    DeviceKernelId, DeviceModuleId, DomainId, KernelLimits, LoadedGlobal, LoadedModule, Tag,
};
use crate::lock::CountedMutex;
use crate::waker::Waker;
use gridmux_channel::memory::TenantBuffer;
use gridmux_sync::publish::Reader;
use gridmux_sync::shim::Ordering;
use std::sync::Arc;

/// The control thread's end.
pub(super) struct CudaControl {
    shared: Arc<Shared>,
    facts: DeviceFacts,
    units: AllocationUnits,
    waker: Arc<Waker>,
    state: CountedMutex<State>,
}

impl CudaControl {
    /// Returns the control end, and the reader of its tables for the dispatcher.
    pub(super) fn new(
        shared: Arc<Shared>,
        facts: DeviceFacts,
        units: AllocationUnits,
        mapper: Mapper,
        waker: Arc<Waker>,
    ) -> (Self, Reader<Tables>) {
        let (state, reader) = State::new(mapper);
        let control = Self {
            shared,
            facts,
            units,
            waker,
            state: CountedMutex::new(state),
        };
        (control, reader)
    }

    fn with<T>(
        &self,
        act: impl FnOnce(&mut State) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        self.shared.context.bind()?;
        let mut state = self.state.lock();
        state.sweep(self.is_quiet());
        act(&mut state)
    }

    /// Gives something up. It cannot fail but with the context itself, and then the process ends.
    fn give_up(&self, act: impl FnOnce(&mut State)) {
        let given_up = self.with(|state| {
            act(state);
            Ok(())
        });
        if let Err(error) = given_up {
            tracing::warn!(%error, "giving up what a tenant held");
        }
        // The dispatcher lets go of the tables that it holds when it looks at the new ones.
        self.waker.wake();
    }

    fn is_quiet(&self) -> bool {
        // Acquire: pairs with the Release in `CudaDevice::publish_flying`. It only chooses a good moment: what is in
        // use is kept by its handles, not by this.
        self.shared.flying.load(Ordering::Acquire) == 0
    }

    /// Returns what a launch must know of a kernel; its number comes later.
    fn limits(&self, facts: &FunctionFacts) -> KernelLimits {
        KernelLimits {
            id: DeviceKernelId(u32::MAX),
            static_shared_bytes: facts.static_shared_bytes,
            registers_per_thread: facts.registers,
            max_threads_per_block: facts.max_threads.min(self.facts.max_threads_per_block),
            units: self.units,
        }
    }

    fn find_functions(
        &self,
        module: &Module,
        compiled: &CompiledModule,
    ) -> Result<Vec<(FunctionFacts, KernelLimits)>, DeviceError> {
        let most_shared = self.facts.max_shared_bytes_per_block;
        let find = |kernel: &crate::device::CompiledKernel| {
            let facts = module.function(kernel, most_shared)?;
            let limits = self.limits(&facts);
            Ok((facts, limits))
        };
        compiled.kernels.iter().map(find).collect()
    }
}

fn find_globals(
    module: &Module,
    compiled: &CompiledModule,
) -> Result<Vec<LoadedGlobal>, DeviceError> {
    let mut found = Vec::new();
    for global in &compiled.globals {
        found.extend(module.global(&global.name)?);
    }
    Ok(found)
}

impl DeviceControl for CudaControl {
    fn facts(&self) -> DeviceFacts {
        self.facts.clone()
    }

    fn now_ns(&self) -> u64 {
        self.shared.now().0
    }

    fn create_domain(&self, limit_bytes: u64) -> Result<DomainId, DeviceError> {
        let limit_bytes = limit_bytes.min(self.facts.memory_bytes);
        self.with(|state| state.create_domain(limit_bytes))
    }

    fn set_limit(&self, domain: DomainId, limit_bytes: u64) {
        let limit_bytes = limit_bytes.min(self.facts.memory_bytes);
        let set = self.with(|state| {
            state.set_limit(domain, limit_bytes);
            Ok(())
        });
        if let Err(error) = set {
            tracing::error!(%error, "changing the limit of a tenant's memory");
        }
    }

    fn destroy_domain(&self, domain: DomainId) {
        self.give_up(|state| state.destroy_domain(domain));
    }

    fn alloc(&self, domain: DomainId, bytes: u64) -> Result<u64, DeviceError> {
        self.with(|state| match state.alloc(domain, bytes) {
            // What departed tenants left may be in the way: it is freed now, even if the device has to stop for it.
            Err(DeviceError::OutOfMemory { .. }) if state.has_retired() => {
                state.sweep(true);
                state.alloc(domain, bytes)
            }
            done => done,
        })
    }

    fn free(&self, domain: DomainId, address: u64) -> Result<(), DeviceError> {
        self.with(|state| state.free(domain, address))
    }

    fn used_bytes(&self, domain: DomainId) -> u64 {
        self.state.lock().used_bytes(domain)
    }

    fn load(&self, domain: DomainId, module: &CompiledModule) -> Result<LoadedModule, DeviceError> {
        self.with(|state| state.check_variables(domain, module))?;
        // The driver's compiler may take seconds, so it works outside the lock.
        self.shared.context.bind()?;
        let loaded = Module::load(&module.ptx)?;
        let found = self
            .find_functions(&loaded, module)
            .and_then(|functions| Ok((functions, find_globals(&loaded, module)?)));
        match found {
            Ok((functions, globals)) => self.with(|state| {
                let (id, kernels) = state.adopt(domain, loaded, (functions, &globals), module)?;
                Ok(LoadedModule {
                    id,
                    // The driver does not tell what it keeps: the text and code of about its size.
                    host_bytes: 2 * module.ptx.len() as u64,
                    kernels,
                    globals,
                })
            }),
            Err(error) => {
                // Nobody knows of it yet; if it cannot be unloaded, the context is lost and that error is elsewhere.
                let _ = loaded.unload();
                Err(error)
            }
        }
    }

    fn unload(&self, domain: DomainId, module: DeviceModuleId) {
        self.give_up(|state| state.unload(domain, module));
    }

    fn register_buffer(&self, buffer: Arc<TenantBuffer>) -> Result<BufferId, DeviceError> {
        self.with(|state| state.register_buffer(&buffer))
    }

    fn unregister_buffer(&self, buffer: BufferId) {
        self.give_up(|state| state.unregister_buffer(buffer));
    }

    fn take_fault(&self, tag: Tag) -> Option<String> {
        self.shared.faults.take(tag)
    }
}
