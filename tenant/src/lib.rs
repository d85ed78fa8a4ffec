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
//! A [`Gpu`] and everything made from it may be shared by any number of
//! threads; a thread that waits keeps no other from submitting. Operations on
//! a [`Stream`] are executed in order; a launch and a copy to the device
//! return at once, and their failure shows at [`Event::wait`] or
//! [`Stream::synchronize`], with the mediator's own text. A child made by
//! `fork` must connect for itself: what it inherited gives
//! [`ClientError::Forked`].
//!
//! The room knows the channel and nothing of the mediator.

#![allow(
    clippy::disallowed_types,
    reason = "this room does not know the mediator, whose dispatcher never runs this code"
)]

mod activity;
mod adopted;
mod args;
mod buffer;
mod error;
mod event;
mod forked;
mod gpu;
mod hold;
mod host_map;
mod link;
mod module;
mod object;
mod origin;
mod paging;
mod pending;
mod pinned;
mod raw;
mod shape;
mod staging;
mod stream;
mod typed;

pub use adopted::Adopted;
pub use args::Args;
pub use buffer::Buffer;
pub use error::{ClientError, Lost};
pub use event::{Event, Timing};
pub use gpu::{ConnectOptions, Gpu, MemoryInfo, Printed};
pub use gridmux_channel::control::{
    ControlCode, DeviceFacts, GlobalInfo, KernelInfo, PagingRequest, ParamInfo, SmFacts, Usage,
    Welcome,
};
pub use gridmux_channel::ring::CompletionStatus;
pub use gridmux_channel::ring::Width;
pub use gridmux_channel::session::CallError;
pub use hold::Hold;
pub use module::{Kernel, Module};
pub use object::ObjectHandle;
pub use origin::Origin;
pub use pinned::{Managed, Pinned, SharedVariable};
pub use raw::Mark;
pub use shape::{Block, Grid};
pub use stream::Stream;
pub use typed::{Plain, TypedBuffer};

#[cfg(test)]
mod tests {
    fn assert_send_sync<T: Send + Sync>() {}

    #[test]
    fn threads_may_share_everything() {
        assert_send_sync::<crate::Gpu>();
        assert_send_sync::<crate::Buffer>();
        assert_send_sync::<crate::Module>();
        assert_send_sync::<crate::Kernel>();
        assert_send_sync::<crate::Stream>();
        assert_send_sync::<crate::Event>();
        assert_send_sync::<crate::TypedBuffer<f32>>();
    }
}
