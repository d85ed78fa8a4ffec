//! Keeps the database open, and what is to be written until it is.
//!
//! A file that cannot be used is tried again, after a pause that doubles up to a minute; the log says why, each time.
//! What is used meanwhile stands in the queue, and in every answer.
//!
//! Rules: a flush whose outcome is not known is settled by its number when the file is open again, before the next one
//! begins; a damaged file is set aside under another name, and a new one is begun.

use super::amounts::Amounts;
use super::file::{self, FileError, guarded};
use super::identity::Identity;
use super::interval::Level;
use super::queue::Queue;
use super::report::{Sums, UsageQuery, UsageReport};
use super::store::{Store, StoreError};
use crate::kept_file::set_aside;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Least and greatest pause before a file is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The keeper of one file.
#[derive(Debug)]
pub struct Keeper {
    path: PathBuf,
    state: State,
    /// What no flush has tried to write.
    queue: Queue,
    /// What one has tried to write, and its number, where the outcome is not known.
    flight: Option<(u64, Queue)>,
    /// Number of the last flush.
    number: u64,
    /// Number by which flushes are known as this keeper's.
    writer: u64,
    pause: Duration,
}

#[derive(Debug)]
enum State {
    Open(Box<Open>),
    Closed { why: String, retry_at: Instant },
}

/// A file that is open.
#[derive(Debug)]
struct Open {
    store: Store,
    /// The file once more, to see what becomes of it.
    file: File,
    /// Its length after the last flush.
    length: u64,
}

impl Open {
    /// Checks that the path still leads to the file, and that nobody has cut it.
    fn check(&self, path: &Path) -> Result<(), StoreError> {
        let own = self.file.metadata()?;
        let there = path.symlink_metadata();
        if !there.is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
            return Err(io::Error::other("somebody took it away while it was open").into());
        }
        match own.len() < self.length {
            true => Err(StoreError::Damaged(
                "somebody cut it while it was open".into(),
            )),
            false => Ok(()),
        }
    }

    fn flush(
        &mut self,
        path: &Path,
        (number, queue): &(u64, Queue),
        now: u64,
    ) -> Result<(), StoreError> {
        self.check(path)?;
        self.store.flush(*number, queue, now)?;
        self.length = self.file.metadata()?.len();
        Ok(())
    }
}

