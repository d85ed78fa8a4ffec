//! Host memory that the device copies to and from without staging: a
//! memfd that stays mapped for DMA as long as it lives. Where the device
//! can, its kernels reach it too, at the addresses that it has in this
//! process.

use crate::buffer::Buffer;
use crate::error::ClientError;
use crate::host_map::HostMap;
use crate::link::{LinkRef, unexpected};
use gridmux_channel::control::{ControlReply, ControlRequest, GlobalInfo};
use gridmux_channel::memory::{MemoryError, Protection, SealedMemfd};
use gridmux_channel::regions::PAGE_BYTES;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The address at which pinned memory begins in the DMA space.
const FIRST_IOVA: u64 = 1 << 41;
/// The end of the DMA space for it. Addresses are not used again.
const LAST_IOVA: u64 = 1 << 62;
/// A copy is submitted in pieces of this many bytes, so that it yields to others.
const PIECE_BYTES: u64 = 4 << 20;

/// Host memory of this process that is mapped for the device. When dropped it is unmapped, behind everything that was
/// submitted.
#[derive(Debug)]
pub struct Pinned {
    window: Window,
    reach: Reach,
    map: Option<HostMap>,
    bytes: u64,
    /// Nothing that was submitted uses it.
    is_idle: AtomicBool,
}

/// Whether kernels reach pinned memory.
#[derive(Debug)]
enum Reach {
    /// At the addresses of this process.
    Kernels(Buffer),
    /// Only copies do, for this reason.
    Copies(String),
}

/// Managed memory: the process and kernels both reach it, at the same addresses and at any time. It counts as device
/// memory.
#[derive(Debug)]
pub struct Managed {
    link: LinkRef,
    buffer: Buffer,
    map: Option<HostMap>,
}

/// A place in the DMA space; it is given back when dropped.
#[derive(Debug)]
pub(crate) struct Window {
    link: LinkRef,
    iova: u64,
    bytes: u64,
}

impl Window {
    /// Makes memory of `bytes` bytes and maps it for the device, and here. With `for_kernels` it is made fit for
    /// [`Window::for_kernels`].
    pub(crate) fn make(
        link: &LinkRef,
        bytes: u64,
        for_kernels: bool,
    ) -> Result<(Self, HostMap), ClientError> {
        static NEXT: AtomicU64 = AtomicU64::new(FIRST_IOVA);
        let size_error = || MemoryError::Size {
            what: "pinned memory",
            value: bytes,
        };
        let mapped_bytes = bytes.max(1).checked_next_multiple_of(PAGE_BYTES);
        let mapped_bytes = mapped_bytes.ok_or_else(size_error)?;
        let memfd = SealedMemfd::create_pinnable("gridmux-pinned", mapped_bytes)?;
        // Pinned memory is there, and without holes copies from it go at full speed.
        memfd.fill_holes()?;
        let len = usize::try_from(mapped_bytes).map_err(|_| size_error())?;
        let map = HostMap::new(memfd.as_fd(), len)?;
        if for_kernels {
            map.populate();
        }
        // Relaxed: the number is all that counts.
        let iova = NEXT.fetch_add(mapped_bytes, Ordering::Relaxed);
        if iova > LAST_IOVA {
            return Err(size_error().into());
        }
        let both = Protection::READ_WRITE;
        link.with_session(|session| {
            Ok(session.dma_map(iova, mapped_bytes, 0, both, memfd.as_fd())?)
        })?;
        let window = Self {
            link: link.clone(),
            iova,
            bytes: mapped_bytes,
        };
        Ok((window, map))
    }

    /// Lets kernels reach its first `bytes` bytes, which count as device memory if `counts`.
    pub(crate) fn for_kernels(&self, bytes: u64, counts: bool) -> Result<Buffer, ClientError> {
        let request = ControlRequest::MapMemory {
            iova: self.iova,
            bytes,
            counts,
        };
        match self.link.control(&request)? {
            ControlReply::Allocated { address } => {
                Ok(Buffer::allocation(self.link.clone(), address, bytes))
            }
            _ => Err(unexpected("MapMemory")),
        }
    }
}

/// A managed variable of a module: this process has its memory, at the variable's address. When dropped the process has
/// it no more.
#[derive(Debug)]
pub struct SharedVariable {
    _map: HostMap,
}

impl SharedVariable {
    pub(crate) fn new(link: &LinkRef, variable: &GlobalInfo) -> Result<Self, ClientError> {
        let (window, mut map) = Window::make(link, variable.bytes, true)?;
        let request = ControlRequest::MapVariable {
            iova: window.iova,
            address: variable.address,
        };
        link.control(&request)?;
        map.move_to(variable.address)
            .map_err(|error| ClientError::AddressTaken {
                address: variable.address,
                why: error.to_string(),
            })?;
        Ok(Self { _map: map })
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let unmapped = self
            .link
            .with_session(|session| Ok(session.dma_unmap(self.iova, self.bytes)?));
        // On a lost connection the mediator has forgotten the mapping already.
        let _ = unmapped;
    }
}

