//! What a program calls its ranges, domains and strings: bounded, and read without a fault wherever it points.
//!
//! NVTX asks that a name ends with a zero and stays readable during the call; one that does neither is cut at the end
//! of what is there. A page is asked of the kernel before it is read, which also has it in memory when an eBPF
//! program, which waits for no page, reads it.
//!
//! Rule: a handle is the address of a copy that stays; it is handed to the kernel's reader and never followed here but
//! as a name, as any other address of the program's.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most bytes of a name.
pub(super) const MOST: usize = 64;
/// Most copies of a process: programs register what they repeat.
const MOST_COPIES: usize = 1 << 16;
/// The name of all domains and strings behind that: null would be the program's own domain.
const TOO_MANY: &CStr = c"(too many names)";
/// Bytes of a page on the machines that have probes.
const PAGE: usize = 4096;
/// A character of a wide string.
type Wide = u32;

/// A name in UTF-8, or what a program takes for that.
pub(super) enum Name {
    /// Where it stands in the program, and its bytes.
    There(*const u8, usize),
    /// Made of a wide string.
    Made([u8; MOST], usize),
}

impl Name {
    /// Makes none.
    pub(super) const NONE: Self = Self::There(std::ptr::null(), 0);

    /// Finds the end of a string of bytes.
    pub(super) fn of_bytes(text: *const c_char) -> Self {
        let text = text.cast::<u8>();
        let there = readable(text, MOST);
        // SAFETY: as many bytes are readable, and the program keeps them during the call.
        let length = (0..there).find(|&at| unsafe { text.add(at).read_volatile() } == 0);
        match length.unwrap_or(there) {
            0 => Self::NONE,
            length => Self::There(text, length),
        }
    }

    /// Makes one of a wide string.
    pub(super) fn of_wide(text: *const Wide) -> Self {
        let there = readable(text.cast(), MOST * size_of::<Wide>()) / size_of::<Wide>();
        let (mut bytes, mut length) = ([0; MOST], 0);
        for at in 0..there {
            // SAFETY: as many bytes are readable, and the program keeps them during the call.
            let unit = unsafe { text.add(at).read_unaligned() };
            let char = char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
            let end = length + char.len_utf8();
            if unit == 0 || end > MOST {
                break;
            }
            char.encode_utf8(&mut bytes[length..]);
            length = end;
        }
        Self::Made(bytes, length)
    }

    /// Returns where it stands, for a reader outside of the program, and its bytes.
    pub(super) fn place(&self) -> (u64, u64) {
        match self {
            Self::There(text, length) => (text.expose_provenance() as u64, *length as u64),
            Self::Made(bytes, length) => {
                (bytes.as_ptr().expose_provenance() as u64, *length as u64)
            }
        }
    }

    /// Makes a copy that stays and ends with a zero; null where there is no name, and the same one for all where there
    /// are too many.
    pub(super) fn copied(&self) -> *const c_void {
        static COPIES: AtomicUsize = AtomicUsize::new(0);
        self.copied_within(&COPIES)
    }

    fn copied_within(&self, copies: &AtomicUsize) -> *const c_void {
        let bytes = match self {
            Self::There(_, 0) | Self::Made(_, 0) => return std::ptr::null(),
            // SAFETY: `of_bytes` found as many readable, and the program keeps them during the call.
            Self::There(text, length) => unsafe { std::slice::from_raw_parts(*text, *length) },
            Self::Made(bytes, length) => &bytes[..*length],
        };
        // Relaxed: it only counts. Threads that meet at the limit may go over it by their number.
        if copies.load(Ordering::Relaxed) >= MOST_COPIES {
            return TOO_MANY.as_ptr().cast();
        }
        // relaxed: as above.
        copies.fetch_add(1, Ordering::Relaxed);
        let copy = [bytes, &[0]].concat().into_boxed_slice();
        Box::leak(copy).as_ptr().cast()
    }
}

/// Returns how many of the bytes from `start` on can be read, up to `most`; 0 of a null pointer.
fn readable(start: *const u8, most: usize) -> usize {
    if start.is_null() {
        return 0;
    }
    let begin = start.addr();
    let Some(end) = begin.checked_add(most) else {
        return 0;
    };
    let mut page = begin - begin % PAGE;
    while page < end {
        // Linux before 5.14 knows no such advice, not even for no bytes: there a name is read as NVTX allows.
        if !is_populated(page, PAGE) && is_populated(page, 0) {
            return page.saturating_sub(begin);
        }
        page += PAGE;
    }
    most
}

/// Has the kernel bring bytes of a page into memory; returns whether they can be read. The program's `errno` stays.
fn is_populated(page: usize, bytes: usize) -> bool {
    let place = std::ptr::without_provenance_mut(page);
    // SAFETY: the C library returns where this thread's `errno` is, which stays as long as the thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { errno.read() };
    // SAFETY: the call brings pages into memory, or refuses and sets `errno`, which is put back below; it changes no
    // byte of the program's.
    let is_there = unsafe { libc::madvise(place, bytes, libc::MADV_POPULATE_READ) == 0 };
    // SAFETY: as above.
    unsafe { errno.write(before) };
    is_there
}

