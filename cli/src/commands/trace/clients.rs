//! The ranges of clients: which of the processes that have the driver library are clients of the service.
//!
//! The probes of ranges fire in every process that uses the library; the service says which are its clients, by their
//! process numbers. A program may name ranges before it is one, so that those of a process that is not known are held
//! until the service knows it, or [`PATIENCE`] has passed.
//!
//! Rules: the ranges of a process come in their order; a process is a client's for a short time after the service said
//! so, for its number may become another's; what is held is bounded, and what does not pass is counted. The kernel
//! tells process numbers of the machine's first PID namespace, so that nobody in another one can compare them.

use super::session::Item;
use crate::commands::run::places;
use crate::failure::Failure;
use crate::service::ServiceArgs;
use anyhow::Context;
use gridmux_bpf::{Range, RangeTrace};
use gridmux_mediator::supervisor::ServiceStatistics;
use std::collections::{HashMap, VecDeque};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The least time between two questions to the service.
const PAUSE: Duration = Duration::from_millis(100);
/// The least time until it is asked anew about processes that are known, and after it gave no answer; for as long a
/// process is known after the service named it.
const LONG_PAUSE: Duration = Duration::from_secs(2);
/// How often it is asked at the end while its answers are old.
const ATTEMPTS: u32 = 10;
/// For how long a range is held for a process that is no client.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most ranges that are held: about as many as the ring has room for.
const MOST_HELD: usize = 1 << 15;
/// Most processes that are known.
const MOST_KNOWN: usize = 1 << 16;

/// The number of the machine's first PID namespace (`PROC_PID_INIT_INO` of Linux).
const FIRST_NAMESPACE: u64 = 0xefff_fffc;

/// Whose range it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    /// The tenant's number.
    pub(super) tenant: u32,
    /// The tenant's name.
    pub(super) name: Arc<str>,
}

/// The ranges of the clients of a service.
#[derive(Debug)]
pub(super) struct ClientRanges {
    trace: RangeTrace,
    service: ServiceArgs,
    clients: Clients,
    asked: Instant,
    answers: bool,
}

/// Which processes are clients, and what is held for those that are not.
#[derive(Debug)]
struct Clients {
    /// The tenant whose ranges pass, where only one's do.
    only: Option<u32>,
    known: HashMap<u32, (Owner, Instant)>,
    held: VecDeque<(Instant, Range)>,
    /// Hits of processes that were none for too long, or too many to hold.
    of_no_client: u64,
}

impl ClientRanges {
    /// Attaches to the driver library of this installation, for a service that has just said this.
    ///
    /// # Errors
    /// There is no such library, it cannot be traced, or process numbers mean something else here.
    pub(super) fn attach(
        service: &ServiceArgs,
        statistics: &ServiceStatistics,
        only: Option<u32>,
    ) -> Result<Self, Failure> {
        check_namespace()?;
        let (places, hint) = places()?;
        let library = places.into_iter().next().and_then(|driver| driver.file);
        let Some(library) = library else {
            return Err(Failure::new("gridmux's driver library is not there").hint(hint));
        };
        let trace = RangeTrace::attach(&library)?;
        let mut clients = Clients {
            only,
            known: HashMap::new(),
            held: VecDeque::new(),
            of_no_client: 0,
        };
        clients.learn(owners(statistics), said_at(statistics));
        Ok(Self {
            trace,
            service: service.clone(),
            clients,
            asked: Instant::now(),
            answers: true,
        })
    }

