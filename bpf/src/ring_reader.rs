//! Reading an object's ring of records, and its count of those that found no room.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::rc::Rc;

use aya::maps::{Array, Map, MapData};
use libbpf_rs::{MapCore, Object, RingBuffer, RingBufferBuilder};

use crate::layout::value_of;
use crate::reader::{ReadError, kernel};
use crate::unavailable::Unavailable;

/// A reader of one ring.
pub(crate) struct RingReader<T> {
    ring: RingBuffer<'static>,
    /// What was taken from it, until the caller gets it.
    taken: Rc<RefCell<Vec<T>>>,
}

impl<T: 'static> RingReader<T> {
    /// Makes a reader of a map of the object's, whose records `of` makes something of.
    ///
    /// # Errors
    /// [`Unavailable::Refused`].
    pub(crate) fn new<R: aya::Pod>(
        object: &Object,
        map: &str,
        of: fn(&R) -> Option<T>,
    ) -> Result<Self, Unavailable> {
        let taken = Rc::new(RefCell::new(Vec::new()));
        let into = Rc::clone(&taken);
        let map = map_of(object, map);
        let mut builder = RingBufferBuilder::new();
        let added = builder.add(&map, move |record| {
            let raw: Option<R> = value_of(record);
            into.borrow_mut().extend(raw.as_ref().and_then(of));
            0
        });
        let ring = added.map(drop).and_then(|()| builder.build());
        let ring = ring.map_err(|error| Unavailable::Refused {
            what: "a ring of events".into(),
            reason: error.to_string(),
        })?;
        Ok(Self { ring, taken })
    }

    /// Takes up to `most` records that have come since the last time, oldest first, and adds them to `records`.
    ///
    /// # Errors
    /// [`ReadError::Kernel`].
    pub(crate) fn take(&mut self, most: usize, records: &mut Vec<T>) -> Result<(), ReadError> {
        let result = self.ring.consume_raw_n(most);
        records.append(&mut self.taken.borrow_mut());
        if result < 0 {
            let error = std::io::Error::from_raw_os_error(-result);
            return Err(kernel("a ring of events", &error));
        }
        Ok(())
    }
}

/// Returns how many records found no room so far.
///
/// # Errors
/// [`ReadError::Kernel`].
pub(crate) fn lost(object: &Object) -> Result<u64, ReadError> {
    const WHAT: &str = "the count of lost events";
    let map = map_of(object, "gridmux_lost");
    let fd = map.as_fd().try_clone_to_owned();
    let map = MapData::from_fd(fd.map_err(|error| kernel(WHAT, &error))?);
    let map = Map::Array(map.map_err(|error| kernel(WHAT, &error))?);
    let map: Array<MapData, u64> = Array::try_from(map).map_err(|error| kernel(WHAT, &error))?;
    map.get(&0, 0).map_err(|error| kernel(WHAT, &error))
}

fn map_of<'a>(object: &'a Object, name: &str) -> impl MapCore + use<'a> {
    let found = object.maps().find(|map| map.name() == OsStr::new(name));
    found.expect("the objects define every map that this room names")
}
