//! gridmux's `libcuda.so.1`: where it is, and how the program finds it.
//!
//! It lies beside the `gridmux` program where cargo builds both, as `libcuda.so`, and in `../lib/gridmux` of an
//! installation, as `libcuda.so.1`. Programs look for both names, so the private folder has a link under each.

use crate::failure::Failure;
use anyhow::Context;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Places of the library, seen from the folder of the program.
const PLACES: [&str; 2] = ["libcuda.so", "../lib/gridmux/libcuda.so.1"];
/// Names under which programs load it.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
/// Folder of the links, in the private folder.
pub(super) const FOLDER: &str = "lib";

/// The library.
#[derive(Debug)]
pub(super) struct Library(PathBuf);

impl Library {
    /// Finds it.
    pub(super) fn find() -> Result<Self, Failure> {
        let program = std::env::current_exe().context("finding this program")?;
        let folder = program.parent().unwrap_or(Path::new("/"));
        let places = PLACES.map(|place| folder.join(place));
        let found = places.iter().find(|place| place.is_file());
        match found {
            Some(place) => Ok(Self(place.canonicalize().context("finding libcuda.so")?)),
            None => {
                let [beside, installed] = places.map(|place| place.display().to_string());
                let message = format!("gridmux's libcuda.so is neither {beside} nor {installed}");
                // A program in `release` was built with `--release`, and so must the library be.
                let profile = match folder.file_name() {
                    Some(name) if name == "release" => " --release",
                    _ => "",
                };
                Err(Failure::new(message)
                    .hint(format!("cargo build{profile} -p gridmux -p gridmux-cuda")))
            }
        }
    }

    /// Puts the links into the private folder.
    pub(super) fn link_into(&self, folder: &Path) -> Result<(), Failure> {
        let links = folder.join(FOLDER);
        std::fs::create_dir(&links).context("making the folder of the library")?;
        for name in NAMES {
            symlink(&self.0, links.join(name)).context("linking the library")?;
        }
        Ok(())
    }

    /// Returns the folder of the library itself.
    pub(super) fn folder(&self) -> &Path {
        self.0.parent().unwrap_or(Path::new("/"))
    }
}
