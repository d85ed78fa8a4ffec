//! A stream: copies and launches that are executed in order.

#![allow(
    clippy::disallowed_types,
    reason = "this room does not know the mediator, whose dispatcher never runs this code"
)]

use crate::args::Args;
use crate::buffer::Buffer;
use crate::error::{ClientError, Lost};
use crate::event::Event;
use crate::link::{Held, Link, LinkRef};
use crate::module::Kernel;
use crate::pending::{Ticket, Watch};
use crate::raw::Mark;
use crate::shape::{Block, Grid};
use crate::staging::Chunk;
use crate::typed::{Plain, TypedBuffer};
use gridmux_channel::control::{ControlRequest, KernelInfo};
use gridmux_channel::ring::{Copy, DeviceCopy, Launch, Memset, Operation, Width};
use parking_lot::Mutex;
use std::collections::VecDeque;
use zerocopy::IntoBytes;

/// A copy larger than one chunk keeps this many of them in flight.
const CHUNKS_IN_FLIGHT: usize = 4;

/// A queue of operations that the mediator executes in order. Dropping it
/// waits for them.
#[derive(Debug)]
pub struct Stream {
    pub(crate) link: LinkRef,
    id: u16,
    /// Held while a hold is submitted, so that holds are counted in their order.
    pub(crate) holding: Mutex<()>,
}

impl Stream {
    pub(crate) fn new(link: LinkRef, id: u16) -> Self {
        Self {
            link,
            id,
            holding: Mutex::new(()),
        }
    }

    /// Returns the mediator's number of the stream.
    #[must_use]
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Copies `data` to `offset` of `buffer`. It returns as soon as the last
    /// byte is staged: `data` may be reused, and a failure shows at
    /// [`Stream::synchronize`].
    ///
    /// # Errors
    /// The range is outside the buffer, or the device was lost.
    pub fn copy_to(&self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), ClientError> {
        let address = buffer.range(&self.link, offset, data.len() as u64)?;
        self.stage_to(address, data).map(drop)
    }

    /// Copies `data` to a device address through the staging memory; returns the mark of the last copy, if there is
    /// anything to copy.
    pub(crate) fn stage_to(
        &self,
        mut address: u64,
        data: &[u8],
    ) -> Result<Option<Mark>, ClientError> {
        let mut rest = data;
        let mut last = None;
        while !rest.is_empty() {
            let chunk = self
                .link
                .take_chunk(&mut self.link.enter()?, rest.len(), true)?;
            let Some(chunk) = chunk else { continue };
            let (part, next) = rest.split_at(rest.len().min(chunk.capacity()));
            self.link.staging.write(chunk, part);
            let copy = Copy {
                iova: chunk.iova(),
                address,
                len: part.len() as u64,
            };
            let ticket = self.ticket("copy to the device", Some(chunk));
            let mut core = self.link.enter()?;
            match self
                .link
                .submit(&mut core, Operation::CopyToDevice(copy), ticket)
            {
                Ok(cookie) => last = Some(self.mark(&mut core, cookie)),
                Err(error) => {
                    core.chunks.give(chunk);
                    return Err(error);
                }
            }
            address += part.len() as u64;
            rest = next;
        }
        Ok(last)
    }

    /// Copies from `offset` of `buffer` to `out`, after everything submitted
    /// before, and waits for it.
    ///
    /// # Errors
    /// The range is outside the buffer, the copy failed, or the device was
    /// lost.
    pub fn copy_from(
        &self,
        buffer: &Buffer,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), ClientError> {
        let address = buffer.range(&self.link, offset, out.len() as u64)?;
        self.stage_from(address, out)
    }

    /// Copies from a device address through the staging memory, and waits for it.
    pub(crate) fn stage_from(&self, mut address: u64, out: &mut [u8]) -> Result<(), ClientError> {
        let mut flying = VecDeque::with_capacity(CHUNKS_IN_FLIGHT);
        let mut rest = out;
        let mut result = Ok(());
        while result.is_ok() && !(rest.is_empty() && flying.is_empty()) {
            let started = if rest.is_empty() || flying.len() == CHUNKS_IN_FLIGHT {
                Ok(None)
            } else {
                // Who holds chunks does not wait for more: two copies could wait for each other.
                self.start_copy(address, rest.len(), flying.is_empty())
            };
            match started {
                Ok(Some((cookie, chunk))) => {
                    let len = rest.len().min(chunk.capacity());
                    let (part, next) = rest.split_at_mut(len);
                    address += part.len() as u64;
                    rest = next;
                    flying.push_back((cookie, chunk, part));
                }
                Ok(None) => result = finish_copy(&self.link, flying.pop_front()),
                Err(error) => result = Err(error),
            }
        }
        abandon_copies(&self.link, flying);
        result
    }

