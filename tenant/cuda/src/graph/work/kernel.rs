//! Nodes that launch a kernel.

use super::{Behind, add};
use crate::api::driver_api;
use crate::attribute::Value;
use crate::attribute::stream::PRIORITY;
use crate::border::{In, Out};
use crate::context::CUcontext;
use crate::driver::Driver;
use crate::graph::action::{Action, Kind, Launching, Refusal, Step, line};
use crate::graph::calls::context_or_current;
use crate::graph::{CUgraph, CUgraphNode, Graph, Node};
use crate::launch::{self, CUlaunchAttribute, Request, Shape};
use crate::library::CUkernel;
use crate::module::{CUfunction, Function};
use crate::registry::Object;
use crate::status::{CudaResult, Status};
use std::collections::BTreeMap;
use std::ffi::{c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

driver_api! {
    needs Init;
    10000 cuGraphAddKernelNode(
        node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        params: *const KernelParams,
    ) => add_plain;
    12000 cuGraphAddKernelNode_v2(
        node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode, count: usize,
        params: *const KernelParams2,
    ) => add_node;
    10000 cuGraphKernelNodeGetParams(node: CUgraphNode, params: *mut KernelParams) => get_plain;
    12000 cuGraphKernelNodeGetParams_v2(node: CUgraphNode, params: *mut KernelParams2) => get;
    10000 cuGraphKernelNodeSetParams(node: CUgraphNode, params: *const KernelParams) => set_plain;
    12000 cuGraphKernelNodeSetParams_v2(node: CUgraphNode, params: *const KernelParams2) => set;
    11000 cuGraphKernelNodeCopyAttributes(to: CUgraphNode, from: CUgraphNode) => copy_attributes;
    11000 cuGraphKernelNodeGetAttribute(node: CUgraphNode, attribute: c_uint, value: *mut Value) => get_attribute;
    11000 cuGraphKernelNodeSetAttribute(node: CUgraphNode, attribute: c_uint, value: *const Value)
        => set_attribute;
}

/// The parameters of a node (`CUDA_KERNEL_NODE_PARAMS_v1`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct KernelParams {
    /// The function, or a library's kernel.
    pub function: CUfunction,
    /// Blocks in x, y and z.
    pub grid: [c_uint; 3],
    /// Threads of a block in x, y and z.
    pub block: [c_uint; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_bytes: c_uint,
    /// Pointers to the arguments.
    pub params: *mut *mut c_void,
    /// Or a buffer of them.
    pub extra: *mut *mut c_void,
}

/// The parameters with what came later (`CUDA_KERNEL_NODE_PARAMS_v2` and `_v3`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct KernelParams2 {
    /// The launch.
    pub launch: KernelParams,
    /// A library's kernel, launched if there is no function.
    pub kernel: CUkernel,
    /// The context that it runs in; null for the current one.
    pub context: CUcontext,
}

const _: () = assert!(size_of::<KernelParams>() == 56 && size_of::<KernelParams2>() == 72);

/// Launching a kernel.
#[derive(Debug)]
pub struct LaunchKernel {
    function: Arc<Function>,
    /// The handles by which the program named it.
    named: (CUfunction, CUkernel),
    context: CUcontext,
    shape: Shape,
    arguments: Arc<Arguments>,
    /// Those before they were last set, which programs still read that were told of them.
    before: Option<Arc<Arguments>>,
    /// By number, those that were set.
    attributes: BTreeMap<c_uint, Value>,
}

/// Arguments, one behind the other, and the address of each, to be shown to the program.
#[derive(Debug)]
struct Arguments {
    packed: Box<[u8]>,
    pointers: Box<[usize]>,
}

impl LaunchKernel {
    /// Makes one of parameters.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: no kernel, a shape that the device does not take, arguments that are missing;
    /// [`Status::INVALID_HANDLE`]; [`Status::INVALID_CONTEXT`].
    pub fn new(params: &KernelParams2, attributes: BTreeMap<c_uint, Value>) -> CudaResult<Self> {
        let driver = Driver::get()?;
        let KernelParams2 {
            launch,
            kernel,
            context,
        } = *params;
        let named = match launch.function.is_null() {
            true => CUfunction::from_bits(kernel.bits()),
            false => launch.function,
        };
        if named.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let function = Function::find(driver, named)?;
        let context = context_or_current(context)?;
        let mut packed = Vec::new();
        // SAFETY: the program passes arguments as the C declarations ask.
        unsafe { launch::pack(function.info(), launch.params, launch.extra, &mut packed)? };
        let shape = Shape {
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes,
        };
        let of = driver.kernels.get(CUkernel::from_bits(named.bits()));
        let kernel = of.map_or(CUkernel::NULL, |_| CUkernel::from_bits(named.bits()));
        let named = (launch.function, kernel);
        let made = Self::of(function, named, context, shape, packed, attributes);
        made.check(driver)?;
        Ok(made)
    }

