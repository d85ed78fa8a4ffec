//! dcgm-exporter's series, a tenant each.
//!
//! NVIDIA's exporter counts on the device and cannot tell tenants of one apart; here the same names say what the
//! service accounts to each tenant, so that dashboards made for that exporter show tenants.
//!
//! Rules: a series is there only where something measures it. `SM_ACTIVE` is what a tenant's blocks held of the SMs
//! between two readings of the device's clock, by their dominant share; where no device time passed there is none.
//! `SM_OCCUPANCY` is of the moment of the reading, and only where the reading has all rows of kernels. What the tensor
//! pipe and DRAM do is counted by nobody for a tenant, so that `PIPE_TENSOR_ACTIVE` and `DRAM_ACTIVE` are left out.

use super::card::Card;
use super::exposition::{Labels, Level, labels};
use super::place::Place;
use crate::service::OLD_MS;
use gridmux_mediator::link::{HostStatistics, TenantStatistics};
use gridmux_mediator::page::KernelsSnapshot;
use gridmux_mediator::supervisor::ServiceStatistics;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;

/// Threads of a warp.
const WARP: u32 = 32;
/// Bytes in which dcgm-exporter states memory.
const MIB: f64 = 1_048_576.0;

const SM_ACTIVE: (&str, &str) = (
    "DCGM_FI_PROF_SM_ACTIVE",
    "Part of the SMs that the tenant's blocks held since the reading before, by their dominant share, from 0 to 1",
);
const SM_OCCUPANCY: (&str, &str) = (
    "DCGM_FI_PROF_SM_OCCUPANCY",
    "Warps of the tenant on the device now, of those that it has room for, from 0 to 1",
);
const FB_USED: (&str, &str) = (
    "DCGM_FI_DEV_FB_USED",
    "Device memory that the tenant's clients hold, in MiB",
);

/// What is remembered of a reading to compare the next one with.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    device_now_ns: u64,
    host_restarts: u32,
    /// SM · nanoseconds that each tenant held, by its number.
    held: BTreeMap<u32, f64>,
    /// Something was submitted and has not ended.
    is_busy: bool,
}

impl Mark {
    pub(super) fn of(service: &ServiceStatistics) -> Self {
        let tenants = service.host.tenants.iter();
        Self {
            device_now_ns: service.host.device_now_ns,
            host_restarts: service.host_restarts,
            held: tenants
                .map(|tenant| (tenant.tenant.number, tenant.usage.held_sm_ns))
                .collect(),
            is_busy: service
                .host
                .tenants
                .iter()
                .any(|tenant| tenant.usage.pending > 0),
        }
    }

    /// Returns the part of the SMs that a tenant held from here to a later mark; nothing where no device time passed
    /// in between, where no block has ended since though there is work, and where another device host came.
    fn active_until(&self, later: &Self, sms: u16, tenant: u32) -> Option<f64> {
        let is_same_host = self.host_restarts == later.host_restarts;
        let passed_ns = later.device_now_ns.checked_sub(self.device_now_ns)?;
        let room = passed_ns as f64 * f64::from(sms);
        let held = later.held.get(&tenant)? - self.held.get(&tenant)?;
        // Two figures that are not taken at one instant may differ by a little more than the time between them.
        let is_known = !(later.is_busy && later.held == self.held);
        (is_same_host && is_known && room > 0.0).then(|| (held / room).clamp(0.0, 1.0))
    }
}

