//! Contract: a tenant that is hostile loses its own channel at most. Another tenant's work goes on and is right, and
//! its memory is neither read nor written.

use gridmux_channel::control::{ControlReply, ControlRequest};
use gridmux_channel::memory::{Protection, SealedMemfd};
use gridmux_channel::regions::{DOORBELL_OFFSET_BYTES, REGION_FACTS};
use gridmux_channel::ring::{
    CompletionStatus, Copy, DeviceCopy, Memset, Operation, SubmissionEntry, Width,
};
use gridmux_channel::session::{CallError, Session};
use gridmux_channel::wire::transfer::DmaMap;
use gridmux_channel::wire::{Command, HEADER_BYTES, Header};
use gridmux_tenant::Args;
use gridmux_tests::{
    Bench, Bystander, RawTenant, Service, ServiceBuilder, failure, run_once, until,
};
use gridmux_workloads::{Prng, Size};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command as Program;
use std::time::Duration;
use zerocopy::IntoBytes;

/// Where things stand in the ring memory (`gridmux_channel::ring::layout`).
const COMPLETION_HEAD: u64 = 2 * 128;
const TENANT_STATE: u64 = 5 * 128;
const SUBMISSIONS: u64 = 4096;
const SUBMISSION_BYTES: u64 = 64;
const TURN_IN_SUBMISSION: u64 = 60;

fn start() -> (Service, Bystander) {
    let service = ServiceBuilder::new(&[("good", 1), ("hostile", 1)]).start();
    let bystander = Bystander::start(&service, "good", "matmul");
    (service, bystander)
}

/// Checks that the bystander noticed nothing, that the device host is the one from the start, and that the hostile
/// tenant may come back.
fn assert_unharmed(service: &Service, bystander: Bystander) {
    service.await_gone("hostile");
    assert_eq!(service.tenant("good").usage.failed, 0);
    assert_eq!(service.statistics().host_restarts, 0);
    run_once(service, "hostile");
    bystander.finish();
}

fn random_bytes(prng: &mut Prng, most: u32) -> Vec<u8> {
    let len = prng.below(most);
    (0..len).map(|_| prng.next_u64().to_le_bytes()[0]).collect()
}

#[test]
fn random_bytes_on_the_socket_harm_nobody() {
    let (service, bystander) = start();
    let mut prng = Prng::new(0x5eed);
    for round in 0..200 {
        match round % 3 {
            0 => send_noise(&service, &random_bytes(&mut prng, 4096)),
            // A header that is right, with a payload that is not, before any version was agreed upon.
            1 => {
                let payload = random_bytes(&mut prng, 256);
                let header = Header::command(1, random_command(&mut prng), payload.len());
                send_noise(&service, &[header.as_bytes(), &payload].concat());
            }
            _ => call_nonsense(&service, &mut prng),
        }
    }
    assert_unharmed(&service, bystander);
}

fn send_noise(service: &Service, bytes: &[u8]) {
    let mut socket = UnixStream::connect(service.socket()).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    // The mediator may close before everything is written, and owes no reply.
    let _ = socket.write_all(bytes);
    let _ = socket.read(&mut [0; HEADER_BYTES]);
}

/// Commands with random payloads over a connection that was properly made.
fn call_nonsense(service: &Service, prng: &mut Prng) {
    let mut session = match Session::connect(&service.socket()) {
        Ok(session) => session,
        Err(error) => panic!("{error}"),
    };
    for _ in 0..8 {
        let payload = random_bytes(prng, 128);
        match session.call(random_command(prng), &payload, &[]) {
            Ok(_) | Err(CallError::Refused { .. }) => {}
            Err(_) => return,
        }
    }
}

