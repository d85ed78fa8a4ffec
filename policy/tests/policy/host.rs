//! A policy as an executor holds it, and the events that it is told.

use gridmux_policy::plan::Surplus;
use gridmux_policy::policies::smk_p::{Settings, SmkP};
use gridmux_policy::{
    BlockShape, Class, DeviceId, DeviceShape, Event, Learner, Nanos, Plan, Policy, ProfileKey,
    Profiles, RowId, TenantId, by_name,
};

/// A policy and the plan that stands, as an executor holds them.
pub(crate) struct Host {
    pub(crate) policy: Box<dyn Policy>,
    /// Learns what policies by name use.
    pub(crate) learner: Learner,
    pub(crate) standing: Plan,
    pub(crate) next: Plan,
}

impl Host {
    /// Puts a policy before an empty plan, with profiles that nobody uses.
    pub(crate) fn new(policy: Box<dyn Policy>) -> Self {
        Self::learning(policy, &Profiles::default())
    }

    /// Puts a policy before an empty plan, and fills these profiles with what it hears.
    pub(crate) fn learning(policy: Box<dyn Policy>, profiles: &Profiles) -> Self {
        Self {
            policy,
            learner: Learner::new(profiles),
            standing: Plan::default(),
            next: Plan::default(),
        }
    }

    /// Makes a policy by its name, with profiles of its own.
    pub(crate) fn named(name: &str, device: &DeviceShape) -> Self {
        let profiles = Profiles::default();
        let policy = by_name(name, DeviceId(3), device, &profiles);
        Self::learning(policy.expect("a listed policy exists"), &profiles)
    }

    /// Makes SMK-P as the paper has it, without holding shares over time.
    pub(crate) fn paper(device: &DeviceShape) -> Self {
        let settings = Settings {
            surplus: Surplus::Idle,
            ..Settings::default()
        };
        Self::new(Box::new(SmkP::with_settings(DeviceId(0), device, settings)))
    }

    /// Tells the policy, and what learns for it, of events.
    pub(crate) fn tell(&mut self, events: &[Event]) -> &mut Self {
        for event in events {
            self.learner.observe(event);
            self.policy.observe(event);
        }
        self
    }

    /// Replans; returns whether there is a new plan, which then stands.
    pub(crate) fn replan(&mut self, now: u64) -> bool {
        let changed = self
            .policy
            .replan(Nanos(now), &self.standing, &mut self.next);
        if changed {
            std::mem::swap(&mut self.standing, &mut self.next);
        }
        changed
    }

    /// Replans, and returns the plan that stands.
    pub(crate) fn at(&mut self, now: u64) -> &Plan {
        self.replan(now);
        &self.standing
    }
}

/// Makes the event of a tenant of class normal.
pub(crate) fn tenant(tenant: u32, weight: u32) -> Event {
    Event::Tenant {
        tenant: TenantId(tenant),
        weight,
        class: Class::Normal,
    }
}

/// Makes the event of a new row, whose profile has its number.
pub(crate) fn row_new(row: u32, tenant: u32, block: BlockShape) -> Event {
    Event::RowNew {
        row: RowId(row),
        tenant: TenantId(tenant),
        block,
        profile: ProfileKey(row.into()),
        spill: false,
    }
}

/// Makes the event of a launch that arrives, and whose number is that time.
pub(crate) fn arrive(row: u32, blocks: u64, at: u64) -> Event {
    Event::Arrive {
        row: RowId(row),
        launch: at,
        blocks,
        at: Nanos(at),
    }
}

/// Makes the event of the end of a launch, whose number is that time.
pub(crate) fn ended(row: u32, at: u64) -> Event {
    Event::Ended {
        row: RowId(row),
        launch: at,
        at: Nanos(at),
    }
}

/// Makes the events of a tenant with one row and a launch of a thousand blocks on it.
pub(crate) fn busy(number: u32, weight: u32, block: BlockShape) -> [Event; 3] {
    [
        tenant(number, weight),
        row_new(number, number, block),
        arrive(number, 1000, 1),
    ]
}
