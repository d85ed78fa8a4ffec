//! The control thread's state of the device, behind its lock.
//!
//! Rules: every change that the dispatcher must see ends in `publish`. What a tenant gives up goes to a list and is
//! freed by [`State::sweep`]: modules and buffers when the list holds the last handle, and all of it preferably when
//! nothing is in flight, because the driver may stop the device for it.

use super::allocator::{Allocator, MAX_ALLOCATIONS, Range};
use super::buffer::HostBuffer;
use super::driver::CudaError;
use super::module::{FunctionFacts, Module};
use super::partition::{Mapper, Partition};
use super::tables::{KernelEntry, Tables, Variable};
use crate::device::{
    BufferId, CompiledModule, DeviceError, DeviceKernelId, DeviceModuleId, DomainId, KernelLimits,
    LoadedGlobal, LoadedKernel,
};
use cudarc::driver::sys::CUresult;
use gridmux_channel::memory::TenantBuffer;
use gridmux_sync::publish::{Publisher, Reader};
use std::collections::HashMap;
use std::sync::Arc;

/// Things given up that may wait for a quiet moment; with more of them the device may be stopped to free some.
const PATIENCE: usize = 32;

/// Variables that one tenant's modules may have together: each load and unload publishes all of them.
const MAX_VARIABLES: usize = MAX_ALLOCATIONS;

/// One tenant's memory.
struct Domain {
    limit_bytes: u64,
    /// Variables of its modules, and their bytes.
    variables: usize,
    variables_bytes: u64,
    partition: Partition,
    allocator: Allocator,
}

impl Domain {
    /// Returns the bytes of its allocations and of its modules' variables.
    fn used_bytes(&self) -> u64 {
        self.allocator.used_bytes() + self.variables_bytes
    }
}

/// The control thread's own handle of a module, and its kernels.
struct LoadedModule {
    id: DeviceModuleId,
    module: Arc<Module>,
    kernels: Vec<DeviceKernelId>,
    /// Where its variables are.
    variables: Vec<Range>,
}

/// Given up by its tenant, and not yet freed.
enum Retired {
    Module(Arc<Module>),
    Buffer(Arc<HostBuffer>),
    Partition(Partition),
}

/// Domains, modules, buffers, and the tables made of them.
pub(super) struct State {
    publisher: Publisher<Tables>,
    mapper: Mapper,
    domains: HashMap<u32, Domain>,
    /// By domain.
    modules: HashMap<u32, Vec<LoadedModule>>,
    retired: Vec<Retired>,
    pinned_bytes: u64,
    pinned_budget_bytes: u64,
    next_domain: u32,
    next_kernel: u32,
    next_module: u32,
    next_buffer: u32,
}

impl State {
    /// Returns an empty state, and the dispatcher's reader of its tables.
    pub(super) fn new(mapper: Mapper) -> (Self, Reader<Tables>) {
        let mut publisher = Publisher::new(Tables::default());
        let reader = publisher.reader();
        let state = Self {
            publisher,
            mapper,
            domains: HashMap::new(),
            modules: HashMap::new(),
            retired: Vec::new(),
            pinned_bytes: 0,
            pinned_budget_bytes: pinned_budget_bytes(),
            next_domain: 0,
            next_kernel: 0,
            next_module: 0,
            next_buffer: 0,
        };
        (state, reader)
    }

    /// Returns whether anything waits to be freed.
    pub(super) fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// Frees what was given up and is no longer in use: when the device is quiet, or when too much has piled up.
    pub(super) fn sweep(&mut self, is_quiet: bool) {
        if !self.has_retired() || !(is_quiet || self.retired.len() > PATIENCE) {
            return;
        }
        self.publisher.reap();
        for retired in std::mem::take(&mut self.retired) {
            if let Err(error) = self.try_to_free(retired) {
                tracing::warn!(%error, "freeing what a tenant gave up");
            }
        }
    }

