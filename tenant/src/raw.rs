//! Operations on device addresses, for a library that hands out addresses
//! instead of [`crate::Buffer`]s, as CUDA's driver library does.
//!
//! Who uses them sees to it that the memory lives until they have ended; the
//! mediator refuses addresses that are not this client's. Each operation
//! returns a [`Mark`], which says where it stands in its stream and costs
//! nothing to keep. A failure shows at [`Gpu::take_failure`].

use crate::adopted::Adopted;
use crate::error::{ClientError, Lost};
use crate::event::Event;
use crate::gpu::Gpu;
use crate::module::Kernel;
use crate::pending::Watch;
use crate::pinned::{Managed, Pinned, SharedVariable};
use crate::shape::{Block, Grid};
use crate::stream::{Stream, launch_of, narrow};
use gridmux_channel::control::GlobalInfo;
use gridmux_channel::ring::{Copy, DeviceCopy, Launch, Memset, Operation, Width};

/// The place of an operation in its stream. It has been passed when that operation and all before it have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    stream: u16,
    /// Operations of the stream up to and with this one.
    number: u64,
    cookie: u64,
}

impl Stream {
    /// Launches `kernel` with parameters that are packed as its [`crate::KernelInfo`] says.
    ///
    /// # Errors
    /// As [`Stream::launch`]; the parameters are not as long as the kernel's.
    pub fn launch_packed(
        &self,
        kernel: &Kernel,
        grid: impl Into<Grid>,
        block: impl Into<Block>,
        shared_bytes: u32,
        packed: &[u8],
    ) -> Result<Mark, ClientError> {
        let shape = (grid.into(), block.into(), shared_bytes);
        self.launch_as((Watch::Nothing, false), kernel, shape, packed)
    }

    /// Launches as [`Stream::launch_packed`] does, all blocks at once: they may wait for each other, and have a barrier
    /// of the grid (CUDA's cooperative launch).
    ///
    /// # Errors
    /// As [`Stream::launch_packed`]. A grid that the device does not hold at once fails when it is executed.
    pub fn launch_cooperative(
        &self,
        kernel: &Kernel,
        grid: impl Into<Grid>,
        block: impl Into<Block>,
        shared_bytes: u32,
        packed: &[u8],
    ) -> Result<Mark, ClientError> {
        let shape = (grid.into(), block.into(), shared_bytes);
        self.launch_as((Watch::Nothing, true), kernel, shape, packed)
    }

    /// Launches as [`Stream::launch_packed`] does. The event tells when the device executed it ([`Event::timing`]); a
    /// failure is the stream's at once, as without the event.
    ///
    /// # Errors
    /// As [`Stream::launch_packed`].
    pub fn launch_watched(
        &self,
        kernel: &Kernel,
        grid: impl Into<Grid>,
        block: impl Into<Block>,
        shared_bytes: u32,
        packed: &[u8],
    ) -> Result<(Event, Mark), ClientError> {
        let shape = (grid.into(), block.into(), shared_bytes);
        let mark = self.launch_as((Watch::Times, false), kernel, shape, packed)?;
        Ok((Event::new(self.link.clone(), mark.cookie), mark))
    }

    /// Launches as [`Stream::launch_cooperative`] and [`Stream::launch_watched`] do together.
    ///
    /// # Errors
    /// As [`Stream::launch_cooperative`].
    pub fn launch_cooperative_watched(
        &self,
        kernel: &Kernel,
        grid: impl Into<Grid>,
        block: impl Into<Block>,
        shared_bytes: u32,
        packed: &[u8],
    ) -> Result<(Event, Mark), ClientError> {
        let shape = (grid.into(), block.into(), shared_bytes);
        let mark = self.launch_as((Watch::Times, true), kernel, shape, packed)?;
        Ok((Event::new(self.link.clone(), mark.cookie), mark))
    }

    fn launch_as(
        &self,
        (watch, is_cooperative): (Watch, bool),
        kernel: &Kernel,
        (grid, block, shared_bytes): (Grid, Block, u32),
        packed: &[u8],
    ) -> Result<Mark, ClientError> {
        if !kernel.belongs_to(&self.link) {
            return Err(ClientError::Foreign("kernel"));
        }
        let info = kernel.info();
        if packed.len() != info.params_bytes as usize {
            let (takes, given) = (info.params_bytes, packed.len());
            return Err(ClientError::Arguments {
                kernel: info.name.clone(),
                problem: format!("its parameters take {takes} bytes, {given} were given"),
            });
        }
        let block = narrow(&info.name, block)?;
        let grid = grid.0;
        let mut core = self.link.enter()?;
        let launch = Launch {
            is_cooperative,
            ..launch_of(info, grid, block, shared_bytes)
        };
        let cookie = self.submit_launch(&mut core, launch, packed, watch)?;
        Ok(self.mark(&mut core, cookie))
    }

