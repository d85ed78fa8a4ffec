//! Bytes and descriptors over a Unix stream socket.
//!
//! Descriptors travel as `SCM_RIGHTS`. A receiver asks for exactly the bytes
//! of one message, so that what arrives with them belongs to it. Every
//! descriptor that the kernel installs is owned at once, also when the control
//! data was truncated (`MSG_CTRUNC` may install some of them), so that none
//! leaks.

use crate::wire::MAX_MESSAGE_FDS;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::io::IoSlice;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Space for the control message of [`MAX_MESSAGE_FDS`] descriptors, aligned
/// as `cmsghdr` asks.
#[repr(C, align(8))]
struct ControlBuffer([u8; 64]);

const _: () = assert!(MAX_MESSAGE_FDS * size_of::<RawFd>() + size_of::<libc::cmsghdr>() <= 64);

/// Result of one receive call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received {
    /// How many bytes; zero says that the peer closed.
    pub(crate) bytes: usize,
    /// Descriptors were sent that did not fit; those that did are owned.
    pub(crate) truncated: bool,
}

/// Receives at most `buffer.len()` bytes and appends descriptors to `fds`.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    fds: &mut Vec<OwnedFd>,
) -> Result<Received, Errno> {
    let mut control = ControlBuffer([0; 64]);
    let mut iov = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all-zero is a valid `msghdr`: null pointers with zero lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut iov;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    // SAFETY: `message` points to live buffers of the lengths it states.
    let result =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let bytes = Errno::result(result)?;
    // SAFETY: the kernel filled `message` in; `control` is still alive.
    unsafe { own_descriptors(&message, fds) };
    Ok(Received {
        bytes: usize::try_from(bytes).unwrap_or(0),
        truncated: message.msg_flags & libc::MSG_CTRUNC != 0,
    })
}

/// Takes ownership of every descriptor in the control data of `message`.
///
/// # Safety
/// `message` was filled in by a successful `recvmsg` and its control buffer is
/// alive; it is looked at once.
unsafe fn own_descriptors(message: &libc::msghdr, fds: &mut Vec<OwnedFd>) {
    // SAFETY: the control buffer is alive and the kernel set its length.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: the macros return null or a header inside the buffer.
        let cmsg = unsafe { &*header };
        if cmsg.cmsg_level == libc::SOL_SOCKET && cmsg.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: as above; the data of the message follows its header.
            let (data, empty) = unsafe { (libc::CMSG_DATA(header), libc::CMSG_LEN(0)) };
            let count = (cmsg.cmsg_len).saturating_sub(empty as usize) / size_of::<RawFd>();
            for i in 0..count {
                // SAFETY: the kernel wrote `count` descriptors here, each of
                // which is open and belongs to nobody else yet.
                let fd =
                    unsafe { OwnedFd::from_raw_fd(data.cast::<RawFd>().add(i).read_unaligned()) };
                fds.push(fd);
            }
        }
        // SAFETY: `header` is a header inside the live control buffer.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
}

/// Sends bytes, and descriptors with the first of them; returns how many bytes
/// were taken. Never raises `SIGPIPE`.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> Result<usize, Errno> {
    let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control = if raw.is_empty() { &[][..] } else { &rights[..] };
    let iov = [IoSlice::new(bytes)];
    sendmsg::<()>(
        socket.as_raw_fd(),
        &iov,
        control,
        MsgFlags::MSG_NOSIGNAL,
        None,
    )
}
