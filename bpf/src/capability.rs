//! The capabilities that this process lacks for loading programs, or a kernel and container that allow `bpf(2)`.
//!
//! Asked before anything is loaded, so that a refusal later on is known to be about the program.

use libbpf_rs::{ErrorKind, MapHandle, MapType, libbpf_sys};

/// Bit numbers (include/uapi/linux/capability.h).
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Returns what is missing, in words; `None` when everything needed is there, or when it cannot be told.
pub(crate) fn missing() -> Option<String> {
    missing_capabilities().or_else(missing_system_call)
}

/// Returns why the system call is missing: a container's seccomp filter answers EPERM, an emulated kernel ENOSYS.
fn missing_system_call() -> Option<String> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        ..Default::default()
    };
    let error = MapHandle::create(MapType::Array, None::<&str>, 4, 4, 1, &options).err()?;
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied | ErrorKind::Unsupported
    )
    .then(|| format!("a kernel and container that allow the system call bpf ({error})"))
}

fn missing_capabilities() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    missing_from(u64::from_str_radix(line.trim(), 16).ok()?)
}

fn missing_from(effective: u64) -> Option<String> {
    let has = |bit: u32| effective & (1 << bit) != 0;
    if has(CAP_SYS_ADMIN) {
        return None;
    }
    let missing: Vec<&str> = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")]
        .into_iter()
        .filter(|(bit, _)| !has(*bit))
        .map(|(_, name)| name)
        .collect();
    (!missing.is_empty()).then(|| missing.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::missing_from;

    #[test]
    fn names_what_is_missing() {
        assert_eq!(missing_from(0).as_deref(), Some("CAP_BPF and CAP_PERFMON"));
        assert_eq!(missing_from(1 << 39).as_deref(), Some("CAP_PERFMON"));
        assert_eq!(missing_from(1 << 39 | 1 << 38), None);
        assert_eq!(missing_from(1 << 21), None);
    }
}
