//! What a driver tells its policy, and how it takes its plans.
//!
//! Rules: everything that blocks did is sent before the ends, arrivals and plan that follow it; a row is introduced
//! before its first launch.

use super::feed::Open;
use super::types::Submission;
use super::{PolicyDriver, place};
use crate::counters::Counters;
use crate::occupancy::block_needs;
use crate::plan::Standing;
use gridmux_policy::Event;
use gridmux_policy::ids::{GroupId, RowId};
use gridmux_policy::units::{Cycles, Nanos};
use std::collections::BTreeMap;

impl PolicyDriver {
    /// Sends everything that blocks did until now, and then the ends.
    pub(super) fn report_ends(&mut self) {
        self.flush();
        for (launch, end) in std::mem::take(&mut self.ended) {
            let Some(open) = self.feed.closed(launch) else {
                continue;
            };
            let at = self.time(end);
            let row = open.row;
            self.tell(&Event::Ended { row, launch, at });
            let Some(book) = self.rows.get_mut(row) else {
                continue;
            };
            book.open -= 1;
            if open.ended < open.blocks && book.open > 0 {
                // Its blocks are gone without having ended.
                let counters = self.feed.counters(row, &self.rows, at);
                self.tell(&counters);
            }
        }
    }

    fn flush(&mut self) {
        let Self {
            feed,
            policy,
            counters,
            gpu,
            ..
        } = self;
        let config = gpu.config();
        let time = |at: Cycles| Nanos(config.cycles_to_ns(at.0));
        feed.flush(time, |event| {
            counters.events += 1;
            policy.observe(event);
        });
        for reached in self.gpu.take_caps_reached() {
            let at = self.time(reached.at);
            if self.rows.get(reached.row).is_some() {
                let row = reached.row;
                self.tell(&Event::CapReached { row, at });
            }
        }
    }

    pub(super) fn arrive(&mut self, number: u64, submission: &Submission) {
        let tenant = self.outcomes[place(number)].tenant;
        let threads = submission.block.iter().product();
        let dynamic = submission.dynamic_shared_bytes;
        let needs = block_needs(self.gpu.config(), &submission.kernel, threads, dynamic);
        let block = needs.counted();
        let found = self.rows.find(
            tenant,
            &submission.kernel,
            block,
            (number, self.publisher.newest()),
        );
        if let Some(gone) = found.gone {
            self.gpu.forget_row(gone);
            self.tell(&Event::RowGone { row: gone });
        }
        let row = found.row;
        if let Some(book) = self.rows.get(row).filter(|_| found.new) {
            let event = Event::RowNew {
                row,
                tenant,
                block: book.block,
                profile: book.profile,
                spill: book.spill,
            };
            self.tell(&event);
        }
        let standing = Standing { row, tenant };
        let launched = self.gpu.launch_under(standing, submission.request(number));
        let at = self.gpu.now_ns();
        let outcome = &mut self.outcomes[place(number)];
        outcome.row = Some(row);
        if let Err(error) = launched {
            outcome.end = Some(self.gpu.now());
            outcome.error = Some(error.into());
            self.unfinished -= 1;
            return;
        }
        if let Some(book) = self.rows.get_mut(row) {
            book.open += 1;
        }
        let blocks = submission.grid.iter().map(|n| u64::from(*n)).product();
        let open = Open::new(row, tenant, block, blocks);
        self.feed.arrived(number, open, at);
        self.tell(&Event::Arrive {
            row,
            launch: number,
            blocks,
            at,
        });
    }

    pub(super) fn row_gone(&mut self, row: RowId) {
        self.rows.remove(row, self.publisher.epoch());
        self.gpu.forget_row(row);
        self.tell(&Event::RowGone { row });
    }

    /// Sends what each row's blocks did on each group, if the last time is long enough ago.
    pub(super) fn sample(&mut self) {
        let now = self.gpu.now();
        if now - self.sampled_at < self.options.sample_every {
            return;
        }
        self.sampled_at = now;
        let mut sums: BTreeMap<(RowId, GroupId), Counters> = BTreeMap::new();
        for sample in self.gpu.samples() {
            if self.rows.get(sample.row).is_some() {
                let group = self.publisher.newest().group_of(sample.sm);
                let key = (sample.row, group.unwrap_or(GroupId::UNKNOWN));
                *sums.entry(key).or_default() += sample.counters;
            }
        }
        for ((row, group), sum) in sums {
            self.tell(&Event::Sample {
                row,
                group,
                block_cycles: sum.block_cycles,
                issued: sum.warp_instructions - sum.folded_instructions,
                memory_stalls: sum.stall_memory_cycles,
                dram_bytes: sum.dram_read_bytes + sum.dram_write_bytes,
            });
        }
    }

    pub(super) fn replan(&mut self, at: Nanos) {
        self.counters.replans += 1;
        let mut draft = self.publisher.edit();
        let (standing, next) = draft.both();
        if self.policy.replan(at, standing, next) {
            draft.publish();
            self.counters.plans += 1;
            self.gpu.set_plan(self.publisher.newest());
        }
        let soonest = self.gpu.now().0 + 1;
        let config = self.gpu.config();
        let wake = self.policy.wake_at();
        self.wake_at = wake.map(|at| Cycles(config.ns_to_cycles(at.0).max(soonest)));
    }
}