fn random_command(prng: &mut Prng) -> Command {
    use Command::{
        DeviceFeature, DeviceGetInfo, DeviceGetIrqInfo, DeviceGetRegionInfo, DeviceGetRegionIoFds,
        DeviceReset, DeviceSetIrqs, DmaMap, DmaRead, DmaUnmap, DmaWrite, MigDataRead, MigDataWrite,
        RegionRead, RegionWrite, RegionWriteMulti, Version,
    };
    let all = [
        DeviceFeature,
        DeviceGetInfo,
        DeviceGetIrqInfo,
        DeviceGetRegionInfo,
        DeviceGetRegionIoFds,
        DeviceReset,
        DeviceSetIrqs,
        DmaMap,
        DmaRead,
        DmaUnmap,
        DmaWrite,
        MigDataRead,
        MigDataWrite,
        RegionRead,
        RegionWrite,
        RegionWriteMulti,
        Version,
    ];
    all[prng.below(17) as usize]
}

/// Makes the mediator look at the rings. The channel may be closed by then.
fn ring_doorbell(tenant: &mut RawTenant) {
    let _ = tenant
        .session
        .region_write(REGION_FACTS, DOORBELL_OFFSET_BYTES, &1_u32.to_ne_bytes());
}

fn await_closed(mut tenant: RawTenant) {
    until("a channel with corrupt rings to be closed", || {
        if !tenant.is_closed() {
            ring_doorbell(&mut tenant);
        }
        tenant.is_closed().then_some(())
    });
}

#[test]
fn an_impossible_turn_closes_the_channel() {
    let (service, bystander) = start();
    for turn in [2_u32, 77, u32::MAX] {
        service.await_gone("hostile");
        let tenant = RawTenant::connect(&service.socket(), "hostile");
        tenant.scribble(SUBMISSIONS + TURN_IN_SUBMISSION, &turn.to_ne_bytes());
        await_closed(tenant);
    }
    assert_unharmed(&service, bystander);
}

#[test]
fn an_impossible_completion_head_closes_the_channel() {
    let (service, bystander) = start();
    let tenant = with_full_completion_ring(&service);
    tenant.scribble(COMPLETION_HEAD, &0x8000_0000_u32.to_ne_bytes());
    submit_past_the_full_ring(&tenant);
    await_closed(tenant);
    assert_unharmed(&service, bystander);
}

#[test]
fn a_tenant_that_never_takes_completions_holds_nobody_up() {
    let (service, bystander) = start();
    let tenant = with_full_completion_ring(&service);
    submit_past_the_full_ring(&tenant);
    bystander.await_more(20);
    drop(tenant);
    assert_unharmed(&service, bystander);
}

/// Returns a tenant that has as many completions before it as the ring holds, and has taken none.
fn with_full_completion_ring(service: &Service) -> RawTenant {
    let mut tenant = RawTenant::connect(&service.socket(), "hostile");
    let entries = tenant.rings.layout().completion_entries();
    for _ in 0..entries {
        tenant.push(0, Operation::Barrier);
    }
    until("the mediator to complete everything", || {
        let usage = service.tenant("hostile").usage;
        (usage.completed == u64::from(entries)).then_some(())
    });
    tenant
}

/// Makes one more submission than an honest tenant has in flight, written past the client's own count.
fn submit_past_the_full_ring(tenant: &RawTenant) {
    let layout = *tenant.rings.layout();
    let position = layout.completion_entries();
    let (slot, turn) = (
        position % layout.submission_entries(),
        position / layout.submission_entries() + 1,
    );
    let words = SubmissionEntry::new(Operation::Barrier, 0, 9, 0).to_words();
    let place = SUBMISSIONS + u64::from(slot) * SUBMISSION_BYTES;
    tenant.scribble(place, &words.as_bytes()[..56]);
    tenant.scribble(place + TURN_IN_SUBMISSION, &turn.to_ne_bytes());
}

#[test]
fn scribbling_over_the_rings_harms_nobody_else() {
    let (service, bystander) = start();
    let mut prng = Prng::new(0xbad);
    for _ in 0..20 {
        service.await_gone("hostile");
        let mut tenant = RawTenant::connect(&service.socket(), "hostile");
        let bytes = tenant.rings.layout().total_bytes() as u64;
        tenant.scribble(TENANT_STATE, &prng.next_u64().to_ne_bytes());
        for _ in 0..200 {
            let offset = u64::from(prng.next_u32()) % (bytes - 8);
            tenant.scribble(offset, &prng.next_u64().to_ne_bytes());
        }
        ring_doorbell(&mut tenant);
    }
    assert_unharmed(&service, bystander);
}

