//! `gridmux map`: the maps of gridmux's eBPF programs and what they hold, as `bpftool map` shows maps.
//!
//! Rule: a map is named by its own name, by that of its pin or by its number; where several have the name, all are
//! dumped.

use super::prog::{known_bytes, listed};
use crate::failure::Failure;
use crate::output::Output;
use crate::{table, units};
use clap::{Args, Subcommand};
use gridmux_bpf::listing::{self, LoadedMap};
use gridmux_bpf::{Dump, TenantHistogram, dump};
use serde::Serialize;
use serde_json::{Value, json};

/// Commands on maps.
#[derive(Debug, Subcommand)]
pub(crate) enum Map {
    /// Every map of gridmux's eBPF programs
    Show(Show),
    /// What a map holds, decoded; latencies as a summary of each histogram
    Dump(DumpMap),
}

/// Shows maps.
#[derive(Debug, Args)]
#[command(after_help = COLUMNS)]
pub(crate) struct Show {}

/// Dumps a map.
#[derive(Debug, Args)]
#[command(after_help = DUMPED)]
pub(crate) struct DumpMap {
    /// Its name or its number
    #[arg(value_name = "NAME")]
    name: String,
    /// Only the map of this service
    #[arg(long, value_name = "INSTANCE")]
    instance: Option<String>,
}

/// The legend of the columns.
const COLUMNS: &str = "\
Columns:
  ID        the kernel's number of the map
  TYPE      as bpftool names it
  NAME      the first 15 characters of its name
  INSTANCE  the service that it belongs to (`gridmux serve --instance`)
  KEY, VALUE, ENTRIES
            bytes of a key and of a value, and the most entries
  MEMLOCK   memory that it holds
  PINNED    its file in the BPF file system, below /sys/fs/bpf/gridmux; - for none
Only root, or who has CAP_SYS_ADMIN, may ask.";

/// What can be dumped.
const DUMPED: &str = "\
Maps, by name or by the name of their pin:
  gridmux_latency (histograms)  launch and completion latencies; -j has the
                                buckets, too
  gridmux_stats (stats)         what became of the samples
  gridmux_tenants               the numbers of tenants whose samples count
  gridmux_owner (owner)         the process that pinned the maps
  gridmux_probes                hits of probes, while a trace counts them
A map holds what was drained; `gridmux latency` drains first, and knows tenants
by name.";

/// A map that is dumped.
#[derive(Debug, Serialize)]
struct Dumped {
    id: u32,
    name: String,
    instance: Option<String>,
    entries: Value,
    #[serde(skip)]
    text: String,
}

impl Map {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let maps = listing::list()?.maps;
        match self {
            Self::Show(Show {}) => out.show(&maps, || text(&maps)),
            Self::Dump(of) => {
                let chosen = of.choose(&maps)?;
                let dumped = chosen.into_iter().map(Dumped::new);
                let dumped = dumped.collect::<Result<Vec<_>, _>>()?;
                out.show(&dumped, || {
                    let parts = dumped.iter().map(Dumped::text);
                    parts.collect::<Vec<_>>().join("\n\n")
                })
            }
        }
    }
}

fn text(maps: &[LoadedMap]) -> String {
    if maps.is_empty() {
        return "(no maps; is `gridmux serve` running as root?)".to_owned();
    }
    let is = [
        "id", "type", "name", "instance", "key", "value", "entries", "memlock",
    ];
    let row = |map: &LoadedMap| {
        vec![
            map.id.to_string(),
            map.kind.clone(),
            map.name.clone(),
            map.instance.clone().unwrap_or_else(|| "-".to_owned()),
            units::bytes(map.bytes_key.into()),
            units::bytes(map.bytes_value.into()),
            map.max_entries.to_string(),
            known_bytes(map.bytes_memlock),
        ]
    };
    let pins = maps.iter().filter(|map| !map.pinned.is_empty());
    let pins = pins.map(|map| {
        let paths = map.pinned.iter().map(|path| path.display());
        vec![map.id.to_string(), listed(paths)]
    });
    [
        table::of(&is, maps.iter().map(row)),
        table::of(&["id", "pinned"], pins),
    ]
    .join("\n\n")
}

