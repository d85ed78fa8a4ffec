//! The open launches of a device in order of arrival, as policies that order launches see them.
//!
//! A row **works** while one of its launches is open. Most policies decide by row: of a row's launches the oldest is the
//! one that counts, as launches of one kernel usually come one after another.
//!
//! Rules: after a loss only what is named again exists, and a row's counters stand for its launches as one; counts that
//! run backwards are taken as zero.

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
    /// Number of its blocks.
    pub blocks: u64,
    /// Blocks that have started.
    pub started: u64,
    /// Blocks that have ended.
    pub ended: u64,
    /// Launches that it stands for: more than one where only counters are known.
    launches: u32,
}

impl Job {
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
    /// Blocks that have ended since it exists, and the sum of their residences in nanoseconds.
    pub ended: (u64, u64),
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
    /// By row: it is among the heads already, or does not exist.
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
                    started: 0,
                    ended: 0,
                    launches: 1,
                });
            }
            Event::Blocks {
                row,
                launch,
                started,
                ended,
                ran_ns,
                ..
            } => self.count(row, launch, (started, ended), ran_ns),
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
                at,
            } => self.recount(row, open_launches, u64::from(live), waiting, at),
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
            ended: (0, 0),
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
        let mut own = (0..self.jobs.len()).filter(|at| self.jobs[*at].row == row);
        let named = |job: &Job| job.launch == launch || job.launch == UNNAMED;
        let Some(at) = own.find(|at| named(&self.jobs[*at])) else {
            return;
        };
        self.jobs[at].launches -= 1;
        if self.jobs[at].launches == 0 {
            self.jobs.remove(at);
        }
    }

    fn count(&mut self, row: RowId, launch: u64, blocks: (u32, u32), ran_ns: u64) {
        if let Some(Some(info)) = self.rows.get_mut(row.index()) {
            info.ended.0 += u64::from(blocks.1);
            info.ended.1 = info.ended.1.saturating_add(ran_ns);
        }
        let mut own = self.jobs.iter_mut().filter(|job| job.row == row);
        let found = own.find(|job| job.launch == launch || job.launch == UNNAMED);
        if let Some(job) = found {
            job.started = (job.started + u64::from(blocks.0)).min(job.blocks);
            job.ended = (job.ended + u64::from(blocks.1)).min(job.blocks);
        }
    }

    /// Takes a row's counters in place of what is known of its launches, where their number differs.
    fn recount(&mut self, row: RowId, open: u32, live: u64, waiting: u64, at: Nanos) {
        let own = self.jobs.iter().filter(|job| job.row == row);
        if own.map(|job| job.launches).sum::<u32>() == open {
            return;
        }
        self.changed = true;
        self.jobs.retain(|job| job.row != row);
        if open > 0 {
            self.jobs.push(Job {
                launch: UNNAMED,
                row,
                arrived: at,
                blocks: live.saturating_add(waiting),
                started: live,
                ended: 0,
                launches: open,
            });
        }
    }
}
