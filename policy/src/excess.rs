//! What each tenant held beyond what it was entitled to, lately.
//!
//! A tenant that used room which nobody else could use did nobody harm, so an excess is not owed for ever. It is
//! bounded, and what is neither added to nor repaid is forgotten. The same holds for a deficit: who could not use its
//! part for minutes may not take the device for minutes.
//!
//! Rules: an excess is within the bound at every moment, so how long it takes to change sign depends on the bound, not
//! on the history. A tenant that is named anew after a loss of events has a history that nobody here has seen: its
//! first reading is only what later ones are compared with. What is not named again is forgotten.

use crate::event::Event;
use crate::ids::TenantId;
use crate::units::Nanos;

/// Time after which an excess has fallen to a part of 1/e, in nanoseconds: the second within which the design wants a
/// shortfall to be made good.
const FORGOTTEN_NS: f64 = 1e9;

/// The excesses of a device's tenants.
#[derive(Debug)]
pub struct Excesses {
    /// The greatest excess and deficit, in SM · nanoseconds.
    bound: f64,
    tenants: Vec<Option<Excess>>,
    /// Events were lost, and not everything that lives has been named since.
    is_partial: bool,
}

/// One tenant's excess.
#[derive(Clone, Copy, Debug)]
struct Excess {
    /// The newest reading, held less entitled since the tenant exists, in SM · nanoseconds; `None` before the first one
    /// of a tenant whose history is unknown.
    reading: Option<f64>,
    /// The excess at the time of that reading, in SM · nanoseconds.
    value: f64,
    at: Nanos,
    /// Named since events were lost last.
    named: bool,
}

impl Excess {
    fn at(&self, now: Nanos) -> f64 {
        self.value * (-((now - self.at).0 as f64) / FORGOTTEN_NS).exp()
    }
}

impl Excesses {
    /// Returns a table in which no excess or deficit exceeds `bound`, in SM · nanoseconds.
    #[must_use]
    pub fn new(bound: f64) -> Self {
        Self {
            bound,
            tenants: Vec::new(),
            is_partial: false,
        }
    }

    /// Takes note of an event.
    pub fn observe(&mut self, event: &Event) {
        match *event {
            Event::Tenant { tenant, .. } => self.named(tenant).named = true,
            Event::Share {
                tenant,
                held,
                entitled,
                at,
            } => {
                let bound = self.bound;
                let excess = self.named(tenant);
                let reading = held - entitled;
                let added = excess.reading.map_or(0.0, |before| reading - before);
                excess.value = (excess.at(at) + added).clamp(-bound, bound);
                excess.reading = Some(reading);
                excess.at = at.max(excess.at);
            }
            // Another tenant may get the number, and readings begin at zero again.
            Event::TenantGone { tenant } => {
                if let Some(excess) = self.tenants.get_mut(tenant.index()) {
                    *excess = None;
                }
            }
            Event::Lost { .. } => {
                self.is_partial = true;
                for excess in self.tenants.iter_mut().flatten() {
                    excess.named = false;
                }
            }
            Event::Resynced => {
                self.is_partial = false;
                for excess in &mut self.tenants {
                    *excess = excess.filter(|excess| excess.named);
                }
            }
            _ => {}
        }
    }

    /// Returns a tenant's record, made where there is none.
    fn named(&mut self, tenant: TenantId) -> &mut Excess {
        if self.tenants.len() <= tenant.index() {
            self.tenants.resize(tenant.index() + 1, None);
        }
        self.tenants[tenant.index()].get_or_insert(Excess {
            reading: (!self.is_partial).then_some(0.0),
            value: 0.0,
            at: Nanos(0),
            named: true,
        })
    }

    /// Returns what a tenant's blocks held beyond its part, less what is forgotten, in SM · nanoseconds.
    #[must_use]
    pub fn of(&self, tenant: TenantId, now: Nanos) -> f64 {
        let excess = self.tenants.get(tenant.index()).copied().flatten();
        excess.map_or(0.0, |excess| excess.at(now))
    }
}

#[cfg(test)]
mod tests {
    use super::{Excesses, FORGOTTEN_NS};
    use crate::class::Class;
    use crate::event::Event;
    use crate::ids::TenantId;
    use crate::units::Nanos;

    const TENANT: TenantId = TenantId(1);

    fn share(held: f64, entitled: f64, at: u64) -> Event {
        Event::Share {
            tenant: TENANT,
            held,
            entitled,
            at: Nanos(at),
        }
    }

    #[test]
    fn an_excess_is_bounded_repaid_from_the_bound_and_forgotten() {
        let mut excesses = Excesses::new(100.0);
        excesses.observe(&share(60.0, 10.0, 1));
        assert_eq!(excesses.of(TENANT, Nanos(1)), 50.0);
        excesses.observe(&share(9_000.0, 100.0, 1));
        assert_eq!(excesses.of(TENANT, Nanos(1)), 100.0);
        excesses.observe(&share(9_000.0, 130.0, 1));
        assert_eq!(excesses.of(TENANT, Nanos(1)), 70.0);
        #[allow(clippy::cast_possible_truncation, reason = "a second")]
        let later = Nanos(1 + FORGOTTEN_NS as u64);
        let left = excesses.of(TENANT, later);
        assert!((left - 70.0 / std::f64::consts::E).abs() < 1e-9, "{left}");
        excesses.observe(&share(9_000.0, 9_000.0, later.0));
        assert_eq!(excesses.of(TENANT, later), -100.0, "a deficit likewise");
        excesses.observe(&Event::TenantGone { tenant: TENANT });
        assert_eq!(excesses.of(TENANT, later), 0.0);
    }

    #[test]
    fn a_history_that_nobody_saw_does_not_count() {
        let named = Event::Tenant {
            tenant: TENANT,
            weight: 1,
            class: Class::Normal,
        };
        // A policy that takes another one's place is told what lives.
        let mut excesses = Excesses::new(100.0);
        for event in [Event::Lost { n: 0 }, named, Event::Resynced] {
            excesses.observe(&event);
        }
        excesses.observe(&share(9_000.0, 10.0, 1));
        assert_eq!(excesses.of(TENANT, Nanos(1)), 0.0);
        excesses.observe(&share(9_030.0, 20.0, 1));
        assert_eq!(excesses.of(TENANT, Nanos(1)), 20.0);
        // Who is named again after a loss keeps its excess; who is not is gone, and its number begins anew.
        for event in [Event::Lost { n: 1 }, named, Event::Resynced] {
            excesses.observe(&event);
        }
        assert_eq!(excesses.of(TENANT, Nanos(1)), 20.0);
        excesses.observe(&Event::Lost { n: 1 });
        excesses.observe(&Event::Resynced);
        assert_eq!(excesses.of(TENANT, Nanos(1)), 0.0);
    }
}
