//! How a program comes to NVIDIA's CUDA runtime library, and what its user can do about it.
//!
//! That library asks the driver for private tables, which are NVIDIA's own, so programs need gridmux's runtime library
//! in its place. What has to be done for that depends on where NVIDIA's one came from.

use std::ffi::CStr;
use std::path::{Path, PathBuf};

/// The origin of NVIDIA's runtime library in a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runtime {
    /// It was loaded from this file.
    Shared(PathBuf),
    /// A package of Python's has it linked in.
    InPackage,
    /// The program has it linked in.
    Static,
}

impl Runtime {
    /// Finds out where the process has it from; `program` is the program's file name.
    #[must_use]
    pub fn of_process(program: &str) -> Self {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        Self::of(&maps, own_folder().as_deref(), program)
    }

    /// Finds it out by the process's mappings, as `/proc/self/maps` lists them, of which those in our own folder are
    /// not NVIDIA's.
    fn of(maps: &str, own_folder: Option<&Path>, program: &str) -> Self {
        let mut files = maps.lines().filter_map(|line| {
            let path = line.find('/').map(|start| Path::new(&line[start..]))?;
            let name = path.file_name()?.to_str()?;
            let is_runtime = name.starts_with("libcudart.so") || name.starts_with("libcudart-");
            (is_runtime && path.parent() != own_folder).then_some(path)
        });
        let is_python = ["python", "pypy"]
            .iter()
            .any(|name| program.starts_with(name));
        match (files.next_back(), is_python) {
            (Some(path), _) => Self::Shared(path.to_owned()),
            (None, true) => Self::InPackage,
            (None, false) => Self::Static,
        }
    }

    /// Says what is wrong and what helps.
    #[must_use]
    pub fn remedy(&self, program: &str) -> String {
        match self {
            Self::Shared(path) => format!(
                "{program} has loaded NVIDIA's CUDA runtime library, {}, which asks for a private table of NVIDIA's \
                 driver; start it with `gridmux run`, without an rpath, a path or a preloaded library that leads to \
                 that file, so that it finds gridmux's libcudart.so.13",
                path.display()
            ),
            Self::InPackage => format!(
                "a package that {program} imports has NVIDIA's CUDA runtime library linked in, which asks for a \
                 private table of NVIDIA's driver; packages run that load libcudart.so.13 or, as numba-cuda and Triton \
                 do, the driver alone"
            ),
            Self::Static => format!(
                "{program} has NVIDIA's CUDA runtime library linked in, as nvcc does it by default, which asks for a \
                 private table of NVIDIA's driver; link it with `nvcc -cudart shared` of CUDA 13, so that it finds \
                 gridmux's libcudart.so.13"
            ),
        }
    }
}

/// Returns the folder that this library was loaded from.
fn own_folder() -> Option<PathBuf> {
    // SAFETY: an all-zero value is valid: it is of pointers.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    let own = own_folder as *const ();
    // SAFETY: the address is of code of this library, and the place is a valid one on this stack.
    if unsafe { libc::dladdr(own.cast(), &raw mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: it is not null, and the loader keeps the text as long as the library is loaded.
    let path = unsafe { CStr::from_ptr(found.dli_fname) }.to_str().ok()?;
    let path = std::fs::canonicalize(path).ok()?;
    path.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{Path, Runtime, own_folder};

    const OURS: &str =
        "7f0000000000-7f0000001000 r-xp 00000000 00:1f 7 /opt/gridmux/libcudart.so.13\n";
    const THEIRS: &str =
        "7f1000000000-7f1000001000 r--p 00000000 00:1f 9 /venv/nvidia/cu13/lib/libcudart.so.13\n";
    const ELSE: &str = "7f2000000000-7f2000001000 rw-p 00000000 00:00 0 [heap]\nnothing\n\n";

    #[test]
    fn each_kind_of_program_hears_what_helps_it() {
        let of = |maps: &str, program| Runtime::of(maps, Some(Path::new("/opt/gridmux")), program);
        let shared = of(&[ELSE, OURS, THEIRS].concat(), "python3.11");
        let path = "/venv/nvidia/cu13/lib/libcudart.so.13";
        assert_eq!(shared, Runtime::Shared(path.into()));
        let said = shared.remedy("python3.11");
        assert!(
            said.contains(path) && said.contains("gridmux run") && !said.contains("nvcc"),
            "{said}"
        );
        let package = of(&[ELSE, OURS].concat(), "python3.11");
        assert_eq!(package, Runtime::InPackage);
        let said = package.remedy("python3.11");
        assert!(
            said.contains("package") && !said.contains("-cudart"),
            "{said}"
        );
        let program = of(ELSE, "saxpy");
        assert_eq!(program, Runtime::Static);
        let said = program.remedy("saxpy");
        assert!(
            said.starts_with("saxpy ") && said.contains("-cudart shared"),
            "{said}"
        );
        assert_eq!(of(THEIRS, "saxpy"), Runtime::Shared(path.into()));
    }

    #[test]
    fn the_library_knows_its_own_folder() {
        let folder = own_folder().expect("a folder");
        assert!(folder.is_dir(), "{}", folder.display());
    }
}
