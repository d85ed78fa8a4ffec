//! What nodes do, a file for each type of node: its parameters as C passes them, the functions that add a node and get
//! and set its parameters, and what a launch submits.
//!
//! Every file is like the others: the parameters (`…Params`), the action, `add`, `get` and `set`. Parameters are
//! checked when they are set, as far as they stay as they are, and again by each launch.

pub mod child;
pub mod copy;
pub mod empty;
pub mod event;
pub mod fill;
pub mod host;
pub mod kernel;
pub mod memory;

use super::action::Action;
use super::topology::EdgeData;
use super::{CUgraphNode, Graph, read_nodes};
use crate::border::Out;
use crate::status::CudaResult;
use std::sync::Arc;

/// The dependencies of a new node as the program passes them.
#[derive(Debug, Clone, Copy)]
pub struct Behind {
    /// Handles.
    pub nodes: *const CUgraphNode,
    /// What the edges carry, or null.
    pub data: *const EdgeData,
    /// How many they are.
    pub count: usize,
}

impl Behind {
    /// Makes those that carry nothing.
    #[must_use]
    pub fn plain(nodes: *const CUgraphNode, count: usize) -> Self {
        let data = std::ptr::null();
        Self { nodes, data, count }
    }
}

/// Adds a node and writes its handle.
///
/// # Errors
/// As [`Graph::add`]; [`crate::status::Status::INVALID_VALUE`]: a dependency is no node of the graph.
pub(super) fn add(
    place: &Out<CUgraphNode>,
    graph: &Arc<Graph>,
    behind: Behind,
    action: Arc<dyn Action>,
) -> CudaResult {
    // SAFETY: the program passes that many dependencies, as the C declarations ask.
    let (nodes, data) = unsafe { read_nodes(behind.nodes, behind.data, behind.count)? };
    let dependencies = graph.dependencies(nodes, data)?;
    place.set(graph.add(action, &dependencies)?.handle());
    Ok(())
}