    /// Makes one of a launch that was checked.
    pub fn captured(
        function: Arc<Function>,
        context: CUcontext,
        shape: Shape,
        packed: Vec<u8>,
        attributes: &[CUlaunchAttribute],
    ) -> Self {
        let attributes = attributes.iter().map(|one| (one.id(), Value(one.value())));
        let kernel = CUkernel::from_bits(function.library_kernel());
        let named = (CUfunction::from_bits(function.handle().bits()), kernel);
        Self::of(
            function,
            named,
            context,
            shape,
            packed,
            attributes.collect(),
        )
    }

    fn of(
        function: Arc<Function>,
        named: (CUfunction, CUkernel),
        context: CUcontext,
        shape: Shape,
        packed: Vec<u8>,
        attributes: BTreeMap<c_uint, Value>,
    ) -> Self {
        let packed = packed.into_boxed_slice();
        let start = packed.as_ptr().expose_provenance();
        let params = function.info().params.iter();
        let pointers = params.map(|param| start + param.offset as usize).collect();
        Self {
            function,
            named,
            context,
            shape,
            arguments: Arc::new(Arguments { packed, pointers }),
            before: None,
            attributes,
        }
    }

    /// Returns what its launch asks for.
    fn request(&self) -> CudaResult<Request> {
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|(id, value)| CUlaunchAttribute::new(*id, value.0));
        Request::new(self.shape, &attributes.collect::<Vec<_>>())
    }

    fn check(&self, driver: &Driver) -> CudaResult {
        // relaxed: a number of its own.
        let shared_most = self.function.dynamic_shared_bytes.load(Ordering::Relaxed);
        let facts = &driver.description.facts;
        let request = self.request()?;
        request.check(facts, self.function.info(), shared_most)?;
        // A library's kernel runs in every context.
        let owner = self.function.context();
        match owner.is_null() {
            true => Ok(()),
            false => driver.contexts.get(owner).map(drop),
        }
    }

    /// Returns its parameters. What they point to belongs to the node.
    #[must_use]
    pub fn params(&self) -> KernelParams2 {
        KernelParams2 {
            launch: KernelParams {
                function: self.named.0,
                grid: self.shape.grid,
                block: self.shape.block,
                shared_bytes: self.shape.shared_bytes,
                params: self.arguments.pointers.as_ptr().cast_mut().cast(),
                extra: std::ptr::null_mut(),
            },
            kernel: self.named.1,
            context: self.context,
        }
    }

    fn with_attributes(&self, attributes: BTreeMap<c_uint, Value>) -> Self {
        Self {
            function: Arc::clone(&self.function),
            named: self.named,
            context: self.context,
            shape: self.shape,
            arguments: Arc::clone(&self.arguments),
            before: self.before.clone(),
            attributes,
        }
    }
}

impl Action for LaunchKernel {
    fn kind(&self) -> Kind {
        Kind::Kernel
    }

    fn prepare(self: Arc<Self>, launching: &Launching) -> CudaResult<Option<Step>> {
        self.check(launching.driver)?;
        let request = self.request()?;
        Ok(Some(Box::new(move |site, lane| {
            let stream = site.stream.id();
            launch::on_lane(
                site.driver,
                lane,
                stream,
                &self.function,
                &request,
                &self.arguments.packed,
            )
            .map(Some)
        })))
    }

    fn accepts(&self, new: &dyn Action) -> Result<(), Refusal> {
        let new = new.as_a::<Self>().ok_or(Refusal::Error)?;
        if self.function.context() != new.function.context() || self.context != new.context {
            return Err(Refusal::UnsupportedFunctionChange);
        }
        Ok(())
    }

