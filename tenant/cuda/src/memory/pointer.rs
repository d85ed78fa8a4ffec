//! What is told of an address (`CUpointer_attribute`).

use super::CUdeviceptr;
use super::map::{Memory, Range};
use crate::api::driver_api;
use crate::border::{AnyOut, FromC, Out};
use crate::context::CUcontext;
use crate::context::current::usable;
use crate::driver::Driver;
use crate::status::{CudaResult, Status};
use std::ffi::{c_int, c_uint, c_void};

/// `CU_MEMORYTYPE_HOST` and `CU_MEMORYTYPE_DEVICE`.
const HOST: c_uint = 1;
const DEVICE: c_uint = 2;

driver_api! {
    needs Init;
    4000 cuPointerGetAttribute(value: *mut c_void, attribute: c_uint, address: CUdeviceptr) => get_attribute;
    7000 cuPointerGetAttributes(
        count: c_uint, attributes: *mut c_uint, values: *mut *mut c_void, address: CUdeviceptr,
    ) => get_attributes;
    6000 cuPointerSetAttribute(value: *const c_void, attribute: c_uint, address: CUdeviceptr) => set_attribute;
}

/// A value of an attribute, in the type that the API gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Word(c_uint),
    Number(c_int),
    Wide(u64),
    Bool(bool),
}

impl Value {
    /// Writes it where the program wants it.
    fn write(self, place: AnyOut) -> CudaResult {
        match self {
            Self::Word(value) => place.of()?.set(value),
            Self::Number(value) => place.of()?.set(value),
            Self::Wide(value) => place.of()?.set(value),
            Self::Bool(value) => place.of()?.set(value),
        }
        Ok(())
    }
}

/// Returns an attribute's value, and what it is for an address that is not known.
///
/// # Errors
/// The first: [`Status::INVALID_VALUE`] for an unknown address or attribute, [`Status::NOT_SUPPORTED`] for what the
/// device does not have.
fn value(driver: &Driver, attribute: c_uint, address: u64) -> (CudaResult<Value>, Option<Value>) {
    let range = driver.memory.find(address);
    let range = range.as_deref();
    let known = range.ok_or(Status::INVALID_VALUE);
    let is_device = known.map(|range| range.memory.is_device());
    let bits = |handle: CUcontext| Value::Wide(handle.bits());
    match attribute {
        1 => (known.map(|range| bits(range.context)), Some(Value::Wide(0))),
        2 => (
            is_device.map(|device| Value::Word(if device { DEVICE } else { HOST })),
            Some(Value::Word(0)),
        ),
        3 => (device_pointer(range, address), Some(Value::Wide(0))),
        4 => (host_pointer(range, address), Some(Value::Wide(0))),
        // Memory operations wait or not as they do without the attribute.
        6 => (known.map(|_| Value::Bool(false)), Some(Value::Bool(false))),
        7 => (
            known.map(|range| Value::Wide(range.id)),
            Some(Value::Wide(0)),
        ),
        // Managed memory.
        8 => (Ok(Value::Bool(false)), Some(Value::Bool(false))),
        9 => (known.map(|_| Value::Number(0)), Some(Value::Number(-2))),
        // Legacy handles between processes, and handle types of allocations.
        10 => (Ok(Value::Bool(false)), Some(Value::Bool(false))),
        14 => (Ok(Value::Wide(0)), Some(Value::Wide(0))),
        11 => (
            known.map(|range| Value::Wide(range.start)),
            Some(Value::Wide(0)),
        ),
        12 => (
            known.map(|range| Value::Wide(range.bytes)),
            Some(Value::Wide(0)),
        ),
        13 => (Ok(Value::Bool(range.is_some())), Some(Value::Bool(false))),
        // Read and write.
        16 => (known.map(|_| Value::Word(3)), Some(Value::Word(0))),
        17 => (known.map(pool), Some(Value::Wide(0))),
        5 | 15 | 18..=20 => (Err(Status::NOT_SUPPORTED), None),
        _ => (Err(Status::INVALID_VALUE), None),
    }
}

fn device_pointer(range: Option<&Range>, address: u64) -> CudaResult<Value> {
    let range = range.filter(|range| range.memory.is_device());
    range
        .map(|_| Value::Wide(address))
        .ok_or(Status::INVALID_VALUE)
}

fn host_pointer(range: Option<&Range>, address: u64) -> CudaResult<Value> {
    let range = range.filter(|range| !range.memory.is_device());
    range
        .map(|_| Value::Wide(address))
        .ok_or(Status::INVALID_VALUE)
}

fn pool(range: &Range) -> Value {
    match &range.memory {
        Memory::Pooled(block) => Value::Wide(block.pool().bits()),
        _ => Value::Wide(0),
    }
}

fn get_attribute(place: AnyOut, attribute: c_uint, address: CUdeviceptr) -> CudaResult {
    value(Driver::get()?, attribute, address).0?.write(place)
}

/// Writes several attributes' values. As documented, an address that is not known is no error here: values are what
/// they are for no memory.
fn get_attributes(
    count: c_uint,
    attributes: Out<c_uint>,
    values: Out<*mut c_void>,
    address: CUdeviceptr,
) -> CudaResult {
    let driver = Driver::get()?;
    for index in 0..count as usize {
        let (found, otherwise) = value(driver, attributes.get_at(index), address);
        // SAFETY: the program passes a place for a value of each attribute's type, as the C declaration asks.
        let place = unsafe { AnyOut::from_c(values.get_at(index))? };
        match (found, otherwise) {
            (Ok(value), _) | (Err(Status::INVALID_VALUE), Some(value)) => value.write(place)?,
            (Err(status), _) => return Err(status),
        }
    }
    Ok(())
}

/// Takes the one attribute that can be set. It asks for synchronous memory operations, which is a hint where all are
/// ordered.
fn set_attribute(value: *const c_void, attribute: c_uint, address: CUdeviceptr) -> CudaResult {
    let (driver, _) = usable()?;
    let is_known = driver.memory.find(address).is_some();
    if value.is_null() || attribute != 6 || !is_known {
        return Err(Status::INVALID_VALUE);
    }
    Ok(())
}
