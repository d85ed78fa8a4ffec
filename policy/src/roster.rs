//! The open launches of a device in order of arrival, as policies that order launches see them.
//!
//! A row **works** while one of its launches is open. Most policies decide by row: of a row's launches the oldest is
//! the one that counts, as launches of one kernel usually come one after another.
//!
//! Rules: after a loss only what is named again exists, and a row's counters stand for its launches as one; what is
//! told of a launch by its number goes to that one, and only if there is none to those that counters stand for.

use crate::event::Event;
use crate::ids::{ProfileKey, RowId, TenantId};
use crate::plan::{NO_CAP, PlanRow, Stop};
use crate::shape::{BlockShape, DeviceShape, max_residency};
use crate::units::Nanos;

/// Stands for the launches of a row that are known by its counters alone.
const UNNAMED: u64 = u64::MAX;

/// An open launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub launch: u64,
    /// Its row.
    pub row: RowId,
    /// When it arrived.
    pub arrived: Nanos,
    /// Number of its blocks, as far as it is known.
    pub blocks: u64,
    /// Blocks that have ended.
    pub ended: u64,
    /// Launches that it stands for: more than one where only counters are known.
    launches: u32,
}

impl Job {
    /// Returns a launch of a row that is expected to come.
    #[must_use]
    pub fn expected(row: RowId, blocks: u64, at: Nanos) -> Self {
        Self {
            launch: UNNAMED,
            row,
            arrived: at,
            blocks,
            ended: 0,
            launches: 1,
        }
    }

    /// Returns how many of its blocks have not ended.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.blocks.saturating_sub(self.ended)
    }
}

/// What is known of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowInfo {
    /// The tenant that it belongs to.
    pub tenant: TenantId,
    /// What each block takes.
    pub block: BlockShape,
    /// Under which name profiles of its kernel are kept.
    pub profile: ProfileKey,
    /// It takes launches of several shapes, which no cap binds.
    pub spill: bool,
    /// Blocks that an SM holds; [`NO_CAP`] for a spill row.
    pub most: u16,
    /// Blocks that have ended since it exists.
    pub ended: u64,
}

/// Open launches, rows and tenants.
#[derive(Debug)]
pub struct Roster {
    shape: DeviceShape,
    rows: Vec<Option<RowInfo>>,
    /// In order of arrival.
    jobs: Vec<Job>,
    /// By tenant: its weight, none for one that is gone.
    weights: Vec<Option<u32>>,
    /// By row, as of the last call of [`Self::heads`]: it is among the heads, or does not exist.
    listed: Vec<bool>,
    changed: bool,
    rows_changed: bool,
}

impl Roster {
    /// Returns an empty roster.
    #[must_use]
    pub fn new(shape: &DeviceShape) -> Self {
        Self {
            shape: *shape,
            rows: Vec::new(),
            jobs: Vec::new(),
            weights: Vec::new(),
            listed: Vec::new(),
            changed: true,
            rows_changed: true,
        }
    }

    /// Returns the device.
    #[must_use]
    pub fn shape(&self) -> &DeviceShape {
        &self.shape
    }

