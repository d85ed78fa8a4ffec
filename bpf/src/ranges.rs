//! Watching the ranges of programs through the USDT probes of the driver library that they have loaded.
//!
//! The programs are attached to the file, so that they see every process that has it mapped, those included that start
//! later. Who of them is a tenant's is up to the reader.
//!
//! Rules: the file is read with libelf, which is not made for files of somebody else's: it must be one that the
//! operator trusts as this program; the ring is as that of events.

use std::path::Path;

use libbpf_rs::{ErrorKind, Link, Object, UsdtOpts};

use crate::load::{self, RANGES};
use crate::range::{Range, RangeProbe};
use crate::reader::ReadError;
use crate::ring_reader::{self, RingReader};
use crate::unavailable::Unavailable;

/// Every process, as libbpf has it said.
const ALL_PROCESSES: i32 = -1;

/// The ranges of every process that uses a library.
pub struct RangeTrace {
    // Links go first: each refers to the object.
    _links: Vec<Link>,
    ring: RingReader<Range>,
    object: Object,
}

impl RangeTrace {
    /// Attaches to the probes of a driver library of ours.
    ///
    /// # Errors
    /// [`Unavailable`]; `NoLibrary` where the file is not there or has no such probes, `NotAttached` where the kernel
    /// refuses them.
    pub fn attach(library: &Path) -> Result<Self, Unavailable> {
        let object = load::load("ranges", RANGES, |_| Ok(()))?;
        let ring = RingReader::new(&object, "gridmux_ranges", Range::of)?;
        let program = (object.progs_mut())
            .find(|program| program.name() == "gridmux_range")
            .expect("ranges.bpf.c defines this program");
        let mut kind = ErrorKind::Other;
        let links = load::listen(|| {
            let links = RangeProbe::ALL.into_iter().map(|probe| {
                let options = UsdtOpts {
                    cookie: u64::from(probe as u32),
                    ..UsdtOpts::default()
                };
                let name = probe.probe();
                program.attach_usdt_with_opts(ALL_PROCESSES, library, "gridmux", name, options)
            });
            let links = links.collect::<libbpf_rs::Result<Vec<Link>>>();
            links.inspect_err(|error| kind = error.kind())
        });
        let links = links.map_err(|reason| why(kind, library, reason))?;
        Ok(Self {
            _links: links,
            ring,
            object,
        })
    }

    /// Takes up to `most` hits that have come since the last time, oldest first, and adds them to `ranges`.
    ///
    /// # Errors
    /// [`ReadError::Kernel`].
    pub fn take(&mut self, most: usize, ranges: &mut Vec<Range>) -> Result<(), ReadError> {
        self.ring.take(most, ranges)
    }

    /// Returns how many hits found no room so far.
    ///
    /// # Errors
    /// [`ReadError::Kernel`].
    pub fn lost(&self) -> Result<u64, ReadError> {
        ring_reader::lost(&self.object)
    }
}

impl std::fmt::Debug for RangeTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RangeTrace").finish_non_exhaustive()
    }
}

/// Returns why a library cannot be watched: the kernel counts who watches in every process that has it loaded, and
/// calls it an invalid argument where a process's count is none.
fn why(kind: ErrorKind, library: &Path, reason: String) -> Unavailable {
    let library = library.display().to_string();
    match kind {
        ErrorKind::InvalidInput => Unavailable::NotAttached { library, reason },
        _ => Unavailable::NoLibrary { library, reason },
    }
}

#[cfg(test)]
mod tests {
    use super::why;
    use crate::unavailable::Unavailable;
    use libbpf_rs::{Error, ErrorKind};
    use std::path::Path;

    #[test]
    fn what_the_kernel_refuses_is_no_library_that_lacks_probes() {
        let of = |kind| why(kind, Path::new("/l"), "it".into());
        let refused = of(Error::from_raw_os_error(libc::EINVAL).kind());
        assert!(matches!(refused, Unavailable::NotAttached { .. }));
        let text = refused.to_string();
        assert!(
            text.contains("the kernel refused to attach to /l: it"),
            "{text}"
        );
        for kind in [ErrorKind::NotFound, ErrorKind::Other] {
            assert!(matches!(of(kind), Unavailable::NoLibrary { .. }));
        }
    }
}
