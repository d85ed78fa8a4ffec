//! The executor as an engine of the driver.

use super::counted::Counted;
use super::demand::Demand;
use super::kernel::Blocks;
use super::launches::Launch;
use super::sm::Sm;
use super::{EventExecutor, EventKernel, EventSubmission, LaunchCounters, MOST_EVENTS, Refusal};
use crate::driver::{BlockEvent, Described, Ending, Engine, RowSample, Standing};
use gridmux_policy::hash::Fnv;
use gridmux_policy::ids::{KernelKey, ProfileKey, RowId, SmId};
use gridmux_policy::plan::Plan;
use gridmux_policy::policy::Watch;
use gridmux_policy::shape::{BlockShape, DeviceShape, max_residency};
use gridmux_policy::units::{Cycles, Nanos};
use std::sync::Arc;

/// Bytes of a line and of a sector, which caches fetch.
const LINE_BYTES: u64 = 128;
const SECTOR_BYTES: u64 = 32;

impl Engine for EventExecutor {
    type Kernel = EventKernel;
    type Submission = EventSubmission;
    type Counters = LaunchCounters;
    type Refusal = Refusal;
    type Failure = Refusal;

    fn shape(&self) -> DeviceShape {
        self.config.shape
    }

    fn now(&self) -> Cycles {
        Cycles(self.now)
    }

    fn time(&self, at: Cycles) -> Nanos {
        let ns = u128::from(at.0) * 1_000 / u128::from(self.config.clock_mhz.max(1));
        Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    fn cycle(&self, at: Nanos) -> Cycles {
        let cycles = (u128::from(at.0) * u128::from(self.config.clock_mhz)).div_ceil(1_000);
        Cycles(u64::try_from(cycles).unwrap_or(u64::MAX))
    }

    fn describe(&self, submission: &EventSubmission) -> Result<Described<EventKernel>, Refusal> {
        submission.check(&self.config.shape)?;
        Ok(Described {
            kernel: Arc::clone(&submission.kernel),
            block: submission.kernel.block,
            blocks: submission.blocks,
            queue: submission.queue.into(),
        })
    }

    fn profile(&self, kernel: &EventKernel, block: &BlockShape) -> ProfileKey {
        ProfileKey::new(KernelKey::new(Fnv::default(), &kernel.name), block)
    }

    fn set_plan(&mut self, plan: &Plan) {
        self.plan.clone_from(plan);
        self.is_new = true;
        self.is_lending = (0..plan.groups().len()).any(|group| self.lends(group));
        self.launches.stale = true;
        self.open.fill();
    }

    fn launch(
        &mut self,
        number: u64,
        standing: Standing,
        submission: &EventSubmission,
    ) -> Result<(), Refusal> {
        let shape = self.config.shape;
        submission.check(&shape)?;
        let kernel = Arc::clone(&submission.kernel);
        let most = max_residency(&shape, &kernel.block);
        let contention = self.config.contention;
        let work = Blocks::new(submission, &shape, contention.wave_part);
        let demand = Demand::new(&contention, &kernel.uses);
        self.launches.insert(Launch::new(
            (number, standing.row),
            (standing.tenant, submission.queue),
            (kernel, demand, work),
            (submission.blocks, most),
            self.now + self.config.launch_cycles,
        ));
        self.open.fill();
        Ok(())
    }

    fn kill(&mut self, number: u64) {
        let Some(slot) = self.launches.slot_of(number) else {
            return;
        };
        let mut counted = 0;
        for sm in 0..self.sms.len() {
            self.sms[sm].pass_to(self.now);
            counted += self.sms[sm].drop_launch(slot);
            self.moved.set(sm);
        }
        let launch = self.launches.remove(slot);
        let dependent = self.now + self.config.dependent_cycles;
        self.launches.follow(&launch, dependent);
        self.tenant(launch.tenant)
            .remove(&launch.kernel.block, counted);
        self.open.fill();
    }

    fn forget_row(&mut self, row: RowId) {
        let now = self.now;
        self.sms.iter_mut().for_each(|sm| sm.forget_row(row, now));
        *self.row(row) = Default::default();
    }

    fn advance(&mut self, until: Cycles, watch: Option<Watch>) -> Vec<Ending<Self>> {
        while self.now < until.0 {
            self.place();
            let ready = self.launches.next_ready;
            let next = self.next_dispatch().min(self.next_at.least());
            self.now = next.min(ready).min(until.0);
            if self.now == ready {
                self.launches.next_ready = u64::MAX;
                self.launches.stale = true;
                self.open.fill();
            }
            self.retire();
            let reached = watch.is_some_and(|watch| self.row(watch.row).ended >= watch.ended);
            if reached || !self.ended.is_empty() || self.events.len() >= MOST_EVENTS {
                break;
            }
        }
        std::mem::take(&mut self.ended)
    }

    fn take_blocks(&mut self) -> Vec<BlockEvent> {
        std::mem::take(&mut self.events)
    }

    /// Returns what blocks of kernels that were measured would have issued and moved. What else is counted follows from
    /// that as if every access were a load of a line that no cache has.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts of a simulation stay below 2^53 and are not negative"
    )]
    fn samples(&self) -> Vec<RowSample> {
        let shape = &self.config.shape;
        let slots = f64::from(self.config.issue_width);
        let bytes = f64::from(shape.dram_bytes_per_kcycle) / 1e3 / f64::from(shape.sms.max(1));
        let sample = |(sm, counted): (usize, Counted)| {
            let dram_bytes = (counted.uses.dram * bytes * counted.full_cycles) as u64;
            let lines = dram_bytes / LINE_BYTES;
            RowSample {
                sm: SmId(u16::try_from(sm).unwrap_or(u16::MAX)),
                row: counted.row,
                cycles: self.now,
                block_cycles: counted.block_cycles as u64,
                issued: (counted.uses.issue * slots * counted.full_cycles) as u64,
                memory_stalls: 0,
                l1_misses: dram_bytes / SECTOR_BYTES,
                l2_misses: dram_bytes / SECTOR_BYTES,
                dram_bytes,
                loads: lines,
                accesses: lines,
                lines,
                l1_hits: 0,
                l2_hits: 0,
                shared: 0,
                special: 0,
            }
        };
        let sms = self.sms.iter().enumerate();
        let of_sm = |sm: &Sm| sm.counted(self.now);
        let rows = sms.flat_map(|(at, sm)| of_sm(sm).into_iter().map(move |row| (at, row)));
        rows.map(sample).collect()
    }
}