    /// Takes up to `most` hits and adds those of clients to `items`; returns whether there may be more.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) fn take(&mut self, most: usize, items: &mut Vec<Item>) -> Result<bool, Failure> {
        let mut ranges = Vec::new();
        self.trace.take(most, &mut ranges)?;
        let is_full = ranges.len() == most;
        let has_more = !ranges.is_empty();
        let now = Instant::now();
        for range in ranges {
            self.clients.take(range, now, items);
        }
        let pause = match (self.answers, self.clients.held.is_empty()) {
            (true, false) => PAUSE,
            _ => LONG_PAUSE,
        };
        if (has_more || !self.clients.held.is_empty()) && self.asked.elapsed() >= pause {
            self.ask();
            self.clients.release(Instant::now(), items);
        }
        Ok(is_full)
    }

    /// Adds what is held for processes that are clients by now; the rest is of none.
    pub(super) fn end(&mut self, items: &mut Vec<Item>) {
        let begun = Instant::now();
        for _ in 0..ATTEMPTS {
            if self.clients.held.is_empty() {
                break;
            }
            let is_of_now = self.ask().is_some_and(|age| age <= begun.elapsed());
            self.clients.release(Instant::now(), items);
            if is_of_now || !self.answers {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        self.clients.of_no_client += self.clients.held.len() as u64;
        self.clients.held.clear();
    }

    /// Returns how many hits found no room so far.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) fn lost(&self) -> Result<u64, Failure> {
        Ok(self.trace.lost()?)
    }

    /// Returns how many hits were of processes that were no clients.
    pub(super) fn of_no_client(&self) -> u64 {
        self.clients.of_no_client
    }

    /// Asks the service once; returns how old the answer is.
    fn ask(&mut self) -> Option<Duration> {
        // Without an answer nobody is known anew, and who is known is so no longer than before.
        let answer = self.service.statistics().ok();
        self.answers = answer.is_some();
        self.asked = Instant::now();
        let statistics = answer?;
        self.clients
            .learn(owners(&statistics), said_at(&statistics));
        Some(Duration::from_millis(statistics.age_ms))
    }
}

/// # Errors
/// This process is not in the machine's first PID namespace.
fn check_namespace() -> Result<(), Failure> {
    let namespace = std::fs::metadata("/proc/self/ns/pid")
        .context("/proc/self/ns/pid, which says what process numbers mean")?;
    check_is_first(namespace.ino())
}

fn check_is_first(namespace: u64) -> Result<(), Failure> {
    if namespace == FIRST_NAMESPACE {
        return Ok(());
    }
    let failure = Failure::new(
        "ranges name processes by their numbers in the initial PID namespace, which differ from those of this one",
    );
    Err(failure.hint("run the command outside of containers, in the first PID namespace"))
}

/// Returns when the service knew what it says.
fn said_at(statistics: &ServiceStatistics) -> Instant {
    let now = Instant::now();
    now.checked_sub(Duration::from_millis(statistics.age_ms))
        .unwrap_or(now)
}

/// Returns the processes that are clients, and whose.
fn owners(statistics: &ServiceStatistics) -> Vec<(u32, Owner)> {
    let mut owners = Vec::new();
    for tenant in &statistics.host.tenants {
        let owner = Owner {
            tenant: tenant.tenant.number,
            name: tenant.tenant.name.as_str().into(),
        };
        let pids =
            (tenant.clients.iter()).filter_map(|client| client.credentials.pid.try_into().ok());
        owners.extend(pids.map(|pid: u32| (pid, owner.clone())));
    }
    owners
}

impl Clients {
    /// Takes in who the service said were its clients at `then`.
    fn learn(&mut self, owners: Vec<(u32, Owner)>, then: Instant) {
        self.known
            .retain(|_, (_, seen)| then.saturating_duration_since(*seen) < LONG_PAUSE);
        let room = MOST_KNOWN.saturating_sub(self.known.len());
        let owners = owners.into_iter().take(room);
        self.known
            .extend(owners.map(|(pid, owner)| (pid, (owner, then))));
    }

    /// Returns whose a process is, if the service has named it lately.
    fn owner_of(&self, pid: u32, now: Instant) -> Option<&Owner> {
        let (owner, seen) = self.known.get(&pid)?;
        (now.saturating_duration_since(*seen) < LONG_PAUSE).then_some(owner)
    }

    /// Passes a range on, or holds it.
    fn take(&mut self, range: Range, now: Instant, items: &mut Vec<Item>) {
        match self.owner_of(range.pid, now) {
            Some(owner) => {
                if self.passes(owner) {
                    items.push(Item::Range(range, owner.clone()));
                }
            }
            None => {
                self.held.push_back((now, range));
                if self.held.len() > MOST_HELD {
                    self.held.pop_front();
                    self.of_no_client += 1;
                }
            }
        }
    }

    /// Passes on what is held for processes that are known by now, and gives up what was held too long.
    fn release(&mut self, now: Instant, items: &mut Vec<Item>) {
        for (since, range) in std::mem::take(&mut self.held) {
            if self.owner_of(range.pid, now).is_some() {
                self.take(range, now, items);
            } else if now.duration_since(since) >= PATIENCE {
                self.of_no_client += 1;
            } else {
                self.held.push_back((since, range));
            }
        }
    }

    fn passes(&self, owner: &Owner) -> bool {
        self.only.is_none_or(|only| only == owner.tenant)
    }
}

