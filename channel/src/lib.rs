//! The tenant channel: how a tenant and the mediator talk to each other.
//!
//! The control plane is the vfio-user protocol over a Unix stream socket
//! ([`wire`] is the codec, [`server`] the mediator's end, [`session`] the
//! tenant's end, [`control`] the mailbox in region 1). The data plane is
//! shared memory only ([`ring`]). [`memory`] judges the memory that a tenant
//! hands over.
//!
//! Rules of this room:
//!
//! - Everything a tenant wrote is hostile: it is copied once, the copy is
//!   checked, and the original is never read again.
//! - A tenant that misbehaves loses its own channel and nothing else: no
//!   function here panics, blocks or allocates without bound because of a peer.
//! - The room knows nothing about policies, devices or PTX.

#![cfg_attr(loom, allow(dead_code, reason = "the mapping is not built under loom"))]

pub mod control;
pub mod memory;
pub mod regions;
pub mod ring;
#[cfg(not(loom))]
pub mod server;
#[cfg(not(loom))]
pub mod session;
#[cfg(not(loom))]
mod socket;
pub mod wire;

pub use nix::errno::Errno;
