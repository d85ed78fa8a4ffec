//! Which part of an SM's issue slots kernels take alone, by profiling SMs (SMK, section 5.4).
//!
//! A kernel that is profiled has an SM to itself. There it holds T blocks and issues in a part x of the slots; beside
//! others, with S blocks on an SM, it is due `C = x · S / T` of them, and of all that is issued its quota is
//! `C / ΣC` ([`quotas`]). Both x and T come from samples ([`Event::Sample`]): over the same cycles x is in proportion
//! to the instructions that were issued, and T is the residence of blocks over these cycles, so that `x / T` is
//! instructions over cycles of residence, whatever the clock.
//!
//! The paper gives each of two kernels an SM of its 16 for good. Where a device has fewer SMs, or more kernels are to
//! be profiled, that would be most of it, and what kernels issue alone hardly changes; so after each profile, also one
//! that was broken off, profiling rests for so long that it takes a small part of the device's time ([`LEAST_SHARED`]).
//! A kernel that is not known is profiled at once, and no other one with it, unless the last profile was broken off:
//! then it waits as well, because kernels that come and go as quickly cannot be profiled.
//!
//! Rules: what was measured before a profiled kernel has settled does not count; a profile whose kernels have all gone
//! is broken off; the number of a row is another row's after [`Event::RowNew`], and may be after [`Event::Lost`]; SMs
//! are given away only after a sample has come, which not every executor sends.

use crate::event::Event;
use crate::ids::{GroupId, RowId};
use crate::units::Nanos;

/// Of a device's SM time, profiling takes at most one part in this many, but for first profiles of kernels.
const LEAST_SHARED: u64 = 32;
/// How often a sample is waited for, a warm-up each time.
const MOST_WAITS: u32 = 5;

/// Returns which part of all issue slots a kernel is due beside others, where it holds `held` blocks; `rate` is what
/// each of its blocks takes alone, `x / T` (section 5.4).
#[must_use]
pub fn due(rate: f64, held: u16) -> f64 {
    rate * f64::from(held)
}

/// Returns the quota of each kernel from what each is due: its part of the sum (section 5.4).
pub fn quotas(due: &[f64]) -> impl Iterator<Item = f64> + '_ {
    let sum: f64 = due.iter().sum();
    due.iter().map(move |own| own / sum)
}

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a kernel is alone on its SM before anything counts.
    pub warm_up: Nanos,
    /// How long it is watched.
    pub window: Nanos,
}

impl Settings {
    /// The default: about a tenth of a million cycles together.
    pub const DEFAULT: Self = Self {
        warm_up: Nanos(20_000),
        window: Nanos(60_000),
    };
}

/// What the profiling SMs are doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Fewer than two rows share the device.
    Off,
    /// Nothing is profiled, because every rate was given.
    Given,
    /// It is not known whether the executor sends samples.
    Listening {
        until: Nanos,
        waits: u32,
    },
    /// It does not.
    Deaf,
    /// Blocks of others leave, and caches fill.
    WarmingUp {
        until: Nanos,
    },
    Watching {
        until: Nanos,
    },
    /// The device is shared wholly.
    Resting {
        until: Nanos,
    },
}

/// What a row's blocks did on its profiling SM, as a sample says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    block_cycles: u64,
    issued: u64,
}

/// What is known of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Known {
    #[default]
    Nothing,
    /// It issued nothing while it was profiled.
    Idle,
    /// Instructions over cycles of residence.
    Rate(f64),
}

/// A row that has an SM to itself.
#[derive(Clone, Copy, Debug)]
struct Profiled {
    row: RowId,
    /// What was counted when watching began.
    before: Counted,
    newest: Counted,
    /// It is another row's number meanwhile, or nobody's.
    is_gone: bool,
}

/// Profiles rows, some at a time.
#[derive(Clone, Debug)]
pub struct IssueProfiler {
    settings: Settings,
    sms: u16,
    phase: Phase,
    /// By SM and group, from 0 on.
    profiled: Vec<Profiled>,
    /// By row.
    known: Vec<Known>,
    /// Rows that are to be profiled next; kept so that nothing is allocated.
    next: Vec<RowId>,
    /// The row that is profiled first when it is somebody's turn again.
    turn: u32,
    /// When the profile began.
    began: Nanos,
    /// Until when all profiles so far are to be rested from.
    rests_until: Nanos,
    /// The last profile was broken off.
    was_broken: bool,
    /// A sample has come.
    heard: bool,
}

