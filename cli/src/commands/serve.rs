//! `gridmux serve`: the service.
//!
//! Rule: flags override the configuration file, and the outcome is checked as a whole.

use crate::failure::Failure;
use crate::notify;
use crate::output::Output;
use clap::Args;
use gridmux_mediator::config::{Config, TenantConfig};
use gridmux_mediator::supervisor;
use gridmux_policy::UnknownClass;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The configuration that is read when no other is named.
const DEFAULT_CONFIG: &str = "/etc/gridmux/gridmux.toml";

/// Runs the service.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Configuration [default: /etc/gridmux/gridmux.toml if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder for the sockets
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Device: model:NAME or cuda:N
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Streaming multiprocessors of a modelled device, caches and bandwidth in proportion
    #[arg(long, value_name = "N")]
    sms: Option<u16>,
    /// Scheduling policy (`gridmux policy list`)
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Name under which eBPF maps are pinned
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// A tenant, with its weight and its class (latency, normal or batch); may be repeated
    #[arg(long = "tenant", value_name = "NAME[:WEIGHT[:CLASS]]", value_parser = tenant)]
    tenants: Vec<TenantConfig>,
}

impl Serve {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let config = self.configuration()?;
        let (run_dir, policy, instance) = (
            config.run_dir.clone(),
            config.policy.clone(),
            config.instance.clone(),
        );
        let socket = run_dir.join(supervisor::CLIENT_SOCKET);
        let tenants: Vec<String> = config
            .tenants
            .iter()
            .map(|tenant| tenant.name.clone())
            .collect();
        supervisor::serve(config, |device| {
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!(
                    "gridmux: serving {device} at {} under {policy}\n",
                    socket.display()
                ),
            );
            let ready = json!({ "ready": {
                "device": device, "policy": policy, "run_dir": run_dir, "socket": socket, "instance": instance,
                "tenants": tenants, "pid": std::process::id(),
            }});
            // A service goes on when the reader of its first line is gone.
            let _ = out.line(&ready);
            notify::ready();
        })?;
        Ok(())
    }

    fn configuration(self) -> Result<Config, Failure> {
        let default = Path::new(DEFAULT_CONFIG);
        let file = self
            .config
            .or_else(|| default.exists().then(|| default.to_owned()));
        let mut config = match &file {
            Some(path) => Config::read(path)?,
            None => Config::parse("schema_version = 1")?,
        };
        config.run_dir = self.run_dir.unwrap_or(config.run_dir);
        config.device.kind = self.device.unwrap_or(config.device.kind);
        config.device.sms = self.sms.or(config.device.sms);
        config.policy = self.policy.unwrap_or(config.policy);
        config.instance = self.instance.unwrap_or(config.instance);
        for tenant in self.tenants {
            match config
                .tenants
                .iter_mut()
                .find(|known| known.name == tenant.name)
            {
                Some(known) => (known.weight, known.class) = (tenant.weight, tenant.class),
                None => config.tenants.push(tenant),
            }
        }
        config.check()?;
        if config.tenants.is_empty() {
            return Err(
                Failure::new("no tenant is configured, so nobody could connect").hint(
                    "give --tenant NAME[:WEIGHT[:CLASS]], or a [[tenant]] in the configuration",
                ),
            );
        }
        Ok(config)
    }
}

fn tenant(text: &str) -> Result<TenantConfig, String> {
    let (name, rest) = text.split_once(':').unwrap_or((text, "1"));
    let (weight, class) = rest.split_once(':').unwrap_or((rest, "normal"));
    let weight = weight
        .parse()
        .map_err(|_| format!("{weight:?} is no weight: a whole number of at least 1"))?;
    let class = class
        .parse()
        .map_err(|error: UnknownClass| error.to_string())?;
    Ok(TenantConfig::new(name, weight, class))
}

#[cfg(test)]
mod tests {
    use super::tenant;
    use gridmux_policy::Class;

    #[test]
    fn a_tenant_is_a_name_and_perhaps_a_weight_and_a_class() {
        let parsed = tenant("serving:2").unwrap();
        assert_eq!((parsed.name.as_str(), parsed.weight), ("serving", 2));
        assert_eq!(tenant("batch").unwrap().weight, 1);
        assert_eq!(tenant("serving:2").unwrap().class, Class::Normal);
        assert_eq!(tenant("serving:2:latency").unwrap().class, Class::Latency);
        assert!(tenant("batch:heavy").unwrap_err().contains("heavy"));
        assert!(tenant("batch:1:fast").unwrap_err().contains("fast"));
    }
}