#[test]
fn an_absurd_mapping_is_refused_and_the_channel_stays() {
    let (service, bystander) = start();
    let mut tenant = RawTenant::connect(&service.socket(), "hostile");
    let both = Protection::READ_WRITE;
    let memfd = SealedMemfd::create("small", 8192).unwrap();
    let unsealed = memfd_create("unsealed", MFdFlags::MFD_ALLOW_SEALING).unwrap();
    nix::unistd::ftruncate(&unsealed, 8192).unwrap();
    let no_memfd: OwnedFd = tempfile::tempfile().unwrap().into();
    let read_only = reopened_read_only(memfd.as_fd());
    let iova = 1 << 33;
    let socket = UnixStream::pair().unwrap().0;
    let last_page = u64::MAX - 4095;
    let (small, loose) = (memfd.as_fd(), unsealed.as_fd());
    for (what, address, size, offset, fd) in [
        ("no length", iova, 0, 0, small),
        ("longer than the memory", iova, 1 << 30, 0, small),
        ("longer than anything", iova, u64::MAX, 0, small),
        ("around the end of the space", last_page, 8192, 0, small),
        ("an offset beyond the memory", iova, 4096, 1 << 40, small),
        ("an offset that wraps", iova, 8192, last_page, small),
        ("memory that can shrink", iova, 8192, 0, loose),
        ("no memfd", iova, 8192, 0, no_memfd.as_fd()),
        ("a socket", iova, 8192, 0, socket.as_fd()),
        ("memory that is read only", iova, 8192, 0, read_only.as_fd()),
    ] {
        let request = DmaMap::new(address, size, offset, both);
        let session = &mut tenant.session;
        let reply = session.call(Command::DmaMap, request.as_bytes(), &[fd]);
        assert!(
            matches!(reply, Err(CallError::Refused { .. })),
            "{what}: {reply:?}"
        );
    }
    tenant
        .session
        .dma_map(iova, 8192, 0, both, memfd.as_fd())
        .unwrap();
    let twice = tenant
        .session
        .dma_map(iova + 4096, 4096, 0, both, memfd.as_fd());
    assert!(
        matches!(twice, Err(CallError::Refused { .. })),
        "an overlap: {twice:?}"
    );
    let address = tenant.alloc(8192);
    let copy = Operation::CopyToDevice(Copy {
        iova,
        address,
        len: 8192,
    });
    assert_eq!(tenant.submit(copy).0, CompletionStatus::Ok);
    drop(tenant);
    assert_unharmed(&service, bystander);
}

fn reopened_read_only(memfd: BorrowedFd<'_>) -> OwnedFd {
    use std::os::fd::AsRawFd;
    assert!(
        SealFlag::from_bits_retain(fcntl(memfd, FcntlArg::F_GET_SEALS).unwrap())
            .contains(SealFlag::F_SEAL_SHRINK)
    );
    std::fs::File::open(format!("/proc/self/fd/{}", memfd.as_raw_fd()))
        .unwrap()
        .into()
}

