//! What each connected client used since it was last looked at.
//!
//! Rules: a client counts from when it is handed to a device host, under the identity that the kernel told, and for the
//! tenant that its host says, if it is one of those that the client may be; the first one that is said stays. What a
//! host says of other numbers is not heard. Amounts are believed: a host that was taken over may say what it likes of the
//! clients that it has.

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