/// Returns the text for a reading and the mark of the one before; without a reading, one that has no series.
pub(super) fn text(
    reading: Option<(&ServiceStatistics, &Mark)>,
    card: &dyn Fn(&HostStatistics) -> Card,
    place_of: &dyn Fn(i32) -> Place,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    if let Some((service, before)) = reading {
        register(
            &mut registry,
            service,
            before,
            &card(&service.host),
            place_of,
        );
    }
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

fn register(
    registry: &mut Registry,
    service: &ServiceStatistics,
    before: &Mark,
    card: &Card,
    place_of: &dyn Fn(i32) -> Place,
) {
    let [active, occupancy, memory] = [(); 3].map(|()| Family::<Labels, Level>::default());
    let now = Mark::of(service);
    let warps = resident_warps(service);
    let device = &service.host.device;
    let room = f64::from(device.shape.threads / WARP) * f64::from(device.sms);
    for tenant in &service.host.tenants {
        let number = tenant.tenant.number;
        let memory_at = memory_by_place(tenant, place_of);
        let of = |place: &Place| labels_of(tenant, card, place);
        let everywhere = match memory_at.len() {
            1 => memory_at.keys().next().cloned().unwrap_or_default(),
            _ => Place::default(),
        };
        if let Some(ratio) = before.active_until(&now, device.sms, number) {
            active.get_or_create(&of(&everywhere)).set(ratio);
        }
        if let Some(warps) = &warps
            && room > 0.0
        {
            let warps = warps.get(&number).copied().unwrap_or(0.0);
            occupancy.get_or_create(&of(&everywhere)).set(warps / room);
        }
        for (place, bytes) in &memory_at {
            memory.get_or_create(&of(place)).set(*bytes as f64 / MIB);
        }
    }
    for ((name, help), family) in [
        (SM_ACTIVE, active),
        (SM_OCCUPANCY, occupancy),
        (FB_USED, memory),
    ] {
        registry.register(name, help, family);
    }
}

/// Returns the labels of a tenant's series: those of dcgm-exporter, as far as they are known, and the tenant.
fn labels_of(tenant: &TenantStatistics, card: &Card, place: &Place) -> Labels {
    let known = [
        ("gpu", card.index.as_ref()),
        ("UUID", card.uuid.as_ref()),
        ("modelName", Some(&card.model)),
        ("pod", place.pod.as_ref()),
        ("container", place.container.as_ref()),
    ];
    let known = known
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.clone())));
    known.chain(labels(tenant)).collect()
}

/// Returns the memory that a tenant's clients hold, by where they are. What none of those connected holds, as that of
/// clients that left, is nowhere in particular.
fn memory_by_place(
    tenant: &TenantStatistics,
    place_of: &dyn Fn(i32) -> Place,
) -> BTreeMap<Place, u64> {
    let mut by_place = BTreeMap::new();
    let mut left = tenant.memory_used_bytes;
    for client in &tenant.clients {
        let bytes = client.memory_used_bytes.min(left);
        left -= bytes;
        *by_place
            .entry(place_of(client.credentials.pid))
            .or_insert(0) += bytes;
    }
    if left > 0 || by_place.is_empty() {
        *by_place.entry(Place::default()).or_insert(0) += left;
    }
    by_place
}

/// Returns the warps on the device by tenant; nothing where the rows of kernels are old or incomplete, or blocks of
/// several shapes are counted together.
fn resident_warps(service: &ServiceStatistics) -> Option<BTreeMap<u32, f64>> {
    let kernels = service.kernels.as_ref()?;
    let is_fresh = kernels.age_ms.is_some_and(|age| age < OLD_MS);
    if !is_fresh || kernels.reading.has_more {
        return None;
    }
    by_tenant(&kernels.reading)
}

fn by_tenant(reading: &KernelsSnapshot) -> Option<BTreeMap<u32, f64>> {
    let mut warps = BTreeMap::new();
    for kernel in &reading.kernels {
        let row = &kernel.row;
        if row.spill && row.live > 0 {
            return None;
        }
        let of_block = row.block.threads.div_ceil(WARP);
        *warps.entry(row.tenant.0).or_insert(0.0) += f64::from(of_block) * f64::from(row.live);
    }
    Some(warps)
}

#[cfg(test)]
mod tests {
    use super::Mark;

    fn mark(device_now_ns: u64, host_restarts: u32, held: f64) -> Mark {
        Mark {
            device_now_ns,
            host_restarts,
            held: [(7, held)].into(),
            is_busy: false,
        }
    }

    #[test]
    fn what_was_held_is_measured_by_the_time_in_between() {
        let before = mark(1000, 0, 50.0);
        let active = |later: &Mark, tenant| before.active_until(later, 4, tenant);
        assert_eq!(active(&mark(2000, 0, 1050.0), 7), Some(0.25));
        assert_eq!(
            active(&mark(2000, 0, 50.0), 7),
            Some(0.0),
            "it held nothing, which was measured"
        );
        assert_eq!(active(&mark(2000, 0, 9e9), 7), Some(1.0));
        for (later, tenant) in [
            (mark(1000, 0, 50.0), 7),
            (mark(500, 0, 60.0), 7),
            (mark(2000, 1, 60.0), 7),
            (mark(2000, 0, 60.0), 8),
        ] {
            assert_eq!(active(&later, tenant), None, "{later:?}");
        }
    }
}
