//! Gives a shared object the name under which programs ask for it, and its symbols that name as their version, as
//! NVIDIA's have it: a program that finds none warns. Of the linkers only GNU's can. The cfg `cuda` says which version
//! of CUDA the library is of.
//!
//! It is the build script of four rooms, `cudart` and `nvrtc` and their copies of version 12, whose names say which
//! library is built.

fn main() {
    let package = std::env::var("CARGO_PKG_NAME").expect("cargo sets CARGO_PKG_NAME");
    let name = package.trim_start_matches("gridmux-");
    let (name, cuda) = match name.strip_suffix("12") {
        Some(name) => (name, "12"),
        None => (name, "13"),
    };
    println!("cargo::rerun-if-changed=../shared_object.rs");
    println!("cargo::rustc-check-cfg=cfg(cuda, values(\"12\", \"13\"))");
    println!("cargo::rustc-cfg=cuda=\"{cuda}\"");
    println!("cargo::rustc-cdylib-link-arg=-fuse-ld=bfd");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--default-symver");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,lib{name}.so.{cuda}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
