//! Measured figures of real cards, as the files of `hw-model/validation` hold them.
//!
//! [`read`] reads the files; [`schema`] is what they say, as types.

pub mod read;
pub mod schema;
