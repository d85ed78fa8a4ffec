//! Any [`Policy`] in charge of an executor on virtual time ([`Engine`]).
//!
//! The driver owns an engine and a policy. It names rows, launches at their times of arrival, tells the policy what
//! happens, and has the engine obey its plans. There is no least time between two plans: the policy is asked at every
//! arrival, at every end, when it wanted to be woken and when the row that it watches has ended as many blocks as it
//! said.
//!
//! Rules: the policy hears of an instant's ends, then of its arrivals, and is asked once; a launch behind others in its
//! queue arrives for the policy when they have ended; every event that precedes a
//! plan is sent before the plan is asked for; a run is as deterministic as its engine. A policy that panics is replaced
//! ([`gridmux_policy::guard`]) by one that is told what lives and asked at the same instant.

mod engine;
mod feed;
mod rows;
mod tell;
mod types;

pub use engine::{Described, Ending, Engine, RowSample};
pub use gridmux_policy::blocks::{BlockChange, BlockEvent, Standing};
pub use types::{DriverCounters, DriverOptions, Outcome, OutcomeOn, SubmitError};

use feed::Feed;
use gridmux_policy::class::Class;
use gridmux_policy::event::Event;
use gridmux_policy::guard::{Guarded, PolicyFailure};
use gridmux_policy::ids::{DeviceId, RowId, TenantId};
use gridmux_policy::learner::Learner;
use gridmux_policy::plan::{Plan, Publisher};
use gridmux_policy::policy::{Policy, Watch};
use gridmux_policy::profiles::Profiles;
use gridmux_policy::share_meter::ShareReading;
use gridmux_policy::units::{Cycles, Nanos};
use rows::Rows;
use std::collections::BTreeMap;

/// An engine, a policy and the launches of tenants.
pub struct Driver<E: Engine> {
    engine: E,
    policy: Guarded,
    /// Replacements of policies after which what lives was told.
    replacements: u32,
    learner: Option<Learner>,
    publisher: Publisher,
    options: DriverOptions,
    rows: Rows<E::Kernel>,
    feed: Feed,
    /// Submitted and not arrived, by arrival and number.
    coming: BTreeMap<(u64, u64), Coming<E>>,
    outcomes: Vec<OutcomeOn<E>>,
    /// Launches that have not ended.
    unfinished: usize,
    /// Ends that the policy has not heard of: launch and time.
    ended: Vec<(u64, Cycles)>,
    /// Something happened after which the policy is asked.
    ask: bool,
    wake_at: Option<Cycles>,
    watch: Option<Watch>,
    /// Since when launches wait and no block is on an SM, if that is so.
    starved_since: Option<Cycles>,
    sampled_at: Cycles,
    history: Vec<BlockEvent>,
    counters: DriverCounters,
}

/// A launch that has not arrived.
type Coming<E> = (<E as Engine>::Submission, Described<<E as Engine>::Kernel>);

/// For so long launches wait at most with no block on any SM, where time passes until they end. Nothing that a policy
/// waits for takes as long, and one that is woken again and again would go on until the end of time.
const STARVED: Nanos = Nanos(1_000_000_000);

/// When time stops to pass, besides at a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    AtTime,
    AtAnEnd,
    WhenAllEnded,
}

impl<E: Engine> Driver<E> {
    /// Puts a policy in charge of an idle engine; the policy is asked for its first plan when time passes.
    #[must_use]
    pub fn new(
        mut engine: E,
        policy: Box<dyn Policy>,
        device: DeviceId,
        options: DriverOptions,
    ) -> Self {
        let mut first = Plan::default();
        first.device = device;
        let publisher = Publisher::new(first);
        engine.set_plan(publisher.newest());
        Self {
            feed: Feed::new(&engine.shape()),
            policy: Guarded::new(policy, device, &engine.shape()),
            replacements: 0,
            engine,
            learner: None,
            publisher,
            options,
            rows: Rows::new(options.rows_per_tenant, options.first_row),
            coming: BTreeMap::new(),
            outcomes: Vec::new(),
            unfinished: 0,
            ended: Vec::new(),
            ask: true,
            wake_at: None,
            watch: None,
            starved_since: None,
            sampled_at: Cycles(0),
            history: Vec::new(),
            counters: DriverCounters::default(),
        }
    }

    /// Fills a store of profiles from now on with what the policy hears; without one, nothing is learnt.
    pub fn learn(&mut self, profiles: &Profiles) {
        self.learner = Some(Learner::new(profiles));
    }

    /// Introduces a tenant, or changes its weight and class from now on.
    pub fn tenant(&mut self, tenant: TenantId, weight: u32, class: Class) {
        self.feed.tenant(tenant, (weight, class), self.now_ns());
        self.tell(&Event::Tenant {
            tenant,
            weight,
            class,
        });
        self.ask = true;
    }

