//! What kernels print: it comes to the program's stdout when the program synchronises.
//!
//! Rules: a process none of whose modules print asks for nothing. One thread at a time takes text and writes it, which
//! keeps it in order.

use crate::driver::Driver;
use crate::report;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A module that prints was loaded.
static HAS_MODULE: AtomicBool = AtomicBool::new(false);
/// Held by the thread that writes.
static WRITER: Mutex<()> = Mutex::new(());

impl Driver {
    /// Takes note of a module that prints.
    pub fn note_printing(&self) {
        // Relaxed: whoever launches one of its kernels and synchronises has seen the module loaded.
        HAS_MODULE.store(true, Ordering::Relaxed);
    }

    /// Writes to stdout what kernels have printed since the last time.
    pub fn write_printed(&self) {
        // Relaxed: see `note_printing`.
        if !HAS_MODULE.load(Ordering::Relaxed) {
            return;
        }
        let _writer = WRITER.lock();
        // On a lost connection nothing more is printed.
        let Ok(printed) = self.gpu.take_printed() else {
            return;
        };
        if !printed.text.is_empty() {
            report::print(&printed.text);
        }
        if printed.lost_bytes > 0 {
            report::say(format_args!(
                "{} bytes that kernels printed were lost; synchronise more often",
                printed.lost_bytes
            ));
        }
    }
}
