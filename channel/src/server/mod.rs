//! The mediator's end of a vfio-user connection.
//!
//! [`Connection`] turns readiness of a non-blocking socket into calls of a
//! [`Handler`] and queues the replies. It never blocks and holds at most one
//! incoming message and a bounded queue of replies.
//!
//! What a peer may do wrong, and what follows:
//!
//! | | |
//! |---|---|
//! | a malformed payload, an unknown command, a refused request | an error reply; the rest of the message is drained |
//! | a message over the limit | an error reply; its body is drained without being stored |
//! | more descriptors than announced, or than a command takes | an error reply; all of them are closed |
//! | a size below the header's, a type that is neither command nor reply | an error reply, then closed: framing is lost |
//! | replies that are never read | closed when the queue is full |

mod answer;
mod handler;
mod inbox;
mod outbox;

pub use handler::{Handler, IoFd, IrqInfo};

use crate::wire::{Command, Header, MessageKind, WireError};
use inbox::{Inbox, Incoming};
use nix::errno::Errno;
use outbox::Outbox;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use thiserror::Error;

/// The most messages that one [`Connection::on_readable`] handles.
const MESSAGES_PER_CALL: usize = 64;
/// After this many bytes of messages it returns, so that others get their turn.
const BYTES_PER_CALL: usize = 2 << 20;

/// Why a connection ended other than by the peer's wish.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The socket failed.
    #[error("the tenant's socket failed: {0}")]
    Socket(#[from] Errno),
    /// The stream cannot be followed any further.
    #[error("the tenant broke the protocol: {0}")]
    Protocol(#[from] WireError),
    /// The peer does not read its replies.
    #[error("the tenant does not read its replies ({0} bytes wait); its channel is cut")]
    PeerNotReading(usize),
    /// The connection ended before.
    #[error("the connection has ended")]
    Ended,
}

/// Whether a connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It goes on; there may be more to read (use level-triggered readiness).
    Open,
    /// The peer closed it.
    Closed,
}

/// One tenant's control connection.
#[derive(Debug)]
pub struct Connection {
    socket: UnixStream,
    inbox: Inbox,
    outbox: Outbox,
    negotiated: bool,
    ended: bool,
}

impl Connection {
    /// Takes a connected socket and makes it non-blocking.
    ///
    /// # Errors
    /// The socket refuses to be made non-blocking.
    pub fn new(socket: UnixStream) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            negotiated: false,
            ended: false,
        })
    }

    /// Returns whether the peer has agreed on a version.
    #[must_use]
    pub fn negotiated(&self) -> bool {
        self.negotiated
    }

    /// Returns whether replies wait for room: ask for writability, and call
    /// [`Connection::on_writable`] then.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Reads and handles what is there, a bounded amount.
    ///
    /// # Errors
    /// The connection has to be dropped; only this tenant is concerned.
    pub fn on_readable(&mut self, handler: &mut impl Handler) -> Result<Status, SessionError> {
        if self.ended {
            return Err(SessionError::Ended);
        }
        let result = self.serve(handler);
        self.ended = !matches!(result, Ok(Status::Open));
        result
    }

    /// Sends replies that wait.
    ///
    /// # Errors
    /// The connection has to be dropped.
    pub fn on_writable(&mut self) -> Result<(), SessionError> {
        Ok(self.outbox.flush(self.socket.as_fd())?)
    }

    fn serve(&mut self, handler: &mut impl Handler) -> Result<Status, SessionError> {
        let mut bytes = 0;
        for _ in 0..MESSAGES_PER_CALL {
            match self.inbox.receive(self.socket.as_fd())? {
                Incoming::Nothing => break,
                Incoming::Closed => return Ok(Status::Closed),
                Incoming::Unfollowable(header, error) => {
                    self.outbox
                        .push(&header.error_reply(Errno::EPROTO), &[], Vec::new())?;
                    self.outbox.flush(self.socket.as_fd())?;
                    return Err(error.into());
                }
                Incoming::Refused(header, errno) => self.refuse(&header, errno)?,
                Incoming::Message(header) => {
                    bytes += header.size as usize;
                    self.handle(&header, handler)?;
                }
            }
            self.outbox.flush(self.socket.as_fd())?;
            if bytes >= BYTES_PER_CALL {
                break;
            }
        }
        Ok(Status::Open)
    }

    fn handle(&mut self, header: &Header, handler: &mut impl Handler) -> Result<(), SessionError> {
        // The server sends no commands, so a reply answers nothing. Answering
        // it would be a reply to a reply: it is dropped.
        if header.kind() == Ok(MessageKind::Reply) {
            self.inbox.finish();
            return Ok(());
        }
        let answer = self.execute(header, handler);
        self.inbox.finish();
        match answer {
            Ok(answer) if header.no_reply() => drop(answer),
            Ok(answer) => {
                let reply = header.reply(answer.payload.len());
                self.outbox.push(&reply, &answer.payload, answer.fds)?;
            }
            Err(errno) => self.refuse(header, errno)?,
        }
        Ok(())
    }

    fn execute(
        &mut self,
        header: &Header,
        handler: &mut impl Handler,
    ) -> Result<answer::Answer, Errno> {
        let command = Command::try_from(header.command).map_err(|_| Errno::ENOSYS)?;
        let (payload, fds) = self.inbox.message();
        match (command, self.negotiated) {
            (Command::Version, false) => {
                let answer = answer::version(payload)?;
                self.negotiated = true;
                Ok(answer)
            }
            (Command::Version, true) => Err(Errno::EINVAL),
            (_, false) => Err(Errno::EPROTO),
            (command, true) => answer::command(command, payload, fds, handler),
        }
    }

    fn refuse(&mut self, header: &Header, errno: Errno) -> Result<(), SessionError> {
        let silent = header.no_reply() || header.kind() == Ok(MessageKind::Reply);
        if !silent {
            self.outbox
                .push(&header.error_reply(errno), &[], Vec::new())?;
        }
        Ok(())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
