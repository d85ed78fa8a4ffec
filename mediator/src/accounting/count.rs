//! What each connected client used since it was last looked at.
//!
//! Rules: a client counts from when it is handed to a device host, under the identity that the kernel told, and for the
//! tenant that its host says, if it is one of those that the client may be; the first one that is said stays. What a
//! host says of other numbers is not heard. Amounts are believed: a host that was taken over may say what it likes of
//! the clients that it has.

use super::amounts::Amounts;
use super::identity::Identity;
use super::queue::Queue;
use crate::link::{ClientFacts, LastUse};
use crate::page::Snapshot;
use std::collections::HashMap;

/// How far the page of statistics may lag behind: memory that it says a client holds may have been freed since.
const PAGE_LAG_NS: u64 = 250_000_000;

/// Clients, by number.
#[derive(Debug, Default)]
pub struct Counts {
    clients: HashMap<u32, Counted>,
}

/// A client.
#[derive(Debug)]
struct Counted {
    user: u32,
    cgroup: Option<String>,
    /// Numbers of the tenants that it may be.
    allowed: Vec<u16>,
    /// When it connected, in nanoseconds of the machine's monotonic clock.
    since_ns: u64,
    /// Who it is, as soon as its tenant is known.
    identity: Option<Identity>,
    /// What was taken so far.
    taken: Amounts,
}

/// The times of a reading.
#[derive(Debug, Clone, Copy)]
pub struct At {
    /// Nanoseconds of the machine's monotonic clock.
    pub monotonic_ns: u64,
    /// Seconds since 1970.
    pub unix: u64,
}

/// Returns the tenant of a name or of a number, as the configuration has it: its number and name.
pub trait Tenants {
    /// Finds a tenant by name.
    fn number_of(&self, name: &str) -> Option<u16>;
    /// Finds a tenant by number.
    fn name_of(&self, number: u16) -> Option<&str>;
}

impl Counts {
    /// Begins to count for a client that is handed to a host.
    pub fn begin(
        &mut self,
        id: u32,
        (user, cgroup): (u32, Option<String>),
        allowed: Vec<u16>,
        at: At,
    ) {
        let counted = Counted {
            user,
            cgroup,
            allowed,
            since_ns: at.monotonic_ns,
            identity: None,
            taken: Amounts::default(),
        };
        self.clients.insert(id, counted);
    }

    /// Takes what clients used until a reading of the page.
    pub fn read(&mut self, snapshot: &Snapshot, tenants: &impl Tenants, at: At, into: &mut Queue) {
        for tenant in &snapshot.tenants {
            if tenant.clients.is_empty() {
                continue;
            }
            let Some(number) = tenants.number_of(&tenant.name) else {
                continue;
            };
            for client in &tenant.clients {
                if let Some(counted) = self.clients.get_mut(&client.id) {
                    let used = used(client, counted.since_ns, at);
                    counted.take((number, &tenant.name), &used, at, into);
                }
            }
        }
    }

    /// Takes what a client used that is gone, and forgets it.
    pub fn end(
        &mut self,
        id: u32,
        last: Option<&LastUse>,
        (tenants, at): (&impl Tenants, At),
        into: &mut Queue,
    ) {
        let Some(mut counted) = self.clients.remove(&id) else {
            return;
        };
        let number = last.and_then(|last| u16::try_from(last.tenant).ok());
        let named = number.and_then(|number| Some((number, tenants.name_of(number)?)));
        if let (Some(tenant), Some(last)) = (named, last) {
            let usage = &last.usage;
            let used = amounts(usage, last.memory_byte_ns);
            counted.take(tenant, &used, at, into);
        }
    }

    /// Forgets all clients: their host has ended.
    pub fn clear(&mut self) {
        self.clients.clear();
    }
}

impl Counted {
    fn take(&mut self, (number, name): (u16, &str), used: &Amounts, at: At, into: &mut Queue) {
        if self.identity.is_none() {
            if !self.allowed.contains(&number) {
                return;
            }
            let cgroup = self.cgroup.as_deref();
            self.identity = Some(Identity::new(name, self.user, cgroup));
        }
        let more = used.take_since(&mut self.taken);
        if let Some(identity) = &self.identity {
            into.add(at.unix, identity, &more);
        }
    }
}

/// Returns all that a client used until a reading.
fn used(client: &ClientFacts, since_ns: u64, at: At) -> Amounts {
    let mut memory = client.memory_time;
    // It held nothing before it connected, whatever its host says.
    memory.since_ns = memory.since_ns.max(since_ns);
    let until = at.monotonic_ns.saturating_sub(PAGE_LAG_NS);
    amounts(&client.usage, memory.until(until))
}

fn amounts(usage: &crate::dispatch::client_accounting::ClientUsage, memory: u128) -> Amounts {
    Amounts {
        sm_ns: usage.sm_ns.into(),
        memory_byte_ns: memory,
        bytes_copied: usage.bytes_copied,
        launches: usage.launches,
        failed: usage.failed,
    }
}

#[cfg(test)]
mod tests {
    use super::{At, Counts, PAGE_LAG_NS, Tenants};
    use crate::accounting::queue::Queue;
    use crate::accounting::{Amounts, Identity};
    use crate::dispatch::client_accounting::ClientUsage;
    use crate::link::{ClientFacts, Credentials, LastUse, MemoryTime};
    use crate::page::{Snapshot, TenantSnapshot};

