//! Learns profiles from what executors tell: an observer that hears every event beside the policy.
//!
//! A row is **alone** while no other row has an open launch. Blocks that were resident when it came to be alone ran
//! beside others for a part of their time, and count as such.
//!
//! Rules: blocks of spill rows, which are of several kernels, teach nothing; events that contradict each other (more
//! blocks ended than started, counters that run backwards, rows that nobody named) change what is counted here and
//! nothing else.

use crate::event::Event;
use crate::ids::{ProfileKey, RowId, TenantId};
use crate::profiles::{Profiles, Seen};

/// What it knows of the rows of a device, and the store that it fills.
#[derive(Debug)]
pub struct Learner {
    profiles: Profiles,
    rows: Vec<Option<Residence>>,
    /// Rows with an open launch.
    working: u32,
    /// Number of the newest co-run: how often a row ceased to be alone.
    co_run: u64,
}

/// What is known of the blocks of a row that are on the device.
#[derive(Clone, Copy, Debug)]
struct Residence {
    tenant: TenantId,
    profile: ProfileKey,
    spill: bool,
    /// Launches that have arrived and not ended.
    open: u32,
    /// Blocks that have started and not ended.
    live: u64,
    /// Of these, blocks that ran beside those of another row.
    beside: u64,
    /// The co-run to which `beside` belongs.
    co_run: u64,
}

impl Learner {
    /// Returns a learner that fills the store of a device.
    #[must_use]
    pub fn new(profiles: &Profiles) -> Self {
        Self {
            profiles: profiles.clone(),
            rows: Vec::new(),
            working: 0,
            co_run: 0,
        }
    }

    /// Returns the store.
    #[must_use]
    pub fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// Takes note of an event.
    pub fn observe(&mut self, event: &Event) {
        match *event {
            Event::RowNew {
                row,
                tenant,
                profile,
                spill,
                ..
            } => self.row_new(row, tenant, profile, spill),
            Event::RowGone { row } => self.row_gone(row),
            Event::TenantGone { tenant } => {
                for row in (0..).map(RowId).take(self.rows.len()) {
                    let is_its = |known: &mut Residence| known.tenant == tenant;
                    if self.row(row).is_some_and(is_its) {
                        self.row_gone(row);
                    }
                }
            }
            Event::Arrive { row, .. } => self.set_open(row, |open| open.saturating_add(1)),
            Event::Ended { row, .. } => self.set_open(row, |open| open.saturating_sub(1)),
            Event::Blocks {
                row,
                started,
                ended,
                ran_ns,
                ..
            } => self.blocks(row, started.into(), ended.into(), ran_ns),
            Event::Lost { .. } => {
                // Until all rows are named again, nobody knows who is alone.
                self.rows.fill(None);
                self.working = 0;
                self.co_run += 1;
            }
            Event::Counters {
                row,
                open_launches,
                live,
                ..
            } => {
                self.set_open(row, |_| open_launches);
                if let Some(row) = self.row(row) {
                    row.live = live.into();
                }
            }
            _ => {}
        }
    }

    fn row(&mut self, row: RowId) -> Option<&mut Residence> {
        self.rows.get_mut(row.index())?.as_mut()
    }

    fn row_new(&mut self, row: RowId, tenant: TenantId, profile: ProfileKey, spill: bool) {
        if self.rows.len() <= row.index() {
            self.rows.resize(row.index() + 1, None);
        }
        let again = |known: &mut Residence| {
            (known.tenant, known.profile, known.spill) == (tenant, profile, spill)
        };
        if self.row(row).is_some_and(again) {
            return;
        }
        self.row_gone(row);
        self.rows[row.index()] = Some(Residence {
            tenant,
            profile,
            spill,
            open: 0,
            live: 0,
            beside: 0,
            co_run: 0,
        });
    }

    fn row_gone(&mut self, row: RowId) {
        self.set_open(row, |_| 0);
        if let Some(slot) = self.rows.get_mut(row.index()) {
            *slot = None;
        }
    }

    fn set_open(&mut self, row: RowId, change: impl FnOnce(u32) -> u32) {
        let Some(row) = self.row(row) else {
            return;
        };
        let before = row.open;
        row.open = change(before);
        match (before, row.open) {
            (0, 1..) => {
                self.working += 1;
                self.co_run += u64::from(self.working == 2);
            }
            (1.., 0) => self.working -= 1,
            _ => {}
        }
    }

