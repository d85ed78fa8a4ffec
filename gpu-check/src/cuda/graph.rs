//! Graphs of kernel launches, and what the driver makes of them to be launched again and again.
//!
//! Rule: a graph, like an executable, ends with its value.

use super::kernel::AttributeValue;
use super::{CudaError, Function, Session, Shape};
use std::ffi::c_void;

/// `CU_LAUNCH_ATTRIBUTE_PRIORITY`.
const PRIORITY: u32 = 8;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY`: nodes run at the priorities that they have been given, and not at
/// that of the stream.
pub const USE_NODE_PRIORITY: u64 = 8;

type Result<T> = std::result::Result<T, CudaError>;

/// A launch as a graph has it (`CUDA_KERNEL_NODE_PARAMS_v2`).
#[repr(C)]
#[derive(Debug)]
pub struct KernelNodeParams {
    function: u64,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
    /// A kernel of a library; none, as there is a function.
    kernel: u64,
    /// The context; none stands for the current one.
    context: u64,
}

/// As 64-bit C lays it out.
const _: () = assert!(
    size_of::<KernelNodeParams>() == 72 && std::mem::offset_of!(KernelNodeParams, params) == 40
);

/// A node: a kernel, its shape, and its parameters, which are all 64-bit words.
#[derive(Debug, Clone)]
pub struct Node<'a> {
    /// The kernel.
    pub function: &'a Function,
    /// The dimensions of the launch.
    pub shape: Shape,
    /// The kernel's parameters.
    pub words: Vec<u64>,
}

impl Node<'_> {
    /// Hands the node to a call in the form that the driver takes; the driver copies it during the call.
    fn with<T>(&self, call: impl FnOnce(&KernelNodeParams) -> Result<T>) -> Result<T> {
        let mut pointers = self.function.pointers(&self.words)?;
        call(&KernelNodeParams {
            function: self.function.handle(),
            grid: self.shape.grid,
            block: self.shape.block,
            shared_bytes: self.shape.shared_bytes,
            params: pointers.as_mut_ptr(),
            extra: std::ptr::null_mut(),
            kernel: 0,
            context: 0,
        })
    }
}

/// A graph of launches.
#[derive(Debug)]
pub struct Graph<'a> {
    cuda: &'a Session,
    handle: u64,
}

impl<'a> Graph<'a> {
    /// Makes an empty graph.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(cuda: &'a Session) -> Result<Self> {
        let mut handle = 0;
        // SAFETY: the place lives across the call.
        unsafe { cuda.api.cuGraphCreate(&mut handle, 0)? };
        Ok(Self { cuda, handle })
    }

    /// Adds a node that starts when others have ended; returns its handle.
    ///
    /// # Errors
    /// The driver's; or the words are not what the kernel takes.
    pub fn add(&self, node: &Node<'_>, after: &[u64]) -> Result<u64> {
        let mut handle = 0;
        node.with(|params| {
            // SAFETY: the place, the handles and the parameters live across the call.
            unsafe {
                self.cuda.api.cuGraphAddKernelNode_v2(
                    &mut handle,
                    self.handle,
                    after.as_ptr(),
                    after.len(),
                    params,
                )
            }
        })?;
        Ok(handle)
    }

    /// Gives a node a priority, which counts where the graph is instantiated with [`USE_NODE_PRIORITY`].
    ///
    /// # Errors
    /// The driver's.
    pub fn prioritise(&self, node: u64, priority: i32) -> Result<()> {
        let value = AttributeValue::of_word(priority.cast_unsigned());
        // SAFETY: the value is as large as the union in C, and lives across the call.
        unsafe {
            self.cuda
                .api
                .cuGraphKernelNodeSetAttribute(node, PRIORITY, &value)
        }
    }

    /// Makes an executable of the graph.
    ///
    /// # Errors
    /// The driver's.
    pub fn instantiate(&self, flags: u64) -> Result<Executable<'a>> {
        let (cuda, mut handle) = (self.cuda, 0);
        // SAFETY: the place lives across the call.
        unsafe {
            cuda.api
                .cuGraphInstantiateWithFlags(&mut handle, self.handle, flags)?;
        }
        Ok(Executable { cuda, handle })
    }
}

impl Drop for Graph<'_> {
    fn drop(&mut self) {
        // SAFETY: the driver looks the handle up, and nobody uses it any more. What it answers changes nothing.
        drop(unsafe { self.cuda.api.cuGraphDestroy(self.handle) });
    }
}

/// A graph that can be launched.
#[derive(Debug)]
pub struct Executable<'a> {
    cuda: &'a Session,
    handle: u64,
}

impl Executable<'_> {
    /// Carries it to the device, on a stream.
    ///
    /// # Errors
    /// The driver's.
    pub fn upload(&self, stream: u64) -> Result<()> {
        // SAFETY: the graph lives as long as this value, and the caller has not ended the stream.
        unsafe { self.cuda.api.cuGraphUpload(self.handle, stream) }
    }

    /// Launches it on a stream.
    ///
    /// # Errors
    /// The driver's.
    pub fn launch(&self, stream: u64) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.cuda.api.cuGraphLaunch(self.handle, stream) }
    }

    /// Gives a node of its graph other parameters, for the launches to come.
    ///
    /// # Errors
    /// The driver's; or the words are not what the kernel takes.
    pub fn change(&self, handle: u64, node: &Node<'_>) -> Result<()> {
        node.with(|params| {
            // SAFETY: the parameters live across the call, the graph as long as this value; the caller got `handle`
            // from the graph that this one was made of.
            unsafe {
                self.cuda
                    .api
                    .cuGraphExecKernelNodeSetParams_v2(self.handle, handle, params)
            }
        })
    }
}

impl Drop for Executable<'_> {
    fn drop(&mut self) {
        // SAFETY: as for a graph; the driver keeps what a running launch needs.
        drop(unsafe { self.cuda.api.cuGraphExecDestroy(self.handle) });
    }
}
