//! `gridmux metrics`: the service's figures for Prometheus, in the OpenMetrics text format.
//!
//! It is a process beside the service, which needs no right but to ask it: a peer on the network never meets the
//! service itself.
//!
//! Rules: every answer is a reading of that moment, at most a second old; a service that does not answer is a figure,
//! `gridmux_up 0`, and no failed scrape.

mod exposition;
mod http;

use crate::failure::Failure;
use crate::output::{Output, note};
use crate::service::{DEFAULT_RUN_DIR, ServiceArgs};
use clap::Args;
use gridmux_mediator::lock::CountedMutex;
use http::{Address, Server};
use serde_json::json;
use std::time::{Duration, Instant};

/// The greatest age of a reading, so that many who ask at once cost the service one answer.
const FRESH: Duration = Duration::from_secs(1);

/// The text behind the options: what the command is for.
const NOTES: &str = "\
It answers GET /metrics in the OpenMetrics text format, over TCP or on a Unix socket. Times of a modelled device are \
virtual. Counters begin anew when the service does. Run it beside the service, as the service's user or in its \
operator_group, which may read statistics and change nothing; it needs no capability.

In Prometheus:
  scrape_configs:
    - job_name: gridmux
      static_configs: [{ targets: ['127.0.0.1:9400'] }]";

/// Serves figures.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct Metrics {
    #[command(flatten)]
    service: ServiceArgs,
    /// Where to listen: an address with its port, or a socket
    #[arg(
        long,
        value_name = "IP:PORT|unix:PATH",
        default_value = "127.0.0.1:9400"
    )]
    listen: Address,
    /// Print the figures once, and listen nowhere
    #[arg(long, conflicts_with = "listen")]
    once: bool,
}

/// The last reading, and when it was taken.
struct Reading(CountedMutex<Option<(Instant, String)>>);

impl Metrics {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        if self.once {
            let text = exposition::text(Some(&self.service.statistics()?))?;
            return out.show(&json!({ "metrics": text }), || text.clone());
        }
        let server = Server::bind(&self.listen)?;
        if self.listen.is_public() {
            note("warning: whoever reaches this address can read the figures");
        }
        let address = server.address();
        note(&format!(
            "gridmux: metrics of {} at {address}",
            self.shown()
        ));
        // A reader of the first line may be gone; those who ask are not.
        let _ = out.line(&json!({ "ready": { "listen": address } }));
        let reading = Reading(CountedMutex::new(None));
        server.run(move || reading.text(&self.service))?;
        Ok(())
    }

    fn shown(&self) -> String {
        let folder = &self.service.run_dir;
        match folder.as_os_str() == DEFAULT_RUN_DIR {
            true => "the service".to_owned(),
            false => format!("the service in {}", folder.display()),
        }
    }
}

impl Reading {
    /// Returns the figures of now.
    fn text(&self, service: &ServiceArgs) -> anyhow::Result<String> {
        let mut last = self.0.lock();
        if let Some((taken, text)) = &*last
            && taken.elapsed() < FRESH
        {
            return Ok(text.clone());
        }
        let statistics = service.statistics();
        if let Err(failure) = &statistics {
            tracing::warn!("{}", failure.line());
        }
        let text = exposition::text(statistics.ok().as_ref())?;
        *last = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}
