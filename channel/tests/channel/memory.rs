//! What a tenant hands over as memory, honest and not.

use gridmux_channel::memory::{HostPages, MemoryError, Protection, SealedMemfd, TenantBuffer};
use nix::fcntl::{FallocateFlags, FcntlArg, OFlag, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

const BOTH: Protection = Protection {
    read: true,
    write: true,
};
const READ: Protection = Protection {
    read: true,
    write: false,
};

fn memfd(len: i64, seals: SealFlag) -> OwnedFd {
    let fd = memfd_create("test", MFdFlags::MFD_ALLOW_SEALING).unwrap();
    nix::unistd::ftruncate(&fd, len).unwrap();
    fcntl(&fd, FcntlArg::F_ADD_SEALS(seals)).unwrap();
    fd
}

fn sealed(len: u64) -> OwnedFd {
    SealedMemfd::create("test", len)
        .unwrap()
        .as_fd()
        .try_clone_to_owned()
        .unwrap()
}

#[test]
fn a_sealed_memfd_neither_shrinks_nor_grows() {
    let memfd = SealedMemfd::create("test", 8192).unwrap();
    assert!(nix::unistd::ftruncate(&memfd, 4096).is_err());
    assert!(nix::unistd::ftruncate(&memfd, 16384).is_err());
    assert!(fcntl(&memfd, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_WRITE)).is_err());
    assert!(SealedMemfd::create("test", 0).is_err());
    assert!(SealedMemfd::create("test", u64::MAX).is_err());
}

#[test]
fn memory_that_can_vanish_is_refused() {
    let open = memfd(4096, SealFlag::empty());
    let refused = TenantBuffer::new(open, 0, 4096, BOTH);
    assert!(matches!(refused, Err(MemoryError::NotSealed)));
    let short = TenantBuffer::new(sealed(4096), 1, 4096, BOTH);
    assert!(matches!(
        short,
        Err(MemoryError::TooShort {
            actual: 4096,
            claimed: 4097
        })
    ));
    for (offset, size) in [(0, 0), (u64::MAX, 1), (0, u64::MAX)] {
        let refused = TenantBuffer::new(sealed(4096), offset, size, BOTH);
        assert!(
            matches!(refused, Err(MemoryError::Size { .. })),
            "{offset} {size}"
        );
    }
    let file = tempfile::tempfile().unwrap();
    file.set_len(4096).unwrap();
    assert!(TenantBuffer::new(file.into(), 0, 4096, BOTH).is_err());
    let (pipe, _other) = nix::unistd::pipe().unwrap();
    assert!(matches!(
        TenantBuffer::new(pipe, 0, 1, BOTH),
        Err(MemoryError::NotMemfd)
    ));
}

#[test]
fn huge_pages_are_refused() {
    let flags = MFdFlags::MFD_ALLOW_SEALING | MFdFlags::MFD_HUGETLB;
    let Ok(fd) = memfd_create("test", flags) else {
        println!("SKIPPED: this kernel has no huge pages");
        return;
    };
    // Without reserved pages the length cannot be set; the file system alone
    // must be enough to refuse it.
    let _ = nix::unistd::ftruncate(&fd, 2 << 20);
    let _ = fcntl(&fd, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK));
    assert!(matches!(
        TenantBuffer::new(fd, 0, 4096, BOTH),
        Err(MemoryError::NotMemfd)
    ));
}

#[test]
fn a_hole_reads_as_zeroes() {
    let fd = sealed(8192);
    let buffer = TenantBuffer::new(fd.try_clone().unwrap(), 4096, 4096, BOTH).unwrap();
    buffer.write_at(0, &[7; 4096]).unwrap();
    let mode = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    fallocate(&fd, mode, 4096, 4096).unwrap();
    let mut out = [1; 16];
    buffer.read_at(4080, &mut out).unwrap();
    assert_eq!(out, [0; 16]);
    assert!(matches!(
        buffer.read_at(4081, &mut out),
        Err(MemoryError::OutOfBounds { .. })
    ));
    assert!(buffer.write_at(u64::MAX, &out).is_err());
}

#[test]
fn large_copies_are_right_with_holes_and_without_and_fill_none() {
    const SIZE: usize = 1 << 20;
    let memfd = SealedMemfd::create("test", 3 * SIZE as u64).unwrap();
    let fd = memfd.as_fd().try_clone_to_owned().unwrap();
    let blocks = || nix::sys::stat::fstat(&fd).unwrap().st_blocks;
    let own = fd.try_clone().unwrap();
    let buffer = TenantBuffer::new(own, SIZE as u64, 2 * SIZE as u64, BOTH).unwrap();
    let mut out = vec![1; SIZE + 7];
    buffer.read_at(5, &mut out).unwrap();
    assert!(out.iter().all(|byte| *byte == 0));
    assert_eq!(blocks(), 0, "reading a hole takes no memory");
    let data: Vec<u8> = (0..SIZE).map(|n| n.to_le_bytes()[0] ^ 0x5a).collect();
    for _ in 0..2 {
        buffer.write_at(9, &data).unwrap();
        let mut back = vec![0; SIZE];
        buffer.read_at(9, &mut back).unwrap();
        assert!(back == data);
        // The second time there are no holes.
        memfd.fill_holes().unwrap();
    }
    assert!(buffer.read_at(SIZE as u64, &mut out).is_err(), "7 too many");
    assert!(buffer.write_at(SIZE as u64 + 1, &data).is_err());
    // What the file's other half holds is not the buffer's.
    let file = std::fs::File::from(fd);
    let mut first = [1; 64];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut first, SIZE as u64).unwrap();
    assert_eq!(first[..9], [0; 9]);
    assert_eq!(first[9..], data[..55]);
}

