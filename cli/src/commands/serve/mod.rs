//! `gridmux serve`: the service.
//!
//! Rule: flags override the configuration file, and the outcome is checked as a whole.

mod check;

pub(super) use check::{Finding, Verdict};

use crate::commands::policy::{name_parser, note_unsampled};
use crate::failure::Failure;
use crate::notify::Manager;
use crate::offer::devices;
use crate::output::{Output, note};
use clap::Args;
use gridmux_mediator::config::{Config, EXAMPLE, TenantConfig};
use gridmux_mediator::device::Timing;
use gridmux_mediator::supervisor::{self, ServeError, SocketError, Source, State};
use gridmux_policy::{Class, UnknownClass};
use serde_json::json;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The configuration that is read when no other is named.
pub(super) const DEFAULT_CONFIG: &str = "/etc/gridmux/gridmux.toml";

/// The text behind the options: how the service runs and stops.
const NOTES: &str = "\
Every key of the configuration is in `gridmux serve --example-config`; `--check` looks at a configuration and at what \
it needs of this system.

On SIGHUP it reads its configuration again, unless it was started with options alone, and puts in force what may \
change while it runs: tenants and all that stands there about them, the policy, and some limits (`--example-config` \
says which). The log names what needs a restart. A configuration that is not right changes nothing. Options go on \
overriding the file.

It runs until SIGTERM or SIGINT (Ctrl-C); its clients lose their connections then. GRIDMUX_LOG says what is logged on \
stderr: debug, info (the default of the service), warn or error, or gridmux_mediator=debug for one part.

It may run as any user. Only as root does it measure latencies by eBPF, run its device host as another user, and have \
/run/gridmux for its sockets; others name a folder with --run-dir.";

/// Runs the service.
#[derive(Debug, Clone, Args)]
#[command(after_help = NOTES)]
pub(crate) struct Serve {
    /// Configuration [default: /etc/gridmux/gridmux.toml if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder for the sockets [default: /run/gridmux]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Device: model:NAME or cuda:N [default: model:h200]
    #[arg(long, value_name = "DEVICE", value_parser = devices(), hide_possible_values = true)]
    device: Option<String>,
    /// Streaming multiprocessors of a modelled device, caches and bandwidth in proportion [default: all]
    #[arg(long, value_name = "N")]
    sms: Option<u16>,
    /// A modelled device gives results as fast as the host can, in estimated time
    #[arg(long)]
    functional: bool,
    /// Scheduling policy (`gridmux policy list`) [default: gridmux]
    #[arg(long, value_name = "NAME", value_parser = name_parser(), hide_possible_values = true)]
    policy: Option<String>,
    /// Name under which eBPF maps are pinned [default: gridmux]
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// A tenant, with its weight [default: 1] and its class (latency, normal or batch [default: normal]); may be
    /// repeated, once for each name. Of a tenant in the configuration it changes only what it says: NAME:5 the weight,
    /// NAME::batch the class
    #[arg(long = "tenant", value_name = "NAME[:WEIGHT[:CLASS]]", value_parser = tenant)]
    tenants: Vec<TenantOption>,
    /// Check the configuration and what it needs of this system (folders, users, groups, the device), and start nothing
    #[arg(long)]
    check: bool,
    /// Print a configuration with every key, its unit, its default and what it does
    #[arg(long, conflicts_with_all = ["check", "config", "run_dir", "device", "tenants"])]
    example_config: bool,
}

/// The tenant that one `--tenant` describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TenantOption {
    pub(super) name: String,
    pub(super) weight: Option<u32>,
    pub(super) class: Option<Class>,
}

