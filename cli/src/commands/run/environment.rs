//! What a program finds in its environment, so that it loads gridmux's library and hands over PTX.
//!
//! Rules: a path is put in front of what the variable holds already; a variable that asks a framework for something is
//! left alone where the user has set it.

use super::library::{self, FOLDER, Library};
use super::server::Server;
use super::{coverage, ptxas};
use crate::failure::Failure;
use anyhow::Context;
use gridmux_tenant::DeviceFacts;
use nix::sys::statvfs::{FsFlags, statvfs};
use std::ffi::{CStr, OsStr, OsString};
use std::path::{Path, PathBuf};

/// Folder of the module that Python loads at its start, in the private folder.
const PYTHON: &str = "python";
/// That module.
const SITECUSTOMIZE: &str = include_str!("sitecustomize.py");
/// For which GPU Triton compiles on a model of a later one: the model has no `wgmma` and no tensor memory.
const TRITON_ARCHITECTURE: &str = "sm80";

/// The variable that names who takes the ranges of programs that are compiled with NVTX.
const NVTX: &str = "NVTX_INJECTION64_PATH";

/// The facts that the variables are made from.
pub(super) struct Environment<'a> {
    /// The private folder.
    pub(super) folder: &'a Path,
    /// The library.
    pub(super) library: &'a Library,
    /// The service.
    pub(super) server: &'a Server,
    /// Its device.
    pub(super) device: &'a DeviceFacts,
    /// Whether missing functions are to be listed.
    pub(super) coverage: bool,
    /// The file that launches are written to.
    pub(super) record: Option<&'a Path>,
}

/// Writes what the variables point at.
pub(super) fn write_into(folder: &Path) -> Result<(), Failure> {
    let python = folder.join(PYTHON);
    std::fs::create_dir(&python)
        .and_then(|()| std::fs::write(python.join("sitecustomize.py"), SITECUSTOMIZE))
        .context("writing Python's start module")?;
    ptxas::link_into(folder)
}

impl Environment<'_> {
    /// Returns the variables that the program gets besides its own.
    pub(super) fn variables(&self) -> Vec<(&'static str, OsString)> {
        let lib = self.folder.join(FOLDER);
        let mut variables = vec![
            ("LD_LIBRARY_PATH", in_front("LD_LIBRARY_PATH", &lib)),
            // Programs that compile a part of themselves, as Triton does, link with it.
            ("LIBRARY_PATH", in_front("LIBRARY_PATH", &lib)),
            (
                "PYTHONPATH",
                in_front("PYTHONPATH", &self.folder.join(PYTHON)),
            ),
            ("GRIDMUX_SOCKET", self.server.socket(self.folder).into()),
        ];
        if is_audited(self.folder) {
            let search = library::search(self.folder);
            variables.push((gridmux_search::VARIABLE, lib.clone().into()));
            variables.push((
                gridmux_search::AUDIT,
                in_front(gridmux_search::AUDIT, &search),
            ));
        }
        if let Some(tenant) = self.server.tenant() {
            variables.push(("GRIDMUX_TENANT", tenant.into()));
        }
        if self.coverage {
            variables.push(("GRIDMUX_COVERAGE", self.folder.join(coverage::FILE).into()));
        }
        if let Some(record) = self.record {
            variables.push(("GRIDMUX_RECORD", record.into()));
        }
        // Triton's cache tells builds apart by this folder, so it is the library's own, which stays the same.
        variables.push(("TRITON_LIBCUDA_PATH", self.library.folder().into()));
        for name in ptxas::VARIABLES {
            variables.push((name, ptxas::path(self.folder).into()));
        }
        // CUB's kernels take seconds to load: a package has megabytes of them.
        let mut asked = vec![("CUPY_COMPILE_WITH_PTX", "1"), ("CUPY_ACCELERATORS", "")];
        if self.device.is_model && self.device.compute_capability.0 >= 9 {
            asked.push(("TRITON_OVERRIDE_ARCH", TRITON_ARCHITECTURE));
        }
        let asked = asked
            .into_iter()
            .map(|(name, value)| (name, OsString::from(value)));
        // The driver library takes a program's NVTX ranges, where no other tool does.
        let driver = lib.join(library::DRIVER).into_os_string();
        let unset = asked
            .chain([(NVTX, driver)])
            .filter(|(name, _)| std::env::var_os(name).is_none());
        variables.extend(unset);
        variables
    }
}

/// Returns whether the loader can be given an audit library: an older glibc slows programs down with one, and a folder
/// whose files may not be executed would have it complain in every process.
fn is_audited(folder: &Path) -> bool {
    let is_executable = statvfs(folder).is_ok_and(|of| !of.flags().contains(FsFlags::ST_NOEXEC));
    is_executable && glibc().is_some_and(|version| version >= gridmux_search::OLDEST_GLIBC)
}

/// Returns the version of the C library, which is glibc.
fn glibc() -> Option<(u32, u32)> {
    // SAFETY: it returns a string that stays.
    let version = unsafe { CStr::from_ptr(nix::libc::gnu_get_libc_version()) };
    version_of(version.to_str().ok()?)
}

fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Returns a variable's list of paths with one more in front.
fn in_front(variable: &str, path: &Path) -> OsString {
    let present = std::env::var_os(variable).filter(|present| !present.is_empty());
    joined(path, present.as_deref())
}

fn joined(path: &Path, present: Option<&OsStr>) -> OsString {
    let rest = present.into_iter().flat_map(std::env::split_paths);
    // A path with a colon cannot stand in such a list; `gridmux run` chose this one and it has none.
    std::env::join_paths(std::iter::once(path.to_owned()).chain(rest))
        .unwrap_or_else(|_| PathBuf::from(path).into())
}

#[cfg(test)]
mod tests {
    use super::{glibc, joined, version_of};
    use std::path::Path;

    #[test]
    fn the_version_of_glibc_is_read() {
        assert_eq!(version_of("2.35"), Some((2, 35)));
        assert_eq!(version_of("3.1.9"), Some((3, 1)));
        assert_eq!(version_of("2"), None);
        assert!(glibc().is_some_and(|version| version > (2, 0)));
    }

    #[test]
    fn a_path_goes_in_front_of_those_that_are_there() {
        let path = Path::new("/new");
        assert_eq!(joined(path, None), "/new");
        assert_eq!(joined(path, Some("/a:/b".as_ref())), "/new:/a:/b");
    }
}
