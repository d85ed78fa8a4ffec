//! Memory of the program's that kernels reach, in children made by `fork`: it is the parent's pages that kernels reach,
//! and a child gets a copy, as of any memory of its own.
//!
//! The pages are shared mappings, which a child would have in common with its parent. Before each `fork` of the C
//! library they are copied to private pages, which stand in their place in the child and are dropped in the parent.
//! Where there is no memory for a copy the child has the parent's pages.
//!
//! Rules: the list is locked from before a `fork` until after it, and in a child nothing of it is used any more, not
//! its lock either. Handlers allocate nothing.

use crate::host_map::HostMap;
use parking_lot::Mutex;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// Shared pages in the place of the program's own.
#[derive(Debug)]
struct Pages {
    start: NonNull<c_void>,
    len: usize,
    /// While the process forks, what stands in their place in the child.
    copy: Option<HostMap>,
}

// SAFETY: the address is that of pages that whoever added them takes back before they go.
unsafe impl Send for Pages {}

/// All shared pages of the process. Who changes what stands at addresses holds it meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Forked(Vec<Pages>);

static FORKED: Mutex<Forked> = Mutex::new(Forked(Vec::new()));
/// The process that the list is of.
static PROCESS: OnceLock<u32> = OnceLock::new();

/// Does something with the list while nothing forks; nothing in a child of the process that it is of.
pub(crate) fn with<T>(act: impl FnOnce(&mut Forked) -> T) -> Option<T> {
    let process = PROCESS.get_or_init(|| {
        // SAFETY: the handlers may be called at any time from now on, and do what the C library asks of such.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        std::process::id()
    });
    (*process == std::process::id()).then(|| act(&mut FORKED.lock()))
}

impl Forked {
    /// Adds pages, which stay mapped until they are removed.
    pub(crate) fn add(&mut self, start: NonNull<c_void>, len: usize) {
        let copy = None;
        self.0.push(Pages { start, len, copy });
    }

    /// Removes pages.
    pub(crate) fn remove(&mut self, start: NonNull<c_void>) {
        self.0.retain(|pages| pages.start != start);
    }
}

thread_local! {
    /// The thread forks, and has the list locked.
    static FORKS: Cell<bool> = const { Cell::new(false) };
}

/// Locks the list and copies the pages.
extern "C" fn before() {
    if PROCESS.get() != Some(&std::process::id()) {
        return;
    }
    let mut forked = FORKED.lock();
    for pages in &mut forked.0 {
        let copy = HostMap::private(pages.len).ok();
        pages.copy = copy.filter(|copy| is_copied(pages.start.as_ptr(), copy.start(), pages.len));
    }
    // Unlocked by `in_parent`; in the child it is used no more.
    std::mem::forget(forked);
    FORKS.set(true);
}

/// Drops the copies and unlocks the list.
extern "C" fn in_parent() {
    if !FORKS.replace(false) {
        return;
    }
    // SAFETY: this thread locked the list in `before`, whose guard is gone, so that nobody else has a reference.
    let forked = unsafe { &mut *FORKED.data_ptr() };
    for pages in &mut forked.0 {
        pages.copy = None;
    }
    // SAFETY: `before` locked it on this thread and forgot the guard.
    unsafe { FORKED.force_unlock() };
}

/// Puts the copies in the place of the parent's pages.
extern "C" fn in_child() {
    if !FORKS.replace(false) {
        return;
    }
    // SAFETY: the calling thread, the only one of the child, locked the list in `before`, whose guard is gone.
    let forked = unsafe { &mut *FORKED.data_ptr() };
    for pages in &mut forked.0 {
        let Some(mut copy) = pages.copy.take() else {
            continue;
        };
        // SAFETY: the pages are those that stand there in the place of the program's own, and the copy holds what they
        // held as the process forked.
        if unsafe { copy.replace(pages.start) }.is_ok() {
            copy.leave();
        }
    }
}

/// Copies bytes of this process by a system call, which fails where a program has unmapped what it registered.
fn is_copied(from: *const c_void, to: *mut u8, len: usize) -> bool {
    let process = std::process::id().cast_signed();
    let mut done = 0;
    while done < len {
        let part = |start: *mut c_void| libc::iovec {
            iov_base: start.wrapping_byte_add(done),
            iov_len: len - done,
        };
        let (to, from) = (part(to.cast()), part(from.cast_mut()));
        // SAFETY: `to` is a mapping of `len` bytes that nobody else knows; the call writes to it alone, and says so
        // where it cannot read.
        let copied =
            unsafe { libc::process_vm_readv(process, &raw const to, 1, &raw const from, 1, 0) };
        match usize::try_from(copied) {
            Ok(0) | Err(_) => return false,
            Ok(copied) => done += copied,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::is_copied;

    #[test]
    fn what_is_not_mapped_is_not_copied() {
        let (from, mut to) = (vec![7_u8; 10_000], vec![0_u8; 10_000]);
        assert!(is_copied(from.as_ptr().cast(), to.as_mut_ptr(), 10_000));
        assert_eq!(to, from);
        let nowhere = std::ptr::without_provenance(4096);
        assert!(!is_copied(nowhere, to.as_mut_ptr(), 1));
    }
}
