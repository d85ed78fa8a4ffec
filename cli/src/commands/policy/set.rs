//! `gridmux policy set`: another policy for a running service.

use super::{in_force, name_parser, note_unheld, note_unsampled};
use crate::failure::Failure;
use crate::output::Output;
use crate::service::{ServiceArgs, holds, unexpected};
use clap::Args;
use gridmux_mediator::settings::Change;
use gridmux_mediator::supervisor::{AdminReply, AdminRequest};
use serde_json::json;

/// The text behind the options: what the change does to launches, and how long it holds.
const NOTES: &str = "\
No launch is lost, repeated or stopped: running blocks go on, and the new policy receives all running and waiting \
launches before it decides. Policies take no parameters.

It holds for device hosts that are started later, too, until the service reads its configuration again (SIGHUP) or \
ends: change `policy` in the configuration as well if it is to last. `gridmux policy show` says which policy decides.";

/// Sets the policy.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct Set {
    /// Name, as `policy list` prints it
    #[arg(value_parser = name_parser(), hide_possible_values = true)]
    name: String,
    #[command(flatten)]
    service: ServiceArgs,
}

impl Set {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let request = AdminRequest::Change(Change::Policy(self.name));
        let reply = self.service.ask(&request)?;
        let AdminReply::Policy {
            policy,
            before,
            host_told,
        } = reply
        else {
            return Err(unexpected());
        };
        let is_new = policy != before;
        note_unheld(
            &policy,
            "by a service",
            gridmux_mediator::dispatch::enforces,
        );
        note_unsampled(&policy);
        // Where nothing changes, what decides was not chosen just now.
        let decides = match is_new {
            true => None,
            false => Some(self.service.statistics()?.host.policy_in_force),
        };
        let shown = json!({
            "policy": policy, "before": before, "changed": is_new, "host_told": host_told, "until": "reload",
        });
        out.show(&shown, || match &decides {
            None => format!("{policy}, in place of {before}\n{}", holds(host_told)),
            Some(decides) => {
                let decides = in_force(&policy, decides.as_ref());
                format!("{policy} was set already, nothing changes; in force: {decides}")
            }
        })
    }
}
