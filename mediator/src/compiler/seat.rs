//! The device host's end of a compiler: gives it a module, waits, and reads what comes back.
//!
//! Rules: whatever comes back is bounded before it is read, and what a compiler wrote to its stderr is shown in one
//! short line without control characters. A job ends even if its process sleeps for ever.

use super::{
    ANSWER_BYTES, Ended, HEAD_BYTES, Head, JobLimits, SEATS, ToServer, Translated, Wanted,
};
use crate::link::HostLink;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::Signal;
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Most bytes that a compiler says about its end.
const ERRORS_BYTES: usize = 2048;
/// Wall time that a job may take for each second of processor time, and beside it, while it is not stopped: a busy
/// machine gives it less than a core.
const WALL_PER_CPU: u32 = 8;
const WALL_BESIDE: Duration = Duration::from_secs(10);
/// How often a seat asks for its orders without being told to, in milliseconds: as often as tenants take turns.
const LOOK: u16 = 20;
/// How long the fork server, which does nothing long, may take for a word.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// The words that the allocator prints where an allocation fails.
const OUT_OF_MEMORY: &str = "memory allocation of ";

/// Why a module was not compiled.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// It is refused.
    #[error("{0}")]
    Refused(String),
    /// It needs too much memory.
    #[error(
        "the module needs more than {0} bytes of memory to compile (limits.compile_memory_bytes)"
    )]
    Memory(u64),
    /// It needs too much time.
    #[error(
        "the module took more than {0} s of processor time to compile (limits.compile_cpu_seconds)"
    )]
    Time(u64),
    /// It did not end.
    #[error("the compiler did not end within {0} s; it was ended")]
    Wall(u64),
    /// The compiler crashed.
    #[error("the compiler ended by signal {number} ({name}){said}")]
    Signal {
        /// The signal.
        number: i32,
        /// Its name.
        name: String,
        /// Its message, in brackets.
        said: String,
    },
    /// The compiler failed otherwise.
    #[error("the compiler failed with exit code {code}{said}")]
    Failed {
        /// Its exit code.
        code: i32,
        /// Its message, in brackets.
        said: String,
    },
    /// Its answer is wrong.
    #[error("what the compiler returned cannot be read: {0}")]
    Answer(String),
    /// The client has left.
    #[error("the client left while its module was compiled")]
    Cancelled,
    /// A tenant that used less compile time needs its seat.
    #[error("the module made room for those of tenants that used less compile time")]
    Displaced,
    /// The fork server ended while it had the job.
    #[error("the fork server of the compilers ended while it compiled this module; load it again")]
    ServerEnded,
    /// The fork server says nothing.
    #[error("the fork server of the compilers does not answer; load this module again")]
    ServerSilent,
    /// The fork server cannot be spoken to, and has not begun.
    #[error("the fork server of the compilers is not there")]
    NoServer,
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// The step that failed.
        what: &'static str,
        /// Why not.
        error: io::Error,
    },
}

fn system<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> JobError {
    move |error| JobError::System {
        what,
        error: error.into(),
    }
}

/// The texts of a module in a memfd that nobody can change any more.
#[derive(Debug)]
pub struct Text {
    memfd: OwnedFd,
    lengths: Vec<u64>,
}

impl Text {
    /// Writes and seals them.
    ///
    /// # Errors
    /// The system calls'.
    pub fn new(texts: &[Vec<u8>]) -> Result<Self, JobError> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = memfd_create("module", flags).map_err(system("memfd_create"))?;
        let file = File::from(file);
        let mut offset = 0;
        for text in texts {
            let written = file.write_all_at(text, offset);
            written.map_err(system("writing a module's text"))?;
            offset += text.len() as u64;
        }
        let seals = SealFlag::F_SEAL_WRITE
            | SealFlag::F_SEAL_SHRINK
            | SealFlag::F_SEAL_GROW
            | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).map_err(system("sealing a module's text"))?;
        Ok(Self {
            memfd: file.into(),
            lengths: texts.iter().map(|text| text.len() as u64).collect(),
        })
    }
}

