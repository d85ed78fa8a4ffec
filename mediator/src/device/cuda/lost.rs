//! How a device host ends after its context is lost. This file is the whole policy.
//!
//! A sticky error (an illegal address, a failed assertion, a hardware fault) leaves a CUDA context that refuses every
//! call, and nothing but a new process gets a new one. So the host ends, and the supervisor, which sees its child end,
//! tells the tenants concerned and starts another.
//!
//! Rules: the process ends only after the dispatcher was handed the last report, which it has by then turned into
//! completions; then it lives on for [`GRACE`], in which tenants may fetch the text of their failure and are refused
//! new work. It ends without the C library's exit handlers, because the driver's wait for a device that may hang.

use std::time::Duration;

/// Exit status of a host whose context was lost (`EX_SOFTWARE` of `sysexits.h`).
pub(super) const EXIT_STATUS: i32 = 70;

/// Time for tenants to ask what happened.
const GRACE: Duration = Duration::from_millis(500);

/// Ends the process after the time of grace.
pub(super) fn end_process_soon() {
    tracing::error!("the CUDA context is lost; this device host ends and is replaced");
    let waiting = std::thread::Builder::new().name("lost".into()).spawn(|| {
        std::thread::sleep(GRACE);
        end_process();
    });
    if waiting.is_err() {
        end_process();
    }
}

fn end_process() -> ! {
    // SAFETY: `_exit` only ends the process. Nothing is left half-written that outlives it: completions are in shared
    // memory already, and logs are not buffered.
    unsafe { libc::_exit(EXIT_STATUS) }
}

#[cfg(test)]
mod tests {
    use super::{EXIT_STATUS, end_process_soon};
    use std::process::{Command, Stdio};

    const CHILD: &str = "GRIDMUX_TEST_LOST_CHILD";

    /// Runs itself again as a process that loses its context.
    #[test]
    fn the_process_ends_with_its_own_status() {
        if std::env::var_os(CHILD).is_some() {
            end_process_soon();
            loop {
                std::thread::park();
            }
        }
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name])
            .env(CHILD, "1")
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(EXIT_STATUS));
    }
}
