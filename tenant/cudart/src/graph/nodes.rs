//! Nodes that launch kernels, copy and fill memory, whose parameters are this API's: kernels are named by their stubs,
//! copies by a direction, and the context is the current one.

use crate::api::runtime_api;
use crate::border::Place;
use crate::copy::{Spatial, SpatialCopy};
use crate::current::ready;
use crate::driver::Driver;
use crate::launch::Dim3;
use crate::registration;
use crate::status::{CudaResult, Status};
use crate::symbol;
use std::ffi::{c_int, c_uint, c_void};

/// The parameters of a kernel node (`cudaKernelNodeParams`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct KernelParams {
    stub: *mut c_void,
    grid: Dim3,
    block: Dim3,
    shared_bytes: c_uint,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
}

/// The driver's (`CUDA_KERNEL_NODE_PARAMS_v2`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DriverKernel {
    pub(crate) function: u64,
    pub(crate) grid: Dim3,
    pub(crate) block: Dim3,
    pub(crate) shared_bytes: c_uint,
    pub(crate) arguments: *mut *mut c_void,
    pub(crate) extra: *mut *mut c_void,
    pub(crate) kernel: u64,
    pub(crate) context: u64,
}

runtime_api! {
    cudaGraphAddKernelNode(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *const KernelParams,
    ) => add_kernel;
    cudaGraphKernelNodeGetParams(node: u64, params: *mut KernelParams) => get_kernel;
    cudaGraphKernelNodeSetParams(node: u64, params: *const KernelParams) => set_kernel;
    cudaGraphExecKernelNodeSetParams(executable: u64, node: u64, params: *const KernelParams) => update_kernel;
    cudaGraphAddMemcpyNode(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, copy: *const SpatialCopy,
    ) => add_copy;
    cudaGraphMemcpyNodeGetParams(node: u64, copy: *mut SpatialCopy) => get_copy;
    cudaGraphMemcpyNodeSetParams(node: u64, copy: *const SpatialCopy) => set_copy;
    cudaGraphExecMemcpyNodeSetParams(executable: u64, node: u64, copy: *const SpatialCopy) => update_copy;
    cudaGraphAddMemcpyNode1D(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, to: u64, from: u64, bytes: usize,
        kind: c_int,
    ) => add_line;
    cudaGraphMemcpyNodeSetParams1D(node: u64, to: u64, from: u64, bytes: usize, kind: c_int) => set_line;
    cudaGraphExecMemcpyNodeSetParams1D(
        executable: u64, node: u64, to: u64, from: u64, bytes: usize, kind: c_int,
    ) => update_line;
    cudaGraphAddMemcpyNodeToSymbol(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, symbol: *const c_void, from: u64,
        bytes: usize, offset: usize, kind: c_int,
    ) => add_to_symbol;
    cudaGraphAddMemcpyNodeFromSymbol(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, to: u64, symbol: *const c_void,
        bytes: usize, offset: usize, kind: c_int,
    ) => add_from_symbol;
    cudaGraphMemcpyNodeSetParamsToSymbol(
        node: u64, symbol: *const c_void, from: u64, bytes: usize, offset: usize, kind: c_int,
    ) => set_to_symbol;
    cudaGraphMemcpyNodeSetParamsFromSymbol(
        node: u64, to: u64, symbol: *const c_void, bytes: usize, offset: usize, kind: c_int,
    ) => set_from_symbol;
    cudaGraphExecMemcpyNodeSetParamsToSymbol(
        executable: u64, node: u64, symbol: *const c_void, from: u64, bytes: usize, offset: usize, kind: c_int,
    ) => update_to_symbol;
    cudaGraphExecMemcpyNodeSetParamsFromSymbol(
        executable: u64, node: u64, to: u64, symbol: *const c_void, bytes: usize, offset: usize, kind: c_int,
    ) => update_from_symbol;
    cudaGraphAddMemsetNode(
        node: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *const c_void,
    ) => add_fill;
    cudaGraphMemsetNodeGetParams(node: u64, params: *mut c_void) => get_fill;
    cudaGraphMemsetNodeSetParams(node: u64, params: *const c_void) => set_fill;
    cudaGraphExecMemsetNodeSetParams(executable: u64, node: u64, params: *const c_void) => update_fill;
}

/// Returns the driver and the handle of the current context.
fn ready_in() -> CudaResult<(&'static Driver, u64)> {
    let driver = ready()?;
    let mut context = 0;
    driver.cuCtxGetCurrent(Place::to(&mut context))?;
    Ok((driver, context))
}

