//! The descriptor of a copy of two dimensions (`CUDA_MEMCPY2D` of the driver API).

use std::ffi::c_void;

/// `CU_MEMORYTYPE_HOST`.
pub(super) const HOST: u32 = 1;
/// `CU_MEMORYTYPE_DEVICE`.
pub(super) const DEVICE: u32 = 2;

/// `CUDA_MEMCPY2D`, with handles and device addresses as numbers: `from_` stands for the C fields' `src`, `to_` for
/// their `dst`. Lengths and pitches are in bytes, `height` in rows.
#[allow(
    missing_docs,
    reason = "the fields are in the C structure's order, which documents them"
)]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Copy2D {
    pub from_x: usize,
    pub from_y: usize,
    pub from_kind: u32,
    pub from_host: *const c_void,
    pub from_device: u64,
    pub from_array: u64,
    pub from_pitch: usize,
    pub to_x: usize,
    pub to_y: usize,
    pub to_kind: u32,
    pub to_host: *mut c_void,
    pub to_device: u64,
    pub to_array: u64,
    pub to_pitch: usize,
    pub width: usize,
    pub height: usize,
}

/// As 64-bit C lays it out.
const _: () = assert!(
    size_of::<Copy2D>() == 128
        && std::mem::offset_of!(Copy2D, from_host) == 24
        && std::mem::offset_of!(Copy2D, to_host) == 80
);

impl Default for Copy2D {
    fn default() -> Self {
        Self {
            from_x: 0,
            from_y: 0,
            from_kind: 0,
            from_host: std::ptr::null(),
            from_device: 0,
            from_array: 0,
            from_pitch: 0,
            to_x: 0,
            to_y: 0,
            to_kind: 0,
            to_host: std::ptr::null_mut(),
            to_device: 0,
            to_array: 0,
            to_pitch: 0,
            width: 0,
            height: 0,
        }
    }
}
