//! Pictures for the documents, taken while the demonstration's tenants share the device: `top`, the plan in force, and
//! the timeline of a recording.
//!
//! Rules: what is drawn is what the commands show, by their own code; a picture that cannot be taken is an error.

mod svg;
mod timeline;

use crate::commands::{plan, top};
use crate::failure::Failure;
use crate::files;
use crate::perfetto::packet::Packet;
use crate::service::ServiceArgs;
use anyhow::Context;
use gridmux_mediator::link::TenantStatistics;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::widgets::Paragraph;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Columns and lines of the terminal on which `top` is drawn.
const TOP: (u16, u16) = (120, 9);
/// Readings of `top`, and the time between them.
const READINGS: (u32, Duration) = (40, Duration::from_millis(250));
/// Seconds of the recording.
const RECORDED_SECONDS: &str = "4";
/// How long the first launches are awaited.
const PATIENCE: Duration = Duration::from_secs(120);
/// Launches of each tenant that are awaited before the first picture.
const LAUNCHES: u64 = 2;

/// Whoever takes the pictures.
#[derive(Debug)]
pub(super) struct Camera(JoinHandle<Result<(), Failure>>);

impl Camera {
    /// Begins to take pictures of a service into a folder.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(super) fn begin(run_dir: &Path, into: &Path) -> Result<Self, Failure> {
        let (run_dir, into) = (run_dir.to_owned(), into.to_owned());
        let take = move || take(&run_dir, &into);
        let thread = std::thread::Builder::new()
            .name("pictures".into())
            .spawn(take);
        Ok(Self(thread.map_err(Failure::new)?))
    }

    /// Waits until all have been taken.
    ///
    /// # Errors
    /// One of them cannot be taken.
    pub(super) fn end(self) -> Result<(), Failure> {
        let ended = self.0.join();
        ended.unwrap_or_else(|_| Err(Failure::new("taking pictures panicked")))
    }
}

fn take(run_dir: &Path, into: &Path) -> Result<(), Failure> {
    let service = ServiceArgs {
        run_dir: run_dir.to_owned(),
    };
    std::fs::create_dir_all(into).with_context(|| into.display().to_string())?;
    let write = |name: &str, picture: String| {
        let path = into.join(name);
        std::fs::write(&path, picture).with_context(|| path.display().to_string())
    };
    let begun = Instant::now();
    while !has_begun(&service)? {
        if begun.elapsed() > PATIENCE {
            return Err(Failure::new("no pictures: not every tenant launched twice"));
        }
        std::thread::sleep(READINGS.1);
    }
    let recording = record(run_dir)?;
    write("timeline.svg", recording)?;
    write("top.svg", svg::of(&top::picture(&service, TOP, READINGS)?))?;
    let plan = plan::text_of(service.kernels()?);
    write("plan.svg", svg::of(&lines(&plan)?))?;
    Ok(())
}

/// Returns whether every tenant has launched.
fn has_begun(service: &ServiceArgs) -> Result<bool, Failure> {
    let tenants = service.statistics()?.host.tenants;
    let launched = |tenant: &TenantStatistics| tenant.latency.count >= LAUNCHES;
    Ok(tenants.iter().all(launched))
}

/// Records the service for a moment; returns the picture of the timeline.
fn record(run_dir: &Path) -> Result<String, Failure> {
    let folder = tempfile::tempdir().context("a folder for a recording")?;
    let file: PathBuf = folder.path().join("recording");
    let program = std::env::current_exe().context("this program")?;
    let record = Command::new(program)
        .args([
            "trace",
            "record",
            "--duration",
            RECORDED_SECONDS,
            "--perfetto",
        ])
        .arg(&file)
        .arg("--run-dir")
        .arg(run_dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .context("recording")?;
    if !record.status.success() {
        let said = String::from_utf8_lossy(&record.stderr);
        return Err(Failure::new(format!("no recording: {}", said.trim())));
    }
    let bytes = files::bytes(&file, files::MOST_DATA)?;
    Ok(timeline::of(Packet::all_of(&bytes)))
}

/// Returns lines of text as a terminal shows them.
fn lines(text: &str) -> Result<Buffer, Failure> {
    let height = u16::try_from(text.lines().count()).unwrap_or(u16::MAX);
    let backend = TestBackend::new(crate::table::TERMINAL, height.max(1));
    let mut terminal = Terminal::new(backend).map_err(Failure::new)?;
    let draw = |canvas: &mut ratatui::Frame<'_>| {
        canvas.render_widget(Paragraph::new(text), canvas.area());
    };
    terminal.draw(draw).map_err(Failure::new)?;
    Ok(terminal.backend().buffer().clone())
}
