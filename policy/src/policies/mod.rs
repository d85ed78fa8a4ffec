//! The policies, one file each.
//!
//! Each file names its policy, cites its source, and implements [`crate::Policy`]; what policies
//! share (accounting, partitioning) stands beside this folder, not in it.

pub mod accelos;
pub mod elastic;
pub mod even;
pub mod fifo;
pub mod gridmux;
pub mod kernelet;
pub mod ljf;
pub mod mpmax;
pub mod sjf;
pub mod smk;
pub mod smk_p;
pub mod smk_pw;
pub mod spatial;
pub mod srtf;
pub mod srtf_adaptive;
pub mod srtf_zero;
pub mod warped_slicer;
