//! Edges: adding, removing and listing them, and the nodes of a graph.
//!
//! An edge may carry ports and a type, for kernels that begin before others have ended. Here every edge waits for the
//! whole node, which such programs allow; what an edge carries is kept and told. The functions of before CUDA 12.3
//! cannot tell it, and say so.

use super::action::check_edge;
use super::topology::{Edge, EdgeData, NodeId};
use super::{Body, CUgraph, CUgraphNode, Graph, Node, read_nodes};
use crate::api::driver_api;
use crate::border::{FromC, Out};
use crate::registry::Object;
use crate::status::{CudaResult, Status};
use std::sync::Arc;

driver_api! {
    needs Init;
    10000 cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) => all_nodes;
    10000 cuGraphGetRootNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) => root_nodes;
    10000 cuGraphGetEdges(graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, count: *mut usize)
        => plain_edges;
    12030 cuGraphGetEdges_v2(
        graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, data: *mut EdgeData, count: *mut usize,
    ) => all_edges;
    10000 cuGraphNodeGetDependencies(node: CUgraphNode, nodes: *mut CUgraphNode, count: *mut usize)
        => plain_dependencies;
    12030 cuGraphNodeGetDependencies_v2(
        node: CUgraphNode, nodes: *mut CUgraphNode, data: *mut EdgeData, count: *mut usize,
    ) => dependencies;
    10000 cuGraphNodeGetDependentNodes(node: CUgraphNode, nodes: *mut CUgraphNode, count: *mut usize)
        => plain_dependents;
    12030 cuGraphNodeGetDependentNodes_v2(
        node: CUgraphNode, nodes: *mut CUgraphNode, data: *mut EdgeData, count: *mut usize,
    ) => dependents;
    10000 cuGraphAddDependencies(graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize)
        => add_plain;
    12030 cuGraphAddDependencies_v2(
        graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, data: *const EdgeData, count: usize,
    ) => add;
    10000 cuGraphRemoveDependencies(graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize)
        => remove_plain;
    12030 cuGraphRemoveDependencies_v2(
        graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, data: *const EdgeData, count: usize,
    ) => remove;
}

impl FromC<*const EdgeData> for *const EdgeData {
    unsafe fn from_c(raw: Self) -> CudaResult<Self> {
        Ok(raw)
    }
}

/// Where a list is written that a program asks for: nowhere, if it asks for the length alone.
struct List<'a> {
    count: Out<usize>,
    /// Places for as many handles as the count says, one array or two.
    arrays: [Option<&'a Out<CUgraphNode>>; 2],
    data: Option<&'a Out<EdgeData>>,
}

impl List<'_> {
    /// Writes as many rows as there is room for, null where there are fewer, and how many were written or, without
    /// arrays, how many there are.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: there is room for none of some.
    fn write(&self, rows: &[([CUgraphNode; 2], EdgeData)]) -> CudaResult {
        if self.arrays.iter().all(Option::is_none) && self.data.is_none() {
            self.count.set(rows.len());
            return Ok(());
        }
        let room = self.count.get_at(0);
        if room == 0 && !rows.is_empty() {
            return Err(Status::INVALID_VALUE);
        }
        let none = ([CUgraphNode::NULL; 2], EdgeData::FULL);
        let padded = rows.iter().chain(std::iter::repeat(&none)).take(room);
        for (index, (nodes, data)) in padded.enumerate() {
            for (array, node) in self.arrays.iter().zip(nodes) {
                if let Some(array) = array {
                    array.set_at(index, *node);
                }
            }
            if let Some(places) = self.data {
                places.set_at(index, *data);
            }
        }
        self.count.set(rows.len().min(room));
        Ok(())
    }
}

fn list_nodes(
    body: &Body,
    ids: impl Iterator<Item = NodeId>,
    places: Option<&Out<CUgraphNode>>,
    count: Out<usize>,
) -> CudaResult {
    let rows: Vec<_> = ids
        .map(|id| ([body.handle_of(id), CUgraphNode::NULL], EdgeData::FULL))
        .collect();
    let list = List {
        count,
        arrays: [places, None],
        data: None,
    };
    list.write(&rows)
}

