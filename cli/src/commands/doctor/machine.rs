//! The kernel and what it permits this process.
//!
//! Rule: without what is looked at here the service runs, and lacks something; so nothing here is a failure.

use super::check::Check;
use crate::units;
use gridmux_bpf::ReadError;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::statfs::{BPF_FS_MAGIC, CGROUP2_SUPER_MAGIC, FsType, statfs};
use std::fs;
use std::path::Path;

/// The oldest kernel that has all that the programs use: rings that user programs fill.
const OLDEST: (u32, u32) = (6, 1);
/// The first kernel that does not count eBPF's memory as locked memory.
const COUNTS_NO_LOCKED_MEMORY: (u32, u32) = (5, 11);
/// What works without eBPF.
const WITHOUT: &str = "latencies come from the service itself";

/// Capabilities by bit (capabilities(7)), and who needs each.
const CAPABILITIES: [(u32, &str); 7] = [
    (5, "CAP_KILL"),
    (6, "CAP_SETGID"),
    (7, "CAP_SETUID"),
    (19, "CAP_SYS_PTRACE"),
    (21, "CAP_SYS_ADMIN"),
    (38, "CAP_PERFMON"),
    (39, "CAP_BPF"),
];

/// Returns everything that is said of the kernel.
pub(super) fn checks() -> Vec<Check> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    vec![
        kernel(release),
        types(),
        capabilities(),
        system_call(),
        lockdown(fs::read_to_string("/sys/kernel/security/lockdown").ok()),
        bpf_files(),
        locked_memory(release),
        control_groups(),
    ]
}

/// Returns major and minor of a release, as `6.18.44-generic`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn kernel(release: &str) -> Check {
    let (major, minor) = OLDEST;
    match version(release) {
        Some(version) if version >= OLDEST => Check::ok("kernel", format!("Linux {release}")),
        Some(_) => Check::warning(
            "kernel",
            format!("Linux {release} is older than {major}.{minor}, which eBPF needs; {WITHOUT}"),
            format!("boot Linux {major}.{minor} or later"),
        ),
        None => Check::warning(
            "kernel",
            format!("the release {release:?} cannot be read"),
            "mount -t proc proc /proc",
        ),
    }
}

fn types() -> Check {
    const TYPES: &str = "/sys/kernel/btf/vmlinux";
    match Path::new(TYPES).exists() {
        true => Check::ok("BTF", format!("the kernel describes its types ({TYPES})")),
        false => Check::warning(
            "BTF",
            format!("{TYPES} is not there, so that no USDT probe can be traced; {WITHOUT}"),
            "boot a kernel that was built with CONFIG_DEBUG_INFO_BTF=y",
        ),
    }
}

fn capabilities() -> Check {
    const ABOUT: &str = "capabilities";
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok());
    let effective = effective.unwrap_or(0);
    let has = |bit: u32| effective & (1 << bit) != 0;
    let missing: Vec<&str> = CAPABILITIES
        .iter()
        .filter(|(bit, _)| !has(*bit))
        .map(|(_, name)| *name)
        .collect();
    if missing.is_empty() {
        let names = CAPABILITIES.map(|(_, name)| name).join(", ");
        return Check::ok(ABOUT, names);
    }
    let missing = missing.join(", ");
    let message =
        format!("this process lacks {missing}; a service that does has no eBPF, or no host user");
    Check::warning(ABOUT, message, "sudo gridmux doctor")
}

/// Asks for the list of programs, which a container's filter or a kernel without eBPF refuses.
fn system_call() -> Check {
    const ABOUT: &str = "eBPF";
    match gridmux_bpf::list() {
        Ok(listing) => {
            let message = format!(
                "the kernel answers; {} and {} of gridmux are loaded",
                units::counted(listing.programs.len() as u64, "program"),
                units::counted(listing.maps.len() as u64, "map")
            );
            Check::ok(ABOUT, message)
        }
        Err(error @ ReadError::ListingNotPermitted) => {
            Check::warning(ABOUT, format!("{error}; {WITHOUT}"), "sudo gridmux doctor")
        }
        Err(error) => Check::warning(
            ABOUT,
            format!("{error}; {WITHOUT}"),
            "permit the system call bpf: a container's seccomp filter, or CONFIG_BPF_SYSCALL=y",
        ),
    }
}

