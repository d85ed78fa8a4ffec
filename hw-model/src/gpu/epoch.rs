//! One epoch of the device: blocks are placed, the machine runs, what came of it is reported.
//!
//! Rule: reports of an epoch are in order of time; a launch that faulted leaves its SMs at the epoch's end, and of
//! several faults of one launch the first counts.

use super::Gpu;
use crate::explain::attribute;
use crate::plan::{BlockChange, block_event};
use crate::report::{Report, append_printed};
use crate::timing::dispatch::Placement;
use crate::timing::machine::Around;
use crate::timing::sm::SmEvent;
use crate::timing::sm_faults::overran_waiting;
use gridmux_policy::units::Cycles;

impl Gpu {
    /// Returns the first time at which anything can happen.
    pub(super) fn next_event(&mut self) -> Option<u64> {
        let events = [
            self.machine.next_event(),
            match &self.obey {
                Some(obey) => obey.next_event(&self.dispatcher),
                None => self.dispatcher.next_event(),
            },
            self.copies.next_event(),
            self.launches.next_deadline(),
        ];
        events.into_iter().flatten().min()
    }

    pub(super) fn run_epoch(&mut self, end: u64) {
        self.placed.clear();
        self.resident.changed();
        if let Some(obey) = &mut self.obey {
            let on = (&mut self.machine.sms[..], &mut self.launches);
            obey.follow(on.0, self.now);
            let times = (self.now, end);
            obey.place(
                &self.config,
                &mut self.dispatcher,
                on,
                times,
                &mut self.placed,
            );
        } else {
            self.dispatcher.place(
                &mut self.machine.sms,
                &mut self.launches,
                self.now,
                end,
                &mut self.placed,
            );
        }
        let around = Around {
            config: &self.config,
            memory: &self.memory,
            launches: &self.launches,
        };
        self.machine.run(around, self.now, end);
        self.report_placed();
        self.collect_events();
        self.check_budgets(end);
        self.end_faulted(end);
        while let Some((tag, at)) = self.copies.pop(end) {
            self.drafts.push(Report::Copied {
                tag,
                at: Cycles(at),
            });
        }
        self.drafts.sort_unstable_by_key(Report::order);
        self.now = end;
    }

    fn report_placed(&mut self) {
        for placement in &self.placed {
            let Some(launch) = self.launches.get(placement.launch) else {
                continue;
            };
            let (tag, at) = (launch.tag, Cycles(placement.at));
            if let Some(Report::Placed {
                tag: last,
                blocks,
                at: then,
            }) = self.drafts.last_mut()
                && *last == tag
                && *then == at
            {
                *blocks += 1;
                continue;
            }
            self.drafts.push(Report::Placed { tag, blocks: 1, at });
        }
    }

    fn collect_events(&mut self) {
        let mut ended = std::mem::take(&mut self.placed);
        ended.clear();
        for (id, sm) in (0..).zip(&mut self.machine.sms) {
            if !std::mem::take(&mut sm.status().events) {
                continue;
            }
            for event in sm.events().drain(..) {
                match event {
                    SmEvent::Printed { launch, said } => {
                        if let Some(state) = self.launches.get(launch) {
                            append_printed(&mut self.printed, state.tag, state.domain, &said);
                        }
                    }
                    SmEvent::Faulted { launch, at, fault } => self.faults.push((at, launch, fault)),
                    SmEvent::Retired {
                        launch,
                        linear,
                        at,
                        counters,
                        ran_cycles,
                    } => {
                        let Some(state) = self.launches.get_mut(launch) else {
                            continue;
                        };
                        state.ended_blocks += 1;
                        state.last_end = state.last_end.max(at);
                        report_retired(&mut self.drafts, state.tag, at, ran_cycles);
                        let ran = Cycles(ran_cycles);
                        let change = BlockChange::Retired { ran };
                        if let Some(obey) = &mut self.obey {
                            obey.retired(id, state, ran_cycles);
                            obey.record(block_event(state, id, linear, at, change));
                        } else if self.records {
                            let event = block_event(state, id, linear, at, change);
                            self.block_events.push(event);
                        }
                        if state.ended_blocks == state.blocks {
                            ended.push(Placement { launch, at });
                        }
                        *self.launches.counters(launch) += counters;
                        self.dispatcher.room_freed();
                    }
                    SmEvent::Saved {
                        at,
                        counters,
                        saved,
                    } => {
                        let (Some(obey), Some(state)) =
                            (&mut self.obey, self.launches.get(saved.launch))
                        else {
                            continue;
                        };
                        let bytes = counters.context_written_bytes;
                        let change = BlockChange::SwitchedOut { bytes };
                        obey.record(block_event(state, id, saved.linear, at, change));
                        *self.launches.counters(saved.launch) += counters;
                        obey.saved(saved);
                    }
                }
            }
        }
        for Placement { launch, .. } in &ended {
            self.end(*launch);
        }
        self.placed = ended;
    }

    fn end(&mut self, index: u32) {
        let mut counters = *self.launches.counters(index);
        let Some(launch) = self.launches.get(index) else {
            return;
        };
        counters += self.machine.take_tally(index, launch.row);
        let end = launch.last_end;
        self.drafts.push(Report::Ended {
            tag: launch.tag,
            first_start: Cycles(launch.first_start.unwrap_or(end)),
            end: Cycles(end),
            counters,
        });
        self.tags.remove(&launch.tag);
        self.dispatcher.remove(index, &mut self.launches, end);
        if let Some(obey) = &mut self.obey {
            obey.opened_all();
        }
        self.forget_launch(index);
    }

    fn check_budgets(&mut self, end: u64) {
        for (index, launch) in self.launches.iter() {
            if launch.deadline().is_none_or(|last| end <= last) {
                continue;
            }
            // On an SM, else among the blocks that are on none, else nowhere.
            let found = self.memory.domain(launch.domain).ok().and_then(|domain| {
                let mut sms = self.machine.sms.iter();
                let there = sms.find_map(|sm| sm.overrun(index, launch, domain));
                there.or_else(|| {
                    let saved = self.obey.as_ref()?.saved_block(index)?;
                    saved.overrun(launch, domain)
                })
            });
            let fault = found.unwrap_or_else(|| overran_waiting(launch));
            self.faults.push((end, index, fault));
        }
    }

    /// Ends the launches that faulted; of several faults of one launch the first counts.
    fn end_faulted(&mut self, end: u64) {
        if self.faults.is_empty() {
            return;
        }
        let mut faults = std::mem::take(&mut self.faults);
        faults.sort_by_key(|(at, ..)| *at);
        for (at, index, mut fault) in faults {
            let Some(launch) = self.launches.get(index) else {
                continue;
            };
            let tag = launch.tag;
            attribute(&mut fault, &self.memory, launch.domain);
            let warp_instructions = self.cost_of(index);
            self.drop_launch(index, end);
            self.drafts.push(Report::Faulted {
                tag,
                fault,
                at: Cycles(at),
                warp_instructions,
            });
        }
    }
}

/// Adds a block's end to the report of its cycle and launch.
fn report_retired(drafts: &mut Vec<Report>, tag: u64, at: u64, block_cycles: u64) {
    for draft in drafts.iter_mut() {
        if let Report::Retired {
            tag: other,
            blocks,
            ran,
            at: then,
        } = draft
            && *other == tag
            && then.0 == at
        {
            *blocks += 1;
            *ran += Cycles(block_cycles);
            return;
        }
    }
    drafts.push(Report::Retired {
        tag,
        blocks: 1,
        ran: Cycles(block_cycles),
        at: Cycles(at),
    });
}
