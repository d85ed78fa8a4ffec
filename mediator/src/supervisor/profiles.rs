//! What is known of kernels, kept while device hosts come and go, and in a file (`profiles.file`) while the service is
//! down.
//!
//! The device host learns. Now and then, and at its end, it says what it knows; that is checked, kept here, given to the
//! next host, and written. A host may be taken over, so that what it says of kernels may be wrong: that misleads
//! predictions, and nothing else.
//!
//! Rules: a file that is not what it should be is never overwritten: it is set aside under another name, and the
//! service begins without profiles; where even that fails, and where the file is a link or no plain file, nothing is
//! written. No link is followed.

use gridmux_policy::{Profile, ProfileFile, ProfileFileError, ProfileKey, ProfiledDevice};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Least time between two writes of the file.
const WRITE_PAUSE: Duration = Duration::from_secs(60);
/// Files that are set aside at most.
const MOST_ASIDE: u32 = 100;

/// The profiles of the service's device.
#[derive(Debug)]
pub(super) struct Kept {
    /// None where nothing is to be written.
    file: Option<PathBuf>,
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
    Place(String),
}

impl Kept {
    /// Reads the file, if there is one, for a device.
    pub(super) fn open(file: Option<&Path>, device: ProfiledDevice) -> Self {
        let mut kept = Self {
            file: file.map(Path::to_owned),
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
        match read(path, &kept.held.device) {
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
            Err(Unusable::Place(error)) => {
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
        let Some(path) = &self.file else {
            return;
        };
        match self.held.write(path) {
            Ok(()) => self.is_written = true,
            Err(error) => {
                tracing::warn!(%error, file = %path.display(), "profiles are not written; is its folder there?");
            }
        }
    }
}

/// Opens and reads the file; nothing if there is none.
fn read(path: &Path, device: &ProfiledDevice) -> Result<Option<ProfileFile>, Unusable> {
    let place = |what: String| Unusable::Place(format!("{}: {what}", path.display()));
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
        Err(error @ ProfileFileError::Read { .. }) => Err(Unusable::Place(error.to_string())),
        Err(error) => Err(Unusable::Content(error)),
    }
}

/// Gives the file another name, which no file has; returns it.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    for number in 1..=MOST_ASIDE {
        let aside = beside(path, &format!(".bad{number}"));
        if aside.symlink_metadata().is_err() {
            fs::rename(path, &aside)?;
            return Ok(aside);
        }
    }
    Err(io::Error::other(format!(
        "{MOST_ASIDE} files were set aside already; remove them"
    )))
}

/// Returns the path with an addition to the file's name.
fn beside(path: &Path, addition: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(addition);
    name.into()
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

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).expect("a folder");
            let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
            let names = entries.map(|entry| name(entry).into_string().expect("UTF-8"));
            let mut names: Vec<String> = names.collect();
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
        let cut = &foreign[..foreign.len() - 9];
        for bad in [cut, b"{}\n", b"\xff\xfe", b""] {
            fs::write(folder.file(), bad).expect("written");
            keep(&folder.file());
        }
        let aside = |n: u32| fs::read(folder.0.join(format!("profiles.bad{n}"))).expect("kept");
        assert_eq!(
            (aside(1), aside(2), aside(5)),
            (foreign.clone(), cut.to_vec(), Vec::new())
        );
        assert_eq!(fs::read(folder.file()).expect("written anew"), foreign);
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
        let folder = Folder::new("again");
        let inner = folder.0.join("later");
        let mut kept = Kept::open(Some(&inner.join("profiles")), device("x"));
        kept.take(vec![(ProfileKey(1), GOOD)]);
        kept.write();
        fs::create_dir(&inner).expect("made");
        kept.write();
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
