//! What the library says on stderr, and the list of functions that were asked for and are missing.
//!
//! Rules: a line is written with one system call and without a lock, so that a child made by `fork` can say something
//! too, and a closed stderr harms nobody. Nothing is said twice of one function, and why the service was lost or memory
//! was refused is said once in a process.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::feature;
use gridmux_channel::control::ControlCode;
use gridmux_channel::session::CallError;
use gridmux_tenant::{ClientError, Lost};
use parking_lot::Mutex;

/// Writes a line on stderr, after the library's name.
pub fn say(text: fmt::Arguments<'_>) {
    let line = format!("gridmux: {text}\n");
    write_once(libc::STDERR_FILENO, line.as_bytes());
}

/// Says why the service was lost, if an error says so; the codes of the API do not.
pub fn lost(error: &ClientError) {
    static SAID: AtomicBool = AtomicBool::new(false);
    let reason = match error {
        ClientError::DeviceLost(reason) => reason.to_string(),
        ClientError::Call(CallError::Closed) => "the service closed it".to_owned(),
        error if error.is_lost() => error.to_string(),
        _ => return,
    };
    // Relaxed: of several threads, one finds it unset.
    if SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    let hint = match error {
        ClientError::DeviceLost(Lost::Removed) => {
            "`gridmux tenant list` shows the tenants that there are"
        }
        ClientError::DeviceLost(Lost::Stopped) => {
            "start it with `gridmux serve` and run this again"
        }
        _ => "the service was stopped, or it replaces a device host that failed: run this again",
    };
    say(format_args!(
        "the connection to the service was lost: {reason} ({hint})"
    ));
}

/// Says why memory or a stream was refused, which names the limit and, of device memory, the tenant.
pub fn out_of_memory(error: &ClientError) {
    static SAID: AtomicBool = AtomicBool::new(false);
    let is_refused = match error {
        ClientError::Call(CallError::Control(refusal)) => {
            matches!(refusal.code, ControlCode::OutOfMemory | ControlCode::Limit)
        }
        ClientError::Call(error) => error.is_out_of_mappings(),
        _ => false,
    };
    // Relaxed: of several threads, one finds it unset.
    if is_refused && !SAID.swap(true, Ordering::Relaxed) {
        say(format_args!("{error}"));
    }
}

/// Says what is not there, once.
pub fn refused(what: &str) {
    static SAID: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    // A child made by fork while another thread held the lock goes without.
    let Some(mut said) = SAID.try_lock() else {
        return;
    };
    if said.get_or_insert_default().insert(what.to_owned()) {
        say(format_args!(
            "{what}; the call returns CUDA_ERROR_NOT_SUPPORTED"
        ));
    }
}

/// Says once why there is no managed memory.
pub fn managed(error: &ClientError) {
    static SAID: AtomicBool = AtomicBool::new(false);
    // Relaxed: of several threads, one finds it unset.
    if !SAID.swap(true, Ordering::Relaxed) {
        say(format_args!("no managed memory: {error}"));
    }
}

/// Why a missing function was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Missed {
    /// The program asked for its address.
    Asked,
    /// The program called it.
    Called,
}

/// Notes that a function is missing: a call on stderr, both in the file that `GRIDMUX_COVERAGE` names.
pub fn missed(symbol: &str, how: Missed) {
    static SEEN: OnceLock<Mutex<HashSet<(String, Missed)>>> = OnceLock::new();
    let seen = SEEN.get_or_init(Mutex::default);
    let coverage = std::env::var_os("GRIDMUX_COVERAGE").filter(|path| !path.is_empty());
    if how == Missed::Asked && coverage.is_none() {
        return;
    }
    // A child made by fork while another thread held the lock goes without.
    let Some(mut seen) = seen.try_lock() else {
        return;
    };
    if !seen.insert((symbol.to_owned(), how)) {
        return;
    }
    drop(seen);
    let word = match how {
        Missed::Asked => "asked",
        Missed::Called => {
            let feature = feature::of(symbol).map_or_else(String::new, |name| format!(" ({name})"));
            let why = reason(symbol);
            say(format_args!(
                "{symbol} is not covered{feature}{why}; it returns CUDA_ERROR_NOT_SUPPORTED"
            ));
            "called"
        }
    };
    if let Some(path) = coverage {
        append(&path, &format!("{symbol}\t{word}\t{}\n", program()));
    }
}

/// Returns why a function is missing, where a program can do something about that.
fn reason(symbol: &str) -> &'static str {
    const REASONS: &[(&str, &str)] = &[
        (
            "cuIpc",
            ": device memory and events are not shared between processes, each of which is a client of its own with \
             memory that no other reaches (copy through memory of the host that they share)",
        ),
        (
            "cuMemExport",
            ": device memory is not shared between processes",
        ),
        (
            "cuMemImport",
            ": device memory is not shared between processes",
        ),
        (
            "cuMemPoolExport",
            ": device memory is not shared between processes",
        ),
        (
            "cuMemPoolImport",
            ": device memory is not shared between processes",
        ),
        (
            "cuTexRef",
            ": texture references of modules are not there (use texture objects, cuTexObjectCreate)",
        ),
        (
            "cuSurfRef",
            ": surface references of modules are not there (use surface objects, cuSurfObjectCreate)",
        ),
        ("cuMipmapped", ": mipmaps are not there"),
    ];
    let found = REASONS.iter().find(|(start, _)| symbol.starts_with(start));
    found.map_or("", |(_, why)| why)
}

fn append(path: &OsString, line: &str) {
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o644)
        .custom_flags(libc::O_CLOEXEC)
        .open(path);
    if let Ok(file) = file {
        write_once(file.as_raw_fd(), line.as_bytes());
    }
}

/// Writes to stdout what kernels printed.
pub fn print(text: &[u8]) {
    // The program's own buffer goes first, as far as Rust's and C's can be flushed from here.
    let _ = std::io::stdout().flush();
    // SAFETY: a null stream asks for all output streams of the process; the C library locks each.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    let mut rest = text;
    while !rest.is_empty() {
        let written = write_once(libc::STDOUT_FILENO, rest);
        if written == 0 {
            return;
        }
        rest = &rest[written..];
    }
}

/// Returns how many bytes were written; 0 after an error.
fn write_once(descriptor: i32, bytes: &[u8]) -> usize {
    // SAFETY: the slice is valid for its length; the call reads it and nothing else.
    let written = unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(written).unwrap_or(0)
}

/// Returns the file name of the running program.
pub fn program() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_deref().and_then(std::path::Path::file_name);
    name.unwrap_or_default().to_string_lossy().into_owned()
}
