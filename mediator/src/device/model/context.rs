//! The context that fenced clients share on a modelled device, as they would on a GPU.
//!
//! All kernels run in one domain of the model's and reach all of it. A client has a partition there, in which all of
//! its memory lies but its constants, which the fence holds inside of variables and which host operations find in its
//! modules. The counters of fenced launches lie outside of all partitions. Rule: whatever an address comes from, a host
//! operation of a client touches its own partition and constants only ([`State::check_own`]).

use super::State;
use super::control::memory_error;
use crate::device::{
    CompiledModule, DeviceError, DomainId, LaunchCommand, LoadedGlobal, Outcome, status_of,
};
use gridmux_hw_model::memory::{self, Memory, Partition};
use gridmux_launch::{RecordedFault, Reservation};
use gridmux_ptx::control::{CONTROL_BYTES, COUNTERS_BYTES};
use gridmux_ptx::placed::Placed;
use std::collections::HashMap;

/// What the context's domain may hold outside of partitions. Its addresses are as many as a thousand partitions need.
const CONTEXT_BYTES: u64 = 4 << 40;
/// Number of counters that are allocated at once.
const COUNTERS_AT_ONCE: u64 = 64;

/// The context, and what each client has in it.
pub(super) struct Context {
    domain: memory::DomainId,
    clients: HashMap<u32, Client>,
    next: u32,
    /// Counters of no launch, all zero.
    free: Vec<u64>,
    /// Counters of fenced launches on the device, by tag.
    running: HashMap<u64, u64>,
}

/// A client's memory.
#[derive(Clone, Copy)]
struct Client {
    partition: Partition,
    limit_bytes: u64,
    /// Bytes of its modules' variables that are not in the partition.
    outside_bytes: u64,
}

/// A loaded module's variables, beside those of its text.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct PlacedBlock {
    /// Where the block begins in the partition.
    pub(super) address: Option<u64>,
    /// Bytes of variables outside of the partition.
    pub(super) outside_bytes: u64,
}

impl PlacedBlock {
    /// Returns the address of the first variable.
    pub(super) fn first(self, placed: &Placed) -> Option<u64> {
        let start = self.address?;
        Some(start.next_multiple_of(placed.align))
    }
}

impl Context {
    /// Makes the context's domain.
    ///
    /// # Errors
    /// The host has no such addresses.
    pub(super) fn new(memory: &mut Memory) -> Result<Self, DeviceError> {
        let domain = memory.create_domain(CONTEXT_BYTES);
        Ok(Self {
            domain: domain.map_err(|error| memory_error(CONTEXT_BYTES, &error))?,
            clients: HashMap::new(),
            next: 0,
            free: Vec::new(),
            running: HashMap::new(),
        })
    }

    fn client(&self, domain: DomainId) -> Result<Client, DeviceError> {
        let found = self.clients.get(&domain.0).copied();
        found.ok_or_else(|| {
            DeviceError::Backend(format!("memory domain {} does not exist", domain.0))
        })
    }

    /// Takes counters for a launch.
    fn take(&mut self, memory: &mut Memory, bits: u64) -> Option<u64> {
        if self.free.is_empty() {
            let each = u64::from(COUNTERS_BYTES);
            let first = memory.alloc(self.domain, each * COUNTERS_AT_ONCE).ok()?;
            memory
                .fill(self.domain, first, each * COUNTERS_AT_ONCE, 0)
                .ok()?;
            self.free
                .extend((0..COUNTERS_AT_ONCE).map(|n| first + n * each));
        }
        let address = self.free.pop()?;
        self.running.insert(bits, address);
        Some(address)
    }

    /// Gives the counters of a launch back, and returns the fault that they hold.
    fn give_back(&mut self, memory: &mut Memory, bits: u64) -> Option<RecordedFault> {
        let address = self.running.remove(&bits)?;
        let mut counters = [0; COUNTERS_BYTES as usize];
        let read = memory.read(self.domain, address, &mut counters);
        let zeroed = memory.fill(self.domain, address, COUNTERS_BYTES.into(), 0);
        if zeroed.is_ok() {
            self.free.push(address);
        }
        read.ok()?;
        RecordedFault::of(&counters)
    }
}

impl State {
    /// Returns the model's domain in which a client's memory is.
    pub(super) fn memory_of(&self, domain: DomainId) -> memory::DomainId {
        match &self.context {
            Some(context) => context.domain,
            None => memory::DomainId(domain.0),
        }
    }

    /// Returns the addresses of a client's partition, where clients are fenced.
    pub(super) fn reservation_of(&self, domain: DomainId) -> Option<Reservation> {
        let partition = self.context.as_ref()?.client(domain).ok()?.partition;
        Some(Reservation {
            base: partition.base,
            mask: partition.mask(),
        })
    }