    /// Takes note of an event.
    pub fn observe(&mut self, event: &Event) {
        match *event {
            Event::Tenant { tenant, weight, .. } => self.weigh(tenant, Some(weight.max(1))),
            Event::TenantGone { tenant } => {
                self.weigh(tenant, None);
                for row in (0..).map(RowId).take(self.rows.len()) {
                    if self.row(row).is_some_and(|info| info.tenant == tenant) {
                        self.drop_row(row);
                    }
                }
            }
            Event::RowNew {
                row,
                tenant,
                block,
                profile,
                spill,
            } => self.add_row(row, (tenant, profile), block, spill),
            Event::RowGone { row } => self.drop_row(row),
            Event::Arrive {
                row,
                launch,
                blocks,
                at,
            } => {
                self.changed = true;
                self.jobs.push(Job {
                    launch,
                    row,
                    arrived: at,
                    blocks,
                    ended: 0,
                    launches: 1,
                });
            }
            Event::Blocks {
                row, launch, ended, ..
            } => self.count(row, launch, ended),
            Event::Ended { row, launch, .. } => self.end(row, launch),
            Event::Lost { .. } => {
                self.changed = true;
                self.rows_changed = true;
                self.jobs.clear();
                self.rows.fill(None);
            }
            Event::Counters {
                row,
                open_launches,
                live,
                waiting,
                ended,
                at,
            } => {
                if let Some(Some(info)) = self.rows.get_mut(row.index()) {
                    info.ended = ended;
                }
                let left = u64::from(live).saturating_add(waiting);
                self.recount(row, open_launches, left, at);
            }
            _ => {}
        }
    }

    /// Returns once whether launches, rows or tenants came or went since the last time.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Returns once whether rows came or went since the last time.
    pub fn take_rows_changed(&mut self) -> bool {
        std::mem::take(&mut self.rows_changed)
    }

    /// Returns a row that exists.
    #[must_use]
    pub fn row(&self, row: RowId) -> Option<&RowInfo> {
        self.rows.get(row.index())?.as_ref()
    }

    /// Returns the rows that exist.
    pub fn rows(&self) -> impl Iterator<Item = (RowId, &RowInfo)> {
        let numbered = (0..).map(RowId).zip(&self.rows);
        numbered.filter_map(|(row, info)| Some((row, info.as_ref()?)))
    }

    /// Returns the open launches in order of arrival.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Puts the oldest open launch of each row that works into `heads`, in order of arrival.
    pub fn heads(&mut self, heads: &mut Vec<Job>) {
        heads.clear();
        self.listed.clear();
        self.listed.extend(self.rows.iter().map(Option::is_none));
        for job in &self.jobs {
            let listed = self.listed.get_mut(job.row.index());
            if listed.is_some_and(|listed| !std::mem::replace(listed, true)) {
                heads.push(*job);
            }
        }
    }

    /// Returns whether a row exists and did not work when the heads were last asked for.
    #[must_use]
    pub fn is_idle(&self, row: RowId) -> bool {
        self.listed.get(row.index()) == Some(&false)
    }

    /// Puts the rows that work into `rows` and their oldest open launches into `heads`, in order of arrival.
    pub fn line_up(&mut self, heads: &mut Vec<Job>, rows: &mut Vec<RowId>) {
        self.heads(heads);
        rows.clear();
        rows.extend(heads.iter().map(|job| job.row));
    }

    /// Returns the weight of a tenant, 1 for one that is not known.
    #[must_use]
    pub fn weight(&self, tenant: TenantId) -> u32 {
        let known = self.weights.get(tenant.index()).copied().flatten();
        known.unwrap_or(1)
    }

    /// Returns the sum of the weights of rows' tenants, a tenant counting once for each of its rows.
    #[must_use]
    pub fn weights_of(&self, rows: &[RowId]) -> u64 {
        let known = rows.iter().filter_map(|row| self.row(*row));
        known.map(|info| u64::from(self.weight(info.tenant))).sum()
    }

    /// Returns how many blocks of a row the device holds if nothing else is on it, at least 1; of a spill row, how many
    /// like those of its first launch.
    #[must_use]
    pub fn resident(&self, row: RowId) -> u64 {
        let most = self
            .row(row)
            .map(|info| max_residency(&self.shape, &info.block));
        (u64::from(most.unwrap_or(0)) * u64::from(self.shape.sms)).max(1)
    }

    /// Returns a row as plans list it.
    #[must_use]
    pub fn listed(&self, row: RowId, rank: u32, stop: Stop) -> PlanRow {
        PlanRow {
            row,
            tenant: self.row(row).map_or(TenantId(0), |info| info.tenant),
            rank,
            stop,
            budget: None,
        }
    }

