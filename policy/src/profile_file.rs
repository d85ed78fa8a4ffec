//! Profiles on disk, as lines of JSON: a header, then one profile a line.
//!
//! The header names the format, its version, the device and the number of profiles. A profile of another device says
//! nothing here, so such a file is refused as a whole.
//!
//! Rules: what is read is hostile: its length is bounded, every number is checked, and an error names the file, the
//! line and what to do; nothing of a file with an error is used. A file that was cut off is found by its last line or
//! by the header's number.

use crate::ids::ProfileKey;
use crate::profiles::{CAPACITY, Profile, Profiles};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What the header calls the format.
const FORMAT: &str = "gridmux profiles";
/// How every file of profiles begins.
const BEGINNING: &[u8] = b"{\"format\":\"gridmux profiles\"";
/// Version of the format.
const VERSION: u32 = 2;
/// Longest file that is read; a full store takes less than half of it.
const MOST_BYTES: u64 = 1 << 20;
/// Mode of a file: its owner writes it, its group reads it.
const MODE: u32 = 0o640;

/// The device that profiles were learnt on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfiledDevice {
    /// Its name.
    pub name: String,
    /// Its streaming multiprocessors.
    pub sms: u16,
}

impl fmt::Display for ProfiledDevice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?} with {} SMs", self.name, self.sms)
    }
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileFile {
    /// The device.
    pub device: ProfiledDevice,
    /// The profiles, in order of keys.
    pub profiles: Vec<(ProfileKey, Profile)>,
}

/// Why a file of profiles is not used.
#[derive(Debug, Error)]
pub enum ProfileFileError {
    /// It cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the read.
        source: io::Error,
    },
    /// It is not what it should be.
    #[error(
        "{path}, line {line}: {message}; name another file, or remove this one, and profiles are learnt anew"
    )]
    Content {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// It does not begin as files of profiles do, and so is a file of something else.
    #[error(
        "{path}, line {line}: {message}; it is left as it is: remove it, or name another file for profiles"
    )]
    Other {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// It is of another device.
    #[error(
        "{path}, line 1: the profiles were learnt on {found}, and the device is {device}; name a file of this device"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The device that it names.
        found: ProfiledDevice,
        /// The device in use.
        device: ProfiledDevice,
    },
}

/// The first line.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u32,
    device: String,
    sms: u16,
    profiles: usize,
}

/// Another line.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// Sixteen hexadecimal digits, because readers of JSON round large numbers.
    key: String,
    block_ns: f64,
    blocks: u32,
    alone: bool,
}

impl ProfileFile {
    /// Returns what is to be written of a store.
    #[must_use]
    pub fn of(profiles: &Profiles, device: ProfiledDevice) -> Self {
        Self {
            device,
            profiles: profiles.all(),
        }
    }

