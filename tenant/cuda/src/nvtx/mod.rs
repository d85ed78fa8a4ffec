//! NVTX: the ranges and marks by which a program says what it is doing, as USDT probes of its process.
//!
//! NVTX (version 3) is a set of headers. At a program's first call the code in them loads the library that the
//! environment's `NVTX_INJECTION64_PATH` names and calls its `InitializeInjectionNvtx2`, which puts functions into the
//! tables of the headers' own; `gridmux run` names this library. Each part of a program that was compiled with the
//! headers has tables of its own and calls it once.
//!
//! Rules: while nobody traces, a call looks at its probe's semaphore and at nothing else; nothing is counted, so that a
//! push and a pop return "not tracked" and a range that nobody heard begin has number 0. A library that is not whole is
//! refused, never followed: what a table lacks is left out.

mod callbacks;
mod names;
mod probes;

use std::ffi::{c_int, c_uint, c_void};

/// A function of NVTX's, whatever its parameters are.
type Function = unsafe extern "C" fn();
/// The functions of a module, each by the place of the pointer that its callers read.
type Table = *mut *mut Option<Function>;
/// Returns a table of tables by its number.
type GetExportTable = unsafe extern "C" fn(u32) -> *const c_void;

/// The number of the table below (`NVTX_ETID_CALLBACKS`).
const CALLBACKS: u32 = 1;

/// The table that gives the functions of a module (`NvtxExportTableCallbacks`).
#[repr(C)]
struct ExportedCallbacks {
    /// Its bytes, as the program was compiled.
    struct_size: usize,
    /// Returns 1 and a module's table with its length, or 0.
    get_module_function_table:
        Option<unsafe extern "C" fn(c_uint, *mut Table, *mut c_uint) -> c_int>,
}

/// Puts gridmux's functions into the tables of one part of a program that uses NVTX; returns 1, or 0 where there is
/// nothing to put them into.
///
/// # Safety
/// `get_export_table` is null or NVTX's function of that name, which hands out tables that stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(
    get_export_table: Option<GetExportTable>,
) -> c_int {
    let Some(get_export_table) = get_export_table else {
        return 0;
    };
    // SAFETY: the caller gives NVTX's function, which takes any number.
    let exported = unsafe { get_export_table(CALLBACKS) }.cast::<ExportedCallbacks>();
    if exported.is_null() {
        return 0;
    }
    // SAFETY: it is a table of NVTX's, which begins with its length in every version.
    if unsafe { (*exported).struct_size } < size_of::<ExportedCallbacks>() {
        return 0;
    }
    // SAFETY: it is as long as this declaration of it.
    let Some(get_table) = (unsafe { (*exported).get_module_function_table }) else {
        return 0;
    };
    let mut is_heard = false;
    for (module, functions) in callbacks::MODULES {
        let (mut table, mut length): (Table, c_uint) = (std::ptr::null_mut(), 0);
        // SAFETY: both places are this function's own, and the function is the table's.
        let is_there = unsafe { get_table(module, &raw mut table, &raw mut length) } == 1;
        if !is_there || table.is_null() {
            continue;
        }
        for &(number, function) in functions.iter().filter(|(number, _)| *number < length) {
            // SAFETY: the table has `length` entries, of which this is one.
            let place = unsafe { *table.add(number as usize) };
            if !place.is_null() {
                // SAFETY: it is the place of a function's pointer, which NVTX's callers read when this has returned.
                unsafe { place.write(Some(function.0)) };
                is_heard = true;
            }
        }
    }
    c_int::from(is_heard)
}

#[cfg(test)]
mod tests {
    use super::{ExportedCallbacks, Function, InitializeInjectionNvtx2, Table};
    use std::ffi::{c_int, c_uint, c_void};
    use std::sync::atomic::{AtomicPtr, Ordering};

    unsafe extern "C" fn no_table(_: u32) -> *const c_void {
        std::ptr::null()
    }

    unsafe extern "C" fn short_table(_: u32) -> *const c_void {
        static SHORT: ExportedCallbacks = ExportedCallbacks {
            struct_size: 8,
            get_module_function_table: None,
        };
        (&raw const SHORT).cast()
    }

    unsafe extern "C" fn table_of_nothing(_: u32) -> *const c_void {
        static EMPTY: ExportedCallbacks = ExportedCallbacks {
            struct_size: size_of::<ExportedCallbacks>(),
            get_module_function_table: None,
        };
        (&raw const EMPTY).cast()
    }

    /// The one module that the test below has, which the test leaves there.
    static MODULE: AtomicPtr<*mut Option<Function>> = AtomicPtr::new(std::ptr::null_mut());

    unsafe extern "C" fn first_two_of_module_1(
        module: c_uint,
        table: *mut Table,
        length: *mut c_uint,
    ) -> c_int {
        if module != 1 {
            return 0;
        }
        // SAFETY: the caller gives places for both. relaxed: one thread.
        unsafe {
            table.write(MODULE.load(Ordering::Relaxed));
            length.write(3);
        }
        1
    }

    unsafe extern "C" fn short_module(_: u32) -> *const c_void {
        static TABLE: ExportedCallbacks = ExportedCallbacks {
            struct_size: size_of::<ExportedCallbacks>(),
            get_module_function_table: Some(first_two_of_module_1),
        };
        (&raw const TABLE).cast()
    }

    #[test]
    fn what_is_no_table_is_refused() {
        // SAFETY: each hands out what stays, or nothing.
        unsafe {
            assert_eq!(InitializeInjectionNvtx2(None), 0);
            assert_eq!(InitializeInjectionNvtx2(Some(no_table)), 0);
            assert_eq!(InitializeInjectionNvtx2(Some(short_table)), 0);
            assert_eq!(InitializeInjectionNvtx2(Some(table_of_nothing)), 0);
        }
    }

    #[test]
    fn what_a_table_lacks_is_left_out() {
        let mut functions: [Option<Function>; 4] = [None; 4];
        let [_, first, second, behind] = &mut functions;
        // Number 1 has no place, 2 has one, and 3 is behind the length that is said.
        let _ = first;
        let mut table = [
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            &raw mut *second,
            &raw mut *behind,
        ];
        // relaxed: one thread.
        MODULE.store(table.as_mut_ptr(), Ordering::Relaxed);
        // SAFETY: the table stays until the end of this function.
        assert_eq!(unsafe { InitializeInjectionNvtx2(Some(short_module)) }, 1);
        assert!(second.is_some() && behind.is_none());
    }
}
