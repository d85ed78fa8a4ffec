//! Signs of life on stderr of a command that takes long.
//!
//! Rule: a command that is done sooner says nothing.

use crate::output::note;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time for which a command may be silent.
const SILENCE: Duration = Duration::from_secs(10);

/// A wait of the command, which is announced if it lasts; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Dropping it ends the thread that speaks.
    _end: Sender<()>,
}

impl Waiting {
    /// Begins to wait for something, said as `simulating`.
    pub(crate) fn begin(what: String) -> Self {
        let (end, ended) = channel();
        let begun = Instant::now();
        // Without the thread nothing but the signs of life is missing.
        let _ = thread::Builder::new()
            .name("waiting".into())
            .spawn(move || {
                while ended.recv_timeout(SILENCE) == Err(RecvTimeoutError::Timeout) {
                    note(&format!("{what} for {} s", begun.elapsed().as_secs()));
                }
            });
        Self { _end: end }
    }
}
