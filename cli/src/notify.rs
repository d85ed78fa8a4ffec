//! Telling the service manager what the service is doing (sd_notify(3)), and that it is alive (sd_watchdog_enabled(3)).
//!
//! Rule: a service manager that cannot be told is no reason not to serve.

use gridmux_mediator::supervisor::State;
use nix::time::{ClockId, clock_gettime};
use std::env;
use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The service manager, if one wants to be told.
#[derive(Debug)]
pub(crate) struct Manager {
    /// Name of its socket.
    socket: Option<OsString>,
    /// How long it waits at most for a sign of life, if it waits at all.
    patience: Option<Duration>,
    /// When it got the last one.
    told: Instant,
}

impl Manager {
    /// Finds out from the environment who is to be told, and how often.
    pub(crate) fn new() -> Self {
        Self {
            socket: env::var_os("NOTIFY_SOCKET"),
            patience: patience(
                env::var("WATCHDOG_USEC").ok(),
                env::var("WATCHDOG_PID").ok(),
            ),
            told: Instant::now(),
        }
    }

    /// Tells it, where it has to be told; signs of life are sent twice in the time that it waits for one.
    pub(crate) fn tell(&mut self, state: State<'_>) {
        match state {
            State::Ready(_) | State::Reloaded(Ok(())) => self.send("READY=1\n"),
            State::Reloaded(Err(reason)) => self.send(&refused(&reason)),
            // What was wrong with the last configuration is no status any more.
            State::Reloading => self.send(&format!(
                "RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=\n",
                monotonic_us()
            )),
            State::Stopping => self.send("STOPPING=1\n"),
            State::Alive => {
                let is_due = |patience: Duration| self.told.elapsed() >= patience / 2;
                if self.patience.is_some_and(is_due) {
                    self.told = Instant::now();
                    self.send("WATCHDOG=1\n");
                }
            }
        }
    }

    fn send(&self, message: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = send(socket, message.as_bytes())
        {
            let what = message.split('=').next().unwrap_or_default();
            tracing::warn!(%error, ?socket, "the service manager cannot be told {what}");
        }
    }
}

/// Returns the message to the service manager after a reload that was refused: `READY=1`, and the reason as `STATUS`.
fn refused(reason: &str) -> String {
    let line: String = reason
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    format!("READY=1\nSTATUS=the configuration is not applied: {line}\n")
}

/// Returns the time of the machine's monotonic clock in microseconds.
fn monotonic_us() -> u128 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
    // The clock always exists.
    now.map_or(0, |now| Duration::from(now).as_micros())
}

/// Returns how long the manager waits, unless it waits for another process.
fn patience(microseconds: Option<String>, process: Option<String>) -> Option<Duration> {
    let is_meant = process.is_none_or(|process| process == std::process::id().to_string());
    let microseconds = microseconds?.parse().ok().filter(|_| is_meant)?;
    Some(Duration::from_micros(microseconds)).filter(|patience| !patience.is_zero())
}

/// Sends a message to a socket. A name that starts with `@` is in the abstract namespace (unix(7)).
fn send(socket: &OsString, message: &[u8]) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message, &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{patience, refused};
    use std::time::Duration;

    #[test]
    fn a_reason_is_one_line_of_status() {
        let said = refused("f: line 3\nREADY=0");
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(
            lines,
            [
                "READY=1",
                "STATUS=the configuration is not applied: f: line 3 READY=0"
            ]
        );
    }

    #[test]
    fn the_manager_waits_for_the_process_that_it_names() {
        let own = std::process::id().to_string();
        let text = |text: &str| Some(text.to_owned());
        let second = Some(Duration::from_secs(1));
        assert_eq!(patience(text("1000000"), Some(own)), second);
        assert_eq!(patience(text("1000000"), None), second);
        assert_eq!(patience(text("1000000"), text("1")), None);
        assert_eq!(patience(text("0"), None), None);
        assert_eq!(patience(text("soon"), None), None);
        assert_eq!(patience(None, None), None);
    }
}
