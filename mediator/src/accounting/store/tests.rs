//! Tests of the database: sums, folding, versions, and what a loss of power leaves.

use super::migrate::{FirstValue, first_table};
use super::{Bounds, META, NAMES, SCHEMA, Store, StoreError, VERSION};
use crate::accounting::interval::Level;
use crate::accounting::queue::Queue;
use crate::accounting::report::{By, Sums, UsageQuery, UsageReport};
use crate::accounting::{Amounts, Identity};
use crate::lock::CountedMutex;
use gridmux_workloads::Prng;
use redb::{Database, StorageBackend, TableDefinition};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// 2026-01-01T00:00:00Z.
const NEW_YEAR: u64 = 1_767_225_600;
const DAY: u64 = 86_400;

fn launches(count: u64) -> Amounts {
    Amounts {
        sm_ns: u128::from(count) * 10,
        memory_byte_ns: 1 << 80,
        bytes_copied: count * 3,
        launches: count,
        failed: 1,
    }
}

fn one(at: u64, identity: &Identity, count: u64) -> Queue {
    let mut queue = Queue::default();
    queue.add(at, identity, &launches(count));
    queue
}

fn file(path: &Path) -> File {
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(false);
    options.open(path).unwrap()
}

fn ask(store: &Store, by: By, since: Option<u64>, until: Option<u64>) -> UsageReport {
    let mut sums = Sums::new(UsageQuery { since, until, by });
    store.sum(&mut sums).unwrap();
    sums.report(None)
}

fn total(store: &Store) -> u64 {
    let rows = ask(store, By::Tenant, None, None).rows;
    rows.iter().map(|row| row.amounts.launches).sum()
}

#[test]
fn what_was_used_is_summed_by_tenant_user_job_and_control_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage.redb");
    let job = "/system.slice/slurmstepd.scope/job_7/step_0";
    let who = [
        Identity::new("a", 1000, Some(job)),
        Identity::new("a", 1001, Some("/x")),
        Identity::new("b", 1000, None),
    ];
    let mut store = Store::open(file(&path), 1).unwrap();
    for (number, (identity, count)) in (1..).zip(who.iter().zip([5, 7, 11])) {
        let queue = one(NEW_YEAR + 60 * number, identity, count);
        store.flush(number, &queue, NEW_YEAR + 60 * number).unwrap();
    }
    assert_eq!(store.flushed().unwrap(), Some(3));
    drop(store);
    let store = Store::open(file(&path), 2).unwrap();
    assert_eq!(store.flushed().unwrap(), None, "another writer");
    let of = |by| {
        let rows = ask(&store, by, None, None).rows.into_iter();
        let shown = rows.map(|row| (row.of.unwrap_or_default(), row.amounts.launches));
        shown.collect::<Vec<_>>()
    };
    let rows = |all: &[(&str, u64)]| {
        let rows = all.iter().map(|(of, count)| ((*of).to_owned(), *count));
        rows.collect::<Vec<_>>()
    };
    assert_eq!(of(By::Tenant), rows(&[("a", 12), ("b", 11)]));
    assert_eq!(of(By::User), rows(&[("1000", 16), ("1001", 7)]));
    assert_eq!(of(By::Job), rows(&[("", 18), ("slurm:7", 5)]));
    assert_eq!(of(By::Cgroup), rows(&[("", 11), ("/x", 7), (job, 5)]));
    let late = ask(&store, By::Tenant, Some(NEW_YEAR + 180), None);
    assert_eq!(late.rows.len(), 1);
    assert_eq!(
        (late.first, late.last),
        (Some(NEW_YEAR + 180), Some(NEW_YEAR + 240))
    );
    let early = ask(&store, By::Tenant, None, Some(NEW_YEAR + 120));
    assert_eq!(early.rows[0].amounts, launches(5));
}

