//! Tasks of this repository, one file each under [`tasks`], and what they share.
//!
//! - [`repo`] knows where things are, [`process`] runs programs, [`setup`] makes the machine ready,
//!   [`python`] makes virtual environments, [`debian`] unpacks Debian's packages.
//! - A task is a module with `Args` (its command line) and `run`.
//! - No task uses a crate of the workspace, and none needs a C library: tasks must build on a bare machine, because
//!   one of them is what installs the rest.

pub mod debian;
pub mod process;
pub mod python;
pub mod repo;
pub mod setup;
pub mod tasks;
