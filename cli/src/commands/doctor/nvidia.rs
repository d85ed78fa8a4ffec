//! NVIDIA's driver and its device files.

use super::check::Check;
use super::processes::plain;
use std::fs;

const ABOUT: &str = "NVIDIA driver";

/// Looks for the driver, which a service on a GPU cannot do without.
pub(super) fn driver(is_needed: bool) -> Check {
    let version = fs::read_to_string("/proc/driver/nvidia/version").ok();
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut files: Vec<String> = names.filter(|name| name.starts_with("nvidia")).collect();
    files.sort();
    said_of(version.as_deref(), &files, is_needed)
}

fn said_of(version: Option<&str>, files: &[String], is_needed: bool) -> Check {
    let is_gpu = |name: &String| {
        let number = name.strip_prefix("nvidia").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    };
    let gpus: Vec<&str> = files
        .iter()
        .filter(|name| is_gpu(name))
        .map(String::as_str)
        .collect();
    let Some(version) = version else {
        let what = "there is no NVIDIA driver (/proc/driver/nvidia/version)";
        return match is_needed {
            true => Check::failure(
                ABOUT,
                format!("{what}, and the service is for a GPU"),
                "install NVIDIA's driver, or set device.kind = \"model:h200\"",
            ),
            false => Check::ok(ABOUT, format!("{what}; devices are modelled")),
        };
    };
    let version = plain(version.lines().next().unwrap_or_default());
    let has_control = files.iter().any(|name| name == "nvidiactl");
    if gpus.is_empty() || !has_control {
        let message = format!("{version}; /dev/nvidia0 or /dev/nvidiactl is not there");
        let remedy = "nvidia-modprobe -c 0 -u";
        return match is_needed {
            true => Check::failure(ABOUT, message, remedy),
            false => Check::warning(ABOUT, message, remedy),
        };
    }
    Check::ok(ABOUT, format!("{version}; {}", gpus.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::super::check::Verdict;
    use super::said_of;

    #[test]
    fn a_driver_needs_its_files_and_a_gpu_its_driver() {
        let files = ["nvidia0", "nvidiactl", "nvidia-uvm"].map(ToOwned::to_owned);
        let version = Some("NVRM version: NVIDIA UNIX x86_64 Kernel Module 580.1\nGCC");
        let right = said_of(version, &files, true);
        assert_eq!(right.verdict, Verdict::Ok);
        assert!(
            right.message.ends_with("580.1; nvidia0"),
            "{}",
            right.message
        );
        for (version, files, is_needed, due) in [
            (version, &files[..1], true, Verdict::Failure),
            (version, &files[1..], false, Verdict::Warning),
            (None, &files[..0], true, Verdict::Failure),
            (None, &files[..0], false, Verdict::Ok),
        ] {
            assert_eq!(said_of(version, files, is_needed).verdict, due, "{files:?}");
        }
    }
}
