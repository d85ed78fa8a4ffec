//! The unit files under a real systemd, in namespaces of its own: they start, serve, are watched, and stop.
//!
//! Skipped where this machine has no systemd or does not let one boot; the reason is printed.

use crate::command::{PROGRAM, words};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest wait for something that comes.
const PATIENCE: Duration = Duration::from_secs(90);
/// Exit status of the script where a machine cannot boot a systemd.
const CANNOT: i32 = 77;
const CONFIG: &str = "
schema_version = 1
run_dir = \"/run/gridmux\"
operator_group = \"gridmux-operators\"
[device]
kind = \"model:gtx980\"
timing = \"functional\"
[[tenant]]
name = \"first\"
weight = 1
";

/// A booted systemd. It ends with its namespaces when it is dropped.
struct Machine {
    unshare: Child,
    /// Its systemd as this process sees it.
    systemd: u32,
    _folder: tempfile::TempDir,
}

impl Machine {
    /// Boots one; returns `None` with the reason on stdout where that cannot be done.
    fn boot() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            println!("SKIPPED: only root can boot a systemd in namespaces");
            return None;
        }
        for program in [
            "/lib/systemd/systemd",
            "/usr/bin/unshare",
            "/usr/bin/nsenter",
        ] {
            if !Path::new(program).exists() {
                println!(
                    "SKIPPED: {program} is not installed (Debian's packages systemd and util-linux)"
                );
                return None;
            }
        }
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("machine");
        fs::create_dir(&inner).unwrap();
        fs::write(folder.path().join("machine.toml"), CONFIG).unwrap();
        let log = folder.path().join("log");
        let mut unshare = Command::new("unshare")
            .args(words(
                "--pid --fork --kill-child --mount --cgroup --uts --ipc --net sh",
            ))
            .arg(here.join("tests/cli/machine/machine.sh"))
            .args([&inner, Path::new(PROGRAM), &here.join("../packaging")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let start = Instant::now();
        loop {
            let said = || fs::read_to_string(&log).unwrap_or_default();
            if let Some(status) = unshare.try_wait().unwrap() {
                let is_forbidden = said().starts_with("unshare: ");
                assert!(status.code() == Some(CANNOT) || is_forbidden, "{}", said());
                println!("SKIPPED: no systemd boots here: {}", said());
                return None;
            }
            if let Some(systemd) = systemd_of(unshare.id()) {
                return Some(Self {
                    unshare,
                    systemd,
                    _folder: folder,
                });
            }
            assert!(start.elapsed() < PATIENCE, "it does not boot: {}", said());
            sleep(Duration::from_millis(20));
        }
    }

    /// Runs a shell command in it; returns whether it succeeded, and all that it printed.
    fn run(&self, command: &str) -> (bool, String) {
        let output = Command::new("nsenter")
            .args(["--target", &self.systemd.to_string()])
            .args(words("--pid --mount --root --cgroup --net sh -c"))
            .arg(command)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    }

    /// Runs a shell command that must succeed.
    fn must(&self, command: &str) -> String {
        let (succeeded, text) = self.run(command);
        assert!(succeeded, "{command}: {text}\n{}", self.journal());
        text
    }

    /// Waits until a shell command prints what is looked for.
    fn until(&self, command: &str, is_it: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let (_, text) = self.run(command);
            if is_it(text.trim()) {
                return text;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "{command}: {text}\n{}",
                self.journal()
            );
            sleep(Duration::from_millis(100));
        }
    }

    fn journal(&self) -> String {
        let status = "systemctl --no-pager status gridmux gridmux-metrics";
        let journal = "journalctl --no-pager --lines 40";
        self.run(&format!("{status}; {journal}")).1
    }

    /// Returns the main process of the service, as systemd sees it, once it is ready.
    fn main_process(&self) -> String {
        self.until("systemctl is-active gridmux", |state| state == "active");
        self.must("systemctl show --property MainPID --value gridmux")
            .trim()
            .to_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The first process of a namespace of processes takes all others with it.
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}