#[cfg(test)]
mod tests {
    use super::{Clients, FIRST_NAMESPACE, LONG_PAUSE, MOST_HELD, Owner, PATIENCE, check_is_first};
    use crate::commands::trace::session::Item;
    use gridmux_bpf::{Range, RangeProbe};
    use std::collections::{HashMap, VecDeque};
    use std::time::{Duration, Instant};

    fn range(pid: u32, range: u64) -> Range {
        Range {
            wall_ns: 0,
            pid,
            tid: pid,
            what: RangeProbe::Mark,
            domain: 0,
            range,
            name: String::new(),
            domain_name: String::new(),
        }
    }

    fn owner(tenant: u32) -> Owner {
        Owner {
            tenant,
            name: "t".into(),
        }
    }

    fn clients(only: Option<u32>) -> Clients {
        Clients {
            only,
            known: HashMap::new(),
            held: VecDeque::new(),
            of_no_client: 0,
        }
    }

    fn passed(items: &[Item]) -> Vec<(u32, u64, u32)> {
        let of = |item: &Item| match item {
            Item::Range(range, owner) => Some((range.pid, range.range, owner.tenant)),
            Item::Event(_) => None,
        };
        items.iter().filter_map(of).collect()
    }

    #[test]
    fn ranges_are_held_until_their_process_is_a_client() {
        let (mut clients, now, mut items) = (clients(None), Instant::now(), Vec::new());
        for number in [1, 2] {
            clients.take(range(7, number), now, &mut items);
            clients.take(range(8, number), now, &mut items);
        }
        assert!(items.is_empty());
        clients.learn(vec![(7, owner(3))], now);
        clients.release(now, &mut items);
        clients.take(range(7, 4), now, &mut items);
        assert_eq!(passed(&items), [(7, 1, 3), (7, 2, 3), (7, 4, 3)]);
        assert_eq!((clients.held.len(), clients.of_no_client), (2, 0));
        clients.release(now + PATIENCE, &mut items);
        assert_eq!((clients.held.len(), clients.of_no_client), (0, 2));
    }

    #[test]
    fn a_client_that_left_is_forgotten() {
        let (mut clients, now, mut items) = (clients(None), Instant::now(), Vec::new());
        clients.learn(vec![(7, owner(3))], now);
        clients.learn(vec![], now + LONG_PAUSE / 2);
        clients.take(range(7, 1), now, &mut items);
        assert_eq!(
            passed(&items),
            [(7, 1, 3)],
            "what it said at the end comes late"
        );
        clients.learn(vec![], now + LONG_PAUSE);
        clients.take(range(7, 2), now, &mut items);
        assert_eq!((items.len(), clients.held.len()), (1, 1));
    }

    #[test]
    fn one_tenants_pass_alone_and_what_is_held_is_bounded() {
        let (mut clients, now, mut items) = (clients(Some(1)), Instant::now(), Vec::new());
        clients.learn(vec![(7, owner(1)), (8, owner(2))], now);
        for pid in [7, 8, 7] {
            clients.take(range(pid, 0), now, &mut items);
        }
        assert_eq!(passed(&items), [(7, 0, 1), (7, 0, 1)]);
        for number in 0..MOST_HELD as u64 + 5 {
            clients.take(range(9, number), now + Duration::from_secs(1), &mut items);
        }
        assert_eq!((clients.held.len(), clients.of_no_client), (MOST_HELD, 5));
    }

    #[test]
    fn a_process_that_the_service_has_not_named_lately_is_asked_about_anew() {
        let (mut clients, now, mut items) = (clients(None), Instant::now(), Vec::new());
        clients.learn(vec![(7, owner(3)), (8, owner(3))], now);
        let later = now + Duration::from_hours(3);
        clients.take(range(7, 1), later, &mut items);
        clients.take(range(8, 1), later, &mut items);
        assert_eq!((items.len(), clients.held.len()), (0, 2));
        // Its number is of another tenant's process by now, and that of the other one of nobody's.
        clients.learn(vec![(7, owner(4))], later);
        clients.release(later, &mut items);
        assert_eq!(passed(&items), [(7, 1, 4)]);
        assert_eq!(clients.held.len(), 1);
    }

    #[test]
    fn process_numbers_of_another_namespace_are_not_compared() {
        assert_eq!(FIRST_NAMESPACE, 4_026_531_836);
        assert!(check_is_first(FIRST_NAMESPACE).is_ok());
        let refused = check_is_first(FIRST_NAMESPACE + 1).unwrap_err().line();
        assert!(refused.contains("first PID namespace"), "{refused}");
    }
}