    /// Opens and reads a file.
    ///
    /// # Errors
    /// [`ProfileFileError`]; whether the device is the right one is for [`ProfileFile::of_device`] to say.
    pub fn open(path: &Path) -> Result<Self, ProfileFileError> {
        let unreadable = |source| ProfileFileError::Read {
            path: path.to_owned(),
            source,
        };
        // Not blocking: a pipe that nobody writes, and some files of the kernel's, would be waited for without end.
        let mut options = OpenOptions::new();
        let options = options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open(path).map_err(unreadable)?;
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(unreadable(io::Error::other("this is no regular file")));
        }
        Self::read(file, path)
    }

    /// Reads a file that was opened; `path` is what errors call it.
    ///
    /// # Errors
    /// As for [`ProfileFile::open`].
    pub fn read(file: impl Read, path: &Path) -> Result<Self, ProfileFileError> {
        let mut text = Vec::new();
        file.take(MOST_BYTES + 1)
            .read_to_end(&mut text)
            .map_err(|source| ProfileFileError::Read {
                path: path.to_owned(),
                source,
            })?;
        Self::parse(&text).map_err(|(line, message)| {
            let path = path.to_owned();
            match text.starts_with(BEGINNING) {
                true => ProfileFileError::Content {
                    path,
                    line,
                    message,
                },
                false => ProfileFileError::Other {
                    path,
                    line,
                    message,
                },
            }
        })
    }

    /// Returns it if it is of this device.
    ///
    /// # Errors
    /// [`ProfileFileError::Foreign`].
    pub fn of_device(self, device: &ProfiledDevice, path: &Path) -> Result<Self, ProfileFileError> {
        match self.device == *device {
            true => Ok(self),
            false => Err(ProfileFileError::Foreign {
                path: path.to_owned(),
                found: self.device,
                device: device.clone(),
            }),
        }
    }

    /// Adds its profiles to a store, as what was told: blocks have yet to agree with it.
    pub fn add_to(&self, profiles: &Profiles) {
        for (key, profile) in &self.profiles {
            profiles.tell(*key, *profile);
        }
    }

    /// Returns its text.
    ///
    /// # Errors
    /// serde's, for a number that JSON cannot hold; a store has none.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        let header = Header {
            format: FORMAT.to_owned(),
            version: VERSION,
            device: self.device.name.clone(),
            sms: self.device.sms,
            profiles: self.profiles.len(),
        };
        let mut text = serde_json::to_string(&header)? + "\n";
        for (key, profile) in &self.profiles {
            let line = Line {
                key: format!("{:016x}", key.0),
                block_ns: profile.block_ns,
                blocks: profile.blocks,
                alone: profile.alone,
            };
            text += &serde_json::to_string(&line)?;
            text.push('\n');
        }
        Ok(text)
    }

    /// Replaces a file by one of this. It is written beside it, under a name with the process's number, and renamed:
    /// nobody sees a part of it, of several writers the last one's stays, and no link is followed. Its mode is 0640.
    ///
    /// # Errors
    /// The system calls'; the file is as it was then.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let text = self.text()?;
        let mut new = path.as_os_str().to_owned();
        new.push(format!(".{}.new", std::process::id()));
        let new = PathBuf::from(new);
        // One may be left of an earlier process of that number.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // It must not exist, so that no link is followed.
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(MODE).open(&new)?;
        // Who could read the file before can read it now, and only its owner can write it.
        let readers = fs::metadata(path).map_or(MODE, |old| old.permissions().mode()) & 0o044;
        let written = fill(file, 0o600 | readers, text.as_bytes());
        let written = written.and_then(|()| fs::rename(&new, path));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }

    /// Parses a text, or returns the line that is wrong and how.
    fn parse(text: &[u8]) -> Result<Self, (usize, String)> {
        if text.len() as u64 > MOST_BYTES {
            return Err((1, format!("the file is longer than {MOST_BYTES} bytes")));
        }
        let mut lines = text.split_inclusive(|byte| *byte == b'\n').zip(1..);
        let Some((first, _)) = lines.next() else {
            return Err((1, "the file is empty".to_owned()));
        };
        let header = header(first).map_err(|message| (1, message))?;
        let mut profiles = BTreeMap::new();
        for (text, line) in lines {
            let at = |message| (line, message);
            let (key, profile) = profile(text).map_err(at)?;
            if profiles.insert(key, profile).is_some() {
                return Err(at(format!("the key {:016x} comes twice", key.0)));
            }
        }
        if profiles.len() != header.profiles {
            let (found, said) = (profiles.len(), header.profiles);
            let message = format!("the file ends after {found} profiles, and line 1 says {said}");
            return Err((found + 1, message));
        }
        Ok(Self {
            device: ProfiledDevice {
                name: header.device,
                sms: header.sms,
            },
            profiles: profiles.into_iter().collect(),
        })
    }
}

fn fill(mut file: File, mode: u32, text: &[u8]) -> io::Result<()> {
    // Whatever the umask leaves of it.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(text)?;
    file.sync_all()
}

