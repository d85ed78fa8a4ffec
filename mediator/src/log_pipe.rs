//! What the unprivileged processes of a service write to stderr, on its way into the service's log.
//!
//! They do not have the log itself, because one that was taken over could then cut it short, fill it, or write what
//! looks as if somebody else had: each has a pipe, from which a thread of the supervisor takes lines.
//!
//! Rules: a line begins with the name of the process, has no control characters and a bounded length. Beyond a burst
//! only so many bytes a second are taken; what is left out is counted, and the count is said.

use crate::bucket::Bucket;
use std::io::{self, Read, Write};
use std::process::ChildStderr;
use std::thread::JoinHandle;
use std::time::Instant;

/// Longest line in bytes; what is longer is cut up.
const LINE_BYTES: usize = 8 << 10;
/// Bytes that a process may write each second in the long run, and at once.
const BYTES_PER_SECOND: f64 = (16 << 10) as f64;
const BURST_BYTES: f64 = (8 << 20) as f64;

/// Starts a thread that takes what a process writes to stderr into this one's log, until the process has ended.
///
/// # Errors
/// The thread is not to be had.
pub(crate) fn follow(name: &'static str, mut pipe: ChildStderr) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("log".into())
        .spawn(move || {
            let mut lines = Lines::new(name, Instant::now());
            let mut bytes = [0; 4096];
            loop {
                let read = match pipe.read(&mut bytes) {
                    Ok(read) => read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(_) => 0,
                };
                let text = match read {
                    0 => lines.end(Instant::now()),
                    read => lines.take(&bytes[..read], Instant::now()),
                };
                // There is nobody to tell where the log cannot be written.
                let _ = io::stderr().lock().write_all(text.as_bytes());
                if read == 0 {
                    return;
                }
            }
        })
}

/// The lines of one process.
struct Lines {
    name: &'static str,
    /// The beginning of a line.
    rest: Vec<u8>,
    /// Bytes that it may write.
    bytes: Bucket,
    /// Lines that were left out since the last one that was not.
    left_out: u64,
}

impl Lines {
    fn new(name: &'static str, now: Instant) -> Self {
        Self {
            name,
            rest: Vec::new(),
            bytes: Bucket::new(BURST_BYTES, now),
            left_out: 0,
        }
    }

    /// Takes bytes; returns the lines that are whole by now, as they go into the log.
    fn take(&mut self, bytes: &[u8], now: Instant) -> String {
        let mut text = String::new();
        for byte in bytes {
            if *byte != b'\n' {
                self.rest.push(*byte);
            }
            if *byte == b'\n' || self.rest.len() >= LINE_BYTES {
                self.say(&mut text, now);
            }
        }
        text
    }

    /// Returns what is left when the process has ended.
    fn end(&mut self, now: Instant) -> String {
        let mut text = String::new();
        if !self.rest.is_empty() {
            self.say(&mut text, now);
        }
        if self.left_out > 0 {
            text += &self.count();
        }
        text
    }

    fn say(&mut self, text: &mut String, now: Instant) {
        let line = String::from_utf8_lossy(&self.rest);
        let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
        let line: String = line.chars().map(shown).collect();
        self.rest.clear();
        let line = format!("{}: {line}\n", self.name);
        let limits = (BYTES_PER_SECOND, BURST_BYTES);
        if !self.bytes.take(line.len() as f64, limits, now) {
            self.left_out += 1;
            return;
        }
        if self.left_out > 0 {
            *text += &self.count();
        }
        *text += &line;
    }

    fn count(&mut self) -> String {
        let count = std::mem::take(&mut self.left_out);
        format!("{}: {count} lines before this were left out\n", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::{BURST_BYTES, LINE_BYTES, Lines};
    use std::time::{Duration, Instant};

    #[test]
    fn lines_are_told_whose_they_are_and_have_no_control_characters() {
        let now = Instant::now();
        let mut lines = Lines::new("host", now);
        assert_eq!(lines.take(b"one\ntw", now), "host: one\n");
        assert_eq!(
            lines.take(b"o\x1b[2J\r\n", now),
            "host: two\u{fffd}[2J\u{fffd}\n"
        );
        assert_eq!(lines.take(b"\xff", now), "");
        assert_eq!(lines.end(now), "host: \u{fffd}\n");
        let long = lines.take(&vec![b'x'; 3 * LINE_BYTES], now);
        assert_eq!(long.lines().count(), 3, "cut up");
    }

    #[test]
    fn a_flood_is_counted_and_not_written() {
        let now = Instant::now();
        let mut lines = Lines::new("host", now);
        let line = [b"x".repeat(1017).as_slice(), b"\n"].concat();
        let written = |lines: &mut Lines, count: usize, now| {
            let all: Vec<String> = (0..count).map(|_| lines.take(&line, now)).collect();
            all.concat()
        };
        let burst = written(&mut lines, 20_000, now);
        assert!(burst.len() as f64 <= BURST_BYTES, "{} bytes", burst.len());
        assert_eq!(burst.lines().count(), 8192);
        let later = now + Duration::from_secs(2);
        let more = written(&mut lines, 100, later);
        let first = more.lines().next().unwrap();
        assert_eq!(first, "host: 11808 lines before this were left out");
        assert_eq!(more.lines().count(), 33, "16 KiB a second");
        assert_eq!(
            lines.end(later),
            "host: 68 lines before this were left out\n"
        );
    }
}
