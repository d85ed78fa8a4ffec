//! `gridmux-gpu-check`: asks a GPU, in minutes, everything that gridmux assumes of one.
//!
//! The program is one file that needs nothing but NVIDIA's driver, or gridmux's own driver library. It runs
//! **parts** ([`parts`]), each an experiment with a process and a time limit of its own ([`runner`]), so that a fault
//! that poisons a context ends one part and no other. A part is given a [`lab::Lab`]: a context, a scale, and a place
//! for its [`finding`]s. These are written as they come, one line of JSON each, and together in a [`document`] that
//! becomes a file of `hw-model/validation` ([`convert`]).
//!
//! [`service`] is the other half: it runs gridmux's service by its command and measures it through clients, processes
//! that are given gridmux's driver library and know nothing of it.
//!
//! Rules:
//! - What gridmux relies on is **checked**, and a check that fails fails the run: bits, order, what is refused. What
//!   only says how fast a device is, is a **figure** and never judged, because over the SM model it is the model's.
//! - What a driver does not offer is reported as such, and is no failure.
//! - A kernel ends by itself whatever the host does: a loop that waits has a bound.
//! - PTX is of an old version ([`gridmux_workloads::portable`]), so that a driver of CUDA 12.0 or later compiles it.
//!
//! The room knows PTX, the launcher and the workloads. It reaches a device through the driver's API alone, and the
//! service through the command that is named to it.

pub mod convert;
pub mod cuda;
pub mod document;
pub mod finding;
pub mod formed;
pub mod kernels;
pub mod lab;
pub mod parts;
pub mod progress;
pub mod runner;
pub mod service;
pub mod stamps;
