//! A stream: copies and launches that are executed in order.

use crate::args::Args;
use crate::buffer::Buffer;
use crate::error::ClientError;
use crate::event::Event;
use crate::link::{Link, LinkRef};
use crate::module::Kernel;
use crate::pending::Ticket;
use crate::shape::{Block, Grid};
use crate::staging::Chunk;
use gridmux_channel::control::ControlRequest;
use gridmux_channel::ring::{Copy, Launch, Operation};
use std::collections::VecDeque;

/// A copy larger than one chunk keeps this many of them in flight.
const CHUNKS_IN_FLIGHT: usize = 4;

/// A queue of operations that the mediator executes in order. Dropping it
/// waits for them.
#[derive(Debug)]
pub struct Stream {
    link: LinkRef,
    id: u16,
}

impl Stream {
    pub(crate) fn new(link: LinkRef, id: u16) -> Self {
        Self { link, id }
    }

    /// The mediator's number of the stream.
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
        let mut address = buffer.range(&self.link, offset, data.len() as u64)?;
        let mut link = self.link.borrow_mut();
        let mut rest = data;
        while !rest.is_empty() {
            let chunk = link.take_chunk(rest.len())?;
            let (part, next) = rest.split_at(rest.len().min(chunk.capacity()));
            link.staging.write(chunk, part);
            let copy = Copy {
                iova: chunk.iova(),
                address,
                len: part.len() as u64,
            };
            let ticket = self.ticket("copy to the device", Some(chunk));
            if let Err(error) = link.submit(Operation::CopyToDevice(copy), ticket) {
                link.staging.give(chunk);
                return Err(error);
            }
            address += part.len() as u64;
            rest = next;
        }
        Ok(())
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
        let mut address = buffer.range(&self.link, offset, out.len() as u64)?;
        let mut link = self.link.borrow_mut();
        let mut flying = VecDeque::with_capacity(CHUNKS_IN_FLIGHT);
        let mut rest = out;
        let mut result = Ok(());
        while result.is_ok() && !(rest.is_empty() && flying.is_empty()) {
            if rest.is_empty() || flying.len() == CHUNKS_IN_FLIGHT {
                result = finish_copy(&mut link, flying.pop_front());
                continue;
            }
            let len = rest.len();
            match self.start_copy(&mut link, address, len) {
                Ok((cookie, chunk)) => {
                    let (part, next) = rest.split_at_mut(len.min(chunk.capacity()));
                    address += part.len() as u64;
                    rest = next;
                    flying.push_back((cookie, chunk, part));
                }
                Err(error) => result = Err(error),
            }
        }
        abandon_copies(&mut link, flying);
        result
    }

    fn start_copy(
        &self,
        link: &mut Link,
        address: u64,
        len: usize,
    ) -> Result<(u64, Chunk), ClientError> {
        let chunk = link.take_chunk(len)?;
        let len = len.min(chunk.capacity()) as u64;
        let copy = Operation::CopyFromDevice(Copy {
            iova: chunk.iova(),
            address,
            len,
        });
        let mut ticket = self.ticket("copy from the device", None);
        ticket.watched = true;
        match link.submit(copy, ticket) {
            Ok(cookie) => Ok((cookie, chunk)),
            Err(error) => {
                link.staging.give(chunk);
                Err(error)
            }
        }
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
        let address = buffer.range(&self.link, offset, len)?;
        let operation = Operation::Memset {
            address,
            len,
            value,
        };
        self.link
            .borrow_mut()
            .submit(operation, self.ticket("fill", None))?;
        Ok(())
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
        let mut link = self.link.borrow_mut();
        args.pack(info, &mut link.packed)?;
        let args_offset = link.place_args()?;
        let launch = Launch {
            kernel: info.handle,
            grid: grid.into().0,
            block,
            shared_bytes,
            args_offset,
            args_len: info.params_bytes,
        };
        let mut ticket = self.ticket("launch", None);
        ticket.watched = true;
        let cookie = link.submit(Operation::Launch(launch), ticket)?;
        drop(link);
        Ok(Event::new(self.link.clone(), cookie))
    }

    /// Waits for everything submitted on the stream.
    ///
    /// # Errors
    /// The first failure since the last call that no event has reported, or
    /// the device was lost.
    pub fn synchronize(&self) -> Result<(), ClientError> {
        let mut link = self.link.borrow_mut();
        link.reap()?;
        link.drain_stream(self.id)?;
        match link.pending.stream(self.id).failure.take() {
            Some((operation, entry)) => link.judge(operation, &entry),
            None => Ok(()),
        }
    }

    fn ticket(&self, operation: &'static str, chunk: Option<Chunk>) -> Ticket {
        Ticket {
            operation,
            stream: self.id,
            watched: false,
            chunk,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut link = self.link.borrow_mut();
        // On a lost connection the mediator has ended the stream already.
        if link.drain_stream(self.id).is_ok() {
            link.pending.stream(self.id).failure = None;
            let _ = link.control(&ControlRequest::DestroyStream { stream: self.id });
        }
    }
}

/// A copy from the device on its way: cookie, chunk, destination.
type Flying<'a> = (u64, Chunk, &'a mut [u8]);

fn finish_copy(link: &mut Link, flying: Option<Flying<'_>>) -> Result<(), ClientError> {
    let Some((cookie, chunk, out)) = flying else {
        return Ok(());
    };
    let (operation, entry) = loop {
        if let Some(done) = link.pending.take(cookie) {
            break done;
        }
        if !link.wait_one()? {
            return Err(ClientError::DeviceLost("a copy was lost"));
        }
    };
    let result = link.judge(operation, &entry);
    if result.is_ok() {
        link.staging.read(chunk, out);
    }
    link.staging.give(chunk);
    result
}

/// After a failure the copies behind it are waited for, so that the device no
/// longer writes their chunks when others get them.
fn abandon_copies(link: &mut Link, flying: VecDeque<Flying<'_>>) {
    for copy in flying {
        let _ = finish_copy(link, Some(copy));
    }
}

fn narrow(kernel: &str, block: Block) -> Result<[u16; 3], ClientError> {
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
