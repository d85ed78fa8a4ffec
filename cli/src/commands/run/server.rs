//! Which service the program gets: a running one, or a private one of its own.
//!
//! Rules: a running service is used where there is one and nothing was asked that only a private one can give; one that
//! was named must be there. Whether it admits the caller is found out before the program starts.

use crate::failure::Failure;
use crate::offer::devices;
use crate::service::DEFAULT_RUN_DIR;
use anyhow::Context;
use clap::{Args, ValueHint};
use gridmux_mediator::config::{Config, ConfigError, TenantConfig};
use gridmux_mediator::device::Timing;
use gridmux_mediator::supervisor::CLIENT_SOCKET;
use gridmux_policy::Class;
use gridmux_tenant::{CallError, ClientError, ConnectOptions, DeviceFacts, Gpu};
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Name of a private service's configuration in the private folder.
pub(super) const CONFIGURATION: &str = "gridmux.toml";
/// The device of a private service, if none was named.
const DEFAULT_DEVICE: &str = "model:h200";
/// The tenant of a private service, if none was named.
const DEFAULT_TENANT: &str = "default";
/// Processor time that a launch may cost on a private service, if nothing else was said, in seconds.
const KERNEL_SECONDS: f64 = 300.0;
/// Most cycles that a configuration can hold: integers of TOML have a sign.
const MOST_CYCLES: u64 = i64::MAX.unsigned_abs();
/// SMs of a modelled device whose cycles are counted: so few that small programs end soon.
const TIMED_SMS: u16 = 8;

/// Which service.
#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    /// The clients' socket of a running service
    #[arg(long, value_name = "PATH",
          conflicts_with_all = ["run_dir", "device", "timed", "sms", "weight", "kernel_seconds", "lenient_bounds"])]
    socket: Option<PathBuf>,
    /// Folder of a running service's sockets [default: /run/gridmux, where a service runs there]
    #[arg(long, value_name = "DIR",
          conflicts_with_all = ["device", "timed", "sms", "weight", "kernel_seconds", "lenient_bounds"],
          value_hint = ValueHint::DirPath)]
    run_dir: Option<PathBuf>,
    /// Device of a private service: model:NAME or cuda:N [default: model:h200]
    #[arg(long, value_name = "DEVICE", value_parser = devices(), hide_possible_values = true)]
    device: Option<String>,
    /// Count the cycles of the private service's modelled device, so that the program sees its times
    #[arg(long)]
    timed: bool,
    /// SMs of the private service's modelled device, caches and bandwidth in proportion
    #[arg(long, value_name = "N")]
    sms: Option<u16>,
    /// Weight of the tenant in the private service
    #[arg(long, value_name = "N")]
    weight: Option<u32>,
    /// Seconds of the host's processor time that one launch of a kernel may cost on the private service's modelled
    /// device; one that takes more is ended with CUDA_ERROR_LAUNCH_TIMEOUT [default: 300]
    #[arg(long, value_name = "SECONDS")]
    kernel_seconds: Option<f64>,
    /// Let kernels read past the end of an allocation, as a card does, up to the end of its page of 2 MiB: they get
    /// what is there, or zero. Writes there and reads beyond still fault. For the private service's functional device
    #[arg(long, conflicts_with = "timed")]
    lenient_bounds: bool,
}

/// The service that a program gets.
#[derive(Debug)]
pub(super) enum Server {
    /// One that runs.
    Running {
        /// Its clients' socket.
        socket: PathBuf,
        /// The tenant, if one was named.
        tenant: Option<String>,
    },
    /// A private one, which is not running yet.
    Private {
        /// Its configuration, but for the folder of its sockets.
        config: Box<Config>,
    },
}

impl ServerArgs {
    /// Returns the options given that only a private service has, and whether each is for a modelled device.
    fn private(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let options = [
            ("--device", self.device.is_some(), false),
            ("--weight", self.weight.is_some(), false),
            ("--timed", self.timed, true),
            ("--sms", self.sms.is_some(), true),
            ("--kernel-seconds", self.kernel_seconds.is_some(), true),
            ("--lenient-bounds", self.lenient_bounds, true),
        ];
        let given = options.into_iter().filter(|(_, is_given, _)| *is_given);
        given.map(|(option, _, for_model)| (option, for_model))
    }

