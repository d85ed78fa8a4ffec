//! Replies on their way out: a bounded queue that never blocks.

use super::SessionError;
use crate::socket;
use crate::wire::{Header, MAX_MESSAGE_BYTES};
use nix::errno::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use zerocopy::IntoBytes;

/// The most bytes that may wait: a peer that leaves more unread is cut.
const MAX_WAITING_BYTES: usize = 2 * MAX_MESSAGE_BYTES;
/// The most replies that may wait: each may hold descriptors, which are shorter than memory.
const MAX_WAITING_REPLIES: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<Reply>,
    waiting_bytes: usize,
}

#[derive(Debug)]
struct Reply {
    bytes: Vec<u8>,
    sent: usize,
    fds: Vec<OwnedFd>,
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Queues a reply.
    pub(super) fn push(
        &mut self,
        header: &Header,
        payload: &[u8],
        fds: Vec<OwnedFd>,
    ) -> Result<(), SessionError> {
        let bytes = [header.as_bytes(), payload].concat();
        self.waiting_bytes += bytes.len();
        if self.waiting_bytes > MAX_WAITING_BYTES || self.queue.len() >= MAX_WAITING_REPLIES {
            return Err(SessionError::PeerNotReading(self.waiting_bytes));
        }
        self.queue.push_back(Reply {
            bytes,
            sent: 0,
            fds,
        });
        Ok(())
    }

    /// Sends as much as the socket takes.
    pub(super) fn flush(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        while let Some(reply) = self.queue.front_mut() {
            let fds: Vec<BorrowedFd<'_>> = reply.fds.iter().map(AsFd::as_fd).collect();
            let sent = match socket::send(socket, &reply.bytes[reply.sent..], &fds) {
                Ok(sent) => sent,
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok(()),
                // The peer is gone; the next read says so.
                Err(Errno::EPIPE | Errno::ECONNRESET) => {
                    self.queue.clear();
                    self.waiting_bytes = 0;
                    return Ok(());
                }
                Err(errno) => return Err(errno),
            };
            reply.fds.clear();
            reply.sent += sent;
            self.waiting_bytes = self.waiting_bytes.saturating_sub(sent);
            if reply.sent == reply.bytes.len() {
                self.queue.pop_front();
            }
        }
        Ok(())
    }
}
