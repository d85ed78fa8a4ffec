//! The list of a process's mappings, `/proc/PID/maps` (proc(5)).
//!
//! Rule: paths in it are the process's own words.

/// Device and inode of a mapped file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::commands::doctor) struct FileId {
    /// Major and minor number of the file system's device.
    pub(in crate::commands::doctor) device: (u32, u32),
    pub(in crate::commands::doctor) inode: u64,
}

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::commands::doctor) struct Mapping<'a> {
    /// First address.
    pub(in crate::commands::doctor) start: u64,
    /// First address behind it.
    pub(in crate::commands::doctor) end: u64,
    pub(in crate::commands::doctor) file: FileId,
    /// The file's path, without what the kernel adds for one that was deleted.
    pub(in crate::commands::doctor) path: &'a str,
}

/// What a mapped file is to a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands::doctor) enum Kind {
    /// A library of a driver.
    Library,
    /// A device file.
    Device,
}

impl<'a> Mapping<'a> {
    /// Parses a line; none for one without a file.
    pub(in crate::commands::doctor) fn parse(line: &'a str) -> Option<Self> {
        let mut rest = line;
        let mut next = || {
            rest = rest.trim_start_matches(' ');
            let (field, behind) = rest.split_once(' ')?;
            rest = behind;
            Some(field)
        };
        let (start, end) = next()?.split_once('-')?;
        let _permissions = next()?;
        let _offset = next()?;
        let (major, minor) = next()?.split_once(':')?;
        let inode = next()?.parse().ok()?;
        let path = rest.trim_start_matches(' ');
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let number = |text: &str| u32::from_str_radix(text, 16).ok();
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        path.starts_with('/').then_some(())?;
        Some(Self {
            start: hex(start)?,
            end: hex(end)?,
            file: FileId {
                device: (number(major)?, number(minor)?),
                inode,
            },
            path,
        })
    }

    /// Returns what the file is to a GPU, by its name.
    pub(in crate::commands::doctor) fn kind(&self) -> Option<Kind> {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        if is_device(self.path) {
            Some(Kind::Device)
        } else if name.starts_with("libcuda.so") || name.starts_with("libnvidia-") {
            Some(Kind::Library)
        } else {
            None
        }
    }

    /// Returns the kernel's name for it in `/proc/PID/map_files`.
    pub(in crate::commands::doctor) fn range(&self) -> String {
        format!("{:x}-{:x}", self.start, self.end)
    }
}

/// Returns whether a path is that of one of NVIDIA's device files.
pub(in crate::commands::doctor) fn is_device(path: &str) -> bool {
    path.starts_with("/dev/nvidia")
}

#[cfg(test)]
mod tests {
    use super::{FileId, Kind, Mapping};

    #[test]
    fn lines_are_taken_apart() {
        let line = "7f00a000-7f00b000 r-xp 00001000 08:1a 1234                       /opt/a b/libcuda.so.1 (deleted)";
        let mapping = Mapping::parse(line).unwrap();
        let due = Mapping {
            start: 0x7f00_a000,
            end: 0x7f00_b000,
            file: FileId {
                device: (8, 26),
                inode: 1234,
            },
            path: "/opt/a b/libcuda.so.1",
        };
        assert_eq!(mapping, due);
        assert_eq!(mapping.kind(), Some(Kind::Library));
        assert_eq!(mapping.range(), "7f00a000-7f00b000");
        for without in [
            "7ffd1000-7ffd2000 rw-p 00000000 00:00 0                          [stack]",
            "7ffd1000-7ffd2000 rw-p 00000000 00:00 0 ",
            "nonsense",
            "",
        ] {
            assert_eq!(Mapping::parse(without), None, "{without:?}");
        }
    }

    #[test]
    fn names_tell_drivers_from_other_libraries() {
        for (path, due) in [
            ("/usr/lib/libcuda.so.580.65", Some(Kind::Library)),
            ("/usr/lib/libnvidia-ml.so.1", Some(Kind::Library)),
            ("/dev/nvidia0", Some(Kind::Device)),
            ("/dev/nvidia-uvm", Some(Kind::Device)),
            ("/usr/lib/libcudart.so.12", None),
            ("/libcuda.so.d/libc.so", None),
        ] {
            let line = format!("1000-2000 r--p 00000000 00:01 7 {path}");
            assert_eq!(Mapping::parse(&line).unwrap().kind(), due, "{path}");
        }
    }
}
