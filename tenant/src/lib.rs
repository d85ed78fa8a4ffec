//! The tenant's side: a safe Rust client of the mediator.
//!
//! ```no_run
//! use gridmux_tenant::{Args, Gpu};
//!
//! # fn main() -> Result<(), gridmux_tenant::ClientError> {
//! let gpu = Gpu::connect("/run/gridmux/gridmux.sock")?;
//! let module = gpu.module(&std::fs::read("scale.ptx").expect("a PTX file"))?;
//! let kernel = module.kernel("scale")?;
//! let data = gpu.alloc(4096)?;
//! let stream = gpu.stream()?;
//! stream.copy_to(&data, 0, &[1; 4096])?;
//! stream.launch(&kernel, 4, 256, 0, &Args::new().buffer(&data).f32(2.0))?.wait()?;
//! let mut result = [0; 4096];
//! stream.copy_from(&data, 0, &mut result)?;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Gpu`] and everything made from it belong to one thread. Operations on a
//! [`Stream`] are executed in order; a launch and a copy to the device return
//! at once, and their failure shows at [`Event::wait`] or
//! [`Stream::synchronize`], with the mediator's own text.
//!
//! The room knows the channel and nothing of the mediator.

mod args;
mod buffer;
mod error;
mod event;
mod gpu;
mod link;
mod module;
mod pending;
mod shape;
mod staging;
mod stream;

pub use args::Args;
pub use buffer::Buffer;
pub use error::ClientError;
pub use event::{Event, Timing};
pub use gpu::Gpu;
pub use gridmux_channel::control::{DeviceFacts, KernelInfo, ParamInfo, Usage, Welcome};
pub use gridmux_channel::ring::CompletionStatus;
pub use module::{Kernel, Module};
pub use shape::{Block, Grid};
pub use stream::Stream;
