//! One compiler: a forked child of the fork server, from its limits to its answer.
//!
//! Rules: nothing of the parent is in its reach but memory that both had before: it closes every descriptor except its
//! texts, its answer and its stderr, which is a memfd. It returns never. An answer is a head of postcard, its length
//! before it, and the text.

use super::{ANSWER_BYTES, Head, JobLimits, Wanted, translate};
use crate::sandbox::{self, Role};
use nix::sys::resource::{Resource, setrlimit};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Where a compiler has its texts and its answer.
const TEXT_FD: i32 = 3;
const ANSWER_FD: i32 = 4;
/// Exit codes: an answer is written; a panic, whose message is on stderr; anything else that failed, likewise.
const ANSWERED: i32 = 0;
const PANICKED: i32 = 101;
const FAILED: i32 = 1;

/// Descriptors and limits of a compiler.
pub(super) struct Job {
    /// The texts, one behind another.
    pub(super) text: OwnedFd,
    /// The length of each in bytes.
    pub(super) lengths: Vec<u64>,
    /// What is to be made of it.
    pub(super) wanted: Wanted,
    /// Where the answer goes.
    pub(super) answer: OwnedFd,
    /// The descriptor that becomes stderr.
    pub(super) errors: OwnedFd,
    /// Limits of what it uses.
    pub(super) limits: JobLimits,
}

impl Job {
    /// Does the job and ends the process.
    pub(super) fn run(self) -> ! {
        let code = match std::panic::catch_unwind(|| self.answer()) {
            Ok(Ok(())) => ANSWERED,
            Ok(Err(error)) => {
                let _ = writeln!(io::stderr(), "{error}");
                FAILED
            }
            Err(_) => PANICKED,
        };
        // SAFETY: ends this process without what the fork server registered for its own end.
        unsafe { libc::_exit(code) }
    }

    fn answer(&self) -> io::Result<()> {
        let (text, mut answer) = self.settle()?;
        let mut texts = Vec::new();
        let mut offset = 0;
        for &length in &self.lengths {
            let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
            text.read_exact_at(&mut bytes, offset)?;
            offset += length;
            texts.push(bytes);
        }
        let (head, ptx) = match translate(texts, self.wanted) {
            Ok(made) => (Head::Translated(made.kernels, made.placed), made.ptx),
            Err(refusal) => (Head::Refused(refusal.to_string()), Vec::new()),
        };
        let head = postcard::to_allocvec(&head).map_err(io::Error::other)?;
        answer.write_all(&(head.len() as u64).to_le_bytes())?;
        answer.write_all(&head)?;
        answer.write_all(&ptx)
    }

    /// Puts the descriptors where they belong, closes all others, and gives up everything else.
    fn settle(&self) -> io::Result<(File, File)> {
        sandbox::tie_to_parent()?;
        // The fork server holds its own sockets at the targets, so none of ours lies there.
        for (fd, target) in [
            (&self.text, TEXT_FD),
            (&self.answer, ANSWER_FD),
            (&self.errors, libc::STDERR_FILENO),
        ] {
            // SAFETY: a system call with two numbers; what was open at the target is the fork server's, which this
            // process uses no more.
            if unsafe { libc::dup3(fd.as_raw_fd(), target, 0) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        // SAFETY: a system call with three numbers. The descriptors it closes are owned by values that this process
        // forgets: it ends without dropping them.
        if unsafe { libc::close_range(ANSWER_FD.cast_unsigned() + 1, libc::c_uint::MAX, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let JobLimits {
            memory_bytes,
            cpu_seconds,
        } = self.limits;
        setrlimit(Resource::RLIMIT_AS, memory_bytes, memory_bytes)?;
        setrlimit(Resource::RLIMIT_CPU, cpu_seconds, cpu_seconds + 1)?;
        setrlimit(Resource::RLIMIT_FSIZE, ANSWER_BYTES, ANSWER_BYTES)?;
        sandbox::confine_calls(Role::Compiler).map_err(io::Error::other)?;
        // SAFETY: both were just put there, and nothing else in this process owns them.
        unsafe { Ok((File::from_raw_fd(TEXT_FD), File::from_raw_fd(ANSWER_FD))) }
    }
}