impl IssueProfiler {
    /// Returns a profiler for a device with that number of SMs.
    #[must_use]
    pub fn new(settings: Settings, sms: u16) -> Self {
        Self {
            settings,
            sms,
            phase: Phase::Off,
            profiled: Vec::new(),
            known: Vec::new(),
            next: Vec::new(),
            turn: 0,
            began: Nanos::ZERO,
            rests_until: Nanos::ZERO,
            was_broken: false,
            heard: false,
        }
    }

    /// Returns one that profiles nothing. `rates` are what the blocks of each row issue alone, in instructions over
    /// cycles of residence, by the rows' numbers.
    #[must_use]
    pub fn given(rates: &[f64], sms: u16) -> Self {
        Self {
            phase: Phase::Given,
            known: rates.iter().map(|rate| Known::Rate(*rate)).collect(),
            ..Self::new(Settings::DEFAULT, sms)
        }
    }

    /// Takes note of samples, and of rows that come and go.
    pub fn observe(&mut self, event: &Event) {
        if self.phase == Phase::Given {
            return;
        }
        match *event {
            Event::Sample {
                row,
                group: GroupId(group),
                block_cycles,
                issued,
                ..
            } => {
                self.heard = true;
                if let Some(own) = self.profiled.get_mut(usize::from(group))
                    && own.row == row
                {
                    own.newest = Counted {
                        block_cycles,
                        issued,
                    };
                }
            }
            Event::RowNew { row, .. } | Event::RowGone { row } => {
                if let Some(known) = self.known.get_mut(row.index()) {
                    *known = Known::Nothing;
                }
                let mut profiled = self.profiled.iter_mut();
                if let Some(own) = profiled.find(|own| own.row == row) {
                    own.is_gone = true;
                }
            }
            Event::Lost { .. } => {
                self.known.clear();
                self.profiled.iter_mut().for_each(|own| own.is_gone = true);
            }
            _ => {}
        }
    }

