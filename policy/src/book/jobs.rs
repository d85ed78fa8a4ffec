//! The open launches of a device in order of arrival, as policies that order launches see them.
//!
//! Rule: an event that names a launch counts for that launch. Launches of which only a row's counters are known have no
//! names: they are one job, for which every event counts that names no other job of the row.

use super::Book;
use crate::ids::RowId;
use crate::units::Nanos;
use std::collections::VecDeque;

/// The name of launches of which only a row's counters are known.
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
    /// Its place in the order of arrival.
    arrival: u64,
}

impl Job {
    /// Returns a launch of a row that is expected to come.
    #[must_use]
    pub fn expected(row: RowId, blocks: u64, at: Nanos) -> Self {
        Self::new((row, UNNAMED), blocks, at)
    }

    fn new((row, launch): (RowId, u64), blocks: u64, arrived: Nanos) -> Self {
        Self {
            launch,
            row,
            arrived,
            blocks,
            ended: 0,
            launches: 1,
            arrival: 0,
        }
    }

    /// Returns how many of its blocks have not ended.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.blocks.saturating_sub(self.ended)
    }
}

impl Book {
    /// Puts the oldest open launch of each row that has one into `heads`, in order of arrival.
    pub fn heads(&mut self, heads: &mut Vec<Job>) {
        heads.clear();
        heads.extend(self.jobs.iter().filter_map(VecDeque::front));
        heads.sort_unstable_by_key(|job| job.arrival);
        for (row, jobs) in self.rows.iter_mut().zip(&self.jobs) {
            if let Some(row) = row {
                row.listed = !jobs.is_empty();
            }
        }
    }

    /// Puts the rows that have open launches into `rows` and the oldest of these launches into `heads`, in order of
    /// arrival.
    pub fn line_up(&mut self, heads: &mut Vec<Job>, rows: &mut Vec<RowId>) {
        self.heads(heads);
        rows.clear();
        rows.extend(heads.iter().map(|job| job.row));
    }

    /// Returns whether a row exists and had no open launch when the heads were last asked for.
    #[must_use]
    pub fn is_idle(&self, row: RowId) -> bool {
        self.row(row).is_some_and(|row| !row.listed)
    }

    pub(super) fn add_job(&mut self, row: RowId, launch: u64, blocks: u64, at: Nanos) {
        self.push(Job::new((row, launch), blocks, at));
    }

    /// Adds the newest launch of a row that exists.
    fn push(&mut self, job: Job) {
        self.arrivals += 1;
        self.jobs[job.row.index()].push_back(Job {
            arrival: self.arrivals,
            ..job
        });
    }

    pub(super) fn end_job(&mut self, row: RowId, launch: u64) {
        if let Some(place) = self.place_of(row, launch) {
            let jobs = &mut self.jobs[row.index()];
            jobs[place].launches -= 1;
            if jobs[place].launches == 0 {
                jobs.remove(place);
            }
        }
    }

    /// Counts ended blocks of a launch.
    pub(super) fn count(&mut self, row: RowId, launch: u64, ended: u32) {
        if let Some(place) = self.place_of(row, launch) {
            let job = &mut self.jobs[row.index()][place];
            job.ended = job.ended.saturating_add(ended.into());
        }
    }

    /// Returns which of its row's jobs a launch is: its own or, if there is none, that of launches without names.
    fn place_of(&self, row: RowId, launch: u64) -> Option<usize> {
        let jobs = self.jobs.get(row.index())?;
        let place = |name: u64| jobs.iter().position(|job| job.launch == name);
        place(launch).or_else(|| place(UNNAMED))
    }

    /// Takes a row's counters in place of what is known of its launches, where these are not as many or have not as
    /// many blocks left. Launches that are known by name stay so, and are taken to have equal parts of the blocks.
    pub(super) fn recount(&mut self, row: RowId, open: u32, left: u64, at: Nanos) {
        let own = || self.jobs[row.index()].iter();
        let launches: u64 = own().map(|job| u64::from(job.launches)).sum();
        if launches == u64::from(open) {
            let (jobs, known) = (own().count() as u64, own().map(Job::left));
            if known.fold(0, u64::saturating_add) != left {
                self.share_out(row, jobs, left);
            }
            return;
        }
        self.changes.launches = true;
        self.jobs[row.index()].clear();
        if open > 0 {
            self.push(Job {
                launches: open,
                ..Job::expected(row, left, at)
            });
        }
    }

    /// Gives each of the `jobs` jobs of a row an equal part of the blocks that are left, the older ones the remainder.
    fn share_out(&mut self, row: RowId, mut jobs: u64, mut left: u64) {
        self.changes.launches = true;
        for job in &mut self.jobs[row.index()] {
            let part = left.div_ceil(jobs);
            job.blocks = job.ended.saturating_add(part);
            (jobs, left) = (jobs - 1, left - part);
        }
    }
}
