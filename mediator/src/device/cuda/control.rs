//! The control thread's end of a GPU: memory, modules and buffers.
//!
//! Rules: the dispatcher never takes this lock; what it must know is published to it ([`Tables`]). What a tenant gives
//! up is freed later, when nothing in flight uses it and preferably when nothing is in flight at all, because the
//! driver may stop the device for it (design section 4).

use super::allocator::{Allocator, Range};
use super::buffer::HostBuffer;
use super::driver::CudaError;
use super::module::Module;
use super::partition::{Mapper, Partition};
use super::tables::{KernelEntry, Tables};
use super::{Shared, pinned_budget};
use crate::device::{
    AllocationUnits, BufferId, CompiledModule, DeviceControl, DeviceError, DeviceFacts,
    DeviceKernelId, DomainId, KernelLimits, LoadedKernel, Tag,
};
use crate::lock::CountedMutex;
use crate::waker::Waker;
use cudarc::driver::sys::CUresult;
use gridmux_channel::memory::TenantBuffer;
use gridmux_policy::publish::{Publisher, Reader};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Things given up that may wait for a quiet moment; with more of them the device is stopped to free some.
const PATIENCE: usize = 32;

/// One tenant's memory.
struct Domain {
    limit_bytes: u64,
    partition: Partition,
    allocator: Allocator,
}

/// Given up by its tenant, and not yet freed.
enum Retired {
    Module(Arc<Module>),
    Buffer(Arc<HostBuffer>),
    Partition(Partition),
}

struct State {
    publisher: Publisher<Tables>,
    mapper: Mapper,
    domains: HashMap<u32, Domain>,
    /// By domain: the control thread's own handle of each module and the kernels found in it.
    modules: HashMap<u32, Vec<(Arc<Module>, Vec<u32>)>>,
    retired: Vec<Retired>,
    pinned_bytes: u64,
    next_domain: u32,
    next_kernel: u32,
    next_buffer: u32,
}

/// The control thread's end.
pub(super) struct CudaControl {
    shared: Arc<Shared>,
    facts: DeviceFacts,
    units: AllocationUnits,
    waker: Arc<Waker>,
    state: CountedMutex<State>,
}

impl CudaControl {
    /// The control end, and the reader of its tables for the dispatcher.
    pub(super) fn new(
        shared: Arc<Shared>,
        facts: DeviceFacts,
        units: AllocationUnits,
        mapper: Mapper,
        waker: Arc<Waker>,
    ) -> (Self, Reader<Tables>) {
        let mut publisher = Publisher::new(Tables::default());
        let reader = publisher.reader();
        let state = CountedMutex::new(State {
            publisher,
            mapper,
            domains: HashMap::new(),
            modules: HashMap::new(),
            retired: Vec::new(),
            pinned_bytes: 0,
            next_domain: 0,
            next_kernel: 0,
            next_buffer: 0,
        });
        let control = Self {
            shared,
            facts,
            units,
            waker,
            state,
        };
        (control, reader)
    }

    /// Acts under the lock, with the context current, after freeing what can be freed.
    fn with<T>(
        &self,
        act: impl FnOnce(&mut State) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        self.shared.context.bind()?;
        let mut state = self.state.lock();
        state.sweep(self.is_quiet());
        act(&mut state)
    }

    /// The same for calls that cannot fail: what cannot be done now is done at a later sweep, or is beyond help.
    fn with_or_log(&self, what: &'static str, act: impl FnOnce(&mut State)) {
        let done = self.with(|state| {
            act(state);
            Ok(())
        });
        if let Err(error) = done {
            tracing::warn!(%error, "{what}");
        }
        // The dispatcher lets go of the tables that it holds when it looks at the new ones.
        self.waker.wake();
    }

    fn is_quiet(&self) -> bool {
        // Acquire: pairs with the Release in `CudaDevice::publish_flying`. It only chooses a good moment: what is in
        // use is kept by its handles, not by this.
        self.shared.flying.load(Ordering::Acquire) == 0
    }
}

impl State {
    /// Publishes the tables with some of them changed.
    fn publish(&mut self, change: impl FnOnce(&mut Tables)) {
        let mut tables = self.publisher.newest().clone();
        change(&mut tables);
        self.publisher.publish(tables);
    }

    fn publish_allocations(&mut self, domain: DomainId) {
        let ranges: Option<Arc<[Range]>> = self
            .domains
            .get(&domain.0)
            .map(|d| d.allocator.ranges(d.partition.base()).collect());
        self.publish(|tables| {
            let mut all = HashMap::clone(&tables.allocations);
            match ranges {
                Some(ranges) => all.insert(domain.0, ranges),
                None => all.remove(&domain.0),
            };
            tables.allocations = Arc::new(all);
        });
    }

    fn forget_kernels(&mut self, is_gone: impl Fn(u32, &KernelEntry) -> bool) {
        self.publish(|tables| {
            let mut all = HashMap::clone(&tables.kernels);
            all.retain(|number, entry| !is_gone(*number, entry));
            tables.kernels = Arc::new(all);
        });
    }