fn header(text: &[u8]) -> Result<Header, String> {
    let header: Header =
        json(text).map_err(|error| format!("this is no header of a file of profiles: {error}"))?;
    if header.format != FORMAT {
        return Err(format!("the format is {:?}, not {FORMAT:?}", header.format));
    }
    if header.version != VERSION {
        let found = header.version;
        return Err(format!(
            "version {found} is unknown; this program reads {VERSION}"
        ));
    }
    if header.profiles > CAPACITY {
        let found = header.profiles;
        return Err(format!("{found} profiles; a store holds {CAPACITY}"));
    }
    Ok(header)
}

fn profile(text: &[u8]) -> Result<(ProfileKey, Profile), String> {
    let line: Line = json(text)?;
    let digits = line.key.len() == 16 && line.key.bytes().all(|b| b.is_ascii_hexdigit());
    let key = u64::from_str_radix(&line.key, 16).ok().filter(|_| digits);
    let key = key.ok_or_else(|| "the key is not 16 hexadecimal digits".to_owned())?;
    let profile = Profile {
        block_ns: line.block_ns,
        blocks: line.blocks,
        alone: line.alone,
    };
    match profile.is_sound() {
        true => Ok((ProfileKey(key), profile)),
        false => Err(format!(
            "no profile has block_ns {} and blocks {}",
            line.block_ns, line.blocks
        )),
    }
}

