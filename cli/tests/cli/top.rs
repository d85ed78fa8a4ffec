//! `gridmux top`: the terminal is as it was before whatever ends it, and what is no terminal gets text or JSON.

use crate::command::running::{Service, until};
use crate::command::{PROGRAM, gridmux};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::cell::RefCell;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// A terminal of a test's own.
struct Terminal {
    master: File,
    slave: OwnedFd,
    /// What is written to it.
    written: Receiver<Vec<u8>>,
    /// What was written so far.
    seen: RefCell<Vec<u8>>,
}

impl Terminal {
    fn open(columns: u16, rows: u16) -> Self {
        let (master, slave) = gridmux_testkit::terminal(columns, rows);
        let (into, written) = channel();
        let mut from = master.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut part) {
                if into.send(part[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            master,
            slave,
            written,
            seen: RefCell::default(),
        }
    }

    /// Closes it, as a window that is closed does.
    fn hang_up(self) {
        // SAFETY: the call changes nothing but the terminal, whose descriptor is open.
        let hung_up = unsafe { libc::ioctl(self.slave.as_raw_fd(), libc::TIOCVHANGUP) };
        assert_eq!(hung_up, 0, "the terminal hangs up");
    }

    /// Stops what is written to it, or lets it go on.
    fn flow(&self, action: i32) {
        // SAFETY: the descriptor is a terminal's.
        let done = unsafe { libc::tcflow(self.slave.as_raw_fd(), action) };
        assert_eq!(done, 0, "the flow of the terminal");
    }

    fn resize(&self, columns: u16, rows: u16) {
        let size = libc::winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: the descriptor is a terminal's, and the size is valid for the call.
        let set = unsafe { libc::ioctl(self.slave.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(set, 0, "another size");
    }

    /// Returns the modes of the terminal, by which it is judged.
    fn modes(&self) -> [u32; 4] {
        let mut modes = std::mem::MaybeUninit::<libc::termios>::uninit();
        // SAFETY: the descriptor is a terminal's, and there is room for its modes.
        let read = unsafe { libc::tcgetattr(self.slave.as_raw_fd(), modes.as_mut_ptr()) };
        assert_eq!(read, 0, "modes of the terminal");
        // SAFETY: the call has filled it.
        let modes = unsafe { modes.assume_init() };
        [modes.c_iflag, modes.c_oflag, modes.c_cflag, modes.c_lflag]
    }

    /// Starts a program on it, which it controls.
    fn start(&self, program: &str, arguments: &[&str], variable: Option<&str>) -> Child {
        let stdio = || Stdio::from(self.slave.try_clone().unwrap());
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio());
        command.envs(variable.map(|name| (name, "1")));
        // SAFETY: `setsid` and `ioctl` may be called between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        command.spawn().unwrap()
    }

    fn has_seen(&self, text: &str) -> Option<()> {
        self.seen().contains(text).then_some(())
    }

    /// Returns what was written to it so far.
    fn seen(&self) -> String {
        let mut seen = self.seen.borrow_mut();
        seen.extend(self.written.try_iter().flatten());
        String::from_utf8_lossy(&seen).into_owned()
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Checks that it is as it was before.
    fn is_restored(&self, before: [u32; 4]) {
        assert_eq!(self.modes(), before, "modes");
        // The screen from before and the cursor are back, after everything else.
        let comes_last = |this: &str, other: &str| {
            let seen = self.seen();
            (seen.rfind(this) > seen.rfind(other)).then_some(())
        };
        until("the screen from before", || {
            comes_last("\u{1b}[?1049l", "\u{1b}[?1049h")
        });
        until("the cursor", || comes_last("\u{1b}[?25h", "\u{1b}[?25l"));
    }
}

/// Waits for the end of a program and returns its exit code.
fn end_of(mut child: Child) -> Option<i32> {
    until("the program's end", || child.try_wait().unwrap()).code()
}

/// Starts `top` for a service on a terminal, and waits until it has drawn a tenant.
fn started(terminal: &Terminal, service: &Service) -> (Child, [u32; 4]) {
    let before = terminal.modes();
    let run_dir = service.run_dir.to_str().unwrap();
    let arguments = ["top", "--interval", "0.2", "--run-dir", run_dir];
    let child = terminal.start(PROGRAM, &arguments, None);
    until("a tenant's row", || terminal.has_seen("second"));
    assert_ne!(terminal.modes(), before, "it has taken the terminal");
    (child, before)
}

#[test]
fn the_terminal_is_given_back_after_q_control_c_and_signals() {
    let service = Service::start("top");
    for (keys, signal) in [
        ("q", None),
        ("\u{3}", None),
        ("", Some(Signal::SIGTERM)),
        ("", Some(Signal::SIGINT)),
        ("", Some(Signal::SIGHUP)),
    ] {
        let mut terminal = Terminal::open(80, 24);
        let (child, before) = started(&terminal, &service);
        terminal.press(keys);
        if let Some(signal) = signal {
            kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        }
        assert_eq!(end_of(child), Some(0), "{keys:?} {signal:?}");
        terminal.is_restored(before);
    }
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn it_stops_with_the_terminal_given_back_and_goes_on() {
    let service = Service::start("top-stops");
    let mut terminal = Terminal::open(40, 12);
    let (child, before) = started(&terminal, &service);
    let pid = Pid::from_raw(child.id().cast_signed());
    let is_stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(')')
            .next()
            .unwrap()
            .trim_start()
            .starts_with('T')
    };
    for keys in ["\u{1a}", ""] {
        terminal.press(keys);
        if keys.is_empty() {
            kill(pid, Signal::SIGTSTP).unwrap();
        }
        until("it to stop", || is_stopped().then_some(()));
        terminal.is_restored(before);
        kill(pid, Signal::SIGCONT).unwrap();
        until("it to go on", || (terminal.modes() != before).then_some(()));
    }
    terminal.press("q");
    assert_eq!(end_of(child), Some(0));
    terminal.is_restored(before);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn keys_pause_a_tenant_and_set_a_weight() {
    let service = Service::start("top-keys");
    let mut terminal = Terminal::open(100, 24);
    let (child, before) = started(&terminal, &service);
    let of_first = |key: &str| service.ask(&["tenant", "show", "first"])[0][key].clone();
    terminal.press("p");
    until("a pause", || (of_first("state") == "paused").then_some(()));
    until("the word for it", || terminal.has_seen("paused"));
    terminal.press("p");
    until("its end", || (of_first("state") == "running").then_some(()));
    terminal.press("w17\r");
    until("a weight", || (of_first("weight") == 17).then_some(()));
    // Its own page, with the sentence of why.
    terminal.press("\r");
    until("the tenant's page", || {
        terminal.has_seen("has nothing to do")
    });
    terminal.press("q");
    assert_eq!(end_of(child), Some(0));
    terminal.is_restored(before);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn it_ends_when_its_terminal_is_gone() {
    let service = Service::start("top-gone");
    let terminal = Terminal::open(80, 24);
    let (mut child, _) = started(&terminal, &service);
    terminal.hang_up();
    until("the program's end", || child.try_wait().unwrap());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_signal_ends_it_while_its_terminal_takes_nothing() {
    let service = Service::start("top-stuck");
    let terminal = Terminal::open(200, 60);
    let (child, before) = started(&terminal, &service);
    // As Ctrl-S does.
    terminal.flow(libc::TCOOFF);
    // So that it has something to draw, and waits for that.
    terminal.resize(190, 50);
    std::thread::sleep(std::time::Duration::from_millis(500));
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert_eq!(end_of(child), Some(0));
    assert_eq!(terminal.modes(), before);
    terminal.flow(libc::TCOON);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn it_follows_the_size_of_its_terminal() {
    let service = Service::start("top-size");
    let mut terminal = Terminal::open(40, 12);
    let (child, before) = started(&terminal, &service);
    assert!(
        terminal.has_seen("PREEMPT").is_none(),
        "there is no room for it"
    );
    terminal.resize(150, 30);
    until("more columns", || terminal.has_seen("PREEMPT"));
    terminal.press("q");
    assert_eq!(end_of(child), Some(0));
    terminal.is_restored(before);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_service_that_is_stopped_or_killed_is_said_to_be_silent_and_its_figures_stay() {
    let service = Service::start("top-silent");
    let run_dir = service.run_dir.to_str().unwrap().to_owned();
    let mut terminal = Terminal::open(80, 24);
    let (child, before) = started(&terminal, &service);
    // It stands still: keys are obeyed all the same.
    service.signal(Signal::SIGSTOP);
    until("that to be said", || terminal.has_seen("NO ANSWER"));
    let once = gridmux([
        "top",
        "--once",
        "--interval",
        "0.1",
        "-j",
        "--run-dir",
        &run_dir,
    ]);
    let shown = once.succeeded().json();
    let said = shown["frame"]["service"]["silent"]
        .as_str()
        .unwrap_or_default();
    assert!(said.contains("does not answer"), "{shown}");
    assert_eq!(shown["frame"]["tenants"][1]["name"], "second", "{shown}");
    terminal.press("q");
    assert_eq!(end_of(child), Some(0));
    terminal.is_restored(before);
    service.signal(Signal::SIGCONT);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn what_is_no_terminal_gets_a_picture_when_it_asks_for_one() {
    let service = Service::start("top-once");
    let run_dir = service.run_dir.to_str().unwrap();
    let refused = gridmux(["top", "--run-dir", run_dir]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("terminal") && refused.stderr.contains("--once"),
        "{}",
        refused.stderr
    );
    let text = gridmux(["top", "--once", "--interval", "0.1", "--run-dir", run_dir]);
    let text = text.succeeded().stdout;
    for part in ["TENANT", "first", "BOUND BY", "idle", "own eBPF"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let shown = gridmux(["top", "-j", "--interval", "0.1", "--run-dir", run_dir]);
    let shown = shown.succeeded().json();
    assert_eq!(shown["frame"]["service"], "answers", "{shown}");
    assert_eq!(shown["frame"]["tenants"][0]["binds"], "idle", "{shown}");
    assert_eq!(service.stop(), Some(0));
    let nobody = gridmux(["-j", "top", "--run-dir", "/nonexistent"]);
    nobody.failed(1, &["no service answers", "gridmux serve"]);
}
