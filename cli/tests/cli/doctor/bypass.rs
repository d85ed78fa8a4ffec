//! A driver library of somebody else, and programs that use it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// A library, and a program that opens it.
pub(super) struct Bypass {
    folder: TempDir,
}

/// A program that runs; it is killed if a test gives up.
pub(super) struct Program {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Bypass {
    /// Compiles both.
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = Self { folder };
        gcc("driver.c", &made.library(), &["-shared", "-fPIC"]);
        gcc("program.c", &made.path("program"), &[]);
        made
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the library.
    pub(super) fn library(&self) -> PathBuf {
        self.path("libcuda.so.1")
    }

    /// Starts a program that has opened the library; `name` is what it calls itself.
    pub(super) fn start(&self, library: &Path, name: &str) -> Program {
        self.start_with(&[library.as_os_str(), name.as_ref()])
    }

    /// Starts one whose first thread ends, while a second one has opened the library.
    pub(super) fn start_threaded(&self, library: &Path) -> Program {
        self.start_with(&[
            library.as_os_str(),
            "threaded".as_ref(),
            "threaded".as_ref(),
        ])
    }

    fn start_with(&self, words: &[&OsStr]) -> Program {
        let mut command = Command::new(self.path("program"));
        command.args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut program = Program { child, lines };
        assert_eq!(program.line(), "open\n");
        program
    }
}

impl Program {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    /// Has it launch twice, allocate once and copy three times.
    pub(super) fn call(&mut self) {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
        assert_eq!(self.line(), "called\n");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn gcc(source: &str, output: &Path, flags: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cli/doctor")
        .join(source);
    let mut gcc = Command::new("gcc");
    gcc.args(flags)
        .arg("-o")
        .arg(output)
        .arg(source)
        .args(["-ldl", "-pthread"]);
    assert!(gcc.status().expect("gcc starts").success(), "{gcc:?}");
}