    fn weigh(&mut self, tenant: TenantId, weight: Option<u32>) {
        if self.weights.len() <= tenant.index() {
            self.weights.resize(tenant.index() + 1, None);
        }
        self.changed |= std::mem::replace(&mut self.weights[tenant.index()], weight) != weight;
    }

    fn add_row(
        &mut self,
        row: RowId,
        (tenant, profile): (TenantId, ProfileKey),
        block: BlockShape,
        spill: bool,
    ) {
        if self.rows.len() <= row.index() {
            self.rows.resize(row.index() + 1, None);
        }
        let slot = &mut self.rows[row.index()];
        let again = |info: &RowInfo| {
            (info.tenant, info.profile, info.block, info.spill) == (tenant, profile, block, spill)
        };
        if slot.as_ref().is_some_and(again) {
            return;
        }
        self.changed = true;
        self.rows_changed = true;
        *slot = Some(RowInfo {
            tenant,
            block,
            profile,
            spill,
            most: match spill {
                true => NO_CAP,
                false => max_residency(&self.shape, &block),
            },
            ended: 0,
        });
    }

    fn drop_row(&mut self, row: RowId) {
        self.changed = true;
        self.rows_changed = true;
        self.jobs.retain(|job| job.row != row);
        if let Some(slot) = self.rows.get_mut(row.index()) {
            *slot = None;
        }
    }

    fn end(&mut self, row: RowId, launch: u64) {
        self.changed = true;
        let Some(at) = self.place_of(row, launch) else {
            return;
        };
        self.jobs[at].launches -= 1;
        if self.jobs[at].launches == 0 {
            self.jobs.remove(at);
        }
    }

    fn count(&mut self, row: RowId, launch: u64, ended: u32) {
        if let Some(Some(info)) = self.rows.get_mut(row.index()) {
            info.ended = info.ended.saturating_add(ended.into());
        }
        if let Some(at) = self.place_of(row, launch) {
            let job = &mut self.jobs[at];
            job.ended = job.ended.saturating_add(ended.into());
        }
    }

    /// Returns which job a launch is: its own or, if there is none, that of launches that are not named.
    fn place_of(&self, row: RowId, launch: u64) -> Option<usize> {
        let place = |number: u64| {
            let is_it = |job: &Job| (job.row, job.launch) == (row, number);
            self.jobs.iter().position(is_it)
        };
        place(launch).or_else(|| place(UNNAMED))
    }

    /// Takes a row's counters in place of what is known of its launches, where these are not as many or have not as
    /// many blocks left. Launches that are known by number stay so, and are taken to have equal parts of the blocks.
    fn recount(&mut self, row: RowId, open: u32, left: u64, at: Nanos) {
        let own = || self.jobs.iter().filter(|job| job.row == row);
        let launches: u64 = own().map(|job| u64::from(job.launches)).sum();
        if launches == u64::from(open) {
            let (jobs, known) = (own().count() as u64, own().map(Job::left));
            if known.fold(0, u64::saturating_add) != left {
                self.share_out(row, jobs, left);
            }
            return;
        }
        self.changed = true;
        self.jobs.retain(|job| job.row != row);
        if open > 0 {
            self.jobs.push(Job {
                launch: UNNAMED,
                row,
                arrived: at,
                blocks: left,
                ended: 0,
                launches: open,
            });
        }
    }