    /// Submits the copy of at most one chunk; `None` if there is no chunk and
    /// it may not wait for one.
    fn start_copy(
        &self,
        address: u64,
        len: usize,
        may_wait: bool,
    ) -> Result<Option<(u64, Chunk)>, ClientError> {
        let mut core = self.link.enter()?;
        let Some(chunk) = self.link.take_chunk(&mut core, len, may_wait)? else {
            return Ok(None);
        };
        let len = len.min(chunk.capacity()) as u64;
        let copy = Operation::CopyFromDevice(Copy {
            iova: chunk.iova(),
            address,
            len,
        });
        let mut ticket = self.ticket("copy from the device", None);
        ticket.watch = Watch::Result;
        match self.link.submit(&mut core, copy, ticket) {
            Ok(cookie) => Ok(Some((cookie, chunk))),
            Err(error) => {
                core.chunks.give(chunk);
                Err(error)
            }
        }
    }

    /// Copies `len` bytes from `from_offset` of `from` to `to_offset` of `to`,
    /// without passing through the host; a failure shows at
    /// [`Stream::synchronize`]. What it writes where the two ranges overlap is
    /// undefined.
    ///
    /// # Errors
    /// A range is outside its buffer, or the device was lost.
    pub fn copy_on_device(
        &self,
        from: &Buffer,
        from_offset: u64,
        to: &Buffer,
        to_offset: u64,
        len: u64,
    ) -> Result<(), ClientError> {
        let copy = DeviceCopy {
            from: from.range(&self.link, from_offset, len)?,
            to: to.range(&self.link, to_offset, len)?,
            len,
        };
        self.submit(Operation::CopyOnDevice(copy), "copy on the device")
    }

    /// Sets `len` bytes at `offset` of `buffer` to `value`; a failure shows at
    /// [`Stream::synchronize`].
    ///
    /// # Errors
    /// The range is outside the buffer, or the device was lost.
    pub fn fill(
        &self,
        buffer: &Buffer,
        offset: u64,
        len: u64,
        value: u8,
    ) -> Result<(), ClientError> {
        self.memset(buffer, offset, len, value.into(), Width::One)
    }

    /// Does as [`Stream::fill`], with elements of 16 bits; `len` is in bytes.
    ///
    /// # Errors
    /// As [`Stream::fill`]; address or length is no multiple of 2.
    pub fn fill_u16(
        &self,
        buffer: &Buffer,
        offset: u64,
        len: u64,
        value: u16,
    ) -> Result<(), ClientError> {
        self.memset(buffer, offset, len, value.into(), Width::Two)
    }

    /// Does as [`Stream::fill`], with elements of 32 bits; `len` is in bytes.
    ///
    /// # Errors
    /// As [`Stream::fill`]; address or length is no multiple of 4.
    pub fn fill_u32(
        &self,
        buffer: &Buffer,
        offset: u64,
        len: u64,
        value: u32,
    ) -> Result<(), ClientError> {
        self.memset(buffer, offset, len, value, Width::Four)
    }

    fn memset(
        &self,
        buffer: &Buffer,
        offset: u64,
        len: u64,
        value: u32,
        width: Width,
    ) -> Result<(), ClientError> {
        let memset = Memset {
            address: buffer.range(&self.link, offset, len)?,
            len,
            value,
            width,
        };
        memset.check().map_err(ClientError::Refused)?;
        self.submit(Operation::Memset(memset), "fill")
    }

    /// Copies `data` to the beginning of `buffer`, as [`Stream::copy_to`] does.
    ///
    /// # Errors
    /// The data is longer than the buffer, or the device was lost.
    pub fn upload<T: Plain>(&self, buffer: &TypedBuffer<T>, data: &[T]) -> Result<(), ClientError> {
        self.copy_to(buffer.untyped(), 0, data.as_bytes())
    }

    /// Copies the beginning of `buffer` to `out`, as [`Stream::copy_from`] does.
    ///
    /// # Errors
    /// `out` is longer than the buffer, the copy failed, or the device was
    /// lost.
    pub fn download<T: Plain>(
        &self,
        buffer: &TypedBuffer<T>,
        out: &mut [T],
    ) -> Result<(), ClientError> {
        self.copy_from(buffer.untyped(), 0, out.as_mut_bytes())
    }

    /// Returns an event that ends when everything submitted on the stream
    /// before has ended.
    ///
    /// # Errors
    /// The device was lost.
    pub fn record(&self) -> Result<Event, ClientError> {
        let mut core = self.link.enter()?;
        let mut ticket = self.ticket("event", None);
        ticket.watch = Watch::Result;
        let cookie = self.link.submit(&mut core, Operation::Barrier, ticket)?;
        drop(core);
        Ok(Event::new(self.link.clone(), cookie))
    }

    /// Lets what is submitted on this stream from now on begin only when the
    /// event has ended, on whatever stream that is and whether it failed or
    /// not. It does not wait itself.
    ///
    /// # Errors
    /// The event belongs to another connection, or the device was lost.
    pub fn wait_event(&self, event: &Event) -> Result<(), ClientError> {
        let cookie = event.cookie(&self.link)?;
        if event.is_done()? {
            return Ok(());
        }
        self.submit(Operation::Wait { cookie }, "wait for an event")
    }