#[test]
fn numbers_of_identities_begin_anew_behind_the_greatest() {
    let mut names = super::Names::default();
    for (number, next) in [(0, 1), (7, 8), (u32::MAX, 1), (1, 2)] {
        names.insert(number, Identity::new("a", number, None));
        assert_eq!(names.next(), next);
    }
    names.remove(u32::MAX);
    assert_eq!(names.next(), 8);
}

#[test]
fn years_are_folded_and_no_amount_changes() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(file(&folder.path().join("usage.redb")), 1).unwrap();
    let who = Identity::new("a", 1, None);
    let mut number = 0;
    for day in 0..800 {
        for hour in [0, 5] {
            number += 1;
            let at = NEW_YEAR + day * DAY + hour * 3600 + 7;
            store.flush(number, &one(at, &who, 1), at).unwrap();
        }
    }
    assert_eq!(total(&store), 1600);
    let rows = store.lengths();
    assert!(rows[0] <= 2 && (60..=66).contains(&rows[1]), "{rows:?}");
    assert!(
        (367..=369).contains(&rows[2]) && (13..=15).contains(&rows[3]),
        "{rows:?}"
    );
    let month = ask(
        &store,
        By::Tenant,
        Some(NEW_YEAR),
        Some(NEW_YEAR + 31 * DAY),
    );
    assert_eq!(month.rows[0].amounts.launches, 62, "January as a whole");
    assert_eq!(month.last, Some(NEW_YEAR + 31 * DAY));
}

/// Writes the use of ever new control groups with the longest names, in so many rounds, and checks what stays.
fn write_beyond(bounds: Bounds, (rounds, each): (u64, u64), longest_bytes: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage.redb");
    let mut store = Store::open(file(&path), 1).unwrap().bounded(bounds);
    let mut count = 0;
    for round in 0..rounds {
        let at = NEW_YEAR + round * 9 * DAY;
        let mut queue = Queue::default();
        for user in 0..each {
            let user = u32::try_from(round * each + user).unwrap();
            let cgroup = format!("/{user:0>199}");
            let who = Identity::new(&format!("t{}", user % 3), user, Some(&cgroup));
            queue.add(at, &who, &launches(1));
            count += 1;
        }
        store.flush(round, &queue, at).unwrap();
        let rows = store.lengths();
        let most = bounds.rows.max(each);
        assert!(rows[..3].iter().all(|rows| *rows <= most), "{rows:?}");
        assert!(rows[3] <= bounds.months, "{rows:?}");
        let known = store.names.by_number.len();
        assert!(known <= 2 * bounds.identities, "{known}");
    }
    assert_eq!(total(&store), count);
    let tenants = ask(&store, By::Tenant, None, None).rows;
    let of_each = tenants.iter().map(|row| row.amounts.launches);
    assert_eq!(of_each.sum::<u64>(), count);
    drop(store);
    let bytes = std::fs::metadata(&path).unwrap().len();
    assert!(bytes <= longest_bytes, "{bytes} bytes, rounds of {each}");
}

