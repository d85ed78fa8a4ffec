//! Host memory that kernels reach: pinned memory at its own addresses, registered memory at addresses of the device's.

use crate::session::{NON_BLOCKING, Session, code, invalid, ok, refused};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};
use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::fs::File;
use std::num::NonZeroUsize;
use std::ptr::{from_mut, null_mut};
use std::time::{Duration, Instant};

scenarios! {
    mapped: kernels_use_pinned_memory host_and_kernel_see_each_other_at_once copies_and_fills_take_its_addresses
        registered_memory_has_device_addresses memory_that_cannot_be_registered_for_kernels
        it_is_given_back_while_a_kernel_uses_it bounds_are_kept many_at_once memory_whose_addresses_are_taken
        it_is_gone_or_another_when_it_is_given_back;
}

/// `CU_MEMHOSTALLOC_DEVICEMAP`.
pub(crate) const DEVICE_MAP: u32 = 2;

fn host(session: &Session, words: usize) -> *mut u32 {
    let mut memory = null_mut();
    ok(session.cuMemHostAlloc(&mut memory, words * 4, DEVICE_MAP));
    memory.cast()
}

pub(crate) fn address_of(session: &Session, memory: *mut u32) -> u64 {
    let mut address = 0;
    ok(session.cuMemHostGetDevicePointer_v2(&mut address, memory.cast(), 0));
    address
}

pub(crate) fn read(memory: *mut u32, index: usize) -> u32 {
    // SAFETY: scenarios pass memory of theirs and an index inside it; kernels may write to it meanwhile.
    unsafe { memory.add(index).read_volatile() }
}

pub(crate) fn write(memory: *mut u32, index: usize, value: u32) {
    // SAFETY: as in `read`.
    unsafe { memory.add(index).write_volatile(value) };
}

fn kernels_use_pinned_memory() {
    const WORDS: usize = 5000;
    let session = Session::start();
    assert_eq!(session.attribute(19), 1, "CAN_MAP_HOST_MEMORY");
    let memory = host(&session, WORDS);
    let address = address_of(&session, memory);
    assert_eq!(address, memory.addr() as u64, "one space of addresses");
    let inside = address_of(&session, memory.wrapping_add(7));
    assert_eq!(inside, address + 28);
    for index in 0..WORDS {
        write(memory, index, u32::try_from(index).expect("few"));
    }
    let add = session.function(c"add");
    ok(session.launch(add, (40, 128), 0, &[address, WORDS as u64]));
    ok(session.cuCtxSynchronize());
    for index in 0..WORDS {
        assert_eq!(read(memory, index) as usize, index + 5);
    }
    // So is all pinned memory.
    let plain = session.pinned(64);
    ok(session.launch(add, (1, 16), 0, &[plain.addr() as u64, 16]));
    ok(session.cuCtxSynchronize());
    assert_eq!(read(plain, 15), 5);
    invalid(session.cuMemHostGetDevicePointer_v2(&mut 0, memory.cast(), 1));
    invalid(session.cuMemHostGetDevicePointer_v2(&mut 0, null_mut(), 0));
    let own = from_mut(&mut 0_u32).cast();
    invalid(session.cuMemHostGetDevicePointer_v2(&mut 0, own, 0));
    ok(session.cuMemFreeHost(memory.cast()));
    invalid(session.cuMemHostGetDevicePointer_v2(&mut 0, memory.cast(), 0));
}

fn host_and_kernel_see_each_other_at_once() {
    let session = Session::start();
    let memory = host(&session, 64);
    let address = address_of(&session, memory);
    let (watch, next) = (session.function(c"watch"), session.function(c"next"));
    for turn in 1..=3 {
        write(memory, 0, 0);
        let stream = session.stream(NON_BLOCKING);
        // A kernel says that it runs, another waits for the answer.
        write(memory, 16, turn);
        ok(session.launch(next, (1, 1), stream, &[address + 128, address + 64]));
        ok(session.launch(
            watch,
            (1, 1),
            stream,
            &[address, address + 192, u32::MAX.into()],
        ));
        let start = Instant::now();
        while read(memory, 32) != turn + 1 {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "the kernel's word never came"
            );
            std::thread::yield_now();
        }
        refused(session.cuStreamQuery(stream), code::NOT_READY);
        write(memory, 0, 100 + turn);
        ok(session.cuStreamSynchronize(stream));
        assert_eq!(read(memory, 48), 100 + turn);
    }
}

