//! Shapes of graphs.

use super::Values;
use cuda::graph::topology::{Edge, EdgeData, NodeId, Topology};
use std::collections::BTreeSet;

/// A graph as plain lists.
#[derive(Default)]
struct Lists {
    /// Each node that was ever made; what it holds, while it is there.
    nodes: Vec<Option<u8>>,
    /// The edges, in the order of their making.
    edges: Vec<(u32, u32, u8)>,
}

impl Lists {
    fn has(&self, id: u32) -> bool {
        self.get(id).is_some()
    }

    fn get(&self, id: u32) -> Option<u8> {
        *self.nodes.get(id as usize)?
    }

    fn ids(&self) -> impl Iterator<Item = u32> {
        (0..self.nodes.len() as u32).filter(|id| self.has(*id))
    }

    fn edge(&self, from: u32, to: u32) -> Option<u8> {
        let mut edges = self.edges.iter();
        let found = edges.find(|edge| (edge.0, edge.1) == (from, to));
        found.map(|edge| edge.2)
    }

    /// Returns whether a node waits for itself through others: no node of the rest could be the first.
    fn has_cycle(&self) -> bool {
        let mut left: BTreeSet<u32> = self.ids().collect();
        loop {
            let waits = |id: &u32| {
                let mut edges = self.edges.iter();
                edges.any(|(from, to, _)| to == id && left.contains(from))
            };
            let rest: BTreeSet<u32> = left.iter().copied().filter(waits).collect();
            if rest.len() == left.len() {
                return !left.is_empty();
            }
            left = rest;
        }
    }
}

fn carrying(port: u8) -> EdgeData {
    EdgeData {
        from_port: port,
        ..EdgeData::FULL
    }
}

/// Checks that nodes and edges come and go as in plain lists, and that the order has every node behind all that it
/// waits for.
pub(super) fn graph_shapes(values: &mut Values<'_>) {
    let mut topology = Topology::default();
    let mut lists = Lists::default();
    for _ in 0..values.below(96) {
        match values.byte() % 8 {
            0 | 1 => {
                let content = values.byte();
                let id = topology.upcoming();
                assert_eq!(topology.add(content), id);
                assert_eq!(id.0 as usize, lists.nodes.len());
                lists.nodes.push(Some(content));
            }
            2 => {
                let id = u32::from(values.byte() % 16);
                assert_eq!(topology.remove(NodeId(id)), lists.get(id));
                if lists.has(id) {
                    lists.nodes[id as usize] = None;
                    lists.edges.retain(|edge| edge.0 != id && edge.1 != id);
                }
            }
            3 => {
                let (from, to) = ends(values);
                topology.disconnect(NodeId(from), NodeId(to));
                lists.edges.retain(|edge| (edge.0, edge.1) != (from, to));
            }
            _ => {
                let (from, to) = ends(values);
                let port = values.byte();
                let is_new = from != to
                    && lists.has(from)
                    && lists.has(to)
                    && lists.edge(from, to).is_none();
                let edge = Edge {
                    from: NodeId(from),
                    to: NodeId(to),
                    data: carrying(port),
                };
                assert_eq!(topology.connect(edge), is_new);
                if is_new {
                    lists.edges.push((from, to, port));
                }
            }
        }
    }
    check_shape(&topology, &lists);
    check_order(&topology, &lists);
}

/// Reads two nodes, which may not be there.
fn ends(values: &mut Values<'_>) -> (u32, u32) {
    let both = values.byte();
    (u32::from(both % 16), u32::from(both / 16))
}

fn check_shape(topology: &Topology<u8>, lists: &Lists) {
    let nodes: Vec<_> = topology.nodes().map(|(id, held)| (id.0, *held)).collect();
    let expected: Vec<_> = lists
        .ids()
        .filter_map(|id| Some((id, lists.get(id)?)))
        .collect();
    assert_eq!(nodes, expected);
    assert_eq!(topology.len(), expected.len());
    assert_eq!(topology.is_empty(), expected.is_empty());

    let mut roots = Vec::new();
    let mut edges = Vec::new();
    for id in lists.ids() {
        let from = lists.edges.iter().filter(|edge| edge.1 == id);
        let from: Vec<_> = from
            .map(|edge| (NodeId(edge.0), carrying(edge.2)))
            .collect();
        assert_eq!(topology.dependencies(NodeId(id)), from);
        if from.is_empty() {
            roots.push(NodeId(id));
        }
        let to = lists.edges.iter().filter(|edge| edge.0 == id);
        let to: Vec<_> = to.map(|edge| (NodeId(edge.1), carrying(edge.2))).collect();
        assert_eq!(topology.dependents(NodeId(id)), to);
        edges.extend(to.into_iter().map(|(to, data)| (NodeId(id), to, data)));
    }
    assert_eq!(topology.roots().collect::<Vec<_>>(), roots);
    let found: Vec<_> = topology.edges().map(|e| (e.from, e.to, e.data)).collect();
    assert_eq!(found, edges);
    for (from, to, data) in edges {
        assert_eq!(topology.edge(from, to), Some(data));
    }
}

fn check_order(topology: &Topology<u8>, lists: &Lists) {
    let order = topology.order();
    assert_eq!(order.is_err(), lists.has_cycle());
    if let Ok(order) = order {
        let mut behind = BTreeSet::new();
        for id in order {
            for (from, _) in topology.dependencies(id) {
                assert!(behind.contains(from), "{id:?} stands before {from:?}");
            }
            assert!(behind.insert(id), "{id:?} stands twice");
        }
        assert_eq!(behind.len(), topology.len());
    }
    for id in lists.ids() {
        let mut reached = BTreeSet::from([id]);
        loop {
            let more = lists.edges.iter().filter(|edge| reached.contains(&edge.1));
            let more: BTreeSet<u32> = more.map(|edge| edge.0).collect();
            if more.is_subset(&reached) {
                break;
            }
            reached.extend(more);
        }
        let found = topology.reached_from([NodeId(id)]);
        assert!(found.into_iter().map(|id| id.0).eq(reached));
    }
}
