//! Memory that crosses the channel: sealed memfds, and a tenant's DMA mappings.
//!
//! A descriptor from a tenant is believed only as far as the kernel vouches
//! for it: it must be a memfd on tmpfs (not hugetlbfs, whose holes can fault),
//! sealed against shrinking, and at least as long as claimed. Its bytes are
//! moved with `pread` and `pwrite`, so that holes punched meanwhile read as
//! zeroes and a lack of memory is an error, not a signal; large pieces of a
//! file that has no holes go through a mapping, at `memcpy`'s speed.
//!
//! Growth is sealed too (we add the seal if it is missing): otherwise a tenant
//! could set `O_APPEND` on the shared open file and let our writes grow it.
//!
//! Memory that a device reaches by its own addresses is accessed through a
//! mapping alone ([`TenantBuffer::pin`]): a hole there would take memory of
//! ours at any access, so that it has none, and none can be made.

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, OFlag, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};
use thiserror::Error;

mod host_pages;
mod mapped;

pub use host_pages::HostPages;
use mapped::Mapped;

/// The most bytes of one DMA mapping with a descriptor: 64 GiB.
pub const MAX_MAPPING_BYTES: u64 = 64 << 30;
/// `F_SEAL_FUTURE_WRITE` (Linux 5.1): no writing but through mappings that are there, and no punching of holes.
const F_SEAL_FUTURE_WRITE: SealFlag = SealFlag::from_bits_retain(libc::F_SEAL_FUTURE_WRITE);
/// The most DMA mappings of one tenant (vfio-user's `max_dma_maps`).
pub const MAX_MAPPINGS: usize = 4096;

/// Why memory was refused.
#[derive(Debug, Error)]
pub enum MemoryError {
    /// The file is not a memfd on tmpfs.
    #[error("not a memfd on tmpfs (hugetlbfs and files are refused)")]
    NotMemfd,
    /// The memfd can still shrink.
    #[error("the memfd lacks F_SEAL_SHRINK; seal it before mapping it")]
    NotSealed,
    /// The memfd can grow and forbids further seals.
    #[error("the memfd has F_SEAL_SEAL without F_SEAL_GROW; seal it against growing")]
    CanGrow,
    /// The memfd has holes that an access of the device would fill.
    #[error(
        "the memfd has a hole at {at:#x}; write to every page before it is mapped for the device"
    )]
    Hole {
        /// Where the hole begins.
        at: u64,
    },
    /// The memfd forbids the seal against holes.
    #[error(
        "the memfd has F_SEAL_SEAL, so that it cannot be kept from having holes; leave that seal out"
    )]
    CanHaveHoles,
    /// The memfd was opened for reading or writing alone.
    #[error("the memfd is not open for what the mapping allows")]
    AccessMode,
    /// The memfd is shorter than claimed.
    #[error("the memfd has {actual} bytes, the mapping claims {claimed}")]
    TooShort {
        /// Its length in bytes.
        actual: u64,
        /// The length it was said to have in bytes.
        claimed: u64,
    },
    /// A size of zero, over a limit, or one that wraps around.
    #[error("{what} {value:#x} is zero, misaligned or over the limit")]
    Size {
        /// Which figure.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// The range may have holes, and the owner's files have taken too much memory of ours.
    #[error(
        "the buffer has holes, and copies into holes have taken {} MiB of the service's memory already; allocate the \
         buffer's memory first (fallocate)",
        most >> 20
    )]
    Holes {
        /// The limit in bytes.
        most: u64,
    },
    /// The range is outside the buffer.
    #[error("{offset:#x}+{len:#x} is outside the buffer of {size:#x} bytes")]
    OutOfBounds {
        /// Offset in the buffer in bytes.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// Size of the buffer in bytes.
        size: u64,
    },
    /// The kernel refused.
    #[error("memory of the channel: {0}")]
    Io(#[from] std::io::Error),
}

impl MemoryError {
    /// Returns the error number that a vfio-user reply carries.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::NotMemfd
            | Self::NotSealed
            | Self::CanGrow
            | Self::CanHaveHoles
            | Self::Hole { .. }
            | Self::TooShort { .. } => Errno::EINVAL,
            Self::AccessMode => Errno::EACCES,
            Self::Size { .. } | Self::OutOfBounds { .. } => Errno::EINVAL,
            Self::Holes { .. } => Errno::ENOSPC,
            Self::Io(error) => error
                .raw_os_error()
                .map(Errno::from_raw)
                .filter(|e| *e as i32 > 0)
                .unwrap_or(Errno::EIO),
        }
    }
}

impl From<Errno> for MemoryError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// A memfd of ours: its length is fixed and no further seal can be added.
#[derive(Debug)]
pub struct SealedMemfd {
    fd: OwnedFd,
    len: u64,
}

