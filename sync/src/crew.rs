//! A crew of threads that share the items of one job after another.
//!
//! A job is a function of an item's number. Each thread has a share, an equal part of the items, and takes those first,
//! so that an item mostly meets the caches of the thread that had it last time; then it helps with the shares of the
//! others. The caller works too and waits for *items*, never for threads: a thread that the host does not run takes no
//! items, and nothing waits for it.
//!
//! How a claim is safe. A share's ticket holds the job's number and the next item. A thread reads the ticket, then
//! the job's function, and claims by exchanging the ticket for the next one. That succeeds only while the ticket
//! still names the job, hence while the item was unclaimed, hence while the caller was waiting for it and the
//! function was the job's.
//! Invariants, which `tests/loom_crew.rs` explores: **C1** every item of a job runs exactly once; **C2** no item runs
//! after `run` returned; **C3** what an item wrote is seen by the caller and by the items of the next job.

use crate::shim::{
    Arc, AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, CachePadded, JoinHandle, Ordering, fence,
    spin_loop, thread,
};

/// Bits of a ticket that hold the next item.
const ITEM_BITS: u32 = 24;
const ITEM_MASK: u64 = (1 << ITEM_BITS) - 1;
/// Rounds of waiting before a thread lets others run, and before it goes to sleep.
#[cfg(not(loom))]
const SPINS: (u32, u32) = (400, 600);
#[cfg(loom)]
const SPINS: (u32, u32) = (0, 1);
/// Number of a job that tells the threads to end.
const QUIT: u64 = u64::MAX;

/// The items of one thread, and whether that thread sleeps.
#[derive(Debug)]
struct Share {
    ticket: AtomicU64,
    sleeping: AtomicBool,
}

#[derive(Debug)]
struct Shared {
    /// Number of the present job.
    job: AtomicU64,
    run: AtomicPtr<()>,
    data: AtomicPtr<()>,
    count: AtomicUsize,
    panicked: AtomicBool,
    shares: Box<[CachePadded<Share>]>,
    /// Items that have run.
    done: CachePadded<AtomicUsize>,
}

type Run = unsafe fn(*const (), usize);

/// The crew.
#[derive(Debug)]
pub struct Crew {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    jobs: u64,
}

