//! Why the next plan is made: what the policy has heard of since the one before, for those who trace plans.
//!
//! Rule: what is named anew after a loss, or to another policy, is no news.

use gridmux_bpf::{Cause, Causes};
use gridmux_policy::event::Event;

/// The causes so far.
#[derive(Debug, Default)]
pub(super) struct PlanCauses {
    heard: Causes,
    /// All that lives is being named anew.
    is_naming: bool,
}

impl PlanCauses {
    /// Takes note of an event; `is_due` says of a timer that it is the one for which the policy asked.
    pub(super) fn hear(&mut self, event: &Event, is_due: bool) {
        let cause = match event {
            Event::Lost { n } => {
                self.is_naming = true;
                if *n > 0 {
                    self.heard.add(Cause::Loss);
                }
                return;
            }
            Event::Resynced => {
                self.is_naming = false;
                return;
            }
            Event::Tenant { .. } | Event::RowNew { .. } | Event::Counters { .. }
                if self.is_naming =>
            {
                return;
            }
            Event::Tenant { .. } | Event::TenantGone { .. } => Cause::Tenant,
            Event::RowNew { .. } | Event::RowGone { .. } => Cause::Kernel,
            Event::Arrive { .. } => Cause::Arrival,
            Event::Ended { .. } => Cause::End,
            Event::FirstStart { .. } | Event::Blocks { .. } | Event::Counters { .. } => {
                Cause::Progress
            }
            Event::Share { .. } | Event::Sample { .. } | Event::Instructions { .. } => {
                Cause::Measurement
            }
            Event::Timer { .. } if is_due => Cause::Timer,
            Event::Timer { .. } => return,
        };
        self.heard.add(cause);
    }

    /// Takes note that another policy decides from now on.
    pub(super) fn replaced(&mut self, cause: Cause) {
        self.heard.add(cause);
    }

    /// Returns the causes of a plan that was made, and begins anew.
    pub(super) fn take(&mut self) -> Causes {
        let mut heard = std::mem::take(&mut self.heard);
        if heard.is_empty() {
            // Nothing but time has passed.
            heard.add(Cause::Timer);
        }
        heard
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::PlanCauses;
    use gridmux_bpf::Cause;
    use gridmux_policy::class::Class;
    use gridmux_policy::event::Event;
    use gridmux_policy::ids::{RowId, TenantId};
    use gridmux_policy::units::Nanos;

    const TENANT: Event = Event::Tenant {
        tenant: TenantId(1),
        weight: 2,
        class: Class::Batch,
    };
    const ENDED: Event = Event::Ended {
        row: RowId(0),
        launch: 1,
        at: Nanos(5),
    };
    const TIMER: Event = Event::Timer { at: Nanos(5) };

    #[test]
    fn what_was_heard_counts_for_one_plan() {
        let mut causes = PlanCauses::default();
        causes.hear(&TIMER, false);
        assert_eq!(causes.take().to_string(), "timer", "time alone");
        causes.hear(&TIMER, true);
        causes.hear(&ENDED, false);
        causes.hear(&TENANT, false);
        assert_eq!(causes.take().to_string(), "tenant,end,timer");
        causes.hear(&ENDED, false);
        assert_eq!(causes.take().to_string(), "end");
    }

    #[test]
    fn what_is_named_anew_is_no_news() {
        let mut causes = PlanCauses::default();
        causes.hear(&Event::Lost { n: 3 }, false);
        causes.hear(&TENANT, false);
        causes.hear(&Event::Resynced, false);
        assert_eq!(causes.take().to_string(), "loss");
        causes.replaced(Cause::Policy);
        causes.hear(&Event::Lost { n: 0 }, false);
        causes.hear(&TENANT, false);
        causes.hear(&Event::Resynced, false);
        assert_eq!(causes.take().to_string(), "policy");
        assert_eq!(causes.take().to_string(), "timer");
    }
}
