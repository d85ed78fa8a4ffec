//! What a rewritten kernel and its launcher agree on: the control block, the counters, the words in shared memory.
//!
//! The *control block* is the one parameter that every rewritten kernel gets, 64 bytes by value, aligned to 8. It is
//! the first, so that its place depends on nothing that the kernel declares. Passed by value it lies in the constant
//! bank, where reading it costs no register.
//!
//! ```text
//!   0                 64                 64 + n
//!   ├──────────────────┼──────────────────┤
//!   │  control block   │ the kernel's own │    n bytes, laid out as in the original
//!   └──────────────────┴──────────────────┘
//! ```
//!
//! A kernel's own parameters keep their sizes, their alignments and their distances from each other: 64 is a multiple
//! of every alignment that a rewritten kernel may have ([`MAX_PARAM_ALIGN`]).
//!
//! A form leaves the fields that it does not use zero:
//!
//! ```text
//!         0          12        24      28      32         40       48          56          64
//! slice   offset(3)  grid(3)   –       –       –          –        –           –
//! worker  –          grid(3)   blocks  chunk   counters   –        –           –
//! fence   –          –         –       –       counters   –        fence base  fence mask    (with any of the above)
//! stamps  –          –         mask    column, –          stamps   –           –             (with all but worker)
//!                                      row shift,
//!                                      of a row
//! ```
//!
//! The *counters* are 64 bytes of device memory, all zero before the kernel's first launch. A worker takes a ticket by
//! adding the ticket's blocks to `next`. A fenced kernel records its first fault there. Bytes 4 to 19 and 32 to 63 are
//! unused and stay zero.
//!
//! The *stamps* are records of 32 bytes. A block of a launch is stamped if its x in the launch is the column where the
//! mask has bits, and its row, `z * rows of a plane + y`, is a multiple of 2ᵇ where b is the row shift. It writes start
//! and end, in nanoseconds of `%globaltimer`, and its SM. Records stand in the order of their blocks' numbers. A record
//! that is zero before the launch so tells which of the two has happened; bytes 20 to 31 are unused.
//!
//! The *words* are the last bytes of a worker's shared memory, behind what the launch asks for.
//!
//! All values are little-endian, as the GPU's are. The launcher is the room `launch`.

/// Size of the control block in bytes.
pub const CONTROL_BYTES: u32 = 64;
/// Alignment of the control block in bytes.
pub const CONTROL_ALIGN: u32 = 8;
/// Offset of the coordinates of the launch's first block in the original grid, three 32-bit words (`slice`).
pub const OFFSET_AT: u32 = 0;
/// Offset of the original grid, three 32-bit words (`slice`, `worker`).
pub const GRID_AT: u32 = 12;
/// Offset of the number of blocks of the original grid, 32 bits (`worker`).
pub const BLOCKS_AT: u32 = 24;
/// Offset of the number of blocks of a ticket, 32 bits (`worker`).
pub const CHUNK_AT: u32 = 28;
/// Offset of the mask of x, 32 bits (`stamps`): ones below its lowest zero, and none above.
pub const STAMP_MASK_AT: u32 = 24;
/// Offset of the column, 8 bits (`stamps`), within the mask, and less than the length of the launch's rows.
pub const STAMP_COLUMN_AT: u32 = 28;
/// Offset of the row shift, 8 bits, at most 32 (`stamps`).
pub const STAMP_ROW_SHIFT_AT: u32 = 29;
/// Offset of the number of records that a row has that has any, 16 bits (`stamps`); zero where there is one row.
pub const STAMPS_OF_ROW_AT: u32 = 30;
/// Offset of the device address of the counters, 64 bits, a multiple of 8 (`worker`, `fence`). A fence records nothing
/// where it is zero.
pub const COUNTERS_AT: u32 = 32;
/// Offset of the device address of the stamps of the launch's blocks, 64 bits, a multiple of 32 (`stamps`). Zero where
/// none are wanted.
pub const STAMPS_AT: u32 = 40;
/// Offset of the first address of the tenant's reservation, 64 bits (`fence`).
pub const FENCE_BASE_AT: u32 = 48;
/// Offset of the mask of the bits inside the reservation, 64 bits (`fence`).
pub const FENCE_MASK_AT: u32 = 56;

/// Kernels have at most this many bytes of parameters (PTX ISA section 5.1.6.1: 4,352 before `sm_70`'s large
/// parameters, 32,764 with PTX 8.1 and `sm_70` or later).
pub const MAX_PARAMS_BYTES: u32 = 4352;
/// The same for PTX 8.1 or later on `sm_70` or later.
pub const MAX_LARGE_PARAMS_BYTES: u32 = 32_764;
/// Greatest alignment in bytes that a parameter of a rewritten kernel may have: that of a tensor map.
pub const MAX_PARAM_ALIGN: u32 = 64;
/// Where a compiler aligns parameters further than this, their distances depend on where the parameters of all kernels
/// begin in the constant bank of the target (for `sm_90` at 0x210).
pub const FIXED_PARAM_ALIGN: u32 = 16;

/// Size of the counters in bytes.
pub const COUNTERS_BYTES: u32 = 64;
/// Offset in the counters: number of the first block of the next ticket (`worker`).
pub const NEXT_AT: u32 = 0;
/// Value that a fault raises `next` to: past every block, and so far from the end of 32 bits that tickets taken behind
/// it do not wrap.
pub const NEXT_CLOSED: u32 = 1 << 31;
/// Offset in the counters: kind of the first fault, 0 when there was none (`fence`).
pub const FAULT_KIND_AT: u32 = 20;
/// Offset in the counters: line in the original PTX of the first fault.
pub const FAULT_LINE_AT: u32 = 24;
/// Offset in the counters: block of the first fault, counted x fastest.
pub const FAULT_BLOCK_AT: u32 = 28;

/// Size of a stamp's record in bytes.
pub const STAMP_BYTES: u32 = 32;
/// Offset in a record: when the block's first thread started, 64 bits, in nanoseconds of `%globaltimer`.
pub const STAMP_START_AT: u32 = 0;
/// Offset in a record: when it ended, likewise.
pub const STAMP_END_AT: u32 = 8;
/// Offset in a record: the number of the SM that it ran on, 32 bits.
pub const STAMP_SM_AT: u32 = 16;

/// Most blocks of a grid that workers count: takes past the end do not wrap then.
pub const MAX_WORKER_BLOCKS: u64 = (1 << 31) - 1;

/// Bytes that a worker's launch adds to the dynamic shared memory that the tenant asked for. The last [`WORDS_BYTES`]
/// of it, rounded down to 16, are the words below.
pub const EXTRA_SHARED_BYTES: u32 = 32;
/// Size of the words in shared memory through which the threads of a worker speak to each other, in bytes.
pub const WORDS_BYTES: u32 = 16;
/// Offset in the words: number of the first block of the worker's ticket.
pub const WORD_TICKET_AT: u32 = 0;
/// Offset in the words: not zero once a thread of the worker has left for a fault (`fence`).
pub const WORD_FAULT_AT: u32 = 4;
