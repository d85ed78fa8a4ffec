//! The client: a program that knows nothing of gridmux and runs a [`Job`] through whatever driver library it is given.
//!
//! It speaks lines of JSON with who started it: it says `ready` when everything is set up, and at the line `hold`
//! `held`, at `go` it runs, and it says `ran` when its work is over. Then come its times of the device and its
//! [`Report`]. At `stop`, and when nobody speaks any more, endless work ends.
//!
//! Rule, for a modelled device whose clock stands still while a client computes: nothing before `hold` is an operation
//! of the device, so that a client that is ready keeps no other one from becoming so. What `hold` submits keeps the
//! clock until the client waits; so clients that all hold it, and then let go, begin at the same instant.

use super::hostile::Hostile;
use super::job::{Clock, Job, Work};
use super::programs::Programs;
use super::stamped::StampedWork;
use super::timeline::HostClock;
use crate::cuda::{Cubins, Session};
use anyhow::{Context, bail};
use serde_json::json;
use std::ffi::OsStr;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// The word that makes this program a client.
pub const CLIENT: &str = "service-client";

/// Runs a job through a driver library.
///
/// # Errors
/// The driver's, or nobody says what is to be done.
pub fn run(library: &OsStr, job: &Job) -> anyhow::Result<()> {
    let mut orders = Orders::hear();
    let cuda = Session::open(library, Cubins::new(None, None))?;
    let mut clock = HostClock::new();
    if job.clock == Clock::Real {
        clock.read(&cuda)?;
    }
    let report = match &job.work {
        Work::Programs { programs } => {
            let cases = super::programs::cases(programs)?;
            let mut work = Programs::new(&cuda, programs, &cases)?;
            orders.start(&cuda)?;
            let report = work.run()?;
            orders.finish(job.clock)?;
            report
        }
        Work::Hostile { launches } => {
            let work = Hostile::new(&cuda, *launches)?;
            orders.start(&cuda)?;
            let report = work.run()?;
            orders.finish(job.clock)?;
            report
        }
        _ => {
            let mut work = StampedWork::new(&cuda, job)?;
            orders.start(&cuda)?;
            work.run(&clock, &orders.stop)?;
            orders.finish(job.clock)?;
            if job.clock == Clock::Real {
                clock.read(&cuda)?;
            }
            work.report(&clock)?
        }
    };
    say(&json!({ "report": report }))
}

/// Says a line.
fn say(line: &serde_json::Value) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

/// The commands of the process that started this one.
struct Orders {
    lines: Receiver<String>,
    /// It said `stop`, or says nothing any more.
    stop: Arc<AtomicBool>,
}

impl Orders {
    /// Hears stdin in a thread of its own.
    fn hear() -> Self {
        let (line, lines) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        std::thread::spawn(move || {
            for text in std::io::stdin().lock().lines().map_while(Result::ok) {
                if text == "stop" {
                    // Relaxed: it publishes nothing but itself.
                    told.store(true, Ordering::Relaxed);
                } else if line.send(text).is_err() {
                    break;
                }
            }
            // Relaxed: as above.
            told.store(true, Ordering::Relaxed);
        });
        Self { lines, stop }
    }

    /// Waits for a line.
    fn await_line(&mut self, due: &str) -> anyhow::Result<()> {
        let line = self.lines.recv();
        match line.with_context(|| format!("nobody says {due:?}"))? {
            line if line == due => Ok(()),
            line => bail!("{line:?} was said where {due:?} was due"),
        }
    }

    /// Becomes ready, holds the clock and returns when the work is to begin.
    fn start(&mut self, cuda: &Session) -> anyhow::Result<()> {
        let word = cuda.alloc(256)?;
        let stream = cuda.stream(0)?;
        say(&json!({"ready": true}))?;
        self.await_line("hold")?;
        cuda.clear_behind(word, 256, stream)?;
        say(&json!({"held": true}))?;
        self.await_line("go")
    }

    /// Says that the work is over. Beside a real clock, returns when that of all others is.
    fn finish(&mut self, clock: Clock) -> anyhow::Result<()> {
        say(&json!({"ran": true}))?;
        match clock {
            // It would hold the clock.
            Clock::Lockstep => Ok(()),
            Clock::Real => self.await_line("finish"),
        }
    }
}
