//! `gridmux serve` on a modelled GPU, as a test's own service.

use crate::process::Speaker;
use gridmux_mediator::link::TenantStatistics;
use gridmux_mediator::supervisor::{
    AdminReply, AdminRequest, CLIENT_SOCKET, ServiceStatistics, ask,
};
use gridmux_tenant::{ClientError, ConnectOptions, Gpu};
use gridmux_testkit::until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// After this a service is killed, so that a test that hangs ends with errors of whoever waited.
const LIFETIME: Duration = Duration::from_secs(240);
/// Name of its configuration in its folder.
const CONFIG: &str = "gridmux.toml";

/// The plan of a service.
#[derive(Debug, Clone)]
pub struct ServiceBuilder {
    tenants: Vec<(String, u32)>,
    policy: &'static str,
    limits: String,
    /// Further keys of the device.
    device: String,
    /// Further keys of tenants, by name.
    keys: Vec<(String, String)>,
    /// The way in which the virtual clock passes.
    clock: &'static str,
    /// The model's treatment of time.
    timing: &'static str,
    memory_bytes: u64,
    lifetime: Duration,
}

impl ServiceBuilder {
    /// Returns a service for these tenants, each with its weight.
    #[must_use]
    pub fn new(tenants: &[(&str, u32)]) -> Self {
        let tenants = tenants
            .iter()
            .map(|(name, weight)| ((*name).to_owned(), *weight));
        Self {
            tenants: tenants.collect(),
            policy: "smk-p",
            limits: String::new(),
            device: String::new(),
            keys: Vec::new(),
            clock: "live",
            timing: "timed",
            memory_bytes: 256 << 20,
            lifetime: LIFETIME,
        }
    }

    /// Sets another policy than `smk-p`.
    #[must_use]
    pub fn policy(mut self, policy: &'static str) -> Self {
        self.policy = policy;
        self
    }

    /// Sets a key of the configuration's `[limits]`.
    #[must_use]
    pub fn limit(mut self, key: &str, value: u64) -> Self {
        let _ = writeln!(self.limits, "{key} = {value}");
        self
    }

    /// Sets a key of the device, as TOML.
    #[must_use]
    pub fn device_key(mut self, line: &str) -> Self {
        let _ = writeln!(self.device, "{line}");
        self
    }

    /// Sets a key of a tenant, as TOML.
    #[must_use]
    pub fn tenant_key(mut self, tenant: &str, line: &str) -> Self {
        self.keys.push((tenant.to_owned(), line.to_owned()));
        self
    }

    /// Lets the virtual clock stand still while a client's host code runs, so that runs repeat.
    #[must_use]
    pub fn lockstep(mut self) -> Self {
        self.clock = "lockstep";
        self
    }

    /// Returns a device that gives results without timing.
    #[must_use]
    pub fn functional(mut self) -> Self {
        self.timing = "functional";
        self
    }

    /// Sets another size of the device's memory than 256 MiB.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Lets it live longer than four minutes.
    #[must_use]
    pub fn lifetime(mut self, longest: Duration) -> Self {
        self.lifetime = longest;
        self
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(self) -> Service {
        Service::start(&self)
    }

    fn config(&self, folder: &Path, instance: &str) -> String {
        let Self {
            tenants,
            policy,
            limits,
            device,
            keys,
            clock,
            timing,
            memory_bytes,
            ..
        } = self;
        let mut text = format!(
            "schema_version = 1\nrun_dir = {folder:?}\ninstance = {instance:?}\npolicy = {policy:?}\n\
             [device]\nkind = \"model:h200\"\nsms = 4\nclock = {clock:?}\ntiming = {timing:?}\n\
             memory_bytes = {memory_bytes}\n{device}[limits]\n{limits}"
        );
        for (name, weight) in tenants {
            let _ = writeln!(text, "[[tenant]]\nname = {name:?}\nweight = {weight}");
            for (_, line) in keys.iter().filter(|(tenant, _)| tenant == name) {
                let _ = writeln!(text, "{line}");
            }
        }
        text
    }
}

/// A running service; it ends when dropped.
#[derive(Debug)]
pub struct Service {
    speaker: Speaker,
    /// Dropping it ends the thread that watches the lifetime.
    lifetime: Sender<()>,
    longest: Duration,
    folder: tempfile::TempDir,
}

impl Service {
    fn start(builder: &ServiceBuilder) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        // Relaxed: the number is all that counts.
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let instance = format!("test-{}-{number}", std::process::id());
        // Paths of sockets are at most 108 bytes, so the folder's is kept short.
        let folder = tempfile::Builder::new()
            .prefix("gm")
            .tempdir()
            .expect("a temporary folder");
        let config = folder.path().join(CONFIG);
        std::fs::write(&config, builder.config(folder.path(), &instance))
            .expect("writing the configuration");
        let speaker = serve(folder.path());
        let lifetime = watch(speaker.pid(), builder.lifetime);
        let service = Self {
            speaker,
            lifetime,
            longest: builder.lifetime,
            folder,
        };
        service.await_ready()
    }

