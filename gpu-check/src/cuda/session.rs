//! A context with what parts need of it: modules, memory, streams, events, launches.
//!
//! Rules: what a part does not give back itself, the end of its process does, and that comes soon; a part gives back
//! what it made once, after its last use, because NVIDIA's driver does not check handles; streams do not wait for the
//! legacy default stream, and whatever is to be in order is on one stream or waited for.

use super::{Api, Cubins, CudaError, Function, Module, Shape};
use std::ffi::{OsStr, c_void};

/// `CU_DEVICE_ATTRIBUTE_WARP_SIZE`.
pub const WARP_SIZE: i32 = 10;
/// `CU_FUNC_ATTRIBUTE_NUM_REGS`: registers of a thread.
pub const REGISTERS: i32 = 4;
/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`.
pub const MULTIPROCESSORS: i32 = 16;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`.
pub const COMPUTE_MAJOR: i32 = 75;
/// `CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR`.
pub const SHARED_PER_SM: i32 = 81;
/// `CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK`.
pub const SHARED_RESERVED: i32 = 111;
/// `CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN`.
pub const MOST_SHARED: i32 = 97;
/// `CU_STREAM_NON_BLOCKING`.
pub const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`.
const NO_TIMING: u32 = 2;
/// `CU_JIT_ERROR_LOG_BUFFER` and the option for its size.
const JIT_LOG: [u32; 2] = [5, 6];
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MOST_DYNAMIC_SHARED: i32 = 8;
/// Dynamic shared memory that a kernel may have without being asked for more.
const PLAIN_SHARED: u32 = 48 << 10;

type Result<T> = std::result::Result<T, CudaError>;

/// A device with a context that is current in this thread.
#[derive(Debug)]
pub struct Session {
    /// The driver.
    pub api: Api,
    /// The device's number.
    pub device: i32,
    /// The context, for further threads.
    context: u64,
    /// Where modules lie beside what the driver compiles.
    pub cubins: Cubins,
    /// The stream of reads and writes of memory.
    control: u64,
}

impl Session {
    /// Opens a driver library and takes the primary context of its first device, which green contexts are parts of.
    ///
    /// # Errors
    /// The library cannot be opened, or the driver has no device.
    pub fn open(library: &OsStr, cubins: Cubins) -> anyhow::Result<Self> {
        let api = Api::open(library)?;
        let (mut device, mut context) = (0, 0);
        // SAFETY: the places live across the calls.
        unsafe {
            api.cuInit(0)?;
            api.cuDeviceGet(&mut device, 0)?;
            api.cuDevicePrimaryCtxRetain(&mut context, device)?;
            api.cuCtxSetCurrent(context)?;
        }
        let mut session = Self {
            api,
            device,
            context,
            cubins,
            control: 0,
        };
        session.control = session.stream(0)?;
        Ok(session)
    }

    /// Runs the work in one thread for each item, and waits for all threads. The work gets the result of setting this
    /// session's context in its thread, so that a failure cannot keep other threads waiting at a barrier.
    ///
    /// # Errors
    /// The first one of a thread.
    pub fn in_threads<T: Send>(
        &self,
        items: impl IntoIterator<Item = T>,
        work: impl Fn(&Api, Result<()>, T) -> Result<()> + Sync,
    ) -> Result<()> {
        let (api, context, work) = (&self.api, self.context, &work);
        std::thread::scope(|scope| {
            let threads: Vec<_> = items
                .into_iter()
                .map(|item| {
                    scope.spawn(move || {
                        // SAFETY: the context was retained when the session was opened, and is never released.
                        let is_current = unsafe { api.cuCtxSetCurrent(context) };
                        work(api, is_current, item)
                    })
                })
                .collect();
            threads.into_iter().try_for_each(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })
    }

    /// Returns an attribute of the device (`CUdevice_attribute`).
    ///
    /// # Errors
    /// The driver's.
    pub fn attribute(&self, attribute: i32) -> Result<i32> {
        let mut value = 0;
        // SAFETY: the place lives across the call.
        unsafe {
            self.api
                .cuDeviceGetAttribute(&mut value, attribute, self.device)?
        };
        Ok(value)
    }

    /// Returns how many SMs the device has.
    ///
    /// # Errors
    /// The driver's.
    pub fn sms(&self) -> Result<u32> {
        self.attribute(MULTIPROCESSORS).map(i32::unsigned_abs)
    }

    /// Returns the dynamic shared memory in bytes that a block may have at most, where a kernel asks for it.
    ///
    /// # Errors
    /// The driver's.
    pub fn most_shared(&self) -> Result<u32> {
        self.attribute(MOST_SHARED).map(i32::unsigned_abs)
    }

    /// Loads a module of PTX: its cubin where there is one, else what the driver's compiler makes of it.
    ///
    /// # Errors
    /// The driver's, with the compiler's log; a file of the module that cannot be read or written.
    pub fn load(&self, ptx: &str) -> anyhow::Result<Module> {
        let image = self.cubins.image(ptx)?;
        let mut log = vec![0_u8; 16 << 10];
        let mut options = JIT_LOG;
        let mut values = [
            log.as_mut_ptr().cast::<c_void>(),
            std::ptr::without_provenance_mut(log.len()),
        ];
        let mut handle = 0;
        // SAFETY: the image is a text that ends with a zero, or a cubin that is as long as its header says; the log is
        // as long as the second option says, and lives across the call.
        let loaded = unsafe {
            self.api.cuModuleLoadDataEx(
                &mut handle,
                image.as_ptr().cast(),
                2,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        loaded.map_err(|error| {
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            let said = String::from_utf8_lossy(&log[..end]).trim().to_owned();
            match said.is_empty() {
                true => anyhow::Error::from(error),
                false => anyhow::Error::from(error).context(said),
            }
        })?;
        Ok(Module::new(handle, ptx))
    }

    /// Unloads a module.
    ///
    /// # Errors
    /// The driver's.
    pub fn unload(&self, module: Module) -> Result<()> {
        // SAFETY: `load` made the module, which is given up here: nobody uses it, or a kernel of it, any more.
        unsafe { self.api.cuModuleUnload(module.handle()) }
    }

    /// Returns a kernel of a module.
    ///
    /// # Errors
    /// The driver's; or the module's text has no such kernel.
    pub fn function(&self, module: &Module, name: &str) -> anyhow::Result<Function> {
        Function::of(&self.api, module, name)
    }

    /// Returns an attribute of a kernel (`CUfunction_attribute`).
    ///
    /// # Errors
    /// The driver's.
    pub fn function_attribute(&self, function: &Function, attribute: i32) -> Result<i32> {
        let mut value = 0;
        // SAFETY: the place lives across the call.
        unsafe {
            self.api
                .cuFuncGetAttribute(&mut value, attribute, function.handle())?
        };
        Ok(value)
    }

    /// Lets a kernel be launched with that much dynamic shared memory.
    ///
    /// # Errors
    /// The driver's.
    pub fn allow_shared(&self, function: &Function, bytes: u32) -> Result<()> {
        if bytes <= PLAIN_SHARED {
            return Ok(());
        }
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function was found in a module of this session, which is loaded as long as it is used.
        unsafe {
            self.api
                .cuFuncSetAttribute(function.handle(), MOST_DYNAMIC_SHARED, bytes)
        }
    }

    /// Returns how many blocks of a kernel an SM holds at most.
    ///
    /// # Errors
    /// The driver's.
    pub fn blocks_per_sm(
        &self,
        function: &Function,
        threads: u32,
        shared_bytes: u32,
    ) -> Result<u32> {
        let mut blocks = 0;
        let threads = i32::try_from(threads).unwrap_or(i32::MAX);
        // SAFETY: the place lives across the call.
        unsafe {
            self.api.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                function.handle(),
                threads,
                shared_bytes as usize,
            )?;
        }
        Ok(blocks.unsigned_abs())
    }

    /// Allocates device memory.
    ///
    /// # Errors
    /// The driver's.
    pub fn alloc(&self, bytes: u64) -> Result<u64> {
        let mut address = 0;
        // SAFETY: the place lives across the call.
        unsafe {
            self.api
                .cuMemAlloc_v2(&mut address, usize_of(bytes.max(1)))?
        };
        Ok(address)
    }

    /// Allocates device memory that is zero.
    ///
    /// # Errors
    /// The driver's.
    pub fn zeroed(&self, bytes: u64) -> Result<u64> {
        let address = self.alloc(bytes)?;
        self.fill(address, 0, bytes)?;
        Ok(address)
    }

    /// Gives device memory back.
    ///
    /// # Errors
    /// The driver's.
    pub fn free(&self, address: u64) -> Result<()> {
        // SAFETY: `alloc` allocated the memory; a part gives it back once, after its last use.
        unsafe { self.api.cuMemFree_v2(address) }
    }

    /// Fills device memory with a byte, and waits until that is done.
    ///
    /// # Errors
    /// The driver's.
    pub fn fill(&self, address: u64, byte: u8, bytes: u64) -> Result<()> {
        // SAFETY: the memory is the device's, and the driver checks the range.
        unsafe {
            self.api
                .cuMemsetD8Async(address, byte, usize_of(bytes), self.control)?
        };
        self.wait(self.control)
    }

    /// Fills device memory with zeros, behind everything on a stream, and waits for nothing.
    ///
    /// # Errors
    /// The driver's.
    pub fn clear_behind(&self, address: u64, bytes: u64, stream: u64) -> Result<()> {
        // SAFETY: the memory is the device's, and the driver checks the range.
        unsafe {
            self.api
                .cuMemsetD8Async(address, 0, usize_of(bytes), stream)
        }
    }

    /// Writes device memory, and waits until that is done.
    ///
    /// # Errors
    /// The driver's.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        let from = bytes.as_ptr().cast();
        // SAFETY: the bytes live until the stream has been waited for.
        unsafe {
            self.api
                .cuMemcpyHtoDAsync_v2(address, from, bytes.len(), self.control)?
        };
        self.wait(self.control)
    }

    /// Reads device memory.
    ///
    /// # Errors
    /// The driver's.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<()> {
        let to = into.as_mut_ptr().cast();
        // SAFETY: the bytes live, and nobody else looks at them, until the stream has been waited for.
        unsafe {
            self.api
                .cuMemcpyDtoHAsync_v2(to, address, into.len(), self.control)?
        };
        self.wait(self.control)
    }

    /// Reads 64-bit words of device memory.
    ///
    /// # Errors
    /// The driver's.
    pub fn words(&self, address: u64, count: usize) -> Result<Vec<u64>> {
        let mut bytes = vec![0; 8 * count];
        self.read(address, &mut bytes)?;
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    /// Makes a stream of a priority: 0 is the lowest, negative numbers are higher.
    ///
    /// # Errors
    /// The driver's.
    pub fn stream(&self, priority: i32) -> Result<u64> {
        let mut stream = 0;
        // SAFETY: the place lives across the call.
        unsafe {
            self.api
                .cuStreamCreateWithPriority(&mut stream, NON_BLOCKING, priority)?;
        }
        Ok(stream)
    }

    /// Ends a stream; what is on it runs to its end.
    ///
    /// # Errors
    /// The driver's.
    pub fn end_stream(&self, stream: u64) -> Result<()> {
        // SAFETY: this session or a green context of it made the stream; a part ends it once, after its last use.
        unsafe { self.api.cuStreamDestroy_v2(stream) }
    }

    /// Returns the highest priority of a stream.
    ///
    /// # Errors
    /// The driver's.
    pub fn highest_priority(&self) -> Result<i32> {
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: the places live across the call.
        unsafe {
            self.api
                .cuCtxGetStreamPriorityRange(&mut least, &mut greatest)?
        };
        Ok(greatest)
    }

    /// Waits for everything on a stream.
    ///
    /// # Errors
    /// The driver's, also those of what was waited for.
    pub fn wait(&self, stream: u64) -> Result<()> {
        // SAFETY: this session or a green context of it made the stream, which its part has not ended.
        unsafe { self.api.cuStreamSynchronize(stream) }
    }

    /// Waits for everything.
    ///
    /// # Errors
    /// The driver's, also those of what was waited for.
    pub fn wait_for_all(&self) -> Result<()> {
        // SAFETY: it takes nothing.
        unsafe { self.api.cuCtxSynchronize() }
    }

    /// Makes an event, with a time or without.
    ///
    /// # Errors
    /// The driver's.
    pub fn event(&self, timed: bool) -> Result<u64> {
        let mut event = 0;
        let flags = if timed { 0 } else { NO_TIMING };
        // SAFETY: the place lives across the call.
        unsafe { self.api.cuEventCreate(&mut event, flags)? };
        Ok(event)
    }

    /// Ends an event.
    ///
    /// # Errors
    /// The driver's.
    pub fn end_event(&self, event: u64) -> Result<()> {
        // SAFETY: this session's `event` made it; a part ends it once, after its last use.
        unsafe { self.api.cuEventDestroy_v2(event) }
    }

    /// Records an event behind everything on a stream.
    ///
    /// # Errors
    /// The driver's.
    pub fn record(&self, event: u64, stream: u64) -> Result<()> {
        // SAFETY: this session or a green context of it made the stream, and its `event` the event; neither was ended.
        unsafe { self.api.cuEventRecord(event, stream) }
    }

    /// Waits until what an event was recorded behind has ended.
    ///
    /// # Errors
    /// The driver's, also those of what was waited for.
    pub fn wait_event(&self, event: u64) -> Result<()> {
        // SAFETY: the event was made by this session's `event`, and its part has not ended it.
        unsafe { self.api.cuEventSynchronize(event) }
    }

    /// Returns whether what an event was recorded behind has ended.
    ///
    /// # Errors
    /// The driver's.
    pub fn has_happened(&self, event: u64) -> Result<bool> {
        // SAFETY: the event was made by this session's `event`, and its part has not ended it.
        match unsafe { self.api.cuEventQuery(event) } {
            Ok(()) => Ok(true),
            Err(error) if error.is_not_ready() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the device time between two events in microseconds.
    ///
    /// # Errors
    /// The driver's.
    pub fn elapsed_us(&self, start: u64, end: u64) -> Result<f64> {
        let mut milliseconds = 0.0;
        // SAFETY: the place lives across the call.
        unsafe { self.api.cuEventElapsedTime(&mut milliseconds, start, end)? };
        Ok(f64::from(milliseconds) * 1e3)
    }

    /// Launches a kernel; each argument is its bytes, at most 64 of them.
    ///
    /// # Errors
    /// The driver's; or the arguments are not those that the kernel takes.
    pub fn launch(
        &self,
        function: &Function,
        shape: Shape,
        stream: u64,
        arguments: &[Vec<u8>],
    ) -> Result<()> {
        function.launch(&self.api, shape, stream, arguments)
    }

    /// Launches a kernel whose parameters are all 64-bit words.
    ///
    /// # Errors
    /// The driver's; or the words are not what the kernel takes.
    pub fn launch_words(
        &self,
        function: &Function,
        shape: Shape,
        stream: u64,
        words: &[u64],
    ) -> Result<()> {
        function.launch_words(&self.api, shape, stream, words)
    }
}

/// Returns a number of bytes as the API takes it; the machines of CUDA have 64-bit addresses.
fn usize_of(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
