//! The control mailbox: what a tenant asks for outside the rings.
//!
//! Region 1 is a mailbox. A `REGION_WRITE` at offset 0 carries one request and
//! executes it; a `REGION_READ` gives the reply, whose first four bytes are
//! the length of what follows (native endian, as all of vfio-user). A length
//! of zero says that the request is still being executed: read again.
//!
//! Requests and replies are postcard, bounded by [`MAX_REQUEST_BYTES`] and
//! [`MAX_REPLY_BYTES`]. Big things (PTX, data) never pass here: they stand in
//! DMA-mapped memory and are named by address.

use serde::{Deserialize, Serialize};
use thiserror::Error;

mod mailbox;
pub mod object;

pub use mailbox::Mailbox;

/// The most bytes of an encoded request.
pub const MAX_REQUEST_BYTES: usize = 64 << 10;
/// The most bytes of an encoded reply.
pub const MAX_REPLY_BYTES: usize = 4 << 20;
/// The version of requests and replies; `Hello` carries it.
///
/// 2: `Hello` names a tenant, `Welcome` answers with it; modules have
/// variables, kernels have attributes, and [`DeviceFacts`] answers everything
/// that an occupancy calculation asks.
///
/// 3: a kernel says why it cannot run, a module whether it prints,
/// `TakePrinted` gives what kernels printed, and `LoadModule` takes several
/// texts, which are linked.
///
/// 4: a kernel says why its grid cannot be cut.
///
/// 5: usage says how much memory is free, which may be less than the tenant's limit leaves.
///
/// 6: `MapMemory` gives the tenant's own memory device addresses, and
/// [`DeviceFacts`] says whether the device can do that; `CreateObject` makes
/// textures and surfaces, `Paging` sets addresses and memory apart;
/// `Unsupported` is a code.
pub const CONTROL_VERSION: u32 = 6;
/// The most bytes of a client's name.
pub const MAX_NAME_BYTES: usize = 64;
/// The most bytes of a tenant's name.
pub const MAX_TENANT_NAME_BYTES: usize = 32;
/// The most texts that are linked into one module.
pub const MAX_MODULE_PARTS: usize = 256;

/// A tenant's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ControlRequest {
    /// The first request: who this is.
    Hello {
        /// The name that operators see, at most [`MAX_NAME_BYTES`] bytes.
        name: String,
        /// The client's [`CONTROL_VERSION`].
        client_version: u32,
        /// The tenant that the client asks to be, at most [`MAX_TENANT_NAME_BYTES`]
        /// bytes; without it, the first that it may be.
        tenant: Option<String>,
    },
    /// Device memory of `bytes` bytes.
    Alloc {
        /// Its size.
        bytes: u64,
    },
    /// Lets kernels reach memory of the tenant's at device addresses. It must
    /// be a whole DMA mapping that the device may write, of a memfd without
    /// holes that can be sealed against having any (`F_SEAL_FUTURE_WRITE`).
    MapMemory {
        /// The DMA mapping's first address.
        iova: u64,
        /// How many of its bytes the device may access.
        bytes: u64,
        /// They count as device memory of the tenant's (managed memory).
        counts: bool,
    },
    /// Puts memory of the tenant's, as `MapMemory` asks for it, in the place of
    /// a managed variable, with what that holds; `Done` answers.
    MapVariable {
        /// The DMA mapping's first address; it is as long as whole pages of the
        /// variable.
        iova: u64,
        /// The variable's address.
        address: u64,
    },
    /// Gives back what `Alloc` or `MapMemory` gave.
    Free {
        /// The address that it returned.
        address: u64,
    },
    /// Makes a texture or a surface of device memory.
    CreateObject(object::Object),
    /// Ends one.
    DestroyObject {
        /// The handle that `CreateObject` returned.
        handle: u64,
    },
    /// Reserves device addresses, makes physical memory, or maps one at the
    /// other.
    Paging(PagingRequest),
    /// Loads the PTX that stands in DMA-mapped memory; several texts are
    /// linked into one module.
    LoadModule {
        /// The texts, 1 to [`MAX_MODULE_PARTS`].
        parts: Vec<ModulePart>,
    },
    /// Unloads a module; its kernels are unknown from then on.
    UnloadModule {
        /// The handle that `LoadModule` returned.
        module: u32,
    },
    /// A new stream: operations on it are executed in order.
    CreateStream,
    /// Ends a stream when what was submitted on it has ended.
    DestroyStream {
        /// The stream.
        stream: u16,
    },
    /// The text of a submission that failed.
    LastError {
        /// The cookie of the submission.
        cookie: u64,
    },
    /// Use of the device by the tenant.
    Usage,
    /// Text that the client's kernels printed since the last call.
    TakePrinted,
}