    /// Kills it with SIGKILL and starts it again in the same folder.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn killed_and_started(mut self) -> Self {
        self.speaker.kill();
        self.speaker = serve(self.folder.path());
        self.lifetime = watch(self.speaker.pid(), self.longest);
        self.await_ready()
    }

    fn await_ready(mut self) -> Self {
        if self
            .speaker
            .hear()
            .is_none_or(|line| line.get("ready").is_none())
        {
            panic!("the service did not start: {}", self.log());
        }
        self
    }

    /// Changes the text of its configuration file, which it reads when it is told to.
    ///
    /// # Panics
    /// If the file cannot be read or written.
    pub fn edit_configuration(&self, edit: impl FnOnce(String) -> String) {
        let path = self.folder().join(CONFIG);
        let text = std::fs::read_to_string(&path).expect("the configuration is there");
        std::fs::write(&path, edit(text)).expect("writing the configuration");
    }

    /// Returns the folder of its sockets and its configuration.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the socket for all clients.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder().join(CLIENT_SOCKET)
    }

    /// Connects as a tenant, under the same name.
    ///
    /// # Panics
    /// If the mediator refuses.
    #[must_use]
    pub fn gpu(&self, tenant: &str) -> Gpu {
        connect(&self.socket(), tenant).unwrap_or_else(|error| panic!("{error:?}"))
    }

    /// Returns the process of the supervisor.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.speaker.pid()
    }

    /// Returns what it has logged. Lines of the device host, which come through a pipe, may still be on their way:
    /// [`Service::await_line`] waits for one.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder().join("log")).unwrap_or_default()
    }

    /// Waits for a line of its log that contains all parts, and returns it.
    ///
    /// # Panics
    /// If none comes within the patience of [`until`].
    pub fn await_line(&self, parts: &[&str]) -> String {
        until(&format!("a line of the log with {parts:?}"), || {
            let log = self.log();
            let mut lines = log.lines();
            let line = lines.find(|line| parts.iter().all(|part| line.contains(part)));
            line.map(str::to_owned)
        })
    }

    /// Returns a reading of its counters.
    ///
    /// # Panics
    /// If it does not answer.
    #[must_use]
    pub fn statistics(&self) -> ServiceStatistics {
        match ask(self.folder(), &AdminRequest::Statistics) {
            Ok(AdminReply::Statistics(statistics)) => *statistics,
            other => panic!("the service answers {other:?}; its log: {}", self.log()),
        }
    }

    /// Returns the process of the device host.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn host(&self) -> u32 {
        self.statistics().host_pid.expect("there is a device host")
    }

    /// Returns a reading of one tenant.
    ///
    /// # Panics
    /// If it is not configured.
    #[must_use]
    pub fn tenant(&self, name: &str) -> TenantStatistics {
        let tenants = self.statistics().host.tenants;
        let found = tenants
            .into_iter()
            .find(|tenant| tenant.tenant.name == name);
        found.unwrap_or_else(|| panic!("there is no tenant {name}"))
    }

    /// Waits until a tenant has no client, and gives the first reading without one.
    pub fn await_gone(&self, name: &str) -> ServiceStatistics {
        until(&format!("the end of the clients of tenant {name}"), || {
            let statistics = self.statistics();
            let is_there = statistics
                .host
                .tenants
                .iter()
                .any(|tenant| tenant.tenant.name == name && !tenant.clients.is_empty());
            (!is_there).then_some(statistics)
        })
    }
}

/// Returns the process of the device host; none while there is no host, or the service does not answer yet.
#[must_use]
pub fn host_of(service: &Service) -> Option<u32> {
    match ask(service.folder(), &AdminRequest::Statistics) {
        Ok(AdminReply::Statistics(statistics)) => statistics.host_pid,
        _ => None,
    }
}

/// Connects to a service as a tenant, under the same name.
///
/// # Errors
/// The client's.
pub fn connect(socket: &Path, tenant: &str) -> Result<Gpu, ClientError> {
    let options = ConnectOptions {
        name: tenant.to_owned(),
        tenant: Some(tenant.to_owned()),
    };
    Gpu::connect_to(socket, options)
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of the service:\n{}", self.log());
        }
        self.speaker.signal(Signal::SIGTERM);
        let start = std::time::Instant::now();
        while self.speaker.ended().is_none() && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(2));
        }
        // Whoever is left is killed when the field is dropped.
    }
}

/// Starts the service of a folder; its log is added to.
fn serve(folder: &Path) -> Speaker {
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.join("log"))
        .expect("opening the log");
    let config = folder.join(CONFIG);
    let arguments = ["serve".as_ref(), "--config".as_ref(), config.as_os_str()];
    Speaker::start(arguments, Stdio::from(log))
}

/// Kills the process when its time is over, unless the returned end is dropped before.
fn watch(pid: Pid, longest: Duration) -> Sender<()> {
    let (alive, ended) = channel();
    std::thread::spawn(move || {
        if ended.recv_timeout(longest) == Err(RecvTimeoutError::Timeout) {
            eprintln!(
                "a service was needed for over {longest:?}: the test hangs, so the service is killed"
            );
            let _ = kill(pid, Signal::SIGKILL);
        }
    });
    alive
}
