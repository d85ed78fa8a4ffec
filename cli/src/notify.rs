//! Telling the service manager what the service is doing (sd_notify(3)), and that it is alive (sd_watchdog_enabled(3)).
//!
//! Rule: a service manager that cannot be told is no reason not to serve.

use gridmux_mediator::supervisor::State;
use sd_notify::{NotifyState, notify, watchdog_enabled};
use std::time::{Duration, Instant};

/// The service manager, if one wants to be told.
#[derive(Debug)]
pub(crate) struct Manager {
    /// The longest time that it waits for a sign of life, if it waits at all.
    patience: Option<Duration>,
    /// The time of the last one.
    told: Instant,
}

impl Manager {
    /// Finds out from the environment how often it is to be told that the service is alive.
    pub(crate) fn new() -> Self {
        Self {
            patience: watchdog_enabled().filter(|patience| !patience.is_zero()),
            told: Instant::now(),
        }
    }

    /// Tells it, where it has to be told; signs of life are sent twice in the time that it waits for one.
    pub(crate) fn tell(&mut self, state: State<'_>) {
        match state {
            State::Ready(_) | State::Reloaded(Ok(())) => send(&[NotifyState::Ready]),
            State::Reloaded(Err(reason)) => {
                send(&[NotifyState::Ready, NotifyState::Status(&refused(&reason))]);
            }
            State::Reloading => {
                let mut states = vec![NotifyState::Reloading];
                // The clock always exists.
                states.extend(NotifyState::monotonic_usec_now());
                // What was wrong with the last configuration is no status any more.
                states.push(NotifyState::Status(""));
                send(&states);
            }
            State::Stopping => send(&[NotifyState::Stopping]),
            State::Alive => {
                let is_due = |patience: Duration| self.told.elapsed() >= patience / 2;
                if self.patience.is_some_and(is_due) {
                    self.told = Instant::now();
                    send(&[NotifyState::Watchdog]);
                }
            }
        }
    }
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = notify(states) {
        tracing::warn!(%error, ?states, "the service manager cannot be told");
    }
}

/// Returns the status after a reload that was refused, in one line: what follows a line's end would be another message.
fn refused(reason: &str) -> String {
    let line = reason.replace(char::is_control, " ");
    format!("the configuration is not applied: {line}")
}

#[cfg(test)]
mod tests {
    use super::refused;

    #[test]
    fn a_reason_is_one_line_of_status() {
        assert_eq!(
            refused("f: line 3\nREADY=0"),
            "the configuration is not applied: f: line 3 READY=0"
        );
    }
}
