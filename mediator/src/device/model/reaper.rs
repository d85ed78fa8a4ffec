//! A thread that drops what is no longer needed: modules, memory of clients, and buffers whose other descriptors are
//! closed. Giving gigabytes back to the system takes long, and nobody is to wait for it.

use crate::device::DeviceError;
use crossbeam::channel::{Sender, unbounded};
use std::any::Any;
use std::time::Duration;

/// How long nothing comes before free memory is given back.
const QUIET: Duration = Duration::from_millis(500);
/// What is at least as large is mapped by itself and goes back to the system with its owner. Without a fixed size the
/// allocator raises it up to 32 MiB (mallopt(3)), and what a module leaves between others' memory stays with the
/// process.
const MAPPED_BYTES: libc::c_int = 256 << 10;

/// The end to which it is given; the thread ends with it.
#[derive(Debug)]
pub(super) struct Reaper {
    garbage: Sender<Box<dyn Any + Send>>,
}

impl Reaper {
    /// Starts the thread.
    ///
    /// # Errors
    /// There can be no more threads.
    pub(super) fn start() -> Result<Self, DeviceError> {
        let (garbage, dropped) = unbounded::<Box<dyn Any + Send>>();
        // SAFETY: a call of the C library without conditions. It says no only to values that it does not know.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES) };
        let body = move || {
            while let Ok(first) = dropped.recv() {
                drop(first);
                // The allocator is asked to tidy up once nothing more comes.
                while let Ok(next) = dropped.recv_timeout(QUIET) {
                    drop(next);
                }
                // SAFETY: a call of the C library without conditions, which gives free memory back to the system.
                unsafe { libc::malloc_trim(0) };
            }
        };
        std::thread::Builder::new()
            .name("reaper".into())
            .spawn(body)
            .map_err(|error| DeviceError::Backend(format!("starting a thread: {error}")))?;
        Ok(Self { garbage })
    }

    /// Drops something soon.
    pub(super) fn take(&self, garbage: impl Any + Send) {
        // Without the thread it is dropped here.
        let _ = self.garbage.send(Box::new(garbage));
    }
}
