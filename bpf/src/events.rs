//! Watching a process through its USDT probes, hit by hit.
//!
//! A program puts every hit into a ring of 4 MiB, about 47,000 events. Nobody is woken, and nobody waits for a reader
//! that falls behind: what finds no room is lost and counted.
//!
//! Rule: only the probes that are asked for are attached; the others cost nothing.

use libbpf_rs::{Link, Object};

use crate::attach;
use crate::event::Event;
use crate::layout::RawFilter;
use crate::load::{self, EVENTS};
use crate::probes::Probe;
use crate::reader::ReadError;
use crate::ring_reader::{self, RingReader};
use crate::unavailable::Unavailable;

/// The events of one process.
pub struct EventTrace {
    // Links go first: each refers to the object.
    _links: Vec<Link>,
    ring: RingReader<Event>,
    object: Object,
}

impl EventTrace {
    /// Attaches to those of `probes` that a process's executable holds; of a tenant alone where one is given.
    ///
    /// # Errors
    /// [`Unavailable`]; `NoProbes` when the process is gone or is no gridmux.
    pub fn attach(pid: u32, probes: &[Probe], tenant: Option<u32>) -> Result<Self, Unavailable> {
        let filter = RawFilter {
            tenant: tenant.unwrap_or(0),
            is_on: tenant.is_some().into(),
        };
        let object = load::load("events", EVENTS, |open| load::set_tunables(open, filter))?;
        let ring = RingReader::new(&object, "gridmux_events", Event::of)?;
        let links = attach::present(&object, pid, probes, |_| "gridmux_event")?;
        Ok(Self {
            _links: links,
            ring,
            object,
        })
    }

    /// Takes up to `most` events that have come since the last time, oldest first, and adds them to `events`.
    ///
    /// # Errors
    /// [`ReadError::Kernel`].
    pub fn take(&mut self, most: usize, events: &mut Vec<Event>) -> Result<(), ReadError> {
        self.ring.take(most, events)
    }

    /// Returns how many events found no room so far.
    ///
    /// # Errors
    /// [`ReadError::Kernel`].
    pub fn lost(&self) -> Result<u64, ReadError> {
        ring_reader::lost(&self.object)
    }
}

impl std::fmt::Debug for EventTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventTrace").finish_non_exhaustive()
    }
}
