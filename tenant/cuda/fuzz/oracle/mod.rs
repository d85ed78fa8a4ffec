//! What must hold for anything that a program hands to the library; a violation panics.
//!
//! One function for each fuzz target. The crate's tests run the same functions over every case that fuzzing has found,
//! so that a mended fault stays mended (`tenant/cuda/tests/cuda/found.rs`).

mod arguments;
mod graph;
mod image;
mod wrapper;

pub use arguments::arguments;
pub use graph::graph;
pub use image::image;
pub use wrapper::wrapper;
