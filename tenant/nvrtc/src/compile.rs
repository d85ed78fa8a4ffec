//! Compilation, and the machine code that is PTX.

use crate::options;
use crate::real::{Code, INVALID_INPUT, Program, Real, SUCCESS, Strings};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int};

/// The PTX of a program that has none is its end alone.
const EMPTY: usize = 1;

/// The programs that were compiled for a virtual architecture in place of a real one, by address.
static VIRTUAL: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn is_virtual(program: Program) -> bool {
    VIRTUAL.lock().contains(&program.addr())
}

/// Compiles a program.
///
/// # Safety
/// What `nvrtcCompileProgram` asks of its arguments.
pub unsafe fn compile(real: &Real, program: Program, count: c_int, options: Strings) -> Code {
    // SAFETY: the caller's promise.
    let read = unsafe { read(count, options) };
    let Some(rewritten) = read.and_then(|read| options::for_virtual(&read)) else {
        VIRTUAL.lock().remove(&program.addr());
        // SAFETY: the caller's promise. What is wrong with the options the compiler says.
        return unsafe { real.nvrtcCompileProgram(program, count, options) };
    };
    let pointers: Vec<*const c_char> = rewritten.iter().map(|option| option.as_ptr()).collect();
    VIRTUAL.lock().insert(program.addr());
    // SAFETY: as many strings as there were, which live until the function returns.
    unsafe { real.nvrtcCompileProgram(program, count, pointers.as_ptr()) }
}

/// Returns a program's options; nothing if they are not there as the C declaration asks.
///
/// # Safety
/// The array is null or has as many elements, each null or a string.
unsafe fn read<'a>(count: c_int, options: Strings) -> Option<Vec<&'a CStr>> {
    let count = usize::try_from(count).ok()?;
    if options.is_null() || !options.is_aligned() {
        return None;
    }
    // SAFETY: the caller's promise.
    let pointers = unsafe { std::slice::from_raw_parts(options, count) };
    let one = |option: &*const c_char| {
        // SAFETY: the caller's promise.
        (!option.is_null()).then(|| unsafe { CStr::from_ptr(*option) })
    };
    pointers.iter().map(one).collect()
}

/// Forgets a program that ends.
///
/// # Safety
/// What `nvrtcDestroyProgram` asks of its argument.
pub unsafe fn destroy(real: &Real, place: *mut Program) -> Code {
    if !place.is_null() && place.is_aligned() {
        // SAFETY: the caller's promise.
        let program = unsafe { place.read() };
        VIRTUAL.lock().remove(&program.addr());
    }
    // SAFETY: the caller's promise.
    unsafe { real.nvrtcDestroyProgram(place) }
}

/// Tells the size of the machine code: that of the PTX in its place, and none where there is no PTX either.
///
/// # Safety
/// What `nvrtcGetCUBINSize` asks of its arguments.
pub unsafe fn code_size(real: &Real, program: Program, bytes: *mut usize) -> Code {
    if !is_virtual(program) {
        // SAFETY: the caller's promise.
        return unsafe { real.nvrtcGetCUBINSize(program, bytes) };
    }
    if bytes.is_null() || !bytes.is_aligned() {
        return INVALID_INPUT;
    }
    match size(real, program) {
        Ok(size) => {
            // SAFETY: aligned and not null, and the caller's promise.
            unsafe { bytes.write(size) };
            SUCCESS
        }
        Err(code) => code,
    }
}

/// Gives the machine code: the PTX in its place.
///
/// # Safety
/// What `nvrtcGetCUBIN` asks of its arguments.
pub unsafe fn code(real: &Real, program: Program, place: *mut c_char) -> Code {
    if !is_virtual(program) {
        // SAFETY: the caller's promise.
        return unsafe { real.nvrtcGetCUBIN(program, place) };
    }
    match size(real, program) {
        // There is none, and the compiler knows what to say to that.
        // SAFETY: the caller's promise.
        Ok(0) => unsafe { real.nvrtcGetCUBIN(program, place) },
        // SAFETY: the place has room for as much as `nvrtcGetCUBINSize` told, which is the size of the PTX.
        Ok(_) => unsafe { real.nvrtcGetPTX(program, place) },
        Err(code) => code,
    }
}

/// Returns the bytes of a program's PTX; 0 if there is none.
fn size(real: &Real, program: Program) -> Result<usize, Code> {
    let mut size = 0;
    // SAFETY: the program is one that was compiled and not destroyed, as `VIRTUAL` has it.
    match unsafe { real.nvrtcGetPTXSize(program, &raw mut size) } {
        SUCCESS => Ok(if size <= EMPTY { 0 } else { size }),
        code => Err(code),
    }
}