/// Has the thread of a seat look at its orders, from any thread.
#[derive(Debug)]
pub struct Bell(EventFd);

impl Bell {
    /// Makes one that was not rung yet.
    ///
    /// # Errors
    /// The system call's.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self(EventFd::from_flags(flags)?))
    }

    /// Rings it.
    pub fn ring(&self) {
        let _ = self.0.write(1);
    }
}

/// What becomes of the job of a seat.
#[derive(Debug)]
pub enum Order {
    /// It goes on.
    Run,
    /// Its process is stopped until it may go on.
    Stop,
    /// It ends, for that reason.
    End(JobError),
}

/// The device host's end of one compiler at a time.
#[derive(Debug)]
pub struct Seat {
    link: HostLink,
    limits: JobLimits,
}

impl Seat {
    /// Takes over a socket, one of the [`SEATS`] that a fork server was started with.
    #[must_use]
    pub fn new(socket: OwnedFd, limits: JobLimits) -> Self {
        const { assert!(SEATS > 0) };
        let link = HostLink::from_fd(socket);
        Self { link, limits }
    }

    /// Compiles a module, and waits until it is done, as it is ordered: when the bell is rung, and every now and then,
    /// it asks.
    ///
    /// # Errors
    /// [`JobError`]. After [`JobError::ServerEnded`], [`JobError::ServerSilent`] and [`JobError::NoServer`] the seat is
    /// of no use.
    pub fn compile(
        &mut self,
        (text, wanted): (&Text, Wanted),
        bell: &Bell,
        order: &dyn Fn() -> Order,
    ) -> Result<Translated, JobError> {
        let job = ToServer::Job {
            lengths: text.lengths.clone(),
            wanted,
        };
        let sent = self.link.send(&job, &[text.memfd.as_raw_fd()]);
        sent.map_err(|_| JobError::NoServer)?;
        let begun = self
            .await_word(ANSWER_PATIENCE)
            .map_err(|error| match error {
                // It ended before it began with this job, which another one may do.
                JobError::ServerEnded => JobError::NoServer,
                error => error,
            })?;
        let (early, (ended, descriptors)) = match begun.0 {
            Ended::Begun => {
                let early = self.wait(bell, order)?;
                (early, self.await_word(ANSWER_PATIENCE)?)
            }
            Ended::NotStarted(_) => (None, begun),
            Ended::Exited(_) | Ended::Signalled(_) => {
                return Err(JobError::Answer("it ended before it began".into()));
            }
        };
        if let Some(error) = early {
            return Err(error);
        }
        let [answer, errors] = match ended {
            Ended::NotStarted(number) => {
                let error = io::Error::from_raw_os_error(number);
                return Err(system("starting a compiler")(error));
            }
            Ended::Exited(_) | Ended::Signalled(_) => <[OwnedFd; 2]>::try_from(descriptors)
                .map_err(|_| JobError::Answer("its descriptors are missing".into()))?,
            Ended::Begun => return Err(JobError::Answer("it began twice".into())),
        };
        match ended {
            Ended::Exited(0) => read_answer(&File::from(answer)),
            ended => Err(self.how(ended, &last_words(&File::from(errors)))),
        }
    }