    /// Frees what was given up and is no longer in use: all of it when the device is quiet, else only when too much
    /// has piled up.
    fn sweep(&mut self, is_quiet: bool) {
        if self.retired.is_empty() || !(is_quiet || self.retired.len() > PATIENCE) {
            return;
        }
        self.publisher.reap();
        for retired in std::mem::take(&mut self.retired) {
            let freed = match retired {
                Retired::Module(module) => match Arc::try_unwrap(module) {
                    Ok(module) => module.unload(),
                    Err(module) => {
                        self.retired.push(Retired::Module(module));
                        Ok(())
                    }
                },
                Retired::Buffer(buffer) => match Arc::try_unwrap(buffer) {
                    Ok(buffer) => {
                        let pinned = if buffer.is_pinned() {
                            buffer.len_bytes()
                        } else {
                            0
                        };
                        buffer.release().inspect(|()| self.pinned_bytes -= pinned)
                    }
                    Err(buffer) => {
                        self.retired.push(Retired::Buffer(buffer));
                        Ok(())
                    }
                },
                Retired::Partition(partition) => partition.release(),
            };
            if let Err(error) = freed {
                tracing::warn!(%error, "freeing what a tenant gave up");
            }
        }
    }

    fn alloc(&mut self, domain: DomainId, bytes: u64) -> Result<u64, DeviceError> {
        let Self {
            domains, mapper, ..
        } = self;
        let own = domains.get_mut(&domain.0).ok_or_else(|| unknown(domain))?;
        let footprint = Allocator::footprint(bytes);
        let used = own.allocator.used_bytes();
        let refused = |detail: String| DeviceError::OutOfMemory {
            asked: bytes,
            detail,
        };
        if used.saturating_add(footprint) > own.limit_bytes {
            return Err(refused(format!(
                "{used} of this tenant's {} bytes are in use",
                own.limit_bytes
            )));
        }
        let start = own
            .allocator
            .alloc(bytes)
            .map_err(|error| refused(error.to_string()))?;
        if let Err(error) = own.partition.back(start + footprint, mapper) {
            // It was taken just now, so it can be given back.
            let _ = own.allocator.free(start);
            return Err(match error.code {
                CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                    refused("the tenants together hold all of the device's memory".into())
                }
                _ => error.into(),
            });
        }
        let address = own.partition.base() + start;
        self.publish_allocations(domain);
        Ok(address)
    }
}

fn unknown(domain: DomainId) -> DeviceError {
    DeviceError::Backend(format!("memory domain {} does not exist", domain.0))
}

