//! The operators' socket: one JSON request a line, one JSON reply a line.
//!
//! The socket belongs to the service's user, mode 0600; whoever can open it may ask. Requests are short and answered
//! by the supervisor's one thread, so an operator who does not read cannot hold the service: replies are written with
//! a time limit.

use super::Supervisor;
use super::hosts::HOST_PATIENCE;
use crate::link::{HostStatistics, ToHost, ToSupervisor};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest request.
const REQUEST_BYTES: u64 = 4096;
/// Longest time an operator may take to write or read.
const OPERATOR_PATIENCE: Duration = Duration::from_millis(500);

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
    /// Device host's process.
    pub host_pid: u32,
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

impl Supervisor {
    pub(super) fn answer_admin(&mut self) {
        let Ok((stream, _)) = self.claim.admin.accept() else {
            return;
        };
        if let Err(error) = self.converse(&stream) {
            tracing::debug!(%error, "operator");
        }
    }

    fn converse(&mut self, stream: &UnixStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(OPERATOR_PATIENCE))?;
        stream.set_write_timeout(Some(OPERATOR_PATIENCE))?;
        let mut line = String::new();
        BufReader::new(stream.take(REQUEST_BYTES)).read_line(&mut line)?;
        let reply = match serde_json::from_str(&line) {
            Ok(AdminRequest::Statistics) => self.statistics(),
            Ok(AdminRequest::Stop) => {
                self.stopping = true;
                AdminReply::Done
            }
            Err(error) => AdminReply::Error(format!("request not understood: {error}")),
        };
        let mut text = serde_json::to_string(&reply)?;
        text.push('\n');
        (&mut &*stream).write_all(text.as_bytes())
    }

    fn statistics(&mut self) -> AdminReply {
        self.maps.drain();
        match self.ask_host() {
            Ok(host) => AdminReply::Statistics(Box::new(ServiceStatistics {
                pid: std::process::id(),
                host_pid: self.host.pid(),
                host_restarts: self.restarts,
                ebpf_instance: self
                    .maps
                    .unavailable()
                    .is_none()
                    .then(|| self.config.instance.clone()),
                ebpf_unavailable: self.maps.unavailable().map(ToOwned::to_owned),
                host,
            })),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let seconds = HOST_PATIENCE.as_secs();
                AdminReply::Error(format!("the device host did not answer in {seconds} s"))
            }
            Err(error) => AdminReply::Error(format!("the device host does not answer: {error}")),
        }
    }

    /// Asks the host for a reading; what else it says meanwhile is taken as well.
    fn ask_host(&mut self) -> io::Result<HostStatistics> {
        self.host.link.send(&ToHost::Statistics, &[])?;
        loop {
            match self.host.link.receive::<ToSupervisor>()? {
                Some((ToSupervisor::Statistics(statistics), _)) => return Ok(*statistics),
                Some((message, _)) => self.obey(message),
                None => return Err(io::Error::other("it ended")),
            }
        }
    }
}
