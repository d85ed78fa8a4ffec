//! Tests of the keeper: files that cannot be used, a full disk, and what kills leave.

use super::{Keeper, State};
use crate::accounting::count::{At, Counts, Tenants};
use crate::accounting::queue::Queue;
use crate::accounting::report::{By, UsageQuery, UsageReport};
use crate::accounting::{Amounts, Identity, read_only};
use crate::dispatch::client_accounting::ClientUsage;
use crate::link::{ClientFacts, Credentials, LastUse, MemoryTime};
use crate::page::{Snapshot, TenantSnapshot};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

mod killed;

const NOW: u64 = 1_767_225_600;
const BY_TENANT: UsageQuery = UsageQuery {
    since: None,
    until: None,
    by: By::Tenant,
};

fn launches(count: u64) -> Queue {
    let mut queue = Queue::default();
    let amounts = Amounts {
        launches: count,
        ..Amounts::default()
    };
    queue.add(NOW, &Identity::new("a", 1, None), &amounts);
    queue
}

fn total(report: &UsageReport) -> u64 {
    report.rows.iter().map(|row| row.amounts.launches).sum()
}

/// Returns what is said, and what stands in the file.
fn said(keeper: &mut Keeper) -> (u64, Option<String>) {
    let report = keeper.report(BY_TENANT).unwrap();
    (total(&report), report.unwritten)
}

fn kept(path: &Path) -> u64 {
    total(&read_only(path, BY_TENANT).unwrap())
}

struct Place {
    folder: tempfile::TempDir,
    path: PathBuf,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage.redb");
    Place { folder, path }
}

/// Makes of the bytes of a file those of a damaged one.
type Damage = fn(Vec<u8>) -> Vec<u8>;

/// What stands in the place of a file, what is said of it, and how it comes there.
type Other = (&'static str, &'static str, fn(&Place));

/// Makes a file in which 5 launches stand.
fn filled() -> Place {
    let place = place();
    Keeper::new(&place.path).flush(launches(5), NOW);
    assert_eq!(kept(&place.path), 5);
    place
}

#[test]
fn a_file_that_is_lengthened_is_judged_alike_by_who_writes_and_who_reads() {
    let place = filled();
    let lengthen = |bytes: u64| {
        let file = fs::File::options().write(true).open(&place.path).unwrap();
        file.set_len(bytes).unwrap();
    };
    let length = place.path.metadata().unwrap().len();
    lengthen(length + (1 << 20));
    let mut keeper = Keeper::new(&place.path);
    keeper.flush(launches(2), NOW);
    assert_eq!(said(&mut keeper), (7, None));
    drop(keeper);
    assert_eq!(kept(&place.path), 7);
    // Sparse, so that it takes no room.
    lengthen((1 << 30) + 1);
    let refused = read_only(&place.path, BY_TENANT).unwrap_err().to_string();
    assert!(refused.contains("is longer than"), "{refused}");
    let mut keeper = Keeper::new(&place.path);
    keeper.flush(launches(2), NOW);
    let (launches, why) = said(&mut keeper);
    assert_eq!((launches, why), (2, Some(refused)));
}

#[test]
fn a_file_is_made_for_its_group_and_read_while_nobody_has_it() {
    let place = place();
    let path = place.folder.path().join("gridmux/usage.redb");
    let mut keeper = Keeper::new(&path);
    keeper.flush(launches(3), NOW);
    keeper.flush(launches(4), NOW + 60);
    assert_eq!(said(&mut keeper), (7, None));
    let busy = read_only(&path, BY_TENANT).unwrap_err().to_string();
    assert!(busy.contains("another process has it open"), "{busy}");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path) & !0o640, 0);
    assert_eq!(mode(path.parent().unwrap()) & !0o750, 0);
    drop(keeper);
    assert_eq!(kept(&path), 7);
}

