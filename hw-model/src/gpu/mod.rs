//! The whole device behind one handle.
//!
//! [`Gpu::advance`] is the loop: it skips to the next event, runs one epoch (blocks are placed, SMs run, the memory
//! system serves, ended blocks are counted: `epoch`), and stops when there is something to report.
//! Rules: epochs lie on a fixed grid, so that the cycles of a run do not depend on how the caller cuts time; a
//! launch that faults or is killed leaves its SMs at the end of the epoch.
//! Length: the whole public interface of the device stands in one place; each method is short.

mod cooperative;
mod cost;
mod epoch;
mod functional;
mod lines;

pub use functional::{RunError, run_functional, run_functional_cooperative};
pub use lines::LineStalls;

use crate::compile::{self, Compiled, Loading};
use crate::config::GpuConfig;
use crate::copies::CopyQueues;
use crate::counters::Counters;
use crate::fault::Fault;
use crate::functional::{Functional, Room};
use crate::kernel::LoadedModule;
use crate::launch::{self, Copy, Launch, LaunchError};
use crate::load_error::LoadError;
use crate::memory::{DomainId, Memory, MemoryError, Partition};
use crate::plan::obey::Obey;
use crate::plan::{BlockEvent, PlanOptions, Sample, Standing};
use crate::report::{Advance, Printed, Report};
use crate::texture::TextureError;
use crate::timing::dispatch::{Dispatcher, Placement};
use crate::timing::launches::Launches;
use crate::timing::machine::Machine;
use crate::timing::sm::Sm;
use crate::timing::totals::add_row;
use gridmux_policy::PlanReader;
use gridmux_policy::ids::{RowId, SmId, TenantId};
use gridmux_policy::plan::Plan;
use gridmux_policy::shape::Held;
use gridmux_policy::units::{Cycles, Nanos};
use gridmux_ptx::decode::Program;
use std::collections::HashMap;
use std::sync::Arc;

/// Longest epoch in cycles; shorter where the way to L2 is.
const EPOCH_CYCLES: u64 = 32;

/// A modelled GPU.
#[derive(Debug)]
pub struct Gpu {
    config: GpuConfig,
    memory: Memory,
    now: u64,
    epoch_cycles: u64,
    machine: Machine,
    launches: Launches,
    tags: HashMap<u64, u32>,
    resident: cost::Resident,
    dispatcher: Dispatcher,
    /// The block scheduler of `plan` mode; without one, the stock scheduler.
    obey: Option<Box<Obey>>,
    copies: CopyQueues,
    /// Storage of functional runs that have ended, and the memory of those that have not.
    functional: Vec<Functional>,
    live_room: Room,
    printed: Vec<Printed>,
    placed: Vec<Placement>,
    faults: Vec<(u64, u32, Box<Fault>)>,
    drafts: Vec<Report>,
    /// Ends of blocks are recorded while no plan is set.
    records: bool,
    block_events: Vec<BlockEvent>,
}

// SAFETY: the raw pointers inside a `Gpu` (register slots, shared memory, parameters, the hosts' mapping) point
// into buffers that the same `Gpu` owns and that do not move when it does; nothing outside keeps a copy.
unsafe impl Send for Gpu {}

impl Gpu {
    /// Returns an idle GPU at cycle 0.
    #[must_use]
    pub fn new(config: GpuConfig) -> Self {
        Self {
            memory: Memory::default(),
            now: 0,
            epoch_cycles: EPOCH_CYCLES.min(u64::from(config.interconnect.latency)),
            machine: Machine::new(&config),
            launches: Launches::new(),
            tags: HashMap::with_capacity(1024),
            resident: cost::Resident::default(),
            dispatcher: Dispatcher::new(&config),
            obey: None,
            copies: CopyQueues::default(),
            functional: Vec::new(),
            live_room: Room::default(),
            printed: Vec::new(),
            placed: Vec::with_capacity(256),
            faults: Vec::new(),
            drafts: Vec::with_capacity(256),
            records: false,
            block_events: Vec::new(),
            config,
        }
    }

