//! The orderly end of the service.
//!
//! The device host is told to stop: what is in flight completes within its bound or is lost with the connection of its
//! client, which reports it as an error; what it has learnt is kept. A host that does not end in time is killed.
//!
//! Rules: nobody new is served meanwhile; a second signal to stop, such as a second Ctrl-C, ends the host at once.

use super::Supervisor;
use super::hosts::{Heard, Hosts};
use crate::link::ToHost;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

/// How long a host may take: two seconds for what is in flight, and one to end.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a killed host may take to end.
const KILL_PATIENCE: Duration = Duration::from_secs(1);
/// Longest wait for a message, a signal or the end of the process.
const TURN: Duration = Duration::from_millis(5);
/// Turns in which the messages of a host that has ended are heard: enough for one about each of its clients.
const LAST_TURNS: usize = 128;

impl Supervisor {
    /// Ends the device host and keeps what it learnt.
    pub(super) fn stop(&mut self) {
        let clients = self.connected.len();
        let noun = if clients == 1 { "client" } else { "clients" };
        tracing::info!("stopping, {clients} {noun} connected");
        let deadline = Instant::now() + PATIENCE;
        let mut was_told = false;
        let is_up = self.hosts.facts().is_some();
        while is_up && self.hosts.ended().is_none() && Instant::now() < deadline {
            was_told = was_told || self.hosts.tell(&ToHost::Stop, &[]).is_ok();
            if self.was_told_again() {
                break;
            }
            match self.hear_to_the_end() {
                true => self.wait_for_the_end(),
                // Its link is closed; its process ends in a moment.
                false => std::thread::sleep(TURN),
            }
        }
        // Messages of a host that has just ended may be left, the last words about its clients among them.
        for _ in 0..LAST_TURNS {
            if !self.hear_to_the_end() {
                break;
            }
        }
        if is_up && self.hosts.ended().is_none() {
            tracing::warn!("the device host did not end by itself; it is killed");
        }
        self.hosts.kill();
        let deadline = Instant::now() + KILL_PATIENCE;
        let is_over = |hosts: &mut Hosts| hosts.ended().is_some() && hosts.is_heard_out();
        while !is_over(&mut self.hosts) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        if let Some(profiles) = &mut self.profiles {
            profiles.write();
        }
        self.close_accounts();
    }

    fn wait_for_the_end(&self) {
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        if let Some(link) = self.hosts.poll_fd() {
            fds.push(PollFd::new(link, PollFlags::POLLIN));
        }
        // Whatever the outcome, the caller looks at everything.
        let _ = poll(
            &mut fds,
            PollTimeout::try_from(TURN).unwrap_or(PollTimeout::ZERO),
        );
    }

    fn was_told_again(&mut self) -> bool {
        let before = std::mem::take(&mut self.stopping);
        self.take_signals();
        std::mem::replace(&mut self.stopping, before)
    }

    /// Hears what the host says; `false` when it has closed its end of the link.
    fn hear_to_the_end(&mut self) -> bool {
        for _ in 0..super::MESSAGES_A_TURN {
            match self.hosts.hear_once() {
                Heard::Message(message) => self.obey(message),
                Heard::Nothing => return true,
                Heard::Ended(_) => return false,
            }
        }
        true
    }
}