#[test]
fn who_has_most_identities_gets_no_more_and_others_do() {
    let few = Bounds {
        identities: 20,
        ..Bounds::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(file(&folder.path().join("usage.redb")), 1).unwrap();
    let mut store = store.bounded(few);
    for user in 0..100 {
        let loud = Identity::new("loud", user, None);
        store
            .flush(u64::from(user) + 1, &one(NEW_YEAR, &loud, 1), NEW_YEAR)
            .unwrap();
    }
    for user in 0..5 {
        let quiet = Identity::new("quiet", 1000 + user, None);
        store
            .flush(u64::from(user) + 101, &one(NEW_YEAR, &quiet, 1), NEW_YEAR)
            .unwrap();
    }
    let users = ask(&store, By::User, None, None).rows;
    let quiet = users
        .iter()
        .filter(|row| row.of.as_deref().is_some_and(|user| user.len() == 4));
    assert_eq!(quiet.count(), 5);
    assert!(users.len() <= 27, "{}", users.len());
    assert_eq!(total(&store), 105);
}

#[test]
fn more_rows_than_there_may_be_lose_detail_and_no_amount() {
    let few = Bounds {
        rows: 200,
        months: 100,
        identities: 300,
    };
    write_beyond(few, (300, 40), 4 << 20);
}

#[test]
fn a_sixteenth_of_the_bounds_takes_no_more_than_a_sixteenth_of_the_stated_size() {
    let all = Bounds::default();
    let sixteenth = Bounds {
        rows: all.rows / 16,
        months: all.months / 16,
        identities: all.identities / 16,
    };
    write_beyond(sixteenth, (120, 512), (256 << 20) / 16);
}

/// Writes a database as version 1 made it.
fn make_first(path: &Path, identity: &Identity) {
    let db = Database::create(path).unwrap();
    let write = db.begin_write().unwrap();
    write.open_table(META).unwrap().insert(VERSION, 1).unwrap();
    let bytes = postcard::to_allocvec(identity).unwrap();
    write.open_table(NAMES).unwrap().insert(4, &*bytes).unwrap();
    for (level, count) in Level::ALL.into_iter().zip(1..) {
        let mut rows = write.open_table(first_table(level)).unwrap();
        let value: FirstValue = (10, 20, 30, count);
        rows.insert((NEW_YEAR, 4), value).unwrap();
    }
    write.commit().unwrap();
}

#[test]
fn a_database_of_version_1_is_brought_to_this_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage.redb");
    make_first(&path, &Identity::new("old", 5, Some("/y")));
    let mut store = Store::open(file(&path), 1).unwrap();
    let rows = ask(&store, By::Cgroup, None, None).rows;
    let expected = Amounts {
        sm_ns: 40,
        memory_byte_ns: 80,
        bytes_copied: 120,
        launches: 10,
        failed: 0,
    };
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0].of.as_deref(), rows[0].amounts),
        (Some("/y"), expected)
    );
    let new = Identity::new("new", 5, None);
    store
        .flush(1, &one(NEW_YEAR + 60, &new, 1), NEW_YEAR + 60)
        .unwrap();
    drop(store);
    let again = Store::open(file(&path), 1).unwrap();
    assert_eq!(total(&again), 11);
    // Where it is only looked at, a file stays of its version.
    make_first(&folder.path().join("looked-at"), &new);
    let bytes = std::fs::read(folder.path().join("looked-at")).unwrap();
    assert_eq!(total(&Store::of_bytes(bytes, 0).unwrap()), 10);
}

#[test]
fn what_is_newer_or_of_something_else_is_refused_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage.redb");
    let refused = |make: &dyn Fn(&redb::WriteTransaction)| {
        let _ = std::fs::remove_file(&path);
        let db = Database::create(&path).unwrap();
        let write = db.begin_write().unwrap();
        make(&write);
        write.commit().unwrap();
        drop(db);
        let error = Store::open(file(&path), 1).unwrap_err();
        let again = Store::open(file(&path), 1).unwrap_err();
        assert_eq!(error.to_string(), again.to_string());
        error
    };
    let newer = refused(&|write| {
        let mut meta = write.open_table(META).unwrap();
        meta.insert(VERSION, SCHEMA + 1).unwrap();
    });
    assert!(
        matches!(newer, StoreError::Newer { found } if found == SCHEMA + 1),
        "{newer}"
    );
    assert!(
        newer.to_string().contains("use the newer gridmux"),
        "{newer}"
    );
    let other: TableDefinition<u64, u64> = TableDefinition::new("something");
    let foreign = refused(&|write| _ = write.open_table(other).unwrap().insert(1, 1).unwrap());
    assert!(matches!(foreign, StoreError::Foreign), "{foreign}");
    let meta: TableDefinition<u64, u64> = TableDefinition::new("meta");
    let foreign = refused(&|write| _ = write.open_table(meta).unwrap().insert(1, 1).unwrap());
    assert!(matches!(foreign, StoreError::Foreign), "{foreign}");
}