/// Device addresses apart from device memory. Addresses, sizes and offsets are
/// multiples of [`crate::regions::PAGE_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PagingRequest {
    /// Reserves addresses at which nothing is yet; `Allocated` answers.
    Reserve {
        /// How many.
        bytes: u64,
        /// What the first is a multiple of, a power of two.
        align: u64,
    },
    /// Gives reserved addresses back, at which nothing is mapped.
    Unreserve {
        /// The first.
        address: u64,
    },
    /// Makes physical memory; `Object` answers with its number.
    Create {
        /// Its size.
        bytes: u64,
    },
    /// Gives physical memory back; it goes when it is mapped nowhere.
    Release {
        /// Its number.
        physical: u64,
    },
    /// Maps physical memory at reserved addresses.
    Map {
        /// The first address.
        address: u64,
        /// How many bytes.
        bytes: u64,
        /// The memory's number.
        physical: u64,
        /// Where the bytes begin in it.
        offset: u64,
    },
    /// Makes what is mapped accessible, or no more so.
    Access {
        /// The first address.
        address: u64,
        /// How many bytes: whole mappings without gaps.
        bytes: u64,
        /// Kernels and copies may read and write.
        is_accessible: bool,
    },
    /// Takes away what is mapped.
    Unmap {
        /// The first address.
        address: u64,
        /// How many bytes: whole mappings without gaps.
        bytes: u64,
    },
}

/// A PTX text in the tenant's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModulePart {
    /// Where it stands in the tenant's DMA space.
    pub iova: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// The mediator's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ControlReply {
    /// To `Hello`.
    Welcome(Box<Welcome>),
    /// To `Alloc`, `MapMemory` and `Paging`: the device address.
    Allocated {
        /// The first byte's address.
        address: u64,
    },
    /// To `CreateObject` and `Paging`.
    Object {
        /// What stands for a texture or surface in kernels, or the number of
        /// physical memory.
        handle: u64,
    },
    /// To `LoadModule`.
    Loaded(Module),
    /// To `CreateStream`.
    Stream(u16),
    /// To `LastError`: the text.
    Text(String),
    /// To `Usage`.
    Usage(Usage),
    /// To everything that returns nothing.
    Done,
    /// The request failed; nothing changed.
    Error(ControlError),
    /// To `TakePrinted`.
    Printed {
        /// The text, in the order in which it was printed.
        text: Vec<u8>,
        /// How many bytes found no room behind it.
        lost_bytes: u64,
    },
}

/// Facts in the answer to a tenant's hello.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The tenant's number.
    pub tenant_id: u32,
    /// The tenant's name, as the configuration says.
    pub tenant: String,
    /// The client's number, unique while the service runs.
    pub client: u32,
    /// The name under which operators see the client.
    pub name: String,
    /// The tenant's weight, as the configuration says.
    pub weight: u32,
    /// The most device memory that all clients of the tenant may hold together, in bytes.
    pub memory_limit_bytes: u64,
    /// The device.
    pub device: DeviceFacts,
}

