//! Slices as nodes of a graph that is launched again and again: what a node costs with unchanged and with changed
//! parameters against plain launches of the same slices, at which priority nodes run, whether branches of a graph and
//! two executables run side by side.
//!
//! Rules: a slice's blocks write stamps; graphs are built node by node, so that each node's handle is known; what is
//! compared is measured in turn in the same run. A driver without graphs is said to have none.
//!
//! It takes about 10 s on an H200; each question bounds its launches by number and their blocks by time.

mod cost;
mod order;

use super::Part;
use crate::cuda::{CudaError, Executable, Graph, Session};
use crate::kernels::Successor;
use crate::lab::Lab;
use crate::stamps::{Blocks, Stamper, Stamps};

pub(super) const PART: Part = Part {
    name: "graphs",
    about: "slices as nodes of a graph: cost, changed parameters, priorities, branches, two executables in turn",
    usual_s: 10,
    limit_s: 40,
    run,
};

/// Unit of times by the host's clock.
const WALL: &str = "us (wall)";

/// What the questions share.
struct GraphBench<'a> {
    cuda: &'a Session,
    stamper: Stamper<'a>,
    sms: u32,
}

/// An executable with the nodes of its graph, in the order in which they were added.
struct Made<'a> {
    executable: Executable<'a>,
    nodes: Vec<u64>,
    /// Held, because the nodes' handles are the graph's.
    _graph: Graph<'a>,
}

impl<'a> GraphBench<'a> {
    /// Makes a graph of slices whose stamps lie one behind the other: some branches, each of some slices.
    fn graph(
        &self,
        slice: Blocks,
        (branches, each): (u32, u32),
        stamps: &Stamps<'_>,
    ) -> Result<(Graph<'a>, Vec<u64>), CudaError> {
        let graph = Graph::new(self.cuda)?;
        let mut nodes: Vec<u64> = Vec::new();
        for branch in 0..branches {
            for n in 0..each {
                let out = stamps.at(u64::from((branch * each + n) * slice.count));
                let after = if n == 0 { None } else { nodes.last().copied() };
                nodes.push(graph.add(&self.stamper.node(slice, out), after.as_slice())?);
            }
        }
        Ok((graph, nodes))
    }

    /// Makes an executable of such a graph.
    fn make(
        &self,
        slice: Blocks,
        shape: (u32, u32),
        stamps: &Stamps<'_>,
    ) -> Result<Made<'a>, CudaError> {
        let (graph, nodes) = self.graph(slice, shape, stamps)?;
        Ok(Made {
            executable: graph.instantiate(0)?,
            nodes,
            _graph: graph,
        })
    }
}

fn run(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let cuda = lab.cuda;
    let offered = Graph::new(cuda);
    if lab.offered("graphs", offered)?.is_none() {
        return Ok(());
    }
    let bench = GraphBench {
        cuda,
        stamper: Stamper::new(cuda, 0, Successor::AtEnd)?,
        sms: cuda.sms()?,
    };
    lab.ask("cost of a node", |lab| cost::run(lab, &bench));
    lab.ask("two executables in turn", |lab| cost::in_turn(lab, &bench));
    lab.ask("priorities of nodes", |lab| order::priorities(lab, &bench));
    lab.ask("parallel branches", |lab| order::branches(lab, &bench));
    lab.ask("launches at once", |lab| order::at_once(lab, &bench));
    Ok(())
}