    /// Cancels what a tenant has open or coming, and takes it and its rows away.
    pub fn end_tenant(&mut self, tenant: TenantId) {
        let coming = self.coming.keys().map(|(_, number)| *number);
        let own = coming.filter(|n| self.outcomes[place(*n)].tenant == tenant);
        let mut doomed: Vec<u64> = own.collect();
        doomed.extend(self.feed.open_of(tenant));
        for number in doomed {
            self.cancel(number);
        }
        self.report_ends();
        for row in self.rows.of(tenant) {
            self.row_gone(row);
        }
        self.feed.tenant_gone(tenant, self.now_ns());
        self.tell(&Event::TenantGone { tenant });
        self.ask = true;
    }

    /// Submits a launch that arrives at a cycle, now at the earliest; returns its number. Launches that arrive at the
    /// same cycle do so in the order of their submission.
    ///
    /// # Errors
    /// [`SubmitError`]; a refused launch leaves no trace.
    pub fn submit(
        &mut self,
        tenant: TenantId,
        submission: E::Submission,
        arrival: Cycles,
    ) -> Result<u64, SubmitError<E::Refusal>> {
        if !self.feed.knows(tenant) {
            return Err(SubmitError::NoTenant(tenant));
        }
        let number = self.outcomes.len() as u64;
        let described = self.engine.describe(&submission);
        let described = described.map_err(SubmitError::Launch)?;
        let arrival = arrival.max(self.engine.now());
        self.coming
            .insert((arrival.0, number), (submission, described));
        self.outcomes.push(Outcome {
            tenant,
            row: None,
            arrival,
            first_start: None,
            end: None,
            counters: None,
            error: None,
        });
        self.unfinished += 1;
        Ok(number)
    }

    /// Cancels a launch that has not ended; false if there is no such launch.
    pub fn cancel(&mut self, number: u64) -> bool {
        let Some(outcome) = self.outcomes.get_mut(place(number)) else {
            return false;
        };
        if outcome.end.is_some() {
            return false;
        }
        let now = self.engine.now();
        outcome.end = Some(now);
        self.unfinished -= 1;
        if self.coming.remove(&(outcome.arrival.0, number)).is_none() {
            self.engine.kill(number);
            self.take_blocks();
            self.feed.dropped(number, self.now_ns());
            self.ended.push((number, now));
        }
        true
    }

    /// Lets time pass until a cycle.
    pub fn run_until(&mut self, until: Cycles) {
        self.pass(until, Stop::AtTime);
    }

    /// Lets time pass until a launch has ended, or until a cycle; returns those that have ended. What is submitted next
    /// arrives at the same instant as these ends at the earliest, and the policy hears of both together. None have
    /// ended, before the cycle, if the policy gives what waits no room for a second.
    pub fn run_to_an_end(&mut self, until: Cycles) -> Vec<u64> {
        self.pass(until, Stop::AtAnEnd);
        // The policy has heard of earlier ones.
        self.ended.iter().map(|(number, _)| *number).collect()
    }

    /// Lets time pass until every launch has ended, or until a cycle; false if the cycle came first, or if the policy
    /// gives what waits no room for a second.
    pub fn run(&mut self, until: Cycles) -> bool {
        self.pass(until, Stop::WhenAllEnded);
        self.unfinished == 0
    }

    /// Returns the result of a launch so far.
    #[must_use]
    pub fn outcome(&self, number: u64) -> Option<&OutcomeOn<E>> {
        self.outcomes.get(place(number))
    }

    /// Returns what a tenant's blocks have held and what it was entitled to, until now.
    pub fn reading(&mut self, tenant: TenantId) -> ShareReading {
        let now = self.now_ns();
        self.feed.reading(tenant, now)
    }

    /// Returns counts since the driver was made.
    #[must_use]
    pub fn counters(&self) -> DriverCounters {
        self.counters
    }

    /// Puts another policy in charge. Nothing that runs is touched: it is told what lives, and asked, when time passes.
    pub fn choose_policy(&mut self, policy: Box<dyn Policy>) {
        self.policy.choose(policy);
    }

    /// Returns how the policy failed, if it did and was replaced.
    #[must_use]
    pub fn policy_failure(&self) -> Option<&PolicyFailure> {
        self.policy.failure()
    }

