//! Graphs: operations with an order, made once and launched many times.
//!
//! A **graph** is nodes and edges ([`topology`]); what a node does is its [`action`], of which there is one for each
//! type ([`work`]). An **executable graph** ([`executable`]) is a copy of one, in an order that its edges allow, which
//! launches go through on the stream that they name: each node is submitted as if the program had, so that limits,
//! policies and accounting see every operation. A graph is built by calls, or by **capture** of what a program submits
//! to streams ([`capture`]).
//!
//! Rules:
//!
//! - A node's handle names it as long as its graph has it. A graph inside a node, and one that is being captured, is
//!   not the program's to destroy.
//! - A graph has one lock. While it is held no other graph's is taken, nothing is submitted, and nothing that a node
//!   held is dropped.
//! - Graphs belong to no context; what their nodes name does.

pub mod action;
pub mod calls;
pub mod capture;
pub mod dot;
pub mod edges;
pub mod executable;
pub mod leftovers;
pub mod params;
pub mod topology;
pub mod update;
pub mod user_object;
pub mod work;

use crate::border;
use crate::driver::Driver;
use crate::registry::{Handle, Object, Registry};
use crate::status::{CudaResult, Status};
use action::{Action, Kind, check_edge};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use topology::{Edge, EdgeData, NodeId, Topology};
use user_object::References;

/// A graph as C holds it.
pub type CUgraph = Handle<Graph>;
/// A node as C holds it.
pub type CUgraphNode = Handle<Node>;

static GRAPHS: LazyLock<Registry<Graph>> = LazyLock::new(Registry::default);
static NODES: LazyLock<Registry<Node>> = LazyLock::new(Registry::default);

/// A graph.
#[derive(Debug)]
pub struct Graph {
    handle: CUgraph,
    /// A number that no other graph of the process has.
    id: u32,
    /// How many graphs it stands in, one in the other.
    level: AtomicU32,
    body: Mutex<Body>,
}

/// Who ends a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// The program.
    Program,
    /// The capture that makes it.
    Capture,
    /// The node that it stands in.
    Node,
    /// Nobody: it was ended, and gets nothing any more from threads that hold it still.
    Nobody,
}

/// What a graph consists of.
#[derive(Debug)]
pub struct Body {
    /// Nodes and edges.
    pub topology: Topology<Place>,
    /// Who ends it.
    pub holder: Holder,
    /// A capture adds to it.
    pub is_capturing: bool,
    /// Objects of the program's that live as long as the graph.
    pub users: Vec<References>,
    /// Shared with every executable graph made of it.
    pub instances: Arc<()>,
}

/// A node in its graph.
#[derive(Debug, Clone)]
pub struct Place {
    /// Its handle.
    pub handle: CUgraphNode,
    /// What it does.
    pub action: Arc<dyn Action>,
    /// The node that it was copied from with its graph.
    pub original: CUgraphNode,
}

/// What a node's handle names.
#[derive(Debug)]
pub struct Node {
    handle: CUgraphNode,
    /// The graph that has it.
    pub graph: Arc<Graph>,
    /// Its number there.
    pub id: NodeId,
}

impl Object for Graph {
    const KIND: u8 = 20;
    const UNKNOWN: Status = Status::INVALID_VALUE;

    fn registry(_: &Driver) -> &Registry<Self> {
        &GRAPHS
    }
}

impl Object for Node {
    const KIND: u8 = 21;
    const UNKNOWN: Status = Status::INVALID_VALUE;

    fn registry(_: &Driver) -> &Registry<Self> {
        &NODES
    }
}

/// Returns the node that a handle names.
///
/// # Errors
/// [`Status::INVALID_VALUE`].
pub fn node_of(handle: CUgraphNode) -> CudaResult<Arc<Node>> {
    NODES.get(handle)
}

