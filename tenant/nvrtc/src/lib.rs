//! `libnvrtc.so.13` and `.12`: NVIDIA's compiler at run time, in front of the real one, which compiles.
//!
//! gridmux executes PTX. A program that has NVRTC compile for a real architecture (`--gpu-architecture=sm_90`) gets
//! machine code from `nvrtcGetCUBIN`; here the real compiler is asked for the virtual architecture of the same number,
//! and what it gives as PTX is given back where machine code is asked for: the driver library loads either. All else
//! is passed on as it is, PTX, intermediate code for link-time optimisation and for OptiX among it: the compiler gives
//! the same for both kinds of architecture.
//!
//! The real compiler is the file in whose place the loader opened this library (`real.rs`, and the room `search`).
//!
//! Rules: what a program passes is believed as far as the C declaration asks for it; no panic leaves the library. It
//! knows nothing of the service or of the driver library. Source: `nvrtc.h` of CUDA 13.5 and 12.9.

#![allow(
    clippy::disallowed_types,
    reason = "this room does not know the mediator, whose dispatcher never runs this code"
)]

#[macro_use]
mod functions;

pub mod api;
pub mod compile;
pub mod options;
pub mod real;
