//! Launches.
//!
//! Everything that can be wrong with a launch is found before it is submitted, by the figures of kernel and device, so
//! that a program hears of it from the call itself. Parameters come as an array of pointers, whose sizes the kernel
//! tells, or as one packed buffer.

use crate::api::driver_api;
use crate::border::{self, In};
use crate::context::current::usable;
use crate::module::{CUfunction, Function};
use crate::occupancy::resident_blocks;
use crate::record;
use crate::status::{CudaResult, Status};
use crate::stream::{self, CUstream, DefaultStream};
use gridmux_tenant::{DeviceFacts, KernelInfo};
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
        let held = resident_blocks(facts, info, threads, shared_bytes.into());
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
    let request = Request {
        shape,
        is_cooperative: false,
    };
    submit(default, &function, &request, stream, params, extra)
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
    let request = Request {
        shape,
        is_cooperative: true,
    };
    submit(
        default,
        &function,
        &request,
        stream,
        params,
        ptr::null_mut(),
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
    // SAFETY: the program passes that many attributes, as the C declaration asks.
    let request = unsafe { config.request()? };
    submit(default, &function, &request, config.stream, params, extra)
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

    /// Reads the attributes and returns what is asked for.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: no attributes where some are announced, or an unknown one;
    /// [`Status::NOT_SUPPORTED`]: one that asks for what the device cannot do.
    ///
    /// # Safety
    /// `attributes` points to `attribute_count` attributes, unless it is null.
    pub unsafe fn request(&self) -> CudaResult<Request> {
        // SAFETY: the caller's promise.
        let attributes = unsafe { border::slice(self.attributes, self.attribute_count as usize)? };
        attributes.iter().try_for_each(check_attribute)?;
        let shape = Shape {
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
        };
        // Of several the last one counts.
        let asks = attributes.iter().rfind(|a| a.id == COOPERATIVE);
        let is_cooperative = asks.is_some_and(|attribute| attribute.value[0] != 0);
        Ok(Request {
            shape,
            is_cooperative,
        })
    }
}

/// The attribute that asks for all blocks at once (`CU_LAUNCH_ATTRIBUTE_COOPERATIVE`).
const COOPERATIVE: c_uint = 2;

/// Takes hints, and refuses what the device cannot do.
fn check_attribute(attribute: &CUlaunchAttribute) -> CudaResult {
    const CLUSTER: c_uint = 4;
    let [x, y, z, ..] = attribute.value;
    match attribute.id {
        CLUSTER if [x, y, z] != [1, 1, 1] => Err(Status::NOT_SUPPORTED),
        // Nothing, a window of the L2 cache, how the host waits, how clusters are scheduled, starting before the
        // kernel in front has ended, a priority, memory synchronisation domains, a preferred cluster, a division
        // of L1 cache and shared memory.
        0..=6 | 8..=11 | 14 => Ok(()),
        // Events inside of launches, and launches that are changed from the device.
        7 | 12 | 13 => Err(Status::NOT_SUPPORTED),
        _ => Err(Status::INVALID_VALUE),
    }
}

thread_local! {
    /// The buffer in which a thread packs parameters, kept so that launches do not allocate.
    static PACKED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn submit(
    default: DefaultStream,
    function: &Function,
    request: &Request,
    stream: CUstream,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CudaResult {
    let (driver, context) = usable()?;
    let stream = stream::resolve(driver, &context, stream, default)?;
    // Relaxed: a number of its own.
    let shared_most = function.dynamic_shared_bytes.load(Ordering::Relaxed);
    request.check(&driver.description.facts, function.info(), shared_most)?;
    let launch = |packed: &RefCell<Vec<u8>>| {
        let mut packed = packed.borrow_mut();
        // SAFETY: the program passes parameters as the C declaration asks.
        unsafe { pack(function.info(), params, extra, &mut packed)? };
        let Shape {
            grid,
            block,
            shared_bytes,
        } = request.shape;
        let (kernel, is_cooperative) = (&function.kernel, request.is_cooperative);
        let submitted = stream.submit(driver, |lane| {
            let mark = match (record::recorder(driver), is_cooperative) {
                (None, false) => lane.launch_packed(kernel, grid, block, shared_bytes, &packed),
                (None, true) => lane.launch_cooperative(kernel, grid, block, shared_bytes, &packed),
                (Some(recorder), _) => {
                    let shape = (grid, block, shared_bytes);
                    recorder.launch(lane, stream.id(), kernel, shape, &packed, is_cooperative)
                }
            };
            mark.map(Some)
        });
        submitted.map_err(Status::from)
    };
    PACKED.try_with(launch).map_err(|_| Status::DEINITIALIZED)?
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