impl KernelParams {
    /// Returns the driver's parameters, in a context, or in the current one for null.
    ///
    /// # Errors
    /// As [`registration::kernel`].
    pub(super) fn translate(self, driver: &Driver, context: u64) -> CudaResult<DriverKernel> {
        Ok(DriverKernel {
            function: registration::kernel(driver, self.stub.addr())?,
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
            arguments: self.arguments,
            extra: self.extra,
            kernel: 0,
            context,
        })
    }

    /// Returns this API's parameters. Of a launch that was captured the driver tells a function and the library's
    /// kernel that it is of; stubs are known by the latter.
    pub(super) fn of(params: &DriverKernel) -> Self {
        let named = registration::stub(match params.kernel {
            0 => params.function,
            kernel => kernel,
        });
        Self {
            stub: std::ptr::with_exposed_provenance_mut(named),
            grid: params.grid,
            block: params.block,
            shared_bytes: params.shared_bytes,
            arguments: params.arguments,
            extra: params.extra,
        }
    }
}

impl DriverKernel {
    /// Returns parameters that say nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            function: 0,
            grid: Dim3::ONE,
            block: Dim3::ONE,
            shared_bytes: 0,
            arguments: std::ptr::null_mut(),
            extra: std::ptr::null_mut(),
            kernel: 0,
            context: 0,
        }
    }
}

/// Returns the code of this API for a kernel that the driver refuses.
fn of_kernel(status: Status) -> Status {
    match status {
        Status::INVALID_HANDLE => Status::INVALID_DEVICE_FUNCTION,
        status => status,
    }
}

fn add_kernel(
    node: Place<u64>,
    graph: u64,
    dependencies: Place<u64>,
    count: usize,
    params: Place<KernelParams>,
) -> CudaResult {
    let driver = ready()?;
    let mut params = params.get()?.translate(driver, 0)?;
    let params = Place::to(&mut params);
    let added = driver.cuGraphAddKernelNode_v2(node, graph, dependencies, count, params);
    added.map_err(of_kernel)
}

fn get_kernel(node: u64, params: Place<KernelParams>) -> CudaResult {
    let mut ours = DriverKernel::empty();
    ready()?.cuGraphKernelNodeGetParams_v2(node, Place::to(&mut ours))?;
    params.set(KernelParams::of(&ours))
}

fn set_kernel(node: u64, params: Place<KernelParams>) -> CudaResult {
    let driver = ready()?;
    let mut params = params.get()?.translate(driver, 0)?;
    let set = driver.cuGraphKernelNodeSetParams_v2(node, Place::to(&mut params));
    set.map_err(of_kernel)
}

fn update_kernel(executable: u64, node: u64, params: Place<KernelParams>) -> CudaResult {
    let driver = ready()?;
    let mut params = params.get()?.translate(driver, 0)?;
    let params = Place::to(&mut params);
    let set = driver.cuGraphExecKernelNodeSetParams_v2(executable, node, params);
    set.map_err(of_kernel)
}

/// The graph to which a node is added, and the nodes that it waits for.
#[derive(Debug, Clone, Copy)]
struct Adding {
    node: Place<u64>,
    graph: u64,
    dependencies: Place<u64>,
    count: usize,
}

/// Whatever has a copy: a graph that gets a node, a node, or one of an executable graph.
#[derive(Debug, Clone, Copy)]
enum Target {
    New(Adding),
    Node(u64),
    Executable(u64, u64),
}

impl Target {
    fn set(self, mut copy: Spatial) -> CudaResult {
        let (driver, context) = ready_in()?;
        let copy = Place::to(&mut copy);
        match self {
            Self::New(Adding {
                node,
                graph,
                dependencies,
                count,
            }) => driver.cuGraphAddMemcpyNode(node, graph, dependencies, count, copy, context),
            Self::Node(node) => driver.cuGraphMemcpyNodeSetParams(node, copy),
            Self::Executable(executable, node) => {
                driver.cuGraphExecMemcpyNodeSetParams(executable, node, copy, context)
            }
        }
    }

    fn set_line(self, to: u64, from: u64, bytes: usize, kind: c_int) -> CudaResult {
        if bytes == 0 {
            return Err(Status::INVALID_VALUE);
        }
        self.set(Spatial::line(ready()?, to, from, bytes, kind)?)
    }
}

fn add_copy(
    node: Place<u64>,
    graph: u64,
    dependencies: Place<u64>,
    count: usize,
    copy: Place<SpatialCopy>,
) -> CudaResult {
    let adding = Adding {
        node,
        graph,
        dependencies,
        count,
    };
    Target::New(adding).set(copy.get()?.copy(ready()?)?)
}