    /// Returns a private service's configuration, checked as far as the options go.
    fn configuration(&self, tenant: &str) -> Result<Config, Failure> {
        let mut config = Config::parse("schema_version = 1")?;
        config.instance = format!("run-{}", std::process::id());
        config.device.kind = self.device.clone().unwrap_or_else(|| DEFAULT_DEVICE.into());
        if config.device.kind.starts_with("model:") {
            config.device.timing = match self.timed {
                true => Timing::Timed,
                false => Timing::Functional,
            };
            config.device.lenient_bounds = self.lenient_bounds;
            config.device.sms = self.sms.or(self.timed.then_some(TIMED_SMS));
        } else if let Some((option, _)) = self.private().find(|(_, for_model)| *for_model) {
            return Err(Failure::usage(format!(
                "{option} is for a modelled device, and --device is {:?}",
                config.device.kind
            )));
        }
        // Nobody else waits for the device. A kernel may run for as long as the user does, which is processor time.
        config.limits.kernel_budget_cycles = MOST_CYCLES;
        config.limits.kernel_budget_cpu_seconds = self.kernel_seconds.unwrap_or(KERNEL_SECONDS);
        let weight = self.weight.unwrap_or(1);
        config.tenants = vec![TenantConfig::new(tenant, weight, Class::default())];
        config.check().map_err(in_options)?;
        Ok(config)
    }
}

/// Says what is wrong with a configuration in terms of the option that it came from.
fn in_options(error: ConfigError) -> Failure {
    // Everything in it was said by an option.
    let ConfigError::Value { key, message } = &error else {
        return Failure::usage(error);
    };
    let option = match key.as_str() {
        "device.kind" => "--device",
        "device.sms" => "--sms",
        "limits.kernel_budget_cpu_seconds" => "--kernel-seconds",
        "tenant.name" => "--tenant",
        key if key.ends_with(".weight") => "--weight",
        _ => return Failure::usage(error),
    };
    Failure::usage(format!("{option}: {message}"))
}

impl Server {
    /// Chooses by the arguments and by what runs here.
    ///
    /// # Errors
    /// An option that makes no sense.
    pub(super) fn choose(args: &ServerArgs, tenant: Option<&str>) -> Result<Self, Failure> {
        let named = args.socket.clone().or_else(|| {
            let run_dir = args.run_dir.as_ref()?;
            Some(run_dir.join(CLIENT_SOCKET))
        });
        if let Some(socket) = named {
            return Ok(Self::running(socket, tenant));
        }
        let default = Path::new(DEFAULT_RUN_DIR).join(CLIENT_SOCKET);
        if args.private().next().is_none() && is_served(&default) {
            return Ok(Self::running(default, tenant));
        }
        let config = args.configuration(tenant.unwrap_or(DEFAULT_TENANT))?;
        Ok(Self::Private {
            config: Box::new(config),
        })
    }

    fn running(socket: PathBuf, tenant: Option<&str>) -> Self {
        let tenant = tenant.map(ToOwned::to_owned);
        Self::Running { socket, tenant }
    }

    /// Writes the configuration of a private service into its folder.
    pub(super) fn write_into(&self, folder: &Path) -> Result<(), Failure> {
        let Self::Private { config } = self else {
            return Ok(());
        };
        let mut config = config.clone();
        config.run_dir = folder.to_owned();
        let text = toml::to_string(&config).context("making a configuration")?;
        Ok(std::fs::write(folder.join(CONFIGURATION), text).context("writing a configuration")?)
    }

    /// Returns the socket for clients, given the private folder.
    pub(super) fn socket(&self, folder: &Path) -> PathBuf {
        match self {
            Self::Running { socket, .. } => socket.clone(),
            Self::Private { .. } => folder.join(CLIENT_SOCKET),
        }
    }

    /// Returns the tenant that the program is to name, if any.
    pub(super) fn tenant(&self) -> Option<&str> {
        match self {
            Self::Running { tenant, .. } => tenant.as_deref(),
            Self::Private { config } => config.tenants.first().map(|tenant| tenant.name.as_str()),
        }
    }

    /// Asks the service, which runs by now, what its device is.
    ///
    /// # Errors
    /// It is not there, or does not admit this process.
    pub(super) fn facts(&self, folder: &Path) -> Result<DeviceFacts, Failure> {
        let socket = self.socket(folder);
        let options = ConnectOptions {
            name: "gridmux run".into(),
            tenant: self.tenant().map(ToOwned::to_owned),
        };
        let error = match Gpu::connect_to(&socket, options) {
            Ok(gpu) => return Ok(gpu.facts().clone()),
            Err(error) => error,
        };
        let hint = match (&error, self) {
            // The refusal of a named tenant lists the tenants that exist.
            (ClientError::Call(CallError::Control(_)), Self::Running { tenant: None, .. })
            | (ClientError::Call(CallError::Connect { .. }), Self::Running { .. }) => {
                Some("with --device model:h200 the program gets a private service instead")
            }
            _ => None,
        };
        let failure = match error {
            // It names the socket itself.
            error @ ClientError::Call(CallError::Connect { .. }) => Failure::from(error),
            error => anyhow::Error::from(error)
                .context(format!("the service at {}", socket.display()))
                .into(),
        };
        Err(match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        })
    }
}

/// Returns whether somebody listens there. A socket that this process may not open counts: it is to be said, not passed
/// over.
fn is_served(socket: &Path) -> bool {
    match UnixStream::connect(socket) {
        Ok(_) => true,
        Err(error) => !matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::ConnectionRefused
        ),
    }
}
