//! Shortest remaining time first (SRTF, section 5.1.1).
//!
//! The kernel with the least predicted remaining time has the device to itself. What is new is sampled first: it gets
//! one SM until enough of its blocks have ended, while the present kernel goes on with the others; new kernels are
//! sampled one at a time, in order of arrival. Remaining time is the second term of equation 2 ([`crate::predict`]).
//!
//! Rules: blocks that run are not preempted, so a hand-over takes until they end; a kernel keeps the device until it
//! ends or until another one needs less than nine tenths of its remaining time, because predictions of nearly equal
//! kernels would change places all the time.
//!
//! Three policies share this file's state: with sampling ([`NAME`]), with profiles instead of it
//! ([`super::srtf_zero`]), and one that shares where that is fairer ([`super::srtf_adaptive`]).

use crate::book::{Book, Job};
use crate::contract::Element;
use crate::event::Event;
use crate::ids::{DeviceId, RowId};
use crate::layout::Layout;
use crate::plan::{DispatchOrder, Group, Plan, Preemption, Stop, Surplus};
use crate::policy::{NO_CLASS, Policy, PolicyInfo, Samples, Watch};
use crate::predict::slowdowns::{self, Turn};
use crate::predict::{Durations, simple_slicing, takes_over};
use crate::profiles::Profiles;
use crate::shape::{DeviceShape, Room};
use crate::sm_set::SmSet;
use crate::units::Nanos;

/// The policy's name.
pub const NAME: &str = "srtf";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "the kernel with the least predicted remaining time has the device; new ones are sampled",
    source: "SRTF section 5.1.1",
    paper: "SRTF 2014",
    promises_weights: false,
    weights: "they have no meaning: kernels go by their remaining times alone",
    class: NO_CLASS,
    is_oracle: false,
    samples: Samples::Unused,
    uses: &[Element::Cap, Element::DeviceLimit, Element::Stop],
    make: |device, shape, _| Box::new(Srtf::new(device, shape, Settings::default())),
};

/// What can be set.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What is known of kernels, which are not sampled then.
    pub profiles: Profiles,
    /// Shares where predicted slowdowns differ by more than this (SRTF, section 5.1.2: 0.5).
    pub share_beyond: Option<f64>,
    /// What a launch has waited for counts in its slowdown; the paper counts what it has run.
    pub waiting_counts: bool,
    /// Shares only where slowdowns differ less if kernels share (Figure 13). The paper watches these and does not say
    /// what follows from them.
    pub compares: bool,
}

/// Blocks of the fastest kernel on an SM where kernels share (SRTF, section 5.1.2).
const SHARED_RESIDENCY: u16 = 3;

/// Predicted remaining time decides.
#[derive(Debug)]
pub struct Srtf {
    device: DeviceId,
    settings: Settings,
    book: Book,
    durations: Durations,
    heads: Vec<Job>,
    rows: Vec<RowId>,
    /// What is predicted of each head that is known, in nanoseconds, by remaining time and arrival.
    order: Vec<Forecast>,
    /// The row that has the device.
    current: Option<RowId>,
    /// The row that is sampled, and the ended blocks after which it is known.
    sampled: Option<Watch>,
    shares: bool,
    /// The heads in order as schedules see them; kept so that nothing is allocated.
    turns: Vec<Turn>,
    watch: Option<Watch>,
}

/// What is predicted of a launch.
#[derive(Clone, Copy, Debug)]
struct Forecast {
    row: RowId,
    /// Its place in order of arrival.
    place: usize,
    /// Duration of a block alone, and runtime of what is left alone.
    block_ns: f64,
    remaining: f64,
}