#[cfg(test)]
mod tests {
    use super::{MOST, MOST_COPIES, Name, TOO_MANY};
    use std::ffi::c_char;
    use std::sync::atomic::AtomicUsize;

    fn text(name: &Name) -> Vec<u8> {
        let (at, length) = name.place();
        let length = usize::try_from(length).unwrap();
        assert!(length <= MOST);
        if length == 0 {
            return Vec::new();
        }
        let at = std::ptr::with_exposed_provenance::<u8>(usize::try_from(at).unwrap());
        // SAFETY: a name in this test stands as long as its strings.
        unsafe { std::slice::from_raw_parts(at, length) }.to_vec()
    }

    /// Returns the last bytes of a page behind which nothing can be read.
    fn at_the_end_of_a_page(bytes: &[u8]) -> *const u8 {
        // SAFETY: the kernel chooses two pages of this process; nobody else has them, and they stay.
        unsafe {
            let (read, flags) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            );
            let pages = libc::mmap(std::ptr::null_mut(), 8192, read, flags, -1, 0).cast::<u8>();
            assert_eq!(
                libc::mprotect(pages.add(4096).cast(), 4096, libc::PROT_NONE),
                0
            );
            let start = pages.add(4096 - bytes.len());
            start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            start
        }
    }

    #[test]
    fn names_are_bounded_and_end_with_what_can_be_read() {
        let of = |bytes: *const u8| text(&Name::of_bytes(bytes.cast::<c_char>()));
        assert_eq!(of(std::ptr::null()), b"");
        assert_eq!(of(c"".as_ptr().cast()), b"");
        assert_eq!(of(c"load data".as_ptr().cast()), b"load data");
        let long = vec![b'x'; 1 << 20];
        assert_eq!(of(long.as_ptr()), vec![b'x'; MOST]);
        assert_eq!(of(at_the_end_of_a_page(b"no end")), b"no end");
        assert_eq!(of(at_the_end_of_a_page(b"end\0")), b"end");
        // Nothing is there at all.
        for nowhere in [8usize, 4096, usize::MAX - 8, usize::MAX / 2] {
            assert_eq!(
                of(std::ptr::without_provenance(nowhere)),
                b"",
                "{nowhere:#x}"
            );
        }
        let invalid = [0xff, 0xfe, 0];
        assert_eq!(of(invalid.as_ptr()), [0xff, 0xfe]);
    }

    #[test]
    fn wide_names_become_utf_8() {
        let of = |units: &[u32]| text(&Name::of_wide(units.as_ptr()));
        let units: Vec<u32> = "größe 图\0".chars().map(u32::from).collect();
        assert_eq!(of(&units), "größe 图".as_bytes());
        assert_eq!(of(&[0xd800, 0x11_0000, 0]), "\u{fffd}\u{fffd}".as_bytes());
        // A character that has no room any more is left out whole.
        assert_eq!(of(&[u32::from('图'); 100]).len(), 63);
        assert_eq!(text(&Name::of_wide(std::ptr::null())), b"");
        let cut: Vec<u8> = [97u32, 98].into_iter().flat_map(u32::to_ne_bytes).collect();
        assert_eq!(
            text(&Name::of_wide(at_the_end_of_a_page(&cut).cast())),
            b"ab"
        );
    }

    #[test]
    fn a_copy_stays_when_its_original_goes() {
        let original = std::ffi::CString::new("kept").unwrap();
        let copy = Name::of_bytes(original.as_ptr()).copied();
        drop(original);
        assert_eq!(text(&Name::of_bytes(copy.cast())), b"kept");
        assert!(Name::NONE.copied().is_null());
    }

    #[test]
    fn behind_too_many_copies_all_have_one_name_and_none_is_null() {
        let copies = AtomicUsize::new(MOST_COPIES - 1);
        let of = |bytes: &std::ffi::CStr| Name::of_bytes(bytes.as_ptr()).copied_within(&copies);
        assert_eq!(text(&Name::of_bytes(of(c"last").cast())), b"last");
        let (one, other) = (of(c"one"), of(c"other"));
        assert_eq!(one, other);
        assert_eq!(text(&Name::of_bytes(one.cast())), TOO_MANY.to_bytes());
    }

    #[test]
    fn a_name_that_cannot_be_read_leaves_errno_as_it_was() {
        // SAFETY: the C library returns where this thread's `errno` is.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        unsafe { errno.write(77) };
        let nowhere = Name::of_bytes(std::ptr::without_provenance(8));
        // SAFETY: as above.
        assert_eq!((nowhere.place().1, unsafe { errno.read() }), (0, 77));
    }
}
