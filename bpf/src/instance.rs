//! Where a service's maps are pinned: `/sys/fs/bpf/gridmux/<instance>/`.
//!
//! Rule: a name is one plain component of a path, so that no instance can reach another's folder.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::unavailable::Unavailable;

/// Where BPF file systems are mounted.
pub const BPFFS: &str = "/sys/fs/bpf";

/// A checked instance name: 1 to 64 letters, digits, `-` or `_`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InstanceName(String);

impl InstanceName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`Unavailable::InstanceName`] for anything that could leave the folder or that a BPF file system refuses.
    pub fn new(name: &str) -> Result<Self, Unavailable> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(allowed) {
            return Err(Unavailable::InstanceName { name: name.into() });
        }
        Ok(Self(name.into()))
    }

    /// Returns the folder of this instance's pins.
    pub fn folder(&self) -> PathBuf {
        root().join(&self.0)
    }

    /// Returns the pin of one map or program.
    pub fn pin(&self, object: &str) -> PathBuf {
        self.folder().join(object)
    }
}

impl fmt::Display for InstanceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the folder of all instances.
pub fn root() -> PathBuf {
    Path::new(BPFFS).join("gridmux")
}

/// Returns the names of all instances that have pins, dead ones included.
pub fn list() -> Vec<InstanceName> {
    let Ok(entries) = std::fs::read_dir(root()) else {
        return Vec::new();
    };
    let mut names: Vec<_> = entries
        .flatten()
        .filter_map(|entry| InstanceName::new(entry.file_name().to_str()?).ok())
        .collect();
    names.sort_by(|a, b| a.0.cmp(&b.0));
    names
}

#[cfg(test)]
mod tests {
    use super::InstanceName;

    #[test]
    fn names_cannot_leave_the_folder() {
        for bad in ["", "..", "a/b", "a.b", "a b", "\0", &"x".repeat(65)] {
            assert!(InstanceName::new(bad).is_err(), "{bad:?}");
        }
        assert!(InstanceName::new("serve-0_device-1").is_ok());
    }
}
