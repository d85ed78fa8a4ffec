//! What is told of an address (`CUpointer_attribute`).

use super::CUdeviceptr;
use super::map::{Memory, Range};
use super::virtual_memory;
use crate::api::driver_api;
use crate::attribute::{memory_type, pointer};
use crate::border::{AnyOut, FromC, In, Out};
use crate::context::CUcontext;
use crate::context::current::usable;
use crate::driver::Driver;
use crate::memory::advice::ManagedRange;
use crate::memory::map::PinnedRange;
use crate::status::{CudaResult, Status};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::Ordering;

/// `CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE`.
const READ_WRITE: c_uint = 3;

driver_api! {
    needs Init;
    4000 cuPointerGetAttribute(value: *mut c_void, attribute: c_uint, address: CUdeviceptr) => get_attribute;
    7000 cuPointerGetAttributes(
        count: c_uint, attributes: *mut c_uint, values: *mut *mut c_void, address: CUdeviceptr,
    ) => get_attributes;
    6000 cuPointerSetAttribute(value: *const u8, attribute: c_uint, address: CUdeviceptr) => set_attribute;
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
    // Where kernels reach registered memory is the host's memory all the same.
    let is_device =
        known.map(|range| range.memory.is_device() && !matches!(range.memory, Memory::Mapped(_)));
    let bits = |handle: CUcontext| Value::Wide(handle.bits());
    let (found, unknown) = match attribute {
        pointer::CONTEXT => (known.map(|range| bits(range.context)), Value::Wide(0)),
        pointer::MEMORY_TYPE => (is_device.map(memory_type_of), Value::Word(0)),
        pointer::DEVICE_POINTER => (device_pointer(range, address), Value::Wide(0)),
        // What is not known is taken for the program's own memory.
        pointer::HOST_POINTER => {
            let unknown = if range.is_none() { address } else { 0 };
            (host_pointer(range, address), Value::Wide(unknown))
        }
        pointer::SYNC_MEMOPS => (known.map(is_synchronous), Value::Bool(false)),
        pointer::BUFFER_ID | pointer::MEMORY_BLOCK_ID => {
            (known.map(|range| Value::Wide(range.id)), Value::Wide(0))
        }
        pointer::LOCALITY_DOMAIN_ORDINAL => (known.map(|_| Value::Number(-1)), Value::Number(-1)),
        pointer::DEVICE_ORDINAL => (known.map(|_| Value::Number(0)), Value::Number(-2)),
        pointer::IS_MANAGED => {
            let is_managed = |range: &Range| range.memory.advices().is_some();
            (
                known.map(|range| Value::Bool(is_managed(range))),
                Value::Bool(false),
            )
        }
        pointer::IS_LEGACY_CUDA_IPC_CAPABLE
        | pointer::IS_GPU_DIRECT_RDMA_CAPABLE
        | pointer::IS_HW_DECOMPRESS_CAPABLE => {
            (known.map(|_| Value::Bool(false)), Value::Bool(false))
        }
        pointer::ALLOWED_HANDLE_TYPES => (known.map(|_| Value::Wide(0)), Value::Wide(0)),
        pointer::RANGE_START_ADDR | pointer::MAPPING_BASE_ADDR => {
            let start = |range| virtual_memory::piece(range, address).0;
            (known.map(start).map(Value::Wide), Value::Wide(0))
        }
        pointer::RANGE_SIZE | pointer::MAPPING_SIZE => {
            let bytes = |range| virtual_memory::piece(range, address).1;
            (known.map(bytes).map(Value::Wide), Value::Wide(0))
        }
        pointer::MAPPED => (Ok(Value::Bool(range.is_some())), Value::Bool(false)),
        pointer::ACCESS_FLAGS => (known.map(|_| Value::Word(READ_WRITE)), Value::Word(0)),
        pointer::MEMPOOL_HANDLE => (known.map(pool), Value::Wide(0)),
        pointer::P2P_TOKENS => return (Err(Status::NOT_SUPPORTED), None),
        _ => return (Err(Status::INVALID_VALUE), None),
    };
    (found, Some(unknown))
}

fn is_synchronous(range: &Range) -> Value {
    // relaxed: a value that stands alone.
    Value::Bool(range.is_synchronous.load(Ordering::Relaxed))
}

fn memory_type_of(is_device: bool) -> Value {
    Value::Word(match is_device {
        true => memory_type::DEVICE,
        false => memory_type::HOST,
    })
}

/// Returns where kernels reach an address. Of registered memory that is known once the program has asked for it by
/// `cuMemHostGetDevicePointer`.
fn device_pointer(range: Option<&Range>, address: u64) -> CudaResult<Value> {
    let range = range.ok_or(Status::INVALID_VALUE)?;
    let known = match &range.memory {
        Memory::Registered(registered) => {
            let adopted = registered.adopted.lock();
            let start = adopted.as_ref().map(|adopted| adopted.device_address());
            start.map(|start| start + range.offset(address))
        }
        memory => memory.is_reached().then_some(address),
    };
    known.map(Value::Wide).ok_or(Status::INVALID_VALUE)
}

fn host_pointer(range: Option<&Range>, address: u64) -> CudaResult<Value> {
    let range = range.ok_or(Status::INVALID_VALUE)?;
    match &range.memory {
        memory if memory.advices().is_some() => Ok(Value::Wide(address)),
        Memory::Pinned(..) | Memory::Registered(_) => Ok(Value::Wide(address)),
        Memory::Mapped(adopted) => Ok(Value::Wide(adopted.host_address() + range.offset(address))),
        Memory::Device(_)
        | Memory::Pooled(_)
        | Memory::Graph(_)
        | Memory::Variable { .. }
        | Memory::Array(_)
        | Memory::Reserved(_)
        | Memory::Managed(_) => Err(Status::INVALID_VALUE),
    }
}

fn pool(range: &Range) -> Value {
    match &range.memory {
        Memory::Pooled(block) => Value::Wide(block.pool().bits()),
        Memory::Managed(ManagedRange {
            lease: Some(lease), ..
        })
        | Memory::Pinned(PinnedRange {
            lease: Some(lease), ..
        }) => Value::Wide(lease.pool().bits()),
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

/// Takes the one attribute that can be set, a boolean. It asks for synchronous memory operations, which is a hint where
/// all are ordered, and is remembered.
fn set_attribute(value: Option<In<u8>>, attribute: c_uint, address: CUdeviceptr) -> CudaResult {
    let (driver, _) = usable()?;
    match (value, attribute, driver.memory.find(address)) {
        (Some(In(value)), pointer::SYNC_MEMOPS, Some(range)) => {
            // relaxed: a value that stands alone.
            range.is_synchronous.store(value != 0, Ordering::Relaxed);
            Ok(())
        }
        _ => Err(Status::INVALID_VALUE),
    }
}
