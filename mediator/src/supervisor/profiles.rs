//! What is known of kernels, kept while device hosts come and go, and in a file (`profiles.file`) while the service is
//! down.
//!
//! The device host learns. Now and then, and at its end, it says what it knows; that is checked, kept here, given to
//! the next host, and written. A host may be taken over, so that what it says of kernels may be wrong: that misleads
//! predictions, and nothing else.
//!
//! The folder of the file is made where it is missing, one level deep and with mode 0750; under systemd it is there
//! already (`StateDirectory`).
//!
//! Rules: a file of profiles that is not what it should be is never overwritten: it is set aside under another name,
//! and the service begins without profiles; where even that fails, and where the file is something else, a link or no
//! plain file, it is left alone and nothing is written. No link is followed. One service writes a file: it holds the
//! lock beside it.

use crate::kept_file::{beside, make_folder, set_aside};
use gridmux_policy::{Profile, ProfileFile, ProfileFileError, ProfileKey, ProfiledDevice};
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Least time between two writes of the file.
const WRITE_PAUSE: Duration = Duration::from_secs(60);

/// The profiles of the service's device.
#[derive(Debug)]
pub(super) struct Kept {
    /// None where nothing is to be written.
    file: Option<PathBuf>,
    /// Keeps other services from the file; none where there is no file, or no folder for it yet.
    lock: Option<Flock<File>>,
    held: ProfileFile,
    is_written: bool,
    written_at: Instant,
}

/// Why a file cannot be used.
#[derive(Debug)]
enum Unusable {
    /// It is to be set aside.
    Content(ProfileFileError),
    /// It is to be left alone.
    File(String),
}

impl Kept {
    /// Reads the file, if there is one, for a device.
    pub(super) fn open(file: Option<&Path>, device: ProfiledDevice) -> Self {
        let mut kept = Self {
            file: file.map(Path::to_owned),
            lock: None,
            held: ProfileFile {
                device,
                profiles: Vec::new(),
            },
            is_written: true,
            written_at: Instant::now(),
        };
        let Some(path) = file else {
            return kept;
        };
        if let Err(error) = make_folder(path) {
            // Somebody may make it later: each write is tried anew.
            tracing::error!(%error, "profiles cannot be kept (profiles.file)");
        }
        let device = kept.held.device.clone();
        let mut found = read(path, &device);
        // What is not to be written needs no lock, nor a file for it.
        if !matches!(found, Err(Unusable::File(_))) {
            match kept.take_lock() {
                // Whoever held it may have written meanwhile.
                Ok(()) => found = read(path, &device),
                // Without a folder that can be written nobody else writes there either.
                Err(error) if is_no_place(&error) => {}
                Err(error) => {
                    let file = path.display();
                    tracing::error!(%error, %file, "no profiles are known, and none will be written (profiles.file)");
                    kept.file = None;
                    return kept;
                }
            }
        }
        match found {
            Ok(None) => {}
            Ok(Some(read)) => {
                let profiles = read.profiles.len();
                tracing::info!(file = %path.display(), profiles, "profiles of kernels read");
                kept.held = read;
            }
            Err(Unusable::Content(error)) => match set_aside(path) {
                Ok(aside) => {
                    let aside = aside.display();
                    tracing::error!(%error, %aside, "no profiles are known; the file was set aside");
                }
                Err(failure) => {
                    tracing::error!(%error, %failure, "no profiles are known, and none will be written");
                    kept.file = None;
                }
            },
            Err(Unusable::File(error)) => {
                tracing::error!(%error, "no profiles are known, and none will be written");
                kept.file = None;
            }
        }
        kept
    }

    /// Returns what is known, for a host that begins.
    pub(super) fn profiles(&self) -> &[(ProfileKey, Profile)] {
        &self.held.profiles
    }

    /// Takes what a host says that it knows, unless that is not what a host can know.
    pub(super) fn take(&mut self, profiles: Vec<(ProfileKey, Profile)>) {
        let is_sound = profiles.len() <= gridmux_policy::profiles::CAPACITY
            && profiles.iter().all(|(_, profile)| profile.is_sound())
            && profiles.is_sorted_by(|(one, _), (other, _)| one < other);
        if !is_sound {
            tracing::warn!("the device host's profiles make no sense; they are not taken");
            return;
        }
        self.is_written &= self.held.profiles == profiles;
        self.held.profiles = profiles;
    }

    /// Writes the file if there is something new, now and then.
    pub(super) fn write_if_due(&mut self) {
        if !self.is_written && self.written_at.elapsed() >= WRITE_PAUSE {
            self.write();
        }
    }

    /// Writes the file if there is something new.
    pub(super) fn write(&mut self) {
        if self.is_written {
            return;
        }
        // A write that failed is tried again after the pause, and at the end.
        self.written_at = Instant::now();
        let Some(path) = self.file.clone() else {
            return;
        };
        match self.take_lock().and_then(|()| self.held.write(&path)) {
            Ok(()) => self.is_written = true,
            Err(error) => {
                tracing::warn!(%error, file = %path.display(), "profiles are not written; is its folder there?");
            }
        }
    }

