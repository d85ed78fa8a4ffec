//! The mediator's end of a connection against a peer that sends anything.

use gridmux_channel::Errno;
use gridmux_channel::control::{ControlReply, ControlRequest, Mailbox};
use gridmux_channel::memory::{Protection, SealedMemfd, TenantBuffer};
use gridmux_channel::regions::{self, REGION_CONTROL, REGION_FACTS, REGION_RINGS};
use gridmux_channel::ring::RingLayout;
use gridmux_channel::ring::client::ClientRings;
use gridmux_channel::ring::host::HostRings;
use gridmux_channel::server::{Connection, Handler, IoFd, SessionError, Status};
use gridmux_channel::session::{CallError, Session};
use gridmux_channel::wire::device::{DeviceInfo, RegionDescription};
use gridmux_channel::wire::transfer::{DmaMap, DmaUnmap, RegionAccess};
use gridmux_channel::wire::version::Version;
use gridmux_channel::wire::{Command, HEADER_BYTES, Header};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use proptest::prelude::{Strategy, any, prop, proptest};
use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use zerocopy::IntoBytes;

/// Address, length in bytes, and the memory, unless it was mapped without a descriptor.
type Mapping = (u64, u64, Option<TenantBuffer>);

struct Device {
    rings: HostRings,
    dma: Vec<Mapping>,
    mailbox: Mailbox,
}

impl Device {
    fn new() -> Self {
        let layout = RingLayout::new(8, 16, 4096).unwrap();
        let rings = HostRings::create(layout).unwrap();
        Self {
            rings,
            dma: Vec::new(),
            mailbox: Mailbox::default(),
        }
    }
}

impl Handler for Device {
    fn device_info(&self) -> DeviceInfo {
        DeviceInfo::new(regions::REGION_COUNT, 0)
    }

    fn region_info(&self, region: u32) -> Result<RegionDescription, Errno> {
        let bytes = self.rings.layout().total_bytes() as u64;
        regions::describe(region, bytes).ok_or(Errno::EINVAL)
    }

    fn region_fd(&self, region: u32) -> Option<BorrowedFd<'_>> {
        (region == REGION_RINGS).then(|| self.rings.memfd())
    }

    fn io_fds(&self, region: u32) -> Result<Vec<IoFd<'_>>, Errno> {
        if region != REGION_FACTS {
            return Err(Errno::EINVAL);
        }
        let offset = regions::DOORBELL_OFFSET_BYTES;
        Ok(vec![IoFd {
            offset,
            size: 4,
            fd: self.rings.doorbell(),
        }])
    }

    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        match region {
            REGION_CONTROL => self.mailbox.read(offset, data),
            _ => Err(Errno::EINVAL),
        }
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno> {
        if region != REGION_CONTROL {
            return Err(Errno::EINVAL);
        }
        if let Some(ControlRequest::Alloc { bytes }) = self.mailbox.write(offset, data)? {
            self.mailbox
                .answer(&ControlReply::Allocated { address: bytes + 1 });
        }
        Ok(())
    }

    fn dma_map(&mut self, request: &DmaMap, fd: Option<OwnedFd>) -> Result<(), Errno> {
        let (address, size) = (request.address, request.size);
        let end = address.checked_add(size).ok_or(Errno::EINVAL)?;
        let overlaps = |(from, bytes, _): &Mapping| *from < end && address < from + bytes;
        if self.dma.iter().any(overlaps) {
            return Err(Errno::EEXIST);
        }
        let buffer = |fd| TenantBuffer::new(fd, request.offset, size, request.protection());
        let buffer = fd.map(buffer).transpose().map_err(|error| error.errno())?;
        self.dma.push((address, size, buffer));
        Ok(())
    }

    fn dma_unmap(&mut self, request: &DmaUnmap) -> Result<(), Errno> {
        let is_it = |mapping: &Mapping| (mapping.0, mapping.1) == (request.address, request.size);
        let place = self.dma.iter().position(is_it).ok_or(Errno::ENOENT)?;
        self.dma.remove(place);
        Ok(())
    }

    fn reset(&mut self) -> Result<(), Errno> {
        self.dma.clear();
        Ok(())
    }
}

/// Returns a connection with a peer whose bytes are written by hand.
fn raw() -> (UnixStream, Connection, Device) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (ours, Connection::new(theirs).unwrap(), Device::new())
}

fn message(command: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = Header::command(7, Command::Version, payload.len());
    header.command = command;
    [header.as_bytes(), payload].concat()
}

