//! Bringing a database of an older version to this one's.
//!
//! Rules: each version has one step to the next; all steps that are due are one transaction, so that a database is of
//! one version or the other; a newer version is left as it is.
//!
//! - 1: rows without operations that failed, in tables without a version in their names.
//! - 2: as [`super`] says.

use super::{FLUSHES, Key, META, NAMES, SCHEMA, StoreError, VERSION, table};
use crate::accounting::interval::Level;
use redb::{
    Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError,
    TableHandle as _, WriteTransaction,
};

/// A row's amounts in version 1.
pub(super) type FirstValue = (u128, u128, u64, u64);

/// Returns the table of version 1 of a length of intervals.
pub(super) fn first_table(level: Level) -> TableDefinition<'static, Key, FirstValue> {
    TableDefinition::new(match level {
        Level::Minute => "minutes",
        Level::Hour => "hours",
        Level::Day => "days",
        Level::Month => "months",
    })
}

/// Brings a database to the version of this program; one that is empty becomes one.
pub(super) fn to_current(db: &Database) -> Result<(), StoreError> {
    let found = version(db)?;
    if found == Some(SCHEMA) {
        return Ok(());
    }
    let mut write = db.begin_write()?;
    write.set_two_phase_commit(true);
    match found {
        None => {}
        Some(1) => from_first(&write)?,
        Some(found) => {
            write.abort()?;
            return Err(StoreError::Newer { found });
        }
    }
    write.open_table(META)?.insert(VERSION, SCHEMA)?;
    write.open_table(NAMES)?;
    write.open_table(FLUSHES)?;
    for level in Level::ALL {
        write.open_table(table(level))?;
    }
    write.commit()?;
    if let Some(found) = found {
        tracing::info!(
            from = found,
            to = SCHEMA,
            "the database of use was brought to this version"
        );
    }
    Ok(())
}

/// Returns the version of a database; none of an empty one.
fn version(db: &Database) -> Result<Option<u64>, StoreError> {
    let read = db.begin_read()?;
    match read.open_table(META) {
        Ok(meta) => {
            let version = meta.get(VERSION)?.map(|version| version.value());
            version.map(Some).ok_or(StoreError::Foreign)
        }
        Err(TableError::TableDoesNotExist(_)) => match read.list_tables()?.next() {
            None => Ok(None),
            Some(_) => Err(StoreError::Foreign),
        },
        Err(TableError::TableTypeMismatch { .. }) => Err(StoreError::Foreign),
        Err(error) => Err(error.into()),
    }
}

fn from_first(write: &WriteTransaction) -> Result<(), StoreError> {
    for level in Level::ALL {
        let first = first_table(level);
        {
            let mut rows = write.open_table(table(level))?;
            for row in write.open_table(first)?.iter()? {
                let (key, value) = row?;
                let (sm_ns, memory_byte_ns, bytes_copied, launches) = value.value();
                let value = (sm_ns, memory_byte_ns, bytes_copied, launches, 0);
                rows.insert(key.value(), value)?;
            }
        }
        tracing::debug!(table = first.name(), "taken over");
        write.delete_table(first)?;
    }
    Ok(())
}