/// Returns the `count` handles of an array of the program's, and what the edges carry.
///
/// # Safety
/// The arrays have that many values, unless they are null.
///
/// # Errors
/// [`Status::INVALID_VALUE`]: the handles' is null though some are announced.
pub unsafe fn read_nodes<'a>(
    nodes: *const CUgraphNode,
    data: *const EdgeData,
    count: usize,
) -> CudaResult<(&'a [CUgraphNode], Option<&'a [EdgeData]>)> {
    // SAFETY: the caller's promise.
    let nodes = unsafe { border::slice(nodes, count)? };
    let data = match data.is_null() {
        true => None,
        // SAFETY: as above.
        false => Some(unsafe { border::slice(data, count)? }),
    };
    Ok((nodes, data))
}

/// Returns a number that no other graph, executable or not, has.
pub fn new_id() -> u32 {
    static IDS: AtomicU32 = AtomicU32::new(1);
    // Relaxed: the number is all that counts.
    IDS.fetch_add(1, Ordering::Relaxed)
}

impl Node {
    /// Returns its handle.
    #[must_use]
    pub fn handle(&self) -> CUgraphNode {
        self.handle
    }

    /// Returns what it does.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: another thread destroyed it.
    pub fn action(&self) -> CudaResult<Arc<dyn Action>> {
        let body = self.graph.lock();
        let place = body.topology.get(self.id).ok_or(Self::UNKNOWN)?;
        Ok(Arc::clone(&place.action))
    }

    /// Lets it do something else of the same type.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: it is of another type; another thread destroyed it.
    pub fn set_action(&self, action: Arc<dyn Action>) -> CudaResult {
        let mut body = self.graph.lock();
        let place = body.topology.get_mut(self.id).ok_or(Self::UNKNOWN)?;
        if place.action.kind() != action.kind() {
            return Err(Status::INVALID_VALUE);
        }
        let before = std::mem::replace(&mut place.action, action);
        drop(body);
        if let Some(child) = before.child() {
            child.forget();
        }
        Ok(())
    }
}

impl Graph {
    /// Makes an empty graph.
    ///
    /// # Errors
    /// [`Status::OUT_OF_MEMORY`]: there are too many.
    pub fn new(holder: Holder) -> CudaResult<Arc<Self>> {
        GRAPHS.add(|handle| Self {
            handle,
            id: new_id(),
            level: AtomicU32::new(0),
            body: Mutex::new(Body {
                topology: Topology::default(),
                holder,
                is_capturing: false,
                users: Vec::new(),
                instances: Arc::default(),
            }),
        })
    }

    /// Returns its handle.
    #[must_use]
    pub fn handle(&self) -> CUgraph {
        self.handle
    }

    /// Returns its number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns how many graphs it stands in, one in the other.
    #[must_use]
    pub fn level(&self) -> u32 {
        // Relaxed: a bound for graphs that one thread nests; several may go a little beyond it.
        self.level.load(Ordering::Relaxed)
    }

    /// Notes how many graphs it stands in.
    pub fn set_level(&self, level: u32) {
        // Relaxed: as in `level`.
        self.level.store(level, Ordering::Relaxed);
    }

    /// Returns the graphs inside of its nodes.
    #[must_use]
    pub fn children(&self) -> Vec<Arc<Self>> {
        let body = self.lock();
        let nodes = body.topology.nodes();
        nodes
            .filter_map(|(_, place)| place.action.child().cloned())
            .collect()
    }