    /// Keeps the attributes.
    fn replaced(&self, new: Arc<dyn Action>) -> CudaResult<Arc<dyn Action>> {
        let new = new.of::<Self>()?;
        let new = new.with_attributes(self.attributes.clone());
        new.check(Driver::get()?)?;
        Ok(Arc::new(new))
    }

    fn describe(&self, text: &mut String, handles: bool) {
        line(text, "kernel", self.function.name().to_string_lossy());
        line(text, "grid", format_args!("{:?}", self.shape.grid));
        line(text, "block", format_args!("{:?}", self.shape.block));
        line(text, "shared bytes", self.shape.shared_bytes);
        if handles {
            line(
                text,
                "function",
                format_args!("{:?}", self.function.handle()),
            );
        }
    }
}

impl KernelParams {
    /// Returns them with what came later, which asks for nothing.
    #[must_use]
    pub fn whole(self) -> KernelParams2 {
        KernelParams2 {
            launch: self,
            kernel: CUkernel::NULL,
            context: CUcontext::NULL,
        }
    }
}

fn add_plain(
    place: Out<CUgraphNode>,
    graph: Arc<Graph>,
    dependencies: *const CUgraphNode,
    count: usize,
    In(params): In<KernelParams>,
) -> CudaResult {
    add_node(place, graph, dependencies, count, In(params.whole()))
}

fn add_node(
    place: Out<CUgraphNode>,
    graph: Arc<Graph>,
    dependencies: *const CUgraphNode,
    count: usize,
    In(params): In<KernelParams2>,
) -> CudaResult {
    let action = Arc::new(LaunchKernel::new(&params, BTreeMap::new())?);
    add(&place, &graph, Behind::plain(dependencies, count), action)
}

fn get_plain(node: Arc<Node>, place: Out<KernelParams>) -> CudaResult {
    let action = node.action()?.of::<LaunchKernel>()?;
    let mut params = action.params().launch;
    // Without a place for a kernel's handle, its function stands for it.
    params.function = action.function.handle();
    place.set(params);
    Ok(())
}

fn get(node: Arc<Node>, place: Out<KernelParams2>) -> CudaResult {
    place.set(node.action()?.of::<LaunchKernel>()?.params());
    Ok(())
}

fn set_plain(node: Arc<Node>, In(params): In<KernelParams>) -> CudaResult {
    set(node, In(params.whole()))
}

/// Sets parameters; the attributes stay.
pub fn set(node: Arc<Node>, In(params): In<KernelParams2>) -> CudaResult {
    let before = node.action()?.of::<LaunchKernel>()?;
    let mut action = LaunchKernel::new(&params, before.attributes.clone())?;
    action.before = Some(Arc::clone(&before.arguments));
    node.set_action(Arc::new(action))
}

fn copy_attributes(to: Arc<Node>, from: Arc<Node>) -> CudaResult {
    let from = from.action()?.of::<LaunchKernel>()?;
    let before = to.action()?.of::<LaunchKernel>()?;
    let action = before.with_attributes(from.attributes.clone());
    to.set_action(Arc::new(action))
}

/// The attributes that nodes have: the window of the L2 cache, cooperation, the size of clusters and how they are
/// scheduled, the priority, two of memory synchronisation domains, a preferred cluster, changes from the device, the
/// division of L1 cache and shared memory.
const ATTRIBUTES: [c_uint; 10] = [1, 2, 4, 5, PRIORITY, 9, 10, 11, 13, 14];

fn get_attribute(node: Arc<Node>, attribute: c_uint, place: Out<Value>) -> CudaResult {
    let action = node.action()?.of::<LaunchKernel>()?;
    if !ATTRIBUTES.contains(&attribute) {
        return Err(Status::INVALID_VALUE);
    }
    let value = action.attributes.get(&attribute);
    place.set(value.copied().unwrap_or(Value([0; 16])));
    Ok(())
}

fn set_attribute(node: Arc<Node>, attribute: c_uint, In(value): In<Value>) -> CudaResult {
    let before = node.action()?.of::<LaunchKernel>()?;
    if !ATTRIBUTES.contains(&attribute) {
        return Err(Status::INVALID_VALUE);
    }
    launch::check_attribute(&CUlaunchAttribute::new(attribute, value.0))?;
    let mut attributes = before.attributes.clone();
    attributes.insert(attribute, value);
    node.set_action(Arc::new(before.with_attributes(attributes)))
}