    /// Frees one thing, or puts it back on the list while somebody else holds a handle.
    fn try_to_free(&mut self, retired: Retired) -> Result<(), CudaError> {
        match retired {
            Retired::Module(module) => match Arc::try_unwrap(module) {
                Ok(module) => module.unload()?,
                Err(module) => self.retired.push(Retired::Module(module)),
            },
            Retired::Buffer(buffer) => match Arc::try_unwrap(buffer) {
                Ok(buffer) => {
                    let pinned = buffer.pinned_bytes();
                    buffer.release()?;
                    self.pinned_bytes -= pinned;
                }
                Err(buffer) => self.retired.push(Retired::Buffer(buffer)),
            },
            Retired::Partition(partition) => partition.release()?,
        }
        Ok(())
    }

    /// Reserves a tenant's partition.
    pub(super) fn create_domain(&mut self, limit_bytes: u64) -> Result<DomainId, DeviceError> {
        let next_domain = self.next_domain.checked_add(1).ok_or_else(exhausted)?;
        let room = room(limit_bytes);
        let reserved = Partition::reserve(room);
        let partition = reserved.map_err(|error| DeviceError::OutOfMemory {
            asked: limit_bytes,
            detail: format!("no addresses are left for another tenant ({error})"),
        })?;
        let domain = DomainId(self.next_domain);
        self.next_domain = next_domain;
        let allocator = Allocator::new(room);
        let own = Domain {
            limit_bytes,
            variables: 0,
            variables_bytes: 0,
            partition,
            allocator,
        };
        self.domains.insert(domain.0, own);
        self.publish_allocations(domain);
        Ok(domain)
    }

    /// Lets a domain allocate up to another limit.
    pub(super) fn set_limit(&mut self, domain: DomainId, limit_bytes: u64) {
        if let Some(own) = self.domains.get_mut(&domain.0) {
            own.limit_bytes = limit_bytes;
        }
    }

    /// Gives up all that a domain holds.
    pub(super) fn destroy_domain(&mut self, domain: DomainId) {
        let modules = self.modules.remove(&domain.0).unwrap_or_default();
        let modules = modules.into_iter().map(|own| Retired::Module(own.module));
        self.retired.extend(modules);
        self.publish_kernels(|all| all.retain(|_, entry| entry.domain != domain));
        self.publish_variables(domain);
        if let Some(own) = self.domains.remove(&domain.0) {
            self.retired.push(Retired::Partition(own.partition));
        }
        self.publish_allocations(domain);
    }

