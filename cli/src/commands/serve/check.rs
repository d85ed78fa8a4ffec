//! `gridmux serve --check`: what would keep the service from starting, or from serving somebody, found without
//! starting it.
//!
//! Rules: nothing is made, changed or locked for longer than a look; each finding names the key that it is about; what
//! may be right later, such as a control group that does not exist yet, is a warning and no error.

use crate::commands::policy::unsampled;
use crate::failure::Failure;
use crate::output::Output;
use crate::table;
use gridmux_mediator::accounting::store::StoreError;
use gridmux_mediator::accounting::{self, By, FileError, UsageQuery};
use gridmux_mediator::config::{Config, Principal, TenantConfig};
use gridmux_mediator::sandbox;
use gridmux_mediator::supervisor::{CLIENT_SOCKET, tenants_of_host_user};
use gridmux_mediator::trusted_path::endangered;
use gridmux_policy::{ProfileFile, ProfileFileError};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::statfs::{
    BPF_FS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, FsType, PROC_SUPER_MAGIC,
    SECURITYFS_MAGIC, SYSFS_MAGIC, TRACEFS_MAGIC, statfs,
};
use nix::unistd::{AccessFlags, Group, User, access, getegid, geteuid, getgroups};
use serde::Serialize;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Most bytes of the path of a Unix socket (`sun_path` of unix(7), with its end).
const SOCKET_PATH_BYTES: usize = 107;
/// The mount point of the unified hierarchy of control groups (cgroups(7)).
const CGROUPS: &str = "/sys/fs/cgroup";
/// The kernel's description of its own types, which the eBPF program is linked with.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";
/// The folder in which eBPF maps are pinned.
const BPF_FILES: &str = "/sys/fs/bpf";

/// File systems that show what the kernel knows, in which nobody can make a file, and their names (statfs(2)).
const OF_THE_KERNEL: [(FsType, &str); 8] = [
    (BPF_FS_MAGIC, "bpf"),
    (CGROUP_SUPER_MAGIC, "cgroup"),
    (CGROUP2_SUPER_MAGIC, "cgroup2"),
    (DEBUGFS_MAGIC, "debugfs"),
    (PROC_SUPER_MAGIC, "proc"),
    (SECURITYFS_MAGIC, "securityfs"),
    (SYSFS_MAGIC, "sysfs"),
    (TRACEFS_MAGIC, "tracefs"),
];

/// The outcome of a look at one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::commands) enum Verdict {
    Ok,
    Warning,
    Error,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct Finding {
    /// Key of the configuration, dotted, or what else it is about.
    pub(in crate::commands) key: String,
    pub(in crate::commands) verdict: Verdict,
    pub(in crate::commands) message: String,
}

/// All that was found.
#[derive(Debug, Serialize)]
struct Report {
    /// The file that was read; `None` where flags say everything.
    file: Option<PathBuf>,
    /// Whether the service can start.
    ok: bool,
    findings: Vec<Finding>,
}

/// Looks at everything that a configuration needs of the system, and prints it; `writer` may write its file, beside
/// root and this user.
pub(super) fn run(
    config: &Config,
    file: Option<PathBuf>,
    writer: Option<String>,
    out: &Output,
) -> Result<(), Failure> {
    let findings = look(config, file.as_deref(), writer);
    let report = Report {
        file,
        ok: findings.iter().all(|found| found.verdict != Verdict::Error),
        findings,
    };
    out.show(&report, || report.text())?;
    match report.ok {
        true => Ok(()),
        false => Err(Failure::reported()),
    }
}

