//! Folding of old intervals into longer ones, and of too many rows into fewer, so that the file stays bounded.
//!
//! Rules: a row moves whole, in the transaction that takes it away, so that sums over all intervals never change. What
//! is beyond the limit of a length is its oldest interval. Identities that no row names any more are forgotten in the
//! first minute of a day, and where there is no room for new ones.

use super::{Key, NAMES, Names, StoreError, add, amounts, number_of, table};
use crate::accounting::amounts::Amounts;
use crate::accounting::interval::Level;
use redb::{ReadableTable as _, ReadableTableMetadata as _, WriteTransaction};
use std::collections::{BTreeSet, HashMap, HashSet};

/// How much a database holds at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Rows of minutes, of hours and of days, each.
    pub(super) rows: u64,
    /// Rows of months.
    pub(super) months: u64,
    /// Identities that are kept apart. Use of further ones is their tenant's, if that has its part of these; so there
    /// are twice as many at most.
    pub(super) identities: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            rows: 1 << 16,
            months: 1 << 17,
            identities: 1 << 16,
        }
    }
}

/// Folds what is older than it is kept by its length, and what is too much.
pub(super) fn fold(
    write: &WriteTransaction,
    most: &Bounds,
    names: &mut Names,
    now: u64,
) -> Result<(), StoreError> {
    for level in Level::ALL {
        let (Some(kept_from), Some(longer)) = (level.kept_from(now), level.longer()) else {
            continue;
        };
        move_before(write, (level, longer), level.start_of(kept_from))?;
        while write.open_table(table(level))?.len()? > most.rows {
            let Some((oldest, _)) = first_key(write, level)? else {
                break;
            };
            move_before(write, (level, longer), oldest.saturating_add(1))?;
        }
    }
    if write.open_table(table(Level::Month))?.len()? > most.months {
        shrink_months(write, most, names)?;
    }
    let is_new_day = now % 86_400 < 60;
    if is_new_day || names.by_number.len() >= most.identities {
        forget_unused(write, names)?;
    }
    Ok(())
}

fn first_key(write: &WriteTransaction, level: Level) -> Result<Option<Key>, StoreError> {
    let rows = write.open_table(table(level))?;
    let first = rows.first()?.map(|(key, _)| key.value());
    Ok(first)
}

/// Moves the rows of intervals that begin before a time into longer intervals.
fn move_before(
    write: &WriteTransaction,
    (from, to): (Level, Level),
    before: u64,
) -> Result<(), StoreError> {
    let mut source = write.open_table(table(from))?;
    let mut target = write.open_table(table(to))?;
    let moved = source.extract_from_if(..(before, 0), |_, _| true)?;
    for row in moved {
        let (key, value) = row?;
        let (start, identity) = key.value();
        add(
            &mut target,
            (to.start_of(start), identity),
            &amounts(value.value()),
        )?;
    }
    Ok(())
}

/// Takes users and control groups out of the oldest months until there are nine tenths of the most rows, first those of
/// the tenants that have most, and, where that is not enough, puts the oldest months together.
fn shrink_months(
    write: &WriteTransaction,
    most: &Bounds,
    names: &mut Names,
) -> Result<(), StoreError> {
    let enough = most.months - most.months / 10;
    let mut rows = write.open_table(table(Level::Month))?;
    let mut starts = BTreeSet::new();
    let mut tenants: HashMap<String, (u64, HashSet<u32>)> = HashMap::new();
    for row in rows.iter()? {
        let (start, number) = row?.0.value();
        starts.insert(start);
        if let Some(identity) = names.by_number.get(&number) {
            let (count, numbers) = tenants.entry(identity.tenant.clone()).or_default();
            *count += 1;
            numbers.insert(number);
        }
    }
    let mut tenants: Vec<(u64, HashSet<u32>)> = tenants.into_values().collect();
    tenants.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    for (_, numbers) in tenants {
        let known = numbers
            .iter()
            .next()
            .and_then(|number| names.by_number.get(number));
        let Some(folded) = known.map(super::Identity::folded) else {
            continue;
        };
        for start in &starts {
            if rows.len()? <= enough {
                return Ok(());
            }
            let taken = take(&mut rows, *start, |number| numbers.contains(&number))?;
            let number = number_of(write, (names, most), &folded)?;
            for (_, amounts) in taken {
                add(&mut rows, (*start, number), &amounts)?;
            }
        }
    }
    let Some(oldest) = starts.pop_first() else {
        return Ok(());
    };
    for start in starts {
        if rows.len()? <= enough {
            break;
        }
        for (number, amounts) in take(&mut rows, start, |_| true)? {
            add(&mut rows, (oldest, number), &amounts)?;
        }
    }
    Ok(())
}

/// Takes the rows of an interval out whose identities are chosen.
fn take(
    rows: &mut redb::Table<'_, Key, super::Value>,
    start: u64,
    is_chosen: impl Fn(u32) -> bool,
) -> Result<Vec<(u32, Amounts)>, StoreError> {
    let mut taken = Vec::new();
    for row in rows.extract_from_if((start, 0)..=(start, u32::MAX), |(_, number), _| {
        is_chosen(number)
    })? {
        let (key, value) = row?;
        taken.push((key.value().1, amounts(value.value())));
    }
    Ok(taken)
}

/// Forgets identities that no row names.
fn forget_unused(write: &WriteTransaction, names: &mut Names) -> Result<(), StoreError> {
    let mut used = BTreeSet::new();
    for level in Level::ALL {
        for row in write.open_table(table(level))?.iter()? {
            used.insert(row?.0.value().1);
        }
    }
    let numbers = names.by_number.keys().copied();
    let unused: Vec<u32> = numbers.filter(|number| !used.contains(number)).collect();
    let mut kept = write.open_table(NAMES)?;
    for number in unused {
        kept.remove(number)?;
        names.remove(number);
    }
    Ok(())
}