fn copies_and_fills_take_its_addresses() {
    let session = Session::start();
    let (memory, other) = (host(&session, 1024), host(&session, 1024));
    let (at, other_at) = (address_of(&session, memory), address_of(&session, other));
    let device = session.words(&[1, 2, 3, 4]);
    // The functions for device memory take it as such.
    ok(session.cuMemsetD32_v2(at, 9, 1024));
    assert_eq!(
        (read(memory, 0), read(memory, 1023)),
        (9, 9),
        "the fill has ended"
    );
    ok(session.cuMemcpyDtoD_v2(at + 8, device, 16));
    assert_eq!(
        (read(memory, 1), read(memory, 2), read(memory, 5)),
        (9, 1, 4)
    );
    ok(session.cuMemcpyDtoD_v2(other_at, at, 4096));
    assert_eq!(read(other, 5), 4);
    ok(session.cuMemcpyDtoD_v2(device, other_at + 8, 8));
    assert_eq!(session.read(device, 4), [1, 2, 3, 4]);
    ok(session.cuMemcpyHtoD_v2(at, [7_u32, 8].as_ptr().cast(), 8));
    assert_eq!((read(memory, 0), read(memory, 1)), (7, 8));
    assert_eq!(session.read(at, 3), [7, 8, 1]);
    ok(session.cuMemcpyDtoH_v2(other.cast(), at, 12));
    assert_eq!(read(other, 1), 8);
    // In the order of a stream, behind a kernel that writes to it.
    let stream = session.stream(NON_BLOCKING);
    ok(session.launch(
        session.function(c"slow"),
        (1, 1),
        stream,
        &[at, 200_000, 55],
    ));
    ok(session.cuMemcpyAsync(other_at, at, 4, stream));
    ok(session.cuStreamSynchronize(stream));
    assert_eq!(read(other, 0), 55);
    invalid(session.cuMemsetD32_v2(at, 9, 1025));
    invalid(session.cuMemcpyDtoD_v2(at + 4, device, 4096));
}

/// Whole pages of the program's own.
pub(crate) struct Pages {
    start: *mut u32,
    layout: Layout,
}

impl Pages {
    pub(crate) fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes, 4096).expect("whole pages");
        // SAFETY: the layout has a size.
        let start = unsafe { alloc(layout) }.cast();
        Self { start, layout }
    }

    pub(crate) fn start(&self) -> *mut c_void {
        self.start.cast()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated above with that layout, and not used afterwards.
        unsafe { dealloc(self.start.cast(), self.layout) };
    }
}

fn registered_memory_has_device_addresses() {
    const BYTES: usize = 1 << 16;
    let session = Session::start();
    assert_eq!(
        session.attribute(91),
        0,
        "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM"
    );
    let pages = Pages::new(BYTES);
    let words = u32::try_from(BYTES / 4).expect("few");
    for index in 0..words {
        write(pages.start, index as usize, index);
    }
    let add = session.function(c"add");
    for round in 1..=3 {
        ok(session.cuMemHostRegister_v2(pages.start(), BYTES, DEVICE_MAP));
        // As it is registered so, kernels reach it at once.
        let mut known = 0_u64;
        let at = pages.start.addr() as u64;
        ok(session.cuPointerGetAttribute(from_mut(&mut known).cast(), 3, at));
        let address = address_of(&session, pages.start);
        assert_eq!(known, address);
        assert_eq!(
            address_of(&session, pages.start.wrapping_add(3)),
            address + 12
        );
        ok(session.launch(add, (words / 256, 256), 0, &[address, words.into()]));
        ok(session.cuCtxSynchronize());
        for index in 0..words {
            assert_eq!(read(pages.start, index as usize), index + 5 * round);
        }
        // The program's writes are seen, too, at both addresses.
        write(pages.start, 1, 1 + 5 * round);
        assert_eq!(session.read(address, 2), [5 * round, 1 + 5 * round]);
        ok(session.cuMemsetD32_v2(address + 4, 77, 1));
        assert_eq!(read(pages.start, 1), 77);
        write(pages.start, 1, 1 + 5 * round);
        let mut told = 0_u64;
        let mut get = |attribute, of| {
            ok(session.cuPointerGetAttribute(from_mut(&mut told).cast(), attribute, of));
            told
        };
        assert_eq!(
            get(4, address + 4),
            pages.start.addr() as u64 + 4,
            "HOST_POINTER"
        );
        assert_eq!(
            get(3, pages.start.addr() as u64 + 4),
            address + 4,
            "DEVICE_POINTER"
        );
        assert_eq!(get(2, address) & 3, 1, "it is the host's");
        invalid(session.cuMemFree_v2(address));
        ok(session.cuMemHostUnregister(pages.start()));
        invalid(session.cuMemsetD32_v2(address, 1, 1));
    }
    // What was written stays when the program has it alone.
    assert_eq!(read(pages.start, 2), 17);
}

