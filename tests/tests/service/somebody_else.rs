//! Another user's process, which works as a tenant: this test program, run again.

use gridmux_tests::{Bench, connect};
use gridmux_workloads::Size;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// A user and group other than root's.
pub(crate) const OTHER: u32 = 65_534;

/// Where the process finds the service, and as whom it connects.
const SOCKET: &str = "GRIDMUX_TEST_SOCKET";
const TENANT: &str = "GRIDMUX_TEST_TENANT";

/// Has a process of [`OTHER`] connect to a service as a tenant and launch some kernels.
///
/// # Errors
/// What the process says, if it is refused or a launch fails.
pub(crate) fn works_as(socket: &Path, tenant: &str) -> Result<(), String> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", "somebody_else::works", "--nocapture"]);
    command.env(SOCKET, socket).env(TENANT, tenant);
    let output = command.uid(OTHER).gid(OTHER).output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    // A name that no test has would succeed without having done anything.
    assert!(text.contains("running 1 test"), "{text}");
    output.status.success().then_some(()).ok_or(text)
}

/// Does what the process of another user is for, and nothing in this one.
#[test]
fn works() {
    let (Some(socket), Ok(tenant)) = (std::env::var_os(SOCKET), std::env::var(TENANT)) else {
        return;
    };
    let gpu = connect(socket.as_ref(), &tenant).unwrap_or_else(|error| panic!("{error}"));
    let bench = Bench::set_up(&gpu, "vecadd", Size::Tiny, 3).unwrap();
    for _ in 0..3 {
        bench.run(&gpu).unwrap();
    }
}
