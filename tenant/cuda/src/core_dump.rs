//! Settings of core dumps. Nothing is ever dumped: a fault is told on stderr, with the kernel, the thread and the
//! address. So what a program sets is kept to be told again, but to dump on faults, or when the program asks for it, is
//! refused.

use crate::api::driver_api;
use crate::border::{AnyOut, FromC, Out};
use crate::status::{CudaResult, Status};
use parking_lot::Mutex;
use std::ffi::{c_char, c_uint, c_void};

/// Numbers of settings (`CUcoredumpSettings`).
const ON_FAULT: c_uint = 1;
const ABORT_HOST: c_uint = 2;
const LIGHTWEIGHT: c_uint = 3;
const ON_REQUEST: c_uint = 4;
const FILE: c_uint = 5;
const PIPE: c_uint = 6;
const FLAGS: c_uint = 7;
/// Bytes of a text and its end.
const TEXT_BYTES: usize = 1024;

/// What a program has set, for all contexts.
struct Settings {
    aborts_host: bool,
    is_lightweight: bool,
    flags: c_uint,
    /// Where dumps would go, and the pipe that asks for one; nothing stands for NVIDIA's own names.
    texts: [Option<Vec<u8>>; 2],
}

static SETTINGS: Mutex<Settings> = Mutex::new(Settings {
    aborts_host: true,
    is_lightweight: false,
    flags: 0,
    texts: [None, None],
});

driver_api! {
    needs Nothing;
    12010 cuCoredumpGetAttributeGlobal(setting: c_uint, value: *mut c_void, bytes: *mut usize) => get;
    12010 cuCoredumpSetAttributeGlobal(setting: c_uint, value: *mut c_void, bytes: *mut usize) => set;
}

/// Returns how many bytes a setting has.
///
/// # Errors
/// [`Status::INVALID_VALUE`]: there is no such setting.
fn bytes_of(setting: c_uint) -> CudaResult<usize> {
    match setting {
        ON_FAULT..=ON_REQUEST => Ok(size_of::<bool>()),
        FILE | PIPE => Ok(TEXT_BYTES),
        FLAGS => Ok(size_of::<c_uint>()),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// Returns the place of a value, or nothing where the program asks only how large it is, which is told.
fn place(setting: c_uint, value: *mut c_void, bytes: &Out<usize>) -> CudaResult<Option<AnyOut>> {
    let needed = bytes_of(setting)?;
    if value.is_null() {
        bytes.set(needed);
        return Ok(None);
    }
    let is_text = needed == TEXT_BYTES;
    if bytes.get_at(0) < needed && !is_text {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the program passes a place of as many bytes as it says, as the C declarations ask.
    unsafe { AnyOut::from_c(value) }.map(Some)
}

/// Returns the name of a file or pipe that NVIDIA's driver would use.
fn own_name(setting: c_uint) -> Vec<u8> {
    let start = if setting == FILE { "core" } else { "corepipe" };
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = format!("{start}.cuda.{}.{}", host.trim_end(), std::process::id());
    name.into_bytes()
}

fn get(setting: c_uint, value: *mut c_void, bytes: Out<usize>) -> CudaResult {
    let Some(value) = place(setting, value, &bytes)? else {
        return Ok(());
    };
    let settings = SETTINGS.lock();
    match setting {
        ON_FAULT | ON_REQUEST => value.of()?.set(false),
        ABORT_HOST => value.of()?.set(settings.aborts_host),
        LIGHTWEIGHT => value.of()?.set(settings.is_lightweight),
        FLAGS => value.of()?.set(settings.flags),
        _ => {
            let kept = &settings.texts[usize::from(setting == PIPE)];
            let text = kept.clone().unwrap_or_else(|| own_name(setting));
            if text.len() >= bytes.get_at(0) {
                return Err(Status::INVALID_VALUE);
            }
            value.of::<c_char>()?.set_bytes(&text);
        }
    }
    Ok(())
}

fn set(setting: c_uint, value: *mut c_void, bytes: Out<usize>) -> CudaResult {
    let Some(value) = place(setting, value, &bytes)? else {
        return Ok(());
    };
    // A byte, since a program's may be neither true nor false.
    let is_on = || value.of::<u8>().map(|byte| byte.get_at(0) != 0);
    let mut settings = SETTINGS.lock();
    match setting {
        ON_FAULT | ON_REQUEST if is_on()? => return Err(Status::NOT_SUPPORTED),
        ON_FAULT | ON_REQUEST => {}
        ABORT_HOST => settings.aborts_host = is_on()?,
        LIGHTWEIGHT => settings.is_lightweight = is_on()?,
        FLAGS => settings.flags = value.of()?.get_at(0),
        _ => {
            let letters = value.of::<u8>()?;
            let letters = (0..bytes.get_at(0).min(TEXT_BYTES)).map(|at| letters.get_at(at));
            let text: Vec<u8> = letters.take_while(|letter| *letter != 0).collect();
            if text.len() == TEXT_BYTES {
                return Err(Status::INVALID_VALUE);
            }
            settings.texts[usize::from(setting == PIPE)] = Some(text);
        }
    }
    Ok(())
}
