//! Watching a process through its USDT probes, hit by hit.
//!
//! A program puts every hit into a ring of 4 MiB, about 47,000 events. Nobody is woken, and nobody waits for a reader
//! that falls behind: what finds no room is lost and counted.
//!
//! Rule: only the probes that are asked for are attached; the others cost nothing.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::rc::Rc;

use aya::maps::{Array, Map, MapData};
use libbpf_rs::{Link, MapCore, Object, RingBuffer, RingBufferBuilder};

use crate::attach;
use crate::event::Event;
use crate::layout::{RawEvent, RawFilter, value_of};
use crate::load::{self, EVENTS};
use crate::probes::Probe;
use crate::reader::ReadError;
use crate::unavailable::Unavailable;

/// The events of one process.
pub struct EventTrace {
    // Links go first: each refers to the object.
    _links: Vec<Link>,
    ring: RingBuffer<'static>,
    /// What the ring's reader has taken, until the caller gets it.
    taken: Rc<RefCell<Vec<Event>>>,
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
        let taken = Rc::new(RefCell::new(Vec::new()));
        let ring = ring_of(&object, Rc::clone(&taken)).map_err(|error| Unavailable::Refused {
            what: "the ring of events".into(),
            reason: error.to_string(),
        })?;
        let links = attach::present(&object, pid, probes, |_| "gridmux_event")?;
        Ok(Self {
            _links: links,
            ring,
            taken,
            object,
        })
    }

    /// Takes up to `most` events that have come since the last time, oldest first, and adds them to `events`.
    ///
    /// # Errors
    /// [`ReadError::Kernel`].
    pub fn take(&mut self, most: usize, events: &mut Vec<Event>) -> Result<(), ReadError> {
        let result = self.ring.consume_raw_n(most);
        events.append(&mut self.taken.borrow_mut());
        if result < 0 {
            let error = std::io::Error::from_raw_os_error(-result);
            return Err(failed("the ring of events", &error));
        }
        Ok(())
    }

    /// Returns how many events found no room so far.
    ///
    /// # Errors
    /// [`ReadError::Kernel`].
    pub fn lost(&self) -> Result<u64, ReadError> {
        let what = "the count of lost events";
        let map = map_of(&self.object, "gridmux_lost");
        let fd = map.as_fd().try_clone_to_owned();
        let map = MapData::from_fd(fd.map_err(|error| failed(what, &error))?);
        let map = Map::Array(map.map_err(|error| failed(what, &error))?);
        let map: Array<MapData, u64> =
            Array::try_from(map).map_err(|error| failed(what, &error))?;
        map.get(&0, 0).map_err(|error| failed(what, &error))
    }
}

impl std::fmt::Debug for EventTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventTrace").finish_non_exhaustive()
    }
}

/// Returns a reader of the object's ring that puts events into `taken`.
fn ring_of(
    object: &Object,
    taken: Rc<RefCell<Vec<Event>>>,
) -> libbpf_rs::Result<RingBuffer<'static>> {
    let map = map_of(object, "gridmux_events");
    let mut builder = RingBufferBuilder::new();
    builder.add(&map, move |record| {
        let raw: Option<RawEvent> = value_of(record);
        taken.borrow_mut().extend(raw.as_ref().and_then(Event::of));
        0
    })?;
    builder.build()
}

fn map_of<'a>(object: &'a Object, name: &str) -> impl MapCore + use<'a> {
    let found = object.maps().find(|map| map.name() == OsStr::new(name));
    found.expect("events.bpf.c defines every map that this file names")
}

fn failed(what: &str, error: &dyn std::error::Error) -> ReadError {
    ReadError::Kernel {
        what: what.into(),
        reason: error.to_string(),
    }
}
