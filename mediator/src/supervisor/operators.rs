//! Conversations with operators: one JSON request a line, one JSON reply a line, on connections that are never waited
//! for.
//!
//! Rules: a connection has a time limit for its request and one for reading the reply; a request is at most 4 KiB, and
//! comes with the user who connected, as the kernel says; no more than a few connections are open at once, and of one
//! user fewer; one more is closed. Root and the service's own user have places that members of the operators' group
//! cannot take.

use super::admin::AdminReply;
use super::identity;
use nix::poll::{PollFd, PollFlags};
use nix::unistd::geteuid;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// Longest request in bytes.
const REQUEST_BYTES: usize = 4096;
/// Connections at once of all members of the operators' group, and as many of root and the service's own user.
const CONVERSATIONS: usize = 64;
/// Connections of one member of the operators' group at once.
const CONVERSATIONS_OF_A_MEMBER: usize = 16;
/// Connections that are accepted in one turn.
const ACCEPTS_A_TURN: usize = 64;
/// How long an operator may take to write a request, and to read the reply.
const PATIENCE: Duration = Duration::from_secs(2);

/// All conversations.
#[derive(Debug, Default)]
pub(super) struct Operators {
    conversations: Vec<Conversation>,
    next_number: u64,
}

#[derive(Debug)]
struct Conversation {
    number: u64,
    /// The user who connected.
    user: u32,
    stream: UnixStream,
    bytes: Vec<u8>,
    phase: Phase,
    deadline: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The request is read.
    Reading,
    /// The reply is to come.
    Asked,
    /// The reply is written, from this byte on.
    Writing(usize),
    Over,
}

/// A request, to be answered under its number.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) number: u64,
    /// The user who asks.
    pub(super) user: u32,
    pub(super) line: Vec<u8>,
}

impl Operators {
    /// Takes new connections in; those for which there is no room are closed.
    pub(super) fn accept(&mut self, listener: &UnixListener, now: Instant) {
        for _ in 0..ACCEPTS_A_TURN {
            let Ok((stream, _)) = listener.accept() else {
                return;
            };
            let Ok(user) = identity::user(&stream) else {
                continue;
            };
            if !self.have_room(user) {
                tracing::debug!(user, "too many operators at once; one was closed unheard");
                continue;
            }
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            self.next_number += 1;
            self.conversations.push(Conversation {
                number: self.next_number,
                user,
                stream,
                bytes: Vec::new(),
                phase: Phase::Reading,
                deadline: now + PATIENCE,
            });
        }
    }

    /// Returns whether there is room for one more connection of a user.
    fn have_room(&self, user: u32) -> bool {
        let count = |which: &dyn Fn(u32) -> bool| {
            let users = self.conversations.iter().map(|one| one.user);
            users.filter(|user| which(*user)).count()
        };
        match is_owner(user) {
            true => count(&is_owner) < CONVERSATIONS,
            false => {
                count(&|one| one == user) < CONVERSATIONS_OF_A_MEMBER
                    && count(&|one| !is_owner(one)) < CONVERSATIONS
            }
        }
    }

    /// Adds what is to be polled: a connection that reads or writes.
    pub(super) fn poll_fds<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        for conversation in &self.conversations {
            let flags = match conversation.phase {
                Phase::Reading => PollFlags::POLLIN,
                Phase::Writing(_) => PollFlags::POLLOUT,
                Phase::Asked | Phase::Over => continue,
            };
            fds.push(PollFd::new(conversation.stream.as_fd(), flags));
        }
    }

    /// Reads and writes what goes without waiting; returns the requests that are whole.
    pub(super) fn go_on(&mut self, now: Instant) -> Vec<Request> {
        let mut requests = Vec::new();
        for conversation in &mut self.conversations {
            match conversation.phase {
                Phase::Reading => requests.extend(conversation.read()),
                Phase::Writing(_) => conversation.write(),
                Phase::Asked | Phase::Over => {}
            }
        }
        self.conversations.retain(|conversation| {
            let is_late = conversation.phase != Phase::Asked && now >= conversation.deadline;
            conversation.phase != Phase::Over && !is_late
        });
        requests
    }

    /// Answers a request.
    pub(super) fn answer(&mut self, number: u64, reply: &AdminReply, now: Instant) {
        let found = self.conversations.iter_mut();
        let Some(conversation) = found.into_iter().find(|one| one.number == number) else {
            return;
        };
        conversation.bytes = match serde_json::to_vec(reply) {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::error!(%error, "a reply to an operator cannot be written");
                conversation.phase = Phase::Over;
                return;
            }
        };
        conversation.bytes.push(b'\n');
        conversation.phase = Phase::Writing(0);
        conversation.deadline = now + PATIENCE;
        conversation.write();
    }
}

