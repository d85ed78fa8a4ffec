//! Mixes of programs under a policy, on virtual time.
//!
//! A [`Driver`] puts a policy in charge of an [`Engine`]: the [`event`] executor, which simulates thread blocks by
//! their durations, or the SM model in `plan` mode ([`model`]). [`together()`] runs single launches of several
//! tenants. [`OnEvent`] and [`OnModel`] run whole programs, kernels of ours and of users' ([`member`]) and recorded
//! ones ([`recording`], [`replay`]): [`play`] submits their launches, [`meter`] measures what they hold, [`report`]
//! and [`timeline`] say what became of them.
//!
//! Rules of this room: it knows policies, the SM model and our workloads, never sockets or tenants' processes; equal
//! inputs give equal runs; it prints nothing and reads no file.

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod driver;
mod error;
pub mod event;
pub mod member;
pub mod meter;
pub mod model;
mod on_event;
mod on_model;
pub mod play;
pub mod recording;
pub mod replay;
pub mod report;
pub mod timeline;
mod together;

pub use driver::{Driver, DriverOptions, Engine};
pub use error::MixError;
pub use member::{Member, Pace, Source, UserKernel};
pub use meter::Meter;
pub use on_event::{OnEvent, Shapes};
pub use on_model::{OnModel, Verdict};
pub use recording::Recording;
pub use report::{MixReport, On};
pub use together::{MixLaunch, Went, alone, together, together_learning};