    /// Launches `kernel` with `shared_bytes` of dynamic shared memory.
    ///
    /// # Errors
    /// The arguments do not fit the kernel (too few, of another size or
    /// misaligned), or the device was lost. What the mediator finds wrong
    /// shows at [`Event::wait`].
    pub fn launch(
        &self,
        kernel: &Kernel,
        grid: impl Into<Grid>,
        block: impl Into<Block>,
        shared_bytes: u32,
        args: &Args,
    ) -> Result<Event, ClientError> {
        if !kernel.belongs_to(&self.link) {
            return Err(ClientError::Foreign("kernel"));
        }
        let info = kernel.info();
        let block = narrow(&info.name, block.into())?;
        let grid = grid.into().0;
        let mut core = self.link.enter()?;
        // Taken out for as long as it is used: if the ring is full, other threads launch meanwhile.
        let mut packed = std::mem::take(&mut core.packed);
        let launch = launch_of(info, grid, block, shared_bytes);
        let submitted = args
            .pack(info, &mut packed)
            .and_then(|()| self.submit_launch(&mut core, launch, &packed, Watch::Result));
        core.packed = packed;
        drop(core);
        Ok(Event::new(self.link.clone(), submitted?))
    }

    /// Waits for everything submitted on the stream before.
    ///
    /// # Errors
    /// The first failure since the last call that no event has reported, or
    /// the device was lost.
    pub fn synchronize(&self) -> Result<(), ClientError> {
        let mut core = self.link.enter()?;
        self.link.drain_stream(&mut core, self.id)?;
        let failure = core.pending.stream(self.id).failure.take();
        drop(core);
        match failure {
            Some((operation, entry)) => self.link.judge(operation, &entry),
            None => Ok(()),
        }
    }

    /// Submits a launch with packed parameters, and returns its cookie; one that is watched keeps its end for an
    /// event.
    pub(crate) fn submit_launch(
        &self,
        core: &mut Held<'_>,
        launch: Launch,
        packed: &[u8],
        watch: Watch,
    ) -> Result<u64, ClientError> {
        let mut ticket = self.ticket("launch", None);
        ticket.watch = watch;
        let placed = |args_offset| {
            Operation::Launch(Launch {
                args_offset,
                ..launch
            })
        };
        self.link.submit_with_args(core, ticket, packed, placed)
    }

    fn submit(&self, operation: Operation, name: &'static str) -> Result<(), ClientError> {
        let mut core = self.link.enter()?;
        self.link
            .submit(&mut core, operation, self.ticket(name, None))?;
        Ok(())
    }

    pub(crate) fn ticket(&self, operation: &'static str, chunk: Option<Chunk>) -> Ticket {
        Ticket {
            operation,
            stream: self.id,
            watch: Watch::Nothing,
            chunk,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let Ok(mut core) = self.link.enter() else {
            return;
        };
        // On a lost connection the mediator has ended the stream already.
        if self.link.drain_stream(&mut core, self.id).is_ok() {
            core.pending.stream(self.id).failure = None;
            drop(core);
            let _ = self
                .link
                .control(&ControlRequest::DestroyStream { stream: self.id });
        }
    }
}

/// A copy from the device on its way: cookie, chunk, destination.
type Flying<'a> = (u64, Chunk, &'a mut [u8]);

fn finish_copy(link: &Link, flying: Option<Flying<'_>>) -> Result<(), ClientError> {
    let Some((cookie, chunk, out)) = flying else {
        return Ok(());
    };
    let mut core = link.enter()?;
    let done = link.wait_for(&mut core, |core| core.pending.take(cookie))?;
    let (operation, entry) = done.ok_or(ClientError::DeviceLost(Lost::Missing))?;
    drop(core);
    let result = link.judge(operation, &entry);
    if result.is_ok() {
        link.staging.read(chunk, out);
    }
    link.enter()?.chunks.give(chunk);
    result
}

/// Waits for the copies behind one that failed, so that the device no longer writes their chunks when others get them.
fn abandon_copies(link: &Link, flying: VecDeque<Flying<'_>>) {
    for copy in flying {
        let _ = finish_copy(link, Some(copy));
    }
}

/// Returns the launch of a kernel, whose parameters have no place yet.
pub(crate) fn launch_of(
    info: &KernelInfo,
    grid: [u32; 3],
    block: [u16; 3],
    shared_bytes: u32,
) -> Launch {
    Launch {
        kernel: info.handle,
        grid,
        block,
        shared_bytes,
        args_offset: 0,
        args_len: info.params_bytes,
        is_cooperative: false,
    }
}

pub(crate) fn narrow(kernel: &str, block: Block) -> Result<[u16; 3], ClientError> {
    let [x, y, z] = block.0;
    let error = || ClientError::Block {
        kernel: kernel.to_owned(),
        x,
        y,
        z,
    };
    let narrow = |value| u16::try_from(value).map_err(|_| error());
    Ok([narrow(x)?, narrow(y)?, narrow(z)?])
}