#[test]
fn a_damaged_file_is_set_aside_by_name_and_a_new_one_is_begun() {
    let damages: [(&str, Damage); 5] = [
        ("cut in the middle", |bytes| {
            bytes[..bytes.len() / 2].to_vec()
        }),
        ("cut in its head", |bytes| bytes[..200].to_vec()),
        ("its making broken off", |bytes| vec![0; bytes.len()]),
        ("all but its head lost", |mut bytes| {
            bytes[4096..].fill(0);
            bytes
        }),
        ("its head scrambled", |mut bytes| {
            bytes[9..320].fill(0x5a);
            bytes
        }),
    ];
    for (what, damage) in damages {
        let place = filled();
        let bad = damage(fs::read(&place.path).unwrap());
        fs::write(&place.path, &bad).unwrap();
        let error = read_only(&place.path, BY_TENANT).unwrap_err().to_string();
        assert!(error.contains("damaged"), "{what}: {error}");
        assert_eq!(
            fs::read(&place.path).unwrap(),
            bad,
            "{what}: it was only read"
        );
        let mut keeper = Keeper::new(&place.path);
        keeper.flush(launches(2), NOW);
        assert_eq!(said(&mut keeper), (2, None), "{what}");
        drop(keeper);
        assert_eq!(kept(&place.path), 2, "{what}");
        let aside = place.folder.path().join("usage.redb.bad1");
        assert!(aside.is_file(), "{what}");
    }
}

#[test]
fn a_file_that_is_damaged_while_it_is_open_loses_nothing_that_is_new() {
    let place = filled();
    let mut keeper = Keeper::new(&place.path);
    keeper.flush(launches(1), NOW);
    fs::File::options()
        .write(true)
        .open(&place.path)
        .unwrap()
        .set_len(100)
        .unwrap();
    keeper.flush(launches(2), NOW);
    keeper.flush(launches(1), NOW);
    assert_eq!(said(&mut keeper), (3, None));
    assert!(place.folder.path().join("usage.redb.bad1").is_file());
    // Somebody takes the new one away.
    fs::rename(&place.path, place.folder.path().join("away")).unwrap();
    keeper.flush(launches(4), NOW);
    assert_eq!(said(&mut keeper).0, 4);
    keeper.hurry();
    keeper.flush(launches(1), NOW);
    assert_eq!(said(&mut keeper), (5, None));
    drop(keeper);
    assert_eq!(kept(&place.path), 5);
    assert_eq!(kept(&place.folder.path().join("away")), 3);
}

#[test]
fn what_is_no_database_of_ours_is_left_alone_and_use_waits() {
    let others: [Other; 6] = [
        ("text", "is no database and is left as it is", |place| {
            fs::write(&place.path, "root:x:0:0:\n").unwrap();
        }),
        ("a link", "is a link; name the file", |place| {
            symlink("/etc/passwd", &place.path).unwrap();
        }),
        ("a folder", "directory", |place| {
            fs::create_dir(&place.path).unwrap()
        }),
        ("open to others", "chmod go-w", |place| {
            fs::write(&place.path, "").unwrap();
            let mode = fs::Permissions::from_mode(0o666);
            fs::set_permissions(&place.path, mode).unwrap();
        }),
        ("another name", "hard links", |place| {
            fs::write(&place.path, "").unwrap();
            fs::hard_link(&place.path, place.folder.path().join("other")).unwrap();
        }),
        ("newer", "use the newer gridmux", |place| {
            let db = redb::Database::create(&place.path).unwrap();
            let write = db.begin_write().unwrap();
            let meta: redb::TableDefinition<&str, u64> = redb::TableDefinition::new("meta");
            write
                .open_table(meta)
                .unwrap()
                .insert("schema", 99)
                .unwrap();
            write.commit().unwrap();
        }),
    ];
    for (what, why, make) in others {
        let place = place();
        make(&place);
        let before = fs::read(&place.path).ok();
        let mut keeper = Keeper::new(&place.path);
        keeper.flush(launches(2), NOW);
        let (told, unwritten) = said(&mut keeper);
        let unwritten = unwritten.unwrap_or_default();
        assert!(unwritten.contains(why), "{what}: {unwritten}");
        assert!(unwritten.contains("usage.redb"), "{what}: {unwritten}");
        assert_eq!(told, 2, "{what}");
        if what != "newer" {
            assert_eq!(fs::read(&place.path).ok(), before, "{what}");
        }
        assert!(
            !place.folder.path().join("usage.redb.bad1").exists(),
            "{what}"
        );
        // Somebody takes it away; what was used meanwhile is written.
        fs::rename(&place.path, place.folder.path().join("away")).unwrap();
        keeper.hurry();
        keeper.flush(launches(1), NOW);
        assert_eq!(said(&mut keeper), (3, None), "{what}");
        drop(keeper);
        assert_eq!(kept(&place.path), 3, "{what}");
    }
}

