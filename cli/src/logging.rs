//! Logs, on stderr.
//!
//! Rule: `GRIDMUX_LOG` (as `info`, or `gridmux_mediator=debug`) decides; the service logs from `info` on without it,
//! every other command from `warn` on.

use std::io::IsTerminal;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// Name of the environment variable with the filter.
const VARIABLE: &str = "GRIDMUX_LOG";

/// Starts logging.
pub(crate) fn start(default: LevelFilter) {
    let filter = EnvFilter::builder()
        .with_default_directive(default.into())
        .with_env_var(VARIABLE)
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}