impl Pinned {
    pub(crate) fn new(
        link: &LinkRef,
        bytes: u64,
        device_reaches: bool,
    ) -> Result<Self, ClientError> {
        let (window, map, reach) = match device_reaches {
            true => Self::for_kernels(link, bytes)?,
            false => {
                let (window, map) = Window::make(link, bytes, false)?;
                let why = "its kernels reach no host memory".into();
                (window, map, Reach::Copies(why))
            }
        };
        Ok(Self {
            window,
            reach,
            map: Some(map),
            bytes,
            is_idle: AtomicBool::new(false),
        })
    }

    /// Makes memory that kernels reach, if that can be; without it the memory is of use for copies all the same.
    fn for_kernels(link: &LinkRef, bytes: u64) -> Result<(Window, HostMap, Reach), ClientError> {
        let (window, mut map) = Window::make(link, bytes, true)?;
        let error = match place(&window, &mut map, bytes, false) {
            Ok(reach) => return Ok((window, map, reach)),
            Err(error) if error.is_lost() => return Err(error),
            Err(error) => error,
        };
        // What the mediator has pinned for kernels takes no more writes by the file, as copies into it are.
        drop((window, map));
        let (window, map) = Window::make(link, bytes, false)?;
        Ok((window, map, Reach::Copies(error.to_string())))
    }

    /// Says that everything that used the memory has ended, so that giving it back need not wait for what else was
    /// submitted.
    pub fn nothing_uses_it(&self) {
        // Relaxed: dropping the value comes after this, and whoever hands it to another thread orders it.
        self.is_idle.store(true, Ordering::Relaxed);
    }

    /// Returns the first byte's address in this process.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        let map = self.map.as_ref();
        map.map_or(std::ptr::null_mut(), HostMap::start)
    }

    /// Returns its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the first byte's device address, which is its address in this process.
    ///
    /// # Errors
    /// The reason why kernels do not reach the memory: the device's, or that the addresses are taken here.
    pub fn device_address(&self) -> Result<u64, &str> {
        match &self.reach {
            Reach::Kernels(buffer) => Ok(buffer.address()),
            Reach::Copies(why) => Err(why),
        }
    }

    /// Returns where `len` bytes at `offset` stand in the DMA space of `link`.
    pub(crate) fn iova(&self, link: &LinkRef, offset: u64, len: u64) -> Result<u64, ClientError> {
        if !Arc::ptr_eq(link, &self.window.link) {
            return Err(ClientError::Foreign("pinned memory"));
        }
        match offset.checked_add(len) {
            Some(end) if end <= self.bytes => Ok(self.window.iova + offset),
            _ => Err(ClientError::OutOfBounds {
                offset,
                len,
                size: self.bytes,
            }),
        }
    }

    /// Returns start and length of the pieces in which `len` bytes are copied.
    pub(crate) fn pieces(len: u64) -> impl Iterator<Item = (u64, u64)> {
        (0..len.div_ceil(PIECE_BYTES)).map(move |i| {
            let start = i * PIECE_BYTES;
            (start, PIECE_BYTES.min(len - start))
        })
    }
}

/// Gives the memory of a window its device addresses, here as well.
fn place(
    window: &Window,
    map: &mut HostMap,
    bytes: u64,
    counts: bool,
) -> Result<Reach, ClientError> {
    let buffer = window.for_kernels(bytes, counts)?;
    // Nothing that was submitted uses it yet, should it go at once.
    buffer.nothing_uses_it();
    map.move_to(buffer.address())
        .map_err(|error| ClientError::AddressTaken {
            address: buffer.address(),
            why: error.to_string(),
        })?;
    Ok(Reach::Kernels(buffer))
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Relaxed: see `Pinned::nothing_uses_it`.
        if !self.is_idle.load(Ordering::Relaxed) {
            // The mediator looks a copy's place up when it admits the copy, which may lie in the ring still.
            let _ = self.window.link.drain();
        }
        // The addresses are free here before the mediator can give them to another thread.
        self.map = None;
    }
}

impl Managed {
    pub(crate) fn new(link: &LinkRef, bytes: u64) -> Result<Self, ClientError> {
        let (window, mut map) = Window::make(link, bytes, true)?;
        match place(&window, &mut map, bytes, true)? {
            Reach::Kernels(buffer) => Ok(Self {
                link: link.clone(),
                buffer,
                map: Some(map),
            }),
            Reach::Copies(_) => Err(unexpected("MapMemory")),
        }
    }

    /// Returns the first byte's address, the same for kernels and this process.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.buffer.address()
    }

    /// Returns its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.buffer.bytes()
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        let _ = self.link.drain();
        // As for pinned memory.
        self.map = None;
    }
}