/// Says what the kernel keeps even from root; `text` is as `none [integrity] confidentiality`.
fn lockdown(text: Option<String>) -> Check {
    const ABOUT: &str = "lockdown";
    let chosen = |text: &str| {
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    };
    let Some(text) = text else {
        return Check::ok(ABOUT, "the kernel has none, or securityfs is not mounted");
    };
    match chosen(&text).as_deref() {
        Some("confidentiality") => Check::warning(
            ABOUT,
            format!("confidentiality: the kernel refuses to trace; {WITHOUT}"),
            "boot with lockdown=integrity, or without Secure Boot",
        ),
        Some(level) => Check::ok(ABOUT, format!("{level}: eBPF is permitted")),
        None => Check::ok(ABOUT, "none"),
    }
}

fn is_mounted(path: &str, kind: FsType) -> bool {
    statfs(path).is_ok_and(|found| found.filesystem_type() == kind)
}

fn bpf_files() -> Check {
    const PATH: &str = "/sys/fs/bpf";
    match is_mounted(PATH, BPF_FS_MAGIC) {
        true => Check::ok("bpffs", format!("{PATH} is a BPF file system")),
        false => Check::warning(
            "bpffs",
            format!("{PATH} is no BPF file system: no command finds the service's maps"),
            format!("mount -t bpf bpf {PATH}"),
        ),
    }
}

fn locked_memory(release: &str) -> Check {
    const ABOUT: &str = "memlock";
    let limit = getrlimit(Resource::RLIMIT_MEMLOCK).map_or(0, |(soft, _)| soft);
    let shown = match limit {
        RLIM_INFINITY => "no limit".to_owned(),
        bytes => format!("at most {}", units::bytes(bytes)),
    };
    if version(release) >= Some(COUNTS_NO_LOCKED_MEMORY) {
        return Check::ok(
            ABOUT,
            format!("{shown}; this kernel does not count eBPF's memory"),
        );
    }
    match limit {
        RLIM_INFINITY => Check::ok(ABOUT, shown),
        _ => Check::warning(
            ABOUT,
            format!("{shown}, and this kernel counts eBPF's memory; {WITHOUT}"),
            "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit",
        ),
    }
}

fn control_groups() -> Check {
    const PATH: &str = "/sys/fs/cgroup";
    match is_mounted(PATH, CGROUP2_SUPER_MAGIC) {
        true => Check::ok("cgroup v2", format!("{PATH} is the unified hierarchy")),
        false => Check::warning(
            "cgroup v2",
            format!("{PATH} is not the unified hierarchy: nobody can be a tenant by `cgroup`"),
            "boot with systemd.unified_cgroup_hierarchy=1",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Verdict;
    use super::{kernel, lockdown, version};

    #[test]
    fn a_release_begins_with_its_version() {
        assert_eq!(version("6.18.44-generic"), Some((6, 18)));
        assert_eq!(version("4.4"), Some((4, 4)));
        assert_eq!(version("next"), None);
        assert_eq!(kernel("6.1.0").verdict, Verdict::Ok);
        let old = kernel("5.15.0-91");
        assert_eq!(old.verdict, Verdict::Warning);
        assert_eq!(old.remedy.as_deref(), Some("boot Linux 6.1 or later"));
    }

    #[test]
    fn the_level_in_brackets_is_the_one_in_force() {
        let said = |text: &str| lockdown(Some(text.to_owned()));
        assert_eq!(
            said("none [integrity] confidentiality\n").verdict,
            Verdict::Ok
        );
        let locked = said("none integrity [confidentiality]\n");
        assert_eq!(locked.verdict, Verdict::Warning);
        assert_eq!(lockdown(None).verdict, Verdict::Ok);
    }
}
