//! `gridmux tenant pause` and `gridmux tenant resume`: a tenant of a running service is held back, and goes on.

use crate::failure::Failure;
use crate::output::Output;
use crate::service::{LATER, ServiceArgs};
use clap::Args;
use gridmux_mediator::dispatch::accounts::TenantState;
use gridmux_mediator::link::TenantFacts;
use gridmux_mediator::settings::Change;
use serde_json::json;

/// The text behind the options: what a pause does, and for how long.
const NOTES: &str = "\
Nothing more of a paused tenant goes to the device: its launches, copies and fills stay queued, as many as its clients \
may have, and none is lost. What the device has been given ends: blocks are not stopped, and of a kernel that can be \
cut that is a slice or a window. Other tenants share the device as if the paused one had nothing to do. Clients stay \
connected and keep their memory. A pause holds until `gridmux tenant resume` or the service's end, through other \
device hosts and while the configuration is read again. Only root and the service's own user may pause a tenant.";

/// Pauses a tenant, or lets it go on.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct Pause {
    /// The tenant
    name: String,
    #[command(flatten)]
    service: ServiceArgs,
}

impl Pause {
    pub(super) fn run(self, state: TenantState, out: &Output) -> Result<(), Failure> {
        let name = self.name;
        let change = Change::State { name, state };
        let (tenant, host_told) = self.service.change_tenant(change)?;
        let until = match state {
            TenantState::Paused => "resume",
            TenantState::Running => "pause",
        };
        let shown = json!({ "tenant": tenant, "host_told": host_told, "until": until });
        out.show(&shown, || text(&tenant, host_told))
    }
}

fn text(tenant: &TenantFacts, host_told: bool) -> String {
    let TenantFacts { name, state, .. } = tenant;
    let from = match host_told {
        true => String::new(),
        false => format!(", {LATER}"),
    };
    match state {
        TenantState::Paused => format!(
            "{name}: paused{from}, until `gridmux tenant resume {name}` or the service ends"
        ),
        TenantState::Running => format!("{name}: running{from}"),
    }
}
