//! gridmux's CUDA libraries: where they are, and how the program finds them.
//!
//! `libcuda.so.1` lies beside the `gridmux` program where cargo builds both, as `libcuda.so`, and in `../lib/gridmux`
//! of an installation. Programs look for both names, so the private folder has a link under each. The runtime library
//! `libcudart.so.13` lies beside it, as `libcudart.so` where cargo builds it; where it was not built or installed,
//! programs that need it are as without gridmux.

use crate::failure::Failure;
use anyhow::Context;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Places of the library, seen from the folder of the program.
const PLACES: [&str; 2] = ["libcuda.so", "../lib/gridmux/libcuda.so.1"];
/// Names under which programs load it.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
/// Names of the runtime library beside the driver library, and that under which programs load it.
const RUNTIME_PLACES: [&str; 2] = ["libcudart.so", "libcudart.so.13"];
const RUNTIME_NAME: &str = "libcudart.so.13";
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
                Err(Failure::new(message).hint(how_to_get_it(folder)))
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
        let places = RUNTIME_PLACES.map(|place| self.folder().join(place));
        if let Some(runtime) = places.iter().find(|place| place.is_file()) {
            symlink(runtime, links.join(RUNTIME_NAME)).context("linking the runtime library")?;
        }
        Ok(())
    }

    /// Returns the folder of the library itself.
    pub(super) fn folder(&self) -> &Path {
        self.0.parent().unwrap_or(Path::new("/"))
    }
}

/// Returns what puts the library where the program in a folder looks for it. Where cargo built the program, cargo
/// builds the library beside it, in the same profile; an installed program has it installed.
fn how_to_get_it(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default();
    let is_cargos = folder
        .parent()
        .is_some_and(|above| above.join("CACHEDIR.TAG").is_file());
    for profile in ["release", "quick"] {
        if is_cargos && name == profile {
            return format!("cargo build --profile {profile} -p gridmux -p gridmux-cuda");
        }
    }
    if is_cargos && name == "debug" {
        return "cargo build -p gridmux -p gridmux-cuda".to_owned();
    }
    let installed = match (name == "bin", folder.parent()) {
        (true, Some(above)) => above.join("lib/gridmux/libcuda.so.1"),
        _ => folder.join(PLACES[1]),
    };
    format!(
        "in gridmux's sources: cargo build --release -p gridmux-cuda && install -D -m 644 target/release/libcuda.so {}",
        installed.display()
    )
}

#[cfg(test)]
mod tests {
    use super::how_to_get_it;

    #[test]
    fn the_library_is_built_as_the_program_was_or_installed_beside_it() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("target");
        std::fs::create_dir(&target).unwrap();
        let release = target.join("release");
        assert!(
            how_to_get_it(&release).contains("install -D"),
            "no folder of cargo's"
        );
        std::fs::write(target.join("CACHEDIR.TAG"), "").unwrap();
        assert_eq!(
            how_to_get_it(&release),
            "cargo build --profile release -p gridmux -p gridmux-cuda"
        );
        assert_eq!(
            how_to_get_it(&target.join("debug")),
            "cargo build -p gridmux -p gridmux-cuda"
        );
        let installed = how_to_get_it("/usr/local/bin".as_ref());
        let steps = [
            "cargo build --release -p gridmux-cuda",
            "install -D -m 644 target/release/libcuda.so /usr/local/lib/gridmux/libcuda.so.1",
        ];
        for step in steps {
            assert!(installed.contains(step), "{installed}");
        }
    }
}
