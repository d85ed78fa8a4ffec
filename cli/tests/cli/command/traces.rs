//! Traces made by hand, of launches whose times are easy to reckon with.

use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;

/// SMs of the GPU of these tests.
pub(crate) const SMS: u32 = 2;

/// A launch of 256-thread blocks, eight of which fit an SM of a V100.
#[derive(Clone, Copy)]
pub(crate) struct Launch {
    pub(crate) stream: u64,
    pub(crate) blocks: u32,
    pub(crate) submit_us: u64,
    pub(crate) start_us: u64,
    pub(crate) end_us: u64,
}

impl Launch {
    /// Returns one that takes as long as it did alone, from its submission on.
    pub(crate) fn new(stream: u64, blocks: u32, submit_us: u64, us: u64) -> Self {
        Self {
            stream,
            blocks,
            submit_us,
            start_us: submit_us,
            end_us: submit_us + us,
        }
    }
}

/// Returns the line of a process.
pub(crate) fn process() -> Value {
    json!({
        "trace": 1, "pid": 7, "program": "made by hand", "a member of later times": true,
        "device": {
            "name": "v100", "is_model": true, "sms": SMS, "warp_size": 32, "threads": 2048, "blocks": 32,
            "registers": 65536, "register_unit": 256, "shared_bytes": 98304, "shared_unit_bytes": 256,
            "reserved_shared_bytes_per_block": 0,
        },
    })
}

/// Returns the line of a launch.
pub(crate) fn line(launch: Launch) -> Value {
    json!({
        "kernel": "k", "registers": 16, "static_shared_bytes": 0, "grid": [launch.blocks, 1, 1], "block": [256, 1, 1],
        "shared_bytes": 0, "arguments": [8], "stream": launch.stream, "pid": 7, "failed": false,
        "submit_ns": launch.submit_us * 1000, "start_ns": launch.start_us * 1000, "end_ns": launch.end_us * 1000,
    })
}

/// Traces in a folder.
pub(crate) struct Traces(tempfile::TempDir);

impl Traces {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn text(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name).display().to_string()
    }

    pub(crate) fn write(&self, name: &str, launches: &[Launch]) -> String {
        let mut text = format!("{}\n", process());
        for launch in launches {
            writeln!(text, "{}", line(*launch)).unwrap();
        }
        self.text(name, &text)
    }
}