impl Keeper {
    /// Opens a file, or says in the log why it cannot and tries again later.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let mut keeper = Self {
            path: path.to_owned(),
            state: State::Closed {
                why: String::new(),
                retry_at: Instant::now(),
            },
            queue: Queue::default(),
            flight: None,
            number: 0,
            writer: RandomState::new().hash_one(std::process::id()),
            pause: PAUSES.0,
        };
        keeper.open();
        keeper
    }

    /// Adds what was used and writes all that waits, if the file can be used; `now` is in seconds since 1970.
    pub fn flush(&mut self, more: Queue, now: u64) {
        self.queue.merge(more);
        if matches!(&self.state, State::Closed { retry_at, .. } if *retry_at <= Instant::now()) {
            self.open();
        }
        let State::Open(open) = &mut self.state else {
            return;
        };
        if self.queue.is_empty() {
            return;
        }
        self.number += 1;
        let flight = self
            .flight
            .insert((self.number, std::mem::take(&mut self.queue)));
        match guarded(|| open.flush(&self.path, flight, now)) {
            Ok(()) => {
                self.flight = None;
                if std::mem::replace(&mut self.pause, PAUSES.0) != PAUSES.0 {
                    tracing::info!("use is written again");
                }
            }
            Err(error) => self.take_error(error),
        }
    }

    /// Tries once more to write all that waits, also where the file was to be tried later, and says in the log what is
    /// lost.
    pub fn end(mut self, now: u64) {
        if let State::Closed { retry_at, .. } = &mut self.state {
            *retry_at = Instant::now();
        }
        self.flush(Queue::default(), now);
        let waiting = self
            .flight
            .iter()
            .map(|(_, queue)| queue)
            .chain([&self.queue]);
        let launches: u64 = waiting
            .clone()
            .flat_map(Queue::iter)
            .map(|(.., all)| all.launches)
            .sum();
        if waiting.into_iter().any(|queue| !queue.is_empty()) {
            tracing::error!(
                "{}: use that could not be written is lost, of {launches} launches",
                self.path.display()
            );
        }
    }

    /// Answers a question from the file and from what waits.
    ///
    /// # Errors
    /// Why the file cannot be read now.
    pub fn report(&mut self, query: UsageQuery) -> Result<UsageReport, String> {
        let mut sums = Sums::new(query);
        let mut flushed = None;
        let unwritten = match &self.state {
            State::Open(open) => {
                if let Err(error) = guarded(|| open.store.sum(&mut sums)) {
                    let why = format!("{}: {error}", self.path.display());
                    self.take_error(error);
                    return Err(why);
                }
                None
            }
            State::Closed { why, .. } => {
                // What cannot be written may be readable, such as on a full disk.
                let mut read = Sums::new(query);
                if let Ok(last) = file::read_own(&self.path, self.writer, &mut read) {
                    (sums, flushed) = (read, last);
                }
                Some(why.clone())
            }
        };
        let waiting = self.flight.iter();
        let waiting = waiting.filter(|(number, _)| flushed != Some(*number));
        let waiting = waiting.map(|(_, queue)| queue);
        for queue in waiting.chain([&self.queue]) {
            let mut add = |(start, identity, used): (u64, &Identity, &Amounts)| {
                let span = (start, Level::Minute.end_of(start));
                if sums.counts(span.0, span.1) {
                    sums.add(span, identity, used);
                }
            };
            queue.iter().for_each(&mut add);
        }
        Ok(sums.report(unwritten))
    }

    /// Opens the file; a damaged one is set aside first.
    fn open(&mut self) {
        let error = match self.try_open() {
            Ok(()) => return,
            Err(
                error @ FileError::Store {
                    source: StoreError::Damaged(_),
                    ..
                },
            ) => match self.set_aside(&error.to_string()).map(|()| self.try_open()) {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error,
                Err(source) => FileError::System {
                    path: self.path.clone(),
                    source,
                },
            },
            Err(error) => error,
        };
        self.close(&error.to_string());
    }

    fn try_open(&mut self) -> Result<(), FileError> {
        let path = &self.path;
        let system = |source| FileError::System {
            path: path.clone(),
            source,
        };
        let file = file::open(path)?;
        let again = file.try_clone().map_err(system)?;
        let length = file.metadata().map_err(system)?.len();
        let writer = self.writer;
        let opened = guarded(|| {
            let store = Store::open(file, writer)?;
            let flushed = store.flushed()?;
            Ok((store, flushed))
        });
        let (store, flushed) = opened.map_err(|source| {
            if length == 0 {
                // What was made of it so far is none, such as on a full disk.
                let _ = again.set_len(0);
            }
            FileError::Store {
                path: path.clone(),
                source,
            }
        })?;
        if let Some((number, queue)) = self.flight.take()
            && flushed != Some(number)
        {
            let newer = std::mem::replace(&mut self.queue, queue);
            self.queue.merge(newer);
        }
        self.state = State::Open(Box::new(Open {
            store,
            file: again,
            length,
        }));
        Ok(())
    }

    fn take_error(&mut self, error: StoreError) {
        let path = self.path.display();
        let why = match &error {
            StoreError::Io(error) if is_full(error) => {
                format!("{path}: {error}; make room on its file system")
            }
            error => format!("{path}: {error}"),
        };
        self.close(&why);
        if matches!(error, StoreError::Damaged(_)) {
            self.open();
        }
    }

    /// Closes the file until it is time to try again.
    fn close(&mut self, why: &str) {
        tracing::error!(
            %why,
            "use is not written (accounting.file); it is kept in memory, and the file tried again"
        );
        self.state = State::Closed {
            why: why.to_owned(),
            retry_at: Instant::now() + self.pause,
        };
        self.pause = (self.pause * 2).min(PAUSES.1);
    }

    fn set_aside(&self, why: &str) -> io::Result<()> {
        let aside = set_aside(&self.path)?;
        let aside = aside.display();
        tracing::error!(%why, %aside, "the database of use was set aside, and a new one is begun");
        Ok(())
    }

    /// Has the file tried again at the next flush.
    #[cfg(test)]
    pub(super) fn hurry(&mut self) {
        if let State::Closed { retry_at, .. } = &mut self.state {
            *retry_at = Instant::now();
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

#[cfg(test)]
mod tests;