fn hello() -> Vec<u8> {
    message(Command::Version as u16, &Version::ours().encode())
}

/// Returns the replies that are there, as header and payload.
fn replies(peer: &mut UnixStream) -> Vec<(Header, Vec<u8>)> {
    let mut bytes = vec![0; 1 << 20];
    let mut filled = 0;
    while let Ok(count) = peer.read(&mut bytes[filled..]) {
        if count == 0 {
            break;
        }
        filled += count;
    }
    let (mut rest, mut list) = (&bytes[..filled], Vec::new());
    while !rest.is_empty() {
        let header = Header::parse(rest).unwrap();
        let end = HEADER_BYTES + header.payload_bytes().unwrap();
        list.push((header, rest[HEADER_BYTES..end].to_vec()));
        rest = &rest[end..];
    }
    list
}

/// Returns the error of the only reply to `bytes`, sent after a good greeting.
fn error_of(bytes: &[u8]) -> Option<Errno> {
    let (mut peer, mut connection, mut device) = raw();
    peer.write_all(&[&hello(), bytes].concat()).unwrap();
    assert_eq!(connection.on_readable(&mut device).unwrap(), Status::Open);
    let replies = replies(&mut peer);
    assert_eq!(
        replies.len(),
        2,
        "the greeting and the message are answered"
    );
    assert_eq!(replies[0].0.error(), None);
    let header = replies[1].0;
    assert!(
        header.error().is_none() || header.error != 0,
        "an error has a number"
    );
    header.error()
}

#[test]
fn malformed_messages_get_an_error_and_the_connection_goes_on() {
    let read = |offset, region, count| {
        message(
            Command::RegionRead as u16,
            RegionAccess {
                offset,
                region,
                count,
            }
            .as_bytes(),
        )
    };
    for bytes in [
        hello(),
        message(0, &[]),
        message(14, &[]),
        message(999, &[1, 2, 3]),
        message(Command::DmaMap as u16, &[0; 31]),
        message(Command::DmaRead as u16, &[0; 16]),
        message(Command::DeviceGetRegionInfo as u16, &[0; 4]),
        message(Command::DeviceGetIrqInfo as u16, &[0; 16]),
        message(Command::DeviceSetIrqs as u16, &[0; 20]),
        message(Command::RegionWrite as u16, &[255; 16]),
        read(0, 99, 4),
        read(u64::MAX, REGION_CONTROL, 4),
        read(0, REGION_CONTROL, u32::MAX),
    ] {
        assert!(error_of(&bytes).is_some(), "{bytes:?}");
    }
    assert_eq!(error_of(&read(0, REGION_CONTROL, 4)), None);
}

#[test]
fn a_greeting_that_makes_no_sense_is_refused() {
    for payload in [
        &[][..],
        &[0, 0, 1],
        b"\0\0\x01\0{}",
        b"\0\0\x01\0\0",
        b"\x01\0\0\0",
    ] {
        let (mut peer, mut connection, mut device) = raw();
        peer.write_all(&message(1, payload)).unwrap();
        assert_eq!(connection.on_readable(&mut device).unwrap(), Status::Open);
        assert_eq!(
            replies(&mut peer)[0].0.error(),
            Some(Errno::EINVAL),
            "{payload:?}"
        );
        assert!(!connection.negotiated());
        peer.write_all(&message(Command::DeviceGetInfo as u16, &[0; 16]))
            .unwrap();
        connection.on_readable(&mut device).unwrap();
        assert_eq!(replies(&mut peer)[0].0.error(), Some(Errno::EPROTO));
    }
}

#[test]
fn an_oversized_message_is_drained() {
    let (mut peer, mut connection, mut device) = raw();
    let mut header = Header::command(9, Command::RegionWrite, 0);
    header.size = 3 << 20;
    peer.write_all(&[&hello(), header.as_bytes()].concat())
        .unwrap();
    let body = vec![0; (3 << 20) - HEADER_BYTES];
    let mut sent = 0;
    while sent < body.len() {
        sent += peer.write(&body[sent..]).unwrap_or(0);
        connection.on_readable(&mut device).unwrap();
    }
    peer.write_all(&message(Command::DeviceGetInfo as u16, &[0; 16]))
        .unwrap();
    for _ in 0..100 {
        connection.on_readable(&mut device).unwrap();
    }
    let replies = replies(&mut peer);
    assert_eq!(replies[1].0.error(), Some(Errno::EMSGSIZE));
    assert_eq!(
        replies[2].0.error(),
        None,
        "what follows the body is understood"
    );
    assert_eq!(replies[2].1.len(), 16);
}

