//! Contract: memory of a tenant's own that kernels reach stays as it was when it was handed over, whatever the tenant
//! does with it; what could fail under an access, or take memory of the service's, is refused.

use gridmux_channel::control::object::{Channel, Image, Object, Shape};
use gridmux_channel::control::{ControlCode, ControlReply, ControlRequest, Module, PagingRequest};
use gridmux_channel::memory::{Protection, SealedMemfd};
use gridmux_channel::ring::{CompletionStatus, Copy, DeviceCopy, Memset, Operation, Width};
use gridmux_channel::session::CallError;
use gridmux_tests::{ENDLESS, RawTenant, Service, ServiceBuilder, bare_launch};
use memmap2::MmapRaw;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const BYTES: u64 = 1 << 16;
/// Adds to a managed variable, which holds 7, [`ADDED`] times.
const COUNT: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 count = 7;
.visible .entry add()
{
    .reg .pred %p;
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    mov.u32 %r0, 0;
    mov.u64 %rd0, count;
$again:
    red.global.add.u32 [%rd0], 1;
    add.u32 %r0, %r0, 1;
    setp.lt.u32 %p, %r0, 100000;
    @%p bra $again;
    ret;
}
";
const ADDED: u32 = 100_000;

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

/// Puts the mapping at an address of the DMA space in the place of a module's variable.
fn map_variable(tenant: &mut RawTenant, iova: u64, module: &Module) -> Result<(), ControlCode> {
    let address = module.globals[0].address;
    let request = ControlRequest::MapVariable { iova, address };
    match tenant.session.control(&request) {
        Ok(ControlReply::Done) => Ok(()),
        Err(CallError::Control(refusal)) => Err(refusal.code),
        other => panic!("{other:?} where a word or a refusal was due"),
    }
}

