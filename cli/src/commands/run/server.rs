//! Which service the program gets: a running one, or a private one of its own.
//!
//! Rules: a running service is used where there is one and nothing was asked that only a private one can give; one that
//! was named must be there. Whether it admits the caller is found out before the program starts.

use super::LONGEST_FOLDER;
use crate::failure::Failure;
use crate::service::DEFAULT_RUN_DIR;
use anyhow::Context;
use clap::Args;
use gridmux_mediator::supervisor::CLIENT_SOCKET;
use gridmux_tenant::{ConnectOptions, DeviceFacts, Gpu};
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Name of a private service's configuration in the private folder.
pub(super) const CONFIGURATION: &str = "gridmux.toml";
/// The device of a private service, if none was named.
const DEFAULT_DEVICE: &str = "model:h200";
/// The tenant of a private service, if none was named.
const DEFAULT_TENANT: &str = "default";
/// SMs of a modelled device whose cycles are counted: so few that small programs end soon.
const TIMED_SMS: u16 = 8;

/// Which service.
#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    /// The clients' socket of a running service
    #[arg(long, value_name = "PATH", conflicts_with_all = ["run_dir", "device", "timed", "sms", "weight"])]
    socket: Option<PathBuf>,
    /// Folder of a running service's sockets [default: /run/gridmux, where a service runs there]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["device", "timed", "sms", "weight"])]
    run_dir: Option<PathBuf>,
    /// Device of a private service: model:NAME or cuda:N [default: model:h200]
    #[arg(long, value_name = "DEVICE")]
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
        /// The device, as a configuration names it.
        device: String,
        /// Whether the cycles of a modelled device are counted.
        timed: bool,
        /// SMs of a modelled device, if not all.
        sms: Option<u16>,
        /// Its only tenant.
        tenant: String,
        /// That tenant's weight.
        weight: u32,
    },
}

impl Server {
    /// Chooses by the arguments and by what runs here.
    pub(super) fn choose(args: &ServerArgs, tenant: Option<&str>) -> Self {
        let named = args.socket.clone().or_else(|| {
            let run_dir = args.run_dir.as_ref()?;
            Some(run_dir.join(CLIENT_SOCKET))
        });
        if let Some(socket) = named {
            return Self::running(socket, tenant);
        }
        let default = Path::new(DEFAULT_RUN_DIR).join(CLIENT_SOCKET);
        let is_private =
            args.device.is_some() || args.timed || args.sms.is_some() || args.weight.is_some();
        if !is_private && is_served(&default) {
            return Self::running(default, tenant);
        }
        Self::Private {
            device: args.device.clone().unwrap_or_else(|| DEFAULT_DEVICE.into()),
            timed: args.timed,
            sms: args.sms,
            tenant: tenant.unwrap_or(DEFAULT_TENANT).to_owned(),
            weight: args.weight.unwrap_or(1),
        }
    }

    fn running(socket: PathBuf, tenant: Option<&str>) -> Self {
        let tenant = tenant.map(ToOwned::to_owned);
        Self::Running { socket, tenant }
    }

    /// Writes the configuration of a private service into its folder.
    pub(super) fn write_into(&self, folder: &Path) -> Result<(), Failure> {
        let Some(text) = self.configuration(folder) else {
            return Ok(());
        };
        if folder.as_os_str().len() > LONGEST_FOLDER {
            return Err(Failure::new(format!(
                "{}: the path is too long for a socket",
                folder.display()
            ))
            .hint("set TMPDIR to a folder with a shorter path"));
        }
        Ok(std::fs::write(folder.join(CONFIGURATION), text).context("writing a configuration")?)
    }

    fn configuration(&self, folder: &Path) -> Option<String> {
        let Self::Private {
            device,
            timed,
            sms,
            tenant,
            weight,
        } = self
        else {
            return None;
        };
        // Nobody else waits for the device, so a kernel may run for as long as the program likes.
        let mut text = format!(
            "schema_version = 1\nrun_dir = {folder:?}\ninstance = \"run-{}\"\n\
             [limits]\nkernel_budget_cycles = {}\nkernel_budget_cpu_seconds = 86400\n\
             [[tenant]]\nname = {tenant:?}\nweight = {weight}\n[device]\nkind = {device:?}\n",
            std::process::id(),
            i64::MAX,
        );
        if device.starts_with("model:") {
            let timing = if *timed { "timed" } else { "functional" };
            let _ = writeln!(text, "timing = {timing:?}");
        }
        if let Some(sms) = sms.or(timed.then_some(TIMED_SMS)) {
            let _ = writeln!(text, "sms = {sms}");
        }
        Some(text)
    }

    /// The socket for clients, given the private folder.
    pub(super) fn socket(&self, folder: &Path) -> PathBuf {
        match self {
            Self::Running { socket, .. } => socket.clone(),
            Self::Private { .. } => folder.join(CLIENT_SOCKET),
        }
    }

    /// The tenant that the program is to name, if any.
    pub(super) fn tenant(&self) -> Option<&str> {
        match self {
            Self::Running { tenant, .. } => tenant.as_deref(),
            Self::Private { tenant, .. } => Some(tenant),
        }
    }

    /// Asks the service, which runs by now, what its device is; it must admit this process.
    pub(super) fn facts(&self, folder: &Path) -> Result<DeviceFacts, Failure> {
        let socket = self.socket(folder);
        let options = ConnectOptions {
            name: "gridmux run".into(),
            tenant: self.tenant().map(ToOwned::to_owned),
        };
        let connected = Gpu::connect_to(&socket, options)
            .with_context(|| format!("the service at {}", socket.display()));
        match (connected, self) {
            (Ok(gpu), _) => Ok(gpu.facts().clone()),
            (Err(error), Self::Private { .. }) => Err(error.into()),
            (Err(error), Self::Running { .. }) => Err(Failure::from(error)
                .hint("with --device model:h200 the program gets a private service instead")),
        }
    }
}

/// Whether somebody listens there. A socket that this process may not open counts: it is to be said, not passed over.
fn is_served(socket: &Path) -> bool {
    match UnixStream::connect(socket) {
        Ok(_) => true,
        Err(error) => !matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::ConnectionRefused
        ),
    }
}