    /// Lets `threads` threads run the model from now on, the caller's included; zero counts as one.
    ///
    /// Cycles, counters and memory are the same whatever their number. They sleep while [`Gpu::advance`] does not
    /// run.
    pub fn set_threads(&mut self, threads: usize) {
        self.machine.set_threads(threads);
    }

    /// Returns what blocks that ended on each SM did, over all launches so far. What their requests came to behind L1
    /// is added when their launch ends.
    #[must_use]
    pub fn sm_counters(&self) -> Vec<Counters> {
        self.machine.sms.iter().map(|sm| *sm.totals()).collect()
    }

    /// Obeys a plan from now on, instead of the stock block scheduler or the plan before. What it asks for and
    /// this GPU does not have is left out. Resident blocks stay until the plan's way of giving up takes them.
    ///
    /// A plan whose epoch follows that of the plan before comes from the same publisher: its dirty bits are believed.
    /// Starts are counted from the first plan on, for launches that are open then from their beginning.
    pub fn set_plan(&mut self, plan: &Plan) {
        let (config, launches, now) = (&self.config, &self.launches, self.now);
        let sms = &mut self.machine.sms;
        let obey = self
            .obey
            .get_or_insert_with(|| Box::new(Obey::new(config, sms, launches)));
        obey.reader = None;
        obey.replace(plan, sms, now);
    }

    /// Obeys the plans of a publisher: the newest one is read at the beginning of each epoch in which something
    /// happens.
    pub fn follow_plans(&mut self, mut reader: PlanReader) {
        self.set_plan(reader.read());
        if let Some(obey) = &mut self.obey {
            obey.reader = Some(reader);
        }
    }

    /// Sets how switches behave in `plan` mode; nothing while no plan is set.
    pub fn set_plan_options(&mut self, options: PlanOptions) {
        if let Some(obey) = &mut self.obey {
            obey.options = options;
        }
    }

    /// Forgets what was counted for a row of which no launch is open, so that its id may name another row: its starts,
    /// the times of its blocks and its samples.
    pub fn forget_row(&mut self, row: RowId) {
        if let Some(obey) = &mut self.obey {
            obey.forget_row(row);
        }
        for sm in &mut self.machine.sms {
            sm.forget_row(row);
        }
    }

    /// Returns what a tenant's resident blocks hold, those that come included and those that leave not, as plans count
    /// it; nothing while no plan is set.
    #[must_use]
    pub fn held(&self, tenant: TenantId) -> Held {
        let obey = self.obey.as_ref();
        obey.map_or_else(Held::default, |obey| obey.held(tenant))
    }

    /// Records every block's events for [`Gpu::take_block_events`] from now on, and while no plan is set the ends of
    /// blocks alone. To be said again after the first plan was set.
    pub fn record_block_events(&mut self, on: bool) {
        self.records = on;
        if let Some(obey) = &mut self.obey {
            obey.records = on;
        }
    }

    /// Events of blocks since the last call; those of one epoch are in order of SM, not of time.
    pub fn take_block_events(&mut self) -> Vec<BlockEvent> {
        match &mut self.obey {
            Some(obey) => std::mem::take(&mut obey.events),
            None => std::mem::take(&mut self.block_events),
        }
    }

    /// Switches out the nth block that runs on an SM, whatever the plan says; it comes back when the plan has room
    /// for it. False where there is none, or no plan.
    pub fn switch_out(&mut self, sm: SmId, nth: usize) -> bool {
        let sms = &mut self.machine.sms;
        let obey = self.obey.as_mut();
        obey.is_some_and(|obey| obey.switch_out_nth(sms, sm, nth))
    }

    /// Returns the blocks that were switched out and are on no SM.
    #[must_use]
    pub fn switched_blocks(&self) -> usize {
        self.obey.as_ref().map_or(0, |obey| obey.saved_blocks())
    }

