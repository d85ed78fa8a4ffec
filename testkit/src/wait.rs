//! Waiting for a state that another process reaches.

use std::time::{Duration, Instant};

/// How long anything may take. It is far beyond what a loaded machine needs: only a bug reaches it.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(1);

/// Asks until there is an answer.
///
/// # Panics
/// If there is none for a minute; the message says what was awaited.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "waited {PATIENCE:?} in vain for {what}"
        );
        std::thread::sleep(PAUSE);
    }
}
