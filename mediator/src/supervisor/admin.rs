//! The operators' socket: one JSON request a line, one JSON reply a line.
//!
//! The socket belongs to the service's user, mode 0600, or 0660 and the group `operator_group`. Whoever can open it may
//! read statistics; only root and the service's own user may change or stop anything. This is what is said, and the
//! asking side; the answering side is `operators`.

use super::HostState;
use crate::accounting::{UsageQuery, UsageReport};
use crate::link::{HostStatistics, TenantFacts};
use crate::page::KernelsSnapshot;
use crate::settings::Change;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest time that an operator waits for the service.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer.
const REPLY_BYTES: usize = 16 << 20;

/// Why a request of a member of the operators' group is refused.
pub(super) const NOT_PERMITTED: &str =
    "only root and the service's own user may do that; operator_group may read statistics";

/// A request of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask")]
pub enum AdminRequest {
    /// Everything about the device host and its tenants.
    Statistics,
    /// The same, and the kernels of the tenants.
    Kernels,
    /// What was used over the years, where accounts are kept.
    Usage(UsageQuery),
    /// Changes settings.
    Change(Change),
    /// Ends the service.
    Stop,
}

impl AdminRequest {
    /// Returns whether a user may ask this of a service whose own user is `own`.
    pub(super) fn is_permitted_to(&self, user: u32, own: u32) -> bool {
        match self {
            Self::Statistics | Self::Kernels | Self::Usage(_) => true,
            Self::Change(_) | Self::Stop => user == 0 || user == own,
        }
    }
}

/// The service's answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdminReply {
    /// To [`AdminRequest::Statistics`] and [`AdminRequest::Kernels`].
    Statistics(Box<ServiceStatistics>),
    /// To [`AdminRequest::Usage`].
    Usage(Box<UsageReport>),
    /// To [`Change::Tenant`] and [`Change::State`]: what the tenant's settings are now.
    Tenant {
        /// The settings.
        tenant: Box<TenantFacts>,
        /// A device host has been told; without one, the next one starts with them.
        host_told: bool,
    },
    /// To [`Change::Policy`]: the policy that is to be obeyed now, and the one before.
    Policy {
        /// Its name.
        policy: String,
        /// The other's.
        before: String,
        /// A device host has been told; without one, the next one starts with it.
        host_told: bool,
    },
    /// It is done.
    Done,
    /// It failed.
    Error(String),
}

/// A reading of the whole service.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServiceStatistics {
    /// Supervisor's process.
    pub pid: u32,
    /// The configuration that it was started with; none where options say everything.
    #[serde(default)]
    pub config: Option<PathBuf>,
    /// Device host's process; none while there is no host.
    pub host_pid: Option<u32>,
    /// How the device host stands.
    pub host_state: HostState,
    /// Device hosts that were replaced.
    pub host_restarts: u32,
    /// Connections that the device host has been given and that have not ended, of clients and of others.
    pub connections: u64,
    /// How long ago the device host wrote the figures below, in milliseconds.
    pub age_ms: u64,
    /// eBPF instance, when launch latency is measured by eBPF.
    pub ebpf_instance: Option<String>,
    /// Why it is not.
    pub ebpf_unavailable: Option<String>,
    /// The device host.
    pub host: HostStatistics,
    /// Numbers and names of tenants that were configured since the service started and are no more.
    pub taken_out: Vec<(u32, String)>,
    /// The tenants' kernels, where they were asked for.
    pub kernels: Option<KernelStatistics>,
}

/// A reading of the tenants' kernels.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KernelStatistics {
    /// How long ago it was taken, in milliseconds; none where the device host has taken none yet.
    pub age_ms: Option<u64>,
    /// The reading.
    pub reading: KernelsSnapshot,
}

/// Says that nobody answers, or that this user may not ask.
fn no_answer(path: &Path, source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("this user may not ask the service at {}", path.display())
        }
        _ => format!("no service answers at {}", path.display()),
    }
}

