//! The file of a page: made and read by the supervisor, mapped and written by a device host.

use super::index::{self, HEADER_WORDS, Head, Source, Unread, publish, words_for, words_of};
use super::kernels::{KERNEL_BYTES, KERNELS};
use super::plan::PLAN_BYTES;
use super::snapshot::Snapshot;
use gridmux_sync::shim::AtomicU64;
use memmap2::{MmapMut, MmapOptions};
use nix::fcntl::{OFlag, posix_fallocate};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt as _};
use std::path::Path;

/// "gridmux" and a version of the whole format, as the first word.
const MAGIC: u64 = u64::from_be_bytes(*b"gridmux\x01");
/// Version of the snapshot's encoding.
const VERSION: u64 = 6;
/// Bytes of a copy for what there is one of.
const BASE_BYTES: usize = 64 << 10;
/// Bytes of a copy for each tenant: about 300 for names and counters, and as much for each histogram.
const TENANT_BYTES: usize = 1 << 10;
/// Bytes of a copy for each client.
const CLIENT_BYTES: usize = 256;

/// Why a page cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// A system call failed.
    #[error("the page of statistics: {0}")]
    System(#[from] io::Error),
    /// The snapshot does not fit.
    #[error("a snapshot of {bytes} bytes does not fit into the {capacity} of a page's copy")]
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// Those of a copy.
        capacity: usize,
    },
    /// The page is not what it should be.
    #[error("the page of statistics makes no sense: {0}")]
    Nonsense(String),
}

/// Returns how many bytes a copy holds in a page for that many tenants and clients, and for the kernels and the plan of
/// all.
#[must_use]
pub fn capacity_for(tenants: u16, clients: u16) -> usize {
    let tenants = usize::from(tenants) * TENANT_BYTES;
    let clients = usize::from(clients) * CLIENT_BYTES;
    BASE_BYTES + tenants + clients + KERNELS * KERNEL_BYTES + PLAN_BYTES
}

/// Encodes a snapshot; without the buckets of histograms where it is longer than a copy otherwise.
fn encode(snapshot: &Snapshot, capacity: usize) -> Result<Vec<u8>, PageError> {
    let encode = |snapshot: &Snapshot| {
        postcard::to_allocvec(snapshot).map_err(|error| PageError::Nonsense(error.to_string()))
    };
    let mut bytes = encode(snapshot)?;
    if bytes.len() > capacity {
        let mut shorter = snapshot.clone();
        for tenant in &mut shorter.tenants {
            (tenant.start, tenant.complete) = Default::default();
        }
        bytes = encode(&shorter)?;
    }
    match bytes.len() <= capacity {
        true => Ok(bytes),
        false => Err(PageError::TooLong {
            bytes: bytes.len(),
            capacity,
        }),
    }
}

/// Returns the checksum of a publication (CRC-32, as in zlib).
fn checksum(sequence: u64, bytes: &[u8]) -> u64 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&sequence.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize().into()
}

/// Returns what is published for bytes: their head, and the words that hold them.
fn publication(sequence: u64, bytes: &[u8]) -> (Head, Vec<u64>) {
    let head = Head {
        sequence,
        length: bytes.len() as u64,
        checksum: checksum(sequence, bytes),
    };
    let (whole, rest) = bytes.as_chunks::<8>();
    let mut words: Vec<u64> = whole.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        words.push(u64::from_ne_bytes(last));
    }
    (head, words)
}

/// Reads the newest snapshot of a page whose copies hold `capacity` bytes.
fn read<S: Source<Error = E> + ?Sized, E: Into<io::Error>>(
    page: &S,
    capacity: usize,
) -> Result<(u64, Snapshot), PageError> {
    let nonsense = |what: &str| PageError::Nonsense(what.to_owned());
    let mut words = Vec::new();
    let head = index::read(page, words_of(capacity), &mut words).map_err(|error| match error {
        Unread::Empty => nonsense("it holds nothing"),
        Unread::Length(length) => {
            PageError::Nonsense(format!("a copy says that it is {length} bytes long"))
        }
        Unread::Busy => nonsense("its writer does not let go of it"),
        Unread::Source(error) => PageError::System(error.into()),
    })?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let length = usize::try_from(head.length).unwrap_or(usize::MAX);
    let bytes = bytes
        .get(..length)
        .ok_or_else(|| nonsense("a copy is short"))?;
    if checksum(head.sequence, bytes) != head.checksum {
        return Err(nonsense("a checksum is wrong"));
    }
    // Decoding reserves no more for a list than the bytes that are left could hold, and at most a mebibyte at once.
    let snapshot =
        postcard::from_bytes(bytes).map_err(|error| PageError::Nonsense(error.to_string()))?;
    Ok((head.sequence, snapshot))
}

