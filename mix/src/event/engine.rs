//! The executor as an engine of the driver.

use super::kernel::Blocks;
use super::launches::Launch;
use super::{EventExecutor, EventKernel, EventSubmission, LaunchCounters, MOST_EVENTS, Refusal};
use crate::driver::{BlockEvent, CapReached, Described, Ending, Engine, RowSample, Standing};
use gridmux_policy::hash::Fnv;
use gridmux_policy::ids::{KernelKey, ProfileKey, RowId};
use gridmux_policy::plan::Plan;
use gridmux_policy::policy::Watch;
use gridmux_policy::shape::{BlockShape, DeviceShape, max_residency};
use gridmux_policy::units::{Cycles, Nanos};
use std::sync::Arc;

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
        self.rows.iter_mut().for_each(|row| row.capped = false);
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
        let work = Blocks::new(submission, &shape, self.config.contention.wave_part);
        self.launches.insert(Launch::new(
            (number, standing.row),
            (standing.tenant, submission.queue),
            (kernel, work),
            (submission.blocks, most),
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
        self.tenant(launch.tenant)
            .remove(&launch.kernel.block, counted);
        self.open.fill();
    }

    fn forget_row(&mut self, row: RowId) {
        *self.row(row) = Default::default();
    }

    fn advance(&mut self, until: Cycles, watch: Option<Watch>) -> Vec<Ending<Self>> {
        while self.now < until.0 {
            self.place();
            self.now = self.next_dispatch().min(until.0).min(self.next_at.least());
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

    fn take_caps_reached(&mut self) -> Vec<CapReached> {
        std::mem::take(&mut self.caps_reached)
    }

    /// Returns nothing: no instruction is executed.
    fn samples(&self) -> Vec<RowSample> {
        Vec::new()
    }
}
