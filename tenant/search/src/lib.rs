//! How programs find gridmux's libraries where they look for NVIDIA's by path: a library that audits the searches of
//! the dynamic loader (rtld-audit(7)), in C, as data for who starts programs.
//!
//! `LD_LIBRARY_PATH` leads a program to a library that it asks for by name. Python packages open files in folders of
//! their own instead, and programs may bring a `DT_RPATH`, which is searched first. The loader asks an audit library
//! about each file that it is about to open, whoever asked for it.
//!
//! Rules (`search.c`): a file is exchanged only if it exists, so that what a program does not find it finds as little
//! here. Of files with one of the names the first is remembered for the stand-in of NVRTC, which gets the real one by
//! asking the loader for [`EXCHANGED`] and its own name. The library is in every process of a program: it needs no
//! other library, allocates nothing and asks the kernel only about files with one of the names.

/// The library, to be written into a file.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/search.so"));
/// The variable that names the folder with the libraries; without it, nothing is exchanged.
pub const VARIABLE: &str = "GRIDMUX_LIBRARIES";
/// The variable in which the loader finds audit libraries, a list with colons.
pub const AUDIT: &str = "LD_AUDIT";
/// What stands before a library's name where the file is asked for that it was opened in place of.
pub const EXCHANGED: &str = include_str!("exchanged");
/// The first glibc that loads an audit library without slowing down every call between libraries (2.35).
pub const OLDEST_GLIBC: (u32, u32) = (2, 35);
