//! `gridmux tenant set`: other settings of a tenant of a running service.

use crate::failure::Failure;
use crate::output::Output;
use crate::service::{ServiceArgs, holds};
use crate::units;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gridmux_mediator::config::{LEAST_MEMORY_BYTES, MAX_CLIENTS, MAX_WEIGHT};
use gridmux_mediator::link::TenantFacts;
use gridmux_mediator::settings::{Change, TenantChange};
use gridmux_policy::Class;
use serde_json::json;

/// The text behind the options: how long a change holds.
const NOTES: &str = "\
It holds at once and for clients that are connected, until the service reads its configuration again (SIGHUP) or \
ends: change the configuration as well if it is to last. What is not named stays as it is. Clients keep what they hold \
beyond a smaller limit. A client got addresses for the limit that held when it connected, with room to spare; it may \
have to connect again to use a much larger one. Only root and the service's own user may change a tenant.";

/// Changes a tenant.
#[derive(Debug, Args)]
#[command(after_help = NOTES, override_usage = "gridmux tenant set [OPTIONS] <NAME>")]
#[group(required = true, multiple = true, id = "settings", args = ["weight", "class", "memory_limit", "clients"])]
pub(crate) struct Set {
    /// The tenant
    name: String,
    /// Weight of its share, 1 to 1000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_WEIGHT)))]
    weight: Option<u32>,
    /// What it asks for
    #[arg(long, value_parser = class_parser())]
    class: Option<Class>,
    /// Most device memory that its clients hold together, at least 1MiB: bytes, or as 4GiB
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    memory_limit: Option<u64>,
    /// Most of its clients that are connected at once, 1 to 1024
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_CLIENTS)))]
    clients: Option<u16>,
    #[command(flatten)]
    service: ServiceArgs,
}

impl Set {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let change = TenantChange {
            name: self.name,
            weight: self.weight,
            class: self.class,
            memory_limit_bytes: self.memory_limit,
            clients: self.clients,
        };
        let (tenant, host_told) = self.service.change_tenant(Change::Tenant(change))?;
        let shown = json!({ "tenant": tenant, "host_told": host_told, "until": "reload" });
        out.show(&shown, || text(&tenant, host_told))
    }
}

/// Returns the parser of an argument that names a class: it knows all of them.
fn class_parser() -> impl TypedValueParser<Value = Class> {
    PossibleValuesParser::new(Class::ALL.map(Class::name)).try_map(|name| name.parse::<Class>())
}

/// Parses a limit of memory.
fn memory(text: &str) -> Result<u64, String> {
    let bytes = units::parse_bytes(text)?;
    match bytes < LEAST_MEMORY_BYTES {
        true => Err(format!("{bytes} bytes hold no buffers; at least 1MiB")),
        false => Ok(bytes),
    }
}

fn text(tenant: &TenantFacts, host_told: bool) -> String {
    let TenantFacts {
        name,
        weight,
        class,
        memory_limit_bytes,
        clients_limit,
        ..
    } = tenant;
    let memory = units::bytes(*memory_limit_bytes);
    let clients = units::counted((*clients_limit).into(), "client");
    let holds = holds(host_told);
    format!("{name}: weight {weight}, class {class}, at most {memory} and {clients}\n{holds}")
}
