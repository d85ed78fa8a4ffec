//! Values that each thread has for itself until its very end.
//!
//! A program may call the driver from a handler of `atexit` and from the destructor of a key of `pthread_key_create`.
//! Rust's thread-local values are gone by then. These are values of such a key themselves: the main thread's are there
//! until the process ends, and those of other threads until the last round of the destructors of keys. What a
//! destructor of another key makes anew in the last rounds stays.

use crate::status::{CudaResult, Status};
use libc::{c_int, c_void, pthread_key_t};
use std::marker::PhantomData;
use std::sync::OnceLock;

/// How often the C library calls destructors of keys, as long as one sets a value: `PTHREAD_DESTRUCTOR_ITERATIONS` of
/// `limits.h`.
const ROUNDS: c_int = 4;

/// A value for each thread, made when the thread first asks for it.
#[derive(Debug)]
pub(crate) struct PerThread<T> {
    key: OnceLock<Option<pthread_key_t>>,
    values: PhantomData<fn() -> T>,
}

/// A thread's value.
struct Kept<T> {
    key: pthread_key_t,
    /// Rounds of destructors that it has survived.
    rounds: c_int,
    value: T,
}

impl<T: Default + 'static> PerThread<T> {
    /// Makes it, without any value.
    pub(crate) const fn new() -> Self {
        Self {
            key: OnceLock::new(),
            values: PhantomData,
        }
    }

    /// Looks at the calling thread's value.
    ///
    /// # Errors
    /// [`Status::OUT_OF_MEMORY`]: the process has as many keys as it may have.
    #[inline]
    pub(crate) fn with<R>(&self, act: impl FnOnce(&T) -> R) -> CudaResult<R> {
        let key = self.key.get_or_init(new_key::<T>);
        let key = key.ok_or(Status::OUT_OF_MEMORY)?;
        // SAFETY: the key exists, for it is never deleted.
        let mut kept: *const Kept<T> = unsafe { libc::pthread_getspecific(key) }.cast();
        if kept.is_null() {
            kept = keep(key)?;
        }
        // SAFETY: the values of this key are what `keep` made, of this type, and belong to this thread alone, which
        // frees them in `at_thread_end` only; that runs beneath no caller of this function.
        Ok(act(unsafe { &(*kept).value }))
    }
}

/// Makes a key whose values are of that type.
fn new_key<T>() -> Option<pthread_key_t> {
    let mut key = 0;
    // SAFETY: the place is written to only, and the function's code stays mapped until the process ends: the library is
    // linked with `-z nodelete` (`build.rs`).
    let status = unsafe { libc::pthread_key_create(&raw mut key, Some(at_thread_end::<T>)) };
    (status == 0).then_some(key)
}

/// Makes the calling thread's value.
#[cold]
fn keep<T: Default>(key: pthread_key_t) -> CudaResult<*const Kept<T>> {
    let rounds = 0;
    let value = T::default();
    let kept = Box::into_raw(Box::new(Kept { key, rounds, value }));
    // SAFETY: the key exists; the C library hands the value to `at_thread_end` and does nothing else with it.
    if unsafe { libc::pthread_setspecific(key, kept.cast_const().cast()) } == 0 {
        return Ok(kept);
    }
    // SAFETY: it was made of a box above, and nobody else has it.
    drop(unsafe { Box::from_raw(kept) });
    Err(Status::OUT_OF_MEMORY)
}

/// Keeps a thread's value for the next round of destructors, and frees it in the last.
unsafe extern "C" fn at_thread_end<T>(value: *mut c_void) {
    let kept: *mut Kept<T> = value.cast();
    // SAFETY: the C library gives back what `keep` set for this key, of this type, once for each time that it was set.
    let (key, rounds) = unsafe {
        (*kept).rounds += 1;
        ((*kept).key, (*kept).rounds)
    };
    // SAFETY: the key exists, and the value is the one that it had.
    if rounds < ROUNDS && unsafe { libc::pthread_setspecific(key, value) } == 0 {
        return;
    }
    // SAFETY: `keep` made it of a box, and the key does not have it any more.
    drop(unsafe { Box::from_raw(kept) });
}

#[cfg(test)]
mod tests {
    use super::PerThread;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering};

    static DROPPED: AtomicU32 = AtomicU32::new(0);

    #[derive(Debug, Default)]
    struct Counted(Cell<u32>);

    impl Drop for Counted {
        fn drop(&mut self) {
            // Relaxed: joining the thread orders it.
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_thread_has_its_own_value_until_it_ends() {
        static VALUES: PerThread<Counted> = PerThread::new();
        let add = || VALUES.with(|value| value.0.replace(value.0.get() + 1));
        assert_eq!(add(), Ok(0));
        assert_eq!(add(), Ok(1));
        let other = std::thread::spawn(move || (add(), add())).join();
        assert_eq!(other.expect("the thread ends"), (Ok(0), Ok(1)));
        // Relaxed: as above.
        assert_eq!(DROPPED.load(Ordering::Relaxed), 1);
        assert_eq!(add(), Ok(2));
    }
}