/// What a tenant may know about the device. A figure that the device does not
/// tell is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFacts {
    /// Its name, as `h200`.
    pub name: String,
    /// True if it is a modelled GPU: its times are virtual or estimated.
    pub is_model: bool,
    /// Its compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// How many streaming multiprocessors it has.
    pub sms: u32,
    /// Threads of a warp.
    pub warp_size: u32,
    /// Core clock in kilohertz.
    pub clock_khz: u64,
    /// The most threads of a block.
    pub max_threads_per_block: u32,
    /// The most threads of a block in x, y and z.
    pub max_block: [u32; 3],
    /// The most blocks of a grid in x, y and z.
    pub max_grid: [u32; 3],
    /// The most shared memory of a block in bytes, for a kernel that asks for
    /// it (`cudaDevAttrMaxSharedMemoryPerBlockOptin`).
    pub shared_bytes_per_block: u32,
    /// The most shared memory of a block in bytes without asking.
    pub default_shared_bytes_per_block: u32,
    /// Shared memory that the system takes for each block, in bytes.
    pub reserved_shared_bytes_per_block: u32,
    /// The most 32-bit registers of a block.
    pub registers_per_block: u32,
    /// Resources of one SM, and their units.
    pub sm: SmFacts,
    /// Its memory in bytes.
    pub memory_bytes: u64,
    /// Clock of the memory in kilohertz.
    pub memory_clock_khz: u64,
    /// Width of the memory bus in bits.
    pub memory_bus_bits: u32,
    /// Level-2 cache in bytes.
    pub l2_bytes: u64,
    /// Constant memory of a module in bytes.
    pub constant_bytes: u32,
    /// Copies that run beside each other and beside kernels.
    pub copy_engines: u32,
    /// Kernels that run beside each other.
    pub concurrent_kernels: u32,
    /// It accesses the tenant's own memory while the tenant does (`MapMemory`).
    pub maps_host_memory: bool,
}

/// What one SM holds, and the units in which it is given to blocks: the inputs
/// of CUDA's occupancy calculation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmFacts {
    /// Resident threads.
    pub threads: u32,
    /// Resident blocks.
    pub blocks: u32,
    /// 32-bit registers.
    pub registers: u32,
    /// Registers are given to a warp in units of this many.
    pub register_unit: u32,
    /// Shared memory in bytes.
    pub shared_bytes: u32,
    /// Shared memory is given to a block in units of this many bytes.
    pub shared_unit_bytes: u32,
}

/// A loaded module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its handle.
    pub handle: u32,
    /// Its kernels, in the order of the source.
    pub kernels: Vec<KernelInfo>,
    /// Its `.global` and `.const` variables of module scope, in the order of
    /// the source.
    pub globals: Vec<GlobalInfo>,
    /// A function of it calls `vprintf`.
    pub prints: bool,
}

/// A variable of a module in device memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GlobalInfo {
    /// Its name in the source.
    pub name: String,
    /// Its first byte's device address.
    pub address: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Declared managed: the tenant may have its memory (`MapVariable`).
    pub is_managed: bool,
}

/// A kernel of a module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelInfo {
    /// Its name in the source.
    pub name: String,
    /// Its handle, for launches.
    pub handle: u32,
    /// The size of its packed parameters in bytes.
    pub params_bytes: u32,
    /// Its parameters in order.
    pub params: Vec<ParamInfo>,
    /// The most threads of a block that it can run with.
    pub max_threads: u32,
    /// Static shared memory of a block in bytes.
    pub static_shared_bytes: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Local memory of a thread in bytes.
    pub local_bytes: u32,
    /// Constant memory that the module declares, in bytes.
    pub const_bytes: u32,
    /// The most dynamic shared memory that a launch may ask for, in bytes.
    pub max_dynamic_shared_bytes: u32,
    /// The architecture that the PTX is written for, major * 10 + minor: 80
    /// for `.target sm_80` (`CU_FUNC_ATTRIBUTE_PTX_VERSION`).
    pub ptx_version: u32,
    /// Why it cannot run on the device, though others of its module can; its
    /// launches are refused with this text.
    pub unusable: Option<String>,
    /// Why its grid cannot be cut, though it can run: each launch goes to the
    /// device as a whole, so that it waits for more room and others may wait
    /// for its end.
    pub undivided: Option<String>,
}

/// A parameter of a kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParamInfo {
    /// Where it stands in the packed parameters, in bytes.
    pub offset: u32,
    /// Its size in bytes.
    pub size: u32,
    /// Its alignment in bytes.
    pub align: u32,
}