    /// Takes the lock on the file, unless it is held already.
    fn take_lock(&mut self) -> io::Result<()> {
        let Some(path) = self.file.as_deref().filter(|_| self.lock.is_none()) else {
            return Ok(());
        };
        let place = beside(path, ".lock");
        let mut options = OpenOptions::new();
        // For its owner alone: whoever can open it can hold it.
        let options = options.read(true).write(true).create(true).mode(0o600);
        let file = options
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&place)?;
        let found = file.metadata()?;
        if !found.is_file() || found.nlink() != 1 || found.uid() != geteuid().as_raw() {
            let place = place.display();
            return Err(io::Error::other(format!(
                "{place} is no plain file of this user's; remove it"
            )));
        }
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => self.lock = Some(lock),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => {
                return Err(io::Error::other(
                    "another service keeps its profiles in this file; name another one",
                ));
            }
            Err((_, errno)) => return Err(errno.into()),
        }
        Ok(())
    }
}

/// Returns whether an error says that there is no folder, or none that can be written.
fn is_no_place(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(
        error.kind(),
        NotFound | NotADirectory | PermissionDenied | ReadOnlyFilesystem
    )
}

/// Opens and reads the file; nothing if there is none.
fn read(path: &Path, device: &ProfiledDevice) -> Result<Option<ProfileFile>, Unusable> {
    let place = |what: String| Unusable::File(format!("{}: {what}", path.display()));
    let opened = OpenOptions::new()
        .read(true)
        // Not blocking: a pipe of that name would hold the service up.
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(place(
                "is a link; name the file that it leads to in profiles.file".into(),
            ));
        }
        Err(error) => return Err(place(error.to_string())),
    };
    let is_plain = file.metadata().is_ok_and(|metadata| metadata.is_file());
    if !is_plain {
        return Err(place(
            "is no plain file; name another one in profiles.file".into(),
        ));
    }
    let read = ProfileFile::read(file, path).and_then(|read| read.of_device(device, path));
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error @ (ProfileFileError::Read { .. } | ProfileFileError::Other { .. })) => {
            Err(Unusable::File(error.to_string()))
        }
        Err(error) => Err(Unusable::Content(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::Kept;
    use gridmux_policy::profiles::CAPACITY;
    use gridmux_policy::{Profile, ProfileKey, ProfiledDevice};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::{Path, PathBuf};

    const GOOD: Profile = Profile {
        block_ns: 1000.0,
        blocks: 7,
        alone: true,
    };

    /// A folder of a test's own.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let name = format!("gridmux-profiles-{}-{test}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir_all(&folder).expect("a folder");
            Self(folder)
        }

        fn file(&self) -> PathBuf {
            self.0.join("profiles")
        }

        /// Returns the names in it, but for those of locks.
        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).expect("a folder");
            let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
            let names = entries.map(|entry| name(entry).into_string().expect("UTF-8"));
            let mut names: Vec<String> = names.filter(|name| !name.ends_with(".lock")).collect();
            names.sort_unstable();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn device(name: &str) -> ProfiledDevice {
        ProfiledDevice {
            name: name.to_owned(),
            sms: 8,
        }
    }

    /// Writes a file with one profile.
    fn keep(file: &Path) {
        let mut kept = Kept::open(Some(file), device("x"));
        kept.take(vec![(ProfileKey(1), GOOD)]);
        kept.write();
    }

    #[test]
    fn what_a_host_learnt_is_written_and_read_again() {
        let folder = Folder::new("again");
        keep(&folder.file());
        let mode = fs::metadata(folder.file())
            .expect("it is there")
            .permissions();
        assert_eq!(mode.mode() & 0o7777, 0o640);
        let kept = Kept::open(Some(&folder.file()), device("x"));
        assert_eq!(kept.profiles(), [(ProfileKey(1), GOOD)]);
        assert_eq!(folder.names(), ["profiles"]);
    }

    #[test]
    fn without_a_file_it_is_kept_for_the_next_host_only() {
        let mut kept = Kept::open(None, device("x"));
        kept.take(vec![(ProfileKey(1), GOOD)]);
        kept.write();
        assert_eq!(kept.profiles(), [(ProfileKey(1), GOOD)]);
    }

    #[test]
    fn bad_and_foreign_files_are_set_aside_and_not_overwritten() {
        let folder = Folder::new("aside");
        keep(&folder.file());
        let foreign = fs::read(folder.file()).expect("it is there");
        let kept = Kept::open(Some(&folder.file()), device("y"));
        assert_eq!(
            (kept.profiles().len(), folder.names()),
            (0, vec!["profiles.bad1".into()])
        );
        drop(kept);
        let (cut, head) = (&foreign[..foreign.len() - 9], &foreign[..40]);
        for bad in [cut, head] {
            fs::write(folder.file(), bad).expect("written");
            keep(&folder.file());
        }
        let aside = |n: u32| fs::read(folder.0.join(format!("profiles.bad{n}"))).expect("kept");
        assert_eq!(
            (aside(1), aside(2), aside(3)),
            (foreign.clone(), cut.to_vec(), head.to_vec())
        );
        assert_eq!(fs::read(folder.file()).expect("written anew"), foreign);
    }

    #[test]
    fn a_file_of_something_else_is_left_alone() {
        let folder = Folder::new("other");
        for other in [&b"{}\n"[..], b"\xff\xfe", b"", b"root:x:0:0\n"] {
            fs::write(folder.file(), other).expect("written");
            keep(&folder.file());
            assert_eq!(fs::read(folder.file()).expect("it is there"), other);
            assert_eq!(folder.names(), ["profiles"]);
        }
    }

    #[test]
    fn a_file_has_one_service() {
        let folder = Folder::new("two");
        let mut first = Kept::open(Some(&folder.file()), device("x"));
        let mut second = Kept::open(Some(&folder.file()), device("x"));
        second.take(vec![(ProfileKey(2), GOOD)]);
        second.write();
        assert!(folder.names().is_empty(), "the file is the first one's");
        first.take(vec![(ProfileKey(1), GOOD)]);
        first.write();
        drop(first);
        let third = Kept::open(Some(&folder.file()), device("x"));
        assert_eq!(third.profiles(), [(ProfileKey(1), GOOD)]);
        let lock = fs::metadata(folder.0.join("profiles.lock")).expect("it stays");
        assert_eq!(lock.permissions().mode() & 0o7777, 0o600);
    }

    #[test]
    fn without_its_lock_nothing_is_written() {
        let folder = Folder::new("locked");
        symlink(folder.0.join("other"), folder.0.join("profiles.lock")).expect("a link");
        keep(&folder.file());
        assert!(folder.names().is_empty(), "{:?}", folder.names());
    }

    #[test]
    fn links_and_other_things_are_left_alone() {
        let folder = Folder::new("links");
        let target = folder.0.join("target");
        keep(&target);
        let before = fs::read(&target).expect("it is there");
        symlink(&target, folder.file()).expect("a link");
        let mut kept = Kept::open(Some(&folder.file()), device("x"));
        assert!(kept.profiles().is_empty());
        kept.take(vec![(ProfileKey(2), GOOD)]);
        kept.write();
        assert_eq!(fs::read(&target).expect("it is there"), before);
        assert!(
            fs::symlink_metadata(folder.file())
                .expect("there")
                .is_symlink()
        );
        fs::remove_file(folder.file()).expect("removed");
        fs::create_dir(folder.file()).expect("a folder");
        keep(&folder.file());
        assert_eq!(folder.names(), ["profiles", "target"]);
    }

    #[test]
    fn a_file_is_not_written_through_a_link() {
        let folder = Folder::new("through");
        let target = folder.0.join("target");
        fs::write(&target, "mine").expect("written");
        let mut kept = Kept::open(Some(&folder.file()), device("x"));
        let beside = format!("profiles.{}.new", std::process::id());
        for name in ["profiles", &beside] {
            symlink(&target, folder.0.join(name)).expect("a link");
        }
        kept.take(vec![(ProfileKey(1), GOOD)]);
        kept.write();
        assert_eq!(fs::read(&target).expect("there"), b"mine");
        assert!(
            fs::symlink_metadata(folder.file())
                .expect("there")
                .is_file()
        );
        assert_eq!(folder.names(), ["profiles", "target"]);
    }

    #[test]
    fn a_write_that_failed_is_tried_again() {
        let folder = Folder::new("later");
        let inner = folder.0.join("much/later");
        let mut kept = Kept::open(Some(&inner.join("profiles")), device("x"));
        kept.take(vec![(ProfileKey(1), GOOD)]);
        kept.write();
        assert!(folder.names().is_empty(), "one folder is made, and not two");
        fs::create_dir_all(&inner).expect("made");
        kept.write();
        assert!(inner.join("profiles").is_file());
    }

    #[test]
    fn a_missing_folder_is_made_and_closed_to_others() {
        let folder = Folder::new("made");
        let inner = folder.0.join("gridmux");
        keep(&inner.join("profiles"));
        let metadata = fs::metadata(&inner).expect("it was made");
        assert_eq!(metadata.permissions().mode() & 0o7027, 0);
        assert!(inner.join("profiles").is_file());
    }

    #[test]
    fn what_no_host_can_know_is_not_taken() {
        let mut kept = Kept::open(None, device("x"));
        kept.take(vec![(ProfileKey(1), GOOD)]);
        let of = |key: u64, block_ns: f64, blocks: u32| {
            let profile = Profile {
                block_ns,
                blocks,
                ..GOOD
            };
            (ProfileKey(key), profile)
        };
        for bad in [
            vec![of(2, f64::NAN, 1)],
            vec![of(2, f64::INFINITY, 1)],
            vec![of(2, -1.0, 1)],
            vec![of(2, 1.0, 0)],
            vec![of(2, 1.0, u32::MAX)],
            vec![of(3, 1.0, 1), of(2, 1.0, 1)],
            vec![of(2, 1.0, 1), of(2, 1.0, 1)],
            (0..=CAPACITY as u64).map(|key| of(key, 1.0, 1)).collect(),
        ] {
            kept.take(bad);
            assert_eq!(kept.profiles(), [(ProfileKey(1), GOOD)]);
        }
    }
}
