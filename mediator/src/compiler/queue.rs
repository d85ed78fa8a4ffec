//! The choice of the module that is compiled next: that of the waiting tenant that used the least compile time lately.
//!
//! Time counts while a job holds a seat, and half of it is forgotten every ten seconds. A tenant has one seat at most,
//! however many clients of it wait: a tenant that comes while another one compiles finds a seat free.
//!
//! Rules: the queue is pure and is told the time. Jobs of one tenant go in their order.

use super::SEATS;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// After how long half of what a tenant used is forgotten.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// Used time of which nothing more is kept, in seconds.
const FORGOTTEN: f64 = 1e-3;

/// A job that waits.
#[derive(Debug)]
struct Waiting<J> {
    arrival: u64,
    client: u16,
    job: J,
}

/// A job that holds a seat.
#[derive(Debug, Clone, Copy)]
struct Running {
    tenant: u32,
    client: u16,
    since: Instant,
}

/// Compile time that a tenant used, in seconds, as of a time.
#[derive(Debug, Clone, Copy)]
struct Used {
    seconds: f64,
    at: Instant,
}

impl Used {
    fn now(self, now: Instant) -> f64 {
        let halves = now.saturating_duration_since(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.seconds * (-halves).exp2()
    }
}

/// Jobs that wait for seats, and the seats.
#[derive(Debug)]
pub struct FairQueue<J> {
    waiting: BTreeMap<u32, VecDeque<Waiting<J>>>,
    seats: [Option<Running>; SEATS],
    used: BTreeMap<u32, Used>,
    arrivals: u64,
}

impl<J> Default for FairQueue<J> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            seats: [None; SEATS],
            used: BTreeMap::new(),
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

    /// Takes the job that a free seat does next, if one may be done.
    pub fn take(&mut self, seat: usize, now: Instant) -> Option<J> {
        self.used.retain(|_, used| used.now(now) > FORGOTTEN);
        let used = |tenant: &u32| self.used.get(tenant).map_or(0.0, |used| used.now(now));
        let is_seated = |tenant: &u32| self.seats.iter().flatten().any(|r| r.tenant == *tenant);
        let free = self.waiting.iter().filter(|(tenant, _)| !is_seated(tenant));
        let arrival = |jobs: &VecDeque<Waiting<J>>| jobs.front().map(|first| first.arrival);
        let (tenant, _) = free.min_by(|(a, first), (b, second)| {
            let by_use = used(a).total_cmp(&used(b));
            by_use.then(arrival(first).cmp(&arrival(second)))
        })?;
        let tenant = *tenant;
        let jobs = self.waiting.get_mut(&tenant)?;
        let next = jobs.pop_front()?;
        if jobs.is_empty() {
            self.waiting.remove(&tenant);
        }
        self.seats[seat] = Some(Running {
            tenant,
            client: next.client,
            since: now,
        });
        Some(next.job)
    }

    /// Frees a seat whose job has ended.
    pub fn done(&mut self, seat: usize, now: Instant) {
        let Some(running) = self.seats[seat].take() else {
            return;
        };
        let lasted = now.saturating_duration_since(running.since).as_secs_f64();
        let before = self.used.get(&running.tenant);
        let seconds = before.map_or(0.0, |used| used.now(now)) + lasted;
        self.used.insert(running.tenant, Used { seconds, at: now });
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

    /// Returns the seat that does a client's job.
    #[must_use]
    pub fn seat_of(&self, client: u16) -> Option<usize> {
        let is_its = |seat: &Option<Running>| seat.is_some_and(|running| running.client == client);
        self.seats.iter().position(is_its)
    }
}

#[cfg(test)]
mod tests {
    use super::FairQueue;
    use std::time::{Duration, Instant};

    #[test]
    fn a_tenant_has_one_seat_and_the_next_is_of_who_used_least() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut queue = FairQueue::default();
        for (client, job) in [(0, "a0"), (1, "a1"), (2, "a2")] {
            queue.push(7, client, job);
        }
        assert_eq!(queue.take(0, at(0)), Some("a0"));
        assert_eq!(queue.take(1, at(0)), None, "one tenant, one seat");
        queue.push(8, 3, "b0");
        assert_eq!(queue.take(1, at(0)), Some("b0"));
        // Tenant 7 used 4 s, tenant 8 one.
        queue.done(1, at(1));
        queue.done(0, at(4));
        queue.push(8, 3, "b1");
        assert_eq!(queue.take(0, at(4)), Some("b1"));
        assert_eq!(queue.take(1, at(4)), Some("a1"));
        queue.push(9, 4, "c0");
        queue.done(1, at(4));
        assert_eq!(queue.take(1, at(4)), Some("c0"), "it used nothing yet");
    }

    #[test]
    fn what_was_used_is_forgotten() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut queue = FairQueue::default();
        queue.push(1, 0, "x");
        assert_eq!(queue.take(0, at(0)), Some("x"));
        queue.done(0, at(100));
        queue.push(2, 1, "y");
        assert_eq!(queue.take(0, at(1000)), Some("y"));
        queue.done(0, at(1001));
        // 100 s used 15 minutes ago are less than 1 s used now.
        queue.push(2, 1, "y");
        queue.push(1, 0, "x");
        assert_eq!(queue.take(0, at(1001)), Some("x"));
    }

    #[test]
    fn what_waits_is_removed_and_what_runs_is_found() {
        let now = Instant::now();
        let mut queue = FairQueue::default();
        queue.push(1, 5, "running");
        queue.push(1, 6, "waiting");
        assert_eq!(queue.take(1, now), Some("running"));
        assert_eq!((queue.seat_of(5), queue.seat_of(6)), (Some(1), None));
        assert!(queue.remove(6) && !queue.remove(6) && !queue.remove(5));
        queue.done(1, now);
        assert_eq!((queue.seat_of(5), queue.take(0, now)), (None, None));
    }
}
