//! What kernels print: it comes to the program's stdout when the program synchronises.
//!
//! Rules: a process none of whose modules print asks for nothing. One thread at a time takes text and writes it, which
//! keeps it in order.

use crate::driver::Driver;
use crate::report;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether anything may be printed, and who writes it.
#[derive(Debug, Default)]
pub struct Printing {
    has_module: AtomicBool,
    writer: Mutex<()>,
}

impl Printing {
    /// Takes note of a module that prints.
    pub fn note_module(&self) {
        // Relaxed: whoever launches one of its kernels and synchronises has seen the module loaded.
        self.has_module.store(true, Ordering::Relaxed);
    }
}

impl Driver {
    /// Writes to stdout what kernels have printed since the last time.
    pub fn write_printed(&self) {
        // Relaxed: see `Printing::note_module`.
        if !self.printing.has_module.load(Ordering::Relaxed) {
            return;
        }
        let _writer = self.printing.writer.lock();
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
