//! Launches.
//!
//! Everything that can be wrong with a launch is found before it is submitted, by the figures of kernel and device, so
//! that a program hears of it from the call itself. Parameters come as an array of pointers, whose sizes the kernel
//! tells, or as one packed buffer.

use crate::api::driver_api;
use crate::border::{self, In};
use crate::context::current::usable;
use crate::driver::Driver;
use crate::graph::capture;
use crate::graph::work::kernel::LaunchKernel;
use crate::module::{CUfunction, Function};
use crate::occupancy::resident_blocks;
use crate::per_thread::PerThread;
use crate::record;
use crate::report;
use crate::status::{CudaResult, Status};
use crate::stream::{self, CUstream, DefaultStream};
use gridmux_tenant::{ClientError, DeviceFacts, KernelInfo, Mark};
use std::cell::RefCell;
use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

driver_api! {
    needs Init;
    4000 cuLaunchKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: CUstream,
        params: *mut *mut c_void, extra: *mut *mut c_void,
    ) | cuLaunchKernel_ptsz => launch;
    9000 cuLaunchCooperativeKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: CUstream,
        params: *mut *mut c_void,
    ) | cuLaunchCooperativeKernel_ptsz => launch_cooperative;
    11060 cuLaunchKernelEx(
        config: *const CUlaunchConfig, function: CUfunction, params: *mut *mut c_void, extra: *mut *mut c_void,
    ) | cuLaunchKernelEx_ptsz => launch_ex;
}

/// The configuration of a launch (`CUlaunchConfig`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUlaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: CUstream,
    attributes: *const CUlaunchAttribute,
    attribute_count: c_uint,
}

/// One attribute of a launch (`CUlaunchAttribute`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUlaunchAttribute {
    id: c_uint,
    padding: [u8; 4],
    /// As the attribute says; read as words.
    value: [u32; 16],
}

const _: () = assert!(size_of::<CUlaunchAttribute>() == 72 && size_of::<CUlaunchConfig>() == 56);

/// Grid, block and dynamic shared memory of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_bytes: u32,
}

/// What a launch asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Grid, block and dynamic shared memory.
    pub shape: Shape,
    /// All blocks are to reside at once, because they wait for each other.
    pub is_cooperative: bool,
}

impl Request {
    /// Makes one of the shape and the attributes of a launch.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: an unknown attribute; [`Status::NOT_SUPPORTED`]: one that asks for what the device
    /// cannot do.
    pub fn new(shape: Shape, attributes: &[CUlaunchAttribute]) -> CudaResult<Self> {
        attributes.iter().try_for_each(check_attribute)?;
        // Of several the last one counts.
        let asks = attributes.iter().rfind(|a| a.id == COOPERATIVE);
        Ok(Self {
            shape,
            is_cooperative: asks.is_some_and(|attribute| attribute.value[0] != 0),
        })
    }

    /// Checks it as [`Shape::check`] does.
    ///
    /// # Errors
    /// As [`Shape::check`], and [`Status::COOPERATIVE_LAUNCH_TOO_LARGE`]: the device does not hold all blocks at once.
    pub fn check(&self, facts: &DeviceFacts, info: &KernelInfo, shared_most: u32) -> CudaResult {
        self.shape.check(facts, info, shared_most)?;
        if !self.is_cooperative {
            return Ok(());
        }
        let Shape {
            grid,
            block,
            shared_bytes,
        } = self.shape;
        let threads = block.iter().product();
        let held = resident_blocks(facts, info, threads, shared_bytes.into(), shared_most);
        let blocks = grid.into_iter().map(u64::from).fold(1, u64::saturating_mul);
        match blocks > held.saturating_mul(facts.sms.into()) {
            true => Err(Status::COOPERATIVE_LAUNCH_TOO_LARGE),
            false => Ok(()),
        }
    }
}

