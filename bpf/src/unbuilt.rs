//! The loaders of a build without BPF programs: they exist, and only ever say why they cannot work.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use crate::calls::Caller;
use crate::event::Event;
use crate::histogram::TenantHistogram;
use crate::instance::InstanceName;
use crate::layout::Stats;
use crate::probes::Probe;
use crate::range::Range;
use crate::reader::ReadError;
use crate::unavailable::Unavailable;
use crate::{LatencyOptions, ProbeCount};

fn not_built() -> Unavailable {
    Unavailable::NotBuilt {
        reason: env!("GRIDMUX_NO_BPF_REASON").into(),
    }
}

/// Never made: this build has no programs.
#[derive(Debug)]
pub struct LatencyProgram(Infallible);

/// Never made: this build has no programs.
#[derive(Debug)]
pub struct TraceProgram(Infallible);

/// Never made: this build has no programs.
#[derive(Debug)]
pub struct BypassProgram(Infallible);

/// Never made: this build has no programs.
#[derive(Debug)]
pub struct EventTrace(Infallible);

/// Never made: this build has no programs.
#[derive(Debug)]
pub struct RangeTrace(Infallible);

// Dropping matters where they work, and callers say so.
impl Drop for LatencyProgram {
    fn drop(&mut self) {
        match self.0 {}
    }
}

impl Drop for BypassProgram {
    fn drop(&mut self) {
        match self.0 {}
    }
}

impl Drop for TraceProgram {
    fn drop(&mut self) {
        match self.0 {}
    }
}

impl Drop for EventTrace {
    fn drop(&mut self) {
        match self.0 {}
    }
}

impl Drop for RangeTrace {
    fn drop(&mut self) {
        match self.0 {}
    }
}

#[allow(missing_docs)] // Documented where they work, in latency.rs.
impl LatencyProgram {
    pub fn load(_instance: &str) -> Result<Self, Unavailable> {
        Err(not_built())
    }

    pub fn load_with(_instance: &str, _options: LatencyOptions) -> Result<Self, Unavailable> {
        Err(not_built())
    }

    pub fn instance(&self) -> &InstanceName {
        match self.0 {}
    }

    pub fn producer_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }

    pub fn pinned(&self) -> Result<(), &Unavailable> {
        match self.0 {}
    }

    pub fn drains_itself(&self) -> Result<(), &Unavailable> {
        match self.0 {}
    }

    pub fn drain(&self) -> io::Result<()> {
        match self.0 {}
    }

    pub fn histograms(&self) -> Result<Vec<TenantHistogram>, ReadError> {
        match self.0 {}
    }

    pub fn stats(&self) -> Result<Stats, ReadError> {
        match self.0 {}
    }

    pub fn register(&self, _tenant: u32) -> io::Result<()> {
        match self.0 {}
    }
}

#[allow(missing_docs)] // Documented where they work, in trace.rs.
impl TraceProgram {
    pub fn attach(_pid: u32) -> Result<Self, Unavailable> {
        Err(not_built())
    }

    pub fn counts(&self) -> Result<Vec<ProbeCount>, ReadError> {
        match self.0 {}
    }

    pub fn histograms(&self) -> Result<Vec<TenantHistogram>, ReadError> {
        match self.0 {}
    }
}

#[allow(missing_docs)] // Documented where they work, in bypass.rs.
impl BypassProgram {
    pub fn load() -> Result<Self, Unavailable> {
        Err(not_built())
    }

    pub fn watch(&mut self, _library: &File) -> Result<usize, Unavailable> {
        match self.0 {}
    }

    pub fn callers(&self) -> Result<Vec<Caller>, ReadError> {
        match self.0 {}
    }

    pub fn unkept(&self) -> Result<u64, ReadError> {
        match self.0 {}
    }
}

#[allow(missing_docs)] // Documented where they work, in events.rs.
impl EventTrace {
    pub fn attach(_pid: u32, _probes: &[Probe], _tenant: Option<u32>) -> Result<Self, Unavailable> {
        Err(not_built())
    }

    pub fn take(&mut self, _most: usize, _events: &mut Vec<Event>) -> Result<(), ReadError> {
        match self.0 {}
    }

    pub fn lost(&self) -> Result<u64, ReadError> {
        match self.0 {}
    }
}

#[allow(missing_docs)] // Documented where they work, in ranges.rs.
impl RangeTrace {
    pub fn attach(_library: &Path) -> Result<Self, Unavailable> {
        Err(not_built())
    }

    pub fn take(&mut self, _most: usize, _ranges: &mut Vec<Range>) -> Result<(), ReadError> {
        match self.0 {}
    }

    pub fn lost(&self) -> Result<u64, ReadError> {
        match self.0 {}
    }
}
