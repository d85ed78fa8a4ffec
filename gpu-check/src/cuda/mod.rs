//! CUDA's driver as this program sees it: the functions of a library that is opened at run time ([`api`]), and what
//! every part begins with, a context with memory, streams and events ([`session`]).
//!
//! Rule: a function that the library lacks is an error of the call, like any that the driver returns, so that a part
//! can say what is missing and go on.

pub mod api;
mod cubins;
mod error;
mod graph;
mod green;
mod kernel;
pub mod session;

pub use api::Api;
pub use cubins::Cubins;
pub use error::CudaError;
pub use graph::{Executable, Graph, KernelNodeParams, Node, USE_NODE_PRIORITY};
pub use green::{GreenContext, Resource, split_sms};
pub use kernel::{Function, LaunchConfig, Module, Shape};
pub use session::Session;
