//! Which device of the machine the service shares, as NVIDIA's driver lists it.
//!
//! Rule: the service knows its device by model alone; number and UUID are those of the one device of that model that
//! the driver lists, and are left out where it lists none or several.

use gridmux_mediator::link::HostStatistics;
use std::fs;
use std::path::Path;

/// Where NVIDIA's driver lists its devices, a folder each.
pub(super) const LISTED: &str = "/proc/driver/nvidia/gpus";

/// A device, as dcgm-exporter labels it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Card {
    /// Number of the device on the machine; that of a modelled one, which is the only one of its service, is 0.
    pub(super) index: Option<String>,
    /// UUID, as `GPU-…`; a modelled device has none.
    pub(super) uuid: Option<String>,
    /// Name of the model.
    pub(super) model: String,
}

impl Card {
    /// Returns the device of a host, of those that are listed in a folder.
    pub(super) fn of(host: &HostStatistics, listed: &Path) -> Self {
        let model = host.device.name.clone();
        if host.device.is_model {
            return Self {
                index: Some("0".to_owned()),
                uuid: None,
                model,
            };
        }
        Self::listed(model, listed)
    }

    fn listed(model: String, folder: &Path) -> Self {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let texts =
            entries.filter_map(|entry| fs::read_to_string(entry.path().join("information")).ok());
        let texts: Vec<String> = texts
            .filter(|text| field(text, "Model").is_some_and(|listed| listed == model))
            .collect();
        let only = match &texts[..] {
            [text] => Some(text),
            _ => None,
        };
        let of = |name| {
            only.and_then(|text| field(text, name))
                .map(ToOwned::to_owned)
        };
        Self {
            index: of("Device Minor"),
            uuid: of("GPU UUID"),
            model,
        }
    }
}

/// Returns the value of a line `NAME: VALUE`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let mut values = lines.filter(|(key, _)| key.trim() == name);
    values.next().map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::Card;
    use std::fs;

    #[test]
    fn the_only_device_of_a_model_is_the_one() {
        let folder = tempfile::tempdir().unwrap();
        let add = |bus: &str, model: &str, minor: u32| {
            let below = folder.path().join(bus);
            fs::create_dir(&below).unwrap();
            let text = format!(
                "Model: \t\t {model}\nIRQ:   \t\t 77\nGPU UUID: \t GPU-{minor}\nDevice Minor: \t {minor}\n"
            );
            fs::write(below.join("information"), text).unwrap();
        };
        let card = |model: &str| Card::listed(model.to_owned(), folder.path());
        assert_eq!(card("NVIDIA H200").uuid, None);
        add("0000:01:00.0", "NVIDIA H100", 0);
        add("0000:02:00.0", "NVIDIA H200", 1);
        let found = card("NVIDIA H200");
        assert_eq!(found.uuid.as_deref(), Some("GPU-1"));
        assert_eq!(found.index.as_deref(), Some("1"));
        add("0000:03:00.0", "NVIDIA H200", 2);
        let ambiguous = card("NVIDIA H200");
        assert_eq!((ambiguous.index, ambiguous.uuid), (None, None));
    }
}
