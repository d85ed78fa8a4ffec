//! A process that runs a scenario.

use gridmux_tests::{Service, driver_library, runtime_library, runtime_library_of_cuda_12, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

/// The process; it is killed and reaped when dropped.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    lines: BufReader<ChildStdout>,
    scenario: String,
}

impl Program {
    pub(crate) fn start(service: &Service, tenant: &str, scenario: &str, argument: &str) -> Self {
        Self::start_at(&service.socket(), tenant, scenario, argument)
    }

    pub(crate) fn start_at(socket: &Path, tenant: &str, scenario: &str, argument: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cuda_client"))
            .args([scenario, argument])
            .env("GRIDMUX_SOCKET", socket)
            .env("GRIDMUX_TENANT", tenant)
            .env("CUDA_LIBRARY", driver_library())
            .env("CUDART_LIBRARY", runtime_library())
            .env("CUDART12_LIBRARY", runtime_library_of_cuda_12())
            .env_remove("CUDA_VISIBLE_DEVICES")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the client starts");
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Self {
            child,
            lines,
            scenario: scenario.to_owned(),
        }
    }

    /// Returns its next line.
    pub(crate) fn hear(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    pub(crate) fn say(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("stdin is piped");
        writeln!(stdin, "{line}").expect("it listens");
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_some()
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end: the status, and what it said on stderr.
    pub(crate) fn end(&mut self) -> (ExitStatus, String) {
        let mut stderr = self.child.stderr.take().expect("stderr is piped");
        let reader = std::thread::spawn(move || {
            let mut said = String::new();
            let _ = stderr.read_to_string(&mut said);
            said
        });
        let what = format!("the end of {}", self.scenario);
        let status = until(&what, || self.child.try_wait().expect("its state"));
        (status, reader.join().expect("what it said"))
    }

    /// Waits for its end, which must be a good one; returns what it said on stderr.
    pub(crate) fn succeed(&mut self) -> String {
        let (status, said) = self.end();
        assert!(status.success(), "{}: {status}\n{said}", self.scenario);
        said
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}