    /// Gives each of the `jobs` jobs of a row an equal part of the blocks that are left, the older ones the remainder.
    fn share_out(&mut self, row: RowId, mut jobs: u64, mut left: u64) {
        self.changed = true;
        for job in self.jobs.iter_mut().filter(|job| job.row == row) {
            let part = left.div_ceil(jobs);
            job.blocks = job.ended.saturating_add(part);
            (jobs, left) = (jobs - 1, left - part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Roster;
    use crate::event::Event;
    use crate::ids::{GroupId, ProfileKey, RowId, TenantId};
    use crate::shape::{BlockShape, DeviceShape};
    use crate::units::Nanos;

    const ROW: RowId = RowId(0);
    const BLOCK: BlockShape = BlockShape {
        threads: 512,
        registers: 0,
        shared_bytes: 0,
    };

    /// Returns a roster that knows one row, of which an SM of three holds two blocks.
    fn roster(spill: bool) -> Roster {
        let mut roster = Roster::new(&DeviceShape {
            sms: 3,
            threads: 1024,
            blocks: 8,
            registers: 1,
            shared_bytes: 1,
            submission_ns: 0,
        });
        roster.observe(&Event::RowNew {
            row: ROW,
            tenant: TenantId(0),
            block: BLOCK,
            profile: ProfileKey(0),
            spill,
        });
        roster
    }

    fn arrive(launch: u64, blocks: u64) -> Event {
        Event::Arrive {
            row: ROW,
            launch,
            blocks,
            at: Nanos(launch),
        }
    }

    fn blocks(launch: u64, ended: u32) -> Event {
        Event::Blocks {
            row: ROW,
            group: GroupId(0),
            launch,
            started: 0,
            ended,
            ran_ns: 1,
            at: Nanos(9),
        }
    }

    fn ended(launch: u64) -> Event {
        Event::Ended {
            row: ROW,
            launch,
            at: Nanos(9),
        }
    }

    fn counters(open_launches: u32, live: u32, waiting: u64) -> Event {
        Event::Counters {
            row: ROW,
            open_launches,
            live,
            waiting,
            ended: 0,
            at: Nanos(9),
        }
    }

    /// Returns the blocks that each open launch has left, in order of arrival.
    fn left(roster: &Roster) -> Vec<u64> {
        roster.jobs().iter().map(super::Job::left).collect()
    }

    #[test]
    fn after_a_loss_a_launch_that_is_named_ends_by_its_name() {
        let mut roster = roster(false);
        // Launches 1 and 2 were lost, 3 came later.
        for event in [counters(2, 4, 6), arrive(3, 5), blocks(3, 2), ended(3)] {
            roster.observe(&event);
        }
        assert_eq!(left(&roster), [10]);
        roster.observe(&ended(1));
        roster.observe(&ended(2));
        assert!(left(&roster).is_empty());
    }

    #[test]
    fn blocks_that_become_known_after_their_launch_arrived_are_counted() {
        let mut roster = roster(false);
        roster.observe(&arrive(1, 0));
        roster.observe(&blocks(1, 1));
        roster.observe(&counters(1, 6, 93));
        assert_eq!((left(&roster), roster.jobs()[0].blocks), (vec![99], 100));
        roster.observe(&arrive(2, 0));
        roster.take_changed();
        roster.observe(&counters(2, 6, 93));
        assert!(!roster.take_changed(), "nothing new");
        roster.observe(&counters(2, 6, 195));
        assert!(roster.take_changed());
        assert_eq!(left(&roster), [101, 100]);
        let numbers: Vec<u64> = roster.jobs().iter().map(|job| job.launch).collect();
        assert_eq!(numbers, [1, 2]);
    }

    #[test]
    fn counters_that_cannot_be_are_taken() {
        let mut roster = roster(false);
        for event in [
            counters(u32::MAX, u32::MAX, u64::MAX),
            arrive(1, u64::MAX),
            counters(0, u32::MAX, u64::MAX),
            counters(0, 1, 1),
        ] {
            roster.observe(&event);
        }
        assert!(left(&roster).is_empty());
    }

    #[test]
    fn what_binds_no_spill_row_does_not_make_it_shorter() {
        assert_eq!(roster(false).resident(ROW), 6);
        assert_eq!(roster(true).resident(ROW), 6);
        assert_eq!(roster(true).resident(RowId(7)), 1);
    }
}
