//! Graphs' shapes: after each step nodes and edges are exactly those that the steps made, and the order of execution
//! is one, or there is a cycle.

use cuda::graph::topology::{Edge, EdgeData, NodeId, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// Numbers that cases name; few, so that they name the same ones again.
const NUMBERS: u8 = 12;

/// What the steps made.
#[derive(Default, Clone)]
struct Story {
    nodes: BTreeMap<NodeId, u8>,
    /// Edges by their ends, with what they carry.
    edges: BTreeMap<(NodeId, NodeId), EdgeData>,
}

impl Story {
    /// Returns the nodes that are in no cycle and behind none.
    fn executable(&self) -> BTreeSet<NodeId> {
        let mut left: BTreeSet<NodeId> = self.nodes.keys().copied().collect();
        let mut done = BTreeSet::new();
        loop {
            let waits = |node: &NodeId| {
                let mut edges = self.edges.keys();
                edges.any(|(from, to)| to == node && left.contains(from))
            };
            let ready: Vec<NodeId> = left.iter().copied().filter(|node| !waits(node)).collect();
            if ready.is_empty() {
                return done;
            }
            for node in ready {
                left.remove(&node);
                done.insert(node);
            }
        }
    }

    /// Returns a node and all that it waits for, directly or through others.
    fn behind(&self, node: NodeId) -> BTreeSet<NodeId> {
        let mut found = BTreeSet::from([node]);
        loop {
            let more = self.edges.keys().filter(|(_, to)| found.contains(to));
            let more: Vec<NodeId> = more.map(|(from, _)| *from).collect();
            let before = found.len();
            found.extend(more);
            if found.len() == before {
                return found;
            }
        }
    }
}

/// Checks that a graph is after each step what the story says.
pub fn graph(case: &[u8]) {
    let mut topology = Topology::default();
    let mut story = Story::default();
    let mut kept = (topology.clone(), story.clone());
    for step in case.chunks_exact(4).take(256) {
        let [from, to] = [step[1], step[2]].map(|number| NodeId(u32::from(number % NUMBERS)));
        let data = EdgeData {
            kind: step[3] & 1,
            ..EdgeData::FULL
        };
        match step[0] % 6 {
            0 | 1 => {
                let upcoming = topology.upcoming();
                assert_eq!(topology.add(step[1]), upcoming);
                assert!(
                    story.nodes.insert(upcoming, step[1]).is_none(),
                    "a number anew"
                );
            }
            2 => {
                let ends = story.nodes.contains_key(&from) && story.nodes.contains_key(&to);
                let is_new = ends && from != to && !story.edges.contains_key(&(from, to));
                assert_eq!(topology.connect(Edge { from, to, data }), is_new);
                if is_new {
                    story.edges.insert((from, to), data);
                }
            }
            3 => {
                topology.disconnect(from, to);
                story.edges.remove(&(from, to));
            }
            4 => {
                assert_eq!(topology.remove(from), story.nodes.remove(&from));
                story.edges.retain(|(a, b), _| *a != from && *b != from);
            }
            // A copy is kept, or goes on.
            _ if step[3] & 1 == 0 => kept = (topology.clone(), story.clone()),
            _ => {
                std::mem::swap(&mut kept.0, &mut topology);
                std::mem::swap(&mut kept.1, &mut story);
            }
        }
        compare(&topology, &story);
    }
    compare(&kept.0, &kept.1);
}

fn compare(topology: &Topology<u8>, story: &Story) {
    let nodes: Vec<(NodeId, u8)> = topology
        .nodes()
        .map(|(id, content)| (id, *content))
        .collect();
    assert_eq!(nodes, story.nodes.clone().into_iter().collect::<Vec<_>>());
    let edges = topology
        .edges()
        .map(|edge| ((edge.from, edge.to), edge.data));
    let mut edges: Vec<_> = edges.collect();
    edges.sort_by_key(|(ends, _)| *ends);
    assert_eq!(edges, story.edges.clone().into_iter().collect::<Vec<_>>());
    for id in story.nodes.keys().copied() {
        let before = topology.dependencies(id).iter().map(|(from, _)| *from);
        let due = story
            .edges
            .keys()
            .filter(|(_, to)| *to == id)
            .map(|(from, _)| *from);
        assert_eq!(before.collect::<BTreeSet<_>>(), due.collect());
        let after = topology.dependents(id).iter().map(|(to, _)| *to);
        let due = story
            .edges
            .keys()
            .filter(|(from, _)| *from == id)
            .map(|(_, to)| *to);
        assert_eq!(after.collect::<BTreeSet<_>>(), due.collect());
        assert_eq!(topology.reached_from([id]), story.behind(id));
    }
    let executable = story.executable();
    match topology.order() {
        Ok(order) => {
            assert_eq!(order.len(), story.nodes.len());
            let places = order.iter().enumerate();
            let place: BTreeMap<NodeId, usize> = places.map(|(place, id)| (*id, place)).collect();
            assert_eq!(place.len(), order.len(), "each once");
            for (from, to) in story.edges.keys() {
                assert!(place[from] < place[to], "{from:?} before {to:?}");
            }
        }
        Err(id) => assert!(!executable.contains(&id), "{id:?} can be executed"),
    }
    assert_eq!(
        topology.order().is_ok(),
        executable.len() == story.nodes.len()
    );
}