/// The page as its maker and reader has it.
#[derive(Debug)]
pub struct PageFile {
    file: File,
    /// Bytes that a copy holds.
    capacity: usize,
}

impl PageFile {
    /// Makes a page of an empty file, with a first snapshot.
    ///
    /// # Errors
    /// There is no room for it, or it cannot be written.
    pub fn make(file: File, capacity: usize, first: &Snapshot) -> Result<Self, PageError> {
        let capacity = capacity.next_multiple_of(8);
        let bytes = 8 * words_for(words_of(capacity));
        // Room that is there already is never missing when the host writes, which could only kill it then.
        posix_fallocate(&file, 0, i64::try_from(bytes).unwrap_or(i64::MAX))
            .map_err(io::Error::from)?;
        let page: Vec<AtomicU64> = (0..words_for(words_of(capacity)))
            .map(|_| AtomicU64::new(0))
            .collect();
        let (head, words) = publication(1, &encode(first, capacity)?);
        publish(&page, words_of(capacity), &head, &words);
        let mut words: Vec<u64> = page.into_iter().map(AtomicU64::into_inner).collect();
        words[..3].copy_from_slice(&[MAGIC, VERSION, capacity as u64]);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        file.write_all_at(&bytes, 0)?;
        Ok(Self { file, capacity })
    }

    /// Opens the page of a service from its run directory, to be read while the service does not answer.
    ///
    /// # Errors
    /// It is not there, may not be read, or is no page of this version.
    pub fn open(run_dir: &Path) -> Result<Self, PageError> {
        let file = File::options()
            .read(true)
            .custom_flags(flags_of_opening())
            .open(run_dir.join(super::FILE))?;
        if !file.metadata()?.is_file() {
            return Err(PageError::Nonsense("it is no file".into()));
        }
        let capacity = capacity_of(&file)?;
        Ok(Self { file, capacity })
    }

    /// Returns its descriptor, to be handed to a host.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Reads the newest snapshot and its sequence.
    ///
    /// # Errors
    /// The page is not what a host that works makes of it.
    pub fn read(&self) -> Result<(u64, Snapshot), PageError> {
        read(&self.file, self.capacity)
    }
}

impl Source for File {
    type Error = io::Error;

    fn read(&self, from: usize, into: &mut [u64]) -> io::Result<()> {
        let mut bytes = vec![0; 8 * into.len()];
        self.read_exact_at(&mut bytes, 8 * from as u64)?;
        for (word, bytes) in into.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        Ok(())
    }
}

/// Returns how many bytes a copy of a page holds, as its header says.
fn capacity_of(file: &File) -> Result<usize, PageError> {
    let mut header = [0; HEADER_WORDS];
    Source::read(file, 0, &mut header)?;
    let capacity = match header {
        [MAGIC, VERSION, capacity, ..] => usize::try_from(capacity).unwrap_or(usize::MAX),
        _ => return Err(PageError::Nonsense("it is of another version".into())),
    };
    let bytes = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    match capacity > bytes || 8 * words_for(words_of(capacity)) > bytes {
        true => Err(PageError::Nonsense("it is short".into())),
        false => Ok(capacity),
    }
}

/// Returns the flags of opening a page by its name: no link is followed, and what is no file is not waited for.
fn flags_of_opening() -> i32 {
    (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).bits()
}

/// The page as its writer has it.
#[derive(Debug)]
pub struct MappedPage {
    map: MmapMut,
    capacity: usize,
    sequence: u64,
}

impl MappedPage {
    /// Maps a page that the supervisor made, and reads what was counted before. The descriptor is closed.
    ///
    /// # Errors
    /// It is no page, or cannot be mapped.
    pub fn open(descriptor: OwnedFd) -> Result<(Self, Snapshot), PageError> {
        let file = File::from(descriptor);
        let capacity = capacity_of(&file)?;
        let bytes = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        let (sequence, snapshot) = read(&file, capacity)?;
        // SAFETY: the mapping is used as atomic words only, so that other processes may read and write them as well;
        // the file is not cut short, because only the supervisor, which never does, and this process can.
        let map = unsafe { MmapOptions::new().len(bytes).map_mut(&file)? };
        let page = Self {
            map,
            capacity,
            sequence,
        };
        Ok((page, snapshot))
    }

    /// Publishes a snapshot.
    ///
    /// # Errors
    /// It does not fit.
    pub fn write(&mut self, snapshot: &Snapshot) -> Result<(), PageError> {
        let bytes = encode(snapshot, self.capacity)?;
        self.sequence += 1;
        let (head, words) = publication(self.sequence, &bytes);
        publish(self.words(), words_of(self.capacity), &head, &words);
        Ok(())
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page boundary, which is aligned for words, is that long, lives as long as
        // `self`, and is reached through atomics only.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast(), self.map.len() / 8) }
    }
}