    /// Tenants `a` and `b`, of numbers 0 and 1.
    struct Two;

    impl Tenants for Two {
        fn number_of(&self, name: &str) -> Option<u16> {
            ["a", "b"]
                .iter()
                .position(|known| *known == name)?
                .try_into()
                .ok()
        }

        fn name_of(&self, number: u16) -> Option<&str> {
            ["a", "b"].get(usize::from(number)).copied()
        }
    }

    const SECOND: u64 = 1_000_000_000;

    fn at(seconds: u64) -> At {
        At {
            monotonic_ns: seconds * SECOND,
            unix: 6000 + seconds,
        }
    }

    fn client(id: u32, launches: u64, memory_time: MemoryTime) -> ClientFacts {
        ClientFacts {
            id,
            name: "x".into(),
            credentials: Credentials {
                pid: 1,
                // What a host says of users is not heard.
                uid: 666,
                gid: 1,
            },
            memory_used_bytes: memory_time.bytes,
            usage: ClientUsage {
                launches,
                ..ClientUsage::default()
            },
            memory_time,
        }
    }

    fn page(tenant: &str, clients: Vec<ClientFacts>) -> Snapshot {
        Snapshot {
            tenants: vec![TenantSnapshot {
                name: tenant.into(),
                clients,
                ..TenantSnapshot::default()
            }],
            ..Snapshot::default()
        }
    }

    fn all(queue: &Queue) -> Vec<(Identity, Amounts)> {
        let entries = queue.iter();
        entries.map(|(_, who, used)| (who.clone(), *used)).collect()
    }

    #[test]
    fn a_client_counts_under_what_the_kernel_said_and_for_a_tenant_that_it_may_be() {
        let mut counts = Counts::default();
        let mut queue = Queue::default();
        counts.begin(1, (1000, Some("/x".into())), vec![0], at(1));
        let nothing = MemoryTime::default();
        for (tenant, id) in [("b", 1), ("nobody", 1), ("a", 2)] {
            let page = page(tenant, vec![client(id, 50, nothing)]);
            counts.read(&page, &Two, at(2), &mut queue);
            assert!(queue.is_empty(), "{tenant} {id}");
        }
        counts.read(
            &page("a", vec![client(1, 7, nothing)]),
            &Two,
            at(3),
            &mut queue,
        );
        // Whatever tenant it is said to be later.
        counts.read(
            &page("b", vec![client(1, 9, nothing)]),
            &Two,
            at(4),
            &mut queue,
        );
        let [(who, used)] = &all(&queue)[..] else {
            panic!("{queue:?}");
        };
        assert_eq!(*who, Identity::new("a", 1000, Some("/x")));
        assert_eq!(used.launches, 9);
    }

    #[test]
    fn what_was_used_last_counts_and_a_client_ends_once() {
        let mut counts = Counts::default();
        let mut queue = Queue::default();
        let last = |tenant, launches| LastUse {
            tenant,
            usage: ClientUsage {
                launches,
                ..ClientUsage::default()
            },
            memory_byte_ns: 5,
        };
        counts.begin(1, (1, None), vec![0, 1], at(1));
        counts.begin(2, (1, None), vec![0], at(1));
        counts.begin(3, (1, None), vec![0], at(1));
        counts.end(1, Some(&last(1, 4)), (&Two, at(2)), &mut queue);
        counts.end(1, Some(&last(1, 4)), (&Two, at(2)), &mut queue);
        // It never became a tenant's; it is said to be one that it may not be; there is no such tenant.
        counts.end(2, None, (&Two, at(2)), &mut queue);
        counts.end(3, Some(&last(1, 4)), (&Two, at(2)), &mut queue);
        counts.end(9, Some(&last(70_000, 4)), (&Two, at(2)), &mut queue);
        let [(who, used)] = &all(&queue)[..] else {
            panic!("{queue:?}");
        };
        assert_eq!(
            (&*who.tenant, used.launches, used.memory_byte_ns),
            ("b", 4, 5)
        );
        assert!(counts.clients.is_empty());
    }

    #[test]
    fn memory_counts_until_a_page_ago_and_from_when_the_client_came() {
        let mut counts = Counts::default();
        let mut queue = Queue::default();
        counts.begin(1, (1, None), vec![0], at(10));
        // It is said to have held a byte since the machine started.
        let held = MemoryTime {
            bytes: 1,
            byte_ns: 0,
            since_ns: 0,
        };
        for seconds in [11, 11, 12] {
            counts.read(
                &page("a", vec![client(1, 0, held)]),
                &Two,
                at(seconds),
                &mut queue,
            );
        }
        let used = all(&queue)[0].1.memory_byte_ns;
        assert_eq!(used, u128::from(2 * SECOND - PAGE_LAG_NS));
        let last = LastUse {
            tenant: 0,
            usage: ClientUsage::default(),
            memory_byte_ns: u128::from(2 * SECOND),
        };
        counts.end(1, Some(&last), (&Two, at(12)), &mut queue);
        assert_eq!(all(&queue)[0].1.memory_byte_ns, u128::from(2 * SECOND));
    }
}