fn all_nodes(graph: Arc<Graph>, places: Option<Out<CUgraphNode>>, count: Out<usize>) -> CudaResult {
    let body = graph.lock();
    let ids = body.topology.nodes().map(|(id, _)| id);
    list_nodes(&body, ids, places.as_ref(), count)
}

fn root_nodes(
    graph: Arc<Graph>,
    places: Option<Out<CUgraphNode>>,
    count: Out<usize>,
) -> CudaResult {
    let body = graph.lock();
    list_nodes(&body, body.topology.roots(), places.as_ref(), count)
}

/// What a program asks of edges, and whether it can be told what they carry.
#[derive(Clone, Copy)]
enum Told<'a> {
    Plain,
    Data(Option<&'a Out<EdgeData>>),
}

impl<'a> Told<'a> {
    /// Returns where what edges carry is written.
    ///
    /// # Errors
    /// [`Status::LOSSY_QUERY`]: there is no place for it, and one carries something.
    fn place(
        self,
        wants_list: bool,
        rows: &[([CUgraphNode; 2], EdgeData)],
    ) -> CudaResult<Option<&'a Out<EdgeData>>> {
        let place = match self {
            Told::Plain => None,
            Told::Data(place) => place,
        };
        let carries = rows.iter().any(|(_, data)| *data != EdgeData::FULL);
        match place.is_none() && wants_list && carries {
            true => Err(Status::LOSSY_QUERY),
            false => Ok(place),
        }
    }
}

fn write_edges(
    graph: &Graph,
    from: Option<&Out<CUgraphNode>>,
    to: Option<&Out<CUgraphNode>>,
    told: Told<'_>,
    count: Out<usize>,
) -> CudaResult {
    if from.is_some() != to.is_some() {
        return Err(Status::INVALID_VALUE);
    }
    let body = graph.lock();
    let edges = body.topology.edges();
    let rows: Vec<_> = edges
        .map(|edge| {
            let ends = [body.handle_of(edge.from), body.handle_of(edge.to)];
            (ends, edge.data)
        })
        .collect();
    let data = told.place(from.is_some(), &rows)?;
    let list = List {
        count,
        arrays: [from, to],
        data,
    };
    list.write(&rows)
}

fn plain_edges(
    graph: Arc<Graph>,
    from: Option<Out<CUgraphNode>>,
    to: Option<Out<CUgraphNode>>,
    count: Out<usize>,
) -> CudaResult {
    write_edges(&graph, from.as_ref(), to.as_ref(), Told::Plain, count)
}

fn all_edges(
    graph: Arc<Graph>,
    from: Option<Out<CUgraphNode>>,
    to: Option<Out<CUgraphNode>>,
    data: Option<Out<EdgeData>>,
    count: Out<usize>,
) -> CudaResult {
    let told = Told::Data(data.as_ref());
    write_edges(&graph, from.as_ref(), to.as_ref(), told, count)
}

fn write_neighbours(
    node: &Node,
    of: impl Fn(&Body) -> Vec<(NodeId, EdgeData)>,
    places: Option<&Out<CUgraphNode>>,
    told: Told<'_>,
    count: Out<usize>,
) -> CudaResult {
    let body = node.graph.lock();
    body.topology
        .get(node.id)
        .ok_or(<Node as Object>::UNKNOWN)?;
    let rows: Vec<_> = of(&body)
        .into_iter()
        .map(|(id, data)| ([body.handle_of(id), CUgraphNode::NULL], data))
        .collect();
    let data = told.place(places.is_some(), &rows)?;
    let list = List {
        count,
        arrays: [places, None],
        data,
    };
    list.write(&rows)
}

