//! In which pod and container a process is, as the path of its control group says.
//!
//! Rules: a path tells a pod's UID and a container's ID, and neither their names nor a namespace; nothing else is
//! made of it. Only what looks like a UID or an ID is taken, so that a group that somebody named otherwise is no label;
//! groups below `user.slice`, where users name them, are of no pod.

use std::fs::File;
use std::io::Read;

/// Most bytes of `/proc/PID/cgroup` that are looked at.
const MOST_BYTES: u64 = 64 << 10;
/// Letters of a container's ID, and of the UID of a pod that is configured by a file.
const CONTAINER_DIGITS: usize = 64;
const FILE_POD_DIGITS: usize = 32;
/// Digits of the parts of a UID (RFC 9562, section 4).
const UID_PARTS: [usize; 5] = [8, 4, 4, 4, 12];

/// What a control group's path tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// UID of the pod, of a process that Kubernetes started.
    pub(super) pod: Option<String>,
    /// ID of the container.
    pub(super) container: Option<String>,
}

impl Place {
    /// Returns where a process is; nowhere in particular, where that cannot be read.
    pub(super) fn of_process(pid: i32) -> Self {
        let mut text = String::new();
        let file = File::open(format!("/proc/{pid}/cgroup"));
        let read = file.and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text));
        read.map_or_else(|_| Self::default(), |_| Self::of_groups(&text))
    }

    /// Returns what the text of `/proc/PID/cgroup` (cgroups(7)) tells: that of the first group that tells a container.
    fn of_groups(text: &str) -> Self {
        let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        let mut places = paths.map(Self::of_path);
        places
            .find(|place| place.container.is_some())
            .unwrap_or_default()
    }

    fn of_path(path: &str) -> Self {
        let mut place = Self::default();
        let mut is_kubernetes = false;
        let is_users = path.starts_with("/user.slice/");
        for name in path.split('/') {
            is_kubernetes |= !is_users && name.starts_with("kubepods");
            if is_kubernetes && place.pod.is_none() {
                place.pod = pod(name);
            }
            // The first one: a container may have groups of its own.
            if place.container.is_none() {
                place.container = container(name);
            }
        }
        place
    }
}

/// Returns the UID in the name of a pod's group: `podUID`, or `kubepods-CLASS-podUID.slice` with underlines.
fn pod(name: &str) -> Option<String> {
    let name = name.split(':').next()?;
    let (_, uid) = name.rsplit_once("pod")?;
    let uid = uid.strip_suffix(".slice").unwrap_or(uid).replace('_', "-");
    let parts: Vec<&str> = uid.split('-').collect();
    let is_uid = parts.iter().map(|part| part.len()).eq(UID_PARTS);
    let is_of_file = uid.len() == FILE_POD_DIGITS;
    let is_hex = parts.iter().all(|part| is_hexadecimal(part));
    (is_hex && (is_uid || is_of_file)).then_some(uid)
}

/// Returns the ID in the name of a container's group: the ID itself, `RUNTIME-ID.scope` or `GROUP:RUNTIME:ID`.
fn container(name: &str) -> Option<String> {
    let id = name.strip_suffix(".scope").unwrap_or(name);
    let id = id.rsplit(['-', ':']).next()?;
    (id.len() == CONTAINER_DIGITS && is_hexadecimal(id)).then(|| id.to_owned())
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::Place;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "3fa85f64-5717-4562-b3fc-2c963f66afa6";

    fn place(pod: Option<&str>, container: Option<&str>) -> Place {
        Place {
            pod: pod.map(ToOwned::to_owned),
            container: container.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn kubernetes_names_groups_in_two_ways() {
        let underlined = UID.replace('-', "_");
        let burstable = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable";
        for path in [
            format!("{burstable}-pod{underlined}.slice/cri-containerd-{ID}.scope"),
            format!("/kubepods/besteffort/pod{UID}/{ID}"),
            format!(
                "/kubepods.slice/kubepods-pod{underlined}.slice/crio-{ID}.scope/container/more"
            ),
            format!(
                "/system.slice/containerd.service/kubepods-pod{underlined}.slice:cri-containerd:{ID}"
            ),
        ] {
            let found = Place::of_groups(&format!("0::{path}\n"));
            assert_eq!(found.container.as_deref(), Some(ID), "{path}");
            assert_eq!(found.pod.as_deref(), Some(UID), "{path}");
        }
        let of_file = format!("0::/kubepods/pod{}/{ID}\n", &ID[..32]);
        assert_eq!(Place::of_groups(&of_file), place(Some(&ID[..32]), Some(ID)));
    }

    #[test]
    fn other_containers_have_no_pod_and_other_groups_nothing() {
        let of = |path: &str| Place::of_groups(&format!("12:cpu:/x\n0::{path}\n"));
        let docker = format!("/system.slice/docker-{ID}.scope");
        assert_eq!(of(&docker), place(None, Some(ID)));
        let podman = format!("/user.slice/user-1000.slice/libpod-{ID}.scope/container");
        assert_eq!(of(&podman), place(None, Some(ID)));
        let made = format!("/user.slice/user-1000.slice/kubepods/pod{UID}/{ID}");
        assert_eq!(of(&made), place(None, Some(ID)));
        let short = &ID[1..];
        for path in [
            "/user.slice/user-1000.slice/session-3.scope".to_owned(),
            format!("/docker-{short}.scope"),
            format!("/kubepods/pod{UID}"),
            format!("/evil\"}}{ID}"),
        ] {
            assert_eq!(of(&path), Place::default(), "{path}");
        }
        assert_eq!(Place::of_groups(""), Place::default());
        assert_eq!(Place::of_groups("nonsense"), Place::default());
        assert_eq!(Place::of_process(-1), Place::default());
    }
}
