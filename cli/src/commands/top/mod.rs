//! `gridmux top`: the device and its tenants as they are now, on a terminal.
//!
//! Rules: figures come from the service, which reads its page of statistics, or from that page where the service does
//! not answer, so that looking slows nobody; keys are obeyed whatever the service does; what is no terminal gets one
//! picture as text or as JSON, and only when it was asked for.

mod cost;
mod draw;
mod feed;
mod frame;
mod screen;
mod state;
mod tenant;

use super::tenant::why::word;
use crate::failure::Failure;
use crate::output::Output;
use crate::service::ServiceArgs;
use crate::{table, units};
use anyhow::Context;
use clap::Args;
use cost::Meter;
use draw::{Scene, draw, percent, slower, sparks};
use feed::{Ended, Feed, ended};
use frame::{Frame, History, Service, safe};
use nix::sys::signal::Signal;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use screen::{HeldSignals, Screen};
use serde_json::json;
use state::{State, Wish};
use std::io::{IsTerminal as _, stdin, stdout};
use std::time::{Duration, Instant};

/// Shows the device and its tenants, again and again.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct Top {
    /// Seconds between two readings
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = units::seconds)]
    interval: Duration,
    /// Print one picture, of that time, and end; with -j as JSON
    #[arg(long)]
    once: bool,
    /// Have the kernel count runs of our eBPF programs
    #[arg(long)]
    cost: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

/// The text behind the options: what is shown, and what keys do.
const NOTES: &str = "\
The first lines are the device, the policy and the device host; then a row for each tenant, of which a narrow terminal \
shows the most important columns:
  ASKED, GOT, SLOWER, MEMORY, LAUNCHES, PENDING  as in `gridmux tenant show`
  NOW, SHARE  part of what all tenants held between two readings, and its course
  P50, P99    launch latency; PREEMPT: 99th percentile of preemption latency
  BOUND BY    what keeps its launches waiting (`gridmux tenant show NAME --why`)
The line below is what gridmux's own eBPF programs cost. Times are of the device's clock.

Keys: up and down select a tenant, Enter opens it, s orders by the next column, p pauses it or lets it go on, w sets \
its weight, ? says what else there is, q quits.

Where the service does not answer, its page of statistics is shown, which root may read.";

/// The screen, and what is shown on it.
struct View {
    feed: Feed,
    state: State,
    screen: Screen,
    interval: Duration,
    /// When the service was asked last.
    looked: Instant,
    /// What is to be shown has changed since it was drawn.
    is_new: bool,
}

impl View {
    /// Draws what is new, obeys a key or a signal, and takes what has come; returns whether to go on.
    fn go_on(&mut self) -> Result<bool, Failure> {
        let Some(frame) = self.feed.frame() else {
            return Err(ended());
        };
        if std::mem::take(&mut self.is_new) {
            let scene = Scene {
                frame,
                state: &self.state,
                kernels: self.feed.kernels(),
                cost: self.feed.cost(),
            };
            let drawn = self.screen.draw(|canvas| draw(&scene, canvas));
            drawn.context("drawing on the terminal")?;
        }
        let wish = match next_event().context("reading the terminal")? {
            Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                self.is_new = true;
                self.state.said = None;
                self.state.press(key, frame)
            }
            Some(Event::Resize(..)) => {
                self.is_new = true;
                Wish::Nothing
            }
            _ => Wish::Nothing,
        };
        let wish = match self.screen.signal() {
            Some(Signal::SIGTSTP) => Wish::Suspend,
            Some(_) => Wish::Quit,
            None => wish,
        };
        match wish {
            Wish::Nothing => {}
            Wish::Quit => return Ok(false),
            Wish::Suspend => {
                let resumed = self.screen.suspend();
                resumed.context("taking the terminal again")?;
                self.is_new = true;
            }
            Wish::SetState(name, state) => self.feed.set_state(&name, state),
            Wish::SetWeight(name, weight) => self.feed.set_weight(&name, weight),
        }
        self.take()?;
        Ok(true)
    }

    /// Takes what has come, and asks for more when it is time.
    fn take(&mut self) -> Result<(), Failure> {
        let is_due = self.looked.elapsed() >= self.interval;
        if is_due {
            self.looked = Instant::now();
            self.is_new |= self.feed.read_page();
        }
        let (said, has_come) = self.feed.take().map_err(|Ended| ended())?;
        self.is_new |= has_come || !said.is_empty();
        let newest = said.into_iter().next_back();
        // What was changed is seen at once.
        if is_due || newest.is_some() {
            let kernels = self.state.shows_kernels();
            self.feed.look(kernels, self.state.counts);
        }
        if newest.is_some() {
            self.state.said = newest;
        }
        Ok(())
    }
}

/// How often signals and answers are looked for while no key comes.
const PERIOD: Duration = Duration::from_millis(50);