/// Looks at everything that a configuration needs of the system.
pub(super) fn look(config: &Config, file: Option<&Path>, writer: Option<String>) -> Vec<Finding> {
    let mut findings = vec![Finding {
        key: "configuration".into(),
        verdict: Verdict::Ok,
        message: format!(
            "every value makes sense; {} of at most {} tenants",
            config.tenants.len(),
            config.limits.tenants
        ),
    }];
    if let Some(file) = file {
        findings.push(Finding::of("file", said_of(file, writer)));
    }
    findings.push(Finding::of("run_dir", run_dir(&config.run_dir)));
    findings.push(Finding::of(
        "host_user",
        host_user(config.host_user.as_deref()),
    ));
    if let Some(group) = &config.operator_group {
        findings.push(Finding::of("operator_group", operator_group(group)));
    }
    findings.push(Finding::of("device.kind", device(&config.device.kind)));
    findings.push(Finding::of("policy", policy(&config.policy)));
    if let Some(path) = &config.profiles.file {
        findings.push(Finding::of("profiles.file", profiles(path)));
    }
    if let Some(path) = &config.accounting.file {
        findings.push(Finding::of("accounting.file", accounts(path)));
    }
    findings.extend(tenants(config));
    findings.push(Finding::of("eBPF", ebpf()));
    findings
}

/// Looks at what tenants need of the system.
fn tenants(config: &Config) -> Vec<Finding> {
    let endangering = tenants_of_host_user(config).into_iter().map(|tenant| {
        let message = "processes of the device host's user may be this tenant and may end the host; \
                       set another host_user";
        Finding::of(format!("tenant.{tenant}"), warning(message))
    });
    let rules = config.tenants.iter().flat_map(rules);
    rules.chain(endangering).collect()
}

/// Says who may write the configuration. A file that root would refuse was not read before.
fn said_of(file: &Path, writer: Option<String>) -> Said {
    let name = file.display();
    match writer {
        Some(who) => warning(format!(
            "{name} can be written by {who}, and so decides who is which tenant"
        )),
        None => Ok(format!("only root and this user may write {name}")),
    }
}

impl Report {
    fn text(&self) -> String {
        let row = |found: &Finding| {
            let verdict = match found.verdict {
                Verdict::Ok => "ok",
                Verdict::Warning => "warning",
                Verdict::Error => "error",
            };
            vec![found.key.clone(), verdict.to_owned(), found.message.clone()]
        };
        let rows = self.findings.iter().map(row);
        table::of(&["about", "verdict", "what"], rows)
    }
}

/// The answer of a look: it is right, or it may become a problem, or the service cannot start.
type Said = Result<String, (Verdict, String)>;

fn warning(message: impl Into<String>) -> Said {
    Err((Verdict::Warning, message.into()))
}

fn error(message: impl Into<String>) -> Said {
    Err((Verdict::Error, message.into()))
}

impl Finding {
    fn of(key: impl Into<String>, said: Said) -> Self {
        let (verdict, message) = match said {
            Ok(message) => (Verdict::Ok, message),
            Err(found) => found,
        };
        Self {
            key: key.into(),
            verdict,
            message,
        }
    }
}

/// Says what the policy lacks under a service.
fn policy(name: &str) -> Said {
    match unsampled(name) {
        Some(without) => warning(format!(
            "{name} needs samples of kernels, which a service does not take: {without}"
        )),
        None => Ok(format!("{name} can be obeyed")),
    }
}

/// Looks at the folder of the sockets, or at the one in which it would be made.
fn run_dir(folder: &Path) -> Said {
    let name = folder.display();
    if folder.as_os_str().is_empty() {
        return error("it is empty; name a folder, as /run/gridmux".to_owned());
    }
    let socket = folder.join(CLIENT_SOCKET);
    let bytes = socket.as_os_str().len();
    if bytes > SOCKET_PATH_BYTES {
        return error(format!(
            "{}: a socket's path has at most {SOCKET_PATH_BYTES} bytes, this one {bytes}",
            socket.display()
        ));
    }
    if let Some((above, owner)) = endangered(folder) {
        return error(format!(
            "{} is user {owner}'s or can be written by others, who could put another folder in the place of {name}",
            above.display()
        ));
    }
    let metadata = match fs::symlink_metadata(folder) {
        Ok(metadata) => metadata,
        Err(failed) if failed.kind() == ErrorKind::NotFound => return would_be_made(folder),
        Err(failed) => return error(format!("{name}: {failed}")),
    };
    if !metadata.is_dir() {
        return error(format!("{name} is no folder"));
    }
    let owner = metadata.uid();
    if owner != 0 && owner != geteuid().as_raw() {
        return error(format!(
            "{name} is user {owner}'s, who could replace the sockets; name a folder of the service's own user"
        ));
    }
    if metadata.mode() & 0o022 != 0 {
        return error(format!(
            "others than its owner may write {name} (mode {:o}); chmod go-w",
            metadata.mode() & 0o7777
        ));
    }
    if access(folder, AccessFlags::W_OK).is_err() {
        return error(format!("{name} cannot be written by this user"));
    }
    if let Some(kind) = of_the_kernel(folder) {
        return error(format!(
            "{name} is the kernel's ({kind}), where no file can be made"
        ));
    }
    match fs::symlink_metadata(&socket) {
        Ok(found) if !found.file_type().is_socket() => {
            return error(format!("{} exists and is no socket", socket.display()));
        }
        _ => {}
    }
    match owner_of(&folder.join("gridmux.lock")) {
        Some(process) => warning(format!("{name}: a service runs there (process {process})")),
        None => Ok(format!("{name} is there and can be written")),
    }
}