fn memory_that_cannot_be_registered_for_kernels() {
    let session = Session::start();
    let pages = Pages::new(4 * 4096);
    let refuse = |start: *mut c_void, bytes| {
        ok(session.cuMemHostRegister_v2(start, bytes, 0));
        let refusal = session.cuMemHostGetDevicePointer_v2(&mut 0, start, 0);
        refused(refusal, code::NOT_SUPPORTED);
        // Copies take it all the same.
        let device = session.alloc(bytes);
        ok(session.cuMemcpyHtoDAsync_v2(device, start, bytes, 0));
        ok(session.cuStreamSynchronize(0));
        ok(session.cuMemHostUnregister(start));
    };
    refuse(pages.start().wrapping_byte_add(64), 4096);
    refuse(pages.start(), 100);
    let mut own = [0_u8; 3 * 4096];
    let on_stack = own
        .as_mut_ptr()
        .wrapping_add(own.as_ptr().align_offset(4096));
    refuse(on_stack.cast(), 4096);
}

fn it_is_given_back_while_a_kernel_uses_it() {
    let session = Session::start();
    let before = session.free_bytes();
    let slow = session.function(c"slow");
    for _ in 0..20 {
        let memory = host(&session, 4096);
        let address = address_of(&session, memory);
        ok(session.launch(slow, (1, 32), 0, &[address, 20_000, 9]));
        ok(session.cuMemFreeHost(memory.cast()));
        let pages = Pages::new(8192);
        ok(session.cuMemHostRegister_v2(pages.start(), 8192, 0));
        let address = address_of(&session, pages.start);
        ok(session.launch(slow, (1, 32), 0, &[address, 20_000, 9]));
        ok(session.cuMemHostUnregister(pages.start()));
        assert_eq!(read(pages.start, 0), 9, "the kernel has ended");
    }
    assert_eq!(session.free_bytes(), before, "it is no device memory");
    let last = host(&session, 16);
    let address = address_of(&session, last);
    ok(session.cuMemFreeHost(last.cast()));
    // The service releases it soon, once nothing can use it.
    let poke = session.function(c"poke");
    let start = Instant::now();
    let fault = loop {
        ok(session.launch(poke, (1, 1), 0, &[address]));
        match session.cuCtxSynchronize() {
            0 => assert!(
                start.elapsed() < Duration::from_secs(60),
                "it was never released"
            ),
            fault => break fault,
        }
    };
    refused(fault, code::ILLEGAL_ADDRESS);
}

