//! A demo that is ended leaves nothing: no process, no folder, no eBPF map.

use crate::command::running::until;
use crate::command::{PROGRAM, gridmux};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Starts a demo whose folders lie in `parent`, and waits until its service has its socket.
fn started(parent: &Path) -> Child {
    let demo = Command::new(PROGRAM)
        .args(["demo", "--work", "1", "--sms", "2", "--policy", "fifo"])
        .env("TMPDIR", parent)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("a service", || {
        let folders = folders(parent);
        let mut sockets = folders.iter().map(|folder| folder.join("gridmux.sock"));
        sockets.find(|socket| socket.exists())
    });
    demo
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Returns the processes that have a word among their arguments.
fn processes_with(word: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(word)).collect()
}

/// Returns whether eBPF maps of a demo are pinned.
fn is_pinned(demo: u32) -> bool {
    Path::new("/sys/fs/bpf/gridmux")
        .join(format!("demo-{demo}"))
        .exists()
}

#[test]
fn a_signal_ends_everything() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let parent = tempfile::tempdir().unwrap();
        let mut demo = started(parent.path());
        kill(Pid::from_raw(demo.id().cast_signed()), signal).unwrap();
        let status = demo.wait().unwrap();
        assert_eq!(status.code(), Some(128 + signal as i32), "{status}");
        let left = processes_with(parent.path().to_str().unwrap());
        assert_eq!((left, folders(parent.path())), (vec![], vec![]), "{signal}");
        assert!(!is_pinned(demo.id()), "{signal}");
    }
}

#[test]
fn a_demo_that_is_killed_takes_its_processes_along_and_its_folder_goes_with_the_next() {
    let parent = tempfile::tempdir().unwrap();
    let mut demo = started(parent.path());
    demo.kill().unwrap();
    assert_eq!(demo.wait().unwrap().signal(), Some(9));
    let word = parent.path().to_str().unwrap();
    until("no processes", || {
        processes_with(word).is_empty().then_some(())
    });
    until("no maps", || (!is_pinned(demo.id())).then_some(()));
    let mut next = started(parent.path());
    let left = folders(parent.path());
    let own = format!("gridmux-demo-{}-", next.id());
    let is_own = |folder: &PathBuf| {
        folder
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(&own)
    };
    assert!(left.iter().all(is_own), "{left:?}");
    kill(Pid::from_raw(next.id().cast_signed()), Signal::SIGTERM).unwrap();
    next.wait().unwrap();
    assert_eq!(folders(parent.path()), Vec::<PathBuf>::new());
}

#[test]
fn policies_may_be_a_list() {
    let ran = gridmux(["-j", "demo", "--policy", "fifo,nope"]);
    ran.failed(2, &["nope"]);
}