/// Says whether a folder that is not there can be made.
fn would_be_made(folder: &Path) -> Said {
    let above = folder.ancestors().skip(1).find(|above| above.exists());
    // The parents of a relative path end with an empty one, which is the current folder.
    let above = above.unwrap_or(Path::new("."));
    let (name, parent) = (folder.display(), above.display());
    if let Some(kind) = of_the_kernel(above) {
        return error(format!(
            "{name} cannot be made: {parent} is the kernel's ({kind}); name a folder with --run-dir"
        ));
    }
    match access(above, AccessFlags::W_OK) {
        Ok(()) if above.is_dir() => Ok(format!("{name} will be made")),
        _ => error(format!(
            "{name} cannot be made by this user in {parent}; name a folder with --run-dir"
        )),
    }
}

/// Returns the kind of file system in which a path is, where that is one that the kernel alone fills.
fn of_the_kernel(path: &Path) -> Option<&'static str> {
    let found = statfs(path).ok()?.filesystem_type();
    let mut known = OF_THE_KERNEL.iter();
    known
        .find(|(kind, _)| *kind == found)
        .map(|(_, name)| *name)
}

/// Returns the process that holds a service's lock, as far as it can be told.
fn owner_of(lock: &Path) -> Option<String> {
    let file = File::open(lock).ok()?;
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        // Dropping it unlocks.
        Ok(_) => None,
        Err(_) => Some(fs::read_to_string(lock).ok()?.trim().to_owned()),
    }
}

fn host_user(name: Option<&str>) -> Said {
    let name = name.unwrap_or_else(|| sandbox::default_user());
    if !geteuid().is_root() {
        return Ok("not needed: the device host is this user, who is not root".into());
    }
    match User::from_name(name) {
        Ok(Some(user)) if user.uid.is_root() => error(format!(
            "{name:?} is root; name a user without rights, such as \"nobody\""
        )),
        Ok(Some(user)) => Ok(format!("{name:?} is user {}", user.uid)),
        Ok(None) => error(format!("there is no user {name:?} on this system")),
        Err(failed) => error(format!("{name:?}: {failed}")),
    }
}

/// Looks for a GPU's files and its driver; a model needs nothing.
fn device(kind: &str) -> Said {
    let Some(number) = kind.strip_prefix("cuda:") else {
        return Ok(format!("{kind:?} is a model, which needs no GPU"));
    };
    // SAFETY: NVIDIA's driver library may be loaded by any process; its initialisers do nothing until cuInit.
    if let Err(failed) = unsafe { libloading::Library::new("libcuda.so.1") } {
        return error(format!("NVIDIA's driver is not there: {failed}"));
    }
    let file = format!("/dev/nvidia{number}");
    match access(Path::new(&file), AccessFlags::R_OK | AccessFlags::W_OK) {
        Ok(()) => Ok(format!("the driver and {file} are there")),
        // Containers and other systems may name it otherwise; the driver decides at start.
        Err(failed) => warning(format!("{file}: {failed}")),
    }
}