    /// Returns, for each SM and row, what its blocks did there so far, running ones included.
    #[must_use]
    pub fn samples(&self) -> Vec<Sample> {
        let numbered = (0..).zip(&self.machine.sms);
        let of_sm = |(id, sm): (u16, &Sm)| {
            let mut rows = sm.sample(self.now);
            for (launch, counters) in self.machine.tally_of_sm(id) {
                if let Some(launch) = self.launches.get(*launch) {
                    add_row(&mut rows, launch.row, counters);
                }
            }
            rows.into_iter().map(move |(row, counters)| Sample {
                sm: SmId(id),
                row,
                counters,
            })
        };
        numbered.flat_map(of_sm).collect()
    }

    /// Returns its description.
    #[must_use]
    pub fn config(&self) -> &GpuConfig {
        &self.config
    }

    /// Returns the time in core cycles.
    #[must_use]
    pub fn now(&self) -> Cycles {
        Cycles(self.now)
    }

    /// Returns the time in nanoseconds of the core clock.
    #[must_use]
    pub fn now_ns(&self) -> Nanos {
        Nanos(self.config.cycles_to_ns(self.now))
    }

    /// Returns the device memory.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns device memory, to allocate, free and write. A domain with launches goes by [`Gpu::destroy_domain`]; were
    /// its memory destroyed alone, they would stand still until they are killed.
    pub fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Loads a module all of whose kernels can run; `text` is the PTX it was decoded from, for line numbers in
    /// messages.
    ///
    /// # Errors
    /// [`LoadError`], naming what is not modelled and where; a refused module leaves nothing behind.
    pub fn load(
        &mut self,
        domain: DomainId,
        program: &Program,
        text: &[u8],
    ) -> Result<Arc<LoadedModule>, LoadError> {
        let (config, memory) = (&self.config, &mut self.memory);
        let module = compile::load(config, memory, domain, (program, text), None)?;
        self.whole(module)
    }

    /// Loads those of a module's kernels that can run; [`LoadedModule::refused`] names the others.
    ///
    /// # Errors
    /// What concerns the module as a whole: a variable that cannot be placed, or no room for all of them.
    pub fn load_each(
        &mut self,
        domain: DomainId,
        program: &Program,
        text: &[u8],
    ) -> Result<Arc<LoadedModule>, LoadError> {
        let (config, memory) = (&self.config, &mut self.memory);
        compile::load(config, memory, domain, (program, text), None).map(Arc::new)
    }

    /// Loads a module for one of its kernels; what the model makes of the others does not matter.
    ///
    /// # Errors
    /// As [`Gpu::load_each`].
    pub fn load_one(
        &mut self,
        domain: DomainId,
        (program, text): (&Program, &[u8]),
        entry: &str,
    ) -> Result<Arc<LoadedModule>, LoadError> {
        let (config, memory) = (&self.config, &mut self.memory);
        compile::load(config, memory, domain, (program, text), Some(entry)).map(Arc::new)
    }

    /// Returns the same, with the module's variables in a tenant's partition, as the fence asks.
    ///
    /// # Errors
    /// As [`Gpu::load_each`].
    pub fn load_one_in(
        &mut self,
        partition: Partition,
        (program, text): (&Program, &[u8]),
        entry: &str,
    ) -> Result<Arc<LoadedModule>, LoadError> {
        let (config, domain, only) = (&self.config, partition.domain, Some(entry));
        let loaded = self.memory.placing_in(partition, |memory| {
            compile::load(config, memory, domain, (program, text), only)
        });
        loaded.map(Arc::new)
    }

    /// Places the variables of a module that is loaded in steps: this, [`Loading::compile`], and [`Gpu::adopt`].
    ///
    /// # Errors
    /// As [`Gpu::load_each`].
    pub fn place(&mut self, loading: &mut Loading<'_>) -> Result<(), LoadError> {
        loading.place(&mut self.memory)
    }

    /// Takes over a module whose kernels are compiled.
    pub fn adopt(&mut self, compiled: Compiled) -> Arc<LoadedModule> {
        Arc::new(compiled.adopt(&mut self.memory))
    }

