//! The shape of a graph: nodes in the order of their making, and edges between them.
//!
//! Rules: a node's number is used once in its graph. There is at most one edge from one node to another, and none from
//! a node to itself. A longer cycle may stand here; [`Topology::order`], which everything that executes or copies a
//! graph asks, refuses it.

use std::collections::{BTreeMap, BTreeSet};

/// The number of a node in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// What an edge carries (`CUgraphEdgeData`): ports and a type, all zero for a full dependency.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EdgeData {
    /// The port of the node that it comes from.
    pub from_port: u8,
    /// The port of the node that it leads to.
    pub to_port: u8,
    /// The type of the dependency.
    pub kind: u8,
    /// Zero.
    pub reserved: [u8; 5],
}

const _: () = assert!(size_of::<EdgeData>() == 8);

impl EdgeData {
    /// The dependency that waits for the whole node.
    pub const FULL: Self = Self {
        from_port: 0,
        to_port: 0,
        kind: 0,
        reserved: [0; 5],
    };
}

/// One edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The node that is waited for.
    pub from: NodeId,
    /// The node that waits.
    pub to: NodeId,
    /// What it carries.
    pub data: EdgeData,
}

/// Nodes, each with a `T`, and edges.
#[derive(Debug, Clone)]
pub struct Topology<T> {
    places: BTreeMap<NodeId, Place<T>>,
    next: u32,
}

#[derive(Debug, Clone)]
struct Place<T> {
    content: T,
    /// The nodes that it waits for, in the order in which the edges were made.
    from: Vec<(NodeId, EdgeData)>,
    /// The nodes that wait for it, likewise.
    to: Vec<(NodeId, EdgeData)>,
}

impl<T> Default for Topology<T> {
    fn default() -> Self {
        Self {
            places: BTreeMap::new(),
            next: 0,
        }
    }
}

impl<T> Topology<T> {
    /// Returns the number that the next node gets.
    #[must_use]
    pub fn upcoming(&self) -> NodeId {
        NodeId(self.next)
    }

    /// Adds a node without edges.
    pub fn add(&mut self, content: T) -> NodeId {
        let id = NodeId(self.next);
        self.next += 1;
        let place = Place {
            content,
            from: Vec::new(),
            to: Vec::new(),
        };
        self.places.insert(id, place);
        id
    }

    /// Adds an edge; false: an end is no node, both are one, or there is an edge already.
    pub fn connect(&mut self, edge: Edge) -> bool {
        if edge.from == edge.to || self.edge(edge.from, edge.to).is_some() {
            return false;
        }
        if !self.places.contains_key(&edge.from) {
            return false;
        }
        let Some(to) = self.places.get_mut(&edge.to) else {
            return false;
        };
        to.from.push((edge.from, edge.data));
        if let Some(from) = self.places.get_mut(&edge.from) {
            from.to.push((edge.to, edge.data));
        }
        true
    }

    /// Returns what the edge between two nodes carries.
    #[must_use]
    pub fn edge(&self, from: NodeId, to: NodeId) -> Option<EdgeData> {
        let waiting = &self.places.get(&to)?.from;
        let found = waiting.iter().find(|(id, _)| *id == from);
        found.map(|(_, data)| *data)
    }

    /// Removes the edge between two nodes, if there is one.
    pub fn disconnect(&mut self, from: NodeId, to: NodeId) {
        if let Some(place) = self.places.get_mut(&to) {
            place.from.retain(|(id, _)| *id != from);
        }
        if let Some(place) = self.places.get_mut(&from) {
            place.to.retain(|(id, _)| *id != to);
        }
    }

    /// Removes a node with its edges, and returns what it held.
    pub fn remove(&mut self, id: NodeId) -> Option<T> {
        let place = self.places.remove(&id)?;
        for (from, _) in &place.from {
            if let Some(other) = self.places.get_mut(from) {
                other.to.retain(|(to, _)| *to != id);
            }
        }
        for (to, _) in &place.to {
            if let Some(other) = self.places.get_mut(to) {
                other.from.retain(|(from, _)| *from != id);
            }
        }
        Some(place.content)
    }

    /// Returns what a node holds.
    #[must_use]
    pub fn get(&self, id: NodeId) -> Option<&T> {
        self.places.get(&id).map(|place| &place.content)
    }

    /// Returns what a node holds, to be changed.
    pub fn get_mut(&mut self, id: NodeId) -> Option<&mut T> {
        self.places.get_mut(&id).map(|place| &mut place.content)
    }

    /// Returns the nodes in the order of their making.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &T)> {
        self.places.iter().map(|(id, place)| (*id, &place.content))
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether there are no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the nodes that wait for none.
    pub fn roots(&self) -> impl Iterator<Item = NodeId> {
        let roots = self
            .places
            .iter()
            .filter(|(_, place)| place.from.is_empty());
        roots.map(|(id, _)| *id)
    }