/// Why an operator gets no answer.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Nobody listens.
    #[error("{}: {source}", no_answer(path, source))]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The error of the attempt to connect.
        source: io::Error,
    },
    /// It took longer than [`ANSWER_PATIENCE`].
    #[error("the service did not answer in {} s", ANSWER_PATIENCE.as_secs())]
    Silent,
    /// It is longer than any answer.
    #[error(
        "the answer is over {REPLY_BYTES} bytes: whoever answers is no service of this version"
    )]
    Long,
    /// The conversation broke off.
    #[error("asking the service: {0}")]
    Io(#[from] io::Error),
    /// The reply makes no sense.
    #[error("the service's reply is not understood: {0}")]
    Reply(#[from] serde_json::Error),
    /// The service says why not.
    #[error("{0}")]
    Refused(String),
}

/// Reads one line, in [`ANSWER_PATIENCE`] and [`REPLY_BYTES`] all together, whoever answers.
fn read_reply(mut stream: &UnixStream) -> Result<Vec<u8>, AdminError> {
    let deadline = Instant::now() + ANSWER_PATIENCE;
    let mut reply = Vec::new();
    let mut part = vec![0; 64 << 10];
    while !reply.ends_with(b"\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(AdminError::Silent);
        }
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(read) => reply.extend_from_slice(&part[..read]),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => return Err(AdminError::Silent),
                ErrorKind::Interrupted => {}
                _ => return Err(error.into()),
            },
        }
        if reply.len() > REPLY_BYTES {
            return Err(AdminError::Long);
        }
    }
    Ok(reply)
}

/// Asks the service whose sockets are in a folder.
///
/// # Errors
/// [`AdminError`].
pub fn ask(run_dir: &Path, request: &AdminRequest) -> Result<AdminReply, AdminError> {
    let path = run_dir.join(super::sockets::ADMIN_SOCKET);
    let stream =
        UnixStream::connect(&path).map_err(|source| AdminError::Connect { path, source })?;
    stream.set_write_timeout(Some(ANSWER_PATIENCE))?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    (&stream).write_all(line.as_bytes())?;
    match serde_json::from_slice(&read_reply(&stream)?)? {
        AdminReply::Error(reason) => Err(AdminError::Refused(reason)),
        reply => Ok(reply),
    }
}

#[cfg(test)]
mod tests {
    use super::{AdminError, AdminRequest, REPLY_BYTES, ask};
    use crate::dispatch::accounts::TenantState;
    use crate::settings::{Change, TenantChange};
    use crate::supervisor::sockets::ADMIN_SOCKET;
    use gridmux_policy::Class;
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_change_travels_as_it_is() {
        let request = AdminRequest::Change(Change::Tenant(TenantChange {
            name: "a".into(),
            weight: Some(2),
            class: Some(Class::Latency),
            ..TenantChange::default()
        }));
        let line = serde_json::to_string(&request).unwrap();
        assert_eq!(
            serde_json::from_str::<AdminRequest>(&line).unwrap(),
            request
        );
        let short = r#"{"ask":"change","tenant":{"name":"a","weight":2,"class":"latency"}}"#;
        assert_eq!(
            serde_json::from_str::<AdminRequest>(short).unwrap(),
            request
        );
    }

    #[test]
    fn a_pause_is_a_change_that_names_a_tenant() {
        let change = Change::State {
            name: "a".into(),
            state: TenantState::Paused,
        };
        let line = serde_json::to_string(&AdminRequest::Change(change.clone())).unwrap();
        let short = r#"{"ask":"change","state":{"name":"a","state":"paused"}}"#;
        for line in [&*line, short] {
            let request = serde_json::from_str::<AdminRequest>(line).unwrap();
            assert_eq!(request, AdminRequest::Change(change.clone()));
            assert!(!request.is_permitted_to(901, 900) && request.is_permitted_to(900, 900));
        }
    }

    #[test]
    fn members_of_the_operators_group_may_read_statistics_only() {
        let change = AdminRequest::Change(Change::Tenant(TenantChange::default()));
        for (user, may_change) in [(0, true), (900, true), (901, false)] {
            assert!(AdminRequest::Statistics.is_permitted_to(user, 900));
            assert!(AdminRequest::Kernels.is_permitted_to(user, 900));
            assert_eq!(change.is_permitted_to(user, 900), may_change);
            assert_eq!(AdminRequest::Stop.is_permitted_to(user, 900), may_change);
        }
    }

    #[test]
    fn an_answer_without_end_is_not_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(ADMIN_SOCKET)).unwrap();
        let flood = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let part = vec![b'x'; 1 << 20];
            let mut sent = 0_usize;
            while stream.write_all(&part).is_ok() {
                sent += part.len();
            }
            sent
        });
        let error = ask(folder.path(), &AdminRequest::Statistics).unwrap_err();
        assert!(matches!(error, AdminError::Long), "{error}");
        assert!(flood.join().unwrap() < 2 * REPLY_BYTES);
    }
}