    /// Copies `data` to a device address as [`Stream::copy_to`] does.
    ///
    /// # Errors
    /// The device was lost.
    pub fn copy_to_address(&self, address: u64, data: &[u8]) -> Result<Mark, ClientError> {
        match self.stage_to(address, data)? {
            Some(mark) => Ok(mark),
            None => self.barrier(),
        }
    }

    /// Copies from a device address as [`Stream::copy_from`] does, and waits for it.
    ///
    /// # Errors
    /// The copy failed, or the device was lost.
    pub fn copy_from_address(&self, address: u64, out: &mut [u8]) -> Result<(), ClientError> {
        self.stage_from(address, out)
    }

    /// Copies `len` bytes from `offset` of pinned memory to a device address, in pieces, without staging and without
    /// waiting.
    ///
    /// # Errors
    /// The range is outside the memory, or the device was lost.
    pub fn copy_from_pinned(
        &self,
        pinned: &Pinned,
        offset: u64,
        address: u64,
        len: u64,
    ) -> Result<Mark, ClientError> {
        let pieces = self.pinned_pieces(pinned, offset, address, len)?;
        self.submit_all("copy to the device", pieces.map(Operation::CopyToDevice))
    }

    /// Copies `len` bytes from a device address to `offset` of pinned memory, without staging and without
    /// waiting.
    ///
    /// # Errors
    /// The range is outside the memory, or the device was lost.
    pub fn copy_to_pinned(
        &self,
        address: u64,
        pinned: &Pinned,
        offset: u64,
        len: u64,
    ) -> Result<Mark, ClientError> {
        let pieces = self.pinned_pieces(pinned, offset, address, len)?;
        self.submit_all(
            "copy from the device",
            pieces.map(Operation::CopyFromDevice),
        )
    }

    /// Returns the pieces of a copy between pinned memory and a device address.
    fn pinned_pieces(
        &self,
        pinned: &Pinned,
        offset: u64,
        address: u64,
        len: u64,
    ) -> Result<impl Iterator<Item = Copy>, ClientError> {
        let iova = pinned.iova(&self.link, offset, len)?;
        let piece = move |(start, len)| Copy {
            iova: iova + start,
            address: address + start,
            len,
        };
        Ok(Pinned::pieces(len).map(piece))
    }

    /// Copies `len` bytes from one device address to another.
    ///
    /// # Errors
    /// The device was lost.
    pub fn copy_between(&self, from: u64, to: u64, len: u64) -> Result<Mark, ClientError> {
        let copy = DeviceCopy { from, to, len };
        self.submit_all("copy on the device", [Operation::CopyOnDevice(copy)])
    }

    /// Sets `len` bytes at a device address to a value of the given width.
    ///
    /// # Errors
    /// Address or length is no multiple of the width, the value does not fit it, or the device was lost.
    pub fn fill_address(
        &self,
        address: u64,
        len: u64,
        value: u32,
        width: Width,
    ) -> Result<Mark, ClientError> {
        let memset = Memset {
            address,
            len,
            value,
            width,
        };
        memset.check().map_err(ClientError::Refused)?;
        self.submit_all("fill", [Operation::Memset(memset)])
    }

    /// Lets what is submitted on this stream from now on begin only when `mark`, of whatever stream, has been
    /// passed. It does not wait itself, and submits nothing where the mark has been passed already; else it returns
    /// the mark of the wait.
    ///
    /// # Errors
    /// The device was lost.
    pub fn wait_mark(&self, mark: Mark) -> Result<Option<Mark>, ClientError> {
        if mark.stream == self.id() {
            return Ok(None);
        }
        let mut core = self.link.look()?;
        if core.pending.stream(mark.stream).ended >= mark.number {
            return Ok(None);
        }
        let cookie = mark.cookie;
        let ticket = self.ticket("wait for a mark", None);
        let cookie = self
            .link
            .submit(&mut core, Operation::Wait { cookie }, ticket)?;
        Ok(Some(self.mark(&mut core, cookie)))
    }

    /// Returns an event as [`Stream::record`] does, and its mark.
    ///
    /// # Errors
    /// The device was lost.
    pub fn record_marked(&self) -> Result<(Event, Mark), ClientError> {
        let mut core = self.link.enter()?;
        let mut ticket = self.ticket("event", None);
        ticket.watch = Watch::Result;
        let cookie = self.link.submit(&mut core, Operation::Barrier, ticket)?;
        let mark = self.mark(&mut core, cookie);
        drop(core);
        Ok((Event::new(self.link.clone(), cookie), mark))
    }

