//! A graph as a drawing, in the language of Graphviz.

use super::action::Kind;
use super::{CUgraph, Graph};
use crate::api::driver_api;
use crate::status::{CudaResult, Status};
use std::ffi::{CStr, OsStr, c_char, c_uint};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

driver_api! {
    needs Init;
    11030 cuGraphDebugDotPrint(graph: CUgraph, path: *const c_char, flags: c_uint) => print;
}

/// Flags (`CUgraphDebugDot_flags`): everything, and handles; the others name the types of which parameters are written.
const VERBOSE: c_uint = 1;
const HANDLES: c_uint = 1 << 10;
/// All flags that there are.
const FLAGS: c_uint = (1 << 18) - 1;

/// Returns whether the parameters of a type are asked for.
fn wants(kind: Kind, flags: c_uint) -> bool {
    let own = match kind {
        Kind::Kernel => 1 << 2,
        Kind::Memcpy => 1 << 3,
        Kind::Memset => 1 << 4,
        Kind::Host => 1 << 5,
        Kind::WaitEvent | Kind::EventRecord => 1 << 6,
        Kind::MemAlloc => 1 << 11,
        Kind::MemFree => 1 << 12,
        Kind::Graph | Kind::Empty => 0,
    };
    flags & (own | VERBOSE) != 0
}

/// Returns the drawing.
fn draw(graph: &Graph, flags: c_uint) -> String {
    let mut text = String::from("digraph graph_ {\n");
    draw_nodes(graph, flags, &mut text);
    text.push_str("}\n");
    text
}

fn draw_nodes(graph: &Graph, flags: c_uint, text: &mut String) {
    let (nodes, edges) = {
        let body = graph.lock();
        let nodes: Vec<_> = body
            .topology
            .nodes()
            .map(|(id, place)| (id, place.clone()))
            .collect();
        (nodes, body.topology.edges().collect::<Vec<_>>())
    };
    let of = graph.id();
    // A string takes everything.
    let _ = writeln!(text, "subgraph cluster_{of} {{\nlabel=\"graph {of}\";");
    for (id, place) in &nodes {
        let kind = place.action.kind();
        let mut label = format!("{}\\n{}", id.0, kind.name());
        let handles = flags & (HANDLES | VERBOSE) != 0;
        if handles {
            let _ = write!(label, "\\nnode: {:?}", place.handle);
        }
        // Which kernel it is, and where memory is copied, is always written.
        if wants(kind, flags) || matches!(kind, Kind::Kernel | Kind::Memcpy) {
            place.action.describe(&mut label, handles);
        }
        let label = label.replace('"', "'");
        let _ = writeln!(
            text,
            "\"graph_{of}_node_{}\" [shape=box label=\"{label}\"];",
            id.0
        );
        if let Some(child) = place.action.child() {
            draw_nodes(child, flags, text);
        }
    }
    for edge in edges {
        let (from, to) = (edge.from.0, edge.to.0);
        let _ = writeln!(
            text,
            "\"graph_{of}_node_{from}\" -> \"graph_{of}_node_{to}\";"
        );
    }
    text.push_str("}\n");
}

fn print(graph: Arc<Graph>, path: &'static CStr, flags: c_uint) -> CudaResult {
    if flags & !FLAGS != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let path = OsStr::from_bytes(path.to_bytes());
    std::fs::write(path, draw(&graph, flags)).map_err(|_| Status::OPERATING_SYSTEM)
}
