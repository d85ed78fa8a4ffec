//! Watching a device host until something ends it.
//!
//! Nobody is woken by an event: the session looks for them every 20 ms, and goes on at once where there are many.
//!
//! Rules: whatever ends a session, what came until then is taken, as far as that goes without waiting; what ends one
//! does so also while the reader of stdout takes nothing, and what that reader did not get is counted.

use super::clients::{ClientRanges, Owner};
use super::directory::{Directory, Whose, number_of};
use super::host::Host;
use super::line::Kind;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::service::ServiceArgs;
use crate::units;
use anyhow::Context;
use gridmux_bpf::{Event, EventTrace, Happening, Probe, Range};
use gridmux_mediator::device::Timing;
use gridmux_mediator::supervisor::ServiceStatistics;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use serde::Serialize;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long a session sleeps where nothing comes.
const PERIOD: Duration = Duration::from_millis(20);
/// How long a reader that takes nothing is waited for when the session is to end.
const GRACE: Duration = Duration::from_secs(2);
/// How long a reader that takes nothing is waited for until it is asked again whether the session is to end.
const LOOK: Duration = Duration::from_millis(200);
/// Events that are taken at once.
const BATCH: usize = 1024;
/// Events that are still taken after the end: as many as the ring holds.
const REST: usize = 48 * BATCH;

/// A device host that is watched.
pub(super) struct Session {
    trace: EventTrace,
    /// Those of its clients, where they are watched.
    ranges: Option<ClientRanges>,
    host: Host,
    directory: Directory,
    signals: SignalFd,
    clock: &'static str,
    /// Device time passes with the machine's while the device is idle.
    pub(super) passes: bool,
}

/// Whether ranges of programs are watched, beside what happens on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WithRanges {
    /// They are not.
    No,
    /// Where they can be.
    WherePossible,
    /// They are all that is watched.
    Alone,
}

/// Something that is watched.
#[derive(Debug)]
pub(super) enum Item {
    /// Of the device host.
    Event(Event),
    /// Of a client.
    Range(Range, Owner),
}

/// What ends a session beside signals and the host's end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) count: Option<u64>,
    pub(super) duration: Option<Duration>,
}

