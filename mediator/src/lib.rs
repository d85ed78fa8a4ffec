//! The mediator: the service that owns the GPU and multiplexes tenants onto it.
//!
//! Two processes of one program: [`supervisor`] (privileged; identities, sockets, eBPF, restarts) and [`host`]
//! (unprivileged; the device, the dispatcher, the tenants' channels), which speak over [`link`]. Inside a host,
//! [`dispatch`] turns submissions into launches under the policy's plan and [`device`] is what it launches on.
//!
//! Rules: only `host::session` and `dispatch` see what a tenant wrote, and each checks before it uses. The dispatcher
//! thread never waits for the control thread, nor for a tenant.

#[cfg(not(loom))]
pub mod accounting;
#[cfg(not(loom))]
pub mod backoff;
mod bucket;
#[cfg(not(loom))]
pub mod compiler;
#[cfg(not(loom))]
pub mod config;
pub mod device;
pub mod dispatch;
#[cfg(not(loom))]
pub mod host;
#[cfg(not(loom))]
mod kept_file;
#[cfg(not(loom))]
pub mod link;
pub mod lock;
mod log_pipe;
pub mod page;
#[cfg(not(loom))]
pub mod sandbox;
#[cfg(not(loom))]
pub mod settings;
#[cfg(not(loom))]
pub mod supervisor;
#[cfg(not(loom))]
mod texts;
#[cfg(not(loom))]
pub mod trusted_path;
#[cfg(not(loom))]
pub mod waker;
pub mod wall_clock;