#[test]
fn a_file_has_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage.redb");
    let _first = Store::open(file(&path), 1).unwrap();
    let second = Store::open(file(&path), 2).unwrap_err();
    assert!(matches!(second, StoreError::Busy), "{second}");
}

/// A disk that loses its power now and then: what was written since the last time that it was told to keep everything
/// is there in part, by sectors, in any order.
#[derive(Debug, Clone)]
struct Disk(Arc<CountedMutex<Sectors>>);

#[derive(Debug)]
struct Sectors {
    kept: Vec<u8>,
    now: Vec<u8>,
    /// Places and bytes since, and new lengths.
    since: Vec<Change>,
    prng: Prng,
    flushes: u64,
    /// What stood on the disk after a loss of power, and how many flushes had succeeded by then.
    losses: Vec<(u64, Vec<u8>)>,
}

#[derive(Debug)]
enum Change {
    Length(usize),
    Sector(usize, Vec<u8>),
}

const SECTOR: usize = 512;

impl Sectors {
    fn lose_power_now_and_then(&mut self) {
        if self.prng.below(12) > 0 {
            return;
        }
        let mut bytes = self.kept.clone();
        for change in &self.since {
            if self.prng.below(2) == 0 {
                continue;
            }
            match change {
                Change::Length(length) => bytes.resize(*length, 0),
                Change::Sector(place, sector) => {
                    if let Some(kept) = bytes.get_mut(*place..place + sector.len()) {
                        kept.copy_from_slice(sector);
                    }
                }
            }
        }
        self.losses.push((self.flushes, bytes));
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).unwrap();
        out.copy_from_slice(&self.0.lock().now[from..from + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut disk = self.0.lock();
        let len = usize::try_from(len).unwrap();
        disk.now.resize(len, 0);
        disk.since.push(Change::Length(len));
        disk.lose_power_now_and_then();
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.lose_power_now_and_then();
        disk.kept = disk.now.clone();
        disk.since.clear();
        disk.lose_power_now_and_then();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut disk = self.0.lock();
        let from = usize::try_from(offset).unwrap();
        disk.now[from..from + data.len()].copy_from_slice(data);
        for (number, sector) in data.chunks(SECTOR).enumerate() {
            let change = Change::Sector(from + number * SECTOR, sector.to_vec());
            disk.since.push(change);
        }
        disk.lose_power_now_and_then();
        Ok(())
    }
}

#[test]
fn a_loss_of_power_at_any_moment_loses_one_flush_at_most_and_repeats_none() {
    const LAUNCHES: u64 = 1000;
    const FLUSHES: u64 = 60;
    let disk = Disk(Arc::new(CountedMutex::new(Sectors {
        kept: Vec::new(),
        now: Vec::new(),
        since: Vec::new(),
        prng: Prng::new(0xd15c),
        flushes: 0,
        losses: Vec::new(),
    })));
    let mut store = Store::on(disk.clone(), 1).unwrap();
    disk.0.lock().losses.clear();
    for number in 1..=FLUSHES {
        let who = Identity::new("a", u32::try_from(number % 9).unwrap(), Some("/x"));
        // Old intervals are folded meanwhile.
        let at = NEW_YEAR + number * 1800;
        store.flush(number, &one(at, &who, LAUNCHES), at).unwrap();
        disk.0.lock().flushes = number;
    }
    let losses = std::mem::take(&mut disk.0.lock().losses);
    assert!(losses.len() >= 40, "{}", losses.len());
    let mut between = 0;
    for (flushes, bytes) in losses {
        let store = Store::of_bytes(bytes, 0).unwrap();
        let found = total(&store);
        let may_be = [flushes * LAUNCHES, (flushes + 1) * LAUNCHES];
        assert!(may_be.contains(&found), "{found} after {flushes} flushes");
        between += u64::from(found == may_be[1]);
    }
    assert!(between > 0, "no loss came between a commit and its end");
}