impl Shape {
    /// Checks it against device and kernel, of which a launch may ask for `shared_most` bytes of dynamic shared memory.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: a dimension is zero or too large, the shared memory is too large, or the block is
    /// larger than the kernel declares;
    /// [`Status::LAUNCH_OUT_OF_RESOURCES`]: the block's registers are.
    pub fn check(&self, facts: &DeviceFacts, info: &KernelInfo, shared_most: u32) -> CudaResult {
        let fits = |shape: [u32; 3], most: [u32; 3]| {
            let mut pairs = shape.into_iter().zip(most);
            pairs.all(|(size, most)| (1..=most).contains(&size))
        };
        let sizes = self.block.map(u64::from);
        // Three sizes may be more than 64 bits hold.
        let threads = sizes.into_iter().fold(1, u64::saturating_mul);
        if !fits(self.grid, facts.max_grid)
            || !fits(self.block, facts.max_block)
            || threads > facts.max_threads_per_block.into()
            || self.shared_bytes > shared_most
        {
            return Err(Status::INVALID_VALUE);
        }
        if threads > info.max_threads.into() {
            // The device has too few registers, or else the kernel declares a smaller block (`.maxntid`).
            let registers = threads.saturating_mul(info.registers.into());
            return Err(match registers > facts.registers_per_block.into() {
                true => Status::LAUNCH_OUT_OF_RESOURCES,
                false => Status::INVALID_VALUE,
            });
        }
        Ok(())
    }
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn launch(
    default: DefaultStream,
    function: Arc<Function>,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: CUstream,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CudaResult {
    let shape = Shape {
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        shared_bytes,
    };
    submit(default, &function, &shape, &[], stream, params, extra)
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn launch_cooperative(
    default: DefaultStream,
    function: Arc<Function>,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: CUstream,
    params: *mut *mut c_void,
) -> CudaResult {
    let shape = Shape {
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        shared_bytes,
    };
    let attribute = CUlaunchAttribute::new(COOPERATIVE, YES);
    let none = ptr::null_mut();
    submit(
        default,
        &function,
        &shape,
        &[attribute],
        stream,
        params,
        none,
    )
}

fn launch_ex(
    default: DefaultStream,
    config: In<CUlaunchConfig>,
    function: Arc<Function>,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CudaResult {
    let In(config) = config;
    let (shape, stream) = (config.shape(), config.stream);
    let count = config.attribute_count as usize;
    // SAFETY: the program passes that many attributes, as the C declaration asks.
    let attributes = unsafe { border::slice(config.attributes, count)? };
    submit(
        default, &function, &shape, attributes, stream, params, extra,
    )
}

impl CUlaunchAttribute {
    /// Makes one of its number and the words of its value.
    #[must_use]
    pub fn new(id: c_uint, value: [u32; 16]) -> Self {
        Self {
            id,
            padding: [0; 4],
            value,
        }
    }

    /// Returns whether it lets the kernel begin before the one in front of it has ended.
    fn is_early(&self) -> bool {
        const PROGRAMMATIC_STREAM_SERIALIZATION: c_uint = 6;
        self.id == PROGRAMMATIC_STREAM_SERIALIZATION && self.value[0] != 0
    }

    /// Returns its number.
    #[must_use]
    pub fn id(&self) -> c_uint {
        self.id
    }

    /// Returns the words of its value.
    #[must_use]
    pub fn value(&self) -> [u32; 16] {
        self.value
    }
}

impl CUlaunchConfig {
    /// Makes a configuration without a stream of its own.
    #[must_use]
    pub fn new(
        shape: Shape,
        attributes: *const CUlaunchAttribute,
        attribute_count: c_uint,
    ) -> Self {
        Self {
            grid: shape.grid,
            block: shape.block,
            shared_bytes: shape.shared_bytes,
            stream: CUstream::NULL,
            attributes,
            attribute_count,
        }
    }

    /// Returns grid, block and dynamic shared memory.
    fn shape(&self) -> Shape {
        Shape {
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
        }
    }

    /// Reads the attributes and returns what is asked for.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: no attributes where some are announced; as [`Request::new`].
    ///
    /// # Safety
    /// `attributes` points to `attribute_count` attributes, unless it is null.
    pub unsafe fn request(&self) -> CudaResult<Request> {
        // SAFETY: the caller's promise.
        let attributes = unsafe { border::slice(self.attributes, self.attribute_count as usize)? };
        Request::new(self.shape(), attributes)
    }
}

/// The attribute that asks for all blocks at once (`CU_LAUNCH_ATTRIBUTE_COOPERATIVE`), and its value.
const COOPERATIVE: c_uint = 2;
const YES: [u32; 16] = {
    let mut words = [0; 16];
    words[0] = 1;
    words
};

/// Takes hints, and refuses what the device cannot do.
pub(crate) fn check_attribute(attribute: &CUlaunchAttribute) -> CudaResult {
    const CLUSTER: c_uint = 4;
    const MEM_SYNC_DOMAIN: c_uint = 10;
    const SHARED_MEMORY_CARVEOUT: c_uint = 14;
    const NVLINK_SCHEDULING: c_uint = 16;
    let [x, y, z, ..] = attribute.value;
    match attribute.id {
        CLUSTER if [x, y, z] != [1, 1, 1] => {
            report::refused("clusters of more than one block are not there");
            Err(Status::NOT_SUPPORTED)
        }
        MEM_SYNC_DOMAIN | NVLINK_SCHEDULING if x > 1 => Err(Status::INVALID_VALUE),
        SHARED_MEMORY_CARVEOUT if !(-1..=100).contains(&x.cast_signed()) => {
            Err(Status::INVALID_VALUE)
        }
        // Nothing, a window of the L2 cache, how clusters are scheduled, starting before the kernel in front has ended,
        // a priority, memory synchronisation domains, a preferred cluster, a division of L1 cache and shared memory,
        // traffic between devices.
        0..=2 | 4..=6 | 8..=11 | 14 | NVLINK_SCHEDULING => Ok(()),
        // Whether clusters and shared memory may be larger than all devices have them: as the function says, no, yes.
        17 | 18 if x <= 2 => Ok(()),
        // Events inside of launches.
        7 | 12 => Err(Status::NOT_SUPPORTED),
        // How the host waits, which a stream has alone; launches that are changed from the device, which a graph has
        // alone; and what is no attribute.
        _ => Err(Status::INVALID_VALUE),
    }
}

/// The buffer in which a thread packs parameters, kept so that launches do not allocate.
static PACKED: PerThread<RefCell<Vec<u8>>> = PerThread::new();

#[allow(
    clippy::too_many_arguments,
    reason = "the parameters of the launches of the API, together"
)]
fn submit(
    default: DefaultStream,
    function: &Arc<Function>,
    shape: &Shape,
    attributes: &[CUlaunchAttribute],
    stream: CUstream,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CudaResult {
    let request = Request::new(*shape, attributes)?;
    let (driver, context) = usable()?;
    let stream = stream::resolve(driver, &context, stream, default)?;
    // A library's function has no context of its own.
    if !function.context().is_null() && function.context() != stream.context() {
        return Err(Status::INVALID_HANDLE);
    }
    // Relaxed: a number of its own.
    let shared_most = function.dynamic_shared_bytes.load(Ordering::Relaxed);
    request.check(&driver.description.facts, function.info(), shared_most)?;
    let launch = |packed: &RefCell<Vec<u8>>| {
        let mut packed = packed.borrow_mut();
        // SAFETY: the program passes parameters as the C declaration asks.
        unsafe { pack(function.info(), params, extra, &mut packed)? };
        if let Some(captured) = capture::of(&stream)? {
            let (function, packed) = (Arc::clone(function), packed.clone());
            let context = context.handle();
            let node = LaunchKernel::captured(function, context, *shape, packed, attributes);
            let added = match attributes.iter().any(CUlaunchAttribute::is_early) {
                true => captured.add_early(Arc::new(node)),
                false => captured.add(Arc::new(node)),
            };
            return added.map(drop);
        }
        let submitted = stream.submit(driver, |lane| {
            on_lane(driver, lane, stream.id(), function, &request, &packed).map(Some)
        });
        submitted.map_err(Status::from)
    };
    PACKED.with(launch)?
}

/// Submits a launch that was checked, for a stream of that number.
///
/// # Errors
/// The device was lost.
pub fn on_lane(
    driver: &Driver,
    lane: &gridmux_tenant::Stream,
    stream: u64,
    function: &Function,
    request: &Request,
    packed: &[u8],
) -> Result<Mark, ClientError> {
    let Shape {
        grid,
        block,
        shared_bytes,
    } = request.shape;
    let (kernel, is_cooperative) = (&function.kernel, request.is_cooperative);
    match (record::recorder(driver), is_cooperative) {
        (None, false) => lane.launch_packed(kernel, grid, block, shared_bytes, packed),
        (None, true) => lane.launch_cooperative(kernel, grid, block, shared_bytes, packed),
        (Some(recorder), _) => {
            let shape = (grid, block, shared_bytes);
            recorder.launch(lane, stream, kernel, shape, packed, is_cooperative)
        }
    }
}

/// Lays the parameters out in `packed` as the kernel takes them.
///
/// # Errors
/// [`Status::INVALID_VALUE`]: none are given, both ways are used, a pointer is null, or a buffer is too short.
///
/// # Safety
/// `params` is null or points to a pointer for each parameter, which is null or points to its value; `extra` is null or
/// points to pairs up to a key of zero, of which a buffer has the kernel's bytes unless its size is less.
pub unsafe fn pack(
    info: &KernelInfo,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
    packed: &mut Vec<u8>,
) -> CudaResult {
    packed.clear();
    packed.resize(info.params_bytes as usize, 0);
    if !extra.is_null() {
        if !params.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        return unpack_extra(extra, packed);
    }
    if info.params.is_empty() {
        return Ok(());
    }
    // SAFETY: the program passes one pointer for each parameter of the kernel, as the C declaration asks.
    let pointers = unsafe { border::slice(params.cast_const(), info.params.len())? };
    for (param, pointer) in info.params.iter().zip(pointers) {
        // SAFETY: each pointer names a value as large as the parameter, of bytes.
        let value =
            unsafe { border::slice(pointer.cast::<u8>().cast_const(), param.size as usize)? };
        let start = param.offset as usize;
        let place = packed.get_mut(start..start + value.len());
        place.ok_or(Status::UNKNOWN)?.copy_from_slice(value);
    }
    Ok(())
}

/// Reads `extra`: pairs of a key and a value, ended by a key of zero, that name a buffer and its size.
fn unpack_extra(extra: *mut *mut c_void, packed: &mut [u8]) -> CudaResult {
    const BUFFER: usize = 1;
    const SIZE: usize = 2;
    /// More pairs than there are keys make no sense.
    const MOST_PAIRS: usize = 4;
    let (mut buffer, mut size) = (std::ptr::null::<u8>(), None);
    for pair in 0..=MOST_PAIRS {
        // SAFETY: the list goes on until a key of zero, as the C declaration asks.
        let key = unsafe { extra.add(2 * pair).read_unaligned() }.addr();
        if key == 0 {
            break;
        }
        // SAFETY: behind a key other than zero stands its value.
        let value = unsafe { extra.add(2 * pair + 1).read_unaligned() };
        match key {
            BUFFER => buffer = value.cast::<u8>().cast_const(),
            SIZE if !value.is_null() => {
                // SAFETY: the value of this key is a pointer to a size, and not null.
                size = Some(unsafe { value.cast::<usize>().read_unaligned() });
            }
            _ => return Err(Status::INVALID_VALUE),
        }
        if pair == MOST_PAIRS {
            return Err(Status::INVALID_VALUE);
        }
    }
    let size = size.ok_or(Status::INVALID_VALUE)?;
    if size < packed.len() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the program says that the buffer has that many bytes, of which the kernel's are copied.
    let given = unsafe { border::slice(buffer, packed.len())? };
    packed.copy_from_slice(given);
    Ok(())
}
