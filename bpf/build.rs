//! Compiles the BPF programs with clang 19 or later.
//!
//! A machine without such a clang still builds this crate: the cfg `gridmux_no_bpf` then removes the loaders'
//! bodies, and they answer with a typed reason that names what to install.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(gridmux_no_bpf)");
    println!("cargo::rerun-if-changed=src/bpf");
    println!("cargo::rerun-if-env-changed=GRIDMUX_CLANG");
    println!("cargo::rerun-if-env-changed=PATH");
    if let Err(reason) = programs::compile() {
        println!("cargo::rustc-cfg=gridmux_no_bpf");
        println!("cargo::rustc-env=GRIDMUX_NO_BPF_REASON={reason}");
        println!("cargo::warning=built without BPF programs: {reason}");
    }
}

#[cfg(any(loom, not(feature = "libbpf")))]
mod programs {
    //! Nothing to compile: the loader was left out.

    /// Says why the loader was left out.
    pub(crate) fn compile() -> Result<(), String> {
        Err("the feature `libbpf` of gridmux-bpf is off, or loom explores this build".into())
    }
}

#[cfg(all(not(loom), feature = "libbpf"))]
mod programs {
    //! Finds the compiler and runs it once for each object.

    use std::ffi::OsString;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use libbpf_cargo::SkeletonBuilder;

    const OLDEST_CLANG: u32 = 19;
    const OBJECTS: [&str; 6] = ["bypass", "core", "events", "ranges", "timer", "trace"];

    /// Compiles every object into `OUT_DIR`; `Err` holds the reason why no compiler could be used.
    ///
    /// An error in the programs themselves is a bug of ours and fails the build.
    pub(crate) fn compile() -> Result<(), String> {
        let clang = find_clang()?;
        let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        for name in OBJECTS {
            SkeletonBuilder::new()
                .source(Path::new("src/bpf").join(format!("{name}.bpf.c")))
                .obj(out.join(format!("{name}.bpf.o")))
                .clang(&clang)
                .clang_args(clang_args())
                .build()
                .unwrap_or_else(|error| panic!("{name}.bpf.c does not compile: {error:#}"));
        }
        Ok(())
    }

    fn clang_args() -> Vec<OsString> {
        // usdt.bpf.h includes <linux/errno.h>, whose <asm/errno.h> stands in the multiarch folder on Debian.
        let arch =
            std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
        [
            "-mcpu=v3",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-sign-compare",
            &format!("-I/usr/include/{arch}-linux-gnu"),
        ]
        .iter()
        .map(OsString::from)
        .collect()
    }

    /// Returns the first of `$GRIDMUX_CLANG`, `clang-19` … `clang-22` and `clang` that is new enough.
    fn find_clang() -> Result<OsString, String> {
        if let Some(chosen) = std::env::var_os("GRIDMUX_CLANG") {
            return match clang_version(&chosen) {
                Some(version) if version >= OLDEST_CLANG => Ok(chosen),
                Some(version) => Err(format!(
                    "GRIDMUX_CLANG is clang {version}, and {OLDEST_CLANG} is the oldest that will do"
                )),
                None => Err("GRIDMUX_CLANG names no clang that runs".into()),
            };
        }
        let numbered = (OLDEST_CLANG..=22).map(|version| format!("clang-{version}"));
        numbered
            .chain(["clang".into()])
            .map(OsString::from)
            .find(|name| clang_version(name).is_some_and(|version| version >= OLDEST_CLANG))
            .ok_or_else(|| {
                format!(
                    "no clang {OLDEST_CLANG} or later on PATH (Debian: apt-get install clang-19)"
                )
            })
    }

    /// Returns the major version that `clang --version` prints, wherever a distribution put its own name in front.
    fn clang_version(name: &OsString) -> Option<u32> {
        let output = Command::new(name).arg("--version").output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let (_, rest) = text.split_once("clang version ")?;
        rest.split('.').next()?.parse().ok()
    }
}