    /// Returns the plan that is obeyed.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        self.publisher.newest()
    }

    /// Returns the engine.
    #[must_use]
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// Returns the engine, to change what is neither a launch nor a plan; those are the driver's.
    pub fn engine_mut(&mut self) -> &mut E {
        &mut self.engine
    }

    /// Returns the engine as it is, and drops the rest.
    #[must_use]
    pub fn into_engine(self) -> E {
        self.engine
    }

    /// Takes every block's event since the last call, in order of time, if they are recorded; tags are launch numbers.
    pub fn take_block_events(&mut self) -> Vec<BlockEvent> {
        std::mem::take(&mut self.history)
    }

    fn pass(&mut self, until: Cycles, stop: Stop) {
        loop {
            self.consult();
            // A launch that was refused as it arrived has ended too.
            let has_ended = stop == Stop::AtAnEnd && !self.ended.is_empty();
            let now = self.engine.now();
            let is_over = self.unfinished == 0 || self.is_starved(now);
            if has_ended || now >= until || (stop != Stop::AtTime && is_over) {
                return;
            }
            let arrival = self.coming.keys().next().map(|(at, _)| Cycles(*at));
            let next = arrival
                .into_iter()
                .chain(self.wake_at)
                .fold(until, Ord::min);
            let ended = self.engine.advance(next, self.watch);
            self.take_blocks();
            self.take_ended(ended);
            if stop == Stop::AtAnEnd && !self.ended.is_empty() {
                return;
            }
        }
    }

    /// Returns whether launches have waited too long with no block on any SM.
    fn is_starved(&self, now: Cycles) -> bool {
        let since = self.starved_since;
        since.is_some_and(|since| self.time(now - since) >= STARVED)
    }

    /// Takes the block events of the time that has passed.
    fn take_blocks(&mut self) {
        let mut events = self.engine.take_blocks();
        events.sort_by_key(|event| event.at);
        if !events.is_empty() || !self.feed.starves() {
            self.starved_since = None;
        } else if self.starved_since.is_none() {
            self.starved_since = Some(self.engine.now());
        }
        for event in &events {
            let at = self.time(event.at);
            let first = self.feed.block(event, self.publisher.newest(), at);
            if let Some(row) = first {
                self.outcomes[place(event.tag)].first_start = Some(event.at);
                let launch = event.tag;
                self.tell(&Event::FirstStart { row, launch, at });
            }
            if matches!(event.change, BlockChange::Retired { .. }) {
                self.count_end(event.row);
            }
        }
        if self.options.record {
            self.history.append(&mut events);
        }
    }

    /// Counts an ended block of a row, and has the policy asked if it watches for it.
    fn count_end(&mut self, row: RowId) {
        let Some(book) = self.rows.get_mut(row) else {
            return;
        };
        book.ended += 1;
        let reached = |watch: &mut Watch| watch.row == row && watch.ended <= book.ended;
        self.ask |= self.watch.take_if(reached).is_some();
    }

    fn take_ended(&mut self, ended: Vec<Ending<E>>) {
        for ending in ended {
            let outcome = &mut self.outcomes[place(ending.number)];
            match ending.result {
                Ok(counters) => outcome.counters = Some(counters),
                Err(failure) => {
                    outcome.error = Some(failure);
                    let at = self.time(ending.at);
                    self.feed.dropped(ending.number, at);
                }
            }
            self.close(ending.number, ending.at);
        }
    }

    /// Takes note of the end of a launch, one that the engine refused when it arrived included.
    fn close(&mut self, number: u64, at: Cycles) {
        self.outcomes[place(number)].end = Some(at);
        self.unfinished -= 1;
        self.ended.push((number, at));
    }

    /// Tells the policy what has happened and asks it, if there is a reason to.
    fn consult(&mut self) {
        let now = self.engine.now();
        let due = self.wake_at.is_some_and(|at| at <= now);
        let arrives = self
            .coming
            .keys()
            .next()
            .is_some_and(|(at, _)| *at <= now.0);
        let replaced = self.policy.replacements() != self.replacements;
        if !(std::mem::take(&mut self.ask) || due || arrives || replaced || !self.ended.is_empty())
        {
            return;
        }
        self.report_ends();
        while let Some(entry) = self.coming.first_entry() {
            let (at, number) = *entry.key();
            if at > now.0 {
                break;
            }
            let coming = entry.remove();
            self.arrive(number, &coming);
        }
        let at = self.now_ns();
        let Self {
            feed,
            policy,
            counters,
            ..
        } = self;
        // Shares say nothing of blocks, so that nothing is learnt from them.
        feed.shares(due, at, |event| {
            counters.events += 1;
            policy.observe(event);
        });
        if due {
            self.sample();
            self.tell(&Event::Timer { at });
        }
        self.replan(at);
        while self.policy.replacements() != self.replacements {
            self.replacements = self.policy.replacements();
            self.tell_anew(at);
            self.replan(at);
        }
    }

    fn tell(&mut self, event: &Event) {
        self.counters.events += 1;
        if let Some(learner) = &mut self.learner {
            learner.observe(event);
        }
        self.policy.observe(event);
    }

    fn time(&self, at: Cycles) -> Nanos {
        self.engine.time(at)
    }

    fn now_ns(&self) -> Nanos {
        self.engine.time(self.engine.now())
    }
}

/// Returns the place of a launch in the table of outcomes.
fn place(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