fn get_copy(node: u64, copy: Place<SpatialCopy>) -> CudaResult {
    let mut ours = Spatial::empty();
    ready()?.cuGraphMemcpyNodeGetParams(node, Place::to(&mut ours))?;
    copy.set(SpatialCopy::of(&ours))
}

fn set_copy(node: u64, copy: Place<SpatialCopy>) -> CudaResult {
    Target::Node(node).set(copy.get()?.copy(ready()?)?)
}

fn update_copy(executable: u64, node: u64, copy: Place<SpatialCopy>) -> CudaResult {
    Target::Executable(executable, node).set(copy.get()?.copy(ready()?)?)
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn add_line(
    node: Place<u64>,
    graph: u64,
    dependencies: Place<u64>,
    count: usize,
    to: u64,
    from: u64,
    bytes: usize,
    kind: c_int,
) -> CudaResult {
    let adding = Adding {
        node,
        graph,
        dependencies,
        count,
    };
    Target::New(adding).set_line(to, from, bytes, kind)
}

fn set_line(node: u64, to: u64, from: u64, bytes: usize, kind: c_int) -> CudaResult {
    Target::Node(node).set_line(to, from, bytes, kind)
}

fn update_line(
    executable: u64,
    node: u64,
    to: u64,
    from: u64,
    bytes: usize,
    kind: c_int,
) -> CudaResult {
    Target::Executable(executable, node).set_line(to, from, bytes, kind)
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn add_to_symbol(
    node: Place<u64>,
    graph: u64,
    dependencies: Place<u64>,
    count: usize,
    symbol: Place<c_void>,
    from: u64,
    bytes: usize,
    offset: usize,
    kind: c_int,
) -> CudaResult {
    let to = symbol::part(symbol, bytes, offset)?;
    add_line(node, graph, dependencies, count, to, from, bytes, kind)
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn add_from_symbol(
    node: Place<u64>,
    graph: u64,
    dependencies: Place<u64>,
    count: usize,
    to: u64,
    symbol: Place<c_void>,
    bytes: usize,
    offset: usize,
    kind: c_int,
) -> CudaResult {
    let from = symbol::part(symbol, bytes, offset)?;
    add_line(node, graph, dependencies, count, to, from, bytes, kind)
}

fn set_to_symbol(
    node: u64,
    symbol: Place<c_void>,
    from: u64,
    bytes: usize,
    offset: usize,
    kind: c_int,
) -> CudaResult {
    set_line(
        node,
        symbol::part(symbol, bytes, offset)?,
        from,
        bytes,
        kind,
    )
}

fn set_from_symbol(
    node: u64,
    to: u64,
    symbol: Place<c_void>,
    bytes: usize,
    offset: usize,
    kind: c_int,
) -> CudaResult {
    set_line(node, to, symbol::part(symbol, bytes, offset)?, bytes, kind)
}

fn update_to_symbol(
    executable: u64,
    node: u64,
    symbol: Place<c_void>,
    from: u64,
    bytes: usize,
    offset: usize,
    kind: c_int,
) -> CudaResult {
    let to = symbol::part(symbol, bytes, offset)?;
    update_line(executable, node, to, from, bytes, kind)
}

fn update_from_symbol(
    executable: u64,
    node: u64,
    to: u64,
    symbol: Place<c_void>,
    bytes: usize,
    offset: usize,
    kind: c_int,
) -> CudaResult {
    let from = symbol::part(symbol, bytes, offset)?;
    update_line(executable, node, to, from, bytes, kind)
}

/// Adds a fill, whose parameters are the driver's.
fn add_fill(
    node: Place<u64>,
    graph: u64,
    dependencies: Place<u64>,
    count: usize,
    params: Place<c_void>,
) -> CudaResult {
    let (driver, context) = ready_in()?;
    driver.cuGraphAddMemsetNode(node, graph, dependencies, count, params, context)
}

fn get_fill(node: u64, params: Place<c_void>) -> CudaResult {
    ready()?.cuGraphMemsetNodeGetParams(node, params)
}

fn set_fill(node: u64, params: Place<c_void>) -> CudaResult {
    ready()?.cuGraphMemsetNodeSetParams(node, params)
}

fn update_fill(executable: u64, node: u64, params: Place<c_void>) -> CudaResult {
    let (driver, context) = ready_in()?;
    driver.cuGraphExecMemsetNodeSetParams(executable, node, params, context)
}
