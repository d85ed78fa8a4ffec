//! Gives the shared object the name under which programs ask for it, and its symbols that name as their version, as
//! NVIDIA's have it: a program that finds none warns. Of the linkers only GNU's can. The cfg `cuda` says which version
//! of CUDA the library is of; the room of version 12 has the same sources.

/// The version of CUDA.
const CUDA: &str = "12";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(cuda, values(\"12\", \"13\"))");
    println!("cargo::rustc-cfg=cuda=\"{CUDA}\"");
    println!("cargo::rustc-cdylib-link-arg=-fuse-ld=bfd");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--default-symver");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcudart.so.{CUDA}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