/// Where events go.
pub(super) trait Sink {
    /// Takes an event; returns whether it has taken so much that it must be flushed.
    ///
    /// # Errors
    /// The event cannot be kept.
    fn take(&mut self, event: &Event, whose: Whose<'_>) -> Result<bool, Failure>;

    /// Takes a range of a client; returns the same.
    ///
    /// # Errors
    /// As of [`Sink::take`].
    fn take_range(&mut self, range: Range, owner: Owner) -> Result<bool, Failure>;

    /// Returns whether ranges count as events here.
    fn counts_ranges(&self) -> bool;

    /// Passes on what was taken.
    ///
    /// # Errors
    /// It cannot be written.
    fn flush(&mut self) -> Result<(), Failure>;

    /// Returns how many events were taken and not passed on yet.
    fn waiting(&self) -> u64;

    /// Returns whether there is no room for more.
    fn is_full(&self) -> bool {
        false
    }

    /// Returns whether it goes to stdout, whose reader may be slow, or gone.
    fn is_stdout(&self) -> bool;
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reason {
    /// As many events came as were asked for.
    Count,
    /// So much time passed.
    Duration,
    /// Somebody asked for it.
    Signal,
    /// There is nothing left to watch.
    HostEnded,
    /// The file has as many bytes as are read of one.
    FileFull,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct End {
    /// Events that were passed on.
    pub(super) events: u64,
    /// Events that found no room in the ring.
    pub(super) lost: u64,
    /// Events that came and that the reader of stdout did not take before the end.
    pub(super) unread: u64,
    /// Hits of processes that use the driver library and are no clients, where ranges are watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) of_no_client: Option<u64>,
    /// Why it ended.
    pub(super) ended: Reason,
    #[serde(skip)]
    pid: u32,
    /// Why it ended while the reader of stdout took nothing.
    #[serde(skip)]
    stuck: Option<Reason>,
}

impl Session {
    /// Attaches to the device host of a service.
    ///
    /// # Errors
    /// Nobody serves, there is no such tenant, or the host cannot be traced.
    pub(super) fn begin(
        service: ServiceArgs,
        (probes, with_ranges): (&[Probe], WithRanges),
        tenant: Option<&str>,
    ) -> Result<Self, Failure> {
        let signals = hold_signals().context("reading signals")?;
        let statistics = service.kernels()?;
        let tenant = tenant
            .map(|name| number_of(&statistics, name))
            .transpose()?;
        let Some(pid) = statistics.host_pid else {
            let failure = Failure::new("the service has no device host now");
            return Err(failure.hint("`gridmux device show` says why, and when the next one comes"));
        };
        check_tells_blocks(probes, &statistics)?;
        let host = Host::find(pid)?;
        let trace = EventTrace::attach(pid, probes, tenant)?;
        let ranges = match with_ranges {
            WithRanges::No => None,
            WithRanges::Alone => Some(ClientRanges::attach(&service, &statistics, tenant)?),
            WithRanges::WherePossible => ClientRanges::attach(&service, &statistics, tenant)
                .inspect_err(|why| note(&format!("without the ranges of programs: {}", why.line())))
                .ok(),
        };
        let device = &statistics.host.device;
        let passes = device.timing != Some(Timing::Timed);
        let clock = match device.is_model {
            true => "virtual",
            false => "device",
        };
        Ok(Self {
            trace,
            ranges,
            host,
            passes,
            directory: Directory::new(service, &statistics),
            signals,
            clock,
        })
    }

    /// Says on stderr that it watches.
    pub(super) fn announce(&self, what: &str) {
        let Self { host, clock, .. } = self;
        if what == Kind::Ranges.name() {
            note("tracing ranges of the service's clients; Ctrl-C ends it");
            return;
        }
        note(&format!(
            "tracing {what} of the device host, process {}; durations in {clock} time, Ctrl-C ends it",
            host.pid
        ));
    }

    /// Passes events on until something ends it.
    ///
    /// # Errors
    /// An event cannot be read or written.
    pub(super) fn run(&mut self, limits: Limits, sink: &mut dyn Sink) -> Result<End, Failure> {
        let begun = Instant::now();
        let mut items = Vec::with_capacity(BATCH);
        let mut end = End::begin(self.host.pid);
        let until = limits
            .duration
            .and_then(|duration| begun.checked_add(duration));
        let mut ending = None;
        let mut rest = REST;
        loop {
            // Asked before: what the host said last is in the ring then.
            let host_ended = self.host.has_ended();
            let is_full = self.take(&mut items)?;
            let is_last = ending.is_some() && (!is_full || rest <= BATCH);
            let last = self.pass_on(&mut items, (limits.count, until), sink, &mut end)?;
            if last.is_some() {
                ending = last;
                break;
            }
            if is_last {
                break;
            }
            if ending.is_some() {
                rest = rest.saturating_sub(BATCH);
                continue;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let sleep = match is_full || host_ended {
                true => Duration::ZERO,
                false => left.unwrap_or(PERIOD).min(PERIOD),
            };
            if self.signal_within(sleep, sink.is_stdout())? {
                ending = Some(Reason::Signal);
            } else if left == Some(Duration::ZERO) {
                ending = Some(Reason::Duration);
            } else if host_ended && !is_full {
                ending = Some(Reason::HostEnded);
            }
        }
        let is_counted_out = ending == Some(Reason::Count) && sink.counts_ranges();
        if let Some(ranges) = self.ranges.as_mut().filter(|_| end.stuck.is_none()) {
            ranges.end(&mut items);
            if !is_counted_out && !items.is_empty() {
                self.pass_on(&mut items, (None, until), sink, &mut end)?;
            }
        }
        end.ended = end.stuck.or(ending).unwrap_or(Reason::Count);
        if end.stuck.is_some() {
            self.count_unread(&mut end)?;
        }
        end.lost = self.trace.lost()?;
        if let Some(ranges) = &self.ranges {
            end.lost += ranges.lost()?;
            end.of_no_client = Some(ranges.of_no_client());
        }
        Ok(end)
    }

    /// Takes a batch of everything that is watched; returns whether there may be more.
    fn take(&mut self, items: &mut Vec<Item>) -> Result<bool, Failure> {
        let mut is_full = false;
        if let Some(ranges) = &mut self.ranges {
            is_full |= ranges.take(BATCH, items)?;
        }
        let mut events = Vec::with_capacity(BATCH);
        self.trace.take(BATCH, &mut events)?;
        is_full |= events.len() == BATCH;
        items.extend(events.into_iter().map(Item::Event));
        Ok(is_full)
    }

    /// Passes a batch on; returns why it was the last one, if it was.
    fn pass_on(
        &mut self,
        items: &mut Vec<Item>,
        (count, until): (Option<u64>, Option<Instant>),
        sink: &mut dyn Sink,
        end: &mut End,
    ) -> Result<Option<Reason>, Failure> {
        let mut last = None;
        let came = items.len();
        let mut taken = 0;
        for item in items.drain(..) {
            let is_event = matches!(item, Item::Event(_)) || sink.counts_ranges();
            let must_flush = match item {
                Item::Range(range, owner) => sink.take_range(range, owner)?,
                Item::Event(event) => {
                    let whose = match event.what {
                        Happening::Plan { .. } => Whose::default(),
                        _ => self.directory.whose(&event.args),
                    };
                    sink.take(&event, whose)?
                }
            };
            taken += 1;
            end.events += u64::from(is_event);
            if count == Some(end.events) {
                last = Some(Reason::Count);
            } else if sink.is_full() {
                last = Some(Reason::FileFull);
            }
            if last.is_some() {
                break;
            }
            if must_flush {
                end.stuck = self.flush(until, sink)?;
                if end.stuck.is_some() {
                    break;
                }
            }
        }
        if end.stuck.is_none() {
            end.stuck = self.flush(until, sink)?;
        }
        if end.stuck.is_some() {
            let waiting = sink.waiting();
            end.events -= waiting;
            end.unread = waiting + (came - taken) as u64;
        }
        Ok(end.stuck.or(last))
    }

    /// Counts what is in the ring, for a reader that takes nothing.
    fn count_unread(&mut self, end: &mut End) -> Result<(), Failure> {
        let mut items = Vec::with_capacity(BATCH);
        for _ in 0..REST / BATCH {
            let is_full = self.take(&mut items)?;
            end.unread += items.len() as u64;
            if !is_full {
                break;
            }
            items.clear();
        }
        if let Some(ranges) = &mut self.ranges {
            items.clear();
            ranges.end(&mut items);
            end.unread += items.len() as u64;
        }
        Ok(())
    }

    /// Flushes a sink as soon as its reader takes something; returns why the session ends where it does not.
    fn flush(
        &self,
        until: Option<Instant>,
        sink: &mut dyn Sink,
    ) -> Result<Option<Reason>, Failure> {
        if sink.is_stdout() {
            let stdout = io::stdout();
            let mut both = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(stdout.as_fd(), PollFlags::POLLOUT),
            ];
            let is_ready = |of: &PollFd<'_>| of.revents().is_some_and(|said| !said.is_empty());
            let mut ending = None;
            loop {
                // One that is only slow gets what there is when the session ends.
                let (asked, wait) = match ending {
                    None => (&mut both[..], LOOK),
                    Some(_) => (&mut both[1..], GRACE),
                };
                wait_for(asked, wait)?;
                if is_ready(&both[1]) {
                    break;
                }
                if ending.is_some() {
                    return Ok(ending);
                }
                if is_ready(&both[0]) {
                    ending = Some(Reason::Signal);
                } else if until.is_some_and(|until| Instant::now() >= until) {
                    ending = Some(Reason::Duration);
                } else if self.host.has_ended() {
                    ending = Some(Reason::HostEnded);
                }
            }
        }
        sink.flush().map(|()| None)
    }

    /// Waits for a while; returns whether a signal came.
    ///
    /// # Errors
    /// The reader of stdout is gone.
    fn signal_within(&self, wait: Duration, watches_stdout: bool) -> Result<bool, Failure> {
        let stdout = io::stdout();
        let mut both = [
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            // Nothing is asked: that its reader is gone is said always.
            PollFd::new(stdout.as_fd(), PollFlags::empty()),
        ];
        let watched = 1 + usize::from(watches_stdout);
        wait_for(&mut both[..watched], wait)?;
        let says = |place: usize, flags: PollFlags| {
            let said = both[place].revents();
            said.is_some_and(|said| said.intersects(flags))
        };
        if watches_stdout && says(1, PollFlags::POLLERR | PollFlags::POLLNVAL) {
            return Err(
                crate::output::StdoutFailed(io::Error::from(io::ErrorKind::BrokenPipe)).into(),
            );
        }
        Ok(says(0, PollFlags::POLLIN))
    }
}

impl End {
    /// Makes that of a session with a device host of which nothing has come.
    pub(super) fn begin(pid: u32) -> Self {
        Self {
            events: 0,
            lost: 0,
            unread: 0,
            of_no_client: None,
            ended: Reason::Count,
            pid,
            stuck: None,
        }
    }

    /// Says how it ended: on stderr to people, in a last line to programs.
    ///
    /// # Errors
    /// Stdout's.
    pub(super) fn tell(&self, out: &Output) -> Result<(), Failure> {
        self.note();
        match self.stuck {
            Some(_) => Ok(()),
            None => out.line(self),
        }
    }

    /// Says on stderr how it ended.
    pub(super) fn note(&self) {
        if self.ended == Reason::HostEnded {
            note(&format!(
                "the device host, process {}, has ended; `gridmux device show` says whether there is another one",
                self.pid
            ));
        }
        if self.ended == Reason::FileFull {
            note("the file is full: `gridmux report` reads no more of one");
        }
        if self.unread > 0 {
            let unread = units::counted(self.unread, "event");
            note(&format!(
                "{unread} came that the reader of stdout did not take"
            ));
        }
        if let Some(others) = self.of_no_client.filter(|others| *others > 0) {
            let others = units::counted(others, "hit");
            note(&format!(
                "{others} of processes that are no clients of the service, not counted"
            ));
        }
        let events = units::counted(self.events, "event");
        note(&match self.lost {
            0 => format!("{events}, none lost"),
            lost => format!("{events}, {lost} lost: they came faster than they were read"),
        });
    }
}

/// # Errors
/// Blocks are to be watched, and the device cannot tell where they run.
fn check_tells_blocks(probes: &[Probe], statistics: &ServiceStatistics) -> Result<(), Failure> {
    let device = &statistics.host.device;
    if !probes.contains(&Probe::Block) || device.timing != Some(Timing::Functional) {
        return Ok(());
    }
    let text = format!(
        "{}: a functional device has no SMs to tell blocks by",
        device.name
    );
    Err(Failure::new(text)
        .hint("`timing = \"timed\"` in the configuration has it count cycles on SMs"))
}

/// Waits for descriptors.
fn wait_for(descriptors: &mut [PollFd<'_>], wait: Duration) -> Result<(), Failure> {
    // Rounded up, so that the last millisecond is not spent asking again and again.
    let ms = u16::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
    match poll(descriptors, PollTimeout::from(ms)) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Has signals that end a command read from a descriptor instead. No other thread may exist yet: threads inherit this.
fn hold_signals() -> nix::Result<SignalFd> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        set.add(signal);
    }
    set.thread_block()?;
    SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
}