#[test]
fn another_tenants_memory_is_neither_read_nor_written() {
    const SECRET: [u8; 4096] = [0x5a; 4096];
    let service = ServiceBuilder::new(&[("good", 1), ("hostile", 1), ("owner", 1)]).start();
    let bystander = Bystander::start(&service, "good", "matmul");
    let owner = service.gpu("owner");
    let secret = owner.alloc(4096).unwrap();
    let owners_stream = owner.stream().unwrap();
    owners_stream.copy_to(&secret, 0, &SECRET).unwrap();
    owners_stream.synchronize().unwrap();
    owner.think();

    let mut raw = RawTenant::connect(&service.socket(), "hostile");
    let address = secret.address();
    let (iova, len) = raw.map(&[0; 4096], Protection::READ_WRITE);
    let own = raw.alloc(len);
    let copy = Copy { iova, address, len };
    let on_device = |from, to| Operation::CopyOnDevice(DeviceCopy { from, to, len });
    for operation in [
        Operation::CopyFromDevice(copy),
        Operation::CopyToDevice(copy),
        Operation::Memset(Memset {
            address,
            len,
            value: 0,
            width: Width::Four,
        }),
        on_device(address, own),
        on_device(own, address),
    ] {
        let (status, text) = raw.submit(operation);
        assert_eq!(
            status,
            CompletionStatus::BadAddress,
            "{operation:?}: {text}"
        );
    }
    drop(raw);
    service.await_gone("hostile");
    kernels_cannot_reach(&service, address);

    let mut found = [0; 4096];
    owners_stream.copy_from(&secret, 0, &mut found).unwrap();
    assert!(found == SECRET, "the owner's data changed");
    assert_unharmed(&service, bystander);
}

/// Checks that a kernel of the hostile tenant that stores to `address`, and one that loads from it, end with a fault.
fn kernels_cannot_reach(service: &Service, address: u64) {
    let gpu = service.gpu("hostile");
    let bench = Bench::set_up(&gpu, "vecadd", Size::Tiny, 9).unwrap();
    let own: Vec<u64> = bench.buffers().map(|buffer| buffer.address()).collect();
    for (a, sum, verb) in [(own[0], address, "wrote"), (address, own[2], "read")] {
        let args = Args::new().u64(a).u64(own[1]).u64(sum).u32(256);
        let error = failure(
            &gpu,
            &bench.kernel,
            256,
            &args,
            CompletionStatus::MemoryFault,
        );
        let text = error.to_string();
        assert!(text.contains(verb), "{text}");
        let at = faulting_address(&text);
        assert!((address..address + 1024).contains(&at), "{text}");
    }
    bench.run(&gpu).unwrap();
}

/// Returns the address that the text of a fault names.
fn faulting_address(text: &str) -> u64 {
    let found = text.split("out of bounds at 0x").nth(1);
    let digits = found.and_then(|rest| rest.split(|c: char| !c.is_ascii_hexdigit()).next());
    let address = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    address.unwrap_or_else(|| panic!("no address in {text:?}"))
}

/// Maps a page until the mediator refuses; returns how many it took and the error number.
fn map_until_refused(tenant: &mut RawTenant, protection: Protection) -> (u64, CallError) {
    const PAGE_BYTES: u64 = 4096;
    let memfd = SealedMemfd::create("hostile", PAGE_BYTES).unwrap();
    for taken in 0..10_000 {
        let iova = (1 << 40) + taken * PAGE_BYTES;
        let mapped = tenant
            .session
            .dma_map(iova, PAGE_BYTES, 0, protection, memfd.as_fd());
        if let Err(error) = mapped {
            return (taken, error);
        }
    }
    panic!("nothing was refused");
}

/// Lets the device host have no more than `most` descriptors; returns whether it could be done.
fn limit_descriptors(service: &Service, most: u32) -> bool {
    let limit = Program::new("prlimit")
        .args(["--pid", &service.host().to_string()])
        .arg(format!("--nofile={most}:{most}"))
        .status();
    let is_done = limit.is_ok_and(|status| status.success());
    if !is_done {
        println!("SKIPPED: the limits of the device host cannot be changed by this user");
    }
    is_done
}

#[test]
fn connections_that_say_nothing_leave_descriptors_to_tenants() {
    let service = ServiceBuilder::new(&[("good", 1), ("other", 1)]).start();
    if !limit_descriptors(&service, 600) {
        return;
    }
    let mut good = RawTenant::connect(&service.socket(), "good");
    let silent: Vec<_> = (0..100)
        .map(|_| UnixStream::connect(service.socket()).unwrap())
        .collect();
    // Most of them are closed again: those that are have been told so.
    let is_closed = |socket: &&UnixStream| {
        socket.set_nonblocking(true).unwrap();
        (&**socket).read(&mut [0; 64]).is_ok()
    };
    until("the end of most of them", || {
        (silent.iter().filter(is_closed).count() >= 90).then_some(())
    });
    let (mapped, error) = map_until_refused(&mut good, Protection::READ_WRITE);
    // An eighth of those of tenants, which are three quarters of what is left to all, and its own connection's.
    assert!(mapped >= 34, "{mapped}: {error}");
}

