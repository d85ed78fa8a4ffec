//! Contract: memory of a tenant's own that kernels reach stays as it was when it was handed over, whatever the tenant
//! does with it; what could fail under an access, or take memory of the service's, is refused.

use gridmux_channel::control::{ControlCode, ControlReply, ControlRequest};
use gridmux_channel::memory::{Protection, SealedMemfd};
use gridmux_channel::ring::{CompletionStatus, Copy, DeviceCopy, Memset, Operation, Width};
use gridmux_channel::session::CallError;
use gridmux_tests::{RawTenant, Service, ServiceBuilder};
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

const BYTES: u64 = 1 << 16;

fn service() -> Service {
    ServiceBuilder::new(&[("hostile", 1), ("good", 1)])
        .functional()
        .tenant_key("hostile", "memory_limit_bytes = 1048576")
        .start()
}

/// Returns a memfd every byte of which is there, and its file.
fn whole(bytes: u64) -> (OwnedFd, File) {
    let memfd = SealedMemfd::create_pinnable("hostile", bytes).expect("a memfd");
    let fd = memfd.as_fd().try_clone_to_owned().expect("a descriptor");
    let file = File::from(fd.try_clone().expect("a descriptor"));
    let zeroes = vec![0; usize::try_from(bytes).expect("small")];
    file.write_all_at(&zeroes, 0).expect("room");
    (fd, file)
}

fn dma_map(tenant: &mut RawTenant, iova: u64, protection: Protection, fd: &OwnedFd) {
    let mapped = tenant
        .session
        .dma_map(iova, BYTES, 0, protection, fd.as_fd());
    mapped.expect("a mapping");
}

fn map(
    tenant: &mut RawTenant,
    iova: u64,
    bytes: u64,
    counts: bool,
) -> Result<u64, (ControlCode, String)> {
    let request = ControlRequest::MapMemory {
        iova,
        bytes,
        counts,
    };
    match tenant.session.control(&request) {
        Ok(ControlReply::Allocated { address }) => Ok(address),
        Err(CallError::Control(refusal)) => Err((refusal.code, refusal.message)),
        other => panic!("{other:?} where an address or a refusal was due"),
    }
}

fn set(address: u64, len: u64, value: u32) -> Operation {
    Operation::Memset(Memset {
        address,
        len,
        value,
        width: Width::Four,
    })
}

#[test]
fn what_is_not_fit_is_refused() {
    let service = service();
    let mut tenant = RawTenant::connect(&service.socket(), "hostile");
    let (good, _) = whole(BYTES);
    let read_only = 1 << 30;
    dma_map(&mut tenant, read_only, Protection::READ, &good);
    let iova = 1 << 31;
    dma_map(&mut tenant, iova, Protection::READ_WRITE, &good);
    for (what, at, bytes) in [
        ("nowhere", 1 << 40, 4096),
        ("inside a mapping", iova + 4096, 4096),
        ("nothing", iova, 0),
        ("beyond its end", iova, BYTES + 1),
        ("without an end", iova, u64::MAX),
        ("read only", read_only, 4096),
    ] {
        let refused = map(&mut tenant, at, bytes, false).map_err(|(code, _)| code);
        assert_eq!(refused, Err(ControlCode::BadIova), "{what}");
    }
    let more = ControlRequest::MapMemory {
        iova: 1 << 32,
        bytes: 2 << 20,
        counts: true,
    };
    let (large, _) = whole(2 << 20);
    let both = Protection::READ_WRITE;
    let mapped = tenant
        .session
        .dma_map(1 << 32, 2 << 20, 0, both, large.as_fd());
    mapped.expect("a mapping");
    let refused = tenant.session.control(&more);
    assert!(
        matches!(&refused, Err(CallError::Control(error)) if error.code == ControlCode::OutOfMemory),
        "{refused:?}"
    );
    // One that is sealed for good, and one with holes: all of it, and a page of it.
    let sealed = SealedMemfd::create("hostile", BYTES).expect("a memfd");
    sealed.fill_holes().expect("room");
    let sealed = sealed.as_fd().try_clone_to_owned().expect("a descriptor");
    let flags = MFdFlags::MFD_ALLOW_SEALING;
    let empty = memfd_create("hostile", flags).expect("a memfd");
    nix::unistd::ftruncate(&empty, BYTES.cast_signed()).expect("room");
    let shrink = SealFlag::F_SEAL_SHRINK;
    fcntl(&empty, FcntlArg::F_ADD_SEALS(shrink)).expect("a seal");
    let (holed, _) = whole(BYTES);
    let punch = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    fallocate(&holed, punch, 8192, 4096).expect("a hole");
    for (index, (fd, word)) in [(sealed, "F_SEAL_SEAL"), (empty, "hole"), (holed, "0x2000")]
        .iter()
        .enumerate()
    {
        let iova = (index as u64 + 1) << 40;
        dma_map(&mut tenant, iova, Protection::READ_WRITE, fd);
        let refused = map(&mut tenant, iova, BYTES, false);
        let (code, text) = refused.expect_err("it is not fit");
        assert_eq!(code, ControlCode::BadRequest);
        assert!(text.contains(word), "{text}");
    }
    // What was refused left nothing behind.
    let address = map(&mut tenant, iova, BYTES, true).expect("it is fit");
    assert_eq!(
        tenant.submit(set(address, BYTES, 1)).0,
        CompletionStatus::Ok
    );
    assert_eq!(service.statistics().host_restarts, 0);
}