fn it_is_gone_or_another_when_it_is_given_back() {
    const BYTES: usize = 2 * 4096;
    let session = Session::start();
    let size = NonZeroUsize::new(BYTES).expect("two pages");
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let path = std::env::temp_dir().join(format!("gridmux-mapped-{}", std::process::id()));
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).open(&path);
    let file = file.expect("a file");
    file.set_len(BYTES as u64).expect("room");
    std::fs::remove_file(&path).expect("its name");
    for case in 0..3 {
        // SAFETY: the kernel chooses addresses that are free.
        let start = unsafe { mmap_anonymous(None, size, access, MapFlags::MAP_PRIVATE) };
        let start = start.expect("two pages");
        ok(session.cuMemHostRegister_v2(start.as_ptr(), BYTES, DEVICE_MAP));
        // SAFETY: the pages are this scenario's, and nothing refers to them.
        unsafe {
            match case {
                0 => munmap(start, BYTES).expect("unmapped"),
                1 => mprotect(start, 4096, ProtFlags::PROT_NONE).expect("protected"),
                _ => {
                    let flags = MapFlags::MAP_SHARED | MapFlags::MAP_FIXED;
                    mmap(Some(start.addr()), size, access, flags, &file, 0).expect("the file");
                }
            }
        }
        ok(session.cuMemHostUnregister(start.as_ptr()));
        if case == 2 {
            write(start.as_ptr().cast(), 0, 77);
            let mut bytes = [0; 4];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).expect("its bytes");
            assert_eq!(u32::from_ne_bytes(bytes), 77, "it is the file still");
        }
    }
    // Others are not disturbed.
    registered_and_read(&session);
}

/// Registers memory for kernels, has one write to it, and gives it back.
fn registered_and_read(session: &Session) {
    let pages = Pages::new(4096);
    ok(session.cuMemHostRegister_v2(pages.start(), 4096, DEVICE_MAP));
    let address = address_of(session, pages.start);
    ok(session.launch(session.function(c"poke"), (1, 1), 0, &[address]));
    ok(session.cuCtxSynchronize());
    ok(session.cuMemHostUnregister(pages.start()));
    assert_eq!(read(pages.start, 0), 7);
}

fn bounds_are_kept() {
    let session = Session::start();
    let memory = host(&session, 25);
    let address = address_of(&session, memory);
    let poke = session.function(c"poke");
    ok(session.launch(poke, (1, 1), 0, &[address + 96]));
    ok(session.cuCtxSynchronize());
    assert_eq!(read(memory, 24), 7);
    ok(session.launch(poke, (1, 1), 0, &[address + 100]));
    refused(session.cuCtxSynchronize(), code::ILLEGAL_ADDRESS);
}

fn many_at_once() {
    let session = Session::start();
    let add = session.function(c"add");
    for _ in 0..2 {
        let all: Vec<*mut u32> = (0..200).map(|_| host(&session, 16)).collect();
        for memory in &all {
            write(*memory, 3, 4);
            ok(session.launch(add, (1, 16), 0, &[memory.addr() as u64, 16]));
        }
        ok(session.cuCtxSynchronize());
        for memory in all {
            assert_eq!(read(memory, 3), 9);
            ok(session.cuMemFreeHost(memory.cast()));
        }
    }
}

/// Where the program has something at the addresses that pinned memory is given, copies use it all the same.
fn memory_whose_addresses_are_taken() {
    const TAKEN: usize = 256 << 20;
    let session = Session::start();
    let first = host(&session, 1024);
    ok(session.cuMemFreeHost(first.cast()));
    let size = NonZeroUsize::new(TAKEN).expect("not nothing");
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE | MapFlags::MAP_FIXED_NOREPLACE;
    let place = NonZeroUsize::new(first.addr());
    // SAFETY: the kernel refuses addresses where something is.
    let taken = unsafe { mmap_anonymous(place, size, ProtFlags::PROT_NONE, flags) };
    taken.expect("the addresses are free");
    let memory = host(&session, 1024);
    refused(
        session.cuMemHostGetDevicePointer_v2(&mut 0, memory.cast(), 0),
        code::NOT_SUPPORTED,
    );
    let device = session.words(&[1, 2, 3, 4]);
    ok(session.cuMemcpyDtoH_v2(memory.cast(), device, 16));
    assert_eq!((read(memory, 0), read(memory, 3)), (1, 4));
    write(memory, 1, 9);
    ok(session.cuMemcpyHtoDAsync_v2(device, memory.cast(), 16, 0));
    assert_eq!(session.read(device, 4), [1, 9, 3, 4]);
    ok(session.cuMemFreeHost(memory.cast()));
}
