//! Nodes that allocate memory, and nodes that give it back ([`crate::memory::graph`]).

use super::{Behind, add};
use crate::api::driver_api;
use crate::border::{self, Out};
use crate::context::current::current;
use crate::device::{self, CUdevice};
use crate::driver::Driver;
use crate::graph::action::{Action, Kind, Launching, Refusal, Step, line};
use crate::graph::{CUgraph, CUgraphNode, Graph, Node};
use crate::memory::CUdeviceptr;
use crate::memory::graph::{self, FreeShare, GraphMemory, Share};
use crate::memory::properties::{CUmemAccessDesc, CUmemPoolProps, PoolKind};
use crate::status::{CudaResult, Status};
use std::ffi::{c_uint, c_void};
use std::sync::Arc;

driver_api! {
    needs Init;
    11040 cuGraphAddMemAllocNode(
        node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        params: *mut AllocateParams,
    ) => add_allocate;
    11040 cuGraphMemAllocNodeGetParams(node: CUgraphNode, params: *mut AllocateParams) => get_allocate;
    11040 cuGraphAddMemFreeNode(
        node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize, address: CUdeviceptr,
    ) => add_free;
    11040 cuGraphMemFreeNodeGetParams(node: CUgraphNode, address: *mut CUdeviceptr) => get_free;
    11040 cuDeviceGraphMemTrim(device: CUdevice) => trim;
    11040 cuDeviceGetGraphMemAttribute(device: CUdevice, attribute: c_uint, value: *mut c_void) => get_attribute;
    11040 cuDeviceSetGraphMemAttribute(device: CUdevice, attribute: c_uint, value: *mut c_void) => set_attribute;
}

/// The parameters of a node that allocates (`CUDA_MEM_ALLOC_NODE_PARAMS`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct AllocateParams {
    /// The kind of memory.
    pub pool: CUmemPoolProps,
    /// Who is to have access.
    pub access: *const CUmemAccessDesc,
    /// How many they are.
    pub access_count: usize,
    /// The size in bytes.
    pub bytes: usize,
    /// Written: the address.
    pub address: CUdeviceptr,
}

/// Allocating memory, at an address that is known before.
#[derive(Debug)]
pub struct Allocate {
    params: AllocateParams,
    access: Box<[CUmemAccessDesc]>,
    share: Share,
}

// SAFETY: pointers in the parameters are the platform's own handles, which are not followed.
unsafe impl Send for Allocate {}
// SAFETY: as above.
unsafe impl Sync for Allocate {}

/// Giving memory back that a node, of this graph or another, allocates.
#[derive(Debug)]
pub struct Free(FreeShare);

impl Allocate {
    /// Makes one of parameters, and takes the memory.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: no bytes, or memory of no such kind; [`Status::NOT_SUPPORTED`]: memory of another
    /// kind than the device's own; [`Status::OUT_OF_MEMORY`].
    pub fn new(params: &AllocateParams) -> CudaResult<Arc<Self>> {
        let driver = Driver::get()?;
        if params.pool.kind()? != PoolKind::Device {
            return Err(Status::NOT_SUPPORTED);
        }
        // SAFETY: the program passes that many descriptions, which it lets alone until the function returns, as the C
        // declarations ask.
        let access = unsafe { border::slice(params.access, params.access_count)? };
        access
            .iter()
            .try_for_each(|access| access.check(PoolKind::Device))?;
        Self::of(driver, *params, access)
    }

    /// Makes one of a number of bytes of the device's memory.
    ///
    /// # Errors
    /// As [`Allocate::new`].
    pub fn captured(driver: &Driver, bytes: usize) -> CudaResult<Arc<Self>> {
        let params = AllocateParams {
            pool: CUmemPoolProps::of_device(),
            access: std::ptr::null(),
            access_count: 0,
            bytes,
            address: 0,
        };
        Self::of(driver, params, &[])
    }

    fn of(
        driver: &Driver,
        params: AllocateParams,
        access: &[CUmemAccessDesc],
    ) -> CudaResult<Arc<Self>> {
        let share = GraphMemory::take(driver, &*current()?, params.bytes)?;
        Ok(Arc::new(Self {
            params,
            access: access.into(),
            share,
        }))
    }

    /// Returns its parameters.
    #[must_use]
    pub fn params(&self) -> AllocateParams {
        AllocateParams {
            access: match self.access.is_empty() {
                true => std::ptr::null(),
                false => self.access.as_ptr(),
            },
            address: self.share.memory().address(),
            ..self.params
        }
    }

    /// Returns the address.
    #[must_use]
    pub fn address(&self) -> CUdeviceptr {
        self.share.memory().address()
    }
}

impl Free {
    /// Makes one of an address for a node of a graph.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: no node allocates it, or this graph or another gives it back already.
    pub fn new(graph: &Graph, address: CUdeviceptr) -> CudaResult<Arc<Self>> {
        let memory = graph::find(Driver::get()?, address)?;
        let actions: Vec<_> = {
            let body = graph.lock();
            let nodes = body.topology.nodes();
            nodes.map(|(_, place)| Arc::clone(&place.action)).collect()
        };
        let frees = |action: &Arc<dyn Action>| {
            let free = action.as_a::<Self>();
            free.is_some_and(|free| Arc::ptr_eq(free.0.memory(), &memory))
        };
        if actions.iter().any(frees) {
            return Err(Status::INVALID_VALUE);
        }
        let allocates = |action: &Arc<dyn Action>| {
            let allocate = action.as_a::<Allocate>();
            allocate.is_some_and(|allocate| Arc::ptr_eq(allocate.share.memory(), &memory))
        };
        let is_own = actions.iter().any(allocates);
        // Should the node not be added, the share goes with the action.
        Ok(Arc::new(Self(memory.share_free(is_own)?)))
    }