    /// Returns all edges, by the node that they come from.
    pub fn edges(&self) -> impl Iterator<Item = Edge> {
        self.places.iter().flat_map(|(from, place)| {
            place.to.iter().map(|(to, data)| Edge {
                from: *from,
                to: *to,
                data: *data,
            })
        })
    }

    /// Returns the nodes that a node waits for.
    #[must_use]
    pub fn dependencies(&self, id: NodeId) -> &[(NodeId, EdgeData)] {
        self.places.get(&id).map_or(&[], |place| &place.from)
    }

    /// Returns the nodes that wait for a node.
    #[must_use]
    pub fn dependents(&self, id: NodeId) -> &[(NodeId, EdgeData)] {
        self.places.get(&id).map_or(&[], |place| &place.to)
    }

    /// Returns the nodes so that each stands behind all that it waits for, and else in the order of their making.
    ///
    /// # Errors
    /// A node of a cycle, or behind one.
    pub fn order(&self) -> Result<Vec<NodeId>, NodeId> {
        let mut waits: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut ready = BTreeSet::new();
        for (id, place) in &self.places {
            match place.from.len() {
                0 => drop(ready.insert(*id)),
                count => drop(waits.insert(*id, count)),
            }
        }
        let mut order = Vec::with_capacity(self.places.len());
        while let Some(id) = ready.pop_first() {
            order.push(id);
            for (to, _) in self.dependents(id) {
                let Some(left) = waits.get_mut(to) else {
                    continue;
                };
                *left -= 1;
                if *left == 0 {
                    waits.remove(to);
                    ready.insert(*to);
                }
            }
        }
        match waits.first_key_value() {
            None => Ok(order),
            Some((id, _)) => Err(*id),
        }
    }

    /// Returns the nodes that some of `ids` wait for, directly or through others, and these themselves.
    pub fn reached_from(&self, ids: impl IntoIterator<Item = NodeId>) -> BTreeSet<NodeId> {
        let mut seen = BTreeSet::new();
        let mut open: Vec<NodeId> = ids.into_iter().collect();
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                open.extend(self.dependencies(id).iter().map(|(from, _)| *from));
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::{Edge, EdgeData, NodeId, Topology};

    fn of(nodes: u32, edges: &[(u32, u32)]) -> Topology<u32> {
        let mut topology = Topology::default();
        for n in 0..nodes {
            assert_eq!(topology.add(n), NodeId(n));
        }
        for (from, to) in edges {
            assert!(topology.connect(edge(*from, *to)), "{from} to {to}");
        }
        topology
    }

    fn edge(from: u32, to: u32) -> Edge {
        Edge {
            from: NodeId(from),
            to: NodeId(to),
            data: EdgeData::FULL,
        }
    }

    fn numbers(ids: impl IntoIterator<Item = NodeId>) -> Vec<u32> {
        ids.into_iter().map(|id| id.0).collect()
    }

    #[test]
    fn a_node_stands_behind_all_that_it_waits_for() {
        let diamond = of(5, &[(3, 0), (3, 1), (0, 2), (1, 2)]);
        assert_eq!(numbers(diamond.order().unwrap()), [3, 0, 1, 2, 4]);
        assert_eq!(numbers(diamond.roots()), [3, 4]);
        assert_eq!(numbers(diamond.reached_from([NodeId(0)])), [0, 3]);
        assert_eq!(numbers(diamond.reached_from([NodeId(2)])), [0, 1, 2, 3]);
    }

    #[test]
    fn a_cycle_is_found() {
        let mut cycle = of(4, &[(0, 1), (1, 2), (2, 1), (2, 3)]);
        assert_eq!(cycle.order(), Err(NodeId(1)));
        cycle.disconnect(NodeId(2), NodeId(1));
        assert_eq!(numbers(cycle.order().unwrap()), [0, 1, 2, 3]);
    }

    #[test]
    fn edges_that_make_no_sense_are_refused() {
        let mut line = of(2, &[(0, 1)]);
        assert!(!line.connect(edge(0, 1)), "it is there");
        assert!(!line.connect(edge(1, 1)), "from a node to itself");
        assert!(
            !line.connect(edge(0, 2)) && !line.connect(edge(2, 0)),
            "no such node"
        );
        assert_eq!(line.edges().count(), 1);
    }

    #[test]
    fn a_node_goes_with_its_edges_and_its_number() {
        let mut line = of(3, &[(0, 1), (1, 2)]);
        assert_eq!(line.remove(NodeId(1)), Some(1));
        assert_eq!(line.remove(NodeId(1)), None);
        assert_eq!((line.len(), line.edges().count()), (2, 0));
        assert!(line.dependents(NodeId(0)).is_empty() && line.dependencies(NodeId(2)).is_empty());
        assert_eq!(line.add(9), NodeId(3));
    }
}