    /// Returns a module unless one of its kernels cannot run.
    fn whole(&mut self, mut module: LoadedModule) -> Result<Arc<LoadedModule>, LoadError> {
        if module.refused.is_empty() {
            return Ok(Arc::new(module));
        }
        self.unload(&module);
        Err(module.refused.swap_remove(0).1)
    }

    /// Loads a module whose variables belong in a tenant's partition, as the fence asks.
    ///
    /// # Errors
    /// As [`Gpu::load`].
    pub fn load_in(
        &mut self,
        partition: Partition,
        program: &Program,
        text: &[u8],
    ) -> Result<Arc<LoadedModule>, LoadError> {
        let config = &self.config;
        let module = self.memory.placing_in(partition, |memory| {
            compile::load(config, memory, partition.domain, (program, text), None)
        })?;
        self.whole(module)
    }

    /// Writes an object's handle into a `.texref`, `.samplerref` or `.surfref` variable of a module.
    ///
    /// # Errors
    /// [`TextureError::NoObject`] when the module has no such variable.
    pub fn bind(
        &mut self,
        module: &LoadedModule,
        name: &str,
        handle: u64,
    ) -> Result<(), TextureError> {
        let no_such = || TextureError::NoObject(name.to_owned());
        let found = module
            .variables()
            .iter()
            .find(|v| v.name == name && v.bytes == 8);
        let address = found.ok_or_else(no_such)?.address;
        let written = self
            .memory
            .write(module.domain(), address, &handle.to_le_bytes());
        written.map_err(|_| no_such())
    }

    /// Frees a module's variables; its kernels must not run any more.
    pub fn unload(&mut self, module: &LoadedModule) {
        let addresses = module.variables().iter().map(|variable| variable.address);
        // The caller may have destroyed the domain before, which freed them, too.
        self.memory.free_all(module.domain(), addresses.collect());
    }

    /// Queues a launch at the present time, submitted by the one thread of those who launch under no row.
    ///
    /// # Errors
    /// [`LaunchError`]; a refused launch leaves no trace.
    pub fn launch(&mut self, request: Launch<'_>) -> Result<(), LaunchError> {
        self.submit(request, Standing::NONE, false).map(drop)
    }

    /// Queues a launch as a node of a graph behind the newest launch of its queue. It has come to the GPU with that
    /// one: no thread of the host submits it by itself, and it may start `launch.front_end_cycles` after its end.
    /// Where no launch of the queue is in flight, the node is the first of its graph.
    ///
    /// # Errors
    /// As [`Gpu::launch`].
    pub fn launch_node(&mut self, request: Launch<'_>) -> Result<(), LaunchError> {
        self.submit(request, Standing::NONE, true).map(drop)
    }

    /// Queues a launch that runs under a row of the plan; where no plan is set it only names the sample. The thread of
    /// the row's tenant submits it.
    ///
    /// # Errors
    /// As [`Gpu::launch`].
    pub fn launch_under(
        &mut self,
        standing: Standing,
        request: Launch<'_>,
    ) -> Result<(), LaunchError> {
        self.submit(request, standing, false).map(drop)
    }

    /// Queues a launch; returns its index.
    fn submit(
        &mut self,
        request: Launch<'_>,
        standing: Standing,
        is_node: bool,
    ) -> Result<u32, LaunchError> {
        launch::check(&self.config, &request)?;
        self.check_tag(request.tag)?;
        let tag = request.tag;
        if self.memory.domain(request.domain).is_err() {
            return Err(LaunchError::WrongDomain {
                kernel: request.kernel.name.to_string(),
                domain: request.domain,
            });
        }
        let index = self.launches.insert(&self.config, request, standing);
        self.tags.insert(tag, index);
        self.resident.changed();
        self.machine.forget_tally(index);
        let launches = &mut self.launches;
        self.dispatcher.submit(index, launches, self.now, is_node);
        if let Some(obey) = &mut self.obey {
            obey.opened_all();
        }
        Ok(index)
    }

