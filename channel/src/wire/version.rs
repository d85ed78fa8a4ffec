//! `VFIO_USER_VERSION` (specification, section of that name): the first
//! message, two numbers and optionally JSON with capabilities, NUL-terminated.
//!
//! A peer's JSON is parsed with serde's recursion limit from at most
//! [`super::MAX_PLAIN_BYTES`]; unknown members are ignored, as the
//! specification asks of minor versions.

use super::{MAX_MESSAGE_FDS, MAX_PLAIN_BYTES, MAX_TRANSFER_BYTES, WireError, take};
use serde::{Deserialize, Serialize};

/// The protocol version that we speak: 0.1, as QEMU.
pub const MAJOR: u16 = 0;
/// The minor version.
pub const MINOR: u16 = 1;

/// A proposed or agreed version with its capabilities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Must be equal on both sides.
    pub major: u16,
    /// The lower of both sides counts.
    pub minor: u16,
    /// Abilities of the sender.
    pub capabilities: Capabilities,
}

/// The capabilities that we know; each default is the specification's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// The most descriptors that the sender receives in one message.
    pub max_msg_fds: u64,
    /// The most bytes of a data transfer.
    pub max_data_xfer_size: u64,
    /// The most DMA mappings at a time.
    pub max_dma_maps: u64,
    /// Page sizes of DMA mappings, or'ed together, in bytes.
    pub pgsizes: u64,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            max_msg_fds: 1,
            max_data_xfer_size: 1 << 20,
            max_dma_maps: 65535,
            pgsizes: 4096,
        }
    }
}

impl Capabilities {
    /// Returns what this implementation can do.
    #[must_use]
    pub fn ours() -> Self {
        Self {
            max_msg_fds: MAX_MESSAGE_FDS as u64,
            max_data_xfer_size: MAX_TRANSFER_BYTES as u64,
            max_dma_maps: crate::memory::MAX_MAPPINGS as u64,
            pgsizes: crate::regions::PAGE_BYTES,
        }
    }
}

#[derive(Serialize)]
struct VersionData {
    capabilities: Capabilities,
}

impl Version {
    /// Returns what this implementation proposes.
    #[must_use]
    pub fn ours() -> Self {
        Self {
            major: MAJOR,
            minor: MINOR,
            capabilities: Capabilities::ours(),
        }
    }

    /// Reads the payload of the message.
    ///
    /// # Errors
    /// Too short, no NUL at the end, or no JSON of the specified form.
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let (numbers, data) = take::<[u16; 2]>("version", payload)?;
        let [major, minor] = numbers;
        if data.len() > MAX_PLAIN_BYTES {
            return Err(WireError::Version("it is over 64 KiB"));
        }
        let capabilities = match data.split_last() {
            None => Capabilities::default(),
            Some((0, json)) => parse_json(json)?,
            Some(_) => return Err(WireError::Version("it does not end in NUL")),
        };
        Ok(Self {
            major,
            minor,
            capabilities,
        })
    }

    /// Writes the payload of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(160);
        bytes.extend_from_slice(&self.major.to_ne_bytes());
        bytes.extend_from_slice(&self.minor.to_ne_bytes());
        let data = VersionData {
            capabilities: self.capabilities,
        };
        // A structure of four integers always serialises; were it otherwise,
        // a version without data would follow, which is valid too.
        if let Ok(json) = serde_json::to_vec(&data) {
            bytes.extend_from_slice(&json);
            bytes.push(0);
        }
        bytes
    }

    /// Returns the server's answer to a client's proposal: the same major, the lower
    /// minor, and our own capabilities.
    ///
    /// # Errors
    /// Another major version.
    pub fn negotiate(&self) -> Result<Self, WireError> {
        if self.major != MAJOR {
            return Err(WireError::Version("the major version is not 0"));
        }
        Ok(Self {
            minor: self.minor.min(MINOR),
            ..Self::ours()
        })
    }
}

fn parse_json(json: &[u8]) -> Result<Capabilities, WireError> {
    if json.contains(&0) {
        return Err(WireError::Version("a NUL stands inside it"));
    }
    // serde would take a sequence for a structure, so objects are asked for.
    let not_json = WireError::Version("it is no JSON object of capabilities");
    let data: serde_json::Value = serde_json::from_slice(json).map_err(|_| not_json)?;
    match data.as_object().ok_or(not_json)?.get("capabilities") {
        None => Ok(Capabilities::default()),
        Some(object) if object.is_object() => {
            Capabilities::deserialize(object).map_err(|_| not_json)
        }
        Some(_) => Err(not_json),
    }
}

#[cfg(test)]
mod tests {
    use super::{Capabilities, Version};

    fn payload(json: &[u8]) -> Vec<u8> {
        [&[0, 0, 1, 0], json].concat()
    }

    #[test]
    fn ours_survives_the_wire() {
        assert_eq!(
            Version::parse(&Version::ours().encode()),
            Ok(Version::ours())
        );
    }

    #[test]
    fn missing_data_means_the_defaults() {
        let parsed = Version::parse(&payload(b"")).unwrap();
        assert_eq!(parsed.capabilities, Capabilities::default());
        let parsed = Version::parse(&payload(
            b"{\"capabilities\":{\"max_msg_fds\":3,\"x\":{}}}\0",
        ));
        assert_eq!(parsed.unwrap().capabilities.max_msg_fds, 3);
    }

    #[test]
    fn malformed_data_is_an_error() {
        for json in [
            &b"{}"[..],
            b"\0\0",
            b"\0",
            b"[]\0",
            b"{\"capabilities\":[1]}\0",
            b"{\"capabilities\":7}\0",
            b"\xff\0",
        ] {
            assert!(Version::parse(&payload(json)).is_err(), "{json:?}");
        }
        assert!(Version::parse(&[0, 0, 1]).is_err());
        let deep = [b"[".repeat(60_000), vec![0]].concat();
        assert!(Version::parse(&payload(&deep)).is_err());
    }

    #[test]
    fn another_major_is_refused() {
        assert!(
            Version {
                major: 1,
                ..Version::ours()
            }
            .negotiate()
            .is_err()
        );
        assert_eq!(
            Version {
                minor: 9,
                ..Version::ours()
            }
            .negotiate()
            .unwrap()
            .minor,
            1
        );
    }
}