impl Serve {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        if self.example_config {
            return example(out);
        }
        if !self.check {
            supervisor::hold_signals()?;
        }
        let file = self.file();
        let (config, writer) = self.configuration(file.as_deref())?;
        if self.check {
            return check::run(&config, file, writer, out);
        }
        warn_of_writer(file.as_deref(), writer);
        let mut manager = Manager::new();
        let shown = config.clone();
        let source = file.map(|file| self.source(file));
        supervisor::serve(config, source, |state| {
            if let State::Ready(device) = state {
                announce(&shown, device, out);
            }
            manager.tell(state);
        })
        .map_err(explain)
    }

    /// Returns the file that is read, if one is.
    fn file(&self) -> Option<PathBuf> {
        let default = Path::new(DEFAULT_CONFIG);
        let named = self.config.clone();
        named.or_else(|| default.exists().then(|| default.to_owned()))
    }

    /// Returns how the running service reads its configuration again: the same file, with the same options in front of
    /// it. The service itself looks up the users and groups that it names.
    fn source(self, file: PathBuf) -> Source {
        // The service reads what was meant when it was started.
        let path = std::path::absolute(&file).unwrap_or(file);
        let file = path.clone();
        let read = move || {
            let read = Config::read_with_writer(&path);
            let (config, writer) = read.map_err(|error| error.to_string())?;
            let config = self.with_options(config, true);
            let named = |failure: Failure| format!("{}: {}", path.display(), failure.line());
            let config = config.map_err(named)?;
            warn_of_writer(Some(&path), writer);
            Ok(config)
        };
        Source {
            file,
            read: Arc::new(read),
        }
    }

    /// Reads a configuration and what the options say in its place, and checks the outcome; says who beside root and
    /// this user may write the file, if somebody may.
    fn configuration(&self, file: Option<&Path>) -> Result<(Config, Option<String>), Failure> {
        let (config, writer) = match file {
            Some(path) => Config::read_with_writer(path)?,
            None => (Config::parse("schema_version = 1")?, None),
        };
        Ok((self.with_options(config, file.is_some())?, writer))
    }

    /// Returns a configuration, which is of a file or made of defaults, with what the options say in its place.
    ///
    /// # Errors
    /// The outcome makes no sense; the error does not name the file.
    fn with_options(&self, mut config: Config, is_of_file: bool) -> Result<Config, Failure> {
        let said = self.clone();
        config.run_dir = said.run_dir.unwrap_or(config.run_dir);
        config.device.kind = said.device.unwrap_or(config.device.kind);
        config.device.sms = self.sms.or(config.device.sms);
        if self.functional {
            config.device.timing = Timing::Functional;
        }
        config.policy = said.policy.unwrap_or(config.policy);
        config.instance = said.instance.unwrap_or(config.instance);
        for tenant in &self.tenants {
            let same = self
                .tenants
                .iter()
                .filter(|other| other.name == tenant.name);
            if same.count() > 1 {
                let name = &tenant.name;
                return Err(Failure::usage(format!("--tenant names {name:?} twice")));
            }
            tenant.apply(&mut config.tenants);
        }
        // The file alone was right, so what is wrong now was said by an option.
        config.check().map_err(Failure::usage)?;
        if config.tenants.is_empty() {
            let message = "no tenant is configured, so nobody could connect";
            let failure = match is_of_file {
                true => Failure::new(message),
                false => Failure::usage(message),
            };
            return Err(failure.hint(
                "give --tenant NAME[:WEIGHT[:CLASS]], or a [[tenant]] in the configuration",
            ));
        }
        Ok(config)
    }
}

/// Looks at a configuration as `gridmux serve --check` does; gives its values, and what was found.
///
/// # Errors
/// It cannot be read, or a value makes no sense.
pub(super) fn examine(file: &Path) -> Result<(Config, Vec<Finding>), Failure> {
    let (config, writer) = Config::read_with_writer(file)?;
    let findings = check::look(&config, Some(file), writer);
    Ok((config, findings))
}

/// Warns of those who decide what the service reads, beside root and its own user.
fn warn_of_writer(file: Option<&Path>, writer: Option<String>) {
    if let (Some(file), Some(who)) = (file, writer) {
        let file = file.display();
        tracing::warn!("{file} can be written by {who}, and so decides who is which tenant");
    }
}

/// Says that clients can connect: on stderr to people, on stdout to programs.
fn announce(config: &Config, device: &str, out: &Output) {
    let Config {
        run_dir,
        policy,
        instance,
        ..
    } = config;
    let socket = run_dir.join(supervisor::CLIENT_SOCKET);
    let tenants: Vec<&str> = config.tenants.iter().map(|tenant| &*tenant.name).collect();
    let place = socket.display();
    note(&format!(
        "gridmux: serving {device} at {place} under {policy}"
    ));
    note_unsampled(policy);
    // A service goes on when nobody reads what it says.
    let _ = out.line(&json!({ "ready": {
        "device": device, "policy": policy, "run_dir": run_dir, "socket": socket, "instance": instance,
        "tenants": tenants, "pid": std::process::id(),
    }}));
}

