//! What each tenant held beyond what it was entitled to, lately.
//!
//! A tenant that used room which nobody else could use did nobody harm, so an excess is not owed for ever. It is
//! bounded, and what is neither added to nor repaid is forgotten. The same holds for a deficit: who could not use its
//! part for minutes may not take the device for minutes.
//!
//! Rule: an excess is within the bound at every moment, so that a change of sign takes as long as the bound is large.

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
    tenants: Vec<Excess>,
}

/// One tenant's excess.
#[derive(Clone, Copy, Debug, Default)]
struct Excess {
    /// The newest reading: what it held and what it was entitled to since it exists.
    held: f64,
    entitled: f64,
    /// The excess at the time of that reading, in SM · nanoseconds.
    value: f64,
    at: Nanos,
}

impl Excess {
    #[allow(clippy::cast_precision_loss, reason = "times are far below 2^53")]
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
        }
    }

    /// Takes note of an event.
    pub fn observe(&mut self, event: &Event) {
        match *event {
            Event::Share {
                tenant,
                held,
                entitled,
                at,
            } => {
                if self.tenants.len() <= tenant.index() {
                    self.tenants.resize(tenant.index() + 1, Excess::default());
                }
                let before = &mut self.tenants[tenant.index()];
                let added = (held - before.held) - (entitled - before.entitled);
                let value = (before.at(at) + added).clamp(-self.bound, self.bound);
                *before = Excess {
                    held,
                    entitled,
                    value,
                    at: at.max(before.at),
                };
            }
            // Another tenant may get the number, and readings begin at zero again.
            Event::TenantGone { tenant } => {
                if let Some(excess) = self.tenants.get_mut(tenant.index()) {
                    *excess = Excess::default();
                }
            }
            _ => {}
        }
    }

    /// Returns what a tenant's blocks held beyond its part, less what is forgotten, in SM · nanoseconds.
    #[must_use]
    pub fn of(&self, tenant: TenantId, now: Nanos) -> f64 {
        let excess = self.tenants.get(tenant.index());
        excess.map_or(0.0, |excess| excess.at(now))
    }
}

#[cfg(test)]
mod tests {
    use super::{Excesses, FORGOTTEN_NS};
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
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a second"
        )]
        let later = Nanos(1 + FORGOTTEN_NS as u64);
        let left = excesses.of(TENANT, later);
        assert!((left - 70.0 / std::f64::consts::E).abs() < 1e-9, "{left}");
        excesses.observe(&share(9_000.0, 9_000.0, later.0));
        assert_eq!(excesses.of(TENANT, later), -100.0, "a deficit likewise");
        excesses.observe(&Event::TenantGone { tenant: TENANT });
        assert_eq!(excesses.of(TENANT, later), 0.0);
    }
}
