//! What operators are told of kernels: their names, and the reading of the dispatcher's rows.
//!
//! The dispatcher knows a kernel by its key; its name and forms are kept here from when it was loaded on, because rows
//! outlive the clients that launched them. A reading is taken when the supervisor asks for one, in several answers of
//! the dispatcher ([`RowReadings`]).
//!
//! Rule: no more than [`KNOWN`] kernels are kept; beyond that, the tenant that has the most forgets its oldest.

use super::accounts::TenantAccounts;
use crate::dispatch::reading::RowReadings;
use crate::page::{
    KERNELS, KernelFacts, KernelSnapshot, KernelsSnapshot, PlanSnapshot, monotonic_ns,
};
use gridmux_policy::Profiles;
use gridmux_policy::ids::KernelKey;
use gridmux_policy::plan::Plan;
use gridmux_policy::shape::{DeviceShape, max_residency};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Kernels of all tenants that are known by name.
const KNOWN: usize = 8192;

/// The names and forms of kernels. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownKernels(Rc<RefCell<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// A key is of one tenant.
    facts: BTreeMap<KernelKey, KernelFacts>,
    /// By tenant: the keys, oldest first.
    order: BTreeMap<u32, VecDeque<KernelKey>>,
}

impl KnownKernels {
    /// Takes note of a kernel that a tenant loaded.
    pub(super) fn put(&self, tenant: u32, key: KernelKey, facts: KernelFacts) {
        let Known {
            facts: known,
            order,
        } = &mut *self.0.borrow_mut();
        if known.insert(key, facts).is_some() {
            return;
        }
        order.entry(tenant).or_default().push_back(key);
        if known.len() > KNOWN
            && let Some(most) = order.values_mut().max_by_key(|keys| keys.len())
            && let Some(oldest) = most.pop_front()
        {
            known.remove(&oldest);
        }
    }

    /// Forgets the kernels of a tenant.
    pub(super) fn forget(&self, tenant: u32) {
        let Known { facts, order } = &mut *self.0.borrow_mut();
        for key in order.remove(&tenant).unwrap_or_default() {
            facts.remove(&key);
        }
    }

    fn get(&self, key: KernelKey) -> Option<KernelFacts> {
        self.0.borrow().facts.get(&key).cloned()
    }
}

/// The reading that is under way, and the last one.
#[derive(Debug, Default)]
pub(super) struct KernelReading {
    /// Numbers of the supervisor's questions that are not answered.
    asked: Vec<u64>,
    /// What the dispatcher has said so far, while one is under way.
    current: Option<KernelsSnapshot>,
    /// The last reading that came to its end.
    last: KernelsSnapshot,
}

/// What a reading is completed from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'a> {
    /// The tenants.
    pub(super) accounts: &'a TenantAccounts,
    /// The kernels.
    pub(super) known: &'a KnownKernels,
    /// What is known of kernels' durations.
    pub(super) profiles: &'a Profiles,
    /// The device.
    pub(super) shape: &'a DeviceShape,
    /// The plan in force.
    pub(super) plan: &'a Plan,
}

/// What to do after an answer of the dispatcher.
#[derive(Debug)]
pub(super) enum Next {
    /// Ask it for more.
    Ask(Box<RowReadings>),
    /// The reading is at its end: say so to those who asked, by number.
    Answer(Vec<u64>),
}

impl KernelReading {
    /// Takes note of a question; returns what to ask the dispatcher, unless it is being asked.
    pub(super) fn ask(&mut self, number: u64) -> Option<Box<RowReadings>> {
        self.asked.push(number);
        let begins = self.current.is_none();
        begins.then(|| {
            self.current = Some(KernelsSnapshot::default());
            Box::default()
        })
    }

    /// Returns the last reading.
    pub(super) fn last(&self) -> &KernelsSnapshot {
        &self.last
    }

    /// Takes an answer of the dispatcher.
    pub(super) fn take(&mut self, readings: Box<RowReadings>, around: Around<'_>) -> Next {
        let current = self.current.get_or_insert_default();
        for row in &readings.rows {
            // The account of a tenant that is configured no more may be gone before its rows are.
            let Some(tenant) = around.accounts.name_of(row.tenant) else {
                continue;
            };
            let profile = around.profiles.get(row.profile).filter(|_| !row.spill);
            current.kernels.push(KernelSnapshot {
                tenant: tenant.to_owned(),
                kernel: around.known.get(row.key).filter(|_| !row.spill),
                profile_ns: profile.map(|profile| profile.whole_ns()),
                profile_blocks: profile.map_or(0, |profile| profile.blocks),
                fits: max_residency(around.shape, &row.block),
                row: row.clone(),
            });
        }
        current.has_more = current.kernels.len() > KERNELS;
        if !readings.is_over && !current.has_more {
            return Next::Ask(readings);
        }
        current.kernels.truncate(KERNELS);
        current.submission_ns = readings.submission_ns;
        current.slice_ns = readings.slice_ns;
        current.plan = PlanSnapshot::of(around.plan, around.shape.sms);
        current.at_ns = monotonic_ns();
        self.last = self.current.take().unwrap_or_default();
        Next::Answer(std::mem::take(&mut self.asked))
    }
}

#[cfg(test)]
mod tests {
    use super::{KNOWN, KnownKernels};
    use crate::page::KernelFacts;
    use gridmux_policy::ids::KernelKey;

    #[test]
    fn who_has_the_most_kernels_forgets_the_oldest_and_nobody_elses_go() {
        let known = KnownKernels::default();
        let facts = |name: u64| KernelFacts {
            name: name.to_string(),
            entries: Vec::new(),
            uncut: None,
        };
        known.put(1, KernelKey(u64::MAX), facts(u64::MAX));
        for key in 0..2 * KNOWN as u64 {
            known.put(0, KernelKey(key), facts(key));
        }
        let name = |key: u64| known.get(KernelKey(key)).map(|facts| facts.name);
        assert_eq!(known.0.borrow().facts.len(), KNOWN);
        assert!(name(u64::MAX).is_some() && name(0).is_none());
        let newest = 2 * KNOWN as u64 - 1;
        assert_eq!(name(newest), Some(newest.to_string()));
        known.forget(0);
        assert_eq!(known.0.borrow().facts.len(), 1);
    }
}
