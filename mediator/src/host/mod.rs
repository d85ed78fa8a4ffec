//! A device host: one process, one GPU context, unprivileged.
//!
//! Threads: *control* (this one: the supervisor's messages and the clients' sockets), *dispatcher*, *policy*, and
//! *device* (the SM model). [`run`] is the whole life of the process.
//!
//! Rules: privileges go before the first byte of a tenant is read; a tenant's bytes reach the control thread's codec,
//! the PTX front end and the dispatcher's checks, and nothing else; when the supervisor's end of the link closes, the
//! process ends.

mod accounts;
mod clients;
mod compile;
mod control;
mod facts;
mod holdings;
mod kernels;
mod learnt;
mod lines;
mod memory_time;
mod outbound;
mod parts;
mod session;
mod statistics;
mod threads;
mod watch;

use crate::config::Config;
use crate::device::{self, DeviceControl};
use crate::link::{HostLink, ToHost, ToSupervisor};
use crate::page::MappedPage;
use crate::sandbox::{self, Role};
use crate::settings::Settings;
use crate::waker::Waker;
use control::ControlThread;
use gridmux_bpf::Recorder;
use statistics::Statistics;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Runs the device host on the link that the supervisor left as descriptor 3, until the supervisor ends it.
///
/// # Errors
/// A link that is not there or speaks another language; everything else is reported over the link.
pub fn run() -> io::Result<()> {
    end_on_panic();
    // SAFETY: the supervisor opened this descriptor for us before it started this program, and nothing else in this
    // process has taken it.
    let link_fd = unsafe { OwnedFd::from_raw_fd(crate::link::LINK_FD) };
    let mut link = HostLink::from_fd(link_fd);
    let Some((ToHost::Start { config, settings }, descriptors)) = link.receive::<ToHost>()? else {
        return Err(io::Error::other("the supervisor did not say what to be"));
    };
    match prepare(&config, &settings, descriptors) {
        Ok(host) => host.run(link),
        // The supervisor says it to whoever started the service.
        Err(reason) => link.send(&ToSupervisor::Failed(reason), &[]),
    }
}

/// A thread that panics takes the whole host with it: the supervisor then tells the tenants and starts another, where
/// the threads that are left would keep them waiting for ever. A policy's panic is caught, and another takes its place.
fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        if !gridmux_policy::guard::is_under_guard() {
            std::process::abort();
        }
    }));
}

fn prepare(
    config: &Config,
    settings: &Settings,
    descriptors: Vec<OwnedFd>,
) -> Result<ControlThread, String> {
    sandbox::tie_to_parent().map_err(|error| format!("prctl: {error}"))?;
    if config.host_user.is_none() && nix::unistd::geteuid().is_root() {
        let user = sandbox::default_user();
        tracing::info!(
            user,
            "the device host runs as this user, because the configuration names no host_user"
        );
    }
    sandbox::drop_privileges(config.host_user.as_deref()).map_err(|error| error.to_string())?;
    let mut descriptors = descriptors.into_iter();
    let page = descriptors
        .next()
        .ok_or("the page of statistics is missing")?;
    let (page, before) = MappedPage::open(page).map_err(|error| error.to_string())?;
    let statistics = Statistics::new(page, before);
    let recorder = descriptors.next().and_then(|fd| {
        Recorder::from_fd(fd)
            .map_err(|error| tracing::warn!(%error, "the sample ring cannot be mapped"))
            .ok()
    });
    let waker = Arc::new(Waker::new().map_err(|error| format!("epoll: {error}"))?);
    let (kind, name) = config.device.kind.split_once(':').unwrap_or(("", ""));
    // No thread exists yet, so none escapes.
    let confine = |role| sandbox::confine(role).map_err(|error| error.to_string());
    match kind {
        "model" => {
            confine(Role::ModelHost)?;
            let (sms, timing) = (config.device.sms, config.device.timing);
            let memory_bytes = config.device.memory_bytes;
            let seconds = config.limits.kernel_budget_cpu_seconds;
            let budget = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            let setup = device::model::Setup {
                timing,
                memory_bytes,
                cpu_budget: budget,
                isolation: config.device.isolation,
            };
            let open =
                device::model::open(name, sms, setup, &waker).map_err(|error| error.to_string())?;
            if config.device.lenient_bounds {
                open.control.read_past_ends();
            }
            say_up(config, &open.control);
            ControlThread::start(
                (config, settings),
                open.device,
                open.control,
                waker,
                recorder,
                statistics,
            )
        }
        "cuda" => {
            let dumpable =
                |is_dumpable| sandbox::set_dumpable(is_dumpable).map_err(|error| error.to_string());
            // Only the way back is allowed once it is confined.
            dumpable(true)?;
            confine(Role::CudaHost)?;
            let open = device::cuda::open(name, &waker).map_err(|error| error.to_string())?;
            dumpable(false)?;
            say_up(config, &open.control);
            ControlThread::start(
                (config, settings),
                open.device,
                open.control,
                waker,
                recorder,
                statistics,
            )
        }
        _ => Err(format!("device.kind {:?} is unknown", config.device.kind)),
    }
}

fn say_up(config: &Config, control: &Arc<dyn DeviceControl>) {
    tracing::info!(device = %control.facts().name, policy = %config.policy, "device host up");
}

#[cfg(test)]
mod tests {
    use super::end_on_panic;
    use gridmux_policy::conformance::{Fails, Silent};
    use gridmux_policy::event::Event;
    use gridmux_policy::guard::Guarded;
    use gridmux_policy::ids::DeviceId;
    use gridmux_policy::{DeviceShape, Policy};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    /// Tells the test below what to do, in a process of its own, because a panic hook is the whole process's.
    const PART: &str = "GRIDMUX_TEST_PANIC";

    #[test]
    fn a_panic_ends_the_host_but_for_a_policys() {
        match std::env::var(PART).as_deref() {
            Ok("policy") => {
                end_on_panic();
                let shape = DeviceShape::small(1);
                let fails = Fails::new(Box::new(Silent::default()), 1, u64::MAX);
                let mut policy = Guarded::new(fails, DeviceId(0), &shape);
                policy.observe(&Event::Lost { n: 1 });
                assert_eq!(policy.replacements(), 1);
                return;
            }
            Ok(_) => {
                end_on_panic();
                let caught = std::panic::catch_unwind(|| panic!("a thread's panic"));
                panic!("{caught:?}");
            }
            Err(_) => {}
        }
        let name = "host::tests::a_panic_ends_the_host_but_for_a_policys";
        let run = |part: &str| {
            let mut command = Command::new("/proc/self/exe");
            command.args(["--exact", name]).env(PART, part);
            command.output().unwrap().status
        };
        assert_eq!(run("policy").code(), Some(0));
        assert_eq!(run("thread").signal(), Some(libc::SIGABRT));
    }
}
