//! Making and removing an instance's pins, and telling whose they are.
//!
//! Rules: one live process owns an instance; the `owner` map names it with its start time, so that the pins of a
//! process that died are known to be stale and are replaced.

use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};

use crate::instance::{BPFFS, InstanceName};
use crate::layout::{LAYOUT_VERSION, RawOwner};
use crate::unavailable::Unavailable;

/// `statfs` type of a BPF file system (include/uapi/linux/magic.h, `BPF_FS_MAGIC`).
const BPFFS_MAGIC: libc::__fsword_t = 0xcafe_4a11;

/// Makes the instance's folder, mounting a BPF file system where there is none.
pub(crate) fn make_folder(instance: &InstanceName) -> Result<PathBuf, Unavailable> {
    mount_bpffs().map_err(|error| refusal(Path::new(BPFFS), &error))?;
    let folder = instance.folder();
    remove_folder(instance).map_err(|error| refusal(&folder, &error))?;
    std::fs::create_dir_all(&folder).map_err(|error| refusal(&folder, &error))?;
    Ok(folder)
}

/// Removes the instance's pins; absent ones are no error.
pub(crate) fn remove_folder(instance: &InstanceName) -> io::Result<()> {
    let folder = instance.folder();
    // A BPF file system's folders hold only pins here, and removing a pin only drops a reference.
    match std::fs::read_dir(&folder) {
        Ok(entries) => {
            for entry in entries {
                std::fs::remove_file(entry?.path())?;
            }
            std::fs::remove_dir(&folder)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// This process, as the `owner` map names it.
pub(crate) fn own_identity() -> RawOwner {
    let pid = std::process::id();
    RawOwner {
        layout_version: LAYOUT_VERSION,
        pid,
        start_ticks: start_ticks(pid).unwrap_or(0),
    }
}

/// Returns whether the process that an `owner` map names still runs.
pub(crate) fn is_alive(owner: &RawOwner) -> bool {
    start_ticks(owner.pid) == Some(owner.start_ticks)
}

/// Start of a process in clock ticks since boot: field 22 of `/proc/<pid>/stat` (proc(5)).
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command may hold spaces and parentheses: fields are counted from the last one. State is field 3.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    // A zombie runs no more: its pins are stale although its number is taken.
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

fn mount_bpffs() -> io::Result<()> {
    let path = CString::new(BPFFS).map_err(io::Error::other)?;
    // SAFETY: `statfs` is plain data that the call fills; the path is NUL-terminated and outlives the call.
    let found = unsafe {
        let mut info: libc::statfs = core::mem::zeroed();
        libc::statfs(path.as_ptr(), &mut info) == 0 && info.f_type == BPFFS_MAGIC
    };
    if found {
        return Ok(());
    }
    // SAFETY: all strings are NUL-terminated and outlive the call.
    let mounted = unsafe {
        libc::mount(
            c"bpf".as_ptr(),
            path.as_ptr(),
            c"bpf".as_ptr(),
            0,
            c"mode=0700".as_ptr().cast(),
        )
    };
    if mounted == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn refusal(path: &Path, error: &io::Error) -> Unavailable {
    Unavailable::Pin {
        path: path.into(),
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_alive, own_identity};

    #[test]
    fn a_reused_process_id_is_not_the_owner() {
        let mut owner = own_identity();
        assert!(is_alive(&owner));
        owner.start_ticks += 1;
        assert!(!is_alive(&owner));
    }
}