#[test]
fn a_tenant_that_maps_until_it_is_refused_leaves_descriptors_to_others() {
    let both = Protection::READ_WRITE;
    let service = ServiceBuilder::new(&[("good", 1), ("hostile", 1)]).start();
    // Far fewer than a service has, so that a few clients could take them all.
    if !limit_descriptors(&service, 200) {
        return;
    }
    let mut hostile: Vec<RawTenant> = Vec::new();
    for _ in 0..3 {
        hostile.push(RawTenant::connect(&service.socket(), "hostile"));
    }
    let refusals: Vec<_> = hostile
        .iter_mut()
        .map(|tenant| map_until_refused(tenant, both))
        .collect();
    assert!(refusals[0].0 > 8, "{refusals:?}");
    let is_emfile = |error: &CallError| match error {
        CallError::Refused { errno, .. } => *errno == nix::errno::Errno::EMFILE,
        _ => false,
    };
    assert!(
        refusals.iter().all(|(_, error)| is_emfile(error)),
        "{refusals:?}"
    );
    let bystander = Bystander::start(&service, "good", "vecadd");
    drop(hostile);
    service.await_gone("hostile");
    // What it held is there again.
    let mut again = RawTenant::connect(&service.socket(), "hostile");
    assert!(map_until_refused(&mut again, both).0 > 8);
    drop(again);
    assert_unharmed(&service, bystander);
}

#[test]
fn a_tenant_that_takes_all_memory_and_all_places_leaves_others_their_parts() {
    const MIB: u64 = 1 << 20;
    let service = ServiceBuilder::new(&[("hostile", 1), ("good", 1)])
        .limit("clients", 16)
        .memory(64 * MIB)
        .start();
    let connect = |tenant| RawTenant::try_connect(&service.socket(), tenant);
    let mut hostile = Vec::new();
    let refusal = loop {
        match connect("hostile") {
            Ok(tenant) => hostile.push(tenant),
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(hostile.len(), 14, "all but an eighth");
    assert!(refusal.contains("kept for other tenants"), "{refusal}");
    let mut taken = 0;
    let alloc = |tenant: &mut RawTenant| {
        let request = ControlRequest::Alloc { bytes: MIB };
        match tenant.session.control(&request) {
            Ok(ControlReply::Allocated { .. }) => Ok(()),
            Ok(other) => panic!("{other:?} where an address was due"),
            Err(error) => Err(error.to_string()),
        }
    };
    let refusal = loop {
        match alloc(&mut hostile[0]) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(taken, 56, "all but an eighth");
    assert!(refusal.contains("kept for them"), "{refusal}");
    let mut good = connect("good").unwrap();
    let _second = connect("good").unwrap();
    for _ in 0..8 {
        alloc(&mut good).unwrap();
    }
    assert!(alloc(&mut good).is_err() && connect("good").is_err());
}

#[test]
fn mappings_consist_of_whole_pages() {
    let (service, bystander) = start();
    let mut tenant = RawTenant::connect(&service.socket(), "hostile");
    let memfd = SealedMemfd::create("hostile", 1 << 16).unwrap();
    let protection = Protection::READ;
    for (iova, size, offset) in [(0x1001, 4096, 0), (0x1000, 33, 0), (0x1000, 4096, 8)] {
        let refused = tenant
            .session
            .dma_map(iova, size, offset, protection, memfd.as_fd());
        assert!(refused.is_err(), "{iova:#x} {size} {offset}");
    }
    drop(tenant);
    assert_unharmed(&service, bystander);
}
