//! The real compiler, and the functions of it that are called.
//!
//! gridmux's audit library (the room `search`) has the loader open this library in place of a file that a program asked
//! for, and gives that file to who asks for it by the name that only the two know.
//!
//! Rule: it is opened at the first need and stays.

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
#[cfg(cuda = "13")]
use std::ffi::c_uint;
use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// A program to be compiled, as C holds it (`nvrtcProgram`).
pub type Program = *mut c_void;
/// Strings of the program's.
pub type Strings = *const *const c_char;
/// A function of the program's that the compiler calls (`nvrtcSetFlowCallback`).
pub type FlowCallback = Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>;

/// A code of the compiler's (`nvrtcResult`).
pub type Code = c_int;
/// It went well.
pub const SUCCESS: Code = 0;
/// An argument is wrong.
pub const INVALID_INPUT: Code = 3;
/// Anything else.
pub const INTERNAL_ERROR: Code = 11;

/// Joins the word that the audit library knows, which stands once in its room, and this library's name.
macro_rules! exchanged {
    ($name:literal) => {
        concat!(include_str!("../../search/src/exchanged"), $name)
    };
}

/// What the audit library knows the file by that this library was opened in place of.
#[cfg(cuda = "13")]
const EXCHANGED: &str = exchanged!("libnvrtc.so.13");
/// As above.
#[cfg(cuda = "12")]
const EXCHANGED: &str = exchanged!("libnvrtc.so.12");

/// Declares the functions; which Rust function one has is nothing to the real compiler.
macro_rules! functions {
    ($($(#[$when:meta])? $name:ident($($arg:ident: $type:ty),* $(,)?) $(=> $function:path)?;)*) => {
        /// The real compiler's functions.
        #[allow(non_snake_case, reason = "the names are those of the C API")]
        #[derive(Debug)]
        pub struct Real {
            library: Library,
            $($(#[$when])? $name: Option<unsafe extern "C" fn($($type),*) -> Code>,)*
        }

        #[allow(non_snake_case, reason = "the names are those of the C API")]
        impl Real {
            fn of(library: Library) -> Self {
                $(
                    // SAFETY: the type is that of the function's C declaration.
                    $(#[$when])? let $name = unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) };
                    $(#[$when])? let $name = $name.ok().map(|found| *found);
                )*
                Self { $($(#[$when])? $name,)* library }
            }

            $(
                /// Calls the function of this name; its code is [`INTERNAL_ERROR`] where the compiler has none.
                ///
                /// # Safety
                /// What its C declaration asks of the arguments.
                $(#[$when])?
                pub unsafe fn $name(&self, $($arg: $type),*) -> Code {
                    match self.$name {
                        // SAFETY: the caller's promise.
                        Some(function) => unsafe { function($($arg),*) },
                        None => {
                            static SAID: AtomicBool = AtomicBool::new(false);
                            say_once(&SAID, format_args!("{} is not in this NVRTC", stringify!($name)));
                            INTERNAL_ERROR
                        }
                    }
                }
            )*
        }
    };
}

nvrtc_functions!(functions);

impl Real {
    /// Returns the compiler, opened; nothing if there is none, which is said once on stderr.
    pub fn get() -> Option<&'static Self> {
        static OPENED: OnceLock<Option<Real>> = OnceLock::new();
        let opened = OPENED.get_or_init(|| {
            Self::open()
                .inspect_err(|why| {
                    static SAID: AtomicBool = AtomicBool::new(false);
                    say_once(
                        &SAID,
                        format_args!(
                            "NVIDIA's NVRTC cannot be opened: {why}; `gridmux run` makes it known"
                        ),
                    );
                })
                .ok()
        });
        opened.as_ref()
    }

    /// Returns the text for a code.
    #[must_use]
    pub fn error_string(&self, code: Code) -> *const c_char {
        type ErrorString = unsafe extern "C" fn(Code) -> *const c_char;
        // SAFETY: the type is that of the function's C declaration.
        match unsafe { self.library.get::<ErrorString>(b"nvrtcGetErrorString\0") } {
            // SAFETY: it takes any number.
            Ok(function) => unsafe { function(code) },
            Err(_) => c"NVRTC_ERROR unknown".as_ptr(),
        }
    }

    fn open() -> Result<Self, String> {
        // SAFETY: opening the compiler runs its constructors, which the program asks for by using this library.
        let library = unsafe { Library::open(Some(EXCHANGED), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| error.to_string())?;
        Ok(Self::of(library))
    }

    /// Opens a compiler at a path.
    ///
    /// # Errors
    /// Those of the loader.
    ///
    /// # Safety
    /// It is one, with functions as `nvrtc.h` declares them.
    pub unsafe fn open_at(path: &Path) -> Result<Self, libloading::Error> {
        // SAFETY: the caller's promise.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        library.map(Self::of)
    }
}

/// Says a line on stderr, once.
fn say_once(said: &AtomicBool, text: fmt::Arguments<'_>) {
    // Relaxed: of several threads, one finds it unset.
    if said.swap(true, Ordering::Relaxed) {
        return;
    }
    let line = format!("gridmux: {text}\n");
    // A closed stderr harms nobody.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}
