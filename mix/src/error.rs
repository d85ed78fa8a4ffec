//! Why programs could not be run together.

use crate::model::{MeasureError, OwnKernelError};
use gridmux_hw_model::{LoadError, MemoryError};
use gridmux_policy::UnknownPolicy;
use gridmux_policy::guard::PolicyFailure;

/// Why programs could not be run together.
#[derive(Debug, thiserror::Error)]
pub enum MixError {
    /// There is no such policy.
    #[error(transparent)]
    Policy(#[from] UnknownPolicy),
    /// The policy failed.
    #[error(transparent)]
    PolicyFailed(#[from] PolicyFailure),
    /// The device cannot run a launch of a program.
    #[error("{program}: {why}")]
    Refused {
        /// The program.
        program: String,
        /// What the launch asks for and the device does not have.
        why: String,
    },
    /// A launch did not end in good order.
    #[error("{program}: a launch failed: {why}")]
    Failed {
        /// The program.
        program: String,
        /// What the device says of it.
        why: String,
        /// It was given up at its budget.
        given_up: bool,
    },
    /// A launch would arrive later than any run lasts.
    #[error("{program}: a launch would arrive at {arrival_ns} ns")]
    TooLate {
        /// The program.
        program: String,
        /// When.
        arrival_ns: u64,
    },
    /// Launches are open, and nothing will happen.
    #[error(
        "{programs}: launches do not end: the policy gives them no room, or a kernel does not end"
    )]
    Endless {
        /// The programs whose launches they are.
        programs: String,
    },
    /// A kernel could not be measured.
    #[error("{program}, measured alone on the model")]
    NotMeasured {
        /// The program.
        program: String,
        /// Why.
        source: MeasureError,
        /// It was given up at its budget.
        given_up: bool,
    },
    /// A recorded launch needs more than this device has.
    #[error("{kernel}: {why}")]
    LargerThanRecorded {
        /// The kernel.
        kernel: String,
        /// What it asks for.
        why: String,
    },
    /// The code of a kernel is needed and is not here.
    #[error(
        "{program}: the code of ERCBench's kernels is not here, only their shapes and durations, which the model \
         cannot run"
    )]
    NoCode {
        /// The program.
        program: String,
    },
    /// A kernel of the table of measured ones is not in it.
    #[error("{0} has not been measured")]
    NotInTable(String),
    /// A kernel of ours could not be loaded.
    #[error("{program}")]
    Own {
        /// The program.
        program: String,
        /// Why.
        source: OwnKernelError,
    },
    /// A kernel of the user's could not be loaded.
    #[error("{program}")]
    User {
        /// The program.
        program: String,
        /// Why, as its loader says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A stand-in of a recorded kernel could not be loaded.
    #[error(transparent)]
    StandIn(#[from] LoadError),
    /// The device has no memory left.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}