/// Returns whether a user is root or the service's own.
fn is_owner(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

impl Conversation {
    fn read(&mut self) -> Option<Request> {
        let mut buffer = [0; 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(_) => {
                    self.phase = Phase::Over;
                    return None;
                }
            }
            if self.bytes.contains(&b'\n') || self.bytes.len() > REQUEST_BYTES {
                break;
            }
        }
        // The end of the stream ends a line as well.
        self.phase = Phase::Asked;
        Some(Request {
            number: self.number,
            user: self.user,
            line: std::mem::take(&mut self.bytes),
        })
    }

    fn write(&mut self) {
        while let Phase::Writing(from) = self.phase {
            match self.stream.write(&self.bytes[from..]) {
                Ok(0) => self.phase = Phase::Over,
                Ok(count) if from + count == self.bytes.len() => self.phase = Phase::Over,
                Ok(count) => self.phase = Phase::Writing(from + count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.phase = Phase::Over,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ACCEPTS_A_TURN, CONVERSATIONS, CONVERSATIONS_OF_A_MEMBER, Operators, PATIENCE,
        REQUEST_BYTES,
    };
    use crate::supervisor::AdminReply;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::PathBuf;
    use std::time::Instant;

    struct Socket {
        _folder: tempfile::TempDir,
        path: PathBuf,
        listener: UnixListener,
    }

    fn socket() -> Socket {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        Socket {
            _folder: folder,
            path,
            listener,
        }
    }

    #[test]
    fn an_operator_is_answered_beside_others_that_are_silent_slow_or_talk_too_much() {
        let socket = socket();
        let connect = || UnixStream::connect(&socket.path).unwrap();
        let now = Instant::now();
        let mut operators = Operators::default();
        let (mut good, _silent, mut half, mut long) = (connect(), connect(), connect(), connect());
        good.write_all(b"hello\n").unwrap();
        half.write_all(b"hel").unwrap();
        long.write_all(&[b'x'; REQUEST_BYTES + 1]).unwrap();
        operators.accept(&socket.listener, now);
        let requests = operators.go_on(now);
        let lines: Vec<usize> = requests.iter().map(|request| request.line.len()).collect();
        assert_eq!(lines, [6, REQUEST_BYTES + 1]);
        assert_eq!(requests[0].user, nix::unistd::geteuid().as_raw());
        operators.answer(requests[0].number, &AdminReply::Done, now);
        let mut reply = String::new();
        BufReader::new(&good).read_line(&mut reply).unwrap();
        assert_eq!(reply, "\"done\"\n");
        assert!(operators.go_on(now).is_empty());
        // Those that never said anything whole are closed when their time is over; what was asked waits for its reply.
        operators.go_on(now + PATIENCE);
        assert_eq!(operators.conversations.len(), 1);
        assert_eq!(half.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn no_more_than_a_few_are_open_at_once_and_members_keep_nobody_else_out() {
        let socket = socket();
        let now = Instant::now();
        let mut operators = Operators::default();
        let mut all = Vec::new();
        let mut connect = |operators: &mut Operators, count: usize| {
            all.extend((0..count).map(|_| UnixStream::connect(&socket.path).unwrap()));
            operators.accept(&socket.listener, now);
        };
        connect(&mut operators, ACCEPTS_A_TURN);
        assert_eq!(operators.conversations.len(), CONVERSATIONS);
        connect(&mut operators, 1);
        assert_eq!(
            operators.conversations.len(),
            CONVERSATIONS,
            "one more is closed"
        );
        // As if members of the operators' group had connected, each as often as it may.
        let member =
            |place: usize| 1_000_000 + u32::try_from(place / CONVERSATIONS_OF_A_MEMBER).unwrap();
        for (place, conversation) in operators.conversations.iter_mut().enumerate() {
            conversation.user = member(place);
        }
        assert!(!operators.have_room(member(0)));
        assert!(
            !operators.have_room(member(2 * CONVERSATIONS)),
            "all places of members are taken"
        );
        connect(&mut operators, 1);
        assert_eq!(
            operators.conversations.len(),
            CONVERSATIONS + 1,
            "the service's user has room"
        );
        operators.conversations.pop();
        operators.conversations.pop();
        assert!(operators.have_room(member(2 * CONVERSATIONS)));
        assert!(!operators.have_room(member(0)));
    }

    #[test]
    fn an_operator_that_does_not_read_is_given_up() {
        let socket = socket();
        let mut one = UnixStream::connect(&socket.path).unwrap();
        one.write_all(b"x\n").unwrap();
        let now = Instant::now();
        let mut operators = Operators::default();
        operators.accept(&socket.listener, now);
        let number = operators.go_on(now)[0].number;
        let reply = AdminReply::Error("x".repeat(8 << 20));
        operators.answer(number, &reply, now);
        operators.go_on(now);
        assert_eq!(operators.conversations.len(), 1);
        operators.go_on(now + PATIENCE);
        assert!(operators.conversations.is_empty());
    }
}
