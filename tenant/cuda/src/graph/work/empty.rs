//! Nodes that do nothing, at which others meet.

use super::{Behind, add};
use crate::api::driver_api;
use crate::border::Out;
use crate::graph::action::{Action, Kind, Launching, Refusal, Step};
use crate::graph::{CUgraph, CUgraphNode, Graph};
use crate::status::CudaResult;
use std::sync::Arc;

driver_api! {
    needs Init;
    10000 cuGraphAddEmptyNode(
        node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
    ) => add_node;
}

/// Nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Empty;

impl Action for Empty {
    fn kind(&self) -> Kind {
        Kind::Empty
    }

    fn prepare(self: Arc<Self>, _: &Launching) -> CudaResult<Option<Step>> {
        Ok(None)
    }

    fn accepts(&self, _: &dyn Action) -> Result<(), Refusal> {
        Ok(())
    }

    fn describe(&self, _: &mut String, _: bool) {}
}

fn add_node(
    place: Out<CUgraphNode>,
    graph: Arc<Graph>,
    dependencies: *const CUgraphNode,
    count: usize,
) -> CudaResult {
    add(
        &place,
        &graph,
        Behind::plain(dependencies, count),
        Arc::new(Empty),
    )
}