    /// Makes a domain for a client that may hold so much.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn make_domain(&mut self, limit_bytes: u64) -> Result<DomainId, DeviceError> {
        let memory = self.gpu.memory_mut();
        let failed = |error| memory_error(limit_bytes, &error);
        let Some(context) = &mut self.context else {
            let domain = memory.create_domain(limit_bytes).map_err(failed)?;
            return Ok(DomainId(domain.0));
        };
        let partition = memory
            .reserve(context.domain, limit_bytes)
            .map_err(failed)?;
        let client = Client {
            partition,
            limit_bytes,
            outside_bytes: 0,
        };
        let id = context.next;
        context.next = id.checked_add(1).ok_or_else(super::control::exhausted)?;
        context.clients.insert(id, client);
        Ok(DomainId(id))
    }

    /// Lets a client hold up to another limit.
    pub(super) fn change_limit(
        &mut self,
        domain: DomainId,
        limit_bytes: u64,
    ) -> Result<(), memory::MemoryError> {
        let memory = self.gpu.memory_mut();
        let Some(context) = &mut self.context else {
            return memory.set_limit(memory::DomainId(domain.0), limit_bytes);
        };
        match context.clients.get_mut(&domain.0) {
            Some(client) => {
                client.limit_bytes = limit_bytes;
                memory.set_limit_in(client.partition, limit_bytes)
            }
            None => Ok(()),
        }
    }

    /// Gives a client's partition back, with all that is in it. Its modules are gone.
    pub(super) fn end_client(&mut self, domain: DomainId) -> Result<(), memory::MemoryError> {
        let context = self.context.as_mut();
        let client = context.and_then(|context| context.clients.remove(&domain.0));
        match client {
            Some(client) => self.gpu.memory_mut().release(client.partition),
            None => Ok(()),
        }
    }

    /// Returns the bytes that a client holds.
    pub(super) fn used_by(&self, domain: DomainId) -> u64 {
        let memory = self.gpu.memory();
        match &self.context {
            Some(context) => context.client(domain).map_or(0, |client| {
                memory.used_bytes_in(client.partition) + client.outside_bytes
            }),
            None => memory.used_bytes(memory::DomainId(domain.0)).unwrap_or(0),
        }
    }

    /// Allocates memory of a client's.
    ///
    /// # Errors
    /// It may not hold so much, or there is no room.
    pub(super) fn allocate(&mut self, domain: DomainId, bytes: u64) -> Result<u64, DeviceError> {
        let failed = |error| memory_error(bytes, &error);
        let Some(context) = &self.context else {
            let own = memory::DomainId(domain.0);
            return self.gpu.memory_mut().alloc(own, bytes).map_err(failed);
        };
        let client = context.client(domain)?;
        let used = self.used_by(domain);
        if used.saturating_add(bytes) > client.limit_bytes {
            let limit = client.limit_bytes;
            return Err(DeviceError::OutOfMemory {
                asked: bytes,
                detail: format!("{used} of this tenant's {limit} bytes are in use"),
            });
        }
        let memory = self.gpu.memory_mut();
        memory.alloc_in(client.partition, bytes).map_err(failed)
    }

    /// Frees an allocation in a client's partition that is no module's.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn free_own(&mut self, domain: DomainId, address: u64) -> Result<(), DeviceError> {
        let bad = DeviceError::BadAddress { address };
        let modules = self.modules.get(&domain.0);
        let mut modules = modules.into_iter().flat_map(HashMap::values);
        let is_block = modules.any(|module| module.block.address == Some(address));
        let own = self.reservation_of(domain);
        if is_block || !own.is_some_and(|own| own.holds(address, 1)) {
            return Err(bad);
        }
        let context = self.memory_of(domain);
        let freed = self.gpu.memory_mut().free(context, address);
        freed.map_err(|_| bad)
    }

    /// Checks that bytes are memory of a client's: where clients are fenced, an allocation in its partition, or a
    /// constant of one of its modules.
    ///
    /// # Errors
    /// Why they are not.
    pub(super) fn check_own(
        &self,
        domain: DomainId,
        address: u64,
        bytes: u64,
    ) -> Result<(), String> {
        let Some(reservation) = self.reservation_of(domain) else {
            return Err("its client has no memory".to_owned());
        };
        let is_inside = |variable: &LoadedGlobal| {
            let offset = address.checked_sub(variable.address);
            offset.is_some_and(|offset| {
                let end = offset.checked_add(bytes);
                end.is_some_and(|end| end <= variable.bytes)
            })
        };
        let modules = self.modules.get(&domain.0);
        let mut modules = modules.into_iter().flat_map(HashMap::values);
        let is_own = reservation.holds(address, bytes)
            || modules.any(|module| module.globals.iter().any(is_inside));
        if !is_own {
            return Err("it is not in the client's memory".to_owned());
        }
        let context = self.memory_of(domain);
        let found = self.gpu.memory().bytes(context, address, bytes);
        found.map(drop).map_err(|error| error.to_string())
    }

    /// Checks that a client may have a module's variables that stay in its text.
    ///
    /// # Errors
    /// They are too large.
    pub(super) fn check_outside(&self, domain: DomainId, bytes: u64) -> Result<(), DeviceError> {
        let Some(context) = &self.context else {
            return Ok(());
        };
        let limit = context.client(domain)?.limit_bytes;
        let used = self.used_by(domain);
        match used.saturating_add(bytes) > limit {
            true => Err(DeviceError::OutOfMemory {
                asked: bytes,
                detail: format!(
                    "variables of a module; {used} of this tenant's {limit} bytes are in use"
                ),
            }),
            false => Ok(()),
        }
    }

    /// Places the variables of a module that are not in its text, and tells it where they are.
    ///
    /// # Errors
    /// There is no room for them.
    pub(super) fn place_variables(
        &mut self,
        domain: DomainId,
        module: &CompiledModule,
        loaded: &gridmux_hw_model::LoadedModule,
    ) -> Result<PlacedBlock, DeviceError> {
        let Some(context) = self.context.as_ref().map(|context| context.domain) else {
            return Ok(PlacedBlock::default());
        };
        let in_text = loaded.variables().iter().map(|variable| variable.bytes);
        let mut block = PlacedBlock {
            address: None,
            outside_bytes: in_text.sum(),
        };
        if let Some(placed) = &module.placed {
            let failed = |error: memory::MemoryError| memory_error(placed.bytes, &error);
            let mut pointers = loaded.variables().iter();
            let pointer = pointers.find(|variable| variable.name == placed.pointer);
            let pointer = pointer.ok_or_else(|| {
                DeviceError::Load("the module has no place for its variables' address".to_owned())
            })?;
            let bytes = placed.bytes.saturating_add(placed.align);
            let start = self.allocate(domain, bytes)?;
            block.address = Some(start);
            let address = block.first(placed).unwrap_or(start);
            let memory = self.gpu.memory_mut();
            let mut written = memory.write(context, pointer.address, &address.to_le_bytes());
            for (offset, bytes) in placed.image(address) {
                written = written.and_then(|()| memory.write(context, address + offset, &bytes));
            }
            if written.is_err() {
                let _ = memory.free(context, start);
            }
            written.map_err(failed)?;
        }
        if let Some(client) = self.client_mut(domain) {
            client.outside_bytes += block.outside_bytes;
        }
        Ok(block)
    }

    /// Gives the memory of a module's placed variables back.
    pub(super) fn free_block(&mut self, domain: DomainId, block: PlacedBlock) {
        if let Some(client) = self.client_mut(domain) {
            client.outside_bytes -= block.outside_bytes;
        }
        if let Some(address) = block.address {
            let own = self.memory_of(domain);
            let freed = self.gpu.memory_mut().free(own, address);
            if let Err(error) = freed {
                tracing::error!(%error, "freeing the variables of a module");
            }
        }
    }

    fn client_mut(&mut self, domain: DomainId) -> Option<&mut Client> {
        self.context.as_mut()?.clients.get_mut(&domain.0)
    }

    /// Completes the parameters of a launch of a fenced kernel, and returns the domain in which it runs.
    pub(super) fn begin_launch(
        &mut self,
        launch: &LaunchCommand,
        params: &mut [u8],
    ) -> memory::DomainId {
        let domain = self.memory_of(launch.domain);
        let kernel = self.kernels.get(&launch.kernel.0);
        let is_fenced = kernel.is_some_and(|known| known.is_fenced);
        let (Some(reservation), true) = (self.reservation_of(launch.domain), is_fenced) else {
            return domain;
        };
        let control = params.first_chunk_mut::<{ CONTROL_BYTES as usize }>();
        if let (Some(context), Some(control)) = (&mut self.context, control) {
            let bits = launch.tag.to_bits();
            let counters = context.take(self.gpu.memory_mut(), bits);
            // Without counters the fence holds all the same, and faults are not told.
            reservation.put(control, counters.unwrap_or(0));
        }
        domain
    }

    /// Gives back what a launch had beside its blocks, and returns how it ended: a fault that the kernel recorded is
    /// one of its own.
    pub(super) fn end_launch(&mut self, bits: u64, outcome: Outcome) -> Outcome {
        let memory = self.gpu.memory_mut();
        let context = self.context.as_mut();
        let fault = context.and_then(|context| context.give_back(memory, bits));
        match (fault, outcome) {
            (Some(fault), Outcome::Done) => {
                self.faults.keep(bits, fault.to_string());
                Outcome::Failed(status_of(&fault))
            }
            _ => outcome,
        }
    }
}
