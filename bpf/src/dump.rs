//! The entries of a loaded map of ours, decoded.
//!
//! Rules: the map's name says what it holds, and its sizes must be those of `layout.rs`; a map of another layout is
//! refused and not guessed at. A dump shows what the map holds: samples that nobody drained are not in it.

use aya::maps::{HashMap, Map, MapData, MapError};
use serde::Serialize;

use crate::ProbeCount;
use crate::histogram::TenantHistogram;
use crate::layout::{RawHistogram, RawKey, RawOwner, RawProbeKey, Stats};
use crate::listing::LoadedMap;
use crate::probes::Probe;
use crate::reader::{ReadError, histograms_in, kernel, only_entry};

/// What a map holds.
#[derive(Debug, Clone)]
pub enum Dump {
    /// `gridmux_latency`: latencies per tenant, device and kind.
    Histograms(Vec<TenantHistogram>),
    /// `gridmux_stats`: what became of the samples.
    Stats(Stats),
    /// `gridmux_tenants`: the numbers of tenants whose samples count.
    Tenants(Vec<u32>),
    /// `gridmux_owner`: who pinned the instance.
    Owner(Owner),
    /// `gridmux_probes`: hits of probes while they are traced.
    Probes(Vec<ProbeCount>),
}

/// Who pinned an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Owner {
    /// Layout of its maps.
    pub layout_version: u32,
    /// The service's process.
    pub pid: u32,
    /// Start of that process, in clock ticks since boot.
    pub start_ticks: u64,
}

/// Returns what a map holds.
///
/// # Errors
/// [`ReadError::NoLayout`] for a map that has no layout of ours, or another one than this program knows; else the
/// kernel's own error.
pub fn dump(map: &LoadedMap) -> Result<Dump, ReadError> {
    let name = map.name.as_str();
    match name {
        "gridmux_latency" => {
            fits::<RawKey, RawHistogram>(map, "hash")?;
            histograms_in(open(map)?).map(Dump::Histograms)
        }
        "gridmux_stats" => {
            fits::<u32, Stats>(map, "array")?;
            only_entry(open(map)?, name).map(Dump::Stats)
        }
        "gridmux_tenants" => {
            fits::<u32, u32>(map, "hash")?;
            let mut numbers: Vec<u32> = entries::<u32, u32>(map)?
                .into_iter()
                .map(|(k, _)| k)
                .collect();
            numbers.sort_unstable();
            Ok(Dump::Tenants(numbers))
        }
        "gridmux_owner" => {
            fits::<u32, RawOwner>(map, "array")?;
            let raw: RawOwner = only_entry(open(map)?, name)?;
            Ok(Dump::Owner(Owner {
                layout_version: raw.layout_version,
                pid: raw.pid,
                start_ticks: raw.start_ticks,
            }))
        }
        "gridmux_probes" => {
            fits::<RawProbeKey, u64>(map, "hash")?;
            let counts = entries::<RawProbeKey, u64>(map)?.into_iter();
            let mut counts: Vec<ProbeCount> = counts.filter_map(probe_count).collect();
            counts.sort_unstable();
            Ok(Dump::Probes(counts))
        }
        _ => Err(no_layout(map, format!("its type is {}", map.kind))),
    }
}

fn probe_count((key, count): (RawProbeKey, u64)) -> Option<ProbeCount> {
    Some(ProbeCount {
        probe: Probe::from_raw(key.probe)?,
        tenant: key.tenant,
        count,
    })
}

/// Checks that the map's type and the sizes of its keys and values are those of our layout: of a map with a value for
/// each processor, which anybody may give our names, the kernel would write more than there is room for.
fn fits<K, V>(map: &LoadedMap, kind: &str) -> Result<(), ReadError> {
    if map.kind != kind {
        let reason = format!("its type is {}, that of this gridmux {kind}", map.kind);
        return Err(no_layout(map, reason));
    }
    let found = [map.bytes_key as usize, map.bytes_value as usize];
    let due = [size_of::<K>(), size_of::<V>()];
    match found == due {
        true => Ok(()),
        false => Err(no_layout(
            map,
            format!(
                "its keys and values have {} and {} bytes, those of this gridmux {} and {}",
                found[0], found[1], due[0], due[1]
            ),
        )),
    }
}

fn entries<K: aya::Pod, V: aya::Pod>(map: &LoadedMap) -> Result<Vec<(K, V)>, ReadError> {
    let failed = |error: MapError| kernel(&map.name, &error);
    let map: HashMap<MapData, K, V> =
        HashMap::try_from(Map::HashMap(open(map)?)).map_err(failed)?;
    map.iter().collect::<Result<_, _>>().map_err(failed)
}

fn open(map: &LoadedMap) -> Result<MapData, ReadError> {
    MapData::from_id(map.id).map_err(|error| kernel(&map.name, &error))
}

fn no_layout(map: &LoadedMap, reason: String) -> ReadError {
    ReadError::NoLayout {
        name: map.name.clone(),
        reason,
    }
}
