//! Nodes that record an event, and nodes that wait for one, wherever it was recorded last when the graph is launched.

use super::{Behind, add};
use crate::api::driver_api;
use crate::border::Out;
use crate::event::{CUevent, Event};
use crate::graph::action::{Action, Kind, Launching, Refusal, Step, line};
use crate::graph::{CUgraph, CUgraphNode, Graph, Node};
use crate::status::CudaResult;
use std::sync::Arc;

driver_api! {
    needs Init;
    11010 cuGraphAddEventRecordNode(
        node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize, event: CUevent,
    ) => add_record;
    11010 cuGraphEventRecordNodeGetEvent(node: CUgraphNode, event: *mut CUevent) => get_record;
    11010 cuGraphEventRecordNodeSetEvent(node: CUgraphNode, event: CUevent) => set_record;
    11010 cuGraphAddEventWaitNode(
        node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize, event: CUevent,
    ) => add_wait;
    11010 cuGraphEventWaitNodeGetEvent(node: CUgraphNode, event: *mut CUevent) => get_wait;
    11010 cuGraphEventWaitNodeSetEvent(node: CUgraphNode, event: CUevent) => set_wait;
}

/// The parameters of a node that records (`CUDA_EVENT_RECORD_NODE_PARAMS`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct RecordParams {
    /// The event.
    pub event: CUevent,
    /// The context that it is recorded in; null for the event's.
    pub context: u64,
}

/// Recording an event.
#[derive(Debug)]
pub struct Record(pub Arc<Event>);

/// Waiting for an event.
#[derive(Debug)]
pub struct Wait(pub Arc<Event>);

impl Action for Record {
    fn kind(&self) -> Kind {
        Kind::EventRecord
    }

    fn prepare(self: Arc<Self>, _: &Launching) -> CudaResult<Option<Step>> {
        Ok(Some(Box::new(move |_, lane| {
            self.0.record_in(lane).map(Some)
        })))
    }

    fn accepts(&self, new: &dyn Action) -> Result<(), Refusal> {
        match new.as_a::<Self>() {
            Some(new) if new.0.context() == self.0.context() => Ok(()),
            _ => Err(Refusal::ParametersChanged),
        }
    }

    fn describe(&self, text: &mut String, handles: bool) {
        describe(&self.0, text, handles);
    }
}

impl Action for Wait {
    fn kind(&self) -> Kind {
        Kind::WaitEvent
    }

    fn prepare(self: Arc<Self>, _: &Launching) -> CudaResult<Option<Step>> {
        Ok(Some(Box::new(move |_, lane| match self.0.mark() {
            Some(mark) => lane.wait_mark(mark),
            None => Ok(None),
        })))
    }

    fn accepts(&self, _: &dyn Action) -> Result<(), Refusal> {
        Ok(())
    }

    fn describe(&self, text: &mut String, handles: bool) {
        describe(&self.0, text, handles);
    }
}

fn describe(event: &Event, text: &mut String, handles: bool) {
    if handles {
        line(text, "event", format_args!("{:?}", event.handle()));
    }
}

fn add_record(
    place: Out<CUgraphNode>,
    graph: Arc<Graph>,
    dependencies: *const CUgraphNode,
    count: usize,
    event: Arc<Event>,
) -> CudaResult {
    let behind = Behind::plain(dependencies, count);
    add(&place, &graph, behind, Arc::new(Record(event)))
}

fn add_wait(
    place: Out<CUgraphNode>,
    graph: Arc<Graph>,
    dependencies: *const CUgraphNode,
    count: usize,
    event: Arc<Event>,
) -> CudaResult {
    let behind = Behind::plain(dependencies, count);
    add(&place, &graph, behind, Arc::new(Wait(event)))
}

fn get_record(node: Arc<Node>, place: Out<CUevent>) -> CudaResult {
    place.set(node.action()?.of::<Record>()?.0.handle());
    Ok(())
}

fn get_wait(node: Arc<Node>, place: Out<CUevent>) -> CudaResult {
    place.set(node.action()?.of::<Wait>()?.0.handle());
    Ok(())
}

fn set_record(node: Arc<Node>, event: Arc<Event>) -> CudaResult {
    node.set_action(Arc::new(Record(event)))
}

fn set_wait(node: Arc<Node>, event: Arc<Event>) -> CudaResult {
    node.set_action(Arc::new(Wait(event)))
}
