//! Compiles the library of `src/search.c` with gcc, as small as it gets: it is loaded into every process of a program.

use std::path::PathBuf;
use std::process::Command;

/// What makes it stand alone, without the C library, whose second copy each process would load otherwise.
const FLAGS: [&str; 13] = [
    "-std=gnu11",
    "-Os",
    "-Wall",
    "-Werror",
    "-shared",
    "-fPIC",
    "-ffreestanding",
    "-nostdlib",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    // No loop becomes a call of the C library.
    "-fno-tree-loop-distribute-patterns",
    "-fvisibility=hidden",
    "-Wl,-z,now,-z,noexecstack,-z,defs,--strip-all",
];

fn main() {
    println!("cargo::rerun-if-changed=src/search.c");
    println!("cargo::rerun-if-changed=src/exchanged");
    println!("cargo::rerun-if-changed=build.rs");
    let exchanged = std::fs::read_to_string("src/exchanged").expect("the word is there");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let status = Command::new("gcc")
        .args(FLAGS)
        .arg(format!("-DEXCHANGED=\"{exchanged}\""))
        .arg("-o")
        .arg(out.join("search.so"))
        .arg("src/search.c")
        .status()
        .expect("gcc starts: it must be installed");
    assert!(status.success(), "search.c does not compile: {status}");
}