fn paging(tenant: &mut RawTenant, request: PagingRequest) -> Result<u64, ControlCode> {
    match tenant.session.control(&ControlRequest::Paging(request)) {
        Ok(ControlReply::Allocated { address: made } | ControlReply::Object { handle: made }) => {
            Ok(made)
        }
        Ok(ControlReply::Done) => Ok(0),
        Err(CallError::Control(refusal)) => Err(refusal.code),
        other => panic!("{other:?} where a number or a refusal was due"),
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
    // The dispatcher hears of it a little later; until then the memory is the client's still.
    let is_refused = |_| {
        let late = tenant.submit(set(address, 4, 0x0202_0202));
        late.0 == CompletionStatus::BadAddress
    };
    assert!((0..10_000).any(is_refused), "it stays within reach");
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
        (ControlCode::Limit, 4096),
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

#[test]
fn a_variable_is_not_given_to_a_file_with_holes_and_the_file_gets_no_memory() {
    let service = service();
    let mut tenant = RawTenant::connect(&service.socket(), "hostile");
    let module = tenant.load(COUNT.as_bytes()).expect("it is fit");
    let sparse = memfd_create("hostile", MFdFlags::MFD_ALLOW_SEALING).expect("a memfd");
    nix::unistd::ftruncate(&sparse, BYTES.cast_signed()).expect("room");
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
    fcntl(&sparse, FcntlArg::F_ADD_SEALS(seals)).expect("seals");
    let sealed = memfd_create("hostile", MFdFlags::MFD_ALLOW_SEALING).expect("a memfd");
    nix::unistd::ftruncate(&sealed, BYTES.cast_signed()).expect("room");
    let seals = seals | SealFlag::F_SEAL_SEAL;
    fcntl(&sealed, FcntlArg::F_ADD_SEALS(seals)).expect("seals");
    for (number, fd) in (1..).zip([sparse, sealed]) {
        let iova = number << 40;
        dma_map(&mut tenant, iova, Protection::READ_WRITE, &fd);
        let refused = map_variable(&mut tenant, iova, &module);
        assert_eq!(refused, Err(ControlCode::BadRequest));
        let blocks = File::from(fd).metadata().expect("its facts").blocks();
        assert_eq!(blocks, 0, "nobody gave it memory");
    }
    let (fd, file) = whole(BYTES);
    let iova = 1 << 31;
    dma_map(&mut tenant, iova, Protection::READ_WRITE, &fd);
    assert_eq!(map_variable(&mut tenant, iova, &module), Ok(()));
    let again = map_variable(&mut tenant, iova, &module);
    assert_eq!(again, Err(ControlCode::BadRequest), "mapped already");
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, 0).expect("inside");
    assert_eq!(bytes, [7, 0, 0, 0], "it holds what it held");
    assert_eq!(service.statistics().host_restarts, 0);
}

#[test]
fn no_atomic_operation_is_lost_between_a_kernel_and_its_program() {
    let service = service();
    let mut tenant = RawTenant::connect(&service.socket(), "good");
    let module = tenant.load(COUNT.as_bytes()).expect("it is fit");
    let (fd, file) = whole(BYTES);
    let map = MmapRaw::map_raw(&file).expect("room");
    let iova = 1 << 31;
    dma_map(&mut tenant, iova, Protection::READ_WRITE, &fd);
    assert_eq!(map_variable(&mut tenant, iova, &module), Ok(()));
    // SAFETY: the word is at the start of a page that lives to the end of the test, and the kernel changes it by atomic
    // operations only.
    let word = unsafe { AtomicU32::from_ptr(map.as_mut_ptr().cast()) };
    let is_over = AtomicBool::new(false);
    let added = std::thread::scope(|scope| {
        let adding = scope.spawn(|| {
            let mut added = 0;
            // Relaxed: the sum alone matters, and is read after both have ended.
            while !is_over.load(Ordering::Relaxed) {
                word.fetch_add(1, Ordering::Relaxed);
                added += 1;
            }
            added
        });
        let ended = tenant.submit(bare_launch(&module, [1; 3], [1; 3]));
        // Relaxed: as above.
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(ended.0, CompletionStatus::Ok, "{}", ended.1);
        adding.join().expect("it only adds")
    });
    // Relaxed: as above.
    let sum = word.load(Ordering::Relaxed);
    assert_eq!(sum, ADDED.wrapping_add(7).wrapping_add(added));
}

#[test]
fn what_waits_for_a_kernel_takes_nothing_from_what_does_not() {
    let service = service();
    let mut tenant = RawTenant::connect(&service.socket(), "good");
    let module = tenant.load(ENDLESS.as_bytes()).expect("it is fit");
    let image = Image {
        address: tenant.alloc(4096),
        shape: Shape::OneD,
        size: [16, 1, 1],
        layers: 0,
        row_bytes: 64,
        channel: Channel::F32,
        channels: 1,
    };
    tenant.push(0, bare_launch(&module, [1; 3], [1; 3]));
    // More than a client may have buffers, and than it may have textures and surfaces.
    let iova = 1 << 31;
    for _ in 0..300 {
        let (fd, _) = whole(BYTES);
        dma_map(&mut tenant, iova, Protection::READ_WRITE, &fd);
        map(&mut tenant, iova, 4096, true).expect("there is room");
        tenant.session.dma_unmap(iova, BYTES).expect("unmapped");
    }
    for _ in 0..8200 {
        let address = tenant.alloc(1);
        let free = ControlRequest::Free { address };
        tenant.session.control(&free).expect("it is there");
    }
    let mut make = |channels| {
        let image = Image { channels, ..image };
        let request = ControlRequest::CreateObject(Object::Surface(image));
        tenant
            .session
            .control(&request)
            .map_err(|error| match error {
                CallError::Control(refusal) => refusal.code,
                other => panic!("{other:?} where a refusal was due"),
            })
    };
    for channels in [0, 3, u32::MAX] {
        assert_eq!(make(channels), Err(ControlCode::BadRequest), "{channels}");
    }
    assert!(make(1).is_ok());
    assert_eq!(service.statistics().host_restarts, 0);
}

#[test]
fn memory_that_does_not_count_has_a_limit_all_the_same() {
    const LARGE: u64 = (1 << 30) + BYTES;
    let service = service();
    let mut tenant = RawTenant::connect(&service.socket(), "hostile");
    let memfd = SealedMemfd::create_pinnable("hostile", LARGE).expect("a memfd");
    let both = Protection::READ_WRITE;
    let mapped = tenant
        .session
        .dma_map(1 << 32, LARGE, 0, both, memfd.as_fd());
    mapped.expect("a mapping");
    let (code, text) = map(&mut tenant, 1 << 32, LARGE, false).expect_err("too much");
    assert_eq!(code, ControlCode::OutOfMemory);
    assert!(text.contains("do not count"), "{text}");
    // Nor has it been sealed: what follows is about its holes.
    let (code, text) = map(&mut tenant, 1 << 32, 4096, false).expect_err("holes");
    assert_eq!(code, ControlCode::BadRequest);
    assert!(text.contains("hole"), "{text}");
}

#[test]
fn a_tenant_leaves_mappings_of_the_host_to_others() {
    const PAGE: u64 = 4096;
    let service = service();
    let mut tenants = Vec::new();
    let mut mapped = 0;
    let refusal = 'all: loop {
        let mut tenant = RawTenant::connect(&service.socket(), "hostile");
        let (bytes, align) = (4096 * PAGE, PAGE);
        let first = paging(&mut tenant, PagingRequest::Reserve { bytes, align });
        let first = first.expect("addresses enough");
        let physical = paging(&mut tenant, PagingRequest::Create { bytes: PAGE });
        let physical = match physical {
            Ok(physical) => physical,
            Err(refusal) => break refusal,
        };
        tenants.push(tenant);
        let tenant = tenants.last_mut().expect("it was put there");
        for page in 0..4096 {
            let map = PagingRequest::Map {
                address: first + page * PAGE,
                bytes: PAGE,
                physical,
                offset: 0,
            };
            match paging(tenant, map) {
                Ok(_) => mapped += 1,
                Err(refusal) => break 'all refusal,
            }
        }
        assert!(tenants.len() < 16, "there is a limit");
    };
    assert_eq!(refusal, ControlCode::OutOfMemory);
    assert!((8192..20_480).contains(&mapped), "{mapped}");
    let mut good = RawTenant::connect(&service.socket(), "good");
    let address = good.alloc(BYTES);
    assert_eq!(good.submit(set(address, BYTES, 1)).0, CompletionStatus::Ok);
    let (fd, _) = whole(BYTES);
    dma_map(&mut good, 1 << 31, Protection::READ_WRITE, &fd);
    map(&mut good, 1 << 31, BYTES, true).expect("some are left");
    assert_eq!(service.statistics().host_restarts, 0);
}