/// Prints the example, in JSON with its keys and defaults too.
fn example(out: &Output) -> Result<(), Failure> {
    let defaults = Config::parse(EXAMPLE)?;
    let shown = json!({ "text": EXAMPLE, "defaults": defaults });
    out.show(&shown, || EXAMPLE.to_owned())
}

fn explain(error: ServeError) -> Failure {
    let is_denied = match &error {
        ServeError::Socket(SocketError::System { source, .. }) => {
            source.kind() == ErrorKind::PermissionDenied
        }
        _ => false,
    };
    let failure = Failure::from(error);
    match is_denied {
        true => failure.hint("name a folder that this user may write, with --run-dir"),
        false => failure,
    }
}

impl TenantOption {
    /// Changes what it says of the tenant of its name, or adds that tenant.
    fn apply(&self, tenants: &mut Vec<TenantConfig>) {
        let known = tenants.iter_mut().find(|known| known.name == self.name);
        match known {
            Some(known) => {
                known.weight = self.weight.unwrap_or(known.weight);
                known.class = self.class.unwrap_or(known.class);
            }
            None => {
                let (weight, class) = (self.weight.unwrap_or(1), self.class.unwrap_or_default());
                tenants.push(TenantConfig::new(&self.name, weight, class));
            }
        }
    }
}

/// Parses `NAME[:WEIGHT[:CLASS]]`; an empty weight is none.
pub(super) fn tenant(text: &str) -> Result<TenantOption, String> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let (weight, class) = match rest.split_once(':') {
        Some((weight, class)) => (weight, Some(class)),
        None => (rest, None),
    };
    let number = |weight: &str| {
        weight
            .parse()
            .map_err(|_| format!("{weight:?} is no weight: a whole number of at least 1"))
    };
    let class = class.map(|class| {
        class
            .parse()
            .map_err(|error: UnknownClass| error.to_string())
    });
    Ok(TenantOption {
        name: name.to_owned(),
        weight: Some(weight)
            .filter(|weight| !weight.is_empty())
            .map(number)
            .transpose()?,
        class: class.transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::tenant;
    use gridmux_mediator::config::TenantConfig;
    use gridmux_policy::Class;

    #[test]
    fn a_tenant_is_a_name_and_perhaps_a_weight_and_a_class() {
        let said = |text: &str| {
            let parsed = tenant(text).unwrap();
            (parsed.name, parsed.weight, parsed.class)
        };
        assert_eq!(said("serving:2"), ("serving".into(), Some(2), None));
        assert_eq!(said("batch"), ("batch".into(), None, None));
        assert_eq!(
            said("a:2:latency"),
            ("a".into(), Some(2), Some(Class::Latency))
        );
        assert_eq!(said("a::batch"), ("a".into(), None, Some(Class::Batch)));
        assert!(tenant("batch:heavy").unwrap_err().contains("heavy"));
        assert!(tenant("batch:1:fast").unwrap_err().contains("fast"));
    }

    #[test]
    fn of_a_configured_tenant_only_what_is_said_changes() {
        let mut tenants = vec![TenantConfig::new("web", 3, Class::Latency)];
        let mut after = |text: &str| {
            tenant(text).unwrap().apply(&mut tenants);
            let shown = tenants.iter().map(|t| (t.name.clone(), t.weight, t.class));
            shown.collect::<Vec<_>>()
        };
        let web = |weight, class| ("web".to_owned(), weight, class);
        assert_eq!(after("web:9"), [web(9, Class::Latency)]);
        assert_eq!(after("web::batch"), [web(9, Class::Batch)]);
        assert_eq!(after("web"), [web(9, Class::Batch)]);
        assert_eq!(
            after("new"),
            [web(9, Class::Batch), ("new".to_owned(), 1, Class::Normal)]
        );
    }
}
