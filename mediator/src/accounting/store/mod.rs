//! The database of use: redb, which copies what it writes and commits in two phases, so that a file of any moment opens
//! with the last commit that was whole.
//!
//! ```text
//! meta          "schema"                 version of what stands below
//! flushes       writer                   its last flush, and when that was
//! identities    number                   an identity in postcard
//! minutes.2, hours.2, days.2, months.2   (beginning, number of the identity) to amounts
//! ```
//!
//! Two phases, because names of control groups are their users' choice: without them a crash falls back on checksums
//! that are no secret.
//!
//! Rules: one flush is one transaction, with the folding of old intervals ([`fold`]) and its own number in it. An error
//! leaves the store unusable; who owns it closes it and opens it again. Opening checks all of the file.

mod fold;
mod memory;
mod migrate;

use super::amounts::Amounts;
use super::identity::Identity;
use super::interval::Level;
use super::queue::Queue;
use super::report::Sums;
use memory::MemoryBackend;
use redb::backends::FileBackend;
use redb::{
    Builder, Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, WriteTransaction,
};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;

use fold::Bounds;

/// Version of the schema that this program writes.
pub const SCHEMA: u64 = 2;
/// Memory for pages of the file.
const CACHE_BYTES: usize = 16 << 20;
/// Writers whose last flush is remembered: for longer than one may take to open its file again.
const WRITERS_FOR_S: u64 = 24 * 3600;

/// A row's key: the beginning of its interval in seconds since 1970, and the number of its identity.
type Key = (u64, u32);
/// A row's amounts, in the order of [`Amounts`].
type Value = (u128, u128, u64, u64, u64);

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const FLUSHES: TableDefinition<u64, (u64, u64)> = TableDefinition::new("flushes");
const NAMES: TableDefinition<u32, &[u8]> = TableDefinition::new("identities");
/// The key of the schema's version.
const VERSION: &str = "schema";

/// Returns the table of a length of intervals.
fn table(level: Level) -> TableDefinition<'static, Key, Value> {
    TableDefinition::new(match level {
        Level::Minute => "minutes.2",
        Level::Hour => "hours.2",
        Level::Day => "days.2",
        Level::Month => "months.2",
    })
}

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It was made by a newer version.
    #[error(
        "it is of version {found}, and this program knows {SCHEMA}: use the newer gridmux that made it"
    )]
    Newer {
        /// Its version.
        found: u64,
    },
    /// It is a database of something else.
    #[error("it is a database of something else")]
    Foreign,
    /// What it holds makes no sense.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// Another process has it open.
    #[error("another process has it open")]
    Busy,
    /// It cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<redb::Error> for StoreError {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::DatabaseAlreadyOpen => Self::Busy,
            redb::Error::Io(error) => match error.kind() {
                // What is shorter than it says, and what is none of redb's.
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
                    Self::Damaged(error.to_string())
                }
                _ => Self::Io(error),
            },
            redb::Error::PreviousIo | redb::Error::DatabaseClosed => {
                Self::Io(io::Error::other(error.to_string()))
            }
            error => Self::Damaged(error.to_string()),
        }
    }
}

/// Makes `?` work on every error of redb.
macro_rules! from_redb {
    ($($error:ident)*) => { $(
        impl From<redb::$error> for StoreError {
            fn from(error: redb::$error) -> Self {
                redb::Error::from(error).into()
            }
        }
    )* };
}
from_redb! { CommitError DatabaseError StorageError TableError TransactionError SetDurabilityError }

/// A database that is open.
#[derive(Debug)]
pub struct Store {
    db: Database,
    /// Who writes, by a number that no other has.
    writer: u64,
    names: Names,
    bounds: Bounds,
    /// The minute in which old intervals were last folded.
    folded_at: u64,
}

/// The identities by number, and the other way round.
#[derive(Debug, Clone, Default)]
struct Names {
    by_number: BTreeMap<u32, Identity>,
    numbers: HashMap<Identity, u32>,
    /// How many each tenant has.
    of_tenants: HashMap<String, usize>,
}

