//! `gridmux run` around programs that use no GPU: what they find, how they end, and what is left afterwards.
//!
//! The command is laid out as an installation is, with a file for a library that no program here loads.

mod command;

use command::{PROGRAM, Ran};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// After this a test that waits gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// An installation, and a folder in which private folders are made.
struct Installed {
    root: tempfile::TempDir,
}

impl Installed {
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("gm").tempdir().unwrap();
        for folder in ["bin", "lib/gridmux", "tmp"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        std::fs::copy(PROGRAM, root.path().join("bin/gridmux")).unwrap();
        std::fs::write(root.path().join("lib/gridmux/libcuda.so.1"), "").unwrap();
        Self { root }
    }

    /// `gridmux ARGUMENTS…` with private folders in `tmp`.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.root.path().join("bin/gridmux"));
        command
            .args(arguments)
            .env("TMPDIR", self.private_folders())
            .env_remove("LD_LIBRARY_PATH");
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(
            self.command(arguments)
                .output()
                .expect("the command starts"),
        )
    }

    fn private_folders(&self) -> PathBuf {
        self.root.path().join("tmp")
    }

    fn is_clean(&self) -> bool {
        std::fs::read_dir(self.private_folders()).unwrap().count() == 0
    }
}

/// `gridmux run` of a shell that says its process number and goes on; it ends with the test.
struct Running(Child, Pid);

impl Running {
    fn start(installed: &Installed, script: &str) -> Self {
        let mut command = installed.command(&["run", "--sms", "2", "--", "sh", "-c", script]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let program = Pid::from_raw(line.trim().parse().expect("a process number"));
        Self(child, program)
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.0.id()).unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process that has ended and that nobody has waited for yet counts as gone.
fn is_gone(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.map_or(true, |text| {
        text.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z'))
    })
}

#[test]
fn the_program_finds_the_library_and_a_private_service() {
    let installed = Installed::new();
    let script = "echo $GRIDMUX_SOCKET $GRIDMUX_TENANT ${LD_LIBRARY_PATH%%:*}; test -S $GRIDMUX_SOCKET; echo $?; \
                  readlink ${LD_LIBRARY_PATH%%:*}/libcuda.so.1 ${LD_LIBRARY_PATH%%:*}/libcuda.so";
    let ran = installed.run(&[
        "run", "--sms", "2", "--tenant", "me", "--", "sh", "-c", script,
    ]);
    let ran = ran.succeeded();
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let words: Vec<&str> = lines[0].split(' ').collect();
    let library = installed.root.path().join("lib/gridmux/libcuda.so.1");
    let library = library.canonicalize().unwrap().display().to_string();
    assert_eq!(words[1], "me");
    assert_eq!(lines[1..], ["0", &library, &library]);
    assert!(words[0].starts_with(installed.private_folders().to_str().unwrap()));
    assert!(installed.is_clean());
}

#[test]
fn the_exit_status_is_the_programs() {
    let installed = Installed::new();
    let code = |script: &str| {
        installed
            .run(&["run", "--sms", "2", "--", "sh", "-c", script])
            .code
    };
    assert_eq!(code("exit 0"), Some(0));
    assert_eq!(code("exit 42"), Some(42));
    assert_eq!(code("kill -KILL $$"), Some(137));
    let missing = installed.run(&["run", "--sms", "2", "--", "/nonexistent/program"]);
    assert_eq!(missing.code, Some(127));
    assert!(
        missing.stderr.contains("/nonexistent/program"),
        "{}",
        missing.stderr
    );
    assert!(installed.is_clean());
}

#[test]
fn a_signal_reaches_the_program() {
    let installed = Installed::new();
    let script = "trap 'exit 9' TERM; echo $$; while :; do sleep 0.05; done";
    let mut running = Running::start(&installed, script);
    kill(running.pid(), Signal::SIGTERM).unwrap();
    assert_eq!(running.0.wait().unwrap().code(), Some(9));
    assert!(installed.is_clean());
}

#[test]
fn nothing_is_left_when_it_is_killed() {
    let installed = Installed::new();
    let mut running = Running::start(&installed, "echo $$; exec sleep 1000");
    let program = running.1;
    assert!(!is_gone(program) && !installed.is_clean());
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    until("the program's end", || is_gone(program));
    until("the private folder's end", || installed.is_clean());
}

#[test]
fn a_running_service_is_used_and_must_be_there_if_it_was_named() {
    let installed = Installed::new();
    let run_dir = installed.root.path().join("run");
    let socket = run_dir.join("gridmux.sock");
    let ran = installed.run(&[
        "-j",
        "run",
        "--run-dir",
        run_dir.to_str().unwrap(),
        "--",
        "true",
    ]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.json_error().contains(socket.to_str().unwrap()),
        "{}",
        ran.stdout
    );

    let instance = format!("run-test-{}", std::process::id());
    let mut service = installed
        .command(&[
            "-j",
            "serve",
            "--sms",
            "2",
            "--tenant",
            "first",
            "--instance",
            &instance,
            "--run-dir",
        ])
        .arg(&run_dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(service.stdout.take().unwrap())
        .read_line(&mut ready)
        .unwrap();
    let mut running = Running(service, Pid::from_raw(0));
    assert!(ready.contains("ready"), "{ready}");
    let socket = socket.to_str().unwrap();
    let ran = installed.run(&[
        "run",
        "--socket",
        socket,
        "--",
        "sh",
        "-c",
        "echo $GRIDMUX_SOCKET-$GRIDMUX_TENANT",
    ]);
    assert_eq!(ran.succeeded().stdout, format!("{socket}-\n"));
    let ran = installed.run(&[
        "-j", "run", "--tenant", "second", "--socket", socket, "--", "true",
    ]);
    assert!(ran.json_error().contains("second"), "{}", ran.stdout);
    kill(running.pid(), Signal::SIGTERM).unwrap();
    running.0.wait().unwrap();
    assert!(installed.is_clean());
}

#[test]
fn what_is_missing_is_listed_after_the_programs_own_output() {
    let installed = Installed::new();
    let script =
        r#"echo mine; printf 'cuOne\tasked\tsh\ncuTwo\tcalled\tsh\n' >>$GRIDMUX_COVERAGE; exit 3"#;
    let ran = installed.run(&[
        "-j",
        "run",
        "--sms",
        "2",
        "--coverage",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(ran.code, Some(3));
    let (own, list) = ran.stdout.split_once('\n').unwrap();
    let list: Value = serde_json::from_str(list).unwrap();
    assert_eq!((own, &list["status"]), ("mine", &Value::from(3)));
    assert_eq!(list["missing"][0]["function"], "cuOne");
    assert_eq!(list["missing"][1]["called"], true);
}

#[test]
fn without_the_library_it_says_how_to_build_it() {
    let installed = Installed::new();
    std::fs::remove_file(installed.root.path().join("lib/gridmux/libcuda.so.1")).unwrap();
    let ran = installed.run(&["run", "--", "true"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr
            .contains("cargo build -p gridmux -p gridmux-cuda"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_assembler_gives_ptx_back() {
    let installed = Installed::new();
    let ptx = command::workload_ptx("vecadd");
    let script = format!(
        "$TRITON_PTXAS_PATH --version && $TRITON_PTXAS_PATH -lineinfo -v --gpu-name=sm_80 {ptx} -o $TMPDIR/out && \
         cmp {ptx} $TMPDIR/out && rm $TMPDIR/out"
    );
    let ran = installed.run(&["run", "--sms", "2", "--", "sh", "-c", &script]);
    let ran = ran.succeeded();
    assert!(ran.stdout.contains("release 13.0"), "{}", ran.stdout);
}
