//! Attributes of a stream: hints that are remembered, and the priority.
//!
//! Rule: a value that the attribute cannot have is refused, so that what is read back is what a device would tell.

use super::{CUstream, DefaultStream, Kind, known};
use crate::api::driver_api;
pub use crate::attribute::Value;
use crate::attribute::stream::{
    ACCESS_POLICY_WINDOW, MEM_SYNC_DOMAIN, MEM_SYNC_DOMAIN_MAP, PRIORITY, SYNCHRONIZATION_POLICY,
};
use crate::border::{In, Out};
use crate::context::limits::GREATEST_PRIORITY;
use crate::status::{CudaResult, Status};
use parking_lot::Mutex;
use std::ffi::c_uint;

driver_api! {
    needs Init;
    11000 cuStreamGetAttribute(stream: CUstream, attribute: c_uint, value: *mut Value)
        | cuStreamGetAttribute_ptsz => get;
    11000 cuStreamSetAttribute(stream: CUstream, attribute: c_uint, value: *const Value)
        | cuStreamSetAttribute_ptsz => set;
    11000 cuStreamCopyAttributes(to: CUstream, from: CUstream) | cuStreamCopyAttributes_ptsz => copy;
}

/// The attributes that streams have (`CUstreamAttrID`), each with the first word of its value before the program sets
/// it: the window of the L2 cache, how the host waits (as the library likes), the priority, the map of memory
/// synchronisation domains (the remote one is 1), the domain.
const ATTRIBUTES: [(c_uint, u32); 5] = [
    (ACCESS_POLICY_WINDOW, 0),
    (SYNCHRONIZATION_POLICY, 1),
    (PRIORITY, 0),
    (MEM_SYNC_DOMAIN_MAP, 0x100),
    (MEM_SYNC_DOMAIN, 0),
];

/// The values that the program set.
#[derive(Debug, Default)]
pub struct Attributes(Mutex<[Option<Value>; ATTRIBUTES.len()]>);

impl Attributes {
    /// Returns the value that the program set.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: streams have no such attribute.
    pub fn get(&self, attribute: c_uint) -> CudaResult<Option<Value>> {
        let place = place_of(attribute)?;
        Ok(self.0.lock()[place])
    }

    /// Remembers a value.
    ///
    /// # Errors
    /// As [`Attributes::get`].
    pub fn set(&self, attribute: c_uint, value: Value) -> CudaResult {
        let place = place_of(attribute)?;
        self.0.lock()[place] = Some(value);
        Ok(())
    }
}

fn place_of(attribute: c_uint) -> CudaResult<usize> {
    let mut known = ATTRIBUTES.iter();
    let place = known.position(|(id, _)| *id == attribute);
    place.ok_or(Status::INVALID_VALUE)
}

fn get(
    default: DefaultStream,
    stream: CUstream,
    attribute: c_uint,
    value: Out<Value>,
) -> CudaResult {
    let stream = known(default, stream)?;
    let was_set = stream.attributes.get(attribute)?;
    let at_first = match (attribute, stream.kind) {
        (PRIORITY, Kind::Made { priority, .. }) => priority.cast_unsigned(),
        _ => ATTRIBUTES[place_of(attribute)?].1,
    };
    let mut words = [0; 16];
    words[0] = at_first;
    value.set(was_set.unwrap_or(Value(words)));
    Ok(())
}

fn set(
    default: DefaultStream,
    stream: CUstream,
    attribute: c_uint,
    In(value): In<Value>,
) -> CudaResult {
    let stream = known(default, stream)?;
    stream.attributes.set(attribute, checked(attribute, value)?)
}

/// Returns a value as it is remembered: a priority as near as streams have it.
///
/// # Errors
/// [`Status::INVALID_VALUE`]: a way to wait that is none of the four, or a domain that the device does not have.
fn checked(attribute: c_uint, mut value: Value) -> CudaResult<Value> {
    let first = &mut value.0[0];
    match attribute {
        SYNCHRONIZATION_POLICY if !(1..=4).contains(first) => Err(Status::INVALID_VALUE),
        MEM_SYNC_DOMAIN if *first > 1 => Err(Status::INVALID_VALUE),
        PRIORITY => {
            let priority = first.cast_signed().clamp(GREATEST_PRIORITY, 0);
            *first = priority.cast_unsigned();
            Ok(value)
        }
        _ => Ok(value),
    }
}

fn copy(default: DefaultStream, to: CUstream, from: CUstream) -> CudaResult {
    let (to, from) = (known(default, to)?, known(default, from)?);
    if to.context != from.context {
        return Err(Status::INVALID_VALUE);
    }
    let values = *from.attributes.0.lock();
    *to.attributes.0.lock() = values;
    Ok(())
}