#[test]
fn a_stream_that_cannot_be_followed_is_closed() {
    for (size, flags) in [(0, 0), (15, 0), (16, 2), (16, 15)] {
        let (mut peer, mut connection, mut device) = raw();
        let header = Header {
            message_id: 1,
            command: 1,
            size,
            flags,
            error: 0,
        };
        peer.write_all(header.as_bytes()).unwrap();
        let result = connection.on_readable(&mut device);
        assert!(
            matches!(result, Err(SessionError::Protocol(_))),
            "{size} {flags}"
        );
        assert!(matches!(
            connection.on_readable(&mut device),
            Err(SessionError::Ended)
        ));
        assert_eq!(replies(&mut peer)[0].0.error(), Some(Errno::EPROTO));
    }
}

#[test]
fn a_peer_that_does_not_read_is_cut() {
    let (mut peer, mut connection, mut device) = raw();
    peer.write_all(&hello()).unwrap();
    let access = RegionAccess {
        offset: 0,
        region: REGION_CONTROL,
        count: 1 << 20,
    };
    let request = message(Command::RegionRead as u16, access.as_bytes());
    let cut = (0..100).any(|_| {
        let _ = peer.write(&request);
        matches!(
            connection.on_readable(&mut device),
            Err(SessionError::PeerNotReading(_))
        )
    });
    assert!(cut);
}

#[test]
fn a_message_that_wants_no_reply_gets_none() {
    let (mut peer, mut connection, mut device) = raw();
    peer.write_all(&hello()).unwrap();
    let mut header = Header::command(3, Command::DeviceReset, 0);
    header.flags = 1 << 4;
    peer.write_all(header.as_bytes()).unwrap();
    let reply = Header::command(4, Command::DeviceReset, 0).reply(0);
    peer.write_all(reply.as_bytes()).unwrap();
    connection.on_readable(&mut device).unwrap();
    assert_eq!(
        replies(&mut peer).len(),
        1,
        "the greeting alone is answered"
    );
}

#[test]
fn surplus_descriptors_are_closed() {
    let (mut peer, mut connection, mut device) = raw();
    peer.write_all(&hello()).unwrap();
    connection.on_readable(&mut device).unwrap();
    let memfd = SealedMemfd::create("test", 4096).unwrap();
    let witness = std::fs::File::from(memfd.as_fd().try_clone_to_owned().unwrap());
    let raw = memfd.as_fd().as_raw_fd();
    for count in [1, 2, 8, 9, 30, 253] {
        let fds = vec![raw; count];
        let bytes = message(Command::DeviceGetInfo as u16, &[0; 16]);
        let rights = [ControlMessage::ScmRights(&fds)];
        let flags = MsgFlags::empty();
        sendmsg::<()>(
            peer.as_raw_fd(),
            &[IoSlice::new(&bytes)],
            &rights,
            flags,
            None,
        )
        .unwrap();
        assert_eq!(connection.on_readable(&mut device).unwrap(), Status::Open);
        assert_eq!(
            descriptors_of(&witness),
            2,
            "{count} descriptors are closed again"
        );
    }
    let answers = replies(&mut peer);
    assert_eq!(answers.len(), 7);
    assert!(
        answers[1..]
            .iter()
            .all(|(header, _)| header.error() == Some(Errno::EINVAL))
    );
}

/// Returns how many descriptors of this process refer to the same file.
fn descriptors_of(file: &std::fs::File) -> usize {
    use std::os::unix::fs::MetadataExt;
    let inode = file.metadata().unwrap().ino();
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let same = |path| std::fs::metadata(path).is_ok_and(|data| data.ino() == inode);
    entries
        .filter(|entry| same(entry.as_ref().unwrap().path()))
        .count()
}

/// Serves a device until the peer closes.
fn serve(socket: UnixStream) -> thread::JoinHandle<Device> {
    thread::spawn(move || {
        let mut connection = Connection::new(socket).unwrap();
        let mut device = Device::new();
        while connection.on_readable(&mut device).unwrap() == Status::Open {
            if connection.wants_write() {
                connection.on_writable().unwrap();
            }
            thread::yield_now();
        }
        device
    })
}

