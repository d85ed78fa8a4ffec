//! The job of a client process, and its report.
//!
//! A [`Job`] is one line of JSON on the client's command line; its [`Report`] is the last line of its stdout. Times are
//! nanoseconds of the device's timer.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How the device's time passes while a client computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// It stands still, so that a launch is submitted at the device time at which the one before has ended.
    Lockstep,
    /// It goes on. What the host's clock says is mapped onto the device's timer.
    Real,
}

/// Blocks that stamp themselves, as [`crate::stamps::Blocks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamped {
    /// Blocks of a launch.
    pub blocks: u32,
    /// Threads of each.
    pub threads: u32,
    /// The least time that one takes, in nanoseconds.
    pub ns: u64,
    /// How much longer one may take, in nanoseconds.
    pub spread_ns: u64,
}

impl Stamped {
    /// Returns launches of blocks that all take the same time.
    #[must_use]
    pub const fn even(blocks: u32, ns: u64) -> Self {
        Self {
            blocks,
            threads: 256,
            ns,
            spread_ns: 0,
        }
    }

    /// Returns launches of blocks that take half of a time to one and a half, so that their ends lie scattered.
    #[must_use]
    pub const fn scattered(blocks: u32, ns: u64) -> Self {
        Self {
            blocks,
            threads: 256,
            ns: ns / 2,
            spread_ns: ns,
        }
    }
}

/// One of gridmux's workloads, with its named size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The workload's name.
    pub workload: String,
    /// The name of its size.
    pub size: String,
    /// Its launches, all on one stream.
    pub launches: u32,
}

/// What is launched, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "run", rename_all = "kebab-case")]
pub enum Work {
    /// A number of stamped launches on each of several streams, all submitted at once.
    Burst {
        /// The launches.
        kernel: Stamped,
        /// Streams.
        streams: u32,
        /// Launches of each stream.
        launches: u32,
    },
    /// Stamped launches on one stream, each submitted when the one before has ended.
    Loop {
        /// The launches.
        kernel: Stamped,
        /// How many.
        launches: u32,
        /// Time of the host's between an end and the next submission, in nanoseconds; only with [`Clock::Real`].
        pause_ns: u64,
    },
    /// Stamped launches on each of several streams, some of them always submitted, until a device time is over, the
    /// client is stopped, or there is no room for more stamps.
    Endless {
        /// The launches.
        kernel: Stamped,
        /// Streams.
        streams: u32,
        /// Most launches of each stream, for which there is room.
        most: u32,
        /// The device time; with none the client runs until the command to stop.
        ns: Option<u64>,
    },
    /// Launches of a kernel that goes for other tenants' memory.
    Hostile {
        /// How many.
        launches: u32,
    },
    /// Programs, each on a stream of its own, all of whose launches are submitted at once, in turns.
    Programs {
        /// The programs.
        programs: Vec<Program>,
    },
}

/// A client's work and where it leaves what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The device's clock.
    pub clock: Clock,
    /// What is run.
    pub work: Work,
    /// Where the stamps of all blocks go: little-endian words of start, end and SM.
    pub stamps: Option<PathBuf>,
}

/// What a client found out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Launches that ended.
    pub launches: u64,
    /// When the first block started; 0 where none is stamped.
    pub first_ns: u64,
    /// When the last block ended; 0 where none is stamped.
    pub last_ns: u64,
    /// From the first block's start to the last one's end, of each launch, in the order of streams.
    pub ran_ns: Vec<u64>,
    /// From the end of a launch to the start of the next one on its stream.
    pub gaps_ns: Vec<u64>,
    /// From a launch's submission to its first block's start, of [`Work::Loop`].
    pub start_ns: Vec<f64>,
    /// From a launch's submission to its last block's end, of [`Work::Loop`].
    pub complete_ns: Vec<f64>,
    /// By how much the mapping of the host's clock may be wrong, in nanoseconds; 0 in lockstep.
    pub clock_error_ns: f64,
    /// The part of an SM that a block holds, of the resource that it holds most of.
    pub dominant: f64,
    /// Of [`Work::Programs`]: device time in microseconds from the common start to the end of each program.
    pub programs_us: Vec<f64>,
    /// Every result was the host reference's ([`Work::Programs`]), or every launch ended ([`Work::Hostile`]).
    pub verified: bool,
}
