//! Opening a library that another process has mapped.
//!
//! Rules: it is opened by what the kernel has mapped, never by a path of the process's; nothing is opened for reading
//! that is no regular file, so that no device and no pipe notices; nor is a file that a process serves (FUSE), which
//! could keep this one waiting for ever, or an overlay that a process may have made of such files in a user namespace
//! of its own; and no lease of the file's owner is waited for.

use super::bounded;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// Most bytes of a list of mounts.
const MOUNTS_BYTES: u64 = 4 << 20;

/// Opens what a process has mapped at a place, named as in `/proc/PID/map_files`.
pub(in crate::commands::doctor) fn mapped(pid: u32, range: &str) -> io::Result<File> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let found = File::from(open(
        format!("/proc/{pid}/map_files/{range}").as_str(),
        flags,
        Mode::empty(),
    )?);
    let own = format!("/proc/self/fd/{}", found.as_raw_fd());
    if is_served_by_a_process(pid, &found)? {
        return Err(io::Error::other(
            "a process serves its file system (FUSE), or may, from below an overlay",
        ));
    }
    if !found.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let own = own.as_str();
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    Ok(File::from(open(own, flags, Mode::empty())?))
}

/// Returns which user namespace a process is in.
fn user_namespace(process: &str) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/ns/user"))
}

/// Returns whether a file is on a file system that a process serves, or may serve from below, or on one that is not
/// known.
fn is_served_by_a_process(pid: u32, file: &File) -> io::Result<bool> {
    let own = bounded(&format!("/proc/self/fdinfo/{}", file.as_raw_fd()), 4096)?;
    let mount = own.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    let mount = mount.unwrap_or_default().trim();
    let mounts = bounded(&format!("/proc/{pid}/mountinfo"), MOUNTS_BYTES)?;
    Ok(match kind_of(mount, &mounts) {
        None => true,
        Some(kind) if kind.starts_with("fuse") => true,
        Some("overlay") => user_namespace(&pid.to_string())? != user_namespace("self")?,
        Some(_) => false,
    })
}

/// Returns the type of a mount by its number (`/proc/PID/mountinfo`, proc(5)).
fn kind_of<'a>(mount: &str, mounts: &'a str) -> Option<&'a str> {
    let line = mounts
        .lines()
        .find(|line| line.split(' ').next() == Some(mount))?;
    // Any number of fields stand before the dash; a path of its own has no space (written as \040).
    line.split_once(" - ")?.1.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::kind_of;

    #[test]
    fn the_type_of_a_mount_stands_behind_the_dash() {
        let mounts = "22 28 0:20 / /sys rw - sysfs sysfs rw\n28 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
                      30 28 0:50 / /mnt/a rw - fuse.sshfs a rw\n";
        assert_eq!(kind_of("28", mounts), Some("ext4"));
        assert_eq!(kind_of("30", mounts), Some("fuse.sshfs"));
        assert_eq!(kind_of("2", mounts), None);
    }
}