#[test]
fn a_file_of_another_user_is_named_with_its_owner() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: only root can give a file to another user");
        return;
    }
    let place = filled();
    std::os::unix::fs::chown(&place.path, Some(12_345), None).unwrap();
    let mut keeper = Keeper::new(&place.path);
    keeper.flush(launches(2), NOW);
    let (told, unwritten) = said(&mut keeper);
    let unwritten = unwritten.unwrap();
    assert!(
        unwritten.contains("is user 12345's; chown it to user 0"),
        "{unwritten}"
    );
    assert_eq!(told, 2);
    std::os::unix::fs::chown(&place.path, Some(0), None).unwrap();
    keeper.hurry();
    keeper.flush(Queue::default(), NOW);
    assert_eq!(said(&mut keeper), (7, None));
}

/// A small file system, which goes when it is dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> nix::Result<Self> {
        let folder = tempfile::tempdir().unwrap();
        let flags = nix::mount::MsFlags::empty();
        nix::mount::mount(
            Some("tmpfs"),
            folder.path(),
            Some("tmpfs"),
            flags,
            Some("size=4M"),
        )?;
        Ok(Self(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(self.0.path(), nix::mount::MntFlags::MNT_DETACH);
    }
}

#[test]
fn under_a_full_disk_use_waits_and_is_written_when_there_is_room() {
    let small = match Small::mount() {
        Ok(small) => small,
        Err(error) => {
            println!("SKIPPED: no file system can be mounted: {error}");
            return;
        }
    };
    let path = small.0.path().join("usage.redb");
    let filler = small.0.path().join("filler");
    let fill = || {
        let mut file = fs::File::create(&filler).unwrap();
        while std::io::Write::write(&mut file, &[1; 4096]).is_ok_and(|written| written > 0) {}
    };
    let many = |round: u32| {
        let mut queue = Queue::default();
        for user in 0..2000 {
            let cgroup = format!("/{}/{user}", "x".repeat(150));
            let who = Identity::new("a", round * 2000 + user, Some(&cgroup));
            let amounts = Amounts {
                launches: 1,
                ..Amounts::default()
            };
            queue.add(NOW, &who, &amounts);
        }
        queue
    };
    // Full from the beginning, full later, and with room again.
    fill();
    let mut keeper = Keeper::new(&path);
    keeper.flush(launches(5), NOW);
    let (told, unwritten) = said(&mut keeper);
    assert!(
        unwritten.is_some_and(|why| why.contains("No space left")),
        "from the beginning"
    );
    assert_eq!(told, 5);
    fs::remove_file(&filler).unwrap();
    keeper.hurry();
    keeper.flush(Queue::default(), NOW);
    assert_eq!(said(&mut keeper), (5, None));
    fill();
    let mut count = 5;
    for round in 0..4 {
        keeper.flush(many(round), NOW + 1);
        keeper.hurry();
        count += 2000;
    }
    let (told, unwritten) = said(&mut keeper);
    let why = unwritten.expect("it is full");
    assert!(
        why.contains("No space left") && why.contains("usage.redb"),
        "{why}"
    );
    assert_eq!(told, count, "{why}");
    fs::remove_file(&filler).unwrap();
    keeper.hurry();
    keeper.flush(launches(1), NOW + 2);
    assert_eq!(said(&mut keeper), (count + 1, None));
    drop(keeper);
    assert_eq!(kept(&path), count + 1);
}

#[test]
fn a_flush_whose_outcome_is_not_known_counts_once() {
    let place = filled();
    let mut keeper = Keeper::new(&place.path);
    for has_succeeded in [true, false] {
        let before = said(&mut keeper).0;
        if has_succeeded {
            keeper.flush(launches(10), NOW);
        }
        // As if the system had said, after the commit or instead of it, that it failed.
        let number = keeper.number + u64::from(!has_succeeded);
        keeper.flight = Some((number, launches(10)));
        keeper.number = number;
        keeper.state = State::Closed {
            why: "a test".into(),
            retry_at: std::time::Instant::now(),
        };
        keeper.flush(launches(1), NOW);
        assert_eq!(said(&mut keeper), (before + 11, None), "{has_succeeded}");
    }
}