impl Names {
    fn insert(&mut self, number: u32, identity: Identity) {
        *self.of_tenants.entry(identity.tenant.clone()).or_default() += 1;
        self.numbers.insert(identity.clone(), number);
        self.by_number.insert(number, identity);
    }

    fn remove(&mut self, number: u32) {
        if let Some(identity) = self.by_number.remove(&number) {
            self.numbers.remove(&identity);
            if let Some(count) = self.of_tenants.get_mut(&identity.tenant) {
                *count -= 1;
            }
            self.of_tenants.retain(|_, count| *count > 0);
        }
    }

    /// Returns whether a tenant gets no further identity of its own: there are as many as there may be, and it has its
    /// part of them.
    fn is_full(&self, tenant: &str, most: usize) -> bool {
        let part = most / self.of_tenants.len().max(1);
        let own = self.of_tenants.get(tenant).copied().unwrap_or(0);
        self.by_number.len() >= most && own >= part.max(1)
    }

    /// Returns a number that is not taken: the next above all of them, as long as there is one.
    fn next(&self) -> u32 {
        let last = self.by_number.last_key_value();
        let above = last.map_or(Some(0), |(number, _)| number.checked_add(1));
        above.unwrap_or_else(|| {
            let mut numbers = 0..;
            let is_free = |number: &u32| !self.by_number.contains_key(number);
            // Far fewer are taken than there are.
            numbers.find(is_free).unwrap_or_default()
        })
    }
}

impl Store {
    /// Opens the database in a file, or makes one of an empty file; brings one of an older version to this one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(file: File, writer: u64) -> Result<Self, StoreError> {
        let file = FileBackend::new(file)?;
        Self::of(builder().create_with_backend(file)?, writer)
    }

    /// Opens a copy of a database in memory, which may have been taken while somebody wrote.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn of_bytes(bytes: Vec<u8>, writer: u64) -> Result<Self, StoreError> {
        let memory = MemoryBackend::new(bytes);
        Self::of(builder().create_with_backend(memory)?, writer)
    }

    /// Opens a database on storage of a test's.
    #[cfg(test)]
    fn on(backend: impl redb::StorageBackend, writer: u64) -> Result<Self, StoreError> {
        Self::of(builder().create_with_backend(backend)?, writer)
    }

    fn of(db: Database, writer: u64) -> Result<Self, StoreError> {
        migrate::to_current(&db)?;
        let mut names = Names::default();
        let read = db.begin_read()?;
        for entry in read.open_table(NAMES)?.iter()? {
            let (number, bytes) = entry?;
            let identity = postcard::from_bytes(bytes.value());
            let identity = identity.map_err(|error| StoreError::Damaged(error.to_string()))?;
            names.insert(number.value(), identity);
        }
        Ok(Self {
            db,
            writer,
            names,
            bounds: Bounds::default(),
            folded_at: 0,
        })
    }

    /// Obeys other bounds.
    #[cfg(test)]
    fn bounded(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Returns the number of this writer's last flush that succeeded, if one did.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn flushed(&self) -> Result<Option<u64>, StoreError> {
        let read = self.db.begin_read()?;
        let flushes = read.open_table(FLUSHES)?;
        Ok(flushes.get(self.writer)?.map(|last| last.value().0))
    }

    /// Adds what waits, as the flush of that number, and folds what is old.
    ///
    /// # Errors
    /// [`StoreError`]; whether the flush succeeded [`Store::flushed`] says when the file is open again.
    pub fn flush(&mut self, number: u64, queue: &Queue, now: u64) -> Result<(), StoreError> {
        let mut names = self.names.clone_if_needed(queue);
        let minute = Level::Minute.start_of(now);
        let mut write = self.db.begin_write()?;
        write.set_two_phase_commit(true);
        {
            let names = names.as_mut().unwrap_or(&mut self.names);
            let mut rows = write.open_table(table(Level::Minute))?;
            for (at, identity, amounts) in queue.iter() {
                let number = number_of(&write, (names, &self.bounds), identity)?;
                add(&mut rows, (Level::Minute.start_of(at), number), amounts)?;
            }
        }
        {
            let mut flushes = write.open_table(FLUSHES)?;
            flushes.retain(|_, (_, at)| at.saturating_add(WRITERS_FOR_S) >= now)?;
            flushes.insert(self.writer, (number, now))?;
        }
        if self.folded_at != minute {
            let names = names.get_or_insert_with(|| self.names.clone());
            fold::fold(&write, &self.bounds, names, now)?;
        }
        write.commit()?;
        self.folded_at = minute;
        if let Some(names) = names {
            self.names = names;
        }
        Ok(())
    }

    /// Adds the use of the intervals that count.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(super) fn sum(&self, sums: &mut Sums) -> Result<(), StoreError> {
        let read = self.db.begin_read()?;
        for level in Level::ALL {
            for row in read.open_table(table(level))?.iter()? {
                let (key, value) = row?;
                let (start, number) = key.value();
                let span = (start, level.end_of(start));
                if !sums.counts(span.0, span.1) {
                    continue;
                }
                let identity = self.names.by_number.get(&number);
                let identity = identity
                    .ok_or_else(|| StoreError::Damaged(format!("identity {number} has no name")))?;
                sums.add(span, identity, &amounts(value.value()));
            }
        }
        Ok(())
    }

    /// Returns how many rows there are of each length of intervals, the shortest first.
    #[cfg(test)]
    fn lengths(&self) -> Vec<u64> {
        use redb::ReadableTableMetadata as _;
        let read = self.db.begin_read().unwrap();
        let length = |level| read.open_table(table(level)).unwrap().len().unwrap();
        Level::ALL.map(length).into()
    }
}