/// Parses a line that ends as lines do.
fn json<T: for<'a> Deserialize<'a>>(line: &[u8]) -> Result<T, String> {
    match line.strip_suffix(b"\n") {
        Some(line) => serde_json::from_slice(line).map_err(|error| error.to_string()),
        None => Err("the line is cut off".to_owned()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{BEGINNING, MOST_BYTES, ProfileFile, ProfileFileError, ProfiledDevice};
    use crate::ids::ProfileKey;
    use crate::profiles::{CAPACITY, MOST_BLOCKS, MOST_NS, Profile, Profiles};
    use std::path::Path;

    fn device() -> ProfiledDevice {
        ProfiledDevice {
            name: "SM model gtx980".to_owned(),
            sms: 16,
        }
    }

    fn store() -> Profiles {
        let profiles = Profiles::default();
        profiles.set(ProfileKey(u64::MAX), 1234.5);
        let beside = Profile {
            block_ns: 0.25,
            blocks: 1,
            alone: false,
        };
        assert!(profiles.put(ProfileKey(3), beside));
        profiles
    }

    fn read(text: &[u8]) -> Result<ProfileFile, ProfileFileError> {
        ProfileFile::read(text, Path::new("store"))
    }

    #[test]
    fn what_is_written_is_read() {
        let written = ProfileFile::of(&store(), device());
        let text = written.text().expect("every number is one of JSON's");
        assert!(text.as_bytes().starts_with(BEGINNING), "{text}");
        let read = read(text.as_bytes()).expect("it is a file");
        assert_eq!(read, written);
        let profiles = Profiles::default();
        read.of_device(&device(), Path::new("store"))
            .expect("it is of this device")
            .add_to(&profiles);
        assert_eq!(profiles.all(), store().all());
    }

    #[test]
    fn a_full_store_fits_in_a_file() {
        let longest = Profile {
            block_ns: f64::from(f32::from_bits(0x5863_5fa9)),
            blocks: MOST_BLOCKS,
            alone: false,
        };
        assert!(longest.block_ns < MOST_NS);
        let keys = (0..CAPACITY as u64).map(|n| ProfileKey(u64::MAX - n));
        let mut device = device();
        device.name = "x".repeat(1000);
        let mut full = ProfileFile {
            device,
            profiles: keys.map(|key| (key, longest)).collect(),
        };
        full.profiles.reverse();
        let text = full.text().expect("every number is one of JSON's");
        assert!(text.len() as u64 <= MOST_BYTES / 2, "{} bytes", text.len());
        assert_eq!(read(text.as_bytes()).expect("it is a file"), full);
    }

    #[test]
    fn a_foreign_file_is_refused_by_both_names() {
        let file = ProfileFile::of(&store(), device());
        let other = ProfiledDevice { sms: 8, ..device() };
        let error = file.of_device(&other, Path::new("/var/x")).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("/var/x, line 1"), "{error}");
        assert!(
            error.contains("16 SMs") && error.contains("8 SMs"),
            "{error}"
        );
    }

    #[test]
    fn a_corrupt_file_is_refused_by_file_line_and_reason() {
        let good = ProfileFile::of(&store(), device()).text().expect("a text");
        let bad = |from: &str, to: &str| {
            assert!(good.contains(from), "{from}");
            good.replace(from, to)
        };
        let cases = [
            (String::new(), "line 1: the file is empty"),
            ("\u{7f}ELF".to_owned(), "line 1: this is no header"),
            (
                bad("gridmux profiles", "other"),
                "line 1: the format is \"other\"",
            ),
            (
                bad("\"version\":2", "\"version\":3"),
                "line 1: version 3 is unknown",
            ),
            (bad("\"sms\":16", "\"sms\":-1"), "line 1: this is no header"),
            (bad("\"sms\":16", "\"sms\":16,\"x\":0"), "unknown field `x`"),
            (
                bad("\"profiles\":2", "\"profiles\":3"),
                "line 3: the file ends after 2",
            ),
            (
                bad("\"profiles\":2", "\"profiles\":4097"),
                "line 1: 4097 profiles",
            ),
            (bad("0000000000000003", "3"), "line 2: the key is not 16"),
            (
                bad("0000000000000003", "+000000000000003"),
                "line 2: the key",
            ),
            (
                bad("0000000000000003", "ffffffffffffffff"),
                "line 3: the key ffffffffffffffff",
            ),
            (
                bad("0.25", "-0.25"),
                "line 2: no profile has block_ns -0.25",
            ),
            (bad("0.25", "0"), "line 2: no profile has block_ns 0"),
            (bad("0.25", "1e999"), "line 2: number out of range"),
            (bad("0.25", "1e16"), "line 2: no profile has"),
            (bad("0.25", "NaN"), "line 2: "),
            (
                bad("\"blocks\":1,", "\"blocks\":0,"),
                "line 2: no profile has",
            ),
            (
                bad("\"blocks\":1,", "\"blocks\":4294967295,"),
                "line 2: no profile has",
            ),
            (
                bad("\"alone\":false", "\"alone\":2"),
                "line 2: invalid type",
            ),
            ("[".repeat(1 << 19) + "\n", "line 1: "),
            (" ".repeat(1 << 21), "line 1: the file is longer than"),
        ];
        for (text, expected) in cases {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("store, "), "{error}");
            assert!(error.contains(expected), "{expected}: {error}");
            assert!(error.contains("name another file"), "{error}");
        }
    }

    #[test]
    fn a_file_of_another_spacing_is_refused_by_the_line_that_is_wrong() {
        let good = ProfileFile::of(&store(), device()).text().expect("a text");
        let spaced = good.replace("{\"", "{ \"").replace("0.25", "-0.25");
        let error = read(spaced.as_bytes()).unwrap_err();
        assert!(matches!(error, ProfileFileError::Other { .. }), "{error:?}");
        let error = error.to_string();
        assert!(
            error.starts_with("store, line 2: no profile has"),
            "{error}"
        );
    }

    #[test]
    fn a_file_cut_off_anywhere_is_refused() {
        let text = ProfileFile::of(&store(), device()).text().expect("a text");
        for length in 0..text.len() {
            assert!(read(&text.as_bytes()[..length]).is_err(), "{length} bytes");
        }
    }
}