#[test]
fn a_large_copy_into_memory_that_may_only_be_read_is_refused() {
    let original = SealedMemfd::create("test", 1 << 20).unwrap();
    original.fill_holes().unwrap();
    let path = format!("/proc/self/fd/{}", original.as_fd().as_raw_fd());
    let reader: OwnedFd = std::fs::File::open(path).unwrap().into();
    let buffer = TenantBuffer::new(reader, 0, 1 << 20, READ).unwrap();
    let mut out = vec![1; 1 << 20];
    buffer.read_at(0, &mut out).unwrap();
    assert!(out.iter().all(|byte| *byte == 0));
    assert!(buffer.write_at(0, &out).is_err());
}

#[test]
fn writes_cannot_be_made_to_grow_the_file() {
    let fd = memfd(4096, SealFlag::F_SEAL_SHRINK);
    let buffer = TenantBuffer::new(fd.try_clone().unwrap(), 0, 4096, BOTH).unwrap();
    fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_APPEND)).unwrap();
    assert!(buffer.write_at(0, &[1; 64]).is_err());
    assert_eq!(nix::sys::stat::fstat(&fd).unwrap().st_size, 4096);
    let stuck = memfd(4096, SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL);
    assert!(matches!(
        TenantBuffer::new(stuck, 0, 4096, BOTH),
        Err(MemoryError::CanGrow)
    ));
}

#[test]
fn a_mapping_allows_what_its_descriptor_allows() {
    let original = sealed(4096);
    let path = format!("/proc/self/fd/{}", original.as_raw_fd());
    let reader: OwnedFd = std::fs::File::open(path).unwrap().into();
    let refused = TenantBuffer::new(reader.try_clone().unwrap(), 0, 4096, BOTH);
    assert!(matches!(refused, Err(MemoryError::AccessMode)));
    TenantBuffer::new(reader, 0, 4096, READ).unwrap();
}

#[test]
fn copies_into_holes_take_memory_of_ours_up_to_a_limit() {
    const PAGE: u64 = 4096;
    let pages = Arc::new(HostPages::new(2 * PAGE));
    let file = sealed(16 * PAGE);
    let buffer = |fd: OwnedFd| {
        let buffer = TenantBuffer::new(fd, 0, 16 * PAGE, BOTH).unwrap();
        buffer.charged_to(Arc::clone(&pages))
    };
    let holed = buffer(file.try_clone().unwrap());
    holed.write_at(0, b"one").unwrap();
    holed.write_at(1, b"the same page").unwrap();
    holed.write_at(5 * PAGE, b"two").unwrap();
    let refused = holed.write_at(9 * PAGE, b"three").unwrap_err();
    assert!(matches!(refused, MemoryError::Holes { .. }), "{refused}");
    assert!(refused.to_string().contains("fallocate"), "{refused}");
    let whole = SealedMemfd::create("whole", 16 * PAGE).unwrap();
    whole.fill_holes().unwrap();
    buffer(whole.as_fd().try_clone_to_owned().unwrap())
        .write_at(9 * PAGE, b"memory of its owner's")
        .unwrap();
}

#[test]
fn pinned_memory_has_no_holes_and_gets_none() {
    let pinnable = || {
        let memfd = SealedMemfd::create_pinnable("test", 16384).unwrap();
        memfd.as_fd().try_clone_to_owned().unwrap()
    };
    let buffer = |fd| TenantBuffer::new(fd, 4096, 8192, BOTH).unwrap();
    let write = |fd: &OwnedFd, at: i64, len| nix::sys::uio::pwrite(fd, &vec![1; len], at).unwrap();
    assert!(matches!(
        buffer(pinnable()).pin(),
        Err(MemoryError::Hole { at: 4096 })
    ));
    let later = pinnable();
    write(&later, 4096, 4096);
    let hole = buffer(later).pin();
    assert!(
        matches!(hole, Err(MemoryError::Hole { at: 8192 })),
        "{hole:?}"
    );
    assert!(matches!(
        buffer(sealed(16384)).pin(),
        Err(MemoryError::CanHaveHoles)
    ));
    let whole = pinnable();
    write(&whole, 4096, 8192);
    let own = whole.try_clone().unwrap();
    let pinned = buffer(whole);
    pinned.pin().unwrap();
    pinned.pin().unwrap();
    let punch = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    assert!(fallocate(&own, punch, 4096, 4096).is_err());
    assert!(nix::unistd::ftruncate(&own, 0).is_err());
    assert!(pinned.write_at(0, &[1]).is_err(), "it is written as memory");
    let mut byte = [0];
    pinned.read_at(0, &mut byte).unwrap();
    assert_eq!(byte, [1]);
}