impl Names {
    /// Returns a copy where a queue has identities that are new, so that a flush that fails leaves these as they are.
    fn clone_if_needed(&self, queue: &Queue) -> Option<Self> {
        let mut all = queue.iter();
        let is_new = all.any(|(_, identity, _)| !self.numbers.contains_key(identity));
        is_new.then(|| self.clone())
    }
}

fn builder() -> Builder {
    let mut builder = Database::builder();
    builder
        .set_check_integrity_on_open(true)
        .set_cache_size(CACHE_BYTES);
    builder
}

/// Returns the number of an identity, which gets one if there is room, and else that of all others of its tenant.
fn number_of(
    write: &WriteTransaction,
    (names, bounds): (&mut Names, &Bounds),
    identity: &Identity,
) -> Result<u32, StoreError> {
    if let Some(number) = names.numbers.get(identity) {
        return Ok(*number);
    }
    let folded = identity.folded();
    let identity = match names.is_full(&identity.tenant, bounds.identities) {
        true => &folded,
        false => identity,
    };
    if let Some(number) = names.numbers.get(identity) {
        return Ok(*number);
    }
    let number = names.next();
    let bytes = postcard::to_allocvec(identity);
    let bytes = bytes.map_err(|error| StoreError::Damaged(error.to_string()))?;
    write.open_table(NAMES)?.insert(number, &*bytes)?;
    names.insert(number, identity.clone());
    Ok(number)
}

/// Adds amounts to a row.
fn add(rows: &mut redb::Table<'_, Key, Value>, key: Key, more: &Amounts) -> Result<(), StoreError> {
    let found = rows.get(key)?.map(|row| amounts(row.value()));
    let mut sum = found.unwrap_or_default();
    sum.add(more);
    rows.insert(key, value(&sum))?;
    Ok(())
}

fn amounts((sm_ns, memory_byte_ns, bytes_copied, launches, failed): Value) -> Amounts {
    Amounts {
        sm_ns,
        memory_byte_ns,
        bytes_copied,
        launches,
        failed,
    }
}

fn value(amounts: &Amounts) -> Value {
    let Amounts {
        sm_ns,
        memory_byte_ns,
        bytes_copied,
        launches,
        failed,
    } = *amounts;
    (sm_ns, memory_byte_ns, bytes_copied, launches, failed)
}

#[cfg(test)]
mod tests;
