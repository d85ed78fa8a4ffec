//! The tasks, one file each.

pub mod audit;
pub mod bench;
pub mod ci;
pub mod coverage;
pub mod deb;
pub mod demo;
pub mod deny;
pub mod fuzz;
pub mod gpu_check;
pub mod pictures;
pub mod ptx;
pub mod repro;
pub mod test;
pub mod tidy;
pub mod wheel;
