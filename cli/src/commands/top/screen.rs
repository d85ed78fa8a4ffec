//! The terminal as `top` has it, and how it gets it back.
//!
//! Rules: the terminal is as it was before whatever ends the program: its own end, a signal, or a panic of any thread.
//! Signals are held back from all threads and read between two drawings, so that none comes into the midst of one.

use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use std::io::{self, Stdout};
use std::sync::Once;

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
    /// What is drawn on.
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
    signals: SignalFd,
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
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Self(SignalFd::with_flags(&mask, flags)?))
    }
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// It cannot be drawn on.
    pub(super) fn begin(signals: HeldSignals) -> io::Result<Self> {
        restore_on_panic();
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        let mut screen = Self {
            terminal,
            signals: signals.0,
        };
        screen.enter()?;
        Ok(screen)
    }

    fn enter(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        self.terminal.clear()
    }

    /// Returns a signal that has come.
    pub(super) fn signal(&mut self) -> Option<Signal> {
        let read = self.signals.read_signal().ok()??;
        Signal::try_from(read.ssi_signo.cast_signed()).ok()
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

/// Gives the terminal back. Nothing is left to do where it is gone.
fn restore() {
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
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

    /// Run by `cli/tests/cli/top.rs` on a terminal of its own: a panic while the terminal is drawn on. Alone it finds no
    /// terminal, and there is nothing to restore.
    #[test]
    fn panics_on_a_terminal() {
        if std::env::var_os("GRIDMUX_TEST_TERMINAL").is_none() {
            return;
        }
        let _screen = Screen::begin(HeldSignals::begin().unwrap()).unwrap();
        panic!("on purpose");
    }
}