impl Top {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        if self.once || out.is_json() {
            return self.print(out);
        }
        if !stdin().is_terminal() || !stdout().is_terminal() {
            let failure = Failure::new("top draws on a terminal, and stdin or stdout is none");
            return Err(failure.hint("`gridmux top --once` prints one picture, with -j as JSON"));
        }
        // Before the thread that asks is started, which is to get no signal either.
        let signals = HeldSignals::begin().context("holding signals back")?;
        let feed = Feed::begin(self.service)?;
        let mut view = View {
            feed,
            state: State::new(self.cost),
            screen: Screen::begin(signals).context("taking the terminal")?,
            interval: self.interval,
            looked: Instant::now(),
            is_new: true,
        };
        while view.go_on()? {}
        Ok(())
    }

    /// Prints one picture.
    fn print(self, out: &Output) -> Result<(), Failure> {
        let mut feed = Feed::begin(self.service)?;
        if self.cost {
            feed.look(false, true);
        }
        std::thread::sleep(self.interval);
        feed.take().map_err(|Ended| ended())?;
        feed.look(false, self.cost);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (_, has_come) = feed.take().map_err(|Ended| ended())?;
            if has_come || Instant::now() >= deadline {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        feed.read_page();
        let frame = feed.frame().ok_or_else(ended)?;
        let shown = json!({ "frame": frame, "ebpf": feed.cost() });
        out.show(&shown, || text(frame, &feed.cost().line()))
    }
}

/// Returns what a terminal of that size shows after some readings.
///
/// # Errors
/// The service does not answer.
pub(super) fn picture(
    service: &ServiceArgs,
    (width, height): (u16, u16),
    (readings, pause): (u32, Duration),
) -> Result<Buffer, Failure> {
    let mut history = History::default();
    let mut frame = Frame::of_answer(&service.statistics()?);
    let mut meter = Meter::default();
    let mut cost = meter.read(true);
    for _ in 0..readings {
        std::thread::sleep(pause);
        frame = Frame::of_answer(&service.statistics()?);
        history.complete(&mut frame);
        cost = meter.read(true);
    }
    let scene = Scene {
        frame: &frame,
        state: &State::new(true),
        kernels: &[],
        cost: &cost,
    };
    let mut terminal = Terminal::new(TestBackend::new(width, height)).map_err(Failure::new)?;
    let drawn = terminal.draw(|canvas| draw(&scene, canvas));
    drawn.map_err(Failure::new)?;
    Ok(terminal.backend().buffer().clone())
}

/// How long `--once` waits for its last answer.
const PATIENCE: Duration = Duration::from_millis(1200);

/// Returns what the terminal says, if it says something soon.
fn next_event() -> std::io::Result<Option<Event>> {
    match event::poll(PERIOD)? {
        true => event::read().map(Some),
        false => Ok(None),
    }
}

/// Returns a picture as text.
fn text(frame: &Frame, cost: &str) -> String {
    let busy = frame
        .utilisation
        .map(|part| format!("{:.0}% busy", part * 100.0));
    let mut fields = vec![
        ("device", frame.device.clone()),
        ("utilisation", busy.unwrap_or_else(|| "-".to_owned())),
        (
            "memory",
            format!(
                "{} of {}",
                units::bytes(frame.memory_used_bytes),
                units::bytes(frame.memory_bytes)
            ),
        ),
        (
            "time",
            format!(
                "{} ({} clock)",
                units::nanos(Some(frame.device_now_ns)),
                frame.clock
            ),
        ),
        ("policy", frame.policy.clone()),
        ("device host", frame.host.clone()),
    ];
    fields.extend(frame.age().map(|age| ("figures", age)));
    if let Service::Silent(why) = &frame.service {
        fields.push(("service", format!("no answer, this is its page: {why}")));
    }
    let shares = [
        "tenant", "weight", "asked", "got", "now", "slower", "memory", "bound by",
    ];
    let shares = table::of(
        &shares,
        frame.tenants.iter().map(|line| {
            vec![
                safe(&line.name),
                draw::shown(line.weight),
                percent(line.share_asked),
                percent(line.share_got),
                percent(line.share_now),
                slower(line),
                units::bytes(line.memory_used_bytes),
                match line.is_paused() {
                    true => "paused".to_owned(),
                    false => word(line.binds).to_owned(),
                },
            ]
        }),
    );
    let times = [
        "tenant", "launches", "pending", "p50", "p99", "preempt", "share",
    ];
    let times = table::of(
        &times,
        frame.tenants.iter().map(|line| {
            vec![
                safe(&line.name),
                line.launches.to_string(),
                line.pending.to_string(),
                units::nanos(line.start_p50_ns),
                units::nanos(line.start_p99_ns),
                units::nanos(line.preemption_p99_ns),
                sparks(&line.shares, 16),
            ]
        }),
    );
    let fields = table::fields(fields);
    format!("{fields}\n\n{shares}\n\n{times}\n\n{cost}")
}
