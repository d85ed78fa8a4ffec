//! Attaching programs to the USDT probes of a process.
//!
//! Rule: a probe that the executable lacks is no failure as long as it has another one that is asked for, because a
//! linker leaves out what its program never calls.

use std::ffi::OsStr;

use libbpf_rs::{ErrorKind, Link, Object, UsdtOpts};

use crate::load;
use crate::probes::Probe;
use crate::unavailable::Unavailable;

/// Attaches, for each probe that the process's executable has, the program of an object that `program_of` names; the
/// probe's number is the program's cookie.
///
/// # Errors
/// [`Unavailable::NoProbes`] when the process is gone or has none of them.
pub(crate) fn present(
    object: &Object,
    pid: u32,
    probes: &[Probe],
    program_of: impl Fn(Probe) -> &'static str,
) -> Result<Vec<Link>, Unavailable> {
    load::listen(|| {
        let mut links = Vec::new();
        let mut absent = None;
        for &probe in probes {
            match one(object, pid, probe, program_of(probe)) {
                Ok(link) => links.push(link),
                Err(error) if error.kind() == ErrorKind::NotFound => absent = Some(error),
                Err(error) => return Err(error),
            }
        }
        match absent {
            Some(error) if links.is_empty() => Err(error),
            _ => Ok(links),
        }
    })
    .map_err(|reason| Unavailable::NoProbes { pid, reason })
}

fn one(object: &Object, pid: u32, probe: Probe, program: &str) -> libbpf_rs::Result<Link> {
    let program = object
        .progs_mut()
        .find(|known| known.name() == OsStr::new(program))
        .expect("the objects define every program that this room names");
    let options = UsdtOpts {
        cookie: u64::from(probe as u32),
        ..UsdtOpts::default()
    };
    let pid = i32::try_from(pid).map_err(|_| libbpf_rs::Error::from_raw_os_error(libc::ESRCH))?;
    let executable = format!("/proc/{pid}/exe");
    program.attach_usdt_with_opts(pid, executable, "gridmux", probe.name(), options)
}