impl DeviceControl for CudaControl {
    fn facts(&self) -> DeviceFacts {
        self.facts.clone()
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.shared.opened.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn create_domain(&self, limit_bytes: u64) -> Result<DomainId, DeviceError> {
        let limit_bytes = limit_bytes.min(self.facts.memory_bytes);
        self.with(|state| {
            let reserve = |error: CudaError| DeviceError::OutOfMemory {
                asked: limit_bytes,
                detail: format!("no addresses are left for another tenant ({error})"),
            };
            let partition = Partition::reserve(room(limit_bytes)).map_err(reserve)?;
            let domain = DomainId(state.next_domain);
            state.next_domain += 1;
            let allocator = Allocator::new(room(limit_bytes));
            let own = Domain {
                limit_bytes,
                partition,
                allocator,
            };
            state.domains.insert(domain.0, own);
            state.publish_allocations(domain);
            Ok(domain)
        })
    }

    fn destroy_domain(&self, domain: DomainId) {
        self.with_or_log("destroying a tenant's memory domain", |state| {
            let modules = state.modules.remove(&domain.0).unwrap_or_default();
            state.retired.extend(
                modules
                    .into_iter()
                    .map(|(module, _)| Retired::Module(module)),
            );
            state.forget_kernels(|_, entry| entry.domain == domain);
            if let Some(own) = state.domains.remove(&domain.0) {
                state.retired.push(Retired::Partition(own.partition));
            }
            state.publish_allocations(domain);
        });
    }

    fn alloc(&self, domain: DomainId, bytes: u64) -> Result<u64, DeviceError> {
        self.with(|state| match state.alloc(domain, bytes) {
            // What departed tenants left may be in the way: it is freed now, even if the device has to stop for it.
            Err(DeviceError::OutOfMemory { .. }) if !state.retired.is_empty() => {
                state.sweep(true);
                state.alloc(domain, bytes)
            }
            done => done,
        })
    }

    fn free(&self, domain: DomainId, address: u64) -> Result<(), DeviceError> {
        self.with(|state| {
            let own = state
                .domains
                .get_mut(&domain.0)
                .ok_or_else(|| unknown(domain))?;
            let start = address.checked_sub(own.partition.base());
            let freed = start.and_then(|start| own.allocator.free(start).ok());
            freed.ok_or(DeviceError::BadAddress { address })?;
            state.publish_allocations(domain);
            Ok(())
        })
    }

    fn used_bytes(&self, domain: DomainId) -> u64 {
        let state = self.state.lock();
        state
            .domains
            .get(&domain.0)
            .map_or(0, |own| own.allocator.used_bytes())
    }

    fn load(
        &self,
        domain: DomainId,
        module: &CompiledModule,
    ) -> Result<Vec<LoadedKernel>, DeviceError> {
        // The compiler may take seconds, so it works outside the lock.
        self.shared.context.bind()?;
        let loaded = Module::load(&module.ptx)?;
        let most_shared = self.facts.max_shared_bytes_per_block;
        let facts: Result<Vec<_>, _> = module
            .kernels
            .iter()
            .map(|kernel| loaded.function(&kernel.name, most_shared))
            .collect();
        let facts = match facts {
            Ok(facts) => facts,
            Err(error) => {
                let _ = loaded.unload();
                return Err(error);
            }
        };
        let loaded = Arc::new(loaded);
        let result = self.with(|state| {
            if !state.domains.contains_key(&domain.0) {
                state.retired.push(Retired::Module(Arc::clone(&loaded)));
                return Err(unknown(domain));
            }
            let mut kernels = Vec::new();
            let mut entries = Vec::new();
            for (compiled, facts) in module.kernels.iter().zip(&facts) {
                let id = DeviceKernelId(state.next_kernel);
                state.next_kernel += 1;
                let limits = KernelLimits {
                    id,
                    params_bytes: compiled.params_bytes,
                    static_shared_bytes: facts.static_shared_bytes,
                    registers_per_thread: facts.registers,
                    max_threads_per_block: facts.max_threads.min(self.facts.max_threads_per_block),
                    units: self.units,
                };
                let name = compiled.name.clone();
                kernels.push(LoadedKernel { name, limits });
                let (function, module) = (facts.function, Arc::clone(&loaded));
                entries.push((
                    id.0,
                    KernelEntry {
                        domain,
                        function,
                        limits,
                        module,
                    },
                ));
            }
            let ids = entries.iter().map(|(id, _)| *id).collect();
            state
                .modules
                .entry(domain.0)
                .or_default()
                .push((Arc::clone(&loaded), ids));
            state.publish(|tables| {
                let mut all = HashMap::clone(&tables.kernels);
                all.extend(entries);
                tables.kernels = Arc::new(all);
            });
            Ok(kernels)
        });
        result
    }

    fn unload(&self, domain: DomainId, kernels: &[DeviceKernelId]) {
        self.with_or_log("unloading a module", |state| {
            state.forget_kernels(|number, _| kernels.contains(&DeviceKernelId(number)));
            // A module whose kernels are all gone goes as well.
            let State {
                modules, retired, ..
            } = state;
            let own = modules.entry(domain.0).or_default();
            for (_, ids) in own.iter_mut() {
                ids.retain(|id| !kernels.contains(&DeviceKernelId(*id)));
            }
            let gone = own.extract_if(.., |(_, ids)| ids.is_empty());
            retired.extend(gone.map(|(module, _)| Retired::Module(module)));
        });
    }

    fn register_buffer(&self, buffer: Arc<TenantBuffer>) -> Result<BufferId, DeviceError> {
        self.with(|state| {
            let pin = state.pinned_bytes.saturating_add(buffer.size()) <= pinned_budget();
            let mapped = HostBuffer::map(&buffer, pin)?;
            if mapped.is_pinned() {
                state.pinned_bytes += mapped.len_bytes();
            }
            let id = BufferId(state.next_buffer);
            state.next_buffer += 1;
            state.publish(|tables| {
                let mut all = HashMap::clone(&tables.buffers);
                all.insert(id.0, Arc::new(mapped));
                tables.buffers = Arc::new(all);
            });
            Ok(id)
        })
    }

    fn unregister_buffer(&self, buffer: BufferId) {
        self.with_or_log("unmapping a tenant buffer", |state| {
            let known = state
                .publisher
                .newest()
                .buffers
                .get(&buffer.0)
                .map(Arc::clone);
            // The newest tables hold the control thread's handle of a buffer in use; from here on this list does.
            state.retired.extend(known.map(Retired::Buffer));
            state.publish(|tables| {
                let mut all = HashMap::clone(&tables.buffers);
                all.remove(&buffer.0);
                tables.buffers = Arc::new(all);
            });
        });
    }

    fn take_fault(&self, tag: Tag) -> Option<String> {
        self.shared.faults.take(tag)
    }
}

/// Addresses that a tenant's allocations may spread over: a quarter more than its limit, so that fragmentation does
/// not keep it from what it is entitled to, and no more, because everything below the highest allocation is backed.
fn room(limit_bytes: u64) -> u64 {
    limit_bytes.saturating_add(limit_bytes / 4).max(1 << 20)
}