/// Returns the child of `unshare` once it is a systemd.
fn systemd_of(unshare: u32) -> Option<u32> {
    let children = PathBuf::from(format!("/proc/{unshare}/task/{unshare}/children"));
    let child = fs::read_to_string(children).ok()?.trim().parse().ok()?;
    let name = fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
    (name.trim() == "systemd").then_some(child)
}

const WORK: &str = "gridmux workload run vecadd --size tiny --launches 3 --tenant first";

#[test]
fn the_units_start_serve_and_stop() {
    let Some(machine) = Machine::boot() else {
        return;
    };
    machine.main_process();
    machine.must(WORK);
    // In `sh` there is no other way to speak to a port.
    let asked = machine.until(
        "bash -c 'exec 3<>/dev/tcp/127.0.0.1/9400; printf \"GET /metrics HTTP/1.0\\r\\n\\r\\n\" >&3; cat <&3'",
        |answer| answer.contains("# EOF"),
    );
    assert!(
        asked.contains("gridmux_tenant_launches_total{tenant=\"first\"} 3"),
        "{asked}"
    );
    let socket = machine.must("stat -c '%U:%G %a' /run/gridmux/control.sock");
    assert_eq!(socket.trim(), "root:gridmux-operators 660");
    let metrics = machine.must("ps -eo user=,args= | grep '[g]ridmux metrics'");
    assert!(!metrics.starts_with("root"), "{metrics}");
    let host = machine.must("ps -eo user=,args= | grep '[d]evice-host'");
    assert!(
        host.starts_with("gridmux "),
        "its host is not the user of sysusers.conf: {host}"
    );
    machine.must("systemctl stop gridmux");
    let ended = machine.must("systemctl show --property Result,ExecMainStatus,ActiveState gridmux");
    for line in ["Result=success", "ExecMainStatus=0", "ActiveState=inactive"] {
        assert!(ended.contains(line), "{ended}");
    }
    let (is_one_left, left) =
        machine.run("pgrep --list-full --full 'gridmux (serve|device-host|compiler)'");
    assert!(!is_one_left, "{left}");
}

#[test]
fn a_service_that_is_killed_or_hangs_is_started_again() {
    let Some(machine) = Machine::boot() else {
        return;
    };
    for signal in ["KILL", "STOP"] {
        let before = machine.main_process();
        machine.must(&format!("kill -{signal} {before}"));
        machine.until("systemctl show --property MainPID --value gridmux", |now| {
            now != before && now != "0"
        });
        machine.main_process();
        machine.must(WORK);
    }
    let restarts = machine.must("systemctl show --property NRestarts --value gridmux");
    // A machine that is busy for longer than the watchdog waits starts it once more.
    let restarts: u32 = restarts.trim().parse().expect("a number");
    assert!(restarts >= 2, "{restarts}");
}

#[test]
fn a_reload_changes_a_weight_while_launches_run() {
    let Some(machine) = Machine::boot() else {
        return;
    };
    let process = machine.main_process();
    let listed = "gridmux -j tenant list | tr -d ' \\n'";
    let has = |part: &str| machine.run(listed).1.contains(part);
    assert!(has("\"weight\":1"));
    machine.must("sed -i 's/^weight = 1/weight = 3/' /etc/gridmux/gridmux.toml");
    let launches = "gridmux workload run vecadd --launches 4000 --tenant first";
    std::thread::scope(|scope| {
        let work = scope.spawn(|| machine.must(launches));
        machine.until(listed, |list| list.contains("\"clients\":1"));
        machine.must("systemctl reload gridmux");
        machine.until(listed, |list| list.contains("\"weight\":3"));
        assert!(
            !work.is_finished(),
            "the launches ended before the reload did"
        );
        work.join().unwrap();
    });
    machine.must("sed -i 's/^weight = 3/weight = nine/' /etc/gridmux/gridmux.toml");
    let (succeeded, text) = machine.run("systemctl reload gridmux");
    assert!(
        !succeeded,
        "a configuration that is not right was reloaded: {text}"
    );
    assert!(has("\"weight\":3"));
    machine.must(WORK);
    assert_eq!(machine.main_process(), process);
}