impl DumpMap {
    /// Returns the maps that are meant.
    fn choose<'a>(&self, maps: &'a [LoadedMap]) -> Result<Vec<&'a LoadedMap>, Failure> {
        let number: Option<u32> = self.name.parse().ok();
        let is_pin = |map: &LoadedMap| {
            let mut pins = map.pinned.iter().filter_map(|path| path.file_name());
            pins.any(|pin| pin == self.name.as_str())
        };
        let is_meant = |map: &&LoadedMap| {
            let is_named = map.name == self.name || Some(map.id) == number || is_pin(map);
            let instance = self.instance.as_ref();
            is_named && instance.is_none_or(|asked| map.instance.as_ref() == Some(asked))
        };
        let chosen: Vec<&LoadedMap> = maps.iter().filter(is_meant).collect();
        if chosen.is_empty() {
            let of = match &self.instance {
                Some(instance) => format!(" of instance {instance:?}"),
                None => String::new(),
            };
            let names: std::collections::BTreeSet<&str> =
                maps.iter().map(|map| map.name.as_str()).collect();
            let hint = match names.is_empty() {
                true => "none is there; is `gridmux serve` running as root?".to_owned(),
                false => format!("there are: {}", listed(names)),
            };
            return Err(Failure::new(format!("there is no map {:?}{of}", self.name)).hint(hint));
        }
        Ok(chosen)
    }
}

impl Dumped {
    fn new(map: &LoadedMap) -> Result<Self, Failure> {
        let (entries, text) = match dump(map)? {
            Dump::Histograms(found) => histograms(&found),
            Dump::Stats(stats) => {
                let entries = serde_json::to_value(stats)?;
                let text = fields(&entries);
                (entries, text)
            }
            Dump::Owner(owner) => {
                let entries = serde_json::to_value(owner)?;
                let text = fields(&entries);
                (entries, text)
            }
            Dump::Tenants(numbers) => {
                let text = format!("tenants  {}", listed(&numbers));
                (json!(numbers), text)
            }
            Dump::Probes(counts) => {
                let rows = counts.iter().map(|of| {
                    let cells = [
                        of.probe.name().to_owned(),
                        of.tenant.to_string(),
                        of.count.to_string(),
                    ];
                    cells.to_vec()
                });
                let text = table::of(&["probe", "tenant", "count"], rows);
                (serde_json::to_value(&counts)?, text)
            }
        };
        Ok(Self {
            id: map.id,
            name: map.name.clone(),
            instance: map.instance.clone(),
            entries,
            text,
        })
    }

    fn text(&self) -> String {
        let of = match &self.instance {
            Some(instance) => format!(", instance {instance}"),
            None => String::new(),
        };
        format!("map {} (id {}{of})\n{}", self.name, self.id, self.text)
    }
}

/// Returns the members of an object of numbers as lines.
fn fields(entries: &Value) -> String {
    let members = entries.as_object().into_iter().flatten();
    let rows = members.map(|(name, value)| format!("{name:15} {value}"));
    rows.collect::<Vec<_>>().join("\n")
}

/// Returns histograms as JSON with their buckets, and as text with a row for each.
fn histograms(found: &[TenantHistogram]) -> (Value, String) {
    let entry = |of: &TenantHistogram| {
        let histogram = &of.histogram;
        json!({
            "tenant": of.tenant,
            "device": of.device,
            "kind": of.kind,
            "count": histogram.count(),
            "mean_ns": histogram.mean_ns(),
            "p50_ns": histogram.percentile(0.5),
            "p99_ns": histogram.percentile(0.99),
            "max_ns": histogram.max_ns(),
            "buckets": histogram.nonempty().collect::<Vec<_>>(),
        })
    };
    let row = |of: &TenantHistogram| {
        let kind = serde_json::to_value(of.kind).unwrap_or_default();
        vec![
            of.tenant.to_string(),
            of.device.to_string(),
            kind.as_str().unwrap_or_default().to_owned(),
            of.histogram.count().to_string(),
            units::nanos(of.histogram.percentile(0.5)),
            units::nanos(of.histogram.percentile(0.99)),
            units::nanos(Some(of.histogram.max_ns())),
        ]
    };
    let headings = ["tenant", "device", "kind", "count", "p50", "p99", "max"];
    let text = match found.is_empty() {
        true => "(no launches)".to_owned(),
        false => table::of(&headings, found.iter().map(row)),
    };
    (found.iter().map(entry).collect(), text)
}