    fn blocks(&mut self, row: RowId, started: u64, ended: u64, ran_ns: u64) {
        let (is_alone, co_run) = (self.working <= 1, self.co_run);
        let Some(row) = self.row(row) else {
            return;
        };
        let before = row.live;
        row.live = before.saturating_add(started).saturating_sub(ended);
        if row.co_run != co_run {
            (row.co_run, row.beside) = (co_run, before);
        }
        let alone = is_alone && row.beside == 0;
        row.beside = match is_alone {
            true => row.beside.saturating_sub(ended),
            false => row.live,
        };
        let seen = Seen {
            blocks: ended,
            ran_ns,
            alone,
            wave: before.max(row.live),
        };
        let profile = row.profile;
        if !row.spill {
            self.profiles.learn(profile, &seen);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Learner;
    use crate::event::Event;
    use crate::ids::{GroupId, ProfileKey, RowId, TenantId};
    use crate::profiles::{Profile, Profiles};
    use crate::shape::BlockShape;
    use crate::units::Nanos;

    const AT: Nanos = Nanos(0);

    /// Returns a learner that knows rows 0 and 1, of tenants and kernels of the same numbers.
    fn learner() -> Learner {
        let mut learner = Learner::new(&Profiles::default());
        for row in 0..2 {
            new(&mut learner, row, false);
        }
        learner
    }

    fn new(learner: &mut Learner, row: u32, spill: bool) {
        learner.observe(&Event::RowNew {
            row: RowId(row),
            tenant: TenantId(row),
            block: BlockShape::default(),
            profile: ProfileKey(row.into()),
            spill,
        });
    }

    fn arrive(learner: &mut Learner, row: u32) {
        learner.observe(&Event::Arrive {
            row: RowId(row),
            launch: 0,
            blocks: 100,
            at: AT,
        });
    }

    fn end(learner: &mut Learner, row: u32) {
        let (row, launch) = (RowId(row), 0);
        learner.observe(&Event::Ended {
            row,
            launch,
            at: AT,
        });
    }

    fn blocks(learner: &mut Learner, row: u32, (started, ended): (u32, u32), block_ns: u64) {
        learner.observe(&Event::Blocks {
            row: RowId(row),
            group: GroupId(0),
            launch: 0,
            started,
            ended,
            ran_ns: u64::from(ended) * block_ns,
            at: AT,
        });
    }

    fn known(learner: &Learner, row: u32) -> Option<Profile> {
        learner.profiles().get(ProfileKey(row.into()))
    }

    #[test]
    fn blocks_are_alone_while_no_other_row_has_a_launch() {
        let mut learner = learner();
        arrive(&mut learner, 0);
        blocks(&mut learner, 0, (8, 2), 100);
        let profile = known(&learner, 0).expect("blocks ended");
        assert_eq!((profile.block_ns, profile.alone), (100.0, true));
        arrive(&mut learner, 1);
        blocks(&mut learner, 1, (4, 2), 500);
        blocks(&mut learner, 0, (2, 2), 300);
        assert!(!known(&learner, 1).expect("blocks ended").alone);
        assert_eq!(known(&learner, 0).expect("known").block_ns, 100.0);
        // Of row 1 two blocks are left, which ran beside row 0; the ones behind them do not.
        end(&mut learner, 0);
        blocks(&mut learner, 1, (2, 2), 400);
        assert!(!known(&learner, 1).expect("blocks ended").alone);
        blocks(&mut learner, 1, (2, 2), 200);
        let profile = known(&learner, 1).expect("blocks ended");
        assert_eq!((profile.block_ns, profile.alone), (200.0, true));
    }

    #[test]
    fn company_is_remembered_by_blocks_that_outlast_it() {
        let mut learner = learner();
        arrive(&mut learner, 0);
        blocks(&mut learner, 0, (3, 0), 0);
        arrive(&mut learner, 1);
        end(&mut learner, 1);
        // All that is said of row 0 comes after the end.
        blocks(&mut learner, 0, (0, 3), 900);
        assert!(!known(&learner, 0).expect("blocks ended").alone);
    }

    #[test]
    fn spill_rows_and_rows_that_nobody_named_teach_nothing() {
        let mut learner = learner();
        new(&mut learner, 2, true);
        for row in [2, 3, u32::MAX] {
            arrive(&mut learner, row);
            blocks(&mut learner, row, (1, 1), 100);
            end(&mut learner, row);
        }
        assert!(learner.profiles().all().is_empty());
    }

    #[test]
    fn the_row_of_another_kernel_begins_anew() {
        let mut learner = learner();
        arrive(&mut learner, 0);
        blocks(&mut learner, 0, (2, 0), 0);
        learner.observe(&Event::TenantGone {
            tenant: TenantId(0),
        });
        arrive(&mut learner, 1);
        blocks(&mut learner, 1, (1, 1), 100);
        assert!(
            known(&learner, 1).expect("blocks ended").alone,
            "row 0 is gone"
        );
        blocks(&mut learner, 0, (0, 2), 100);
        assert_eq!(known(&learner, 0), None);
    }

    #[test]
    fn counters_that_run_backwards_do_no_harm() {
        let mut learner = learner();
        let counters = |open_launches, live| Event::Counters {
            row: RowId(0),
            open_launches,
            live,
            waiting: u64::MAX,
            ended: 0,
            at: AT,
        };
        for event in [counters(u32::MAX, u32::MAX), counters(0, 0), counters(3, 1)] {
            learner.observe(&event);
            blocks(&mut learner, 0, (0, u32::MAX), u64::from(u32::MAX));
            blocks(&mut learner, 0, (u32::MAX, 0), 0);
        }
        for _ in 0..5 {
            end(&mut learner, 0);
            end(&mut learner, 1);
        }
        learner.observe(&Event::Lost { n: u64::MAX });
        blocks(&mut learner, 0, (1, 1), 100);
        learner.observe(&counters(1, 1));
        // Nothing is left of all that: a row that is named again counts from nothing.
        new(&mut learner, 1, false);
        arrive(&mut learner, 1);
        blocks(&mut learner, 1, (1, 1), 100);
        let profile = known(&learner, 1).expect("blocks ended");
        assert_eq!((profile.block_ns, profile.alone), (100.0, true));
    }
}