    /// Returns the address.
    #[must_use]
    pub fn address(&self) -> CUdeviceptr {
        self.0.memory().address()
    }
}

impl Action for Allocate {
    fn kind(&self) -> Kind {
        Kind::MemAlloc
    }

    fn copied(&self) -> CudaResult<Option<Arc<dyn Action>>> {
        Err(Status::NOT_SUPPORTED)
    }

    fn prepare(self: Arc<Self>, launching: &Launching) -> CudaResult<Option<Step>> {
        if !launching.frees_first && self.share.memory().is_allocated() {
            return Err(Status::INVALID_VALUE);
        }
        Ok(Some(Box::new(move |_, _| {
            self.share.memory().set_allocated(true);
            Ok(None)
        })))
    }

    fn accepts(&self, new: &dyn Action) -> Result<(), Refusal> {
        let new = new.as_a::<Self>().ok_or(Refusal::Error)?;
        match Arc::ptr_eq(self.share.memory(), new.share.memory()) {
            true => Ok(()),
            false => Err(Refusal::NotSupported),
        }
    }

    fn describe(&self, text: &mut String, _: bool) {
        line(text, "bytes", self.params.bytes);
        line(text, "address", format_args!("{:#x}", self.address()));
    }
}

impl Action for Free {
    fn kind(&self) -> Kind {
        Kind::MemFree
    }

    fn copied(&self) -> CudaResult<Option<Arc<dyn Action>>> {
        Err(Status::NOT_SUPPORTED)
    }

    fn prepare(self: Arc<Self>, _: &Launching) -> CudaResult<Option<Step>> {
        Ok(Some(Box::new(move |_, _| {
            self.0.memory().set_allocated(false);
            Ok(None)
        })))
    }

    fn accepts(&self, new: &dyn Action) -> Result<(), Refusal> {
        match new.as_a::<Self>() {
            Some(new) if Arc::ptr_eq(self.0.memory(), new.0.memory()) => Ok(()),
            _ => Err(Refusal::NotSupported),
        }
    }

    fn describe(&self, text: &mut String, _: bool) {
        line(text, "address", format_args!("{:#x}", self.address()));
    }
}

fn add_allocate(
    place: Out<CUgraphNode>,
    graph: Arc<Graph>,
    dependencies: *const CUgraphNode,
    count: usize,
    params: Out<AllocateParams>,
) -> CudaResult {
    let mut asked = params.get_at(0);
    let action = Allocate::new(&asked)?;
    asked.address = action.address();
    add(&place, &graph, Behind::plain(dependencies, count), action)?;
    params.set(asked);
    Ok(())
}

fn get_allocate(node: Arc<Node>, place: Out<AllocateParams>) -> CudaResult {
    place.set(node.action()?.of::<Allocate>()?.params());
    Ok(())
}

fn add_free(
    place: Out<CUgraphNode>,
    graph: Arc<Graph>,
    dependencies: *const CUgraphNode,
    count: usize,
    address: CUdeviceptr,
) -> CudaResult {
    let action = Free::new(&graph, address)?;
    add(&place, &graph, Behind::plain(dependencies, count), action)
}

fn get_free(node: Arc<Node>, place: Out<CUdeviceptr>) -> CudaResult {
    place.set(node.action()?.of::<Free>()?.address());
    Ok(())
}

fn trim(device: CUdevice) -> CudaResult {
    graph::trim(device::check(device)?);
    Ok(())
}

/// Numbers of the attributes (`CUgraphMem_attribute`): what is used and the most of it, what is reserved and the most
/// of it. What graphs have is reserved as long as it is theirs, so that the two are one.
const USED_NOW: c_uint = 0;
const USED_MOST: c_uint = 1;
const RESERVED_NOW: c_uint = 2;
const RESERVED_MOST: c_uint = 3;

fn get_attribute(device: CUdevice, attribute: c_uint, value: border::AnyOut) -> CudaResult {
    device::check(device)?;
    let figure = match attribute {
        USED_NOW | RESERVED_NOW => graph::bytes_now(),
        USED_MOST => graph::bytes_most(0),
        RESERVED_MOST => graph::bytes_most(1),
        _ => return Err(Status::INVALID_VALUE),
    };
    value.of::<u64>()?.set(figure);
    Ok(())
}

/// Resets a high-water mark, which can only be set to zero.
fn set_attribute(device: CUdevice, attribute: c_uint, value: border::AnyOut) -> CudaResult {
    device::check(device)?;
    let mark = match attribute {
        USED_MOST => 0,
        RESERVED_MOST => 1,
        _ => return Err(Status::INVALID_VALUE),
    };
    if value.of::<u64>()?.get_at(0) != 0 {
        return Err(Status::INVALID_VALUE);
    }
    graph::reset_most(mark);
    Ok(())
}