/// One tenant, `a`, of number 0.
struct OneTenant;

impl Tenants for OneTenant {
    fn number_of(&self, name: &str) -> Option<u16> {
        (name == "a").then_some(0)
    }

    fn name_of(&self, number: u16) -> Option<&str> {
        (number == 0).then_some("a")
    }
}

fn at(second: u64) -> At {
    At {
        monotonic_ns: second * 1_000_000_000,
        unix: NOW + second,
    }
}

fn usage(launches: u64) -> ClientUsage {
    ClientUsage {
        launches,
        failed: launches / 10,
        bytes_copied: launches * 8,
        sm_ns: launches * 1000,
    }
}

/// Returns a page on which clients of the tenant have so many launches.
fn page(clients: &[(u32, u64)]) -> Snapshot {
    let facts = |(id, launches): &(u32, u64)| ClientFacts {
        id: *id,
        name: "x".into(),
        credentials: Credentials {
            pid: 1,
            uid: 1,
            gid: 1,
        },
        memory_used_bytes: 0,
        usage: usage(*launches),
        memory_time: MemoryTime::default(),
    };
    Snapshot {
        tenants: vec![TenantSnapshot {
            name: "a".into(),
            clients: clients.iter().map(facts).collect(),
            ..TenantSnapshot::default()
        }],
        ..Snapshot::default()
    }
}

#[test]
fn a_million_launches_are_counted_to_the_last_one_whoever_comes_and_goes() {
    let place = place();
    let mut keeper = Keeper::new(&place.path);
    let mut counts = Counts::default();
    let (mut done, mut second, mut id) = (0, 0, 0);
    while done < 1_000_000 {
        // A client that stays, and one that comes and goes between two flushes.
        let (stays, goes) = (id + 1, id + 2);
        id += 2;
        for client in [stays, goes] {
            counts.begin(client, (client % 7, None), vec![0], at(second));
        }
        let mut count = 0;
        for step in 1..=10 {
            second += 1;
            count += 900;
            let mut queue = Queue::default();
            counts.read(&page(&[(stays, count)]), &OneTenant, at(second), &mut queue);
            if step == 5 {
                let last = LastUse {
                    tenant: 0,
                    usage: usage(1000),
                    memory_byte_ns: 0,
                };
                counts.end(goes, Some(&last), (&OneTenant, at(second)), &mut queue);
                // A page that was written before it left is read late.
                let late = page(&[(stays, count - 900), (goes, 999)]);
                counts.read(&late, &OneTenant, at(second), &mut queue);
            }
            keeper.flush(queue, NOW + second);
        }
        done += 10_000;
        match (id / 2) % 3 {
            // Its host ends: all that it counted was on its last page.
            0 => counts.clear(),
            // The service is killed behind a flush.
            1 => {
                keeper = Keeper::new_after(keeper, &place.path);
                counts = Counts::default();
            }
            // It leaves with more than the last page said.
            _ => {
                let last = LastUse {
                    tenant: 0,
                    usage: usage(count + 500),
                    memory_byte_ns: 0,
                };
                let mut queue = Queue::default();
                counts.end(stays, Some(&last), (&OneTenant, at(second)), &mut queue);
                keeper.flush(queue, NOW + second);
                done += 500;
            }
        }
    }
    let all = keeper.report(BY_TENANT).unwrap();
    let expected = Amounts {
        sm_ns: u128::from(done) * 1000,
        memory_byte_ns: 0,
        bytes_copied: done * 8,
        launches: done,
        failed: done / 10,
    };
    assert_eq!(all.rows.len(), 1);
    assert_eq!(all.rows[0].amounts, expected);
}

impl Keeper {
    /// Begins anew with the file of one that is gone.
    fn new_after(before: Self, path: &Path) -> Self {
        drop(before);
        Self::new(path)
    }
}
