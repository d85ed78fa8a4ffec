//! Memory: of the device, and of the host as far as the device copies to and from it directly.
//!
//! One space of addresses holds both, so that an address says what it is ([`map`]).

pub mod allocate;
pub mod boxes;
pub mod copy;
pub mod host;
pub mod map;
pub mod pointer;
pub mod pool;
pub mod set;

/// An address in device memory (`CUdeviceptr`).
pub type CUdeviceptr = u64;