    /// Cuts an allocation from a partition.
    pub(super) fn alloc(&mut self, domain: DomainId, bytes: u64) -> Result<u64, DeviceError> {
        let own = self.domains.get_mut(&domain.0);
        let own = own.ok_or_else(|| unknown(domain))?;
        let footprint = Allocator::footprint(bytes);
        let used = own.used_bytes();
        let refused = |detail: String| DeviceError::OutOfMemory {
            asked: bytes,
            detail,
        };
        if used.saturating_add(footprint) > own.limit_bytes {
            let limit = own.limit_bytes;
            return Err(refused(format!(
                "{used} of this tenant's {limit} bytes are in use"
            )));
        }
        let start = own
            .allocator
            .alloc(bytes)
            .map_err(|error| refused(error.to_string()))?;
        if let Err(error) = own.partition.back(start + footprint, &self.mapper) {
            // It was taken just now, so giving it back succeeds.
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

    /// Gives an allocation back to its partition.
    pub(super) fn free(&mut self, domain: DomainId, address: u64) -> Result<(), DeviceError> {
        let own = self.domains.get_mut(&domain.0);
        let own = own.ok_or_else(|| unknown(domain))?;
        let start = address.checked_sub(own.partition.base());
        let freed = start.and_then(|start| own.allocator.free(start).ok());
        freed.ok_or(DeviceError::BadAddress { address })?;
        self.publish_allocations(domain);
        Ok(())
    }

    /// Returns the bytes that a domain holds.
    pub(super) fn used_bytes(&self, domain: DomainId) -> u64 {
        let own = self.domains.get(&domain.0);
        own.map_or(0, Domain::used_bytes)
    }

    /// Checks that a domain may have the variables of another module.
    pub(super) fn check_variables(
        &self,
        domain: DomainId,
        module: &CompiledModule,
    ) -> Result<(), DeviceError> {
        let own = self.domains.get(&domain.0).ok_or_else(|| unknown(domain))?;
        if own.variables + module.globals.len() > MAX_VARIABLES {
            return Err(DeviceError::Load(format!(
                "the tenant's modules would have more than {MAX_VARIABLES} variables together; unload some"
            )));
        }
        let sizes = module.globals.iter().map(|global| global.bytes);
        let asked = sizes.fold(0, u64::saturating_add);
        let (used, limit) = (own.used_bytes(), own.limit_bytes);
        match asked > 0 && used.saturating_add(asked) > limit {
            true => Err(DeviceError::OutOfMemory {
                asked,
                detail: format!(
                    "variables of a module; {used} of this tenant's {limit} bytes are in use"
                ),
            }),
            false => Ok(()),
        }
    }

    /// Takes a loaded module over. `limits` completes what the driver said of a kernel, `globals` are what it found of
    /// the module's variables.
    pub(super) fn adopt(
        &mut self,
        domain: DomainId,
        module: Module,
        (functions, globals): (Vec<(FunctionFacts, KernelLimits)>, &[LoadedGlobal]),
        compiled: &CompiledModule,
    ) -> Result<(DeviceModuleId, Vec<LoadedKernel>), DeviceError> {
        let module = Arc::new(module);
        if !self.domains.contains_key(&domain.0) {
            self.retired.push(Retired::Module(module));
            return Err(unknown(domain));
        }
        let more = u32::try_from(functions.len()).unwrap_or(u32::MAX);
        let id = DeviceModuleId(self.next_module);
        let next_module = id.0.checked_add(1);
        let Some(next_module) =
            next_module.filter(|_| self.next_kernel.checked_add(more).is_some())
        else {
            self.retired.push(Retired::Module(module));
            return Err(exhausted());
        };
        self.next_module = next_module;
        let mut kernels = Vec::new();
        let mut entries = Vec::new();
        for ((facts, mut limits), compiled) in functions.into_iter().zip(&compiled.kernels) {
            limits.id = DeviceKernelId(self.next_kernel);
            // There is room for all of them, as was found above.
            self.next_kernel += 1;
            kernels.push(LoadedKernel {
                compiled: compiled.clone(),
                limits,
                attributes: facts.attributes,
                unusable: facts.unusable,
            });
            let entry = KernelEntry {
                domain,
                function: facts.function,
                limits,
                places: facts.places,
                stamps: compiled.entry().is_some_and(|entry| entry.stamps),
                module: Arc::clone(&module),
            };
            entries.push((limits.id.0, entry));
        }
        let own = LoadedModule {
            id,
            module,
            kernels: kernels.iter().map(|kernel| kernel.limits.id).collect(),
            variables: globals.iter().map(range_of).collect(),
        };
        self.modules.entry(domain.0).or_default().push(own);
        self.publish_kernels(|all| all.extend(entries));
        if !globals.is_empty() {
            self.publish_variables(domain);
        }
        Ok((id, kernels))
    }

    /// Gives a module and its kernels up.
    pub(super) fn unload(&mut self, domain: DomainId, module: DeviceModuleId) {
        let Some(own) = self.modules.get_mut(&domain.0) else {
            return;
        };
        let gone: Vec<_> = own.extract_if(.., |known| known.id == module).collect();
        self.publish_kernels(|all| {
            for id in gone.iter().flat_map(|gone| &gone.kernels) {
                all.remove(&id.0);
            }
        });
        if gone.iter().any(|gone| !gone.variables.is_empty()) {
            self.publish_variables(domain);
        }
        self.retired
            .extend(gone.into_iter().map(|gone| Retired::Module(gone.module)));
    }

    /// Maps a tenant's buffer, pinned while the budget lasts.
    pub(super) fn register_buffer(
        &mut self,
        buffer: &TenantBuffer,
    ) -> Result<BufferId, DeviceError> {
        let next_buffer = self.next_buffer.checked_add(1).ok_or_else(exhausted)?;
        let pin = self.pinned_bytes.saturating_add(buffer.size()) <= self.pinned_budget_bytes;
        let mapped = HostBuffer::map(buffer, pin)?;
        self.pinned_bytes += mapped.pinned_bytes();
        let id = BufferId(self.next_buffer);
        self.next_buffer = next_buffer;
        self.publish_buffers(|all| {
            all.insert(id.0, Arc::new(mapped));
        });
        Ok(id)
    }

    /// Gives a buffer up.
    pub(super) fn unregister_buffer(&mut self, buffer: BufferId) {
        let mut known = None;
        self.publish_buffers(|all| known = all.remove(&buffer.0));
        self.retired.extend(known.map(Retired::Buffer));
    }

    /// Publishes the tables with some of them changed.
    fn publish(&mut self, change: impl FnOnce(&mut Tables)) {
        let mut tables = self.publisher.newest().clone();
        change(&mut tables);
        self.publisher.publish_value(tables);
    }

    fn publish_kernels(&mut self, change: impl FnOnce(&mut HashMap<u32, KernelEntry>)) {
        self.publish(|tables| change(Arc::make_mut(&mut tables.kernels)));
    }

    fn publish_buffers(&mut self, change: impl FnOnce(&mut HashMap<u32, Arc<HostBuffer>>)) {
        self.publish(|tables| change(Arc::make_mut(&mut tables.buffers)));
    }

    fn publish_variables(&mut self, domain: DomainId) {
        let modules = self.modules.get(&domain.0).map_or(&[][..], |all| all);
        let mut variables: Vec<Variable> = modules
            .iter()
            .flat_map(|own| {
                own.variables.iter().map(|range| Variable {
                    range: *range,
                    module: Arc::clone(&own.module),
                })
            })
            .collect();
        variables.sort_by_key(|variable| variable.range.start);
        if let Some(own) = self.domains.get_mut(&domain.0) {
            own.variables = variables.len();
            own.variables_bytes = variables.iter().map(|one| one.range.bytes).sum();
        }
        self.publish(|tables| {
            let all = Arc::make_mut(&mut tables.variables);
            match variables.is_empty() {
                true => all.remove(&domain.0),
                false => all.insert(domain.0, variables.into()),
            };
        });
    }

    fn publish_allocations(&mut self, domain: DomainId) {
        let own = self.domains.get(&domain.0);
        let ranges: Option<Arc<[Range]>> =
            own.map(|own| own.allocator.ranges(own.partition.base()).collect());
        self.publish(|tables| {
            let all = Arc::make_mut(&mut tables.allocations);
            match ranges {
                Some(ranges) => all.insert(domain.0, ranges),
                None => all.remove(&domain.0),
            };
        });
    }
}

/// Returns where a variable is.
fn range_of(global: &LoadedGlobal) -> Range {
    Range {
        start: global.address,
        bytes: global.bytes,
    }
}

/// No number is given twice, so that a late command cannot reach another client's kernel or buffer.
fn exhausted() -> DeviceError {
    DeviceError::Backend("all numbers are used up; the device host must be restarted".into())
}

fn unknown(domain: DomainId) -> DeviceError {
    DeviceError::Backend(format!("memory domain {} does not exist", domain.0))
}

/// Addresses that a tenant's allocations may spread over: a quarter more than its limit, so that fragmentation does
/// not keep it from what it is entitled to, and no more, because everything below the highest allocation is backed.
fn room(limit_bytes: u64) -> u64 {
    limit_bytes.saturating_add(limit_bytes / 4).max(1 << 20)
}

/// Returns host memory that may be pinned for all tenants together: a quarter of the machine's. Pinned memory cannot be
/// reclaimed, and a tenant may map far more than it ever touches.
fn pinned_budget_bytes() -> u64 {
    // SAFETY: sysconf only looks figures up.
    let (pages, page) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    let all = u64::try_from(pages)
        .unwrap_or(0)
        .saturating_mul(u64::try_from(page).unwrap_or(0));
    all / 4
}
