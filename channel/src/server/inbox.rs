//! One incoming message at a time: header, then body, as the bytes arrive.
//!
//! It never asks the socket for bytes beyond the current message, so that
//! descriptors are known to belong to it. The buffer grows with what has
//! arrived, not with what a header claims.

use crate::socket;
use crate::wire::{HEADER_BYTES, Header, MAX_MESSAGE_FDS, WireError};
use nix::errno::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The most bytes asked for at once; a body grows the buffer in such steps.
const STEP_BYTES: usize = 64 << 10;

/// Result of a call of [`Inbox::receive`].
#[derive(Debug)]
pub(super) enum Incoming {
    /// Nothing complete; the socket has no more bytes, or enough were read.
    Nothing,
    /// The peer closed.
    Closed,
    /// A whole message; [`Inbox::message`] gives its body.
    Message(Header),
    /// A message that is refused before it is looked at; its body is drained.
    Refused(Header, Errno),
    /// A header after which the stream cannot be followed.
    Unfollowable(Header, WireError),
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    header: Option<Header>,
    fds: Vec<OwnedFd>,
    truncated: bool,
    /// Bytes of a refused message that are still to be thrown away.
    drain: usize,
}

impl Inbox {
    /// Reads until a message is complete or nothing more is there.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<Incoming, Errno> {
        // At most this many steps a call, so that one peer's flood ends.
        for _ in 0..32 {
            if self.drain > 0 {
                let want = self.drain.min(STEP_BYTES);
                let got = match self.read(socket, want)? {
                    Some(0) => return Ok(Incoming::Closed),
                    Some(got) => got,
                    None => return Ok(Incoming::Nothing),
                };
                self.drain -= got;
                self.bytes.clear();
                self.fds.clear();
                self.truncated = false;
                continue;
            }
            if let Some(incoming) = self.step(socket)? {
                return Ok(incoming);
            }
        }
        Ok(Incoming::Nothing)
    }

    /// Returns one read towards the current message.
    fn step(&mut self, socket: BorrowedFd<'_>) -> Result<Option<Incoming>, Errno> {
        let goal = match self.header {
            None => HEADER_BYTES,
            Some(header) => header.size as usize,
        };
        if self.bytes.len() < goal {
            let want = (goal - self.bytes.len()).min(STEP_BYTES);
            match self.read(socket, want)? {
                Some(0) => return Ok(Some(Incoming::Closed)),
                Some(_) => {}
                None => return Ok(Some(Incoming::Nothing)),
            }
        }
        if self.bytes.len() < goal {
            return Ok(None);
        }
        match self.header {
            None => Ok(self.accept_header()),
            Some(header) => Ok(Some(self.complete(header))),
        }
    }

    fn accept_header(&mut self) -> Option<Incoming> {
        let header = Header::parse(&self.bytes).ok()?;
        if let Err(error) = header.kind() {
            return Some(Incoming::Unfollowable(header, error));
        }
        match header.payload_bytes() {
            Ok(0) => Some(self.complete(header)),
            Ok(_) => {
                self.header = Some(header);
                None
            }
            Err(error) if (header.size as usize) < HEADER_BYTES => {
                Some(Incoming::Unfollowable(header, error))
            }
            Err(_) => {
                self.finish();
                self.drain = header.size as usize - HEADER_BYTES;
                Some(Incoming::Refused(header, Errno::EMSGSIZE))
            }
        }
    }

    fn complete(&mut self, header: Header) -> Incoming {
        if self.truncated {
            // The kernel drops descriptors when this process has no number left for them.
            let errno = match self.fds.len() < MAX_MESSAGE_FDS {
                true => Errno::EMFILE,
                false => Errno::EINVAL,
            };
            self.finish();
            return Incoming::Refused(header, errno);
        }
        Incoming::Message(header)
    }

    /// Returns the body of the message that is complete, and its descriptors.
    pub(super) fn message(&mut self) -> (&[u8], Vec<OwnedFd>) {
        (
            self.bytes.get(HEADER_BYTES..).unwrap_or_default(),
            std::mem::take(&mut self.fds),
        )
    }

    /// Forgets the current message and closes what it brought.
    pub(super) fn finish(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(STEP_BYTES);
        self.header = None;
        self.fds.clear();
        self.truncated = false;
    }

    /// Appends at most `want` bytes; `None` if there are none now.
    fn read(&mut self, socket: BorrowedFd<'_>, want: usize) -> Result<Option<usize>, Errno> {
        let start = self.bytes.len();
        self.bytes.resize(start + want, 0);
        let result = socket::receive(socket, &mut self.bytes[start..], &mut self.fds);
        let got = result.map_or(0, |received| received.bytes);
        self.bytes.truncate(start + got);
        // A message may not bring more than its share, however it is cut up.
        if self.fds.len() > MAX_MESSAGE_FDS {
            self.fds.truncate(MAX_MESSAGE_FDS);
            self.truncated = true;
        }
        match result {
            Ok(received) => {
                self.truncated |= received.truncated;
                Ok(Some(received.bytes))
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(Errno::ECONNRESET) => Ok(Some(0)),
            Err(errno) => Err(errno),
        }
    }
}