/// Use of the device by a tenant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Device memory it holds, in bytes.
    pub memory_bytes: u64,
    /// The most it may hold, in bytes.
    pub memory_limit_bytes: u64,
    /// Memory that it may still ask for, in bytes: others may hold more than its limit leaves them.
    pub memory_free_bytes: u64,
    /// Launches it submitted and that were admitted, over all of its clients since the device host started.
    pub launches: u64,
    /// Operations that it submitted and that have not ended.
    pub in_flight: u64,
    /// Operations of every kind that it submitted, launches among them, counted as `launches` are.
    pub operations: u64,
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("{message}")]
pub struct ControlError {
    /// Kind of failure.
    pub code: ControlCode,
    /// The failure, and what to do about it.
    pub message: String,
}

impl ControlError {
    /// Returns an error with its text.
    pub fn new(code: ControlCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ControlCode {
    /// The request could not be decoded, or makes no sense now.
    BadRequest,
    /// The versions do not fit.
    Version,
    /// `Hello` was not said first, or the client may be no tenant at all.
    NotWelcome,
    /// Over a limit of the tenant's or the device's.
    Limit,
    /// Out of device memory.
    OutOfMemory,
    /// No such address, module, stream or cookie.
    NotFound,
    /// The DMA address is not mapped.
    BadIova,
    /// The module is no valid PTX, or a kernel cannot be run.
    BadModule,
    /// It is in use.
    Busy,
    /// The client may not be the tenant that it asks to be.
    Denied,
    /// The device failed; reconnect.
    DeviceLost,
    /// The mediator failed.
    Internal,
    /// The device cannot do it.
    Unsupported,
}

/// Bytes that are no request or reply.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ControlCodecError {
    /// Over the limit.
    #[error("{actual} bytes are over the limit of {limit} for a control message")]
    TooLarge {
        /// How many bytes.
        actual: usize,
        /// The limit.
        limit: usize,
    },
    /// Not postcard, or something follows it.
    #[error("malformed control message: {0}")]
    Malformed(String),
}

impl ControlRequest {
    /// Encodes the request.
    ///
    /// # Errors
    /// It is over [`MAX_REQUEST_BYTES`].
    pub fn encode(&self) -> Result<Vec<u8>, ControlCodecError> {
        encode(self, MAX_REQUEST_BYTES)
    }

    /// Decodes what a tenant wrote.
    ///
    /// # Errors
    /// It is too large or malformed.
    pub fn decode(bytes: &[u8]) -> Result<Self, ControlCodecError> {
        decode(bytes, MAX_REQUEST_BYTES)
    }
}

impl ControlReply {
    /// Encodes the reply.
    ///
    /// # Errors
    /// It is over [`MAX_REPLY_BYTES`].
    pub fn encode(&self) -> Result<Vec<u8>, ControlCodecError> {
        encode(self, MAX_REPLY_BYTES)
    }

    /// Decodes what the mediator answered.
    ///
    /// # Errors
    /// It is too large or malformed.
    pub fn decode(bytes: &[u8]) -> Result<Self, ControlCodecError> {
        decode(bytes, MAX_REPLY_BYTES)
    }
}

fn encode<T: Serialize>(value: &T, limit: usize) -> Result<Vec<u8>, ControlCodecError> {
    let bytes =
        postcard::to_stdvec(value).map_err(|e| ControlCodecError::Malformed(e.to_string()))?;
    if bytes.len() > limit {
        return Err(ControlCodecError::TooLarge {
            actual: bytes.len(),
            limit,
        });
    }
    Ok(bytes)
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8], limit: usize) -> Result<T, ControlCodecError> {
    if bytes.len() > limit {
        return Err(ControlCodecError::TooLarge {
            actual: bytes.len(),
            limit,
        });
    }
    let (value, rest) = postcard::take_from_bytes(bytes)
        .map_err(|e| ControlCodecError::Malformed(e.to_string()))?;
    if !rest.is_empty() {
        return Err(ControlCodecError::Malformed(format!(
            "{} bytes follow it",
            rest.len()
        )));
    }
    Ok(value)
}
