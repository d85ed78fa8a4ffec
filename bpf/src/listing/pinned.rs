//! What stands pinned under the folders of our instances.
//!
//! Rule: a pin that this process may not open is passed over. Nothing but maps and programs is pinned there
//! (`pins.rs`).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use aya::maps::MapData;
use aya::programs::ProgramInfo;

use crate::instance::{self, InstanceName};

/// A pin.
#[derive(Debug)]
pub(super) enum Pinned {
    /// Of a map.
    Map {
        /// The kernel's number of the map.
        id: u32,
        /// Whose it is.
        instance: InstanceName,
        /// Where it stands.
        pin: PathBuf,
    },
    /// Of a program.
    Program {
        /// The kernel's number of the program.
        id: u32,
        /// Whose it is.
        instance: InstanceName,
        /// Where it stands.
        pin: PathBuf,
    },
}

impl Pinned {
    /// Returns whose it is.
    pub(super) fn instance(&self) -> InstanceName {
        let (Self::Map { instance, .. } | Self::Program { instance, .. }) = self;
        instance.clone()
    }

    /// Returns where it stands.
    pub(super) fn path(&self) -> &Path {
        let (Self::Map { pin, .. } | Self::Program { pin, .. }) = self;
        pin
    }
}

/// Returns every pin of every instance.
pub(super) fn all() -> Vec<Pinned> {
    instance::list().iter().flat_map(of_instance).collect()
}

fn of_instance(instance: &InstanceName) -> Vec<Pinned> {
    let Ok(entries) = std::fs::read_dir(instance.folder()) else {
        return Vec::new();
    };
    let mut pins: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    pins.sort();
    pins.into_iter()
        .filter_map(|pin| open(instance, pin))
        .collect()
}

fn open(instance: &InstanceName, pin: PathBuf) -> Option<Pinned> {
    let instance = instance.clone();
    // The kernel gives a descriptor of whatever is pinned, and says of one of a program that its type is that of some
    // map: only the descriptor's name in /proc tells.
    let map = MapData::from_pin(&pin).ok();
    match map.filter(|map| is_map(map.fd().as_fd())) {
        Some(map) => {
            let id = map.info().ok()?.id();
            Some(Pinned::Map { id, instance, pin })
        }
        None => {
            let id = ProgramInfo::from_pin(&pin).ok()?.id();
            Some(Pinned::Program { id, instance, pin })
        }
    }
}

/// Returns whether a descriptor is of a map.
fn is_map(fd: BorrowedFd<'_>) -> bool {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    name.is_ok_and(|name| name == Path::new("anon_inode:bpf-map"))
}
