//! Gives the shared object the name under which programs ask for it, and its symbols that name as their version, as
//! NVIDIA's have it: a program that finds none warns. Of the linkers only GNU's can.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-fuse-ld=bfd");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--default-symver");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcudart.so.13");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
