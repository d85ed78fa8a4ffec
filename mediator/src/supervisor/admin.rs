//! The operators' socket: one JSON request a line, one JSON reply a line.
//!
//! The socket belongs to the service's user, mode 0600; whoever can open it may ask. This is what is said, and the
//! asking side; the answering side is `operators`.

use super::HostState;
use crate::link::HostStatistics;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time that an operator waits for the service.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// What an operator asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask")]
pub enum AdminRequest {
    /// Everything about the device host and its tenants.
    Statistics,
    /// Ends the service.
    Stop,
}

/// What the service answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdminReply {
    /// To [`AdminRequest::Statistics`].
    Statistics(Box<ServiceStatistics>),
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
    /// Device host's process; none while there is no host.
    pub host_pid: Option<u32>,
    /// How the device host stands.
    pub host_state: HostState,
    /// Device hosts that were replaced.
    pub host_restarts: u32,
    /// eBPF instance, when launch latency is measured by eBPF.
    pub ebpf_instance: Option<String>,
    /// Why it is not.
    pub ebpf_unavailable: Option<String>,
    /// The device host.
    pub host: HostStatistics,
}

/// Why an operator gets no answer.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Nobody listens.
    #[error("{path}: {source}")]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The error of the attempt to connect.
        source: io::Error,
    },
    /// It took longer than [`ANSWER_PATIENCE`].
    #[error("the service did not answer in {} s", ANSWER_PATIENCE.as_secs())]
    Silent,
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

/// Asks the service whose sockets are in a folder.
///
/// # Errors
/// [`AdminError`].
pub fn ask(run_dir: &Path, request: &AdminRequest) -> Result<AdminReply, AdminError> {
    let path = run_dir.join(super::sockets::ADMIN_SOCKET);
    let stream =
        UnixStream::connect(&path).map_err(|source| AdminError::Connect { path, source })?;
    stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    (&stream).write_all(line.as_bytes())?;
    let mut reply = String::new();
    let read = BufReader::new(&stream).read_line(&mut reply);
    read.map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => AdminError::Silent,
        _ => AdminError::Io(error),
    })?;
    match serde_json::from_str(&reply)? {
        AdminReply::Error(reason) => Err(AdminError::Refused(reason)),
        reply => Ok(reply),
    }
}
