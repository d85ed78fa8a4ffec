//! The choice of the modules that are compiled and loaded next: those of the tenants that used the least compile time
//! lately.
//!
//! A tenant's compile time is what its compilers run and its modules load; half of it is forgotten every ten seconds. A
//! tenant has one seat at most, however many clients of it wait. Of the seats' compilers [`AT_ONCE`] run; the others
//! are stopped, and one that runs is stopped for one of a tenant that used [`QUANTUM_SECONDS`] less. So
//! modules of a tenant that used less compile time do not wait for slow modules of others.
//! Where no seat is left for it, the job of the tenant that used the most loses its seat and begins anew later, if that
//! tenant used more than twice as much and [`LEAD_SECONDS`] besides.
//!
//! A module that is quick to load is loaded as soon as it is compiled; of others [`AT_ONCE`] are loaded at once. No
//! load is stopped.
//!
//! Rules: the queue is pure and is told the time. Jobs of one tenant go in their order.

use super::{AT_ONCE, SEATS};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// After how long half of what a tenant used is forgotten.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// Used time of which nothing more is kept, in seconds.
const FORGOTTEN: f64 = 1e-6;
/// How much more compile time one tenant has used than another before its compiler is stopped for the other's.
const QUANTUM_SECONDS: f64 = 0.02;
/// How much more than twice as much it has used before its job loses its seat.
const LEAD_SECONDS: f64 = 0.25;

/// A job that waits.
#[derive(Debug)]
struct Waiting<J> {
    arrival: u64,
    client: u16,
    job: J,
}

/// A job that holds a seat.
#[derive(Debug, Clone, Copy)]
struct Seated {
    tenant: u32,
    client: u16,
    arrival: u64,
    phase: Phase,
}

/// What becomes of a job that holds a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Its compiler runs.
    Compiles,
    /// Its compiler is stopped: others go first.
    Stopped,
    /// It is compiled, and long to load: others are loaded first.
    Waits,
    /// It is loaded.
    Loads {
        /// This may take long.
        long: bool,
    },
    /// It is to end and begin anew later, because a tenant that used less needs its seat.
    Displaced,
    /// It is to end: its client has left.
    Cancelled,
}

impl Phase {
    /// Returns whether its seat may still be given to another job.
    fn is_displaceable(self) -> bool {
        matches!(self, Self::Compiles | Self::Stopped | Self::Waits)
    }

    /// Returns whether it uses compile time.
    fn uses_time(self) -> bool {
        matches!(self, Self::Compiles | Self::Loads { .. })
    }
}

/// Jobs that wait for seats, and the seats.
#[derive(Debug)]
pub struct FairQueue<J> {
    waiting: BTreeMap<u32, VecDeque<Waiting<J>>>,
    seats: [Option<Seated>; SEATS],
    /// Compile time that tenants used, in seconds, as of a time.
    used: BTreeMap<u32, f64>,
    at: Option<Instant>,
    arrivals: u64,
}

impl<J> Default for FairQueue<J> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            seats: [None; SEATS],
            used: BTreeMap::new(),
            at: None,
            arrivals: 0,
        }
    }
}

