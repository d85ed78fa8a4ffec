//! Who used something: a tenant, a user, a control group, and the job that the control group is of.
//!
//! Rules: user and control group are what the kernel said of the client's process when it connected. A job is found
//! only where its manager, and not a user, makes the folder: at the top of the hierarchy. Its name is taken from what
//! has the form of one.

use crate::page::plain;
use serde::{Deserialize, Serialize};

/// Most bytes of a control group that are kept.
const CGROUP_BYTES: usize = 200;
/// Most characters of a job's number or name.
const JOB_CHARACTERS: usize = 64;

/// Who used something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The tenant's name.
    pub tenant: String,
    /// The user's number; none where users were folded into one.
    pub user: Option<u32>,
    /// The control group, in the unified hierarchy; empty where there is none, or where they were folded into one.
    pub cgroup: String,
    /// The job, as `slurm:123` or `pod:…`; empty where the control group is of none.
    pub job: String,
}

impl Identity {
    /// Makes the identity of a client.
    #[must_use]
    pub fn new(tenant: &str, user: u32, cgroup: Option<&str>) -> Self {
        let cgroup = cgroup.unwrap_or_default();
        let mut shown = plain(cgroup);
        shown.truncate(shown.floor_char_boundary(CGROUP_BYTES));
        Self {
            tenant: tenant.to_owned(),
            user: Some(user),
            cgroup: shown,
            job: job_of(cgroup).unwrap_or_default(),
        }
    }

    /// Returns who stands for all of the same tenant where there are too many.
    #[must_use]
    pub fn folded(&self) -> Self {
        Self {
            tenant: self.tenant.clone(),
            user: None,
            cgroup: String::new(),
            job: String::new(),
        }
    }
}

/// Returns the job that a control group is of: `slurm:NUMBER`, or `pod:UID` of Kubernetes.
#[must_use]
pub fn job_of(cgroup: &str) -> Option<String> {
    let mut parts = cgroup.split('/').skip(1);
    let first = parts.next()?;
    let rest: Vec<&str> = parts.collect();
    slurm(first, &rest).or_else(|| pod(first, &rest))
}

/// Finds `/system.slice/slurmstepd.scope/job_N` and, of older ones, `/slurm/uid_N/job_N`.
fn slurm(first: &str, rest: &[&str]) -> Option<String> {
    let job = match (first, rest) {
        ("system.slice", [scope, job, ..]) if scope.ends_with("slurmstepd.scope") => job,
        ("slurm", [user, job, ..]) if user.starts_with("uid_") => job,
        _ => return None,
    };
    let number = job.strip_prefix("job_")?;
    let is_number = (1..=JOB_CHARACTERS).contains(&number.len())
        && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("slurm:{number}"))
}

/// Finds the part `podUID`, or `…-podUID.slice` as systemd names it, below the folder of Kubernetes.
fn pod(first: &str, rest: &[&str]) -> Option<String> {
    let is_root = |part: &str| {
        let part = part.strip_suffix(".slice").unwrap_or(part);
        part == "kubepods" || part.ends_with("-kubepods")
    };
    let below = match rest {
        _ if is_root(first) => rest,
        [second, below @ ..] if first.starts_with("kubelet") && is_root(second) => below,
        _ => return None,
    };
    // The class of service may stand between.
    below.iter().take(2).find_map(|part| {
        let name = part.strip_suffix(".slice").unwrap_or(part);
        let uid = match name.rsplit_once("-pod") {
            Some((_, uid)) => uid,
            None => name.strip_prefix("pod")?,
        };
        let is_uid = (1..=JOB_CHARACTERS).contains(&uid.len())
            && uid
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_'));
        is_uid.then(|| format!("pod:{}", uid.replace('_', "-")))
    })
}

#[cfg(test)]
mod tests {
    use super::{CGROUP_BYTES, Identity, job_of};

    #[test]
    fn jobs_are_found_where_their_managers_make_them() {
        let found = |cgroup: &str| job_of(cgroup).unwrap_or_default();
        for (cgroup, job) in [
            (
                "/system.slice/slurmstepd.scope/job_123/step_0/user/task_0",
                "slurm:123",
            ),
            ("/system.slice/node7_slurmstepd.scope/job_5", "slurm:5"),
            ("/slurm/uid_1000/job_77/step_batch", "slurm:77"),
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b_2c.slice/cri-containerd-x.scope",
                "pod:0a1b-2c",
            ),
            ("/kubepods/besteffort/pod12ab-34cd/9f", "pod:12ab-34cd"),
            ("/kubepods/pod12ab-34cd", "pod:12ab-34cd"),
            (
                "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod77.slice/x",
                "pod:77",
            ),
        ] {
            assert_eq!(found(cgroup), job, "{cgroup}");
        }
    }

    #[test]
    fn what_a_user_can_make_is_no_job() {
        for cgroup in [
            "",
            "/",
            "job_1",
            "/job_1",
            "/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_1",
            "/user.slice/user-1000.slice/kubepods/pod1",
            "/system.slice/slurmstepd.scope/job_1x",
            "/system.slice/slurmstepd.scope/job_",
            "/system.slice/slurmstepd.scope",
            "/kubepods/burstable/x/y/pod1",
            "/kubepods/pod\u{1b}[2J",
        ] {
            assert_eq!(job_of(cgroup), None, "{cgroup:?}");
        }
    }

    #[test]
    fn a_control_group_is_kept_short_and_harmless() {
        let long = format!("/a\u{1b}[2J/{}", "x".repeat(5000));
        let identity = Identity::new("t", 7, Some(&long));
        assert!(identity.cgroup.starts_with("/a\u{fffd}[2J/x"));
        assert_eq!(identity.cgroup.len(), CGROUP_BYTES);
        let none = Identity::new("t", 7, None);
        assert_eq!((&*none.cgroup, none.user), ("", Some(7)));
        assert_eq!(identity.folded(), none.folded());
    }
}
