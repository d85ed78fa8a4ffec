//! How a kernel is launched in its form: which sub-boxes, with which control block, and what the kernel left behind.
//!
//! A [`Launcher`] says for one launch of a tenant what is to be done with a device, one [`Action`] at a time, and is
//! told what came of it. It allocates nothing while it runs, waits for nothing and knows no device, so that a
//! dispatcher may ask it in its turn. [`run`] executes a launcher on a [`Device`] to its end, for those who have
//! nothing else to do. What a kernel in a form expects of its launcher stands in [`gridmux_ptx::control`].
//!
//! Rules: the control block is made here and nowhere else; blocks are launched in ascending order; a fault that a
//! fenced kernel records ends the launch, and no further piece of the grid is launched.

pub mod boxes;
mod control;
mod device;
mod launcher;
pub mod stamps;

pub use control::{Control, Cover, RecordedFault, Reservation};
pub use device::{Device, Progress, run, step};
pub use launcher::{Action, Answer, LaunchError, Launcher, Limits, Pace, Piece};
pub use stamps::{Sampling, Stamp, StampRecord, Stamps};
