//! `gridmux metrics`: the service's figures for Prometheus, in the OpenMetrics text format.
//!
//! It is a process beside the service, which needs no right but to ask it: a peer on the network never meets the
//! service itself.
//!
//! Rules: every answer is a reading of that moment, at most a second old; a service that does not answer is a figure,
//! `gridmux_up 0`, and no failed scrape.
//!
//! There are two sets of figures: ours, and dcgm-exporter's series for each tenant ([`dcgm`]).

mod card;
mod dcgm;
mod exposition;
mod format;
mod histogram;
mod http;
mod place;

use crate::failure::Failure;
use crate::output::{Output, note};
use crate::service::{DEFAULT_RUN_DIR, ServiceArgs};
use card::{Card, LISTED};
use clap::Args;
use dcgm::Mark;
use format::Format;
use gridmux_mediator::link::HostStatistics;
use gridmux_mediator::lock::CountedMutex;
use gridmux_mediator::supervisor::ServiceStatistics;
use http::{Address, Server};
use place::Place;
use serde_json::json;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The greatest age of a reading, so that many who ask at once cost the service one answer.
const FRESH: Duration = Duration::from_secs(1);

/// The text behind the options: what the command is for.
const NOTES: &str = "\
It answers GET /metrics in the OpenMetrics text format, over TCP or on a Unix socket. Times of a modelled device are \
virtual. Counters begin anew when the service does. Run it beside the service, as the service's user or in its \
operator_group, which may read statistics and change nothing; it needs no capability.

With --dcgm it has dcgm-exporter's series instead, for each tenant; without, they are at /metrics/dcgm. They are \
DCGM_FI_PROF_SM_ACTIVE (what its blocks held of the SMs since the reading before, by their dominant share), \
DCGM_FI_PROF_SM_OCCUPANCY (its warps on the device at the moment) and DCGM_FI_DEV_FB_USED (MiB), with the labels gpu, \
UUID, modelName and tenant. Nobody counts what the tensor pipe and DRAM do for a tenant, so that these series are \
not there. Where all clients of a tenant are in one container, `container` is the ID of that container and `pod` the \
UID of its pod, as their control group says; neither names nor the namespace stand there: in Prometheus they come \
from kube-state-metrics, as `kube_pod_info` has both beside the UID.

In Prometheus:
  scrape_configs:
    - job_name: gridmux
      static_configs: [{ targets: ['127.0.0.1:9400'] }]
    - job_name: gridmux-dcgm
      metrics_path: /metrics/dcgm
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
    /// The series of dcgm-exporter for each tenant, instead of gridmux's own
    #[arg(long)]
    dcgm: bool,
    /// How figures are printed; who asks over HTTP says by Accept
    #[arg(
        long,
        value_name = "FORMAT",
        requires = "once",
        default_value = "openmetrics"
    )]
    format: Format,
}

/// A set of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    /// Those of gridmux.
    Figures,
    /// Those of dcgm-exporter.
    Dcgm,
}

impl Page {
    /// Returns the one at a path.
    fn at(path: &str, is_dcgm: bool) -> Option<Self> {
        match path {
            "/metrics" if !is_dcgm => Some(Self::Figures),
            "/metrics" | "/metrics/dcgm" => Some(Self::Dcgm),
            _ => None,
        }
    }
}

/// The last readings of both sets.
#[derive(Default)]
struct Readings {
    figures: CountedMutex<Option<(Instant, String)>>,
    dcgm: CountedMutex<Option<(Instant, String)>>,
    /// The reading before, which the next one of dcgm-exporter's series is compared with.
    mark: CountedMutex<Option<Mark>>,
}

impl Metrics {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        if self.once {
            let text = self.format.of(self.text_once()?);
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
        let readings = Readings::default();
        let Self { service, dcgm, .. } = self;
        // The first who asks for shares of time finds a reading before; without a service, there is none.
        *readings.mark.lock() = service.statistics().ok().as_ref().map(Mark::of);
        server.run(Arc::new(move |path: &str, format: Format| {
            let page = Page::at(path, dcgm)?;
            Some(readings.text(&service, page).map(|text| format.of(text)))
        }))?;
        Ok(())
    }

    /// Returns the figures of now, those that are of a time over a second.
    fn text_once(&self) -> Result<String, Failure> {
        if !self.dcgm {
            return Ok(exposition::text(Some(&self.service.statistics()?))?);
        }
        let before = Mark::of(&self.service.statistics()?);
        thread::sleep(FRESH);
        Ok(dcgm_text(Some((&self.service.kernels()?, &before)))?)
    }

    fn shown(&self) -> String {
        let folder = &self.service.run_dir;
        match folder.as_os_str() == DEFAULT_RUN_DIR {
            true => "the service".to_owned(),
            false => format!("the service in {}", folder.display()),
        }
    }
}

impl Readings {
    /// Returns the figures of now.
    fn text(&self, service: &ServiceArgs, page: Page) -> anyhow::Result<String> {
        let (last, ask): (_, fn(&ServiceArgs) -> _) = match page {
            Page::Figures => (&self.figures, ServiceArgs::statistics),
            Page::Dcgm => (&self.dcgm, ServiceArgs::kernels),
        };
        let mut last = last.lock();
        if let Some((taken, text)) = &*last
            && taken.elapsed() < FRESH
        {
            return Ok(text.clone());
        }
        let statistics = ask(service);
        if let Err(failure) = &statistics {
            tracing::warn!("{}", failure.line());
        }
        let statistics = statistics.ok();
        let text = match page {
            Page::Figures => exposition::text(statistics.as_ref())?,
            Page::Dcgm => self.dcgm(statistics.as_ref())?,
        };
        *last = Some((Instant::now(), text.clone()));
        Ok(text)
    }

    /// Returns dcgm-exporter's series of a reading, which becomes the one that the next is compared with.
    fn dcgm(&self, statistics: Option<&ServiceStatistics>) -> Result<String, fmt::Error> {
        let Some(statistics) = statistics else {
            return dcgm_text(None);
        };
        let now = Mark::of(statistics);
        let before = self.mark.lock().replace(now.clone());
        dcgm_text(Some((statistics, &before.unwrap_or(now))))
    }
}

fn dcgm_text(reading: Option<(&ServiceStatistics, &Mark)>) -> Result<String, fmt::Error> {
    let card = |host: &HostStatistics| Card::of(host, Path::new(LISTED));
    dcgm::text(reading, &card, &Place::of_process)
}

#[cfg(test)]
mod tests {
    use super::Page;

    #[test]
    fn dcgms_series_have_a_path_of_their_own_or_take_the_one_of_ours() {
        let both = |path| [false, true].map(|is_dcgm| Page::at(path, is_dcgm));
        assert_eq!(both("/metrics"), [Some(Page::Figures), Some(Page::Dcgm)]);
        assert_eq!(both("/metrics/dcgm"), [Some(Page::Dcgm); 2]);
        assert_eq!(both("/"), [None; 2]);
    }
}