    /// Locks it.
    pub fn lock(&self) -> MutexGuard<'_, Body> {
        self.body.lock()
    }

    /// Returns the numbers of nodes that are named as dependencies, with what the edges carry.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: one is no node of this graph, is named twice, or has an edge that cannot be.
    pub fn dependencies(
        &self,
        nodes: &[CUgraphNode],
        data: Option<&[EdgeData]>,
    ) -> CudaResult<Vec<(NodeId, EdgeData)>> {
        let mut found = Vec::new();
        for (index, handle) in nodes.iter().enumerate() {
            let node = node_of(*handle)?;
            let is_new = found.iter().all(|(id, _)| *id != node.id);
            if node.graph.id != self.id || !is_new {
                return Err(Status::INVALID_VALUE);
            }
            let data = data.map_or(EdgeData::FULL, |data| data[index]);
            found.push((node.id, data));
        }
        Ok(found)
    }

    /// Adds a node that waits for others, and returns its handle.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: a dependency is gone, or carries what cannot be.
    pub fn add(
        self: &Arc<Self>,
        action: Arc<dyn Action>,
        dependencies: &[(NodeId, EdgeData)],
    ) -> CudaResult<Arc<Node>> {
        let mut body = self.lock();
        for (from, data) in dependencies {
            let from = body.topology.get(*from).ok_or(Node::UNKNOWN)?;
            check_edge(*data, from.action.kind(), action.kind())?;
        }
        body.place(self, action, CUgraphNode::NULL, dependencies)
    }

    /// Copies it, with the graphs inside of its nodes.
    ///
    /// # Errors
    /// [`Status::NOT_SUPPORTED`]: it has nodes that allocate or free memory; [`Status::INVALID_VALUE`]: it has a cycle.
    pub fn copied(&self, holder: Holder) -> CudaResult<Arc<Self>> {
        let (places, edges, users) = {
            let body = self.lock();
            body.topology.order().map_err(|_| Status::INVALID_VALUE)?;
            let places: Vec<(NodeId, Place)> = body
                .topology
                .nodes()
                .map(|(id, place)| (id, place.clone()))
                .collect();
            let edges: Vec<Edge> = body.topology.edges().collect();
            (places, edges, body.users.clone())
        };
        let copy = Self::new(holder)?;
        let filled = copy.fill(places, &edges, users);
        filled.inspect_err(|_| copy.forget())?;
        Ok(copy)
    }

    fn fill(
        self: &Arc<Self>,
        places: Vec<(NodeId, Place)>,
        edges: &[Edge],
        users: Vec<References>,
    ) -> CudaResult {
        let mut ids = HashMap::new();
        for (id, place) in places {
            let action = place.action.copied()?.unwrap_or(place.action);
            let node = self.lock().place(self, action, place.handle, &[])?;
            ids.insert(id, node.id);
        }
        let mut body = self.lock();
        for edge in edges {
            body.topology.connect(Edge {
                from: ids[&edge.from],
                to: ids[&edge.to],
                data: edge.data,
            });
        }
        body.users = users;
        Ok(())
    }

    /// Takes it from the program, with its nodes and the graphs inside of them: their handles name nothing any more.
    pub fn forget(&self) {
        let _ = GRAPHS.remove(self.handle);
        let mut body = self.lock();
        body.holder = Holder::Nobody;
        let topology = std::mem::take(&mut body.topology);
        let users = std::mem::take(&mut body.users);
        drop(body);
        for (_, place) in topology.nodes() {
            let _ = NODES.remove(place.handle);
            if let Some(child) = place.action.child() {
                child.forget();
            }
        }
        drop((topology, users));
    }
}

impl Body {
    /// Adds a node, whose dependencies must be there.
    fn place(
        &mut self,
        graph: &Arc<Graph>,
        action: Arc<dyn Action>,
        original: CUgraphNode,
        dependencies: &[(NodeId, EdgeData)],
    ) -> CudaResult<Arc<Node>> {
        self.check()?;
        // The lock is held, so that the number is the one that the node gets.
        let id = self.topology.upcoming();
        let node = NODES.add(|handle| Node {
            handle,
            graph: Arc::clone(graph),
            id,
        })?;
        self.topology.add(Place {
            handle: node.handle,
            action,
            original,
        });
        for (from, data) in dependencies {
            self.topology.connect(Edge {
                from: *from,
                to: id,
                data: *data,
            });
        }
        Ok(node)
    }

    /// Succeeds while it was not ended.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`].
    pub fn check(&self) -> CudaResult {
        match self.holder {
            Holder::Nobody => Err(Graph::UNKNOWN),
            _ => Ok(()),
        }
    }

    /// Returns whether it has nodes that allocate or free memory, for which more is forbidden.
    #[must_use]
    pub fn has_memory(&self) -> bool {
        let mut nodes = self.topology.nodes();
        nodes.any(|(_, place)| matches!(place.action.kind(), Kind::MemAlloc | Kind::MemFree))
    }

    /// Returns the handle of a node.
    #[must_use]
    pub fn handle_of(&self, id: NodeId) -> CUgraphNode {
        let place = self.topology.get(id);
        place.map_or(CUgraphNode::NULL, |place| place.handle)
    }
}