impl SealedMemfd {
    /// Returns a memfd of `len` zero bytes, sealed `SHRINK | GROW | SEAL`. `name`
    /// shows in `/proc`.
    ///
    /// # Errors
    /// Out of memory or descriptors; a length over [`MAX_MAPPING_BYTES`].
    pub fn create(name: &str, len: u64) -> Result<Self, MemoryError> {
        Self::create_with(name, len, SealFlag::F_SEAL_SEAL)
    }

    /// Returns a memfd of `len` zero bytes that keeps its length and to which the
    /// other side may add the seal that [`TenantBuffer::pin`] asks for.
    ///
    /// # Errors
    /// As [`SealedMemfd::create`].
    pub fn create_pinnable(name: &str, len: u64) -> Result<Self, MemoryError> {
        Self::create_with(name, len, SealFlag::empty())
    }

    fn create_with(name: &str, len: u64, further: SealFlag) -> Result<Self, MemoryError> {
        let length = i64::try_from(len)
            .ok()
            .filter(|_| (1..=MAX_MAPPING_BYTES).contains(&len));
        let length = length.ok_or(MemoryError::Size {
            what: "length",
            value: len,
        })?;
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let fd = memfd_create(name, flags)?;
        nix::unistd::ftruncate(&fd, length)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | further;
        fcntl(&fd, FcntlArg::F_ADD_SEALS(seals))?;
        Ok(Self { fd, len })
    }

    /// Gives every page of it memory, so that the other side may copy large
    /// pieces of it as memory ([`TenantBuffer::read_at`]).
    ///
    /// # Errors
    /// Out of memory.
    pub fn fill_holes(&self) -> Result<(), MemoryError> {
        self.fill(self.len)
    }

    /// Gives its first `bytes` bytes memory.
    ///
    /// # Errors
    /// Out of memory.
    pub fn fill(&self, bytes: u64) -> Result<(), MemoryError> {
        let length = i64::try_from(bytes.min(self.len)).unwrap_or(i64::MAX);
        Ok(fallocate(&self.fd, FallocateFlags::empty(), 0, length)?)
    }

    /// Returns its length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Always false: a length of zero is refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl AsFd for SealedMemfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns the length in bytes of a memfd that is sealed against shrinking.
///
/// # Errors
/// It is not a memfd on tmpfs, or can shrink.
pub fn sealed_len(fd: BorrowedFd<'_>) -> Result<u64, MemoryError> {
    // The seals are asked first: only memfds have any, and the question reaches no file system that a peer might serve.
    let seals = seals(fd)?;
    if fstatfs(fd)?.filesystem_type() != TMPFS_MAGIC {
        return Err(MemoryError::NotMemfd);
    }
    if !seals.contains(SealFlag::F_SEAL_SHRINK) {
        return Err(MemoryError::NotSealed);
    }
    let stat = facts_of(fd)?;
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

/// Asks the kernel about a file by its descriptor alone: the C library's `fstat` is a call that takes names as well.
fn facts_of(fd: impl AsFd) -> Result<rustix::fs::Stat, MemoryError> {
    Ok(rustix::fs::fstat(fd).map_err(std::io::Error::from)?)
}

fn seals(fd: BorrowedFd<'_>) -> Result<SealFlag, MemoryError> {
    match fcntl(fd, FcntlArg::F_GET_SEALS) {
        Ok(bits) => Ok(SealFlag::from_bits_retain(bits)),
        Err(Errno::EINVAL) => Err(MemoryError::NotMemfd),
        Err(errno) => Err(errno.into()),
    }
}

/// Accesses of the device that a mapping allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protection {
    /// The device may read it.
    pub read: bool,
    /// The device may write it.
    pub write: bool,
}

impl Protection {
    /// The device may read it, and not write it.
    pub const READ: Self = Self {
        read: true,
        write: false,
    };
    /// The device may read and write it.
    pub const READ_WRITE: Self = Self {
        read: true,
        write: true,
    };
}

/// A checked memfd of a tenant: `size` bytes from `offset`.
#[derive(Debug)]
pub struct TenantBuffer {
    file: std::fs::File,
    offset: u64,
    size: u64,
    /// Made at the first large copy, where it can be.
    mapped: OnceLock<Option<Mapped>>,
    /// The account to which filling its holes is charged.
    pages: Arc<HostPages>,
}

impl TenantBuffer {
    /// Checks what a tenant handed over and takes it.
    ///
    /// # Errors
    /// Says what is wrong with it; the descriptor is closed.
    pub fn new(
        fd: OwnedFd,
        offset: u64,
        size: u64,
        protection: Protection,
    ) -> Result<Self, MemoryError> {
        if size == 0 || size > MAX_MAPPING_BYTES {
            return Err(MemoryError::Size {
                what: "mapping size",
                value: size,
            });
        }
        let claimed = offset.checked_add(size);
        let claimed = claimed.ok_or(MemoryError::Size {
            what: "offset",
            value: offset,
        })?;
        let actual = sealed_len(fd.as_fd())?;
        if actual < claimed {
            return Err(MemoryError::TooShort { actual, claimed });
        }
        check_access(fd.as_fd(), protection)?;
        if protection.write && !seals(fd.as_fd())?.contains(SealFlag::F_SEAL_GROW) {
            fcntl(&fd, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_GROW))
                .map_err(|_| MemoryError::CanGrow)?;
        }
        Ok(Self {
            file: fd.into(),
            offset,
            size,
            mapped: OnceLock::new(),
            pages: Arc::default(),
        })
    }