#[test]
fn what_is_mapped_stays_as_it_is() {
    let service = service();
    let host = service.statistics().host_pid;
    let mut tenant = RawTenant::connect(&service.socket(), "hostile");
    let (fd, file) = whole(BYTES);
    let iova = 1 << 31;
    dma_map(&mut tenant, iova, Protection::READ_WRITE, &fd);
    let address = map(&mut tenant, iova, BYTES, false).expect("it is fit");
    let twice = map(&mut tenant, iova, BYTES, false).map_err(|(code, _)| code);
    assert_eq!(twice, Err(ControlCode::BadRequest), "mapped already");
    assert!(
        file.set_len(0).is_err() && file.set_len(4096).is_err(),
        "it cannot shrink"
    );
    assert!(file.set_len(2 * BYTES).is_err(), "it cannot grow");
    let punch = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    assert!(fallocate(&fd, punch, 0, 4096).is_err(), "it gets no holes");
    assert!(
        file.write_all_at(&[1], 0).is_err(),
        "it is written as memory"
    );
    assert_eq!(
        tenant.submit(set(address, BYTES, 0x0101_0101)).0,
        CompletionStatus::Ok
    );
    let mut bytes = [0; 2];
    file.read_exact_at(&mut bytes, BYTES - 2).expect("inside");
    assert_eq!(bytes, [1, 1]);
    // Copies name it by its place in the DMA space as well.
    let device = tenant.alloc(BYTES);
    assert_eq!(
        tenant.submit(set(device, BYTES, 0x0202_0202)).0,
        CompletionStatus::Ok
    );
    let copy = |address| Copy {
        iova,
        address,
        len: 4096,
    };
    assert_eq!(
        tenant.submit(Operation::CopyFromDevice(copy(device))).0,
        CompletionStatus::Ok
    );
    file.read_exact_at(&mut bytes, 4095).expect("inside");
    assert_eq!(bytes, [2, 1]);
    assert_eq!(
        tenant
            .submit(Operation::CopyToDevice(copy(address + 8192)))
            .0,
        CompletionStatus::Ok,
        "from itself to itself"
    );
    // Without its DMA mapping it is the device's all the same, until it is given back.
    tenant.session.dma_unmap(iova, BYTES).expect("unmapped");
    let within = DeviceCopy {
        from: device,
        to: address + 4096,
        len: 4096,
    };
    assert_eq!(
        tenant.submit(Operation::CopyOnDevice(within)).0,
        CompletionStatus::Ok
    );
    file.read_exact_at(&mut bytes, 8191).expect("inside");
    assert_eq!(bytes, [2, 2]);
    let free = ControlRequest::Free { address };
    tenant.session.control(&free).expect("it is there");
    assert!(tenant.session.control(&free).is_err(), "it is gone");
    let late = tenant.submit(set(address, 4, 5));
    assert_eq!(late.0, CompletionStatus::BadAddress, "{}", late.1);
    file.read_exact_at(&mut bytes, 0).expect("inside");
    assert_eq!(bytes, [2, 2], "it holds what it held");
    assert_eq!(service.statistics().host_pid, host);
}

#[test]
fn a_client_maps_no_more_than_its_part_and_what_it_leaves_goes() {
    let service = service();
    let mut tenant = RawTenant::connect(&service.socket(), "hostile");
    let iova = 1 << 31;
    let mut count = 0;
    let refusal = loop {
        let (fd, _) = whole(BYTES);
        dma_map(&mut tenant, iova, Protection::READ_WRITE, &fd);
        let mapped = map(&mut tenant, iova, 4096, false);
        tenant.session.dma_unmap(iova, BYTES).expect("unmapped");
        match mapped {
            Ok(_) => count += 1,
            Err(refusal) => break refusal,
        }
        assert!(count < 10_000, "there is a limit");
    };
    assert_eq!(
        (refusal.0, count),
        (ControlCode::Limit, 1024),
        "{}",
        refusal.1
    );
    let used = service.statistics().host.memory_used_bytes;
    assert_eq!(used, 0, "it does not count");
    drop(tenant);
    service.await_gone("hostile");
    let mut tenant = RawTenant::connect(&service.socket(), "hostile");
    let (fd, _) = whole(BYTES);
    dma_map(&mut tenant, iova, Protection::READ_WRITE, &fd);
    map(&mut tenant, iova, BYTES, true).expect("there is room again");
    assert_eq!(service.statistics().host_restarts, 0);
}
