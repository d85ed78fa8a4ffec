//! A tenant that works and is not to notice anything: it launches and verifies without a pause, on a thread of its own.

use crate::bench::Bench;
use crate::service::{Service, connect};
use gridmux_testkit::until;
use gridmux_workloads::Size;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// The tenant. Drop without [`Bystander::finish`] stops it too, but judges nothing.
#[derive(Debug)]
pub struct Bystander {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    verified: AtomicU64,
}

impl Bystander {
    /// Connects, and waits until the first launch was verified.
    ///
    /// # Panics
    /// If the tenant fails.
    #[must_use]
    pub fn start(service: &Service, tenant: &str, workload: &'static str) -> Self {
        let shared = Arc::new(Shared::default());
        let (socket, tenant) = (service.socket(), tenant.to_owned());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let gpu = connect(&socket, &tenant).expect("a bystander connects");
            let bench = Bench::set_up(&gpu, workload, Size::Tiny, 7).expect("a bystander sets up");
            // Relaxed: a flag and a counter, which publish nothing else.
            while !theirs.stop.load(Ordering::Relaxed) {
                bench.run(&gpu).expect("a bystander notices nothing");
                theirs.verified.fetch_add(1, Ordering::Relaxed);
            }
        });
        let bystander = Self {
            shared,
            thread: Some(thread),
        };
        bystander.await_more(1);
        bystander
    }

    /// Returns how many launches were verified so far.
    #[must_use]
    pub fn verified(&self) -> u64 {
        // Relaxed: as above.
        self.shared.verified.load(Ordering::Relaxed)
    }

    /// Waits until that many more launches were verified.
    ///
    /// # Panics
    /// If the tenant has failed.
    pub fn await_more(&self, launches: u64) {
        let start = self.verified();
        for goal in start + 1..=start + launches {
            until("a launch of a bystander", || {
                let failed = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
                assert!(!failed, "a bystander has failed, see its panic above");
                (self.verified() >= goal).then_some(())
            });
        }
    }

    /// Lets it launch once more, ends it, and gives the number of launches.
    ///
    /// # Panics
    /// If anything of it failed or was wrong.
    pub fn finish(mut self) -> u64 {
        self.await_more(1);
        // Relaxed: as above.
        self.shared.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is taken once");
        thread.join().expect("a bystander notices nothing");
        self.verified()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        // Relaxed: as above.
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
