//! gridmux's CUDA libraries: where they are, and how the program finds them.
//!
//! `libcuda.so.1` lies beside the `gridmux` program where cargo builds both, as `libcuda.so`, and in `../lib/gridmux`
//! of an installation. Programs look for both names, so the private folder has a link under each. The others lie beside
//! it: the runtime library for programs of CUDA 12 and 13, and the stand-ins for NVRTC; where one was not built or
//! installed, programs that need it are as without gridmux.
//!
//! A program that asks for a library by name finds it in the folder of the links, by `LD_LIBRARY_PATH`. For one that
//! opens a file of its own, the folder has an audit library (`gridmux-search`). The stand-ins for NVRTC are in a folder
//! apart, because they are nothing without the real one, which has to be found first.

use crate::failure::Failure;
use anyhow::Context;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Places of the library, seen from the folder of the program.
const PLACES: [&str; 2] = ["libcuda.so", "../lib/gridmux/libcuda.so.1"];
/// Folder of the libraries of an installation, seen from the folder of the program.
const INSTALLED: &str = "../lib/gridmux";
/// The name by which it is asked for.
pub(super) const DRIVER: &str = "libcuda.so.1";
/// Names under which programs load it.
const NAMES: [&str; 2] = [DRIVER, "libcuda.so"];
/// Folder of the links, in the private folder.
pub(super) const FOLDER: &str = "lib";
/// Folder of the stand-ins for NVRTC, in that folder.
const NVRTC: &str = "nvrtc";
/// The audit library, in that folder.
const SEARCH: &str = "gridmux-search.so";

/// A library beside the driver library.
struct Beside {
    /// What it is called where cargo builds it.
    built: &'static str,
    /// What it is called where it is installed.
    installed: &'static str,
    /// Its link, in the folder of the links.
    link: &'static str,
}

/// All of them.
const BESIDE: [Beside; 5] = [
    Beside {
        built: "libcudart.so",
        installed: "libcudart.so.13",
        link: "libcudart.so.13",
    },
    Beside {
        built: "libcudart12.so",
        installed: "libcudart.so.12",
        link: "libcudart.so.12",
    },
    Beside {
        built: "libnvrtc.so",
        installed: "libnvrtc.so.13",
        link: "nvrtc/libnvrtc.so.13",
    },
    Beside {
        built: "libnvrtc12.so",
        installed: "libnvrtc.so.12",
        link: "nvrtc/libnvrtc.so.12",
    },
    Beside {
        built: "libnvml.so",
        installed: "libnvidia-ml.so.1",
        link: "libnvidia-ml.so.1",
    },
];

/// Cargo's arguments for the packages of the program and of its libraries.
const PACKAGES: &str = "-p gridmux -p 'gridmux-cud*' -p 'gridmux-nv*'";

/// Returns where the audit library is in the private folder.
pub(super) fn search(folder: &Path) -> PathBuf {
    folder.join(FOLDER).join(SEARCH)
}

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

    /// Puts the links and the audit library into the private folder.
    pub(super) fn link_into(&self, folder: &Path) -> Result<(), Failure> {
        let links = folder.join(FOLDER);
        std::fs::create_dir_all(links.join(NVRTC)).context("making the folder of the library")?;
        for name in NAMES {
            symlink(&self.0, links.join(name)).context("linking the library")?;
        }
        for beside in BESIDE {
            let mut places = [beside.built, beside.installed]
                .map(|name| self.folder().join(name))
                .into_iter();
            if let Some(place) = places.find(|place| place.is_file()) {
                symlink(place, links.join(beside.link)).context("linking a library")?;
            }
        }
        let written = std::fs::write(search(folder), gridmux_search::LIBRARY);
        Ok(written.context("writing the audit library")?)
    }

    /// Returns the folder of the library itself.
    pub(super) fn folder(&self) -> &Path {
        self.0.parent().unwrap_or(Path::new("/"))
    }
}

/// Where one of the libraries should be, and where it is.
#[derive(Debug)]
pub(in crate::commands) struct Place {
    /// Under which name programs load it.
    pub(in crate::commands) name: &'static str,
    /// The file, where there is one.
    pub(in crate::commands) file: Option<PathBuf>,
}

/// Returns where gridmux's libraries are, the driver library first, and what puts them there where they are not.
pub(in crate::commands) fn places() -> Result<(Vec<Place>, String), Failure> {
    let program = std::env::current_exe().context("finding this program")?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let first = |files: [PathBuf; 2]| files.into_iter().find(|file| file.is_file());
    let driver = Place {
        name: DRIVER,
        file: first(PLACES.map(|place| folder.join(place))),
    };
    let beside = BESIDE.iter().map(|of| Place {
        name: of.installed,
        file: first([
            folder.join(of.built),
            folder.join(INSTALLED).join(of.installed),
        ]),
    });
    let places = [driver].into_iter().chain(beside).collect();
    Ok((places, how_to_get_it(folder)))
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
            return format!("cargo build --profile {profile} {PACKAGES}");
        }
    }
    if is_cargos && name == "debug" {
        return format!("cargo build {PACKAGES}");
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
    use super::{PACKAGES, how_to_get_it};

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
            format!("cargo build --profile release {PACKAGES}")
        );
        assert_eq!(
            how_to_get_it(&target.join("debug")),
            format!("cargo build {PACKAGES}")
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