impl<J> FairQueue<J> {
    /// Adds a job of a tenant's client.
    pub fn push(&mut self, tenant: u32, client: u16, job: J) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        let waiting = Waiting {
            arrival,
            client,
            job,
        };
        self.waiting.entry(tenant).or_default().push_back(waiting);
    }

    /// Decides anew who compiles, who is loaded and who loses his seat; returns the seats that this changed.
    pub fn balance(&mut self, now: Instant) -> Vec<usize> {
        self.settle(now);
        let before = self.seats.map(|seat| seat.map(|seated| seated.phase));
        self.displace();
        self.choose_loads();
        self.choose_compilers();
        let changed = |n: &usize| before[*n] != self.phase(*n);
        (0..SEATS).filter(changed).collect()
    }

    /// Takes the job that a free seat does next, if one may be done. What [`FairQueue::balance`] decided must be new.
    pub fn take(&mut self, seat: usize) -> Option<J> {
        let running = self.count(|phase| phase == Phase::Compiles);
        let (_, _, tenant) = self.next().filter(|_| running < AT_ONCE)?;
        let jobs = self.waiting.get_mut(&tenant)?;
        let next = jobs.pop_front()?;
        if jobs.is_empty() {
            self.waiting.remove(&tenant);
        }
        self.seats[seat] = Some(Seated {
            tenant,
            client: next.client,
            arrival: next.arrival,
            phase: Phase::Compiles,
        });
        Some(next.job)
    }

    /// Returns what becomes of the job of a seat.
    #[must_use]
    pub fn phase(&self, seat: usize) -> Option<Phase> {
        self.seats[seat].map(|seated| seated.phase)
    }

    /// Takes note that the job of a seat is compiled, and whether it is long to load.
    pub fn compiled(&mut self, seat: usize, long: bool) {
        let seated = self.seats[seat].as_mut();
        if let Some(seated) = seated.filter(|seated| seated.phase != Phase::Cancelled) {
            seated.phase = match long {
                true => Phase::Waits,
                false => Phase::Loads { long },
            };
        }
    }

    /// Frees a seat whose job has ended.
    pub fn done(&mut self, seat: usize, now: Instant) {
        self.settle(now);
        self.seats[seat] = None;
    }

    /// Frees a seat whose job has lost it, and lets the job wait again; returns the job if its client has left.
    pub fn requeue(&mut self, seat: usize, job: J, now: Instant) -> Option<J> {
        self.settle(now);
        match self.seats[seat].take() {
            Some(seated) if seated.phase != Phase::Cancelled => {
                let Seated {
                    arrival, client, ..
                } = seated;
                let again = Waiting {
                    arrival,
                    client,
                    job,
                };
                let jobs = self.waiting.entry(seated.tenant).or_default();
                jobs.push_front(again);
                None
            }
            _ => Some(job),
        }
    }

    /// Removes a client's job that waits; returns whether there was one.
    pub fn remove(&mut self, client: u16) -> bool {
        let mut removed = false;
        self.waiting.retain(|_, jobs| {
            jobs.retain(|waiting| {
                waiting.client != client || std::mem::replace(&mut removed, true)
            });
            !jobs.is_empty()
        });
        removed
    }

    /// Lets a client's job that holds a seat end, unless it is being loaded; returns its seat.
    pub fn cancel(&mut self, client: u16) -> Option<usize> {
        let is_its = |seat: &Option<Seated>| seat.is_some_and(|seated| seated.client == client);
        let place = self.seats.iter().position(is_its)?;
        let seated = self.seats[place].as_mut()?;
        if !matches!(seated.phase, Phase::Loads { .. }) {
            seated.phase = Phase::Cancelled;
        }
        Some(place)
    }

    /// Counts the time until now.
    fn settle(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at.unwrap_or(now));
        self.at = Some(now);
        let kept = (-passed.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2();
        self.used.retain(|_, used| {
            *used *= kept;
            *used > FORGOTTEN
        });
        for seated in self.seats.iter().flatten() {
            if seated.phase.uses_time() {
                *self.used.entry(seated.tenant).or_default() += passed.as_secs_f64();
            }
        }
    }

    fn used(&self, tenant: u32) -> f64 {
        self.used.get(&tenant).copied().unwrap_or(0.0)
    }

    fn count(&self, is: impl Fn(Phase) -> bool) -> usize {
        let seated = self.seats.iter().flatten();
        seated.filter(|seated| is(seated.phase)).count()
    }

    /// Returns, in no order, what the tenants without a seat that have jobs used, when the next one came, and who they
    /// are.
    fn unseated(&self) -> impl Iterator<Item = (f64, u64, u32)> {
        let is_seated = |tenant: u32| self.seats.iter().flatten().any(|s| s.tenant == tenant);
        let unseated = self.waiting.iter();
        let unseated = unseated.filter(move |(tenant, _)| !is_seated(**tenant));
        unseated.filter_map(|(tenant, jobs)| {
            let arrival = jobs.front()?.arrival;
            Some((self.used(*tenant), arrival, *tenant))
        })
    }

    /// Returns the tenant that gets the next seat.
    fn next(&self) -> Option<(f64, u64, u32)> {
        self.unseated()
            .min_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)))
    }

    /// Takes a seat from the tenant that used the most, where none is free or becomes free.
    fn displace(&mut self) {
        let is_free = |seat: &Option<Seated>| {
            seat.is_none_or(|s| matches!(s.phase, Phase::Displaced | Phase::Cancelled))
        };
        let Some((least, ..)) = self.next().filter(|_| !self.seats.iter().any(is_free)) else {
            return;
        };
        let used = &self.used;
        let used = |seated: &Seated| used.get(&seated.tenant).copied().unwrap_or(0.0);
        let seated = self.seats.iter_mut().flatten();
        let most = seated
            .filter(|seated| seated.phase.is_displaceable())
            .max_by(|one, other| used(one).total_cmp(&used(other)));
        if let Some(most) = most
            && used(most) > 2.0 * least + LEAD_SECONDS
        {
            most.phase = Phase::Displaced;
        }
    }

    fn choose_loads(&mut self) {
        while self.count(|phase| phase == Phase::Loads { long: true }) < AT_ONCE {
            let used = &self.used;
            let used = |seated: &Seated| used.get(&seated.tenant).copied().unwrap_or(0.0);
            let seated = self.seats.iter_mut().flatten();
            let least = seated
                .filter(|seated| seated.phase == Phase::Waits)
                .min_by(|one, other| used(one).total_cmp(&used(other)));
            match least {
                Some(least) => least.phase = Phase::Loads { long: true },
                None => return,
            }
        }
    }

    /// Lets the compilers run whose tenants used least, as many as leave room for those that come to free seats.
    fn choose_compilers(&mut self) {
        let seated = (0..).zip(&self.seats).filter_map(|(place, seat)| {
            let seated = seat.as_ref()?;
            let used = self.used(seated.tenant);
            match seated.phase {
                Phase::Compiles => Some((used - QUANTUM_SECONDS, seated.arrival, Some(place))),
                Phase::Stopped => Some((used, seated.arrival, Some(place))),
                _ => None,
            }
        });
        let newcomers = self.unseated().map(|(used, came, _)| (used, came, None));
        let mut candidates: Vec<(f64, u64, Option<usize>)> = seated.chain(newcomers).collect();
        candidates.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let mut free = self.seats.iter().filter(|seat| seat.is_none()).count();
        let mut left = AT_ONCE;
        for (_, _, place) in candidates {
            let runs = left > 0 && (place.is_some() || free > 0);
            left -= usize::from(runs);
            free -= usize::from(runs && place.is_none());
            if let Some(seated) = place.and_then(|place| self.seats[place].as_mut()) {
                seated.phase = match runs {
                    true => Phase::Compiles,
                    false => Phase::Stopped,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FairQueue, Phase};
    use crate::compiler::{AT_ONCE, SEATS};
    use std::time::{Duration, Instant};

    /// A queue whose seats take jobs at once, and a clock.
    struct Rig {
        queue: FairQueue<&'static str>,
        now: Instant,
    }

    impl Rig {
        fn new() -> Self {
            Self {
                queue: FairQueue::default(),
                now: Instant::now(),
            }
        }

        /// Lets time pass, in steps as the threads of the seats look.
        fn pass(&mut self, millis: u64) {
            for _ in 0..millis {
                self.now += Duration::from_millis(1);
                self.queue.balance(self.now);
            }
        }

        /// Lets every free seat take what it may.
        fn seat(&mut self) -> Vec<&'static str> {
            let mut taken = Vec::new();
            for seat in 0..SEATS {
                self.queue.balance(self.now);
                if self.queue.phase(seat).is_none() {
                    taken.extend(self.queue.take(seat));
                }
            }
            taken
        }

        fn seat_of(&self, client: u16) -> Option<usize> {
            let is_its = |seat: &Option<super::Seated>| seat.is_some_and(|s| s.client == client);
            self.queue.seats.iter().position(is_its)
        }

        fn phase_of(&self, client: u16) -> Option<Phase> {
            self.queue.phase(self.seat_of(client)?)
        }

        fn done(&mut self, client: u16) {
            let seat = self.seat_of(client).expect("it has a seat");
            self.queue.done(seat, self.now);
        }
    }

    #[test]
    fn a_tenant_has_one_seat_and_the_next_is_of_who_used_least() {
        let mut rig = Rig::new();
        for (client, job) in [(0, "a0"), (1, "a1"), (2, "a2")] {
            rig.queue.push(7, client, job);
        }
        assert_eq!(rig.seat(), ["a0"], "one tenant, one seat");
        rig.queue.push(8, 3, "b0");
        assert_eq!(rig.seat(), ["b0"]);
        rig.pass(1000);
        rig.done(3);
        rig.pass(3000);
        rig.done(0);
        // Tenant 7 used about 4 s, tenant 8 one.
        rig.queue.push(8, 3, "b1");
        assert_eq!(rig.seat(), ["b1", "a1"]);
    }

    #[test]
    fn what_was_used_is_forgotten() {
        let mut rig = Rig::new();
        rig.queue.push(1, 0, "x");
        rig.seat();
        rig.pass(100_000);
        rig.done(0);
        rig.now += Duration::from_secs(900);
        rig.queue.push(2, 1, "y");
        rig.seat();
        rig.pass(1000);
        rig.done(1);
        // 100 s used 15 minutes ago are less than 1 s used now.
        rig.queue.push(2, 1, "y");
        rig.queue.push(1, 0, "x");
        assert_eq!(rig.seat(), ["x", "y"]);
    }

    #[test]
    fn a_tenant_that_used_less_is_compiled_at_once_and_the_others_continue_later() {
        let mut rig = Rig::new();
        for tenant in [1, 2] {
            rig.queue.push(tenant, tenant.try_into().unwrap(), "slow");
        }
        rig.seat();
        rig.pass(500);
        rig.queue.push(3, 3, "small");
        assert_eq!(rig.seat(), ["small"]);
        let stopped = |rig: &Rig| [1, 2].map(|c| rig.phase_of(c) == Some(Phase::Stopped));
        assert_eq!(stopped(&rig).iter().filter(|is| **is).count(), 1);
        rig.pass(5);
        assert_eq!(stopped(&rig).iter().filter(|is| **is).count(), 1);
        rig.done(3);
        rig.pass(1);
        assert_eq!(stopped(&rig), [false, false]);
    }

    #[test]
    fn compilers_of_tenants_who_used_the_same_take_turns() {
        let mut rig = Rig::new();
        for client in 0..4_u16 {
            rig.queue.push(client.into(), client, "slow");
        }
        let mut ran = [0; 4];
        for _ in 0..2000 {
            rig.seat();
            rig.pass(1);
            for client in 0..4 {
                ran[usize::from(client)] +=
                    u32::from(rig.phase_of(client) == Some(Phase::Compiles));
            }
        }
        let sum: u32 = ran.iter().sum();
        // Two run but for the moment in which a newcomer takes its seat.
        assert!(
            (3990..=2000 * u32::try_from(AT_ONCE).unwrap()).contains(&sum),
            "{sum}"
        );
        assert!(ran.iter().all(|of| (900..1100).contains(of)), "{ran:?}");
    }

    #[test]
    fn where_no_seat_is_left_the_one_who_used_most_loses_his() {
        let mut rig = Rig::new();
        let offenders = u16::try_from(SEATS).unwrap();
        for client in 0..offenders {
            rig.queue.push(client.into(), client, "slow");
        }
        for _ in 0..10 {
            rig.seat();
            rig.pass(30);
        }
        rig.queue.push(99, 99, "small");
        let displaced = |rig: &Rig| {
            let clients = 0..offenders;
            clients
                .filter(|client| rig.phase_of(*client) == Some(Phase::Displaced))
                .collect::<Vec<_>>()
        };
        assert_eq!(rig.seat(), [""; 0]);
        assert_eq!(displaced(&rig), [0; 0], "nobody has used that much more");
        rig.pass(600);
        let [victim] = displaced(&rig)[..] else {
            panic!("{:?}", displaced(&rig));
        };
        let seat = rig.seat_of(victim).unwrap();
        assert_eq!(rig.queue.requeue(seat, "again", rig.now), None);
        assert_eq!(rig.seat(), ["small"]);
        rig.pass(5);
        rig.done(99);
        let begins_anew = |_| {
            rig.pass(1);
            rig.seat() == ["again"]
        };
        assert!(
            (0..100).any(begins_anew),
            "it has used no more than the others"
        );
    }

    #[test]
    fn long_loads_go_two_at_once_and_short_ones_past_them() {
        let mut rig = Rig::new();
        for client in 0..3_u16 {
            rig.queue.push(client.into(), client, "long");
            rig.seat();
            let seat = rig.seat_of(client).unwrap();
            rig.queue.compiled(seat, true);
            rig.pass(10);
        }
        let loads = Some(Phase::Loads { long: true });
        let phases = |rig: &Rig| [0, 1, 2].map(|client| rig.phase_of(client));
        assert_eq!(phases(&rig), [loads, loads, Some(Phase::Waits)]);
        rig.queue.push(9, 9, "short");
        assert_eq!(rig.seat(), ["short"]);
        let seat = rig.seat_of(9).unwrap();
        rig.queue.compiled(seat, false);
        assert_eq!(rig.phase_of(9), Some(Phase::Loads { long: false }));
        // The fifth takes the seat of the one that only waits.
        rig.queue.push(10, 10, "late");
        rig.pass(1000);
        assert_eq!(
            phases(&rig),
            [loads, loads, Some(Phase::Waits)],
            "it used little"
        );
        rig.done(0);
        rig.pass(1);
        assert_eq!(rig.phase_of(2), loads);
    }

    #[test]
    fn what_waits_is_removed_and_what_has_a_seat_is_cancelled_unless_it_is_loaded() {
        let mut rig = Rig::new();
        rig.queue.push(1, 5, "running");
        rig.queue.push(1, 6, "waiting");
        assert_eq!(rig.seat(), ["running"]);
        assert!(rig.queue.remove(6) && !rig.queue.remove(6) && !rig.queue.remove(5));
        let seat = rig.queue.cancel(5).unwrap();
        assert_eq!(rig.queue.phase(seat), Some(Phase::Cancelled));
        rig.queue.compiled(seat, true);
        assert_eq!(rig.queue.phase(seat), Some(Phase::Cancelled));
        assert_eq!(rig.queue.requeue(seat, "running", rig.now), Some("running"));
        assert_eq!((rig.queue.cancel(5), rig.seat()), (None, Vec::new()));
        rig.queue.push(1, 7, "loaded");
        rig.seat();
        let seat = rig.seat_of(7).unwrap();
        rig.queue.compiled(seat, false);
        assert_eq!(rig.queue.cancel(7), Some(seat));
        assert_eq!(rig.queue.phase(seat), Some(Phase::Loads { long: false }));
    }
}
