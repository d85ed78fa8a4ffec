//! A host that has other things to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Threads that keep every processor of the host busy until this is dropped.
#[derive(Debug)]
pub struct BusyHost {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyHost {
    /// Starts a thread for each processor.
    #[must_use]
    pub fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        let spin = |stop: Arc<AtomicBool>| {
            // Relaxed: the flag publishes nothing but itself.
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        let threads = (0..processors)
            .map(|_| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || spin(stop))
            })
            .collect();
        Self { stop, threads }
    }
}

impl Drop for BusyHost {
    fn drop(&mut self) {
        // Relaxed: the flag publishes nothing but itself.
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
