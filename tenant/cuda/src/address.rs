//! Addresses of the program's own memory, and what the kernel says of them.
//!
//! Rule: nothing here follows an address itself; the kernel does, and says where nothing is.

use std::sync::LazyLock;

/// Returns the pointer that an address in this process stands for; the program handed the address over as a number.
#[must_use]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the library runs where pointers have 64 bits"
)]
pub fn pointer(address: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// Copies what this process has of the bytes at `address`, without a fault where it has none, and returns how many
/// these are.
///
/// `None`: the system does not let the process look, so that nothing is known. "Bad address" is the one error with
/// which the kernel answers the question; any other, as of a sandbox, which may choose one, or of a kernel without the
/// call, says nothing about the memory.
pub fn look(address: u64, into: &mut [u8]) -> Option<usize> {
    let local = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let remote = libc::iovec {
        iov_base: pointer(address).cast(),
        iov_len: into.len(),
    };
    // SAFETY: both vectors have one element. The kernel writes to the local one alone, which is the whole of a slice
    // that is borrowed for that, and checks the other addresses itself.
    let copied = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    match usize::try_from(copied) {
        Ok(copied) => Some(copied),
        Err(_) => {
            let error = std::io::Error::last_os_error().raw_os_error();
            (error == Some(libc::EFAULT)).then_some(0)
        }
    }
}

/// Returns whether the process has memory at `address`. Where the system does not let it look, the program is believed.
pub fn is_mapped(address: u64) -> bool {
    look(address, &mut [0]) != Some(0)
}

/// Returns whether the process has memory where `len` bytes at `address` begin and where they end, as [`is_mapped`].
pub fn has_ends(address: u64, len: u64) -> bool {
    let last = address.checked_add(len.saturating_sub(1));
    last.is_some_and(|last| is_mapped(address) && is_mapped(last))
}

/// Returns whether the page at `address` is there and can be written. Where the system cannot say, as before Linux
/// 5.14, the program is believed.
pub fn is_writable(address: u64) -> bool {
    static CAN_SAY: LazyLock<bool> = LazyLock::new(|| {
        let own = 0_u8;
        populates((&raw const own).addr() as u64)
    });
    populates(address) || !*CAN_SAY
}

/// Returns whether the kernel makes the page at an address ready to be written. What is in it stays.
fn populates(address: u64) -> bool {
    // SAFETY: it has no preconditions.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let start = pointer(address & !(page - 1)).cast();
    // SAFETY: the advice changes nothing in the page, and the kernel checks the address itself.
    unsafe { libc::madvise(start, 1, libc::MADV_POPULATE_WRITE) == 0 }
}