    /// Returns the rows that have an SM to themselves: the first one SM 0, which is group 0, and so on.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = RowId> + '_ {
        self.profiled.iter().map(|profiled| profiled.row)
    }

    /// Returns how many instructions a row's blocks issue alone in a cycle of residence, if that is known: x over T.
    #[must_use]
    pub fn rate(&self, row: RowId) -> Option<f64> {
        match self.known(row) {
            Known::Rate(rate) => Some(rate),
            Known::Nothing | Known::Idle => None,
        }
    }

    fn known(&self, row: RowId) -> Known {
        let known = self.known.get(row.index());
        known.copied().unwrap_or_default()
    }

    /// Returns when something is to be done next.
    #[must_use]
    pub fn wake_at(&self) -> Option<Nanos> {
        match self.phase {
            Phase::Off | Phase::Given | Phase::Deaf => None,
            Phase::Listening { until, .. }
            | Phase::WarmingUp { until }
            | Phase::Watching { until }
            | Phase::Resting { until } => Some(until),
        }
    }

    /// Goes on. `rows` are those that share the device, in order of their numbers. Returns whether other rows have SMs
    /// to themselves now, or another rate is known.
    pub fn step(&mut self, now: Nanos, rows: &[RowId]) -> bool {
        if self.phase == Phase::Given {
            return false;
        }
        // One row has nothing to share, and a device of two SMs could do nothing but profile two.
        let most = usize::from(self.sms / 2).min(rows.len());
        let runs = |own: &Profiled| !own.is_gone && rows.contains(&own.row);
        let is_broken = !self.profiled.iter().any(runs);
        if rows.len() < 2 || most == 0 {
            self.break_off(now);
            return self.stop(Phase::Off);
        }
        let is_new = |row: &RowId| self.known(*row) == Known::Nothing;
        let is_due = self.wake_at().is_none_or(|at| now >= at);
        match self.phase {
            Phase::Off | Phase::Listening { .. } | Phase::Deaf if self.heard => {
                self.begin(now, rows, most)
            }
            Phase::Off => self.listen(now, MOST_WAITS),
            Phase::Listening { waits, .. } if is_due => self.listen(now, waits - 1),
            Phase::Resting { .. } if is_due || !self.was_broken && rows.iter().any(is_new) => {
                self.begin(now, rows, most)
            }
            Phase::WarmingUp { .. } | Phase::Watching { .. } if is_broken => {
                self.break_off(now);
                self.rest()
            }
            Phase::WarmingUp { .. } if is_due => {
                self.watch(now);
                false
            }
            Phase::Watching { .. } if is_due => self.finish(now, rows, most),
            _ => false,
        }
    }

    /// Waits for a sample, at most `waits` times.
    fn listen(&mut self, now: Nanos, waits: u32) -> bool {
        let until = now + self.settings.warm_up;
        self.stop(match waits {
            0 => Phase::Deaf,
            waits => Phase::Listening { until, waits },
        })
    }

    /// Gives SMs to the rows whose turn it is, those without a rate first; while it is time to rest to these alone, or
    /// to nobody where the last profile was broken off.
    fn begin(&mut self, now: Nanos, rows: &[RowId], most: usize) -> bool {
        let mut next = std::mem::take(&mut self.next);
        next.clear();
        let from = rows.partition_point(|row| row.0 < self.turn);
        let in_turn = || rows[from..].iter().chain(&rows[..from]).copied();
        let is_new = |row: &RowId| self.known(*row) == Known::Nothing;
        let is_rested = now >= self.rests_until;
        next.extend(in_turn().filter(|row| is_new(row) && (is_rested || !self.was_broken)));
        next.extend(in_turn().filter(|row| !is_new(row) && is_rested));
        next.truncate(most);
        self.turn = next.last().map_or(0, |row| row.0 + 1);
        next.sort_unstable();
        let changed = !self.rows().eq(next.iter().copied());
        self.profiled.clear();
        self.profiled.extend(next.iter().map(|row| Profiled {
            row: *row,
            before: Counted::default(),
            newest: Counted::default(),
            is_gone: false,
        }));
        self.next = next;
        if self.profiled.is_empty() {
            return self.rest();
        }
        self.began = now;
        self.phase = Phase::WarmingUp {
            until: now + self.settings.warm_up,
        };
        changed
    }

    /// Begins to watch.
    fn watch(&mut self, now: Nanos) {
        for own in &mut self.profiled {
            own.before = own.newest;
        }
        self.phase = Phase::Watching {
            until: now + self.settings.window,
        };
    }

    /// Takes the rates of the rows that were watched, and goes on or rests.
    fn finish(&mut self, now: Nanos, rows: &[RowId], most: usize) -> bool {
        let mut changed = false;
        for own in self.profiled.iter().filter(|own| !own.is_gone) {
            let Counted {
                block_cycles,
                issued,
            } = own.before;
            let cycles = own.newest.block_cycles.saturating_sub(block_cycles);
            let issued = own.newest.issued.saturating_sub(issued);
            if self.known.len() <= own.row.index() {
                self.known.resize(own.row.index() + 1, Known::Nothing);
            }
            let known = &mut self.known[own.row.index()];
            if cycles > 0 && issued > 0 {
                *known = Known::Rate(issued as f64 / cycles as f64);
                changed = true;
            } else if *known == Known::Nothing {
                *known = Known::Idle;
            }
        }
        self.charge(now);
        self.was_broken = false;
        match now >= self.rests_until {
            true => self.begin(now, rows, most) || changed,
            false => self.rest(),
        }
    }

    /// Breaks a profile off, if there is one.
    fn break_off(&mut self, now: Nanos) {
        if !self.profiled.is_empty() {
            self.charge(now);
            self.was_broken = true;
        }
    }

    /// Charges the time of a profile, on as many SMs as it took, to the rest after it.
    fn charge(&mut self, now: Nanos) {
        let sm_time = (now - self.began) * self.profiled.len() as u64;
        let period = Nanos(sm_time.0.saturating_mul(LEAST_SHARED) / u64::from(self.sms.max(1)));
        self.rests_until = self.rests_until.max(self.began) + period;
    }

    /// Rests; returns whether SMs are given back.
    fn rest(&mut self) -> bool {
        let until = self.rests_until;
        self.stop(Phase::Resting { until })
    }

    /// Gives the profiling SMs back; returns whether there were any.
    fn stop(&mut self, phase: Phase) -> bool {
        self.phase = phase;
        let had = !self.profiled.is_empty();
        self.profiled.clear();
        had
    }
}

#[cfg(test)]
mod tests {
    use super::{IssueProfiler, Settings, due, quotas};
    use crate::event::Event;
    use crate::ids::{GroupId, ProfileKey, RowId, TenantId};
    use crate::shape::BlockShape;
    use crate::units::Nanos;

    const ROWS: [RowId; 2] = [RowId(3), RowId(5)];

    fn sample(row: RowId, group: u16, block_cycles: u64, issued: u64) -> Event {
        Event::Sample {
            row,
            group: GroupId(group),
            block_cycles,
            issued,
            cycles: 0,
            l1_misses: 0,
            l2_misses: 0,
            memory_stalls: 0,
            dram_bytes: 0,
        }
    }

