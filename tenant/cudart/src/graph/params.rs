//! Nodes of any type, described by one structure that says which. Kernels and copies are translated; the parameters of
//! the other types are the driver's.

use super::nodes::{DriverKernel, KernelParams};
use crate::api::runtime_api;
use crate::border::Place;
use crate::copy::{Spatial, SpatialCopy};
use crate::current::ready;
use crate::driver::Driver;
use crate::status::CudaResult;
use std::ffi::{c_int, c_uint};

/// The parameters of a node of any type (`cudaGraphNodeParams`), and the driver's (`CUgraphNodeParams`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NodeParams {
    kind: c_uint,
    reserved: [c_uint; 3],
    of: AnyParams,
    end: u64,
}

/// The parameters of one type, as the number in front says.
#[repr(C)]
#[derive(Clone, Copy)]
union AnyParams {
    kernel: Kernel,
    driver_kernel: DriverKernel,
    copy: Copied<SpatialCopy>,
    driver_copy: Copied<Spatial>,
    words: [u64; 29],
}

const _: () = assert!(size_of::<NodeParams>() == 256);

/// A kernel (`cudaKernelNodeParamsV2`).
#[repr(C)]
#[derive(Clone, Copy)]
struct Kernel {
    launch: KernelParams,
    context: u64,
    named: c_int,
}

/// A copy of this API's (`cudaMemcpyNodeParams`) or of the driver's.
#[repr(C)]
#[derive(Clone, Copy)]
struct Copied<T: Copy> {
    flags: c_int,
    reserved: c_int,
    context: u64,
    copy: T,
}

/// Types of nodes that are translated.
const KERNEL: c_uint = 0;
const MEMCPY: c_uint = 1;

runtime_api! {
    #[cfg(cuda = "13")]
    cudaGraphAddNode(
        node: *mut u64, graph: u64, dependencies: *const u64, data: *const u64, count: usize,
        params: *mut NodeParams,
    ) => add;
    cudaGraphNodeSetParams(node: u64, params: *mut NodeParams) => set;
    cudaGraphNodeGetParams(node: u64, params: *mut NodeParams) => get;
    cudaGraphExecNodeSetParams(executable: u64, node: u64, params: *mut NodeParams) => update;
}

impl NodeParams {
    /// Returns the driver's parameters.
    fn translate(mut self, driver: &Driver) -> CudaResult<Self> {
        match self.kind {
            KERNEL => {
                // SAFETY: the program fills in the parameters of the type that it names; any bits are such numbers.
                let kernel = unsafe { self.of.kernel };
                self.of = AnyParams { words: [0; 29] };
                self.of.driver_kernel = kernel.launch.translate(driver, kernel.context)?;
            }
            MEMCPY => {
                // SAFETY: as above.
                let Copied {
                    flags,
                    reserved,
                    context,
                    copy,
                } = unsafe { self.of.copy };
                self.of = AnyParams { words: [0; 29] };
                self.of.driver_copy = Copied {
                    flags,
                    reserved,
                    context,
                    copy: copy.copy(driver)?,
                };
            }
            _ => {}
        }
        Ok(self)
    }

    /// Returns this API's parameters.
    fn untranslate(mut self) -> Self {
        match self.kind {
            KERNEL => {
                // SAFETY: the driver filled in the parameters of the type that it names.
                let kernel = unsafe { self.of.driver_kernel };
                self.of = AnyParams { words: [0; 29] };
                self.of.kernel = Kernel {
                    launch: KernelParams::of(&kernel),
                    context: kernel.context,
                    named: 0,
                };
            }
            MEMCPY => {
                // SAFETY: as above.
                let Copied {
                    flags,
                    reserved,
                    context,
                    copy,
                } = unsafe { self.of.driver_copy };
                self.of = AnyParams { words: [0; 29] };
                self.of.copy = Copied {
                    flags,
                    reserved,
                    context,
                    copy: SpatialCopy::of(&copy),
                };
            }
            _ => {}
        }
        self
    }
}

pub(super) fn add(
    node: Place<u64>,
    graph: u64,
    dependencies: Place<u64>,
    data: Place<u64>,
    count: usize,
    params: Place<NodeParams>,
) -> CudaResult {
    let driver = ready()?;
    let mut ours = params.get()?.translate(driver)?;
    let place = Place::to(&mut ours);
    driver.cuGraphAddNode_v2(node, graph, dependencies, data, count, place)?;
    // The address of an allocation was written.
    match ours.kind {
        KERNEL | MEMCPY => Ok(()),
        _ => params.set(ours),
    }
}

fn set(node: u64, params: Place<NodeParams>) -> CudaResult {
    let driver = ready()?;
    let mut ours = params.get()?.translate(driver)?;
    driver.cuGraphNodeSetParams(node, Place::to(&mut ours))
}

fn get(node: u64, params: Place<NodeParams>) -> CudaResult {
    let mut ours = NodeParams {
        kind: 0,
        reserved: [0; 3],
        of: AnyParams { words: [0; 29] },
        end: 0,
    };
    ready()?.cuGraphNodeGetParams(node, Place::to(&mut ours))?;
    params.set(ours.untranslate())
}

fn update(executable: u64, node: u64, params: Place<NodeParams>) -> CudaResult {
    let driver = ready()?;
    let mut ours = params.get()?.translate(driver)?;
    driver.cuGraphExecNodeSetParams(executable, node, Place::to(&mut ours))
}