    /// Charges memory that copies into its holes take to an account that its owner's buffers share.
    #[must_use]
    pub fn charged_to(mut self, pages: Arc<HostPages>) -> Self {
        self.pages = pages;
        self
    }

    /// Returns its size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the descriptor and the offset at which the buffer starts, for a device
    /// that registers the memory.
    #[must_use]
    pub fn file(&self) -> (BorrowedFd<'_>, u64) {
        (self.file.as_fd(), self.offset)
    }

    /// Copies bytes at `offset` of the buffer into `out`; fastest where the
    /// whole memfd has memory ([`SealedMemfd::fill_holes`]).
    ///
    /// # Errors
    /// Out of bounds, or the kernel refused.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        self.check(offset, out.len())?;
        if let Some(mapped) = self.mapped(out.len())
            && mapped.read(&self.file, offset, out)
        {
            return Ok(());
        }
        Ok(self.file.read_exact_at(out, self.offset + offset)?)
    }

    /// Copies `data` to `offset` of the buffer.
    ///
    /// # Errors
    /// Out of bounds, too much memory taken by holes, or the kernel refused (as
    /// when the tenant sealed it against writing).
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MemoryError> {
        self.check(offset, data.len())?;
        let facts = facts_of(&self.file)?;
        if self.pages.is_spent() && !mapped::is_whole(&facts) {
            let most = self.pages.most();
            return Err(MemoryError::Holes { most });
        }
        let written = match self.mapped(data.len()) {
            Some(mapped) => mapped.write(&self.file, offset, data),
            None => false,
        };
        if !written {
            self.file.write_all_at(data, self.offset + offset)?;
        }
        // The tenant may touch and free pages of it meanwhile.
        let after = mapped::bytes_of(&facts_of(&self.file)?);
        self.pages
            .take(after.saturating_sub(mapped::bytes_of(&facts)));
        Ok(())
    }

    /// Keeps the memfd as it is for good, without holes, so that an access through a mapping that was made before takes
    /// no memory of ours and cannot fail. Bytes can then be written through such mappings alone, no more by
    /// [`TenantBuffer::write_at`].
    ///
    /// It looks at every page, and waits for the file's lock, which the tenant may hold for as long as it likes, by a
    /// write from memory that it serves itself: no lock of ours may be held meanwhile that others wait for.
    ///
    /// # Errors
    /// It has a hole, or cannot be sealed.
    pub fn pin(&self) -> Result<(), MemoryError> {
        let kept = F_SEAL_FUTURE_WRITE | SealFlag::F_SEAL_GROW;
        if !seals(self.file.as_fd())?.contains(kept) {
            fcntl(&self.file, FcntlArg::F_ADD_SEALS(kept))
                .map_err(|_| MemoryError::CanHaveHoles)?;
        }
        // Since it is sealed no page can be taken out of it, so that what is found now stays.
        let end = self.offset + self.size;
        let from = i64::try_from(self.offset).unwrap_or(i64::MAX);
        let hole = nix::unistd::lseek(&self.file, from, nix::unistd::Whence::SeekHole)?;
        match u64::try_from(hole).unwrap_or(0) {
            at if at < end => Err(MemoryError::Hole { at }),
            _ => Ok(()),
        }
    }

    /// Returns the mapping, for a copy that is worth one.
    fn mapped(&self, len: usize) -> Option<&Mapped> {
        if len < mapped::LEAST_BYTES {
            return None;
        }
        let map = || Mapped::new(&self.file, self.offset, self.size);
        self.mapped.get_or_init(map).as_ref()
    }

    fn check(&self, offset: u64, len: usize) -> Result<(), MemoryError> {
        let len = len as u64;
        match offset.checked_add(len) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(MemoryError::OutOfBounds {
                offset,
                len,
                size: self.size,
            }),
        }
    }
}

fn check_access(fd: BorrowedFd<'_>, protection: Protection) -> Result<(), MemoryError> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    let mode = flags & OFlag::O_ACCMODE;
    let reads = mode == OFlag::O_RDONLY || mode == OFlag::O_RDWR;
    let writes = mode == OFlag::O_WRONLY || mode == OFlag::O_RDWR;
    if flags.contains(OFlag::O_PATH) || (protection.read && !reads) || (protection.write && !writes)
    {
        return Err(MemoryError::AccessMode);
    }
    Ok(())
}
