//! Nodes that hold a graph, which is executed in their place.
//!
//! The graph is a copy of the one that the program names, or that one itself, if it gives it away; either way it
//! belongs to the node.

use super::{Behind, add};
use crate::api::driver_api;
use crate::border::Out;
use crate::graph::action::{Action, Kind, Launching, Refusal, Step, line};
use crate::graph::{CUgraph, CUgraphNode, Graph, Holder};
use crate::report;
use crate::status::{CudaResult, Status};
use std::ffi::c_int;
use std::sync::Arc;

driver_api! {
    needs Init;
    10000 cuGraphAddChildGraphNode(
        node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize, child: CUgraph,
    ) => add_node;
}

/// The parameters of a node (`CUDA_CHILD_GRAPH_NODE_PARAMS`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ChildParams {
    /// The graph.
    pub graph: CUgraph,
    /// Whether the node gets a copy (0) or the graph (1).
    pub ownership: c_int,
}

/// The graph is copied.
pub const COPIED: c_int = 0;
/// The graph is given to the node.
pub const MOVED: c_int = 1;

/// Executing a graph.
#[derive(Debug)]
pub struct Child(Arc<Graph>);

/// Graphs inside of graphs are at most so many levels deep, which bounds what is done level by level.
const MOST_LEVELS: u32 = 64;

impl Child {
    /// Makes one of a graph for a node in `parent`.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: the graph is `parent` or holds it, is given away and not the program's, or has a
    /// cycle; [`Status::NOT_SUPPORTED`]: it is copied and has nodes that allocate or free memory; too many levels.
    pub fn new(parent: &Graph, graph: &Arc<Graph>, ownership: c_int) -> CudaResult<Arc<Self>> {
        if holds(graph, parent.id()) {
            return Err(Status::INVALID_VALUE);
        }
        match ownership {
            COPIED => Self::of(parent, graph.copied(Holder::Node)?),
            MOVED => {
                let mut body = graph.lock();
                if body.holder != Holder::Program || body.is_capturing {
                    return Err(Status::INVALID_VALUE);
                }
                body.holder = Holder::Node;
                drop(body);
                let moved = Self::of(parent, Arc::clone(graph));
                moved.inspect_err(|_| graph.lock().holder = Holder::Program)
            }
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// Makes one of a graph that nobody else has.
    ///
    /// # Errors
    /// [`Status::NOT_SUPPORTED`]: too many levels.
    pub fn of(parent: &Graph, graph: Arc<Graph>) -> CudaResult<Arc<Self>> {
        let level = parent.level() + 1;
        if level + height(&graph) > MOST_LEVELS {
            report::refused(&format!(
                "graphs inside of graphs are at most {MOST_LEVELS} levels deep"
            ));
            return Err(Status::NOT_SUPPORTED);
        }
        settle(&graph, level);
        Ok(Arc::new(Self(graph)))
    }

    /// Returns the graph.
    #[must_use]
    pub fn graph(&self) -> &Arc<Graph> {
        &self.0
    }
}

/// Returns whether a graph is the one of that number, or one inside of it is.
fn holds(graph: &Graph, id: u32) -> bool {
    graph.id() == id || graph.children().iter().any(|child| holds(child, id))
}

/// Returns how many levels of graphs are inside of a graph.
fn height(graph: &Graph) -> u32 {
    let heights = graph.children().into_iter().map(|child| 1 + height(&child));
    heights.max().unwrap_or(0)
}

/// Notes at which level a graph and those inside of it stand.
fn settle(graph: &Graph, level: u32) {
    graph.set_level(level);
    for child in graph.children() {
        settle(&child, level + 1);
    }
}

impl Action for Child {
    fn kind(&self) -> Kind {
        Kind::Graph
    }

    fn copied(&self) -> CudaResult<Option<Arc<dyn Action>>> {
        let copy = self.0.copied(Holder::Node)?;
        copy.set_level(self.0.level());
        Ok(Some(Arc::new(Self(copy))))
    }

    /// Prepares nothing: an executable graph has the nodes of the graph inside.
    fn prepare(self: Arc<Self>, _: &Launching) -> CudaResult<Option<Step>> {
        Ok(None)
    }

    fn accepts(&self, _: &dyn Action) -> Result<(), Refusal> {
        Ok(())
    }

    fn child(&self) -> Option<&Arc<Graph>> {
        Some(&self.0)
    }

    fn describe(&self, text: &mut String, handles: bool) {
        line(text, "graph", self.0.id());
        if handles {
            line(text, "handle", format_args!("{:?}", self.0.handle()));
        }
    }
}

fn add_node(
    place: Out<CUgraphNode>,
    graph: Arc<Graph>,
    dependencies: *const CUgraphNode,
    count: usize,
    child: Arc<Graph>,
) -> CudaResult {
    let action = Child::new(&graph, &child, COPIED)?;
    let behind = Behind::plain(dependencies, count);
    let added = add(&place, &graph, behind, Arc::<Child>::clone(&action));
    added.inspect_err(|_| action.0.forget())
}
