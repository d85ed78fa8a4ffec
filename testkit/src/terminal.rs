//! A terminal for programs that are tested on one.

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::os::fd::OwnedFd;

/// Returns the two ends of a terminal of so many columns and lines: the tests' and the program's.
///
/// Programs that are started hold no end of it but what they are given: else it never hangs up.
///
/// # Panics
/// The system has no terminal.
#[must_use]
pub fn terminal(columns: u16, lines: u16) -> (File, OwnedFd) {
    let size = Winsize {
        ws_row: lines,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let ends = openpty(&size, None).expect("a terminal");
    for end in [&ends.master, &ends.slave] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("a flag of a descriptor");
    }
    (ends.master.into(), ends.slave)
}
