//! Nodes that copy memory.
//!
//! What stands in memory of the host that the device does not reach is read, or written, when the node is executed and
//! not when its graph is launched: through memory that the executable graph keeps for that, and by the thread that
//! calls host functions.

use super::{Behind, add};
use crate::api::driver_api;
use crate::border::{In, Out};
use crate::context::CUcontext;
use crate::driver::Driver;
use crate::graph::action::{Action, Kind, Launching, Refusal, Step, line};
use crate::graph::calls::context_or_current;
use crate::graph::{CUgraph, CUgraphNode, Graph, Node};
use crate::memory::boxes::CUDA_MEMCPY3D;
use crate::memory::copy::Route;
use crate::report;
use crate::status::CudaResult;
use gridmux_tenant::Pinned;
use parking_lot::Mutex;
use std::ffi::c_int;
use std::sync::Arc;

driver_api! {
    needs Init;
    10000 cuGraphAddMemcpyNode(
        node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        params: *const CUDA_MEMCPY3D, context: CUcontext,
    ) => add_node;
    10000 cuGraphMemcpyNodeGetParams(node: CUgraphNode, params: *mut CUDA_MEMCPY3D) => get;
    10000 cuGraphMemcpyNodeSetParams(node: CUgraphNode, params: *const CUDA_MEMCPY3D) => set;
}

/// The parameters of a node of any type (`CUDA_MEMCPY_NODE_PARAMS`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CopyParams {
    /// Zero.
    pub flags: c_int,
    /// Zero.
    pub reserved: c_int,
    /// The context that it belongs to; null for the current one.
    pub context: CUcontext,
    /// The copy.
    pub copy: CUDA_MEMCPY3D,
}

/// Copying memory.
#[derive(Debug)]
pub struct CopyMemory {
    copy: CUDA_MEMCPY3D,
    context: CUcontext,
    /// In an executable graph, the memory that copies from and to the host's go through.
    staging: Mutex<Option<Arc<Staging>>>,
}

/// Memory that the launches of an executable graph copy through. The graph and its nodes live until its last launch has
/// ended ([`crate::graph::leftovers`]), so that nothing uses the memory when it goes.
#[derive(Debug)]
struct Staging(Pinned);

impl Drop for Staging {
    fn drop(&mut self) {
        // Giving it back would wait for all that the process has submitted otherwise.
        self.0.nothing_uses_it();
    }
}

// SAFETY: pointers in the parameters are numbers to the library, which it resolves like any address of the program's.
unsafe impl Send for CopyMemory {}
// SAFETY: as above.
unsafe impl Sync for CopyMemory {}

impl CopyMemory {
    /// Makes one of parameters.
    ///
    /// # Errors
    /// [`crate::status::Status::INVALID_VALUE`]: rows that overlap, or memory that is not there;
    /// [`crate::status::Status::INVALID_CONTEXT`]; [`crate::status::Status::INVALID_HANDLE`]: an array that is not
    /// there.
    pub fn new(copy: CUDA_MEMCPY3D, context: CUcontext) -> CudaResult<Arc<Self>> {
        let context = context_or_current(context)?;
        copy.transfer(Driver::get()?)?;
        Ok(Arc::new(Self::of(copy, context)))
    }

    fn of(copy: CUDA_MEMCPY3D, context: CUcontext) -> Self {
        Self {
            copy,
            context,
            staging: Mutex::new(None),
        }
    }

    /// Returns its parameters.
    #[must_use]
    pub fn params(&self) -> CopyParams {
        CopyParams {
            flags: 0,
            reserved: 0,
            context: self.context,
            copy: self.copy,
        }
    }

    /// Returns memory for as many bytes as a copy has, kept from launch to launch.
    fn staging(&self, driver: &Driver, bytes: u64) -> CudaResult<Arc<Staging>> {
        let mut staging = self.staging.lock();
        // A node's copy never changes, so that there is memory for it once there is any.
        if let Some(known) = staging.as_ref() {
            return Ok(Arc::clone(known));
        }
        let made = driver
            .gpu
            .pinned(bytes)
            .inspect_err(report::out_of_memory)?;
        let made = Arc::new(Staging(made));
        *staging = Some(Arc::clone(&made));
        Ok(made)
    }
}

impl Action for CopyMemory {
    fn kind(&self) -> Kind {
        Kind::Memcpy
    }

    fn instantiated(&self) -> Option<Arc<dyn Action>> {
        Some(Arc::new(Self::of(self.copy, self.context)))
    }

    fn prepare(self: Arc<Self>, launching: &Launching) -> CudaResult<Option<Step>> {
        let driver = launching.driver;
        let Some(transfer) = self.copy.transfer(driver)? else {
            return Ok(None);
        };
        let route = transfer.route();
        if route != Route::Direct {
            driver.host_calls.ensure_worker(driver)?;
        }
        let staging = match route {
            Route::FromHost | Route::ToHost => Some(self.staging(driver, transfer.bytes()?)?),
            Route::Direct | Route::OnHost => None,
        };
        Ok(Some(Box::new(move |site, lane| {
            let calls = &site.driver.host_calls;
            let Some(staging) = staging else {
                if route == Route::Direct {
                    return transfer.submit_rows(lane);
                }
                let (to, from) = (transfer.to_rows(), transfer.from_rows());
                let work = Box::new(move || from.copy_to(&to));
                return calls.hold_for(lane, site.context, work).map(Some);
            };
            let dense = transfer.dense_rows(&staging.0);
            if route == Route::FromHost {
                let from = transfer.from_rows();
                calls.hold_for(lane, site.context, Box::new(move || from.copy_to(&dense)))?;
                return transfer.submit_from(lane, &staging.0);
            }
            transfer.submit_to(lane, &staging.0)?;
            let to = transfer.to_rows();
            let work = Box::new(move || dense.copy_to(&to));
            calls.hold_for(lane, site.context, work).map(Some)
        })))
    }

    /// Accepts another copy of one row between the same kinds of memory.
    fn accepts(&self, new: &dyn Action) -> Result<(), Refusal> {
        let new = new.as_a::<Self>().ok_or(Refusal::Error)?;
        let is_line = self.copy.is_line() && new.copy.is_line();
        let is_same = self.copy.has_form_of(&new.copy);
        match (is_line || is_same) && self.copy.kinds() == new.copy.kinds() {
            true => Ok(()),
            false => Err(Refusal::ParametersChanged),
        }
    }

    fn describe(&self, text: &mut String, _: bool) {
        let kinds = self.copy.kinds();
        line(text, "from, to (CUmemorytype)", format_args!("{kinds:?}"));
        let [width, height, depth] = self.copy.size();
        line(text, "bytes", format_args!("{width} x {height} x {depth}"));
    }
}

fn add_node(
    place: Out<CUgraphNode>,
    graph: Arc<Graph>,
    dependencies: *const CUgraphNode,
    count: usize,
    In(copy): In<CUDA_MEMCPY3D>,
    context: CUcontext,
) -> CudaResult {
    let behind = Behind::plain(dependencies, count);
    add(&place, &graph, behind, CopyMemory::new(copy, context)?)
}

fn get(node: Arc<Node>, place: Out<CUDA_MEMCPY3D>) -> CudaResult {
    place.set(node.action()?.of::<CopyMemory>()?.copy);
    Ok(())
}

fn set(node: Arc<Node>, In(copy): In<CUDA_MEMCPY3D>) -> CudaResult {
    let before = node.action()?.of::<CopyMemory>()?;
    node.set_action(CopyMemory::new(copy, before.context)?)
}