    #[test]
    fn the_example_of_section_5_4_comes_out() {
        // Both can run 8 blocks alone; beside each other they have 2 and 4, and issue 0.4 and 0.5 a cycle alone.
        let due = [due(0.4 / 8.0, 2), due(0.5 / 8.0, 4)];
        assert_eq!(due, [0.1, 0.25]);
        let quotas: Vec<f64> = quotas(&due).collect();
        assert_eq!(quotas, [0.1 / 0.35, 0.25 / 0.35]);
    }

    #[test]
    fn what_counts_is_what_was_issued_while_it_was_watched() {
        let settings = Settings::DEFAULT;
        let mut profiler = IssueProfiler::new(settings, 16);
        profiler.observe(&sample(ROWS[1], 2, 7, 7));
        assert!(profiler.step(Nanos(0), &ROWS), "both have an SM");
        assert!(profiler.rows().eq(ROWS));
        profiler.observe(&sample(ROWS[0], 0, 1_000, 999));
        let at = Nanos(0) + settings.warm_up;
        assert_eq!(profiler.wake_at(), Some(at));
        assert!(!profiler.step(at, &ROWS));
        for (row, group, cycles, issued) in [(3, 0, 9_000, 2_999), (5, 1, 4_000, 3_000)] {
            profiler.observe(&sample(RowId(row), group, cycles, issued));
        }
        // What a row did on other SMs is not asked for.
        profiler.observe(&sample(ROWS[0], 2, 1, 1_000_000));
        assert!(profiler.step(at + settings.window, &ROWS));
        assert_eq!(ROWS.map(|row| profiler.rate(row)), [Some(0.25), Some(0.75)]);
        assert_eq!(profiler.rows().len(), 0, "the SMs are shared again");
        profiler.observe(&Event::RowGone { row: ROWS[0] });
        assert_eq!(profiler.rate(ROWS[0]), None);
    }

    #[test]
    fn rates_that_were_given_stay_and_nothing_is_profiled() {
        let mut profiler = IssueProfiler::given(&[0.0, 0.0, 0.0, 0.5], 16);
        profiler.observe(&sample(ROWS[0], 0, 1_000, 999));
        assert!(!profiler.step(Nanos(0), &ROWS));
        profiler.observe(&Event::RowGone { row: ROWS[0] });
        assert_eq!(profiler.rate(ROWS[0]), Some(0.5));
        assert_eq!((profiler.rows().len(), profiler.wake_at()), (0, None));
    }

    #[test]
    fn a_small_device_is_shared_wholly_most_of_the_time() {
        let settings = Settings::DEFAULT;
        let mut profiler = IssueProfiler::new(settings, 4);
        profiler.observe(&sample(ROWS[1], 2, 7, 7));
        profiler.step(Nanos(0), &ROWS);
        let took = settings.warm_up + settings.window;
        profiler.step(Nanos(0) + settings.warm_up, &ROWS);
        for (row, group) in [(3, 0), (5, 1)] {
            profiler.observe(&sample(RowId(row), group, 10, 10));
        }
        assert!(profiler.step(took, &ROWS));
        assert_eq!(profiler.rows().len(), 0);
        let rest = profiler.wake_at().expect("it goes on") - took;
        // Two of four SMs for a 16th of the time are a 32nd of the device.
        assert_eq!(rest, took * 15);
        assert!(!profiler.step(took + Nanos(1), &ROWS));
        assert!(profiler.step(took + rest, &ROWS), "again");
    }

    #[test]
    fn an_executor_that_sends_no_samples_keeps_its_sms() {
        let mut profiler = IssueProfiler::new(Settings::DEFAULT, 4);
        let mut now = Nanos(0);
        for _ in 0..100 {
            assert!(!profiler.step(now, &ROWS));
            now = profiler.wake_at().unwrap_or(now + Nanos(1));
        }
        assert_eq!((profiler.rows().len(), profiler.wake_at()), (0, None));
        profiler.observe(&sample(ROWS[0], 0, 1, 1));
        assert!(profiler.step(now, &ROWS), "it sends some after all");
    }

    #[test]
    fn more_rows_than_sms_take_turns() {
        let rows: Vec<RowId> = (0..6).map(RowId).collect();
        let mut profiler = IssueProfiler::new(Settings::DEFAULT, 4);
        profiler.observe(&sample(ROWS[0], 9, 1, 1));
        let mut now = Nanos(0);
        for _ in 0..20 {
            profiler.step(now, &rows);
            let on: Vec<RowId> = profiler.rows().collect();
            for (group, row) in (0..).zip(on) {
                profiler.observe(&sample(row, group, now.0, now.0));
            }
            now = profiler.wake_at().expect("it goes on");
        }
        assert!(rows.iter().all(|row| profiler.rate(*row).is_some()));
    }