/// What follows where a file cannot be kept.
const NOTHING: &str = "so nothing will be kept";

/// Looks at the file of profiles, or at the folder in which it would be made.
fn profiles(path: &Path) -> Said {
    let said = place(path, "profiles")?;
    if let Some(said) = said {
        return Ok(said);
    }
    match ProfileFile::open(path) {
        Ok(file) => Ok(format!(
            "{} profiles of {}",
            file.profiles.len(),
            file.device
        )),
        Err(failed @ ProfileFileError::Other { .. }) => warning(format!("{failed}, {NOTHING}")),
        Err(failed) => warning(format!("{failed}; the service begins without")),
    }
}

/// Looks at the file of accounts, or at the folder in which it would be made.
fn accounts(path: &Path) -> Said {
    let said = place(path, "accounts")?;
    if let Some(said) = said {
        return Ok(said);
    }
    let all = UsageQuery {
        since: None,
        until: None,
        by: By::Tenant,
    };
    match accounting::checked(path, all) {
        Ok(report) => Ok(format!("use of {} tenants", report.rows.len())),
        Err(FileError::Store { source, .. }) => match source {
            StoreError::Busy => Ok("a service has it open".into()),
            StoreError::Damaged(why) => warning(format!(
                "{} is damaged ({why}); the service will set it aside and begin a new one",
                path.display()
            )),
            source => warning(format!("{}: {source}, {NOTHING}", path.display())),
        },
        Err(failed) => warning(format!("{failed}, {NOTHING}")),
    }
}

/// Looks at where a file is kept; says nothing where the file is there and is a regular one.
fn place(path: &Path, what: &str) -> Result<Option<String>, (Verdict, String)> {
    let name = path.display();
    let folder = path.parent().unwrap_or(Path::new("/"));
    let above = folder.parent().unwrap_or(Path::new("/"));
    if let Some(kind) = of_the_kernel(folder).or_else(|| of_the_kernel(above)) {
        return warning(format!(
            "{name} would be among the kernel's files ({kind}), {NOTHING}"
        ))
        .map(Some);
    }
    if let Some((above, owner)) = endangered(path) {
        return warning(format!(
            "{} is user {owner}'s or can be written by others, who could put other {what} in the place of {name}",
            above.display()
        ))
        .map(Some);
    }
    let is_missing = fs::symlink_metadata(folder).is_err();
    if is_missing && above.is_dir() && access(above, AccessFlags::W_OK).is_ok() {
        return Ok(Some(format!("{name} will be made, and its folder")));
    }
    if access(folder, AccessFlags::W_OK).is_err() || !folder.is_dir() {
        let message = format!("{} is no folder that this user may write", folder.display());
        return warning(format!("{message}, {NOTHING}")).map(Some);
    }
    match fs::symlink_metadata(path) {
        Err(failed) if failed.kind() == ErrorKind::NotFound => {
            Ok(Some(format!("{name} will be made")))
        }
        Ok(found) if !found.is_file() => {
            warning(format!("{name} is no regular file, {NOTHING}")).map(Some)
        }
        _ => Ok(None),
    }
}

/// Looks up the group of operators, to which this user must be able to give a socket.
fn operator_group(group: &Principal) -> Said {
    let said = named_group(group)?;
    let known = Group::from_name(group.as_str()).ok().flatten();
    let number = group
        .number()
        .or_else(|| known.map(|known| known.gid.as_raw()));
    let is_in = |number: u32| {
        let groups = getgroups().unwrap_or_default();
        getegid().as_raw() == number || groups.iter().any(|own| own.as_raw() == number)
    };
    match geteuid().is_root() || number.is_some_and(is_in) {
        true => Ok(said),
        false => error(format!(
            "{said}, in which this user is not; a service of root may name any group"
        )),
    }
}

fn named_group(group: &Principal) -> Said {
    match group.number() {
        Some(number) => Ok(format!("group {number}")),
        None => match Group::from_name(group.as_str()).ok().flatten() {
            Some(known) => Ok(format!("{:?} is group {}", known.name, known.gid)),
            None => error(format!("there is no group {:?} here", group.as_str())),
        },
    }
}

