//! Linking at run time: images are collected, and together become one image, which is PTX for this library.
//!
//! NVIDIA's library gives machine code; here one text is given back as it is, and several as a bundle
//! ([`crate::image::bundle`]), which loading links. Whether they fit each other, and define all that they use, is tried
//! when the program asks for the result, so that errors come where programs look for them.

use crate::api::driver_api;
use crate::border::{self, Out};
use crate::context::current::usable;
use crate::driver::Driver;
use crate::image::{self, bundle};
use crate::module::jit::Options;
use crate::module::refused;
use crate::registry::{Handle, Object, Registry};
use crate::status::{CudaResult, Status};
use parking_lot::Mutex;
use std::ffi::{CStr, c_char, c_uint, c_void};
use std::sync::{Arc, LazyLock};

/// A link under way, as C holds it.
pub type CUlinkState = Handle<Link>;

static LINKS: LazyLock<Registry<Link>> = LazyLock::new(Registry::default);

/// The parts that were added so far, and the result.
#[derive(Debug)]
pub struct Link {
    handle: CUlinkState,
    /// The program's buffers for messages, which it keeps until it destroys the link; written with `state` locked.
    options: Options,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    texts: Vec<Vec<u8>>,
    /// Given to the program, so it stays where it is until the link is destroyed.
    image: Option<Box<[u8]>>,
}

impl Object for Link {
    const KIND: u8 = 9;
    const UNKNOWN: Status = Status::INVALID_HANDLE;

    fn registry(_: &Driver) -> &Registry<Self> {
        &LINKS
    }
}

driver_api! {
    needs Init;
    5050 cuLinkCreate(count: c_uint, options: *mut c_uint, values: *mut *mut c_void, link: *mut CUlinkState)
        => create;
    6050 cuLinkCreate_v2(count: c_uint, options: *mut c_uint, values: *mut *mut c_void, link: *mut CUlinkState)
        => create;
    5050 cuLinkAddData(
        link: CUlinkState, kind: c_uint, data: *mut c_void, bytes: usize, name: *const c_char, count: c_uint,
        options: *mut c_uint, values: *mut *mut c_void,
    ) => add_data;
    6050 cuLinkAddData_v2(
        link: CUlinkState, kind: c_uint, data: *mut c_void, bytes: usize, name: *const c_char, count: c_uint,
        options: *mut c_uint, values: *mut *mut c_void,
    ) => add_data;
    5050 cuLinkAddFile(
        link: CUlinkState, kind: c_uint, path: *const c_char, count: c_uint, options: *mut c_uint,
        values: *mut *mut c_void,
    ) => add_file;
    6050 cuLinkAddFile_v2(
        link: CUlinkState, kind: c_uint, path: *const c_char, count: c_uint, options: *mut c_uint,
        values: *mut *mut c_void,
    ) => add_file;
    5050 cuLinkComplete(link: CUlinkState, image: *mut *mut c_void, bytes: *mut usize) => complete;
    5050 cuLinkDestroy(link: CUlinkState) => destroy;
}

/// The device's side of the runtime library.
const DEVICE_RUNTIME: &[u8] = include_bytes!("device_runtime.ptx");

/// Kinds of input (`CUjitInputType`).
const KIND_OBJECT: c_uint = 3;
const KIND_LIBRARY: c_uint = 4;
/// One past the last kind.
const KIND_END: c_uint = 6;

fn create(
    count: c_uint,
    options: Option<Out<c_uint>>,
    values: Option<Out<*mut c_void>>,
    place: Out<CUlinkState>,
) -> CudaResult {
    usable()?;
    let options = Options::read(count, options, values)?;
    let link = LINKS.add(|handle| Link {
        handle,
        options,
        state: Mutex::default(),
    })?;
    place.set(link.handle);
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "the C function's parameters")]
fn add_data(
    link: Arc<Link>,
    kind: c_uint,
    data: *mut c_void,
    bytes: usize,
    name: Option<&'static CStr>,
    count: c_uint,
    options: Option<Out<c_uint>>,
    values: Option<Out<*mut c_void>>,
) -> CudaResult {
    Options::read(count, options, values)?;
    // SAFETY: the program says how many bytes there are, and lets them alone until the function returns, as the C
    // declaration asks.
    let data = unsafe { border::slice(data.cast_const().cast::<u8>(), bytes)? };
    if data.is_empty() {
        return Err(Status::INVALID_VALUE);
    }
    link.add(kind, data, name.unwrap_or_default())
}

fn add_file(
    link: Arc<Link>,
    kind: c_uint,
    path: &'static CStr,
    count: c_uint,
    options: Option<Out<c_uint>>,
    values: Option<Out<*mut c_void>>,
) -> CudaResult {
    Options::read(count, options, values)?;
    link.add(kind, &image::read_file(path)?, path)
}

impl Link {
    fn add(&self, kind: c_uint, data: &[u8], name: &CStr) -> CudaResult {
        let (driver, _) = usable()?;
        if kind >= KIND_END {
            return Err(Status::INVALID_VALUE);
        }
        let mut state = self.state.lock();
        if state.image.is_some() {
            return Err(Status::INVALID_VALUE);
        }
        if kind == KIND_LIBRARY && name.to_bytes().ends_with(b"libcudadevrt.a") {
            // NVIDIA's is machine code.
            if !state.texts.iter().any(|text| text == DEVICE_RUNTIME) {
                state.texts.push(DEVICE_RUNTIME.to_vec());
            }
            return Ok(());
        }
        let texts = match kind {
            KIND_OBJECT | KIND_LIBRARY => image::object::ptx_of(data, driver.capability()),
            _ => image::ptx_of(data, driver.capability()),
        };
        let texts = texts.map_err(|error| {
            let name = name.to_string_lossy();
            let name = if name.is_empty() { "input" } else { &*name };
            refused(&self.options, &format!("{name}: {error}"));
            error.status()
        })?;
        state.texts.extend(texts);
        Ok(())
    }
}

fn complete(link: Arc<Link>, place: Out<*mut c_void>, bytes: Option<Out<usize>>) -> CudaResult {
    let (driver, _) = usable()?;
    let mut state = link.state.lock();
    if state.image.is_none() {
        if state.texts.is_empty() {
            return Err(Status::INVALID_VALUE);
        }
        let texts: Vec<&[u8]> = state.texts.iter().map(Vec::as_slice).collect();
        if let Err(error) = driver.gpu.module_of(&texts) {
            refused(&link.options, &error.to_string());
            return Err(Status::from(&error));
        }
        link.options.log_nothing();
        state.image = Some(bundle::pack(&std::mem::take(&mut state.texts)).into());
    }
    if let Some(image) = &mut state.image {
        place.set(image.as_mut_ptr().cast());
        Out::set_if(bytes.as_ref(), image.len());
    }
    Ok(())
}

fn destroy(link: CUlinkState) -> CudaResult {
    Driver::get()?;
    LINKS.remove(link).map(drop)
}
