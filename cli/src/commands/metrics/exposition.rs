//! A reading of the service as OpenMetrics text.
//!
//! Rules: base units, ratios from 0 to 1, counters end with `_total`; what concerns a tenant has its name as the label
//! `tenant`; what is not known is left out, and never 0.

use super::histogram::Preemptions;
use gridmux_mediator::dispatch::accounts::TenantState;
use gridmux_mediator::link::{HostStatistics, TenantStatistics};
use gridmux_mediator::supervisor::{HostState, ServiceStatistics};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;

/// Labels of a figure.
pub(super) type Labels = Vec<(String, String)>;
/// A figure that goes up and down.
pub(super) type Level = Gauge<f64, AtomicU64>;
/// A figure that only grows while the service lives.
type Total = Counter<f64, AtomicU64>;

/// Latencies of tenants that are exported as quantiles.
const QUANTILES: [&str; 2] = ["launch_latency", "completion_latency"];

/// Returns the text for a reading, or for a service that does not answer.
pub(super) fn text(statistics: Option<&ServiceStatistics>) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::with_prefix("gridmux");
    let build = Info::new(vec![("version", env!("GRIDMUX_VERSION"))]);
    registry.register("build", "Version of this program", build);
    let up: Level = Gauge::default();
    up.set(f64::from(u8::from(statistics.is_some())));
    registry.register("up", "Whether the service answers", up);
    if let Some(statistics) = statistics {
        service(&mut registry, statistics);
        device(&mut registry, &statistics.host);
        let preemptions = Preemptions::of(&statistics.host.tenants);
        registry.register_collector(Box::new(preemptions));
        let tenants = registry.sub_registry_with_prefix("tenant");
        settings(tenants, &statistics.host.tenants);
        counters(tenants, &statistics.host.tenants);
        levels(tenants, &statistics.host.tenants);
        if matches!(statistics.host_state, HostState::Up) {
            bindings(tenants, &statistics.host.tenants);
        }
        latencies(tenants, &statistics.host.tenants);
    }
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(as_summaries(text))
}

/// Returns the text with the type of quantiles, which the library does not know: those of a tenant's latencies.
fn as_summaries(mut text: String) -> String {
    for name in QUANTILES {
        let family = format!("# TYPE gridmux_tenant_{name}_seconds ");
        text = text.replace(&format!("{family}gauge\n"), &format!("{family}summary\n"));
    }
    text
}

fn service(registry: &mut Registry, statistics: &ServiceStatistics) {
    let restarts: Counter = Counter::default();
    restarts.inc_by(statistics.host_restarts.into());
    registry.register("host_restarts", "Device hosts that were replaced", restarts);
}

fn device(registry: &mut Registry, host: &HostStatistics) {
    let device = &host.device;
    let in_force = host.policy_in_force.as_ref();
    let policy = in_force.map_or(&host.policy, |in_force| &in_force.name);
    let info = Info::new(vec![
        ("device", device.name.clone()),
        ("policy", policy.clone()),
    ]);
    registry.register("device", "The device and its scheduling policy", info);
    let level = |value: f64| {
        let level: Level = Gauge::default();
        level.set(value);
        level
    };
    let registry = registry.sub_registry_with_prefix("device");
    let sms = level(device.sms.into());
    registry.register("sms", "Streaming multiprocessors", sms);
    let all = level(device.memory_bytes as f64);
    let used = level(host.memory_used_bytes as f64);
    let help = "Memory that tenants may share";
    registry.register_with_unit("memory", help, Unit::Bytes, all);
    let help = "Memory that tenants hold";
    registry.register_with_unit("memory_used", help, Unit::Bytes, used);
    let time: Total = Counter::default();
    time.inc_by(host.device_now_ns as f64 / 1e9);
    let help = "Time on the clock of the device, virtual if it is modelled";
    registry.register_with_unit("clock", help, Unit::Seconds, time);
}

/// Registers a figure of every tenant that has it.
fn level(
    registry: &mut Registry,
    (name, help, unit): (&str, &str, Option<Unit>),
    tenants: &[TenantStatistics],
    of: impl Fn(&TenantStatistics) -> Option<f64>,
) {
    let family = Family::<Labels, Level>::default();
    for tenant in tenants {
        if let Some(value) = of(tenant) {
            family.get_or_create(&labels(tenant)).set(value);
        }
    }
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, family),
        None => registry.register(name, help, family),
    }
}

/// Registers a count of every tenant.
fn total(
    registry: &mut Registry,
    (name, help, unit): (&str, &str, Option<Unit>),
    tenants: &[TenantStatistics],
    of: impl Fn(&TenantStatistics) -> f64,
) {
    let family = Family::<Labels, Total>::default();
    for tenant in tenants {
        // A counter takes no negative figure, nor does a tenant have one.
        family
            .get_or_create(&labels(tenant))
            .inc_by(of(tenant).max(0.0));
    }
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, family),
        None => registry.register(name, help, family),
    }
}

/// Returns the labels of what concerns a tenant.
pub(super) fn labels(tenant: &TenantStatistics) -> Labels {
    vec![("tenant".to_owned(), tenant.tenant.name.clone())]
}

fn settings(registry: &mut Registry, tenants: &[TenantStatistics]) {
    let info = Family::<Labels, Level>::default();
    for tenant in tenants {
        let mut labels = labels(tenant);
        labels.push(("class".to_owned(), tenant.tenant.class.to_string()));
        info.get_or_create(&labels).set(1.0);
    }
    registry.register(
        "info",
        "A tenant and the class of service that it asks for",
        info,
    );
    let help = ("weight", "Weight of its share", None);
    level(registry, help, tenants, |t| Some(t.tenant.weight.into()));
    let help = ("clients_limit", "Most clients at once", None);
    level(registry, help, tenants, |t| {
        Some(t.tenant.clients_limit.into())
    });
}

