//! Writers that are killed, and copies of their file at any moment.

use super::{BY_TENANT, NOW, at, page, total};
use crate::accounting::count::Counts;
use crate::accounting::queue::Queue;
use crate::accounting::report::{By, UsageQuery};
use crate::accounting::{Keeper, read_only};
use gridmux_workloads::Prng;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Tells the test below what to be: a writer in this folder, of this number.
const WRITER: &str = "GRIDMUX_TEST_ACCOUNTS_WRITER";
/// Launches between two flushes.
const LAUNCHES: u64 = 1000;
const KILLS: u32 = 100;
/// Every fourth writer is stopped for a copy of its file.
const COPIES: u32 = KILLS / 4;

/// Counts launches of a client whose user is `number`, and says before and after each flush what it did.
fn write(folder: &Path, number: u32) {
    let mut keeper = Keeper::new(&folder.join("usage.redb"));
    let mut progress = fs::File::create(folder.join("progress")).unwrap();
    let mut counts = Counts::default();
    counts.begin(1, (number, Some("/x".into())), vec![0], at(0));
    for flush in 1.. {
        let mut queue = Queue::default();
        counts.read(
            &page(&[(1, flush * LAUNCHES)]),
            &super::OneTenant,
            at(flush),
            &mut queue,
        );
        progress.write_all(b"b").unwrap();
        // Each minute, old intervals are folded, too.
        keeper.flush(queue, NOW + u64::from(number) * 3600 + flush * 7);
        progress.write_all(b"e").unwrap();
    }
}

/// Returns how many flushes of the last writer have begun, and how many have ended.
fn flushes(folder: &Path) -> (u64, u64) {
    let progress = fs::read(folder.join("progress")).unwrap_or_default();
    let count = |letter| progress.iter().filter(|found| **found == letter).count() as u64;
    (count(b'b'), count(b'e'))
}

/// Returns the launches of a user.
fn launches(file: &Path, user: u32) -> u64 {
    let query = UsageQuery {
        since: None,
        until: None,
        by: By::User,
    };
    let rows = read_only(file, query).unwrap().rows.into_iter();
    let user = user.to_string();
    let found = rows.filter(|row| row.of.as_ref() == Some(&user));
    found.map(|row| row.amounts.launches).sum()
}

fn check(file: &Path, folder: &Path, user: u32) {
    let (begun, ended) = flushes(folder);
    let found = launches(file, user);
    let may_be = ended * LAUNCHES..=begun * LAUNCHES;
    assert!(
        may_be.contains(&found) && begun <= ended + 1,
        "{found} launches of writer {user} after {ended} flushes of {begun}"
    );
}

fn start(folder: &Path, number: u32) -> Child {
    let name = "accounting::keeper::tests::killed::writers_that_are_killed_lose_one_flush_at_most";
    let _ = fs::remove_file(folder.join("progress"));
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["--exact", name])
        .env(WRITER, format!("{number}:{}", folder.display()))
        .stdout(std::process::Stdio::null());
    command.spawn().unwrap()
}

/// Waits until a writer has ended so many flushes.
fn wait_for(folder: &Path, writer: &mut Child, least: u64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while flushes(folder).1 < least {
        assert!(writer.try_wait().unwrap().is_none(), "the writer ended");
        assert!(Instant::now() < deadline, "the writer writes nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn writers_that_are_killed_lose_one_flush_at_most() {
    if let Ok(part) = std::env::var(WRITER) {
        let (number, folder) = part.split_once(':').unwrap();
        return write(Path::new(folder), number.parse().unwrap());
    }
    let folder = tempfile::tempdir().unwrap();
    let (folder, file) = (folder.path(), folder.path().join("usage.redb"));
    let mut prng = Prng::new(0x9111);
    let (mut expected, mut copies) = (0, 0);
    for number in 0..KILLS {
        let mut writer = start(folder, number);
        let pid = Pid::from_raw(i32::try_from(writer.id()).unwrap());
        wait_for(folder, &mut writer, 1);
        std::thread::sleep(Duration::from_micros(prng.below(20_000).into()));
        if number % 4 == 0 {
            kill(pid, Signal::SIGSTOP).unwrap();
            waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap();
            let copy = folder.join("copy.redb");
            fs::copy(&file, &copy).unwrap();
            check(&copy, folder, number);
            kill(pid, Signal::SIGCONT).unwrap();
            copies += 1;
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        check(&file, folder, number);
        expected += launches(&file, number);
    }
    assert_eq!(copies, COPIES);
    // What the earlier ones wrote stayed, each once.
    assert_eq!(total(&read_only(&file, BY_TENANT).unwrap()), expected);
    assert!(expected >= u64::from(KILLS) * LAUNCHES);
}
