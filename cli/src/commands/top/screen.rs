//! The terminal as `top` has it, and how it gets it back.
//!
//! Rules: the terminal is as it was before whatever ends the program: its own end, a signal, or a panic of any thread.
//! Signals are held back from all threads; one of them reads them, and they are obeyed between two drawings or, where
//! that takes too long, all the same.
//! Nothing is asked of the terminal that one may leave unanswered.

use nix::fcntl::OFlag;
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use std::fs::File;
use std::io::{self, IsTerminal as _, Stdout};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Once;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long the drawing thread may take to end the program after a signal.
const GRACE: Duration = Duration::from_millis(500);

/// Signals that end the program, and the one that stops it for a while.
const SIGNALS: [Signal; 5] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGTSTP,
];

/// The terminal, as long as it is drawn on.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    /// Columns and lines of it.
    size: (u16, u16),
    signals: Receiver<Signal>,
}

/// Signals, held back from this thread and those that it starts.
pub(super) struct HeldSignals(SignalFd);

impl HeldSignals {
    /// Holds them back.
    ///
    /// # Errors
    /// The system call's.
    pub(super) fn begin() -> io::Result<Self> {
        let mut mask = SigSet::empty();
        for signal in SIGNALS {
            mask.add(signal);
        }
        mask.thread_block()?;
        Ok(Self(SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC)?))
    }

    /// Starts a thread that reads them. A signal that ends the program does so also while the drawing thread is blocked
    /// by a terminal that accepts no output, or is gone.
    fn watch(self) -> io::Result<Receiver<Signal>> {
        let (tell, told) = channel();
        let thread = std::thread::Builder::new().name("signals".into());
        thread.spawn(move || {
            while let Ok(Some(read)) = self.0.read_signal() {
                let Ok(signal) = Signal::try_from(read.ssi_signo.cast_signed()) else {
                    continue;
                };
                let is_heard = tell.send(signal).is_ok();
                if is_heard && signal != Signal::SIGTSTP {
                    std::thread::sleep(GRACE);
                    restore_without_waiting();
                    std::process::exit(0);
                }
            }
        })?;
        Ok(told)
    }
}

/// Has the terminal go on sending Ctrl-C and Ctrl-Z as signals: the reader of keys waits for the end of a sequence that
/// somebody began, and would take them for a part of it.
fn keep_signals() -> io::Result<()> {
    let stdin = io::stdin();
    // Without it keys come from the controlling terminal.
    let terminal = match stdin.is_terminal() {
        true => stdin.as_fd().try_clone_to_owned()?,
        false => File::open("/dev/tty")?.into(),
    };
    let mut modes = tcgetattr(&terminal)?;
    modes.local_flags.insert(LocalFlags::ISIG);
    tcsetattr(&terminal, SetArg::TCSANOW, &modes)?;
    Ok(())
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// It cannot be drawn on.
    pub(super) fn begin(signals: HeldSignals) -> io::Result<Self> {
        restore_on_panic();
        let size = size()?;
        let mut screen = Self {
            terminal: empty(size)?,
            size,
            signals: signals.watch()?,
        };
        screen.enter()?;
        Ok(screen)
    }

    fn enter(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        keep_signals()?;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        self.begin_anew()
    }

    /// Has everything be drawn anew, on a terminal of the size that it has now.
    fn begin_anew(&mut self) -> io::Result<()> {
        self.size = size()?;
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.terminal = empty(self.size)?;
        Ok(())
    }

    /// Draws what has changed.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if size()? != self.size {
            self.begin_anew()?;
        }
        self.terminal.draw(draw).map(|_| ())
    }

    /// Returns a signal that has come.
    pub(super) fn signal(&mut self) -> Option<Signal> {
        self.signals.try_recv().ok()
    }

    /// Gives the terminal back until the program is continued.
    ///
    /// # Errors
    /// It cannot be drawn on afterwards.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        restore();
        // Not the signal that is held back: this one stops the process at once, and the shell sees it.
        raise(Signal::SIGSTOP)?;
        self.enter()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Returns a terminal of that size on which nothing is drawn. Its size is fixed: one that follows the terminal's own
/// asks it where the cursor is.
fn empty((columns, lines): (u16, u16)) -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
    let viewport = Viewport::Fixed(Rect::new(0, 0, columns, lines));
    Terminal::with_options(
        CrosstermBackend::new(io::stdout()),
        TerminalOptions { viewport },
    )
}

/// Gives the terminal back. Nothing is left to do where it is gone.
fn restore() {
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
}

/// Restores the terminal without blocking, as far as it accepts output, while other threads may write to it.
fn restore_without_waiting() {
    let _ = disable_raw_mode();
    // An open file of its own: that it does not wait is nobody else's business.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let terminal = File::options()
        .write(true)
        .custom_flags(flags.bits())
        .open("/dev/tty");
    if let Ok(mut terminal) = terminal {
        let _ = execute!(terminal, LeaveAlternateScreen, Show);
    }
}

/// Has a panic of any thread give the terminal back before its message is written.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            before(panic);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::{HeldSignals, Screen};
    use std::io::Read as _;
    use std::os::fd::{AsRawFd as _, OwnedFd};
    use std::process::{Command, Stdio};

    /// Tells the test that it is the program on the terminal.
    const ROLE: &str = "GRIDMUX_TEST_PANICS";

    fn local_modes(terminal: &OwnedFd) -> u32 {
        let mut modes = std::mem::MaybeUninit::<libc::termios>::uninit();
        // SAFETY: the descriptor is a terminal's, and there is room for its modes.
        let read = unsafe { libc::tcgetattr(terminal.as_raw_fd(), modes.as_mut_ptr()) };
        assert_eq!(read, 0, "modes of the terminal");
        // SAFETY: the call has filled it.
        unsafe { modes.assume_init() }.c_lflag
    }

    #[test]
    fn a_panic_of_any_thread_gives_the_terminal_back() {
        if let Some(role) = std::env::var_os(ROLE) {
            let screen = Screen::begin(HeldSignals::begin().unwrap()).unwrap();
            if role == "other" {
                let _ = std::thread::spawn(|| panic!("on purpose")).join();
                // What gives the terminal back is the panic, not the end of this.
                std::mem::forget(screen);
                std::process::exit(1);
            }
            panic!("on purpose");
        }
        for role in ["drawing", "other"] {
            let (mut master, slave) = gridmux_testkit::terminal(80, 24);
            let before = local_modes(&slave);
            let stdio = || Stdio::from(slave.try_clone().unwrap());
            let name =
                "commands::top::screen::tests::a_panic_of_any_thread_gives_the_terminal_back";
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name])
                .env(ROLE, role)
                .stdin(stdio())
                .stdout(stdio())
                .stderr(stdio())
                .spawn()
                .unwrap();
            let reader = std::thread::spawn(move || {
                let (mut seen, mut part) = (Vec::new(), [0; 4096]);
                while let Ok(count @ 1..) = master.read(&mut part) {
                    seen.extend_from_slice(&part[..count]);
                }
                String::from_utf8_lossy(&seen).into_owned()
            });
            assert!(!child.wait().unwrap().success(), "it panics");
            assert_eq!(local_modes(&slave), before, "{role}");
            drop(slave);
            let seen = reader.join().unwrap();
            let place = |text: &str| {
                seen.rfind(text)
                    .unwrap_or_else(|| panic!("{text:?}: {seen:?}"))
            };
            assert!(place("[?1049l") > place("[?1049h"), "{role}: {seen:?}");
        }
    }
}
