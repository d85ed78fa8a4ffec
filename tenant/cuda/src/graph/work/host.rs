//! Nodes that call a function of the program's on the host.

use super::{Behind, add};
use crate::api::driver_api;
use crate::border::{In, Out};
use crate::graph::action::{Action, Kind, Launching, Refusal, Step, line};
use crate::graph::{CUgraph, CUgraphNode, Graph, Node};
use crate::host_function::{Function, HostFunction};
use crate::status::{CudaResult, Status};
use std::ffi::{c_uint, c_void};
use std::sync::Arc;

driver_api! {
    needs Init;
    10000 cuGraphAddHostNode(
        node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        params: *const HostParams,
    ) => add_node;
    10000 cuGraphHostNodeGetParams(node: CUgraphNode, params: *mut HostParams) => get;
    10000 cuGraphHostNodeSetParams(node: CUgraphNode, params: *const HostParams) => set;
}

/// The parameters of a node (`CUDA_HOST_NODE_PARAMS`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct HostParams {
    /// The function.
    pub function: HostFunction,
    /// Its argument.
    pub data: *mut c_void,
}

/// The parameters with what came later (`CUDA_HOST_NODE_PARAMS_v2`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct HostParams2 {
    /// The function and its argument.
    pub call: HostParams,
    /// How the device waits for it, a hint.
    pub sync_mode: c_uint,
    /// The context that it belongs to; null for the current one.
    pub context: u64,
}

/// Calling a function.
#[derive(Debug)]
pub struct Host(HostParams, unsafe extern "C" fn(*mut c_void));

// SAFETY: the library does not follow the pointer; the program knows that its function runs on another thread.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl Host {
    /// Makes one of parameters.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: no function.
    pub fn new(params: HostParams) -> CudaResult<Arc<Self>> {
        let function = params.function.ok_or(Status::INVALID_VALUE)?;
        Ok(Arc::new(Self(params, function)))
    }

    /// Returns its parameters.
    #[must_use]
    pub fn params(&self) -> HostParams {
        self.0
    }
}

impl Action for Host {
    fn kind(&self) -> Kind {
        Kind::Host
    }

    fn prepare(self: Arc<Self>, launching: &Launching) -> CudaResult<Option<Step>> {
        let driver = launching.driver;
        driver.host_calls.ensure_worker(driver)?;
        let Self(params, function) = *self;
        let function = Function::host(function, params.data);
        Ok(Some(Box::new(move |site, lane| {
            let calls = &site.driver.host_calls;
            calls.hold(lane, site.context, function).map(Some)
        })))
    }

    fn accepts(&self, _: &dyn Action) -> Result<(), Refusal> {
        Ok(())
    }

    fn describe(&self, text: &mut String, handles: bool) {
        if handles {
            line(text, "function", format_args!("{:p}", self.1));
            line(text, "data", format_args!("{:p}", self.0.data));
        }
    }
}

fn add_node(
    place: Out<CUgraphNode>,
    graph: Arc<Graph>,
    dependencies: *const CUgraphNode,
    count: usize,
    In(params): In<HostParams>,
) -> CudaResult {
    let behind = Behind::plain(dependencies, count);
    add(&place, &graph, behind, Host::new(params)?)
}

fn get(node: Arc<Node>, place: Out<HostParams>) -> CudaResult {
    place.set(node.action()?.of::<Host>()?.0);
    Ok(())
}

fn set(node: Arc<Node>, In(params): In<HostParams>) -> CudaResult {
    node.set_action(Host::new(params)?)
}
