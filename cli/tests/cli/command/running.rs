//! A service in a folder of its own, and other commands that go on for a while.

use super::{PROGRAM, apart, json_of, words};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) use gridmux_testkit::until;

/// A running command whose stdout is read line by line; it is killed if a test gives up.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) lines: BufReader<ChildStdout>,
    _configuration: Option<tempfile::TempDir>,
}

impl Running {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_by(Command::new(PROGRAM), arguments)
    }

    /// Starts a command line, none of whose words has a space.
    pub(crate) fn line(line: &str) -> Self {
        Self::start(&words(line))
    }

    /// Starts `workload run` with more arguments, and waits until it is ready for the signal to go.
    pub(crate) fn workload(service: &Service, more: &str) -> Self {
        let socket = service.socket();
        let mut tenant = Self::line(&format!(
            "-j workload run --socket {socket} --size tiny --wait-go {more}"
        ));
        assert_eq!(tenant.next(), json!({ "ready": true }));
        tenant
    }

    /// Has a workload that is ready hold, and then go.
    pub(crate) fn hold_and_go(&mut self) {
        self.say("hold");
        assert_eq!(self.next(), json!({ "held": true }));
        self.say("go");
    }

    /// Starts it with no more than that many open files.
    pub(crate) fn start_with_files(files: u32, arguments: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        let script = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
        shell.args(["-c", &script, PROGRAM]);
        Self::start_by(shell, arguments)
    }

    fn start_by(mut command: Command, arguments: &[&str]) -> Self {
        let (arguments, _configuration) = apart(arguments);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Self {
            child,
            lines,
            _configuration,
        }
    }

    /// Returns the next line, which must be JSON.
    pub(crate) fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    pub(crate) fn say(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("stdin is piped");
        writeln!(stdin, "{line}").unwrap();
    }

    pub(crate) fn exit_code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A service in a folder of its own.
pub(crate) struct Service {
    pub(crate) running: Running,
    pub(crate) run_dir: PathBuf,
    pub(crate) ready: Value,
    _folder: tempfile::TempDir,
}

impl Service {
    pub(crate) fn start(name: &str) -> Self {
        Self::start_with(name, &[])
    }

    pub(crate) fn start_with(name: &str, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = folder.path().join("run");
        static STARTED: AtomicU32 = AtomicU32::new(0);
        // relaxed: the number is all that counts.
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let instance = format!("{name}-{}-{number}", std::process::id());
        let arguments = format!(
            "-j serve --run-dir {} --instance {instance} --device model:h200 --sms 4 --policy smk-p \
             --tenant first:2:latency --tenant second",
            run_dir.display()
        );
        let mut running = Running::start(&[&words(&arguments)[..], more].concat());
        let ready = running.next();
        Self {
            running,
            run_dir,
            ready,
            _folder: folder,
        }
    }

    pub(crate) fn socket(&self) -> String {
        let socket = self.run_dir.join("gridmux.sock");
        socket.to_str().unwrap().to_owned()
    }

    pub(crate) fn ask(&self, arguments: &[&str]) -> Value {
        let folder = self.run_dir.to_str().unwrap();
        json_of(arguments.iter().copied().chain(["-j", "--run-dir", folder]))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.running.child.id()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    pub(crate) fn stop(self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.running.exit_code()
    }
}