    /// Lets the profiler go on to a time, with counts that grow on each of its SMs; returns how many it had till then.
    fn go_on(profiler: &mut IssueProfiler, now: Nanos, rows: &[RowId]) -> usize {
        let had: Vec<RowId> = profiler.rows().collect();
        let samples = (0..).zip(&had);
        samples.for_each(|(group, row)| profiler.observe(&sample(*row, group, now.0, now.0 / 2)));
        profiler.step(now, rows);
        had.len()
    }

    fn row_new(row: RowId) -> Event {
        Event::RowNew {
            row,
            tenant: TenantId(0),
            block: BlockShape::default(),
            profile: ProfileKey(7),
            spill: false,
        }
    }

    /// A kernel that is not known is profiled by itself, beside others that were profiled and have to rest.
    #[test]
    fn a_new_kernel_is_profiled_alone() {
        let mut profiler = IssueProfiler::new(Settings::DEFAULT, 8);
        profiler.observe(&sample(ROWS[0], 9, 1, 1));
        let took = Settings::DEFAULT.warm_up + Settings::DEFAULT.window;
        go_on(&mut profiler, Nanos(0), &ROWS);
        go_on(&mut profiler, Settings::DEFAULT.warm_up, &ROWS);
        go_on(&mut profiler, took, &ROWS);
        assert_eq!(profiler.rows().len(), 0, "both are known");
        let all = [ROWS[0], RowId(4), ROWS[1]];
        assert!(profiler.step(took + Nanos(9), &all));
        assert!(profiler.rows().eq([RowId(4)]));
        // What it took is charged: two SMs of eight, and one, each for a 32nd of the time.
        let rests_until = took * 8 + took * 4;
        let mut now = took + Nanos(9);
        while profiler.rows().len() < 3 {
            now = profiler.wake_at().expect("it goes on");
            go_on(&mut profiler, now, &all);
        }
        assert!(
            now >= rests_until && now <= rests_until + Nanos(20),
            "{now}"
        );
    }

    /// Kernels that end before they are profiled take no more than a small part of the device, however many come.
    #[test]
    fn a_stream_of_short_kernels_takes_a_small_part_of_the_device() {
        let mut profiler = IssueProfiler::new(Settings::DEFAULT, 4);
        profiler.observe(&sample(ROWS[0], 9, 1, 1));
        // Every 40 us two others come and the last two go.
        let (each, rounds) = (Nanos(40_000), 1_000);
        let (mut taken, mut now) = (0, Nanos(0));
        for round in 0..rounds {
            let rows = [2 * round, 2 * round + 1].map(|row| RowId(row % 64));
            for row in rows {
                profiler.observe(&row_new(row));
            }
            for _ in 0..4 {
                taken += go_on(&mut profiler, now, &rows);
                now += Nanos(each.0 / 4);
            }
            for row in rows {
                profiler.observe(&Event::RowGone { row });
            }
        }
        let all = 4 * 4 * u64::from(rounds);
        assert!(taken > 0 && taken as u64 * 20 < all, "{taken} of {all}");
    }

    /// What was counted of a row is no other row's that has its number, nor of anybody after a loss.
    #[test]
    fn a_rate_does_not_outlive_its_row_or_a_loss() {
        let known = || {
            let mut profiler = IssueProfiler::new(Settings::DEFAULT, 16);
            profiler.observe(&sample(ROWS[0], 9, 1, 1));
            for now in [0, 20_000, 80_000] {
                go_on(&mut profiler, Nanos(now), &ROWS);
            }
            assert!(ROWS.iter().all(|row| profiler.rate(*row).is_some()));
            profiler
        };
        let mut profiler = known();
        profiler.observe(&row_new(ROWS[0]));
        assert_eq!(profiler.rate(ROWS[0]), None);
        assert!(profiler.rate(ROWS[1]).is_some());
        let mut profiler = known();
        profiler.observe(&Event::Lost { n: 1 });
        assert_eq!(ROWS.map(|row| profiler.rate(row)), [None; 2]);
        // A loss while kernels are profiled breaks that off.
        profiler.step(Nanos(90_000), &ROWS);
        assert_eq!(profiler.rows().len(), 2);
        profiler.observe(&Event::Lost { n: 1 });
        assert!(profiler.step(Nanos(91_000), &ROWS));
        assert_eq!(profiler.rows().len(), 0);
    }
}