    /// Waits until everything that was submitted on the stream has ended. Failures are left to
    /// [`Stream::take_failure`].
    ///
    /// # Errors
    /// The device was lost.
    pub fn drain(&self) -> Result<(), ClientError> {
        let mut core = self.link.enter()?;
        self.link.drain_stream(&mut core, self.id())
    }

    /// Returns a mark behind everything that was submitted on the stream.
    ///
    /// # Errors
    /// The device was lost.
    pub fn barrier(&self) -> Result<Mark, ClientError> {
        self.submit_all("barrier", [Operation::Barrier])
    }

    fn submit_all(
        &self,
        name: &'static str,
        operations: impl IntoIterator<Item = Operation>,
    ) -> Result<Mark, ClientError> {
        let mut core = self.link.enter()?;
        let mut last = 0;
        for operation in operations {
            let ticket = self.ticket(name, None);
            last = self.link.submit(&mut core, operation, ticket)?;
        }
        Ok(self.mark(&mut core, last))
    }

    pub(crate) fn mark(&self, core: &mut crate::link::Core, cookie: u64) -> Mark {
        Mark {
            stream: self.id(),
            number: core.pending.stream(self.id()).opened,
            cookie,
        }
    }
}

impl Gpu {
    /// Returns whether a mark has been passed, without waiting.
    ///
    /// # Errors
    /// The device was lost.
    pub fn has_passed(&self, mark: Mark) -> Result<bool, ClientError> {
        let mut core = self.link.look()?;
        Ok(core.pending.stream(mark.stream).ended >= mark.number)
    }

    /// Waits until a mark has been passed. Failures are left to [`Gpu::take_failure`].
    ///
    /// # Errors
    /// The device was lost.
    pub fn wait_mark(&self, mark: Mark) -> Result<(), ClientError> {
        let mut core = self.link.enter()?;
        let found = self.link.wait_for(&mut core, |core| {
            (core.pending.stream(mark.stream).ended >= mark.number).then_some(())
        })?;
        found.ok_or(ClientError::DeviceLost(Lost::Missing))
    }

    /// Returns how many operations have failed so far whose failure no event has reported, as far as completions were
    /// taken: by threads that wait or ask. It takes no lock.
    #[must_use]
    #[inline]
    pub fn failures(&self) -> u64 {
        self.link.failures()
    }

    /// Maps `bytes` bytes of new host memory, zeroed, that the device may copy to and from without staging. Where it
    /// can, its kernels reach them, too ([`Pinned::device_address`]).
    ///
    /// # Errors
    /// Out of memory, over the limit of a client's mappings, or the device was lost.
    pub fn pinned(&self, bytes: u64) -> Result<Pinned, ClientError> {
        Pinned::new(&self.link, bytes, self.facts().maps_host_memory)
    }

    /// Allocates `bytes` bytes of memory, zeroed, that this process and kernels reach at the same addresses.
    ///
    /// # Errors
    /// The device cannot do that ([`crate::ControlCode::Unsupported`]); over the tenant's limit; out of memory; the
    /// addresses are in use in this process; the device was lost.
    pub fn managed(&self, bytes: u64) -> Result<Managed, ClientError> {
        Managed::new(&self.link, bytes)
    }

    /// Lets this process have a managed variable of a module, at its address, while the value lives.
    ///
    /// # Errors
    /// It is no such variable; out of memory; the address is in use in this process; the device was lost.
    pub fn share_variable(&self, variable: &GlobalInfo) -> Result<SharedVariable, ClientError> {
        SharedVariable::new(&self.link, variable)
    }

    /// Lets kernels reach memory of the program's own, whole pages that the process has for itself, at device addresses
    /// of its own. Its pages are replaced by others with the same bytes.
    ///
    /// # Errors
    /// [`ClientError::Unfit`]: other memory; the device cannot do that; out of memory; the device was lost.
    ///
    /// # Safety
    /// Nobody else accesses the `bytes` bytes at `start` until this returns, nor while the value is dropped, and they
    /// stay mapped until then.
    pub unsafe fn adopt(&self, start: *mut u8, bytes: u64) -> Result<Adopted, ClientError> {
        // SAFETY: the caller's promise.
        unsafe { Adopted::new(&self.link, start, bytes) }
    }
}

impl Stream {
    /// Returns the first failure of an operation of this stream that nothing has reported yet.
    ///
    /// # Errors
    /// The device was lost.
    pub fn take_failure(&self) -> Result<Option<ClientError>, ClientError> {
        let mut core = self.link.look()?;
        let failure = core.pending.stream(self.id()).failure.take();
        drop(core);
        Ok(failure.and_then(|(operation, entry)| self.link.judge(operation, &entry).err()))
    }
}
