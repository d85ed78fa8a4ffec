//! Why BPF cannot be used here; the service goes on without it.

use std::path::PathBuf;

/// The reason, as the user may read it. Each text says what to do.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum Unavailable {
    /// This binary was built without the programs.
    #[error(
        "this gridmux was built without its eBPF programs ({reason}); \
         install clang 19 or later, libelf-dev, zlib1g-dev and pkg-config, and build again"
    )]
    NotBuilt {
        /// The part that the build lacked.
        reason: String,
    },
    /// The process lacks capabilities.
    #[error(
        "eBPF needs {missing}; run as root, or grant them to the service (systemd: AmbientCapabilities=)"
    )]
    NotPermitted {
        /// The capabilities that are missing.
        missing: String,
    },
    /// The kernel said no.
    #[error(
        "the kernel refused {what}: {reason}; `dmesg` and /sys/kernel/security/lockdown may tell more"
    )]
    Refused {
        /// The request.
        what: String,
        /// The error, and libbpf's last words.
        reason: String,
    },
    /// The name cannot be a folder under the BPF file system.
    #[error("instance name {name:?} must be 1 to 64 letters, digits, '-' or '_'")]
    InstanceName {
        /// The name given.
        name: String,
    },
    /// Another live process has pinned this instance.
    #[error(
        "instance {instance} belongs to process {pid}, which is alive; stop it or choose another name"
    )]
    InstanceInUse {
        /// The instance.
        instance: String,
        /// The live owner.
        pid: u32,
    },
    /// Pinning failed.
    #[error(
        "cannot pin under {path}: {reason}; mount a BPF file system there (mount -t bpf bpf /sys/fs/bpf)"
    )]
    Pin {
        /// The path in the BPF file system that was to be pinned.
        path: PathBuf,
        /// The error.
        reason: String,
    },
    /// The process to trace has no `gridmux` probes, or is gone.
    #[error("process {pid} cannot be traced: {reason}; is it a gridmux device host?")]
    NoProbes {
        /// The process.
        pid: u32,
        /// The error.
        reason: String,
    },
    /// A driver library cannot be watched.
    #[error("{library} cannot be watched: {reason}")]
    NoLibrary {
        /// The library, as it was opened.
        library: String,
        /// The error.
        reason: String,
    },
    /// The kernel attaches nothing to a driver library, for everybody or for one process that has it loaded.
    #[error(
        "the kernel refused to attach to {library}: {reason}; a process that has it loaded may have spoilt its copy of \
         the probes' counters, which keeps everybody from tracing until it ends"
    )]
    NotAttached {
        /// The library, as it was opened.
        library: String,
        /// The error.
        reason: String,
    },
}
