//! Tracing a process through its USDT probes: counts per probe and tenant, and latencies from `complete`.
//!
//! The probes cost their hits while this lives, and nothing after it is dropped.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};

use aya::maps::{HashMap, Map, MapData};
use libbpf_rs::{Link, MapCore, Object};

use crate::ProbeCount;
use crate::attach;
use crate::histogram::TenantHistogram;
use crate::layout::RawProbeKey;
use crate::load::{self, TRACE};
use crate::probes::Probe;
use crate::reader::{self, ReadError};
use crate::unavailable::Unavailable;

/// A trace of one process.
#[derive(Debug)]
pub struct TraceProgram {
    // Links go first: each refers to the object.
    _links: Vec<Link>,
    object: Object,
}

impl TraceProgram {
    /// Attaches to every probe that a process's executable holds.
    ///
    /// # Errors
    /// [`Unavailable`]; `NoProbes` when the process is gone or is no gridmux.
    pub fn attach(pid: u32) -> Result<Self, Unavailable> {
        let object = load::load("trace", TRACE, |_| Ok(()))?;
        let links = attach::present(&object, pid, &Probe::ALL, |probe| match probe {
            Probe::Complete => "gridmux_done",
            _ => "gridmux_count",
        })?;
        Ok(Self {
            _links: links,
            object,
        })
    }

    /// Hits so far, ordered by probe and tenant.
    ///
    /// # Errors
    /// [`ReadError::Kernel`].
    pub fn counts(&self) -> Result<Vec<ProbeCount>, ReadError> {
        let failed = |reason: String| ReadError::Kernel {
            what: "probe counts".into(),
            reason,
        };
        let map = MapData::from_fd(self.map("gridmux_probes")?)
            .map_err(|error| failed(error.to_string()))?;
        let map: HashMap<MapData, RawProbeKey, u64> =
            HashMap::try_from(Map::HashMap(map)).map_err(|error| failed(error.to_string()))?;
        let mut counts = Vec::new();
        for entry in map.iter() {
            let (key, count) = entry.map_err(|error| failed(error.to_string()))?;
            if let Some(probe) = Probe::from_raw(key.probe) {
                counts.push(ProbeCount {
                    probe,
                    tenant: key.tenant,
                    count,
                });
            }
        }
        counts.sort_unstable();
        Ok(counts)
    }

    /// Latencies as the `complete` probe told them: kinds `SubmitToStart` and `SubmitToComplete`.
    ///
    /// # Errors
    /// [`ReadError::Kernel`].
    pub fn histograms(&self) -> Result<Vec<TenantHistogram>, ReadError> {
        reader::histograms_of_fd(self.map("gridmux_latency")?)
    }

    fn map(&self, name: &str) -> Result<OwnedFd, ReadError> {
        let found = self
            .object
            .maps()
            .find(|map| map.name() == OsStr::new(name));
        found
            .expect("trace.bpf.c defines every map that this file names")
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| ReadError::Kernel {
                what: name.into(),
                reason: error.to_string(),
            })
    }
}
