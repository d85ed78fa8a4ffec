//! The device host's side: an unprivileged process records through a descriptor that came over a socket.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::{instance, load};
use gridmux_bpf::{LatencyOptions, LatencyProgram, Recorder, Sample, Unavailable};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

const CHILD: &str = "GRIDMUX_TEST_SOCKET";

#[test]
fn a_process_without_privileges_records() {
    if let Ok(socket) = std::env::var(CHILD) {
        record_as_nobody(socket.parse().unwrap());
        return;
    }
    let name = instance("nobody");
    let Some(program) = load(&name, LatencyOptions::default()) else {
        return;
    };
    let (ours, theirs) = UnixStream::pair().unwrap();
    // Children inherit it, where std opens descriptors close-on-exec; one of another test does nothing with it.
    nix::fcntl::fcntl(
        &theirs,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
    )
    .unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "unprivileged::a_process_without_privileges_records",
            "--nocapture",
        ])
        .env(CHILD, theirs.as_raw_fd().to_string())
        .spawn()
        .unwrap();
    drop(theirs);
    let ring = [program.producer_fd().as_raw_fd()];
    sendmsg::<()>(
        ours.as_raw_fd(),
        &[IoSlice::new(b"ring")],
        &[ControlMessage::ScmRights(&ring)],
        MsgFlags::empty(),
        None,
    )
    .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let read = gridmux_bpf::read_histograms(&name).unwrap();
    assert_eq!(
        read.iter()
            .map(|entry| (entry.tenant, entry.histogram.count()))
            .collect::<Vec<_>>(),
        [(5, 100)]
    );
}

/// The child: gives every privilege up, then receives the ring and records.
fn record_as_nobody(socket: RawFd) {
    let nobody = nix::unistd::Uid::from_raw(65534);
    nix::unistd::setgroups(&[]).unwrap();
    nix::unistd::setgid(nix::unistd::Gid::from_raw(65534)).unwrap();
    nix::unistd::setuid(nobody).unwrap();
    let refused = LatencyProgram::load("nobody");
    assert!(
        matches!(refused, Err(Unavailable::NotPermitted { .. })),
        "this process may still load: {refused:?}"
    );

    let mut bytes = [0u8; 4];
    let mut space = nix::cmsg_space!(RawFd);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let message = recvmsg::<()>(socket, &mut parts, Some(&mut space), MsgFlags::empty()).unwrap();
    let received = message.cmsgs().unwrap().find_map(|message| match message {
        ControlMessageOwned::ScmRights(fds) => fds.first().copied(),
        _ => None,
    });
    // SAFETY: the kernel has just installed this descriptor for us, and nobody else owns it.
    let ring = unsafe { OwnedFd::from_raw_fd(received.expect("a descriptor came along")) };
    let mut recorder = Recorder::from_fd(ring).unwrap();
    for launch in 0..100 {
        assert!(recorder.record(&Sample {
            tenant: 5,
            submit_to_start_ns: Some(launch),
            ..Sample::default()
        }));
    }
}
