//! Nodes that fill memory with one value: of the device, or of the host where the device reaches it.

use super::{Behind, add};
use crate::api::driver_api;
use crate::border::{In, Out};
use crate::context::CUcontext;
use crate::driver::Driver;
use crate::graph::action::{Action, Kind, Launching, Refusal, Step, line};
use crate::graph::calls::context_or_current;
use crate::graph::{CUgraph, CUgraphNode, Graph, Node};
use crate::memory::set::{Fill, Rows};
use crate::status::{CudaResult, Status};
use gridmux_tenant::Width;
use std::ffi::c_uint;
use std::sync::Arc;

driver_api! {
    needs Init;
    10000 cuGraphAddMemsetNode(
        node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        params: *const FillParams, context: CUcontext,
    ) => add_node;
    10000 cuGraphMemsetNodeGetParams(node: CUgraphNode, params: *mut FillParams) => get;
    10000 cuGraphMemsetNodeSetParams(node: CUgraphNode, params: *const FillParams) => set;
}

/// The parameters of a node (`CUDA_MEMSET_NODE_PARAMS`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FillParams {
    /// The first byte.
    pub to: u64,
    /// Bytes from row to row; unused if there is one.
    pub pitch: usize,
    /// The value.
    pub value: c_uint,
    /// Bytes of an element: 1, 2 or 4.
    pub element_bytes: c_uint,
    /// Elements of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// The parameters with the context (`CUDA_MEMSET_NODE_PARAMS_v2`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FillParams2 {
    /// The fill.
    pub fill: FillParams,
    /// The context that it belongs to; null for the current one.
    pub context: CUcontext,
}

/// Filling memory.
#[derive(Debug)]
pub struct FillMemory {
    params: FillParams,
    context: CUcontext,
}

impl FillMemory {
    /// Makes one of parameters.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: nothing, elements of another size, rows that overlap, or memory that is not there;
    /// [`Status::INVALID_CONTEXT`].
    pub fn new(params: FillParams, context: CUcontext) -> CudaResult<Arc<Self>> {
        let context = context_or_current(context)?;
        let fill = Self { params, context };
        if params.width == 0 || params.height == 0 {
            return Err(Status::INVALID_VALUE);
        }
        fill.resolve(Driver::get()?)?;
        Ok(Arc::new(fill))
    }

    /// Returns its parameters.
    #[must_use]
    pub fn params(&self) -> FillParams2 {
        FillParams2 {
            fill: self.params,
            context: self.context,
        }
    }

    /// Finds the memory.
    fn resolve(&self, driver: &Driver) -> CudaResult<Fill> {
        let params = &self.params;
        let (width, mask) = match params.element_bytes {
            1 => (Width::One, 0xff),
            2 => (Width::Two, 0xffff),
            4 => (Width::Four, u32::MAX),
            _ => return Err(Status::INVALID_VALUE),
        };
        let rows = Rows {
            to: params.to,
            pitch: if params.height == 1 { 0 } else { params.pitch },
            width: params.width,
            height: params.height,
        };
        Fill::new(driver, rows, params.value & mask, width)
    }
}

impl Action for FillMemory {
    fn kind(&self) -> Kind {
        Kind::Memset
    }

    fn prepare(self: Arc<Self>, launching: &Launching) -> CudaResult<Option<Step>> {
        let driver = launching.driver;
        let fill = self.resolve(driver)?;
        if fill.is_reached() {
            return Ok(Some(Box::new(move |_, lane| fill.submit(lane))));
        }
        driver.host_calls.ensure_worker(driver)?;
        Ok(Some(Box::new(move |site, lane| {
            let calls = &site.driver.host_calls;
            let rows = fill.host_rows();
            let work = Box::new(move || rows.fill());
            calls.hold_for(lane, site.context, work).map(Some)
        })))
    }

    /// Accepts other memory and values, and another shape of a fill of one row.
    fn accepts(&self, new: &dyn Action) -> Result<(), Refusal> {
        let new = new.as_a::<Self>().ok_or(Refusal::Error)?;
        let (old, params) = (&self.params, &new.params);
        let is_same = (old.element_bytes, old.width, old.height, old.pitch)
            == (
                params.element_bytes,
                params.width,
                params.height,
                params.pitch,
            );
        let may_change = old.height == 1 && params.height == 1;
        match (is_same || may_change) && self.context == new.context {
            true => Ok(()),
            false => Err(Refusal::ParametersChanged),
        }
    }

    fn describe(&self, text: &mut String, _: bool) {
        let params = &self.params;
        line(text, "to", format_args!("{:#x}", params.to));
        line(text, "value", params.value);
        line(text, "element bytes", params.element_bytes);
        line(text, "width", params.width);
        line(text, "height", params.height);
    }
}

fn add_node(
    place: Out<CUgraphNode>,
    graph: Arc<Graph>,
    dependencies: *const CUgraphNode,
    count: usize,
    In(params): In<FillParams>,
    context: CUcontext,
) -> CudaResult {
    let behind = Behind::plain(dependencies, count);
    add(&place, &graph, behind, FillMemory::new(params, context)?)
}

fn get(node: Arc<Node>, place: Out<FillParams>) -> CudaResult {
    place.set(node.action()?.of::<FillMemory>()?.params);
    Ok(())
}

fn set(node: Arc<Node>, In(params): In<FillParams>) -> CudaResult {
    let before = node.action()?.of::<FillMemory>()?;
    node.set_action(FillMemory::new(params, before.context)?)
}