    /// Returns what the fork server says within a time.
    fn await_word(&mut self, longest: Duration) -> Result<(Ended, Vec<OwnedFd>), JobError> {
        let deadline = Instant::now() + longest;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(self.link.fd().as_fd(), PollFlags::POLLIN)];
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            match poll(&mut fds, timeout) {
                Ok(0) => return Err(JobError::ServerSilent),
                Ok(_) => break,
                Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(system("poll")(errno)),
            }
        }
        match self.link.receive::<Ended>() {
            Ok(Some(said)) => Ok(said),
            Ok(None) | Err(_) => Err(JobError::ServerEnded),
        }
    }

    /// Waits until the fork server says that the job has ended, or has been told to end it; returns why, if it was.
    fn wait(&self, bell: &Bell, order: &dyn Fn() -> Order) -> Result<Option<JobError>, JobError> {
        let cpu = Duration::from_secs(self.limits.cpu_seconds);
        let longest = cpu.saturating_mul(WALL_PER_CPU).saturating_add(WALL_BESIDE);
        let mut ran = Duration::ZERO;
        let mut is_stopped = false;
        loop {
            let asked = Instant::now();
            let mut fds = [
                PollFd::new(self.link.fd().as_fd(), PollFlags::POLLIN),
                PollFd::new(bell.0.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut fds, LOOK) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(system("poll")(errno)),
            }
            if fds[0].any() == Some(true) {
                return Ok(None);
            }
            let _ = bell.0.read();
            if !is_stopped {
                ran += asked.elapsed();
            }
            let (told, reason) = match order() {
                Order::End(reason) => (ToServer::Cancel, Some(reason)),
                _ if ran >= longest => (ToServer::Cancel, Some(JobError::Wall(longest.as_secs()))),
                Order::Stop if !is_stopped => (ToServer::Stop, None),
                Order::Run if is_stopped => (ToServer::GoOn, None),
                Order::Stop | Order::Run => continue,
            };
            is_stopped = matches!(told, ToServer::Stop);
            let sent = self.link.send(&told, &[]);
            sent.map_err(|_| JobError::ServerEnded)?;
            if reason.is_some() {
                return Ok(reason);
            }
        }
    }

    /// Says why there is no answer.
    fn how(&self, ended: Ended, words: &str) -> JobError {
        let said = match words {
            "" => String::new(),
            words => format!(": {words}"),
        };
        match ended {
            Ended::Signalled(number) if number == Signal::SIGXCPU as i32 => {
                JobError::Time(self.limits.cpu_seconds)
            }
            Ended::Signalled(number)
                if number == Signal::SIGABRT as i32 && words.contains(OUT_OF_MEMORY) =>
            {
                JobError::Memory(self.limits.memory_bytes)
            }
            Ended::Signalled(number) | Ended::NotStarted(number) => JobError::Signal {
                number,
                name: Signal::try_from(number)
                    .map_or_else(|_| "unknown".to_owned(), |signal| signal.to_string()),
                said,
            },
            Ended::Exited(code) => JobError::Failed { code, said },
            Ended::Begun => JobError::Answer("it began twice".into()),
        }
    }
}

/// Reads the first bytes of what a compiler wrote to its stderr, as one line.
fn last_words(errors: &File) -> String {
    let mut bytes = vec![0; ERRORS_BYTES];
    let read = errors.read_at(&mut bytes, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..read]);
    let plain = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect::<String>();
    plain.trim().to_owned()
}

/// Reads an answer.
fn read_answer(mut answer: &File) -> Result<Translated, JobError> {
    let wrong = |text: &str| JobError::Answer(text.to_owned());
    let size = answer.seek(SeekFrom::End(0)).map_err(system("lseek"))?;
    if size > ANSWER_BYTES {
        return Err(wrong("it is too long"));
    }
    let read = |offset: u64, bytes: u64| {
        let mut buffer = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        let done = answer.read_exact_at(&mut buffer, offset);
        done.map(|()| buffer).map_err(system("reading an answer"))
    };
    let mut length = [0; 8];
    let done = answer.read_exact_at(&mut length, 0);
    done.map_err(|_| wrong("it is empty"))?;
    let (length, rest) = (u64::from_le_bytes(length), size.saturating_sub(8));
    if length > rest.min(HEAD_BYTES) {
        return Err(wrong("its head is longer than it may be"));
    }
    let head =
        postcard::from_bytes(&read(8, length)?).map_err(|error| wrong(&error.to_string()))?;
    match head {
        Head::Refused(mut reason) => {
            reason.truncate(reason.floor_char_boundary(ERRORS_BYTES));
            Err(JobError::Refused(reason))
        }
        Head::Translated(kernels, placed) => Ok(Translated {
            ptx: read(8 + length, rest - length)?,
            kernels,
            placed,
        }),
    }
}
