//! The file of profiles that a mix begins with and adds to.

use super::On;
use crate::commands::sim::notes::Notes;
use crate::failure::Failure;
use crate::files;
use crate::units::nanos;
use anyhow::Context;
use gridmux_hw_model::GpuConfig;
use gridmux_mix::play::Played;
use gridmux_policy::profiles::COMPANY;
use gridmux_policy::{Profile, ProfileFile, ProfileKey, ProfiledDevice, Profiles};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is known of kernels before a mix and after it.
#[derive(Debug)]
pub(super) struct Known {
    /// None where nothing is kept.
    file: Option<PathBuf>,
    device: ProfiledDevice,
    /// What the file said.
    told: BTreeMap<ProfileKey, Profile>,
    pub(super) profiles: Profiles,
}

impl Known {
    /// Reads the file, if one is named and exists.
    ///
    /// # Errors
    /// The file cannot be read or written, is a link, is not what it should be, or is of another device.
    pub(super) fn read(file: Option<PathBuf>, gpu: &GpuConfig, on: On) -> Result<Self, Failure> {
        let executor = match on {
            On::Event => "event executor",
            On::Model => "SM model",
        };
        let device = ProfiledDevice {
            name: format!("{executor} {}", gpu.name),
            sms: gpu.sm.count,
        };
        let profiles = Profiles::default();
        let mut told = BTreeMap::new();
        if let Some(path) = &file {
            if path.is_symlink() {
                let message = format!("{} is a link, which would be replaced", path.display());
                return Err(Failure::new(message).hint("name the file itself"));
            }
            // It is replaced by another file, which its folder must permit.
            files::check_writable(path)?;
        }
        if let Some(path) = file.as_ref().filter(|path| path.exists()) {
            let read = ProfileFile::open(path)?.of_device(&device, path)?;
            read.add_to(&profiles);
            told = read.profiles.into_iter().collect();
        }
        Ok(Self {
            file,
            device,
            told,
            profiles,
        })
    }

    /// Says on stderr of which programs the file's profiles were dropped, because blocks contradicted them.
    pub(super) fn note_dropped<'a>(
        &self,
        notes: &Notes,
        programs: impl Iterator<Item = (&'a str, &'a Played)>,
    ) {
        let Some(path) = &self.file else {
            return;
        };
        let kernels = programs.flat_map(|(name, played)| {
            let keys = played.runtimes.keys();
            keys.map(move |key| (name, *key))
        });
        for (name, key) in kernels {
            let (Some(told), Some(now)) = (self.told.get(&key), self.profiles.get(key)) else {
                continue;
            };
            let factor = now.block_ns / told.block_ns;
            if !(1.0 / COMPANY..=COMPANY).contains(&factor) {
                notes.say(format!(
                    "note: the profile of {name} in {} was dropped: it says that a block lasts {}, and blocks \
                     lasted {}",
                    path.display(),
                    nanos(Some(told.whole_ns())),
                    nanos(Some(now.whole_ns()))
                ));
            }
        }
    }

    /// Writes what is known now, if a file is named.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn keep(&self) -> Result<(), Failure> {
        let Some(path) = &self.file else {
            return Ok(());
        };
        let file = ProfileFile::of(&self.profiles, self.device.clone());
        let written = file.write(path);
        Ok(written.with_context(|| format!("writing {}", path.display()))?)
    }
}