#[cfg(test)]
mod tests {
    use super::{MappedPage, PageError, PageFile, capacity_for};
    use crate::page::snapshot::{Buckets, Snapshot, TenantSnapshot};
    use gridmux_workloads::Prng;
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    fn snapshot(tenants: usize, launches: u64) -> Snapshot {
        let tenant = |number: usize| TenantSnapshot {
            name: format!("tenant{number}"),
            usage: crate::dispatch::accounting::TenantUsage {
                launches,
                ..Default::default()
            },
            start: Buckets(vec![(7, launches)], (7, 7)),
            ..TenantSnapshot::default()
        };
        Snapshot {
            at_ns: launches,
            tenants: (0..tenants).map(tenant).collect(),
            ..Snapshot::default()
        }
    }

    fn page(capacity: usize) -> (PageFile, MappedPage, File) {
        let file = tempfile::tempfile().unwrap();
        let (other, third) = (file.try_clone().unwrap(), file.try_clone().unwrap());
        let page = PageFile::make(file, capacity, &snapshot(2, 5)).unwrap();
        let (mapped, first) = MappedPage::open(other.into()).unwrap();
        assert_eq!(first, snapshot(2, 5));
        (page, mapped, third)
    }

    #[test]
    fn the_newest_snapshot_is_read_whoever_writes_it() {
        let (page, mut mapped, _) = page(capacity_for(4, 4));
        assert_eq!(page.read().unwrap(), (1, snapshot(2, 5)));
        for launches in 6..20 {
            mapped.write(&snapshot(3, launches)).unwrap();
            assert_eq!(page.read().unwrap().1, snapshot(3, launches));
        }
        drop(mapped);
        assert_eq!(page.read().unwrap(), (15, snapshot(3, 19)));
    }

    #[test]
    fn a_snapshot_that_is_too_long_loses_its_histograms_and_then_is_refused() {
        let (page, mut mapped, _) = page(1000);
        let mut long = snapshot(4, 9);
        long.tenants[0].start = Buckets(
            (0..496).map(|number| (number, u64::MAX)).collect(),
            (0, u64::MAX),
        );
        mapped.write(&long).unwrap();
        let read = page.read().unwrap().1;
        assert_eq!((read.tenants.len(), read.tenants[0].usage.launches), (4, 9));
        assert_eq!(read.tenants[0].start, Buckets::default());
        let error = mapped.write(&snapshot(400, 1)).unwrap_err();
        assert!(
            matches!(error, PageError::TooLong { capacity: 1000, .. }),
            "{error}"
        );
        assert_eq!(page.read().unwrap().1.tenants.len(), 4);
    }

    #[test]
    fn a_page_that_somebody_changed_is_refused_or_read_and_never_harms() {
        let (page, mut mapped, file) = page(4096);
        let mut prng = Prng::new(0x9a9e);
        let length = file.metadata().unwrap().len();
        let (mut refused, mut read) = (0, 0);
        for round in 0..20_000_u64 {
            if round % 50 == 0 {
                mapped.write(&snapshot(8, round)).unwrap();
            }
            // Mostly where it matters: the header and the heads of the copies.
            let place = match round % 3 {
                0 => u64::from(prng.below(64)),
                1 => 64 + (length - 64) / 2 * u64::from(prng.below(2)) + u64::from(prng.below(64)),
                _ => prng.next_u64() % length,
            };
            let mut byte = [0];
            file.read_exact_at(&mut byte, place).unwrap();
            let changed = byte[0] ^ (1 << prng.below(8));
            file.write_all_at(&[changed], place).unwrap();
            match page.read() {
                Ok((_, snapshot)) => {
                    let _ = snapshot.settle(8, 8);
                    read += 1;
                }
                Err(_) => refused += 1,
            }
            if prng.below(2) == 0 {
                file.write_all_at(&byte, place).unwrap();
            }
        }
        assert!(
            refused > 1000 && read > 1000,
            "{refused} refused, {read} read"
        );
        // Bytes with a checksum that is right are hostile as well.
        for _ in 0..20_000 {
            let length = prng.below(200) as usize;
            let bytes: Vec<u8> = (0..length)
                .map(|_| prng.next_u64().to_le_bytes()[0])
                .collect();
            mapped.sequence += 1;
            let (head, words) = super::publication(mapped.sequence, &bytes);
            super::publish(mapped.words(), 512, &head, &words);
            if let Ok((_, snapshot)) = page.read() {
                let _ = snapshot.settle(8, 8).end();
            }
        }
        file.set_len(100).unwrap();
        assert!(matches!(page.read(), Err(PageError::System(_))));
    }
}
