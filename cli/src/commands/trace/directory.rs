//! Who an event is of: the names behind the numbers that it carries.
//!
//! Events carry a tenant's and a client's number and a kernel's key. The service's statistics name them; they are asked
//! for again when an event carries something new, which waits for the answer. What has no name then is asked for again
//! only now and then.
//!
//! Rules: a name comes from the statistics alone, which have taken out what a terminal would obey; what is known is
//! bounded, whatever numbers a host invents.

use crate::failure::Failure;
use crate::service::{ServiceArgs, check_name};
use gridmux_bpf::ProbeArgs;
use gridmux_mediator::supervisor::ServiceStatistics;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::thread;
use std::time::{Duration, Instant};

/// The least time between two questions to the service.
const PAUSE: Duration = Duration::from_millis(100);
/// How often it is asked for a name while its answers are old: a host may be busy.
const ATTEMPTS: u32 = 8;
/// The least time until it is asked once more for what it could not name, and after it gave no answer.
const LONG_PAUSE: Duration = Duration::from_secs(2);
/// Most clients, and most kernels, that are kept in mind.
const MOST: usize = 1 << 16;

/// What is known by number.
#[derive(Debug)]
pub(super) struct Directory {
    service: ServiceArgs,
    known: Known,
    /// Tenants, clients and keys that the service could not name.
    nameless: HashSet<(u32, u32, u64)>,
    asked: Instant,
    /// It answered when it was asked last.
    answers: bool,
}

/// The names.
#[derive(Debug, Default)]
struct Known {
    tenants: HashMap<u32, String>,
    processes: HashMap<u32, i32>,
    kernels: HashMap<u64, String>,
}

/// Whose launch it is, as far as that is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Whose<'a> {
    pub(super) tenant: Option<&'a str>,
    pub(super) pid: Option<i32>,
    /// The kernel's name in its module.
    pub(super) kernel: Option<&'a str>,
}

impl Directory {
    /// Makes a directory of a service that has just said this.
    pub(super) fn new(service: ServiceArgs, statistics: &ServiceStatistics) -> Self {
        let mut known = Known::default();
        known.learn(statistics);
        Self {
            service,
            known,
            nameless: HashSet::new(),
            asked: Instant::now(),
            answers: true,
        }
    }

    /// Returns whose launch an event is of; asks the service where that is not known.
    pub(super) fn whose(&mut self, args: &ProbeArgs) -> Whose<'_> {
        // Each question to a service that hangs takes as long as it is waited for.
        let may_ask = self.answers || self.asked.elapsed() >= LONG_PAUSE;
        if may_ask && !self.known.knows(args) {
            let numbers = (args.tenant, args.client, args.key);
            if !self.nameless.contains(&numbers) {
                self.ask_for(args);
                if self.answers && !self.known.knows(args) {
                    extend_set(&mut self.nameless, numbers);
                }
            } else if self.asked.elapsed() >= LONG_PAUSE {
                self.ask();
            }
        }
        self.known.whose(args)
    }

    /// Asks until the numbers have names, or a reading of now has none.
    fn ask_for(&mut self, args: &ProbeArgs) {
        for _ in 0..ATTEMPTS {
            thread::sleep(PAUSE.saturating_sub(self.asked.elapsed()));
            let is_of_now = self.ask();
            if is_of_now || !self.answers || self.known.knows(args) {
                return;
            }
        }
    }

    /// Asks once; returns whether the answer is of now, and not what a busy host said before.
    fn ask(&mut self) -> bool {
        let begun = Instant::now();
        // Without an answer the names stay unknown, and the events do not.
        let answer = self.service.kernels().ok();
        self.answers = answer.is_some();
        let age_ms = answer.and_then(|statistics| {
            self.known.learn(&statistics);
            statistics.kernels?.age_ms
        });
        self.asked = Instant::now();
        age_ms.is_some_and(|age_ms| u128::from(age_ms) <= begun.elapsed().as_millis())
    }
}

impl Known {
    fn learn(&mut self, statistics: &ServiceStatistics) {
        self.tenants.extend(statistics.taken_out.iter().cloned());
        for tenant in &statistics.host.tenants {
            let facts = &tenant.tenant;
            self.tenants.insert(facts.number, facts.name.clone());
            let clients = tenant.clients.iter();
            let pids = clients.map(|client| (client.id, client.credentials.pid));
            extend(&mut self.processes, pids);
        }
        let rows = statistics.kernels.iter().flat_map(|of| &of.reading.kernels);
        let names = rows.filter_map(|row| Some((row.row.key.0, row.kernel.as_ref()?.name.clone())));
        extend(&mut self.kernels, names);
    }

    fn knows(&self, args: &ProbeArgs) -> bool {
        let whose = self.whose(args);
        whose.tenant.is_some()
            && (args.client == 0 || whose.pid.is_some())
            && (args.key == 0 || whose.kernel.is_some())
    }

    fn whose(&self, args: &ProbeArgs) -> Whose<'_> {
        Whose {
            tenant: self.tenants.get(&args.tenant).map(String::as_str),
            pid: self.processes.get(&args.client).copied(),
            kernel: self.kernels.get(&args.key).map(String::as_str),
        }
    }
}

/// Returns the number of a tenant.
///
/// # Errors
/// There is none of that name; the failure names those that there are.
pub(super) fn number_of(statistics: &ServiceStatistics, name: &str) -> Result<u32, Failure> {
    let mut tenants = statistics.host.tenants.iter().map(|tenant| &tenant.tenant);
    check_name(name, tenants.clone().map(|tenant| &*tenant.name))?;
    let found = tenants.find(|tenant| tenant.name == name);
    let number = found.map(|tenant| tenant.number);
    number.ok_or_else(|| Failure::new(format!("there is no tenant {name:?}")))
}

/// Adds to what is known, of which nothing is kept where it has become too much.
fn extend<K: Eq + Hash, V>(known: &mut HashMap<K, V>, more: impl Iterator<Item = (K, V)>) {
    if known.len() > MOST {
        known.clear();
    }
    known.extend(more);
}

fn extend_set<T: Eq + Hash>(known: &mut HashSet<T>, one: T) {
    if known.len() > MOST {
        known.clear();
    }
    known.insert(one);
}

#[cfg(test)]
mod tests {
    use super::{Known, MOST, Whose, extend};
    use gridmux_bpf::ProbeArgs;
    use std::collections::HashMap;

    #[test]
    fn what_no_launch_is_of_need_not_be_known() {
        let mut known = Known::default();
        let plan = ProbeArgs::default();
        assert!(!known.knows(&plan), "its tenant is unknown");
        known.tenants.insert(0, "first".into());
        assert!(known.knows(&plan));
        let launch = ProbeArgs {
            client: 3,
            key: 9,
            ..plan
        };
        known.processes.insert(3, 77);
        assert!(!known.knows(&launch));
        known.kernels.insert(9, "k".into());
        assert!(known.knows(&launch));
        let due = Whose {
            tenant: Some("first"),
            pid: Some(77),
            kernel: Some("k"),
        };
        assert_eq!(known.whose(&launch), due);
    }

    #[test]
    fn what_is_known_is_bounded() {
        let mut known = HashMap::new();
        for round in 0..5 {
            extend(&mut known, (0..MOST).map(|n| (round * MOST + n, ())));
        }
        assert!(known.len() <= 2 * MOST);
    }
}