fn plain_dependencies(
    node: Arc<Node>,
    places: Option<Out<CUgraphNode>>,
    count: Out<usize>,
) -> CudaResult {
    let of = |body: &Body| body.topology.dependencies(node.id).to_vec();
    write_neighbours(&node, of, places.as_ref(), Told::Plain, count)
}

fn dependencies(
    node: Arc<Node>,
    places: Option<Out<CUgraphNode>>,
    data: Option<Out<EdgeData>>,
    count: Out<usize>,
) -> CudaResult {
    let of = |body: &Body| body.topology.dependencies(node.id).to_vec();
    write_neighbours(&node, of, places.as_ref(), Told::Data(data.as_ref()), count)
}

fn plain_dependents(
    node: Arc<Node>,
    places: Option<Out<CUgraphNode>>,
    count: Out<usize>,
) -> CudaResult {
    let of = |body: &Body| body.topology.dependents(node.id).to_vec();
    write_neighbours(&node, of, places.as_ref(), Told::Plain, count)
}

fn dependents(
    node: Arc<Node>,
    places: Option<Out<CUgraphNode>>,
    data: Option<Out<EdgeData>>,
    count: Out<usize>,
) -> CudaResult {
    let of = |body: &Body| body.topology.dependents(node.id).to_vec();
    write_neighbours(&node, of, places.as_ref(), Told::Data(data.as_ref()), count)
}

/// Returns the edges that a program names, of nodes of one graph.
fn named_edges(
    graph: &Graph,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    data: *const EdgeData,
    count: usize,
) -> CudaResult<Vec<Edge>> {
    // SAFETY: the program passes that many of each, as the C declaration asks.
    let (from, data) = unsafe { read_nodes(from, data, count)? };
    // SAFETY: as above.
    let (to, _) = unsafe { read_nodes(to, std::ptr::null(), count)? };
    let ends = from.iter().zip(to).enumerate();
    let edge = |(index, (from, to)): (usize, (&CUgraphNode, &CUgraphNode))| {
        let from = graph.dependencies(&[*from], None)?[0].0;
        let to = graph.dependencies(&[*to], None)?[0].0;
        let data = data.map_or(EdgeData::FULL, |data| data[index]);
        Ok(Edge { from, to, data })
    };
    ends.map(edge).collect()
}

fn add_plain(
    graph: Arc<Graph>,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    count: usize,
) -> CudaResult {
    add(graph, from, to, std::ptr::null(), count)
}

/// Adds edges, all of them or none.
fn add(
    graph: Arc<Graph>,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    data: *const EdgeData,
    count: usize,
) -> CudaResult {
    let edges = named_edges(&graph, from, to, data, count)?;
    let mut body = graph.lock();
    let mut added = Vec::new();
    for edge in edges {
        let kind = |id| body.topology.get(id).map(|place| place.action.kind());
        let ends = kind(edge.from).zip(kind(edge.to));
        let is_good = ends.is_some_and(|(from, to)| check_edge(edge.data, from, to).is_ok());
        if !is_good || !body.topology.connect(edge) {
            for edge in added {
                let Edge { from, to, .. } = edge;
                body.topology.disconnect(from, to);
            }
            return Err(Status::INVALID_VALUE);
        }
        added.push(edge);
    }
    Ok(())
}

fn remove_plain(
    graph: Arc<Graph>,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    count: usize,
) -> CudaResult {
    remove(graph, from, to, std::ptr::null(), count)
}

/// Removes edges, all of them or none.
fn remove(
    graph: Arc<Graph>,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    data: *const EdgeData,
    count: usize,
) -> CudaResult {
    let edges = named_edges(&graph, from, to, data, count)?;
    let mut body = graph.lock();
    if body.has_memory() {
        return Err(Status::NOT_SUPPORTED);
    }
    let is_there = |edge: &Edge| body.topology.edge(edge.from, edge.to) == Some(edge.data);
    if !edges.iter().all(is_there) {
        return Err(Status::INVALID_VALUE);
    }
    for edge in edges {
        body.topology.disconnect(edge.from, edge.to);
    }
    Ok(())
}