impl Srtf {
    /// Returns the policy for one device.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape, settings: Settings) -> Self {
        Self {
            device,
            settings,
            book: Book::new(shape),
            durations: Durations::default(),
            heads: Vec::new(),
            rows: Vec::new(),
            order: Vec::new(),
            current: None,
            sampled: None,
            shares: false,
            turns: Vec::new(),
            watch: None,
        }
    }

    /// Returns the duration of a row's blocks alone in nanoseconds, if it is known.
    fn block_ns(&self, row: RowId) -> Option<f64> {
        let profile = self.book.row(row)?.profile;
        let known = self.settings.profiles.block_ns(profile);
        known.or_else(|| self.durations.exclusive(row))
    }

    /// Predicts every head that is known.
    fn forecast(&mut self) {
        self.order.clear();
        for (place, job) in self.heads.iter().enumerate() {
            let Some(block_ns) = self.block_ns(job.row) else {
                continue;
            };
            let resident = self.book.resident_of(job);
            self.order.push(Forecast {
                row: job.row,
                place,
                block_ns,
                remaining: simple_slicing(0.0, job.left(), resident, block_ns),
            });
        }
        self.order.sort_unstable_by(|one, other| {
            let remaining = one.remaining.total_cmp(&other.remaining);
            remaining.then(one.place.cmp(&other.place))
        });
    }

    /// Decides who has the device, and who is sampled.
    fn decide(&mut self, now: Nanos) {
        self.shares = false;
        let heads = &self.heads;
        let works = |row: RowId| heads.iter().any(|job| job.row == row);
        self.current = self.current.filter(|row| works(*row));
        let ended = |row: RowId| self.book.row(row).map_or(u64::MAX, |info| info.ended);
        self.sampled = self
            .sampled
            .filter(|watch| works(watch.row) && ended(watch.row) < watch.ended);
        if self.sampled.is_some() && self.current.is_some() {
            return;
        }
        let shortest = self.order.first().map(|forecast| forecast.row);
        let first = shortest.or_else(|| heads.first().map(|job| job.row));
        self.current = self.current.or(first);
        let unknown = |row: &RowId| self.block_ns(*row).is_none();
        let rows = heads.iter().map(|job| job.row);
        let next = rows.filter(unknown).find(|row| Some(*row) != self.current);
        if let Some(row) = next {
            let ended = ended(row).saturating_add(1);
            self.sampled = Some(Watch { row, ended });
            return;
        }
        self.sampled = None;
        let present = self.order.iter().find(|f| Some(f.row) == self.current);
        if let (Some(best), Some(present)) = (self.order.first(), present)
            && takes_over(best.remaining, present.remaining)
        {
            self.current = Some(best.row);
        }
        if let Some(beyond) = self.settings.share_beyond {
            self.shares = self.is_unfair(beyond, now);
        }
    }

    /// Returns whether kernels share, because slowdowns differ by more than `beyond` if they do not.
    fn is_unfair(&mut self, beyond: f64, now: Nanos) -> bool {
        let mut turns = std::mem::take(&mut self.turns);
        turns.clear();
        turns.extend(self.order.iter().map(|forecast| self.turn(forecast, now)));
        let exclusive = slowdowns::exclusive(&turns);
        let held = |first: usize, place: usize| {
            let order = &self.order[first..];
            let on_sm = self.shared_cap(order, self.order[place].row);
            u64::from(on_sm) * u64::from(self.book.shape().sms)
        };
        let shares = exclusive > beyond
            && (!self.settings.compares || slowdowns::shared(&mut turns, held) < exclusive);
        self.turns = turns;
        shares
    }

    fn turn(&self, forecast: &Forecast, now: Nanos) -> Turn {
        let job = &self.heads[forecast.place];
        let resident = self.book.resident(job.row);
        let ran = simple_slicing(0.0, job.ended, resident, forecast.block_ns);
        Turn {
            so_far: match self.settings.waiting_counts {
                true => (now - job.arrived).0 as f64,
                false => ran,
            },
            blocks: job.blocks,
            left: job.left() as f64,
            resident,
            alone_ns: forecast.block_ns,
            shared_ns: self.durations.of(job.row).unwrap_or(forecast.block_ns),
        }
    }

    /// Returns a row's cap on the SM of samples, or on the others.
    fn cap(&self, on_sample: bool, row: RowId) -> u16 {
        let most = self.book.row(row).map_or(0, |info| info.most);
        let owner = match self.sampled {
            Some(watch) if on_sample => Some(watch.row),
            _ => self.current,
        };
        match owner == Some(row) {
            true => most,
            false => 0,
        }
    }

    /// Returns a row's cap where kernels share: the fastest of `order` keeps a few blocks, others have the rest.
    fn shared_cap(&self, order: &[Forecast], row: RowId) -> u16 {
        let mut room = Room::empty_sm(self.book.shape());
        for (place, forecast) in order.iter().enumerate() {
            let Some(info) = self.book.row(forecast.row) else {
                continue;
            };
            let fits = u16::try_from(room.fits(&info.block)).unwrap_or(info.most);
            let cap = match place {
                0 => fits.min(SHARED_RESIDENCY),
                _ => fits,
            };
            if forecast.row == row {
                return cap;
            }
            room.take(&info.block, cap.into());
        }
        0
    }

    fn fill(&mut self, standing: &Plan, next: &mut Plan) {
        let layout = Layout::checked(self.device);
        let sms = self.book.shape().sms;
        let group = |from, to| Group {
            sms: SmSet::range(from, to),
            order: DispatchOrder::Rank,
            preemption: Preemption::None,
            head_of_line: false,
            surplus: Surplus::Idle,
        };
        self.rows.clear();
        self.rows.extend(self.heads.iter().map(|job| job.row));
        let plans = (standing, next);
        if self.shares && self.sampled.is_none() {
            let all = [group(0, sms)];
            layout.fill(&self.book, plans, &all, &self.rows, |_, place| {
                self.shared_cap(&self.order, self.rows[place])
            });
        } else if self.sampled.is_some() && sms > 1 {
            let two = [group(0, 1), group(1, sms)];
            layout.fill(&self.book, plans, &two, &self.rows, |group, place| {
                self.cap(group == 0, self.rows[place])
            });
        } else {
            // Nobody runs beside the row that has the device, so nobody waits for it to stop within a block.
            let layout = Layout {
                stop: Stop::Ahead,
                ..layout
            };
            let all = [group(0, sms)];
            layout.fill(&self.book, plans, &all, &self.rows, |_, place| {
                self.cap(true, self.rows[place])
            });
        }
    }

    /// Watches the row that is sampled; else the one that runs, until its next wave has ended.
    fn next_watch(&self) -> Option<Watch> {
        let wave = |row: RowId| {
            let ended = self.book.row(row)?.ended;
            let ended = ended.saturating_add(self.book.resident(row));
            Some(Watch { row, ended })
        };
        let several = self.heads.len() > 1;
        self.sampled
            .or_else(|| self.current.filter(|_| several).and_then(wave))
    }
}

impl Policy for Srtf {
    fn observe(&mut self, event: &Event) {
        self.book.observe(event);
        self.durations.observe(event);
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        let reached = |watch: Watch| {
            let row = self.book.row(watch.row);
            row.is_some_and(|row| row.ended >= watch.ended)
        };
        let due = self.watch.is_some_and(reached);
        if !(self.book.take_changed() || due) {
            return false;
        }
        self.book.heads(&mut self.heads);
        self.forecast();
        self.decide(now);
        self.durations.share(self.shares);
        self.watch = self.next_watch();
        self.fill(standing, next);
        !next.says_the_same(standing) || standing.groups().is_empty()
    }

    fn watch(&self) -> Option<Watch> {
        self.watch
    }
}