/// Looks up the users and groups of a tenant's rules.
fn rules(tenant: &TenantConfig) -> Vec<Finding> {
    let mut found = Vec::new();
    let key = |rule: &str| format!("tenant.{}.{rule}", tenant.name);
    if let Some(user) = &tenant.user {
        let said = match user.number() {
            Some(number) => Ok(format!("user {number}")),
            None => match User::from_name(user.as_str()).ok().flatten() {
                Some(known) => Ok(format!("{:?} is user {}", known.name, known.uid)),
                None => error(format!("there is no user {:?} here", user.as_str())),
            },
        };
        found.push(Finding::of(key("user"), said));
    }
    if let Some(group) = &tenant.group {
        found.push(Finding::of(key("group"), named_group(group)));
    }
    if let Some(cgroup) = &tenant.cgroup {
        found.push(Finding::of(key("cgroup"), control_group(cgroup)));
    }
    if !tenant.has_rule() {
        let own = geteuid();
        let who = match own.is_root() {
            true => "root".to_owned(),
            false => format!("root and user {own}"),
        };
        found.push(Finding::of(
            format!("tenant.{}", tenant.name),
            Ok(format!("without a rule it is for {who} alone")),
        ));
    }
    found
}

fn control_group(path: &str) -> Said {
    let root = Path::new(CGROUPS);
    if !root.join("cgroup.controllers").exists() {
        return warning(format!(
            "the unified hierarchy is not mounted at {CGROUPS}; {path:?} cannot be looked up"
        ));
    }
    match root.join(path.trim_start_matches('/')).is_dir() {
        true => Ok(format!("{path:?} is there")),
        false => warning(format!(
            "there is no control group {path:?}: nobody can be this tenant until there is"
        )),
    }
}

fn ebpf() -> Said {
    const WITHOUT: &str = "latencies come from the service itself then";
    if !geteuid().is_root() {
        return warning(format!("only root may load it; {WITHOUT}"));
    }
    let missing = [KERNEL_TYPES, BPF_FILES]
        .into_iter()
        .find(|path| !Path::new(path).exists());
    match missing {
        Some(path) => warning(format!("{path} is not there; {WITHOUT}")),
        None => Ok("the kernel has what it needs".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Verdict, profiles, run_dir};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    #[test]
    fn a_folder_that_others_can_write_is_an_error_and_a_new_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            run_dir(&folder.path().join("a/b"))
                .unwrap()
                .contains("will be made")
        );
        assert!(run_dir(folder.path()).unwrap().contains("is there"));
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).unwrap();
        let (verdict, message) = run_dir(folder.path()).unwrap_err();
        assert_eq!(verdict, Verdict::Error);
        assert!(message.contains("chmod go-w"), "{message}");
        let long = folder.path().join("x".repeat(120));
        assert!(run_dir(&long).unwrap_err().1.contains("at most 107 bytes"));
        assert!(run_dir(Path::new("")).unwrap_err().1.contains("empty"));
    }

    #[test]
    fn among_the_kernels_files_nothing_can_be_made() {
        for folder in ["/proc", "/proc/gridmux", "/sys/gridmux/deep"] {
            let (verdict, message) = run_dir(Path::new(folder)).unwrap_err();
            assert_eq!(verdict, Verdict::Error, "{message}");
            let (verdict, message) = profiles(&Path::new(folder).join("profiles")).unwrap_err();
            assert_eq!(verdict, Verdict::Warning, "{message}");
            assert!(message.contains("nothing will be kept"), "{message}");
        }
        assert!(
            profiles(Path::new("/proc/kmsg"))
                .unwrap_err()
                .1
                .contains("proc")
        );
    }

    #[test]
    fn a_file_of_something_else_is_no_file_of_profiles() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("profiles");
        std::fs::write(&file, "mine").unwrap();
        let (verdict, message) = profiles(&file).unwrap_err();
        assert_eq!(verdict, Verdict::Warning, "{message}");
        assert!(message.contains("is left as it is"), "{message}");
    }
}