    /// Queues a copy's duration.
    ///
    /// # Errors
    /// [`LaunchError::TagInUse`].
    pub fn copy(&mut self, copy: Copy) -> Result<(), LaunchError> {
        self.check_tag(copy.tag)?;
        self.copies.submit(&self.config, copy, self.now);
        Ok(())
    }

    fn check_tag(&self, tag: u64) -> Result<(), LaunchError> {
        if self.tags.contains_key(&tag) || self.copies.contains(tag) {
            return Err(LaunchError::TagInUse(tag));
        }
        Ok(())
    }

    /// Lets time pass until `until`, or until something is to be reported; reports are appended in order of time.
    ///
    /// Time moves in epochs of a few tens of cycles on a fixed grid, so it may pass `until` by less than one.
    pub fn advance(&mut self, until: Cycles, reports: &mut Vec<Report>) -> Advance {
        while self.now < until.0 {
            if self.idle() {
                self.now = until.0;
                return Advance::Idle;
            }
            let next = self.next_event().map_or(until.0, |next| next.max(self.now));
            if next >= until.0 {
                self.now = until.0;
                break;
            }
            // Skip to the beginning of the next event's epoch, unless time stands inside it already.
            self.now = self.now.max(next / self.epoch_cycles * self.epoch_cycles);
            let end = (self.now / self.epoch_cycles + 1) * self.epoch_cycles;
            self.run_epoch(end);
            if !self.drafts.is_empty() {
                reports.append(&mut self.drafts);
                return Advance::Reported;
            }
        }
        Advance::Reached
    }

    /// Drops a launch or copy, queued or running; nothing is reported for it any more. False if there is none.
    pub fn kill(&mut self, tag: u64) -> bool {
        match self.tags.get(&tag).copied() {
            Some(index) => {
                self.drop_launch(index, self.now);
                true
            }
            None => self.copies.kill(tag),
        }
    }

    /// Drops every launch of a domain.
    pub fn kill_domain(&mut self, domain: DomainId) {
        let of_domain = self.launches.iter().filter(|(_, l)| l.domain == domain);
        let doomed: Vec<u32> = of_domain.map(|(index, _)| index).collect();
        for index in doomed {
            self.drop_launch(index, self.now);
        }
    }

    /// Drops every launch of a domain and then the domain with everything in it.
    ///
    /// # Errors
    /// [`MemoryError::NoDomain`].
    pub fn destroy_domain(&mut self, domain: DomainId) -> Result<(), MemoryError> {
        self.kill_domain(domain);
        self.memory.destroy_domain(domain)
    }

    /// Takes what launches have printed with `printf` so far, functional ones included. The text of one launch
    /// is in order of epoch and then of SM; lanes of a warp print in ascending order.
    pub fn take_printed(&mut self) -> Vec<Printed> {
        std::mem::take(&mut self.printed)
    }

    /// Returns whether nothing is queued, running or being copied.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.launches.is_empty() && self.copies.is_empty()
    }

    /// Returns the blocks that are resident now, over all SMs.
    #[must_use]
    pub fn resident_blocks(&self) -> u32 {
        self.machine.sms.iter().map(Sm::resident_blocks).sum()
    }

    fn drop_launch(&mut self, index: u32, now: u64) {
        let Some(launch) = self.launches.get(index) else {
            return;
        };
        self.tags.remove(&launch.tag);
        let (row, tenant, counted) = (launch.row, launch.tenant, launch.counted);
        let blocks = self.machine.sms.iter().flat_map(Sm::present);
        let held = blocks.filter(|block| block.launch == index).count();
        self.resident.changed();
        for sm in &mut self.machine.sms {
            sm.drop_launch(index, now);
        }
        self.machine.take_tally(index, row);
        self.dispatcher.remove(index, &mut self.launches, self.now);
        if let Some(obey) = &mut self.obey {
            obey.dropped(
                index,
                tenant,
                &counted,
                u32::try_from(held).unwrap_or(u32::MAX),
            );
        }
        self.forget_launch(index);
    }
}