impl Crew {
    /// Returns a crew of `threads` threads, the caller's included; zero counts as one.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let share = |_| {
            CachePadded::new(Share {
                ticket: AtomicU64::new(ITEM_MASK),
                sleeping: AtomicBool::new(false),
            })
        };
        let shared = Arc::new(Shared {
            job: AtomicU64::new(0),
            run: AtomicPtr::new(std::ptr::null_mut()),
            data: AtomicPtr::new(std::ptr::null_mut()),
            count: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            shares: (0..threads.max(1)).map(share).collect(),
            done: CachePadded::new(AtomicUsize::new(0)),
        });
        let threads = (1..threads)
            .map(|own| {
                let shared = shared.clone();
                thread::spawn(move || shared.work(own))
            })
            .collect();
        Self {
            shared,
            threads,
            jobs: 0,
        }
    }

    /// Returns the number of threads, the caller's included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Runs `item(0)` to `item(count - 1)`, each once, in any order, and returns when all are done.
    ///
    /// # Panics
    /// If an item panicked, or if there are more items than a ticket can count, 2^24 - 1.
    pub fn run<F: Fn(usize) + Sync>(&mut self, count: usize, item: &F) {
        if self.threads.is_empty() || count < 2 {
            (0..count).for_each(item);
            return;
        }
        assert!((count as u64) < ITEM_MASK, "{count} items are too many");
        let shared = &*self.shared;
        self.jobs += 1;
        // Until the shares are filled their tickets name the new job and no item, so that no claim can succeed
        // while the function is exchanged.
        for share in &shared.shares {
            let nothing = self.jobs << ITEM_BITS | ITEM_MASK;
            // Relaxed: published by the three release stores below.
            share.ticket.store(nothing, Ordering::Relaxed);
        }
        let run = call::<F> as Run as *mut ();
        let data = std::ptr::from_ref(item).cast_mut().cast();
        // Release, all three: pairs with the acquiring loads in `help`, which then see the tickets from above.
        shared.run.store(run, Ordering::Release);
        shared.data.store(data, Ordering::Release);
        shared.count.store(count, Ordering::Release);
        // Relaxed: the tickets' release stores below publish both.
        shared.done.store(0, Ordering::Relaxed);
        shared.panicked.store(false, Ordering::Relaxed);
        for (number, share) in shared.shares.iter().enumerate() {
            let first = shared.first(number, count) as u64;
            let ticket = self.jobs << ITEM_BITS | first;
            // Release: pairs with the load in `help`, so that who claims an item sees the job and all before it.
            share.ticket.store(ticket, Ordering::Release);
        }
        // Release: pairs with the load in `work`.
        shared.job.store(self.jobs, Ordering::Release);
        self.wake();
        shared.help(self.jobs, 0);
        let mut rounds = 0;
        // Acquire: pairs with the release in `help`, so that the items' effects are seen here.
        while shared.done.load(Ordering::Acquire) < count {
            rest(&mut rounds);
        }
        // Relaxed: set before the release increment of `done` that was just acquired.
        assert!(
            !shared.panicked.load(Ordering::Relaxed),
            "an item of a crew's job panicked"
        );
    }

    /// Wakes the threads that sleep.
    fn wake(&self) {
        // Pairs with the fence in `sleep`: either the thread sees the new job or its flag is seen here.
        fence(Ordering::SeqCst);
        for (share, thread) in self.shared.shares[1..].iter().zip(&self.threads) {
            // Relaxed: ordered by the fence.
            if share.sleeping.load(Ordering::Relaxed) {
                thread.thread().unpark();
            }
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // Release: pairs with the load in `work`; nothing is published with it, the threads only end.
        self.shared.job.store(QUIT, Ordering::Release);
        self.wake();
        for thread in self.threads.drain(..) {
            // A thread that panicked has reported it already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Returns the first item of a share.
    fn first(&self, share: usize, count: usize) -> usize {
        share * count / self.shares.len()
    }

    /// Runs one thread of the crew until the crew ends.
    fn work(&self, own: usize) {
        let (mut seen, mut rounds) = (0, 0);
        loop {
            // Acquire: pairs with the store in `run`.
            let job = self.job.load(Ordering::Acquire);
            if job == QUIT {
                return;
            }
            if job != seen {
                seen = job;
                rounds = 0;
                self.help(job, own);
            } else if rounds < SPINS.1 {
                rest(&mut rounds);
            } else {
                self.sleep(own, seen);
                rounds = 0;
            }
        }
    }

    fn sleep(&self, own: usize, seen: u64) {
        let flag = &self.shares[own].sleeping;
        // Relaxed: the fence orders it before the look at the job.
        flag.store(true, Ordering::Relaxed);
        // Pairs with the fence in `wake`.
        fence(Ordering::SeqCst);
        // Relaxed: `work` loads it again.
        if self.job.load(Ordering::Relaxed) == seen {
            thread::park();
        }
        // Relaxed: a stale flag costs one needless wake-up.
        flag.store(false, Ordering::Relaxed);
    }

    /// Claims and runs items of `job`, those of share `own` first, until none is left.
    fn help(&self, job: u64, own: usize) {
        let shares = self.shares.len();
        for number in (0..shares).map(|step| (own + step) % shares) {
            let share = &self.shares[number];
            loop {
                // Acquire: pairs with the stores in `run`, so that the function read next is not an older one.
                let ticket = share.ticket.load(Ordering::Acquire);
                let at = ticket & ITEM_MASK;
                if ticket >> ITEM_BITS != job || at == ITEM_MASK {
                    break;
                }
                // If a value is a later job's, the exchange below sees that job's ticket and fails.
                // Acquire, all three: pairs with the stores in `run`.
                let run = self.run.load(Ordering::Acquire);
                let data = self.data.load(Ordering::Acquire);
                let count = self.count.load(Ordering::Acquire);
                #[allow(clippy::cast_possible_truncation, reason = "24 bits")]
                let item = at as usize;
                if item >= self.first(number + 1, count) {
                    break;
                }
                // Pairs with the stores in `run` and orders claims; relaxed: a failure is read again at the top.
                let (claimed, failed) = (Ordering::AcqRel, Ordering::Relaxed);
                let claim = share
                    .ticket
                    .compare_exchange(ticket, ticket + 1, claimed, failed);
                if claim.is_ok() {
                    self.run_item(run, data, item);
                }
            }
        }
    }

    fn run_item(&self, run: *mut (), data: *mut (), item: usize) {
        let work = std::panic::AssertUnwindSafe(|| {
            // SAFETY: the claim succeeded, so `run` and `data` are the job's (see the module's text): a function
            // of this type, and a reference that the waiting caller keeps alive until `done` counts this item.
            unsafe {
                let run: Run = std::mem::transmute::<*mut (), Run>(run);
                run(data, item);
            }
        });
        if std::panic::catch_unwind(work).is_err() {
            // Relaxed: published by the increment below.
            self.panicked.store(true, Ordering::Relaxed);
        }
        // Release: pairs with the caller's acquiring load.
        self.done.fetch_add(1, Ordering::Release);
    }
}

/// Runs one item of a job whose function is an `F`.
///
/// # Safety
/// `data` must come from a reference to an `F` that is still alive.
unsafe fn call<F: Fn(usize) + Sync>(data: *const (), item: usize) {
    // SAFETY: the caller's promise.
    unsafe { (*data.cast::<F>())(item) };
}

/// Waits for one round.
fn rest(rounds: &mut u32) {
    *rounds = rounds.saturating_add(1);
    if *rounds > SPINS.0 {
        thread::yield_now();
    } else {
        spin_loop();
    }
}

/// Items that the threads of a job may each have for themselves.
#[derive(Debug)]
pub struct Each<'a, T> {
    first: *mut T,
    count: usize,
    whole: std::marker::PhantomData<&'a mut [T]>,
}

// SAFETY: an item is reached only through `get`, whose callers hold different items.
unsafe impl<T: Send> Sync for Each<'_, T> {}

impl<'a, T> Each<'a, T> {
    /// Returns the items of a slice.
    #[must_use]
    pub fn new(items: &'a mut [T]) -> Self {
        Self {
            first: items.as_mut_ptr(),
            count: items.len(),
            whole: std::marker::PhantomData,
        }
    }

    /// Returns the number of items.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns an item.
    ///
    /// # Safety
    /// Nobody else may hold this item at the same time.
    ///
    /// # Panics
    /// If there is no such item.
    #[must_use]
    #[allow(clippy::mut_from_ref, reason = "that is its purpose")]
    pub unsafe fn get(&self, at: usize) -> &mut T {
        assert!(at < self.count);
        // SAFETY: inside the slice, and the caller promises that nobody else holds it.
        unsafe { &mut *self.first.add(at) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Crew, Each};

    #[test]
    fn every_item_runs_once_in_every_job() {
        for threads in [1, 2, 4] {
            let mut crew = Crew::new(threads);
            for count in [0, 1, 2, 3, 17, 1000] {
                let mut items = vec![0_u32; count];
                for round in 1..=20 {
                    let each = Each::new(&mut items);
                    crew.run(count, &|at| {
                        // SAFETY: `at` is this call's own.
                        unsafe { *each.get(at) += 1 };
                    });
                    assert!(items.iter().all(|n| *n == round));
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "an item of a crew's job panicked")]
    fn a_panic_reaches_the_caller() {
        Crew::new(2).run(2, &|_| panic!("planted"));
    }
}