#[test]
fn a_session_gets_what_it_asks_for() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = serve(theirs);
    let mut session = Session::over(ours).unwrap();
    assert_eq!(
        session.device_info().unwrap().num_regions,
        regions::REGION_COUNT
    );
    let (facts, none) = session.region_info(REGION_FACTS).unwrap();
    assert!(none.is_none() && facts.readable && !facts.mappable);
    let (rings, memfd) = session.region_info(REGION_RINGS).unwrap();
    assert_eq!(rings.areas.len(), 1);
    let doorbell = session.doorbell().unwrap();
    ClientRings::map(&memfd.unwrap(), doorbell).unwrap();
    let reply = session
        .control(&ControlRequest::Alloc { bytes: 41 })
        .unwrap();
    assert_eq!(reply, ControlReply::Allocated { address: 42 });

    let both = Protection {
        read: true,
        write: true,
    };
    let memfd = SealedMemfd::create("test", 8192).unwrap();
    session
        .dma_map(0x1000, 8192, 0, both, memfd.as_fd())
        .unwrap();
    let again = session.dma_map(0x2000, 4096, 0, both, memfd.as_fd());
    assert!(matches!(
        again,
        Err(CallError::Refused {
            errno: Errno::EEXIST,
            ..
        })
    ));
    let long = session.dma_map(0x10_0000, 8193, 0, both, memfd.as_fd());
    assert!(matches!(
        long,
        Err(CallError::Refused {
            errno: Errno::EINVAL,
            ..
        })
    ));
    let file = tempfile::tempfile().unwrap();
    file.set_len(4096).unwrap();
    assert!(
        session
            .dma_map(0x10_0000, 4096, 0, both, file.as_fd())
            .is_err()
    );
    assert!(session.dma_unmap(0x1000, 4096).is_err());
    session.dma_unmap(0x1000, 8192).unwrap();
    session.reset().unwrap();
    assert!(!session.is_closed());
    drop(session);
    server.join().unwrap();
}

#[test]
fn memory_mapped_without_a_descriptor_is_known_as_such() {
    let (mut peer, mut connection, mut device) = raw();
    let both = Protection {
        read: true,
        write: true,
    };
    let map = message(
        Command::DmaMap as u16,
        DmaMap::new(0, 1 << 40, 0, both).as_bytes(),
    );
    peer.write_all(&[hello(), map.clone(), map].concat())
        .unwrap();
    connection.on_readable(&mut device).unwrap();
    let replies = replies(&mut peer);
    assert_eq!(replies[1].0.error(), None);
    assert_eq!(replies[2].0.error(), Some(Errno::EEXIST));
    assert!(matches!(device.dma[..], [(0, _, None)]));
}

fn feed(bytes: &[u8], step: usize) {
    let (mut peer, mut connection, mut device) = raw();
    for part in bytes.chunks(step.max(1)) {
        if peer.write_all(part).is_err() || connection.on_readable(&mut device).is_err() {
            return;
        }
    }
    for (header, _) in replies(&mut peer) {
        assert!(header.error().is_none() || header.error != 0);
    }
}

/// Messages whose frame is right and whose contents are anything.
fn framed() -> impl Strategy<Value = Vec<u8>> {
    let one = (
        0..20_u16,
        prop::collection::vec(any::<u8>(), 0..80),
        any::<bool>(),
    );
    prop::collection::vec(one, 0..8).prop_map(|list| {
        let mut bytes = Vec::new();
        for (command, payload, greet) in list {
            bytes.extend(if greet {
                hello()
            } else {
                message(command, &payload)
            });
        }
        bytes
    })
}

proptest! {
    #[test]
    fn any_bytes_are_survived(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        step in 1_usize..64,
    ) {
        feed(&bytes, step);
        feed(&[hello(), bytes].concat(), step);
    }

    #[test]
    fn any_messages_are_survived(bytes in framed(), step in 1_usize..200) {
        feed(&bytes, step);
    }

    #[test]
    fn any_payload_is_survived_by_the_codec(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        use gridmux_channel::wire::device::{IndexQuery, IoEventFd, IrqSet};
        let _ = Version::parse(&bytes);
        let _ = Header::parse(&bytes).map(|header| (header.kind(), header.error()));
        let _ = RegionDescription::parse(&bytes);
        let _ = IoEventFd::parse_all(&bytes);
        let _ = (IndexQuery::parse(&bytes), IrqSet::parse(&bytes), DeviceInfo::parse(&bytes));
        let _ = (RegionAccess::parse_read(&bytes), RegionAccess::parse_data(&bytes));
        let _ = (ControlRequest::decode(&bytes), ControlReply::decode(&bytes));
    }
}