fn counters(registry: &mut Registry, tenants: &[TenantStatistics]) {
    let mut add = |name, help, unit, of: fn(&TenantStatistics) -> f64| {
        total(registry, (name, help, unit), tenants, of);
    };
    let seconds = || Some(Unit::Seconds);
    let help = "SMs times seconds of device time that its blocks held, by their dominant share";
    add("sm", help, seconds(), |t| t.usage.held_sm_ns / 1e9);
    let help = "SMs times seconds of device time that it was entitled to by weight, up to what it could use";
    add("entitled_sm", help, seconds(), |t| {
        t.usage.entitled_sm_ns / 1e9
    });
    let help = "Residence of its blocks in device time, added up";
    add("block", help, seconds(), |t| t.usage.block_ns as f64 / 1e9);
    add("blocks", "Thread blocks that ran", None, |t| {
        t.usage.blocks as f64
    });
    add("slices", "Slices handed to the device", None, |t| {
        t.usage.slices as f64
    });
    let help = "Launches of kernels that ended without an error";
    add("launches", help, None, |t| t.latency.count as f64);
    add("admitted_launches", "Launches admitted", None, |t| {
        t.usage.launches as f64
    });
    add("operations", "Operations admitted", None, |t| {
        t.usage.submitted as f64
    });
    let help = "Operations that failed";
    add("failed_operations", help, None, |t| t.usage.failed as f64);
    let help = "Operations whose client left, or whose device host was replaced, before they ended";
    add("abandoned_operations", help, None, |t| {
        t.usage.abandoned as f64
    });
    let help = "Bytes copied to and from the device";
    add("copied", help, Some(Unit::Bytes), |t| {
        t.usage.bytes_copied as f64
    });
}

fn levels(registry: &mut Registry, tenants: &[TenantStatistics]) {
    let mut add = |name, help, unit, of: fn(&TenantStatistics) -> Option<f64>| {
        level(registry, (name, help, unit), tenants, of);
    };
    add("clients", "Clients connected", None, |t| {
        Some(t.clients.len() as f64)
    });
    let bytes = || Some(Unit::Bytes);
    let help = "Device memory that its clients hold";
    add("memory_used", help, bytes(), |t| {
        Some(t.memory_used_bytes as f64)
    });
    let help = "Device memory that its clients may hold";
    add("memory_limit", help, bytes(), |t| {
        Some(t.tenant.memory_limit_bytes as f64)
    });
    let ratio = || Some(Unit::Other("ratio".to_owned()));
    let help = "Part of what all tenants held, while it was busy, that it held";
    add("dominant_share", help, ratio(), |t| t.usage.share_got);
    let help = "Part of what all tenants held, while it was busy, that it was entitled to";
    add("entitled_share", help, ratio(), |t| t.usage.share_entitled);
    let help = "How many times longer its work took than it would have alone, estimated while others had work";
    add("slowdown", help, ratio(), |t| t.usage.slowdown);
    let help = "Operations admitted and not yet ended";
    add("pending_operations", help, None, |t| {
        Some(t.usage.pending as f64)
    });
    let help = "Whether its launches keep ending at their budget, so that they wait for all others";
    add("behind", help, None, |t| {
        Some(f64::from(u8::from(t.usage.is_behind)))
    });
    let help = "Whether an operator holds its launches back";
    add("paused", help, None, |t| {
        Some(f64::from(u8::from(t.tenant.state == TenantState::Paused)))
    });
    let help = "Whether it has launches open and no block on the device";
    add("waiting", help, None, |t| {
        Some(f64::from(u8::from(t.usage.is_waiting)))
    });
}

/// Registers what binds each tenant now: one figure of each, which is 1, with the reason as its label.
fn bindings(registry: &mut Registry, tenants: &[TenantStatistics]) {
    let family = Family::<Labels, Level>::default();
    for tenant in tenants {
        let mut labels = labels(tenant);
        let why = tenant.usage.binding.why;
        labels.push(("why".to_owned(), why.name().to_owned()));
        family.get_or_create(&labels).set(1.0);
    }
    let help = "What keeps its launches waiting now, as gridmux tenant show --why explains; 1 for that alone";
    registry.register("bound", help, family);
}

fn latencies(registry: &mut Registry, tenants: &[TenantStatistics]) {
    let mut add = |name: &str, help: &str, of: fn(&TenantStatistics) -> [Option<u64>; 2]| {
        let family = Family::<Labels, Level>::default();
        for tenant in tenants {
            for (quantile, ns) in ["0.5", "0.99"].into_iter().zip(of(tenant)) {
                let Some(ns) = ns else { continue };
                let mut labels = labels(tenant);
                labels.push(("quantile".to_owned(), quantile.to_owned()));
                family.get_or_create(&labels).set(ns as f64 / 1e9);
            }
        }
        registry.register_with_unit(name, help, Unit::Seconds, family);
    };
    let help = "From a launch's submission to the start of its first block, in device time";
    let [launch, completion] = QUANTILES;
    add(launch, help, |t| {
        [t.latency.start_p50_ns, t.latency.start_p99_ns]
    });
    let help = "From a launch's submission to the end of its last block, in device time";
    add(completion, help, |t| {
        [t.latency.complete_p50_ns, t.latency.complete_p99_ns]
    });
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn a_service_that_does_not_answer_is_a_figure() {
        let text = text(None).unwrap();
        assert!(text.contains("\ngridmux_up 0.0\n"), "{text}");
        assert!(text.contains("gridmux_build_info{version="), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
        assert!(!text.contains("tenant"), "{text}");
    }
}
