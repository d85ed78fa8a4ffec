//! What a driver tells its policy, and how it takes its plans.
//!
//! Rules: everything that blocks did is sent before the ends, arrivals and plan that follow it; a row is introduced
//! before its first launch.

use super::Standing;
use super::engine::{Engine, RowSample};
use super::feed::Open;
use super::{Coming, Driver, place};
use gridmux_policy::event::Event;
use gridmux_policy::ids::{GroupId, RowId};
use gridmux_policy::policy::Policy as _;
use gridmux_policy::units::{Cycles, Nanos};
use std::collections::BTreeMap;

impl<E: Engine> Driver<E> {
    /// Sends everything that blocks did until now, and then the ends.
    pub(super) fn report_ends(&mut self) {
        self.flush();
        let mut next = Vec::new();
        for (launch, end) in std::mem::take(&mut self.ended) {
            let Some((open, follows)) = self.feed.closed(launch) else {
                continue;
            };
            let at = self.time(end);
            next.extend(follows.map(|launch| (launch, at)));
            let row = open.row;
            if open.is_announced {
                self.tell(&Event::Ended { row, launch, at });
            }
            let Some(book) = self.rows.get_mut(row) else {
                continue;
            };
            book.open -= 1;
            if open.is_announced && open.ended < open.blocks && book.open > 0 {
                // Its blocks are gone without having ended.
                let counters = self.feed.counters(row, book.ended, at);
                self.tell(&counters);
            }
        }
        for (launch, at) in next {
            self.announce(launch, at);
        }
    }

    /// Tells the policy of a launch that nothing before it holds up.
    fn announce(&mut self, launch: u64, at: Nanos) {
        if let Some(event) = self.feed.announce(launch, at) {
            self.tell(&event);
        }
    }

    fn flush(&mut self) {
        let Self {
            feed,
            policy,
            learner,
            counters,
            engine,
            ..
        } = self;
        feed.flush(
            |at| engine.time(at),
            |event| {
                counters.events += 1;
                if let Some(learner) = learner {
                    learner.observe(event);
                }
                policy.observe(event);
            },
        );
    }

    pub(super) fn arrive(&mut self, number: u64, (submission, described): &Coming<E>) {
        let tenant = self.outcomes[place(number)].tenant;
        let block = described.block;
        let found = self.rows.find(
            tenant,
            &described.kernel,
            block,
            (number, self.publisher.newest()),
            || self.engine.profile(&described.kernel, &block),
        );
        if let Some(gone) = found.gone {
            self.engine.forget_row(gone);
            self.tell(&Event::RowGone { row: gone });
        }
        let row = found.row;
        if let Some(book) = self.rows.get(row).filter(|_| found.new) {
            let event = book.introduction(row);
            self.tell(&event);
        }
        let standing = Standing { row, tenant };
        let launched = self.engine.launch(number, standing, submission);
        let at = self.now_ns();
        let outcome = &mut self.outcomes[place(number)];
        outcome.row = Some(row);
        if let Err(error) = launched {
            outcome.error = Some(error);
            self.close(number, self.engine.now());
            return;
        }
        if let Some(book) = self.rows.get_mut(row) {
            book.open += 1;
        }
        let size = (block, described.blocks);
        let open = Open::new((row, tenant), described.queue, size, at);
        if self.feed.arrived(number, open, at) {
            self.announce(number, at);
        }
    }

    /// Tells the policy what lives, as after a loss.
    pub(super) fn tell_anew(&mut self, at: Nanos) {
        self.tell(&Event::Lost { n: 0 });
        for event in self.feed.tenants().collect::<Vec<_>>() {
            self.tell(&event);
        }
        let rows = self.rows.iter().map(|(row, book)| {
            let new = book.introduction(row);
            [new, self.feed.counters(row, book.ended, at)]
        });
        for event in rows.collect::<Vec<_>>().concat() {
            self.tell(&event);
        }
        self.tell(&Event::Resynced);
    }

    pub(super) fn row_gone(&mut self, row: RowId) {
        self.rows.remove(row, self.publisher.epoch());
        self.engine.forget_row(row);
        self.tell(&Event::RowGone { row });
    }

    /// Sends what each row's blocks did on each group, if the last time is long enough ago.
    pub(super) fn sample(&mut self) {
        let now = self.engine.now();
        if now - self.sampled_at < self.options.sample_every {
            return;
        }
        self.sampled_at = now;
        let mut sums: BTreeMap<(RowId, GroupId), RowSample> = BTreeMap::new();
        for sample in self.engine.samples() {
            if self.rows.get(sample.row).is_some() {
                let group = self.publisher.newest().group_of(sample.sm);
                let key = (sample.row, group.unwrap_or(GroupId::UNKNOWN));
                let sum = sums.entry(key).or_insert(RowSample {
                    row: sample.row,
                    ..RowSample::default()
                });
                sum.add(&sample);
            }
        }
        for ((_, group), sum) in sums {
            for event in sum.events(group) {
                self.tell(&event);
            }
        }
    }

    pub(super) fn replan(&mut self, at: Nanos) {
        self.counters.replans += 1;
        let mut draft = self.publisher.edit();
        let (standing, next) = draft.both();
        if self.policy.replan(at, standing, next) {
            draft.publish();
            self.counters.plans += 1;
            self.engine.set_plan(self.publisher.newest());
        }
        let soonest = self.engine.now() + Cycles(1);
        let wake = self.policy.wake_at();
        self.wake_at = wake.map(|at| self.engine.cycle(at).max(soonest));
        self.watch = self.policy.watch();
        if let Some(watch) = self.watch
            && self
                .rows
                .get(watch.row)
                .is_some_and(|row| row.ended >= watch.ended)
        {
            self.watch = None;
        }
    }
}
